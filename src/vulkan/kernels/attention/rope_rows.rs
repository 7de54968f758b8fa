//! Host side of shaders/attention/rope_rows.comp: rotary embedding of the rows of several arrays at once, which may be
//! normalised first, beside others that are only copied. For few rows, where a kernel less counts for more than how
//! it reads.

use smallvec::SmallVec;

use super::rope;
use crate::core::layout::row_major;
use crate::core::{Dtype, Result};
use crate::kernels::attention::rope::Form;
use crate::kernels::{DeviceView, View};
use crate::vulkan::kernels::elem::{
    Defines, Push, define, float_controls, grid, operand, required_subgroup, shuffles,
};
use crate::vulkan::kernels::{elementwise, norm};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

/// An array that is rotated, or copied.
pub struct Item {
    /// (batch, heads, positions, features).
    pub src: DeviceView,
    /// Weights of the normalisation, contiguous.
    pub weight: Option<DeviceView>,
    /// In the shape of `src`.
    pub dst: DeviceView,
    /// Where `dst` is copied to.
    pub part: Option<DeviceView>,
    /// Whether it is rotated.
    pub rotated: bool,
}

/// As shaders/attention/rope_rows.comp reads it.
#[repr(C)]
struct Entry {
    src: u64,
    dst: u64,
    weight: u64,
    from: [i32; 3],
    to: [i32; 3],
    heads: u32,
    first: u32,
    rotated: u32,
    pad: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    dtype: Dtype,
    traditional: bool,
    waves: bool,
    features: u32,
    /// Of which so many are turned.
    dims: u32,
    norm: Option<Sum>,
}

/// How rows are normalised: elements of a vector, lanes that share a row and vectors of a lane in the order of
/// shaders/norm/norm.comp, so that the same bits come out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sum {
    vector: u32,
    lanes: u32,
    vectors: u32,
}

impl Key {
    fn lanes(&self) -> u32 {
        if self.features <= 64 { 32 } else { 64 }
    }
}

impl KernelKey for Key {
    fn name(&self) -> String {
        format!("{}_{}", if self.norm.is_some() { "norm_rope_rows" } else { "rope_rows" }, self.dtype)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        float_controls(&mut d, f);
        operand(&mut d, "A", self.dtype);
        operand(&mut d, "B", self.dtype);
        define(&mut d, "PER_LANE", (self.features / 2).div_ceil(self.lanes()));
        let sum = self.norm.clone().unwrap_or(Sum { vector: 1, lanes: 1, vectors: 1 });
        define(&mut d, "SUM_VECTORS", sum.vectors);
        if sum.vector > 1 {
            define(&mut d, "VEC", 1);
        }
        let flags = [
            (self.traditional, "TRADITIONAL"),
            (self.waves, "WAVES"),
            (self.norm.is_some(), "NORM"),
            (shuffles(f), "SG"),
        ];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        Module {
            source: Source::File("rope_rows.comp"),
            defines: d,
            spec: vec![self.lanes(), sum.lanes, self.features, self.dims],
            subgroup_size: required_subgroup(f),
            spirv16: false,
        }
    }
}

/// Whether the kernel reads and writes rows that lie so.
pub fn reads(v: &DeviceView) -> bool {
    v.strides.last() == Some(&1) && v.strides.iter().all(|&s| i32::try_from(s).is_ok())
}

/// Contiguous memory of the shape of a view.
pub fn scratch(enc: &mut CommandEncoder, v: &DeviceView) -> Result<DeviceView> {
    let ptr = enc.temp(v.size() * v.dtype.size())?;
    Ok(View { ptr, strides: row_major(&v.shape), ..v.clone() })
}

/// Lanes that sum up the squares of a row of `d` elements, and vectors of 16 bytes of each where it is `wide`, else elements.
pub(super) fn sums(d: i64, dtype: Dtype, wide: bool) -> [u32; 2] {
    let vector = if wide { 16 / dtype.size() as u64 } else { 1 };
    match norm::registers(d as u64 / vector, vector) {
        // norm.comp sums in another order then.
        (_, 0) => [32, (d as u64 / vector).div_ceil(32) as u32],
        (lanes, vectors) => [lanes, vectors],
    }
}

/// Turns features of arrays that differ in their heads only, after normalising the rows of those with weights.
/// `offsets` and `waves` as for `rope`.
pub fn rope_rows(
    enc: &mut CommandEncoder,
    items: &[Item],
    eps: Option<f32>,
    offsets: Option<&DeviceView>,
    waves: Option<&DeviceView>,
    f: &Form,
) -> Result<()> {
    let Some(shape) = items.first().map(|i| &i.src.shape) else { return Ok(()) };
    let [b, _, t, d] = [0, 1, 2, 3].map(|i| shape[i]);
    let dtype = items[0].src.dtype;
    let mut normed = items.iter().filter_map(|i| Some((&i.src, i.weight.as_ref()?)));
    let wide = normed.all(|(src, w)| norm::wide_rows(src) && w.ptr.is_multiple_of(16));
    let vector = if wide { 16 / dtype.size() as u64 } else { 1 };
    let [lanes, vectors] = sums(d, dtype, wide);
    let sum = |_| Sum { vector: vector as u32, lanes, vectors };
    let (traditional, features, dims) = (f.traditional, d as u32, f.dims as u32);
    let key = Key { dtype, traditional, waves: waves.is_some(), features, dims, norm: eps.map(sum) };
    let mut rows = 0;
    let mut reads: SmallVec<[(u64, u64); 8]> = SmallVec::new();
    let mut entries: SmallVec<[u8; 256]> = SmallVec::new();
    for i in items {
        // A stride along one element is never taken.
        let strides =
            |v: &DeviceView| [0, 1, 2].map(|a| if v.shape[a] == 1 { 0 } else { v.strides[a] as i32 });
        let entry = Entry {
            src: i.src.ptr,
            dst: i.dst.ptr,
            weight: i.weight.as_ref().map_or(0, |w| w.ptr),
            from: strides(&i.src),
            to: strides(&i.dst),
            heads: i.src.shape[1] as u32,
            first: rows,
            rotated: i.rotated.into(),
            pad: 0,
        };
        const { assert!(size_of::<Entry>() == 64) };
        // SAFETY: repr(C) without padding, as the assertion says.
        let bytes =
            unsafe { std::slice::from_raw_parts((&raw const entry).cast::<u8>(), size_of::<Entry>()) };
        entries.extend_from_slice(bytes);
        rows += (b * i.src.shape[1] * t) as u32;
        reads.extend([Some(&i.src), i.weight.as_ref()].into_iter().flatten().map(DeviceView::range));
    }
    reads.extend([offsets, waves].into_iter().flatten().map(DeviceView::range));
    let table = rope::angles(enc, waves, f)?;
    let push = Push::default().u64s(&[enc.params(&entries)?, table, offsets.map_or(0, |o| o.ptr)]).u32s(&[
        items.len() as u32,
        t as u32,
        f.offset as u32,
        rope::step(waves, 1) as u32,
        rope::step(offsets, 0) as u32,
        f.scale.to_bits(),
        if f.back { -1f32 } else { 1.0 }.to_bits(),
        eps.unwrap_or(0.0).to_bits(),
        d as u32,
    ]);
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, rows.into());
    let writes: SmallVec<[(u64, u64); 3]> = items.iter().map(|i| i.dst.range()).collect();
    enc.dispatch(&pipeline, &push, groups, &reads, &writes)?;
    items.iter().try_for_each(|i| {
        let Some(part) = &i.part else { return Ok(()) };
        elementwise::copy(enc, &i.dst, part)
    })
}

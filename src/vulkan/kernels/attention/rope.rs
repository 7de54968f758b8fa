//! Host side of shaders/attention/rope.comp: rotary embedding in one pass over any layout of heads and positions.

use std::cell::RefCell;

use crate::bail;
use crate::core::layout::show;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::kernels::attention::rope::{Form, inverse_frequencies};
use crate::vulkan::kernels::elem::{Defines, Push, WG, aligned16, define, float_controls, grid, operand};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    dtype: Dtype,
    wide: bool,
    traditional: bool,
    waves: bool,
    /// Heads that a thread turns.
    heads: u32,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        format!("rope_{}", self.dtype)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        float_controls(&mut d, f);
        operand(&mut d, "A", self.dtype);
        operand(&mut d, "B", self.dtype);
        define(&mut d, "HEADS", format!("{}u", self.heads));
        let flags = [(self.wide, "VEC"), (self.traditional, "TRADITIONAL"), (self.waves, "WAVES")];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        Module { source: Source::File("rope.comp"), defines: d, ..Module::default() }
    }
}

thread_local! {
    // The last tables of angles, which every layer of a model asks for again.
    static TABLES: RefCell<Vec<((usize, u32), Vec<u8>)>> = const { RefCell::new(Vec::new()) };
}

/// Tables that a thread keeps.
const KEPT: usize = 4;

/// Address of the angles of each pair for one position, or of wavelengths where those are given.
pub(in crate::vulkan) fn angles(
    enc: &mut CommandEncoder,
    waves: Option<&DeviceView>,
    f: &Form,
) -> Result<u64> {
    if let Some(w) = waves {
        return Ok(w.ptr);
    }
    let key = (f.dims, f.base.unwrap_or(0.0).to_bits());
    TABLES.with_borrow_mut(|tables| {
        let at = match tables.iter().position(|t| t.0 == key) {
            Some(at) => at,
            None => {
                tables.truncate(KEPT - 1);
                let bytes = inverse_frequencies(f).into_iter().flat_map(f32::to_ne_bytes).collect();
                tables.insert(0, (key, bytes));
                0
            }
        };
        enc.params(&tables[at].1)
    })
}

/// Elements from one wavelength or offset to the next; `one` where there are none.
pub(in crate::vulkan) fn step(v: Option<&DeviceView>, one: i64) -> i64 {
    match v {
        Some(v) if v.shape[0] > 1 => v.strides[0],
        Some(_) => 0,
        None => one,
    }
}

/// Turns the first `dims` features of `src` (4 axes; float16, bfloat16 or float32). `offsets` holds one int32 or
/// one for each element of the batch, `waves` float32 wavelengths that stand for the base; `dst` is contiguous.
pub fn rope(
    enc: &mut CommandEncoder,
    src: &DeviceView,
    offsets: Option<&DeviceView>,
    waves: Option<&DeviceView>,
    f: &Form,
    dst: &DeviceView,
) -> Result<()> {
    if !matches!(src.dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32) {
        bail!(Value, "[rope] Expected float16, bfloat16 or float32, got {}.", src.dtype);
    }
    if dst.size() == 0 {
        return Ok(());
    }
    let size = src.dtype.size();
    let [b, h, t, d] = [0, 1, 2, 3].map(|i| src.shape[i] as u64);
    // A stride along one element is never taken.
    let [sb, sh, st, sd] = [0, 1, 2, 3].map(|i| if src.shape[i] == 1 { 0 } else { src.strides[i] });
    let vector = 16 / size;
    let whole = |n: usize| n.is_multiple_of(vector);
    let wide = sd == 1
        && aligned16(src.ptr, size, &[sb, sh, st])
        && dst.ptr.is_multiple_of(16)
        && whole(d as usize)
        && whole(if f.traditional { f.dims } else { f.dims / 2 });
    // Sines cost more than loads: as many heads share them as leave enough threads.
    let heads = match h * t * b {
        n if h >= 8 && n >= 1 << 16 => 8,
        n if h >= 4 && n >= 1 << 12 => 4,
        _ => 1,
    };
    let key = Key { dtype: src.dtype, wide, traditional: f.traditional, waves: waves.is_some(), heads };
    let (v, pairs) = match (wide, f.traditional) {
        (false, _) => (1, 1),
        (true, true) => (vector as u64, vector as u64 / 2),
        (true, false) => (vector as u64, vector as u64),
    };
    let units = f.dims as u64 / 2 / pairs + (d - f.dims as u64) / v;
    let threads = b * h.div_ceil(heads.into()) * t * units;
    if [b, h, t, d].iter().any(|&n| n > i32::MAX as u64) || threads.div_ceil(WG.into()) > u64::from(u32::MAX)
    {
        bail!(Value, "[rope] Shape {} is too large.", show(&src.shape));
    }
    let table = angles(enc, waves, f)?;
    let push = Push::default()
        .u64s(&[src.ptr, dst.ptr, table, offsets.map_or(0, |o| o.ptr)])
        .i64s(&[sb, sh, st, sd, step(waves, 1), step(offsets, 0)])
        .u32s(&[
            b as u32,
            h as u32,
            t as u32,
            d as u32,
            f.dims as u32,
            f.offset as u32,
            f.scale.to_bits(),
            if f.back { -1f32 } else { 1.0 }.to_bits(),
        ]);
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, threads.div_ceil(WG.into()));
    let reads: Vec<_> = [Some(src), offsets, waves].into_iter().flatten().map(DeviceView::range).collect();
    enc.dispatch(&pipeline, &push, groups, &reads, &[dst.range()])
}

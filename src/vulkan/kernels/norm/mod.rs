//! Host side of shaders/norm/norm.comp: RMS and layer normalisation of the last axis, accumulated in float32. Rows of
//! up to 32 elements a lane stay in registers; longer ones are walked again.

mod few;
pub mod softmax;

use super::elem::{
    Defines, Push, WG, aligned16, collapse, define, float_controls, grid, operand, required_subgroup,
    row_dims, shuffles,
};
use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::layout::{show, size_of};
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source, tune};

pub static NORM_REGISTERS: KernelVariant =
    KernelVariant::new("norm_registers", "the kernel that reads a row again");

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    dtype: Dtype,
    centred: bool,
    weight: bool,
    bias: bool,
    added: bool,
    wide: bool,
    /// Vectors a lane holds in registers; 0 walks the row in a loop.
    vectors: u32,
    lanes: u32,
    group: u32,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let class = if self.vectors == 0 { "loop" } else { "registers" };
        let added = if self.added { "_add" } else { "" };
        format!("{}_{class}_{}{added}", if self.centred { "layer_norm" } else { "rms_norm" }, self.dtype)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        float_controls(&mut d, f);
        operand(&mut d, "A", self.dtype);
        operand(&mut d, "B", self.dtype);
        define(&mut d, "MODE", u32::from(self.vectors == 0));
        define(&mut d, "NV", self.vectors.max(1));
        define(&mut d, "HAS_WEIGHT", self.weight);
        define(&mut d, "HAS_BIAS", self.bias);
        let flags = [
            (self.centred, "CENTRED"),
            (self.weight, "WEIGHT"),
            (self.bias, "BIAS"),
            (self.added, "ADDED"),
            (self.wide, "VEC"),
            (shuffles(f), "SG"),
        ];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        Module {
            source: Source::File("norm.comp"),
            defines: d,
            spec: vec![self.group, self.lanes],
            subgroup_size: required_subgroup(f),
            spirv16: false,
        }
    }
}

/// Lanes that share a row of so many vectors of so many elements, and vectors that each holds in registers: 0 where the
/// row is read again.
pub(in crate::vulkan) fn registers(steps: u64, vector: u64) -> (u32, u32) {
    let (lanes, vectors) = tune::norm::registers(steps, vector, WG);
    (lanes, if NORM_REGISTERS.disabled() { 0 } else { vectors })
}

/// Whether the rows of a view are whole vectors of 16 bytes.
pub(in crate::vulkan) fn wide_rows(v: &DeviceView) -> bool {
    let size = v.dtype.size();
    let axes = || v.shape.iter().zip(&v.strides).rev();
    let row =
        axes().next().is_some_and(|(&n, &s)| (s == 1 || n == 1) && (n as usize * size).is_multiple_of(16));
    row && aligned16(v.ptr, size, axes().skip(1).filter(|(d, _)| **d != 1).map(|(_, s)| s))
}

/// How rows are normalised.
#[derive(Clone, Copy, Default)]
pub struct How<'a> {
    pub weight: Option<&'a DeviceView>,
    pub bias: Option<&'a DeviceView>,
    pub eps: f32,
    /// The mean is taken off first.
    pub centred: bool,
    /// What rounded results are added to: row-major, of their shape.
    pub added: Option<&'a DeviceView>,
}

/// Normalises the last axis. All views have one dtype (float16, bfloat16 or float32); `dst` is contiguous and has the
/// shape of `src`.
pub fn norm(enc: &mut CommandEncoder, src: &DeviceView, how: How, dst: &DeviceView) -> Result<()> {
    let How { weight, bias, eps, centred, added } = how;
    let op = if centred { "layer_norm" } else { "rms_norm" };
    if !matches!(src.dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32) {
        bail!(Value, "[{op}] Expected float16, bfloat16 or float32, got {}.", src.dtype);
    }
    let Some((&n, lead)) = src.shape.split_last() else {
        bail!(Value, "[{op}] Expected at least one axis, got a scalar.");
    };
    let rows = size_of(lead) as u64;
    if dst.size() == 0 {
        return Ok(());
    }
    if rows > u64::from(u32::MAX) || n > i64::from(i32::MAX) {
        bail!(Value, "[{op}] Shape {} is too large.", show(&src.shape));
    }
    let size = src.dtype.size();
    // INVARIANT: the shape has a last axis, so the strides have one.
    let stride = if n == 1 { 1 } else { *src.strides.last().expect("last axis") };
    let kept = collapse(lead.iter().copied().zip(src.strides.iter().copied()));
    let even = |v: Option<&DeviceView>| v.is_none_or(|v| v.strides[0] == 1 && v.ptr.is_multiple_of(16));
    let whole = |v: Option<&DeviceView>| v.is_none_or(|v| v.ptr.is_multiple_of(16));
    let wide = wide_rows(src) && whole(Some(dst)) && whole(added) && even(weight) && even(bias);
    if let (Some(weight), true, [] | [_]) = (weight, wide && !centred && bias.is_none(), &kept[..]) {
        let apart = kept.first().map_or(n, |k| k.1);
        if apart >= 0
            && few::rms_norm(enc, src, (weight, added), eps, dst, [rows, n as u64, 2 * apart as u64])?
        {
            return Ok(());
        }
    }
    let vector = if wide { 16 / size as u64 } else { 1 };
    let (lanes, vectors) = registers(n as u64 / vector, vector);
    let largest = enc.device().features().max_workgroup_invocations.clamp(WG, 1024);
    let (group, lanes) = if vectors == 0 { (largest, largest) } else { (WG, lanes) };
    let key = Key {
        dtype: src.dtype,
        centred,
        weight: weight.is_some(),
        bias: bias.is_some(),
        added: added.is_some(),
        wide,
        vectors,
        lanes,
        group,
    };
    let params = row_dims(enc, &kept)?;
    let at = |v: Option<&DeviceView>| v.map_or(0, |v| v.ptr);
    let step = |v: Option<&DeviceView>| v.map_or(1, |v| v.strides[0]);
    let push = Push::default()
        .u64s(&[src.ptr, dst.ptr, at(weight), at(bias), params, at(added)])
        .i64s(&[stride, step(weight), step(bias)])
        .u32s(&[rows as u32, n as u32, kept.len() as u32, eps.to_bits()]);
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, rows.div_ceil(u64::from(group / lanes)));
    let reads: Vec<_> =
        [Some(src), weight, bias, added].into_iter().flatten().map(DeviceView::range).collect();
    enc.dispatch(&pipeline, &push, groups, &reads, &[dst.range()])
}

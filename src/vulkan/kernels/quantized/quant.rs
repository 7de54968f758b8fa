//! Host side of shaders/quantized/quantize.comp and shaders/quantized/dequantize.comp.

use crate::bail;
use crate::core::{Dtype, Kind, Result};
use crate::kernels::DeviceView;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::kernels::elem::{Defines, Push, define, float_controls, grid};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

/// Macros of shaders/quantized/quant.glsl.
pub(in crate::vulkan) fn define_format(d: &mut Defines, f: Format, dtype: Dtype) {
    let mode = match f.mode {
        Mode::Affine => 0,
        Mode::Mxfp4 => 1,
        Mode::Mxfp8 => 2,
        Mode::Nvfp4 => 3,
    };
    let code = match dtype {
        Dtype::F32 => 0,
        Dtype::F16 => 1,
        _ => 2,
    };
    for (name, v) in [("DTYPE", code), ("MODE", mode), ("BITS", f.bits), ("GROUP", f.group)] {
        define(d, name, v);
    }
}

/// Name of a format in statistics.
pub(in crate::vulkan) fn show(f: Format) -> String {
    match f.mode {
        Mode::Affine => format!("q{}g{}", f.bits, f.group),
        m => m.name().to_string(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    format: Format,
    dtype: Dtype,
    back: bool,
    global: bool,
    /// Of indices by which rows of a table are taken.
    picked: Option<Dtype>,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let what = match self.picked {
            Some(_) => "dequantize_rows",
            None if self.back => "dequantize",
            None => "quantize",
        };
        format!("{what}_{}_{}", show(self.format), self.dtype)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        float_controls(&mut d, f);
        define_format(&mut d, self.format, self.dtype);
        if self.global {
            define(&mut d, "GLOBAL", 1);
        }
        if let Some(index) = self.picked {
            define(&mut d, "PICKED", 1);
            define(&mut d, "I_WORDS", index.size() / 4);
            define(&mut d, "I_SIGNED", u32::from(index.kind() == Kind::Signed));
        }
        let file = if self.back { "dequantize.comp" } else { "quantize.comp" };
        Module { source: Source::File(file), defines: d, ..Module::default() }
    }
}

/// Elements of one dispatch: whole groups of every format, offsets in 32 bits.
const PIECE: usize = 1 << 27;

fn check(op: &str, f: Format, dtype: Dtype, scales: &DeviceView, dense: bool) -> Result<()> {
    if !dense {
        bail!(Value, "[{op}] Expected contiguous arrays whose shapes follow from the format.");
    }
    f.check_scales(op, scales.dtype, dtype)
}

/// Codes, scales and (in affine formats) biases of `w`, whose last axis is a multiple of the group size. `global`
/// is a float32 scalar. All are contiguous.
pub fn quantize(
    enc: &mut CommandEncoder,
    f: Format,
    w: &DeviceView,
    global: Option<&DeviceView>,
    codes: &DeviceView,
    scales: &DeviceView,
    biases: Option<&DeviceView>,
) -> Result<()> {
    let dense = w.is_row_contiguous()
        && codes.is_row_contiguous()
        && codes.size() == f.words(w.size())
        && scales.is_row_contiguous()
        && scales.size() == f.groups(w.size())
        && biases.is_some() == f.affine()
        && biases.is_none_or(|b| b.is_row_contiguous() && b.size() == scales.size() && b.dtype == w.dtype);
    check("quantize", f, w.dtype, scales, dense)?;
    let key = Key { format: f, dtype: w.dtype, back: false, global: global.is_some(), picked: None };
    let pipeline = enc.device().pipeline(&key)?;
    let mut reads = vec![w.range()];
    reads.extend(global.map(|g| g.range()));
    let mut writes = vec![codes.range(), scales.range()];
    writes.extend(biases.map(|b| b.range()));
    for at in (0..w.size()).step_by(PIECE) {
        let groups = f.groups(PIECE.min(w.size() - at));
        let (first, size) = (f.groups(at), scales.dtype.size());
        let push = Push::default().u64s(&[
            w.ptr + (at * w.dtype.size()) as u64,
            codes.ptr + 4 * f.words(at) as u64,
            scales.ptr + (first * size) as u64,
            biases.map_or(0, |b| b.ptr + (first * size) as u64),
            global.map_or(0, |g| g.ptr),
        ]);
        let groups_grid = grid(enc, groups.div_ceil(64) as u64);
        enc.dispatch(&pipeline, &push.u32s(&[groups as u32, 0]), groups_grid, &reads, &writes)?;
    }
    Ok(())
}

/// Values of codes, of dtype float32, float16 or bfloat16, which affine scales have too. All are contiguous.
pub fn dequantize(
    enc: &mut CommandEncoder,
    f: Format,
    codes: &DeviceView,
    scales: &DeviceView,
    biases: Option<&DeviceView>,
    dst: &DeviceView,
) -> Result<()> {
    let dense = dst.is_row_contiguous()
        && codes.is_row_contiguous()
        && codes.size() == f.words(dst.size())
        && scales.is_row_contiguous()
        && scales.size() == f.groups(dst.size())
        && biases.is_some() == f.affine()
        && biases
            .is_none_or(|b| b.is_row_contiguous() && b.size() == scales.size() && b.dtype == scales.dtype)
        && dst.ptr.is_multiple_of(16);
    check("dequantize", f, dst.dtype, scales, dense)?;
    let pipeline = enc.device().pipeline(&Key {
        format: f,
        dtype: dst.dtype,
        back: true,
        global: false,
        picked: None,
    })?;
    let mut reads = vec![codes.range(), scales.range()];
    reads.extend(biases.map(|b| b.range()));
    for at in (0..dst.size()).step_by(PIECE) {
        let packs = PIECE.min(dst.size() - at) / 8;
        let (first, size) = (f.groups(at), scales.dtype.size());
        let push = Push::default().u64s(&[
            codes.ptr + 4 * f.words(at) as u64,
            scales.ptr + (first * size) as u64,
            biases.map_or(0, |b| b.ptr + (first * size) as u64),
            dst.ptr + (at * dst.dtype.size()) as u64,
        ]);
        let groups = grid(enc, packs.div_ceil(256) as u64);
        enc.dispatch(&pipeline, &push.u32s(&[packs as u32, 0]), groups, &reads, &[dst.range()])?;
    }
    Ok(())
}

/// Values of the rows of a table that `index` has, integers of four or eight bytes; as [`dequantize`] of what they pick. The
/// tables have two axes. All are contiguous.
pub fn dequantize_rows(
    enc: &mut CommandEncoder,
    f: Format,
    codes: &DeviceView,
    scales: &DeviceView,
    biases: Option<&DeviceView>,
    index: &DeviceView,
    dst: &DeviceView,
) -> Result<()> {
    let (rows, len) = (codes.shape[0], dst.shape.last().map_or(0, |&n| n as usize));
    let fits = |v: &DeviceView, n: usize| v.is_row_contiguous() && v.shape[..] == [rows, n as i64];
    let whole = dst.is_row_contiguous()
        && index.is_row_contiguous()
        && dst.size() == index.size() * len
        && fits(codes, f.words(len))
        && fits(scales, f.groups(len))
        && biases.is_some() == f.affine()
        && biases.is_none_or(|b| fits(b, f.groups(len)) && b.dtype == scales.dtype)
        && dst.ptr.is_multiple_of(16);
    check("dequantize", f, dst.dtype, scales, whole)?;
    if dst.size() == 0 {
        return Ok(());
    }
    let key = Key { format: f, dtype: dst.dtype, back: true, global: false, picked: Some(index.dtype) };
    let pipeline = enc.device().pipeline(&key)?;
    let mut reads = vec![codes.range(), scales.range(), index.range()];
    reads.extend(biases.map(|b| b.range()));
    let step = (PIECE / len).max(1);
    for at in (0..index.size()).step_by(step) {
        let packs = step.min(index.size() - at) * len / 8;
        let push = Push::default().u64s(&[
            codes.ptr,
            scales.ptr,
            biases.map_or(0, |b| b.ptr),
            dst.ptr + (at * len * dst.dtype.size()) as u64,
            index.ptr + (at * index.dtype.size()) as u64,
        ]);
        let groups = grid(enc, packs.div_ceil(256) as u64);
        let push = push.u32s(&[packs as u32, 0, (len / 8) as u32, rows as u32]);
        enc.dispatch(&pipeline, &push, groups, &reads, &[dst.range()])?;
    }
    Ok(())
}

/// `x` as it is after quantisation to a format of floats, apart from the global scale.
pub fn round_to(
    enc: &mut CommandEncoder,
    f: Format,
    x: &DeviceView,
    global: Option<&DeviceView>,
    dst: &DeviceView,
) -> Result<()> {
    let mut part = |len: usize, dtype: Dtype| -> Result<DeviceView> {
        let ptr = enc.temp((len * dtype.size()).next_multiple_of(16).max(16))?;
        Ok(DeviceView {
            ptr,
            dtype,
            shape: [len as i64].into_iter().collect(),
            strides: [1].into_iter().collect(),
        })
    };
    let codes = part(f.words(x.size()), Dtype::U32)?;
    let scales = part(f.groups(x.size()), Dtype::U8)?;
    quantize(enc, f, x, global, &codes, &scales, None)?;
    dequantize(enc, f, &codes, &scales, None, dst)
}

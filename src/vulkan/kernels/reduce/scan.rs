//! Host side of shaders/reduce/scan.comp: scans and linear recurrences along one axis of contiguous memory. One
//! workgroup walks a long row, several short ones share one, and columns are scanned side by side. A long axis
//! with too little beside it to fill the GPU is cut into chunks and scanned in three passes. The order of the
//! combinations follows from the shape and the device, so results do not change from run to run.

use crate::bail;
use crate::core::{Dtype, Kind, Result};
use crate::kernels::{DeviceView, ScanForm, ScanOp};
use crate::vulkan::kernels::elem::{
    Defines, Push, WG, define, float_controls, grid, operand, required_subgroup, shuffles,
};
use crate::vulkan::tune;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Op {
    Scan(ScanOp),
    Recurrence,
}

/// What a pass over an axis that is cut does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pass {
    /// The axis is not cut.
    Whole,
    /// Totals of the chunks.
    Reduce,
    /// Scan of the totals in their place.
    Partial,
    /// The chunks, each from its start.
    Carry,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ScanKey {
    op: Op,
    form: ScanForm,
    dtype: Dtype,
    pass: Pass,
    columns: bool,
    /// Bytes of a vector.
    vector: usize,
    /// Vectors a lane and tile.
    items: u32,
    /// Lanes a row, or across columns.
    lanes: u32,
}

impl Op {
    fn code(self) -> u32 {
        match self {
            Op::Scan(ScanOp::Sum) => 0,
            Op::Scan(ScanOp::Prod) => 1,
            Op::Scan(ScanOp::Min) => 2,
            Op::Scan(ScanOp::Max) => 3,
            Op::Scan(ScanOp::LogAddExp) => 4,
            Op::Recurrence => 5,
        }
    }

    /// Bytes of an accumulator.
    fn accumulator(self, dtype: Dtype) -> u64 {
        let one = if dtype.size() == 8 { 8 } else { 4 };
        match self {
            Op::Recurrence => 2 * one,
            Op::Scan(ScanOp::LogAddExp) => 8,
            Op::Scan(ScanOp::Sum | ScanOp::Prod | ScanOp::Min | ScanOp::Max) => one,
        }
    }
}

/// GLSL literals of the least and the greatest integer.
fn bounds(d: Dtype) -> Option<(&'static str, &'static str)> {
    Some(match d {
        Dtype::Bool => ("0u", "1u"),
        Dtype::U8 => ("0u", "0xffu"),
        Dtype::U16 => ("0u", "0xffffu"),
        Dtype::U32 => ("0u", "0xffffffffu"),
        Dtype::U64 => ("uint64_t(0u)", "U64_HIGH"),
        Dtype::I8 => ("-0x80", "0x7f"),
        Dtype::I16 => ("-0x8000", "0x7fff"),
        Dtype::I32 => ("(-0x7fffffff-1)", "0x7fffffff"),
        Dtype::I64 => ("I64_LOW", "I64_HIGH"),
        _ => return None,
    })
}

impl KernelKey for ScanKey {
    fn name(&self) -> String {
        let op = match self.op {
            Op::Scan(op) => format!("{op:?}"),
            Op::Recurrence => "recurrence".into(),
        };
        let layout = if self.columns { "columns" } else { "rows" };
        format!("scan_{op}_{layout}_{:?}_{}", self.pass, self.dtype).to_lowercase()
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        operand(&mut d, "A", self.dtype);
        operand(&mut d, "B", self.dtype);
        define(&mut d, "OP", self.op.code());
        define(&mut d, "MODE", u32::from(self.columns));
        define(&mut d, "VBYTES", self.vector);
        define(&mut d, "NV", format!("{}u", self.items));
        let wide = self.dtype.size() == 8 && self.dtype.kind() != Kind::Complex;
        define(&mut d, "ACC_SIZE", format!("{}u", self.op.accumulator(self.dtype)));
        define(&mut d, "ACC_ALIGN", if wide { 8 } else { 4 });
        define(&mut d, "ACC_WIDE", u32::from(wide));
        if let Some((low, high)) = bounds(self.dtype) {
            define(&mut d, "A_LOW", low);
            define(&mut d, "A_HIGH", high);
        }
        define(&mut d, "SG_SIZE", format!("{}u", f.subgroup_size));
        let flags = [
            (self.form.reverse, "REVERSE"),
            (!self.form.inclusive, "EXCLUSIVE"),
            (self.pass == Pass::Reduce, "REDUCE"),
            (self.pass == Pass::Partial, "PARTIAL"),
            (self.pass == Pass::Carry, "CARRY"),
            (shuffles(f) && !self.columns, "SG"),
        ];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        float_controls(&mut d, f);
        Module {
            source: Source::File("scan.comp"),
            defines: d,
            spec: vec![WG, self.lanes],
            subgroup_size: required_subgroup(f),
            spirv16: false,
        }
    }
}

/// Where the elements are and how they lie: (outer, n, inner).
#[derive(Clone, Copy)]
struct Axis {
    outer: u64,
    n: u64,
    inner: u64,
}

impl Axis {
    fn new(v: &DeviceView, axis: usize) -> Axis {
        let product = |s: &[i64]| s.iter().product::<i64>() as u64;
        Axis {
            outer: product(&v.shape[..axis]),
            n: v.shape[axis] as u64,
            inner: product(&v.shape[axis + 1..]),
        }
    }
}

/// The vectors, items and lanes of a kernel over an axis; `aligned` says whether vectors of so many bytes may be
/// used.
fn geometry(op: Op, dtype: Dtype, axis: Axis, aligned: impl Fn(u64) -> bool) -> ScanKey {
    let (size, columns) = (dtype.size() as u64, axis.inner > 1);
    let best = if columns { (4 * size).min(16) } else { 16 };
    let even = if columns {
        (axis.inner * size).is_multiple_of(best)
    } else {
        axis.outer == 1 || (axis.n * size).is_multiple_of(best)
    };
    // A complex logarithm of a sum is so much code, and compilers inline it wherever a lane combines two items.
    let long = op == Op::Scan(ScanOp::LogAddExp) && dtype == Dtype::C64;
    let vector = if even && aligned(best) && !long { best } else { size };
    let per = vector / size;
    let registers = match op.accumulator(dtype) {
        _ if long => 1,
        bytes if bytes > 8 => 8,
        _ => 16,
    };
    let vectors = if columns { axis.inner.div_ceil(per) } else { axis.n.div_ceil(per) };
    let mut items = (registers / per).clamp(1, if per == 1 { 8 } else { 4 });
    let lanes = if columns {
        vectors.next_power_of_two().min(32)
    } else {
        items = items.min(vectors.next_power_of_two());
        vectors.div_ceil(items).next_power_of_two().min(u64::from(WG))
    };
    ScanKey {
        op,
        form: ScanForm { reverse: false, inclusive: true },
        dtype,
        pass: Pass::Whole,
        columns,
        vector: vector as usize,
        items: items as u32,
        lanes: lanes as u32,
    }
}

impl ScanKey {
    /// Groups of lanes that walk an axis of their own, and steps of an axis.
    fn extent(&self, axis: Axis) -> (u64, u64) {
        let (lanes, per) = (u64::from(self.lanes), (self.vector / self.dtype.size()) as u64);
        if self.columns {
            (axis.outer * axis.inner.div_ceil(lanes * per), axis.n)
        } else {
            (axis.outer.div_ceil(u64::from(WG) / lanes), axis.n.div_ceil(per))
        }
    }
}

/// Scans `src` along `axis` into `dst`; both row-major without gaps, of one shape and dtype.
pub fn scan(
    enc: &mut CommandEncoder,
    op: ScanOp,
    form: ScanForm,
    src: &DeviceView,
    axis: usize,
    dst: &DeviceView,
) -> Result<()> {
    run(enc, Op::Scan(op), form, [src, src], axis, dst)
}

/// `dst[i] = a[i] dst[i-1] + b[i]` along `axis`, from the other end under `reverse`, starting from zero. All
/// arrays are row-major without gaps, of one shape and dtype.
pub fn recurrence(
    enc: &mut CommandEncoder,
    a: &DeviceView,
    b: &DeviceView,
    axis: usize,
    reverse: bool,
    dst: &DeviceView,
) -> Result<()> {
    run(enc, Op::Recurrence, ScanForm { reverse, inclusive: true }, [a, b], axis, dst)
}

fn run(
    enc: &mut CommandEncoder,
    op: Op,
    form: ScanForm,
    src: [&DeviceView; 2],
    axis: usize,
    dst: &DeviceView,
) -> Result<()> {
    let dtype = dst.dtype;
    if dtype == Dtype::F64 {
        bail!(Value, "[scan] float64 is not supported on the GPU.");
    }
    let fits = |v: &DeviceView| v.shape == dst.shape && v.dtype == dtype && v.is_row_contiguous();
    if !src.iter().all(|v| fits(v)) || !fits(dst) {
        bail!(Value, "[scan] Expected arrays of one shape and dtype without gaps.");
    }
    if matches!(op, Op::Recurrence | Op::Scan(ScanOp::LogAddExp)) && !dtype.is_inexact() {
        bail!(Value, "[scan] {op:?} needs floating point, got {dtype}.");
    }
    if dst.size() == 0 {
        return Ok(());
    }
    let shape = Axis::new(dst, axis);
    if shape.n > 1 << 31 {
        bail!(Value, "[scan] An axis of {} elements is too long.", shape.n);
    }
    let aligned = |bytes: u64| [src[0].ptr, src[1].ptr, dst.ptr].iter().all(|p| p.is_multiple_of(bytes));
    let key = ScanKey { form, ..geometry(op, dtype, shape, aligned) };
    let (groups, steps) = key.extent(shape);
    let tile = u64::from(key.items) * u64::from(if key.columns { WG / key.lanes } else { key.lanes });
    let chunk = match key.columns || key.lanes == WG {
        true => tune::reduce::chunk(enc.device().profile(), groups, steps, tile),
        false => steps,
    };
    let chunks = steps.div_ceil(chunk);
    let bytes = shape.outer * chunks * shape.inner * op.accumulator(dtype);
    let partial = if chunks > 1 { (enc.temp(bytes as usize)?, bytes) } else { (0, 0) };
    let mut dispatch = |key: ScanKey, axis: Axis, first: u64, chunk: u64, chunks: u64| -> Result<()> {
        let units = if key.columns { 0 } else { axis.outer };
        let push = Push::default().u64s(&[first, src[1].ptr, dst.ptr, partial.0, units, axis.inner]);
        let push = push.u32s(&[axis.n as u32, chunk as u32, chunks as u32]);
        let (inputs, output) = ([src[0].range(), src[1].range(), partial], dst.range());
        let (reads, writes): (&[(u64, u64)], &[(u64, u64)]) = match key.pass {
            Pass::Whole => (&inputs[..2], &[output]),
            Pass::Reduce => (&inputs[..2], &[partial]),
            Pass::Partial => (&[partial], &[partial]),
            Pass::Carry => (&inputs, &[output]),
        };
        let pipeline = enc.device().pipeline(&key)?;
        let size = grid(enc, key.extent(axis).0 * chunks);
        enc.dispatch(&pipeline, &push, size, reads, writes)
    };
    if chunks == 1 {
        return dispatch(key, shape, src[0].ptr, chunk, 1);
    }
    let totals = Axis { n: chunks, ..shape };
    // A total is an item of its own, whatever its size.
    let middle = geometry(op, dtype, totals, |_| false);
    let form = ScanForm { reverse: false, inclusive: false };
    dispatch(ScanKey { pass: Pass::Reduce, ..key.clone() }, shape, src[0].ptr, chunk, chunks)?;
    dispatch(ScanKey { pass: Pass::Partial, form, ..middle }, totals, partial.0, chunks, 1)?;
    dispatch(ScanKey { pass: Pass::Carry, ..key }, shape, src[0].ptr, chunk, chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::shader::compiler;

    #[test]
    fn every_variant_compiles() {
        let with = Features {
            subgroup_basic: true,
            subgroup_shuffle: true,
            subgroup_size: 32,
            ..Default::default()
        };
        let scans = [ScanOp::Sum, ScanOp::Prod, ScanOp::Min, ScanOp::Max, ScanOp::LogAddExp].map(Op::Scan);
        for op in scans.into_iter().chain([Op::Recurrence]) {
            for dtype in Dtype::ALL.into_iter().filter(|&d| d != Dtype::F64) {
                if matches!(op, Op::Recurrence | Op::Scan(ScanOp::LogAddExp)) && !dtype.is_inexact() {
                    continue;
                }
                for (axis, reverse, inclusive, pass, f) in [
                    (Axis { outer: 1, n: 5000, inner: 1 }, false, true, Pass::Reduce, &with),
                    (Axis { outer: 4, n: 33, inner: 1 }, true, false, Pass::Whole, &Features::default()),
                    (Axis { outer: 1, n: 70, inner: 1 }, false, false, Pass::Partial, &with),
                    (Axis { outer: 1, n: 70, inner: 64 }, true, false, Pass::Carry, &with),
                    (Axis { outer: 1, n: 70, inner: 3 }, false, true, Pass::Whole, &with),
                    (Axis { outer: 1, n: 70, inner: 64 }, false, false, Pass::Partial, &with),
                ] {
                    let form = ScanForm { reverse, inclusive };
                    let key = ScanKey { form, pass, ..geometry(op, dtype, axis, |_| pass != Pass::Partial) };
                    compiler::spirv(&key.name(), &key.module(f)).unwrap();
                }
            }
        }
    }
}

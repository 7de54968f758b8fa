//! Host side of shaders/reduce/reduce.comp: reductions and arg-reductions. The plan collapses the axes, picks a
//! layout class (row, general, column), and splits long reductions over workgroups with a second pass over
//! the partial results, or the last workgroup to end in place of that pass. The order of the combinations is
//! fixed all the same: results do not change from run to run.

pub mod programs;
pub mod scan;

use super::elem::{
    Defines, Push, WG, aligned16, collapse, define, dims, float_controls, grid, joined_by_last, operand,
    required_subgroup, row_dims, shuffles,
};
use super::index::indexed::widest;
use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::{Dtype, Kind, Result};
use crate::kernels::reduce::statistic::Summary;
use crate::kernels::reduce::table::ReduceClass;
use crate::kernels::{ArgReduceOp, DeviceView, ReduceOp, Statistic};
use crate::vulkan::hal::encoder::COUNTERS;
use crate::vulkan::tune::Profile;
use crate::vulkan::tune::reduce::{self as table, LEAST_GENERAL, LEAST_ROW};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

pub static REDUCE_ROW: KernelVariant = KernelVariant::new("reduce_row", "the reduction for any layout");

pub static REDUCE_COLUMN: KernelVariant = KernelVariant::new("reduce_column", "the reduction for any layout");

pub static STATISTICS: KernelVariant =
    KernelVariant::new("statistics", "means, variances and norms of several steps");

pub static REDUCE_LAST: KernelVariant =
    KernelVariant::new("reduce_last", "a second pass, in place of the last workgroup, adds the parts");

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Op {
    Reduce(ReduceOp),
    Arg(ArgReduceOp),
    Statistic(Statistic),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mode {
    Row,
    General,
    Column,
    Few,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ReduceKey {
    op: Op,
    src: Dtype,
    dst: Dtype,
    mode: Mode,
    /// 16-byte loads along rows.
    wide: bool,
    /// Bytes that a lane loads across columns.
    across: u32,
    /// Rows that begin anywhere in 16 bytes.
    odd: bool,
    /// Each how-manieth element of a row counts.
    step: u32,
    /// Rows of columns are several of the array's.
    fold: bool,
    part_in: bool,
    part_out: bool,
    /// The last workgroup finishes the partial results.
    last: bool,
    /// Lanes a row (row, general) or across columns (column).
    lanes: u32,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Op::Reduce(op) => op.row().name,
            Op::Arg(op) => op.name(),
            Op::Statistic(of) => of.row().name,
        }
    }

    /// Whether smaller elements come first in the order that is reduced by.
    fn takes_low(self) -> bool {
        match self {
            Op::Reduce(op) => op == ReduceOp::Min,
            Op::Arg(op) => op == ArgReduceOp::Min,
            Op::Statistic(_) => false,
        }
    }

    /// What elements become; none for what is kept of them by several numbers.
    fn class(self) -> Option<ReduceClass> {
        match self {
            Op::Reduce(op) => Some(op.row().class),
            Op::Arg(_) => Some(ReduceClass::Order),
            Op::Statistic(of) => (of.row().summary == Summary::Sum).then_some(ReduceClass::Ring),
        }
    }

    /// The shader's number for it.
    fn class_code(self) -> u32 {
        match self {
            Op::Statistic(of) => match of.row().summary {
                Summary::Sum => ReduceClass::Ring as u32,
                Summary::Moments => 3,
                Summary::Exponentials => 4,
            },
            Op::Reduce(op) => op.row().class as u32,
            Op::Arg(_) => ReduceClass::Order as u32,
        }
    }

    fn is_arg(self) -> bool {
        matches!(self, Op::Arg(_))
    }

    /// Type of the comparison key or accumulator.
    fn accumulator(self, src: Dtype, dst: Dtype) -> Dtype {
        match self.class() {
            Some(ReduceClass::Ring) => dst,
            Some(ReduceClass::Truth) => Dtype::U32,
            None => Dtype::F32,
            Some(ReduceClass::Order) => match src.kind() {
                Kind::Float => Dtype::I32,
                Kind::Complex => Dtype::I64,
                _ => src,
            },
        }
    }

    fn partial_size(self, src: Dtype, dst: Dtype) -> u64 {
        let size = if self.accumulator(src, dst).size() == 8 { 8 } else { 4 };
        match self {
            Op::Arg(_) => 2 * size,
            Op::Statistic(of) if of.row().summary == Summary::Moments => 3 * size,
            Op::Statistic(of) if of.row().summary == Summary::Exponentials => 2 * size,
            Op::Reduce(_) | Op::Statistic(_) => size,
        }
    }
}

impl ReduceKey {
    /// Elements of a load that count.
    fn vector(&self) -> u64 {
        if self.wide { 16 / self.src.size() as u64 / u64::from(self.step) } else { 1 }
    }

    /// Of any layout, without wide loads or parts.
    fn plain(op: Op, src: Dtype, dst: Dtype) -> ReduceKey {
        ReduceKey {
            op,
            src,
            dst,
            mode: Mode::General,
            wide: false,
            across: 0,
            odd: false,
            step: 1,
            fold: false,
            part_in: false,
            part_out: false,
            last: false,
            lanes: 1,
        }
    }
}

impl KernelKey for ReduceKey {
    fn name(&self) -> String {
        let part = ["", "_finish"][self.part_in as usize];
        format!("reduce_{}_{:?}_{}{part}", self.op.name(), self.mode, self.src).to_lowercase()
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        operand(&mut d, "A", self.src);
        operand(&mut d, "B", self.dst);
        define(&mut d, "CLASS", self.op.class_code());
        define(&mut d, "ARG", u32::from(self.op.is_arg()));
        define(&mut d, "TAKES_LOW", self.op.takes_low());
        if let Op::Statistic(of) = self.op {
            let (row, sum) = (of.row(), ReduceOp::Sum.row().glsl);
            define(&mut d, "ELEMENT", row.element);
            define(&mut d, "RESULT", row.result);
            define(&mut d, "IDENTITY", sum.identity);
            define(&mut d, "COMBINE", sum.combine);
            float_controls(&mut d, f);
        }
        if let Op::Reduce(op) = self.op {
            let complex = op.row().complex.filter(|_| self.dst == Dtype::C64);
            let glsl = complex.unwrap_or(op.row().glsl);
            define(&mut d, "IDENTITY", glsl.identity);
            define(&mut d, "COMBINE", glsl.combine);
        }
        define(&mut d, "MODE", self.mode as u32);
        let acc = self.op.accumulator(self.src, self.dst);
        let wide_int = acc.size() == 8 && acc != Dtype::C64;
        define(&mut d, "KEY_SIZE", if acc.size() == 8 { 8 } else { 4 });
        define(&mut d, "ACC_WIDE", u32::from(wide_int));
        let (ty, low, high) = match (acc.kind(), wide_int) {
            (Kind::Signed, false) => ("int", "(-0x7fffffff-1)", "0x7fffffff"),
            (Kind::Signed, true) => ("int64_t", "I64_LOW", "I64_HIGH"),
            (_, true) => ("uint64_t", "uint64_t(0u)", "U64_HIGH"),
            _ => ("uint", "0u", "0xffffffffu"),
        };
        define(&mut d, "ACC_WIDE_T", ty);
        define(&mut d, "KEY_LOW", low);
        define(&mut d, "KEY_HIGH", high);
        let columns = if self.across > 0 { self.across as usize / self.src.size() } else { 1 };
        define(&mut d, "CV", columns);
        define(&mut d, "ACROSS", self.across);
        let flags = [
            (self.wide || columns > 1, "VEC"),
            (self.odd, "ODD"),
            (self.fold, "FOLD"),
            (self.part_in, "PART_IN"),
            (self.part_out, "PART_OUT"),
            (shuffles(f) && matches!(self.mode, Mode::Row | Mode::General), "SG"),
        ];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        if self.step > 1 {
            define(&mut d, "STEP", format!("{}u", self.step));
        }
        if self.last {
            joined_by_last(&mut d);
        }
        Module {
            source: Source::File("reduce.comp"),
            defines: d,
            spec: vec![WG, self.lanes],
            subgroup_size: required_subgroup(f),
            spirv16: false,
        }
    }
}

/// Reduces `axes` of `src` into `dst` (contiguous, the remaining axes in order). Accumulates in `dst`'s dtype,
/// half precision in float32. An empty reduction gives the identity.
pub fn reduce(
    enc: &mut CommandEncoder,
    op: ReduceOp,
    src: &DeviceView,
    axes: &[usize],
    dst: &DeviceView,
) -> Result<()> {
    if src.dtype == Dtype::F64 || dst.dtype == Dtype::F64 {
        bail!(Value, "[reduce] float64 is not supported on the GPU.");
    }
    if src.dtype == Dtype::C64 && op.row().class != ReduceClass::Truth && dst.dtype != Dtype::C64 {
        bail!(Value, "[reduce] complex64 reduces to complex64, got {}.", dst.dtype);
    }
    let idempotent = op.row().class != ReduceClass::Ring;
    let (src, kept, reduced) = walked(src, axes, idempotent);
    run(enc, Op::Reduce(op), &src, kept, reduced, dst, 0.0)
}

/// A statistic of `axes` of `src`, of real numbers of at most 32 bits, into `dst` (contiguous, the remaining axes in
/// order) in one pass; computed in float32. What it divides by, if it does, is `divisor`.
pub fn statistic(
    enc: &mut CommandEncoder,
    of: Statistic,
    src: &DeviceView,
    axes: &[usize],
    divisor: f32,
    dst: &DeviceView,
) -> Result<()> {
    let (src, kept, reduced) = walked(src, axes, false);
    run(enc, Op::Statistic(of), &src, kept, reduced, dst, divisor)
}

type Axes = Vec<(i64, i64)>;

/// An array from its lowest element on, its kept axes, and its reduced ones, outermost the largest stride: the order of
/// the elements is free. Repeats of an element count once where they change nothing.
fn walked(src: &DeviceView, axes: &[usize], idempotent: bool) -> (DeviceView, Axes, Axes) {
    let mut src = src.clone();
    let mut reduced: Axes = Vec::new();
    let empty = axes.iter().any(|&a| src.shape[a] == 0);
    for &a in axes {
        let (d, s) = (src.shape[a], src.strides[a]);
        if s < 0 && d > 0 {
            src.ptr = src.ptr.wrapping_add_signed((d - 1) * s * src.dtype.size() as i64);
        }
        if !(empty || (idempotent && s == 0)) {
            reduced.push((d, s.abs()));
        }
    }
    if empty {
        reduced = vec![(0, 1)];
    }
    reduced.sort_by_key(|&(_, s)| std::cmp::Reverse(s));
    let kept = (0..src.ndim()).filter(|a| !axes.contains(a)).map(|a| (src.shape[a], src.strides[a]));
    let (kept, reduced) = (collapse(kept), collapse(reduced));
    (src, kept, reduced)
}

/// Index along `axis` of the smallest or largest element into `dst` (u32, contiguous, axis removed): the
/// first NaN if there is one, else the first among equals.
pub fn arg_reduce(
    enc: &mut CommandEncoder,
    op: ArgReduceOp,
    src: &DeviceView,
    axis: usize,
    dst: &DeviceView,
) -> Result<()> {
    if src.dtype == Dtype::F64 {
        bail!(Value, "[arg_reduce] float64 is not supported on the GPU.");
    }
    let kept = (0..src.ndim()).filter(|&a| a != axis).map(|a| (src.shape[a], src.strides[a]));
    let reduced = vec![(src.shape[axis], src.strides[axis])];
    run(enc, Op::Arg(op), src, collapse(kept), collapse(reduced), dst, 0.0)
}

/// How the first pass walks over its array.
struct Walk {
    key: ReduceKey,
    /// Kept axes, which come first in `list`, and then reduced ones, as lengths and strides.
    nk: usize,
    list: Vec<(i64, i64)>,
    /// Elements of a row or of one result; rows of a result or columns; the stride between columns.
    n: u64,
    ro: u64,
    stride: i64,
    /// Steps that can be cut into parts, the least of them in one, and workgroups without cuts.
    work: u64,
    least: u64,
    groups: u64,
}

/// Chooses the mode: rows where the reduced elements lie one behind the other, columns where the results' do.
fn walk(
    p: &Profile,
    op: Op,
    src: &DeviceView,
    kept: &[(i64, i64)],
    reduced: &[(i64, i64)],
    dst: Dtype,
    outs: u64,
) -> Walk {
    let (size, vector) = (src.dtype.size(), 16 / src.dtype.size() as u64);
    let total: u64 = reduced.iter().map(|r| r.0 as u64).product();
    // INVARIANT: `run` has pushed at least one pair.
    let inner = *reduced.last().expect("reduced axes");
    let outer = &reduced[..reduced.len() - 1];
    let strides = kept.iter().chain(outer).map(|k| &k.1);
    let mut key = ReduceKey::plain(op, src.dtype, dst);
    let mut nk = kept.len();
    let mut list: Vec<(i64, i64)> = kept.to_vec();
    let (n, ro, stride, work, least, groups);
    let column = kept.last().filter(|k| k.1.abs() < inner.1.abs() && inner.1 != 0);
    let column = column.filter(|_| !REDUCE_COLUMN.disabled());
    // Elements of 16 bytes, of which two or more count.
    let stepped = (inner.1 as usize).is_power_of_two()
        && inner.1 as usize * size <= 8
        && aligned16(src.ptr, size, strides.clone())
        && inner.0 >= 2 * vector as i64;
    let row = (inner.1 == 1 || stepped) && (outer.is_empty() || inner.0 < 1 << 31 && inner.0 >= 64);
    if row && !REDUCE_ROW.disabled() {
        key.mode = Mode::Row;
        let aligned = aligned16(src.ptr, size, strides);
        key.step = inner.1 as u32;
        key.odd = !aligned && inner.0 as u64 >= 2 * vector;
        key.wide = key.odd || aligned && inner.0 as u64 >= vector;
        let steps = inner.0 as u64 / key.vector();
        key.lanes = (steps / 4).max(1).next_power_of_two().min(u64::from(WG)) as u32;
        (n, stride) = (inner.0 as u64, 0);
        list.extend_from_slice(outer);
        ro = outer.iter().map(|r| r.0 as u64).product();
        groups = outs.div_ceil(u64::from(WG / key.lanes));
        (work, least) = if outer.is_empty() { (n, LEAST_ROW) } else { (ro, LEAST_ROW.div_ceil(n)) };
    } else if let Some(&(cols, cs)) = column {
        key.mode = Mode::Column;
        nk -= 1;
        list.pop();
        let strides = list.iter().chain(reduced).map(|k| &k.1);
        let bytes =
            if cs == 1 { widest(size as i64, cols, strides.copied(), &[src.ptr]) } else { size as i64 };
        let fold = if cs == 1 && list.is_empty() && reduced == [(total as i64, cols)] && !op.is_arg() {
            table::fold(total, cols as u64, size as u64, src.ptr)
        } else {
            1
        };
        if fold > 1 {
            return folded(key, fold, total, cols as u64);
        }
        key.across = bytes as u32;
        let width = bytes as u64 / size as u64;
        let vectors = cols as u64 / width;
        key.lanes = vectors.next_power_of_two().min(32) as u32;
        list.extend_from_slice(reduced);
        if table::few(p, total, outs / width) {
            key.mode = Mode::Few;
            let groups = (outs / width).div_ceil(u64::from(WG));
            return Walk { key, nk, list, n: total, ro: cols as u64, stride: cs, work: 1, least: 1, groups };
        }
        (n, ro, stride) = (total, cols as u64, cs);
        groups = vectors.div_ceil(u64::from(key.lanes)) * (outs / ro);
        (work, least) = (n, u64::from(WG / key.lanes) * 16);
    } else {
        key.lanes = table::general(p, total, outs, WG);
        list.extend_from_slice(reduced);
        (n, ro, stride) = (total, 1, 0);
        groups = outs.div_ceil(u64::from(WG / key.lanes));
        (work, least) = (n, LEAST_GENERAL);
    }
    Walk { key, nk, list, n, ro, stride, work, least, groups }
}

/// Columns of an array without gaps, `fold` of whose rows are one of whole vectors.
fn folded(mut key: ReduceKey, fold: u64, rows: u64, cols: u64) -> Walk {
    let (n, ro) = (rows.div_ceil(fold), cols * fold);
    key.across = 16;
    key.fold = true;
    let vectors = ro * key.src.size() as u64 / 16;
    key.lanes = table::lanes_across(vectors);
    let (groups, least) = (vectors.div_ceil(u64::from(key.lanes)), u64::from(WG / key.lanes) * 16);
    let list = vec![(n as i64, ro as i64)];
    key.mode = Mode::Column;
    Walk { key, nk: 0, list, n, ro, stride: 1, work: n, least, groups }
}

fn run(
    enc: &mut CommandEncoder,
    op: Op,
    src: &DeviceView,
    kept: Vec<(i64, i64)>,
    mut reduced: Vec<(i64, i64)>,
    dst: &DeviceView,
    divisor: f32,
) -> Result<()> {
    let outs = dst.size() as u64;
    if outs == 0 {
        return Ok(());
    }
    if outs > u64::from(u32::MAX) {
        bail!(Value, "[reduce] More than 4294967295 results are not supported, got {outs}.");
    }
    if reduced.is_empty() {
        reduced.push((1, 0));
    }
    let Walk { mut key, nk, list, n, ro, stride, work, least, groups } =
        walk(enc.device().profile(), op, src, &kept, &reduced, dst.dtype, outs);
    let nr = list.len() - nk;
    let mut splits = table::splits(enc.device().profile(), key.mode == Mode::Column, groups, work, least);
    if key.mode == Mode::Row && nr == 0 {
        splits = splits.max(work.div_ceil(1 << 30));
        if key.lanes == WG {
            splits = splits.max(table::long_row(enc.device().profile(), outs, work, key.vector()));
        }
    }
    let round = if key.mode == Mode::Row && nr > 0 { 1 } else { 256 };
    let chunk = work.div_ceil(splits).next_multiple_of(round).max(1);
    let splits = work.div_ceil(chunk).max(1);
    key.part_out = splits > 1 || key.fold;
    let slots = if key.mode == Mode::Column { groups } else { outs };
    let one_pass = key.part_out && !key.fold && !REDUCE_LAST.disabled();
    key.last = one_pass && slots <= COUNTERS as u64 / 16 && (key.mode == Mode::Column || key.lanes == WG);

    // Results of each row that several were made one.
    let fold = if key.fold { ro / outs } else { 1 };
    let bytes = outs * fold * splits * op.partial_size(src.dtype, dst.dtype);
    let target = if key.part_out { (enc.temp(bytes as usize)?, bytes) } else { dst.range() };
    let even = key.mode == Mode::Row && nr == 0;
    let params = if even { row_dims(enc, &list)? } else { dims(enc, &list)? };
    let counters = if key.last { (enc.counters(slots as usize)?, 4 * slots) } else { (0, 0) };
    let push = ReducePush {
        src: src.ptr,
        dst: target.0,
        dims: params,
        counters: counters.0,
        result: dst.ptr,
        n,
        ro,
        chunk,
        stride,
        outs: (outs * fold) as u32,
        splits: splits as u32,
        nk: nk as u32,
        nr: nr as u32,
        divisor,
        tail: (src.size() as u64 - (n - 1) * ro * u64::from(key.fold)) as u32,
    }
    .bytes();
    let count = match key.mode {
        Mode::Column | Mode::Few => groups * splits,
        Mode::Row | Mode::General => (outs * splits).div_ceil(u64::from(WG / key.lanes)),
    };
    let pipeline = enc.device().pipeline(&key)?;
    let size = grid(enc, count);
    if key.last {
        return enc.dispatch(&pipeline, &push, size, &[src.range()], &[target, counters, dst.range()]);
    }
    enc.dispatch(&pipeline, &push, size, &[src.range()], &[target])?;
    if !key.part_out {
        return Ok(());
    }

    merge(enc, key, target, outs, splits * fold, dst, divisor)
}

/// The push block of shaders/reduce/reduce.comp.
#[derive(Default)]
struct ReducePush {
    src: u64,
    dst: u64,
    dims: u64,
    /// Where the last workgroup joins: counters, and the result.
    counters: u64,
    result: u64,
    n: u64,
    ro: u64,
    chunk: u64,
    stride: i64,
    outs: u32,
    splits: u32,
    nk: u32,
    nr: u32,
    divisor: f32,
    /// Elements of the last row of several.
    tail: u32,
}

impl ReducePush {
    fn bytes(&self) -> Vec<u8> {
        let &ReducePush { src, dst, dims, counters, result, n, ro, chunk, .. } = self;
        Push::default().u64s(&[src, dst, dims, counters, result, n, ro, chunk]).i64s(&[self.stride]).u32s(&[
            self.outs,
            self.splits,
            self.nk,
            self.nr,
            self.divisor.to_bits(),
            self.tail,
        ])
    }
}

/// Second pass: row mode left (outs, splits) in `parts`, column mode (splits, outs).
fn merge(
    enc: &mut CommandEncoder,
    key: ReduceKey,
    parts: (u64, u64),
    outs: u64,
    splits: u64,
    dst: &DeviceView,
    divisor: f32,
) -> Result<()> {
    let rows = key.mode != Mode::Column;
    let lanes =
        if rows { splits.next_power_of_two().min(u64::from(WG)) } else { outs.next_power_of_two().min(32) }
            as u32;
    let mode = if rows { Mode::Row } else { Mode::Column };
    let key = ReduceKey { mode, lanes, part_in: true, ..ReduceKey::plain(key.op, key.src, key.dst) };
    let (n, ro, nk, list) = if rows {
        (splits, 1, 1, [(outs as i64, splits as i64)])
    } else {
        (splits, outs, 0, [(splits as i64, outs as i64)])
    };
    let params = if rows { row_dims(enc, &list)? } else { dims(enc, &list)? };
    let push = ReducePush {
        src: parts.0,
        dst: dst.ptr,
        dims: params,
        n,
        ro,
        chunk: n.max(1),
        stride: 1,
        outs: outs as u32,
        splits: 1,
        nk,
        nr: 1 - nk,
        divisor,
        ..ReducePush::default()
    }
    .bytes();
    let per = u64::from(if rows { WG / lanes } else { lanes });
    let pipeline = enc.device().pipeline(&key)?;
    let size = grid(enc, outs.div_ceil(per));
    enc.dispatch(&pipeline, &push, size, &[parts], &[dst.range()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::shader::compiler;

    #[test]
    fn every_variant_compiles() {
        let ops = ReduceOp::EVERY.map(Op::Reduce).into_iter().chain(ArgReduceOp::EVERY.map(Op::Arg));
        let ops = ops.chain(Statistic::EVERY.map(Op::Statistic));
        let with = Features {
            subgroup_basic: true,
            subgroup_shuffle: true,
            subgroup_size: 32,
            ..Default::default()
        };
        for op in ops {
            let statistic = matches!(op, Op::Statistic(_));
            let taken = |d: &Dtype| *d != Dtype::F64 && !(statistic && d.size() == 8);
            for src in Dtype::ALL.into_iter().filter(taken) {
                let dst = match op {
                    Op::Arg(_) => Dtype::U32,
                    Op::Statistic(_) => src.at_least_float(),
                    Op::Reduce(op) => op.result(src),
                };
                let key = |mode, wide: bool, part_in, part_out: bool| ReduceKey {
                    across: if wide { 16 } else { 0 },
                    odd: wide && !part_out,
                    step: if wide && part_out && src.size() <= 4 { 2 } else { 1 },
                    last: part_out && wide,
                    mode,
                    wide,
                    part_in,
                    part_out,
                    lanes: 32,
                    ..ReduceKey::plain(op, src, dst)
                };
                for (key, f) in [
                    (key(Mode::Row, true, false, true), &with),
                    (key(Mode::Row, true, false, false), &with),
                    (key(Mode::Row, false, true, false), &Features::default()),
                    (key(Mode::Few, true, false, false), &with),
                    (key(Mode::Few, false, false, false), &with),
                    (key(Mode::General, false, false, false), &with),
                    (key(Mode::Column, true, false, true), &with),
                    (key(Mode::Column, false, true, false), &with),
                ] {
                    compiler::spirv(&key.name(), &key.module(f)).unwrap();
                }
            }
        }
    }
}

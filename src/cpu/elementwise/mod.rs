//! Runs elementwise programs on the host. Contiguous operands are used in place, others are gathered into
//! blocks that stay in the first-level cache; an expression is computed block by block, instruction by
//! instruction or several of them at a time (`chained`), and large arrays are split over the thread pool. Called by `ops`.

mod chained;
pub(super) mod convert;
mod slots;
pub mod small;
mod vectors;

use std::cell::RefCell;
use std::ptr::{null, null_mut};

use smallvec::SmallVec;

use self::chained::{Actions, Bound, Of, Unit, units};
use self::convert::{cast_loop, half_load, half_store, put_f64};
use self::slots::{Place, Slot, Slots};
use super::runtime::pool::parallel_chunks;
use super::runtime::strided::{Walk, splat, transpose_tile};
use crate::bail;
use crate::core::{Dtype, HostBlock, Result, Strides, layout};
use crate::kernels::elementwise::loops::BlockFn;
use crate::kernels::{HostView, Inst, Program};
use crate::memory::host_block;

/// Most elements of a block.
const BLOCK: usize = 1024;
/// Elements of a block when operands are used in place.
const DIRECT: usize = 8192;
/// Below this many elements one thread does all.
const PARALLEL: usize = 1 << 16;

/// How an operand is reached in a block.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// One element for all.
    Scalar,
    /// Row-major without gaps.
    Linear,
    /// Contiguous along the innermost axis, and blocks stay inside rows.
    Row,
    /// Anything else.
    Strided,
}

struct Operand {
    ptr: *mut u8,
    size: usize,
    strides: Strides,
    mode: Mode,
    half: Option<BlockFn>,
}

struct Plan {
    shape: layout::Shape,
    inputs: SmallVec<[Operand; 4]>,
    outputs: SmallVec<[Operand; 1]>,
    steps: SmallVec<[BlockFn; 1]>,
    units: SmallVec<[Unit; 1]>,
    slots: Slots,
    /// Register of each output.
    stored: SmallVec<[u8; 1]>,
    /// Output that a register is written to directly.
    direct: SmallVec<[Option<u8>; 4]>,
    /// Registers that are rounded to a half format between instructions.
    round: SmallVec<[Option<(BlockFn, BlockFn)>; 4]>,
    block: usize,
    /// Copies of a constant: a block of them where a loop reads it.
    copies: usize,
    /// Blocks per row, and rows; one row where blocks may cross rows.
    row: usize,
    rows: usize,
}

// SAFETY: a plan describes memory that the caller of `run` keeps valid; threads write disjoint blocks.
unsafe impl Sync for Plan {}

/// Where the operands, results and actions of a block are.
#[derive(Default)]
struct Found {
    ins: SmallVec<[*const u8; 4]>,
    regs: SmallVec<[*mut u8; 4]>,
    bound: Vec<Bound>,
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u8; 64]);

thread_local! {
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Copies an array to one of its shape, which may have another dtype.
pub fn copy(from: &HostView, to: &HostView) -> Result<()> {
    run(&Program::cast(from.dtype, to.dtype), std::slice::from_ref(from), std::slice::from_ref(to))
}

/// A contiguous copy, and its memory.
pub fn dense(v: &HostView) -> Result<(HostView, HostBlock)> {
    let block = host_block((v.size() * v.dtype.size()).max(64))?;
    let dense = HostView { ptr: block.ptr(), strides: layout::row_major(&v.shape), ..v.clone() };
    copy(v, &dense)?;
    Ok((dense, block))
}

/// Computes `p` on inputs that are broadcast to the outputs' shape. An output may be the same memory as an
/// input of the same layout.
pub fn run(p: &Program, inputs: &[HostView], outputs: &[HostView]) -> Result<()> {
    if outputs[0].size() == 0 {
        return Ok(());
    }
    if p.is_cast() && transposed(p, &inputs[0], &outputs[0]) {
        return Ok(());
    }
    Plan::new(p, inputs, outputs)?.run();
    Ok(())
}

/// Bytes of a register element: half formats are held as float32.
pub(super) fn reg_size(d: Dtype) -> usize {
    if matches!(d, Dtype::F16 | Dtype::BF16) { 4 } else { d.size() }
}

unsafe fn copy_words<const SIZE: usize>(n: usize, a: *const u8, _: *const u8, _: *const u8, o: *mut u8) {
    // SAFETY: the contract of `BlockFn`.
    unsafe { std::ptr::copy_nonoverlapping(a, o, n * SIZE) }
}

fn copy_loop(size: usize) -> BlockFn {
    match size {
        1 => copy_words::<1>,
        2 => copy_words::<2>,
        4 => copy_words::<4>,
        _ => copy_words::<8>,
    }
}

/// The loop of a single conversion that moves stored bits; a half-precision cast is its load or its store.
pub(super) fn stored_cast(from: Dtype, to: Dtype) -> Option<BlockFn> {
    match (from, to) {
        (a, b) if a == b => Some(copy_loop(a.size())),
        (a, Dtype::F32) => half_load(a),
        (Dtype::F32, b) => half_store(b),
        _ => None,
    }
}

/// The loop of an instruction over registers, from the dtype of computation to that of the result.
pub(super) fn kernel(inst: Inst, dtype: Dtype, to: Dtype) -> Result<BlockFn> {
    match inst {
        Inst::Cast => Ok(cast_loop(dtype, to)),
        Inst::Op(op) => match op.row().cpu.kern(dtype) {
            Some(k) => Ok(k.get()),
            None => bail!(Type, "[{}] Not supported for {dtype}.", op.row().name),
        },
    }
}

/// The output that a register is written to directly. What has the memory of an input is not, unless a run ends with it:
/// whatever that reads of an element was read by then.
fn written(p: &Program, ins: &[Operand], outs: &[Operand], runs: bool) -> SmallVec<[Option<u8>; 4]> {
    let mut direct: SmallVec<[Option<u8>; 4]> = SmallVec::from_elem(None, p.instrs.len());
    let last = runs && p.outputs[..] == [p.instrs.len() as u8 - 1];
    for (o, (&reg, out)) in p.outputs.iter().zip(outs).enumerate() {
        let aliased = ins.iter().any(|i| i.ptr == out.ptr && !(last && i.mode == out.mode));
        let in_place = matches!(out.mode, Mode::Linear | Mode::Row) && out.half.is_none() && !aliased;
        if in_place && direct[reg as usize].is_none() {
            direct[reg as usize] = Some(o as u8);
        }
    }
    direct
}

impl Plan {
    fn new(p: &Program, inputs: &[HostView], outputs: &[HostView]) -> Result<Plan> {
        let all: SmallVec<[&HostView; 8]> = inputs.iter().chain(outputs).collect();
        let strides: SmallVec<[&[i64]; 8]> = all.iter().map(|v| v.strides.as_slice()).collect();
        let (shape, strides) = layout::collapse(&outputs[0].shape, &strides);
        let inner = shape.last().map_or(1, |&d| d as usize);
        let total = layout::size_of(&shape);
        let by_row = shape.len() > 1 && inner >= 128;
        let row_major = layout::row_major(&shape);
        let raw = if p.is_cast() { stored_cast(p.inputs[0], p.instrs[0].dtype) } else { None };
        let operand = |v: &HostView, s: &Strides, convert: fn(Dtype) -> Option<BlockFn>| Operand {
            ptr: v.ptr,
            size: v.dtype.size(),
            mode: if *s == row_major {
                Mode::Linear
            } else if s.iter().all(|&s| s == 0) {
                Mode::Scalar
            } else if by_row && s.last() == Some(&1) {
                Mode::Row
            } else {
                Mode::Strided
            },
            strides: s.clone(),
            half: if raw.is_some() { None } else { convert(v.dtype) },
        };
        let ins: SmallVec<[Operand; 4]> =
            inputs.iter().zip(&strides).map(|(v, s)| operand(v, s, half_load)).collect();
        let outs: SmallVec<[Operand; 1]> =
            outputs.iter().zip(&strides[inputs.len()..]).map(|(v, s)| operand(v, s, half_store)).collect();
        let mut steps = SmallVec::new();
        let mut round = SmallVec::new();
        for i in &p.instrs {
            let dtype = p.compute_dtype(i);
            let kernel = match (i.op, raw) {
                (Inst::Cast, Some(k)) => k,
                _ => kernel(i.op, dtype, i.dtype)?,
            };
            steps.push(kernel);
            // Results in half precision are rounded where later instructions read them.
            let inexact = p.instrs.len() > 1;
            round.push(match (half_store(i.dtype), half_load(i.dtype)) {
                (Some(s), Some(l)) if inexact => Some((s, l)),
                _ => None,
            });
        }
        let (units, inside) = units(p);
        let runs = matches!(units[..], [Unit::Run(..)]);
        let direct = written(p, &ins, &outs, runs);
        let in_place = steps.len() == 1
            && direct[0].is_some()
            && ins.iter().all(|i| matches!(i.mode, Mode::Linear | Mode::Row) && i.half.is_none());
        let (row, rows) = if by_row { (inner, total / inner) } else { (total, 1) };
        let gathered: SmallVec<[bool; 4]> =
            ins.iter().map(|i| matches!(i.mode, Mode::Scalar | Mode::Strided)).collect();
        let converted: SmallVec<[bool; 4]> = ins.iter().map(|i| i.half.is_some()).collect();
        let nowhere: SmallVec<[bool; 4]> = direct.iter().zip(inside).map(|(d, i)| d.is_some() || i).collect();
        let slots = Slots::new(p, &gathered, &converted, &nowhere);
        // One run from operands where they lie to results where they belong: nothing else wants the cache.
        let ready = ins.iter().all(|i| i.mode != Mode::Strided && i.half.is_none());
        let straight = runs && ready && p.outputs.len() == direct.iter().flatten().count();
        let block = if in_place || straight { DIRECT } else { slots.block(BLOCK) };
        Ok(Plan {
            shape,
            inputs: ins,
            outputs: outs,
            steps,
            units,
            slots,
            stored: p.outputs.clone(),
            direct,
            round,
            block,
            copies: if runs { 1 } else { block.min(row) },
            row,
            rows,
        })
    }

    fn run(&self) {
        let per_row = self.row.div_ceil(self.block);
        let blocks = per_row * self.rows;
        let grain = PARALLEL / 2 / self.block.min(self.row);
        parallel_chunks(blocks, grain, |r| self.blocks(r.start, r.end));
    }

    fn blocks(&self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let slot = (self.block.min(self.row) * self.slots.width).next_multiple_of(64);
        let slots = self.slots.count;
        let mut scratch = SCRATCH.with(|s| std::mem::take(&mut *s.borrow_mut()));
        if scratch.len() * 64 < slots * slot {
            scratch.resize((slots * slot).div_ceil(64), Line([0; 64]));
        }
        let base = scratch.as_mut_ptr().cast::<u8>();
        let per_row = self.row.div_ceil(self.block);
        // SAFETY: slots are disjoint parts of `scratch`; operands are valid by the contract of `run`.
        unsafe {
            self.fill_constants(base, slot);
            let mut found = Found::default();
            for b in from..to {
                let at = (b % per_row) * self.block;
                let start = (b / per_row) * self.row + at;
                self.one_block(start, self.block.min(self.row - at), base, slot, &mut found);
            }
        }
        SCRATCH.with(|s| *s.borrow_mut() = scratch);
    }

    unsafe fn fill_constants(&self, base: *mut u8, slot: usize) {
        let n = self.copies;
        let place = |s: Slot| s.map(|s| base.wrapping_add(usize::from(s) * slot));
        // SAFETY: as in `blocks`.
        unsafe {
            for (i, op) in self.inputs.iter().enumerate().filter(|(_, o)| o.mode == Mode::Scalar) {
                let Some(raw) = place(self.slots.raw[i]) else { continue };
                splat(op.size, op.ptr, n, raw);
                if let (Some(convert), Some(to)) = (op.half, place(self.slots.converted[i])) {
                    convert(n, raw, null(), null(), to);
                }
            }
            for &(bits, d, at) in &self.slots.constants {
                let mut word = [bits, 0];
                let one = word.as_mut_ptr().cast::<u8>();
                if let Some(load) = half_load(d) {
                    load(1, one, null(), null(), one.add(8));
                    std::ptr::copy(one.add(8), one, 8);
                }
                splat(reg_size(d), one, n, base.add(usize::from(at) * slot));
            }
        }
    }

    unsafe fn one_block(&self, start: usize, n: usize, base: *mut u8, slot: usize, found: &mut Found) {
        let walk = |op: &Operand| -> (*mut u8, usize) { (op.ptr, op.size) };
        // What has no slot is not asked for.
        let place = |s: Slot| base.wrapping_add(usize::from(s.unwrap_or(0)) * slot);
        // SAFETY: as in `blocks`.
        unsafe {
            let Found { ins, regs, bound } = found;
            ins.clear();
            for (i, op) in self.inputs.iter().enumerate() {
                let raw = place(self.slots.raw[i]);
                let (ptr, size) = walk(op);
                let walk = Walk { ptr, size, shape: &self.shape, strides: &op.strides };
                let mut at: *const u8 = match op.mode {
                    Mode::Scalar => raw,
                    Mode::Linear => ptr.add(start * size),
                    Mode::Row => ptr.offset(walk.offset(start) as isize * size as isize),
                    Mode::Strided => {
                        walk.gather(start, n, raw);
                        raw
                    }
                };
                if let Some(convert) = op.half {
                    let wide = place(self.slots.converted[i]);
                    if op.mode != Mode::Scalar {
                        convert(n, at, null(), null(), wide);
                    }
                    at = wide;
                }
                ins.push(at);
            }
            let target = |op: &Operand| -> *mut u8 {
                match op.mode {
                    Mode::Linear => op.ptr.add(start * op.size),
                    Mode::Row => {
                        let walk =
                            Walk { ptr: op.ptr, size: op.size, shape: &self.shape, strides: &op.strides };
                        op.ptr.offset(walk.offset(start) as isize * op.size as isize)
                    }
                    _ => null_mut(),
                }
            };
            regs.clear();
            for s in 0..self.steps.len() {
                regs.push(match self.direct[s] {
                    Some(o) => target(&self.outputs[o as usize]),
                    None => place(self.slots.registers[s]),
                });
            }
            for unit in &self.units {
                match unit {
                    Unit::Step(s) => self.one_step(*s, n, ins, regs, place),
                    Unit::Run(actions, _) => {
                        self.bind(actions, ins, regs, bound, place);
                        chained::run(bound, n);
                    }
                }
            }
            for (o, (op, &reg)) in self.outputs.iter().zip(&self.stored).enumerate() {
                if self.direct[reg as usize] == Some(o as u8) {
                    continue;
                }
                let mut src: *const u8 = regs[reg as usize];
                let to = target(op);
                if let Some(store) = op.half {
                    let narrow = if to.is_null() { place(Some(self.slots.narrow)) } else { to };
                    store(n, src, null(), null(), narrow);
                    src = narrow;
                } else if !to.is_null() {
                    std::ptr::copy_nonoverlapping(src, to, n * op.size);
                }
                if to.is_null() {
                    let walk = Walk { ptr: op.ptr, size: op.size, shape: &self.shape, strides: &op.strides };
                    walk.scatter(start, n, src);
                }
            }
        }
    }

    /// Where an argument of a step is, and whether it is a block of elements.
    fn argument(
        &self,
        at: Place,
        ins: &[*const u8],
        regs: &[*mut u8],
        place: impl Fn(Slot) -> *mut u8,
    ) -> (*const u8, bool) {
        match at {
            Place::Input(i) => (ins[usize::from(i)], self.inputs[usize::from(i)].mode != Mode::Scalar),
            Place::Register(r) => (regs[usize::from(r)], true),
            Place::Slot(at) => (place(Some(at)), false),
        }
    }

    /// The loop of a step. SAFETY: as in `blocks`.
    unsafe fn one_step(
        &self,
        s: usize,
        n: usize,
        ins: &[*const u8],
        regs: &[*mut u8],
        place: impl Fn(Slot) -> *mut u8,
    ) {
        let mut arg: [*const u8; 3] = [null(); 3];
        for (arg, &at) in arg.iter_mut().zip(&self.slots.args[s]) {
            *arg = self.argument(at, ins, regs, &place).0;
        }
        // SAFETY: the caller's.
        unsafe {
            self.steps[s](n, arg[0], arg[1], arg[2], regs[s]);
            if let Some((store, load)) = self.round[s] {
                let spare = place(Some(self.slots.spare));
                store(n, regs[s], null(), null(), spare);
                load(n, spare, null(), null(), regs[s]);
            }
        }
    }

    /// Finds the operands of a run.
    fn bind(
        &self,
        actions: &Actions,
        ins: &[*const u8],
        regs: &[*mut u8],
        bound: &mut Vec<Bound>,
        place: impl Fn(Slot) -> *mut u8,
    ) {
        bound.clear();
        let find = |of: Of| match of {
            Of::Arg(s, k) => {
                self.argument(self.slots.args[usize::from(s)][usize::from(k)], ins, regs, &place)
            }
            Of::Result(s) => (regs[usize::from(s)].cast_const(), true),
            // Some slot: what is there does not matter.
            Of::Nothing => (place(Some(0)).cast_const(), false),
        };
        for &(act, of, constant) in actions {
            let (at, moves) = find(of);
            let constant = find(constant).0.cast();
            bound.push(Bound { act, at: at.cast_mut().cast(), moves, constant });
        }
    }
}

/// Copies or casts a transposed input tile by tile; false where the layouts are not of that kind.
fn transposed(p: &Program, src: &HostView, dst: &HostView) -> bool {
    let (shape, st) = layout::collapse(&dst.shape, &[&src.strides, &dst.strides]);
    let Some(last) = shape.len().checked_sub(1).filter(|&l| l > 0) else {
        return false;
    };
    let (from, to) = (src.dtype, dst.dtype);
    let half = |d| matches!(d, Dtype::F16 | Dtype::BF16);
    let Some(ax) = (0..last).find(|&a| st[0][a] == 1 && shape[a] >= 8) else {
        return false;
    };
    if st[1][last] != 1
        || st[0][last] == 0
        || shape[last] < 8
        || src.ptr == dst.ptr
        || (half(from) && half(to) && from != to)
    {
        return false;
    }
    let convert = match (from, to) {
        (a, b) if a == b => copy_loop(a.size()),
        (a, Dtype::F32) if half(a) => half_load(a).unwrap_or(copy_loop(2)),
        (Dtype::F32, b) if half(b) => half_store(b).unwrap_or(copy_loop(2)),
        (a, b) if half(a) || half(b) => return false,
        (a, b) => cast_loop(a, b),
    };
    debug_assert_eq!(p.inputs[0], from);
    const TILE: usize = 64;
    let (rows, cols) = (shape[ax] as usize, shape[last] as usize);
    let (row_tiles, col_tiles) = (rows.div_ceil(TILE), cols.div_ceil(TILE));
    let mut outer: layout::Shape = shape.clone();
    (outer[ax], outer[last]) = (1, 1);
    let batches = layout::size_of(&outer);
    let view = (src.ptr as usize, dst.ptr as usize);
    let strip = |index: usize| {
        let (batch, rt) = (index / row_tiles, index % row_tiles);
        let at = |base: usize, size: usize, s: &Strides| {
            Walk { ptr: base as *mut u8, size, shape: &outer, strides: s }.offset(batch)
        };
        let (s0, d0) = (at(view.0, from.size(), &st[0]), at(view.1, to.size(), &st[1]));
        let r0 = rt * TILE;
        let height = TILE.min(rows - r0);
        let mut tile = [Line([0; 64]); TILE * TILE * 8 / 64];
        let tile = tile.as_mut_ptr().cast::<u8>();
        for c0 in (0..col_tiles).map(|t| t * TILE) {
            let width = TILE.min(cols - c0);
            // SAFETY: rows r0..r0+height and columns c0..c0+width lie inside both views.
            unsafe {
                let s = s0 + r0 as i64 + c0 as i64 * st[0][last];
                let s = (view.0 as *const u8).offset(s as isize * from.size() as isize);
                transpose_tile(from.size(), s, st[0][last], height, width, tile);
                for r in 0..height {
                    let d = d0 + (r0 + r) as i64 * st[1][ax] + c0 as i64;
                    let d = (view.1 as *mut u8).offset(d as isize * to.size() as isize);
                    convert(width, tile.add(r * width * from.size()), null(), null(), d);
                }
            }
        }
    };
    let grain = PARALLEL / 2 / (TILE.min(rows) * cols);
    parallel_chunks(batches * row_tiles, grain, |r| r.for_each(strip));
    true
}

/// Element `i` of `dst` becomes `T(start) + i * T(step)` in `dst`'s dtype `T`. `dst` is contiguous.
pub fn arange(start: f64, step: f64, dst: &HostView) -> Result<()> {
    macro_rules! ints {
        ($t:ty) => {{
            let (a, d) = (start as i64 as $t, step as i64 as $t);
            for i in 0..dst.size() {
                // SAFETY: `dst` holds that many elements.
                unsafe { *dst.as_ptr::<$t>().add(i) = a.wrapping_add((i as $t).wrapping_mul(d)) }
            }
        }};
    }
    match dst.dtype {
        Dtype::U8 => ints!(u8),
        Dtype::U16 => ints!(u16),
        Dtype::U32 => ints!(u32),
        Dtype::U64 => ints!(u64),
        Dtype::I8 => ints!(i8),
        Dtype::I16 => ints!(i16),
        Dtype::I32 => ints!(i32),
        Dtype::I64 => ints!(i64),
        Dtype::F32 => {
            let (a, d) = (start as f32, step as f32);
            for i in 0..dst.size() {
                // SAFETY: as above.
                unsafe { *dst.as_ptr::<f32>().add(i) = a + i as f32 * d }
            }
        }
        Dtype::F64 => {
            for i in 0..dst.size() {
                // SAFETY: as above.
                unsafe { *dst.as_ptr::<f64>().add(i) = start + i as f64 * step }
            }
        }
        d @ (Dtype::F16 | Dtype::BF16) => {
            let round = |v: f64| match d {
                Dtype::F16 => half::f16::from_f32_const(v as f32).to_f32_const(),
                _ => half::bf16::from_f32(v as f32).to_f32(),
            };
            let (a, s) = (round(start), round(step));
            for i in 0..dst.size() {
                let v = f64::from(a + round(f64::from(round(i as f64) * s)));
                // SAFETY: as above.
                put_f64(v, d, unsafe { dst.ptr.add(2 * i) });
            }
        }
        d => bail!(Type, "[arange] Not supported for {d}."),
    }
    Ok(())
}

#[cfg(test)]
mod tests;

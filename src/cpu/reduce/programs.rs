//! Runs programs over rows on the host. Short rows are computed many at a time, rows that fit into the cache one by
//! one, instruction by instruction; longer ones are walked in blocks once for each phase. Rows are shared by the
//! thread pool. Sums join in the order of `cpu::reduce`.

use std::cell::RefCell;
use std::ptr::null;

use smallvec::SmallVec;

use super::fold::{Cascade, Fold, Max, Min, Prod, Sum};
use super::fold_block;
use crate::bail;
use crate::core::layout::{row_major, size_of};
use crate::core::{Dtype, Result, Shape, Strides};
use crate::cpu::elementwise::convert::{cast_loop, half_load, half_store};
use crate::cpu::runtime::pool::parallel_chunks;
use crate::cpu::runtime::simd::multiversion;
use crate::cpu::runtime::strided::{Walk, splat};
use crate::kernels::elementwise::loops::BlockFn;
use crate::kernels::reduce::row_program::{RowInst, RowProgram};
use crate::kernels::{HostView, Inst, ReduceOp, Src};

/// Elements that are computed at once where rows are shorter.
const BLOCK: usize = 2048;
/// Elements of the longest row that is computed as a whole.
const WHOLE: usize = 8192;
/// Elements of a block of longer rows, as folds take them.
const PART: usize = 1024;
/// Elements for which another thread pays.
const GRAIN: usize = 1 << 15;

/// Folds `rows` rows of `n` elements each.
type FoldFn = unsafe fn(src: *const u8, n: usize, rows: usize, dst: *mut u8);
/// Joins two results of folds: `a = join(a, b)`.
type JoinFn = unsafe fn(parts: &[[u8; 8]], dst: *mut u8);

multiversion! {
    unsafe fn fold_rows<F: Fold>(src: *const u8, n: usize, rows: usize, dst: *mut u8) {
        for r in 0..rows {
            // SAFETY: the caller passes that many rows, and a result for each.
            unsafe {
                let row = src.cast::<F::S>().add(r * n);
                let mut parts = Cascade::<F>::new();
                let mut i = 0;
                while i < n {
                    let count = PART.min(n - i);
                    parts.push(fold_block::<F>(row.add(i), count, 1));
                    i += count;
                }
                *dst.cast::<F::D>().add(r) = F::finish(parts.result());
            }
        }
    }
}

unsafe fn join_parts<F: Fold<S = <F as Fold>::A, D = <F as Fold>::A>>(parts: &[[u8; 8]], dst: *mut u8) {
    let mut sums = Cascade::<F>::new();
    for p in parts {
        // SAFETY: each part holds a result of the fold.
        sums.push(unsafe { p.as_ptr().cast::<F::A>().read_unaligned() });
    }
    // SAFETY: the caller's place for one result.
    unsafe { *dst.cast::<F::A>() = sums.result() };
}

fn fold_fns(op: ReduceOp, dtype: Dtype) -> Result<(FoldFn, JoinFn)> {
    macro_rules! of {
        ($t:ty) => {
            match op {
                ReduceOp::Sum => (fold_rows::<Sum<$t, $t, $t>>, join_parts::<Sum<$t, $t, $t>>),
                ReduceOp::Prod => (fold_rows::<Prod<$t, $t, $t>>, join_parts::<Prod<$t, $t, $t>>),
                ReduceOp::Min => (fold_rows::<Min<$t, $t>>, join_parts::<Min<$t, $t>>),
                ReduceOp::Max => (fold_rows::<Max<$t, $t>>, join_parts::<Max<$t, $t>>),
                ReduceOp::All | ReduceOp::Any => {
                    bail!(Runtime, "[rows] Rows are not folded by {}.", op.row().name)
                }
            }
        };
    }
    let fns: (FoldFn, JoinFn) = match dtype {
        Dtype::F16 | Dtype::BF16 | Dtype::F32 => of!(f32),
        Dtype::F64 => of!(f64),
        d => bail!(Type, "[rows] Rows of {d} are not folded."),
    };
    Ok(fns)
}

/// Bytes of a register element: half formats are held as float32.
fn reg_size(d: Dtype) -> usize {
    if matches!(d, Dtype::F16 | Dtype::BF16) { 4 } else { d.size() }
}

enum Kernel {
    Each(BlockFn),
    Fold(FoldFn, JoinFn),
}

struct Step {
    kernel: Kernel,
    args: SmallVec<[Src; 3]>,
    row: bool,
    phase: u8,
    /// Store and load of a half format, in which the result is rounded.
    round: Option<(BlockFn, BlockFn)>,
}

struct Input {
    ptr: *mut u8,
    size: usize,
    strides: Strides,
    row: bool,
    /// Elements lie as those of the whole shape.
    dense: bool,
    load: Option<BlockFn>,
}

struct Output {
    ptr: *mut u8,
    size: usize,
    reg: usize,
    row: bool,
    store: Option<BlockFn>,
}

struct Plan<'a> {
    p: &'a RowProgram,
    /// Collapsed axes of the rows, then the row.
    shape: Shape,
    n: usize,
    rows: usize,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    steps: Vec<Step>,
    phases: u8,
    /// Which steps a phase of a long row computes.
    needs: Vec<Vec<bool>>,
}

// SAFETY: a plan describes memory that the caller of `run` keeps valid; threads write disjoint rows.
unsafe impl Sync for Plan<'_> {}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u8; 64]);

thread_local! {
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Computes `p` on inputs that are broadcast to `shape`, the rows of which are its last axis; what has one number for
/// a row does not move along that. Outputs are row-major and no input's memory.
pub fn run(p: &RowProgram, shape: &[i64], inputs: &[HostView], outputs: &[HostView]) -> Result<()> {
    if size_of(shape) == 0 {
        return Ok(());
    }
    let plan = Plan::new(p, shape, inputs, outputs)?;
    let per = if plan.n <= WHOLE { (BLOCK / plan.n).max(1) } else { 1 };
    let groups = plan.rows.div_ceil(per);
    parallel_chunks(groups, GRAIN.div_ceil(per * plan.n), |r| plan.groups(r.start, r.end, per));
    Ok(())
}

impl<'a> Plan<'a> {
    fn new(p: &'a RowProgram, shape: &[i64], inputs: &[HostView], outputs: &[HostView]) -> Result<Plan<'a>> {
        let last = shape.len() - 1;
        let n = shape[last] as usize;
        let strides: SmallVec<[&[i64]; 6]> = inputs.iter().map(|v| &v.strides[..last]).collect();
        let (mut axes, mut kept) = crate::core::layout::collapse(&shape[..last], &strides);
        axes.push(n as i64);
        kept.iter_mut().zip(inputs).for_each(|(s, v)| s.push(v.strides[last]));
        let dense = row_major(&axes);
        let inputs = inputs.iter().zip(&kept).zip(&p.inputs).map(|((v, s), &(d, row))| Input {
            ptr: v.ptr,
            size: d.size(),
            strides: s.clone(),
            row,
            dense: !row && *s == dense,
            load: half_load(d),
        });
        let outputs = outputs.iter().zip(&p.outputs).map(|(v, &r)| Output {
            ptr: v.ptr,
            size: v.dtype.size(),
            reg: r as usize,
            row: p.instrs[r as usize].row,
            store: half_store(v.dtype),
        });
        let phases = p.phases();
        let mut steps = Vec::new();
        for (r, i) in p.instrs.iter().enumerate() {
            let compute = p.compute_dtype(i);
            let kernel = match i.op {
                RowInst::Fold(op) => {
                    let (fold, join) = fold_fns(op, compute)?;
                    Kernel::Fold(fold, join)
                }
                RowInst::Each(Inst::Cast) => Kernel::Each(cast_loop(compute, i.dtype)),
                RowInst::Each(Inst::Op(op)) => match op.row().cpu.kern(compute) {
                    Some(k) => Kernel::Each(k.get()),
                    None => bail!(Type, "[{}] Not supported for {compute}.", op.row().name),
                },
            };
            steps.push(Step {
                kernel,
                args: i.args.clone(),
                row: i.row,
                phase: p.runs_in(r, &phases),
                round: half_store(i.dtype).zip(half_load(i.dtype)),
            });
        }
        let count = phases.iter().copied().max().unwrap_or(0) + 1;
        Ok(Plan {
            p,
            rows: size_of(&axes[..axes.len() - 1]),
            shape: axes,
            n,
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            steps,
            phases: count,
            needs: (0..count).map(|k| p.needs(k, &phases)).collect(),
        })
    }

    fn groups(&self, from: usize, to: usize, per: usize) {
        if from == to {
            return;
        }
        let elements = if self.n <= WHOLE { per * self.n } else { PART };
        // Slots: two for each input (as it is, and converted), one for each step, three for constants or numbers of
        // rows spread over elements for each step, one spare; each of elements of eight bytes at the most.
        let largest = self.p.dtypes().map(reg_size).max().unwrap_or(4);
        let slot = (elements.max(per) * largest).next_multiple_of(64);
        let slots = 2 * self.inputs.len() + 4 * self.steps.len() + 1;
        let mut scratch = SCRATCH.with(|s| std::mem::take(&mut *s.borrow_mut()));
        if scratch.len() * 64 < slots * slot {
            scratch.resize(slots * slot / 64, Line([0; 64]));
        }
        let mut b = Bench {
            plan: self,
            base: scratch.as_mut_ptr().cast(),
            slot,
            elements,
            registers: vec![std::ptr::null_mut(); self.steps.len()],
        };
        // SAFETY: slots are disjoint parts of `scratch`; operands are valid by the contract of `run`.
        unsafe {
            b.constants();
            for g in from..to {
                let first = g * per;
                let rows = per.min(self.rows - first);
                if self.n <= WHOLE { b.whole(first, rows) } else { b.long(first) }
            }
        }
        SCRATCH.with(|s| *s.borrow_mut() = scratch);
    }
}

/// Where one thread computes.
struct Bench<'a> {
    plan: &'a Plan<'a>,
    base: *mut u8,
    slot: usize,
    elements: usize,
    /// Where each step puts its result: its slot, or the output that it is.
    registers: Vec<*mut u8>,
}

impl Bench<'_> {
    fn input(&self, k: usize, converted: bool) -> *mut u8 {
        // SAFETY: the slot exists.
        unsafe { self.base.add((2 * k + usize::from(converted)) * self.slot) }
    }

    fn register(&self, r: usize) -> *mut u8 {
        self.registers[r]
    }

    /// Chooses where results go for elements from position `element` on, and rows from `row` on.
    unsafe fn place(&mut self, element: usize, row: usize) {
        for r in 0..self.registers.len() {
            // SAFETY: the slot exists.
            self.registers[r] = unsafe { self.base.add((2 * self.plan.inputs.len() + r) * self.slot) };
        }
        for o in self.plan.outputs.iter().filter(|o| o.store.is_none()) {
            let start = if o.row { row } else { element };
            // SAFETY: outputs are dense and hold these positions.
            self.registers[o.reg] = unsafe { o.ptr.add(start * o.size) };
        }
    }

    /// Operand `arg` of a step where it is not read in place.
    fn operand(&self, r: usize, arg: usize) -> *mut u8 {
        let at = 2 * self.plan.inputs.len() + self.plan.steps.len() + 3 * r + arg;
        // SAFETY: the slot exists.
        unsafe { self.base.add(at * self.slot) }
    }

    fn spare(&self) -> *mut u8 {
        let at = 2 * self.plan.inputs.len() + 4 * self.plan.steps.len();
        // SAFETY: the slot exists.
        unsafe { self.base.add(at * self.slot) }
    }

    unsafe fn constants(&self) {
        for (r, step) in self.plan.steps.iter().enumerate() {
            for (k, arg) in step.args.iter().enumerate() {
                if let Src::Const(bits, d) = *arg {
                    let mut word = [bits, 0];
                    let one = word.as_mut_ptr().cast::<u8>();
                    // SAFETY: the slot holds that many elements.
                    unsafe {
                        if let Some(load) = half_load(d) {
                            load(1, one, null(), null(), one.add(8));
                            std::ptr::copy(one.add(8), one, 8);
                        }
                        splat(reg_size(d), one, self.elements, self.operand(r, k));
                    }
                }
            }
        }
    }

    /// The values of input `k`: `count` of them from position `start` on, of elements or of rows.
    unsafe fn load(&self, k: usize, start: usize, count: usize) -> *const u8 {
        let i = &self.plan.inputs[k];
        let (shape, strides) = (&self.plan.shape[..], &i.strides[..]);
        let lead = if i.row { shape.len() - 1 } else { shape.len() };
        let walk = Walk { ptr: i.ptr, size: i.size, shape: &shape[..lead], strides: &strides[..lead] };
        // SAFETY: positions lie inside the shape; slots hold `count` elements.
        unsafe {
            let mut at: *const u8 = self.input(k, false);
            if i.dense {
                at = i.ptr.add(start * i.size);
            } else if !i.row
                && strides[lead - 1] == 1
                && start / self.plan.n == (start + count - 1) / self.plan.n
            {
                at = i.ptr.offset(walk.offset(start) as isize * i.size as isize);
            } else {
                walk.gather(start, count, self.input(k, false));
            }
            if let Some(load) = i.load {
                load(count, at, null(), null(), self.input(k, true));
                at = self.input(k, true);
            }
            at
        }
    }

    /// Runs a step that is no fold over `rows` rows of `n` elements.
    unsafe fn step(&self, r: usize, f: BlockFn, inputs: &[*const u8], rows: usize, n: usize) {
        let (p, step) = (self.plan.p, &self.plan.steps[r]);
        let count = if step.row { rows } else { rows * n };
        let mut arg: [*const u8; 3] = [null(); 3];
        for (k, src) in step.args.iter().enumerate() {
            let at = match *src {
                Src::Input(i) => inputs[i as usize],
                Src::Reg(r) => self.register(r as usize).cast_const(),
                Src::Const(..) => {
                    arg[k] = self.operand(r, k);
                    continue;
                }
            };
            arg[k] = at;
            if !step.row && p.is_row(*src) {
                let size = reg_size(p.dtype(*src));
                let wide = self.operand(r, k);
                for row in 0..rows {
                    // SAFETY: slots hold a value for each row, and `rows * n` elements.
                    unsafe { splat(size, at.add(row * size), n, wide.add(row * n * size)) };
                }
                arg[k] = wide;
            }
        }
        // SAFETY: operands and the register hold `count` elements.
        unsafe {
            f(count, arg[0], arg[1], arg[2], self.register(r));
            self.round(r, count);
        }
    }

    unsafe fn round(&self, r: usize, count: usize) {
        if let Some((store, load)) = self.plan.steps[r].round {
            // SAFETY: the register and the spare slot hold `count` elements.
            unsafe {
                store(count, self.register(r), null(), null(), self.spare());
                load(count, self.spare(), null(), null(), self.register(r));
            }
        }
    }

    /// Writes `count` values of an output to position `start` on.
    unsafe fn store(&self, o: &Output, start: usize, count: usize) {
        let src = self.register(o.reg);
        // SAFETY: outputs are dense and hold these positions.
        unsafe {
            let to = o.ptr.add(start * o.size);
            match o.store {
                Some(store) => store(count, src, null(), null(), to),
                None if src == to => {}
                // Two outputs of one result.
                None => std::ptr::copy_nonoverlapping(src, to, count * o.size),
            }
        }
    }

    /// Rows that fit as a whole.
    unsafe fn whole(&mut self, first: usize, rows: usize) {
        let n = self.plan.n;
        // SAFETY: as in `Plan::groups`.
        unsafe {
            self.place(first * n, first);
            let mut inputs: SmallVec<[*const u8; 8]> = SmallVec::new();
            for (k, i) in self.plan.inputs.iter().enumerate() {
                let (start, count) = if i.row { (first, rows) } else { (first * n, rows * n) };
                inputs.push(self.load(k, start, count));
            }
            for (r, step) in self.plan.steps.iter().enumerate() {
                match step.kernel {
                    Kernel::Each(f) => self.step(r, f, &inputs, rows, n),
                    Kernel::Fold(f, _) => {
                        f(self.source(step.args[0], &inputs), n, rows, self.register(r));
                        self.round(r, rows);
                    }
                }
            }
            for o in &self.plan.outputs {
                let (start, count) = if o.row { (first, rows) } else { (first * n, rows * n) };
                self.store(o, start, count);
            }
        }
    }

    /// What a fold reads.
    fn source(&self, s: Src, inputs: &[*const u8]) -> *const u8 {
        match s {
            Src::Input(i) => inputs[i as usize],
            Src::Reg(r) => self.register(r as usize),
            // INVARIANT: constants are numbers of rows, and folds read elements.
            Src::Const(..) => unreachable!("a fold of a constant"),
        }
    }

    /// One long row, block by block in each phase.
    unsafe fn long(&mut self, row: usize) {
        let plan = self.plan;
        let n = plan.n;
        let mut inputs: SmallVec<[*const u8; 8]> = SmallVec::from_elem(null(), plan.inputs.len());
        // SAFETY: as in `Plan::groups`.
        unsafe {
            self.place(row * n, row);
            for (k, i) in plan.inputs.iter().enumerate() {
                if i.row {
                    inputs[k] = self.load(k, row, 1);
                }
            }
            for phase in 0..plan.phases {
                let needs = &plan.needs[phase as usize];
                for (r, step) in plan.steps.iter().enumerate() {
                    if let Kernel::Each(f) = step.kernel
                        && step.row
                        && step.phase == phase
                    {
                        self.step(r, f, &inputs, 1, 1);
                    }
                }
                if !needs.contains(&true) {
                    continue;
                }
                let mut parts: Vec<Vec<[u8; 8]>> = vec![Vec::new(); plan.steps.len()];
                let reads = |k: usize| {
                    let uses = |r: usize| needs[r] && plan.steps[r].args.contains(&Src::Input(k as u8));
                    !plan.inputs[k].row && (0..needs.len()).any(uses)
                };
                let read: SmallVec<[usize; 8]> = (0..inputs.len()).filter(|&k| reads(k)).collect();
                let mut from = 0;
                while from < n {
                    let count = PART.min(n - from);
                    self.place(row * n + from, row);
                    for &k in &read {
                        inputs[k] = self.load(k, row * n + from, count);
                    }
                    for (r, step) in plan.steps.iter().enumerate().filter(|s| needs[s.0]) {
                        match step.kernel {
                            Kernel::Each(f) => self.step(r, f, &inputs, 1, count),
                            Kernel::Fold(f, _) => {
                                let mut word = [0u64; 1];
                                f(self.source(step.args[0], &inputs), count, 1, word.as_mut_ptr().cast());
                                parts[r].push(word[0].to_ne_bytes());
                            }
                        }
                    }
                    for o in plan.outputs.iter().filter(|o| !o.row) {
                        if plan.steps[o.reg].phase == phase {
                            self.store(o, row * n + from, count);
                        }
                    }
                    from += count;
                }
                for (r, step) in plan.steps.iter().enumerate() {
                    if let Kernel::Fold(_, join) = step.kernel
                        && !parts[r].is_empty()
                    {
                        join(&parts[r], self.register(r));
                        self.round(r, 1);
                    }
                }
            }
            for o in plan.outputs.iter().filter(|o| o.row) {
                self.store(o, row, 1);
            }
        }
    }
}

//! Steps of float32 programs that are one machine instruction each, or few, computed some vectors at a time from the first step of
//! a run to its last: results stay in registers where only the next step reads them, which costs a fraction of what a
//! loop for each step costs, whose loads and stores are most of it. Every step rounds as its own loop does, so that
//! results are the same bits. Called by the runner, on processors with AVX2 or AVX-512.

use smallvec::SmallVec;

use super::vectors::Vector;
use crate::core::Dtype;
use crate::kernels::elementwise::loops::{Single, level};
use crate::kernels::{Inst, Program, Src};

/// What is done with the values that are in registers, `x`, and those of an operand in memory, `m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Act {
    Load,
    Store,
    Add,
    /// x - m
    Subtract,
    /// m - x
    SubtractFrom,
    Multiply,
    /// x * m, rounded, plus a constant: one pass for the pair that is met most.
    MultiplyAdd,
    /// x / m
    Divide,
    /// m / x
    DivideInto,
    /// x / m, where m is a constant whose inverse is exact: the product with that is the same number.
    DivideByPower,
    /// The larger of x and m, in this order.
    Maximum,
    /// The larger of m and x.
    MaximumOf,
    /// The larger one, where m is neither NaN nor zero.
    MaximumPlain,
    Minimum,
    MinimumOf,
    MinimumPlain,
    Abs,
    Negative,
    Square,
    Sqrt,
    Erf,
}

/// Where an operand is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Argument of a step.
    Arg(u8, u8),
    /// The result of a step.
    Result(u8),
    /// There is none.
    Nothing,
}

/// What takes the place of some loops, in order: what is done, and where the operand and the constant are.
pub type Actions = SmallVec<[(Act, Of, Of); 8]>;

/// Steps that are computed together, or one by its loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Unit {
    /// The loop of one step.
    Step(usize),
    /// All steps before this number that no earlier unit has.
    Run(Actions, usize),
}

/// An action with the address of its operand, which moves along with the elements or is one value for all.
#[derive(Clone, Copy)]
pub struct Bound {
    pub act: Act,
    pub at: *mut f32,
    pub moves: bool,
    /// The constant.
    pub constant: *const f32,
}

/// The units of a program, and which results no one looks for in memory.
pub fn units(p: &Program) -> (SmallVec<[Unit; 1]>, SmallVec<[bool; 4]>) {
    let count = p.instrs.len();
    let mut inside: SmallVec<[bool; 4]> = SmallVec::from_elem(false, count);
    let mut units = SmallVec::new();
    let mut n = 0;
    while n < count {
        let end = (n..count).find(|&s| single(p, s).is_none()).unwrap_or(count);
        if end < n + 2 || level() == 0 {
            units.push(Unit::Step(n));
            n += 1;
        } else {
            units.push(Unit::Run(actions(p, n..end, &mut inside), end));
            n = end;
        }
    }
    (units, inside)
}

/// The instruction of a step.
fn single(p: &Program, step: usize) -> Option<Single> {
    let i = &p.instrs[step];
    let plain = i.dtype == Dtype::F32 && i.args.iter().all(|&a| p.dtype(a) == Dtype::F32);
    match i.op {
        Inst::Op(op) if plain => op.row().cpu.single,
        _ => None,
    }
}

/// The action of an instruction on what is in registers and its other operand, which may be the first.
fn act(op: Single, reverse: bool, other: Option<Src>) -> Act {
    let constant = |bits: u64| f32::from_bits(bits as u32);
    let plain = matches!(other, Some(Src::Const(c, _)) if constant(c) != 0.0 && !constant(c).is_nan());
    match op {
        Single::Add => Act::Add,
        Single::Subtract if reverse => Act::SubtractFrom,
        Single::Subtract => Act::Subtract,
        Single::Multiply => Act::Multiply,
        Single::Divide if reverse => Act::DivideInto,
        Single::Divide if matches!(other, Some(Src::Const(c, _)) if power_of_two(c as u32)) => {
            Act::DivideByPower
        }
        Single::Divide => Act::Divide,
        Single::Maximum if plain => Act::MaximumPlain,
        Single::Maximum if reverse => Act::MaximumOf,
        Single::Maximum => Act::Maximum,
        Single::Minimum if plain => Act::MinimumPlain,
        Single::Minimum if reverse => Act::MinimumOf,
        Single::Minimum => Act::Minimum,
        Single::Abs => Act::Abs,
        Single::Negative => Act::Negative,
        Single::Square => Act::Square,
        Single::Sqrt => Act::Sqrt,
        Single::Erf => Act::Erf,
    }
}

/// Whether a float32 is a power of two, and so is its inverse.
fn power_of_two(bits: u32) -> bool {
    bits & 0x7f_ffff == 0 && (1..=253).contains(&(bits >> 23 & 0xff))
}

fn actions(p: &Program, steps: std::ops::Range<usize>, inside: &mut [bool]) -> Actions {
    let reads = |r: usize| {
        let args = p.instrs.iter().flat_map(|i| &i.args).filter(|&&a| a == Src::Reg(r as u8));
        args.count() + p.outputs.iter().filter(|&&o| usize::from(o) == r).count()
    };
    let mut actions = Actions::new();
    for s in steps.clone() {
        let Some(op) = single(p, s) else { continue };
        let args = &p.instrs[s].args;
        let before = s.checked_sub(1).filter(|r| steps.contains(r)).map(|r| Src::Reg(r as u8));
        let (first, second) = (before == Some(args[0]), before.is_some() && before == args.get(1).copied());
        let square = op == Single::Multiply && args[0] == args[1];
        if !first && !second {
            actions.push((Act::Load, Of::Arg(s as u8, 0), Of::Nothing));
        }
        let other = usize::from(!second || first);
        let operand = Of::Arg(s as u8, other as u8);
        match (actions.last_mut(), args.get(other)) {
            (Some((last @ Act::Multiply, _, constant)), Some(Src::Const(..)))
                if op == Single::Add && (first || second) =>
            {
                (*last, *constant) = (Act::MultiplyAdd, operand);
            }
            (_, Some(_)) if square => actions.push((Act::Square, Of::Nothing, Of::Nothing)),
            (_, Some(&m)) => actions.push((act(op, other == 0, Some(m)), operand, Of::Nothing)),
            (_, None) => actions.push((act(op, false, None), Of::Nothing, Of::Nothing)),
        }
        // Reads by the next step that memory has no part in.
        let passed = match p.instrs.get(s + 1).filter(|_| steps.contains(&(s + 1))) {
            Some(next) => {
                let own = next.args.iter().filter(|&&a| a == Src::Reg(s as u8)).count();
                if single(p, s + 1) == Some(Single::Multiply) { own } else { own.min(1) }
            }
            None => 0,
        };
        inside[s] = passed > 0 && reads(s) == passed;
        if !inside[s] {
            actions.push((Act::Store, Of::Result(s as u8), Of::Nothing));
        }
    }
    actions
}

/// Takes `n` elements through the actions.
///
/// # Safety
/// Operands that move hold `n` elements, others and constants one, and what is stored where an operand lies begins where that does.
pub unsafe fn run(actions: &[Bound], n: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's contract.
    unsafe {
        if level() == 2 { x86::wide(actions, n) } else { x86::narrow(actions, n) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's contract.
    unsafe {
        through::<f32, 1>(actions, 0, n);
    }
}

/// Takes elements from `from` on through all actions, `U` vectors at a time, while that many are left before `to`;
/// where it ended.
#[inline(always)]
unsafe fn through<V: Vector, const U: usize>(actions: &[Bound], from: usize, to: usize) -> usize {
    let mut i = from;
    // SAFETY: the contract of `run`; vectors end before `to`.
    unsafe {
        let mut x = [V::all(&0.0); U];
        while i + U * V::LANES <= to {
            for a in actions {
                if a.moves {
                    let at = a.at.add(i);
                    if a.act == Act::Store {
                        (0..U).for_each(|u| x[u].store(at.add(u * V::LANES)));
                    } else {
                        one::<V, U>(a, &mut x, |u| V::load(at.add(u * V::LANES)));
                    }
                } else {
                    let m = V::all(a.at);
                    one::<V, U>(a, &mut x, |_| m);
                }
            }
            i += U * V::LANES;
        }
    }
    i
}

/// What an action makes of vectors `x` and their operands.
#[inline(always)]
unsafe fn one<V: Vector, const U: usize>(a: &Bound, x: &mut [V; U], m: impl Fn(usize) -> V) {
    macro_rules! each {
        ($u:ident => $e:expr) => {
            for $u in 0..U {
                x[$u] = $e;
            }
        };
    }
    // SAFETY: the caller's processor.
    unsafe {
        match a.act {
            Act::Load => each!(u => m(u)),
            Act::Store => {}
            Act::Add => each!(u => x[u].add(m(u))),
            Act::Subtract => each!(u => x[u].sub(m(u))),
            Act::SubtractFrom => each!(u => m(u).sub(x[u])),
            Act::Multiply => each!(u => x[u].mul(m(u))),
            Act::MultiplyAdd => {
                let constant = V::all(a.constant);
                each!(u => x[u].mul(m(u)).add(constant));
            }
            Act::Divide => each!(u => x[u].div(m(u))),
            Act::DivideInto => each!(u => m(u).div(x[u])),
            Act::DivideByPower => {
                let inverse = V::all(&(1.0 / *a.at));
                each!(u => x[u].mul(inverse));
            }
            Act::Maximum => each!(u => x[u].max(m(u))),
            Act::MaximumOf => each!(u => m(u).max(x[u])),
            Act::MaximumPlain => each!(u => x[u].max_plain(m(u))),
            Act::Minimum => each!(u => x[u].min(m(u))),
            Act::MinimumOf => each!(u => m(u).min(x[u])),
            Act::MinimumPlain => each!(u => x[u].min_plain(m(u))),
            Act::Abs => each!(u => x[u].abs()),
            Act::Negative => each!(u => x[u].neg()),
            Act::Square => each!(u => x[u].mul(x[u])),
            Act::Sqrt => each!(u => x[u].sqrt()),
            Act::Erf => {
                let mut copy = *x;
                V::erf_of(&mut copy);
                *x = copy;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Bound, through};
    use std::arch::x86_64::{__m256, __m512};

    /// As many as hide how long an instruction takes; so many registers are left for operands even with AVX2.
    const VECTORS: usize = 8;

    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq")]
    pub unsafe fn wide(actions: &[Bound], n: usize) {
        // SAFETY: the contract of `run`, here and below.
        unsafe {
            let i = through::<__m512, VECTORS>(actions, 0, n);
            let i = through::<__m512, 1>(actions, i, n);
            through::<f32, 1>(actions, i, n);
        }
    }
    #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
    pub unsafe fn narrow(actions: &[Bound], n: usize) {
        // SAFETY: as above.
        unsafe {
            let i = through::<__m256, VECTORS>(actions, 0, n);
            let i = through::<__m256, 1>(actions, i, n);
            through::<f32, 1>(actions, i, n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::elementwise;
    use crate::cpu::runtime::testing::{Owned, Rng};
    use crate::kernels::Instr;
    use crate::kernels::elementwise::table::op;

    const SPECIAL: [f32; 12] =
        [0.0, -0.0, 1.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-45, -3e38, 0.5, 7.25, -1e-3];

    fn constant(x: f32) -> Src {
        Src::Const(x.to_bits().into(), Dtype::F32)
    }

    /// Bits, any NaN as one.
    fn bits(a: &Owned) -> Vec<u64> {
        let of = |b: u64| if f32::from_bits(b as u32).is_nan() { u64::from(f32::NAN.to_bits()) } else { b };
        a.bits().into_iter().map(of).collect()
    }

    /// Results of all steps, each computed alone.
    fn apart(p: &Program, inputs: &[Owned], shape: &[i64]) -> Vec<Owned> {
        let mut results: Vec<Owned> = Vec::new();
        for i in &p.instrs {
            let alone: Vec<Owned> = (i.args.iter())
                .filter_map(|a| match *a {
                    Src::Const(c, _) => Some(f64::from(f32::from_bits(c as u32))),
                    _ => None,
                })
                .map(|c| Owned::from_f64(Dtype::F32, &[], &[c]))
                .collect();
            let mut constants = alone.iter();
            let views: Vec<_> = (i.args.iter())
                .map(|a| {
                    let mut v = match *a {
                        Src::Input(k) => inputs[usize::from(k)].view(),
                        Src::Reg(r) => results[usize::from(r)].view(),
                        Src::Const(..) => constants.next().unwrap().view(),
                    };
                    if v.shape.is_empty() {
                        (v.shape, v.strides) = (shape.into(), shape.iter().map(|_| 0).collect());
                    }
                    v
                })
                .collect();
            let out = Owned::zeros(Dtype::F32, shape);
            let one = Program::one(i.op, &vec![Dtype::F32; views.len()], Dtype::F32);
            elementwise::run(&one, &views, &[out.view()]).unwrap();
            results.push(out);
        }
        results
    }

    #[test]
    fn runs_give_the_bits_of_single_steps() {
        let names = ["add", "subtract", "multiply", "divide", "maximum", "minimum"];
        let unary = ["abs", "negative", "square", "sqrt", "exp", "erf"];
        let mut rng = Rng(5);
        for round in 0..200 {
            let n = [1, 7, 16, 130, 300, 9000][round % 6];
            let mut inputs: Vec<Owned> = (0..2)
                .map(|k| {
                    let value = |i: usize| f64::from(SPECIAL[(i * (k + 1) + i / 12 * 5) % 12]);
                    Owned::from_f64(Dtype::F32, &[n], &(0..n as usize).map(value).collect::<Vec<_>>())
                })
                .collect();
            inputs.push(Owned::from_f64(Dtype::F32, &[], &[3.0]));
            let mut draw = |below: usize| (rng.next() % below as u64) as usize;
            let instrs: Vec<Instr> = (0..12u8)
                .map(|s| {
                    let mut source = || match draw(8) {
                        0 => Src::Input(draw(3) as u8),
                        1 | 2 => constant(SPECIAL[draw(12)]),
                        3 if s > 0 => Src::Reg(draw(usize::from(s)) as u8),
                        _ => s.checked_sub(1).map_or(Src::Input(0), Src::Reg),
                    };
                    let two = source();
                    let args: SmallVec<[Src; 3]> = [source(), two].as_slice().into();
                    let name = draw(18);
                    let (name, args) = match names.get(name / 2) {
                        Some(&name) => (name, args),
                        None => (unary[name % 6], args[..1].into()),
                    };
                    Instr { op: Inst::Op(op(name)), dtype: Dtype::F32, args }
                })
                .collect();
            let outputs: SmallVec<[u8; 1]> = [11, draw(12) as u8].as_slice().into();
            let outputs = if outputs[0] == outputs[1] { outputs[..1].into() } else { outputs };
            let p = Program {
                inputs: [Dtype::F32; 3].as_slice().into(),
                instrs: instrs.into(),
                outputs: outputs.clone(),
            };
            let want = apart(&p, &inputs, &[n]);
            let got: Vec<Owned> = outputs.iter().map(|_| Owned::zeros(Dtype::F32, &[n])).collect();
            let mut views: Vec<_> = inputs.iter().map(Owned::view).collect();
            (views[2].shape, views[2].strides) = ([n].as_slice().into(), [0].as_slice().into());
            let to: Vec<_> = got.iter().map(Owned::view).collect();
            elementwise::run(&p, &views, &to).unwrap();
            for (o, got) in outputs.iter().zip(&got) {
                assert_eq!(bits(got), bits(&want[usize::from(*o)]), "{round}: {o} of {p:?}");
            }
        }
    }

    #[test]
    fn constants_whose_inverse_is_exact() {
        let powers = [1.0f32, -2.0, 0.5, 2f32.powi(126), -2f32.powi(-126)];
        assert!(powers.iter().all(|x| power_of_two(x.to_bits())));
        let others = [0.0f32, -0.0, 3.0, f32::INFINITY, f32::NAN, 2f32.powi(127), 1e-45, 2f32.powi(-127)];
        assert!(!others.iter().any(|x| power_of_two(x.to_bits())));
    }

    #[test]
    fn what_only_the_next_step_reads_stays_in_registers() {
        let step =
            |name: &str, args: &[Src]| Instr { op: Inst::Op(op(name)), dtype: Dtype::F32, args: args.into() };
        let instrs = [
            step("multiply", &[Src::Input(0), constant(2.0)]),
            step("add", &[constant(0.5), Src::Reg(0)]),
            step("subtract", &[constant(1.0), Src::Reg(1)]),
            step("multiply", &[Src::Reg(2), Src::Reg(2)]),
            step("maximum", &[Src::Reg(3), constant(3.0)]),
            step("exp", &[Src::Reg(4)]),
            step("abs", &[Src::Reg(5)]),
        ];
        let p = Program {
            inputs: [Dtype::F32].as_slice().into(),
            instrs: instrs.as_slice().into(),
            outputs: [6].as_slice().into(),
        };
        let (found, inside) = units(&p);
        if level() == 0 {
            assert!(found.iter().all(|u| matches!(u, Unit::Step(_))) && !inside.contains(&true));
            return;
        }
        let run = [
            (Act::Load, Of::Arg(0, 0), Of::Nothing),
            (Act::MultiplyAdd, Of::Arg(0, 1), Of::Arg(1, 0)),
            (Act::SubtractFrom, Of::Arg(2, 0), Of::Nothing),
            (Act::Square, Of::Nothing, Of::Nothing),
            (Act::MaximumPlain, Of::Arg(4, 1), Of::Nothing),
            (Act::Store, Of::Result(4), Of::Nothing),
        ];
        assert_eq!(found[..], [Unit::Run(run.as_slice().into(), 5), Unit::Step(5), Unit::Step(6)]);
        assert_eq!(inside[..], [true, true, true, true, false, false, false]);
    }
}

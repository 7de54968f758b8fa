//! Programs on results of products as steps that the text knows: a residual addition, a gated unit.

use smallvec::SmallVec;

use crate::kernels::elementwise::table::find;
use crate::kernels::matmul::epilogue::{After, Origin};
use crate::kernels::{Inst, Src};

/// Where a step takes a number from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// A product, by number.
    Product(u32),
    /// An array, by number.
    Array(u32),
    /// An earlier step.
    Step(u32),
}

/// A step; its result is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Add(From, From),
    Multiply(From, From),
    Sigmoid(From),
}

/// Steps of a program, and arrays that it reads.
const MOST: usize = 4;
/// See [`MOST`].
const ARRAYS: u32 = 2;

impl Step {
    /// Arrays up to the last one that it reads.
    pub fn arrays(&self) -> u32 {
        let one = |f: From| if let From::Array(i) = f { i + 1 } else { 0 };
        match *self {
            Step::Add(a, b) | Step::Multiply(a, b) => one(a).max(one(b)),
            Step::Sigmoid(a) => one(a),
        }
    }
}

/// The steps of a program, if the text has them all.
pub fn steps(after: &After) -> Option<SmallVec<[Step; MOST]>> {
    let program = &after.program;
    if program.instrs.len() > MOST || usize::from(program.outputs[0]) + 1 != program.instrs.len() {
        return None;
    }
    let from = |s: &Src| match *s {
        Src::Input(i) => Some(match after.inputs[usize::from(i)] {
            Origin::Product(i) => From::Product(i.into()),
            Origin::Array(i) => From::Array(i.into()),
        }),
        Src::Reg(i) => Some(From::Step(i.into())),
        Src::Const(..) => None,
    };
    let dtype = program.inputs[0];
    let step = |i: &crate::kernels::Instr| {
        let Inst::Op(op) = i.op else { return None };
        let is = |name: &str| find(name) == Some(op);
        let arg = |n: usize| i.args.get(n).and_then(from);
        if i.dtype != dtype {
            return None;
        }
        match i.args.len() {
            1 if is("sigmoid") => Some(Step::Sigmoid(arg(0)?)),
            2 if is("add") => Some(Step::Add(arg(0)?, arg(1)?)),
            2 if is("multiply") => Some(Step::Multiply(arg(0)?, arg(1)?)),
            _ => None,
        }
    };
    let all: Option<SmallVec<[Step; MOST]>> = program.instrs.iter().map(step).collect();
    all.filter(|s| s.iter().all(|s| s.arrays() <= ARRAYS))
}

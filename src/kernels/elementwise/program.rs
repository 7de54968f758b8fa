//! Straight-line programs over one element: what a (possibly fused) elementwise kernel computes. An eager
//! op is a program of length one. A program is part of the key of its kernel on either backend.

use smallvec::{SmallVec, smallvec};

use super::table::OpId;
use crate::core::Dtype;

/// Operand of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Src {
    /// An input array, by position.
    Input(u8),
    /// The result of an earlier instruction, by position.
    Reg(u8),
    /// A constant: its bits in the low bytes, and its dtype.
    Const(u64, Dtype),
}

/// What an instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inst {
    /// A row of the table.
    Op(OpId),
    /// Conversion to the instruction's dtype; a plain copy when it is the operand's.
    Cast,
}

/// One step; its result is the register with the step's position.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Instr {
    /// What to do.
    pub op: Inst,
    /// Operands, one to three, in the row's computation dtype.
    pub args: SmallVec<[Src; 3]>,
    /// Dtype of the result.
    pub dtype: Dtype,
}

/// A list of instructions, the dtypes of its inputs, and which registers are stored.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    /// Dtypes of the input arrays.
    pub inputs: SmallVec<[Dtype; 4]>,
    /// Steps in order.
    pub instrs: SmallVec<[Instr; 1]>,
    /// Registers that become output arrays.
    pub outputs: SmallVec<[u8; 1]>,
}

impl Program {
    /// One table op on inputs that already have the computation dtype.
    pub fn single(op: OpId, inputs: &[Dtype], out: Dtype) -> Program {
        Program::one(Inst::Op(op), inputs, out)
    }

    /// One instruction on inputs that already have the computation dtype.
    pub fn one(op: Inst, inputs: &[Dtype], out: Dtype) -> Program {
        let args = (0..inputs.len() as u8).map(Src::Input).collect();
        Program {
            inputs: inputs.into(),
            instrs: smallvec![Instr { op, args, dtype: out }],
            outputs: smallvec![0],
        }
    }

    /// Conversion of one input; a plain copy when the dtypes are equal.
    pub fn cast(from: Dtype, to: Dtype) -> Program {
        Program {
            inputs: smallvec![from],
            instrs: smallvec![Instr { op: Inst::Cast, args: smallvec![Src::Input(0)], dtype: to }],
            outputs: smallvec![0],
        }
    }

    /// Dtype of an operand.
    pub fn dtype(&self, src: Src) -> Dtype {
        match src {
            Src::Input(i) => self.inputs[i as usize],
            Src::Reg(r) => self.instrs[r as usize].dtype,
            Src::Const(_, d) => d,
        }
    }

    /// Dtype in which an instruction computes: that of its last operand (a select's first one is bool).
    pub fn compute_dtype(&self, instr: &Instr) -> Dtype {
        instr.args.last().map_or(instr.dtype, |&s| self.dtype(s))
    }

    /// Dtypes of the output arrays.
    pub fn output_dtypes(&self) -> impl Iterator<Item = Dtype> + '_ {
        self.outputs.iter().map(|&r| self.instrs[r as usize].dtype)
    }

    /// Appends the instructions of another program, whose inputs are `args`; the number of the first.
    pub fn append(&mut self, p: &Program, args: &[Src]) -> u8 {
        let base = self.instrs.len() as u8;
        let moved = |&s: &Src| match s {
            Src::Input(k) => args[k as usize],
            Src::Reg(r) => Src::Reg(base + r),
            Src::Const(..) => s,
        };
        let instrs = p.instrs.iter().map(|i| Instr { args: i.args.iter().map(moved).collect(), ..i.clone() });
        self.instrs.extend(instrs);
        base
    }

    /// Library functions that it calls, in the unit of `Row::code_size`.
    pub fn code_size(&self) -> usize {
        let one = |i: &Instr| match i.op {
            Inst::Op(op) => op.row().code_size(self.compute_dtype(i)),
            Inst::Cast => 0,
        };
        self.instrs.iter().map(one).sum()
    }

    /// Whether there is an expression in GLSL for each instruction.
    pub fn has_glsl(&self) -> bool {
        self.instrs.iter().all(|i| match i.op {
            Inst::Op(op) => op.row().glsl(self.compute_dtype(i)).is_some(),
            Inst::Cast => true,
        })
    }

    /// Whether this is one conversion of one input.
    pub fn is_cast(&self) -> bool {
        self.inputs.len() == 1 && self.instrs.len() == 1 && self.instrs[0].op == Inst::Cast
    }

    /// Every dtype that is read, computed or stored.
    pub fn dtypes(&self) -> impl Iterator<Item = Dtype> + '_ {
        let consts = self.instrs.iter().flat_map(|i| i.args.iter().map(|&a| self.dtype(a)));
        self.inputs.iter().copied().chain(self.instrs.iter().map(|i| i.dtype)).chain(consts)
    }

    /// Whether the result of an instruction may have digits that its dtype lacks: it does not where it is one of the operands.
    pub fn rounds(&self, instr: &Instr) -> bool {
        match instr.op {
            Inst::Op(op) => !op.row().chooses || self.compute_dtype(instr) != instr.dtype,
            Inst::Cast => true,
        }
    }

    /// Whether a register is stored and read by no other instruction.
    pub fn only_stored(&self, r: usize) -> bool {
        let reads = |i: &Instr| i.args.iter().any(|a| matches!(a, Src::Reg(x) if *x as usize == r));
        self.outputs.iter().any(|&o| o as usize == r) && !self.instrs.iter().any(reads)
    }

    /// A short name for statistics and profiles.
    pub fn name(&self) -> String {
        let mut s = String::from(if self.instrs.len() > 1 { "fused" } else { "" });
        for i in self.instrs.iter().take(6) {
            if !s.is_empty() {
                s.push('_');
            }
            match i.op {
                Inst::Op(op) => s.push_str(op.row().name),
                Inst::Cast => s.push_str(if self.compute_dtype(i) == i.dtype { "copy" } else { "cast" }),
            }
        }
        s
    }
}

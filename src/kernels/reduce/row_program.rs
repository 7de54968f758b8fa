//! Programs over the rows of arrays: elementwise instructions and folds of a row to one number, which later
//! instructions of the row may read. Softmax and norms are of this kind. A program is part of the key of its
//! kernel on either backend.

use smallvec::SmallVec;

use super::table::ReduceOp;
use crate::core::Dtype;
use crate::kernels::elementwise::program::{Inst, Src};

/// What an instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowInst {
    /// The same for each element, or for the one number of a row.
    Each(Inst),
    /// Folds the elements of a row (of a float dtype) into one number, by an operation whose row says how.
    Fold(ReduceOp),
}

/// One step; its result is the register with the step's position.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowInstr {
    /// What to do.
    pub op: RowInst,
    /// Operands, in the computation dtype.
    pub args: SmallVec<[Src; 3]>,
    /// Dtype of the result.
    pub dtype: Dtype,
    /// Whether the result is one number for a row. It reads no elements then, unless it is a fold.
    pub row: bool,
}

/// A list of instructions over the rows of one shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RowProgram {
    /// Dtypes of the input arrays, and whether they have one number for a row.
    pub inputs: SmallVec<[(Dtype, bool); 4]>,
    /// Steps in order.
    pub instrs: Vec<RowInstr>,
    /// Registers that become output arrays.
    pub outputs: SmallVec<[u8; 2]>,
}

impl RowProgram {
    /// Dtype of an operand.
    pub fn dtype(&self, src: Src) -> Dtype {
        match src {
            Src::Input(i) => self.inputs[i as usize].0,
            Src::Reg(r) => self.instrs[r as usize].dtype,
            Src::Const(_, d) => d,
        }
    }

    /// Whether an operand is one number for a row.
    pub fn is_row(&self, src: Src) -> bool {
        match src {
            Src::Input(i) => self.inputs[i as usize].1,
            Src::Reg(r) => self.instrs[r as usize].row,
            Src::Const(..) => true,
        }
    }

    /// Dtype in which an instruction computes: that of its last operand.
    pub fn compute_dtype(&self, instr: &RowInstr) -> Dtype {
        instr.args.last().map_or(instr.dtype, |&s| self.dtype(s))
    }

    /// The phase in which each result is there. A phase is one walk over the row; folds end it.
    pub fn phases(&self) -> SmallVec<[u8; 16]> {
        let mut phase: SmallVec<[u8; 16]> = SmallVec::new();
        for i in &self.instrs {
            let of = |s: &Src| if let Src::Reg(r) = s { phase[*r as usize] } else { 0 };
            let ready = i.args.iter().map(of).max().unwrap_or(0);
            phase.push(ready + u8::from(matches!(i.op, RowInst::Fold(_))));
        }
        phase
    }

    /// The phase in which an instruction runs: a fold's result is there one phase later.
    pub fn runs_in(&self, r: usize, phases: &[u8]) -> u8 {
        phases[r] - u8::from(matches!(self.instrs[r].op, RowInst::Fold(_)))
    }

    /// Instructions over elements that a phase needs when nothing but the folds of earlier ones was kept, in
    /// order; those whose results it folds or stores, and what they are computed from.
    pub fn needs(&self, phase: u8, phases: &[u8]) -> Vec<bool> {
        let n = self.instrs.len();
        let mut needed = vec![false; n];
        for r in (0..n).rev() {
            let i = &self.instrs[r];
            let fold = matches!(i.op, RowInst::Fold(_)) && phases[r] == phase + 1;
            let stored = !i.row && phases[r] == phase && self.outputs.contains(&(r as u8));
            needed[r] |= fold || stored;
            if needed[r] && (fold || !i.row) {
                for s in &i.args {
                    if let Src::Reg(k) = *s {
                        needed[k as usize] |= !self.instrs[k as usize].row;
                    }
                }
            }
        }
        needed
    }

    /// Every dtype that is read, computed or stored.
    pub fn dtypes(&self) -> impl Iterator<Item = Dtype> + '_ {
        let args = self.instrs.iter().flat_map(|i| i.args.iter().map(|&a| self.dtype(a)));
        self.inputs.iter().map(|i| i.0).chain(self.instrs.iter().map(|i| i.dtype)).chain(args)
    }

    /// What the instructions over elements add to a kernel's code, in the unit of `Row::code_size`.
    pub fn code(&self) -> usize {
        let one = |i: &RowInstr| match i.op {
            RowInst::Each(Inst::Op(op)) if !i.row => op.row().code_size(self.compute_dtype(i)),
            RowInst::Each(Inst::Op(_) | Inst::Cast) | RowInst::Fold(_) => 0,
        };
        self.instrs.iter().map(one).sum()
    }

    /// A short name for statistics and profiles.
    pub fn name(&self) -> String {
        let mut s = String::from("rows");
        for i in self.instrs.iter().take(6) {
            s.push('_');
            match i.op {
                RowInst::Each(Inst::Op(op)) => s.push_str(op.row().name),
                RowInst::Each(Inst::Cast) => s.push_str("cast"),
                RowInst::Fold(op) => s.push_str(op.row().name),
            }
        }
        s
    }
}

//! Where the values of a program lie while a block is computed: slots of a scratch that are taken again as soon as nothing
//! reads what is there, so that they stay in the first-level cache. Pure; called by the runner.

use smallvec::SmallVec;

use super::reg_size;
use crate::core::Dtype;
use crate::kernels::{Program, Src};

/// Bytes of all slots together that the first-level cache keeps beside the operands that pass through it.
const CACHE: usize = 24 << 10;
/// Fewest elements of a block: calls and what surrounds them cost as much as some hundred elements.
const FEWEST: usize = 256;

/// A number of a slot; none where there is none.
pub type Slot = Option<u16>;

/// Where an argument of a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An input, or what became of it.
    Input(u8),
    /// The result of an earlier step.
    Register(u8),
    /// A constant.
    Slot(u16),
}

/// The slots of a program.
#[derive(Debug, Default, PartialEq)]
pub struct Slots {
    /// Elements of inputs that are not used where they lie.
    pub raw: SmallVec<[Slot; 4]>,
    /// What they are converted to.
    pub converted: SmallVec<[Slot; 4]>,
    /// Constants, with their slots.
    pub constants: SmallVec<[(u64, Dtype, u16); 4]>,
    /// Results of steps that are not written where they belong.
    pub registers: SmallVec<[Slot; 4]>,
    /// Arguments of the steps.
    pub args: SmallVec<[SmallVec<[Place; 3]>; 2]>,
    /// Where results are rounded.
    pub spare: u16,
    /// Where outputs are narrowed that are scattered.
    pub narrow: u16,
    /// All of them.
    pub count: usize,
    /// Bytes of an element of a slot.
    pub width: usize,
}

impl Slots {
    /// For a program of which some inputs are gathered or converted, and some results written in place.
    pub fn new(p: &Program, gathered: &[bool], converted: &[bool], direct: &[bool]) -> Slots {
        let mut s = Slots::default();
        let mut next = 0;
        let mut take = || {
            next += 1;
            next - 1
        };
        s.raw = gathered.iter().map(|&g| g.then(&mut take)).collect();
        s.converted = converted.iter().map(|&c| c.then(&mut take)).collect();
        for i in &p.instrs {
            let place = |src: &Src| match *src {
                Src::Input(i) => Place::Input(i),
                Src::Reg(r) => Place::Register(r),
                Src::Const(bits, d) => {
                    let known = s.constants.iter().find(|c| (c.0, c.1) == (bits, d)).map(|c| c.2);
                    Place::Slot(known.unwrap_or_else(|| {
                        let slot = take();
                        s.constants.push((bits, d, slot));
                        slot
                    }))
                }
            };
            s.args.push(i.args.iter().map(place).collect());
        }
        let last = last_uses(p, &s.args);
        let mut free: SmallVec<[u16; 8]> = SmallVec::new();
        for (n, args) in s.args.iter().enumerate() {
            s.registers.push((!direct[n]).then(|| free.pop().unwrap_or_else(&mut take)));
            // A kernel may read its operands again after it has written.
            let mut over: SmallVec<[u16; 4]> = SmallVec::new();
            for place in args {
                if let Place::Register(r) = *place
                    && last[usize::from(r)] == n
                {
                    over.extend(s.registers[usize::from(r)]);
                }
            }
            if last[n] == n {
                over.extend(s.registers[n]);
            }
            over.sort_unstable();
            over.dedup();
            free.extend(over);
        }
        (s.spare, s.narrow) = (take(), take());
        s.count = usize::from(next);
        let of_instrs = p.instrs.iter().map(|i| reg_size(p.compute_dtype(i)).max(reg_size(i.dtype)));
        let of_inputs = p.inputs.iter().map(|&d| reg_size(d));
        s.width =
            of_instrs.chain(of_inputs).chain(s.constants.iter().map(|c| reg_size(c.1))).max().unwrap_or(8);
        s
    }

    /// Elements of a block, at most so many.
    pub fn block(&self, most: usize) -> usize {
        let fits = CACHE / (self.count * self.width);
        most.min(FEWEST.max((fits + 1).next_power_of_two() / 2))
    }
}

/// For each register the last step that reads it, or the one that makes it where none does; none where it is an output.
fn last_uses(p: &Program, args: &[SmallVec<[Place; 3]>]) -> SmallVec<[usize; 8]> {
    let mut last: SmallVec<[usize; 8]> = (0..args.len()).collect();
    for (n, args) in args.iter().enumerate() {
        for place in args {
            if let Place::Register(r) = *place {
                last[usize::from(r)] = n;
            }
        }
    }
    p.outputs.iter().for_each(|&o| last[usize::from(o)] = usize::MAX);
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::elementwise::table::op;
    use crate::kernels::{Inst, Instr};

    fn step(name: &str, args: &[Src]) -> Instr {
        Instr { op: Inst::Op(op(name)), dtype: Dtype::F32, args: args.into() }
    }

    #[test]
    fn registers_are_taken_again_and_constants_lie_once() {
        let one = Src::Const(1f32.to_bits().into(), Dtype::F32);
        let mut instrs = vec![step("add", &[Src::Input(0), one])];
        for r in 0..9 {
            instrs.push(step("multiply", &[Src::Reg(r), if r == 4 { Src::Reg(r) } else { one }]));
        }
        // The third result is read at the end once more.
        instrs.push(step("subtract", &[Src::Reg(9), Src::Reg(2)]));
        let p = Program {
            inputs: [Dtype::F32].as_slice().into(),
            outputs: [10].as_slice().into(),
            instrs: instrs.into(),
        };
        let mut direct = vec![false; 11];
        direct[10] = true;
        let s = Slots::new(&p, &[false], &[false], &direct);
        assert_eq!((s.constants.len(), s.width, s.registers[10]), (1, 4, None));
        let used: std::collections::BTreeSet<Slot> = s.registers.iter().copied().collect();
        assert_eq!((used.len(), s.count), (4, 6));
        for (n, args) in s.args.iter().enumerate() {
            for a in args {
                // Nothing was written to what is read, nor is it now.
                if let Place::Register(r) = *a {
                    let r = usize::from(r);
                    assert!(
                        (r + 1..=n).all(|m| s.registers[m].is_none() || s.registers[m] != s.registers[r]),
                        "{n}"
                    );
                }
            }
        }
        assert_eq!((s.block(1024), s.block(8192)), (1024, 1024));
        let many = Slots { count: 40, width: 8, ..Slots::default() };
        assert_eq!((many.block(1024), Slots { count: 9, ..many }.block(1024)), (256, 256));
    }
}

//! Rows of up to three matrices that follow each other, or of two at once, as programs in PTX walk them in units, told by
//! [`Push`]. Registers are named as `few_rows` and `wide` name them.

use std::mem::offset_of;

use super::push::Push;
use crate::kernels::matmul::epilogue::MATRICES;
use crate::vulkan::kernels::matmul::warpgroup::text::put;

/// Place of what a program is told of a matrix: `part` 0 to 3 are codes or elements, scales, biases and results.
pub fn place(part: u32, matrix: u32) -> u32 {
    offset_of!(Push, parts) as u32 + 8 * (MATRICES as u32 * part + matrix)
}

/// Of `splits` workgroups that share K, and have left their sums, only the one that comes last goes on, the others to `DONE`; it leaves
/// their counter zero, that of number `list`. A number in shared memory at `flag` is told to all who `meet`, through a register.
pub fn last_goes_on(o: &mut String, splits: u32, list: &str, [register, flag]: [&str; 2], meet: &str) {
    put(
        o,
        format_args!(
            "fence.acq_rel.gpu;
{meet}
setp.ne.u32 p,tid,0;
@p bra COUNTED;
ld.param.u64 l,[args+{counters}]; mul.wide.u32 m,{list},4; add.u64 l,l,m; mov.u32 {register},{flag};
atom.acq_rel.gpu.global.add.u32 tmp,[l],1;
st.shared.b32 [{register}],tmp; setp.ne.u32 q,tmp,{last};
@!q st.global.b32 [l],0;
fence.acq_rel.gpu;
COUNTED:
{meet}
mov.u32 {register},{flag}; ld.shared.b32 tmp,[{register}]; setp.ne.u32 p,tmp,{last};
@p bra DONE;
fence.acq_rel.gpu;",
            counters = offset_of!(Push, norm),
            last = splits - 1
        ),
    );
}

#[derive(Debug, Clone, Copy)]
pub struct Units {
    /// Rows of each matrix.
    pub lengths: [u32; MATRICES],
    /// Results of two matrices become one.
    pub after: bool,
    /// Rows of a matrix in a unit.
    pub unit: u32,
}

impl Units {
    pub fn matrices(&self) -> u32 {
        self.lengths.iter().filter(|&&n| n > 0).count() as u32
    }

    /// Matrices that a unit has rows of.
    pub fn sides(&self) -> u32 {
        if self.after { self.matrices() } else { 1 }
    }

    /// Units of the first matrices.
    pub fn of(&self, matrices: usize) -> u32 {
        self.lengths[..matrices].iter().map(|n| n.div_ceil(self.unit)).sum()
    }

    /// All units.
    pub fn all(&self) -> u32 {
        self.of(if self.sides() == 2 { 1 } else { MATRICES })
    }

    /// Matrices behind the first, with the predicates that say so.
    fn others(&self) -> impl Iterator<Item = (u32, &'static str)> {
        let others = if self.sides() == 2 { 1 } else { self.matrices() };
        [(1, "one"), (2, "two")].into_iter().filter(move |x| x.0 < others)
    }

    /// Which matrix has a unit (predicates `one` and `two`: not the first, not the second), and its place there, in `local`.
    pub fn matrix_of(&self, o: &mut String, unit: &str) {
        put(o, format_args!("mov.u32 local,{unit};"));
        for (i, name) in self.others() {
            let first = self.of(i as usize);
            put(o, format_args!("setp.ge.u32 {name},{unit},{first};\n@{name} sub.u32 local,{unit},{first};"));
        }
    }

    /// Takes what is told of the matrix at hand.
    pub fn told(&self, o: &mut String, to: &str, part: u32, side: u32) {
        put(o, format_args!("ld.param.u64 {to},[args+{}];", place(part, side)));
        for (i, name) in self.others() {
            put(o, format_args!("@{name} ld.param.u64 {to},[args+{}];", place(part, i)));
        }
    }

    /// The rows of the matrix at hand, in `len`.
    pub fn length(&self, o: &mut String) {
        put(o, format_args!("mov.u32 len,{};", self.lengths[0]));
        for (i, name) in self.others() {
            put(o, format_args!("@{name} mov.u32 len,{};", self.lengths[i as usize]));
        }
    }
}

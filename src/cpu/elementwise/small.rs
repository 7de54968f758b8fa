//! One elementwise instruction over few elements that lie one behind the other: most nodes in graphs of small arrays.
//! It costs a call of the kernel and no plan; half formats, single operands and an output in an operand's place go
//! through pieces on the stack. Called by `ops`, which hands everything else to `elementwise`.

use std::mem::MaybeUninit;
use std::ptr::null;

use super::convert::{half_load, half_store};
use super::{kernel, reg_size, stored_cast};
use crate::core::{Dtype, Result};
use crate::cpu::runtime::strided::splat;
use crate::kernels::Inst;

/// Most elements that are computed here: the plan of a longer loop costs next to nothing beside it.
pub const LIMIT: usize = 8192;

/// Elements of a piece.
const PIECE: usize = 256;

/// What an instruction reads.
#[derive(Clone, Copy)]
pub struct Operand {
    /// First element.
    pub ptr: *const u8,
    /// Type of the elements.
    pub dtype: Dtype,
    /// One element stands for all.
    pub single: bool,
}

/// Room for a piece of any type.
#[repr(align(64))]
struct Slot(#[allow(dead_code)] [u8; PIECE * 8]);

/// Computes `n` elements of type `to`.
///
/// # Errors
/// Type error where the instruction has no kernel for its operands.
///
/// # Safety
/// Operands hold `n` elements, or one if they are single; `out` holds `n` elements. It may be where an operand that is
/// not single begins, if elements of both have one size, and overlaps none otherwise.
pub unsafe fn run(inst: Inst, operands: &[Operand], n: usize, out: *mut u8, to: Dtype) -> Result<()> {
    let Some(last) = operands.last() else { return Ok(()) };
    let raw = if inst == Inst::Cast { stored_cast(last.dtype, to) } else { None };
    let step = raw.map_or_else(|| kernel(inst, last.dtype, to), Ok)?;
    let store = if raw.is_some() { None } else { half_store(to) };
    let load = |o: &Operand| if raw.is_some() { None } else { half_load(o.dtype) };
    let in_place = store.is_none() && operands.iter().all(|o| o.ptr != out);
    let mut args = [null(); 3];
    // SAFETY: ranges lie inside the operands and the output as the caller promises, and pieces inside their slots;
    // kernels write to slots or to memory that no operand has.
    unsafe {
        if in_place && operands.iter().all(|o| !o.single && load(o).is_none()) {
            for (arg, o) in args.iter_mut().zip(operands) {
                *arg = o.ptr;
            }
            step(n, args[0], args[1], args[2], out);
            return Ok(());
        }
        let mut slots = [const { MaybeUninit::<Slot>::uninit() }; 4];
        let mut slot = |k: usize| slots[k].as_mut_ptr().cast::<u8>();
        for (k, o) in operands.iter().enumerate().filter(|(_, o)| o.single) {
            let mut wide = 0u64;
            match load(o) {
                Some(load) => {
                    let wide = (&raw mut wide).cast();
                    load(1, o.ptr, null(), null(), wide);
                    splat(reg_size(o.dtype), wide, n.min(PIECE), slot(k));
                }
                None => splat(o.dtype.size(), o.ptr, n.min(PIECE), slot(k)),
            }
        }
        for at in (0..n).step_by(PIECE) {
            let len = PIECE.min(n - at);
            for (k, o) in operands.iter().enumerate() {
                let from = o.ptr.wrapping_add(at * o.dtype.size());
                args[k] = match load(o) {
                    _ if o.single => slot(k),
                    Some(load) => {
                        load(len, from, null(), null(), slot(k));
                        slot(k)
                    }
                    None => from,
                };
            }
            let to_piece = out.add(at * to.size());
            let result = if in_place { to_piece } else { slot(3) };
            step(len, args[0], args[1], args[2], result);
            match store {
                Some(store) => store(len, result, null(), null(), to_piece),
                None if !in_place => std::ptr::copy_nonoverlapping(result, to_piece, len * to.size()),
                None => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::elementwise;
    use crate::cpu::runtime::testing::Owned;
    use crate::kernels::Program;
    use crate::kernels::elementwise::table::op;

    fn operand(a: &Owned, single: bool) -> Operand {
        Operand { ptr: a.view().ptr, dtype: a.view().dtype, single }
    }

    #[test]
    fn results_are_those_of_the_planned_runner() {
        for n in [1, 5, 256, 257, 1000] {
            let shape = [n as i64];
            let values: Vec<f64> = (0..n).map(|i| (i % 13) as f64 - 4.0).collect();
            for dtype in [Dtype::I8, Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::I64, Dtype::C64] {
                let a = Owned::from_f64(dtype, &shape, &values);
                let one = Owned::from_f64(dtype, &[], &[3.0]);
                for (name, to) in [("subtract", dtype), ("equal", Dtype::Bool)] {
                    let (want, got) = (Owned::zeros(to, &shape), Owned::zeros(to, &shape));
                    let mut wide = one.view();
                    (wide.shape, wide.strides) = (shape[..].into(), [0][..].into());
                    let p = Program::single(op(name), &[dtype; 2], to);
                    elementwise::run(&p, &[a.view(), wide], &[want.view()]).unwrap();
                    let operands = [operand(&a, false), operand(&one, true)];
                    // SAFETY: shapes are as stated.
                    unsafe {
                        run(Inst::Op(op(name)), &operands, n, got.view().ptr, to).unwrap();
                    }
                    assert_eq!(got.bits(), want.bits(), "{name} {dtype} {n}");
                    if to == dtype {
                        // SAFETY: the output is an operand.
                        unsafe {
                            run(Inst::Op(op(name)), &operands, n, a.view().ptr, to).unwrap();
                        }
                        assert_eq!(a.bits(), want.bits(), "{name} {dtype} {n}, in place");
                    }
                }
            }
        }
    }

    #[test]
    fn casts_of_every_pair() {
        let all = [Dtype::Bool, Dtype::U8, Dtype::I32, Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64];
        let values: Vec<f64> = (0..300).map(|i| f64::from(i % 100)).collect();
        for from in all {
            let a = Owned::from_f64(from, &[300], &values);
            for to in all {
                let (want, got) = (Owned::zeros(to, &[300]), Owned::zeros(to, &[300]));
                elementwise::run(&Program::cast(from, to), &[a.view()], &[want.view()]).unwrap();
                // SAFETY: both have 300 elements.
                unsafe { run(Inst::Cast, &[operand(&a, false)], 300, got.view().ptr, to).unwrap() };
                assert_eq!(got.bits(), want.bits(), "{from} {to}");
            }
        }
    }
}

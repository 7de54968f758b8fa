//! Compositions of elementwise operations as one kernel: functions that are several of them (`clip`, `isclose`, ...), and
//! operations with an operand of another dtype, whose conversion is the first step. A composition is run once on
//! placeholders for its kinds of operands, and what it builds there is lowered to a program; results are those of the
//! steps one by one, bit for bit. Only for large results on a GPU, where intermediate arrays cost more than anything
//! else, and where nobody follows the steps: transforms, recorded functions and files see the composition.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{instruction, run_cpu, run_gpu, scalar_bits};
use crate::core::layout::{broadcast_shapes, size_of};
use crate::core::{Array, Dtype, Placeholders, Primitive, PrimitiveRef, Result, Shape, Stream};
use crate::kernels::Program;
use crate::kernels::elementwise::program::{Inst, Instr, Src};
use crate::kernels::elementwise::table::op;
use crate::ops::support::transformed;

/// A composition: its operands, converted as the caller gave them, to the result.
pub(crate) type Composition<'a> = &'a dyn Fn(&[Array]) -> Result<Array>;

/// Several elementwise operations in one kernel.
struct Composed {
    program: Program,
    name: String,
}

impl Primitive for Composed {
    fn name(&self) -> &str {
        &self.name
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        run_cpu(&self.program, inputs, outputs)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        run_gpu(&self.program, stream, inputs, outputs)
    }
}

/// Which of its two inputs a composition converts to float32 before it multiplies them, if that is all it does.
pub(crate) fn widens_product(p: &dyn Primitive) -> Option<usize> {
    let Composed { program: Program { inputs, instrs, .. }, .. } = (p as &dyn Any).downcast_ref()?;
    let [cast, product] = instrs.as_slice() else { return None };
    let (2, [Src::Input(wide)]) = (inputs.len(), &cast.args[..]) else { return None };
    let other = Src::Input(1 - wide);
    let both = product.args.contains(&Src::Reg(0)) && product.args.contains(&other);
    let is = cast.op == Inst::Cast && product.op == Inst::Op(op("multiply"));
    (is && both && [cast.dtype, product.dtype] == [Dtype::F32; 2]).then_some(usize::from(*wide))
}

/// What a composition is known by: its name, what else it depends on, and the dtypes of its operands.
type Key = (&'static str, u32, SmallVec<[Dtype; 4]>);

/// A program's primitive and the dtype of its result.
type Known = Option<(Arc<Composed>, Dtype)>;

thread_local! {
    static KNOWN: RefCell<HashMap<Key, Known>> = RefCell::default();
}

/// The result of a composition, by one kernel where that pays. `form` stands for what the steps depend on beside the
/// operands' dtypes; numbers that may be any are operands.
pub(crate) fn composed(
    name: &'static str,
    form: u32,
    inputs: &[Array],
    s: Stream,
    f: Composition,
) -> Result<Array> {
    match joined(name, form, inputs, s, f)? {
        Some(out) => Ok(out),
        None => f(inputs),
    }
}

/// As [`composed`]; `None` where the steps are better one by one.
pub(crate) fn joined(
    name: &'static str,
    form: u32,
    inputs: &[Array],
    s: Stream,
    f: Composition,
) -> Result<Option<Array>> {
    let mut shape = Shape::new();
    for a in inputs {
        match broadcast_shapes(name, &shape, a.shape()) {
            Ok(both) => shape = both,
            // The steps say it better.
            Err(_) => return Ok(None),
        }
    }
    let widest = inputs.iter().map(|a| a.dtype().size()).max().unwrap_or(0);
    // A part that a conversion makes zero may take the sign of other zeros along where a compiler sees that it is one.
    let complex = inputs.iter().any(|a| a.dtype() == Dtype::C64);
    if complex || transformed(inputs) || !pays(s, size_of(&shape) * widest) {
        return Ok(None);
    }
    let key: Key = (name, form, inputs.iter().map(Array::dtype).collect());
    let known = KNOWN.with_borrow(|map| map.get(&key).cloned());
    let known = known.unwrap_or_else(|| {
        let made = lowered(&key.2, f).map(|program| {
            // FITS: a register's number.
            let out = program.instrs[program.outputs[0] as usize].dtype;
            (Arc::new(Composed { name: program.name(), program }), out)
        });
        KNOWN.with_borrow_mut(|map| map.insert(key, made.clone()));
        made
    });
    let Some((composed, dtype)) = known else { return Ok(None) };
    Array::single(shape, dtype, PrimitiveRef::from(composed), inputs.iter().cloned().collect(), s).map(Some)
}

#[cfg(feature = "vulkan")]
fn pays(s: Stream, bytes: usize) -> bool {
    use crate::vulkan::tune::fusion::{COMPOSED, COMPOSED_BYTES};
    s.device.is_gpu() && bytes >= COMPOSED_BYTES && !COMPOSED.disabled()
}

#[cfg(not(feature = "vulkan"))]
fn pays(_: Stream, _: usize) -> bool {
    false
}

/// The program of what `f` builds on operands of these dtypes, if that is nothing but several elementwise operations.
fn lowered(dtypes: &[Dtype], f: Composition) -> Option<Program> {
    let _running = Placeholders::new();
    let operands =
        dtypes.iter().map(|&d| Array::placeholder(&[2][..], d)).collect::<Result<Vec<_>>>().ok()?;
    let out = f(&operands).ok()?;
    let mut known: Vec<(u64, Src)> =
        // FITS: a composition has a few operands.
        operands.iter().enumerate().map(|(i, a)| (a.id(), Src::Input(i as u8))).collect();
    let mut program = Program { inputs: dtypes.into(), instrs: SmallVec::new(), outputs: SmallVec::new() };
    let Src::Reg(r) = lower(&out, &mut known, &mut program)? else { return None };
    program.outputs.push(r);
    (program.instrs.len() > 1).then_some(program)
}

/// Where a program has a value, after the instructions that make it.
fn lower(a: &Array, known: &mut Vec<(u64, Src)>, program: &mut Program) -> Option<Src> {
    if let Some((_, src)) = known.iter().find(|(id, _)| *id == a.id()) {
        return Some(*src);
    }
    let src = match a.node() {
        None => Src::Const(scalar_bits(a)?, a.dtype()),
        Some(node) => {
            let op = instruction(&*node.primitive)?;
            let args = node.inputs.iter().map(|i| lower(i, known, program)).collect::<Option<_>>()?;
            program.instrs.push(Instr { op, args, dtype: a.dtype() });
            Src::Reg(u8::try_from(program.instrs.len() - 1).ok()?)
        }
    };
    known.push((a.id(), src));
    Some(src)
}

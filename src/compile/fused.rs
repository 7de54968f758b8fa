//! A fused kernel as a primitive. The transforms see the steps it was made of.

use crate::core::layout::row_major;
use crate::core::{Array, Batched, Derivatives, Jvp, Primitive, Result, Shape, Stream, Vjp, Vmap};
use crate::kernels::{Program, RowProgram};
use crate::ops::reduce::programs::{self, Reads};
use crate::ops::{elementwise, matmul};

use super::product::Follow;
use super::tape::Tape;

/// What a kernel computes.
enum Code {
    /// Elementwise operations.
    Each(Program),
    /// Operations over the rows of a shape, which reads its inputs so.
    Rows(RowProgram, Shape, Vec<Reads>),
    /// A matrix product, and elementwise operations on its results.
    Product(Follow),
}

/// Several operations in one kernel.
pub struct Fused {
    code: Code,
    /// The same operations one by one.
    steps: Tape,
    name: String,
}

impl Fused {
    /// A program with the steps that it stands for.
    pub fn new(program: Program, steps: Tape) -> Fused {
        let name = program.name();
        Fused { code: Code::Each(program), steps, name }
    }

    /// The operations one by one.
    pub fn steps(&self) -> &Tape {
        &self.steps
    }

    /// A program over the rows of `shape`, with the steps that it stands for.
    pub(super) fn rows(program: RowProgram, shape: Shape, reads: Vec<Reads>, steps: Tape) -> Fused {
        let name = program.name();
        Fused { code: Code::Rows(program, shape, reads), steps, name }
    }

    /// A product with an epilogue, with the steps that it stands for.
    pub(super) fn product(follow: Follow, steps: Tape) -> Fused {
        let name = format!("{}_{}", follow.product.name(), follow.epilogue.program.name());
        Fused { code: Code::Product(follow), steps, name }
    }
}

impl Follow {
    /// The product and its epilogue one after the other: `run` evaluates the product, then `each` the program.
    fn apart(
        &self,
        inputs: &[Array],
        outputs: &[Array],
        run: impl FnOnce(&[Array], &[Array]) -> Result<()>,
        each: impl FnOnce(&Program, &[Array], &[Array]) -> Result<()>,
    ) -> Result<()> {
        let (own, rest) = inputs.split_at(self.own);
        let product = Array::placeholder(self.shape.clone(), self.dtype)?;
        run(own, std::slice::from_ref(&product))?;
        // In the shape of the result, and the only owner of its memory, so that the program may write over it.
        let shaped = Array::placeholder(outputs[0].shape(), self.dtype)?;
        shaped.set_data(row_major(shaped.shape()), 0, product.data()?.storage.clone());
        drop(product);
        let mut all = rest.to_vec();
        all.insert(self.epilogue.product as usize, shaped);
        each(&self.epilogue.program, &all, outputs)
    }
}

impl Primitive for Fused {
    fn name(&self) -> &str {
        &self.name
    }

    fn program(&self) -> Option<&dyn std::any::Any> {
        match &self.code {
            Code::Each(p) => Some(p),
            Code::Rows(..) | Code::Product(_) => None,
        }
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        match &self.code {
            Code::Each(p) => elementwise::run_cpu(p, inputs, outputs),
            Code::Rows(p, shape, reads) => programs::run_cpu(p, shape, reads, inputs, outputs),
            Code::Product(f) => {
                f.apart(inputs, outputs, |i, o| f.product.eval_cpu(i, o), elementwise::run_cpu)
            }
        }
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        match &self.code {
            Code::Each(p) => elementwise::run_gpu(p, stream, inputs, outputs),
            Code::Rows(p, shape, reads) => programs::run_gpu(p, shape, reads, stream, inputs, outputs),
            Code::Product(f) => {
                if matmul::run_followed(&*f.product, f.epilogue, f.own, stream, inputs, &outputs[0])? {
                    return Ok(());
                }
                let run = |i: &[Array], o: &[Array]| f.product.eval_gpu(stream, i, o);
                f.apart(inputs, outputs, run, |p, i, o| elementwise::run_gpu(p, stream, i, o))
            }
        }
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let given: Vec<Array> = r.argnums.iter().map(|&i| r.primals[i].clone()).collect();
        let (_, grads) =
            crate::autodiff::vjp(&mut |a| self.with(r.primals, r.argnums, a), &given, r.cotangents)?;
        Ok(grads.into_iter().map(Some).collect())
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let given: Vec<Array> = r.argnums.iter().map(|&i| r.primals[i].clone()).collect();
        let (_, tangents) =
            crate::autodiff::jvp(&mut |a| self.with(r.primals, r.argnums, a), &given, r.tangents)?;
        Ok(Some(tangents.into_iter().map(Some).collect()))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let axes: Vec<Option<i64>> = r.axes.iter().map(|a| a.map(|a| a as i64)).collect();
        let n = r.outputs.len();
        let mut f = |a: &[Array]| Ok((self.play(a)?, vec![Some(0); n]));
        Ok((crate::autodiff::vmap(&mut f, r.inputs, &axes)?, vec![Some(0); n]))
    }
}

impl Fused {
    /// The steps on other arrays of the same shapes.
    fn play(&self, inputs: &[Array]) -> Result<Vec<Array>> {
        self.steps.play(inputs, false)
    }

    /// The steps on the primals, some of them replaced.
    fn with(&self, primals: &[Array], argnums: &[usize], given: &[Array]) -> Result<Vec<Array>> {
        let mut all = primals.to_vec();
        for (&i, a) in argnums.iter().zip(given) {
            all[i] = a.clone();
        }
        self.play(&all)
    }
}

//! A fused kernel as a primitive. The transforms see the steps it was made of.

use crate::core::{Array, Batched, Derivatives, Jvp, Primitive, Result, Stream, Vjp, Vmap};
use crate::graph::tape::Tape;
use crate::kernels::{Program, RowProgram};

/// What a kernel computes, and how; each pattern has its own.
pub(super) trait Code: Send + Sync {
    /// The name of the primitive.
    fn name(&self) -> String;

    /// The program, if it is one of elementwise operations alone.
    fn program(&self) -> Option<&Program> {
        None
    }

    /// The program, if it is one over rows.
    fn rows(&self) -> Option<&RowProgram> {
        None
    }

    fn run_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()>;

    fn run_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()>;
}

/// Several operations in one kernel.
pub struct Fused {
    /// Which pattern they are.
    pub pattern: &'static str,
    code: Box<dyn Code>,
    /// The same operations one by one.
    steps: Tape,
    name: String,
}

impl Fused {
    /// A kernel with the steps that it stands for.
    pub(super) fn new(pattern: &'static str, code: Box<dyn Code>, steps: Tape) -> Fused {
        let name = code.name();
        Fused { pattern, code, steps, name }
    }

    /// The program, if it is one over rows.
    pub(super) fn rows(&self) -> Option<&RowProgram> {
        self.code.rows()
    }

    /// The operations one by one.
    pub fn steps(&self) -> &Tape {
        &self.steps
    }
}

impl Primitive for Fused {
    fn name(&self) -> &str {
        &self.name
    }

    fn program(&self) -> Option<&dyn std::any::Any> {
        self.code.program().map(|p| p as &dyn std::any::Any)
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.code.run_cpu(inputs, outputs)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.code.run_gpu(stream, inputs, outputs)
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

//! Arrays that are computed only after others: the graph's edges without arithmetic.

use std::sync::Arc;

use crate::core::{
    Array, Batched, Derivatives, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::params;

/// Output i is input i; the inputs beyond the outputs only have to be computed before.
struct Depends {
    count: usize,
}

impl Depends {
    fn eval(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        for (x, out) in inputs.iter().zip(outputs) {
            let d = x.data()?;
            out.set_data(d.strides.clone(), d.offset, d.storage.clone());
        }
        Ok(())
    }
}

impl Primitive for Depends {
    fn name(&self) -> &str {
        "depends"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.count]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, outputs)
    }

    fn eval_gpu(&self, _: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, outputs)
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        r.each(|i| Ok((i < self.count).then(|| r.cotangents[i].clone())))
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        Ok(Some((0..self.count).map(|i| r.tangent(i).cloned()).collect()))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let (kept, others) = r.inputs.split_at(self.count);
        Ok((depends(kept, others)?, r.axes[..self.count].to_vec()))
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(inputs[..self.count].iter().map(|a| a.shape().into()).collect())
    }
}

/// A stored dependency.
pub(super) fn restore(c: &Stored) -> Result<Vec<Array>> {
    let count = c.axis(0, c.inputs.len() + 1)?;
    let specs = c.inputs[..count].iter().map(|a| (a.shape().into(), a.dtype())).collect();
    Array::lazy_many(specs, Arc::new(Depends { count }), c.inputs.to_vec(), c.stream)
}

/// The arrays of `inputs`, which now are computed only after those of `dependencies`.
pub fn depends(inputs: &[Array], dependencies: &[Array]) -> Result<Vec<Array>> {
    let Some(first) = inputs.first() else { return Ok(Vec::new()) };
    let s =
        first.node().map_or_else(|| crate::core::default_stream(crate::core::default_device()), |n| n.stream);
    let specs = inputs.iter().map(|a| (a.shape().into(), a.dtype())).collect();
    let all = inputs.iter().chain(dependencies).cloned().collect();
    Array::lazy_many(specs, Arc::new(Depends { count: inputs.len() }), all, s)
}

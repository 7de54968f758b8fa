//! The number of elements along some axes, as an array: what a mean divides by. It is a constant, except
//! while a function is recorded for arrays of any length; then it is computed from the input's shape.

use crate::core::lengths_vary;
use crate::core::{Array, Batched, Dtype, Param, Primitive, Result, Shape, Stored, Stream, Vmap};
use crate::ops::support::*;
use crate::params;

struct Count {
    axes: Vec<usize>,
    less: i64,
    dtype: Dtype,
}

impl Count {
    /// A single number on the host, which either device reads.
    fn value(&self, shape: &[i64]) -> Result<Array> {
        let n: f64 = self.axes.iter().map(|&i| shape[i] as f64).product();
        scalar_f64((n - self.less as f64).max(0.0), self.dtype)
    }

    fn eval(&self, inputs: &[Array], out: &Array) -> Result<()> {
        let value = self.value(inputs[0].shape())?;
        let d = value.data()?;
        out.set_data(d.strides.clone(), d.offset, d.storage.clone());
        Ok(())
    }
}

impl Primitive for Count {
    fn name(&self) -> &str {
        "number_of_elements"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.axes.as_slice(), self.less]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, &outputs[0])
    }

    fn eval_gpu(&self, _: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval(inputs, &outputs[0])
    }

    fn expands(&self) -> bool {
        true
    }

    fn expand(&self, inputs: &[Array], _: Stream) -> Result<Vec<Array>> {
        Ok(vec![self.value(inputs[0].shape())?])
    }

    fn blocks_gradient(&self) -> bool {
        true
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let mut shape: Shape = r.inputs[0].shape().into();
        if let Some(axis) = r.axes[0] {
            shape.remove(axis);
        }
        Ok((vec![self.value(&shape)?], vec![None]))
    }

    fn output_shapes(&self, _: &[Array]) -> Result<Vec<Shape>> {
        Ok(vec![Shape::new()])
    }
}

/// A stored count.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let a = c.input()?;
    count(a, &c.axes(0, a.ndim())?, c.int(1)?.clamp(-1 << 40, 1 << 40), c.spec()?.1, c.stream)
}

/// Elements of `a` along `axes`, less `less`, but not below zero; a single number of `dtype`.
pub(in crate::ops) fn count(a: &Array, axes: &[usize], less: i64, dtype: Dtype, s: Stream) -> Result<Array> {
    let count = Count { axes: axes.to_vec(), less, dtype };
    if lengths_vary() {
        return Array::lazy(Shape::new(), dtype, count, vec![a.clone()], s);
    }
    count.value(a.shape())
}

//! Operations that are made of others by numbers from the shapes of their inputs, while a function is recorded for
//! arrays of any length: one node with the name and parameters of the operation, which `restore` makes into graph again
//! for the shapes of a call. Elsewhere there are no such nodes.

use std::borrow::Cow;

use super::restore::made;
use crate::bail;
use crate::core::varying::{Lengths, follows};
use crate::core::{
    Array, Dtype, Param, Primitive, PrimitiveRef, Result, Shape, Stored, Stream, lengths_vary,
};

/// An operation by name and parameters.
#[derive(PartialEq)]
pub(crate) struct Composite {
    name: Cow<'static, str>,
    params: Vec<Param>,
    /// What the outputs look like, where a file says so.
    specs: Vec<(Shape, Dtype)>,
}

impl Composite {
    /// A call that a file describes.
    pub fn stored(name: &str, params: Vec<Param>, specs: Vec<(Shape, Dtype)>) -> Composite {
        Composite { name: Cow::Owned(name.into()), params, specs }
    }
}

impl Primitive for Composite {
    fn name(&self) -> &str {
        &self.name
    }

    fn params(&self) -> Option<Vec<Param>> {
        Some(self.params.clone())
    }

    fn eval_cpu(&self, _: &[Array], _: &[Array]) -> Result<()> {
        bail!(Runtime, "[eval] {} was recorded for arrays of any length.", self.name);
    }

    fn eval_gpu(&self, _: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        self.eval_cpu(inputs, outputs)
    }

    fn expands(&self) -> bool {
        true
    }

    fn expand(&self, inputs: &[Array], stream: Stream) -> Result<Vec<Array>> {
        let _fixed = Lengths::fixed();
        made(&Stored { name: &self.name, params: &self.params, inputs, specs: &self.specs, stream })
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn std::any::Any).downcast_ref() == Some(self)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        super::support::shapes_of(self, inputs)
    }
}

/// The outputs of an operation as a node that follows the shapes of `inputs`; `None` where these are what they are, and
/// the operation is made as always.
pub(super) fn many(
    name: &'static str,
    params: impl FnOnce() -> Vec<Param>,
    inputs: &[&Array],
    s: Stream,
) -> Result<Option<Vec<Array>>> {
    if !lengths_vary() || !inputs.iter().any(|a| follows(a)) {
        return Ok(None);
    }
    let inputs: Vec<Array> = inputs.iter().copied().cloned().collect();
    let op = Composite { name: Cow::Borrowed(name), params: params(), specs: Vec::new() };
    let specs = op.expand(&inputs, s)?.iter().map(|o| (o.shape().into(), o.dtype())).collect();
    Ok(Some(Array::lazy_shared(specs, PrimitiveRef::new(op), inputs, s)?.into_vec()))
}

/// As [`many`], for operations of one output.
pub(super) fn one(
    name: &'static str,
    params: impl FnOnce() -> Vec<Param>,
    inputs: &[&Array],
    s: Stream,
) -> Result<Option<Array>> {
    Ok(many(name, params, inputs, s)?.map(|mut all| all.remove(0)))
}

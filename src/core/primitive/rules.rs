//! What a primitive's rules of differentiation and vectorisation are given, and what they give back.

use crate::core::array::Array;
use crate::core::device::Stream;
use crate::core::error::{Error, Result};
use crate::core::layout::Shape;

/// Result of vectorising a primitive: outputs and the axis each carries the batch on.
pub type Batched = (Vec<Array>, Vec<Option<usize>>);

/// A derivative for each array asked for; `None` stands for zeros.
pub type Derivatives = Vec<Option<Array>>;

/// The rules that are asked for each primitive from the inputs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// [`Primitive::jvp`].
    Jvp,
    /// [`Primitive::vmap`].
    Vmap,
}

/// The two ways to differentiate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the outputs back.
    Vjp,
    /// From the inputs on.
    Jvp,
}

impl Direction {
    /// The error of an op whose input holds positions.
    pub fn of_indices(self, op: &str) -> Error {
        let rule = match self {
            Direction::Vjp => "VJP",
            Direction::Jvp => "JVP",
        };
        Error::Value(format!(
            "[{op}] Cannot calculate {rule} with respect to indices. Use stop_gradient on indices to stop gradients \
             from being computed."
        ))
    }
}

/// What a vjp rule is given.
pub struct Vjp<'a> {
    /// All inputs.
    pub primals: &'a [Array],
    /// One cotangent for each output.
    pub cotangents: &'a [Array],
    /// The inputs whose cotangents are wanted.
    pub argnums: &'a [usize],
    /// All outputs.
    pub outputs: &'a [Array],
    /// Where to compute.
    pub stream: Stream,
}

impl Vjp<'_> {
    /// The cotangent of every wanted input, by its number.
    pub fn each(&self, rule: impl FnMut(usize) -> Result<Option<Array>>) -> Result<Derivatives> {
        self.argnums.iter().copied().map(rule).collect()
    }
}

/// What a jvp rule is given.
pub struct Jvp<'a> {
    /// All inputs.
    pub primals: &'a [Array],
    /// The tangents of the inputs in `argnums`; the others are constant.
    pub tangents: &'a [Array],
    /// The inputs that have a tangent.
    pub argnums: &'a [usize],
    /// All outputs.
    pub outputs: &'a [Array],
    /// Where to compute.
    pub stream: Stream,
}

impl Jvp<'_> {
    /// The tangent of an input, if it has one.
    pub fn tangent(&self, input: usize) -> Option<&Array> {
        self.argnums.iter().position(|&i| i == input).map(|k| &self.tangents[k])
    }
}

/// What a vmap rule is given.
pub struct Vmap<'a> {
    /// All inputs; those that vary have one axis more than the primitive was made for.
    pub inputs: &'a [Array],
    /// The batch axis of each input; `None` where it does not vary.
    pub axes: &'a [Option<usize>],
    /// The outputs of one element of the batch.
    pub outputs: &'a [Array],
    /// Where to compute.
    pub stream: Stream,
}

impl Vmap<'_> {
    /// Length of the batch.
    pub fn size(&self) -> i64 {
        let batched = self.inputs.iter().zip(self.axes).find_map(|(a, ax)| ax.map(|ax| a.shape()[ax]));
        batched.unwrap_or(1)
    }

    /// Shape of an output for the whole batch, which comes first.
    pub fn shape(&self, output: usize) -> Shape {
        std::iter::once(self.size()).chain(self.outputs[output].shape().iter().copied()).collect()
    }
}

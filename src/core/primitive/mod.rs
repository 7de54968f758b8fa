//! What an operation must provide to live in the graph. Implemented in `ops/`; called by `eval`, `autodiff` and `compile`.
//! Derivatives build graph from ops, so they nest to any order.

mod rules;

use std::ops::Deref;
use std::sync::Arc;

pub use self::rules::{Batched, Derivatives, Direction, Jvp, Rule, Vjp, Vmap};

use super::array::Array;
use super::device::Stream;
use super::error::{Error, Result};
use super::layout::Shape;
use super::stored::Param;

/// The primitive of a node. One that lives as long as the process is not counted.
#[derive(Clone)]
pub enum PrimitiveRef {
    /// Never dropped.
    Kept(&'static dyn Primitive),
    /// Dropped with its last node.
    Counted(Arc<dyn Primitive>),
}

impl PrimitiveRef {
    /// Holds a primitive; one without fields takes no memory.
    pub fn new<P: Primitive>(primitive: P) -> PrimitiveRef {
        if size_of::<P>() == 0 && !std::mem::needs_drop::<P>() {
            return PrimitiveRef::Kept(Box::leak(Box::new(primitive)));
        }
        PrimitiveRef::Counted(Arc::new(primitive))
    }
}

impl<P: Primitive> From<Arc<P>> for PrimitiveRef {
    fn from(p: Arc<P>) -> PrimitiveRef {
        PrimitiveRef::Counted(p)
    }
}

impl Deref for PrimitiveRef {
    type Target = dyn Primitive;
    fn deref(&self) -> &(dyn Primitive + 'static) {
        match self {
            PrimitiveRef::Kept(p) => *p,
            PrimitiveRef::Counted(p) => &**p,
        }
    }
}

/// An operation on arrays. Outputs have their shape and dtype before evaluation; evaluation gives them
/// layout and storage through [`Array::set_data`].
pub trait Primitive: Send + Sync + std::any::Any {
    /// Name for printing, statistics and errors, for example `matmul`.
    fn name(&self) -> &str;

    /// Computes on the host. Inputs are evaluated and readable there.
    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()>;

    /// Records on the encoder of a GPU stream and returns without waiting.
    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()>;

    /// Whether evaluation only sets a layout over the first input's storage (no work on any device).
    fn is_view(&self) -> bool {
        false
    }

    /// Whether it is a view of an input of this shape, however that one lies in memory.
    fn is_view_of(&self, _input: &[i64], _output: &[i64]) -> bool {
        self.is_view()
    }

    /// Whether evaluation on a GPU looks for steps that one kernel computes together with this one.
    fn may_join(&self) -> bool {
        false
    }

    /// The `kernels::Program` that it computes, where it is a kernel of several elementwise operations. `Any`, because
    /// this floor knows no kernels.
    fn program(&self) -> Option<&dyn std::any::Any> {
        None
    }

    /// Whether no derivative flows through: outputs do not change with small changes of the inputs, or the
    /// op says so.
    fn blocks_gradient(&self) -> bool {
        false
    }

    /// The error for a derivative with respect to an input that holds positions: whoever differentiates with respect
    /// to something that they follow from has to say that it does not count. `None` for all other inputs.
    fn refuses(&self, _way: Direction, _input: usize) -> Option<Error> {
        None
    }

    /// Cotangents of the wanted inputs from those of the outputs.
    fn vjp(&self, _rule: &Vjp) -> Result<Derivatives> {
        Err(self.missing("vjp"))
    }

    /// Tangents of the outputs from those of the wanted inputs. An outer `None` means that the transform
    /// shall derive them by transposing [`Primitive::vjp`], which works wherever that exists.
    fn jvp(&self, _rule: &Jvp) -> Result<Option<Derivatives>> {
        Ok(None)
    }

    /// Whether a tangent of nothing has the dtype of the inputs' tangents, as that of a comparison in MLX, and not
    /// that of the output.
    fn zero_tangent_like_inputs(&self, _inputs: &[Array]) -> bool {
        false
    }

    /// The primitive over a batch axis of some inputs: its outputs, and the axis that carries the batch in each.
    fn vmap(&self, _rule: &Vmap) -> Result<Batched> {
        Err(self.missing("vmap"))
    }

    /// Whether a rule does without an input, so that what computes the input needs no rule.
    fn passes_over(&self, _rule: Rule, _input: usize) -> bool {
        false
    }

    /// Whether `other` computes the same outputs from the same inputs.
    fn same(&self, _other: &dyn Primitive) -> bool {
        false
    }

    /// Shapes of the outputs for inputs of other shapes than the primitive was made for.
    fn output_shapes(&self, _inputs: &[Array]) -> Result<Vec<Shape>> {
        Err(cannot_follow(self.name()))
    }

    /// Whether the primitive stands for graph, which [`Primitive::expand`] makes for the shapes of a call.
    fn expands(&self) -> bool {
        false
    }

    /// The outputs as graph over these inputs.
    fn expand(&self, _inputs: &[Array], _stream: Stream) -> Result<Vec<Array>> {
        Err(self.missing("expand"))
    }

    /// What a file must keep besides the name; `ops::restore` makes the primitive from it again. `None` where
    /// that cannot be.
    fn params(&self) -> Option<Vec<Param>> {
        None
    }

    /// The error for a rule that does not exist.
    fn missing(&self, what: &str) -> Error {
        Error::Value(format!("[Primitive::{what}] Not implemented for {}.", self.name()))
    }
}

/// The error for an operation whose result has a shape that does not follow from those of its inputs.
pub fn cannot_follow(name: &str) -> Error {
    Error::Value(format!("[Primitive::output_shapes] {name} cannot infer output shapes."))
}

//! What an operation must provide to live in the graph. Implemented in `ops/`; called by `transforms/`.
//! Derivatives build graph from ops, so they nest to any order.

use super::array::Array;
use super::device::Stream;
use super::error::{Error, Result};

/// Result of vectorising a primitive: outputs and the axis each carries the batch on.
pub type Batched = (Vec<Array>, Vec<Option<usize>>);

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

    /// Whether derivatives stop here.
    fn blocks_gradient(&self) -> bool {
        false
    }

    /// Cotangents of `primals[argnums]` from those of the outputs.
    fn vjp(
        &self,
        _primals: &[Array],
        _cotangents: &[Array],
        _argnums: &[usize],
        _outputs: &[Array],
        _stream: Stream,
    ) -> Result<Vec<Array>> {
        Err(self.missing("vjp"))
    }

    /// Tangents of the outputs from those of `primals[argnums]`. `None` means that the transform shall
    /// derive them by transposing [`Primitive::vjp`], which works wherever that exists.
    fn jvp(
        &self,
        _primals: &[Array],
        _tangents: &[Array],
        _argnums: &[usize],
        _outputs: &[Array],
        _stream: Stream,
    ) -> Result<Option<Vec<Array>>> {
        Ok(None)
    }

    /// The primitive over a batch axis of some inputs.
    fn vmap(&self, _inputs: &[Array], _axes: &[Option<usize>], _stream: Stream) -> Result<Batched> {
        Err(self.missing("vmap"))
    }

    /// The error for a rule that does not exist.
    fn missing(&self, what: &str) -> Error {
        Error::Value(format!("[Primitive::{what}] Not implemented for {}.", self.name()))
    }
}

//! Runs programs over rows, which only compiled functions have, on arrays.

use crate::core::layout::broadcast_strides;
use crate::core::{Array, Result, Shape, Stream};
use crate::kernels::{RowProgram, View};
use crate::on_gpu;
use crate::ops::support::*;

/// How a program over rows of one shape reads an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Broadcast to the whole shape.
    Elements,
    /// One number for each row: broadcast to the shape whose last axis has length 1.
    Rows,
    /// One number for each row: broadcast to the shape without the last axis.
    RowsDropped,
}

/// A view of `shape` that does not move along the rows where there is one number for each.
fn over<P: Copy>(mut v: View<P>, reads: Reads, shape: &[i64]) -> View<P> {
    let last = shape.len() - 1;
    let mut target: Shape = shape.into();
    match reads {
        Reads::Elements => v.strides = broadcast_strides(&v.shape, &v.strides, &target),
        Reads::Rows => {
            target[last] = 1;
            v.strides = broadcast_strides(&v.shape, &v.strides, &target);
            v.strides[last] = 0;
        }
        Reads::RowsDropped => {
            v.strides = broadcast_strides(&v.shape, &v.strides, &shape[..last]);
            v.strides.push(0);
        }
    }
    v.shape = shape.into();
    v
}

/// Runs a program over the rows of `shape`.
pub(crate) fn run_cpu(
    p: &RowProgram,
    shape: &[i64],
    reads: &[Reads],
    inputs: &[Array],
    outputs: &[Array],
) -> Result<()> {
    let ins = inputs.iter().zip(reads).map(|(a, &r)| Ok(over(host_in(a)?, r, shape)));
    let ins = ins.collect::<Result<Vec<_>>>()?;
    let outs = outputs.iter().map(host_out).collect::<Result<Vec<_>>>()?;
    crate::cpu::reduce::programs::run(p, shape, &ins, &outs)
}

/// As [`run_cpu`], on a GPU stream.
pub(crate) fn run_gpu(
    p: &RowProgram,
    shape: &[i64],
    reads: &[Reads],
    stream: Stream,
    inputs: &[Array],
    outputs: &[Array],
) -> Result<()> {
    on_gpu!(stream, |enc| {
        let mut ins = Vec::new();
        for (a, &r) in inputs.iter().zip(reads) {
            ins.push(over(dev_in(enc, a)?, r, shape));
        }
        // A lane writes the elements that it has read, so one of those inputs may give its memory.
        let outs = match outputs {
            [out] if out.shape() == shape => vec![dev_out_reusing(enc, out, inputs)?],
            all => all.iter().map(|o| dev_out(enc, o)).collect::<Result<Vec<_>>>()?,
        };
        crate::vulkan::kernels::reduce::programs::run(enc, p, shape, &ins, &outs)
    })
}

//! What op files share: turning arrays into kernel views on either device, allocating or donating outputs,
//! host constants, axes and broadcasting helpers.

mod constants;
mod views;

pub use self::constants::*;
pub use self::views::*;

use crate::bail;
use crate::core::layout::{normalize_axis, shown};
use crate::core::{Array, Device, Dtype, Jvp, Placeholders, Primitive, Result, Shape, Stream};
use crate::core::{default_stream, lengths_vary};

/// Records on the encoder of a GPU stream: `on_gpu!(stream, |enc| { ... })`.
#[macro_export]
macro_rules! on_gpu {
    ($stream:expr, |$enc:ident| $body:expr) => {{
        #[cfg(feature = "vulkan")]
        {
            $crate::vulkan::with_encoder($stream, |$enc| $body)
        }
        #[cfg(not(feature = "vulkan"))]
        {
            Err($crate::core::Error::Runtime(format!(
                "[eval] {} is not available: built without Vulkan.",
                $stream
            )))
        }
    }};
}

/// Whether a transform sees what is made of arrays: it is differentiated, recorded, or recorded for arrays of any length.
pub fn transformed(inputs: &[Array]) -> bool {
    lengths_vary() || Placeholders::exist() || inputs.iter().any(Array::is_tracer)
}

/// Normalised, sorted axes; all of them for `None`.
pub fn sorted_axes(op: &str, axes: Option<&[i64]>, ndim: usize) -> Result<Vec<usize>> {
    let Some(axes) = axes else { return Ok((0..ndim).collect()) };
    let mut out = axes.iter().map(|&a| normalize_axis(op, a, ndim)).collect::<Result<Vec<_>>>()?;
    out.sort_unstable();
    Ok(out)
}

/// As [`sorted_axes`], each of them once.
pub fn axes_of(op: &str, axes: Option<&[i64]>, ndim: usize) -> Result<Vec<usize>> {
    let out = sorted_axes(op, axes, ndim)?;
    if out.windows(2).any(|w| w[0] == w[1]) {
        bail!(Value, "[{op}] Duplicate axis in {:?}.", shown(axes.unwrap_or(&[])));
    }
    Ok(out)
}

/// Fails for more arrays than an operation makes at once: an array without elements can be cut into any number of them.
pub fn check_count(op: &str, arrays: i64) -> Result<()> {
    const MOST: i64 = 1 << 22;
    if arrays > MOST {
        bail!(Value, "[{op}] At most {MOST} arrays are made at once, got {arrays}.");
    }
    Ok(())
}

/// `shape` with `axes` removed, or kept as 1.
pub fn drop_axes(shape: &[i64], axes: &[usize], keep: bool) -> Shape {
    let mut out = Shape::new();
    for (i, &d) in shape.iter().enumerate() {
        if !axes.contains(&i) {
            out.push(d);
        } else if keep {
            out.push(1);
        }
    }
    out
}

/// A running sum of derivative terms.
pub fn plus(total: Option<Array>, term: Array, s: Stream) -> Result<Option<Array>> {
    Ok(Some(match total {
        None => term,
        Some(sum) => super::add(&sum, &term, s)?,
    }))
}

/// The tangent of an input; zeros where it is constant.
pub fn tangent_or_zeros(r: &Jvp, input: usize) -> Result<Array> {
    match r.tangent(input) {
        Some(t) => Ok(t.clone()),
        None => super::zeros_like(&r.primals[input], r.stream),
    }
}

/// Fails for dtypes that a GPU stream does not compute with.
pub fn refuse_f64(op: &str, arrays: &[Array], s: Stream) -> Result<()> {
    if s.device.is_gpu() && arrays.iter().any(|a| a.dtype() == Dtype::F64) {
        bail!(Value, "[{op}] float64 is not supported on the GPU; use a CPU stream.");
    }
    Ok(())
}

/// Shapes of what a primitive stands for, over these inputs.
pub fn shapes_of(p: &dyn Primitive, inputs: &[Array]) -> Result<Vec<Shape>> {
    let stream = default_stream(Device::CPU);
    Ok(p.expand(inputs, stream)?.iter().map(|a| a.shape().into()).collect())
}

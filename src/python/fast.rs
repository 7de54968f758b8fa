//! `mlx.core.fast`: operations with kernels of their own, and kernels that users write.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple};

use super::array::{Out, PyArray, out};
use super::convert::Arr;
use super::device::{S, pick};
use super::dtype::D;
use crate::ops::fast::{self, MaskArg, Offset, Rotation};

fn of(a: &Option<Arr>) -> Option<&crate::core::Array> {
    a.as_ref().map(|a| &a.0)
}

/// `x / sqrt(mean(x**2) + eps) * weight` over the last axis of `x`. `weight` has the size of that axis, or is None.
/// The result has the promoted dtype of both; sums are in float32. Raises ValueError for dtypes that are not real
/// floating and weights that do not fit.
///
/// >>> mx.fast.rms_norm(mx.array([3.0, 4.0]), None, 0.0) * 12.5 ** 0.5
/// array([3, 4], dtype=float32)
#[pyfunction]
#[pyo3(signature = (x, weight, eps, *, stream=None))]
fn rms_norm(x: Arr, weight: Option<Arr>, eps: f64, stream: S) -> Out {
    out(fast::rms_norm(&x.0, of(&weight), eps as f32, pick(stream)))
}

/// `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias` over the last axis of `x`. `weight` and `bias` have the
/// size of that axis, or are None. The result has the promoted dtype of all, or that of `x` if there is no weight;
/// sums are in float32. Raises ValueError
/// for dtypes that are not real floating and weights that do not fit.
///
/// >>> mx.fast.layer_norm(mx.array([1.0, 3.0]), None, None, 0.0)
/// array([-1, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (x, weight, bias, eps, *, stream=None))]
fn layer_norm(x: Arr, weight: Option<Arr>, bias: Option<Arr>, eps: f64, stream: S) -> Out {
    out(fast::layer_norm(&x.0, of(&weight), of(&bias), eps as f32, pick(stream)))
}

/// A position, or positions: an integer or an array of integers.
struct Start(Offset);

impl<'a, 'py> FromPyObject<'a, 'py> for Start {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if obj.is_instance_of::<PyInt>() {
            let wrong = |_| PyValueError::new_err("[rope] offset must fit 32 bits.");
            return Ok(Start(Offset::Fixed(obj.extract::<i32>().map_err(wrong)?)));
        }
        if obj.is_instance_of::<PyFloat>() {
            return Err(PyValueError::new_err("[rope] offset must be an integer but got type float32."));
        }
        Ok(Start(Offset::Each(obj.extract::<Arr>()?.0)))
    }
}

/// Rotary position embedding of `a`, of shape `(B, ..., T, D)`: the first `dims` features are turned, in pairs of
/// neighbours (`traditional`) or of features `dims / 2` apart, by the angle `scale * (offset + t) * base ** (-2 * i /
/// dims)` for pair `i` of position `t`. `offset` is an integer, or an array of one integer or one for each of `B`.
/// `freqs`, of size `dims / 2`, are wavelengths that stand for the powers of `base`, which is None then. Raises
/// ValueError for arguments that do not fit.
///
/// >>> x = mx.array([1.0, 0.0]).reshape(1, 1, 2)
/// >>> mx.fast.rope(x, 2, traditional=True, base=1e4, scale=1.0, offset=0)
/// array([[[1, 0]]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, dims, *, traditional, base, scale, offset, freqs=None, stream=None))]
#[allow(clippy::too_many_arguments)]
fn rope(
    a: Arr,
    dims: i64,
    traditional: bool,
    base: Option<f64>,
    scale: f64,
    offset: Start,
    freqs: Option<Arr>,
    stream: S,
) -> Out {
    let how = Rotation { dims, traditional, base: base.map(|b| b as f32), scale: scale as f32 };
    out(fast::rope(&a.0, how, offset.0, of(&freqs), pick(stream)))
}

/// `softmax(scale * q @ k.T + mask) @ v` by heads: `q` has shape `(B, N_q, T_q, D)`, `k` `(B, N_kv, T_kv, D)` and `v`
/// `(B, N_kv, T_kv, D_v)`; `N_q` is a multiple of `N_kv`, whose heads serve several heads of queries. `mask` is None,
/// "causal" (the last query stands at the last key) or an array that broadcasts to `(B, N_q, T_q, T_kv)`: true where
/// a key counts, or numbers to add. `sinks`, of shape `(N_q,)`, are scores of one more key of each head, which has no
/// value. The result has the promoted dtype of q, k and v; sums are in float32. `force_fused` refuses CPU streams, which
/// have no such kernel in MLX. Raises ValueError for arguments that do not fit.
///
/// >>> q, k = mx.zeros((1, 4, 1, 8)), mx.zeros((1, 2, 3, 8))
/// >>> mx.fast.scaled_dot_product_attention(q, k, mx.ones((1, 2, 3, 8)), scale=1.0).shape
/// (1, 4, 1, 8)
#[pyfunction]
#[pyo3(signature = (q, k, v, *, scale, mask=None, sinks=None, force_fused=false, stream=None))]
#[allow(clippy::too_many_arguments)]
fn scaled_dot_product_attention(
    q: Arr,
    k: Arr,
    v: Arr,
    scale: f64,
    mask: Option<Bound<'_, PyAny>>,
    sinks: Option<Arr>,
    force_fused: bool,
    stream: S,
) -> Out {
    let mask = match mask {
        None => MaskArg::None,
        Some(m) => match m.cast::<PyString>() {
            Ok(text) if text.to_str()? == "causal" => MaskArg::Causal,
            Ok(text) => {
                return Err(PyValueError::new_err(format!(
                    "[scaled_dot_product_attention] invalid mask option '{}'. Must be 'causal', or an array.",
                    text.to_str()?
                )));
            }
            Err(_) => MaskArg::Array(m.extract::<Arr>()?.0),
        },
    };
    let s = pick(stream);
    if force_fused && !s.device.is_gpu() {
        return Err(PyValueError::new_err(
            "[scaled_dot_product_attention] force_fused=True but no fused kernel is available in CPU backend.",
        ));
    }
    out(fast::scaled_dot_product_attention([&q.0, &k.0, &v.0], scale as f32, mask, of(&sinks), s))
}

/// `logsumexp(logits) - logits[target]` over the last axis, in float32. `targets` holds class indices and has the
/// shape of `logits` without that axis. Raises ValueError for shapes and dtypes that do not fit.
///
/// >>> mx.fast.cross_entropy(mx.zeros((1, 1)), mx.array([0]))
/// array([0], dtype=float32)
#[pyfunction]
#[pyo3(signature = (logits, targets, *, stream=None))]
fn cross_entropy(logits: Arr, targets: Arr, stream: S) -> Out {
    out(fast::cross_entropy(&logits.0, &targets.0, pick(stream)))
}

/// The gated delta rule over `T` steps: `q` and `k` have shape `(B, T, Hk, Dk)`, `v` `(B, T, Hv, Dv)`, `gamma` (decay;
/// also with an axis `Dk` more) and `beta` `(B, T, Hv)`, `initial_state` `(B, Hv, Dv, Dk)`, zeros by default. Where
/// `mask`, of shape `(B, T)`, is false the state stays and the output is zero. Returns the outputs `(B, T, Hv, Dv)` in
/// the dtype of `q` and the last state in float32. Raises ValueError for shapes that do not fit.
///
/// >>> q, g = mx.ones((1, 2, 1, 4)), mx.ones((1, 2, 1))
/// >>> [a.shape for a in mx.fast.gated_delta_update(q, q, q, g, g)]
/// [(1, 2, 1, 4), (1, 1, 4, 4)]
#[pyfunction]
#[pyo3(signature = (q, k, v, gamma, beta, initial_state=None, mask=None, stream=None))]
#[allow(clippy::too_many_arguments)]
fn gated_delta_update(
    q: Arr,
    k: Arr,
    v: Arr,
    gamma: Arr,
    beta: Arr,
    initial_state: Option<Arr>,
    mask: Option<Arr>,
    stream: S,
) -> PyResult<Vec<PyArray>> {
    let outs = fast::gated_delta_update(
        &q.0,
        &k.0,
        &v.0,
        &gamma.0,
        &beta.0,
        of(&initial_state),
        of(&mask),
        pick(stream),
    )?;
    Ok(outs.map(PyArray::new).into())
}

/// A kernel for a backend that is not here: it can be made, but not called.
#[pyclass(name = "_foreign_kernel", module = "mlx.core.fast", frozen)]
struct ForeignKernel(&'static str);

#[pymethods]
impl ForeignKernel {
    #[pyo3(signature = (*_args, **_kwargs))]
    fn __call__(&self, _args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        Err(PyRuntimeError::new_err(self.0))
    }
}

/// An object that stands for a Metal kernel, so that programs which define some can be imported. Calling it raises
/// RuntimeError: there is no Metal here. See `vulkan_kernel`.
///
/// >>> kernel = mx.fast.metal_kernel("f", ["x"], ["y"], "y[0] = x[0];")
#[pyfunction]
#[pyo3(signature = (name, input_names, output_names, source, header="", ensure_row_contiguous=true,
    atomic_outputs=false, compile_options=None))]
#[allow(unused_variables, clippy::too_many_arguments)]
fn metal_kernel(
    name: &str,
    input_names: Vec<String>,
    output_names: Vec<String>,
    source: &str,
    header: &str,
    ensure_row_contiguous: bool,
    atomic_outputs: bool,
    compile_options: Option<Bound<'_, PyAny>>,
) -> ForeignKernel {
    ForeignKernel("[metal_kernel] No Metal back-end.")
}

/// An object that stands for a CUDA kernel. Calling it raises RuntimeError: there is no CUDA here. See
/// `vulkan_kernel`.
///
/// >>> kernel = mx.fast.cuda_kernel("f", ["x"], ["y"], "y[0] = x[0];")
#[pyfunction]
#[pyo3(signature = (name, input_names, output_names, source, header="", ensure_row_contiguous=true,
    shared_memory=0))]
#[allow(unused_variables)]
fn cuda_kernel(
    name: &str,
    input_names: Vec<String>,
    output_names: Vec<String>,
    source: &str,
    header: &str,
    ensure_row_contiguous: bool,
    shared_memory: i64,
) -> ForeignKernel {
    ForeignKernel("[cuda_kernel] No CUDA back-end.")
}

/// Raises RuntimeError: there is no CUDA here.
///
/// >>> mx.cuda.is_available()
/// False
#[pyfunction]
#[pyo3(signature = (*, name, compiled_source, inputs, output_shapes, output_dtypes, scalars, grid, threadgroup,
    shared_memory=0, init_value=None, ensure_row_contiguous=false, stream=None))]
#[allow(unused_variables, clippy::too_many_arguments)]
fn precompiled_cuda_kernel(
    name: &str,
    compiled_source: Bound<'_, PyBytes>,
    inputs: Bound<'_, PyAny>,
    output_shapes: Bound<'_, PyAny>,
    output_dtypes: Vec<D>,
    scalars: Bound<'_, PyAny>,
    grid: (i64, i64, i64),
    threadgroup: (i64, i64, i64),
    shared_memory: i64,
    init_value: Option<f64>,
    ensure_row_contiguous: bool,
    stream: S,
) -> PyResult<Vec<PyArray>> {
    Err(PyRuntimeError::new_err("[cuda_kernel] No CUDA back-end."))
}

/// Adds the submodule.
pub fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m =
        super::submodule(parent, "fast", "Operations with kernels of their own, and user-written kernels.")?;
    for f in [
        wrap_pyfunction!(rms_norm, &m)?,
        wrap_pyfunction!(layer_norm, &m)?,
        wrap_pyfunction!(rope, &m)?,
        wrap_pyfunction!(scaled_dot_product_attention, &m)?,
        wrap_pyfunction!(cross_entropy, &m)?,
        wrap_pyfunction!(gated_delta_update, &m)?,
        wrap_pyfunction!(metal_kernel, &m)?,
        wrap_pyfunction!(cuda_kernel, &m)?,
        wrap_pyfunction!(precompiled_cuda_kernel, &m)?,
    ] {
        m.add_function(f)?;
    }
    super::kernels::register(&m)?;
    super::hide_private(&m)
}

//! `mlx.core.fast`: operations with kernels of their own, and kernels that users write.

mod kernels;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

use crate::compile::export::is_exporting;
use crate::ops::fast::{self, MaskArg, Offset, Rotation};
use crate::python::array::arguments::{Arr, Seq};
use crate::python::array::convert::to_array;
use crate::python::array::dtype::D;
use crate::python::array::{Out, PyArray, out};
use crate::python::runtime::device::{S, pick};

fn of(a: &Option<Arr>) -> Option<&crate::core::Array> {
    a.as_ref().map(|a| &a.0)
}

/// Root mean square normalisation: `x / sqrt(mean(x * x) + eps) * weight` over the last axis.
///
/// Sums are float32. Zhang and Sennrich 2019, "Root Mean Square Layer Normalization" (arXiv 1910.07467).
///
/// Args:
///     x (array): Elements, (..., n), of a real floating dtype.
///     weight (array | None): Factors, (n,); None for ones.
///     eps (float): What keeps the root away from zero.
///
/// Returns:
///     array: Of the shape of `x`, in the promoted dtype of both.
///
/// Raises:
///     ValueError: if `x` has no axes, the weight another length, or the dtype is not a real floating one.
///
/// >>> mx.fast.rms_norm(mx.array([3.0, 4.0]), None, 0.0) * 12.5 ** 0.5
/// array([3, 4], dtype=float32)
#[pyfunction]
#[pyo3(signature = (x, weight, eps, *, stream=None))]
fn rms_norm(x: Arr, weight: Option<Arr>, eps: f64, stream: S) -> Out {
    out(fast::rms_norm(&x.0, of(&weight), eps as f32, pick(stream)))
}

/// Layer normalisation: `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias` over the last axis.
///
/// Sums are float32. Ba et al. 2016, "Layer Normalization" (arXiv 1607.06450).
///
/// Args:
///     x (array): Elements, (..., n), of a real floating dtype.
///     weight (array | None): Factors, (n,); None for ones.
///     bias (array | None): What is added, (n,); None for zeros.
///     eps (float): What keeps the root away from zero.
///
/// Returns:
///     array: Of the shape of `x`, in the promoted dtype of all, or that of `x` without a weight.
///
/// Raises:
///     ValueError: if `x` has no axes, weight or bias another length, or the dtype is not a real floating
///         one.
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
        if obj.is_instance_of::<PyBool>() {
            return Err(PyValueError::new_err("[rope] offset must be an integer but got type bool."));
        }
        if obj.is_instance_of::<PyInt>() {
            let wrong = |_| PyValueError::new_err("[rope] offset must fit 32 bits.");
            return Ok(Start(Offset::Fixed(obj.extract::<i32>().map_err(wrong)?)));
        }
        if obj.is_instance_of::<PyFloat>() {
            return Err(PyValueError::new_err("[rope] offset must be an integer but got type float32."));
        }
        Ok(Start(Offset::Each(to_array(&obj, None)?)))
    }
}

/// Rotary position embedding: pairs of features are turned by an angle that grows with the position.
///
/// Pair i of position t is turned by `scale * (offset + t) * base ** (-2 * i / dims)`, or by `scale * (offset
/// + t) / freqs[i]`. Su et al. 2021, "RoFormer" (arXiv 2104.09864).
///
/// Args:
///     a (array): Elements, (B, ..., T, D), with at least three axes and a real floating dtype.
///     dims (int): How many features are turned, from the first one on; an even number.
///     traditional (bool): Whether pairs are neighbours; else feature i goes with feature `dims / 2 + i`.
///     base (float | None): Base of the wavelengths; None where `freqs` are given.
///     scale (float): Factor on positions.
///     offset (int | array): Position of the first element: an integer, or an array of one or of one for each
///         of B.
///     freqs (array, optional): Wavelengths, (dims / 2,), in the place of the powers of `base`. Default:
///         None.
///
/// Returns:
///     array: Of the shape and dtype of `a`.
///
/// Raises:
///     ValueError: if there are fewer than three axes, `dims` is odd or not positive, not exactly one of
///         `base` and `freqs` is given, or a shape or dtype does not fit.
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

/// Attention of several heads: `softmax(scale * q @ k.T + mask) @ v`, without scores in memory.
///
/// Heads of keys and values may be fewer than those of queries, of which each then serves a group
/// (grouped-query attention; no repetition is needed). Sums are float32. Vaswani et al. 2017, "Attention Is
/// All You Need" (arXiv 1706.03762); the running maximum of Dao et al. 2022 (arXiv 2205.14135).
///
/// Args:
///     q (array): Queries, (B, N_q, T_q, D), of a real floating dtype.
///     k (array): Keys, (B, N_kv, T_kv, D), where N_kv divides N_q.
///     v (array): Values, (B, N_kv, T_kv, D_v).
///     scale (float): Factor on scores, usually `D ** -0.5`.
///     mask (str | array, optional): "causal", where the last query stands at the last key; a bool array that
///         broadcasts to (B, N_q, T_q, T_kv), true where a key counts; or numbers to add to scores. Default:
///         None.
///     sinks (array, optional): Scores, (N_q,), of one more key of each head that has no value. Default:
///         None.
///     force_fused (bool, optional): Whether a stream that has no such kernel in MLX is refused: CPU streams.
///         Default: False.
///
/// Returns:
///     array: Of shape (B, N_q, T_q, D_v), in the promoted dtype of queries, keys and values.
///
/// Raises:
///     ValueError: if a rank, shape or dtype does not fit, N_kv does not divide N_q, or the mask is another
///         text.
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

/// Cross entropy of class indices and logits: `logsumexp(logits) - logits[target]` over the last axis.
///
/// Computed in float32 and in one pass, without probabilities in memory. See `mlx.nn.losses.cross_entropy`
/// for weights, smoothing and other axes.
///
/// Args:
///     logits (array): Scores of the classes, (..., n), of a real floating dtype.
///     targets (array): Class indices, of an integer dtype and the shape of `logits` without its last axis.
///
/// Returns:
///     array: float32 losses, in the shape of `targets`.
///
/// Raises:
///     ValueError: if the shapes or dtypes do not fit.
///
/// >>> mx.fast.cross_entropy(mx.zeros((1, 1)), mx.array([0]))
/// array([0], dtype=float32)
#[pyfunction]
#[pyo3(signature = (logits, targets, *, stream=None))]
fn cross_entropy(logits: Arr, targets: Arr, stream: S) -> Out {
    out(fast::cross_entropy(&logits.0, &targets.0, pick(stream)))
}

/// Gated delta rule over a sequence: a state per head that decays and is corrected towards each value.
///
/// At each step the state is multiplied by the decay, `beta * (v - state @ k)` goes into it at the key, and
/// the output is `state @ q`. Yang et al. 2024, "Gated Delta Networks" (arXiv 2412.06464).
///
/// Args:
///     q (array): Queries, (B, T, H_k, D_k).
///     k (array): Keys, (B, T, H_k, D_k).
///     v (array): Values, (B, T, H_v, D_v), where H_k divides H_v.
///     gamma (array): Decay, (B, T, H_v), or (B, T, H_v, D_k) for one of each feature.
///     beta (array): How far the state is corrected, (B, T, H_v).
///     initial_state (array, optional): State before the first step, (B, H_v, D_v, D_k). Default: None,
///         zeros.
///     mask (array, optional): bool, (B, T): where it is false the state stays and the output is zero.
///         Default: None.
///
/// Returns:
///     tuple[array, array]: Outputs, (B, T, H_v, D_v), in the dtype of `q`, and the last state in float32.
///
/// Raises:
///     ValueError: if the shapes do not fit.
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

/// A Metal kernel. There is no Metal here, so a call raises RuntimeError; while a function is exported, calls on a GPU
/// stream become part of it.
#[pyclass(name = "_metal_kernel", module = "mlx.core.fast", frozen)]
struct MetalKernel {
    name: String,
    source: String,
    inputs: usize,
    outputs: usize,
}

/// Three numbers of threads.
fn three(what: &str, value: &Bound<'_, PyAny>) -> PyResult<[i64; 3]> {
    value.extract().map_err(|_| {
        let text = format!(
            "__call__(): `{what}` takes three integers, got {}. Signature: (*, inputs: list[scalar | array], \
             output_shapes: list[Sequence[int]], output_dtypes: list[Dtype], grid: tuple[int, int, int], \
             threadgroup: tuple[int, int, int], template=None, init_value=None, verbose=False, stream=None)",
            value.repr().map_or_else(|_| String::new(), |r| r.to_string())
        );
        PyTypeError::new_err(text)
    })
}

#[pymethods]
impl MetalKernel {
    /// Raises RuntimeError, unless a function is being exported.
    #[pyo3(signature = (*, inputs, output_shapes, output_dtypes, grid, threadgroup, template=None, init_value=None,
        verbose=false, stream=None))]
    #[allow(clippy::too_many_arguments)]
    fn __call__(
        &self,
        inputs: Vec<Bound<'_, PyAny>>,
        output_shapes: Vec<Seq>,
        output_dtypes: Vec<D>,
        grid: &Bound<'_, PyAny>,
        threadgroup: &Bound<'_, PyAny>,
        template: Option<Vec<(String, Bound<'_, PyAny>)>>,
        init_value: Option<f64>,
        verbose: bool,
        stream: S,
    ) -> PyResult<Vec<PyArray>> {
        let _ = (init_value, verbose);
        let launch = [three("grid", grid)?, three("threadgroup", threadgroup)?];
        let counts = [
            ("inputs", self.inputs, inputs.len()),
            ("output_shapes", self.outputs, output_shapes.len()),
            ("output_dtypes", self.outputs, output_dtypes.len()),
        ];
        for (what, want, got) in counts {
            if want != got {
                let text =
                    format!("[metal_kernel] Expected `{what}` to have size {want} but got size {got}.");
                return Err(PyValueError::new_err(text));
            }
        }
        let inputs = inputs.iter().map(|i| to_array(i, None)).collect::<PyResult<Vec<_>>>()?;
        for (_, value) in template.iter().flatten() {
            if !value.is_instance_of::<PyInt>() && value.extract::<D>().is_err() {
                let text =
                    "[metal_kernel] Invalid template argument. Must be `mlx.core.Dtype`, `int` or `bool`.";
                return Err(PyValueError::new_err(text));
            }
        }
        if !is_exporting() {
            return Err(PyRuntimeError::new_err("[metal_kernel] No Metal back-end."));
        }
        let outputs = output_shapes.into_iter().zip(output_dtypes).map(|(s, d)| (s.0, d.0)).collect();
        let outs = fast::metal_kernel((&self.name, &self.source), inputs, outputs, launch, pick(stream))?;
        Ok(outs.into_iter().map(PyArray::new).collect())
    }
}

/// An object that stands for a Metal kernel, so that programs which define some can be imported.
///
/// There is no Metal here. `vulkan_kernel` takes the same arguments and code in GLSL. Functions that call the
/// object on a GPU stream can be exported; what `import_function` makes of them raises when it is evaluated.
///
/// Args:
///     name (str): Name of the kernel.
///     input_names (Sequence[str]): Names of the inputs in the code.
///     output_names (Sequence[str]): Names of the outputs in the code.
///     source (str): Body of the kernel, in Metal's language.
///     header (str, optional): Code in front of the kernel. Default: "".
///     ensure_row_contiguous (bool, optional): Whether inputs are copied into row-major order where they lie
///         otherwise. Default: True.
///     atomic_outputs (bool, optional): Whether outputs are atomic. Default: False.
///     compile_options (object, optional): What Metal's compiler is told. Default: None.
///
/// Returns:
///     Callable: The object; to call it raises RuntimeError, unless a function is being exported.
///
/// Raises:
///     ValueError: if there is no output.
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
) -> PyResult<MetalKernel> {
    if output_names.is_empty() {
        return Err(PyValueError::new_err("[metal_kernel] Must specify at least one output."));
    }
    let (inputs, outputs) = (input_names.len(), output_names.len());
    Ok(MetalKernel { name: name.into(), source: source.into(), inputs, outputs })
}

/// Always raises RuntimeError: there is no CUDA here. The name exists for programs that ask.
///
/// `vulkan_kernel` takes nearly the same arguments and code in GLSL.
///
/// Args:
///     name (str): Name of the kernel.
///     input_names (Sequence[str]): Names of the inputs in the code.
///     output_names (Sequence[str]): Names of the outputs in the code.
///     source (str): Body of the kernel, in CUDA's language.
///     header (str, optional): Code in front of the kernel. Default: "".
///     ensure_row_contiguous (bool, optional): Whether inputs are copied into row-major order where they lie
///         otherwise. Default: True.
///     shared_memory (int, optional): Bytes of shared memory. Default: 0.
///
/// Returns:
///     Callable: Nothing is ever returned.
///
/// Raises:
///     RuntimeError: always.
///
/// >>> mx.cuda.is_available()
/// False
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
) -> PyResult<Py<PyAny>> {
    Err(PyRuntimeError::new_err("[cuda_kernel] No CUDA back-end."))
}

/// Always raises RuntimeError: there is no CUDA here. The name exists for programs that ask.
///
/// `vulkan_kernel` takes SPIR-V, which is what compiled kernels are to Vulkan.
///
/// Args:
///     name (str): Name of the kernel.
///     compiled_source (bytes): The kernel.
///     inputs (Sequence[array]): Its inputs.
///     output_shapes (Sequence[Sequence[int]]): Shapes of its outputs.
///     output_dtypes (Sequence[Dtype]): Dtypes of its outputs.
///     scalars (Sequence[object]): Further arguments.
///     grid (tuple[int, int, int]): Threads.
///     threadgroup (tuple[int, int, int]): Threads of a block.
///     shared_memory (int, optional): Bytes of shared memory. Default: 0.
///     init_value (float, optional): What outputs are filled with before. Default: None.
///     ensure_row_contiguous (bool, optional): Whether inputs are copied into row-major order. Default:
///         False.
///
/// Returns:
///     list[array]: Nothing is ever returned.
///
/// Raises:
///     RuntimeError: always.
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
    let m = crate::python::submodule(
        parent,
        "fast",
        "Operations with kernels of their own, and user-written kernels.",
    )?;
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
    kernels::register(&m)?;
    crate::python::hide_private(&m)
}

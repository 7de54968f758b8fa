//! `mlx.core.fast.vulkan_kernel`: kernels that users write in GLSL or bring as SPIR-V.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString};

use crate::core::Array;
use crate::core::Result;
use crate::kernels::user::{Code, Launch, Template, UserKernel};
use crate::ops::fast::{Call, check_names, spirv, user_kernel};
use crate::python::array::PyArray;
use crate::python::array::arguments::{Seq, type_name};
use crate::python::array::convert::to_array;
use crate::python::array::dtype::D;
use crate::python::runtime::device::{S, pick};

fn code(source: &Bound<'_, PyAny>) -> PyResult<Code> {
    if let Ok(text) = source.cast::<PyString>() {
        return Ok(Code::Glsl(text.to_str()?.to_owned()));
    }
    let Ok(bytes) = source.cast::<PyBytes>() else {
        let text =
            format!("vulkan_kernel(): source is a str of GLSL or bytes of SPIR-V, got {}", type_name(source));
        return Err(PyTypeError::new_err(text));
    };
    Ok(spirv(bytes.as_bytes())?)
}

/// A kernel that is compiled for the arguments of each call.
#[pyclass(name = "_vulkan_kernel", module = "mlx.core.fast", frozen)]
struct VulkanKernel(UserKernel);

fn three(what: &str, (x, y, z): (i64, i64, i64)) -> PyResult<[u32; 3]> {
    let wrong =
        |_| PyValueError::new_err(format!("[vulkan_kernel] {what} must be positive, got {:?}.", (x, y, z)));
    Ok([u32::try_from(x).map_err(wrong)?, u32::try_from(y).map_err(wrong)?, u32::try_from(z).map_err(wrong)?])
}

fn template(value: &Bound<'_, PyAny>) -> PyResult<Template> {
    if let Ok(b) = value.cast::<PyBool>() {
        return Ok(Template::Bool(b.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Template::Int(value.extract()?));
    }
    match value.extract::<D>() {
        Ok(d) => Ok(Template::Type(d.0)),
        Err(_) => Err(PyTypeError::new_err(format!(
            "[vulkan_kernel] Template values are dtypes, ints and bools, got {}.",
            type_name(value)
        ))),
    }
}

#[pymethods]
impl VulkanKernel {
    /// Runs the kernel over `grid` threads in workgroups of `threadgroup`. Returns the outputs.
    #[pyo3(signature = (*, inputs, output_shapes, output_dtypes, grid, threadgroup, template=None, init_value=None,
        verbose=false, stream=None))]
    #[allow(clippy::too_many_arguments)]
    fn __call__(
        &self,
        py: Python<'_>,
        inputs: Vec<Bound<'_, PyAny>>,
        output_shapes: Vec<Seq>,
        output_dtypes: Vec<D>,
        grid: (i64, i64, i64),
        threadgroup: (i64, i64, i64),
        template: Option<Vec<(String, Bound<'_, PyAny>)>>,
        init_value: Option<f64>,
        verbose: bool,
        stream: S,
    ) -> PyResult<Vec<PyArray>> {
        if output_shapes.len() != output_dtypes.len() {
            return Err(PyValueError::new_err(format!(
                "[vulkan_kernel] Expected as many output_dtypes as output_shapes, got {} and {}.",
                output_dtypes.len(),
                output_shapes.len()
            )));
        }
        let inputs = inputs.iter().map(|i| to_array(i, None)).collect::<PyResult<Vec<Array>>>()?;
        let templates = template.unwrap_or_default();
        let templates = templates.into_iter().map(|(name, v)| Ok((name, self::template(&v)?)));
        let templates = templates.collect::<PyResult<Vec<_>>>()?;
        let launch = Launch { grid: three("grid", grid)?, group: three("threadgroup", threadgroup)? };
        let mut show = |text: &str| -> Result<()> {
            if verbose {
                py.import("builtins")?.getattr("print")?.call1((text,))?;
            }
            Ok(())
        };
        let call = Call {
            inputs: &inputs,
            outputs: output_shapes.into_iter().zip(output_dtypes).map(|(s, d)| (s.0, d.0)).collect(),
            launch,
            templates: &templates,
            init: init_value,
            show: &mut show,
        };
        let outs = user_kernel(&self.0, call, pick(stream))?;
        Ok(outs.into_iter().map(PyArray::new).collect())
    }

    fn __repr__(&self) -> String {
        format!("vulkan_kernel({})", self.0.name)
    }
}

/// A kernel for the GPU in GLSL or SPIR-V, compiled when it is first used and kept on disk.
///
/// In GLSL `source` is the body of the main function. The names of inputs and outputs are arrays there (an
/// input without axes is a value); `NAME_shape`, `NAME_strides` and `NAME_ndim` tell about inputs;
/// `thread_position_in_grid` and the like are those of Metal. bfloat16 elements are uint16_t (see
/// `bfloat16_to_float` and `float_to_bfloat16`), complex ones vec2.
///
/// A SPIR-V module gets as push constants the address of a table of addresses (inputs, outputs, then shape as
/// int32 and strides as int64 of each input) and the grid as three uint32; its workgroup size may be the
/// specialisation constants 0 to 2.
///
/// Args:
///     name (str): Name of the kernel, for messages and profiles.
///     input_names (Sequence[str]): Names of the inputs in the code.
///     output_names (Sequence[str]): Names of the outputs in the code.
///     source (str | bytes): Body in GLSL, or a SPIR-V module.
///     header (str, optional): GLSL in front of the main function. Default: "".
///     ensure_row_contiguous (bool, optional): Whether inputs are copied into row-major order where they lie
///         otherwise. Default: True.
///     atomic_outputs (bool, optional): Changes nothing, since GLSL's atomics take any output. Default:
///         False.
///
/// Returns:
///     Callable: Called with the keywords `inputs`, `output_shapes`, `output_dtypes`, `grid` (threads),
///         `threadgroup` (threads of a workgroup), and if wanted `template` (pairs of a name and a dtype, int
///         or bool), `init_value` of the outputs, `verbose` (prints the GLSL) and `stream`, it returns a list
///         of arrays.
///
/// Raises:
///     ValueError: if names are no identifiers or appear twice, and at the call if a CPU stream is asked for.
///     RuntimeError: when evaluated, with the compiler's lines, if the code does not compile.
///
/// >>> source = "uint i = thread_position_in_grid.x; y[i] = T(2) * x[i];"
/// >>> twice = mx.fast.vulkan_kernel("twice", ["x"], ["y"], source)
#[pyfunction]
#[pyo3(signature = (name, input_names, output_names, source, header="", ensure_row_contiguous=true,
    atomic_outputs=false))]
fn vulkan_kernel(
    name: &str,
    input_names: Vec<String>,
    output_names: Vec<String>,
    source: Bound<'_, PyAny>,
    header: &str,
    ensure_row_contiguous: bool,
    atomic_outputs: bool,
) -> PyResult<VulkanKernel> {
    let _ = atomic_outputs;
    check_names(input_names.iter().chain(&output_names).map(String::as_str))?;
    if output_names.is_empty() {
        return Err(PyValueError::new_err("[vulkan_kernel] Must specify at least one output."));
    }
    let code = code(&source)?;
    let (name, header) = (name.into(), header.into());
    Ok(VulkanKernel(UserKernel::new(name, input_names, output_names, code, header, ensure_row_contiguous)))
}

/// Adds the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(vulkan_kernel, m)?)
}

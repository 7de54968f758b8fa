//! The native module `mlx.core`. Glue only: arguments are parsed, the interpreter is released where work is
//! waited for, and the floors below do the rest. One file an area; each registers its own names.

#[macro_use]
mod docs;

mod ops;
mod runtime;

mod array;
mod transforms;

use pyo3::prelude::*;

/// `from mlx.core import *` takes the public names only.
fn hide_private(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let names: Vec<String> = m.index()?.extract()?;
    let public: Vec<String> = names.into_iter().filter(|n| !n.starts_with('_')).collect();
    m.setattr("__all__", public)
}

/// TypeErrors name the function and show its signature.
fn explain_errors(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let mut modules = Vec::new();
    for (name, value) in m.dict().iter() {
        if let Ok(part) = value.cast_into::<PyModule>() {
            modules.push((part, format!("{name}.")));
        }
    }
    modules.push((m.clone(), String::new()));
    docs::signatures::of_modules(&modules)?;
    let array = m.getattr("array")?.call1(([0],))?;
    let selected = array.getattr("at")?.get_item(0)?;
    [array, selected].iter().try_for_each(docs::signatures::of_class)
}

/// A submodule that can also be imported by its full name.
fn submodule<'py>(parent: &Bound<'py, PyModule>, name: &str, doc: &str) -> PyResult<Bound<'py, PyModule>> {
    let py = parent.py();
    let full = format!("mlx.core.{name}");
    let m = PyModule::new(py, &full)?;
    m.setattr("__doc__", doc)?;
    parent.add(name, &m)?;
    py.import("sys")?.getattr("modules")?.set_item(full, &m)?;
    Ok(m)
}

/// Arrays, and functions of arrays, on CPUs and on GPUs with a Vulkan driver.
///
/// Operations build a graph, which is computed when values are asked for (see `eval`). Operands are promoted to a
/// common dtype (see `result_type`) and broadcast to a common shape, axes being matched from the last one on; a
/// Python number takes the dtype of the array beside it where its kind allows. float64 exists on CPU streams alone.
///
/// Args:
///     stream (Stream | ThreadLocalStream | Device | DeviceType, optional): Taken by every function that computes
///         arrays: where it runs. Default: None, the default stream of the default device (see `mlx.core.stream`).
#[pymodule]
#[pyo3(name = "core")]
fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
    runtime::ending::register(m)?;
    runtime::panics::become_errors(m.py())?;
    // That of MLX whose answers these are; `mlx.core.vulkan` has the version of this library.
    m.add("__version__", "0.32.4")?;
    m.add("__mlx_api__", "0.32")?;
    m.add("__array_namespace_info__", m.py().import("mlx._array_api")?.getattr("ArrayNamespaceInfo")?)?;
    m.py().import("mlx._reprlib")?;
    runtime::environment::warn_of_problems(m.py())?;
    let enums = m.py().import("mlx._enums")?;
    array::dtype::register(m, &enums)?;
    runtime::device::register(m, &enums)?;
    array::register(m)?;
    array::printing::register(m)?;
    ops::elementwise::register(m)?;
    ops::creation::register(m)?;
    ops::views::register(m)?;
    ops::joining::register(m)?;
    ops::gathers::register(m)?;
    ops::reductions::register(m)?;
    ops::scans::register(m)?;
    ops::selection::register(m)?;
    ops::products::register(m)?;
    ops::diagonals::register(m)?;
    ops::windows::register(m)?;
    ops::fp8::register(m)?;
    ops::structure::register(m)?;
    ops::conv::register(m)?;
    transforms::transformed::register(m)?;
    transforms::register(m)?;
    runtime::io::register(m)?;
    array::dlpack::register(m)?;
    transforms::vmap::register(m)?;
    transforms::custom::register(m)?;
    transforms::compile::register(m)?;
    transforms::export::register(m)?;
    runtime::memory::register(m)?;
    transforms::pipeline::register(m)?;
    ops::quantized::register(m)?;
    ops::random::register(m)?;
    ops::fft::register(m)?;
    runtime::distributed::register(m)?;
    ops::fast::register(m)?;
    ops::linalg::register(m)?;
    m.add("pi", std::f64::consts::PI)?;
    m.add("e", std::f64::consts::E)?;
    m.add("inf", f64::INFINITY)?;
    m.add("nan", f64::NAN)?;
    m.add("euler_gamma", 0.577_215_664_901_532_9)?;
    m.add("newaxis", m.py().None())?;
    runtime::panics::register(m)?;
    runtime::layers::register(m)?;
    hide_private(m)?;
    explain_errors(m)
}

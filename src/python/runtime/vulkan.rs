//! `mx.vulkan`: statistics, profiles and facts about devices. What Python draws and prints of a profile is in
//! `mlx/_profile.py`.

use std::collections::BTreeMap;
use std::sync::Mutex;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::core::env::{Values, Variable};
use crate::core::tree::Tree;
use crate::core::{fallback, trace};

pub static STATS: Variable = Variable::new(
    "MLX_VK_STATS",
    "0",
    Values::SWITCH,
    "1: what `mx.vulkan.stats()` knows is printed to stderr when the process ends",
);

fn python<'py>(py: Python<'py>, tree: &Tree) -> PyResult<Bound<'py, PyAny>> {
    Ok(match tree {
        Tree::Bool(v) => v.into_pyobject(py)?.to_owned().into_any(),
        Tree::Int(v) => v.into_pyobject(py)?.into_any(),
        Tree::Float(v) => v.into_pyobject(py)?.into_any(),
        Tree::Text(v) => v.into_pyobject(py)?.into_any(),
        Tree::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(python(py, item)?)?;
            }
            list.into_any()
        }
        Tree::Map(pairs) => {
            let dict = PyDict::new(py);
            for (name, value) in pairs {
                dict.set_item(name, python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

/// Everything that was counted, GPU and host.
fn counted() -> Tree {
    let fallbacks = fallback::counts().into_iter().map(|(op, n)| (op, Tree::Int(n)));
    let mut all = vec![
        ("recordings", Tree::Int(crate::eval::recordings())),
        ("host_ops", Tree::Int(crate::eval::host_ops())),
        ("fallbacks", Tree::map(fallbacks)),
    ];
    #[cfg(feature = "vulkan")]
    all.extend(crate::vulkan::report::stats::report());
    all.rotate_left(3);
    Tree::map(all)
}

/// What ran on GPUs since the process started, or since the last reset.
///
/// - `dispatches`, `barriers`; `kernels`: dispatches by kernel; `matmul` and `conv`: the same for these
/// families - `quantized_matmul`: products by kernel, rows of x and groups of codes along the sums -
/// `attention`: calls by kernel, number of queries, number of keys, parts that the keys were cut into -
/// `pipelines` and `spirv`: hits and misses of the caches, seconds spent building - `command_buffers`: how
/// many, commands in all and on average, and how many by powers of two of commands - `uploads` and
/// `downloads`: copies that needed a command, and their bytes - `recordings`: graphs of `async_eval` that a
/// thread of its own recorded (MLX_VK_RECORDER) - `host_ops`: operations handed to CPU streams; `fallbacks`:
/// operations of GPU streams that ran on the host
///
/// MLX_VK_STATS=1 prints all of it when the process ends.
///
/// Args:
///     reset (bool, optional): Whether the counters start from zero afterwards, `recordings` and `host_ops`
///         excepted. Default: False.
///
/// Returns:
///     dict[str, object]: Counters by name, as above.
///
/// >>> stats = mx.vulkan.stats()
/// >>> stats["host_ops"] >= 0
/// True
#[pyfunction]
#[pyo3(signature = (reset=false))]
fn stats(py: Python<'_>, reset: bool) -> PyResult<Bound<'_, PyAny>> {
    py.detach(crate::eval::settle)?;
    let all = python(py, &counted())?;
    if reset {
        fallback::reset();
        #[cfg(feature = "vulkan")]
        crate::vulkan::report::stats::reset();
    }
    Ok(all)
}

/// Facts about a Vulkan device, which is opened for it.
///
/// Driver, memory, queues, limits, probed features, and which kernels follow from them. `python -m mlx.info`
/// prints it.
///
/// Args:
///     index (int, optional): Position in the ranked list of devices. Default: 0.
///
/// Returns:
///     dict[str, object]: A tree of facts.
///
/// Raises:
///     ValueError: if there is no such device.
///
/// >>> facts = mx.vulkan.describe() if mx.vulkan.is_available() else {"features": {}}
/// >>> "features" in facts
/// True
#[pyfunction]
#[pyo3(signature = (index=0))]
fn describe(py: Python<'_>, index: u32) -> PyResult<Bound<'_, PyAny>> {
    #[cfg(feature = "vulkan")]
    {
        let tree =
            py.detach(|| crate::vulkan::device(index).map(crate::vulkan::report::capabilities::describe))?;
        python(py, &Tree::map(tree))
    }
    #[cfg(not(feature = "vulkan"))]
    {
        let text = format!("[vulkan] No GPU with index {index}: built without Vulkan.");
        Err(pyo3::exceptions::PyValueError::new_err(text))
    }
}

/// Facts about the cache of compiled kernels on disk.
///
/// It may be removed at any time; kernels are then compiled again.
///
/// Returns:
///     dict[str, object]: The folder, how many files it holds (`files`) and their bytes.
///
/// >>> mx.vulkan.cache_info()["files"] >= 0
/// True
#[pyfunction]
fn cache_info(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    #[cfg(feature = "vulkan")]
    let tree = crate::vulkan::report::capabilities::cache();
    #[cfg(not(feature = "vulkan"))]
    let tree = Tree::map([("folder", Tree::from("")), ("files", 0u64.into()), ("bytes", 0u64.into())]);
    python(py, &tree)
}

/// Why GPUs cannot be used: what keeps all of them from being seen, or None, and those that were seen and lack
/// something, as (name, kind, reason).
#[pyfunction]
fn _rejected() -> (Option<String>, Vec<(String, &'static str, String)>) {
    #[cfg(feature = "vulkan")]
    {
        use crate::vulkan::hal::adapter;
        let rejected = adapter::rejected().iter();
        (adapter::problem(), rejected.map(|r| (r.name.clone(), r.kind.name(), r.reason.clone())).collect())
    }
    #[cfg(not(feature = "vulkan"))]
    (Some("this build has no Vulkan".into()), Vec::new())
}

/// Times everything that runs inside a `with` block: kernels and copies on the GPUs, and what the host does.
///
/// The block's work is waited for at its end. Profiles may be nested and may run on several threads: each
/// sees what all threads do meanwhile. Without a GPU the host's part is left.
///
/// Args:
///     isolate (bool, optional): Whether a barrier keeps commands apart, so that each time is the kernel's
///         own; else some may overlap. Default: False.
///
/// Returns:
///     Profile: For a `with` statement. It prints as a table; `save(path)` writes a trace for Perfetto,
///         `plot()` draws.
///
/// >>> with mx.vulkan.profile() as p:
/// ...     mx.eval(mx.ones(4) + 1)
/// >>> p.commands == [] or p.commands[0].kernel != ""
/// True
#[pyfunction]
#[pyo3(signature = (isolate=false))]
fn profile(py: Python<'_>, isolate: bool) -> PyResult<Bound<'_, PyAny>> {
    py.import("mlx._profile")?.call_method1("Profile", (isolate,))
}

/// What became of each kernel that was compiled since the last call, where devices only compile (MLX_VK_COMPILE_ONLY).
#[pyfunction]
fn _compiled(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.detach(crate::eval::settle)?;
    #[cfg(feature = "vulkan")]
    let tree = crate::vulkan::report::compile_only::report();
    #[cfg(not(feature = "vulkan"))]
    let tree = Tree::List(Vec::new());
    python(py, &tree)
}

/// Names of the elementwise table's rows that are functions of `mlx.core`, with their number of operands.
#[pyfunction]
fn _elementwise(py: Python<'_>) -> PyResult<Vec<(&'static str, u8)>> {
    let core = py.import("mlx.core")?;
    let there = |name: &str| core.hasattr(name).unwrap_or(false);
    Ok(crate::kernels::elementwise::table::table()
        .iter()
        .map(|r| (r.name, r.arity))
        .filter(|r| there(r.0))
        .collect())
}

/// Fails where the library was built without Vulkan.
#[cfg(not(feature = "vulkan"))]
fn without<T>() -> PyResult<T> {
    Err(pyo3::exceptions::PyValueError::new_err("[tune] built without Vulkan."))
}

// What a GPU can choose from for a number of the tables, or for a product; for `mlx.tune`.
#[pyfunction]
#[pyo3(signature = (index, name, sides=None, dtype=None, format=None))]
fn _tune_question(
    py: Python<'_>,
    index: u32,
    name: String,
    sides: Option<[u64; 3]>,
    dtype: Option<String>,
    format: Option<(String, i64, i64)>,
) -> PyResult<Option<Py<PyAny>>> {
    #[cfg(feature = "vulkan")]
    {
        use crate::core::Dtype;
        use crate::kernels::quantized::quant::{Format, Mode};
        use crate::vulkan::kernels::tuning::{Ask, question};
        let unknown = || pyo3::exceptions::PyValueError::new_err("[tune] Expected the name of a dtype.");
        let ask = match (sides, dtype) {
            (Some(sides), Some(dtype)) => {
                let dtype = Dtype::from_name(&dtype).ok_or_else(unknown)?;
                match format {
                    Some((mode, group, bits)) => {
                        let format = Format::new("tune", Mode::parse("tune", &mode)?, group, bits)?;
                        Ask::Quantised(format, dtype, sides.map(|n| n as i64))
                    }
                    None => Ask::Product(dtype, sides),
                }
            }
            _ => Ask::Count(name),
        };
        let found = py.detach(|| question(index, &ask))?;
        found.map(|t| python(py, &t).map(Bound::unbind)).transpose()
    }
    #[cfg(not(feature = "vulkan"))]
    without()
}

// What won on a GPU, as lines; for `mlx.tune`.
#[pyfunction]
fn _tune_winners(index: u32) -> PyResult<Vec<String>> {
    #[cfg(feature = "vulkan")]
    return Ok(crate::vulkan::kernels::tuning::winners(index)?);
    #[cfg(not(feature = "vulkan"))]
    without()
}

// Lets these lines win on a GPU from now on; whether they are kept for later processes. For `mlx.tune`.
#[pyfunction]
#[pyo3(signature = (index, lines, keep=false))]
fn _tune_set(py: Python<'_>, index: u32, lines: Vec<String>, keep: bool) -> PyResult<bool> {
    #[cfg(feature = "vulkan")]
    return Ok(py.detach(|| crate::vulkan::kernels::tuning::set(index, &lines, keep))?);
    #[cfg(not(feature = "vulkan"))]
    without()
}

// Measures a GPU: units, bytes a nanosecond, nanoseconds of a dependent command. For `mlx.tune`.
#[pyfunction]
fn _tune_measure(py: Python<'_>, index: u32) -> PyResult<[u32; 4]> {
    #[cfg(feature = "vulkan")]
    return Ok(py.detach(|| crate::vulkan::kernels::tuning::measure(index))?);
    #[cfg(not(feature = "vulkan"))]
    without()
}

/// Has calls of the driver or the system fail, for tests: `kind@n`, `kind@n+`, `count` or `off` (see MLX_VK_FAULT).
/// Returns how often each kind was called since the last call of this, and how many of those calls failed.
#[pyfunction]
fn _fault(py: Python<'_>, text: &str) -> PyResult<(BTreeMap<&'static str, u64>, u64)> {
    py.detach(crate::eval::settle)?;
    let (calls, fired) = crate::core::fault::set(text)?;
    Ok((calls.into_iter().collect(), fired))
}

/// A profile that runs; what Python makes of it is `mlx._profile.Profile`.
#[pyclass(name = "_Recording", module = "mlx.core.vulkan", frozen)]
struct Recording(Mutex<Option<Running>>);

struct Running {
    spans: usize,
    start_ns: u64,
    #[cfg(feature = "vulkan")]
    gpu: crate::vulkan::report::profile::Recording,
}

impl Running {
    fn start(isolate: bool) -> Running {
        let spans = trace::start();
        #[cfg(feature = "vulkan")]
        let gpu = crate::vulkan::report::profile::start(isolate);
        Running {
            spans,
            start_ns: trace::now(),
            #[cfg(feature = "vulkan")]
            gpu,
        }
    }
}

#[cfg(feature = "vulkan")]
fn commands<'py>(
    py: Python<'py>,
    report: &crate::vulkan::report::profile::Report,
    origin: f64,
) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for s in &report.samples {
        let op = s.op.as_deref();
        let dims: Vec<u64> = match (s.dims.is_empty(), op) {
            (false, _) => s.dims.to_vec(),
            (true, Some(op)) => op.shape.iter().map(|&d| d as u64).collect(),
            (true, None) => Vec::new(),
        };
        list.append((
            &s.kernel,
            op.map_or("", |o| &o.name),
            op.map_or("", |o| o.dtype.name()),
            dims,
            (s.device, s.stream),
            s.batch,
            s.times.map(|t| (t[0] - origin, t[1] - origin)),
            s.bytes,
            s.flops,
            s.barrier,
        ))?;
    }
    Ok(list)
}

#[pymethods]
impl Recording {
    #[new]
    fn new(py: Python<'_>, isolate: bool) -> PyResult<Self> {
        py.detach(crate::eval::settle)?;
        Ok(Recording(Mutex::new(Some(py.detach(|| Running::start(isolate))))))
    }

    /// Waits for the work and returns what was seen.
    fn stop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let running = self.0.lock().unwrap_or_else(|e| e.into_inner()).take();
        let Some(running) = running else {
            return Err(PyRuntimeError::new_err("[profile] The profile is not running."));
        };
        let out = PyDict::new(py);
        #[cfg(feature = "vulkan")]
        {
            let report = py.detach(|| crate::vulkan::report::profile::stop(&running.gpu, trace::alone()));
            let spans = trace::stop(running.spans);
            let report = report?;
            out.set_item("commands", commands(py, &report, running.start_ns as f64)?)?;
            out.set_item("batches", report.batches)?;
            out.set_item("streams", report.streams)?;
            host(&out, spans, running.start_ns)?;
        }
        #[cfg(not(feature = "vulkan"))]
        {
            let spans = trace::stop(running.spans);
            out.set_item("commands", PyList::empty(py))?;
            out.set_item("batches", 0)?;
            out.set_item("streams", PyList::empty(py))?;
            host(&out, spans, running.start_ns)?;
        }
        out.set_item("wall_ns", trace::now() - running.start_ns)?;
        out.set_item("threads", trace::threads())?;
        Ok(out)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let running = self.0.get_mut().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(running) = running {
            #[cfg(feature = "vulkan")]
            crate::vulkan::report::profile::abandon(&running.gpu);
            trace::stop(running.spans);
        }
    }
}

fn host(out: &Bound<'_, PyDict>, spans: Vec<trace::Span>, origin: u64) -> PyResult<()> {
    let since = |ns: u64| ns as f64 - origin as f64;
    let list: Vec<(&str, String, u32, f64, f64)> =
        spans.into_iter().map(|s| (s.kind, s.name, s.thread, since(s.start_ns), since(s.end_ns))).collect();
    out.set_item("spans", list)
}

/// Prints the statistics if MLX_VK_STATS asks for it; for the end of the process.
pub fn print_if_asked() {
    if STATS.switch() == Some(true) {
        eprint!("--- mlx statistics\n{}", counted());
    }
}

/// Adds to `mx.vulkan`.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    for f in [
        wrap_pyfunction!(stats, m)?,
        wrap_pyfunction!(describe, m)?,
        wrap_pyfunction!(cache_info, m)?,
        wrap_pyfunction!(profile, m)?,
        wrap_pyfunction!(super::environment::_environment, m)?,
        wrap_pyfunction!(_rejected, m)?,
        wrap_pyfunction!(super::environment::_set_disabled, m)?,
        wrap_pyfunction!(_fault, m)?,
        wrap_pyfunction!(_compiled, m)?,
        wrap_pyfunction!(_elementwise, m)?,
        wrap_pyfunction!(_tune_question, m)?,
        wrap_pyfunction!(_tune_winners, m)?,
        wrap_pyfunction!(_tune_set, m)?,
        wrap_pyfunction!(_tune_measure, m)?,
    ] {
        m.add_function(f)?;
    }
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<Recording>()
}

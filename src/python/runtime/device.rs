//! Devices, streams and stream scopes. The default device is chosen when it is first needed: a GPU where
//! a real one is present, else the CPU; Vulkan stays closed until then.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::core::device::{self as base, Handle};
use crate::core::env::{Values, Variable};
use crate::core::{Device, DeviceKind, Stream};

pub static DEFAULT_DEVICE: Variable = Variable::new(
    "MLX_DEFAULT_DEVICE",
    "a GPU that is no software driver, else the CPU",
    Values::Word(&["cpu", "gpu"]),
    "The default device of a program that does not choose one. gpu: software drivers too; without any Vulkan \
         device each operation says why",
);

static KINDS: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
static CHOSEN: AtomicBool = AtomicBool::new(false);
static NEXT_LOCAL: AtomicU32 = AtomicU32::new(0);

thread_local! {
    // The stream behind each ThreadLocalStream on this thread.
    static LOCAL: RefCell<HashMap<u32, Handle>> = RefCell::new(HashMap::new());
}

#[cfg(feature = "vulkan")]
fn gpu_count() -> usize {
    crate::vulkan::adapters().len()
}

#[cfg(not(feature = "vulkan"))]
fn gpu_count() -> usize {
    0
}

#[cfg(feature = "vulkan")]
fn why_none() -> String {
    crate::vulkan::hal::adapter::why_none()
}

#[cfg(not(feature = "vulkan"))]
fn why_none() -> String {
    "this build has no Vulkan".to_string()
}

/// The device that MLX_DEFAULT_DEVICE names, or the fastest real one.
fn preferred() -> Device {
    match DEFAULT_DEVICE.word() {
        Some("cpu") => Device::CPU,
        Some(_) => Device::GPU,
        None => fastest(),
    }
}

/// The first GPU that is no software driver, or the CPU; a GPU that cannot be used is told of in a warning.
#[cfg(feature = "vulkan")]
fn fastest() -> Device {
    use crate::vulkan::hal::adapter::{AdapterKind, rejected, warning};
    let all = crate::vulkan::adapters();
    if let Some(text) = warning(all, rejected()) {
        warn(&text);
    }
    let real = all.first().is_some_and(|a| a.kind != AdapterKind::Software);
    if real { Device::GPU } else { Device::CPU }
}

#[cfg(not(feature = "vulkan"))]
fn fastest() -> Device {
    Device::CPU
}

/// A RuntimeWarning; one that the program turns into an error is printed, since nobody here can raise it.
#[cfg(feature = "vulkan")]
fn warn(text: &str) {
    Python::attach(|py| {
        let category = py.get_type::<pyo3::exceptions::PyRuntimeWarning>();
        let text = std::ffi::CString::new(text.replace('\0', " ")).unwrap_or_default();
        if let Err(e) = PyErr::warn(py, &category, &text, 1) {
            e.print(py);
        }
    });
}

/// The default device, chosen now if it was not yet.
pub fn device() -> Device {
    choose();
    base::default_device()
}

fn choose() {
    if !CHOSEN.load(Ordering::Relaxed) {
        base::init_default_device(preferred);
        CHOSEN.store(true, Ordering::Relaxed);
    }
}

/// The stream that operations without a `stream` argument run on.
pub fn current() -> Stream {
    choose();
    base::current_stream()
}

/// Whether a device is there.
pub fn exists(d: Device) -> bool {
    match d.kind {
        DeviceKind::Cpu => d.index == 0,
        DeviceKind::Gpu => (d.index as usize) < gpu_count(),
    }
}

fn require(op: &str, d: Device) -> PyResult<Device> {
    if exists(d) {
        return Ok(d);
    }
    let have = match d.kind {
        DeviceKind::Gpu if gpu_count() == 0 => why_none(),
        DeviceKind::Gpu => format!("there are {} GPUs", gpu_count()),
        DeviceKind::Cpu => "there is one CPU device".to_string(),
    };
    Err(PyValueError::new_err(format!("[{op}] {d} is not available: {have}.")))
}

fn kind_object(py: Python<'_>, kind: DeviceKind) -> Py<PyAny> {
    // INVARIANT: registration, which runs at import, fills the cell.
    let (cpu, gpu) = KINDS.get(py).expect("device types are registered");
    if kind == DeviceKind::Cpu { cpu.clone_ref(py) } else { gpu.clone_ref(py) }
}

fn kind_of(obj: &Bound<'_, PyAny>) -> Option<DeviceKind> {
    let (cpu, gpu) = KINDS.get(obj.py())?;
    if obj.is(cpu) {
        Some(DeviceKind::Cpu)
    } else if obj.is(gpu) {
        Some(DeviceKind::Gpu)
    } else {
        None
    }
}

/// The kind that an argument names: a `DeviceType`, or its number (0 the CPU, 1 the GPU).
fn kind_given(obj: &Bound<'_, PyAny>) -> Option<DeviceKind> {
    if let Some(kind) = kind_of(obj) {
        return Some(kind);
    }
    let number = obj.call_method0(intern!(obj.py(), "__index__")).and_then(|n| n.extract::<i64>());
    match number {
        Ok(0) => Some(DeviceKind::Cpu),
        Ok(1) => Some(DeviceKind::Gpu),
        _ => None,
    }
}

fn hash_of(x: impl Hash) -> u64 {
    let mut h = DefaultHasher::new();
    x.hash(&mut h);
    h.finish()
}

/// A device: a type and an index.
///
/// Devices of one type are ranked, the fastest first.
///
/// Args:
///     type (DeviceType): `mx.cpu` or `mx.gpu`.
///     index (int, optional): Position in the ranked list. Default: 0.
///
/// >>> mx.Device(mx.cpu)
/// Device(cpu, 0)
#[pyclass(name = "Device", module = "mlx.core", frozen)]
pub struct PyDevice(pub Device);

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (r#type, index=0))]
    fn new(r#type: &Bound<'_, PyAny>, index: u32) -> PyResult<Self> {
        match kind_given(r#type) {
            Some(kind) => Ok(PyDevice(Device { kind, index })),
            None => Err(PyTypeError::new_err("Device(): type must be a DeviceType")),
        }
    }
    /// `mx.cpu` or `mx.gpu`.
    #[getter]
    fn r#type(&self, py: Python<'_>) -> Py<PyAny> {
        kind_object(py, self.0.kind)
    }
    /// Position in the ranked list of devices of this type.
    #[getter]
    fn index(&self) -> u32 {
        self.0.index
    }
    fn __repr__(&self) -> String {
        self.0.to_string()
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        match other.cast::<PyDevice>() {
            Ok(d) => d.get().0 == self.0,
            Err(_) => kind_of(other).is_some_and(|kind| self.0 == Device { kind, index: 0 }),
        }
    }
    fn __hash__(&self) -> u64 {
        hash_of(self.0)
    }
}

/// A device argument: a `Device` or a `DeviceType`.
pub struct DeviceArg(pub Device);

impl<'a, 'py> FromPyObject<'a, 'py> for DeviceArg {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(d) = obj.cast::<PyDevice>() {
            return Ok(DeviceArg(d.get().0));
        }
        match kind_given(&obj) {
            Some(kind) => Ok(DeviceArg(Device { kind, index: 0 })),
            None => Err(PyTypeError::new_err("expected a Device or a DeviceType")),
        }
    }
}

/// An ordered queue of work on a device; made by `new_stream`.
///
/// Work of one stream runs in order; that of several may run side by side, and waits for each other where
/// arrays go from one to another. A stream that nobody holds any more finishes its work and is gone; default
/// streams stay.
///
/// >>> mx.default_stream(mx.cpu).device
/// Device(cpu, 0)
#[pyclass(name = "Stream", module = "mlx.core", frozen)]
pub struct PyStream(Handle);

#[pymethods]
impl PyStream {
    /// Where the work runs.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(self.0.stream().device)
    }
    /// Number of the stream in this process.
    #[getter]
    fn index(&self) -> u32 {
        self.0.stream().index
    }
    fn __repr__(&self) -> String {
        self.0.stream().to_string()
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyStream>().is_ok_and(|s| s.get().0.stream() == self.0.stream())
    }
    fn __hash__(&self) -> u64 {
        hash_of(self.0.stream())
    }
}

/// A stream of its own for every thread that uses it; made by `new_thread_local_stream`.
///
/// >>> mx.new_thread_local_stream(mx.cpu).device
/// Device(cpu, 0)
#[pyclass(name = "ThreadLocalStream", module = "mlx.core", frozen)]
pub struct PyLocalStream {
    device: Device,
    index: u32,
}

impl PyLocalStream {
    fn stream(&self) -> Stream {
        LOCAL.with(|l| l.borrow_mut().entry(self.index).or_insert_with(|| Handle::make(self.device)).stream())
    }
}

#[pymethods]
impl PyLocalStream {
    /// Where the work runs.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(self.device)
    }
    fn __repr__(&self) -> String {
        format!("ThreadLocalStream({}, {})", self.device, self.index)
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyLocalStream>().is_ok_and(|s| s.get().index == self.index)
    }
    fn __hash__(&self) -> u64 {
        hash_of((self.device, self.index))
    }
}

/// A stream argument: stream, thread-local stream, device or device type.
#[derive(Clone, Copy)]
pub struct StreamArg(pub Stream);

impl<'a, 'py> FromPyObject<'a, 'py> for StreamArg {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(s) = obj.cast::<PyStream>() {
            return Ok(StreamArg(s.get().0.stream()));
        }
        if let Ok(s) = obj.cast::<PyLocalStream>() {
            return Ok(StreamArg(s.get().stream()));
        }
        match obj.extract::<DeviceArg>() {
            Ok(d) => Ok(StreamArg(base::default_stream(require("default_stream", d.0)?))),
            Err(_) => Err(PyTypeError::new_err("expected a Stream, ThreadLocalStream, Device or DeviceType")),
        }
    }
}

/// The optional `stream` argument of every operation.
pub type S = Option<StreamArg>;

/// The stream of an operation: the argument, or the current one.
pub fn pick(s: S) -> Stream {
    s.map_or_else(current, |s| s.0)
}

/// Runs what is inside a `with` block on a stream or a device; `mx.stream` makes one.
///
/// Args:
///     s (Stream | ThreadLocalStream | Device | DeviceType): Where operations run that name no stream.
///
/// >>> with mx.StreamContext(mx.cpu):
/// ...     x = mx.ones(2)
#[pyclass(name = "StreamContext", module = "mlx.core", frozen)]
struct StreamContext(Handle);

#[pymethods]
impl StreamContext {
    #[new]
    fn new(s: StreamArg) -> Self {
        StreamContext(Handle::new(s.0))
    }
    fn __enter__(&self) {
        base::push_scope(self.0.stream());
    }
    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        exc_type: Option<Bound<'_, PyAny>>,
        exc_value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) {
        let _ = (exc_type, exc_value, traceback);
        base::pop_scope();
    }
}

/// A context in which operations run on a stream or a device unless they name another one.
///
/// The default device and its default stream are restored at the end of the block.
///
/// Args:
///     s (Stream | ThreadLocalStream | Device | DeviceType): Where operations run.
///
/// Returns:
///     StreamContext: For a `with` statement.
///
/// Raises:
///     TypeError: if `s` is something else.
///     ValueError: if there is no such device.
///
/// >>> with mx.stream(mx.cpu):
/// ...     print(mx.default_device())
/// Device(cpu, 0)
#[pyfunction]
fn stream(s: StreamArg) -> StreamContext {
    StreamContext(Handle::new(s.0))
}

/// The device on which operations run that name no stream.
///
/// It is a GPU where there is a real one, else the CPU; `set_default_device` and `stream` change it.
///
/// Returns:
///     Device: The device.
///
/// >>> mx.default_device() in (mx.Device(mx.cpu), mx.Device(mx.gpu))
/// True
#[pyfunction]
fn default_device() -> PyDevice {
    PyDevice(device())
}

/// Sets the device on which operations run that name no stream.
///
/// Args:
///     device (Device | DeviceType): The device.
///
/// Returns:
///     None
///
/// Raises:
///     ValueError: if there is no such device.
///
/// >>> mx.set_default_device(mx.default_device())
#[pyfunction]
fn set_default_device(device: DeviceArg) -> PyResult<()> {
    base::set_default_device(require("set_default_device", device.0)?);
    CHOSEN.store(true, Ordering::Relaxed);
    Ok(())
}

/// The stream of a device that operations use which name none.
///
/// Args:
///     device (Device | DeviceType): The device.
///
/// Returns:
///     Stream: The stream.
///
/// Raises:
///     ValueError: if there is no such device.
///
/// >>> mx.default_stream(mx.cpu).device
/// Device(cpu, 0)
#[pyfunction]
fn default_stream(device: DeviceArg) -> PyResult<PyStream> {
    Ok(PyStream(Handle::new(base::default_stream(require("default_stream", device.0)?))))
}

/// Makes a stream the one of its device that operations use which name none.
///
/// It holds for all threads.
///
/// Args:
///     stream (Stream): The stream.
///
/// Returns:
///     None
///
/// Raises:
///     TypeError: if it is no stream.
///
/// >>> mx.set_default_stream(mx.default_stream(mx.cpu))
#[pyfunction]
fn set_default_stream(stream: &Bound<'_, PyStream>) {
    base::set_default_stream(stream.get().0.stream());
}

/// A new stream on a device.
///
/// On a GPU it gets a queue of its own where the device has several.
///
/// Args:
///     device (Device | DeviceType): The device.
///
/// Returns:
///     Stream: The stream.
///
/// Raises:
///     ValueError: if there is no such device.
///
/// >>> mx.new_stream(mx.cpu).device
/// Device(cpu, 0)
#[pyfunction]
fn new_stream(device: DeviceArg) -> PyResult<PyStream> {
    Ok(PyStream(Handle::make(require("new_stream", device.0)?)))
}

/// A stream that is another one on each thread.
///
/// The streams are made when a thread first uses it.
///
/// Args:
///     device (Device | DeviceType): The device.
///
/// Returns:
///     ThreadLocalStream: The stream.
///
/// Raises:
///     ValueError: if there is no such device.
///
/// >>> mx.new_thread_local_stream(mx.cpu).device
/// Device(cpu, 0)
#[pyfunction]
fn new_thread_local_stream(device: DeviceArg) -> PyResult<PyLocalStream> {
    let device = require("new_thread_local_stream", device.0)?;
    Ok(PyLocalStream { device, index: NEXT_LOCAL.fetch_add(1, Ordering::Relaxed) })
}

/// A new stream for use by one thread at a time.
///
/// Streams of this library are safe to share, so this is `new_stream` under MLX's other name.
///
/// Args:
///     device (Device | DeviceType): The device.
///
/// Returns:
///     Stream: The stream.
///
/// Raises:
///     ValueError: if there is no such device.
///
/// >>> mx.new_thread_unsafe_stream(mx.cpu).device
/// Device(cpu, 0)
#[pyfunction]
fn new_thread_unsafe_stream(device: DeviceArg) -> PyResult<PyStream> {
    new_stream(device)
}

/// Waits until the work of a stream is finished.
///
/// Only what was submitted is waited for: an array that nobody has evaluated stays as it is.
///
/// Args:
///     stream (Stream | ThreadLocalStream | Device | DeviceType, optional): The stream. Default: None, the
///         current one.
///
/// Returns:
///     None
///
/// Raises:
///     RuntimeError: if work of the stream failed and nobody was told of it yet. The error comes once, here or
///         at the next `eval` on the stream, and again whenever an array that failed is read.
///
/// >>> mx.synchronize(mx.cpu)
#[pyfunction]
#[pyo3(signature = (stream=None))]
fn synchronize(py: Python<'_>, stream: S) -> PyResult<()> {
    let s = pick(stream);
    if exists(s.device) {
        py.detach(|| crate::eval::synchronize(s))?;
    }
    Ok(())
}

/// Waits for all streams made so far and forgets those of this thread.
///
/// Default streams are made anew when they are used.
///
/// Returns:
///     None
///
/// >>> mx.clear_streams()
#[pyfunction]
fn clear_streams(py: Python<'_>) -> PyResult<()> {
    let streams = base::held_streams();
    let own = LOCAL.with(|l| std::mem::take(&mut *l.borrow_mut()));
    py.detach(|| {
        let mut streams = streams.into_iter().filter(|s| exists(s.device));
        streams.try_for_each(crate::eval::finish)
    })?;
    drop(own);
    Ok(())
}

/// How many devices of a type there are.
///
/// Args:
///     device_type (DeviceType): `mx.cpu` or `mx.gpu`.
///
/// Returns:
///     int: 1 for the CPU; for GPUs the Vulkan devices, software drivers among them.
///
/// Raises:
///     TypeError: if it is no type of device.
///
/// >>> mx.device_count(mx.cpu)
/// 1
#[pyfunction]
fn device_count(device_type: DeviceArg) -> usize {
    match device_type.0.kind {
        DeviceKind::Cpu => 1,
        DeviceKind::Gpu => gpu_count(),
    }
}

/// Whether a device exists.
///
/// Args:
///     device (Device | DeviceType): The device.
///
/// Returns:
///     bool: Always true for `mx.cpu`.
///
/// Raises:
///     TypeError: if it is no device.
///
/// >>> mx.is_available(mx.cpu)
/// True
#[pyfunction]
fn is_available(device: DeviceArg) -> bool {
    exists(device.0)
}

fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|x| x.1.trim()));
    model.unwrap_or(std::env::consts::ARCH).to_string()
}

/// Facts about a device.
///
/// `device_name` and `architecture`; for a GPU also `memory_size`, driver and API versions.
///
/// Args:
///     d (Device | DeviceType, optional): The device. Default: None, the default one.
///
/// Returns:
///     dict[str, str | int]: Facts by name; empty for a device that does not exist.
///
/// >>> 'device_name' in mx.device_info(mx.cpu)
/// True
#[pyfunction]
#[pyo3(signature = (d=None))]
pub fn device_info(py: Python<'_>, d: Option<DeviceArg>) -> PyResult<Bound<'_, PyDict>> {
    let d = d.map_or_else(device, |d| d.0);
    let info = PyDict::new(py);
    match d.kind {
        DeviceKind::Cpu if d.index == 0 => {
            info.set_item("device_name", cpu_name())?;
            info.set_item("architecture", std::env::consts::ARCH)?;
        }
        DeviceKind::Cpu => {}
        DeviceKind::Gpu => gpu_info(d.index as usize, &info)?,
    }
    Ok(info)
}

#[cfg(feature = "vulkan")]
fn gpu_info(index: usize, info: &Bound<'_, PyDict>) -> PyResult<()> {
    let Some(a) = crate::vulkan::adapters().get(index) else { return Ok(()) };
    info.set_item("device_name", &a.name)?;
    info.set_item("architecture", format!("vulkan-{:04x}-{:04x}", a.vendor_id, a.device_id))?;
    info.set_item("memory_size", a.memory_size)?;
    info.set_item("max_recommended_working_set_size", a.memory_size)?;
    info.set_item("kind", a.kind.name())?;
    info.set_item("driver", &a.driver)?;
    info.set_item("api_version", format!("{}.{}.{}", a.api.0, a.api.1, a.api.2))
}

#[cfg(not(feature = "vulkan"))]
fn gpu_info(_index: usize, _info: &Bound<'_, PyDict>) -> PyResult<()> {
    Ok(())
}

/// Adds devices, streams and the functions above.
pub fn register(m: &Bound<'_, PyModule>, enums: &Bound<'_, PyModule>) -> PyResult<()> {
    let class = enums.getattr("DeviceType")?;
    let (cpu, gpu) = (class.getattr("cpu")?, class.getattr("gpu")?);
    m.add("DeviceType", class)?;
    m.add("cpu", &cpu)?;
    m.add("gpu", &gpu)?;
    let _ = KINDS.set(m.py(), (cpu.unbind(), gpu.unbind()));
    m.add_class::<PyDevice>()?;
    m.add_class::<PyStream>()?;
    m.add_class::<PyLocalStream>()?;
    m.add_class::<StreamContext>()?;
    for f in [
        wrap_pyfunction!(stream, m)?,
        wrap_pyfunction!(default_device, m)?,
        wrap_pyfunction!(set_default_device, m)?,
        wrap_pyfunction!(default_stream, m)?,
        wrap_pyfunction!(set_default_stream, m)?,
        wrap_pyfunction!(new_stream, m)?,
        wrap_pyfunction!(new_thread_local_stream, m)?,
        wrap_pyfunction!(new_thread_unsafe_stream, m)?,
        wrap_pyfunction!(synchronize, m)?,
        wrap_pyfunction!(clear_streams, m)?,
        wrap_pyfunction!(device_count, m)?,
        wrap_pyfunction!(is_available, m)?,
        wrap_pyfunction!(device_info, m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}

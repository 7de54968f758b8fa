//! Memory statistics and limits, and the submodules that programs probe for hardware: `metal` and `cuda`, which
//! are never available here, and `vulkan`.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::device::{self, DeviceArg};
use crate::core::Device;
use crate::memory::stats;
use crate::transforms::settle;

static WIRED: AtomicUsize = AtomicUsize::new(0);

/// Bytes of all live arrays, on the host and on devices.
///
/// >>> mx.get_active_memory() >= 0
/// True
#[pyfunction]
fn get_active_memory(py: Python<'_>) -> usize {
    py.detach(settle);
    stats::active()
}

/// The largest count of active bytes since the start or the last `reset_peak_memory`.
///
/// >>> mx.get_peak_memory() >= 0
/// True
#[pyfunction]
fn get_peak_memory(py: Python<'_>) -> usize {
    py.detach(settle);
    stats::peak()
}

/// Bytes that are kept for reuse and belong to no array.
///
/// >>> mx.get_cache_memory() >= 0
/// True
#[pyfunction]
fn get_cache_memory(py: Python<'_>) -> usize {
    py.detach(settle);
    stats::cache()
}

/// Starts the peak again from the bytes that are active now.
///
/// >>> mx.reset_peak_memory()
#[pyfunction]
fn reset_peak_memory(py: Python<'_>) {
    py.detach(settle);
    stats::reset_peak();
}

/// Sets the limit of active bytes beyond which allocation fails; returns the limit before.
///
/// >>> old = mx.set_memory_limit(mx.get_memory_limit())
#[pyfunction]
fn set_memory_limit(py: Python<'_>, limit: usize) -> usize {
    py.detach(settle);
    stats::set_memory_limit(limit)
}

/// Bytes reserved for the arrays in trees (dict, list, tuple) of arrays, each memory counted once; other leaves are
/// passed over. Raises ValueError for an array that is not evaluated.
///
/// >>> x = mx.ones(4)
/// >>> mx.eval(x)
/// >>> mx.get_array_buffer_size(x, [x]) >= x.nbytes
/// True
#[pyfunction]
#[pyo3(signature = (*args))]
fn get_array_buffer_size(py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<usize> {
    let mut all = Vec::new();
    super::trees::flatten(args.as_any(), false, &mut all)?;
    if all.iter().any(|a| !a.is_scheduled()) {
        let text = "[get_array_buffer_size] Arrays must be evaluated before querying buffer size.";
        return Err(PyValueError::new_err(text));
    }
    py.detach(|| all.iter().try_for_each(crate::core::Array::wait_event))?;
    let mut seen = std::collections::HashSet::new();
    let mut total = 0;
    for a in &all {
        let storage = &a.data()?.storage;
        let place = std::sync::Arc::as_ptr(storage);
        if seen.insert(place) {
            total += storage.capacity();
        }
    }
    Ok(total)
}

/// The limit of active bytes.
///
/// >>> mx.get_memory_limit() > 0
/// True
#[pyfunction]
fn get_memory_limit() -> usize {
    stats::memory_limit()
}

/// Sets the limit of bytes kept for reuse; returns the limit before. 0 keeps nothing.
///
/// >>> old = mx.set_cache_limit(1 << 30)
/// >>> mx.set_cache_limit(old) == 1 << 30
/// True
#[pyfunction]
fn set_cache_limit(py: Python<'_>, limit: usize) -> usize {
    py.detach(settle);
    stats::set_cache_limit(limit)
}

/// Stores a limit of wired bytes and returns the one before. Vulkan has no such notion: nothing follows from it.
///
/// >>> mx.set_wired_limit(0)
/// 0
#[pyfunction]
fn set_wired_limit(limit: usize) -> usize {
    WIRED.swap(limit, Ordering::Relaxed)
}

/// Gives the bytes that were kept for reuse back.
///
/// >>> mx.clear_cache()
#[pyfunction]
fn clear_cache(py: Python<'_>) {
    py.detach(|| {
        settle();
        stats::clear_cache();
    });
}

/// Whether this backend is available: never, in this distribution.
#[pyfunction(name = "is_available")]
fn never() -> bool {
    false
}

/// Does nothing: there is no Metal device to capture.
#[pyfunction]
fn start_capture(path: &str) {
    let _ = path;
}

/// Does nothing: there is no Metal device to capture.
#[pyfunction]
fn stop_capture() {}

/// Facts about the default device; see `mlx.core.device_info`.
#[pyfunction(name = "device_info")]
fn default_device_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    device::device_info(py, None)
}

/// Whether a Vulkan device was found.
///
/// >>> mx.vulkan.is_available() == mx.is_available(mx.gpu)
/// True
#[pyfunction(name = "is_available")]
fn vulkan_available() -> bool {
    device::exists(Device::GPU)
}

/// Facts about Vulkan device `index`; empty when there is none.
///
/// >>> mx.vulkan.device_info() == mx.device_info(mx.gpu)
/// True
#[pyfunction(name = "device_info")]
#[pyo3(signature = (index=0))]
fn vulkan_device_info(py: Python<'_>, index: u32) -> PyResult<Bound<'_, PyDict>> {
    device::device_info(py, Some(DeviceArg(Device { index, ..Device::GPU })))
}

/// How many operations CPU streams have been handed since the process started: work for a GPU stream adds none.
///
/// >>> mx.vulkan.host_ops() >= 0
/// True
#[pyfunction]
fn host_ops() -> u64 {
    crate::transforms::host_ops()
}

/// Adds the functions and submodules.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let add = |m: &Bound<'_, PyModule>| -> PyResult<()> {
        for f in [
            wrap_pyfunction!(get_active_memory, m)?,
            wrap_pyfunction!(get_peak_memory, m)?,
            wrap_pyfunction!(get_cache_memory, m)?,
            wrap_pyfunction!(reset_peak_memory, m)?,
            wrap_pyfunction!(set_memory_limit, m)?,
            wrap_pyfunction!(set_cache_limit, m)?,
            wrap_pyfunction!(set_wired_limit, m)?,
            wrap_pyfunction!(clear_cache, m)?,
        ] {
            m.add_function(f)?;
        }
        Ok(())
    };
    add(m)?;
    m.add_function(wrap_pyfunction!(get_memory_limit, m)?)?;
    m.add_function(wrap_pyfunction!(get_array_buffer_size, m)?)?;
    let metal =
        super::submodule(m, "metal", "Metal is not available here; the names exist for programs that ask.")?;
    add(&metal)?;
    metal.add_function(wrap_pyfunction!(never, &metal)?)?;
    metal.add_function(wrap_pyfunction!(start_capture, &metal)?)?;
    metal.add_function(wrap_pyfunction!(stop_capture, &metal)?)?;
    metal.add_function(wrap_pyfunction!(default_device_info, &metal)?)?;
    let cuda =
        super::submodule(m, "cuda", "CUDA is not available here; the name exists for programs that ask.")?;
    cuda.add_function(wrap_pyfunction!(never, &cuda)?)?;
    let vulkan = super::submodule(m, "vulkan", "What is particular to the Vulkan backend.")?;
    vulkan.add_function(wrap_pyfunction!(vulkan_available, &vulkan)?)?;
    vulkan.add_function(wrap_pyfunction!(host_ops, &vulkan)?)?;
    vulkan.add_function(wrap_pyfunction!(vulkan_device_info, &vulkan)?)?;
    super::vulkan::register(&vulkan)?;
    super::hide_private(&vulkan)
}

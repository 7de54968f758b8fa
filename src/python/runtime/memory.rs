//! Memory statistics and limits, and the submodules that programs probe for hardware: `metal` and `cuda`, which
//! are never available here, and `vulkan`.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::device::{self, DeviceArg};
use crate::core::{Device, Error};
use crate::eval::settle;
use crate::memory::stats;

static WIRED: AtomicUsize = AtomicUsize::new(0);

/// Bytes that arrays hold now, on the host and on devices.
///
/// What is kept for reuse is not among them: see `get_cache_memory`.
///
/// Returns:
///     int: Bytes, by the capacity that was reserved.
///
/// >>> mx.get_active_memory() >= 0
/// True
#[pyfunction]
fn get_active_memory(py: Python<'_>) -> PyResult<usize> {
    py.detach(settle)?;
    Ok(stats::active())
}

/// The largest number of active bytes since the start, or since the last `reset_peak_memory`.
///
/// Returns:
///     int: Bytes.
///
/// >>> x = mx.ones(1000) + 1
/// >>> mx.eval(x)
/// >>> mx.get_peak_memory() >= 4000
/// True
#[pyfunction]
fn get_peak_memory(py: Python<'_>) -> PyResult<usize> {
    py.detach(settle)?;
    Ok(stats::peak())
}

/// Bytes that are kept for reuse and belong to no array.
///
/// A steady loop takes its memory from there and asks the driver for none. `set_cache_limit` bounds it and
/// `clear_cache` gives it back.
///
/// Returns:
///     int: Bytes.
///
/// >>> mx.get_cache_memory() >= 0
/// True
#[pyfunction]
fn get_cache_memory(py: Python<'_>) -> PyResult<usize> {
    py.detach(settle)?;
    Ok(stats::cache())
}

/// Starts the peak of `get_peak_memory` again from the bytes that are active now.
///
/// Returns:
///     None
///
/// >>> mx.reset_peak_memory()
#[pyfunction]
fn reset_peak_memory(py: Python<'_>) -> PyResult<()> {
    py.detach(settle)?;
    stats::reset_peak();
    Ok(())
}

/// Sets the limit of active bytes beyond which allocation fails.
///
/// Before that the memory kept for reuse is given back. It holds for the host and devices together.
///
/// Args:
///     limit (int): Bytes.
///
/// Returns:
///     int: The limit before.
///
/// Raises:
///     TypeError: if the limit is no integer.
///
/// >>> old = mx.set_memory_limit(mx.get_memory_limit())
#[pyfunction]
fn set_memory_limit(py: Python<'_>, limit: usize) -> PyResult<usize> {
    py.detach(settle)?;
    Ok(stats::set_memory_limit(limit))
}

/// Bytes reserved for arrays.
///
/// It is at least the sum of their `nbytes`. Memory that arrays share, such as that of views, is counted
/// once.
///
/// Args:
///     args (array | tree): Arrays, or trees (dict, list, tuple) of arrays; other leaves are passed over.
///
/// Returns:
///     int: Bytes.
///
/// Raises:
///     ValueError: if an array is not evaluated.
///
/// >>> x = mx.ones(4)
/// >>> mx.eval(x)
/// >>> mx.get_array_buffer_size(x, [x]) >= x.nbytes
/// True
#[pyfunction]
#[pyo3(signature = (*args))]
fn get_array_buffer_size(py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<usize> {
    let mut all = Vec::new();
    crate::python::transforms::trees::flatten(args.as_any(), false, &mut all)?;
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

/// The limit of active bytes, which `set_memory_limit` sets.
///
/// Returns:
///     int: Bytes.
///
/// >>> mx.get_memory_limit() > 0
/// True
#[pyfunction]
fn get_memory_limit() -> usize {
    stats::memory_limit()
}

/// Sets the limit of bytes that are kept for reuse.
///
/// What is beyond it is given back. With 0 nothing is kept, which makes every array ask the driver for
/// memory.
///
/// Args:
///     limit (int): Bytes.
///
/// Returns:
///     int: The limit before.
///
/// Raises:
///     TypeError: if the limit is no integer.
///
/// >>> old = mx.set_cache_limit(1 << 30)
/// >>> mx.set_cache_limit(old) == 1 << 30
/// True
#[pyfunction]
fn set_cache_limit(py: Python<'_>, limit: usize) -> PyResult<usize> {
    py.detach(settle)?;
    Ok(stats::set_cache_limit(limit))
}

/// Stores a limit of wired bytes, from which nothing follows: Vulkan has no such notion.
///
/// The name exists for programs that set it for Metal.
///
/// Args:
///     limit (int): Bytes.
///
/// Returns:
///     int: The limit before.
///
/// Raises:
///     TypeError: if the limit is no integer.
///
/// >>> mx.set_wired_limit(0)
/// 0
#[pyfunction]
fn set_wired_limit(limit: usize) -> usize {
    WIRED.swap(limit, Ordering::Relaxed)
}

/// Gives the memory back that is kept for reuse.
///
/// After it `get_cache_memory` is 0 until arrays are freed again. The driver of a GPU with memory of its own gets it a quarter of a
/// second later, what is asked for again until then excepted (MLX_VK_CLEAR_MS).
///
/// Returns:
///     None
///
/// >>> mx.clear_cache()
#[pyfunction]
fn clear_cache(py: Python<'_>) -> PyResult<()> {
    py.detach(|| {
        settle()?;
        #[cfg(feature = "vulkan")]
        // What went wrong on a GPU is told to those who wait for that.
        if let Err(e @ Error::Interrupted) = crate::vulkan::synchronize_all() {
            return Err(e);
        }
        stats::clear_cache(stats::When::Soon);
        Ok(())
    })
    .map_err(|e: Error| e.into())
}

/// Whether this backend is available: never, since this library computes on CPUs and through Vulkan.
///
/// Programs ask before they use what only that backend has. See `mlx.core.vulkan.is_available`.
///
/// Returns:
///     bool: False.
///
/// >>> mx.metal.is_available(), mx.cuda.is_available()
/// (False, False)
#[pyfunction(name = "is_available")]
fn never() -> bool {
    false
}

/// Does nothing: there is no Metal device to capture. See `mlx.core.vulkan.profile`.
///
/// Args:
///     path (str): Where a capture would be written.
///
/// Returns:
///     None
///
/// >>> mx.metal.start_capture("trace.gputrace")
#[pyfunction]
fn start_capture(path: &str) {
    let _ = path;
}

/// Does nothing: there is no Metal device to capture. See `mlx.core.vulkan.profile`.
///
/// Returns:
///     None
///
/// >>> mx.metal.stop_capture()
#[pyfunction]
fn stop_capture() {}

/// Facts about the default device, as `mlx.core.device_info` gives them.
///
/// The name exists for programs that ask Metal for its limits.
///
/// Returns:
///     dict[str, str | int]: Facts by name.
///
/// >>> 'device_name' in mx.metal.device_info()
/// True
#[pyfunction(name = "device_info")]
fn default_device_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    device::device_info(py, None)
}

/// Whether a Vulkan device was found, a software driver among them.
///
/// Returns:
///     bool: As `mx.is_available(mx.gpu)`.
///
/// >>> mx.vulkan.is_available() == mx.is_available(mx.gpu)
/// True
#[pyfunction(name = "is_available")]
fn vulkan_available() -> bool {
    device::exists(Device::GPU)
}

/// Facts about a Vulkan device.
///
/// Args:
///     index (int, optional): Position in the ranked list of devices. Default: 0.
///
/// Returns:
///     dict[str, str | int]: As `mlx.core.device_info` gives them; empty where there is no such device.
///
/// >>> mx.vulkan.device_info() == mx.device_info(mx.gpu)
/// True
#[pyfunction(name = "device_info")]
#[pyo3(signature = (index=0))]
fn vulkan_device_info(py: Python<'_>, index: u32) -> PyResult<Bound<'_, PyDict>> {
    device::device_info(py, Some(DeviceArg(Device { index, ..Device::GPU })))
}

/// How many operations CPU streams have been handed since the process started.
///
/// Work for a GPU stream adds none, so that a difference tells whether something ran on the host.
///
/// Returns:
///     int: The count.
///
/// >>> mx.vulkan.host_ops() >= 0
/// True
#[pyfunction]
fn host_ops() -> u64 {
    crate::eval::host_ops()
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
    let metal = crate::python::submodule(
        m,
        "metal",
        "Metal is not available here; the names exist for programs that ask.",
    )?;
    add(&metal)?;
    metal.add_function(wrap_pyfunction!(never, &metal)?)?;
    metal.add_function(wrap_pyfunction!(start_capture, &metal)?)?;
    metal.add_function(wrap_pyfunction!(stop_capture, &metal)?)?;
    metal.add_function(wrap_pyfunction!(default_device_info, &metal)?)?;
    let cuda = crate::python::submodule(
        m,
        "cuda",
        "CUDA is not available here; the name exists for programs that ask.",
    )?;
    cuda.add_function(wrap_pyfunction!(never, &cuda)?)?;
    let vulkan = crate::python::submodule(m, "vulkan", "What is particular to the Vulkan backend.")?;
    vulkan.add_function(wrap_pyfunction!(vulkan_available, &vulkan)?)?;
    vulkan.add_function(wrap_pyfunction!(host_ops, &vulkan)?)?;
    vulkan.add_function(wrap_pyfunction!(vulkan_device_info, &vulkan)?)?;
    super::vulkan::register(&vulkan)?;
    crate::python::hide_private(&vulkan)
}

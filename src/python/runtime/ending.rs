//! Ctrl-C, forks and the end of the process, as far as they concern the interpreter.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyCFunction;

use crate::core::{Error, Result, device, failure, fallback, fork, husks};
use crate::{cpu, distributed, eval, kernels, memory, ops};

/// The thread that handles signals, by the interpreter's number, and the process that it belongs to (see `fork`).
static MAIN: AtomicU64 = AtomicU64::new(0);
static MAIN_OF: AtomicU32 = AtomicU32::new(u32::MAX);

thread_local! {
    // What a signal handler raised, until the error that stands for it reaches Python.
    static RAISED: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// Whether this thread handles signals: others must not wait for the interpreter to look for some.
fn is_main() -> bool {
    let process = fork::generation();
    if MAIN_OF.load(Ordering::Acquire) != process {
        let main = |py: Python<'_>| -> PyResult<u64> {
            py.import("threading")?.call_method0("main_thread")?.getattr("ident")?.extract()
        };
        // One that was not started by the interpreter has no number; then there are no signals.
        let main = Python::try_attach(|py| main(py).unwrap_or(0)).unwrap_or(0);
        MAIN.store(main, Ordering::Release);
        MAIN_OF.store(process, Ordering::Release);
    }
    // SAFETY: asks for the number of the calling thread; needs no interpreter.
    let this = unsafe { pyo3::ffi::PyThread_get_thread_ident() };
    // The number is a C long: 64 bits here, 32 on Windows.
    #[allow(clippy::useless_conversion)]
    let this = u64::from(this);
    MAIN.load(Ordering::Acquire) == this
}

/// Ctrl-C while the library waits, or what another signal's handler raised.
fn interrupted() -> Result<()> {
    if !is_main() {
        return Ok(());
    }
    if let Some(e) = RAISED.take() {
        RAISED.set(Some(e)); // nobody was told yet
        return Err(Error::Interrupted);
    }
    Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(())).map_err(|e| {
        RAISED.set(Some(e));
        Error::Interrupted
    })
}

/// What a signal handler raised while this thread waited.
pub fn raised() -> Option<PyErr> {
    RAISED.take()
}

/// What a fork waits for, outer locks first.
static LOCKS: &[&'static dyn fork::Hold] = &[
    &ops::random::STATE,
    &eval::SCHEDULE,
    &device::DEFAULTS,
    &device::HELD,
    &failure::UNHEARD,
    &husks::LEFT,
    &fallback::COUNTS,
    &ops::elementwise::partials::PARSED,
    &kernels::matmul::epilogue::EPILOGUES_KEPT,
    &kernels::matmul::epilogue::AFTERS_KEPT,
    &cpu::fft::PLANS,
    &cpu::matmul::MEASURED,
    &memory::stats::CACHES,
    &memory::CACHE,
];

/// Drops what nobody will ask for, gives the GPUs a moment to finish, writes what drivers compiled to disk and prints
/// statistics; runs when the interpreter ends.
fn end(py: Python<'_>, owner: u32) -> PyResult<()> {
    // A forked child has none of the threads that would be waited for, and none of the group's connections.
    #[cfg(feature = "vulkan")]
    let mut others = false;
    if fork::generation() == owner {
        // An exception that nobody caught ends this process.
        let failed = py.import("sys")?.getattr_opt("last_value")?.is_some();
        py.detach(|| {
            // Others may need what was begun here, each until its timeout.
            if !failed {
                ops::distributed::streams().into_iter().for_each(|s| drop(eval::finish(s)));
            }
            distributed::leave(failed);
        });
        #[cfg(feature = "vulkan")]
        {
            let threads: usize = py.import("threading")?.call_method0("active_count")?.extract()?;
            others = threads > 1 || distributed::is_busy();
        }
        py.detach(crate::eval::end);
        super::vulkan::print_if_asked();
    }
    // Threads that the interpreter does not wait for may be within a driver.
    #[cfg(feature = "vulkan")]
    crate::vulkan::leave_early(others, eval::is_busy);
    Ok(())
}

/// Installs all of this, once.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    crate::core::event::install_interrupt_check(interrupted);
    fork::watch(LOCKS);
    let owner = fork::generation();
    let f = PyCFunction::new_closure(py, None, None, move |args, _| end(args.py(), owner))?;
    py.import("atexit")?.call_method1("register", (f,))?;
    Ok(())
}

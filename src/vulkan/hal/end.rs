//! The end of a process under drivers that are still at work, or have lost their threads to a fork: what they do when the
//! process unloads them waits for kernels that may run for ever, or crashes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};

use super::adapter::forked;
use super::device::{Device, opened};

static ALWAYS: AtomicBool = AtomicBool::new(false);
/// Whether threads outside this module, which may see the memory of devices or let go of it, are at work.
static BUSY: OnceLock<fn() -> bool> = OnceLock::new();

/// Has the process end without what drivers do at its end, with the status that it has: a device was given up. Python's
/// own end comes before.
pub(super) fn leave_without_drivers() {
    static ASKED: Once = Once::new();
    ALWAYS.store(true, Ordering::Release);
    ASKED.call_once(install);
}

/// As [`leave_without_drivers`], unless it turns out that no driver is at work. For the end of the process: handlers run in
/// the opposite order of their registration, so that this one comes before those of all libraries.
pub(in crate::vulkan) fn leave_early(always: bool, busy: fn() -> bool) {
    let _ = BUSY.set(busy);
    ALWAYS.fetch_or(always, Ordering::AcqRel);
    install();
}

/// Whether drivers must not be unloaded.
#[cfg_attr(not(all(target_os = "linux", target_env = "gnu")), allow(dead_code))]
fn must_leave() -> bool {
    let busy = || BUSY.get().is_some_and(|busy| busy()) || crate::vulkan::is_busy();
    forked() || ALWAYS.load(Ordering::Acquire) || busy() || !opened().into_iter().all(Device::shut)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn install() {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        fn on_exit(function: extern "C" fn(c_int, *mut c_void), arg: *mut c_void) -> c_int;
        fn fflush(file: *mut c_void) -> c_int;
        fn _exit(status: c_int) -> !;
    }
    extern "C" fn leave(status: c_int, _: *mut c_void) {
        if !must_leave() {
            return;
        }
        // SAFETY: a null file stands for all; the process ends.
        unsafe {
            fflush(std::ptr::null_mut());
            _exit(status)
        }
    }
    // SAFETY: the handler uses nothing that may be gone.
    unsafe { on_exit(leave, std::ptr::null_mut()) };
}

/// Elsewhere a handler does not know the status: the driver's end is waited for.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn install() {}

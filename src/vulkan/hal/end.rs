//! The end of a process that has given up a device: its kernel may run for ever, and drivers wait for it when the process
//! unloads them.

use std::sync::Once;

/// Has the process end without what drivers do at its end, with the status that it has. Python's own end comes before.
pub(super) fn leave_without_drivers() {
    static ASKED: Once = Once::new();
    ASKED.call_once(install);
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
        // SAFETY: a null file stands for all; the process ends.
        unsafe {
            fflush(std::ptr::null_mut());
            _exit(status)
        }
    }
    // SAFETY: the handler uses nothing that may be gone. Handlers run in the opposite order of their registration, so
    // that it comes before those of the drivers that are loaded.
    unsafe { on_exit(leave, std::ptr::null_mut()) };
}

/// Elsewhere a handler does not know the status: the driver's end is waited for.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn install() {}

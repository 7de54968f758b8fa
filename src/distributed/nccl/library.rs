//! The functions of NCCL, opened at run time with CUDA's driver: where either is missing there is no NCCL.

use std::ffi::{CStr, OsString, c_char, c_int};
use std::path::PathBuf;
use std::sync::OnceLock;

use super::LIBNAME;
use crate::distributed::{FOLDERS, Outcome};
use crate::memory::cuda::{self, Handle, Memory, functions};

/// What processes find each other by.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Id(pub [u8; 128]);

/// NCCL, its version 2.
pub struct Nccl {
    pub get_version: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub get_unique_id: unsafe extern "C" fn(*mut Id) -> c_int,
    pub comm_init_rank: unsafe extern "C" fn(*mut Handle, c_int, Id, c_int) -> c_int,
    pub comm_abort: unsafe extern "C" fn(Handle) -> c_int,
    pub comm_destroy: unsafe extern "C" fn(Handle) -> c_int,
    pub get_async_error: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    get_error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    pub all_reduce: unsafe extern "C" fn(Memory, Memory, usize, c_int, c_int, Handle, Handle) -> c_int,
    pub all_gather: unsafe extern "C" fn(Memory, Memory, usize, c_int, Handle, Handle) -> c_int,
    pub reduce_scatter: unsafe extern "C" fn(Memory, Memory, usize, c_int, c_int, Handle, Handle) -> c_int,
    pub send: unsafe extern "C" fn(Memory, usize, c_int, c_int, Handle, Handle) -> c_int,
    pub recv: unsafe extern "C" fn(Memory, usize, c_int, c_int, Handle, Handle) -> c_int,
}

/// By name, then in the folders of NVIDIA's packages for Python.
fn candidates() -> Vec<OsString> {
    if let Some(name) = LIBNAME.text() {
        return vec![name];
    }
    let inside = |folder: &PathBuf| folder.join("nvidia/nccl/lib/libnccl.so.2").into_os_string();
    let folders = FOLDERS.get().map_or(&[][..], Vec::as_slice);
    std::iter::once("libnccl.so.2".into()).chain(folders.iter().map(inside)).collect()
}

fn open_nccl() -> Option<Nccl> {
    cuda::driver()?;
    let library = candidates().iter().find_map(|name| cuda::open(name))?;
    let nccl = functions!(
        library,
        Nccl {
            get_version: "ncclGetVersion",
            get_unique_id: "ncclGetUniqueId",
            comm_init_rank: "ncclCommInitRank",
            comm_abort: "ncclCommAbort",
            comm_destroy: "ncclCommDestroy",
            get_async_error: "ncclCommGetAsyncError",
            get_error_string: "ncclGetErrorString",
            all_reduce: "ncclAllReduce",
            all_gather: "ncclAllGather",
            reduce_scatter: "ncclReduceScatter",
            send: "ncclSend",
            recv: "ncclRecv",
        }
    );
    let mut version = 0;
    // SAFETY: a place for the result.
    let known = unsafe { (nccl.get_version)(&mut version) } == 0 && version >= FIRST;
    known.then_some(nccl)
}

/// The first version that has ncclSend and ncclRecv: 2.7.
const FIRST: c_int = 2700;

/// NCCL, where it and CUDA's driver are there and that sees a GPU.
pub fn nccl() -> Option<&'static Nccl> {
    static OPENED: OnceLock<Option<Nccl>> = OnceLock::new();
    OPENED.get_or_init(open_nccl).as_ref()
}

impl Nccl {
    /// Fails if a function of NCCL did.
    pub fn check(&self, what: &str, code: c_int) -> Outcome {
        if code == 0 || code == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: returns a constant text for every number.
        let text = unsafe { (self.get_error_string)(code) };
        // SAFETY: as above.
        let text =
            if text.is_null() { "?".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() };
        Err(format!("{what} of NCCL failed: {text} ({code})"))
    }
}

/// ncclInProgress.
const IN_PROGRESS: c_int = 7;

//! The functions of NCCL and of CUDA's driver, opened at run time: where either is missing there is no NCCL. Nothing
//! of either is needed to build.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::LIBNAME;
use crate::distributed::FOLDERS;
use crate::distributed::Outcome;

/// Memory of a GPU.
pub type Memory = u64;
pub type Handle = *mut c_void;

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

/// CUDA's driver.
pub struct Cuda {
    init: unsafe extern "C" fn(c_uint) -> c_int,
    device_get_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    pub device_get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int,
    pub device_get_uuid: unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int,
    pub primary_ctx_retain: unsafe extern "C" fn(*mut Handle, c_int) -> c_int,
    pub ctx_set_current: unsafe extern "C" fn(Handle) -> c_int,
    pub mem_alloc: unsafe extern "C" fn(*mut Memory, usize) -> c_int,
    pub mem_free: unsafe extern "C" fn(Memory) -> c_int,
    pub mem_host_alloc: unsafe extern "C" fn(*mut Handle, usize, c_uint) -> c_int,
    pub mem_free_host: unsafe extern "C" fn(Handle) -> c_int,
    pub memcpy_htod: unsafe extern "C" fn(Memory, *const c_void, usize, Handle) -> c_int,
    pub memcpy_dtoh: unsafe extern "C" fn(*mut c_void, Memory, usize, Handle) -> c_int,
    pub stream_create: unsafe extern "C" fn(*mut Handle, c_uint) -> c_int,
    pub stream_destroy: unsafe extern "C" fn(Handle) -> c_int,
    pub event_create: unsafe extern "C" fn(*mut Handle, c_uint) -> c_int,
    pub event_destroy: unsafe extern "C" fn(Handle) -> c_int,
    pub event_record: unsafe extern "C" fn(Handle, Handle) -> c_int,
    pub event_query: unsafe extern "C" fn(Handle) -> c_int,
    get_error_string: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
    /// Missing before CUDA 10.
    pub external: Option<External>,
}

/// Memory of other APIs.
pub struct External {
    pub import_memory: unsafe extern "C" fn(*mut Handle, *const MemoryFile) -> c_int,
    pub mapped_buffer: unsafe extern "C" fn(*mut Memory, Handle, *const Mapping) -> c_int,
    pub destroy_memory: unsafe extern "C" fn(Handle) -> c_int,
}

/// CUDA_EXTERNAL_MEMORY_HANDLE_DESC of a file descriptor.
#[repr(C)]
pub struct MemoryFile {
    pub kind: c_int,
    /// A union of eight-byte alignment and 16 bytes, of which a descriptor is the first.
    pub file: [u64; 2],
    pub size: u64,
    pub flags: c_uint,
    pub reserved: [c_uint; 16],
}

/// CUDA_EXTERNAL_MEMORY_BUFFER_DESC.
#[repr(C)]
pub struct Mapping {
    pub offset: u64,
    pub size: u64,
    pub flags: c_uint,
    pub reserved: [c_uint; 16],
}

/// Both.
pub struct Libraries {
    pub nccl: Nccl,
    pub cuda: Cuda,
    /// How many GPUs CUDA sees, which is at least one.
    pub gpus: usize,
}

macro_rules! functions {
    ($library:expr, $kind:ident { $($field:ident: $name:literal),* $(,)? $(; $more:ident: $value:expr)? }) => {
        // SAFETY: the signatures are those of nccl.h of version 2 and of cuda.h, whose symbols keep theirs.
        unsafe { $kind { $($field: *$library.get(concat!($name, "\0").as_bytes()).ok()?),* $(, $more: $value)? } }
    };
}

/// Opens a library for good.
fn open(name: &OsStr) -> Option<&'static Library> {
    // SAFETY: the user's own NCCL or driver; what it runs when it is loaded is what every program of CUDA runs.
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.ok()?;
    Some(Box::leak(Box::new(library)))
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

fn open_external(driver: &'static Library) -> Option<External> {
    Some(functions!(
        driver,
        External {
            import_memory: "cuImportExternalMemory",
            mapped_buffer: "cuExternalMemoryGetMappedBuffer",
            destroy_memory: "cuDestroyExternalMemory",
        }
    ))
}

fn open_all() -> Option<Libraries> {
    let driver = open(OsStr::new("libcuda.so.1"))?;
    let cuda = functions!(
        driver,
        Cuda {
            init: "cuInit",
            device_get_count: "cuDeviceGetCount",
            device_get: "cuDeviceGet",
            device_get_uuid: "cuDeviceGetUuid",
            primary_ctx_retain: "cuDevicePrimaryCtxRetain",
            ctx_set_current: "cuCtxSetCurrent",
            mem_alloc: "cuMemAlloc_v2",
            mem_free: "cuMemFree_v2",
            mem_host_alloc: "cuMemHostAlloc",
            mem_free_host: "cuMemFreeHost",
            memcpy_htod: "cuMemcpyHtoDAsync_v2",
            memcpy_dtoh: "cuMemcpyDtoHAsync_v2",
            stream_create: "cuStreamCreate",
            stream_destroy: "cuStreamDestroy_v2",
            event_create: "cuEventCreate",
            event_destroy: "cuEventDestroy_v2",
            event_record: "cuEventRecord",
            event_query: "cuEventQuery",
            get_error_string: "cuGetErrorString";
            external: open_external(driver)
        }
    );
    let mut gpus = 0;
    // SAFETY: may be called at any time; a place for the result.
    let counted = unsafe { (cuda.init)(0) == 0 && (cuda.device_get_count)(&mut gpus) == 0 };
    let gpus = usize::try_from(gpus).ok().filter(|&n| counted && n > 0)?;
    let library = candidates().iter().find_map(|name| open(name))?;
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
    known.then_some(Libraries { nccl, cuda, gpus })
}

/// The first version that has ncclSend and ncclRecv: 2.7.
const FIRST: c_int = 2700;

/// Both libraries, where they are there and CUDA sees a GPU.
pub fn libraries() -> Option<&'static Libraries> {
    static OPENED: OnceLock<Option<Libraries>> = OnceLock::new();
    OPENED.get_or_init(open_all).as_ref()
}

impl Libraries {
    /// Fails if a function of CUDA did.
    pub fn cuda(&self, what: &str, code: c_int) -> Outcome {
        if code == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: a place for the result, a constant text.
        let known = unsafe { (self.cuda.get_error_string)(code, &mut text) } == 0 && !text.is_null();
        // SAFETY: as above.
        let text = if known { unsafe { CStr::from_ptr(text) }.to_string_lossy() } else { "?".into() };
        Err(format!("{what} of CUDA failed: {text} ({code})"))
    }

    /// Fails if a function of NCCL did.
    pub fn nccl(&self, what: &str, code: c_int) -> Outcome {
        if code == 0 || code == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: returns a constant text for every number.
        let text = unsafe { (self.nccl.get_error_string)(code) };
        // SAFETY: as above.
        let text =
            if text.is_null() { "?".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy() };
        Err(format!("{what} of NCCL failed: {text} ({code})"))
    }
}

/// ncclInProgress.
const IN_PROGRESS: c_int = 7;

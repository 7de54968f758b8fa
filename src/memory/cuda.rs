//! CUDA's driver, opened at run time: nothing of it is needed to build, and where it is missing there are no GPUs here. Memory
//! of Vulkan is mapped into CUDA for what Vulkan has no way to do: collectives of NCCL, and copies between two GPUs.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::reach::{self, Reach};

/// Memory of a GPU.
pub type Memory = u64;
pub type Handle = *mut c_void;

/// What went wrong, for people.
pub type Outcome<T = ()> = std::result::Result<T, String>;

/// CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD.
const FILE: c_int = 1;
/// CUDA_EXTERNAL_MEMORY_DEDICATED.
const DEDICATED: u32 = 1;
/// CUDA_ERROR_NOT_READY.
const NOT_READY: c_int = 600;
/// CU_STREAM_NON_BLOCKING.
const NON_BLOCKING: u32 = 1;
/// CU_EVENT_DISABLE_TIMING.
const NO_TIMING: u32 = 2;

/// The driver's functions.
pub struct Cuda {
    init: unsafe extern "C" fn(c_uint) -> c_int,
    device_get_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    device_get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int,
    device_get_uuid: unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int,
    primary_ctx_retain: unsafe extern "C" fn(*mut Handle, c_int) -> c_int,
    ctx_get_current: unsafe extern "C" fn(*mut Handle) -> c_int,
    ctx_set_current: unsafe extern "C" fn(Handle) -> c_int,
    mem_alloc: unsafe extern "C" fn(*mut Memory, usize) -> c_int,
    pub mem_free: unsafe extern "C" fn(Memory) -> c_int,
    pub mem_host_alloc: unsafe extern "C" fn(*mut Handle, usize, c_uint) -> c_int,
    pub mem_free_host: unsafe extern "C" fn(Handle) -> c_int,
    pub memcpy_htod: unsafe extern "C" fn(Memory, *const c_void, usize, Handle) -> c_int,
    pub memcpy_dtoh: unsafe extern "C" fn(*mut c_void, Memory, usize, Handle) -> c_int,
    can_access_peer: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int,
    memcpy_within: unsafe extern "C" fn(Memory, Memory, usize, Handle) -> c_int,
    stream_create: unsafe extern "C" fn(*mut Handle, c_uint) -> c_int,
    pub stream_destroy: unsafe extern "C" fn(Handle) -> c_int,
    event_create: unsafe extern "C" fn(*mut Handle, c_uint) -> c_int,
    pub event_destroy: unsafe extern "C" fn(Handle) -> c_int,
    pub event_record: unsafe extern "C" fn(Handle, Handle) -> c_int,
    event_query: unsafe extern "C" fn(Handle) -> c_int,
    get_error_string: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
    /// Missing before CUDA 10.
    external: Option<External>,
    /// Missing before CUDA 11.7.
    reach: Option<Reach>,
    /// How many GPUs there are, which is at least one.
    pub gpus: usize,
}

/// Memory of other APIs.
struct External {
    import_memory: unsafe extern "C" fn(*mut Handle, *const MemoryFile) -> c_int,
    mapped_buffer: unsafe extern "C" fn(*mut Memory, Handle, *const Mapping) -> c_int,
    destroy_memory: unsafe extern "C" fn(Handle) -> c_int,
}

/// CUDA_EXTERNAL_MEMORY_HANDLE_DESC of a file descriptor.
#[repr(C)]
struct MemoryFile {
    kind: c_int,
    /// A union of eight-byte alignment and 16 bytes, of which a descriptor is the first.
    file: [u64; 2],
    size: u64,
    flags: c_uint,
    reserved: [c_uint; 16],
}

/// CUDA_EXTERNAL_MEMORY_BUFFER_DESC.
#[repr(C)]
struct Mapping {
    offset: u64,
    size: u64,
    flags: c_uint,
    reserved: [c_uint; 16],
}

/// A table of functions of an opened library; nothing where one is missing.
macro_rules! functions {
    ($library:expr, $kind:ident { $($field:ident: $name:literal),* $(,)? $(; $($more:ident: $value:expr),*)? }) => {
        // SAFETY: the signatures are those of the library's header, whose symbols keep theirs.
        unsafe {
            $kind {
                $($field: *$library.get(concat!($name, "\0").as_bytes()).ok()?),*
                $(, $($more: $value),*)?
            }
        }
    };
}
pub(crate) use functions;

/// Opens a library for good.
pub fn open(name: &OsStr) -> Option<&'static Library> {
    // SAFETY: the user's own library or driver; what it runs when it is loaded is what every program of CUDA runs.
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.ok()?;
    Some(Box::leak(Box::new(library)))
}

fn library() -> Option<&'static Library> {
    static OPENED: OnceLock<Option<&'static Library>> = OnceLock::new();
    *OPENED.get_or_init(|| open(OsStr::new("libcuda.so.1")))
}

/// Whether the driver's library is there, which is not asked for its GPUs yet.
pub fn is_there() -> bool {
    library().is_some()
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

fn open_driver() -> Option<Cuda> {
    let driver = library()?;
    let mut cuda = functions!(
        driver,
        Cuda {
            init: "cuInit",
            device_get_count: "cuDeviceGetCount",
            device_get: "cuDeviceGet",
            device_get_uuid: "cuDeviceGetUuid",
            primary_ctx_retain: "cuDevicePrimaryCtxRetain",
            ctx_get_current: "cuCtxGetCurrent",
            ctx_set_current: "cuCtxSetCurrent",
            mem_alloc: "cuMemAlloc_v2",
            mem_free: "cuMemFree_v2",
            mem_host_alloc: "cuMemHostAlloc",
            mem_free_host: "cuMemFreeHost",
            memcpy_htod: "cuMemcpyHtoDAsync_v2",
            memcpy_dtoh: "cuMemcpyDtoHAsync_v2",
            can_access_peer: "cuDeviceCanAccessPeer",
            memcpy_within: "cuMemcpyDtoDAsync_v2",
            stream_create: "cuStreamCreate",
            stream_destroy: "cuStreamDestroy_v2",
            event_create: "cuEventCreate",
            event_destroy: "cuEventDestroy_v2",
            event_record: "cuEventRecord",
            event_query: "cuEventQuery",
            get_error_string: "cuGetErrorString";
            external: open_external(driver),
            reach: reach::open(driver),
            gpus: 0
        }
    );
    let mut gpus = 0;
    // SAFETY: may be called at any time; a place for the result.
    let counted = unsafe { (cuda.init)(0) == 0 && (cuda.device_get_count)(&mut gpus) == 0 };
    cuda.gpus = usize::try_from(gpus).ok().filter(|&n| counted && n > 0)?;
    Some(cuda)
}

/// The driver, where it is there and sees a GPU.
pub fn driver() -> Option<&'static Cuda> {
    static OPENED: OnceLock<Option<Cuda>> = OnceLock::new();
    OPENED.get_or_init(open_driver).as_ref()
}

impl Cuda {
    /// Fails if a function did.
    pub fn check(&self, what: &str, code: c_int) -> Outcome {
        if code == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: a place for the result, a constant text.
        let known = unsafe { (self.get_error_string)(code, &mut text) } == 0 && !text.is_null();
        // SAFETY: as above.
        let text = if known { unsafe { CStr::from_ptr(text) }.to_string_lossy() } else { "?".into() };
        Err(format!("{what} of CUDA failed: {text} ({code})"))
    }

    /// The GPU with this number, and its identifier where it has one.
    fn gpu(&self, number: usize) -> Outcome<(c_int, Option<[u8; 16]>)> {
        let (mut device, mut own) = (0, [0; 16]);
        // SAFETY: a place for the result.
        self.check("cuDeviceGet", unsafe { (self.device_get)(&mut device, number as c_int) })?;
        // SAFETY: as above.
        let known = unsafe { (self.device_get_uuid)(&mut own, device) } == 0;
        Ok((device, known.then_some(own)))
    }

    fn made(&self, what: &str, make: impl FnOnce(*mut Handle) -> c_int) -> Outcome<Handle> {
        let mut handle = std::ptr::null_mut();
        self.check(what, make(&mut handle)).map(|()| handle)
    }

    /// Memory of the GPU that was entered.
    pub fn memory(&self, bytes: usize) -> Outcome<Memory> {
        let mut memory = 0;
        // SAFETY: a place for the result.
        self.check("cuMemAlloc", unsafe { (self.mem_alloc)(&mut memory, bytes) }).map(|()| memory)
    }

    /// A stream of the GPU that was entered.
    pub fn stream(&self) -> Outcome<Handle> {
        // SAFETY: a place for the result.
        self.made("cuStreamCreate", |h| unsafe { (self.stream_create)(h, NON_BLOCKING) })
    }

    /// An event of the GPU that was entered.
    pub fn event(&self) -> Outcome<Handle> {
        // SAFETY: a place for the result.
        self.made("cuEventCreate", |h| unsafe { (self.event_create)(h, NO_TIMING) })
    }

    /// Copies within a GPU, or between two of which the first reaches the other's memory.
    ///
    /// # Safety
    /// Memory of so many bytes, and a stream of the GPU that was entered.
    pub unsafe fn copy_within(&self, to: Memory, from: Memory, bytes: usize, stream: Handle) -> Outcome {
        // SAFETY: by the caller.
        self.check("cuMemcpyDtoDAsync", unsafe { (self.memcpy_within)(to, from, bytes, stream) })
    }

    /// Whether what is before an event is done.
    ///
    /// # Safety
    /// The event is there.
    pub unsafe fn is_done(&self, event: Handle) -> Outcome<bool> {
        // SAFETY: by the caller.
        match unsafe { (self.event_query)(event) } {
            NOT_READY => Ok(false),
            code => self.check("a transfer", code).map(|()| true),
        }
    }
}

/// One GPU.
#[derive(Clone, Copy)]
pub struct Gpu {
    pub cuda: &'static Cuda,
    device: c_int,
    context: Handle,
}

// SAFETY: contexts belong to the process; threads make them current before they use them.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

/// The context that a thread had goes back to it.
pub struct Within {
    cuda: &'static Cuda,
    before: Handle,
}

impl Drop for Within {
    fn drop(&mut self) {
        // SAFETY: the context that was current, or none.
        unsafe { (self.cuda.ctx_set_current)(self.before) };
    }
}

impl Gpu {
    fn retained(cuda: &'static Cuda, device: c_int) -> Outcome<Gpu> {
        // SAFETY: a GPU of the list, a place for the context, which is kept.
        let make = |h| unsafe { (cuda.primary_ctx_retain)(h, device) };
        Ok(Gpu { cuda, device, context: cuda.made("cuDevicePrimaryCtxRetain", make)? })
    }

    /// The GPU with this identifier.
    pub fn of(cuda: &'static Cuda, uuid: [u8; 16]) -> Outcome<Gpu> {
        for number in 0..cuda.gpus {
            let (device, own) = cuda.gpu(number)?;
            if own == Some(uuid) {
                return Gpu::retained(cuda, device);
            }
        }
        Err("CUDA does not see the GPU".into())
    }

    /// The GPU with this identifier, or, where there is none, one for the number of the process.
    pub fn find(cuda: &'static Cuda, uuid: Option<[u8; 16]>, rank: usize) -> Outcome<Gpu> {
        match uuid.map(|uuid| Gpu::of(cuda, uuid)) {
            Some(Ok(gpu)) => Ok(gpu),
            _ => Gpu::retained(cuda, cuda.gpu(rank % cuda.gpus)?.0),
        }
    }

    /// The number by which CUDA's driver knows it.
    pub fn number(&self) -> c_int {
        self.device
    }

    /// What makes memory that other GPUs reach.
    pub fn reach(&self) -> Outcome<&'static Reach> {
        Ok(self.cuda.reach.as_ref().ok_or("CUDA's driver is older than 11.7")?)
    }

    /// What this thread calls now is about this GPU.
    pub fn enter(&self) -> Outcome {
        // SAFETY: a context that is kept.
        self.cuda.check("cuCtxSetCurrent", unsafe { (self.cuda.ctx_set_current)(self.context) })
    }

    /// The same on a thread that others may use CUDA on, until the result is dropped.
    pub fn within(&self) -> Outcome<Within> {
        let mut before = std::ptr::null_mut();
        // SAFETY: a place for the result.
        let code = unsafe { (self.cuda.ctx_get_current)(&mut before) };
        self.cuda.check("cuCtxGetCurrent", code)?;
        self.enter().map(|()| Within { cuda: self.cuda, before })
    }

    /// Fails where this GPU cannot write to memory of another.
    pub fn reaches(&self, other: &Gpu) -> Outcome {
        let mut can = 0;
        // SAFETY: a place for the result, GPUs of the list.
        let code = unsafe { (self.cuda.can_access_peer)(&mut can, self.device, other.device) };
        self.cuda.check("cuDeviceCanAccessPeer", code)?;
        if can == 0 { Err("the GPUs do not reach each other".into()) } else { Ok(()) }
    }
}

/// Memory of Vulkan as CUDA sees it.
pub struct Shared {
    on: Gpu,
    memory: Handle,
    address: Memory,
}

// SAFETY: the handle belongs to the process.
unsafe impl Send for Shared {}
// SAFETY: as above; nothing changes until it is dropped.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps memory that lies in a file alone, of so many bytes.
    pub fn new(on: Gpu, file: OwnedFd, size: u64) -> Outcome<Shared> {
        let cuda = on.cuda;
        let external = cuda.external.as_ref().ok_or("CUDA cannot import memory")?;
        let _within = on.within()?;
        let about = MemoryFile {
            kind: FILE,
            file: [file.as_raw_fd() as u32 as u64, 0],
            size,
            flags: DEDICATED,
            reserved: [0; 16],
        };
        // SAFETY: a place for the result and a whole description; the descriptor is CUDA's where this succeeds.
        let make = |h| unsafe { (external.import_memory)(h, &about) };
        let memory = cuda.made("cuImportExternalMemory", make)?;
        let _ = file.into_raw_fd();
        let mut shared = Shared { on, memory, address: 0 };
        let range = Mapping { offset: 0, size, flags: 0, reserved: [0; 16] };
        // SAFETY: as above.
        let code = unsafe { (external.mapped_buffer)(&mut shared.address, memory, &range) };
        cuda.check("cuExternalMemoryGetMappedBuffer", code)?;
        Ok(shared)
    }

    /// Where the memory begins, for this GPU; none where it was mapped for another.
    pub fn address(&self, gpu: &Gpu) -> Option<Memory> {
        (self.on.context == gpu.context).then_some(self.address)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let (cuda, within) = (self.on.cuda, self.on.within());
        let Some(external) = cuda.external.as_ref().filter(|_| within.is_ok()) else { return };
        // SAFETY: whoever uses the memory keeps the array, whose memory goes after this.
        unsafe {
            if self.address != 0 {
                (cuda.mem_free)(self.address);
            }
            (external.destroy_memory)(self.memory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_lie_as_cuda_has_them() {
        assert_eq!((size_of::<MemoryFile>(), std::mem::offset_of!(MemoryFile, size)), (104, 24));
        assert_eq!((size_of::<Mapping>(), std::mem::offset_of!(Mapping, flags)), (88, 16));
    }
}

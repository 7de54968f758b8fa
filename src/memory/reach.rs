//! Memory of a GPU that the copy engines of others write to: made by CUDA (cuMemCreate), handed as a file to Vulkan on the same
//! GPU and to other processes, which map it for a GPU of theirs. Streams wait for numbers in such memory, copy, and write numbers.
//! None of that needs the GPU's compute engine, which therefore stays with Vulkan: two H200s hand 8 KiB to each other and back
//! to a kernel in 25 us, 16 MiB in 88, where the same with semaphores of both APIs takes 0.5 ms, because each changes what the
//! compute engine works for.

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libloading::os::unix::Library;

use super::cuda::{Cuda, Gpu, Handle, Memory, Outcome, functions};

/// CU_MEM_ALLOCATION_TYPE_PINNED.
const PINNED: c_int = 1;
/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
const FILE: c_int = 1;
/// CU_MEM_LOCATION_TYPE_DEVICE.
const DEVICE: c_int = 1;
/// CU_MEM_ACCESS_FLAGS_PROT_READWRITE.
const READ_WRITE: c_int = 3;
/// CU_STREAM_WAIT_VALUE_GEQ: numbers go round.
const AT_LEAST: c_uint = 0;

/// A number of memory that was made.
type Made = u64;

/// The driver's functions for it, which CUDA has from 11.7 on.
pub struct Reach {
    granularity: unsafe extern "C" fn(*mut usize, *const About, c_int) -> c_int,
    create: unsafe extern "C" fn(*mut Made, usize, *const About, u64) -> c_int,
    release: unsafe extern "C" fn(Made) -> c_int,
    export: unsafe extern "C" fn(*mut c_int, Made, c_int, u64) -> c_int,
    import: unsafe extern "C" fn(*mut Made, *mut c_void, c_int) -> c_int,
    reserve: unsafe extern "C" fn(*mut Memory, usize, usize, Memory, u64) -> c_int,
    free: unsafe extern "C" fn(Memory, usize) -> c_int,
    map: unsafe extern "C" fn(Memory, usize, usize, Made, u64) -> c_int,
    unmap: unsafe extern "C" fn(Memory, usize) -> c_int,
    allow: unsafe extern "C" fn(Memory, usize, *const Access, usize) -> c_int,
    await_value: unsafe extern "C" fn(Handle, Memory, u32, c_uint) -> c_int,
    write_value: unsafe extern "C" fn(Handle, Memory, u32, c_uint) -> c_int,
}

/// CUmemLocation.
#[repr(C)]
#[derive(Clone, Copy)]
struct Place {
    kind: c_int,
    number: c_int,
}

/// CUmemAllocationProp.
#[repr(C)]
struct About {
    kind: c_int,
    handles: c_int,
    place: Place,
    security: *const c_void,
    flags: [u8; 8],
}

/// CUmemAccessDesc.
#[repr(C)]
struct Access {
    place: Place,
    flags: c_int,
}

/// The functions, where the driver has them.
pub fn open(driver: &'static Library) -> Option<Reach> {
    Some(functions!(
        driver,
        Reach {
            granularity: "cuMemGetAllocationGranularity",
            create: "cuMemCreate",
            release: "cuMemRelease",
            export: "cuMemExportToShareableHandle",
            import: "cuMemImportFromShareableHandle",
            reserve: "cuMemAddressReserve",
            free: "cuMemAddressFree",
            map: "cuMemMap",
            unmap: "cuMemUnmap",
            allow: "cuMemSetAccess",
            await_value: "cuStreamWaitValue32_v2",
            write_value: "cuStreamWriteValue32_v2",
        }
    ))
}

/// Memory of this or of another GPU, mapped for this one.
pub struct Window {
    on: Gpu,
    made: Option<Made>,
    address: Memory,
    mapped: bool,
    bytes: usize,
}

impl Window {
    /// New memory of a GPU, of so many bytes at least.
    pub fn new(on: Gpu, bytes: usize) -> Outcome<Window> {
        let (cuda, reach) = (on.cuda, on.reach()?);
        let _within = on.within()?;
        let place = Place { kind: DEVICE, number: on.number() };
        let about = About { kind: PINNED, handles: FILE, place, security: std::ptr::null(), flags: [0; 8] };
        let mut unit = 0;
        // SAFETY: a place for the result, a whole description.
        let code = unsafe { (reach.granularity)(&mut unit, &about, 0) };
        cuda.check("cuMemGetAllocationGranularity", code)?;
        let bytes = bytes.next_multiple_of(unit.max(1));
        let mut made = 0;
        // SAFETY: as above.
        cuda.check("cuMemCreate", unsafe { (reach.create)(&mut made, bytes, &about, 0) })?;
        Window::map(on, made, bytes)
    }

    /// Memory that another process made, of so many bytes, for a GPU of this one.
    pub fn of(on: Gpu, file: &OwnedFd, bytes: usize) -> Outcome<Window> {
        let (cuda, reach) = (on.cuda, on.reach()?);
        let _within = on.within()?;
        let (number, mut made) = (file.as_raw_fd() as usize as *mut c_void, 0);
        // SAFETY: a place for the result, and an open file, which CUDA reads by its number.
        let code = unsafe { (reach.import)(&mut made, number, FILE) };
        cuda.check("cuMemImportFromShareableHandle", code)?;
        Window::map(on, made, bytes)
    }

    fn map(on: Gpu, made: Made, bytes: usize) -> Outcome<Window> {
        let (cuda, reach) = (on.cuda, on.reach()?);
        let mut window = Window { on, made: Some(made), address: 0, mapped: false, bytes };
        // SAFETY: a place for the result.
        let code = unsafe { (reach.reserve)(&mut window.address, bytes, 0, 0, 0) };
        cuda.check("cuMemAddressReserve", code)?;
        // SAFETY: addresses that were reserved, and memory of so many bytes.
        cuda.check("cuMemMap", unsafe { (reach.map)(window.address, bytes, 0, made, 0) })?;
        window.mapped = true;
        window.allow(&on)?;
        Ok(window)
    }

    /// Lets a GPU read and write the memory at the addresses that it has.
    pub fn allow(&self, gpu: &Gpu) -> Outcome {
        let (cuda, reach) = (self.on.cuda, self.on.reach()?);
        let access = Access { place: Place { kind: DEVICE, number: gpu.number() }, flags: READ_WRITE };
        // SAFETY: what was mapped, a whole description.
        let code = unsafe { (reach.allow)(self.address, self.bytes, &access, 1) };
        cuda.check("cuMemSetAccess", code)
    }

    /// The memory as a file, for others.
    pub fn file(&self) -> Outcome<OwnedFd> {
        let (cuda, reach) = (self.on.cuda, self.on.reach()?);
        let made = self.made.ok_or("the memory is gone")?;
        let _within = self.on.within()?;
        let mut file = -1;
        // SAFETY: a place for the result, memory that was made to be handed on.
        let code = unsafe { (reach.export)(&mut file, made, FILE, 0) };
        cuda.check("cuMemExportToShareableHandle", code)?;
        // SAFETY: a descriptor that nobody else has.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of a byte, for the GPU that it is mapped for.
    pub fn at(&self, byte: u64) -> Memory {
        debug_assert!(byte <= self.bytes as u64);
        self.address + byte
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let (Ok(reach), Ok(_within)) = (self.on.reach(), self.on.within()) else { return };
        // SAFETY: whoever drops it has waited for what uses it.
        unsafe {
            if self.mapped {
                (reach.unmap)(self.address, self.bytes);
            }
            if self.address != 0 {
                (reach.free)(self.address, self.bytes);
            }
            if let Some(made) = self.made.take() {
                (reach.release)(made);
            }
        }
    }
}

/// A stream of copies between GPUs.
pub struct Courier {
    on: Gpu,
    stream: Handle,
}

// SAFETY: a handle of the process; one thread at a time uses it.
unsafe impl Send for Courier {}
// SAFETY: as above.
unsafe impl Sync for Courier {}

impl Courier {
    pub fn new(on: Gpu) -> Outcome<Courier> {
        on.reach()?;
        let _within = on.within()?;
        Ok(Courier { on, stream: on.cuda.stream()? })
    }

    /// CUDA for what follows, on a thread that may use it for other things.
    pub fn enter(&self) -> Outcome<super::cuda::Within> {
        self.on.within()
    }

    fn cuda(&self) -> &'static Cuda {
        self.on.cuda
    }

    /// What follows waits until the number at an address is at least this one.
    ///
    /// # Safety
    /// Entered; memory of a window that lives until the stream is done.
    pub unsafe fn await_value(&self, at: Memory, value: u32) -> Outcome {
        // SAFETY: by the caller.
        let code = unsafe { (self.on.reach()?.await_value)(self.stream, at, value, AT_LEAST) };
        self.cuda().check("cuStreamWaitValue32", code)
    }

    /// Writes a number behind what was asked for before.
    ///
    /// # Safety
    /// As for [`Courier::await_value`].
    pub unsafe fn write_value(&self, at: Memory, value: u32) -> Outcome {
        // SAFETY: by the caller.
        let code = unsafe { (self.on.reach()?.write_value)(self.stream, at, value, 0) };
        self.cuda().check("cuStreamWriteValue32", code)
    }

    /// Copies bytes to another GPU's memory.
    ///
    /// # Safety
    /// As for [`Courier::await_value`]; so many bytes at both addresses.
    pub unsafe fn copy(&self, to: Memory, from: Memory, bytes: usize) -> Outcome {
        // SAFETY: by the caller.
        unsafe { self.cuda().copy_within(to, from, bytes, self.stream) }
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        if let Ok(_within) = self.on.within() {
            // SAFETY: what was asked for goes on to its end.
            unsafe { (self.on.cuda.stream_destroy)(self.stream) };
        }
    }
}

/// Places of pieces on a route.
pub const UNDER_WAY: usize = 4;

/// The way from one GPU to another, which the first one reaches: pieces land in memory that CUDA made on the second one. Memory
/// of Vulkan can be sent, but not be written to by another GPU: that would go through the host (37 GB/s between two H100s).
pub struct Route {
    courier: Courier,
    arrival: Window,
    piece: usize,
    arrived: [Handle; UNDER_WAY],
}

// SAFETY: the handles belong to the process.
unsafe impl Send for Route {}

impl Route {
    pub fn new(from: Gpu, to: Gpu, piece: usize) -> Outcome<Route> {
        from.reaches(&to)?;
        let arrival = Window::new(to, UNDER_WAY * piece)?;
        arrival.allow(&from)?;
        let courier = Courier::new(from)?;
        let _within = from.within()?;
        let event = || from.cuda.event();
        let arrived = [event()?, event()?, event()?, event()?];
        Ok(Route { courier, arrival, piece, arrived })
    }

    /// Where pieces land.
    pub fn arrival(&self) -> &Window {
        &self.arrival
    }

    /// The byte at which a piece lands.
    pub fn place(&self, number: usize) -> usize {
        number % UNDER_WAY * self.piece
    }

    /// Begins to send a piece.
    ///
    /// # Safety
    /// Memory of the first GPU that has so many bytes, at most a piece's, and stays until they arrived; nobody needs what lies
    /// at their place.
    pub unsafe fn send(&self, number: usize, from: Memory, bytes: usize) -> Outcome {
        let cuda = self.courier.cuda();
        let _within = self.courier.enter()?;
        let event = self.arrived[number % UNDER_WAY];
        // SAFETY: by the caller; an event and a stream of this route.
        unsafe {
            self.courier.copy(self.arrival.at(self.place(number) as u64), from, bytes)?;
            cuda.check("cuEventRecord", (cuda.event_record)(event, self.courier.stream))
        }
    }

    /// Waits until a piece has arrived.
    pub fn await_piece(&self, number: usize) -> Outcome {
        let _within = self.courier.enter()?;
        for n in 0u64.. {
            // SAFETY: an event of this route.
            if unsafe { self.courier.cuda().is_done(self.arrived[number % UNDER_WAY]) }? {
                break;
            }
            if n > 500 {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_lie_as_cuda_has_them() {
        assert_eq!((size_of::<About>(), std::mem::offset_of!(About, security)), (32, 16));
        assert_eq!((size_of::<Access>(), std::mem::offset_of!(Access, flags)), (12, 8));
    }
}

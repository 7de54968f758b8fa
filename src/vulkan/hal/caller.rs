//! A thread that calls the driver for what a stream's recorder has decided: to record a command takes the driver a quarter of
//! the time that a graph's recorder needs for it. Commands go through a ring; whoever ends, or adds to, a command buffer
//! itself waits until the ring is empty, and calls the driver for what is left of it where the thread sleeps. So order
//! and errors are those of a recorder that calls the driver itself.

use std::cell::{Cell, UnsafeCell};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};
use std::thread::{self, Thread};

use ash::vk;

use super::deferred::{self, Barrier};
use super::device::Device;
use super::gate::Driver;
use crate::core::env::{Values, Variable};
use crate::core::event::Spin;
use crate::core::fork::Made;
use crate::vulkan::shader::native::Handle;
use crate::vulkan::tune::pacing::SPIN;

pub static COMMAND_THREAD: Variable = Variable::new(
    "MLX_VK_COMMAND_THREAD",
    "by device",
    Values::SWITCH,
    "Whether a thread of its own calls the driver for the commands of large graphs of `async_eval`. Without the variable it does \
         so on hosts of six processors or more, for GPUs that are not software",
);

/// Fewest processors of a host where the thread has one for itself.
const PROCESSORS: usize = 6;
/// Commands that may wait, a power of two.
const ROOM: usize = 256;
/// Bytes of push constants, or of what a kernel in PTX is told, that a place has.
pub(super) const PUSH: usize = 1024;

thread_local! {
    // Commands of this thread are many, one behind the other.
    static MANY: Cell<bool> = const { Cell::new(false) };
}

/// While it lives the commands of this thread may go through the ring.
pub(crate) struct Many(());

impl Many {
    pub fn begin() -> Many {
        MANY.set(true);
        Many(())
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        MANY.set(false);
    }
}

/// What the driver is asked for.
#[derive(Clone, Copy)]
pub(crate) enum Call {
    Barrier(Barrier),
    /// `bind`: the pipeline is not bound yet.
    Dispatch {
        handle: Handle,
        bind: bool,
        groups: [u32; 3],
    },
}

struct Place {
    cmd: vk::CommandBuffer,
    call: Call,
    /// Push constants, and how many bytes of them.
    push: [u8; PUSH],
    count: usize,
}

impl Place {
    fn empty() -> Place {
        let none = (vk::PipelineStageFlags::empty(), vk::AccessFlags::empty());
        let call = Call::Barrier(Barrier { src: none, dst: none });
        Place { cmd: vk::CommandBuffer::null(), call, push: [0; PUSH], count: 0 }
    }
}

/// The ring of a stream. One thread writes it, under the stream's `rec` lock; one reads it, under `reading`.
pub(crate) struct Caller {
    ring: OnceLock<Box<[UnsafeCell<Place>]>>,
    written: AtomicUsize,
    read: AtomicUsize,
    reading: Mutex<()>,
    asleep: AtomicBool,
    thread: OnceLock<Option<Thread>>,
}

// SAFETY: a place is written by whoever has the `rec` lock, before `written` passes it, and read by whoever has `reading`,
// before `read` does.
unsafe impl Sync for Caller {}
// SAFETY: what lies in it are handles and bytes.
unsafe impl Send for Caller {}

impl Caller {
    pub const fn new() -> Caller {
        Caller {
            ring: OnceLock::new(),
            written: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            reading: Mutex::new(()),
            asleep: AtomicBool::new(false),
            thread: OnceLock::new(),
        }
    }

    /// Whether commands of this thread go through the ring; begins the thread.
    pub fn takes(&'static self, device: &'static Device) -> bool {
        static SAID: Made<Option<bool>> = Made::new(|| {
            let processors = thread::available_parallelism().map_or(1, |n| n.get());
            COMMAND_THREAD.switch().or((processors < PROCESSORS).then_some(false))
        });
        if !MANY.get() || !SAID.unwrap_or(!device.features().software) {
            return false;
        }
        let begin = || {
            let name = "mlx-vulkan commands".to_string();
            let run = move || self.run(device);
            thread::Builder::new().name(name).spawn(run).ok().map(|t| t.thread().clone())
        };
        self.thread.get_or_init(begin).is_some()
    }

    fn places(&self) -> &[UnsafeCell<Place>] {
        self.ring.get_or_init(|| (0..ROOM).map(|_| UnsafeCell::new(Place::empty())).collect())
    }

    fn is_empty(&self) -> bool {
        self.read.load(Ordering::Acquire) == self.written.load(Ordering::Acquire)
    }

    /// Adds a command. Called under the stream's `rec` lock.
    pub fn write(&self, device: &Device, cmd: vk::CommandBuffer, call: Call, push: &[u8]) {
        let at = self.written.load(Ordering::Relaxed);
        if at - self.read.load(Ordering::Acquire) == ROOM {
            self.drain(device);
        }
        // SAFETY: the place was read, and nobody else writes.
        let place = unsafe { &mut *self.places()[at % ROOM].get() };
        (place.cmd, place.call, place.count) = (cmd, call, push.len());
        place.push[..push.len()].copy_from_slice(push);
        self.written.store(at + 1, Ordering::Release);
        if self.asleep.load(Ordering::Relaxed)
            && self.asleep.swap(false, Ordering::AcqRel)
            && let Some(Some(thread)) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Calls the driver for all that is there; by whoever has `reading`.
    fn read_all(&self, device: &Device) {
        let driver = device.enter();
        loop {
            let at = self.read.load(Ordering::Relaxed);
            if at == self.written.load(Ordering::Acquire) {
                return;
            }
            if let Some(driver) = &driver {
                // SAFETY: the place was written, and is not written again before `read` passes it. The command buffer is being
                // recorded: whoever ends it drains the ring first.
                unsafe { perform(driver, device, &*self.places()[at % ROOM].get()) };
            }
            self.read.store(at + 1, Ordering::Release);
        }
    }

    /// Returns when the driver was called for everything. Called under the stream's `rec` lock.
    pub fn drain(&self, device: &Device) {
        while !self.is_empty() {
            match self.reading.try_lock() {
                Ok(_reading) => self.read_all(device),
                Err(TryLockError::Poisoned(reading)) => {
                    let _reading = reading.into_inner();
                    self.read_all(device);
                }
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
    }

    /// Ends the thread: the device was lost.
    pub fn end(&self) {
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Until the device is lost.
    fn run(&self, device: &Device) {
        while !device.is_lost() {
            while Spin::at_atomic(SPIN).until(|| !self.is_empty()) {
                let _reading = self.reading.lock().unwrap_or_else(|e| e.into_inner());
                self.read_all(device);
            }
            self.asleep.store(true, Ordering::SeqCst);
            if self.is_empty() && !device.is_lost() {
                // Who writes in this moment may not see it; then the ring is drained by whoever needs it.
                thread::park();
            }
            self.asleep.store(false, Ordering::Relaxed);
        }
    }
}

/// Calls the driver for one command.
///
/// # Safety
/// The command buffer is being recorded, by nobody else; the addresses in the push constants are valid.
unsafe fn perform(driver: &Driver<'_>, device: &Device, place: &Place) {
    match place.call {
        // SAFETY: by the caller.
        Call::Barrier(b) => unsafe { deferred::barrier(driver, place.cmd, b) },
        Call::Dispatch { handle, bind, groups } => {
            let mut bound = match handle {
                Handle::Shader(pipeline) if !bind => pipeline,
                Handle::Shader(_) | Handle::Native(_) => vk::Pipeline::null(),
            };
            let push = &place.push[..place.count];
            // SAFETY: by the caller.
            unsafe { deferred::dispatch(driver, device, place.cmd, handle, &mut bound, push, groups) };
        }
    }
}

//! The way of bytes from the host through a GPU: pinned memory, memory of the GPU and back, in two slots, so that one is
//! filled while the other is under way.

use std::mem::ManuallyDrop;

use crate::distributed::Outcome;
use crate::memory::cuda::{Gpu, Handle, Memory};

/// Pinned memory of the host and memory of the GPU, of the same size.
pub struct Slot {
    pub host: Handle,
    pub gpu: Memory,
    pub bytes: usize,
}

/// Where one part is on its way.
pub struct Lane {
    pub input: Slot,
    pub output: Slot,
    done: Handle,
}

/// The slots and the stream of a group.
pub struct Staging {
    on: Gpu,
    pub stream: Handle,
    pub lanes: ManuallyDrop<[Lane; 2]>,
    /// Something may still be written there: nothing is freed.
    pub abandoned: bool,
}

// SAFETY: memory and handles that the one who holds the staging uses, with the GPU's context made current.
unsafe impl Send for Staging {}

impl Slot {
    const NONE: Slot = Slot { host: std::ptr::null_mut(), gpu: 0, bytes: 0 };

    /// Makes room; what is there is lost.
    fn grow(&mut self, on: &Gpu, bytes: usize) -> Outcome {
        if bytes <= self.bytes {
            return Ok(());
        }
        self.free(on);
        let cuda = on.cuda;
        // SAFETY: a place for the result.
        cuda.check("cuMemHostAlloc", unsafe { (cuda.mem_host_alloc)(&mut self.host, bytes, 0) })
            .inspect_err(|_| self.host = std::ptr::null_mut())?;
        self.gpu = cuda.memory(bytes).inspect_err(|_| {
            // SAFETY: just allocated, used by nobody.
            unsafe { (cuda.mem_free_host)(self.host) };
            self.host = std::ptr::null_mut();
        })?;
        self.bytes = bytes;
        Ok(())
    }

    fn free(&mut self, on: &Gpu) {
        if self.bytes > 0 {
            // SAFETY: allocated by `grow`; nothing is under way there.
            unsafe {
                (on.cuda.mem_free_host)(self.host);
                (on.cuda.mem_free)(self.gpu);
            }
        }
        *self = Slot::NONE;
    }

    /// The first bytes of the host's side.
    ///
    /// # Safety
    /// Nothing is under way there, and there are so many.
    pub unsafe fn bytes(&mut self, count: usize) -> &mut [u8] {
        debug_assert!(count <= self.bytes);
        // SAFETY: by the caller; pinned memory of the process.
        if count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(self.host.cast(), count) } }
    }
}

impl Staging {
    pub fn new(on: Gpu) -> Outcome<Staging> {
        on.enter()?;
        let (cuda, stream) = (on.cuda, on.cuda.stream()?);
        let lane = |done| Lane { input: Slot::NONE, output: Slot::NONE, done };
        let lanes = ManuallyDrop::new([lane(cuda.event()?), lane(cuda.event()?)]);
        Ok(Staging { on, stream, lanes, abandoned: false })
    }

    /// Makes room for a part.
    pub fn grow(&mut self, lane: usize, input: usize, output: usize) -> Outcome {
        self.on.enter()?;
        self.lanes[lane].input.grow(&self.on, input)?;
        self.lanes[lane].output.grow(&self.on, output)
    }

    /// Whether all that was begun of a part is done.
    pub fn is_done(&self, lane: usize) -> Outcome<bool> {
        // SAFETY: an event of this group.
        unsafe { self.on.cuda.is_done(self.lanes[lane].done) }
    }

    /// What is done without staging, for the thread that calls NCCL: `f` and an event, that of the first lane.
    pub fn run(
        &self,
        f: impl FnOnce(Handle) -> Outcome + Send + 'static,
    ) -> impl FnOnce() -> Outcome + Send + 'static {
        self.begin(0, 0, 0, |_, _, stream| f(stream))
    }

    /// What a part does, for the thread that calls NCCL: host to GPU, `f` with the input's and output's addresses, GPU to
    /// host, and an event that tells of the end.
    pub fn begin(
        &self,
        lane: usize,
        input: usize,
        output: usize,
        f: impl FnOnce(Memory, Memory, Handle) -> Outcome + Send + 'static,
    ) -> impl FnOnce() -> Outcome + Send + 'static {
        /// Addresses and handles that another thread gets.
        struct Part(Gpu, Handle, Handle, [(Handle, Memory); 2]);
        // SAFETY: CUDA's handles may be used by any thread; the memory is not touched until the event came.
        unsafe impl Send for Part {}
        let lane = &self.lanes[lane];
        let ends = [(lane.input.host, lane.input.gpu), (lane.output.host, lane.output.gpu)];
        let part = Part(self.on, self.stream, lane.done, ends);
        move || {
            let Part(on, stream, done, [(from, source), (to, target)]) = { part };
            let cuda = on.cuda;
            on.enter()?;
            if input > 0 {
                // SAFETY: both slots have so many bytes and stay until the event came.
                let code = unsafe { (cuda.memcpy_htod)(source, from, input, stream) };
                cuda.check("cuMemcpyHtoDAsync", code)?;
            }
            f(source, target, stream)?;
            if output > 0 {
                // SAFETY: as above.
                cuda.check("cuMemcpyDtoHAsync", unsafe { (cuda.memcpy_dtoh)(to, target, output, stream) })?;
            }
            // SAFETY: an event and a stream of this group.
            cuda.check("cuEventRecord", unsafe { (cuda.event_record)(done, stream) })
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.abandoned || self.on.enter().is_err() {
            return;
        }
        for lane in self.lanes.iter_mut() {
            lane.input.free(&self.on);
            lane.output.free(&self.on);
            // SAFETY: made by `new`, and nothing is under way.
            unsafe { (self.on.cuda.event_destroy)(lane.done) };
        }
        // SAFETY: as above.
        unsafe { (self.on.cuda.stream_destroy)(self.stream) };
    }
}

//! A command that waits for those that follow it: where they take what it makes, one kernel does for all of them. Another thread
//! that wants what a stream has recorded waits for the end of the chain that is being made (see [`Seams`]).

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ash::vk;
use smallvec::SmallVec;

use super::deferred;
use super::device::Device;
use super::encoder::thread_mark;
use super::progress::Early;
use super::recorder::{Recorder, touched};
use super::stream::{Point, StreamState};
use crate::core::Result;
use crate::core::event::Spin;
use crate::vulkan::report::profile::Work;
use crate::vulkan::shader::pipeline::Pipeline;
use crate::vulkan::tune::pacing::CHAIN_TIME;

/// Whether two ranges of bytes have one in common.
pub(in crate::vulkan) fn meet(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.0.saturating_add(b.1) && b.0 < a.0.saturating_add(a.1)
}

/// A dispatch that is to be recorded.
pub(in crate::vulkan) struct Launch {
    pub pipeline: Arc<Pipeline>,
    pub push: SmallVec<[u8; 256]>,
    pub groups: [u32; 3],
    /// Of a kernel that may begin early (see `progress`), where those ranges begin that it reads behind its wait only.
    pub late: Option<SmallVec<[u64; 16]>>,
}

/// Commands that one kernel may run, one behind the other. Its workgroups wait for each other: the device has room for all at once.
pub(in crate::vulkan) trait Chain: Any + Send {
    /// How many there are.
    fn count(&self) -> usize;
    /// The kernel of all of them.
    fn launch(&self, device: &'static Device) -> Result<Launch>;
    /// Itself, for whoever adds to it.
    fn any(&mut self) -> &mut dyn Any;
    /// Whether a command of another kind, which follows, can be one of its own; adds it unless that is only asked.
    fn take_in(&mut self, _next: &dyn Any, _asked: bool) -> bool {
        false
    }
}

/// What a recorder holds back.
pub(super) struct Held {
    pub chain: Box<dyn Chain>,
    /// All that the commands touch.
    pub reads: SmallVec<[(u64, u64); 16]>,
    pub writes: SmallVec<[(u64, u64); 6]>,
    /// The number of the stream's progress.
    pub number: u64,
    pub work: Option<Work>,
}

/// Whose chains run on a device. Workgroups of two that wait for each other at once could each keep the other's out for ever, so that
/// chains of another stream come behind all that this one has recorded.
#[derive(Default)]
pub(in crate::vulkan) struct Turn(Mutex<Option<&'static StreamState>>);

impl Turn {
    /// Chains of `state` may be recorded until another stream takes its turn, which submits what `state` has recorded till then.
    pub fn take(&self, state: &'static StreamState) -> Result<()> {
        let before = self.0.lock().unwrap_or_else(|e| e.into_inner()).replace(state);
        match before {
            Some(other) if !other.same(state) => {
                state.wait_for(Point { stream: other, value: other.open_value() })
            }
            _ => Ok(()),
        }
    }
}

/// Where a stream's batches end while one thread records many commands: between two chains. One that another thread, who waits for a
/// result before it or keeps the GPU busy, cuts in two is run by two kernels that nobody else needs, and each may have to be compiled.
#[derive(Default)]
pub(in crate::vulkan) struct Seams {
    /// The thread that records; 0 for none.
    by: AtomicUsize,
    /// Somebody waits for the next one.
    wanted: AtomicBool,
}

/// While it lives, this thread records many commands on a stream.
pub(in crate::vulkan) struct Recording {
    state: &'static StreamState,
    before: usize,
}

impl Recording {
    pub fn begin(state: &'static StreamState) -> Recording {
        Recording { state, before: state.seams.by.swap(thread_mark(), Ordering::AcqRel) }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.state.seams.by.store(self.before, Ordering::Release);
    }
}

impl StreamState {
    /// Whether the thread that records on this stream, another one, submitted what it had recorded, at the end of a chain that it was in
    /// the middle of; waits a moment for it.
    pub(super) fn submits_at_seam(&'static self) -> bool {
        let Seams { by, wanted } = &self.seams;
        let (value, other) = (self.open_value(), by.load(Ordering::Acquire));
        if other == 0 || other == thread_mark() || self.lock_rec().held.is_none() {
            return false;
        }
        wanted.store(true, Ordering::Release);
        let submitted = || self.submitted.load(Ordering::Acquire) >= value;
        Spin::by_calls(CHAIN_TIME).until(|| submitted() || by.load(Ordering::Acquire) != other);
        wanted.store(false, Ordering::Release);
        submitted()
    }
}

impl Recorder {
    /// Whether a batch that another thread waits for ends here.
    fn ends_at_seam(&self, state: &StreamState) -> bool {
        state.seams.wanted.swap(false, Ordering::AcqRel) && self.unready().is_none()
    }

    /// Holds a command back until the next one, or the end of the batch; behind what was held till now.
    pub(super) fn hold(&mut self, state: &'static StreamState, held: Held) -> Result<()> {
        self.close(state)?;
        match self.ends_at_seam(state) {
            true => self.submit(state)?,
            false => self.submit_if_full(state)?,
        }
        self.open_batch(state)?;
        self.counted(state, touched(&held.reads, &held.writes));
        self.held = Some(held);
        Ok(())
    }

    /// What is held; none where commands are to stay apart.
    pub(super) fn held(&mut self, state: &StreamState) -> Option<&mut Held> {
        self.held.as_mut().filter(|_| !Self::apart(state))
    }

    /// The open command buffer for a copy with such accesses. It comes before what is held where that has nothing to do with it: a chain
    /// is not cut in two for a result of an earlier graph that the host asks for.
    pub(super) fn begin_copy(
        &mut self,
        state: &'static StreamState,
        reads: &[(u64, u64)],
        writes: &[(u64, u64)],
    ) -> Result<vk::CommandBuffer> {
        let meet = |a: &[(u64, u64)], b: &[(u64, u64)]| a.iter().any(|&x| b.iter().any(|&y| meet(x, y)));
        let passes = |held: &Held| {
            !meet(reads, &held.writes) && !meet(writes, &held.reads) && !meet(writes, &held.writes)
        };
        match &self.held {
            Some(held) if passes(held) => self.open_batch(state),
            _ => self.begin(state),
        }
    }

    /// Records what is held.
    ///
    /// # Errors
    /// Those who read what the batch writes get them too.
    pub(super) fn close(&mut self, state: &'static StreamState) -> Result<()> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let recorded = held.chain.launch(state.device).and_then(|Launch { pipeline, push, groups, late }| {
            let touched = [&held.reads[..], &held.writes[..]];
            // SAFETY: whoever held it vouched for its addresses.
            let early = late.as_deref().map(|late| Early { number: held.number, late });
            unsafe { self.command(state, (&pipeline, &push, groups), touched, early.as_ref(), held.work) }
        });
        recorded.inspect_err(|e| deferred::fail(Point { stream: state, value: state.open_value() }, e, true))
    }
}

//! Commands that begin while those before them end. Kernels in PTX ask for what never changes, weights, and then wait for a number in
//! memory, to which each workgroup of a stream's commands adds one when it has ended; no barrier stands between, which would leave the
//! GPU idle for 2 to 4 us. What is not told so, shaders and copies, keeps its barriers. A GPU begins the workgroups of commands in their
//! order, so that who is waited for has begun.

use std::sync::Arc;

use smallvec::SmallVec;

use super::hazards::Order;
use super::recorder::{Recorder, touched};
use super::stream::StreamState;
use crate::core::Result;
use crate::core::env::KernelVariant;
use crate::vulkan::report::profile::{Command, Work};
use crate::vulkan::shader::pipeline::Pipeline;

pub static OVERLAP: KernelVariant =
    KernelVariant::new("overlap", "a barrier before each command in PTX that reads what another one writes");

/// Bytes behind all that such a kernel is told: where the number is, or 0; the number that is waited for, and whether it is.
pub(in crate::vulkan) const BYTES: usize = 16;

/// What a recorder knows of its stream's number.
#[derive(Default)]
pub(super) struct Progress {
    /// Where it is, and what it will be when all that was recorded has ended; 0 where it will never be that, since a batch was given up.
    pub number: u64,
    total: u32,
}

impl Progress {
    /// Another number is counted in, which is 0.
    pub fn anew(&mut self, number: u64) {
        *self = Progress { number, total: 0 };
    }
}

/// A command that may begin early.
pub(in crate::vulkan) struct Early<'a> {
    /// Where the number is; 0: it does not begin early.
    pub number: u64,
    /// Where those ranges begin that the kernel reads behind its wait only.
    pub late: &'a [u64],
}

/// Pipelines, what they are told, and workgroups.
pub(super) type Dispatch<'a> = (&'a Arc<Pipeline>, &'a [u8], [u32; 3]);

impl Recorder {
    /// Records a command: a barrier where it is due, and the dispatch.
    ///
    /// # Safety
    /// The addresses in `push` must be valid, and a batch be open.
    pub(super) unsafe fn command(
        &mut self,
        state: &'static StreamState,
        (pipeline, push, groups): Dispatch<'_>,
        [reads, writes]: [&[(u64, u64)]; 2],
        early: Option<&Early<'_>>,
        work: Option<Work>,
    ) -> Result<()> {
        let Some(cmd) = self.open() else { return Ok(()) };
        let handle = self.handle(state, pipeline)?;
        let mut told: SmallVec<[u8; 256]> = SmallVec::new();
        let due = match early {
            Some(early) => {
                // What never comes to be would be waited for.
                let known = early.number != 0 && early.number == self.progress.number && handle.is_some();
                let counts = known && !OVERLAP.disabled() && !Self::apart(state);
                let (due, words) = self.order(state, [reads, writes], early, groups, counts);
                told.extend_from_slice(push);
                told.extend(words);
                due
            }
            None => self.barrier_due(state, reads, writes),
        };
        if due {
            self.barrier(state, false);
        }
        let timed = self.before(state, cmd, due);
        let push = if early.is_some() { &told } else { push };
        // SAFETY: by the caller.
        unsafe { self.dispatch(state, handle, pipeline, push, groups) };
        pipeline.hits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if timed {
            let bytes = touched(reads, writes);
            let kernel = Some(pipeline.clone());
            self.after(cmd, Command { kernel, copy: "", work, bytes, barrier: due, op: None });
        }
        Ok(())
    }

    /// Whether a barrier comes before such a command, and what its kernel is told besides.
    fn order(
        &mut self,
        state: &StreamState,
        [reads, writes]: [&[(u64, u64)]; 2],
        early: &Early<'_>,
        groups: [u32; 3],
        counts: bool,
    ) -> (bool, [u8; BYTES]) {
        let mut words = [0; BYTES];
        if !counts {
            return (self.barrier_due(state, reads, writes), words);
        }
        let order = self.hazards.visit_early(reads, writes, early.late);
        if order != Order::Beside {
            words[..8].copy_from_slice(&early.number.to_ne_bytes());
            words[8..12].copy_from_slice(&self.progress.total.to_ne_bytes());
            words[12] = u8::from(order == Order::Waits);
            let all = groups.into_iter().fold(1, u32::wrapping_mul);
            self.progress.total = self.progress.total.wrapping_add(all);
        }
        (order == Order::Barrier, words)
    }
}

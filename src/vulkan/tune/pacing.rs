//! When batches of commands are submitted: what a device takes for them at least, and what threads of the host take to
//! wake up. Times of threads are those of the hosts of an H200, virtual machines; what a device takes is its profile's.
//! Called by the encoder and by streams.

use std::time::Duration;

use super::profile::{Profile, Source};

/// Commands of the first batch after an idle phase: the GPU shall start early.
pub const FIRST_OPS: u32 = 10;
/// Work behind the batch that runs, in nanoseconds of the GPU, that lets the open one grow beyond its limits: it lasts
/// longer than a waiting thread of the host takes to wake up, and gaps between batches are spared.
pub const AHEAD_NS: u64 = 60_000;
/// Most work of a batch that stays open.
pub const OPEN_NS: u64 = 1_000_000;
/// So many batches offered one after the other, with no wait in between, make a burst: then one stays open, although the
/// GPU has nothing to do, for so long and until it has so much work. To submit takes longer than short commands run.
pub const BURST: u32 = 4;
/// See [`BURST`].
pub const BURST_TIME: Duration = Duration::from_micros(80);
/// See [`BURST`].
pub const BURST_NS: u64 = 2 * AHEAD_NS;
/// Least bytes of a full batch, and least time that they take: the thread that submits it is away for 20 to 80 us, in which
/// a fast device reads more than that.
pub const FULL_BYTES: u64 = 50 << 20;
/// See [`FULL_BYTES`].
pub const FULL_NS: u64 = 200_000;
/// Work at the end of what is waited for, during which a thread looks instead of sleeping.
pub const NEAR_NS: u64 = 1_000_000;
/// How long a thread that wants a batch submitted waits for the end of the chain of commands that another one is making: a chain is a
/// layer of a language model, 20 to 100 us of a host, unless its processor is taken away, and kernels of half a chain are
/// compiled for some 300 ms. With 1 ms one of six runs of 128 tokens had such a token (H200, a slow host).
pub const CHAIN_TIME: Duration = Duration::from_millis(10);
/// How long a waiter looks before it sleeps: waking up takes some hundred microseconds, on busy hosts a millisecond. It
/// lets other threads run meanwhile.
pub const SPIN: Duration = Duration::from_millis(2);

/// The least that a device takes, in nanoseconds and bytes a nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// A batch, beside its commands.
    pub batch: u64,
    /// A command, beside its bytes.
    pub command: u64,
    /// Bytes of a command.
    pub bytes: u64,
}

impl Pace {
    /// Independent commands run side by side: a fifth of what dependent ones take. Between batches the GPU is idle for
    /// about two of those. Memory that was measured may have run at a low clock then, and batches that are thought to last
    /// too long are submitted with gaps between them.
    pub fn of(p: &Profile) -> Pace {
        let dependent = u64::from(p.dependent_ns);
        let times = if p.source == Source::Measured { 2 } else { 1 };
        Pace { batch: 2 * dependent, command: dependent / 5, bytes: times * u64::from(p.bandwidth) }
    }

    /// Bytes of a batch that is full.
    pub fn full(self) -> u64 {
        FULL_BYTES.max(FULL_NS * self.bytes)
    }

    /// Of so many commands that touch so many bytes.
    pub fn work(self, ops: u32, bytes: u64) -> u64 {
        u64::from(ops) * self.command + bytes / self.bytes
    }
}

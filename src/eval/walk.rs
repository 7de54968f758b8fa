//! The right to walk the graph: one thread at a time has it, since walks take nodes off their arrays. Whoever waits
//! within a walk gives it up for a moment ever so often, so that Ctrl-C is heard (signal handlers run Python code, which
//! may evaluate) and others get on. If one of them has walked meanwhile, what this walk had ordered may be done already:
//! it ends with [`Error::Dropped`] and begins again.

use std::time::{Duration, Instant};

use crate::core::event::{Uninterrupted, check_interrupt, interrupts};
use crate::core::fork::{self, Guard, Shared};
use crate::core::{Error, Result, event};
use crate::cpu::runtime::worker::{self, Lane};

/// The number of the last walk.
pub static SCHEDULE: Shared<u64> = Shared::new(|| 0);

/// A walk that waits for nothing looks for Ctrl-C so often.
const BREATH: Duration = Duration::from_millis(200);

/// One walk of the graph; or, on the recorder, one recording.
pub(super) struct Walk {
    // Before `quiet`: fields are dropped in their order.
    lock: Option<Guard<u64>>,
    quiet: Option<Uninterrupted>,
    number: u64,
    interrupts: u64,
    breath: Instant,
}

impl Walk {
    /// Waits for the right to walk.
    pub fn begin() -> Walk {
        let quiet = Some(Uninterrupted::new());
        let mut walk =
            Walk { lock: Some(SCHEDULE.lock()), quiet, number: 0, interrupts: 0, breath: Instant::now() };
        walk.renew();
        walk
    }

    /// The recording of what a walk has ordered already. Recordings queue, and are dropped after an interrupt: `interrupts`
    /// is how many there had been when it was queued.
    pub fn recording(interrupts: u64) -> Walk {
        let quiet = Some(Uninterrupted::new());
        Walk { lock: None, quiet, number: 0, interrupts, breath: Instant::now() }
    }

    fn renew(&mut self) {
        if let Some(last) = &mut self.lock {
            **last += 1;
            self.number = **last;
        }
    }

    /// Gives up the right for a moment and looks for Ctrl-C.
    fn rest(&mut self) -> Result<()> {
        if self.lock.take().is_none() {
            return if interrupts() == self.interrupts { Ok(()) } else { Err(Error::Dropped) };
        }
        self.quiet = None;
        let checked = check_interrupt();
        fork::give_way();
        self.quiet = Some(Uninterrupted::new());
        self.lock = Some(SCHEDULE.lock());
        self.breath = Instant::now();
        checked
    }

    /// Called ever so often by whoever waits within a walk.
    ///
    /// # Errors
    /// Interrupted; dropped where another thread has walked meanwhile, or a recording is not wanted any more.
    pub fn pause(&mut self) -> Result<()> {
        self.rest()?;
        match &self.lock {
            Some(last) if **last != self.number => Err(Error::Dropped),
            _ => Ok(()),
        }
    }

    /// Whether it is time to pause, although nothing had to be waited for.
    pub fn is_breathless(&self) -> bool {
        match self.lock {
            Some(_) => self.breath.elapsed() >= BREATH,
            None => interrupts() != self.interrupts,
        }
    }

    /// Waits until all has been recorded that was handed to the recorder. Comes before anything is ordered.
    pub fn settle(&mut self) -> Result<()> {
        if worker::pending(Lane::Recorder) == 0 {
            return Ok(());
        }
        // What goes wrong there stays with the arrays; what is wrong here does not.
        let mut stopped = Ok(());
        let _ = worker::synchronize_with(Lane::Recorder, &mut || {
            stopped = self.rest();
            stopped.clone()
        });
        self.renew();
        stopped
    }
}

/// Drops what is queued, and waits for the recorder, at most until then. For the end of the process.
pub(super) fn drop_queued(until: Instant) {
    event::drop_queued();
    let _ = worker::synchronize_with(Lane::Recorder, &mut || match Instant::now() < until {
        true => Ok(()),
        false => Err(Error::Dropped),
    });
}

/// Waits until all has been recorded that was handed to the recorder; interruptible.
///
/// # Errors
/// Interrupted.
pub fn settle() -> Result<()> {
    let mut stopped = Ok(());
    if worker::pending(Lane::Recorder) > 0 {
        // What goes wrong there stays with the arrays.
        let _ = worker::synchronize_with(Lane::Recorder, &mut || {
            stopped = check_interrupt();
            stopped.clone()
        });
    }
    stopped
}

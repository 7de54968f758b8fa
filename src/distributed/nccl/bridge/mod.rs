//! Groups whose processes have GPUs of one machine that write into each other's memory: exchanges of arrays of these GPUs are
//! commands of their streams (`vulkan::kernels::bridge`), carried by CUDA's copy engines. Nobody meets before an exchange:
//! each process writes down what it is about (`board::Ledger`), and whoever waits for a GPU later compares that with what the
//! others wrote, before anybody reads a result. A process that fails says so in memory that all share before it lets go what
//! would wait for it for ever.

mod files;
mod forming;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

pub use forming::{Forming, form};

use super::hub::Post;
use crate::bail;
use crate::core::event::check_interrupt;
use crate::core::{Dtype, Error, Result};
use crate::distributed::board::Ledger;
use crate::distributed::header::Header;
use crate::distributed::{Carrier, Exchange, Outcome, Reduction, Subject, interrupted, lock};
use crate::kernels::DeviceView;
use crate::memory::reach::{Courier, Window};
use crate::vulkan::CommandEncoder;
use crate::vulkan::hal::overseers::{self, Mark, Overseer};
use crate::vulkan::kernels::bridge::{Boxes, End, Joint, Parcel, Way, pieces};
use crate::vulkan::tune::transfer::bridged;

/// How often the others' state is asked for while somebody waits.
const TICK: Duration = Duration::from_millis(20);
/// How long what was begun may take when a process is gone: that one may have done its part.
const GRACE: Duration = Duration::from_secs(2);
/// What is written to flags so that nothing waits any more: numbers of pieces this far ahead.
const FAR: u32 = 1 << 30;

/// An exchange that was recorded.
struct Open {
    number: u64,
    name: &'static str,
    header: Header,
    /// None while it is being recorded.
    end: Option<End>,
    compared: bool,
    /// What depends on it was recorded behind this.
    mark: Mark,
}

/// Exchanges that were not found to be well, in their order, and what was seen of the first.
#[derive(Default)]
struct Watched {
    open: VecDeque<Open>,
    /// When the others' state was asked for.
    asked: Option<Instant>,
    /// The first one and how far its stream had come, and since when.
    seen: Option<((u64, u64), Instant)>,
    /// Since when a process is gone.
    lost: Option<Instant>,
}

/// Memory of another process's GPU.
struct Far {
    window: Window,
    courier: Courier,
}

/// The way between the GPUs of a group.
pub struct Bridge {
    post: Arc<Post>,
    id: u64,
    members: Vec<usize>,
    me: usize,
    ledger: Ledger,
    boxes: Boxes,
    own: Window,
    far: Vec<Option<Far>>,
    /// For numbers that end waits.
    alarm: Courier,
    /// The number of the next exchange; held while one is recorded.
    next: Mutex<u64>,
    /// The last piece that has a number.
    latest: AtomicU32,
    watched: Mutex<Watched>,
    failed: OnceLock<String>,
}

/// What of an operation of this library becomes of the arrays; none for messages.
fn joint(what: Exchange, dtype: Dtype) -> Option<Joint> {
    let name = |how| match (how, dtype) {
        (Reduction::Sum | Reduction::Max, Dtype::Bool) => "logical_or",
        (Reduction::Min, Dtype::Bool) => "logical_and",
        (Reduction::Sum, _) => "add",
        (Reduction::Max, _) => "maximum",
        (Reduction::Min, _) => "minimum",
    };
    match what {
        Exchange::Reduce(how) => Some(Joint::Reduced(name(how))),
        Exchange::Gather => Some(Joint::Gathered),
        Exchange::SumScatter => Some(Joint::Scattered(name(Reduction::Sum))),
        Exchange::Send(_) | Exchange::Recv(_) => None,
    }
}

/// Whether such an operation goes this way: every process comes to the same.
pub fn carries(what: Exchange, about: Subject, members: usize) -> bool {
    let bytes = about.bytes();
    // GPUs have no float64.
    if bytes == 0 || about.dtype == Dtype::F64 {
        return false;
    }
    match what {
        Exchange::Reduce(_) => bridged(members, bytes as u64),
        Exchange::Gather | Exchange::SumScatter => true,
        Exchange::Send(_) | Exchange::Recv(_) => false,
    }
}

impl Bridge {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        lock(&self.watched)
    }

    /// Fails where the group has failed.
    fn standing(&self, name: &str) -> Result<()> {
        let why = self.failed.get().cloned();
        let why = why.map_or_else(|| self.post.failure(self.id, &self.members, true), Err);
        match why {
            Ok(()) => Ok(()),
            Err(why) => {
                bail!(Runtime, "[{name}] The group cannot be used any more since it failed: {why}")
            }
        }
    }

    /// Why it cannot be used any more.
    pub fn failure(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    /// The group has failed in another way.
    pub fn give_up(&self, why: &str) {
        self.fail(&mut self.watched(), why.to_string());
    }

    /// Waits a while for what is under way; whether all of it ended well, so that the memory can go. Nobody records any more.
    pub fn settled(&self) -> bool {
        let begin = Instant::now();
        while self.failed.get().is_none() && !self.watched().open.is_empty() && begin.elapsed() < GRACE {
            Overseer::look(self);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.failed.get().is_none() && self.watched().open.is_empty()
    }

    /// Waits until there is room in the ledger.
    fn await_room(&self, number: u64) -> Outcome {
        let begin = Instant::now();
        while !self.ledger.has_room(number) {
            Overseer::look(self);
            interrupted()?;
            if let Some(why) = self.failed.get() {
                return Err(why.clone());
            }
            self.post.failure(self.id, &self.members, true)?;
            if begin.elapsed() > self.post.timeout {
                return Err("other processes do not look at what this one has begun".into());
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }

    /// Asks the copy engine for what the others get of a piece.
    fn send(&self, parcel: &Parcel) -> Outcome {
        let (places, number) = (self.boxes.places(), parcel.number);
        let _within = self.alarm.enter()?;
        for (member, far) in self.far.iter().enumerate() {
            let Some(Far { window, courier }) = far else { continue };
            let from = self.own.at(parcel.start(places, member));
            let to = window.at(places.inbox(self.me, member, number));
            // SAFETY: windows of this bridge, which waits for its exchanges before it goes; pieces are inside both.
            unsafe {
                courier.await_value(self.own.at(places.filled()), number)?;
                courier.copy(to, from, parcel.bytes)?;
                courier.write_value(window.at(places.came(self.me)), number)?;
                courier.write_value(self.own.at(places.sent(member)), number)?;
            }
        }
        Ok(())
    }

    /// Lets everything end that waits for pieces.
    fn release(&self) -> Outcome {
        let places = self.boxes.places();
        let far = self.latest.load(Ordering::Acquire).wrapping_add(FAR);
        let _within = self.alarm.enter()?;
        let others = (0..self.far.len()).filter(|&m| m != self.me);
        let flags = others.flat_map(|m| [places.came(m), places.sent(m)]).chain([places.filled()]);
        // SAFETY: this process's flags.
        flags.into_iter().try_for_each(|flag| unsafe { self.alarm.write_value(self.own.at(flag), far) })
    }

    /// The group fails: what is unfinished has no result, and does not wait any more.
    fn fail(&self, watched: &mut Watched, why: String) {
        if self.failed.set(why.clone()).is_err() {
            return;
        }
        self.ledger.fail();
        self.post.abort(self.id, &why);
        if let Some(first) = watched.open.front() {
            let error = Error::Runtime(format!("[{}] The group failed: {why}", first.name));
            self.boxes.spoil(&first.mark, &error);
        }
        overseers::ended(watched.open.len());
        watched.open.clear();
        // Whoever records at the moment is behind it.
        if let Err(why) = self.release() {
            tracing::warn!("what waits for other processes cannot be ended: {why}");
        }
    }

    /// Compares what all wrote down, as far as they have.
    fn compare(&self, watched: &mut Watched) -> Outcome {
        let own = self.members[self.me];
        for open in watched.open.iter_mut().filter(|o| !o.compared) {
            if self.ledger.missing(open.number).next().is_some() {
                break;
            }
            for (member, &rank) in self.members.iter().enumerate().filter(|(m, _)| *m != self.me) {
                let other = Header::received(&self.ledger.read(member, open.number));
                open.header.agrees(own, &other, rank)?;
            }
            open.compared = true;
            self.ledger.compared(open.number + 1);
        }
        Ok(())
    }

    /// Takes off what is well.
    fn settle(&self, watched: &mut Watched) {
        let well = |o: &Open| o.compared && o.end.as_ref().is_some_and(End::reached);
        let mut count = 0;
        while watched.open.front().is_some_and(well) {
            // What failed sent afterwards was no result.
            if self.ledger.failed().is_some() {
                break;
            }
            watched.open.pop_front();
            count += 1;
        }
        overseers::ended(count);
    }

    /// Whether those that the first exchange waits for are there and in time.
    fn attend(&self, watched: &mut Watched) -> Outcome {
        let failure = |ended| self.post.failure(self.id, &self.members, ended);
        let Some(first) = watched.open.front() else { return Ok(()) };
        if let Some(member) = self.ledger.failed() {
            failure(false)?;
            return Err(format!("rank {} failed", self.members[member]));
        }
        if watched.asked.is_some_and(|t| t.elapsed() < TICK) {
            return Ok(());
        }
        watched.asked = Some(Instant::now());
        let gone = failure(!first.compared);
        if let Err(why) = gone {
            let since = watched.lost.get_or_insert_with(Instant::now).elapsed();
            if !first.compared || since > GRACE {
                return Err(why);
            }
        }
        let come = (first.number, first.end.as_ref().map_or(0, End::progress));
        match watched.seen {
            Some((seen, since)) if seen == come => {
                if since.elapsed() > self.post.timeout {
                    return Err(self.late(first));
                }
            }
            _ => watched.seen = Some((come, Instant::now())),
        }
        Ok(())
    }

    /// Who is late for an exchange, for people.
    fn late(&self, first: &Open) -> String {
        let mut missing = self.ledger.missing(first.number).map(|m| self.members[m]).peekable();
        if missing.peek().is_some() {
            return self.post.nothing_from(missing);
        }
        let seconds = self.post.timeout.as_secs_f64();
        format!("the GPUs did not end it within {seconds} s, though all ranks had begun")
    }

    /// Numbers for so many pieces: the first of them. Comes in the order of exchanges.
    fn pieces(&self, count: u32) -> u32 {
        self.latest.fetch_add(count, Ordering::AcqRel).wrapping_add(1)
    }

    fn operate(
        &self,
        enc: &mut CommandEncoder,
        joint: Joint,
        about: Subject,
        arrays: (&DeviceView, &DeviceView),
    ) -> Result<End> {
        let (places, size) = (self.boxes.places(), about.dtype.size());
        let shared = matches!(joint, Joint::Scattered(_));
        let count = arrays.0.size() / if shared { places.members } else { 1 };
        let first = self.pieces(pieces(places, joint, count, size));
        self.boxes.record(enc, joint, arrays, first, self)
    }
}

impl Way for Bridge {
    fn send(&self, parcel: &Parcel) -> Result<()> {
        Bridge::send(self, parcel).map_err(Error::Runtime)
    }

    fn look(&self) -> Result<()> {
        Overseer::look(self);
        check_interrupt()?;
        self.failed.get().map_or(Ok(()), |why| Err(Error::Runtime(why.clone())))
    }
}

impl Carrier for Bridge {
    fn record(
        &self,
        enc: &mut CommandEncoder,
        what: Exchange,
        about: Subject,
        arrays: (&DeviceView, &DeviceView),
    ) -> Result<()> {
        let name = what.operation();
        let Some(joint) = joint(what, about.dtype) else {
            bail!(Runtime, "[{name}] Messages do not go from GPU to GPU.")
        };
        let mut next = lock(&self.next);
        self.standing(name)?;
        let number = *next;
        self.await_room(number).map_err(|why| Error::Runtime(format!("[{name}] {why}")))?;
        *next += 1;
        let header = Header::new(number, name, about);
        self.ledger.write(number, &header.block());
        let open = Open { number, name, header, end: None, compared: false, mark: self.boxes.mark() };
        self.watched().open.push_back(open);
        overseers::begun();
        let recorded = self.operate(enc, joint, about, arrays);
        drop(next);
        let mut watched = self.watched();
        match recorded {
            Ok(end) => {
                if let Some(open) = watched.open.iter_mut().find(|o| o.number == number) {
                    open.end = Some(end);
                }
            }
            Err(e) => self.fail(&mut watched, e.to_string()),
        }
        match self.failure() {
            // Whoever fails meanwhile does not know of all that was recorded.
            Some(why) => bail!(Runtime, "[{name}] The group failed: {why}"),
            None => Ok(()),
        }
    }
}

impl Overseer for Bridge {
    fn look(&self) {
        let watched = &mut *self.watched();
        if watched.open.is_empty() {
            return;
        }
        if let Err(why) = self.compare(watched) {
            return self.fail(watched, why);
        }
        self.settle(watched);
        if let Err(why) = self.attend(watched) {
            self.fail(watched, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_chooses_the_way_by_shapes_alone() {
        let about = |n, dtype| Subject { shape: n, dtype };
        let sum = Exchange::Reduce(Reduction::Sum);
        assert!(carries(sum, about(&[1 << 30], Dtype::F32), 2));
        assert!(carries(sum, about(&[], Dtype::Bool), 8));
        assert!(!carries(sum, about(&[1 << 28], Dtype::F32), 8), "a ring is faster");
        assert!(carries(Exchange::SumScatter, about(&[1 << 28], Dtype::F32), 8));
        assert!(!carries(sum, about(&[0, 4], Dtype::F32), 2) && !carries(sum, about(&[1], Dtype::F64), 2));
        assert!(!carries(Exchange::Send(1), about(&[1], Dtype::F32), 2));
        assert_eq!(joint(sum, Dtype::Bool), Some(Joint::Reduced("logical_or")));
        assert_eq!(joint(Exchange::Recv(0), Dtype::F32), None);
    }
}

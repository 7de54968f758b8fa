//! How the way between the GPUs of a group is made: each process makes memory, hands it to the others, and all try what they
//! have with numbers that are read back. Where one of them cannot, none has it.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::files::{Counter, NAME};
use super::{Bridge, Far, Watched};
use crate::bail;
use crate::core::event::check_interrupt;
use crate::core::{Device, Error, Result, Stream, default_stream};
use crate::distributed::Outcome;
use crate::distributed::board::Board;
use crate::distributed::nccl::hub::{Meeting, Post};
use crate::distributed::nccl::wire::MeetingKey;
use crate::memory::cuda::Gpu;
use crate::memory::reach::{Courier, Window};
use crate::vulkan::hal::overseers::{self, Overseer};
use crate::vulkan::kernels::bridge::{BRIDGE, Boxes, Parcel, Places, Way};
use crate::vulkan::tune::transfer::bridge_piece;
use crate::vulkan::{flush, synchronize, with_encoder};

/// How long a trial may take, if others wait twice as long.
const TRIAL: Duration = Duration::from_secs(20);
/// How often its end is looked for.
const PAUSE: Duration = Duration::from_micros(50);

/// Who forms a group: all of its processes, on one machine.
pub struct Forming<'a> {
    pub post: &'a Arc<Post>,
    pub gpu: Gpu,
    pub id: u64,
    pub members: &'a [usize],
    pub me: usize,
    pub board: &'a Board,
}

/// What a process has before it knows the others.
struct Own {
    window: Window,
    boxes: Boxes,
    counter: Counter,
}

fn text(e: Error) -> String {
    e.to_string()
}

/// The stream that a trial runs on.
fn stream() -> Stream {
    default_stream(Device::GPU)
}

/// The way, if all processes find it. `number` is that of a meeting; the three from there on are used.
///
/// # Errors
/// What ends the meetings.
pub fn form(f: &Forming, number: u64) -> Outcome<Option<Arc<Bridge>>> {
    let meet = |n: u64, said: Vec<u8>| {
        let key: MeetingKey = [f.id, number - n];
        f.post.meet(&Meeting { key, members: f.members, place: f.me }, said)
    };
    let without = |why: &String| tracing::debug!("GPUs of this group do not write to each other: {why}");
    let own = Own::new(f).inspect_err(without).ok();
    let names = meet(0, own.as_ref().map_or_else(Vec::new, |o| o.counter.name().to_vec()))?;
    let own = own.filter(|_| names.iter().all(|name| name.len() == NAME));
    let Some(own) = own else { return Ok(None) };
    let bridge = own.join(f, &names).inspect_err(without).ok();
    let all = meet(1, vec![u8::from(bridge.is_some())])?;
    let Some(bridge) = bridge.filter(|_| all.iter().all(|said| said[..] == [1])) else { return Ok(None) };
    let tried = bridge.try_out().inspect_err(without);
    let all = meet(2, vec![u8::from(tried.is_ok())])?;
    if tried.is_err() || all.iter().any(|said| said[..] != [1]) {
        if bridge.release().is_err() || tried.is_err() {
            // Something may be written there yet.
            std::mem::forget(bridge);
        }
        return Ok(None);
    }
    let bridge = Arc::new(bridge);
    overseers::attend(&(bridge.clone() as Arc<dyn Overseer>));
    Ok(Some(bridge))
}

impl Own {
    fn new(f: &Forming) -> Outcome<Own> {
        if BRIDGE.disabled() {
            return Err("it is switched off".into());
        }
        let places = Places { members: f.members.len(), me: f.me, piece: bridge_piece(f.members.len()) };
        if places.members > Places::MOST {
            return Err(format!("there are more than {} processes", Places::MOST));
        }
        let window = Window::new(f.gpu, places.bytes())?;
        let boxes = Boxes::new(0, window.file()?, window.bytes(), places).map_err(text)?;
        with_encoder(stream(), |enc| boxes.clear(enc)).map_err(text)?;
        synchronize(stream()).map_err(text)?;
        Ok(Own { window, boxes, counter: Counter::new()? })
    }

    fn join(self, f: &Forming, names: &[Vec<u8>]) -> Outcome<Bridge> {
        let files = self.counter.exchange(&self.window.file()?, names, f.me, f.post.timeout)?;
        let far = |file: Option<_>| -> Outcome<Option<Far>> {
            let Some(file) = file else { return Ok(None) };
            let window = Window::of(f.gpu, &file, self.window.bytes())?;
            Ok(Some(Far { window, courier: Courier::new(f.gpu)? }))
        };
        Ok(Bridge {
            far: files.into_iter().map(far).collect::<Outcome<_>>()?,
            alarm: Courier::new(f.gpu)?,
            post: f.post.clone(),
            id: f.id,
            members: f.members.to_vec(),
            me: f.me,
            ledger: f.board.ledger(),
            boxes: self.boxes,
            own: self.window,
            next: Mutex::new(0),
            latest: 0.into(),
            watched: Mutex::new(Watched::default()),
            failed: OnceLock::new(),
        })
    }
}

/// A trial that is under way.
struct Attempt<'a> {
    bridge: &'a Bridge,
    begin: Instant,
}

impl Way for Attempt<'_> {
    fn send(&self, parcel: &Parcel) -> Result<()> {
        self.bridge.send(parcel).map_err(Error::Runtime)
    }

    fn look(&self) -> Result<()> {
        check_interrupt()?;
        if self.begin.elapsed() > TRIAL.min(self.bridge.post.timeout / 2) {
            self.bridge.release().map_err(Error::Runtime)?;
            bail!(Runtime, "what was sent did not come");
        }
        Ok(())
    }
}

impl Bridge {
    /// Sends numbers around, as often as there are places for pieces.
    fn try_out(&self) -> Outcome {
        for _ in 0..5 {
            let first = self.pieces(1);
            let attempt = Attempt { bridge: self, begin: Instant::now() };
            let trial = with_encoder(stream(), |enc| self.boxes.trial(enc, first, &attempt));
            let trial = trial.map_err(text)?;
            flush(stream()).map_err(text)?;
            while !trial.is_over() {
                attempt.look().map_err(text)?;
                std::thread::sleep(PAUSE);
            }
            if !trial.is_right(self.boxes.places()).map_err(text)? {
                return Err("what came was something else".into());
            }
        }
        Ok(())
    }
}

//! Exchanges between GPUs of one machine that write into each other's memory (`memory::reach`): each fills its outbox by a kernel,
//! its copy engine brings that to the inboxes of the others behind a flag, and a kernel waits for the flags of what they
//! send (shaders/bridge/bridge_meet.comp). So an exchange is commands of a stream like any others, and the host has nothing to
//! wait for. Arrays go in pieces, which are numbered from the first exchange on.
//!
//! Two pieces are under way at once. One is sent when the outbox says so, which a process does when it has come to the piece
//! before the last: the others had begun that one then, and were done with what lay two places before it. So an outbox of two
//! and inboxes of four pieces are never written while they are read.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::elem::{Defines, Push, define};
use super::elementwise;
use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::{Dtype, Error, Result, Storage};
use crate::kernels::DeviceView;
use crate::kernels::elementwise::program::Program;
use crate::kernels::elementwise::table::op;
use crate::vulkan::hal::device::device;
use crate::vulkan::hal::overseers::Mark;
use crate::vulkan::hal::stream::Point;
use crate::vulkan::memory::foreign::Foreign;
use crate::vulkan::memory::{Block, Kind};
use crate::vulkan::tune::transfer::{in_parts, piece_of};
use crate::vulkan::{CommandEncoder, Device, Features, KernelKey, Module, Source};

/// Pieces in an outbox, and in the inbox for each process.
const OUT: u64 = 2;
const IN: u64 = 4;
/// How long the host waits before it has flags looked at again.
const PAUSE: Duration = Duration::from_micros(20);
/// Bytes between flags.
const FLAG: u64 = 64;
/// Bytes of what is seen of them: two numbers for each process.
const SEEN: usize = 8 * Places::MOST;
/// Numbers that a process sends in a trial, and how far those of one are from those of the next.
const TRIED: usize = 5001;
/// See [`TRIED`].
const APART: usize = 100_000;

pub static BRIDGE: KernelVariant =
    KernelVariant::new("bridge", "collectives between the GPUs of a machine by NCCL or through the host");

/// Where things lie in the memory of each process.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// How many processes there are.
    pub members: usize,
    /// Which of them this is.
    pub me: usize,
    /// Most bytes of a piece.
    pub piece: usize,
}

impl Places {
    /// Most processes: one invocation waits for each.
    pub const MOST: usize = 32;

    /// Bytes of the memory.
    pub fn bytes(&self) -> usize {
        let boxes = OUT as usize + IN as usize * (self.members - 1);
        self.boxes() as usize + boxes * self.piece
    }

    /// What was seen of the flags.
    fn seen(&self) -> u64 {
        FLAG * (1 + 2 * self.members as u64)
    }

    /// Where the outbox begins, behind the flags and what was seen of them.
    fn boxes(&self) -> u64 {
        (self.seen() + SEEN as u64).next_multiple_of(4096)
    }

    /// The flag that says up to which piece the outbox was filled.
    pub fn filled(&self) -> u64 {
        0
    }

    /// The flag that says up to which piece a process's pieces came.
    pub fn came(&self, member: usize) -> u64 {
        FLAG * (1 + member as u64)
    }

    /// The flag that says up to which piece a process was sent what the outbox had for it.
    pub fn sent(&self, member: usize) -> u64 {
        FLAG * (1 + (self.members + member) as u64)
    }

    /// A piece in the outbox.
    pub fn outbox(&self, piece: u32) -> u64 {
        self.boxes() + u64::from(piece) % OUT * self.piece as u64
    }

    /// A piece that comes from one process to another.
    pub fn inbox(&self, from: usize, to: usize, piece: u32) -> u64 {
        debug_assert_ne!(from, to);
        let place = if from > to { from - 1 } else { from } as u64;
        self.boxes() + (OUT + place * IN + u64::from(piece) % IN) * self.piece as u64
    }
}

/// What becomes of the arrays of all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// Their elements, place by place, in the order of the processes.
    Reduced(&'static str),
    /// One behind the other.
    Gathered,
    /// As the first; each process has a part of it.
    Scattered(&'static str),
}

/// A piece that is about to be sent: its number, and where in the outbox each process's bytes begin and how many they are.
pub struct Parcel {
    /// The number of the piece.
    pub number: u32,
    /// Bytes for each process.
    pub bytes: usize,
    /// Whether each process gets others.
    pub apart: bool,
}

/// What carries pieces, and knows the other processes.
pub trait Way {
    /// Has the copy engine bring a piece to the others when the outbox is filled.
    ///
    /// # Errors
    /// What keeps it from that.
    fn send(&self, parcel: &Parcel) -> Result<()>;

    /// Called ever so often while the host waits for the others.
    ///
    /// # Errors
    /// They will not come.
    fn look(&self) -> Result<()>;
}

/// The memory of a process as its GPU has it.
pub struct Boxes {
    places: Places,
    memory: Foreign,
    device: &'static Device,
    /// Written by every exchange: one comes behind the other, whatever streams they are on.
    turn: Arc<Block>,
    /// Where the host sees what kernels saw, for devices whose kernels cannot wait.
    seen: Option<Arc<Block>>,
}

/// The end of an exchange.
pub struct End(Point);

impl End {
    /// Whether the GPU is past it.
    pub fn reached(&self) -> bool {
        self.0.stream.over(self.0.value)
    }

    /// How far its stream has come.
    pub fn progress(&self) -> u64 {
        self.0.stream.poll()
    }
}

/// Numbers that every process sent to all.
pub struct Trial {
    end: End,
    came: Arc<Storage>,
}

impl Trial {
    /// Whether the GPU is past it.
    pub fn is_over(&self) -> bool {
        self.end.reached()
    }

    /// Whether the right ones came.
    ///
    /// # Errors
    /// What keeps the host from reading them.
    pub fn is_right(&self, places: &Places) -> Result<bool> {
        let start = self.came.host_ptr()?.cast::<u32>();
        // SAFETY: as many numbers as were gathered.
        let all = unsafe { std::slice::from_raw_parts(start, places.members * TRIED) };
        Ok(all.iter().enumerate().all(|(i, &n)| n == (i / TRIED * APART + i % TRIED) as u32))
    }
}

/// The bytes of a parcel that are for one process, in its part of a piece.
fn part(parcel: &Parcel, member: usize) -> u64 {
    if parcel.apart { (member * parcel.bytes.next_multiple_of(16)) as u64 } else { 0 }
}

impl Parcel {
    /// Where the bytes for a process begin in the outbox's memory.
    pub fn start(&self, places: &Places, member: usize) -> u64 {
        places.outbox(self.number) + part(self, member)
    }
}

/// Elements of a piece, of `count` for each process.
fn elements(places: &Places, joint: Joint, count: usize, size: usize) -> usize {
    let piece = piece_of((count * size) as u64, places.piece);
    let room = match joint {
        Joint::Scattered(_) => piece / places.members - 16,
        Joint::Reduced(_) | Joint::Gathered => piece,
    };
    (room / size / 16 * 16).max(1)
}

/// A step of an exchange: what becomes of so many elements of each process, from one on. What a process adds up of a part is the
/// input of the step that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    joint: Joint,
    at: usize,
    count: usize,
}

/// The steps of an exchange of `count` elements for each process.
fn steps(places: &Places, joint: Joint, count: usize, size: usize) -> SmallVec<[Step; 3]> {
    let Joint::Reduced(name) = joint else { return smallvec![Step { joint, at: 0, count }] };
    if !in_parts(places.members, (count * size) as u64) {
        return smallvec![Step { joint, at: 0, count }];
    }
    let part = count / places.members;
    let whole = part * places.members;
    let mut all: SmallVec<[Step; 3]> = smallvec![
        Step { joint: Joint::Scattered(name), at: 0, count: part },
        Step { joint: Joint::Gathered, at: 0, count: part },
    ];
    if whole < count {
        all.push(Step { joint, at: whole, count: count - whole });
    }
    all
}

/// How many pieces an exchange of so many elements of each process takes.
pub fn pieces(places: &Places, joint: Joint, count: usize, size: usize) -> u32 {
    let of = |s: &Step| s.count.div_ceil(elements(places, s.joint, s.count, size)) as u32;
    steps(places, joint, count, size).iter().map(of).sum()
}

impl Boxes {
    /// Memory that was made by CUDA on a GPU; its flags are to be cleared before anybody sends.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(gpu: u32, file: OwnedFd, bytes: usize, places: Places) -> Result<Boxes> {
        let device = device(gpu)?;
        let memory = Foreign::import(device, file, bytes as u64)?;
        let seen = match device.features().software {
            true => Some(device.alloc_kind(Kind::Params, SEEN, None)?),
            false => None,
        };
        Ok(Boxes { places, memory, device, turn: device.alloc_kind(Kind::Device, 4, None)?, seen })
    }

    /// Where things lie.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// How far the GPU's streams have been recorded.
    pub fn mark(&self) -> Mark {
        Mark::of(self.device)
    }

    /// Whatever was recorded behind a mark has no result: whoever reads it gets the error.
    pub fn spoil(&self, mark: &Mark, error: &Error) {
        mark.spoil(self.device, error);
    }

    fn at(&self, place: u64) -> u64 {
        self.memory.address() + place
    }

    /// Sets the flags to zero.
    pub fn clear(&self, enc: &mut CommandEncoder) -> Result<()> {
        enc.note_write(self.turn.clone())?;
        enc.fill((self.memory.address(), self.places.boxes()), 0)
    }

    /// Records an exchange, whose first piece has the number `first`. `src` and `dst` are row-major.
    ///
    /// # Errors
    /// What the recording or the way says; the exchange is broken then.
    pub fn record(
        &self,
        enc: &mut CommandEncoder,
        joint: Joint,
        (src, dst): (&DeviceView, &DeviceView),
        first: u32,
        way: &dyn Way,
    ) -> Result<End> {
        enc.note_write(self.turn.clone())?;
        let (size, members) = (src.dtype.size(), self.places.members);
        let count = if matches!(joint, Joint::Scattered(_)) { src.size() / members } else { src.size() };
        let all = steps(&self.places, joint, count, size);
        let mut number = first;
        let mut own = None;
        for step in &all {
            let parts = if matches!(step.joint, Joint::Scattered(_)) { members } else { 1 };
            let from = own.take().unwrap_or_else(|| elements_of(src, step.at, step.count * parts));
            let gathered = if step.joint == Joint::Gathered { members } else { 1 };
            let to = match all.len() > 1 && parts > 1 {
                true => dense(enc.temp(step.count * size)?, src.dtype, step.count),
                false => elements_of(dst, step.at, step.count * gathered),
            };
            number = self.step(enc, step, (&from, &to), number, way)?;
            own = (all.len() > 1 && parts > 1).then_some(to);
        }
        Ok(End(enc.point()))
    }

    /// Records a step, whose first piece has the number `first`; the number that follows.
    fn step(
        &self,
        enc: &mut CommandEncoder,
        &Step { joint, count, .. }: &Step,
        (src, dst): (&DeviceView, &DeviceView),
        first: u32,
        way: &dyn Way,
    ) -> Result<u32> {
        let size = src.dtype.size();
        let step = elements(&self.places, joint, count, size);
        let ranges: Vec<(usize, usize)> =
            (0..count).step_by(step).map(|at| (at, step.min(count - at))).collect();
        for (i, &(at, n)) in ranges.iter().enumerate() {
            let number = first.wrapping_add(i as u32);
            let parcel = Parcel { number, bytes: n * size, apart: matches!(joint, Joint::Scattered(_)) };
            self.fill(enc, &parcel, src, at, count)?;
            way.send(&parcel)?;
            let alone = ranges.len() == 1;
            self.meet(enc, &parcel, if alone { POST | AWAIT } else { POST }, way)?;
            if i > 0 {
                let (at, n) = ranges[i - 1];
                let before = Parcel { number: number.wrapping_sub(1), bytes: n * size, ..parcel };
                self.meet(enc, &before, AWAIT, way)?;
                self.join(enc, joint, &before, dst, at, count)?;
            }
            if i + 1 == ranges.len() {
                if !alone {
                    self.meet(enc, &parcel, AWAIT, way)?;
                }
                self.join(enc, joint, &parcel, dst, at, count)?;
            }
        }
        Ok(first.wrapping_add(ranges.len() as u32))
    }

    /// Records an exchange of numbers that tell who sent them.
    ///
    /// # Errors
    /// As [`Boxes::record`].
    pub fn trial(&self, enc: &mut CommandEncoder, first: u32, way: &dyn Way) -> Result<Trial> {
        let Places { members, me, .. } = self.places;
        let (own, came) = (enc.output(4 * TRIED)?, enc.output(4 * TRIED * members)?);
        let [src, dst] = [(own.1, TRIED), (came.1, TRIED * members)].map(|(p, n)| dense(p, Dtype::U32, n));
        elementwise::arange(enc, (me * APART) as f64, 1.0, &src)?;
        let end = self.record(enc, Joint::Gathered, (&src, &dst), first, way)?;
        Ok(Trial { end, came: came.0 })
    }

    /// Copies elements of the source, of which each process has `count`, to the outbox.
    fn fill(
        &self,
        enc: &mut CommandEncoder,
        parcel: &Parcel,
        src: &DeviceView,
        at: usize,
        count: usize,
    ) -> Result<()> {
        let to = if parcel.apart { self.places.members } else { 1 };
        for member in 0..to {
            let n = parcel.bytes / src.dtype.size();
            let from = elements_of(src, member * count + at, n);
            let place = self.at(parcel.start(&self.places, member));
            elementwise::copy(enc, &from, &dense(place, src.dtype, n))?;
        }
        Ok(())
    }

    /// Says that a piece is in the outbox, or waits for what the others sent and for what was sent to them.
    fn meet(&self, enc: &mut CommandEncoder, parcel: &Parcel, what: u32, way: &dyn Way) -> Result<()> {
        let Some(seen) = &self.seen else { return self.say(enc, parcel, what, self.at(self.places.seen())) };
        loop {
            let at = enc.note_write(seen.clone())?;
            self.say(enc, parcel, what, at)?;
            if what & AWAIT == 0 {
                return Ok(());
            }
            enc.drain()?;
            let Some(host) = seen.host() else { bail!(Runtime, "[vulkan] Parameter memory is not mapped.") };
            // SAFETY: mapped memory of so many numbers, which nobody writes now.
            let all = unsafe { std::slice::from_raw_parts(host.as_ptr().cast::<u32>(), SEEN / 4) };
            let behind = |n: u32| n.wrapping_sub(parcel.number) as i32 >= 0;
            let Places { members, me, .. } = self.places;
            if (0..members).filter(|&m| m != me).all(|m| behind(all[2 * m]) && behind(all[2 * m + 1])) {
                return Ok(());
            }
            way.look()?;
            std::thread::sleep(PAUSE);
        }
    }

    fn say(&self, enc: &mut CommandEncoder, parcel: &Parcel, what: u32, seen: u64) -> Result<()> {
        let Places { members, me, piece } = self.places;
        let pipeline = enc.device().pipeline(&Meet { once: self.seen.is_some() })?;
        let number = parcel.number;
        let push = Push::default().u64s(&[self.memory.address(), seen]);
        let push = push.u32s(&[number, members as u32, me as u32, what]);
        let (mut reads, mut writes) = (SmallVec::<[_; 1]>::new(), SmallVec::<[_; 8]>::new());
        if what & POST != 0 {
            reads.push((self.at(self.places.outbox(number)), piece as u64));
            writes.push((self.at(self.places.filled()), 4));
        }
        if what & AWAIT != 0 {
            let others = (0..members).filter(|&m| m != me);
            writes.extend(others.map(|m| (self.at(self.places.inbox(m, me, number)), piece as u64)));
            // What was sent can be filled again.
            writes.push((self.at(self.places.outbox(number)), piece as u64));
            writes.push((seen, SEEN as u64));
        }
        enc.dispatch(&pipeline, &push, [1, 1, 1], &reads, &writes)
    }

    /// Puts what came where it belongs in the result.
    fn join(
        &self,
        enc: &mut CommandEncoder,
        joint: Joint,
        parcel: &Parcel,
        dst: &DeviceView,
        at: usize,
        count: usize,
    ) -> Result<()> {
        let (n, me) = (parcel.bytes / dst.dtype.size(), self.places.me);
        let came = |member: usize| {
            let place = match member == me {
                true => parcel.start(&self.places, me),
                false => self.places.inbox(member, me, parcel.number),
            };
            dense(self.at(place), dst.dtype, n)
        };
        let name = match joint {
            Joint::Gathered => {
                let copied = |member: usize| {
                    let (from, to) = (came(member), elements_of(dst, member * count + at, n));
                    match dst.dtype {
                        // What comes from others may be any bytes.
                        Dtype::Bool => combine(enc, "logical_or", [&from, &from], &to),
                        _ => elementwise::copy(enc, &from, &to),
                    }
                };
                return (0..self.places.members).try_for_each(copied);
            }
            Joint::Reduced(name) | Joint::Scattered(name) => name,
        };
        let target = elements_of(dst, at, n);
        combine(enc, name, [&came(0), &came(1)], &target)?;
        (2..self.places.members).try_for_each(|m| combine(enc, name, [&target, &came(m)], &target))
    }
}

/// Computes an operation of two arrays.
fn combine(enc: &mut CommandEncoder, name: &str, of: [&DeviceView; 2], to: &DeviceView) -> Result<()> {
    let program = Program::single(op(name), &[to.dtype; 2], to.dtype);
    elementwise::run(enc, &program, &of.map(Clone::clone), std::slice::from_ref(to))
}

/// Elements in memory of their own.
fn dense(ptr: u64, dtype: Dtype, n: usize) -> DeviceView {
    DeviceView { ptr, dtype, shape: smallvec![n as i64], strides: smallvec![1] }
}

/// Elements of a row-major array.
fn elements_of(v: &DeviceView, at: usize, n: usize) -> DeviceView {
    dense(v.ptr + (at * v.dtype.size()) as u64, v.dtype, n)
}

/// What [`Meet`] does.
const POST: u32 = 1;
/// See [`POST`].
const AWAIT: u32 = 2;

/// Key of bridge_meet.comp.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Meet {
    once: bool,
}

impl KernelKey for Meet {
    fn name(&self) -> String {
        "bridge_meet".into()
    }

    fn module(&self, _: &Features) -> Module {
        let mut defines = Defines::new();
        if self.once {
            define(&mut defines, "ONCE", 1);
        }
        Module { source: Source::File("bridge_meet.comp"), defines, ..Default::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_apart() {
        for members in [2, 3, 8] {
            let p = Places { members, me: 1, piece: 4096 };
            let mut all = vec![(p.filled(), 4)];
            all.extend((0..members).flat_map(|m| [(p.came(m), 4), (p.sent(m), 4)]));
            all.push((p.seen(), SEEN as u64));
            all.extend((0..2).map(|n| (p.outbox(n), 4096)));
            let others = (0..members).filter(|&m| m != p.me);
            all.extend(others.flat_map(|m| (7..11).map(move |n| (p.inbox(m, p.me, n), 4096))));
            all.sort_unstable();
            assert!(all.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
            assert!(all.last().is_some_and(|l| l.0 + l.1 <= p.bytes() as u64));
        }
    }

    #[test]
    fn pieces_have_room_for_every_process() {
        let p = Places { members: 3, me: 0, piece: 1000 };
        for size in [1, 2, 4, 8] {
            for joint in [Joint::Reduced("add"), Joint::Gathered, Joint::Scattered("add")] {
                let n = elements(&p, joint, 5000, size);
                let apart = joint == Joint::Scattered("add");
                let parcel = Parcel { number: 5, bytes: n * size, apart };
                let last = if apart { 2 } else { 0 };
                assert!(part(&parcel, last) as usize + parcel.bytes <= p.piece);
                assert_eq!(pieces(&p, joint, 3 * n + 1, size), 4);
            }
        }
    }

    #[test]
    fn large_sums_of_several_go_in_parts() {
        let p = Places { members: 4, me: 0, piece: 16 << 20 };
        let all = steps(&p, Joint::Reduced("maximum"), (64 << 20) + 3, 4);
        let part = Step { joint: Joint::Scattered("maximum"), at: 0, count: 16 << 20 };
        let rest = Step { joint: Joint::Reduced("maximum"), at: 64 << 20, count: 3 };
        assert_eq!(all[..], [part, Step { joint: Joint::Gathered, ..part }, rest]);
        assert_eq!(pieces(&p, Joint::Reduced("add"), 5, 4), 1);
        let two = Places { members: 2, ..p };
        assert_eq!(steps(&two, Joint::Reduced("add"), 1 << 30, 4).len(), 1);
    }
}

//! Groups over NCCL. Bytes of the host go through pinned memory and the GPU in parts. Before they move, all processes
//! meet at the hub and tell what they are about; NCCL's own wait is watched from there. What NCCL has no reduction of
//! the same meaning for (16-bit integers, NaN in a maximum, order of complex numbers) is gathered and reduced here.

mod meeting;

use std::collections::HashMap;
use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[cfg(all(feature = "vulkan", target_os = "linux"))]
use super::bridge::{self, Bridge, Forming};
use super::device::Staging;
use super::hub::{Meeting, Post};
use super::library::{Id, Nccl};
use super::shared::{Addresses, addresses, is_large};
use super::wire::MeetingKey;
use super::worker::{Pending, Worker};
use crate::core::{Dtype, Result, Stream};
#[cfg(all(feature = "vulkan", target_os = "linux"))]
use crate::distributed::Carrier;
use crate::distributed::board::Board;
use crate::distributed::reduce::accumulate;
use crate::distributed::{
    Alone, Ends, Exchange, Group, Outcome, Reduction, SHARED_MEMORY, Standing, Subject, child, divide,
    interrupted, lock, own_stream, pieces, portion,
};
use crate::memory::cuda::{Gpu, Handle, Memory};

/// Bytes of a part, of the larger side, where the environment says nothing.
const PART: usize = 1 << 25;
/// How long NCCL may take to finish what runs when a process is gone: that one may have done its part.
const GRACE: Duration = Duration::from_secs(2);
/// Number of the meeting at which a group is formed.
const FORMING: u64 = u64::MAX >> 1;
/// ncclUint8, by which bytes are moved.
const BYTES: c_int = 1;

/// What a group runs on.
#[derive(Clone, Copy)]
pub struct On {
    pub nccl: &'static Nccl,
    pub gpu: Gpu,
}

/// A group over NCCL.
struct Communicator {
    post: Arc<Post>,
    nccl: &'static Nccl,
    gpu: Gpu,
    /// Zero for all processes.
    id: u64,
    /// Numbers of the processes in the group of all, and which of them this one is.
    members: Vec<usize>,
    me: usize,
    /// Where the GPUs of all write into each other's memory.
    #[cfg(all(feature = "vulkan", target_os = "linux"))]
    bridge: Option<Arc<Bridge>>,
    state: Mutex<State>,
}

struct State {
    /// Where all processes are on one machine.
    board: Option<Board>,
    comm: Comm,
    worker: Worker,
    staging: Staging,
    operations: u64,
    splits: u64,
    /// By sender and receiver: messages between them.
    messages: HashMap<(usize, usize), u64>,
    standing: Standing,
}

/// NCCL's handle of a group.
#[derive(Clone, Copy)]
struct Comm(Handle);

// SAFETY: one thread at a time uses it, but for errors and the end, which NCCL allows from any.
unsafe impl Send for Comm {}

impl Comm {
    fn get(self) -> Handle {
        self.0
    }
}

/// A part of an operation: ranges of bytes of the input that go in, and of the output that come out.
struct Part {
    input: Vec<Range<usize>>,
    output: Vec<Range<usize>>,
}

fn length(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

/// NCCL's type and operation of a reduction with the same results as everywhere else, and how many elements of that type
/// one is.
fn native(how: Reduction, dtype: Dtype) -> Option<(c_int, c_int, usize)> {
    let kind = match dtype {
        Dtype::I8 => 0,
        Dtype::U8 | Dtype::Bool => 1,
        Dtype::I32 => 2,
        Dtype::U32 => 3,
        Dtype::I64 => 4,
        Dtype::U64 => 5,
        Dtype::F16 => 6,
        Dtype::F32 | Dtype::C64 => 7,
        Dtype::F64 => 8,
        Dtype::BF16 => 9,
        Dtype::I16 | Dtype::U16 => return None,
    };
    let whole = kind < 6;
    match how {
        // "Or" of bools.
        Reduction::Sum if dtype == Dtype::Bool => Some((kind, 2, 1)),
        Reduction::Sum => Some((kind, 0, if dtype == Dtype::C64 { 2 } else { 1 })),
        // Its maximum of a number and NaN is the number.
        Reduction::Max => whole.then_some((kind, 2, 1)),
        Reduction::Min => whole.then_some((kind, 3, 1)),
    }
}

/// Reduces what all processes have.
fn reduced<'a>(how: Reduction, dtype: Dtype, into: &mut [u8], mut all: impl Iterator<Item = &'a [u8]>) {
    if let Some(first) = all.next() {
        into.copy_from_slice(first);
    }
    all.for_each(|other| accumulate(how, dtype, into, other));
}

/// Waits until something is there, while the others live and NCCL reports nothing.
fn watch<T>(
    post: &Post,
    (group, members): (u64, &[usize]),
    what: &str,
    mut look: impl FnMut(bool) -> Outcome<Option<T>>,
) -> Outcome<T> {
    let begin = Instant::now();
    let mut lost: Option<Instant> = None;
    for n in 0u64.. {
        let closely = n % 64 == 63;
        if let Some(found) = look(closely)? {
            return Ok(found);
        }
        if closely {
            interrupted()?;
            if let Err(why) = post.failure(group, members, false)
                && lost.get_or_insert_with(Instant::now).elapsed() > GRACE
            {
                return Err(why);
            }
            if begin.elapsed() > post.timeout {
                break;
            }
        }
        if n > 500 {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    let seconds = post.timeout.as_secs_f64();
    Err(format!("NCCL did not end {what} within {seconds} s, though all ranks had begun"))
}

impl Communicator {
    /// All of its processes come here.
    fn form(post: Arc<Post>, on: On, id: u64, members: Vec<usize>, me: usize) -> Outcome<Communicator> {
        let formed = Communicator::join(&post, on, id, &members, me);
        let (comm, worker, staging, board) = formed.inspect_err(|why| post.abort(id, why))?;
        #[cfg(all(feature = "vulkan", target_os = "linux"))]
        let bridge = match &board {
            Some(board) => {
                let forming = Forming { post: &post, gpu: on.gpu, id, members: &members, me, board };
                bridge::form(&forming, FORMING - 2).inspect_err(|why| post.abort(id, why))?
            }
            None => None,
        };
        let state = State {
            board,
            comm,
            worker,
            staging,
            operations: 0,
            splits: 0,
            messages: HashMap::new(),
            standing: Standing::default(),
        };
        let On { nccl, gpu } = on;
        Ok(Communicator {
            post,
            nccl,
            gpu,
            id,
            members,
            me,
            #[cfg(all(feature = "vulkan", target_os = "linux"))]
            bridge,
            state: Mutex::new(state),
        })
    }

    fn join(
        post: &Post,
        On { nccl, gpu }: On,
        id: u64,
        members: &[usize],
        me: usize,
    ) -> Outcome<(Comm, Worker, Staging, Option<Board>)> {
        let worker = Worker::new()?;
        let wait = |what, pending: Pending<_>| watch(post, (id, members), what, |_| pending.look());
        let mut own = Vec::new();
        let mut made = None;
        if me == 0 {
            own = wait(
                "ncclGetUniqueId",
                worker.begin(move || {
                    gpu.enter()?;
                    let mut id = Id([0; 128]);
                    // SAFETY: a place for the result.
                    let code = unsafe { (nccl.get_unique_id)(&mut id) };
                    nccl.check("ncclGetUniqueId", code).map(|()| id.0.to_vec())
                }),
            )?;
            if SHARED_MEMORY.switch() != Some(false) {
                made = Board::new(members.len(), me).ok();
            }
            own.extend(made.iter().flat_map(|(_, invitation)| invitation.text()));
        }
        let all = post.meet(&Meeting { key: [id, FORMING], members, place: me }, own)?;
        let (unique, invitation) = all.first().and_then(|said| said.split_first_chunk()).unzip();
        let unique = Id(*unique.ok_or("the first process sent no identifier of NCCL")?);
        let board = Communicator::board(post, id, members, me, invitation.unwrap_or_default(), made)?;
        let count = members.len() as c_int;
        let pending = worker.begin(move || {
            gpu.enter()?;
            let mut comm = Comm(std::ptr::null_mut());
            // SAFETY: an identifier that NCCL made, the number of this process and of all, a place for the result.
            let code = unsafe { (nccl.comm_init_rank)(&mut comm.0, count, unique, me as c_int) };
            nccl.check("ncclCommInitRank", code).map(|()| comm)
        });
        let comm = watch(post, (id, members), "ncclCommInitRank", |_| pending.look())?;
        Ok((comm, worker, Staging::new(gpu)?, board))
    }

    fn key(&self, number: u64) -> MeetingKey {
        [self.id, number]
    }

    /// Runs an operation; a failure is told to all and ends the group.
    fn operate<T>(&self, name: &str, f: impl FnOnce(&mut State) -> Outcome<T>) -> Result<T> {
        let mut state = lock(&self.state);
        #[cfg(all(feature = "vulkan", target_os = "linux"))]
        if let Some(why) = self.bridge.as_ref().and_then(|b| b.failure()) {
            state.standing.fail(name, why.to_string());
        }
        state.standing.check(name)?;
        f(&mut state).map_err(|why| {
            self.post.abort(self.id, &why);
            #[cfg(all(feature = "vulkan", target_os = "linux"))]
            if let Some(bridge) = &self.bridge {
                bridge.give_up(&why);
            }
            state.staging.abandoned = true;
            let (abort, comm) = (self.nccl.comm_abort, state.comm);
            // It may wait for what never comes: nobody waits for it.
            // SAFETY: the handle is not used any more.
            let _ = std::thread::Builder::new().spawn(move || unsafe { abort(comm.get()) });
            state.standing.fail(name, why)
        })
    }

    /// What all processes do together, with bytes of the host.
    fn together<T>(&self, name: &str, about: Subject, f: impl FnOnce(&mut State) -> Outcome<T>) -> Result<T> {
        self.operate(name, |state| {
            self.meet(state, name, about, false, &[])?;
            f(state)
        })
    }

    /// Waits until what was begun in a lane is done.
    fn arrived(&self, state: &State, lane: usize) -> Outcome {
        let (nccl, staging, comm) = (self.nccl, &state.staging, state.comm);
        watch(&self.post, (self.id, &self.members), "a transfer", |closely| {
            if closely {
                let mut error = 0;
                // SAFETY: the group's handle, a place for the result.
                unsafe { (nccl.get_async_error)(comm.get(), &mut error) };
                nccl.check("a transfer", error)?;
            }
            Ok(staging.is_done(lane)?.then_some(()))
        })
    }

    /// Waits for a part and takes out what came.
    fn settle(&self, state: &mut State, lane: usize, part: &Part, into: *mut u8) -> Outcome {
        self.arrived(state, lane)?;
        // SAFETY: the event came, and there is room for what comes out.
        let mut bytes = &*unsafe { state.staging.lanes[lane].output.bytes(length(&part.output)) };
        for range in &part.output {
            let (head, rest) = bytes.split_at(range.len());
            // SAFETY: a range of the output, which the caller of `pipeline` lends.
            unsafe { std::ptr::copy_nonoverlapping(head.as_ptr(), into.add(range.start), head.len()) };
            bytes = rest;
        }
        Ok(())
    }

    /// Runs parts: `call` tells NCCL what to do with the bytes of one, by their number, from one address to another. The
    /// input may be the output: a part is read before it is written.
    fn pipeline(
        &self,
        state: &mut State,
        parts: &[Part],
        (from, into): (*const u8, *mut u8),
        call: impl Fn(&Nccl, usize, (Memory, Memory), Handle, Handle) -> c_int + Copy + Send + 'static,
    ) -> Outcome {
        self.gpu.enter()?;
        for (i, part) in parts.iter().enumerate() {
            let lane = i % 2;
            if let Some(before) = i.checked_sub(2) {
                self.settle(state, lane, &parts[before], into)?;
            }
            let (input, output) = (length(&part.input), length(&part.output));
            state.staging.grow(lane, input, output)?;
            // SAFETY: nothing is under way there.
            let mut bytes = unsafe { state.staging.lanes[lane].input.bytes(input) };
            for range in &part.input {
                let (head, rest) = bytes.split_at_mut(range.len());
                // SAFETY: a range of the input, which the caller lends.
                unsafe {
                    std::ptr::copy_nonoverlapping(from.add(range.start), head.as_mut_ptr(), head.len());
                }
                bytes = rest;
            }
            let (nccl, comm) = (self.nccl, state.comm);
            let count = part.input.first().or(part.output.first()).map_or(0, ExactSizeIterator::len);
            let job = state.staging.begin(lane, input, output, move |source, target, stream| {
                nccl.check("a call", call(nccl, count, (source, target), comm.get(), stream))
            });
            let pending = state.worker.begin(job);
            watch(&self.post, (self.id, &self.members), "a call", |_| pending.look())?;
        }
        for i in parts.len().saturating_sub(2)..parts.len() {
            self.settle(state, i % 2, &parts[i], into)?;
        }
        Ok(())
    }

    fn gather(&self, state: &mut State, input: &[u8], output: &mut [u8]) -> Outcome {
        let (n, count) = (input.len(), self.members.len());
        let parts: Vec<Part> = pieces(n, portion(PART) / count)
            .map(|r| Part {
                input: vec![r.clone()],
                output: (0..count).map(|k| k * n + r.start..k * n + r.end).collect(),
            })
            .collect();
        let ends = (input.as_ptr(), output.as_mut_ptr());
        self.pipeline(state, &parts, ends, |nccl, bytes, (from, to), comm, stream| {
            // SAFETY: memory of the GPU with room for so many bytes, and those of all processes.
            unsafe { (nccl.all_gather)(from, to, bytes, BYTES, comm, stream) }
        })
    }

    /// Reduces what NCCL does not: every process has all parts, and adds them up in the same order.
    fn reduce_here(&self, state: &mut State, how: Reduction, dtype: Dtype, data: &mut [u8]) -> Outcome {
        let mut all = Vec::new();
        for range in pieces(data.len(), portion(PART)) {
            all.resize(range.len() * self.members.len(), 0);
            let part = &mut data[range];
            self.gather(state, part, &mut all)?;
            let bytes = part.len();
            reduced(how, dtype, part, all.chunks(bytes));
        }
        Ok(())
    }

    fn reduce(&self, state: &mut State, how: Reduction, dtype: Dtype, data: &mut [u8]) -> Outcome {
        let Some((kind, op, each)) = native(how, dtype) else {
            return self.reduce_here(state, how, dtype, data);
        };
        let part = |r: Range<usize>| Part { input: vec![r.clone()], output: vec![r] };
        let parts: Vec<Part> = pieces(data.len(), portion(PART)).map(part).collect();
        let (at, size) = (data.as_mut_ptr(), dtype.size());
        self.pipeline(state, &parts, (at, at), move |nccl, bytes, (from, to), comm, stream| {
            // SAFETY: memory of the GPU that holds so many elements.
            unsafe { (nccl.all_reduce)(from, to, bytes / size * each, kind, op, comm, stream) }
        })
    }

    /// The sum over all, of which this process keeps its part. `data` is scratch afterwards.
    fn scatter(&self, state: &mut State, dtype: Dtype, data: &mut [u8], output: &mut [u8]) -> Outcome {
        let (n, count, size) = (output.len(), self.members.len(), dtype.size());
        let Some((kind, op, each)) = native(Reduction::Sum, dtype) else {
            self.reduce_here(state, Reduction::Sum, dtype, data)?;
            output.copy_from_slice(&data[self.me * n..][..n]);
            return Ok(());
        };
        let parts: Vec<Part> = pieces(n, portion(PART) / count)
            .map(|r| Part {
                input: (0..count).map(|k| k * n + r.start..k * n + r.end).collect(),
                output: vec![r],
            })
            .collect();
        let ends = (data.as_ptr(), output.as_mut_ptr());
        self.pipeline(state, &parts, ends, move |nccl, bytes, (from, to), comm, stream| {
            // SAFETY: memory of the GPU that holds so many elements for each process, and of this one.
            unsafe { (nccl.reduce_scatter)(from, to, bytes / size * each, kind, op, comm, stream) }
        })
    }

    /// Sends (`data` is read) or receives.
    fn transmit(
        &self,
        state: &mut State,
        (other, sends): (usize, bool),
        bytes: usize,
        data: *mut u8,
    ) -> Outcome {
        let part = |r| match sends {
            true => Part { input: vec![r], output: vec![] },
            false => Part { input: vec![], output: vec![r] },
        };
        let parts: Vec<Part> = pieces(bytes, portion(PART)).map(part).collect();
        let other = other as c_int;
        self.pipeline(state, &parts, (data, data), move |nccl, bytes, (from, to), comm, stream| {
            // SAFETY: memory of the GPU with room for so many bytes.
            unsafe {
                match sends {
                    true => (nccl.send)(from, bytes, BYTES, other, comm, stream),
                    false => (nccl.recv)(to, bytes, BYTES, other, comm, stream),
                }
            }
        })
    }

    /// An operation whose processes have met, with bytes of the host.
    fn on_host(&self, state: &mut State, what: Exchange, about: Subject, ends: &mut dyn Ends) -> Outcome {
        let (input, output) = ends.on_host().map_err(|e| e.to_string())?;
        match what {
            Exchange::Reduce(how) => {
                output.copy_from_slice(input);
                self.reduce(state, how, about.dtype, output)
            }
            Exchange::Gather => self.gather(state, input, output),
            Exchange::SumScatter => self.scatter(state, about.dtype, &mut input.to_vec(), output),
            Exchange::Send(to) => {
                output.copy_from_slice(input);
                self.transmit(state, (to, true), output.len(), output.as_mut_ptr())
            }
            Exchange::Recv(from) => self.transmit(state, (from, false), output.len(), output.as_mut_ptr()),
        }
    }

    /// Whether arrays of such an operation may stay on the GPU: every process comes to the same.
    fn stays(&self, what: Exchange, about: Subject) -> bool {
        let known = match what {
            Exchange::Reduce(how) => native(how, about.dtype).is_some(),
            Exchange::SumScatter => native(Reduction::Sum, about.dtype).is_some(),
            Exchange::Gather | Exchange::Send(_) | Exchange::Recv(_) => true,
        };
        // Bools that come from others are looked at on the host.
        known && about.dtype != Dtype::Bool && is_large(what, about, self.members.len())
    }

    /// An operation whose processes have met, with arrays where they are on the GPU.
    fn on_gpu(&self, state: &mut State, what: Exchange, about: Subject, at: Addresses) -> Outcome {
        self.gpu.enter()?;
        let (elements, bytes, count) = (about.elements(), about.bytes(), self.members.len());
        let (nccl, comm) = (self.nccl, state.comm);
        let (from, to) = (at.input, at.output);
        let reduction = |how| native(how, about.dtype).ok_or("no reduction of NCCL's");
        let (kind, op, each) = match what {
            Exchange::Reduce(how) => reduction(how)?,
            Exchange::SumScatter => reduction(Reduction::Sum)?,
            Exchange::Gather | Exchange::Send(_) | Exchange::Recv(_) => (BYTES, 0, 1),
        };
        let job = state.staging.run(move |stream| {
            let comm = comm.get();
            // SAFETY: memory of the GPU that holds the elements of this process, or of all, until the event came.
            let code = unsafe {
                match what {
                    Exchange::Reduce(_) => {
                        (nccl.all_reduce)(from, to, elements * each, kind, op, comm, stream)
                    }
                    Exchange::SumScatter => {
                        (nccl.reduce_scatter)(from, to, elements / count * each, kind, op, comm, stream)
                    }
                    Exchange::Gather => (nccl.all_gather)(from, to, bytes, kind, comm, stream),
                    Exchange::Send(other) => (nccl.send)(from, bytes, kind, other as c_int, comm, stream),
                    Exchange::Recv(other) => (nccl.recv)(to, bytes, kind, other as c_int, comm, stream),
                }
            };
            nccl.check("a call", code)
        });
        let pending = state.worker.begin(job);
        let done = watch(&self.post, (self.id, &self.members), "a call", |_| pending.look())
            .and_then(|()| self.arrived(state, 0));
        if done.is_err() {
            // NCCL may still write there.
            std::mem::forget(at.kept);
        }
        done
    }

    fn formed(&self, state: &mut State, color: i64, chosen: &[usize], me: usize) -> Outcome<Arc<dyn Group>> {
        state.splits += 1;
        let id = child(self.id, state.splits, color);
        if chosen.len() == 1 {
            return Ok(Arc::new(Alone));
        }
        let global = chosen.iter().map(|&r| self.members[r]).collect();
        let on = On { nccl: self.nccl, gpu: self.gpu };
        Ok(Arc::new(Communicator::form(self.post.clone(), on, id, global, me)?))
    }
}

/// The group of all processes, whose connection to the hub stands.
pub fn world(post: Post, on: On, rank: usize, size: usize) -> Outcome<Arc<dyn Group>> {
    Ok(Arc::new(Communicator::form(Arc::new(post), on, 0, (0..size).collect(), rank)?))
}

impl Group for Communicator {
    fn backend(&self) -> &'static str {
        "nccl"
    }

    fn rank(&self) -> usize {
        self.me
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    /// One of its own, so that what computes goes on meanwhile.
    fn stream(&self, _: Stream) -> Stream {
        own_stream()
    }

    fn split(&self, color: i64, key: i64) -> Result<Arc<dyn Group>> {
        let (chosen, me) = divide(self, color, key, |about, own, all| {
            self.together("split", about, |state| self.gather(state, own, all))
        })?;
        self.operate("split", |state| self.formed(state, color, &chosen, me))
    }

    /// Large arrays stay on the GPU where those of all processes are there.
    fn exchange(&self, what: Exchange, about: Subject, ends: &mut dyn Ends) -> Result<()> {
        let lent = if self.stays(what, about) { ends.on_gpu()? } else { None };
        let at = lent.as_ref().and_then(|lent| addresses(self.gpu, lent));
        let name = what.operation();
        let message = match what {
            Exchange::Send(to) => Some((to, true)),
            Exchange::Recv(from) => Some((from, false)),
            Exchange::Reduce(_) | Exchange::Gather | Exchange::SumScatter => None,
        };
        let stays = self.operate(name, |state| {
            if state.board.is_some() && self.is_small(what, about) {
                return self.on_board(state, what, about, ends).map(|()| false);
            }
            let all = match message {
                Some(other) => self.meet_one(state, about, other, at.is_some())?,
                None => self.meet(state, name, about, at.is_some(), &[])?,
            };
            match at.filter(|_| all) {
                Some(at) => self.on_gpu(state, what, about, at).map(|()| true),
                None => self.on_host(state, what, about, ends).map(|()| false),
            }
        })?;
        if let Some(lent) = lent.filter(|_| stays) {
            ends.stay(lent.output);
        }
        Ok(())
    }

    #[cfg(all(feature = "vulkan", target_os = "linux"))]
    fn carrier(&self, on: Stream, what: Exchange, about: Subject) -> Option<&dyn Carrier> {
        let bridge = self.bridge.as_deref().filter(|_| on.device == crate::core::Device::GPU)?;
        bridge::carries(what, about, self.members.len()).then_some(bridge)
    }

    fn leave(&self) {
        self.post.leave();
    }
}

/// Handles that are being given back, on threads of their groups.
static DESTROYING: AtomicUsize = AtomicUsize::new(0);
/// The process ends: nothing is given back any more.
static ENDING: AtomicBool = AtomicBool::new(false);
/// How long the end of the process waits for what is being given back: NCCL crashes where it is amid that then.
const LAST: Duration = Duration::from_secs(2);

/// No handle is given back from now on; waits a while for those that are. For the end of the process.
pub fn end() {
    ENDING.store(true, Ordering::SeqCst);
    let begin = Instant::now();
    while is_destroying() && begin.elapsed() < LAST {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a handle is being given back.
pub fn is_destroying() -> bool {
    DESTROYING.load(Ordering::SeqCst) > 0
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // Engines may still write there.
        #[cfg(all(feature = "vulkan", target_os = "linux"))]
        if let Some(bridge) = self.bridge.take_if(|b| !b.settled()) {
            std::mem::forget(bridge);
        }
        let state = lock(&self.state);
        DESTROYING.fetch_add(1, Ordering::SeqCst);
        if ENDING.load(Ordering::SeqCst) || state.standing.check("").is_err() {
            DESTROYING.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let (destroy, comm) = (self.nccl.comm_destroy, state.comm);
        // It may wait for the other processes.
        drop(state.worker.begin(move || {
            // SAFETY: nothing is under way, and nobody has the handle any more.
            let code = unsafe { destroy(comm.get()) };
            DESTROYING.fetch_sub(1, Ordering::SeqCst);
            Ok(code)
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_of_another_meaning_are_not_of_nccl() {
        assert_eq!(native(Reduction::Sum, Dtype::Bool), Some((1, 2, 1)));
        assert_eq!(native(Reduction::Sum, Dtype::C64), Some((7, 0, 2)));
        assert_eq!(native(Reduction::Max, Dtype::F32), None);
        assert_eq!(native(Reduction::Sum, Dtype::I16), None);
        assert_eq!(native(Reduction::Min, Dtype::U64), Some((5, 3, 1)));
    }
}

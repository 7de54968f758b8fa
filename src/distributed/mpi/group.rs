//! Groups over MPI's communicators. Before data moves, all tell each other what they are about, by messages: who is
//! silent is known by name. Large arrays go in parts, as counts are 32-bit integers.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::library::{Buffer, Functions, Handle, Mpi};
use crate::bail;
use crate::core::{Error, Result, Stream, env};
use crate::distributed::header::{HEADER, Header};
use crate::distributed::{
    Alone, Ends, Exchange, Group, OnHost, Outcome, Reduction, Standing, Subject, divide, exchange_on_host,
    lock, own_stream, pieces, portion, timeout,
};

/// Most bytes that one call moves to or from one process, where the environment says nothing.
const MOST: usize = 1 << 28;

/// What messages between two processes are marked with.
const TOGETHER: c_int = 0;
const HEADERS: c_int = 1;
const DATA: c_int = 2;

/// A group over MPI.
struct Communicator {
    mpi: &'static Mpi,
    comm: Handle,
    rank: usize,
    size: usize,
    /// Held by the operation that runs.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    operations: u64,
    standing: Standing,
}

/// The group of all processes that mpirun started.
pub fn world(mpi: &'static Mpi) -> Result<Arc<dyn Group>> {
    mpi.ensure()?;
    let failed = |why: String| Error::Runtime(format!("[mpi] {why}"));
    // Not freed before it is filled.
    let comm: &'static mut Handle = Box::leak(Box::new(0));
    let at = std::ptr::from_mut(comm);
    // SAFETY: the communicator of all, which stays as it is for other users of MPI, and a place for its copy.
    let start = mpi.start(|call, request| unsafe { (call.duplicate)(mpi.world, at, request) });
    let open = start.and_then(|request| finish(mpi, &mut [request], timeout())).map_err(failed)?;
    if !open.is_empty() {
        let why = format!("not all processes asked for a group within {} s", timeout().as_secs_f64());
        mpi.give_up(&why);
        return Err(failed(why));
    }
    // SAFETY: filled by now, and nobody else has it.
    let group = Communicator::new(mpi, unsafe { at.read() }).map_err(failed)?;
    let said = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].into_iter().find_map(env::foreign_number);
    if let Some(said) = said.filter(|&n| n != group.size as u64) {
        bail!(
            Runtime,
            "[mpi] mpirun started {said} processes, and {} finds {}: it is another MPI's. Name the right library with \
             MLX_MPI_LIBNAME.",
            mpi.name(),
            group.size
        );
    }
    Ok(if group.size == 1 { Arc::new(Alone) } else { Arc::new(group) })
}

/// Looks after requests until all are done; the indices of those that are not when the time is over.
fn finish(mpi: &Mpi, requests: &mut [Handle], timeout: Duration) -> Outcome<Vec<usize>> {
    let begin = Instant::now();
    let mut open: Vec<usize> = (0..requests.len()).collect();
    for look in 0u64.. {
        let mut failure = None;
        open.retain(|&i| match mpi.done(&mut requests[i]) {
            Ok(done) => !done,
            Err(why) => failure.replace(why).is_none(),
        });
        if let Some(why) = failure {
            return Err(why);
        }
        if open.is_empty() || begin.elapsed() > timeout {
            break;
        }
        if look > 100 {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    Ok(open)
}

impl Communicator {
    fn new(mpi: &'static Mpi, comm: Handle) -> Outcome<Communicator> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: a communicator of the library, places for results.
        mpi.call(|call| unsafe { (call.set_errhandler)(comm, mpi.errors_return) })?;
        // SAFETY: as above.
        mpi.call(|call| unsafe { (call.rank)(comm, &mut rank) })?;
        // SAFETY: as above.
        mpi.call(|call| unsafe { (call.size)(comm, &mut size) })?;
        let (rank, size, state) = (rank as usize, size as usize, Mutex::default());
        Ok(Communicator { mpi, comm, rank, size, state })
    }

    /// Runs an operation; a failure ends the group.
    fn operate<T>(&self, name: &str, f: impl FnOnce(&mut State) -> Outcome<T>) -> Result<T> {
        let mut state = lock(&self.state);
        state.standing.check(name)?;
        f(&mut state).map_err(|why| {
            self.abort(&why);
            state.standing.fail(name, why)
        })
    }

    /// Tells all others, whatever they wait for, that this process takes no part any more; as far as MPI still works.
    fn abort(&self, why: &str) {
        let block: &'static mut [u8; HEADER] = Box::leak(Box::new(Header::abort(why).block()));
        let at: Buffer = block.as_mut_ptr().cast();
        let send = |r: usize, tag| {
            self.mpi.start(|call, request| {
                // SAFETY: a block that is never freed.
                unsafe {
                    (call.send)(at, HEADER as c_int, self.mpi.byte, r as c_int, tag, self.comm, request)
                }
            })
        };
        let others = (0..self.size).filter(|&r| r != self.rank);
        let mut requests: Vec<Handle> =
            others.flat_map(|r| [send(r, TOGETHER), send(r, HEADERS)]).filter_map(Outcome::ok).collect();
        // They are small: MPI takes them at once.
        let _ = finish(self.mpi, &mut requests, Duration::from_millis(100));
    }

    /// The time is over: MPI may still write to what it was given, so it is not called any more.
    fn silent(&self, from: &str) -> String {
        let why = format!("nothing came from {from} within {} s", timeout().as_secs_f64());
        self.mpi.give_up(&why);
        why
    }

    /// Runs one operation of MPI to its end.
    fn complete(&self, from: &str, f: impl FnOnce(&Functions, *mut Handle) -> c_int) -> Outcome {
        let mut request = [self.mpi.start(f)?];
        match finish(self.mpi, &mut request, timeout())?.is_empty() {
            true => Ok(()),
            false => Err(self.silent(from)),
        }
    }

    /// Tells all others what this process does, and hears the same from each.
    fn agree(&self, own: &Header) -> Outcome {
        let (mpi, size) = (self.mpi, self.size);
        let others = || (0..size).filter(|&r| r != self.rank);
        // Not freed where a message is still on its way: MPI knows the addresses.
        let mut blocks = ManuallyDrop::new(vec![0u8; HEADER * (size + 1)]);
        blocks[HEADER * size..].copy_from_slice(&own.block());
        let at = blocks.as_mut_ptr();
        let mut requests = Vec::new();
        for sends in [false, true] {
            for r in others() {
                requests.push(mpi.start(|call, request| {
                    let f = if sends { call.send } else { call.recv };
                    let block = at.wrapping_add(HEADER * if sends { size } else { r });
                    // SAFETY: a block of this operation: one for each other process, and the own one.
                    unsafe {
                        f(block.cast(), HEADER as c_int, mpi.byte, r as c_int, TOGETHER, self.comm, request)
                    }
                })?);
            }
        }
        let open = finish(mpi, &mut requests, timeout())?;
        if let Some(&i) = open.first() {
            let silent = others().nth(i % (size - 1)).unwrap_or_default();
            return Err(self.silent(&format!("rank {silent}")));
        }
        let blocks = ManuallyDrop::into_inner(blocks);
        others()
            .try_for_each(|r| own.agrees(self.rank, &Header::received(&blocks[HEADER * r..][..HEADER]), r))
    }

    /// What all processes do together.
    fn together(&self, name: &str, about: Subject, f: impl FnOnce() -> Outcome) -> Result<()> {
        self.operate(name, |state| {
            let header = Header::new(state.operations, name, about);
            state.operations += 1;
            self.agree(&header)?;
            f()
        })
    }

    fn gather(&self, input: &[u8], output: &mut [u8]) -> Outcome {
        let n = input.len();
        let mut gathered = Vec::new();
        for range in pieces(n, portion(MOST) / self.size) {
            let (start, part) = (range.start, &input[range]);
            let whole = part.len() == n;
            gathered.resize(if whole { 0 } else { part.len() * self.size }, 0);
            let into = if whole { &mut output[..] } else { &mut gathered[..] };
            let (from, to, count) = (part.as_ptr() as Buffer, into.as_mut_ptr().cast(), part.len() as c_int);
            let byte = self.mpi.byte;
            self.complete("another rank", |call, request| {
                // SAFETY: the output holds a part of every process; both live until the request is done, or MPI is
                // left alone.
                unsafe { (call.allgather)(from, count, byte, to, count, byte, self.comm, request) }
            })?;
            for (rank, block) in gathered.chunks(part.len()).enumerate() {
                output[rank * n + start..][..part.len()].copy_from_slice(block);
            }
        }
        Ok(())
    }

    /// Sends or receives the bytes, in parts.
    fn message(&self, other: usize, tag: c_int, sends: bool, data: *mut u8, bytes: usize) -> Outcome {
        for part in pieces(bytes, portion(MOST)) {
            let count = part.len() as c_int;
            self.complete(&format!("rank {other}"), |call, request| {
                let f = if sends { call.send } else { call.recv };
                let (at, byte) = (data.wrapping_add(part.start).cast(), self.mpi.byte);
                // SAFETY: as in `gather`; MPI only reads what it sends.
                unsafe { f(at, count, byte, other as c_int, tag, self.comm, request) }
            })?;
        }
        Ok(())
    }
}

impl Group for Communicator {
    fn backend(&self) -> &'static str {
        "mpi"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    /// One of its own, so that what computes goes on meanwhile.
    fn stream(&self, _: Stream) -> Stream {
        own_stream()
    }

    fn split(&self, color: i64, key: i64) -> Result<Arc<dyn Group>> {
        let (chosen, me) = divide(self, color, key, |about, own, all| {
            self.together("split", about, || self.gather(own, all))
        })?;
        let mut comm = 0;
        self.operate("split", |_| {
            let first = chosen.iter().min().copied().unwrap_or(0) as c_int;
            // SAFETY: this group's communicator, a place for the new one; all have come this far.
            self.mpi.call(|call| unsafe { (call.split)(self.comm, first, me as c_int, &mut comm) })?;
            let group = Communicator::new(self.mpi, comm)?;
            Ok(if group.size == 1 { Arc::new(Alone) as Arc<dyn Group> } else { Arc::new(group) })
        })
    }

    fn exchange(&self, what: Exchange, about: Subject, ends: &mut dyn Ends) -> Result<()> {
        exchange_on_host(self, what, about, ends)
    }

    fn leave(&self) {
        self.mpi.end();
    }
}

impl OnHost for Communicator {
    fn all_reduce(&self, how: Reduction, about: Subject, data: &mut [u8]) -> Result<()> {
        let (kind, op) = (self.mpi.kind(about.dtype), self.mpi.op(how, about.dtype));
        self.together(how.operation(), about, || {
            pieces(data.len(), portion(MOST)).try_for_each(|range| {
                let part = &mut data[range];
                let count = (part.len() / about.dtype.size()) as c_int;
                let (from, into) = (self.mpi.in_place, part.as_mut_ptr().cast());
                self.complete("another rank", |call, request| {
                    // SAFETY: as in `gather`; the buffer holds so many elements.
                    unsafe { (call.allreduce)(from, into, count, kind, op, self.comm, request) }
                })
            })
        })
    }

    fn all_gather(&self, about: Subject, input: &[u8], output: &mut [u8]) -> Result<()> {
        self.together("all_gather", about, || self.gather(input, output))
    }

    fn sum_scatter(&self, about: Subject, data: &mut [u8], output: &mut [u8]) -> Result<()> {
        let (kind, op) = (self.mpi.kind(about.dtype), self.mpi.op(Reduction::Sum, about.dtype));
        let n = output.len();
        self.together("sum_scatter", about, || {
            let mut blocks = Vec::new();
            for range in pieces(n, portion(MOST) / self.size) {
                let (start, part) = (range.start, &mut output[range]);
                blocks.clear();
                if part.len() < n {
                    data.chunks(n).for_each(|block| blocks.extend(&block[start..][..part.len()]));
                }
                let from = if part.len() < n { blocks.as_mut_ptr() } else { data.as_mut_ptr() };
                let (count, into) = ((part.len() / about.dtype.size()) as c_int, part.as_mut_ptr().cast());
                self.complete("another rank", |call, request| {
                    // SAFETY: as in `gather`; the input holds so many elements for each process.
                    unsafe { (call.reduce_scatter)(from.cast(), into, count, kind, op, self.comm, request) }
                })?;
            }
            Ok(())
        })
    }

    fn send(&self, about: Subject, data: &[u8], to: usize) -> Result<()> {
        self.operate("send", |_| {
            // Not freed where it is still on its way.
            let mut header = ManuallyDrop::new(Header::new(0, "send", about).block().to_vec());
            self.message(to, HEADERS, true, header.as_mut_ptr(), HEADER)?;
            drop(ManuallyDrop::into_inner(header));
            self.message(to, DATA, true, data.as_ptr().cast_mut(), data.len())
        })
    }

    fn recv(&self, about: Subject, data: &mut [u8], from: usize) -> Result<()> {
        self.operate("recv", |_| {
            let mut header = ManuallyDrop::new(vec![0; HEADER]);
            self.message(from, HEADERS, false, header.as_mut_ptr(), HEADER)?;
            let header = ManuallyDrop::into_inner(header);
            Header::new(0, "recv", about).agrees(self.rank, &Header::received(&header), from)?;
            self.message(from, DATA, false, data.as_mut_ptr(), data.len())
        })
    }
}

//! Groups of processes and the backends that connect them. Everything here works on bytes of host memory in row-major
//! order and knows nothing of graphs: `ops::distributed` calls it from a CPU stream's worker, and blocks there until the
//! others have done their part or the time is over. Backends are opened at run time.

#[cfg(unix)]
mod board;
mod header;
mod mpi;
mod nccl;
mod reduce;
mod ring;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::bail;
use crate::core::device::new_stream;
use crate::core::env::{Values, Variable};
use crate::core::event::{check_interrupt, look_long_at};
use crate::core::{Device, Dtype, Error, Result, Storage, Stream, default_stream};
#[cfg(all(feature = "vulkan", target_os = "linux"))]
use crate::kernels::DeviceView;
#[cfg(all(feature = "vulkan", target_os = "linux"))]
use crate::vulkan::CommandEncoder;

pub static TIMEOUT: Variable = Variable::new(
    "MLX_DISTRIBUTED_TIMEOUT",
    "300",
    Values::Number(1, 1_000_000),
    "Seconds that other processes may take to connect, and that nothing may come from them, before an operation \
         of a group fails",
);

static CHUNK: Variable = Variable::new(
    "MLX_DISTRIBUTED_CHUNK",
    "256 MiB over MPI, 32 MiB over NCCL",
    Values::Number(4096, 1 << 30),
    "Bytes that MPI or NCCL moves at once; larger arrays go in several parts",
);

#[cfg_attr(not(unix), allow(dead_code))]
static SHARED_MEMORY: Variable = Variable::new(
    "MLX_DISTRIBUTED_SHARED_MEMORY",
    "1",
    Values::SWITCH,
    "0: processes of one machine share no memory; over NCCL they meet by TCP, and small arrays go through NCCL too",
);

/// What the environment says to groups.
pub const VARIABLES: &[&Variable] = &[
    &ring::RANK,
    &ring::HOSTFILE,
    &ring::VERBOSE,
    &ring::SECRET,
    &mpi::LIBNAME,
    &nccl::WORLD_SIZE,
    &nccl::LIBNAME,
    &TIMEOUT,
    &CHUNK,
    &SHARED_MEMORY,
];

/// How elements of several processes become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    Sum,
    Max,
    Min,
}

impl Reduction {
    /// The operation that does it.
    fn operation(self) -> &'static str {
        match self {
            Reduction::Sum => "all_sum",
            Reduction::Max => "all_max",
            Reduction::Min => "all_min",
        }
    }
}

/// What an operation is about: every process of a group has to name the same.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Shape of the input.
    pub shape: &'a [i64],
    /// Element type.
    pub dtype: Dtype,
}

impl Subject<'_> {
    /// How many elements there are.
    #[cfg_attr(not(unix), allow(dead_code))]
    fn elements(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    /// How many bytes there are.
    #[cfg_attr(not(unix), allow(dead_code))]
    fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }
}

/// What a group does with an array.
#[derive(Clone, Copy, PartialEq)]
pub enum Exchange {
    Reduce(Reduction),
    Gather,
    SumScatter,
    /// To a process.
    Send(usize),
    /// From a process.
    Recv(usize),
}

impl Exchange {
    /// The name of the operation.
    #[cfg_attr(not(unix), allow(dead_code))]
    fn operation(self) -> &'static str {
        match self {
            Exchange::Reduce(how) => how.operation(),
            Exchange::Gather => "all_gather",
            Exchange::SumScatter => "sum_scatter",
            Exchange::Send(_) => "send",
            Exchange::Recv(_) => "recv",
        }
    }
}

/// Where the bytes of an exchange are, row-major.
pub trait Ends {
    /// Memory of a GPU, if the exchange was asked for there and the input is there: what was recorded for the input is
    /// done.
    fn on_gpu(&mut self) -> Result<Option<OnGpu>>;

    /// The bytes of the input, and where the output goes. Both on the host, and the output takes its place there.
    fn on_host(&mut self) -> Result<(&[u8], &mut [u8])>;

    /// The output is in the memory that `on_gpu` gave.
    fn stay(&mut self, output: Arc<Storage>);
}

/// Memory of a GPU: the input, from a byte on, and the output.
pub struct OnGpu {
    pub input: Option<(Arc<Storage>, usize)>,
    pub output: Arc<Storage>,
}

/// A group of processes. Operations of one group run one after the other, in the same order on every process.
///
/// # Errors
/// All of them: a runtime error that names the process and what was expected of it. After that the group cannot be
/// used any more; the process can.
pub trait Group: Send + Sync {
    /// Name of the backend.
    fn backend(&self) -> &'static str;

    /// The number of this process.
    fn rank(&self) -> usize;

    /// How many processes there are.
    fn size(&self) -> usize;

    /// The processes with the same color, ordered by key (a negative one: by their numbers here).
    fn split(&self, color: i64, key: i64) -> Result<Arc<dyn Group>>;

    /// An operation, on bytes wherever they are.
    fn exchange(&self, what: Exchange, about: Subject, ends: &mut dyn Ends) -> Result<()>;

    /// The CPU stream that operations of a call on `stream` run on.
    fn stream(&self, stream: Stream) -> Stream {
        if stream.device.is_gpu() { default_stream(Device::CPU) } else { stream }
    }

    /// What makes such an exchange of arrays of a GPU commands of its stream, if there is that; every process comes to the
    /// same.
    #[cfg(all(feature = "vulkan", target_os = "linux"))]
    fn carrier(&self, _on: Stream, _what: Exchange, _about: Subject) -> Option<&dyn Carrier> {
        None
    }

    /// This process will ask for nothing more: what the others see of its end is no failure.
    fn leave(&self) {}
}

/// Exchanges as commands of a GPU's stream.
#[cfg(all(feature = "vulkan", target_os = "linux"))]
pub trait Carrier: Send + Sync {
    /// Records an exchange of row-major arrays, the input and the output.
    ///
    /// # Errors
    /// As for a group's other operations; of other processes it is told when the stream is waited for.
    fn record(
        &self,
        enc: &mut CommandEncoder,
        what: Exchange,
        about: Subject,
        arrays: (&DeviceView, &DeviceView),
    ) -> Result<()>;
}

/// Operations of a group whose bytes are always on the host.
trait OnHost {
    /// Reduces `data` over all processes, in place.
    fn all_reduce(&self, how: Reduction, about: Subject, data: &mut [u8]) -> Result<()>;

    /// The inputs of all processes, one after the other.
    fn all_gather(&self, about: Subject, input: &[u8], output: &mut [u8]) -> Result<()>;

    /// Sums `data` over all processes; this one gets its part. `data` is scratch afterwards.
    fn sum_scatter(&self, about: Subject, data: &mut [u8], output: &mut [u8]) -> Result<()>;

    /// Sends to a process, which receives.
    fn send(&self, about: Subject, data: &[u8], to: usize) -> Result<()>;

    /// Receives what a process sends.
    fn recv(&self, about: Subject, data: &mut [u8], from: usize) -> Result<()>;
}

/// An operation of a group that knows no GPU's memory.
fn exchange_on_host(group: &impl OnHost, what: Exchange, about: Subject, ends: &mut dyn Ends) -> Result<()> {
    let (input, output) = ends.on_host()?;
    match what {
        Exchange::Reduce(how) => {
            output.copy_from_slice(input);
            group.all_reduce(how, about, output)
        }
        Exchange::Gather => group.all_gather(about, input, output),
        Exchange::SumScatter => group.sum_scatter(about, &mut input.to_vec(), output),
        Exchange::Send(to) => {
            output.copy_from_slice(input);
            group.send(about, output, to)
        }
        Exchange::Recv(from) => group.recv(about, output, from),
    }
}

/// This process alone.
pub struct Alone;

impl Group for Alone {
    fn backend(&self) -> &'static str {
        "alone"
    }

    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn split(&self, _: i64, _: i64) -> Result<Arc<dyn Group>> {
        bail!(Runtime, "[split] Cannot split the distributed group further.")
    }

    fn exchange(&self, what: Exchange, _: Subject, ends: &mut dyn Ends) -> Result<()> {
        match what {
            Exchange::Send(_) => bail!(Value, "[send] Cannot send to a singleton group"),
            Exchange::Recv(_) => bail!(Value, "[recv] Cannot recv from a singleton group"),
            Exchange::Reduce(_) | Exchange::Gather | Exchange::SumScatter => {
                let (input, output) = ends.on_host()?;
                output.copy_from_slice(input);
                Ok(())
            }
        }
    }
}

/// A backend: its name, whether it could be used here, and the group of all processes that the environment names.
/// That is `None` where the environment names none and the caller does not insist.
struct Backend {
    name: &'static str,
    available: fn() -> bool,
    init: fn(strict: bool) -> Result<Option<Arc<dyn Group>>>,
}

/// In the order in which `any` tries them.
const BACKENDS: [Backend; 4] = [
    Backend { name: "nccl", available: nccl::is_available, init: nccl::init },
    Backend { name: "ring", available: || true, init: ring::init },
    Backend { name: "jaccl", available: || false, init: |strict| missing("jaccl", strict) },
    Backend { name: "mpi", available: mpi::is_available, init: mpi::init },
];

fn missing(name: &str, strict: bool) -> Result<Option<Arc<dyn Group>>> {
    if strict {
        bail!(Runtime, "Cannot initialize {name} distributed backend.");
    }
    Ok(None)
}

/// Groups that exist: by the name they were asked for with.
static GROUPS: Mutex<Vec<(&'static str, Arc<dyn Group>)>> = Mutex::new(Vec::new());

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a backend can be used here; `any` stands for any of them.
pub fn is_available(name: &str) -> bool {
    BACKENDS.iter().any(|b| (name == "any" || b.name == name) && (b.available)())
}

/// The group of all processes; this process alone where nothing names others.
///
/// # Errors
/// Value error for an unknown backend. Runtime error where `strict` asks for more than one process and there are
/// none, and where the others cannot be reached.
pub fn init(strict: bool, name: &str) -> Result<Arc<dyn Group>> {
    if name != "any" && BACKENDS.iter().all(|b| b.name != name) {
        bail!(
            Value,
            "[distributed] The only valid values for backend are 'any', 'mpi', 'nccl', 'jaccl' and 'ring' but \
             '{name}' was provided."
        );
    }
    let mut groups = lock(&GROUPS);
    if let Some((_, group)) = groups.iter().find(|(n, _)| *n == name || name == "any") {
        return Ok(group.clone());
    }
    for backend in BACKENDS.iter().filter(|b| name == "any" || b.name == name) {
        if let Some(group) = (backend.init)(strict && name != "any")? {
            groups.push((backend.name, group.clone()));
            return Ok(group);
        }
    }
    if strict {
        bail!(Runtime, "[distributed] Couldn't initialize any backend");
    }
    Ok(Arc::new(Alone))
}

/// The group of operations that name none.
pub fn default_group() -> Result<Arc<dyn Group>> {
    init(false, "any")
}

/// The process ends. After a failure groups are told nothing: others, and mpirun, take its end for what it is.
pub fn leave(failed: bool) {
    // A thread that waits for others to come up holds the lock: there is nobody to tell yet.
    if !failed && let Ok(groups) = GROUPS.try_lock() {
        groups.iter().for_each(|(_, g)| g.leave());
    }
    nccl::end();
}

/// Whether threads are within a library under which the process must not end.
pub fn is_busy() -> bool {
    nccl::is_busy()
}

/// How long others may take to do anything.
fn timeout() -> Duration {
    Duration::from_secs(TIMEOUT.count())
}

/// Folders of packages, where libraries may lie that the system does not know; told before the first group.
pub static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// What went wrong, for people.
type Outcome<T = ()> = std::result::Result<T, String>;

/// What ends as a keyboard interrupt.
const INTERRUPTED: &str = "interrupted";

/// Fails where a signal wants the caller to stop.
fn interrupted() -> Outcome {
    check_interrupt().map_err(|_| INTERRUPTED.into())
}

/// The error of a backend that could not connect.
fn unconnected(backend: &str, what: &str, why: String) -> Error {
    match why == INTERRUPTED {
        true => Error::Interrupted,
        false => Error::Runtime(format!("[{backend}] Cannot form the {what}: {why}")),
    }
}

/// Ranges of so many bytes, multiples of 8 but for the last, of which each has at most as many.
#[cfg_attr(not(unix), allow(dead_code))]
fn pieces(bytes: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let most = (most / 8 * 8).max(8);
    (0..bytes).step_by(most).map(move |a| a..bytes.min(a + most))
}

/// Most bytes that one call of a library moves: what the environment says, or what is good for the library.
#[cfg_attr(not(unix), allow(dead_code))]
fn portion(good: usize) -> usize {
    CHUNK.number().map_or(good, |n| n as usize)
}

/// A CPU stream that nothing else runs on, so that what computes goes on meanwhile.
#[cfg_attr(not(unix), allow(dead_code))]
fn own_stream() -> Stream {
    static OWN: OnceLock<Stream> = OnceLock::new();
    *OWN.get_or_init(|| {
        let stream = new_stream(Device::CPU);
        // Looking takes a processor that others may need.
        if std::thread::available_parallelism().is_ok_and(|n| n.get() >= 4) {
            look_long_at(stream);
        }
        stream
    })
}

/// Whether a group still works, and why not.
#[derive(Default)]
struct Standing(Option<String>);

impl Standing {
    /// Fails where the group failed before.
    fn check(&self, name: &str) -> Result<()> {
        match &self.0 {
            Some(why) => {
                bail!(Runtime, "[{name}] The group cannot be used any more since it failed: {why}")
            }
            None => Ok(()),
        }
    }

    /// The group has failed.
    fn fail(&mut self, name: &str, why: String) -> Error {
        let told = Error::Runtime(format!("[{name}] The group failed: {why}"));
        self.0 = Some(why);
        told
    }
}

/// The number of the group of a color that a group is split into, the same for all that are in it and not zero.
fn child(group: u64, splits: u64, color: i64) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&group.to_le_bytes()).update(&splits.to_le_bytes());
    hasher.update(&color.to_le_bytes());
    hasher.finalize().as_bytes().first_chunk().map_or(1, |c| u64::from_le_bytes(*c).max(1))
}

/// The processes of the caller's color in the order that `split` gives them, and its place among them. `gather` hands the
/// bytes of each process to all.
fn divide(
    group: &dyn Group,
    color: i64,
    key: i64,
    gather: impl FnOnce(Subject, &[u8], &mut [u8]) -> Result<()>,
) -> Result<(Vec<usize>, usize)> {
    let mut own = color.to_le_bytes().to_vec();
    own.extend(key.to_le_bytes());
    let mut all = vec![0; 16 * group.size()];
    gather(Subject { shape: &[2], dtype: Dtype::I64 }, &own, &mut all)?;
    let number = |b: &[u8]| b.first_chunk().map_or(0, |c| i64::from_le_bytes(*c));
    let all: Vec<(i64, i64)> = all.chunks(16).map(|c| (number(c), number(&c[8..]))).collect();
    let chosen = members(&all, color);
    // INVARIANT: this process has its own color.
    let me = chosen.iter().position(|&r| r == group.rank()).unwrap_or(0);
    Ok((chosen, me))
}

/// Numbers of the processes of one color in the order that `split` gives them, from the (color, key) of all.
fn members(all: &[(i64, i64)], color: i64) -> Vec<usize> {
    let mut list: Vec<usize> = (0..all.len()).filter(|&r| all[r].0 == color).collect();
    list.sort_by_key(|&r| if all[r].1 < 0 { (r as i64, r) } else { (all[r].1, r) });
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_all_bytes_in_whole_elements() {
        for (bytes, most) in [(0, 8), (1, 8), (100, 24), (1000, 4099), (64, 1)] {
            let all: Vec<_> = pieces(bytes, most).collect();
            assert_eq!(all.iter().map(ExactSizeIterator::len).sum::<usize>(), bytes);
            assert!(all.windows(2).all(|w| w[0].end == w[1].start && w[0].len() % 8 == 0));
        }
    }

    #[test]
    fn members_are_ordered_by_key_and_then_by_number() {
        let all = [(0, 5), (1, 0), (0, 2), (1, 0), (0, 2)];
        assert_eq!(members(&all, 0), [2, 4, 0]);
        assert_eq!(members(&all, 1), [1, 3]);
        assert_eq!(members(&[(7, -1); 3], 7), [0, 1, 2]);
    }
}

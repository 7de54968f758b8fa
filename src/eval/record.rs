//! Recording: steps in order, each on the encoder of its GPU stream or in a batch of its CPU stream, those that one kernel
//! computes together. The calling thread does it, or for large graphs of `async_eval` the recorder, behind the caller,
//! which only walks the graph then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::tasks::{Pending, Task, restore};
use super::walk::Walk;
use crate::core::Placeholders;
use crate::core::array::{Inputs, Node, drop_iteratively};
use crate::core::env::{Values, Variable};
use crate::core::event::{Spin, interrupts};
use crate::core::fork::Made;
use crate::core::husks;
use crate::core::{Array, Error, Event, Result, Stream, failure, panics, trace};
use crate::cpu::runtime::worker::{self, LONG_SPIN, Lane};
use crate::fusion::{self, Join, Members, Plan, Role};
use crate::graph::levels::{self, Step};

pub static RECORDER: Variable = Variable::new(
    "MLX_VK_RECORDER",
    "by device",
    Values::SWITCH,
    "Whether a thread of its own records large graphs of `async_eval` while the caller goes on. Without the \
         variable it does so on hosts of four processors or more, for GPUs that are not software",
);

/// Fewest steps that the recorder takes: handing over costs some microseconds.
const WORTH_APART: usize = 48;

/// Recordings that may be under way or wait at once.
const AHEAD: u64 = 2;

/// Steps between two looks at the clock.
const STRIDE: usize = 1024;

static RECORDINGS: AtomicU64 = AtomicU64::new(0);

/// How many graphs the recorder was handed since the process started.
pub fn recordings() -> u64 {
    RECORDINGS.load(Ordering::Relaxed)
}

/// What profiles tell about a node.
fn operation(output: &Array, node: &Node) -> trace::Op {
    let (dtype, shape) = (output.dtype(), output.shape().into());
    trace::Op { name: node.primitive.name().to_string(), dtype, shape }
}

/// Runs steps that are joined. Arrays in between keep their nodes: whoever might ask for them computes them then.
fn joined(
    join: &Join,
    steps: &mut [Option<Step>],
    pending: &mut Pending,
    gpu: &mut Vec<Stream>,
) -> Result<()> {
    let mut members = Members::take(join, steps);
    let Some(stream) = members.all.first().map(|m| m.node.stream) else { return Ok(()) };
    if !gpu.contains(&stream) {
        gpu.push(stream);
    }
    if let Err(e) = members.all.iter().try_for_each(|m| pending.finish(&m.node.inputs)) {
        members.all.iter().for_each(|m| restore(&m.node, &m.array.outputs_of(&m.node)));
        return Err(e);
    }
    let mut outputs: SmallVec<[Array; 3]> = SmallVec::new();
    // Inputs of a node that others hold are not overwritten.
    let mut held: SmallVec<[Inputs; 3]> = SmallVec::new();
    for &r in &join.results {
        let m = members.at(r);
        m.array.begin(None);
        outputs.push(m.array.clone());
        if Arc::get_mut(&mut m.node).is_none() {
            held.push(m.node.inputs.clone());
        }
    }
    trace::evaluating(|| outputs.first().map(|a| operation(a, &members[join.results[0]])));
    let result = panics::caught("eval", || join.run(stream, &members, &outputs));
    trace::evaluating(|| None);
    if result.is_err() {
        join.results
            .iter()
            .zip(&outputs)
            .for_each(|(&r, a)| restore(&members.at(r).node, std::slice::from_ref(a)));
    }
    drop((outputs, held));
    members.all.into_iter().for_each(|m| {
        husks::array(m.array);
        drop_iteratively(m.node);
    });
    result
}

/// Why recording ended early.
pub(super) struct Failure {
    error: Error,
    /// Where something could not be done; `None` where nothing could have been.
    stream: Option<Stream>,
}

impl From<Failure> for Error {
    fn from(f: Failure) -> Error {
        f.error
    }
}

impl Failure {
    /// Nothing was begun.
    fn early(error: Error) -> Failure {
        Failure { error, stream: None }
    }

    /// The caller is told of it, and of nothing else that failed on the stream before.
    pub fn told(&self) {
        if let (Some(stream), false) =
            (self.stream, matches!(self.error, Error::Interrupted | Error::Dropped))
        {
            drop(failure::take(stream));
        }
    }
}

/// The GPU streams that got work.
pub(super) type Recorded = std::result::Result<Vec<Stream>, Failure>;

/// Submits what was recorded. What failed on a stream is told to who waits for it, whoever recorded it.
pub(super) fn submit_behind(recorded: Recorded) -> Result<()> {
    match recorded {
        Ok(gpu) => offer_gpu(&gpu),
        Err(Failure { error: e @ (Error::Interrupted | Error::Dropped), .. }) => Err(e),
        Err(Failure { error, stream: Some(stream) }) => {
            failure::note(stream, &error);
            Ok(())
        }
        Err(Failure { error, stream: None }) => Err(error),
    }
}

/// Orders and starts everything that `roots` need.
pub(super) fn schedule(roots: &[Array]) -> Recorded {
    let _span = trace::span("record", || format!("{} arrays", roots.len()));
    let mut walk = Walk::begin();
    walk.settle().map_err(Failure::early)?;
    husks::free();
    let steps = levels::steps(roots);
    record(steps, walk, None)
}

/// As [`schedule`] and [`offer_gpu`]; the recorder may do most of it, behind the caller.
pub(super) fn schedule_apart(roots: &[Array]) -> Result<()> {
    let mut walk = Walk::begin();
    if !Spin::at_atomic(LONG_SPIN).until(|| worker::pending(Lane::Recorder) < AHEAD) {
        walk.settle()?;
    }
    let steps = levels::steps(roots);
    let on = |s: &Step| s.node.as_ref().map(|n| n.stream).filter(|s| s.device.is_gpu());
    let stream = steps.first().and_then(on);
    if steps.len() < WORTH_APART
        || !stream.is_some_and(has_recorder)
        || !steps.iter().all(|s| on(s) == stream)
    {
        if worker::pending(Lane::Recorder) > 0 {
            drop((steps, walk));
            return submit_behind(schedule(roots));
        }
        return submit_behind(record(steps, walk, None));
    }
    // INVARIANT: the condition above.
    let stream = stream.expect("a stream with a recorder");
    let event = Arc::new(Event::new(stream, LONG_SPIN));
    for Step { array, node, .. } in &steps {
        match node {
            Some(node) if node.has_siblings() => {
                array.outputs_of(node).iter().for_each(|o| o.begin(Some(&event)));
            }
            _ => array.begin(Some(&event)),
        }
    }
    let queued = interrupts();
    RECORDINGS.fetch_add(1, Ordering::Relaxed);
    // The recorder finds what is joined, too, even where it is busy: whether caches are there, which joins ask, is known behind the graph
    // before only, so that the caller would wait for that. H200, Qwen3-30B-A3B, a token, in turn: 3,065 and 2,640 us by the caller, 2,383 and
    // 2,406 by the recorder.
    let run = move || {
        let (walk, own, _husks) = (Walk::recording(queued), event.clone(), husks::Collecting::begin());
        let _many = many_commands();
        event.set(panics::caught("eval", || offer_gpu(&record(steps, walk, Some(own))?)));
    };
    worker::submit(Lane::Recorder, Box::new(run));
    husks::free();
    Ok(())
}

/// What is joined of steps; arrays of those that were handed over wait for `own` already, but for those that a join leaves
/// out.
fn planned(steps: &[Step], own: Option<&Arc<Event>>) -> Plan {
    let plan = fusion::plan(steps, own);
    let left_out = steps.iter().enumerate().filter(|(i, _)| own.is_some() && plan.leaves_out(*i));
    let leave = |a: &Array, node: &Arc<Node>| {
        a.outputs_of(node).iter().for_each(|o| o.leave(node.clone()));
    };
    left_out.for_each(|(_, s)| s.node.iter().for_each(|node| leave(&s.array, node)));
    plan
}

/// Whether a recorder is used for a stream: it wants a processor of its own, and software drivers want all of them.
fn has_recorder(stream: Stream) -> bool {
    static SAID: Made<Option<bool>> = Made::new(|| {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        RECORDER.switch().or((processors < 4).then_some(false))
    });
    let said = *SAID;
    said.unwrap_or_else(|| !software(stream))
}

/// Of an array without values that no node makes.
fn cannot_be_made() -> Error {
    match Placeholders::exist() {
        false => Error::Runtime(
            "[eval] Attempting to eval an array without a primitive. If you are using compile or a \
             transform, make sure that all arrays are passed as inputs."
                .into(),
        ),
        true => Error::Value(
            "[eval] Attempting to eval an array during function transformations like compile or vmap is \
             not allowed."
                .into(),
        ),
    }
}

/// Asks for memory that the steps behind number `at` will look at: nodes and what they read, and behind those what tells where
/// the bytes are and what a device knows of them.
fn ask_behind(steps: &[Option<Step>], at: usize) {
    /// How many steps ahead: each kind of memory is found by the one before.
    const AHEAD: [usize; 2] = [8, 4];
    let ahead = |n: usize| steps.get(at + n).and_then(|s| s.as_ref());
    Step::ask_ahead(ahead);
    ahead(AHEAD[0]).into_iter().flat_map(Step::inputs).for_each(Array::ask_for_storage);
    ahead(AHEAD[1]).into_iter().flat_map(Step::inputs).for_each(Array::ask_for_block);
}

/// Records steps; `own` is their event, if they were handed over.
fn record(steps: Vec<Step>, walk: Walk, own: Option<Arc<Event>>) -> Recorded {
    let (apart, mut plan) = (own.is_some(), planned(&steps, own.as_ref()));
    let _recording = steps.iter().find_map(|s| s.node.as_ref()).map(|n| recording(n.stream));
    let mut pending = Pending { own, walk, batches: SmallVec::new() };
    let mut gpu: Vec<Stream> = Vec::new();
    let mut failure = None;
    let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    for i in 0..steps.len() {
        ask_behind(&steps, i);
        if (apart || i % STRIDE == STRIDE - 1)
            && pending.walk.is_breathless()
            && let Err(error) = pending.pause()
        {
            failure = Some(Failure::early(error));
            break;
        }
        match plan.role(i) {
            Role::Alone => {}
            Role::Member => continue,
            Role::Place(join) => {
                let stream = steps[i].as_ref().and_then(|s| s.node.as_ref()).map(|n| n.stream);
                let run = joined(&join, &mut steps, &mut pending, &mut gpu);
                match run.and_then(|()| pending.catch_up()) {
                    Ok(()) => continue,
                    Err(error) => {
                        failure = Some(Failure { error, stream });
                        break;
                    }
                }
            }
        }
        let Some(Step { array, node, .. }) = steps[i].take() else { continue };
        let Some(node) = node else {
            failure = Some(Failure { error: cannot_be_made(), stream: None });
            break;
        };
        let stream = node.stream;
        if !stream.device.is_gpu() {
            pending.close_others(stream, &node.inputs);
            pending.push(stream, array, node);
            continue;
        }
        if !gpu.contains(&stream) {
            gpu.push(stream);
        }
        let ready = pending.finish(&node.inputs).inspect_err(|_| restore(&node, &array.outputs_of(&node)));
        trace::evaluating(|| Some(operation(&array, &node)));
        let result = ready.and_then(|()| {
            Task::take(array, node, None).run(|node, inputs, outputs| {
                node.primitive.eval_gpu(stream, inputs, outputs).map_err(|e| e.of(node.primitive.name()))
            })
        });
        trace::evaluating(|| None);
        if let Err(error) = result.and_then(|()| pending.catch_up()) {
            failure = Some(Failure { error, stream: Some(stream) });
            break;
        }
    }
    pending.flush();
    match failure {
        Some(e) => {
            // What was recorded so far stays valid and is submitted, by whoever comes next where this one was told to stop.
            if !matches!(e.error, Error::Interrupted | Error::Dropped) {
                let _ = flush_gpu(&gpu);
            }
            // Those behind can be tried again with the one that failed.
            let behind = steps.into_iter().flatten().filter(|_| apart);
            behind.for_each(|s| s.node.into_iter().for_each(|n| restore(&n, &s.array.outputs_of(&n))));
            Err(e)
        }
        None => Ok(gpu),
    }
}

#[cfg(feature = "vulkan")]
pub(super) fn flush_gpu(streams: &[Stream]) -> Result<()> {
    streams.iter().try_for_each(|&s| crate::vulkan::flush(s))
}

/// Submits what was recorded; while a GPU has enough to do, a little later.
#[cfg(feature = "vulkan")]
pub(super) fn offer_gpu(streams: &[Stream]) -> Result<()> {
    streams.iter().try_for_each(|&s| crate::vulkan::offer(s))
}

#[cfg(feature = "vulkan")]
use crate::vulkan::{many_commands, recording};

#[cfg(not(feature = "vulkan"))]
fn many_commands() {}

#[cfg(not(feature = "vulkan"))]
fn recording(_: Stream) {}

#[cfg(not(feature = "vulkan"))]
pub(super) fn flush_gpu(_: &[Stream]) -> Result<()> {
    Ok(())
}

#[cfg(feature = "vulkan")]
fn software(stream: Stream) -> bool {
    crate::vulkan::software(stream)
}

#[cfg(not(feature = "vulkan"))]
fn software(_: Stream) -> bool {
    true
}

#[cfg(not(feature = "vulkan"))]
pub(super) fn offer_gpu(_: &[Stream]) -> Result<()> {
    Ok(())
}

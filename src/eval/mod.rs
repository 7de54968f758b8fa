//! Evaluation: orders the graph once, then records each node on its GPU stream's encoder or hands it to its CPU
//! stream's worker in batches. Nothing waits per op. Inputs whose last use this is reach the kernels unshared, so that
//! they can be overwritten. The calling thread records; a large graph of `async_eval` is recorded by a thread of its
//! own, while the caller builds what comes next. What is joined and in which order it runs is settled before that.

pub mod readback;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod walk;

pub use walk::{SCHEDULE, settle};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use smallvec::{SmallVec, smallvec};

use self::walk::Walk;
use crate::bail;
use crate::core::array::{Inputs, Node, Tracing, drop_iteratively};
use crate::core::env::{Values, Variable};
use crate::core::event::{interrupts, spin};
use crate::core::fork::Made;
use crate::core::{Array, Error, Event, Result, Stream, failure, panics, trace};
use crate::cpu::runtime::worker::{self, LONG_SPIN, Lane};
use crate::fusion::{self, Join, Members, Plan, Role};
use crate::graph::Placeholders;
use crate::graph::order::{self, Step};

pub static RECORDER: Variable = Variable::new(
    "MLX_VK_RECORDER",
    "by device",
    Values::SWITCH,
    "Whether a thread of its own records large graphs of `async_eval` while the caller goes on. Without the \
         variable it does so on hosts of four processors or more, for GPUs that are not software",
);

/// Tasks handed to a CPU worker at once; the first ones run while the rest are still being ordered.
const CPU_BATCH: usize = 256;

/// Fewest steps that the recorder takes: handing over costs some microseconds.
const WORTH_APART: usize = 48;

/// Recordings that may be under way or wait at once.
const AHEAD: u64 = 2;

/// Steps between two looks at the clock.
const STRIDE: usize = 1024;

static HOST_OPS: AtomicU64 = AtomicU64::new(0);

/// How many operations CPU streams were handed since the process started.
pub fn host_ops() -> u64 {
    HOST_OPS.load(Ordering::Relaxed)
}

static RECORDINGS: AtomicU64 = AtomicU64::new(0);

/// How many graphs the recorder was handed since the process started.
pub fn recordings() -> u64 {
    RECORDINGS.load(Ordering::Relaxed)
}

/// A node that is about to run.
struct Task {
    node: Arc<Node>,
    outputs: SmallVec<[Array; 1]>,
}

impl Task {
    /// Takes the node off its outputs, unless a transform still needs the graph. `event` is that of a CPU stream.
    fn take(array: Array, node: Arc<Node>, event: Option<&Arc<Event>>) -> Task {
        let outputs = if node.has_siblings() { array.outputs_of(&node) } else { smallvec![array] };
        for o in &outputs {
            o.begin(event);
        }
        Task { node, outputs }
    }

    /// Runs `f` on inputs and outputs. Inputs are unshared only when the graph no longer holds them.
    fn run(self, f: impl FnOnce(&Node, &[Array], &[Array]) -> Result<()>) -> Result<()> {
        let Task { mut node, outputs } = self;
        let held = if Arc::get_mut(&mut node).is_some() { Inputs::new() } else { node.inputs.clone() };
        let inputs = if held.is_empty() { &node.inputs } else { &held };
        // A panic leaves the arrays as an error does.
        let result = panics::caught(node.primitive.name(), || f(&node, inputs, &outputs));
        if result.is_err() {
            restore(&node, &outputs);
        }
        drop(outputs);
        drop(held);
        drop_iteratively(node);
        result
    }

    /// Puts the node back where it was: the task will not run.
    fn give_up(self) {
        restore(&self.node, &self.outputs);
        drop(self.outputs);
        drop_iteratively(self.node);
    }
}

fn restore(node: &Arc<Node>, outputs: &[Array]) {
    for o in outputs {
        o.attach(node.clone());
    }
}

/// Tasks of CPU streams that were ordered but not handed over yet, and the walk that orders them.
struct Pending {
    batches: SmallVec<[Batch; 1]>,
    /// The event of what is being recorded, if the recorder does it.
    own: Option<Arc<Event>>,
    walk: Walk,
}

/// Tasks that one stream gets at once.
struct Batch {
    stream: Stream,
    tasks: Vec<Task>,
    event: Arc<Event>,
}

impl Pending {
    fn push(&mut self, stream: Stream, array: Array, node: Arc<Node>) {
        let at = self.batches.iter().position(|b| b.stream == stream).unwrap_or_else(|| {
            let event = Arc::new(Event::new(stream, Duration::ZERO));
            self.batches.push(Batch { stream, tasks: Vec::new(), event });
            self.batches.len() - 1
        });
        let batch = &mut self.batches[at];
        batch.tasks.push(Task::take(array, node, Some(&batch.event)));
        if batch.tasks.len() >= CPU_BATCH {
            self.batches.swap_remove(at).submit();
        }
    }

    /// Submits the batch of another stream that makes `inputs`: batches that wait for each other would not end.
    fn close_others(&mut self, stream: Stream, inputs: &[Array]) {
        if self.batches.iter().all(|b| b.stream == stream) {
            return;
        }
        for e in inputs.iter().filter_map(Array::event) {
            let other = self.batches.iter().position(|b| b.stream != stream && Arc::ptr_eq(&b.event, &e));
            if let Some(at) = other {
                self.batches.swap_remove(at).submit();
            }
        }
    }

    /// Waits for those of `inputs` that other threads make.
    fn finish(&mut self, inputs: &[Array]) -> Result<()> {
        for a in inputs {
            if a.awaits_besides(self.own.as_ref()) {
                self.flush();
                // Whoever is told of this operation is told of that error.
                a.wait_event_alone_with(&mut || self.walk.pause())?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.batches.drain(..).for_each(Batch::submit);
    }

    /// Waits where the GPU, or those who compile for it, are far behind.
    #[cfg(feature = "vulkan")]
    fn catch_up(&mut self) -> Result<()> {
        while let Some(mut backlog) = crate::vulkan::backlog() {
            self.flush();
            while !backlog.wait_a_while()? {
                self.walk.pause()?;
            }
            if self.walk.is_breathless() {
                self.walk.pause()?;
            }
        }
        Ok(())
    }

    #[cfg(not(feature = "vulkan"))]
    fn catch_up(&mut self) -> Result<()> {
        Ok(())
    }

    /// Gives Ctrl-C and other threads a chance.
    fn pause(&mut self) -> Result<()> {
        self.flush();
        self.walk.pause()
    }
}

impl Batch {
    fn submit(self) {
        let Batch { stream, tasks, event } = self;
        HOST_OPS.fetch_add(tasks.len() as u64, Ordering::Relaxed);
        let queued = interrupts();
        let run = move || {
            let result = panics::caught("eval", || run_batch(tasks, &event, queued));
            event.set(result);
        };
        worker::submit(stream, Box::new(run));
    }
}

/// Runs tasks that were queued when there had been so many interrupts; after another one, those that are left go back.
fn run_batch(tasks: Vec<Task>, own: &Arc<Event>, queued: u64) -> Result<()> {
    let mut tasks = tasks.into_iter();
    let result = tasks.by_ref().try_for_each(|task| {
        if interrupts() != queued {
            task.give_up();
            return Err(Error::Dropped);
        }
        let others = |a: &&Array| a.awaits_besides(Some(own));
        match task.node.inputs.iter().filter(others).try_for_each(Array::wait_event) {
            Ok(()) => {
                let _span = trace::span("cpu", || task.node.primitive.name().to_string());
                task.run(|node, inputs, outputs| {
                    node.primitive.eval_cpu(inputs, outputs).map_err(|e| e.of(node.primitive.name()))
                })
            }
            Err(e) => {
                task.give_up();
                Err(e)
            }
        }
    });
    // Those behind a failed one can be tried again with it.
    tasks.for_each(Task::give_up);
    result
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
        members.all.iter().for_each(|m| restore(&m.node, std::slice::from_ref(&m.array)));
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
        drop(m.array);
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
    fn told(&self) {
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
fn submit_behind(recorded: Recorded) -> Result<()> {
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
    let steps = order::steps(roots);
    let plan = fusion::plan(&steps);
    record(steps, plan, walk, None)
}

/// As [`schedule`] and [`offer_gpu`]; the recorder may do most of it, behind the caller.
fn schedule_apart(roots: &[Array]) -> Result<()> {
    let mut walk = Walk::begin();
    if !spin(LONG_SPIN, || worker::pending(Lane::Recorder) < AHEAD) {
        walk.settle()?;
    }
    let steps = order::steps(roots);
    let plan = fusion::plan(&steps);
    let on = |s: &Step| s.node.as_ref().map(|n| n.stream).filter(|s| s.device.is_gpu());
    let stream = steps.first().and_then(on);
    if steps.len() < WORTH_APART
        || !stream.is_some_and(has_recorder)
        || !steps.iter().all(|s| on(s) == stream)
    {
        if worker::pending(Lane::Recorder) > 0 {
            drop((steps, plan, walk));
            return submit_behind(schedule(roots));
        }
        return submit_behind(record(steps, plan, walk, None));
    }
    // INVARIANT: the condition above.
    let stream = stream.expect("a stream with a recorder");
    let event = Arc::new(Event::new(stream, LONG_SPIN));
    for (i, Step { array, node }) in steps.iter().enumerate() {
        match node {
            Some(node) if node.has_siblings() => {
                array.outputs_of(node).iter().for_each(|o| o.begin(Some(&event)));
            }
            _ if plan.leaves_out(i) => {}
            _ => array.begin(Some(&event)),
        }
    }
    let queued = interrupts();
    let run = move || {
        let (walk, own) = (Walk::recording(queued), event.clone());
        event.set(panics::caught("eval", || offer_gpu(&record(steps, plan, walk, Some(own))?)));
    };
    RECORDINGS.fetch_add(1, Ordering::Relaxed);
    worker::submit(Lane::Recorder, Box::new(run));
    Ok(())
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

/// Records steps; `own` is their event, if they were handed over.
fn record(steps: Vec<Step>, mut plan: Plan, walk: Walk, own: Option<Arc<Event>>) -> Recorded {
    let apart = own.is_some();
    let mut pending = Pending { own, walk, batches: SmallVec::new() };
    let mut gpu: Vec<Stream> = Vec::new();
    let mut failure = None;
    let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    for i in 0..steps.len() {
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
        let Some(Step { array, node }) = steps[i].take() else { continue };
        let Some(node) = node else {
            let error = match Placeholders::exist() {
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
            };
            failure = Some(Failure { error, stream: None });
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
fn offer_gpu(streams: &[Stream]) -> Result<()> {
    streams.iter().try_for_each(|&s| crate::vulkan::offer(s))
}

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
fn offer_gpu(_: &[Stream]) -> Result<()> {
    Ok(())
}

/// Starts the computation of arrays and returns after submission. What goes wrong on the way is told to who waits.
///
/// # Errors
/// Value error inside a transform; runtime error for arrays that nothing can make.
pub fn async_eval(arrays: &[Array]) -> Result<()> {
    if Placeholders::exist() || arrays.iter().any(Array::is_tracer) {
        bail!(Value, "[async_eval] Not allowed inside a graph transformation.");
    }
    // Whoever waits for a value submits the batch that makes it.
    if arrays.iter().all(Array::is_scheduled) {
        return Ok(());
    }
    until_done(|| match !Tracing::on() && !trace::on() {
        true => schedule_apart(arrays),
        false => submit_behind(schedule(arrays)),
    })
}

/// Begins again what was given up in favour of others, or dropped because somebody else was interrupted.
pub fn until_done<T>(attempt: impl Fn() -> Result<T>) -> Result<T> {
    loop {
        match attempt() {
            Err(Error::Dropped) => {}
            result => return result,
        }
    }
}

/// Computes arrays and waits for them.
///
/// # Errors
/// What went wrong, and what went wrong before on the same streams behind the caller.
pub fn eval(arrays: &[Array]) -> Result<()> {
    computed(arrays, Array::wait_for_stream)?.into_iter().try_for_each(failure::take)
}

/// As [`eval`], for callers whose callers may not see an error: what went wrong before is kept for the next one.
pub fn compute(arrays: &[Array]) -> Result<()> {
    computed(arrays, |a| a.wait_event_alone().and_then(|()| a.wait())).map(drop)
}

/// Returns the GPU streams that got work.
fn computed(arrays: &[Array], wait: fn(&Array) -> Result<()>) -> Result<Vec<Stream>> {
    until_done(|| {
        let mut gpu = Vec::new();
        if !arrays.iter().all(Array::is_scheduled) {
            gpu = schedule(arrays).inspect_err(Failure::told)?;
            offer_gpu(&gpu)?;
        }
        let _span = trace::span("wait", || "eval".into());
        arrays.iter().try_for_each(wait)?;
        Ok(gpu)
    })
}

/// Waits until all work of a stream is done.
///
/// # Errors
/// What went wrong there and nobody was told yet.
pub fn synchronize(stream: Stream) -> Result<()> {
    finish(stream).and_then(|()| failure::take(stream))
}

/// The end of the process does not wait longer than this for recorders, GPUs and compilers.
const LAST_WAIT: Duration = Duration::from_millis(800);

/// For the end of the process: what is queued is dropped, GPUs get a moment to finish, and what drivers compiled is kept.
pub fn end() {
    let until = Instant::now() + LAST_WAIT;
    walk::drop_queued(until);
    #[cfg(feature = "vulkan")]
    crate::vulkan::finish(until);
}

/// Waits until all work of a stream is done, however it ended.
pub fn finish(stream: Stream) -> Result<()> {
    if !stream.device.is_gpu() {
        return worker::synchronize(stream);
    }
    #[cfg(feature = "vulkan")]
    {
        settle()?;
        crate::vulkan::synchronize(stream)
    }
    #[cfg(not(feature = "vulkan"))]
    {
        Err(Error::Runtime(format!("[synchronize] {stream} is not available: built without Vulkan.")))
    }
}

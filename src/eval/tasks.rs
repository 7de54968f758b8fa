//! Nodes that are about to run, and batches of those that CPU streams get. A node is taken off its arrays first, and put
//! back where it does not run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::walk::Walk;
use crate::core::array::{Inputs, Node, drop_iteratively};
use crate::core::event::{interrupts, look_at};
use crate::core::husks;
use crate::core::{Array, Error, Event, Result, Stream, panics, trace};
use crate::cpu::runtime::worker::{self, LONG_SPIN};

/// Tasks handed to a CPU worker at once; the first ones run while the rest are still being ordered.
const CPU_BATCH: usize = 256;

static HOST_OPS: AtomicU64 = AtomicU64::new(0);

/// How many operations CPU streams were handed since the process started.
pub fn host_ops() -> u64 {
    HOST_OPS.load(Ordering::Relaxed)
}

/// A node that is about to run.
pub(super) struct Task {
    node: Arc<Node>,
    outputs: SmallVec<[Array; 1]>,
}

impl Task {
    /// Takes the node off its outputs, unless a transform still needs the graph. `event` is that of a CPU stream.
    pub fn take(array: Array, node: Arc<Node>, event: Option<&Arc<Event>>) -> Task {
        let outputs = if node.has_siblings() { array.outputs_of(&node) } else { smallvec![array] };
        for o in &outputs {
            o.begin(event);
        }
        Task { node, outputs }
    }

    /// Runs `f` on inputs and outputs. Inputs are unshared only when the graph no longer holds them.
    pub fn run(self, f: impl FnOnce(&Node, &[Array], &[Array]) -> Result<()>) -> Result<()> {
        let Task { mut node, outputs } = self;
        let held = if Arc::get_mut(&mut node).is_some() { Inputs::new() } else { node.inputs.clone() };
        let inputs = if held.is_empty() { &node.inputs } else { &held };
        // A panic leaves the arrays as an error does.
        let result = panics::caught(node.primitive.name(), || f(&node, inputs, &outputs));
        if result.is_err() {
            restore(&node, &outputs);
        }
        outputs.into_iter().for_each(husks::array);
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

pub(super) fn restore(node: &Arc<Node>, outputs: &[Array]) {
    for o in outputs {
        o.attach(node.clone());
    }
}

/// Tasks of CPU streams that were ordered but not handed over yet, and the walk that orders them.
pub(super) struct Pending {
    pub batches: SmallVec<[Batch; 1]>,
    /// The event of what is being recorded, if the recorder does it.
    pub own: Option<Arc<Event>>,
    pub walk: Walk,
}

/// Tasks that one stream gets at once.
pub(super) struct Batch {
    stream: Stream,
    tasks: Vec<Task>,
    event: Arc<Event>,
}

impl Pending {
    pub fn push(&mut self, stream: Stream, array: Array, node: Arc<Node>) {
        let at = self.batches.iter().position(|b| b.stream == stream).unwrap_or_else(|| {
            let event = Arc::new(Event::new(stream, look_at(stream, Duration::ZERO, LONG_SPIN)));
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
    pub fn close_others(&mut self, stream: Stream, inputs: &[Array]) {
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
    pub fn finish(&mut self, inputs: &[Array]) -> Result<()> {
        for a in inputs {
            if a.awaits_besides(self.own.as_ref()) {
                self.flush();
                // Whoever is told of this operation is told of that error.
                a.wait_event_alone_with(&mut || self.walk.pause())?;
            }
        }
        Ok(())
    }

    pub fn flush(&mut self) {
        self.batches.drain(..).for_each(Batch::submit);
    }

    /// Waits where the GPU, or those who compile for it, are far behind.
    #[cfg(feature = "vulkan")]
    pub fn catch_up(&mut self) -> Result<()> {
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
    pub fn catch_up(&mut self) -> Result<()> {
        Ok(())
    }

    /// Gives Ctrl-C and other threads a chance.
    pub fn pause(&mut self) -> Result<()> {
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

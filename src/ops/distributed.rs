//! Operations over groups of processes. They run on a CPU stream, that of the call or the default one for a GPU stream,
//! or on the GPU stream where the group makes them commands of it, in the order of evaluation, which has to be the same on all
//! processes. Derivatives follow MLX: the loss counts as the
//! same on every process, so that sums pass cotangents on as they are and gathers take their own part.

use std::sync::{Arc, Mutex, PoisonError};

use super::batching::{batched, front};
use super::support::*;
use super::view::{contiguous, moveaxis, reshape, slice};
use crate::bail;
use crate::core::layout::{row_major, show};
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Primitive, Result, Shape, Storage, Stream, Vjp, Vmap,
};
use crate::distributed::{Ends, Exchange as Task, Group, OnGpu, Reduction, Subject};

/// An operation of a group.
#[derive(Clone)]
struct Collective {
    task: Task,
    group: Arc<dyn Group>,
    /// The GPU that it was asked for on.
    gpu: Option<u32>,
}

/// An input and an output, which is placed where the bytes come.
struct Arrays<'a> {
    input: Option<&'a Array>,
    output: &'a Array,
    gpu: Option<u32>,
}

/// Streams that operations were put on.
static STREAMS: Mutex<Vec<Stream>> = Mutex::new(Vec::new());

/// What others may wait for is queued on these: a process that ends waits for them.
pub fn streams() -> Vec<Stream> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The stream that an operation of a call on `s` runs on.
fn placed(task: Task, about: Subject, group: &Arc<dyn Group>, s: Stream) -> Stream {
    let s = if is_carried(task, about, group, s) { s } else { group.stream(s) };
    let mut all = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if !all.contains(&s) {
        all.push(s);
    }
    s
}

/// Whether an operation is a command of the GPU's stream.
fn is_carried(task: Task, about: Subject, group: &Arc<dyn Group>, s: Stream) -> bool {
    #[cfg(all(feature = "vulkan", target_os = "linux"))]
    return s.device.is_gpu() && group.carrier(s, task, about).is_some();
    #[cfg(not(all(feature = "vulkan", target_os = "linux")))]
    {
        let _ = (task, about, group, s);
        false
    }
}

impl Collective {
    fn shape(&self, x: &Array) -> Shape {
        let (n, mut shape): (i64, Shape) = (self.group.size() as i64, x.shape().into());
        match (self.task, shape.first_mut()) {
            (Task::Gather, Some(first)) => *first *= n,
            (Task::Gather, None) => shape.push(n),
            (Task::SumScatter, Some(first)) => *first /= n,
            (Task::SumScatter, None) | (Task::Reduce(_) | Task::Send(_) | Task::Recv(_), _) => {}
        }
        shape
    }

    fn new(task: Task, group: &Arc<dyn Group>, s: Stream) -> Collective {
        let gpu = s.device.is_gpu().then_some(s.device.index);
        Collective { task, group: group.clone(), gpu }
    }

    fn over(&self, x: &Array, s: Stream) -> Result<Array> {
        self.of_rows(contiguous(x, false, s)?, s)
    }

    /// Of an array that is row-major, as part of an operation on a stream.
    fn of_rows(&self, x: Array, s: Stream) -> Result<Array> {
        let about = Subject { shape: x.shape(), dtype: x.dtype() };
        let s = placed(self.task, about, &self.group, s);
        Array::lazy(self.shape(&x), x.dtype(), self.clone(), vec![x], s)
    }
}

impl Ends for Arrays<'_> {
    #[cfg(all(feature = "vulkan", unix))]
    fn on_gpu(&mut self) -> Result<Option<OnGpu>> {
        let Some(gpu) = self.gpu else { return Ok(None) };
        let mut input = None;
        if let Some(x) = self.input {
            let d = x.data()?;
            let Some(block) = d.storage.any_device_block().filter(|b| b.gpu() == gpu) else {
                return Ok(None);
            };
            block.wait_written()?;
            // FITS: a layout begins inside its storage.
            input = Some((d.storage.clone(), d.offset as usize * x.dtype().size()));
        }
        let output = crate::vulkan::exportable(gpu, self.output.nbytes())?;
        Ok(output.map(|output| OnGpu { input, output }))
    }

    #[cfg(not(all(feature = "vulkan", unix)))]
    fn on_gpu(&mut self) -> Result<Option<OnGpu>> {
        Ok(None)
    }

    fn on_host(&mut self) -> Result<(&[u8], &mut [u8])> {
        let dst = host_out(self.output)?;
        let size = self.output.nbytes();
        // SAFETY: fresh memory of the output, which nobody else knows yet.
        let output =
            if size == 0 { &mut [][..] } else { unsafe { std::slice::from_raw_parts_mut(dst.ptr, size) } };
        Ok((self.input.map_or(Ok(&[][..]), bytes)?, output))
    }

    fn stay(&mut self, output: Arc<Storage>) {
        self.output.set_data(row_major(self.output.shape()), 0, output);
    }
}

fn bytes(a: &Array) -> Result<&[u8]> {
    let start = host_start(a.data()?, a.dtype())?;
    // SAFETY: `over` made the input row-major, and its storage holds that many bytes for as long as the array lives.
    Ok(if a.nbytes() == 0 { &[] } else { unsafe { std::slice::from_raw_parts(start, a.nbytes()) } })
}

impl Primitive for Collective {
    fn name(&self) -> &str {
        match self.task {
            Task::Reduce(Reduction::Sum) => "Sum AllReduce",
            Task::Reduce(Reduction::Max) => "Max AllReduce",
            Task::Reduce(Reduction::Min) => "Min AllReduce",
            Task::Gather => "AllGather",
            Task::SumScatter => "Sum ReduceScatter",
            Task::Send(_) => "Send",
            Task::Recv(_) => "Recv",
        }
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (input, output) = (inputs.first(), &outputs[0]);
        let (shape, dtype) = (input.unwrap_or(output).shape(), output.dtype());
        let mut ends = Arrays { input, output, gpu: self.gpu };
        self.group.exchange(self.task, Subject { shape, dtype }, &mut ends)?;
        if dtype == Dtype::Bool && output.nbytes() > 0 {
            let start = host_start(output.data()?, dtype)?;
            // SAFETY: the output's own memory, which nobody else knows yet.
            crate::core::dtype::make_truths(unsafe {
                std::slice::from_raw_parts_mut(start, output.nbytes())
            });
        }
        Ok(())
    }

    #[cfg(all(feature = "vulkan", target_os = "linux"))]
    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (input, output) = (inputs.first().unwrap_or(&outputs[0]), &outputs[0]);
        let about = Subject { shape: input.shape(), dtype: input.dtype() };
        let Some(carrier) = self.group.carrier(stream, self.task, about) else {
            bail!(Value, "[distributed] {} cannot run on {stream}.", self.name())
        };
        crate::vulkan::with_encoder(stream, |enc| {
            let (src, dst) = (dev_in(enc, input)?, dev_out(enc, output)?);
            carrier.record(enc, self.task, about, (&src, &dst))
        })
    }

    #[cfg(not(all(feature = "vulkan", target_os = "linux")))]
    fn eval_gpu(&self, stream: Stream, _: &[Array], _: &[Array]) -> Result<()> {
        bail!(Value, "[distributed] {} cannot run on {stream}.", self.name())
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let cot = &r.cotangents[0];
        r.each(|_| {
            let x = &r.primals[0];
            match self.task {
                Task::Reduce(_) => Ok(Some(cot.clone())),
                Task::Gather => {
                    let (n, rank) = (if x.ndim() == 0 { 1 } else { x.shape()[0] }, self.group.rank() as i64);
                    let (mut start, mut stop) = (Shape::from_elem(0, cot.ndim()), Shape::from(cot.shape()));
                    (start[0], stop[0]) = (rank * n, (rank + 1) * n);
                    let own = slice(cot, &start, &stop, &Shape::from_elem(1, cot.ndim()), r.stream)?;
                    reshape(&own, x.shape(), r.stream).map(Some)
                }
                Task::SumScatter => {
                    let gather = Collective { task: Task::Gather, ..self.clone() };
                    gather.over(cot, r.stream).map(Some)
                }
                Task::Send(_) | Task::Recv(_) => Err(self.missing("vjp")),
            }
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        match self.task {
            Task::Reduce(_) | Task::Gather | Task::SumScatter => {
                let t = r.tangents.iter().map(|t| self.over(t, r.stream).map(Some));
                t.collect::<Result<_>>().map(Some)
            }
            Task::Send(_) | Task::Recv(_) => Err(self.missing("jvp")),
        }
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let s = r.stream;
        match self.task {
            Task::Reduce(_) | Task::Send(_) => self.over(&front(r, 0)?, s).map(batched),
            Task::Gather | Task::SumScatter => {
                // The first axis of an element comes first, the batch second.
                let x = front(r, 0)?;
                if x.ndim() == 1 {
                    let x = reshape(&x, &[1, x.shape()[0]], s)?;
                    return Ok((vec![self.over(&x, s)?], vec![Some(1)]));
                }
                Ok((vec![self.over(&moveaxis(&x, 0, 1, s)?, s)?], vec![Some(1)]))
            }
            Task::Recv(_) => Err(self.missing("vmap")),
        }
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        match inputs.first() {
            Some(x) => Ok(vec![self.shape(x)]),
            None => Err(crate::core::primitive::cannot_follow(self.name())),
        }
    }
}

fn collective(task: Task, x: &Array, group: &Arc<dyn Group>, s: Stream) -> Result<Array> {
    if group.size() == 1 {
        return Ok(x.clone());
    }
    // Where the array is: what is not row-major is copied there.
    let x = contiguous(x, false, s)?;
    Collective::new(task, group, s).of_rows(x, s)
}

/// Elements of all processes, reduced place by place.
pub fn all_reduce(how: Reduction, x: &Array, group: &Arc<dyn Group>, s: Stream) -> Result<Array> {
    collective(Task::Reduce(how), x, group, s)
}

/// The arrays of all processes, joined along the first axis; numbers become an axis.
pub fn all_gather(x: &Array, group: &Arc<dyn Group>, s: Stream) -> Result<Array> {
    collective(Task::Gather, x, group, s)
}

/// This process's part, along the first axis, of the sum over all.
pub fn sum_scatter(x: &Array, group: &Arc<dyn Group>, s: Stream) -> Result<Array> {
    let n = group.size() as i64;
    if n > 1 && x.shape().first().is_none_or(|d| d % n != 0) {
        bail!(
            Value,
            "[sum_scatter] Invalid shape={} for a group of size {n}. The first dimension (axis 0) must be divisible by \
             the group size and the input must have at least one.",
            show(x.shape())
        );
    }
    collective(Task::SumScatter, x, group, s)
}

fn peer(what: &str, rank: i64, group: &Arc<dyn Group>) -> Result<usize> {
    let found = usize::try_from(rank).ok().filter(|&r| r < group.size());
    let Some(found) = found else {
        bail!(Value, "Invalid {what}={rank} for a group of size {}", group.size())
    };
    Ok(found)
}

/// Sends an array when the result, which is the array, is evaluated.
pub fn send(x: &Array, to: i64, group: &Arc<dyn Group>, s: Stream) -> Result<Array> {
    if group.size() == 1 {
        bail!(Value, "[send] Cannot send to a singleton group");
    }
    let to = peer("destination", to, group)?;
    collective(Task::Send(to), x, group, s)
}

/// The array that another process sends.
pub fn recv(shape: &[i64], dtype: Dtype, from: i64, group: &Arc<dyn Group>, s: Stream) -> Result<Array> {
    if group.size() == 1 {
        bail!(Value, "[recv] Cannot recv from a singleton group");
    }
    if let Some(d) = shape.iter().find(|d| **d < 0) {
        bail!(Value, "[recv] Expected a shape without negative lengths, got {d} in {}.", show(shape));
    }
    let from = peer("source", from, group)?;
    let task = Task::Recv(from);
    let on = placed(task, Subject { shape, dtype }, group, s);
    Array::lazy(shape, dtype, Collective::new(task, group, s), vec![], on)
}

//! `mlx.core.vulkan.pipeline`: batches streamed through a function. What is under way is bounded by the depth; parts of
//! a batch (chunks) count like batches. The thread that asks for results starts the next parts first, so that they go
//! up and compute while it waits for, and then works on, what came down.

use std::collections::VecDeque;

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use super::trees::{flatten, rebuild};
use crate::bail;
use crate::core::device::{pop_scope, push_scope};
use crate::core::env::{Values, Variable};
use crate::core::{Array, Dtype, Error, Result, Shape, Stream};
use crate::eval::readback::{HostBuffer, Part, put, start};
use crate::ops;
use crate::python::array::PyArray;
use crate::python::array::arguments::type_name;
use crate::python::array::buffer::Borrowed;
use crate::python::array::convert::to_array;
use crate::python::runtime::device::{S, pick};

pub static CHUNK: Variable = Variable::new(
    "MLX_VK_STREAM_CHUNK_ELEMS",
    "whole batches",
    Values::Number(1, 1 << 40),
    "Rows of the parts that `mx.vulkan.pipeline` cuts batches into, unless it is told",
);

/// An argument of the function, as a batch gives it.
enum Leaf {
    Buffer(Borrowed),
    Array(Array),
    Other(Py<PyAny>),
}

impl Leaf {
    fn new(obj: &Bound<'_, PyAny>, numpy: &Bound<'_, PyAny>) -> PyResult<Leaf> {
        if let Ok(a) = obj.cast::<PyArray>() {
            return Ok(Leaf::Array(a.get().array()));
        }
        if !obj.is_instance(numpy)? {
            return Ok(Leaf::Other(obj.clone().unbind()));
        }
        match Borrowed::new(obj) {
            Some(b) => Ok(Leaf::Buffer(b)),
            None => Ok(Leaf::Array(to_array(obj, None)?)),
        }
    }

    /// Length of the first axis, if there is one.
    fn rows(&self) -> Option<i64> {
        match self {
            Leaf::Buffer(b) => b.shape.first().copied(),
            Leaf::Array(a) => a.shape().first().copied(),
            Leaf::Other(_) => None,
        }
    }

    /// Rows `from` to `to`, or all of what has none.
    fn part(&self, from: i64, to: i64, s: Stream) -> Result<Option<Array>> {
        match self {
            // SAFETY: a buffer is row-major and holds its shape.
            Leaf::Buffer(b) => unsafe { rows(b.ptr(), &b.shape, b.dtype, from, to, s) }.map(Some),
            Leaf::Array(a) => {
                // An array that only the host has would keep its copy on the device.
                let data =
                    a.data().ok().filter(|d| s.device.is_gpu() && d.storage.any_device_block().is_none());
                if data.is_some() && a.layout()?.is_row_contiguous() {
                    // SAFETY: a row-contiguous array has its elements there.
                    return unsafe { rows(a.host_ptr()?, a.shape(), a.dtype(), from, to, s) }.map(Some);
                }
                if a.ndim() == 0 {
                    return Ok(Some(a.clone()));
                }
                let (mut begin, mut end) = (vec![0; a.ndim()], a.shape().to_vec());
                (begin[0], end[0]) = (from, to);
                ops::slice(a, &begin, &end, &vec![1; a.ndim()], s).map(Some)
            }
            Leaf::Other(_) => Ok(None),
        }
    }
}

/// Puts some rows of row-major elements on the stream's device.
///
/// # Safety
/// `base` must be valid for reads of all elements of `shape`.
unsafe fn rows(base: *const u8, shape: &[i64], dtype: Dtype, from: i64, to: i64, s: Stream) -> Result<Array> {
    let mut part: Shape = shape.into();
    let mut skip = 0;
    if let Some(first) = part.first_mut() {
        *first = to - from;
        // FITS: rows of the checked shape, counted from 0.
        skip = from as usize * shape[1..].iter().product::<i64>() as usize * dtype.size();
    }
    // SAFETY: rows from..to lie inside the elements.
    unsafe { put(base.add(skip), &part, dtype, s) }
}

/// A batch whose result was not handed out yet.
#[derive(Default)]
struct Batch {
    leaves: Vec<Leaf>,
    /// Rows in all (1 where the batch goes as a whole), and those started.
    total: i64,
    started: i64,
    step: i64,
    /// Parts under way.
    open: usize,
    /// What the function returned for the first part.
    tree: Option<Py<PyAny>>,
    buffers: Vec<HostBuffer>,
    error: Option<PyErr>,
}

impl Batch {
    /// One whose turn raises. What ends programs (KeyboardInterrupt) raises at once.
    fn failed(error: PyErr, py: Python<'_>) -> PyResult<Batch> {
        match error.is_instance_of::<PyException>(py) {
            true => Ok(Batch { error: Some(error), ..Batch::default() }),
            false => Err(error),
        }
    }

    fn new(obj: &Bound<'_, PyAny>, chunk: Option<i64>) -> PyResult<Batch> {
        let numpy = obj.py().import("numpy")?.getattr("ndarray")?;
        let leaves = match (obj.cast::<PyTuple>(), obj.cast::<PyList>()) {
            (Ok(t), _) => t.iter().map(|x| Leaf::new(&x, &numpy)).collect::<PyResult<Vec<_>>>()?,
            (_, Ok(l)) => l.iter().map(|x| Leaf::new(&x, &numpy)).collect::<PyResult<Vec<_>>>()?,
            _ => vec![Leaf::new(obj, &numpy)?],
        };
        let mut batch = Batch { leaves, total: 1, step: 1, ..Batch::default() };
        let Some(step) = chunk else { return Ok(batch) };
        let lengths: Vec<i64> = batch.leaves.iter().filter_map(Leaf::rows).collect();
        if lengths.iter().any(|&n| n != lengths[0]) {
            return Err(PyValueError::new_err(format!(
                "[pipeline] Chunks need arrays of one length in the first axis, got {lengths:?}."
            )));
        }
        if let Some(&n) = lengths.first()
            && n > step
        {
            (batch.total, batch.step) = (n, step);
        }
        Ok(batch)
    }

    fn whole(&self) -> bool {
        self.total <= self.step
    }

    fn cut(&self) -> bool {
        self.error.is_some() || self.started == self.total
    }

    /// Starts the next part.
    fn launch(&mut self, fun: &Bound<'_, PyAny>, s: Stream) -> PyResult<Vec<Part>> {
        let py = fun.py();
        let (whole, from) = (self.whole(), self.started);
        let to = (from + self.step).min(self.total);
        let arrays = py.detach(|| {
            let part = |leaf: &Leaf| match leaf.rows().filter(|_| whole) {
                Some(all) => leaf.part(0, all, s),
                None => leaf.part(from, to, s),
            };
            self.leaves.iter().map(part).collect::<Result<Vec<_>>>()
        })?;
        let args = arrays.into_iter().zip(&self.leaves).map(|(a, leaf)| match (a, leaf) {
            (Some(a), _) => Ok(Bound::new(py, PyArray::new(a))?.into_any()),
            (None, Leaf::Other(o)) => Ok(o.bind(py).clone()),
            (None, _) => Ok(py.None().into_bound(py)),
        });
        let args = PyTuple::new(py, args.collect::<PyResult<Vec<_>>>()?)?;
        push_scope(s);
        let tree = fun.call1(args);
        pop_scope();
        let tree = tree?;
        let mut outputs = Vec::new();
        flatten(&tree, false, &mut outputs)?;
        let places = match whole {
            true => {
                self.buffers = outputs.iter().map(|a| HostBuffer::new(a.shape().into(), a.dtype())).collect();
                vec![0; outputs.len()]
            }
            false => self.places(&outputs, from, to)?,
        };
        self.started = to;
        if self.tree.is_none() {
            self.tree = Some(tree.unbind());
        } else {
            drop(tree);
        }
        Ok(py.detach(|| start(&outputs, &mut self.buffers, &places))?)
    }

    /// Where the rows `from..to` of each output go.
    fn places(&mut self, outputs: &[Array], from: i64, to: i64) -> Result<Vec<usize>> {
        if let Some(a) = outputs.iter().find(|a| a.shape().first() != Some(&(to - from))) {
            bail!(
                Value,
                "[pipeline] With chunks a result has a row for each row of the batch: expected {} rows, got shape {:?}.",
                to - from,
                a.shape()
            );
        }
        if from == 0 {
            let buffer = |a: &Array| {
                let mut shape: Shape = a.shape().into();
                shape[0] = self.total;
                HostBuffer::new(shape, a.dtype())
            };
            self.buffers = outputs.iter().map(buffer).collect();
        }
        let same = |(a, l): (&Array, &HostBuffer)| a.dtype() == l.dtype() && a.shape()[1..] == l.shape()[1..];
        if outputs.len() != self.buffers.len() || !outputs.iter().zip(&self.buffers).all(same) {
            bail!(Value, "[pipeline] The chunks of a batch gave results of different forms.");
        }
        // FITS: rows of a batch: from < to, and both count them.
        Ok(outputs.iter().map(|a| a.nbytes() / (to - from) as usize * from as usize).collect())
    }
}

/// The results of `pipeline`.
#[pyclass(name = "_pipeline", module = "mlx.core.vulkan")]
struct Pipeline {
    fun: Py<PyAny>,
    batches: Option<Py<PyIterator>>,
    depth: usize,
    chunk: Option<i64>,
    stream: Stream,
    /// Batches in order, and the number of the first.
    waiting: VecDeque<Batch>,
    first: usize,
    /// Parts under way, with the number of their batch.
    flight: VecDeque<(usize, Vec<Part>)>,
}

impl Pipeline {
    /// Starts a part of the current batch, or of the next one. False where nothing was started.
    fn advance(&mut self, py: Python<'_>) -> PyResult<bool> {
        if self.waiting.back().is_none_or(Batch::cut) {
            let Some(batches) = self.batches.as_ref().filter(|_| self.waiting.len() < self.depth) else {
                return Ok(false);
            };
            let batch = match batches.bind(py).clone().next() {
                None => {
                    self.batches = None;
                    return Ok(false);
                }
                Some(Err(e)) => {
                    self.batches = None;
                    Batch::failed(e, py)?
                }
                Some(Ok(obj)) => match Batch::new(&obj, self.chunk) {
                    Ok(batch) => batch,
                    Err(e) => Batch::failed(e, py)?,
                },
            };
            self.waiting.push_back(batch);
        }
        let number = self.first + self.waiting.len() - 1;
        let Some(batch) = self.waiting.back_mut().filter(|b| !b.cut()) else { return Ok(true) };
        match batch.launch(self.fun.bind(py), self.stream) {
            Ok(parts) => {
                batch.open += 1;
                self.flight.push_back((number, parts));
            }
            Err(e) => {
                self.waiting.pop_back();
                self.waiting.push_back(Batch::failed(e, py)?);
                return Ok(true);
            }
        }
        if batch.cut() {
            batch.leaves.clear();
        }
        Ok(true)
    }

    /// Waits for the part that was started first. An interrupted wait can be tried again.
    fn wait(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some((number, parts)) = self.flight.front() else { return Ok(()) };
        let Some(batch) = number.checked_sub(self.first).and_then(|k| self.waiting.get_mut(k)) else {
            self.flight.pop_front();
            return Ok(());
        };
        let buffers = &mut batch.buffers;
        match py.detach(|| parts.iter().zip(buffers).try_for_each(|(part, buffer)| buffer.finish(part))) {
            Err(e @ Error::Interrupted) => return Err(e.into()),
            Err(e) => batch.error = Some(e.into()),
            Ok(()) => batch.open = batch.open.saturating_sub(1),
        }
        self.flight.pop_front();
        Ok(())
    }

    fn pop(&mut self) -> Option<Batch> {
        let batch = self.waiting.pop_front()?;
        self.first += 1;
        Some(batch)
    }
}

#[pymethods]
impl Pipeline {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            while self.flight.len() < self.depth && self.advance(py)? {}
            let Some(batch) = self.waiting.front_mut() else { return Ok(None) };
            if let Some(e) = batch.error.take() {
                let number = self.first;
                self.pop();
                self.flight.retain(|(n, _)| *n != number);
                return Err(e);
            }
            if batch.cut() && batch.open == 0 {
                let Some(batch) = self.pop() else { return Ok(None) };
                let arrays = batch.buffers.into_iter().map(HostBuffer::array).collect::<Result<Vec<_>>>()?;
                let Some(tree) = batch.tree else { return Ok(Some(py.None().into_bound(py))) };
                return rebuild(tree.bind(py), &mut arrays.into_iter()).map(Some);
            }
            self.wait(py)?;
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.fun)?;
        visit.call(&self.batches)
    }

    fn __repr__(&self) -> String {
        format!("pipeline(depth={})", self.depth)
    }
}

fn positive(name: &str, value: i64) -> PyResult<i64> {
    match value > 0 {
        true => Ok(value),
        false => Err(PyValueError::new_err(format!("[pipeline] {name} must be positive, got {value}."))),
    }
}

/// Streams batches through a function: while one computes, the next goes to the device and the one before
/// comes back.
///
/// A batch that fails raises at its place, and `next` goes on with the one behind it. A batch has been read
/// when the next one is asked for, so that its memory may be used again.
///
/// Args:
///     fn (Callable): Called with the arrays of a batch; returns an array or a tree of arrays.
///     batches (Iterable): NumPy arrays or mlx arrays, or tuples of them for functions of several arguments.
///         Other items of a tuple are passed on as they are.
///     depth (int, optional): Batches, or chunks, that are under way at most: 1 is one after another.
///         Default: 2.
///     chunk (int, optional): Rows: batches with a longer first axis are cut into parts of so many, whose
///         results are joined; `fn` must work on each row alone. Default: None, the environment variable
///         MLX_VK_STREAM_CHUNK_ELEMS, else batches stay whole.
///
/// Returns:
///     Iterator: Results in order, whose bytes are on the host: `np.asarray(result)` neither waits nor
///         copies.
///
/// Raises:
///     ValueError: if `depth` or `chunk` is not positive.
///
/// >>> halves = mx.vulkan.pipeline(lambda x: x / 2, [np.arange(3), np.arange(2)])
/// >>> [x.tolist() for x in halves]
/// [[0.0, 0.5, 1.0], [0.0, 0.5]]
#[pyfunction]
#[pyo3(signature = (r#fn, batches, depth=2, chunk=None, *, stream=None))]
fn pipeline(
    r#fn: Bound<'_, PyAny>,
    batches: &Bound<'_, PyAny>,
    depth: i64,
    chunk: Option<i64>,
    stream: S,
) -> PyResult<Pipeline> {
    if !r#fn.is_callable() {
        let text = format!("pipeline(): expected a callable, got {}", type_name(&r#fn));
        return Err(PyTypeError::new_err(text));
    }
    let chunk = match chunk {
        Some(n) => Some(positive("chunk", n)?),
        None => CHUNK.number().map(|n| n as i64),
    };
    Ok(Pipeline {
        fun: r#fn.unbind(),
        batches: Some(batches.try_iter()?.unbind()),
        // FITS: positive.
        depth: positive("depth", depth)? as usize,
        chunk,
        stream: pick(stream),
        waiting: VecDeque::new(),
        first: 0,
        flight: VecDeque::new(),
    })
}

/// Adds the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let vulkan = m.getattr("vulkan")?.cast_into::<PyModule>()?;
    vulkan.add_function(wrap_pyfunction!(pipeline, &vulkan)?)
}

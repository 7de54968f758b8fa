//! `mlx.core.distributed`: groups of processes and what they do together. A process that nothing tells of others is
//! alone in its group: programs written for many processes run in one, and sending or receiving raises.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;

use super::device::{S, pick};
use crate::core::{Array, Result, Stream};
use crate::distributed::{self as base, Reduction};
use crate::ops::distributed as ops;
use crate::python::array::arguments::{Like, Seq};
use crate::python::array::dtype::D;
use crate::python::array::{Out, out};

/// A group of processes; made by `init`.
///
/// >>> mx.distributed.init().size()
/// 1
#[pyclass(name = "Group", module = "mlx.core.distributed", frozen)]
pub struct Group(Arc<dyn base::Group>);

#[pymethods]
impl Group {
    /// The number of this process in the group, from 0 on.
    ///
    /// Returns:
    ///     int: The number.
    ///
    /// >>> mx.distributed.init().rank()
    /// 0
    fn rank(&self) -> usize {
        self.0.rank()
    }

    /// How many processes are in the group.
    ///
    /// Returns:
    ///     int: The count.
    ///
    /// >>> mx.distributed.init().size()
    /// 1
    fn size(&self) -> usize {
        self.0.size()
    }

    /// Splits the group into groups.
    ///
    /// Args:
    ///     color (int): Processes with the same number come into the same group.
    ///     key (int, optional): What processes are ordered by in it; a negative one keeps the order. Default:
    ///         -1.
    ///
    /// Returns:
    ///     Group: The group of this process.
    ///
    /// Raises:
    ///     RuntimeError: if the group has one process alone, or some of its processes are of another library.
    ///
    /// >>> try:
    /// ...     mx.distributed.init().split(0)
    /// ... except RuntimeError as error:
    /// ...     print("split" in str(error))
    /// True
    #[pyo3(signature = (color, key=-1))]
    fn split(&self, py: Python<'_>, color: i64, key: i64) -> PyResult<Group> {
        Ok(Group(py.detach(|| self.0.split(color, key))?))
    }
}

/// Tells where packages lie: NVIDIA's bring NCCL.
fn folders(py: Python<'_>) {
    let path = || -> PyResult<Vec<PathBuf>> { py.import("sys")?.getattr("path")?.extract() };
    base::FOLDERS.get_or_init(|| path().unwrap_or_default());
}

type G<'a> = Option<&'a Bound<'a, Group>>;

/// Whether a backend that connects processes can be used.
///
/// Args:
///     backend (str, optional): Name of the backend, or "any". Default: "any".
///
/// Returns:
///     bool: Whether it can.
///
/// >>> mx.distributed.is_available("mpi") in (True, False)
/// True
#[pyfunction]
#[pyo3(signature = (backend="any"))]
fn is_available(py: Python<'_>, backend: &str) -> bool {
    folders(py);
    py.detach(|| base::is_available(backend))
}

/// The group of all processes.
///
/// Where nothing tells of others (see `mlx.launch`) it is this process alone, and the operations of this module return
/// their input. A group that came up is kept: the next call returns it.
///
/// Args:
///     strict (bool, optional): Whether to raise where no backend can be started. Default: False.
///     backend (str, optional): Name of the backend, or "any". Default: "any".
///     all_gather_factory (Callable, optional): For backends that exchange bytes through a function of the
///         caller. Default: None.
///
/// Returns:
///     Group: The group.
///
/// Raises:
///     RuntimeError: if `strict` is given and no backend can be started, or others cannot be reached within
///         MLX_DISTRIBUTED_TIMEOUT seconds.
///     ValueError: if the name of the backend is unknown.
///
/// >>> mx.distributed.init().rank()
/// 0
#[pyfunction]
#[pyo3(signature = (strict=false, backend="any", *, all_gather_factory=None))]
fn init(
    py: Python<'_>,
    strict: bool,
    backend: &str,
    all_gather_factory: Option<Bound<'_, PyAny>>,
) -> PyResult<Group> {
    let _ = all_gather_factory;
    folders(py);
    Ok(Group(py.detach(|| base::init(strict, backend))?))
}

/// The group of an operation.
fn group_of(py: Python<'_>, group: G<'_>) -> PyResult<Arc<dyn base::Group>> {
    match group {
        Some(g) => Ok(g.get().0.clone()),
        None => {
            folders(py);
            Ok(py.detach(base::default_group)?)
        }
    }
}

fn together(
    py: Python<'_>,
    x: &Like,
    group: G<'_>,
    stream: S,
    op: impl FnOnce(&Array, &Arc<dyn base::Group>, Stream) -> Result<Array>,
) -> Out {
    let (group, stream) = (group_of(py, group)?, pick(stream));
    out(op(&x.0, &group, stream))
}

/// Sums of the arrays of all processes, element by element; every process gets them.
///
/// Args:
#[doc = shared!(collective)]
///
/// Returns:
///     array: Of the shape and dtype of `x`; `x` itself for one process.
///
/// >>> mx.distributed.all_sum(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, *, group=None, stream=None))]
fn all_sum(py: Python<'_>, x: Like, group: G<'_>, stream: S) -> Out {
    together(py, &x, group, stream, |x, g, s| ops::all_reduce(Reduction::Sum, x, g, s))
}

/// Largest elements of the arrays of all processes, place by place; every process gets them.
///
/// Args:
#[doc = shared!(collective)]
///
/// Returns:
///     array: Of the shape and dtype of `x`; `x` itself for one process.
///
/// >>> mx.distributed.all_max(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, *, group=None, stream=None))]
fn all_max(py: Python<'_>, x: Like, group: G<'_>, stream: S) -> Out {
    together(py, &x, group, stream, |x, g, s| ops::all_reduce(Reduction::Max, x, g, s))
}

/// Smallest elements of the arrays of all processes, place by place; every process gets them.
///
/// Args:
#[doc = shared!(collective)]
///
/// Returns:
///     array: Of the shape and dtype of `x`; `x` itself for one process.
///
/// >>> mx.distributed.all_min(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, *, group=None, stream=None))]
fn all_min(py: Python<'_>, x: Like, group: G<'_>, stream: S) -> Out {
    together(py, &x, group, stream, |x, g, s| ops::all_reduce(Reduction::Min, x, g, s))
}

/// The arrays of all processes, joined along the first axis in the order of ranks; every process gets them.
///
/// Args:
#[doc = shared!(collective)]
///
/// Returns:
///     array: With a first axis longer by the number of processes; `x` itself for one.
///
/// >>> mx.distributed.all_gather(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, *, group=None, stream=None))]
fn all_gather(py: Python<'_>, x: Like, group: G<'_>, stream: S) -> Out {
    together(py, &x, group, stream, ops::all_gather)
}

/// Sums of the arrays of all processes, of which each process gets its part along the first axis.
///
/// Args:
#[doc = shared!(collective)]
///
/// Returns:
///     array: With a first axis divided by the number of processes; `x` itself for one.
///
/// >>> mx.distributed.sum_scatter(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, *, group=None, stream=None))]
fn sum_scatter(py: Python<'_>, x: Like, group: G<'_>, stream: S) -> Out {
    together(py, &x, group, stream, ops::sum_scatter)
}

/// Sends an array to another process, which receives it with `recv`.
///
/// Args:
///     x (array): What is sent.
///     dst (int): Rank of the process that receives it.
///     group (Group, optional): The group. Default: None, that of all processes.
///
/// Returns:
///     array: `x`; it is sent when that is evaluated.
///
/// Raises:
///     ValueError: if the group has one process alone, or none of this rank.
///
/// >>> try:
/// ...     mx.distributed.send(mx.array([1]), 1)
/// ... except ValueError as error:
/// ...     print("singleton" in str(error))
/// True
#[pyfunction]
#[pyo3(signature = (x, dst, *, group=None, stream=None))]
fn send(py: Python<'_>, x: Like, dst: i64, group: G<'_>, stream: S) -> Out {
    together(py, &x, group, stream, |x, g, s| ops::send(x, dst, g, s))
}

/// Receives an array that another process sends with `send`.
///
/// Args:
///     shape (Sequence[int]): Shape of the array.
///     dtype (Dtype): Dtype of the array.
///     src (int): Rank of the process that sends it.
///     group (Group, optional): The group. Default: None, that of all processes.
///
/// Returns:
///     array: What was sent.
///
/// Raises:
///     ValueError: if the group has one process alone, or none of this rank.
///
/// >>> try:
/// ...     mx.distributed.recv((2,), mx.float32, 0)
/// ... except ValueError as error:
/// ...     print("singleton" in str(error))
/// True
#[pyfunction]
#[pyo3(signature = (shape, dtype, src, *, group=None, stream=None))]
fn recv(py: Python<'_>, shape: Seq, dtype: D, src: i64, group: G<'_>, stream: S) -> Out {
    out(ops::recv(&shape.0, dtype.0, src, &group_of(py, group)?, pick(stream)))
}

/// Receives an array of the shape and dtype of another one, which a process sends with `send`.
///
/// Args:
///     x (array): Whose shape and dtype the array has.
///     src (int): Rank of the process that sends it.
///     group (Group, optional): The group. Default: None, that of all processes.
///
/// Returns:
///     array: What was sent.
///
/// Raises:
///     ValueError: if the group has one process alone, or none of this rank.
///
/// >>> try:
/// ...     mx.distributed.recv_like(mx.array([1]), 0)
/// ... except ValueError as error:
/// ...     print("singleton" in str(error))
/// True
#[pyfunction]
#[pyo3(signature = (x, src, *, group=None, stream=None))]
fn recv_like(py: Python<'_>, x: Like, src: i64, group: G<'_>, stream: S) -> Out {
    together(py, &x, group, stream, |x, g, s| ops::recv(x.shape(), x.dtype(), src, g, s))
}

/// Adds the submodule.
pub fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = crate::python::submodule(parent, "distributed", "Groups of processes.")?;
    m.add_class::<Group>()?;
    for f in [
        wrap_pyfunction!(is_available, &m)?,
        wrap_pyfunction!(init, &m)?,
        wrap_pyfunction!(all_sum, &m)?,
        wrap_pyfunction!(all_max, &m)?,
        wrap_pyfunction!(all_min, &m)?,
        wrap_pyfunction!(all_gather, &m)?,
        wrap_pyfunction!(sum_scatter, &m)?,
        wrap_pyfunction!(send, &m)?,
        wrap_pyfunction!(recv, &m)?,
        wrap_pyfunction!(recv_like, &m)?,
    ] {
        m.add_function(f)?;
    }
    Ok(())
}

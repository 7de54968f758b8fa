//! `mlx.core.distributed`: groups of processes. A process is alone in its group: there is no backend that talks to
//! others. Programs written for many processes run in one, and sending or receiving raises.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::array::{Out, out};
use super::convert::{Like, Seq};
use super::device::{S, pick};
use super::dtype::D;
use crate::core::Result;

/// A group of processes; made by `init`.
///
/// >>> mx.distributed.init().size()
/// 1
#[pyclass(name = "Group", module = "mlx.core.distributed", frozen)]
pub struct Group;

#[pymethods]
impl Group {
    /// The number of this process in the group, from 0.
    fn rank(&self) -> usize {
        0
    }

    /// How many processes are in the group.
    fn size(&self) -> usize {
        1
    }

    /// Splits the group by `color`, ordered by `key`. Raises RuntimeError: one process cannot be split.
    #[pyo3(signature = (color, key=-1))]
    fn split(&self, color: i64, key: i64) -> PyResult<Group> {
        let _ = (color, key);
        Err(PyRuntimeError::new_err("[split] Cannot split the distributed group further."))
    }
}

type G<'a> = Option<&'a Bound<'a, Group>>;

const BACKENDS: [&str; 5] = ["any", "mpi", "nccl", "jaccl", "ring"];

/// Whether a backend that connects processes can be used: none is built in.
///
/// >>> mx.distributed.is_available()
/// False
#[pyfunction]
#[pyo3(signature = (backend="any"))]
fn is_available(backend: &str) -> bool {
    let _ = backend;
    false
}

/// The group of all processes, which is this one alone. With `strict` raises RuntimeError, since no backend can be
/// started; raises ValueError for a backend of an unknown name.
///
/// >>> mx.distributed.init().rank()
/// 0
#[pyfunction]
#[pyo3(signature = (strict=false, backend="any", *, all_gather_factory=None))]
fn init(strict: bool, backend: &str, all_gather_factory: Option<Bound<'_, PyAny>>) -> PyResult<Group> {
    let _ = all_gather_factory;
    if !BACKENDS.contains(&backend) {
        return Err(PyValueError::new_err(format!(
            "[distributed] The only valid values for backend are 'any', 'mpi', 'nccl', 'jaccl' and 'ring' but \
             '{backend}' was provided."
        )));
    }
    if strict {
        return Err(PyRuntimeError::new_err("[distributed] Couldn't initialize any backend"));
    }
    Ok(Group)
}

/// What one process contributes, an array or a number, is the result.
fn alone(x: &Like, group: G<'_>, stream: S) -> Out {
    let _ = (group, pick(stream));
    out(Result::Ok(x.0.clone()))
}

fn singleton<T>(op: &str, what: &str) -> PyResult<T> {
    Err(PyValueError::new_err(format!("[{op}] Cannot {what} a singleton group")))
}

/// The sum of `x` over the processes of a group, all by default: `x` itself for one.
///
/// >>> mx.distributed.all_sum(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, *, group=None, stream=None))]
fn all_sum(x: Like, group: G<'_>, stream: S) -> Out {
    alone(&x, group, stream)
}

/// The largest values of `x` over the processes of a group, all by default: `x` itself for one.
///
/// >>> mx.distributed.all_max(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, *, group=None, stream=None))]
fn all_max(x: Like, group: G<'_>, stream: S) -> Out {
    alone(&x, group, stream)
}

/// The least values of `x` over the processes of a group, all by default: `x` itself for one.
///
/// >>> mx.distributed.all_min(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, *, group=None, stream=None))]
fn all_min(x: Like, group: G<'_>, stream: S) -> Out {
    alone(&x, group, stream)
}

/// The `x` of all processes of a group, joined along the first axis: `x` itself for one.
///
/// >>> mx.distributed.all_gather(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, *, group=None, stream=None))]
fn all_gather(x: Like, group: G<'_>, stream: S) -> Out {
    alone(&x, group, stream)
}

/// This process's part, along the first axis, of the sum of `x` over a group: `x` itself for one.
///
/// >>> mx.distributed.sum_scatter(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, *, group=None, stream=None))]
fn sum_scatter(x: Like, group: G<'_>, stream: S) -> Out {
    alone(&x, group, stream)
}

/// Sends `x` to the process `dst`. Raises ValueError: there is no other process.
#[pyfunction]
#[pyo3(signature = (x, dst, *, group=None, stream=None))]
fn send(x: Like, dst: i64, group: G<'_>, stream: S) -> Out {
    let _ = (x, dst, group, pick(stream));
    singleton("send", "send to")
}

/// Receives an array of a shape and dtype from the process `src`. Raises ValueError: there is no other process.
#[pyfunction]
#[pyo3(signature = (shape, dtype, src, *, group=None, stream=None))]
fn recv(shape: Seq, dtype: D, src: i64, group: G<'_>, stream: S) -> Out {
    let _ = (shape, dtype, src, group, pick(stream));
    singleton("recv", "recv from")
}

/// Receives an array that looks like `x` from the process `src`. Raises ValueError: there is no other process.
#[pyfunction]
#[pyo3(signature = (x, src, *, group=None, stream=None))]
fn recv_like(x: Like, src: i64, group: G<'_>, stream: S) -> Out {
    let _ = (x, src, group, pick(stream));
    singleton("recv", "recv from")
}

/// Adds the submodule.
pub fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = super::submodule(parent, "distributed", "Groups of processes.")?;
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

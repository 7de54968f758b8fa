//! `mlx.core.random`: draws from MLX's threefry generator, explicit keys and the process-wide state.

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

use super::array::{Out, PyArray, out};
use super::convert::{Arr, Given, Like, Seed, Seq, to_array};
use super::device::{S, pick};
use super::dtype::D;
use crate::core::{Array, Dtype};
use crate::ops::linalg;
use crate::ops::random::{self, Draws};
use crate::ops::scalar_f64;

fn float(d: Option<D>) -> Dtype {
    d.map_or(Dtype::F32, |d| d.0)
}

fn dims(shape: &Given<Seq>) -> &[i64] {
    shape.0.as_ref().map_or(&[], |s| &s.0)
}

fn optional(x: &Option<Arr>) -> Option<&Array> {
    x.as_ref().map(|a| &a.0)
}

fn weak(x: Option<Bound<'_, PyAny>>, like: Dtype) -> PyResult<Option<Array>> {
    x.map(|x| to_array(&x, Some(like))).transpose()
}

/// A key, a uint32 array of shape (2,), from a seed of up to 64 bits.
///
/// >>> mx.random.key(7)
/// array([0, 7], dtype=uint32)
#[pyfunction]
fn key(seed: Seed) -> Out {
    out(random::key(seed.0))
}

/// Seeds the process-wide generator.
///
/// >>> mx.random.seed(0)
#[pyfunction]
fn seed(seed: Seed) -> PyResult<()> {
    Ok(random::seed(seed.0)?)
}

/// `num` new keys from one, of shape (num, 2).
///
/// >>> mx.random.split(mx.random.key(0)).shape
/// (2, 2)
#[pyfunction]
#[pyo3(signature = (key, num=2, stream=None))]
fn split(key: Arr, num: i64, stream: S) -> Out {
    out(random::split(&key.0, num, pick(stream)))
}

/// Uniform numbers in `[low, high)`; the bounds broadcast to `shape`.
///
/// >>> mx.random.uniform(shape=(2, 3)).shape
/// (2, 3)
#[pyfunction]
#[pyo3(
    signature = (low=Given(None), high=Given(None), shape=Given(None), dtype=None, key=None, stream=None),
    text_signature = "(low=0, high=1, shape=[], dtype=None, key=None, stream=None)"
)]
fn uniform(
    low: Given<Like>,
    high: Given<Like>,
    shape: Given<Seq>,
    dtype: Option<D>,
    key: Option<Arr>,
    stream: S,
) -> Out {
    let low = low.0.map_or_else(|| scalar_f64(0.0, Dtype::F32), |x| Ok(x.0))?;
    let high = high.0.map_or_else(|| scalar_f64(1.0, Dtype::F32), |x| Ok(x.0))?;
    out(random::uniform(&low, &high, dims(&shape), float(dtype), optional(&key), pick(stream)))
}

/// Normal numbers with mean `loc` and standard deviation `scale`.
///
/// >>> mx.random.normal((2, 3)).shape
/// (2, 3)
#[pyfunction]
#[pyo3(
    signature = (shape=Given(None), dtype=None, loc=None, scale=None, key=None, stream=None),
    text_signature = "(shape=[], dtype=None, loc=None, scale=None, key=None, stream=None)"
)]
fn normal(
    shape: Given<Seq>,
    dtype: Option<D>,
    loc: Option<Bound<'_, PyAny>>,
    scale: Option<Bound<'_, PyAny>>,
    key: Option<Arr>,
    stream: S,
) -> Out {
    let d = float(dtype);
    let (loc, scale) = (weak(loc, d)?, weak(scale, d)?);
    out(random::normal(dims(&shape), d, loc.as_ref(), scale.as_ref(), optional(&key), pick(stream)))
}

/// Jointly normal numbers with means `(..., n)` and covariances `(..., n, n)`, positive semi-definite; their batches
/// broadcast with `shape`. float32 only (ValueError otherwise).
///
/// >>> mx.random.multivariate_normal(mx.zeros(2), mx.eye(2), (3,)).shape
/// (3, 2)
#[pyfunction]
#[pyo3(
    signature = (mean, cov, shape=Given(None), dtype=None, key=None, stream=None),
    text_signature = "(mean, cov, shape=[], dtype=None, key=None, stream=None)"
)]
fn multivariate_normal(
    mean: Arr,
    cov: Arr,
    shape: Given<Seq>,
    dtype: Option<D>,
    key: Option<Arr>,
    stream: S,
) -> Out {
    if float(dtype) != Dtype::F32 {
        return Err(PyValueError::new_err("[multivariate_normal] dtype must be float32."));
    }
    out(linalg::multivariate_normal(&mean.0, &cov.0, dims(&shape), optional(&key), pick(stream)))
}

/// Integers in `[low, high)`; int32 unless another integer dtype is given.
///
/// >>> mx.random.randint(0, 10, (2, 3)).shape
/// (2, 3)
#[pyfunction]
#[pyo3(
    signature = (low, high, shape=Given(None), dtype=None, key=None, stream=None),
    text_signature = "(low, high, shape=[], dtype=None, key=None, stream=None)"
)]
fn randint(low: Like, high: Like, shape: Given<Seq>, dtype: Option<D>, key: Option<Arr>, stream: S) -> Out {
    let d = dtype.map_or(Dtype::I32, |d| d.0);
    out(random::randint(&low.0, &high.0, dims(&shape), d, optional(&key), pick(stream)))
}

/// True with probability `p`; the shape is that of `p` unless given.
///
/// >>> mx.random.bernoulli(0.5, (3,)).shape
/// (3,)
#[pyfunction]
#[pyo3(
    signature = (p=Given(None), shape=None, key=None, stream=None),
    text_signature = "(p=0.5, shape=None, key=None, stream=None)"
)]
fn bernoulli(p: Given<Bound<'_, PyAny>>, shape: Option<Seq>, key: Option<Arr>, stream: S) -> Out {
    let p = weak(p.0, Dtype::F32)?.map_or_else(|| scalar_f64(0.5, Dtype::F32), Ok)?;
    let shape: &[i64] = shape.as_ref().map_or(p.shape(), |s| &s.0);
    out(random::bernoulli(&p, shape, optional(&key), pick(stream)))
}

/// Standard normal numbers restricted to `[lower, upper]`; without `shape`, one for each pair of bounds.
///
/// >>> mx.random.truncated_normal(-1, 1, (3,)).shape
/// (3,)
#[pyfunction]
#[pyo3(signature = (lower, upper, shape=None, dtype=None, key=None, stream=None))]
fn truncated_normal(
    lower: Like,
    upper: Like,
    shape: Option<Seq>,
    dtype: Option<D>,
    key: Option<Arr>,
    stream: S,
) -> Out {
    let shape = shape.as_ref().map(|s| &s.0[..]);
    out(random::truncated_normal(&lower.0, &upper.0, shape, float(dtype), optional(&key), pick(stream)))
}

/// Standard Gumbel numbers.
///
/// >>> mx.random.gumbel((3,)).shape
/// (3,)
#[pyfunction]
#[pyo3(
    signature = (shape=Given(None), dtype=None, key=None, stream=None),
    text_signature = "(shape=[], dtype=None, key=None, stream=None)"
)]
fn gumbel(shape: Given<Seq>, dtype: Option<D>, key: Option<Arr>, stream: S) -> Out {
    out(random::gumbel(dims(&shape), float(dtype), optional(&key), pick(stream)))
}

/// Laplace numbers with location `loc` and scale `scale`.
///
/// >>> mx.random.laplace((3,)).shape
/// (3,)
#[pyfunction]
#[pyo3(
    signature = (shape=Given(None), dtype=None, loc=0.0, scale=1.0, key=None, stream=None),
    text_signature = "(shape=[], dtype=None, loc=0.0, scale=1.0, key=None, stream=None)"
)]
fn laplace(shape: Given<Seq>, dtype: Option<D>, loc: f64, scale: f64, key: Option<Arr>, stream: S) -> Out {
    let d = float(dtype);
    let (loc, scale) = (scalar_f64(loc, d)?, scalar_f64(scale, d)?);
    let (loc, scale) = (Some(&loc), Some(&scale));
    out(random::laplace(dims(&shape), d, loc, scale, optional(&key), pick(stream)))
}

/// Indices drawn with the unnormalised log-probabilities along `axis` of `logits`; uint32. One draw for each
/// distribution, `num_samples` of them on a new last axis, or as many as `shape`, to which they broadcast, asks.
///
/// >>> mx.random.categorical(mx.zeros((3, 4))).shape
/// (3,)
#[pyfunction]
#[pyo3(signature = (logits, axis=-1, shape=None, num_samples=None, key=None, stream=None))]
fn categorical(
    logits: Arr,
    axis: i64,
    shape: Option<Seq>,
    num_samples: Option<i64>,
    key: Option<Arr>,
    stream: S,
) -> Out {
    let draws = match (&shape, num_samples) {
        (Some(_), Some(_)) => {
            let text = "[categorical] At most one of shape or num_samples can be specified.";
            return Err(PyValueError::new_err(text));
        }
        (Some(s), None) => Draws::Shape(&s.0),
        (None, Some(n)) => Draws::Many(n),
        (None, None) => Draws::One,
    };
    out(random::categorical(&logits.0, axis, draws, optional(&key), pick(stream)))
}

/// The numbers below `x` in random order (uint32), or the array `x` with its rows along `axis` in random order.
///
/// >>> mx.random.permutation(4).shape
/// (4,)
#[pyfunction]
#[pyo3(signature = (x, axis=0, key=None, stream=None))]
fn permutation(x: &Bound<'_, PyAny>, axis: i64, key: Option<Arr>, stream: S) -> Out {
    let s = pick(stream);
    if let Ok(a) = x.cast::<PyArray>() {
        return out(random::permute(&a.get().array(), axis, optional(&key), s));
    }
    out(random::permutation(x.extract()?, optional(&key), s))
}

/// The state of the process-wide generator: a sequence of one key, which may be replaced.
///
/// >>> len(mx.random.state)
/// 1
#[pyclass(name = "_RandomState", module = "mlx.core.random", frozen, sequence)]
pub(super) struct RandomState;

#[pymethods]
impl RandomState {
    fn __len__(&self) -> usize {
        1
    }
    fn __getitem__(&self, index: isize) -> Out {
        match index {
            0 | -1 => out(random::global_key()),
            _ => Err(PyIndexError::new_err("random state index out of range")),
        }
    }
    fn __setitem__(&self, index: isize, value: Arr) -> PyResult<()> {
        if !matches!(index, 0 | -1) {
            return Err(PyIndexError::new_err("random state index out of range"));
        }
        if value.0.dtype() != Dtype::U32 || value.0.shape() != [2] {
            return Err(PyValueError::new_err("[random] A key is a uint32 array of shape (2,)."));
        }
        random::set_global_key(value.0);
        Ok(())
    }
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("[{}]", super::printing::repr(py, &random::global_key()?)?))
    }
}

/// Adds the submodule.
pub fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = super::submodule(parent, "random", "Random numbers; a key makes a draw repeatable.")?;
    m.add_class::<RandomState>()?;
    m.add("state", RandomState.into_pyobject(m.py())?)?;
    for f in [
        wrap_pyfunction!(key, &m)?,
        wrap_pyfunction!(seed, &m)?,
        wrap_pyfunction!(split, &m)?,
        wrap_pyfunction!(uniform, &m)?,
        wrap_pyfunction!(normal, &m)?,
        wrap_pyfunction!(multivariate_normal, &m)?,
        wrap_pyfunction!(randint, &m)?,
        wrap_pyfunction!(bernoulli, &m)?,
        wrap_pyfunction!(truncated_normal, &m)?,
        wrap_pyfunction!(gumbel, &m)?,
        wrap_pyfunction!(laplace, &m)?,
        wrap_pyfunction!(categorical, &m)?,
        wrap_pyfunction!(permutation, &m)?,
    ] {
        m.add_function(f)?;
    }
    super::hide_private(&m)
}

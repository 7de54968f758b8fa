//! `mlx.core.random`: draws from MLX's threefry generator, explicit keys and the process-wide state.

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

use crate::core::{Array, Dtype};
use crate::ops::linalg;
use crate::ops::random::{self, Draws};
use crate::ops::scalar_f64;
use crate::python::array::arguments::{Arr, Given, Like, Seed, Seq};
use crate::python::array::convert::to_array;
use crate::python::array::dtype::D;
use crate::python::array::{Out, PyArray, out};
use crate::python::runtime::device::{S, pick};

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

/// A key for random draws from a seed.
///
/// The same key gives the same numbers on every device, and those of MLX: the generator is Threefry-2x32 with
/// 20 rounds (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"). Use `split` to get
/// independent keys.
///
/// Args:
///     seed (int): From 0 to 2 ** 64 - 1.
///
/// Returns:
///     array: uint32, of shape (2,): the upper and the lower half of the seed.
///
/// Raises:
///     TypeError: if the seed is negative or no integer.
///
/// >>> mx.random.key(7)
/// array([0, 7], dtype=uint32)
#[pyfunction]
fn key(seed: Seed) -> Out {
    out(random::key(seed.0))
}

/// Seeds the process-wide generator, from which draws without a key take theirs.
///
/// Each draw advances `mx.random.state`, so that a seed fixes all draws that follow in the same order.
///
/// Args:
///     seed (int): From 0 to 2 ** 64 - 1.
///
/// Returns:
///     None
///
/// Raises:
///     TypeError: if the seed is negative or no integer.
///
/// >>> mx.random.seed(0)
/// >>> a = mx.random.uniform()
/// >>> mx.random.seed(0)
/// >>> a.item() == mx.random.uniform().item()
/// True
#[pyfunction]
fn seed(seed: Seed) -> PyResult<()> {
    Ok(random::seed(seed.0)?)
}

/// New keys from one, whose draws are independent of each other and of those of that key.
///
/// Args:
///     key (array): A key.
///     num (int, optional): How many. Default: 2.
///
/// Returns:
///     array: uint32, of shape (num, 2): one key a row.
///
/// Raises:
///     ValueError: if `key` is no key or `num` is negative.
///
/// >>> a, b = mx.random.split(mx.random.key(0))
/// >>> a.shape
/// (2,)
#[pyfunction]
#[pyo3(signature = (key, num=2, stream=None))]
fn split(key: Arr, num: i64, stream: S) -> Out {
    out(random::split(&key.0, num, pick(stream)))
}

/// Uniformly distributed numbers in the half-open interval `[low, high)`.
///
/// Args:
///     low (array | number, optional): Lower bound, which broadcasts to `shape`. Default: 0.
///     high (array | number, optional): Upper bound, which broadcasts to `shape`; rounding may hit it in
///         narrow dtypes. Default: 1.
#[doc = shared!(drawn_shape)]
#[doc = shared!(drawn_float)]
#[doc = shared!(drawn_key)]
///
/// Returns:
///     array: Of shape `shape`.
///
/// Raises:
///     ValueError: if the dtype is not a real floating one, the bounds do not broadcast, or the key is no
///         key.
///
/// >>> mx.random.uniform(shape=(2, 3)).shape
/// (2, 3)
/// >>> mx.random.uniform(key=mx.random.key(0)).item() < 1
/// True
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

/// Normally distributed numbers.
///
/// They are made from uniform numbers by the inverse error function, so that one uniform number gives one
/// result. Parts of complex numbers are independent and have half the variance each.
///
/// Args:
#[doc = shared!(drawn_shape)]
///     dtype (Dtype, optional): A floating dtype or complex64. Default: float32.
///     loc (array | number, optional): Mean, which broadcasts to `shape`. Default: None, 0.
///     scale (array | number, optional): Standard deviation, which broadcasts to `shape`. Default: None, 1.
#[doc = shared!(drawn_key)]
///
/// Returns:
///     array: Of shape `shape`.
///
/// Raises:
///     ValueError: if the dtype is an integer one, mean or deviation do not broadcast, or the key is no key.
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

/// Vectors of jointly normally distributed numbers.
///
/// A covariance has to be positive semi-definite, which is not checked; it is taken apart by its singular
/// values, on the CPU. The batches of means and covariances broadcast with `shape`.
///
/// Args:
///     mean (array): Means, (..., n).
///     cov (array): Covariances, (..., n, n).
///     shape (Sequence[int], optional): Shape of the result without its last axis. Default: (), the batch of
///         means and covariances.
///     dtype (Dtype, optional): float32, the only one. Default: float32.
#[doc = shared!(drawn_key)]
///
/// Returns:
///     array: Of shape (..., n), float32.
///
/// Raises:
///     ValueError: if the dtype is another one or the shapes do not fit.
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

/// Uniformly distributed integers in the half-open interval `[low, high)`.
///
/// Draws are float32; the bounds are converted to the dtype of the result and hold whatever a draw rounds to. Where `high` is not above `low` the result is `low`.
///
/// Args:
///     low (array | number): Lower bound, which broadcasts to `shape`.
///     high (array | number): Upper bound, which broadcasts to `shape` and is never drawn.
#[doc = shared!(drawn_shape)]
///     dtype (Dtype, optional): An integer dtype or bool. Default: int32.
#[doc = shared!(drawn_key)]
///
/// Returns:
///     array: Of shape `shape`.
///
/// Raises:
///     ValueError: if the dtype is another one, the bounds do not broadcast, or the key is no key.
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

/// True with a probability, else False.
///
/// Args:
///     p (array | number, optional): Probability of True, of a real floating dtype; it broadcasts to `shape`.
///         Default: 0.5.
///     shape (Sequence[int], optional): Shape of the result. Default: None, that of `p`.
#[doc = shared!(drawn_key)]
///
/// Returns:
///     array: bool, of shape `shape`.
///
/// Raises:
///     ValueError: if `p` is of another dtype or does not broadcast, or the key is no key.
///
/// >>> mx.random.bernoulli(0.5, (3,)).shape
/// (3,)
/// >>> mx.random.bernoulli(mx.array([0.0, 1.0]))
/// array([False, True], dtype=bool)
#[pyfunction]
#[pyo3(
    signature = (p=Given(None), shape=None, key=None, stream=None),
    text_signature = "(p=0.5, shape=None, key=None, stream=None)"
)]
fn bernoulli(p: Given<Bound<'_, PyAny>>, shape: Option<Seq>, key: Option<Arr>, stream: S) -> Out {
    let p = p.0.map_or_else(|| Ok(scalar_f64(0.5, Dtype::F32)?), |p| to_array(&p, None))?;
    let shape: &[i64] = shape.as_ref().map_or(p.shape(), |s| &s.0);
    out(random::bernoulli(&p, shape, optional(&key), pick(stream)))
}

/// Normally distributed numbers of mean 0 and deviation 1 that lie between two bounds.
///
/// Args:
///     lower (array | number): Lower bound, which broadcasts to `shape`.
///     upper (array | number): Upper bound, which broadcasts to `shape`.
///     shape (Sequence[int], optional): Shape of the result. Default: None, the broadcast shape of the
///         bounds.
#[doc = shared!(drawn_float)]
#[doc = shared!(drawn_key)]
///
/// Returns:
///     array: Of shape `shape`.
///
/// Raises:
///     ValueError: if the dtype is not a real floating one, the bounds do not broadcast, or the key is no
///         key.
///
/// >>> x = mx.random.truncated_normal(-1, 1, (3,))
/// >>> mx.all(mx.abs(x) <= 1)
/// array(True, dtype=bool)
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

/// Numbers of the standard Gumbel distribution: `-log(-log(u))` of uniform `u`.
///
/// The index of the largest sum of such numbers and logits is a draw with the probabilities of the logits,
/// which is how `categorical` works.
///
/// Args:
#[doc = shared!(drawn_shape)]
#[doc = shared!(drawn_float)]
#[doc = shared!(drawn_key)]
///
/// Returns:
///     array: Of shape `shape`.
///
/// Raises:
///     ValueError: if the dtype is not a real floating one, or the key is no key.
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

/// Numbers of the Laplace distribution, whose density is `exp(-abs(x - loc) / scale) / (2 * scale)`.
///
/// Args:
#[doc = shared!(drawn_shape)]
#[doc = shared!(drawn_float)]
///     loc (float, optional): Mean. Default: 0.0.
///     scale (float, optional): Mean distance from the mean. Default: 1.0.
#[doc = shared!(drawn_key)]
///
/// Returns:
///     array: Of shape `shape`.
///
/// Raises:
///     ValueError: if the dtype is not a real floating one, or the key is no key.
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

/// Indices drawn with probabilities that are given by logits.
///
/// The probabilities are `softmax(logits)` along an axis, which need not be computed. No gradient flows
/// through indices.
///
/// Args:
///     logits (array): Logarithms of unnormalised probabilities, one distribution along `axis`.
///     axis (int, optional): Axis of the categories; a negative one counts from the last. Default: -1.
///     shape (Sequence[int], optional): Shape of the result, to which the shape of `logits` without `axis`
///         broadcasts. Default: None, one draw of each distribution.
///     num_samples (int, optional): How many draws of each distribution, along a new last axis. Default:
///         None, one without an axis.
#[doc = shared!(drawn_key)]
///
/// Returns:
///     array: uint32 indices.
///
/// Raises:
///     ValueError: if both `shape` and `num_samples` are given, the shapes do not broadcast, or the key is no
///         key.
///     IndexError: if the axis is out of range.
///
/// >>> mx.random.categorical(mx.zeros((3, 4))).shape
/// (3,)
/// >>> mx.random.categorical(mx.zeros((3, 4)), num_samples=5).shape
/// (3, 5)
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

/// Numbers, or the parts of an array, in random order.
///
/// Every order is equally probable. The same key gives the same order for a number and for an array of that
/// length.
///
/// Args:
///     x (int | array): The count of numbers, or the array.
///     axis (int, optional): Axis of an array whose parts are put into another order as a whole; a negative
///         one counts from the last. Default: 0.
#[doc = shared!(drawn_key)]
///
/// Returns:
///     array: The numbers from 0 to `x - 1` (uint32), or the array with its parts in another order.
///
/// Raises:
///     ValueError: if the count is negative, or the key is no key.
///     IndexError: if the axis is out of range.
///
/// >>> sorted(mx.random.permutation(4).tolist())
/// [0, 1, 2, 3]
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
pub(in crate::python) struct RandomState;

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
        Ok(format!("[{}]", crate::python::array::printing::repr(py, &random::global_key()?)?))
    }
}

/// Adds the submodule.
pub fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let m = crate::python::submodule(parent, "random", "Random numbers; a key makes a draw repeatable.")?;
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
    crate::python::hide_private(&m)
}

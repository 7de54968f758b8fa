//! The serialisable description of a primitive: its name and parameters as plain values, and what a stored
//! call is made from again. Files are not trusted: every reader here checks kind and range.

use super::array::Array;
use super::device::Stream;
use super::dtype::Dtype;
use super::error::Result;
use super::layout::Shape;
use crate::bail;

/// One parameter of a primitive.
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// An integer; also flags and places in lists of names.
    Int(i64),
    /// A number.
    Float(f64),
    /// Axes, lengths, steps.
    Ints(Vec<i64>),
    /// A name.
    Text(String),
}

impl From<i64> for Param {
    fn from(v: i64) -> Param {
        Param::Int(v)
    }
}

impl From<usize> for Param {
    fn from(v: usize) -> Param {
        Param::Int(v as i64)
    }
}

impl From<bool> for Param {
    fn from(v: bool) -> Param {
        Param::Int(i64::from(v))
    }
}

impl From<f64> for Param {
    fn from(v: f64) -> Param {
        Param::Float(v)
    }
}

impl From<f32> for Param {
    fn from(v: f32) -> Param {
        Param::Float(v.into())
    }
}

impl From<&str> for Param {
    fn from(v: &str) -> Param {
        Param::Text(v.into())
    }
}

impl From<&[i64]> for Param {
    fn from(v: &[i64]) -> Param {
        Param::Ints(v.into())
    }
}

impl From<Option<i64>> for Param {
    fn from(v: Option<i64>) -> Param {
        v.map_or_else(|| Param::from(NONE), Param::Int)
    }
}

impl From<Option<f64>> for Param {
    fn from(v: Option<f64>) -> Param {
        v.map_or_else(|| Param::from(NONE), Param::Float)
    }
}

impl From<Option<&[i64]>> for Param {
    fn from(v: Option<&[i64]>) -> Param {
        v.map_or_else(|| Param::from(NONE), Param::from)
    }
}

impl From<&[usize]> for Param {
    fn from(v: &[usize]) -> Param {
        Param::Ints(v.iter().map(|&x| x as i64).collect())
    }
}

/// Stands for a parameter that was not given.
const NONE: &str = "none";

/// Parameters of a primitive, written in place: `params![axis, keepdims]`.
#[macro_export]
macro_rules! params {
    ($($x:expr),* $(,)?) => { Some(vec![$($crate::core::Param::from($x)),*]) };
}

/// A primitive applied to arrays, as a file describes it.
pub struct Stored<'a> {
    /// Name of the primitive.
    pub name: &'a str,
    /// Its parameters.
    pub params: &'a [Param],
    /// What it reads.
    pub inputs: &'a [Array],
    /// What its outputs shall look like.
    pub specs: &'a [(Shape, Dtype)],
    /// Where it runs.
    pub stream: Stream,
}

impl<'a> Stored<'a> {
    fn wrong<T>(&self, i: usize, expected: &str) -> Result<T> {
        bail!(Value, "[{}] Parameter {i} should be {expected}, got {:?}.", self.name, self.params.get(i));
    }

    /// An integer parameter.
    pub fn int(&self, i: usize) -> Result<i64> {
        match self.params.get(i) {
            Some(Param::Int(v)) => Ok(*v),
            _ => self.wrong(i, "an integer"),
        }
    }

    /// A size: an integer that is not negative and far from where sums of sizes overflow.
    pub fn size(&self, i: usize) -> Result<i64> {
        match self.int(i)? {
            v if (0..1 << 48).contains(&v) => Ok(v),
            _ => self.wrong(i, "a size"),
        }
    }

    /// A flag.
    pub fn flag(&self, i: usize) -> Result<bool> {
        match self.int(i)? {
            v @ (0 | 1) => Ok(v == 1),
            _ => self.wrong(i, "a flag"),
        }
    }

    /// An axis of an array of `ndim` axes.
    pub fn axis(&self, i: usize, ndim: usize) -> Result<usize> {
        match usize::try_from(self.int(i)?) {
            Ok(v) if v < ndim => Ok(v),
            _ => self.wrong(i, &format!("an axis below {ndim}")),
        }
    }

    /// A number.
    pub fn float(&self, i: usize) -> Result<f64> {
        match self.params.get(i) {
            Some(Param::Float(v)) => Ok(*v),
            _ => self.wrong(i, "a number"),
        }
    }

    /// A list of integers.
    pub fn ints(&self, i: usize) -> Result<&'a [i64]> {
        match self.params.get(i) {
            Some(Param::Ints(v)) => Ok(v),
            _ => self.wrong(i, "a list of integers"),
        }
    }

    fn is_none(&self, i: usize) -> bool {
        matches!(self.params.get(i), Some(Param::Text(t)) if t == NONE)
    }

    /// An integer that may be missing.
    pub fn maybe_int(&self, i: usize) -> Result<Option<i64>> {
        if self.is_none(i) { Ok(None) } else { self.int(i).map(Some) }
    }

    /// A number that may be missing.
    pub fn maybe_float(&self, i: usize) -> Result<Option<f64>> {
        if self.is_none(i) { Ok(None) } else { self.float(i).map(Some) }
    }

    /// A list of integers that may be missing.
    pub fn maybe_ints(&self, i: usize) -> Result<Option<&'a [i64]>> {
        if self.is_none(i) { Ok(None) } else { self.ints(i).map(Some) }
    }

    /// A list of `n` integers that products and sums with sizes do not overflow.
    pub fn steps(&self, i: usize, n: usize) -> Result<&'a [i64]> {
        let list = self.ints(i)?;
        if list.len() != n || list.iter().any(|v| v.unsigned_abs() >= 1 << 40) {
            return self.wrong(i, &format!("{n} steps"));
        }
        Ok(list)
    }

    /// Distinct axes of an array of `ndim` axes.
    pub fn axes(&self, i: usize, ndim: usize) -> Result<Vec<usize>> {
        let list = self.ints(i)?;
        let mut axes = Vec::with_capacity(list.len());
        for &v in list {
            match usize::try_from(v) {
                Ok(v) if v < ndim && !axes.contains(&v) => axes.push(v),
                _ => return self.wrong(i, &format!("distinct axes below {ndim}")),
            }
        }
        Ok(axes)
    }

    /// A name.
    pub fn text(&self, i: usize) -> Result<&'a str> {
        match self.params.get(i) {
            Some(Param::Text(v)) => Ok(v),
            _ => self.wrong(i, "a name"),
        }
    }

    /// One of several values that were numbered in the order of `all`.
    pub fn choice<T: Copy>(&self, i: usize, all: &[T]) -> Result<T> {
        match usize::try_from(self.int(i)?).ok().and_then(|v| all.get(v)) {
            Some(v) => Ok(*v),
            None => self.wrong(i, &format!("a number below {}", all.len())),
        }
    }

    /// All inputs, of which there have to be `N`.
    pub fn inputs<const N: usize>(&self) -> Result<[&'a Array; N]> {
        if self.inputs.len() != N {
            bail!(Value, "[{}] Expected {N} inputs, got {}.", self.name, self.inputs.len());
        }
        Ok(std::array::from_fn(|i| &self.inputs[i]))
    }

    /// The only input.
    pub fn input(&self) -> Result<&'a Array> {
        self.inputs::<1>().map(|[a]| a)
    }

    /// The only input, which has an axis.
    pub fn input_with_axes(&self) -> Result<&'a Array> {
        let a = self.input()?;
        if a.ndim() == 0 {
            bail!(Value, "[{}] Expected an array with axes.", self.name);
        }
        Ok(a)
    }

    /// What the only output shall look like.
    pub fn spec(&self) -> Result<&'a (Shape, Dtype)> {
        match self.specs {
            [one] => Ok(one),
            all => bail!(Value, "[{}] Expected one output, got {}.", self.name, all.len()),
        }
    }

    /// Fails where the name is none of the primitive's own.
    pub fn unknown<T>(&self) -> Result<T> {
        bail!(Value, "[{}] There is no such op.", self.name);
    }
}

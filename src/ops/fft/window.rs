//! Windows of signal processing, float32. All are symmetric: they are computed from the distance to the
//! nearer end, and the cosine windows as polynomials in sin^2, so that the ends are exact.

use crate::core::{Array, Dtype, Result, Stream};
use crate::kernels::elementwise::table::op;
use crate::ops::create::{full, ones};
use crate::ops::elementwise::{add, apply, minimum, multiply, square, subtract};
use crate::ops::ranges::arange;
use crate::ops::support::scalar_f64;

/// Two terms of a polynomial without a constant, and the constant.
struct Terms {
    constant: f64,
    first: f64,
    second: f64,
}

fn number(v: f64) -> Result<Array> {
    scalar_f64(v, Dtype::F32)
}

/// Distances to the nearer end, 0 to (n - 1) / 2; `None` where the window is trivial.
fn distances(n: i64, s: Stream) -> Result<Option<Array>> {
    if n < 2 {
        return Ok(None);
    }
    let i = arange(0.0, n as f64, 1.0, Dtype::F32, s)?;
    let back = subtract(&number((n - 1) as f64)?, &i, s)?;
    minimum(&i, &back, s).map(Some)
}

/// A window of fewer than two points.
fn trivial(n: i64, s: Stream) -> Result<Array> {
    ones(&[n.max(0)], Dtype::F32, s)
}

/// constant + first * p + second * p^2 with p = sin^2(pi i / (n - 1)).
fn cosine(n: i64, t: &Terms, s: Stream) -> Result<Array> {
    let Some(i) = distances(n, s)? else { return trivial(n, s) };
    let angle = multiply(&i, &number(std::f64::consts::PI / (n - 1) as f64)?, s)?;
    let p = square(&apply(op("sin"), &[&angle], s)?, s)?;
    let slope = match t.second {
        0.0 => full(&[], &number(t.first)?, None, s)?,
        c => add(&number(t.first)?, &multiply(&number(c)?, &p, s)?, s)?,
    };
    let w = multiply(&slope, &p, s)?;
    if t.constant == 0.0 { Ok(w) } else { add(&number(t.constant)?, &w, s) }
}

/// A triangle: 1 - |2 i / (n - 1) - 1|.
pub fn bartlett(n: i64, s: Stream) -> Result<Array> {
    match distances(n, s)? {
        None => trivial(n, s),
        Some(i) => crate::ops::divide(&multiply(&i, &number(2.0)?, s)?, &number((n - 1) as f64)?, s),
    }
}

/// 0.42 - 0.5 cos(2 pi i / (n - 1)) + 0.08 cos(4 pi i / (n - 1)).
pub fn blackman(n: i64, s: Stream) -> Result<Array> {
    cosine(n, &Terms { constant: 0.0, first: 0.36, second: 0.64 }, s)
}

/// 0.54 - 0.46 cos(2 pi i / (n - 1)).
pub fn hamming(n: i64, s: Stream) -> Result<Array> {
    cosine(n, &Terms { constant: 0.08, first: 0.92, second: 0.0 }, s)
}

/// 0.5 - 0.5 cos(2 pi i / (n - 1)).
pub fn hanning(n: i64, s: Stream) -> Result<Array> {
    cosine(n, &Terms { constant: 0.0, first: 1.0, second: 0.0 }, s)
}

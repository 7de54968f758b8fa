//! Numbers at equal distances: a primitive with a kernel for `arange`, and `linspace` from it.

use super::create::full;
use super::elementwise::composed::joined;
use super::elementwise::*;
use super::support::*;
use super::view::{flatten, reshape, slice};
use crate::core::layout::checked_size;
use crate::core::notes::note;
use crate::core::{Array, Dtype, Param, Primitive, Result, Stored, Stream};
use crate::{bail, on_gpu, params};

struct Arange {
    start: f64,
    step: f64,
}

impl Primitive for Arange {
    fn name(&self) -> &str {
        "arange"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.start, self.step]
    }

    fn eval_cpu(&self, _: &[Array], outputs: &[Array]) -> Result<()> {
        crate::cpu::elementwise::arange(self.start, self.step, &host_out(&outputs[0])?)
    }

    fn eval_gpu(&self, stream: Stream, _: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let dst = dev_out(enc, &outputs[0])?;
            if outputs[0].size() == 0 {
                return Ok(());
            }
            crate::vulkan::kernels::elementwise::arange(enc, self.start, self.step, &dst)
        })
    }
}

/// A stored range.
pub(super) fn restore(c: &Stored) -> Result<Array> {
    let _: [&Array; 0] = c.inputs()?;
    let (shape, dtype) = c.spec()?;
    if shape.len() != 1 || *dtype == Dtype::Bool {
        bail!(Value, "[arange] Expected one axis of numbers, got {} axes of {dtype}.", shape.len());
    }
    checked_size("arange", shape, dtype.size())?;
    let range = Arange { start: c.float(0)?, step: c.float(1)? };
    Array::lazy(shape.clone(), *dtype, range, vec![], c.stream)
}
/// `start, start + step, ...` before `stop`.
pub fn arange(start: f64, stop: f64, step: f64, dtype: Dtype, s: Stream) -> Result<Array> {
    if dtype == Dtype::Bool {
        bail!(Value, "[arange] bool not supported.");
    }
    if start.is_nan() || stop.is_nan() || step.is_nan() {
        bail!(Value, "[arange] Cannot compute length with NaN bounds.");
    }
    if start.is_infinite() || stop.is_infinite() {
        bail!(Value, "[arange] Cannot compute length with infinite bounds.");
    }
    if step == 0.0 {
        bail!(Value, "[arange] step must not be zero.");
    }
    if s.device.is_gpu() && dtype == Dtype::F64 {
        bail!(Value, "[arange] float64 is not supported on the GPU; use a CPU stream.");
    }
    if dtype == Dtype::C64 {
        return astype(&arange(start, stop, step, Dtype::F32, s)?, dtype, s);
    }
    let n = if step.is_infinite() {
        f64::from(u8::from((stop > start) == (step > 0.0) && stop != start))
    } else {
        ((stop - start) / step).ceil().max(0.0)
    };
    if n > f64::from(i32::MAX) {
        bail!(Value, "[arange] Maximum size exceeded, got {n} elements.");
    }
    checked_size("arange", &[n as i64], dtype.size())?;
    let range = match dtype.is_integer() {
        _ if step.is_infinite() => Arange { start, step: 0.0 },
        // The first two elements are cut to integers, and the others follow at their distance, as in MLX.
        true => Arange { start: start.trunc(), step: (start + step).trunc() - start.trunc() },
        false => Arange { start, step },
    };
    let out = Array::lazy(&[n as i64][..], dtype, range, vec![], s)?;
    note(std::slice::from_ref(&out), || ("arange", params![start, step, stop], vec![]));
    Ok(out)
}

/// Numbers of a row of the grid that a long `linspace` is computed on.
const ROW: f64 = 4096.0;
/// See [`ROW`].
const LONG: i64 = 1 << 18;

/// `num` evenly spaced numbers from `start` to `stop`, the end included or not.
pub fn linspace(start: f64, stop: f64, num: i64, endpoint: bool, dtype: Dtype, s: Stream) -> Result<Array> {
    if num < 0 {
        bail!(Value, "[linspace] number of samples, {num}, must be non-negative.");
    }
    checked_size("linspace", &[num], dtype.size())?;
    let work = if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    if num == 1 {
        return astype(&full(&[1], &scalar_f64(start, work)?, None, s)?, dtype, s);
    }
    let parts = if endpoint { num - 1 } else { num } as f64;
    // FITS: a number of dtypes.
    let form = dtype as u32;
    let ends = [scalar_f64(parts, work)?, scalar_f64(start, work)?, scalar_f64(stop, work)?];
    let between = |i: &Array, [parts, start, stop]: [&Array; 3]| {
        let t = divide(i, parts, s)?;
        let left = multiply(&subtract(&scalar_f64(1.0, work)?, &t, s)?, start, s)?;
        let right = multiply(&t, stop, s)?;
        astype(&add(&left, &right, s)?, dtype, s)
    };
    if num >= LONG {
        // Positions as sums of a column and a row, which are as good as made: both are exact, so that the sum is rounded
        // as the position is.
        let rows = arange(0.0, (num as f64 / ROW).ceil() * ROW, ROW, work, s)?;
        let rows = reshape(&rows, &[rows.dim(0), 1], s)?;
        let [parts, start, stop] = &ends;
        let inputs = [rows, arange(0.0, ROW, 1.0, work, s)?, parts.clone(), start.clone(), stop.clone()];
        let f = |x: &[Array]| between(&add(&x[0], &x[1], s)?, [&x[2], &x[3], &x[4]]);
        if let Some(all) = joined("linspace_rows", form, &inputs, s, &f)? {
            return slice(&flatten(&all, 0, -1, s)?, &[0], &[num], &[1], s);
        }
    }
    let [parts, start, stop] = ends;
    let inputs = [arange(0.0, num as f64, 1.0, work, s)?, parts, start, stop];
    composed("linspace", form, &inputs, s, &|x| between(&x[0], [&x[1], &x[2], &x[3]]))
}

//! Many rows by codes of four bits on the warpgroups of NVIDIA's sm_90a (kernels/matmul/warpgroup/codes.rs): what is a product there.
//! Called by `qmm` where it would dequantise the weights first.

use smallvec::SmallVec;

use super::qmm::{Picks, Weights};
use crate::core::{Error, Result};
use crate::kernels::DeviceView;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::matmul::warpgroup::codes::{self, Factors, Rights};
use crate::vulkan::kernels::matmul::warpgroup::runs;
use crate::vulkan::kernels::matmul::{Operand, Problem, REACH, reach};
use crate::vulkan::tune::quantized::Shape;

/// Runs a product of many rows by codes of four bits on warpgroups, where that can be; whether it did. Rows meet one matrix, or pick
/// theirs in order.
pub fn run(
    enc: &mut CommandEncoder,
    x: &DeviceView,
    w: &Weights,
    picks: &Picks,
    s: &Shape,
    dst: &DeviceView,
) -> Result<bool> {
    let Format { mode, group, bits } = w.format;
    let like = |v: &DeviceView| v.dtype == s.dtype && v.is_row_contiguous();
    let Some(biases) = w.biases.filter(|b| mode == Mode::Affine && bits == 4 && like(b) && like(w.scales))
    else {
        return Ok(false);
    };
    // Rows of all products are evenly apart.
    let rows = if s.m == 1 { x.strides[0] } else { x.strides[1] };
    let one = s.batch == 1 || (x.shape[0] == s.batch && x.strides[0] == s.m * rows);
    let whole = w.codes.is_row_contiguous() && w.codes.ptr.is_multiple_of(16) && dst.is_row_contiguous();
    let alone = picks.rhs.is_none() && s.matrices == 1;
    if picks.lhs.is_some() || !one || !whole || !(alone || s.runs) {
        return Ok(false);
    }
    let m = s.batch * s.m;
    let a = Operand { ptr: x.ptr, rs: rows, cs: x.strides[2], batch: SmallVec::new(), range: x.range() };
    let (words, groups) = (s.k / 8, s.k / i64::from(group));
    let b = Operand { ptr: w.codes.ptr, rs: 1, cs: s.k, batch: SmallVec::new(), range: w.codes.range() };
    let p = Problem::plain(s.dtype, [m, s.n, s.k], [a, b], dst.range());
    // Rows that are mirrored, or whose elements lie apart, are brought into a form by products of values.
    let formed = p.a.form(m, s.k).is_some();
    if !formed || m * rows.max(s.n).max(s.k) >= reach(2) || s.n * s.k >= REACH {
        return Ok(false);
    }
    let factors = Factors {
        scales: w.scales.range(),
        biases: biases.range(),
        step: s.n * groups * 2,
        ld: groups,
        group,
    };
    let (range, step) = (w.codes.range(), s.n * words * 4);
    let rights =
        Rights { ptr: w.codes.ptr, range, step, ld: words, count: s.matrices, factors: Some(factors) };
    let done = match picks.rhs {
        Some(rhs) => match runs::plan(enc, &p, &rights) {
            Some(plan) => runs::run(enc, &p, &rights, rhs, plan),
            None => return Ok(false),
        },
        None => match codes::plan(enc, &p) {
            Some(plan) => codes::run(enc, &p, &rights, plan),
            None => return Ok(false),
        },
    };
    match done {
        Err(Error::OutOfMemory { .. }) => Ok(false),
        done => done.map(|()| true),
    }
}

//! Helpers of the tests of graph code: arrays of numbers on a CPU stream, and back.

use super::eval;
use crate::core::{Array, Device, Dtype, Stream, default_stream};
use crate::ops::{astype, contiguous, from_host};

/// The stream that tests compute on.
pub(crate) fn stream() -> Stream {
    default_stream(Device::CPU)
}

/// An evaluated float64 array.
pub(crate) fn doubles(shape: &[i64], values: &[f64]) -> Array {
    assert_eq!(shape.iter().product::<i64>(), values.len() as i64);
    from_host(shape, Dtype::F64, |to| {
        for (i, v) in values.iter().enumerate() {
            // SAFETY: there is room for as many values as the shape has.
            unsafe { to.cast::<f64>().add(i).write_unaligned(*v) };
        }
    })
    .unwrap()
}

/// An evaluated float32 array.
pub(crate) fn floats(shape: &[i64], values: &[f64]) -> Array {
    let a = astype(&doubles(shape, values), Dtype::F32, stream()).unwrap();
    eval(std::slice::from_ref(&a)).unwrap();
    a
}

/// The elements in row-major order.
pub(crate) fn values(a: &Array) -> Vec<f64> {
    let a = astype(a, Dtype::F64, stream()).and_then(|a| contiguous(&a, false, stream())).unwrap();
    eval(std::slice::from_ref(&a)).unwrap();
    let from = a.host_ptr().unwrap().cast::<f64>();
    // SAFETY: the array is evaluated, dense and of float64.
    (0..a.size()).map(|i| unsafe { from.add(i).read_unaligned() }).collect()
}

/// Some numbers that are neither round nor equal, the same each time.
pub(crate) fn numbers(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i as f64 + 1.0) * 0.754_877_666).fract() * 2.0 - 0.9).collect()
}

/// Fails where two lists differ by more than `tolerance`, absolutely and relative to the second.
pub(crate) fn close(got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "element {i}: {g} in place of {w}");
    }
}

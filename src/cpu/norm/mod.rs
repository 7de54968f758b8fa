//! RMS and layer normalisation of rows, accumulated in float32 and rounded once.

pub mod softmax;

use super::runtime::elem::{Brain, Half, To};
use super::runtime::pool::{self, SendPtr};
use super::runtime::simd::{keep_vectors, multiversion};
use super::runtime::walk::{Lines, locate};
use crate::bail;
use crate::core::{Dtype, Result};
use crate::kernels::HostView;

const LANES: usize = 32;
const GRAIN: usize = 8192;

/// Element types that are computed in float32.
pub(super) trait Real: Copy + Send + Sync + To<f32> + 'static {
    fn of(x: f32) -> Self;
}

macro_rules! real {
    ($($t:ty: |$x:ident| $e:expr;)*) => {$(
        impl Real for $t {
            #[inline(always)]
            fn of($x: f32) -> Self { $e }
        }
    )*};
}
real! {
    f32: |x| x;
    Half: |x| x.to();
    Brain: |x| x.to();
}

#[inline(always)]
fn total(xs: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let chunks = xs.chunks_exact(LANES);
    let rest = chunks.remainder();
    for c in chunks {
        for j in 0..LANES {
            lanes[j] += f(c[j]);
        }
    }
    lanes = keep_vectors(lanes);
    for half in [16, 8, 4, 2, 1] {
        for j in 0..half {
            lanes[j] += lanes[j + half];
        }
    }
    rest.iter().fold(lanes[0], |t, &x| t + f(x))
}

/// A row times `inv`, times the weight and plus the bias, where there are some.
#[inline(always)]
fn finish<T: Real>(row: &[f32], inv: f32, job: &Job<'_>, out: &mut [T]) {
    let pairs = out.iter_mut().zip(row);
    match (job.weight, job.bias) {
        ([], []) => pairs.for_each(|(o, &x)| *o = T::of(x * inv)),
        (w, []) => pairs.zip(w).for_each(|((o, &x), &w)| *o = T::of(x * inv * w)),
        ([], b) => pairs.zip(b).for_each(|((o, &x), &b)| *o = T::of(x * inv + b)),
        (w, b) => pairs.zip(w).zip(b).for_each(|(((o, &x), &w), &b)| *o = T::of(x * inv * w + b)),
    }
}

/// What is done with each row; weight and bias are float32 copies, or empty.
struct Job<'a> {
    eps: f32,
    centred: bool,
    weight: &'a [f32],
    bias: &'a [f32],
}

multiversion! {
    unsafe fn rows<T: Real>(
        lines: &Lines, job: &Job<'_>, src: *const T, dst: *mut T, from: usize, to: usize,
    ) {
        let n = lines.len;
        let mut row = vec![0f32; n];
        for k in from..to {
            let (s, d) = locate(&lines.axes, k);
            // SAFETY: offsets come from the views; dst rows are contiguous.
            unsafe {
                let p = src.offset(s);
                if lines.src == 1 {
                    for (o, &x) in row.iter_mut().zip(std::slice::from_raw_parts(p, n)) {
                        *o = x.to();
                    }
                } else {
                    for (i, o) in row.iter_mut().enumerate() {
                        *o = (*p.offset(i as isize * lines.src)).to();
                    }
                }
                if job.centred {
                    let mean = total(&row, |x| x) / n as f32;
                    row.iter_mut().for_each(|x| *x -= mean);
                }
                let inv = 1.0 / (total(&row, |x| x * x) / n as f32 + job.eps).sqrt();
                finish(&row, inv, job, std::slice::from_raw_parts_mut(dst.offset(d), n));
            }
        }
    }
}

/// float32 copy of a vector; empty for none.
fn as_floats<T: Real>(v: Option<&HostView>) -> Vec<f32> {
    let Some(v) = v else { return Vec::new() };
    // SAFETY: a view of one axis is valid over its length.
    (0..v.shape[0]).map(|i| unsafe { *v.as_ptr::<T>().offset((i * v.strides[0]) as isize) }.to()).collect()
}

fn run<T: Real>(src: &HostView, w: Option<&HostView>, b: Option<&HostView>, job: Job<'_>, dst: &HostView) {
    let (weight, bias) = (as_floats::<T>(w), as_floats::<T>(b));
    let job = &Job { weight: &weight, bias: &bias, ..job };
    let lines = &Lines::new(src, src.ndim() - 1, dst);
    let (from, to) = (SendPtr::new(src.as_ptr::<T>()), SendPtr::new(dst.as_ptr::<T>()));
    pool::parallel_chunks(lines.count, GRAIN.div_ceil(lines.len.max(1)), |r| {
        // SAFETY: ranges are disjoint, so are the rows they write.
        unsafe { rows::<T>(lines, job, from.get(), to.get(), r.start, r.end) }
    });
}

/// Normalises the last axis; with `centred` the mean is taken off first. All views have one dtype (float16,
/// bfloat16 or float32); `dst` is contiguous and has the shape of `src`.
///
/// # Errors
/// Value error for other dtypes.
pub fn norm(
    src: &HostView,
    weight: Option<&HostView>,
    bias: Option<&HostView>,
    eps: f32,
    centred: bool,
    dst: &HostView,
) -> Result<()> {
    let job = Job { eps, centred, weight: &[], bias: &[] };
    match src.dtype {
        Dtype::F16 => run::<Half>(src, weight, bias, job, dst),
        Dtype::BF16 => run::<Brain>(src, weight, bias, job, dst),
        Dtype::F32 => run::<f32>(src, weight, bias, job, dst),
        d => bail!(Value, "[norm] Expected float16, bfloat16 or float32, got {d}."),
    }
    Ok(())
}

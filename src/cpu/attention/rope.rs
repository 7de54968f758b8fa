//! Rotary embedding of (batch, heads, positions, features): sines and cosines are computed once a position and
//! used for all heads.

use crate::bail;
use crate::core::{Dtype, Result};
use crate::cpu::norm::Real;
use crate::cpu::runtime::elem::{Brain, Half};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::multiversion;
use crate::kernels::HostView;
use crate::kernels::attention::rope::{Form, inverse_frequencies};
use crate::kernels::elementwise::scalar;

const GRAIN: usize = 16_384;

/// Where rows lie: strides of batch, heads, positions and features, and their numbers.
struct Rows {
    src: [isize; 4],
    n: [usize; 4],
}

multiversion! {
    unsafe fn position<T: Real>(
        rows: &Rows, f: &Form, b: usize, t: usize, table: &[(f32, f32)], src: *const T, dst: *mut T,
    ) {
        let [_, heads, positions, d] = rows.n;
        let half = f.dims / 2;
        let step = rows.src[3];
        for h in 0..heads {
            // SAFETY: indices are inside the views; `dst` is contiguous.
            unsafe {
                let p = src.offset(
                    b as isize * rows.src[0] + h as isize * rows.src[1] + t as isize * rows.src[2],
                );
                let q = dst.add(((b * heads + h) * positions + t) * d);
                for (i, &(c, s)) in table.iter().enumerate() {
                    let (x, y) = if f.traditional { (2 * i, 2 * i + 1) } else { (i, half + i) };
                    let (a, e) = ((*p.offset(x as isize * step)).to(), (*p.offset(y as isize * step)).to());
                    *q.add(x) = T::of(a * c - e * s);
                    *q.add(y) = T::of(a * s + e * c);
                }
                for i in f.dims..d {
                    *q.add(i) = *p.offset(i as isize * step);
                }
            }
        }
    }
}

fn run<T: Real>(src: &HostView, offsets: Option<&HostView>, angles: &[f32], f: &Form, dst: &HostView) {
    let mut rows = Rows { src: [0; 4], n: [0; 4] };
    for i in 0..4 {
        (rows.src[i], rows.n[i]) = (src.strides[i] as isize, src.shape[i] as usize);
    }
    let rows = &rows;
    let [batch, heads, positions, d] = rows.n;
    let (from, to) = (SendPtr::new(src.as_ptr::<T>()), SendPtr::new(dst.as_ptr::<T>()));
    let start = |b: usize| match offsets {
        None => f.offset,
        // SAFETY: one offset, or one for each element of the batch.
        Some(o) if o.shape[0] == 1 => unsafe { *o.as_ptr::<i32>() },
        // SAFETY: as above.
        Some(o) => unsafe { *o.as_ptr::<i32>().offset(b as isize * o.strides[0] as isize) },
    };
    let starts: Vec<i32> = (0..batch).map(start).collect();
    let starts = &starts;
    pool::parallel_chunks(positions, GRAIN.div_ceil((batch * heads * d).max(1)), |r| {
        let mut table = vec![(1f32, 0f32); angles.len()];
        for t in r {
            for b in 0..batch {
                if b == 0 || starts[b] != starts[b - 1] {
                    let p = starts[b].wrapping_add(t as i32) as f32 * f.scale;
                    for (e, &a) in table.iter_mut().zip(angles) {
                        let s = scalar::sin(p * a);
                        *e = (scalar::cos(p * a), if f.back { -s } else { s });
                    }
                }
                // SAFETY: positions are disjoint, so are the rows they write.
                unsafe { position::<T>(rows, f, b, t, &table, from.get(), to.get()) };
            }
        }
    });
}

/// Turns the first `dims` features of `src` (4 axes; float16, bfloat16 or float32). `offsets` holds one int32 or
/// one for each element of the batch, `waves` float32 wavelengths that stand for the base; `dst` is contiguous.
///
/// # Errors
/// Value error for other dtypes.
pub fn rope(
    src: &HostView,
    offsets: Option<&HostView>,
    waves: Option<&HostView>,
    f: &Form,
    dst: &HostView,
) -> Result<()> {
    let angles = match waves {
        // SAFETY: a view of one axis is valid over its length.
        Some(w) => (0..w.shape[0])
            .map(|i| 1.0 / unsafe { *w.as_ptr::<f32>().offset((i * w.strides[0]) as isize) })
            .collect(),
        None => inverse_frequencies(f),
    };
    match src.dtype {
        Dtype::F16 => run::<Half>(src, offsets, &angles, f, dst),
        Dtype::BF16 => run::<Brain>(src, offsets, &angles, f, dst),
        Dtype::F32 => run::<f32>(src, offsets, &angles, f, dst),
        d => bail!(Value, "[rope] Expected float16, bfloat16 or float32, got {d}."),
    }
    Ok(())
}

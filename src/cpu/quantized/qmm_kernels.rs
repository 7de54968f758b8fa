//! Loops over units of quantised rows that `qmm` is made of: sums of products with dealt rows of x, dealt values,
//! and multiples of values. Vectors hold the same code of eight quads, so that no width needs a shuffle.

use super::quant::{Codec, QUADS, UNIT};
use crate::cpu::runtime::simd::multiversion;

/// Columns that are accumulated together where codes run along the results.
pub(in crate::cpu) const BLOCK: usize = 256;

/// How many rows a kernel takes at once.
pub(in crate::cpu) trait Count {
    const N: usize;
}
pub(in crate::cpu) struct One;
pub(in crate::cpu) struct Two;
pub(in crate::cpu) struct Three;
pub(in crate::cpu) struct Four;
impl Count for One {
    const N: usize = 1;
}
impl Count for Two {
    const N: usize = 2;
}
impl Count for Three {
    const N: usize = 3;
}
impl Count for Four {
    const N: usize = 4;
}

/// Sums of one product for each quad.
pub(in crate::cpu) type Lanes = [f32; QUADS];

multiversion! {
    /// Adds the products of `units` units of a row of codes with `A::N` dealt rows of x, which lie `step` apart, to
    /// `out`, and what biases add to `bias`. `sums` holds what the groups of a row of x add up to, `groups` apart. All
    /// lanes do the same, or the compiler would take them apart.
    pub(in crate::cpu) unsafe fn dots<C: Codec, A: Count>(
        w: *const u32, s: *const f32, b: *const f32, x: *const f32, sums: *const f32, step: usize, groups: usize,
        units: usize, group: usize, out: &mut [Lanes; 4], bias: &mut [f32; 4],
    ) {
        // Units of a group; a pair of groups fills a unit where they are short.
        let per = if C::SHORT { 1 } else { group / UNIT };
        let mut total = [[0.0f32; QUADS]; 4];
        let mut shift = [0.0f32; 4];
        // SAFETY: the caller guarantees the units, their factors and A::N rows of x with their sums.
        unsafe {
            for g in 0..units / per {
                let mut acc = [[0.0f32; QUADS]; 4];
                for u in g * per..(g + 1) * per {
                    let q = C::quads(w.add(u * C::BITS));
                    for l in 0..UNIT / QUADS {
                        let mut v = [0.0f32; QUADS];
                        for i in 0..QUADS {
                            v[i] = C::value(q[i], l);
                        }
                        for m in 0..A::N {
                            let x = x.add(m * step + u * UNIT + l * QUADS).cast::<Lanes>().read();
                            for i in 0..QUADS {
                                acc[m][i] += v[i] * x[i];
                            }
                        }
                    }
                }
                let s = scales::<C>(s, g);
                for m in 0..A::N {
                    for i in 0..QUADS {
                        total[m][i] += s[i] * acc[m][i];
                    }
                    if C::AFFINE {
                        shift[m] += *b.add(g) * *sums.add(m * groups + g);
                    }
                }
            }
        }
        for m in 0..A::N {
            for i in 0..QUADS {
                out[m][i] += total[m][i];
            }
            bias[m] += shift[m];
        }
    }
}

/// Factor `g` for each quad, or those of groups `2 g` and `2 g + 1` that share a unit.
///
/// # Safety
/// They can be read.
#[inline(always)]
pub(in crate::cpu) unsafe fn scales<C: Codec>(s: *const f32, g: usize) -> Lanes {
    // SAFETY: by contract.
    unsafe {
        if C::SHORT {
            let (a, b) = (*s.add(2 * g), *s.add(2 * g + 1));
            [a, a, a, a, b, b, b, b]
        } else {
            [*s.add(g); QUADS]
        }
    }
}

/// Sum over the quads.
pub(in crate::cpu) fn fold(lanes: &Lanes) -> f32 {
    let mut t = *lanes;
    let mut half = QUADS / 2;
    while half > 0 {
        for l in 0..half {
            t[l] += t[l + half];
        }
        half /= 2;
    }
    t[0]
}

multiversion! {
    /// Dealt values of `units` units of a row.
    pub(in crate::cpu) unsafe fn values<C: Codec>(w: *const u32, s: *const f32, b: *const f32, dst: *mut f32, units: usize, group: usize) {
        let per = if C::SHORT { 1 } else { group / UNIT };
        // SAFETY: the caller guarantees the units, their scales and biases and as many results.
        unsafe {
            for g in 0..units / per {
                let (s, b) = (scales::<C>(s, g), scales::<C>(b, g));
                for u in g * per..(g + 1) * per {
                    let q = C::quads(w.add(u * C::BITS));
                    for l in 0..UNIT / QUADS {
                        let mut v = [0.0f32; QUADS];
                        for i in 0..QUADS {
                            v[i] = C::value(q[i], l) * s[i] + b[i];
                        }
                        dst.add(u * UNIT + l * QUADS).cast::<Lanes>().write(v);
                    }
                }
            }
        }
    }
}

multiversion! {
    /// Adds `A::N` factors times the dealt values of `units` units of a row to as many lines of sums,
    /// from that column on.
    pub(in crate::cpu) unsafe fn spread<C: Codec, A: Count>(
        w: *const u32, s: *const f32, b: *const f32, x: [f32; 4], acc: &mut [[f32; BLOCK]; 4], from: usize,
        units: usize, group: usize,
    ) {
        let per = if C::SHORT { 1 } else { group / UNIT };
        // SAFETY: the caller guarantees the units with their scales and biases.
        unsafe {
            for u in 0..units {
                let (s, b) = (scales::<C>(s, u / per), scales::<C>(b, u / per));
                let q = C::quads(w.add(u * C::BITS));
                for l in 0..UNIT / QUADS {
                    let mut v = [0.0f32; QUADS];
                    for i in 0..QUADS {
                        v[i] = C::value(q[i], l) * s[i] + b[i];
                    }
                    for m in 0..A::N {
                        let to = &mut acc[m][from + u * UNIT + l * QUADS..][..QUADS];
                        for i in 0..QUADS {
                            to[i] += x[m] * v[i];
                        }
                    }
                }
            }
        }
    }
}

/// Calls `f(words, unit, units)` for the whole units of a row of `len` codes, and again for half a unit at its end, on a copy of
/// its words followed by zeros.
///
/// # Safety
/// The row has `len` codes.
#[inline(always)]
pub(in crate::cpu) unsafe fn each_part<C: Codec>(
    w: *const u32,
    len: usize,
    mut f: impl FnMut(*const u32, usize, usize),
) {
    let whole = len / UNIT;
    f(w, 0, whole);
    if !len.is_multiple_of(UNIT) {
        let mut words = [0u32; UNIT / 4];
        for (i, x) in words.iter_mut().enumerate().take(C::BITS / 2) {
            // SAFETY: the words of the rest.
            *x = unsafe { *w.add(whole * C::BITS + i) };
        }
        f(words.as_ptr(), whole, 1);
    }
}

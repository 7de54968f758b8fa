//! One to four rows of x against rows of codes, in vectors of 512 bits. Sixteen words are shifted side by side, and each
//! step takes one code of every word: a look-up in a table of sixteen values, or a conversion of bytes. Groups are summed
//! as values times x and scaled once. Takes formats whose words hold whole codes; `qmm` has the others, and machines
//! without such vectors. Sums are float32 and do not depend on how rows are divided among threads.

use std::arch::x86_64::*;

use crate::core::Dtype;
use crate::core::fork::Made;
use crate::kernels::elementwise::fp8::from_fp8;
use crate::kernels::quantized::quant::{Format, Mode, from_e8m0};

/// Words that are decoded side by side, and groups whose factors are.
const LANES: usize = 16;
/// Words that are asked for ahead of those that are decoded, in each of the rows that are taken together: the processor itself
/// sees short rows side by side as no stream, and decoding would wait for memory half of the time.
const AHEAD: usize = 256;

/// Values of four-bit floats.
const FP4: [f32; LANES] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Whether this machine and this format are taken.
pub(super) fn takes(f: Format) -> bool {
    static HAS: Made<bool> = Made::new(|| {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
    });
    *HAS && matches!((f.mode, f.bits), (Mode::Affine, 1 | 2 | 4 | 8) | (Mode::Mxfp4 | Mode::Nvfp4, 4))
}

/// Rows of codes.
#[derive(Clone, Copy)]
pub(super) struct Codes {
    pub format: Format,
    pub words: *const u32,
    pub scales: *const u8,
    /// Null in formats without.
    pub biases: *const u8,
    /// Of scales and biases.
    pub dtype: Dtype,
    /// Words and groups of a row.
    pub count: usize,
    pub groups: usize,
}
// SAFETY: a description; kernels only read through it, while the arrays it came from are alive.
unsafe impl Send for Codes {}
// SAFETY: as above.
unsafe impl Sync for Codes {}

/// Rows of x in units of sixteen words, the first codes of all words first, then the second ones, and so on; and what
/// the groups of a row add up to.
pub(super) struct Dealt {
    data: Vec<f32>,
    step: usize,
    sums: Vec<f32>,
    sums_step: usize,
}

impl Dealt {
    /// Deals `count` rows of `k` elements that lie `step` apart.
    pub(super) fn new(f: Format, x: &[f32], step: usize, k: usize, count: usize) -> Dealt {
        let (per, group) = (32 / f.bits as usize, f.group as usize);
        let unit = LANES * per;
        let out = k.next_multiple_of(unit);
        let sums_step = if f.affine() { (k / group).next_multiple_of(LANES) } else { 0 };
        let room = if count % 4 == 3 { count + 1 } else { count };
        let mut dealt =
            Dealt { data: vec![0.0; room * out], step: out, sums: vec![0.0; room * sums_step], sums_step };
        for r in 0..count {
            let row = &x[r * step..][..k];
            for (from, to) in row.chunks(unit).zip(dealt.data[r * out..].chunks_mut(unit)) {
                for (word, from) in from.chunks(per).enumerate() {
                    for (j, x) in from.iter().enumerate() {
                        to[j * LANES + word] = *x;
                    }
                }
            }
            let sums = dealt.sums[r * sums_step..].iter_mut();
            row.chunks(group).zip(sums).for_each(|(g, s)| *s = sum(g));
        }
        dealt
    }
}

/// Sum of a group of whole lanes.
fn sum(x: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    for c in x.chunks_exact(LANES) {
        for (s, x) in lanes.iter_mut().zip(c) {
            *s += x;
        }
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}

/// Calls `put(row of x, row of w, sum)` for rows `from..to` of w and rows `first..first + count`, at most four, of x.
///
/// # Safety
/// The rows are there, and [`takes`] holds.
pub(super) unsafe fn products(
    w: &Codes,
    x: &Dealt,
    (first, count): (usize, usize),
    (from, to): (usize, usize),
    put: impl FnMut(usize, usize, f32),
) {
    // SAFETY: by contract; three rows are taken as four, of which the last one is zeros.
    unsafe {
        match (w.format.bits, count) {
            (1, 1) => rows::<1, 1, 4>(w, x, first, from, to, put),
            (1, 2) => rows::<1, 2, 2>(w, x, first, from, to, put),
            (1, _) => rows::<1, 4, 2>(w, x, first, from, to, put),
            (2, 1) => rows::<2, 1, 4>(w, x, first, from, to, put),
            (2, 2) => rows::<2, 2, 2>(w, x, first, from, to, put),
            (2, _) => rows::<2, 4, 2>(w, x, first, from, to, put),
            (4, 1) => rows::<4, 1, 4>(w, x, first, from, to, put),
            (4, 2) => rows::<4, 2, 2>(w, x, first, from, to, put),
            (4, _) => rows::<4, 4, 2>(w, x, first, from, to, put),
            (_, 1) => rows::<8, 1, 4>(w, x, first, from, to, put),
            (_, 2) => rows::<8, 2, 2>(w, x, first, from, to, put),
            (_, _) => rows::<8, 4, 2>(w, x, first, from, to, put),
        }
    }
}

/// Bits of the lanes of which `left` are there.
#[inline(always)]
fn mask(left: usize) -> u16 {
    if left >= LANES { u16::MAX } else { (1 << left) - 1 }
}

/// Sixteen factors from `at` on as floats, zeros where `mask` has no bit.
///
/// # Safety
/// Those with a bit can be read.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
unsafe fn factors(w: &Codes, p: *const u8, at: usize, mask: u16) -> __m512 {
    // SAFETY: by contract.
    unsafe {
        match (w.format.mode, w.dtype) {
            (Mode::Affine, Dtype::BF16) => {
                let h = _mm256_maskz_loadu_epi16(mask, p.cast::<i16>().add(at));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(h)))
            }
            (Mode::Affine, Dtype::F16) => {
                _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, p.cast::<i16>().add(at)))
            }
            (Mode::Affine, _) => _mm512_maskz_loadu_ps(mask, p.cast::<f32>().add(at)),
            (mode, _) => {
                let mut bytes = [0u8; LANES];
                _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm_maskz_loadu_epi8(mask, p.add(at).cast()));
                let floats = match mode {
                    Mode::Nvfp4 => bytes.map(from_fp8),
                    Mode::Affine | Mode::Mxfp4 | Mode::Mxfp8 => bytes.map(from_e8m0),
                };
                _mm512_maskz_loadu_ps(mask, floats.as_ptr())
            }
        }
    }
}

/// Values that the lowest four bits of a word stand for.
fn table(f: Format) -> [f32; LANES] {
    match f.mode {
        Mode::Affine => std::array::from_fn(|i| (i & ((1 << f.bits.min(4)) - 1)) as f32),
        Mode::Mxfp4 | Mode::Mxfp8 | Mode::Nvfp4 => FP4,
    }
}

/// Rows of w, `R` at a time, and `M` rows of x.
///
/// # Safety
/// As for [`products`]; codes have `B` bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn rows<const B: u32, const M: usize, const R: usize>(
    w: &Codes,
    x: &Dealt,
    first: usize,
    from: usize,
    to: usize,
    mut put: impl FnMut(usize, usize, f32),
) {
    let values = table(w.format);
    // SAFETY: sixteen floats.
    let values = unsafe { _mm512_loadu_ps(values.as_ptr()) };
    for row in (from..to).step_by(R) {
        // The last rows may come twice.
        let at: [usize; R] = std::array::from_fn(|r| (row + r).min(to - 1));
        // SAFETY: these rows are there by contract.
        let sums = unsafe { some::<B, M, R>(w, x, first, at, values) };
        for (r, sums) in sums.iter().enumerate().take(to - row) {
            for (m, &y) in sums.iter().enumerate() {
                put(first + m, row + r, y);
            }
        }
    }
}

/// Sums of `R` rows of w and `M` of x.
///
/// # Safety
/// As for [`rows`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
#[inline]
unsafe fn some<const B: u32, const M: usize, const R: usize>(
    w: &Codes,
    x: &Dealt,
    first: usize,
    at: [usize; R],
    values: __m512,
) -> [[f32; M]; R] {
    let per = 32 / B as usize;
    let unit = LANES * per;
    // Places of the words' first codes in sixteen groups, and the same as groups.
    let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let start = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(per as i32));
    let shift = _mm_cvtsi32_si128(w.format.group.trailing_zeros() as i32);
    let units = LANES * w.format.group as usize / unit;
    let mut total = [[_mm512_setzero_ps(); M]; R];
    let (mut word, mut group) = (0, 0);
    // What is asked for lies in these rows or in the ones that are taken together after them.
    let (mut later, mut place_later) = (AHEAD / w.count.max(1) * R, AHEAD % w.count.max(1));
    while group < w.groups {
        let held = mask(w.groups - group);
        let mut scales = [_mm512_setzero_ps(); R];
        // SAFETY: the factors of these groups, and the sums of M rows of x.
        unsafe {
            for r in 0..R {
                let i = at[r] * w.groups + group;
                scales[r] = factors(w, w.scales, i, held);
                if !w.biases.is_null() {
                    let bias = factors(w, w.biases, i, held);
                    for m in 0..M {
                        let sums = _mm512_loadu_ps(x.sums.as_ptr().add((first + m) * x.sums_step + group));
                        total[r][m] = _mm512_fmadd_ps(bias, sums, total[r][m]);
                    }
                }
            }
        }
        let mut place = start;
        for _ in 0..units.min((w.count - word).div_ceil(LANES)) {
            let held = mask(w.count - word);
            let mut codes = [_mm512_setzero_si512(); R];
            for r in 0..R {
                // SAFETY: words of the row.
                codes[r] =
                    unsafe { _mm512_maskz_loadu_epi32(held, w.words.add(at[r] * w.count + word).cast()) };
                let ahead = w.words.wrapping_add((at[r] + later) * w.count + place_later);
                // SAFETY: addresses that are asked for need not be there (and newer compilers ask for no promise).
                #[allow(unused_unsafe)]
                unsafe {
                    _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                }
            }
            place_later += LANES;
            if place_later >= w.count {
                (later, place_later) = (later + R, place_later - w.count);
            }
            let mut acc = [[_mm512_setzero_ps(); M]; R];
            for j in 0..per {
                let mut v = [values; R];
                for r in 0..R {
                    v[r] = if B == 8 {
                        _mm512_cvtepi32_ps(_mm512_and_si512(codes[r], _mm512_set1_epi32(255)))
                    } else {
                        _mm512_permutexvar_ps(codes[r], values)
                    };
                    codes[r] = _mm512_srli_epi32::<B>(codes[r]);
                }
                for m in 0..M {
                    // SAFETY: x has whole units.
                    let x = unsafe {
                        _mm512_loadu_ps(x.data.as_ptr().add((first + m) * x.step + word * per + j * LANES))
                    };
                    for r in 0..R {
                        acc[r][m] = _mm512_fmadd_ps(v[r], x, acc[r][m]);
                    }
                }
            }
            let groups = _mm512_srl_epi32(place, shift);
            for r in 0..R {
                let s = _mm512_permutexvar_ps(groups, scales[r]);
                for m in 0..M {
                    total[r][m] = _mm512_fmadd_ps(s, acc[r][m], total[r][m]);
                }
            }
            place = _mm512_add_epi32(place, _mm512_set1_epi32(unit as i32));
            word += LANES;
        }
        group += LANES;
    }
    total.map(|t| t.map(|v| _mm512_reduce_add_ps(v)))
}

//! Products of bfloat16 in tiles of 16 x 32 numbers with sums in float32: by AMX, or by AVX-512's products of pairs. Both
//! take subnormal operands as zero and round subnormal sums to it, so that callers look at the numbers first
//! ([`plain`]). A left tile is sixteen rows of 32 numbers along K; a right one has the pairs of numbers along K of sixteen
//! columns, a row for each pair. Called by `matmul` and by the products with quantised matrices.

use std::arch::asm;
use std::arch::x86_64::*;
use std::marker::PhantomData;

use crate::core::fork::Made;

/// Rows of a left tile, columns of a right one.
pub(in crate::cpu) const SIDE: usize = 16;
/// Numbers of a tile along K.
pub(in crate::cpu) const DEPTH: usize = 32;
/// Numbers of a tile.
pub(in crate::cpu) const TILE: usize = SIDE * DEPTH;
/// Sums of a tile.
pub(in crate::cpu) const SUMS: usize = SIDE * SIDE;

/// What multiplies tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cpu) enum Unit {
    /// AMX.
    Matrix,
    /// AVX-512 BF16.
    Pairs,
}

/// What this machine has.
pub(in crate::cpu) fn unit() -> Option<Unit> {
    static UNIT: Made<Option<Unit>> = Made::new(|| {
        let base = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bf16");
        if !base {
            None
        } else if has_matrix() {
            Some(Unit::Matrix)
        } else {
            Some(Unit::Pairs)
        }
    });
    *UNIT
}

/// Whether there is AMX for bfloat16, and the system lets this process use it. A child of a fork may go on.
fn has_matrix() -> bool {
    // Bits 22 and 24 of leaf 7: bfloat16 and tiles. What the system saves: bits 17 and 18 of XCR0.
    let told = __cpuid_count(7, 0).edx;
    if !is_x86_feature_detected!("xsave") || (told >> 22 & 1 == 0) || (told >> 24 & 1 == 0) {
        return false;
    }
    // SAFETY: the feature was just detected.
    let saved = unsafe { _xgetbv(0) };
    saved >> 17 & 3 == 3 && ask()
}

/// Asks Linux for the tiles' registers (`arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`).
#[cfg(target_os = "linux")]
fn ask() -> bool {
    let mut result: i64 = 158;
    // SAFETY: a system call that touches no memory of this process.
    unsafe {
        asm!("syscall", inlateout("rax") result, in("rdi") 0x1023, in("rsi") 18, out("rcx") _, out("r11") _,
            options(nostack));
    }
    result == 0
}
#[cfg(not(target_os = "linux"))]
fn ask() -> bool {
    false
}

/// Magnitudes whose products and sums the units keep: sums of products with numbers from 2^-10 to 2^9 are off by
/// less than float32 rounds them, and do not overflow.
const LEAST: u32 = (127 - 90) << 23;
const MOST: u32 = (127 + 100) << 23;

/// Whether a number's bits, as float32, are zero or of a magnitude that the units keep.
#[inline(always)]
pub(in crate::cpu) fn plain(bits: u32) -> bool {
    let size = bits & 0x7fff_ffff;
    (size == 0) | (size.wrapping_sub(LEAST) < MOST - LEAST)
}

#[repr(C, align(64))]
struct Config {
    palette: u8,
    start: u8,
    zero: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// The unit, ready on this thread; nothing else that uses tiles may run on it meanwhile.
pub(in crate::cpu) struct Session(Unit, PhantomData<*mut ()>);

impl Session {
    /// Readies a unit that [`unit`] gave.
    #[inline(never)]
    pub(in crate::cpu) fn new(unit: Unit) -> Session {
        if unit == Unit::Matrix {
            let mut c = Config { palette: 1, start: 0, zero: [0; 14], bytes: [0; 16], rows: [0; 16] };
            c.bytes[..8].fill(64);
            c.rows[..8].fill(SIDE as u8);
            // SAFETY: the machine has tiles, and reads 64 bytes.
            unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const c, options(nostack, readonly)) };
        }
        Session(unit, PhantomData)
    }

    /// Sums of the products of two left tiles and `N` right ones, one or two, `units` deep: a unit's tiles lie side by side in
    /// `a` and `b`. `a` is read anew for each of `parts` parts that follow each other in `b`. Writes the tiles of sums
    /// of the first left tile, then those of the second.
    ///
    /// # Safety
    /// The tiles are there, with `2 * N` tiles of sums.
    pub(in crate::cpu) unsafe fn block<const N: usize>(
        &self,
        a: *const u16,
        b: *const u16,
        units: usize,
        parts: usize,
        sums: *mut f32,
    ) {
        // SAFETY: by contract; the session was made for this unit.
        unsafe {
            match (self.0, N) {
                (Unit::Matrix, 1) => narrow(a, b, units, parts, sums),
                (Unit::Matrix, _) => square(a, b, units, parts, sums),
                (Unit::Pairs, _) => pairs::<N>(a, b, units, parts, sums),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.0 == Unit::Matrix {
            // SAFETY: ends what `new` began.
            unsafe { asm!("tilerelease", options(nostack, nomem)) };
        }
    }
}

/// Two left tiles and two right ones.
///
/// # Safety
/// As for [`Session::block`], with AMX.
unsafe fn square(a: *const u16, b: *const u16, units: usize, parts: usize, sums: *mut f32) {
    // SAFETY: by contract.
    unsafe {
        asm!(
            "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
            "2:",
            "mov {at}, {a}",
            "mov {left}, {units}",
            "3:",
            "tileloadd tmm4, [{at} + {step}]",
            "tileloadd tmm6, [{b} + {step}]",
            "tileloadd tmm5, [{at} + {step} + 1024]",
            "tileloadd tmm7, [{b} + {step} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {at}, 2048",
            "add {b}, 2048",
            "dec {left}",
            "jnz 3b",
            "dec {parts}",
            "jnz 2b",
            "tilestored [{sums} + {step}], tmm0",
            "tilestored [{sums} + {step} + 1024], tmm1",
            "tilestored [{sums} + {step} + 2048], tmm2",
            "tilestored [{sums} + {step} + 3072], tmm3",
            a = in(reg) a, b = inout(reg) b => _, units = in(reg) units, parts = inout(reg) parts => _,
            sums = in(reg) sums, step = in(reg) 64usize, at = out(reg) _, left = out(reg) _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack)
        );
    }
}

/// Two left tiles and one right one.
///
/// # Safety
/// As for [`Session::block`], with AMX.
unsafe fn narrow(a: *const u16, b: *const u16, units: usize, parts: usize, sums: *mut f32) {
    // SAFETY: by contract.
    unsafe {
        asm!(
            "tilezero tmm0", "tilezero tmm2",
            "2:",
            "mov {at}, {a}",
            "mov {left}, {units}",
            "3:",
            "tileloadd tmm4, [{at} + {step}]",
            "tileloadd tmm6, [{b} + {step}]",
            "tileloadd tmm5, [{at} + {step} + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "add {at}, 2048",
            "add {b}, 1024",
            "dec {left}",
            "jnz 3b",
            "dec {parts}",
            "jnz 2b",
            "tilestored [{sums} + {step}], tmm0",
            "tilestored [{sums} + {step} + 1024], tmm2",
            a = in(reg) a, b = inout(reg) b => _, units = in(reg) units, parts = inout(reg) parts => _,
            sums = in(reg) sums, step = in(reg) 64usize, at = out(reg) _, left = out(reg) _,
            out("tmm0") _, out("tmm2") _, out("tmm4") _, out("tmm5") _, out("tmm6") _,
            options(nostack)
        );
    }
}

/// The same by products of pairs: eight rows of a left tile against a row of each right one at a time.
///
/// # Safety
/// As for [`Session::block`], with AVX-512 BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn pairs<const N: usize>(a: *const u16, b: *const u16, units: usize, parts: usize, sums: *mut f32) {
    const ROWS: usize = 8;
    for row in (0..2 * SIDE).step_by(ROWS) {
        let mut acc = [[_mm512_setzero_ps(); N]; ROWS];
        for step in 0..parts * units {
            // SAFETY: tiles of the operands, as the caller guarantees.
            unsafe {
                let left = a.add(step % units * 2 * TILE + row * DEPTH).cast::<i32>();
                let right = b.add(step * N * TILE).cast::<i32>();
                for k in 0..DEPTH / 2 {
                    let mut x = [_mm512_setzero_si512(); N];
                    for n in 0..N {
                        x[n] = _mm512_loadu_si512(right.add(n * TILE / 2 + k * SIDE).cast());
                    }
                    for r in 0..ROWS {
                        let w = _mm512_set1_epi32(*left.add(r * DEPTH / 2 + k));
                        for n in 0..N {
                            acc[r][n] = _mm512_dpbf16_ps(acc[r][n], bf(w), bf(x[n]));
                        }
                    }
                }
            }
        }
        for r in 0..ROWS {
            for n in 0..N {
                let tile = (row + r) / SIDE * N + n;
                // SAFETY: as above.
                unsafe { _mm512_storeu_ps(sums.add(tile * SUMS + (row + r) % SIDE * SIDE), acc[r][n]) };
            }
        }
    }
}

/// Bits as pairs of bfloat16.
#[inline(always)]
fn bf(x: __m512i) -> __m512bh {
    // SAFETY: both are 512 bits of which any are valid.
    unsafe { std::mem::transmute(x) }
}

/// Exchanges rows and columns of sixteen vectors of 32-bit numbers.
#[target_feature(enable = "avx512f")]
#[inline]
pub(in crate::cpu) fn transposed(x: [__m512i; SIDE]) -> [__m512i; SIDE] {
    let mut y = x;
    for i in (0..SIDE).step_by(2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    // Columns c, c + 4, c + 8 and c + 12 of four rows in vector c.
    let mut z = y;
    for i in (0..SIDE).step_by(4) {
        z[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        z[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        z[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        z[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    let mut out = z;
    for c in 0..4 {
        let (a, b) = (z[c], z[c + 4]);
        let (d, e) = (z[c + 8], z[c + 12]);
        let (low, high) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
        let (low2, high2) = (_mm512_shuffle_i32x4::<0x88>(d, e), _mm512_shuffle_i32x4::<0xdd>(d, e));
        out[c] = _mm512_shuffle_i32x4::<0x88>(low, low2);
        out[c + 8] = _mm512_shuffle_i32x4::<0xdd>(low, low2);
        out[c + 4] = _mm512_shuffle_i32x4::<0x88>(high, high2);
        out[c + 12] = _mm512_shuffle_i32x4::<0xdd>(high, high2);
    }
    out
}

/// A left operand's tiles in blocks of memory that begin at multiples of 64 bytes.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Line(#[allow(dead_code)] [u8; 64]);

/// Room for `count` numbers of two bytes. Not in line: Rust 1.95's LLVM was seen to crash on products by tiles where this was part of
/// them.
#[inline(never)]
pub(in crate::cpu) fn room(count: usize) -> Vec<Line> {
    vec![Line([0; 64]); count.div_ceil(DEPTH)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::runtime::testing::Rng;

    fn bits(x: f32) -> u16 {
        (x.to_bits() >> 16) as u16
    }

    /// Tiles of small whole numbers, whose sums are exact.
    fn check<const N: usize>(unit: Unit) {
        let mut rng = Rng(5);
        let mut small =
            |n: usize| -> Vec<f32> { (0..n).map(|_| (rng.unit() * 17.0).floor() as f32 - 8.0).collect() };
        for (units, parts) in [(1, 1), (2, 1), (3, 2), (1, 3)] {
            let depth = units * DEPTH;
            let (a, b) = (small(2 * SIDE * depth), small(N * SIDE * depth * parts));
            let mut left = vec![0u16; a.len()];
            for (i, &x) in a.iter().enumerate() {
                let (row, k) = (i / depth, i % depth);
                left[k / DEPTH * 2 * TILE + row / SIDE * TILE + row % SIDE * DEPTH + k % DEPTH] = bits(x);
            }
            let mut right = vec![0u16; b.len()];
            for (i, &x) in b.iter().enumerate() {
                let (col, k) = (i / (depth * parts), i % (depth * parts));
                let pair = k % DEPTH / 2;
                right[k / DEPTH * N * TILE + col / SIDE * TILE + (pair * SIDE + col % SIDE) * 2 + k % 2] =
                    bits(x);
            }
            let mut sums = vec![7.0f32; 2 * N * SUMS];
            // SAFETY: the tiles just made.
            unsafe {
                Session::new(unit).block::<N>(left.as_ptr(), right.as_ptr(), units, parts, sums.as_mut_ptr());
            }
            for (i, &got) in sums.iter().enumerate() {
                let (tile, row, col) = (i / SUMS, i % SUMS / SIDE, i % SIDE);
                let (row, col) = (tile / N * SIDE + row, tile % N * SIDE + col);
                let want: f32 =
                    (0..depth * parts).map(|k| a[row * depth + k % depth] * b[col * depth * parts + k]).sum();
                assert_eq!(got, want, "{unit:?} {units} {parts} at {row}, {col}");
            }
        }
    }

    #[test]
    fn both_units_sum_products_of_tiles() {
        match unit() {
            None => {}
            Some(best) => {
                for unit in [best, Unit::Pairs] {
                    check::<1>(unit);
                    check::<2>(unit);
                }
            }
        }
    }

    #[test]
    fn rows_become_columns() {
        if !is_x86_feature_detected!("avx512f") {
            return;
        }
        let x: [[u32; SIDE]; SIDE] = std::array::from_fn(|i| std::array::from_fn(|j| (i * SIDE + j) as u32));
        // SAFETY: the feature was just detected; all are sixteen vectors of bits.
        let y = unsafe {
            let turned = transposed(std::mem::transmute::<[[u32; SIDE]; SIDE], [__m512i; SIDE]>(x));
            std::mem::transmute::<[__m512i; SIDE], [[u32; SIDE]; SIDE]>(turned)
        };
        assert!((0..SIDE * SIDE).all(|i| y[i / SIDE][i % SIDE] == x[i % SIDE][i / SIDE]));
    }

    #[test]
    fn numbers_at_the_ends_of_the_range_are_not_plain() {
        for x in [0.0f32, -0.0, 1.0, -3e-27, 1e30] {
            assert!(plain(x.to_bits()), "{x:e}");
        }
        for x in [1e-40f32, -1e-28, 2e30, f32::INFINITY, f32::NAN, f32::NEG_INFINITY] {
            assert!(!plain(x.to_bits()), "{x:e}");
        }
    }
}

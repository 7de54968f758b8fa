//! Random bits from Threefry-2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, 20
//! rounds), with the counters that MLX uses, so that a key gives the same bits as there.
//!
//! The bytes of one key are `w` words, the last one cut short if need be. With `h = w / 2` and `o = w % 2`,
//! words `i` and `h + o + i` are the two halves of the hash of `(i, h + o + i)`; the middle word of an odd
//! count is the first half of the hash of `(h, 0)`.

use crate::bail;
use crate::core::layout::show;
use crate::core::{Dtype, Result};
use crate::cpu::runtime::pool::{self, SendPtr};
use crate::cpu::runtime::simd::multiversion;
use crate::kernels::HostView;
use crate::kernels::elementwise::scalar_special::erfinv;
use crate::kernels::random::draw::{Draw, symmetric, unit, unit_bf16, unit_f16};

// Pairs of words computed side by side.
const BLOCK: usize = 64;
const GRAIN: usize = 4096;

#[inline(always)]
fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1bd1_1bda];
    let (mut x, mut y) = (counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1]));
    for i in 0..5 {
        for r in ROTATIONS[i % 2] {
            x = x.wrapping_add(y);
            y = y.rotate_left(r) ^ x;
        }
        x = x.wrapping_add(keys[(i + 1) % 3]);
        y = y.wrapping_add(keys[(i + 2) % 3]).wrapping_add(i as u32 + 1);
    }
    [x, y]
}

// The bits of one key.
#[derive(Clone, Copy)]
struct Stretch {
    bytes: usize,
    words: usize,
}

impl Stretch {
    fn half(self) -> usize {
        self.words / 2
    }
    fn odd(self) -> usize {
        self.words % 2
    }
    // Hashes of one key.
    fn hashes(self) -> usize {
        self.half() + self.odd()
    }
    #[inline(always)]
    unsafe fn put(self, out: *mut u8, word: usize, value: u32) {
        let n = (self.bytes - word * 4).min(4);
        // SAFETY: the caller's stretch holds the word, or its first n bytes.
        unsafe { std::ptr::copy_nonoverlapping(value.to_ne_bytes().as_ptr(), out.add(word * 4), n) };
    }
}

/// What becomes of a word before it is stored.
trait Finish {
    fn finish(word: u32) -> u32;
}

macro_rules! finishes {
    ($($name:ident: |$w:ident| $e:expr;)*) => {$(
        struct $name;
        impl Finish for $name {
            #[inline(always)]
            fn finish($w: u32) -> u32 {
                $e
            }
        }
    )*};
}
finishes! {
    Bits: |w| w;
    Unit: |w| unit(w).to_bits();
    Symmetric: |w| symmetric(w).to_bits();
    Erfinv: |w| erfinv(symmetric(w)).to_bits();
    UnitF16: |w| unit_f16(w).to_bits();
    UnitBF16: |w| unit_bf16(w).to_bits();
    Normal: |w| (std::f32::consts::SQRT_2 * erfinv(symmetric(w))).to_bits();
}

multiversion! {
    // Hashes `from..to` of the key into `out`, where the stretch starts.
    unsafe fn fill<F: Finish>(key: [u32; 2], s: Stretch, out: *mut u8, from: usize, to: usize) {
        let (half, second) = (s.half(), s.half() + s.odd());
        let pairs = to.min(half);
        let mut i = from;
        let (mut lo, mut hi) = ([0u32; BLOCK], [0u32; BLOCK]);
        while i < pairs {
            let n = BLOCK.min(pairs - i);
            for j in 0..BLOCK {
                let [a, b] = threefry(key, [(i + j) as u32, (second + i + j) as u32]);
                (lo[j], hi[j]) = (a, b);
            }
            for word in &mut lo {
                *word = F::finish(*word);
            }
            for word in &mut hi {
                *word = F::finish(*word);
            }
            let at = (second + i) * 4;
            // SAFETY: words i..i+n and second+i.. lie in the stretch; the last one is cut at its end.
            unsafe {
                std::ptr::copy_nonoverlapping(lo.as_ptr().cast(), out.add(i * 4), n * 4);
                std::ptr::copy_nonoverlapping(hi.as_ptr().cast(), out.add(at), (n * 4).min(s.bytes - at));
            }
            i += n;
        }
        if to > half && s.odd() == 1 {
            // SAFETY: the middle word lies in the stretch.
            unsafe { s.put(out, half, F::finish(threefry(key, [half as u32, 0])[0])) };
        }
    }
}

/// Fills `dst` (contiguous, unsigned integers of 8, 16 or 32 bits) with random bits. `keys` is uint32 of
/// shape `(..., 2)`, any strides; each key fills an equal, consecutive part of `dst`.
///
/// # Errors
/// Value error for other dtypes or shapes.
pub fn bits(keys: &HostView, dst: &HostView) -> Result<()> {
    draw(Draw::Bits, keys, dst)
}

/// As [`bits`], with every 32-bit word finished to a float32 (or left alone).
///
/// # Errors
/// Value error for other dtypes or shapes.
pub fn draw(draw: Draw, keys: &HostView, dst: &HostView) -> Result<()> {
    if keys.dtype != Dtype::U32 || keys.shape.last() != Some(&2) {
        let got = show(&keys.shape);
        bail!(Value, "[bits] Expected keys of type uint32 and shape (..., 2), got {} {got}.", keys.dtype);
    }
    let fits = match draw {
        Draw::Bits => matches!(dst.dtype, Dtype::U8 | Dtype::U16 | Dtype::U32),
        _ => dst.dtype == Dtype::F32,
    };
    if !fits || !dst.is_row_contiguous() {
        bail!(Value, "[bits] Cannot draw {draw:?} into {} or into a strided output.", dst.dtype);
    }
    let (count, size) = (keys.size() / 2, dst.size());
    if size == 0 {
        return Ok(());
    }
    if count == 0 || !size.is_multiple_of(count) {
        bail!(Value, "[bits] {size} elements cannot be shared by {count} keys.");
    }
    let bytes = size / count * dst.dtype.size();
    let s = Stretch { bytes, words: bytes.div_ceil(4) };
    let place = keys.layout();
    let read = |k: usize| {
        let (mut at, mut rest) = (0i64, k);
        for ax in (0..keys.ndim() - 1).rev() {
            let n = place.shape[ax] as usize;
            at += (rest % n) as i64 * place.strides[ax];
            rest /= n;
        }
        let p = keys.as_ptr::<u32>().wrapping_offset(at as isize);
        // SAFETY: both elements lie in the view.
        unsafe { [*p, *p.offset(place.strides[keys.ndim() - 1] as isize)] }
    };
    let out = SendPtr::new(dst.ptr);
    let each = s.hashes();
    pool::parallel_chunks(count * each, GRAIN, |range| {
        let mut i = range.start;
        while i < range.end {
            let (k, from) = (i / each, i % each);
            let to = each.min(from + range.end - i);
            // SAFETY: hash ranges are disjoint and every hash has its own words.
            unsafe {
                let (key, place) = (read(k), out.get().add(k * bytes));
                match draw {
                    Draw::Bits => fill::<Bits>(key, s, place, from, to),
                    Draw::Unit => fill::<Unit>(key, s, place, from, to),
                    Draw::Symmetric => fill::<Symmetric>(key, s, place, from, to),
                    Draw::Erfinv => fill::<Erfinv>(key, s, place, from, to),
                    Draw::Normal => fill::<Normal>(key, s, place, from, to),
                    Draw::UnitF16 => fill::<UnitF16>(key, s, place, from, to),
                    Draw::UnitBF16 => fill::<UnitBF16>(key, s, place, from, to),
                }
            }
            i += to - from;
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Layout;
    use crate::cpu::runtime::testing::Owned;

    fn drawn(dtype: Dtype, n: i64, key: [u32; 2]) -> Vec<u64> {
        let keys = Owned::from_f64(Dtype::U32, &[2], &[key[0].into(), key[1].into()]);
        let dst = Owned::zeros(dtype, &[n]);
        bits(&keys.view(), &dst.view()).unwrap();
        dst.bits()
    }

    // From official MLX 0.32: random::bits({n}, width, key [1, 2]).
    const ORACLE: &[(Dtype, &[u64])] = &[
        (Dtype::U8, &[51]),
        (Dtype::U8, &[51, 223, 126]),
        (Dtype::U8, &[212, 214, 125, 37, 200]),
        (Dtype::U8, &[212, 214, 125, 37, 200, 72, 130]),
        (Dtype::U8, &[241, 29, 20, 246, 51, 146, 99, 135, 64]),
        (Dtype::U8, &[241, 29, 20, 246, 51, 146, 99, 135, 64, 236, 211]),
        (Dtype::U8, &[241, 29, 20, 246, 126, 51, 69, 190, 64, 236, 211, 139, 91]),
        (Dtype::U16, &[57139]),
        (Dtype::U16, &[57139, 9598]),
        (Dtype::U16, &[54996, 9597, 18632]),
        (Dtype::U16, &[7665, 62996, 37427, 34659, 60480]),
        (Dtype::U16, &[7665, 62996, 13182, 48709, 60480, 35795, 18011]),
        (
            Dtype::U16,
            &[50271, 18720, 26606, 24506, 64222, 61947, 11947, 36506, 54789, 7754, 44604, 40041, 19382],
        ),
        (Dtype::U32, &[629071667]),
        (Dtype::U32, &[629003988, 1317161160]),
        (Dtype::U32, &[4128513521, 2271449651, 2345921600]),
        (Dtype::U32, &[4128513521, 3192206206, 2345921600, 3057534555]),
        (Dtype::U32, &[2052595727, 3504730591, 2527474599, 1880214352, 1914734168]),
        (Dtype::U32, &[1226884191, 1606051822, 4059822814, 2392469163, 508220933, 2624171580, 2195475382]),
    ];

    #[test]
    fn bits_are_those_of_mlx() {
        for (dtype, want) in ORACLE {
            assert_eq!(drawn(*dtype, want.len() as i64, [1, 2]), *want, "{dtype} {}", want.len());
        }
        // split(key(7), 3)
        let split = [276534068, 861967409, 1905761346, 1641862660, 2900896126, 1402713516];
        assert_eq!(drawn(Dtype::U32, 6, [0, 7]), split);
    }

    #[test]
    fn long_draws_agree_with_the_scalar_hash() {
        for n in [100_001usize, 65_536, 129] {
            let got = drawn(Dtype::U32, n as i64, [3, 9]);
            let (half, odd) = (n / 2, n % 2);
            for i in 0..half {
                let second = half + odd + i;
                let [a, b] = threefry([3, 9], [i as u32, second as u32]);
                assert_eq!((got[i], got[second]), (a.into(), b.into()), "{n} {i}");
            }
            if odd == 1 {
                assert_eq!(got[half], u64::from(threefry([3, 9], [half as u32, 0])[0]));
            }
        }
    }

    #[test]
    fn every_key_fills_its_own_part_in_any_layout() {
        for (dtype, n) in [(Dtype::U8, 7), (Dtype::U16, 3), (Dtype::U32, 5), (Dtype::U8, 1)] {
            // Keys (2, 3, 2), stored with the last axis first and backwards along the middle one.
            let mut layout = Layout::contiguous(&[2, 3, 2]);
            layout.strides[..].copy_from_slice(&[3, -1, 6]);
            layout.offset = 2;
            let keys = Owned::filled(Dtype::U32, 12, layout, |i| ((i * 77) as f64).into());
            let dst = Owned::zeros(dtype, &[2, 3, n]);
            bits(&keys.view(), &dst.view()).unwrap();
            let k = keys.reals();
            let got = dst.bits();
            for i in 0..6 {
                let want = drawn(dtype, n, [k[2 * i] as u32, k[2 * i + 1] as u32]);
                assert_eq!(got[i * n as usize..(i + 1) * n as usize], want, "{dtype} {i}");
            }
        }
        let keys = Owned::zeros(Dtype::U32, &[2]);
        bits(&keys.view(), &Owned::zeros(Dtype::U32, &[0]).view()).unwrap();
        assert!(bits(&keys.view(), &Owned::zeros(Dtype::F32, &[4]).view()).is_err());
    }
}

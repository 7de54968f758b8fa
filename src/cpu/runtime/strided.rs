//! Moves elements between strided memory and contiguous blocks, by element size. Positions are linear, in
//! row-major order of a shape.

use smallvec::SmallVec;

/// Byte-addressed memory walked in row-major order of a shape.
pub struct Walk<'a> {
    pub ptr: *mut u8,
    pub size: usize,
    pub shape: &'a [i64],
    pub strides: &'a [i64],
}

impl Walk<'_> {
    /// Element offset of a linear position.
    pub fn offset(&self, mut linear: usize) -> i64 {
        let mut at = 0;
        for (&d, &s) in self.shape.iter().zip(self.strides).rev() {
            at += (linear % d as usize) as i64 * s;
            linear /= d as usize;
        }
        at
    }

    /// Calls `f(element offset, length)` for each stretch of the innermost axis in `start..start + n`.
    fn runs(&self, start: usize, n: usize, mut f: impl FnMut(i64, usize)) {
        let Some(last) = self.shape.len().checked_sub(1) else {
            return f(0, n);
        };
        let mut index: SmallVec<[i64; 6]> = SmallVec::from_elem(0, last + 1);
        let mut rest = start;
        let mut at = 0;
        for ax in (0..=last).rev() {
            let d = self.shape[ax] as usize;
            index[ax] = (rest % d) as i64;
            at += index[ax] * self.strides[ax];
            rest /= d;
        }
        let mut left = n;
        loop {
            let run = left.min((self.shape[last] - index[last]) as usize);
            f(at, run);
            left -= run;
            if left == 0 {
                return;
            }
            at -= index[last] * self.strides[last];
            index[last] = 0;
            for ax in (0..last).rev() {
                index[ax] += 1;
                at += self.strides[ax];
                if index[ax] < self.shape[ax] {
                    break;
                }
                at -= index[ax] * self.strides[ax];
                index[ax] = 0;
            }
        }
    }

    /// Copies `n` elements from position `start` on into `dst`.
    ///
    /// # Safety
    /// The walk's memory is readable and `dst` holds `n` elements.
    pub unsafe fn gather(&self, start: usize, n: usize, dst: *mut u8) {
        // SAFETY: passed on to the caller.
        unsafe {
            match self.size {
                1 => self.gather_words::<u8>(start, n, dst),
                2 => self.gather_words::<u16>(start, n, dst),
                4 => self.gather_words::<u32>(start, n, dst),
                _ => self.gather_words::<u64>(start, n, dst),
            }
        }
    }

    /// Copies `n` elements of `src` to position `start` on.
    ///
    /// # Safety
    /// The walk's memory is writable and `src` holds `n` elements.
    pub unsafe fn scatter(&self, start: usize, n: usize, src: *const u8) {
        // SAFETY: passed on to the caller.
        unsafe {
            match self.size {
                1 => self.scatter_words::<u8>(start, n, src),
                2 => self.scatter_words::<u16>(start, n, src),
                4 => self.scatter_words::<u32>(start, n, src),
                _ => self.scatter_words::<u64>(start, n, src),
            }
        }
    }

    unsafe fn gather_words<W: Copy>(&self, start: usize, n: usize, dst: *mut u8) {
        let base = self.ptr.cast::<W>();
        let mut dst = dst.cast::<W>();
        let step = self.strides.last().map_or(0, |&s| s as isize);
        self.runs(start, n, |at, run| {
            // SAFETY: `runs` yields positions inside the shape, in all `n` of them.
            unsafe {
                let src = base.offset(at as isize);
                if step == 1 {
                    std::ptr::copy_nonoverlapping(src, dst, run);
                } else if step == 0 {
                    fill(src, run, dst);
                } else {
                    for i in 0..run {
                        *dst.add(i) = *src.offset(i as isize * step);
                    }
                }
                dst = dst.add(run);
            }
        });
    }

    unsafe fn scatter_words<W: Copy>(&self, start: usize, n: usize, src: *const u8) {
        let base = self.ptr.cast::<W>();
        let mut src = src.cast::<W>();
        let step = self.strides.last().map_or(0, |&s| s as isize);
        self.runs(start, n, |at, run| {
            // SAFETY: as in `gather_words`.
            unsafe {
                let dst = base.offset(at as isize);
                if step == 1 {
                    std::ptr::copy_nonoverlapping(src, dst, run);
                } else {
                    for i in 0..run {
                        *dst.offset(i as isize * step) = *src.add(i);
                    }
                }
                src = src.add(run);
            }
        });
    }
}

unsafe fn fill<W: Copy>(src: *const W, n: usize, dst: *mut W) {
    // SAFETY: the caller's ranges.
    unsafe {
        let v = *src;
        for i in 0..n {
            *dst.add(i) = v;
        }
    }
}

/// Repeats one element `n` times.
///
/// # Safety
/// `src` holds one element of `size` bytes and `dst` holds `n`.
pub unsafe fn splat(size: usize, src: *const u8, n: usize, dst: *mut u8) {
    // SAFETY: passed on to the caller.
    unsafe {
        match size {
            1 => fill::<u8>(src, n, dst),
            2 => fill::<u16>(src.cast(), n, dst.cast()),
            4 => fill::<u32>(src.cast(), n, dst.cast()),
            _ => fill::<u64>(src.cast(), n, dst.cast()),
        }
    }
}

/// Transposes a tile: `dst[r * cols + c] = src[r + c * stride]` in elements of `size` bytes.
///
/// # Safety
/// All those elements are valid, and the ranges do not overlap.
pub unsafe fn transpose_tile(
    size: usize,
    src: *const u8,
    stride: i64,
    rows: usize,
    cols: usize,
    dst: *mut u8,
) {
    // SAFETY: passed on to the caller.
    unsafe {
        match size {
            1 => tile::<u8>(src, stride, rows, cols, dst),
            #[cfg(target_arch = "x86_64")]
            2 if super::simd::has_avx2() => tile_16(src.cast(), stride as isize, rows, cols, dst.cast()),
            #[cfg(target_arch = "x86_64")]
            4 if super::simd::has_avx2() => tile_32(src.cast(), stride as isize, rows, cols, dst.cast()),
            2 => tile::<u16>(src, stride, rows, cols, dst),
            4 => tile::<u32>(src, stride, rows, cols, dst),
            _ => tile::<u64>(src, stride, rows, cols, dst),
        }
    }
}

unsafe fn tile<W: Copy>(src: *const u8, stride: i64, rows: usize, cols: usize, dst: *mut u8) {
    let (src, dst) = (src.cast::<W>(), dst.cast::<W>());
    let (rows8, cols8) = (rows & !7, cols & !7);
    // SAFETY: r < rows and c < cols throughout.
    unsafe {
        // Eight lines of the source at a time, each to its end.
        for c in (0..cols8).step_by(8) {
            for r in (0..rows8).step_by(8) {
                for i in 0..8 {
                    for j in 0..8 {
                        let at = src.offset((c + j) as isize * stride as isize + (r + i) as isize);
                        *dst.add((r + i) * cols + c + j) = *at;
                    }
                }
            }
        }
        edges(src, stride as isize, rows, cols, dst);
    }
}

/// What squares of eight leave of a tile.
unsafe fn edges<W: Copy>(src: *const W, stride: isize, rows: usize, cols: usize, dst: *mut W) {
    let (rows8, cols8) = (rows & !7, cols & !7);
    for r in 0..rows {
        for c in (if r < rows8 { cols8 } else { 0 })..cols {
            // SAFETY: the caller's tile has the element.
            unsafe { *dst.add(r * cols + c) = *src.offset(c as isize * stride + r as isize) };
        }
    }
}

/// `tile` for words of 32 bits: squares of eight in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn tile_32(src: *const f32, stride: isize, rows: usize, cols: usize, dst: *mut f32) {
    use std::arch::x86_64::*;
    // SAFETY: r + 8 <= rows and c + 8 <= cols.
    unsafe {
        for c in (0..cols & !7).step_by(8) {
            for r in (0..rows & !7).step_by(8) {
                // Line j, elements r..r+4 below, those of line j + 4 above; then the same from r + 4 on.
                let load = |j: usize, k: usize| {
                    let at = |j: usize| src.offset((c + j) as isize * stride + (r + k) as isize);
                    _mm256_insertf128_ps::<1>(
                        _mm256_castps128_ps256(_mm_loadu_ps(at(j))),
                        _mm_loadu_ps(at(j + 4)),
                    )
                };
                for k in [0, 4] {
                    let (a, b, x, y) = (load(0, k), load(1, k), load(2, k), load(3, k));
                    let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                    let (xy0, xy1) = (_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y));
                    let out = dst.add((r + k) * cols + c);
                    _mm256_storeu_ps(out, _mm256_shuffle_ps::<0x44>(ab0, xy0));
                    _mm256_storeu_ps(out.add(cols), _mm256_shuffle_ps::<0xee>(ab0, xy0));
                    _mm256_storeu_ps(out.add(2 * cols), _mm256_shuffle_ps::<0x44>(ab1, xy1));
                    _mm256_storeu_ps(out.add(3 * cols), _mm256_shuffle_ps::<0xee>(ab1, xy1));
                }
            }
        }
        edges(src, stride, rows, cols, dst);
    }
}

/// `tile` for words of 16 bits: squares of eight in registers.
#[cfg(target_arch = "x86_64")]
unsafe fn tile_16(src: *const u16, stride: isize, rows: usize, cols: usize, dst: *mut u16) {
    use std::arch::x86_64::*;
    // SAFETY: r + 8 <= rows and c + 8 <= cols.
    unsafe {
        for c in (0..cols & !7).step_by(8) {
            for r in (0..rows & !7).step_by(8) {
                let load =
                    |j: usize| _mm_loadu_si128(src.offset((c + j) as isize * stride + r as isize).cast());
                let pair = |j: usize| {
                    let (a, b) = (load(j), load(j + 1));
                    (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b))
                };
                let four = |j: usize| {
                    let ((a, b), (x, y)) = (pair(j), pair(j + 2));
                    [
                        _mm_unpacklo_epi32(a, x),
                        _mm_unpackhi_epi32(a, x),
                        _mm_unpacklo_epi32(b, y),
                        _mm_unpackhi_epi32(b, y),
                    ]
                };
                let (low, high) = (four(0), four(4));
                for i in 0..4 {
                    let out = dst.add((r + 2 * i) * cols + c);
                    _mm_storeu_si128(out.cast(), _mm_unpacklo_epi64(low[i], high[i]));
                    _mm_storeu_si128(out.add(cols).cast(), _mm_unpackhi_epi64(low[i], high[i]));
                }
            }
        }
        edges(src, stride, rows, cols, dst);
    }
}

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
            2 => tile::<u16>(src, stride, rows, cols, dst),
            4 => tile::<u32>(src, stride, rows, cols, dst),
            _ => tile::<u64>(src, stride, rows, cols, dst),
        }
    }
}

unsafe fn tile<W: Copy>(src: *const u8, stride: i64, rows: usize, cols: usize, dst: *mut u8) {
    let (src, dst) = (src.cast::<W>(), dst.cast::<W>());
    // SAFETY: r < rows and c < cols throughout.
    unsafe {
        let at = |r: usize, c: usize| *src.offset(c as isize * stride as isize + r as isize);
        let (r8, c8) = (rows & !7, cols & !7);
        for r in (0..r8).step_by(8) {
            for c in (0..c8).step_by(8) {
                for i in 0..8 {
                    for j in 0..8 {
                        *dst.add((r + i) * cols + c + j) = at(r + i, c + j);
                    }
                }
            }
        }
        for r in 0..rows {
            for c in (if r < r8 { c8 } else { 0 })..cols {
                *dst.add(r * cols + c) = at(r, c);
            }
        }
    }
}

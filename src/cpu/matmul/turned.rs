//! Products whose right side lies column by column, as the weights of linear layers and the keys of attention do: `gemm`
//! packs such a side element by element, which takes longer than the product where there are few rows. Here it is
//! transposed first, in squares that stay in registers: for few rows some columns at a time, which stay in the caches of a
//! core, else all of it.

use gemm::Parallelism;

use super::{Mat, chunks, direct, scratch};
use crate::cpu::runtime::pool::SendPtr;
use crate::cpu::runtime::strided::transpose_tile;

/// Shortest side that squares pay for.
const SHORT: usize = 16;
/// Rows up to which columns go a few at a time.
const FEW: usize = 64;
/// Such columns, and elements of them that a core's cache holds.
const COLUMNS: usize = 128;
/// See `COLUMNS`; less in tests, which have small matrices.
const HELD: usize = if cfg!(test) { 1 << 13 } else { 1 << 17 };
/// Elements of a right side that are transposed at once.
const WHOLE: usize = if cfg!(test) { 1 << 13 } else { 1 << 24 };
/// Side of the blocks that are transposed.
const BLOCK: usize = 64;

/// Whether columns go a few at a time, which cores share.
pub(super) fn few(m: usize, n: usize) -> bool {
    m <= FEW && n >= 2 * COLUMNS
}

/// So many that one core takes at a time.
pub(super) fn columns(k: usize) -> usize {
    (HELD / k.max(1)).clamp(SHORT, COLUMNS) / SHORT * SHORT
}

/// Whether a right side is transposed first, for results in rows.
pub(super) fn takes<T>([m, n, k]: [usize; 3], b: Mat<T>) -> bool {
    let size = size_of::<T>();
    m > 1 && n >= SHORT && k >= SHORT && b.rs == 1 && b.cs != 1 && (size == 4 || size == 8)
}

/// Rows `k0..` of some columns of `b`, in rows `step` apart.
///
/// # Safety
/// `b` has the elements, and `to` room for them.
unsafe fn transpose<T: Copy>(b: Mat<T>, rows: usize, columns: usize, to: *mut T, step: usize) {
    let mut block = [const { std::mem::MaybeUninit::<T>::uninit() }; BLOCK * BLOCK];
    let (size, block) = (size_of::<T>(), block.as_mut_ptr().cast::<T>());
    for k in (0..rows).step_by(BLOCK) {
        let height = BLOCK.min(rows - k);
        let from = b.from(k, 0).ptr.cast::<u8>();
        // SAFETY: the block holds what is transposed at once, and both sides have it.
        unsafe {
            if step == columns {
                transpose_tile(size, from, b.cs as i64, height, columns, to.add(k * step).cast());
                continue;
            }
            transpose_tile(size, from, b.cs as i64, height, columns, block.cast());
            for i in 0..height {
                std::ptr::copy_nonoverlapping(block.add(i * columns), to.add((k + i) * step), columns);
            }
        }
    }
}

/// [`super::multiply`] for a right side that [`takes`]. Where there is no memory for it `gemm` takes it as it lies.
///
/// # Safety
/// As there.
pub(super) unsafe fn multiply<T: Copy + Send + Sync + 'static>(
    [m, n, k]: [usize; 3],
    (dst, rs): (*mut T, isize),
    add: bool,
    a: Mat<T>,
    b: Mat<T>,
    scales: [T; 2],
    par: Parallelism,
) {
    let out = SendPtr::new(dst);
    if few(m, n) {
        let width = columns(k);
        chunks(par, n.div_ceil(width), 1, |r| {
            let held = scratch::<T>(k * width);
            for j in r.map(|i| i * width) {
                let count = width.min(n - j);
                // SAFETY: the scratch holds these columns; chunks write disjoint ones of the result.
                unsafe {
                    let right = match &held {
                        Ok((_, to)) => {
                            transpose(b.from(0, j), k, count, *to, count);
                            Mat { ptr: to.cast_const(), rs: count as isize, cs: 1 }
                        }
                        Err(_) => b.from(0, j),
                    };
                    let to = (out.get().add(j), rs, 1);
                    direct([m, count, k], to, add, a, right, scales, Parallelism::None);
                }
            }
        });
        return;
    }
    let width = (WHOLE / k / BLOCK * BLOCK).clamp(BLOCK, n.max(BLOCK));
    let held = scratch::<T>(k * width.min(n));
    for j in (0..n).step_by(width) {
        let count = width.min(n - j);
        let right = match &held {
            Ok((_, all)) => {
                let all = SendPtr::new(*all);
                chunks(par, count.div_ceil(BLOCK), (1 << 15) / (BLOCK * k) + 1, |r| {
                    for c in r.map(|i| i * BLOCK) {
                        let some = BLOCK.min(count - c);
                        // SAFETY: the scratch holds `count` columns; blocks of them are disjoint.
                        unsafe { transpose(b.from(0, j + c), k, some, all.get().add(c), count) };
                    }
                });
                Mat { ptr: all.get().cast_const(), rs: count as isize, cs: 1 }
            }
            Err(_) => b.from(0, j),
        };
        // SAFETY: the caller's contract; these columns of the result.
        unsafe { direct([m, count, k], (out.get().add(j), rs, 1), add, a, right, scales, par) };
    }
}

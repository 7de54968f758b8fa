//! Sort and argsort along any axis: NaN last, complex numbers lexicographic, as in MLX. Elements become
//! unsigned integers of the same order. Many short lines are sorted side by side by a network of minima and
//! maxima, others by radix, a single long one by all threads. Argsort is stable and takes the two zeros as
//! equal; sorted values are those of the input bit for bit, -0 before 0.

pub(super) mod network;
pub(super) mod order;
pub(super) mod radix;
pub mod search;
pub mod select;

use self::network::Item;
use self::order::{Element, Key, by_dtype};
use super::runtime::pool::{self, SendPtr};
use super::runtime::walk::{Lines, locate};
use crate::bail;
use crate::core::layout::show;
use crate::core::{Dtype, Result};
use crate::kernels::HostView;

// Elements below which a comparison sort is faster than radix passes.
const SHORT: usize = 160;
const GRAIN: usize = 2048;
// Elements from which on a line is worth all threads.
const LONG: usize = 1 << 16;

/// Elements on their way through a sort: what is sorted, and what comes out.
trait Sorter: 'static {
    type In: Copy + Send + Sync + 'static;
    type Item: Item;
    type Out: Copy + Send + Sync + 'static;
    const BITS: u32;
    fn load(x: Self::In, i: usize) -> Self::Item;
    fn word(item: Self::Item) -> u64;
    /// The result for an item; `at` reads the line.
    fn store(item: Self::Item, at: impl Fn(usize) -> Self::In) -> Self::Out;
}

struct Values<E>(E);
struct Indices<E>(E);
struct Gathered<E>(E);

impl<E: Element<Key: Item>> Sorter for Values<E> {
    type In = E;
    type Item = E::Key;
    type Out = E;
    const BITS: u32 = E::Key::BITS;
    #[inline(always)]
    fn load(x: E, _: usize) -> E::Key {
        x.strict()
    }
    #[inline(always)]
    fn word(item: E::Key) -> u64 {
        item.word()
    }
    #[inline(always)]
    fn store(item: E::Key, _: impl Fn(usize) -> E) -> E {
        E::back(item)
    }
}

macro_rules! by_pairs {
    ($name:ident, $out:ty, |$i:ident, $at:ident| $e:expr) => {
        impl<E: Element<Key: Key<Pair: Item>>> Sorter for $name<E> {
            type In = E;
            type Item = <E::Key as Key>::Pair;
            type Out = $out;
            const BITS: u32 = E::Key::BITS;
            #[inline(always)]
            fn load(x: E, i: usize) -> Self::Item {
                x.key().pair(i as u32)
            }
            #[inline(always)]
            fn word(item: Self::Item) -> u64 {
                E::Key::pair_word(item)
            }
            #[inline(always)]
            fn store(item: Self::Item, $at: impl Fn(usize) -> E) -> $out {
                let $i = E::Key::index(item);
                $e
            }
        }
    };
}
by_pairs!(Indices, u32, |i, _at| i);
by_pairs!(Gathered, E, |i, at| at(i as usize));

/// Where the lines are.
struct Job<'a, S: Sorter> {
    lines: &'a Lines,
    src: SendPtr<S::In>,
    dst: SendPtr<S::Out>,
}

impl<S: Sorter> Job<'_, S> {
    /// Element `i` of line `k`.
    #[inline(always)]
    fn reader(&self, k: usize) -> impl Fn(usize) -> S::In + Copy + use<'_, S> {
        let (base, stride) = (self.src.get().wrapping_offset(locate(&self.lines.axes, k).0), self.lines.src);
        let base = SendPtr::new(base);
        // SAFETY: the offsets come from the source view.
        move |i| unsafe { *base.get().wrapping_offset(i as isize * stride) }
    }

    /// Puts result `i` of line `k` in its place.
    #[inline(always)]
    fn writer(&self, k: usize) -> impl Fn(usize, S::Out) + Copy + use<'_, S> {
        let (base, stride) = (self.dst.get().wrapping_offset(locate(&self.lines.axes, k).1), self.lines.dst);
        let base = SendPtr::new(base);
        // SAFETY: the offsets come from the destination view; each place is written once.
        move |i, x| unsafe { *base.get().wrapping_offset(i as isize * stride) = x }
    }

    fn one_by_one(&self, range: std::ops::Range<usize>) {
        let n = self.lines.len;
        let mut items = vec![S::Item::default(); n];
        let mut scratch = items.clone();
        for k in range {
            let (read, write) = (self.reader(k), self.writer(k));
            for (i, item) in items.iter_mut().enumerate() {
                *item = S::load(read(i), i);
            }
            // Indices make pairs distinct and equal keys cannot be told apart, so any sort is stable here.
            match (n, S::BITS) {
                (0..SHORT, _) | (0..1500, 64) => items.sort_unstable(),
                _ => radix::sort(&mut items, &mut scratch, S::BITS, S::word),
            }
            for (i, &item) in items.iter().enumerate() {
                write(i, S::store(item, read));
            }
        }
    }

    /// Lines `first..first + count`, at most as many as a network has lanes.
    fn side_by_side(&self, first: usize, count: usize, items: &mut [S::Item]) {
        const TILE: usize = 64;
        let (n, lanes) = (self.lines.len, S::Item::LANES);
        // In tiles, so that the lines of a tile stay in the cache while each lane passes over them.
        for from in (0..n).step_by(TILE) {
            for lane in 0..count {
                let read = self.reader(first + lane);
                for i in from..n.min(from + TILE) {
                    items[i * lanes + lane] = S::load(read(i), i);
                }
            }
        }
        network::sort(items);
        for from in (0..n).step_by(TILE) {
            for lane in 0..count {
                let (read, write) = (self.reader(first + lane), self.writer(first + lane));
                for i in from..n.min(from + TILE) {
                    write(i, S::store(items[i * lanes + lane], read));
                }
            }
        }
    }

    fn long_line(&self, k: usize, items: &mut [S::Item], scratch: &mut [S::Item]) {
        let (read, write) = (self.reader(k), self.writer(k));
        let out = SendPtr::new(items.as_mut_ptr());
        pool::parallel_chunks(items.len(), GRAIN, |range| {
            // SAFETY: ranges are disjoint parts of the items.
            range.for_each(|i| unsafe { *out.get().add(i) = S::load(read(i), i) });
        });
        radix::sort_in_parallel(items, scratch, S::BITS, S::word);
        pool::parallel_chunks(items.len(), GRAIN, |range| {
            range.for_each(|i| write(i, S::store(items[i], read)));
        });
    }
}

fn run<S: Sorter>(lines: &Lines, src: &HostView, dst: &HostView) {
    let job: Job<S> = Job { lines, src: SendPtr::new(src.as_ptr()), dst: SendPtr::new(dst.as_ptr()) };
    let (n, lanes) = (lines.len, S::Item::LANES);
    if n >= LONG && pool::threads() > lines.count {
        let mut items = vec![S::Item::default(); n];
        let mut scratch = items.clone();
        (0..lines.count).for_each(|k| job.long_line(k, &mut items, &mut scratch));
    } else if n <= S::Item::LONGEST && lines.count * 4 >= lanes {
        pool::parallel_chunks(lines.count.div_ceil(lanes), GRAIN.div_ceil(n * lanes), |range| {
            let mut items = vec![S::Item::default(); n * lanes];
            for group in range {
                let first = group * lanes;
                job.side_by_side(first, lanes.min(lines.count - first), &mut items);
            }
        });
    } else {
        pool::parallel_chunks(lines.count, GRAIN.div_ceil(n), |r| job.one_by_one(r));
    }
}

fn sorted<E: Element<Key: Item + Key<Pair: Item>>>(
    lines: &Lines,
    src: &HostView,
    dst: &HostView,
    indices: bool,
) {
    match indices {
        true => run::<Indices<E>>(lines, src, dst),
        false if E::STRICT => run::<Values<E>>(lines, src, dst),
        false => run::<Gathered<E>>(lines, src, dst),
    }
}

fn dispatch(op: &str, src: &HostView, axis: usize, dst: &HostView, indices: bool) -> Result<()> {
    if axis >= src.ndim() {
        bail!(Value, "[{op}] Axis {axis} is out of range for {} dimensions.", src.ndim());
    }
    let expected = if indices { Dtype::U32 } else { src.dtype };
    if dst.shape != src.shape || dst.dtype != expected {
        let (e, g) = (show(&src.shape), show(&dst.shape));
        bail!(Value, "[{op}] Expected an output {expected} {e}, got {} {g}.", dst.dtype);
    }
    if src.size() == 0 {
        return Ok(());
    }
    if src.shape[axis] > i64::from(u32::MAX) {
        bail!(Value, "[{op}] An axis of {} elements is too long.", src.shape[axis]);
    }
    let lines = Lines::new(src, axis, dst);
    by_dtype!(src.dtype, sorted(&lines, src, dst, indices));
    Ok(())
}

/// Sorts `src` along `axis` into `dst`, of the same shape and dtype and distinct; any strides on both sides.
///
/// # Errors
/// Value error for an axis out of range or an output of another shape or dtype.
pub fn sort(src: &HostView, axis: usize, dst: &HostView) -> Result<()> {
    dispatch("sort", src, axis, dst, false)
}

/// Indices that sort `src` along `axis`, as uint32; equal elements keep their order.
///
/// # Errors
/// Value error for an axis out of range or an output of another shape or dtype.
pub fn argsort(src: &HostView, axis: usize, dst: &HostView) -> Result<()> {
    dispatch("argsort", src, axis, dst, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Layout;
    use crate::core::layout::row_major;
    use crate::cpu::runtime::testing::{Owned, Rng, layouts};
    use num_complex::Complex64;
    use std::cmp::Ordering;

    // NaN last, then lexicographic.
    fn compare(a: &Complex64, b: &Complex64) -> Ordering {
        let nan = |z: &Complex64| z.re.is_nan() || z.im.is_nan();
        match (nan(a), nan(b)) {
            (false, false) => (a.re, a.im).partial_cmp(&(b.re, b.im)).unwrap(),
            (x, y) => x.cmp(&y),
        }
    }

    fn check(shape: &[i64], axis: usize, dtype: Dtype, mut value: impl FnMut() -> Complex64) {
        for (name, layout, count) in layouts(shape) {
            let a = Owned::filled(dtype, count, layout, |_| value());
            let (sorted, order) = (Owned::zeros(dtype, shape), Owned::zeros(Dtype::U32, shape));
            sort(&a.view(), axis, &sorted.view()).unwrap();
            argsort(&a.view(), axis, &order.view()).unwrap();
            let (x, got, idx) = (a.values(), sorted.values(), order.reals());
            let (n, step) = (shape[axis] as usize, row_major(shape)[axis] as usize);
            for first in (0..x.len()).filter(|i| i / step % n == 0) {
                let mut want: Vec<usize> = (0..n).collect();
                want.sort_by(|&i, &j| compare(&x[first + i * step], &x[first + j * step]));
                for (i, &w) in want.iter().enumerate() {
                    let what = format!("{dtype} {name} {shape:?} axis {axis} line {first} [{i}]");
                    assert_eq!(idx[first + i * step], w as f64, "{what}");
                    let (g, w) = (got[first + i * step], x[first + w * step]);
                    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
                    let nan = w.re.is_nan() || w.im.is_nan();
                    assert!(
                        if nan {
                            g.re.is_nan() || g.im.is_nan()
                        } else {
                            same(g.re, w.re) && same(g.im, w.im)
                        },
                        "{what}"
                    );
                }
                // Complex zeros keep their order.
                let zeros =
                    (0..n).map(|i| got[first + i * step].re).filter(|&z| z == 0.0 && dtype != Dtype::C64);
                let signs: Vec<bool> = zeros.map(|z| z.is_sign_positive()).collect();
                assert!(signs.is_sorted(), "{dtype} {name} {shape:?} line {first}");
            }
        }
    }

    #[test]
    fn every_dtype_layout_and_axis() {
        let mut rng = Rng(5);
        for dtype in Dtype::ALL {
            for (shape, axis) in
                [(vec![33], 0), (vec![4, 33], 1), (vec![33, 4], 0), (vec![2, 200, 3], 1), (vec![1], 0)]
            {
                // Negative numbers would become ones in uint64 that float64 cannot tell apart.
                let least = if dtype == Dtype::U64 { 0.0 } else { -40.0 };
                check(&shape, axis, dtype, || {
                    Complex64::new((rng.next() % 90) as f64 + least, (rng.next() % 3) as f64)
                });
            }
        }
    }

    #[test]
    fn long_lines_take_the_radix_passes() {
        let mut rng = Rng(6);
        for dtype in [Dtype::U8, Dtype::I16, Dtype::F16, Dtype::F32, Dtype::I64, Dtype::F64, Dtype::C64] {
            for n in [500, 3000] {
                check(&[n], 0, dtype, || Complex64::new(rng.unit() * 2e4 - 1e4, rng.unit()));
            }
        }
        check(&[5000], 0, Dtype::U32, || ((rng.next() >> 32) as f64).into());
        check(&[5000], 0, Dtype::I64, || (rng.unit() * 3.6e18 - 1.8e18).floor().into());
    }

    #[test]
    fn nan_comes_last_and_negative_zero_before_zero() {
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0, -1.0, -f64::NAN];
        let mut rng = Rng(8);
        for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64, Dtype::C64] {
            for n in [40, 700, 2500] {
                check(&[2, n], 1, dtype, || {
                    Complex64::new(special[rng.next() as usize % 8], special[rng.next() as usize % 8])
                });
            }
        }
    }

    #[test]
    fn many_lines_of_every_length_take_the_network() {
        let mut rng = Rng(9);
        for dtype in [Dtype::U8, Dtype::I16, Dtype::F32, Dtype::I32, Dtype::I64, Dtype::F64] {
            for n in [2, 3, 31, 64, 100, 255, 257, 600] {
                check(&[23, n], 1, dtype, || Complex64::new((rng.unit() * 2e3 - 1e3).floor(), 0.0));
            }
        }
    }

    #[test]
    fn long_lines_take_all_threads() {
        let mut rng = Rng(10);
        for dtype in [Dtype::U8, Dtype::F16, Dtype::F32, Dtype::I64] {
            let a = Owned::filled(dtype, 70_000, Layout::contiguous(&[70_000]), |_| {
                Complex64::new((rng.unit() * 2e4 - 1e4).floor(), 0.0)
            });
            let (sorted, order) = (Owned::zeros(dtype, &[70_000]), Owned::zeros(Dtype::U32, &[70_000]));
            sort(&a.view(), 0, &sorted.view()).unwrap();
            argsort(&a.view(), 0, &order.view()).unwrap();
            let x = a.reals();
            let mut want: Vec<usize> = (0..x.len()).collect();
            want.sort_by(|&i, &j| x[i].total_cmp(&x[j]));
            assert_eq!(order.reals(), want.iter().map(|&i| i as f64).collect::<Vec<_>>(), "{dtype}");
            assert_eq!(sorted.reals(), want.iter().map(|&i| x[i]).collect::<Vec<_>>(), "{dtype}");
        }
    }

    #[test]
    fn nothing_and_a_wrong_axis() {
        let a = Owned::from_f64(Dtype::F32, &[4], &[3.0, -0.0, f64::NAN, -5.0]);
        let none = Owned::filled(Dtype::F32, 0, Layout::contiguous(&[0, 3]), |_| 0.0.into());
        sort(&none.view(), 0, &none.view()).unwrap();
        assert!(sort(&a.view(), 1, &a.view()).is_err());
    }
}

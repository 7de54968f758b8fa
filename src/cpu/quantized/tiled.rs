//! Many rows of x against rows of codes, through tiles of bfloat16 (`matmul::tiles`). Codes are exact in bfloat16, so that
//! a group is a product of tiles whose sums are scaled once in float32; scales of half a unit are exact as factors of
//! the codes and go into them. Numbers of x are one, two or three bfloat16 that add up to them. Weights are the left
//! operand, since codes lie along K, and results are turned when they are stored.

use std::arch::x86_64::*;
use std::sync::atomic::{AtomicBool, Ordering};

use gemm::Parallelism;

use super::qmm::{Matrix, Out};
use super::qmm_kernels::{each_part, scales};
use super::quant::{Codec, QUADS, UNIT};
use crate::cpu::matmul::chunks;
use crate::cpu::matmul::tiles::{DEPTH, Line, SIDE, SUMS, Session, TILE, Unit, plain, room, transposed};
use crate::cpu::runtime::elem::To;
use crate::cpu::runtime::pool::SendPtr;
use crate::cpu::runtime::simd::multiversion;

/// Rows of w that are decoded together, and how many meet a block of x at once.
const WIDE: usize = 128;
const PAIR: usize = 2 * SIDE;
/// Units along K that are decoded together.
const LONG: usize = 64;
/// Up to so many rows of x meet weights that have just been decoded.
const FEW: usize = 2 * PAIR;

/// How many bfloat16 a number of x becomes.
pub(super) trait Split: Copy + To<f32> + Send + Sync {
    const PARTS: usize;
}
impl Split for f32 {
    const PARTS: usize = 3;
}
impl Split for crate::cpu::runtime::elem::Half {
    const PARTS: usize = 2;
}
impl Split for crate::cpu::runtime::elem::Brain {
    const PARTS: usize = 1;
}

/// Rows of x as right tiles: blocks of up to 32 rows, in them groups, in those the parts one after the other.
pub(super) struct Right {
    tiles: SendPtr<u16>,
    /// What groups of rows add up to, a line of 32 for each group of a block.
    sums: SendPtr<f32>,
    _held: (Vec<Line>, Vec<f32>),
    count: usize,
    parts: usize,
    units: usize,
    /// Units that are scaled together.
    per: usize,
    groups: usize,
}

/// Rows of a matrix: the first element, elements between rows and between columns, and how many there are.
#[derive(Clone, Copy)]
pub(super) struct Source<T> {
    pub ptr: *const T,
    pub row: isize,
    pub col: isize,
    pub count: usize,
    pub k: usize,
}
// SAFETY: a description; it is only read through while the view it came from is alive.
unsafe impl<T> Sync for Source<T> {}

impl Right {
    /// The rows, unless numbers among them are out of the range that tiles keep.
    ///
    /// # Safety
    /// They can be read, and the machine has tiles.
    pub(super) unsafe fn new<C: Codec, T: Split>(
        x: Source<T>,
        group: usize,
        par: Parallelism,
    ) -> Option<Right> {
        let units = x.k.div_ceil(UNIT);
        let per = if C::SHORT { units.clamp(1, LONG) } else { group / UNIT };
        let groups = units.div_ceil(per);
        let blocks = x.count.div_ceil(PAIR);
        let mut held = room(x.count.div_ceil(SIDE) * units * T::PARTS * TILE);
        let mut sums = vec![0.0f32; if C::AFFINE { blocks * groups * PAIR } else { 0 }];
        let right = Right {
            tiles: SendPtr::new(held.as_mut_ptr().cast()),
            sums: SendPtr::new(sums.as_mut_ptr()),
            _held: (held, sums),
            count: x.count,
            parts: T::PARTS,
            units,
            per,
            groups,
        };
        let odd = AtomicBool::new(false);
        chunks(par, x.count.div_ceil(SIDE), 1, |r| {
            for tile in r {
                // SAFETY: by contract; tiles write places of their own.
                if unsafe { pack(&right, x, tile, C::AFFINE) } {
                    odd.store(true, Ordering::Relaxed);
                }
            }
        });
        (!odd.into_inner()).then_some(right)
    }

    /// Right tiles of a block.
    fn width(&self, block: usize) -> usize {
        if self.count - block * PAIR <= SIDE { 1 } else { 2 }
    }

    /// Units of a group.
    fn len(&self, group: usize) -> usize {
        self.per.min(self.units - group * self.per)
    }

    /// The tiles of a group.
    fn at(&self, block: usize, group: usize) -> *mut u16 {
        let before = block * 2 * self.units + group * self.per * self.width(block);
        self.tiles.get().wrapping_add(before * self.parts * TILE)
    }

    /// The sums of a group.
    fn sums(&self, block: usize, group: usize) -> *mut f32 {
        self.sums.get().wrapping_add((block * self.groups + group) * PAIR)
    }
}

/// Writes sixteen rows, dealt, as tiles, and their sums; whether one of their numbers is out of range.
///
/// # Safety
/// The rows can be read; nobody else writes these tiles and sums.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack<T: Split>(right: &Right, x: Source<T>, tile: usize, sums: bool) -> bool {
    let (block, side) = (tile / 2, tile % 2);
    let width = right.width(block);
    let rows = SIDE.min(x.count - tile * SIDE);
    let order: [u16; UNIT] = std::array::from_fn(|p| (p % QUADS * 4 + p / QUADS) as u16);
    // SAFETY: 32 numbers of 16 bits.
    let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
    let top = _mm512_set1_epi32(0xffff_0000u32 as i32);
    let mut odd = false;
    for group in 0..right.groups {
        let len = right.len(group);
        let mut total = [_mm512_setzero_ps(); SIDE];
        for unit in 0..len {
            let from = (group * right.per + unit) * UNIT;
            let mut lines = [[_mm512_setzero_si512(); SIDE]; 3];
            for r in 0..rows {
                let mut v = [0.0f32; UNIT];
                let count = UNIT.min(x.k - from);
                let start = x.ptr.wrapping_offset((tile * SIDE + r) as isize * x.row + from as isize * x.col);
                // SAFETY: numbers of the row.
                unsafe { read(start, x.col, &mut v[..count]) };
                odd |= v.iter().fold(false, |odd, x| odd | !plain(x.to_bits()));
                // SAFETY: 32 numbers.
                let mut rest =
                    unsafe { [_mm512_loadu_ps(v.as_ptr()), _mm512_loadu_ps(v.as_ptr().add(SIDE))] };
                total[r] = _mm512_add_ps(total[r], _mm512_add_ps(rest[0], rest[1]));
                for line in lines.iter_mut().take(T::PARTS) {
                    let bits = rest.map(|x| _mm512_castps_si512(x));
                    let halves = bits.map(|b| _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(b)));
                    let all = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(halves[0]), halves[1]);
                    line[r] = _mm512_permutexvar_epi16(order, all);
                    for i in 0..2 {
                        let taken = _mm512_castsi512_ps(_mm512_and_si512(bits[i], top));
                        rest[i] = _mm512_sub_ps(rest[i], taken);
                    }
                }
            }
            for (part, line) in lines.iter().enumerate().take(T::PARTS) {
                let at = ((part * len + unit) * width + side) * TILE;
                let to = right.at(block, group).wrapping_add(at);
                for (pair, v) in transposed(*line).into_iter().enumerate() {
                    // SAFETY: the tile is this call's.
                    unsafe { _mm512_storeu_si512(to.add(pair * DEPTH).cast(), v) };
                }
            }
        }
        if sums {
            let to = right.sums(block, group).wrapping_add(side * SIDE);
            for (r, v) in total.into_iter().enumerate() {
                // SAFETY: the line is this call's.
                unsafe { *to.add(r) = _mm512_reduce_add_ps(v) };
            }
        }
    }
    odd
}

/// Elements `step` apart, as float32.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn read<T: To<f32> + Copy>(from: *const T, step: isize, to: &mut [f32]) {
    if step == 1 && to.len() == UNIT {
        // SAFETY: by contract.
        let from = unsafe { from.cast::<[T; UNIT]>().read_unaligned() };
        to.iter_mut().zip(from).for_each(|(to, x)| *to = x.to());
    } else {
        for (i, x) in to.iter_mut().enumerate() {
            // SAFETY: by contract.
            *x = unsafe { *from.wrapping_offset(i as isize * step) }.to();
        }
    }
}

/// Weights of some rows and units, decoded: units of two left tiles each for every 32 rows, and factors of their groups, a line
/// of `rows` for each.
struct Left {
    tiles: *mut u16,
    _held: Vec<Line>,
    scales: Vec<f32>,
    biases: Vec<f32>,
    /// Rows and groups that there is room for.
    rows: usize,
    groups: usize,
}

impl Left {
    /// Room for what fits the first cache where few rows of x meet it, else the second one.
    fn new(right: &Right) -> Left {
        let (rows, long) = if right.count <= FEW { (PAIR, LONG / 8) } else { (WIDE, LONG) };
        let groups = (long / right.per).max(1);
        let mut held = room(rows * groups * right.per * DEPTH);
        Left {
            tiles: held.as_mut_ptr().cast(),
            _held: held,
            scales: vec![1.0; groups * rows],
            biases: vec![0.0; groups * rows],
            rows,
            groups,
        }
    }

    /// Tiles of 32 rows from a unit on.
    fn at(&self, pair: usize, unit: usize, units: usize) -> *mut u16 {
        self.tiles.wrapping_add((pair * units + unit) * 2 * TILE)
    }

    /// Decodes `rows` rows from `row` on, `units` units from `unit` on.
    ///
    /// # Safety
    /// w has them, and the machine has tiles.
    unsafe fn decode<C: Codec>(&mut self, w: &Matrix, row: usize, rows: usize, unit: usize, units: usize) {
        let group = w.f.group as usize;
        let len = (units * UNIT).min(w.len() - unit * UNIT);
        let mut held = [Vec::new(), Vec::new()];
        if C::BITS == 4 && !C::SHORT {
            for first in (0..rows).step_by(SIDE) {
                let to = self.at(first / PAIR, 0, units).wrapping_add(first % PAIR * DEPTH);
                // SAFETY: by contract; the lines of each unit are there.
                unsafe {
                    nibbles::<C>(
                        w.codes(row + first, unit * UNIT),
                        w.words,
                        SIDE.min(rows - first),
                        to,
                        units,
                    )
                };
            }
        }
        for r in 0..rows {
            // SAFETY: by contract.
            unsafe { w.factors(row + r, unit * UNIT / group, len / group, &mut held) };
            if C::BITS != 4 || C::SHORT {
                let to = self.at(r / PAIR, 0, units).wrapping_add(r % PAIR * DEPTH);
                // SAFETY: by contract; the line of each unit is there.
                unsafe {
                    each_part::<C>(w.codes(row + r, unit * UNIT), len, |words, first, count| {
                        let s = held[0].as_ptr().wrapping_add(first * UNIT / group);
                        lines::<C>(words, s, to.add(first * 2 * TILE), count);
                    });
                }
            }
            if !C::SHORT {
                for g in 0..len / group {
                    self.scales[g * self.rows + r] = held[0][g];
                    self.biases[g * self.rows + r] = held[1][g];
                }
            }
        }
    }
}

multiversion! {
    /// Lines of `units` units of a row, each of 32 dealt values, from `to` on in steps of two tiles.
    pub(super) unsafe fn lines<C: Codec>(words: *const u32, s: *const f32, to: *mut u16, units: usize) {
        for u in 0..units {
            // SAFETY: the caller guarantees the units, their scales where groups are short, and their lines.
            unsafe {
                let q = C::quads(words.add(u * C::BITS));
                let s = if C::SHORT { scales::<C>(s, u) } else { [1.0; QUADS] };
                let mut line = [0u16; UNIT];
                for l in 0..UNIT / QUADS {
                    for i in 0..QUADS {
                        line[l * QUADS + i] = ((C::value(q[i], l) * s[i]).to_bits() >> 16) as u16;
                    }
                }
                to.add(u * 2 * TILE).cast::<[u16; UNIT]>().write(line);
            }
        }
    }
}

/// The same of codes of four bits, by look-up: words of 16 bits are shifted by none to three codes. `rows` rows, whose words lie
/// `step` apart, one unit of all after the other.
///
/// # Safety
/// Words and lines are there; the machine has tiles.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn nibbles<C: Codec>(
    words: *const u32,
    step: usize,
    rows: usize,
    to: *mut u16,
    units: usize,
) {
    let table: [u16; UNIT] = std::array::from_fn(|i| (C::value(i as u32 % 16, 0).to_bits() >> 16) as u16);
    let shifts: [u16; UNIT] = std::array::from_fn(|i| (i / QUADS * 4) as u16);
    // SAFETY: 32 numbers each; words and lines by contract.
    unsafe {
        let table = _mm512_loadu_si512(table.as_ptr().cast());
        let shifts = _mm512_loadu_si512(shifts.as_ptr().cast());
        for u in 0..units {
            for r in 0..rows {
                let codes = _mm512_broadcast_i32x4(_mm_loadu_si128(words.add(r * step + u * 4).cast()));
                let v = _mm512_permutexvar_epi16(_mm512_srlv_epi16(codes, shifts), table);
                _mm512_storeu_si512(to.add(u * 2 * TILE + r * DEPTH).cast(), v);
            }
        }
    }
}

/// Products of all rows of x with `n` rows of w, into contiguous rows of `n` results.
pub(super) fn product<C: Codec>(x: &Right, w: &Matrix, n: usize, out: Out, unit: Unit, par: Parallelism) {
    let blocks = x.count.div_ceil(PAIR);
    const TOTALS: usize = 4 * SUMS;
    let wide = if x.count <= FEW { PAIR } else { WIDE };
    chunks(par, n.div_ceil(wide), 1, |r| {
        let mut left = Left::new(x);
        let step = left.groups;
        let mut totals = room(2 * blocks * wide / PAIR * TOTALS);
        let mut sums = room(2 * TOTALS);
        let (totals, sums) = (totals.as_mut_ptr().cast::<f32>(), sums.as_mut_ptr().cast::<f32>());
        let session = Session::new(unit);
        for panel in r {
            let row = panel * wide;
            let rows = wide.min(n - row);
            let pairs = rows.div_ceil(PAIR);
            for first in (0..x.groups).step_by(step) {
                let last = x.groups.min(first + step);
                let units: usize = (first..last).map(|g| x.len(g)).sum();
                // SAFETY: these rows and units of w; tiles, sums and totals of the sizes made above.
                unsafe {
                    left.decode::<C>(w, row, rows, first * x.per, units);
                    for (block, pair) in (0..blocks).flat_map(|b| (0..pairs).map(move |p| (b, p))) {
                        let total = totals.add((block * wide / PAIR + pair) * TOTALS);
                        for g in first..last {
                            let (a, b) = (left.at(pair, (g - first) * x.per, units), x.at(block, g));
                            let at = (g - first) * wide + pair * PAIR;
                            let factors = (left.scales.as_ptr().add(at), left.biases.as_ptr().add(at));
                            let rows = if C::AFFINE { x.sums(block, g) } else { std::ptr::null() };
                            if x.width(block) == 1 {
                                session.block::<1>(a, b, x.len(g), x.parts, sums);
                                gather::<1>(sums, factors, rows, total, g == 0);
                            } else {
                                session.block::<2>(a, b, x.len(g), x.parts, sums);
                                gather::<2>(sums, factors, rows, total, g == 0);
                            }
                        }
                    }
                }
            }
            for (block, pair) in (0..blocks).flat_map(|b| (0..pairs).map(move |p| (b, p))) {
                let count = [PAIR.min(x.count - block * PAIR), PAIR.min(rows - pair * PAIR)];
                let first = out.from(block * PAIR * n + row + pair * PAIR);
                // SAFETY: totals of the block; panels write results of their own.
                unsafe {
                    let total = totals.add((block * wide / PAIR + pair) * TOTALS);
                    store(total, x.width(block), count, n, first);
                }
            }
        }
    });
}

/// Adds sums of tiles times the scales of their rows, and the biases times the sums of x, to `total`, or begins it.
///
/// # Safety
/// Two tiles times `N`, 32 factors each, and 32 sums of x, or null.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn gather<const N: usize>(
    sums: *const f32,
    (scales, biases): (*const f32, *const f32),
    rows: *const f32,
    total: *mut f32,
    begin: bool,
) {
    // SAFETY: by contract.
    unsafe {
        for tile in 0..2 * N {
            let x =
                if rows.is_null() { _mm512_setzero_ps() } else { _mm512_loadu_ps(rows.add(tile % N * SIDE)) };
            for r in 0..SIDE {
                let (at, row) = (tile * SUMS + r * SIDE, tile / N * SIDE + r);
                let so_far = if begin { _mm512_setzero_ps() } else { _mm512_loadu_ps(total.add(at)) };
                let scaled =
                    _mm512_fmadd_ps(_mm512_set1_ps(*scales.add(row)), _mm512_loadu_ps(sums.add(at)), so_far);
                let y = if rows.is_null() {
                    scaled
                } else {
                    _mm512_fmadd_ps(_mm512_set1_ps(*biases.add(row)), x, scaled)
                };
                _mm512_storeu_ps(total.add(at), y);
            }
        }
    }
}

/// Turns a block's totals and stores `count` rows and columns of them, rows `n` apart.
///
/// # Safety
/// The totals and the results are there.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn store(total: *const f32, width: usize, count: [usize; 2], n: usize, out: Out) {
    for side in 0..width {
        let mut lines = [[0.0f32; PAIR]; SIDE];
        for half in 0..2 {
            // SAFETY: a tile of sums; sixteen numbers of each line.
            unsafe {
                let from = total.add((half * width + side) * SUMS);
                let tile = std::array::from_fn(|r| _mm512_loadu_si512(from.add(r * SIDE).cast()));
                for (line, v) in lines.iter_mut().zip(transposed(tile)) {
                    _mm512_storeu_si512(line.as_mut_ptr().add(half * SIDE).cast(), v);
                }
            }
        }
        for (r, line) in lines.iter().enumerate().take(count[0].saturating_sub(side * SIDE)) {
            // SAFETY: results of this block.
            unsafe { out.put_all((side * SIDE + r) * n, &line[..count[1]]) };
        }
    }
}

//! Which kernel multiplies by which quantised matrix: one table of variants, read top to bottom. Pure; called by
//! `qmm`. MLX_VK_QMM=THREADSxROWS overrides how qmm_rows is laid out, SUBGROUPSxTILESxSTRETCH how qmm_coop is;
//! MLX_VK_QMM=dequantize takes all other products over scratch, MLX_VK_QMM=plain runs qmm_row, qmm_held and qmm_coop by
//! ordinary arithmetic, MLX_VK_QMM=stream qmm_stream for rows of any length, on a software driver too.
//! MLX_VK_DISABLE=name,... takes qmm_stream, qmm_row, qmm_held, qmm_rows, qmm_coop, qmm_cols, qmm_tiled, qmm_dequantize,
//! qmm_runs and qmm_split out of the choice.

pub mod chain;
pub mod few_picked;
pub mod few_rows;
pub mod held;
pub mod picked;
pub mod pieces;
pub mod row;
pub mod stream;
pub mod wide_codes;

use std::sync::OnceLock;

use super::matmul::{self as table, Tier};
use super::profile::{Card, H200, Profile};
use super::winners::Subject;
use super::{ceil, cut, filling, round_up, row_threads};
use crate::core::Dtype;
use crate::core::env::{KernelVariant, Values, Variable};
use crate::kernels::quantized::quant::Format;
use crate::vulkan::Features;

use held::Held;
use row::Row;
use stream::Streamed;

pub static QMM: Variable = Variable::new(
    "MLX_VK_QMM",
    "measured table",
    Values::Sizes(
        "THREADSxROWS or SUBGROUPSxTILESxSTRETCH",
        fits,
        &["dequantize", "plain", "stream", "native"],
    ),
    "Layout of the quantised matrix-vector kernel, or of the one on cooperative matrices; `dequantize`: other \
         quantised products go over dequantised scratch; `plain`: the ones on cooperative matrices by ordinary \
         arithmetic, `stream`: qmm_stream for rows of any length on software too, for tests; `native`: kernels in PTX for \
         one row and few wherever they can be",
);

pub static QMM_ROWS: KernelVariant = KernelVariant::new("qmm_rows", "tiles, or dequantised weights");

pub static QMM_COOP: KernelVariant =
    KernelVariant::new("qmm_coop", "the rows' kernel, tiles, or dequantised weights");

pub static QMM_COLS: KernelVariant = KernelVariant::new("qmm_cols", "tiles, or dequantised weights");

pub static QMM_TILED: KernelVariant =
    KernelVariant::new("qmm_tiled", "dequantised weights and the kernels of matmul");

pub static QMM_DEQUANTIZE: KernelVariant = KernelVariant::new("qmm_dequantize", "quantised tiles");

pub static QMM_RUNS: KernelVariant =
    KernelVariant::new("qmm_runs", "one product for each pick, for sorted picks too");

pub static QMM_SPLIT: KernelVariant =
    KernelVariant::new("qmm_split", "products whose inner dimension is not cut into parts");

/// Most rows of x that qmm_rows and qmm_cols take at once, and in all (H200).
pub(in crate::vulkan) const VECTORS: i64 = 8;
const FEW: i64 = 16;
/// Most rows of x that qmm_coop takes (H200: see [`coop`]).
const COOP_ROWS: i64 = 64;
/// Most matrices side by side.
const SIDES: i64 = 2;
/// Fewest products of single rows, and for each matrix, that make tall ones of sorted picks (H200).
const RUN_ROWS: i64 = 16;
/// See [`RUN_ROWS`].
const RUN_LENGTH: i64 = 4;

/// Whether so many sorted picks of so many matrices make tall products.
pub(in crate::vulkan) fn runs(picks: i64, matrices: i64) -> bool {
    picks >= RUN_ROWS.max(RUN_LENGTH * matrices) && !QMM_RUNS.disabled()
}

pub static QMM_SCRATCH: Variable = Variable::new(
    "MLX_VK_QMM_SCRATCH",
    "1024",
    Values::Number(1, 1 << 20),
    "Mebibytes of weights that are dequantised for the kernels of matmul at once",
);

/// Most bytes of weights that are.
fn scratch() -> i64 {
    (QMM_SCRATCH.count() << 20) as i64
}

/// Rows of the parts of a matrix whose values are more than that, nearly equal ones of whole tiles; none where all of them are
/// made at once.
pub(in crate::vulkan) fn part_of(s: &Shape) -> Option<i64> {
    let parts = ceil(s.n * s.k * s.dtype.size() as i64, scratch());
    let one = s.transpose && s.matrices == 1 && s.batch == 1 && !s.runs;
    (one && parts > 1).then(|| round_up(ceil(s.n, parts), 256))
}

/// What a product looks like to the table.
#[derive(Debug, Clone, Copy)]
pub(in crate::vulkan) struct Shape {
    pub dtype: Dtype,
    pub format: Format,
    pub transpose: bool,
    pub m: i64,
    pub n: i64,
    pub k: i64,
    /// Products.
    pub batch: i64,
    /// Matrices of codes.
    pub matrices: i64,
    /// Products of single rows whose matrices come in runs.
    pub runs: bool,
}

/// A kernel and what decides its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) enum Variant {
    /// qmm_row.comp.
    Row(Row),
    /// qmm_stream.comp.
    Streamed(Streamed),
    /// qmm_held.comp.
    Held(Held),
    /// qmm_rows.comp: threads a row of codes, rows a thread, rows of x, codes of a unit.
    Rows { threads: u32, rows: u32, vectors: u32, unit: u32 },
    /// qmm_coop.comp.
    Coop(Coop),
    /// qmm_cols.comp: parts of K inside the workgroup, steps in flight, rows of x.
    Cols { slices: u32, unroll: u32, vectors: u32 },
    /// qmm_tiled.comp: tile, results of a thread, unrolled steps of K.
    Tiled { bm: u32, bn: u32, tm: u32, tn: u32, step: u32, runs: bool },
    /// Values of the weights go to scratch, and the kernels of `matmul` take them from there.
    Dequantize,
}

/// The kernel of few rows on cooperative matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) struct Coop {
    /// Subgroups of a workgroup, among which K is dealt.
    pub subgroups: u32,
    /// Times 16 rows of codes.
    pub tiles: u32,
    /// Groups of codes in flight, times those that have columns of their own.
    pub stretch: u32,
    /// Columns of a matrix.
    pub cols: u32,
    /// Matrices side by side that share the codes.
    pub sides: u32,
    /// Rows of x.
    pub vectors: u32,
    /// What is fetched one turn ahead.
    pub ahead: Ahead,
    /// Ordinary arithmetic in place of matrix instructions.
    pub plain: bool,
}

/// What a subgroup fetches while it multiplies what came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) enum Ahead {
    Nothing,
    Codes,
    All,
}

impl Variant {
    /// Its place among those of `stats`.
    pub fn number(&self) -> usize {
        match self {
            Variant::Rows { .. } => 0,
            Variant::Cols { .. } => 1,
            Variant::Tiled { .. } => 2,
            Variant::Dequantize => 3,
            Variant::Coop(_) => 4,
            Variant::Row(_) => 5,
            Variant::Held(_) => 6,
            Variant::Streamed(_) => 7,
        }
    }
}

/// A variant and the parts that K is cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vulkan) struct Choice {
    pub variant: Variant,
    pub k_split: i64,
    pub splits: i64,
}

/// Tiles of qmm_tiled, the largest first, each for products of at least `groups` tiles (on the card that they were
/// measured on) and `rows` rows.
struct Tile {
    card: &'static Card,
    groups: i64,
    rows: i64,
    software: bool,
    /// Least lanes of a subgroup.
    lanes: u32,
    bm: u32,
    bn: u32,
    tm: u32,
    tn: u32,
    step: u32,
}
const fn tile(groups: i64, rows: i64, software: bool, [bm, bn, tm, tn]: [u32; 4], step: u32) -> Tile {
    Tile { card: &H200, groups, rows, software, lanes: 0, bm, bn, tm, tn, step }
}
const TILES: &[Tile] = &[
    tile(0, 0, true, [32, 32, 4, 4], 1),
    // Compiled by Mesa 25.0 for CDNA, not measured: two waves a unit for one.
    Tile { lanes: 64, ..tile(120, 33, false, [64, 128, 4, 8], 8) },
    tile(120, 33, false, [64, 128, 8, 8], 8),
    tile(0, 0, false, [32, 64, 4, 8], 8),
];

fn fits(v: &[u32]) -> bool {
    match *v {
        [threads, rows] => row_threads(threads) && rows <= 8,
        [subgroups, tiles, stretch] => subgroups <= 16 && tiles <= 4 && stretch <= 8,
        _ => false,
    }
}

/// The layout that the environment asks for.
pub(super) fn forced() -> Option<&'static [u32]> {
    static FORCED: OnceLock<Option<Vec<u32>>> = OnceLock::new();
    FORCED.get_or_init(|| QMM.sizes()).as_deref()
}

/// Whether the environment asks for ordinary arithmetic in kernels on cooperative matrices.
pub(super) fn plain() -> bool {
    static FORCED: OnceLock<bool> = OnceLock::new();
    *FORCED.get_or_init(|| QMM.word() == Some("plain"))
}

/// Whether the environment asks for kernels in PTX.
fn native() -> bool {
    static FORCED: OnceLock<bool> = OnceLock::new();
    *FORCED.get_or_init(|| QMM.word() == Some("native"))
}

/// Whether the environment asks for codes that walk by one row.
fn streams() -> bool {
    static FORCED: OnceLock<bool> = OnceLock::new();
    *FORCED.get_or_init(|| QMM.word() == Some("stream"))
}

/// The kernel on cooperative matrices, where the device has them and keeps their elements where it expects them.
/// H200, 16384 x 4096 codes of four bits, bfloat16: 8 rows 21 us (qmm_rows 58), 1 row 15 (19); 4096 x 14336 17 (20),
/// 3072 x 1024 5.2 (4.3). Codes of eight bits do not pay for one row (31 against 25).
/// H100, us by layout, of what `listed` has: 16 rows of 12288 x 4096 21 by 4x2x2, 25 by 4x2x1; of 4096 x 12288 25 by 8x1x2,
/// 33 by 4x2x2. 32 rows, two matrices beside each other: 29 by 4x2x1, 35 by 8x2x1, 49 one after the other; 32 by 8x2x1, 38
/// by 8x1x1, 61 by 4x2x1, 51 one after the other. 8 rows: 20 by 4x1x1 with nothing ahead, 22 with all; 32 and 22 by 8x1x1.
/// 64 rows 56 and 77, in four turns 92 and 93 (dequantised weights 177).
fn coop(p: &Profile, s: &Shape, known: &dyn Fn(Dtype, u32) -> bool) -> Option<Coop> {
    let forced: Option<[u32; 3]> = forced().and_then(|v| v.try_into().ok());
    let won = winner(p, s);
    if QMM_COOP.disabled() || won.is_some_and(|w| w.len() == 2) && !plain() && forced.is_none() {
        return None;
    }
    let won = won.and_then(|w| COOP_LAYOUTS.into_iter().find(|l| l == w));
    laid_out(p, s, forced.or(won), known)
}

/// Whether qmm_coop can have matrices of so many columns, or ordinary arithmetic in their place.
fn has_columns(f: &Features, dtype: Dtype, n: u32, known: &dyn Fn(Dtype, u32) -> bool) -> bool {
    let multiplies = || table::fixed_subgroup(f) == Some(32) && table::multiplies(f, dtype, [16, n, 16]);
    plain() || multiplies() && known(dtype, n)
}

/// The kernel in a layout, or in the packaged one.
fn laid_out(
    p: &Profile,
    s: &Shape,
    layout: Option<[u32; 3]>,
    known: &dyn Fn(Dtype, u32) -> bool,
) -> Option<Coop> {
    let f = &p.features;
    let plain = plain();
    let half = matches!(s.dtype, Dtype::F16 | Dtype::BF16);
    // Enough workgroups of two tiles, and of one, to fill the GPU.
    let groups = s.n * s.batch / 16;
    let (wide, full) = (groups >= p.nearly(4) as i64, groups >= p.nearly(2) as i64);
    let long = groups >= p.nearly(1) as i64 && s.k >= 4096;
    let one = layout.is_some() || ((full || long) && s.format.affine() && s.format.bits == 4);
    let least = if one { 1 } else { 2 };
    let takes = half && s.transpose && !s.runs && s.format.group >= 32 && (least..=COOP_ROWS).contains(&s.m);
    if !takes {
        return None;
    }
    let cols =
        [if s.m <= 8 { 8 } else { 16 }, 16].into_iter().find(|&n| has_columns(f, s.dtype, n, known))?;
    let sides = ceil(s.m, cols.into()).min(SIDES) as u32;
    // Columns for several groups hold the codes of all of them: 32 words a lane, more would spill.
    let most = (32 * 64 / (s.format.group * s.format.bits)).max(1);
    // A short K has few groups to deal out: 151936 x 1024 codes take 45 us with four columns a group, 64 with one.
    let least = if full && s.k <= 2048 { 4 } else { 1 };
    let width = cols * sides;
    let vectors = (s.m.min(width.into()).next_power_of_two_or_one() as u32)
        .max(cols.div_ceil(most).next_power_of_two())
        .max(least);
    let spread = vectors < width;
    let listed = match (sides, spread) {
        (1, false) if full => [4, 2, 2],
        (1, false) => [8, 1, 2],
        (_, false) if full => [4, 2, 1],
        (_, false) => [8, 2, 1],
        (_, true) if wide => [4, 2, 1],
        (_, true) if full => [4, 1, 1],
        (_, true) => [8, 1, 1],
    };
    let ahead = match spread && full {
        true => Ahead::Nothing,
        false if sides > 1 => Ahead::Codes,
        false => Ahead::All,
    };
    let coop = |[subgroups, tiles, stretch]: [u32; 3]| {
        let c = Coop { subgroups, tiles, stretch, cols, sides, vectors, ahead, plain };
        (c.shared_bytes() <= f.shared_memory && 32 * subgroups <= f.max_workgroup_invocations).then_some(c)
    };
    // A layout that was asked for or measured is that one or none.
    match layout {
        Some(asked) => coop(asked),
        None => coop(listed).or_else(|| coop([4, 1, 1])),
    }
}

/// The layout for few rows times matrices whose rows of codes are `s.n` together; `pair`: of two at once, whose tiles are
/// in the same workgroup.
pub(in crate::vulkan) fn of_rows(
    p: &Profile,
    s: &Shape,
    pair: bool,
    known: &dyn Fn(Dtype, u32) -> bool,
) -> Option<Coop> {
    // What was measured is a matrix alone.
    let forced = forced().and_then(|v| v.try_into().ok());
    let c = laid_out(p, s, forced, known).filter(|c| s.m > 1 && s.m <= i64::from(c.cols * c.sides))?;
    let fits = |c: &Coop| c.shared_bytes() <= p.features.shared_memory;
    let even = Coop { tiles: c.tiles.next_multiple_of(2), ..c };
    match pair {
        true => {
            Some(even).filter(fits).or(Some(Coop { subgroups: 4, tiles: 2, stretch: 1, ..c })).filter(fits)
        }
        false => Some(c),
    }
}

impl Coop {
    /// Shared memory of a workgroup: sums of each subgroup, and what ordinary arithmetic in place of matrices takes.
    fn shared_bytes(&self) -> u32 {
        let sums = self.cols * self.sides * 16 * self.tiles;
        let operands = if self.plain { 256 + 16 * self.cols } else { 0 };
        4 * self.subgroups * (sums + operands)
    }
}

/// Sums of a thread of qmm_rows; more would spill (H200).
const SUMS: i64 = 32;

/// Layouts of qmm_rows for so many rows of x: threads a row of codes, rows a thread.
fn table_of_rows(vectors: u32) -> impl Iterator<Item = (u32, u32)> {
    let rows = move |r: &u32| i64::from(r * vectors) <= SUMS;
    [32, 64, 128, 256].into_iter().flat_map(move |t| [1, 2, 4].into_iter().filter(rows).map(move |r| (t, r)))
}

/// Layouts of qmm_coop: subgroups, tiles, stretch.
const COOP_LAYOUTS: [[u32; 3]; 6] = [[4, 2, 1], [4, 2, 2], [8, 2, 1], [8, 1, 2], [4, 1, 1], [8, 1, 1]];

/// What the choice was measured for: sides to the nearest power of two.
pub(in crate::vulkan) fn subject(s: &Shape) -> Option<Subject> {
    let class = |n: i64| ((n.max(1) as f64).log2().round() as u32).min(20) as u8;
    let one = s.transpose && !s.runs && s.batch == 1;
    one.then(|| Subject::Quantized(s.format, s.dtype, [s.m, s.n, s.k].map(class)))
}

/// The numbers of the layout that won on this device, if it was measured: two of qmm_rows, three of qmm_coop, one of
/// qmm_stream, qmm_row and qmm_held.
pub(super) fn winner<'a>(p: &'a Profile, s: &Shape) -> Option<&'a [u32]> {
    if p.winners.is_empty() {
        return None;
    }
    p.winners.get(&subject(s)?)
}

/// The layouts that a device has for a product.
pub(in crate::vulkan) fn candidates(
    p: &Profile,
    s: &Shape,
    known: &dyn Fn(Dtype, u32) -> bool,
) -> Vec<Vec<u32>> {
    let vectors = s.m.min(VECTORS).next_power_of_two_or_one() as u32;
    let mut all: Vec<Vec<u32>> = table_of_rows(vectors).map(|(t, r)| vec![t, r]).collect();
    if s.m > few(p) {
        all.clear();
    }
    if row::layout(p, s, false, known).is_some() {
        all.push(row::NUMBERS.to_vec());
    }
    if let Some(laid) = stream::possible(p, s, s.n, false) {
        all.push(stream::NUMBERS.to_vec());
        all.extend(laid.native.then(|| stream::NEIGHBOURS.to_vec()));
    }
    if held::layout(p, s, known).is_some() {
        all.push(held::NUMBERS.to_vec());
    }
    if few_rows::possible(p, s).is_some() {
        all.push(few_rows::NUMBERS.to_vec());
    }
    if wide_codes::tried(p, s) {
        all.push(wide_codes::NUMBERS.to_vec());
    }
    if let Some(subject) = subject(s) {
        for layout in COOP_LAYOUTS {
            let mut forced = p.clone();
            forced.winners.set(subject.clone(), layout.to_vec());
            if coop(&forced, s, known).is_some() {
                all.push(layout.to_vec());
            }
        }
    }
    all
}

/// The numbers of a choice in the cache, where it has any.
pub(in crate::vulkan) fn numbers(v: &Variant) -> Option<Vec<u32>> {
    match v {
        Variant::Rows { threads, rows, .. } => Some(vec![*threads, *rows]),
        Variant::Coop(c) => Some(vec![c.subgroups, c.tiles, c.stretch]),
        Variant::Row(_) => Some(row::NUMBERS.to_vec()),
        Variant::Held(_) => Some(held::NUMBERS.to_vec()),
        Variant::Streamed(l) if l.neighbours => Some(stream::NEIGHBOURS.to_vec()),
        Variant::Streamed(_) => Some(stream::NUMBERS.to_vec()),
        Variant::Cols { .. } | Variant::Tiled { .. } | Variant::Dequantize => None,
    }
}

/// Most rows of x that walk the codes.
fn few(p: &Profile) -> i64 {
    if p.features.software { VECTORS } else { FEW }
}

/// Bytes of x that a workgroup of qmm_rows holds.
pub(in crate::vulkan) fn stage(f: &Features) -> u32 {
    if f.shared_memory >= 40 << 10 { 16 << 10 } else { 8 << 10 }
}

/// Threads a row of codes and rows a thread: enough workgroups to fill the GPU come first, then reading x for as
/// many rows as possible. A software driver gets the shortest code.
pub(in crate::vulkan) fn layout_of_rows(p: &Profile, s: &Shape, units: i64, vectors: u32) -> (u32, u32) {
    if let Some(&[threads, rows]) = forced() {
        return (threads, rows);
    }
    if let Some(&[threads, rows]) = winner(p, s)
        && table_of_rows(vectors).any(|l| l == (threads, rows))
    {
        return (threads, rows);
    }
    if p.features.software {
        return (8, 1);
    }
    let groups = |threads: i64, rows: i64| ceil(s.n, 256 / threads * rows) * s.batch;
    let least = if units < 16 { 8 } else { 32 };
    for rows in [4, 2] {
        if groups(least, rows) >= p.nearly(2) as i64 && rows * i64::from(vectors) <= SUMS {
            return (least as u32, rows as u32);
        }
    }
    let mut threads = least;
    while threads < 256 && threads * 2 <= units && groups(threads, 1) < p.fill() as i64 {
        threads *= 2;
    }
    (threads as u32, 1)
}

/// The kernel for a product.
///
/// `known` says whether cooperative matrices of a dtype and of so many columns lie in a subgroup as kernels expect; it is asked
/// of matrices that the device has.
pub(in crate::vulkan) fn choose(p: &Profile, s: &Shape, known: &dyn Fn(Dtype, u32) -> bool) -> Choice {
    let whole = |variant| Choice { variant, k_split: round_up(s.k.max(1), 32), splits: 1 };
    if let Some(stream) = stream::layout(p, s, s.n, false) {
        return whole(Variant::Streamed(stream));
    }
    if let Some(row) = row::layout(p, s, false, known) {
        return whole(Variant::Row(row));
    }
    match held::layout(p, s, known) {
        Some(held) => whole(Variant::Held(held)),
        None => choose_of_many(p, s, known),
    }
}

/// As [`choose`], without the kernels whose operands have to be aligned.
pub(in crate::vulkan) fn choose_of_many(
    p: &Profile,
    s: &Shape,
    known: &dyn Fn(Dtype, u32) -> bool,
) -> Choice {
    let f = &p.features;
    let whole = |variant| Choice { variant, k_split: round_up(s.k.max(1), 32), splits: 1 };
    let vectors = s.m.min(VECTORS).next_power_of_two_or_one() as u32;
    if let Some(c) = coop(p, s, known) {
        return whole(Variant::Coop(c));
    }
    if s.m <= few(p) && !s.runs {
        if s.transpose && !QMM_ROWS.disabled() {
            let unit = if s.k % 32 == 0 { 32 } else { 16 };
            let (threads, rows) = layout_of_rows(p, s, s.k / unit, vectors);
            return whole(Variant::Rows { threads, rows, vectors, unit: unit as u32 });
        }
        if !s.transpose && !QMM_COLS.disabled() {
            let (slices, unroll) = match s.n {
                _ if f.software => (8, 1),
                0..=64 => (32, 4),
                65..=128 => (16, 4),
                _ => (8, 4),
            };
            let groups = ceil(s.n, 256 / slices * 8) * s.batch;
            let parts = filling(QMM_SPLIT.disabled(), groups, 4 * p.fill() as i64);
            let (k_split, splits) = cut(s.k, parts, slices * 8, 64, slices * unroll);
            let variant = Variant::Cols { slices: slices as u32, unroll: unroll as u32, vectors };
            return Choice { variant, k_split, splits };
        }
    }
    let rows = if s.runs { s.batch } else { s.m };
    let tiles = !QMM_TILED.disabled();
    if (cooperative(p, s, rows) || !tiles) && !QMM_DEQUANTIZE.disabled() {
        return whole(Variant::Dequantize);
    }
    let products = if s.runs { 1 } else { s.batch };
    let groups = |t: &Tile| ceil(rows, t.bm.into()) * ceil(s.n, t.bn.into()) * products;
    let fits = |t: &&Tile| {
        t.software == f.software
            && f.min_subgroup_size >= t.lanes
            && rows >= t.rows
            && groups(t) >= p.like(t.groups as u64, t.card) as i64
    };
    // INVARIANT: each class ends with a tile for all products.
    let t = TILES.iter().find(fits).expect("a tile without conditions");
    let variant = Variant::Tiled { bm: t.bm, bn: t.bn, tm: t.tm, tn: t.tn, step: t.step, runs: s.runs };
    if s.runs || f.software {
        return whole(variant);
    }
    let parts = filling(QMM_SPLIT.disabled(), groups(t), p.fill() as i64);
    let (k_split, splits) = cut(s.k, parts, 256, 64, 32);
    Choice { variant, k_split, splits }
}

/// Whether cooperative matrices would multiply dequantised weights, and it pays to write those.
fn cooperative(p: &Profile, s: &Shape, rows: i64) -> bool {
    let bytes = s.matrices * s.n * s.k * s.dtype.size() as i64;
    let used = if s.runs { s.batch } else { s.m * s.batch.min(s.matrices.max(1) * 64) };
    let product = table::Shape {
        dtype: s.dtype,
        m: rows as u64,
        n: s.n as u64,
        k: s.k as u64,
        batch: if s.runs { 1 } else { s.batch as u64 },
        aligned: s.k % 8 == 0 && s.n % 8 == 0,
    };
    static FORCED: OnceLock<bool> = OnceLock::new();
    if *FORCED.get_or_init(|| QMM.word() == Some("dequantize")) {
        return true;
    }
    let tier = table::choose(p, &product).tier;
    tier != Tier::Tiled && (bytes <= scratch() || part_of(s).is_some()) && used >= 16 * s.matrices
}

/// Powers of two from one on.
trait PowerOfTwo {
    fn next_power_of_two_or_one(self) -> i64;
}
impl PowerOfTwo for i64 {
    fn next_power_of_two_or_one(self) -> i64 {
        (self.max(1) as u64).next_power_of_two() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::devices;
    use super::*;

    fn device(features: Features) -> Profile {
        Profile { features, ..devices::h200() }
    }

    use crate::kernels::quantized::quant::Mode;

    fn shape(m: i64, n: i64, k: i64) -> Shape {
        let format = Format::new("test", Mode::Affine, 64, 4).unwrap();
        Shape { dtype: Dtype::F32, format, transpose: true, m, n, k, batch: 1, matrices: 1, runs: false }
    }

    #[test]
    fn parts_of_large_matrices_are_nearly_equal() {
        assert_eq!(part_of(&shape(100, 4096, 4096)), None);
        assert_eq!(part_of(&shape(100, 65536, 4096)), None);
        let s = shape(100, 151_936, 4096);
        let part = part_of(&s).unwrap();
        assert!(part % 256 == 0 && ceil(s.n, part) == 3 && part * s.k * 4 <= scratch() + 256 * s.k * 4);
        for other in [Shape { transpose: false, ..s }, Shape { matrices: 2, ..s }, Shape { batch: 2, ..s }] {
            assert_eq!(part_of(&other), None);
        }
    }

    #[test]
    fn few_rows_walk_the_codes_and_many_take_tiles() {
        let f =
            device(Features { shared_memory: 32768, max_workgroup_invocations: 256, ..Default::default() });
        let rows = choose(&f, &shape(1, 16384, 4096), &|_, _| false).variant;
        assert_eq!(rows, Variant::Rows { threads: 32, rows: 4, vectors: 1, unit: 32 });
        assert!(matches!(
            choose(&f, &shape(512, 4096, 4096), &|_, _| false).variant,
            Variant::Tiled { bm: 64, .. }
        ));
        let few_tiles = choose(&f, &shape(32, 256, 4096), &|_, _| false);
        assert!(few_tiles.splits > 1 && few_tiles.k_split % 32 == 0);
    }

    #[test]
    fn devices_of_64_lanes_take_tiles_with_fewer_sums_a_lane() {
        for (low, want) in [(32, 8), (64, 4)] {
            let f = device(Features {
                shared_memory: 65536,
                max_workgroup_invocations: 1024,
                subgroup_size: 64,
                min_subgroup_size: low,
                max_subgroup_size: 64,
                ..Default::default()
            });
            let choice = choose(&f, &shape(512, 16384, 4096), &|_, _| false).variant;
            assert!(
                matches!(choice, Variant::Tiled { bm: 64, bn: 128, tm, tn: 8, .. } if tm == want),
                "{choice:?}"
            );
        }
    }

    #[test]
    fn few_rows_take_cooperative_matrices_where_their_elements_lie_as_expected() {
        use crate::vulkan::{Component, CoopMatrix};
        let matrix = |n, a| CoopMatrix {
            m: 16,
            n,
            k: 16,
            a,
            b: a,
            c: Component::F32,
            result: Component::F32,
            saturating: false,
            subgroup_scope: true,
        };
        let f = device(Features {
            subgroup_size: 32,
            min_subgroup_size: 32,
            max_subgroup_size: 32,
            shared_memory: 49152,
            max_workgroup_invocations: 1024,
            spirv16: true,
            memory_model: true,
            float16: true,
            coop_matrices: vec![matrix(16, Component::F16), matrix(8, Component::F16)],
            ..Default::default()
        });
        let half = |m| Shape { dtype: Dtype::F16, ..shape(m, 4096, 4096) };
        let taken = |s: Shape| match choose(&f, &s, &|_, _| true).variant {
            Variant::Coop(c) => Some((c.cols, c.vectors)),
            _ => None,
        };
        assert_eq!(
            [2, 3, 8, 9, 16].map(|m| taken(half(m))),
            [(8, 2), (8, 4), (8, 8), (16, 16), (16, 16)].map(Some)
        );
        // One row takes them where rows of codes are many, or not so many and long.
        assert_eq!(taken(half(65)), None);
        let one = [(4096, 1024), (4096, 4096), (16384, 4096)].map(|(n, k)| Shape { n, k, ..half(1) });
        assert_eq!(one.map(taken), [None, Some((8, 1)), Some((8, 1))]);
        let others = [
            shape(4, 4096, 4096),
            Shape { dtype: Dtype::BF16, ..half(4) },
            Shape { transpose: false, ..half(4) },
        ];
        assert_eq!(others.map(taken), [None; 3]);
        assert!(!matches!(choose(&f, &half(4), &|_, _| false).variant, Variant::Coop(_)));
    }
}

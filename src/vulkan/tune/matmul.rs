//! Which kernel multiplies which matrices: what `python -m mlx.tune` found on this device, then the one table of tiles,
//! read top to bottom, and the facts about a device that it depends on. Pure; called by `matmul` and `conv`. The
//! environment variable MLX_VK_MATMUL_TILE=BMxBNxBKxTHREADS[xUNROLL] overrides the tile, MLX_VK_DISABLE=name,...
//! takes kernels (matmul_nv2, matmul_khr, gemv) and the cutting of K (matmul_split) out of the choice.

use std::sync::OnceLock;

use super::profile::{Card, H200, Profile};
use super::winners::Subject;
use super::{cut, filling};
use crate::core::Dtype;
use crate::core::env::{KernelVariant, Values, Variable};
use crate::vulkan::{Component, Features};

pub static MATMUL_TILE: Variable = Variable::new(
    "MLX_VK_MATMUL_TILE",
    "measured table",
    Values::Sizes("BMxBNxBKxTHREADS or BMxBNxBKxTHREADSxUNROLL", tile_fits, &[]),
    "Tile of the matrix kernels, where a kernel can have it",
);

pub static MATMUL_NV2: KernelVariant =
    KernelVariant::new("matmul_nv2", "cooperative matrices of the subgroup, or portable tiles");

pub static MATMUL_KHR: KernelVariant = KernelVariant::new("matmul_khr", "portable tiles");

pub static MATMUL_SPLIT: KernelVariant =
    KernelVariant::new("matmul_split", "products whose inner dimension is not cut into parts");

/// A tile of the result and the workgroup that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of the result.
    pub bm: u32,
    /// Columns of the result.
    pub bn: u32,
    /// Step along K.
    pub bk: u32,
    /// Invocations of the workgroup.
    pub threads: u32,
    /// Steps a loop iteration (cooperative matrix 2), stages of shared memory (KHR cooperative matrices).
    pub unroll: u32,
}

/// Kernel families, fastest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// NV cooperative matrices of workgroup scope.
    Nv2,
    /// KHR cooperative matrices of subgroup scope.
    Khr,
    /// Plain arithmetic on shared-memory tiles.
    Tiled,
}

/// What the table knows a device by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Any,
    Software,
    /// Subgroups of 64 lanes or more are possible.
    Wide,
    /// No subgroup is smaller than 64 lanes.
    Only64,
    /// Every subgroup has 32 lanes.
    Only32,
}

impl Class {
    /// Whether a device is of this class.
    fn has(self, f: &Features) -> bool {
        match self {
            Class::Any => true,
            Class::Software => f.software,
            Class::Wide => !f.software && f.max_subgroup_size >= 64,
            Class::Only64 => !f.software && f.min_subgroup_size >= 64,
            Class::Only32 => !f.software && (f.min_subgroup_size, f.max_subgroup_size) == (32, 32),
        }
    }
}

/// A row holds for products of at least `groups` tiles on the card that it was measured on (and as many for each unit of
/// another), whose sides are at least half a tile, and sums of at most `longest`.
struct Row {
    card: &'static Card,
    class: Class,
    tier: Tier,
    groups: u64,
    longest: u64,
    tile: Tile,
}

const fn tile(bm: u32, bn: u32, bk: u32, threads: u32, unroll: u32) -> Tile {
    Tile { bm, bn, bk, threads, unroll }
}

const fn row(class: Class, tier: Tier, groups: u64, tile: Tile) -> Row {
    Row { card: &H200, class, tier, groups, longest: u64::MAX, tile }
}

/// A row for short sums: tiles are written often, so that several small ones a multiprocessor overlap best.
const fn short(longest: u64, tier: Tier, groups: u64, tile: Tile) -> Row {
    Row { card: &H200, class: Class::Any, tier, groups, longest, tile }
}

/// Rows of the tallest tile, at least.
pub const TALLEST: u32 = 256;

const TABLE: &[Row] = &[
    // Where sums are short, results are written most of the time, by more workgroups in small tiles. H200, us, these and the row
    // below: 7728 x 6800 by 32 68 and 90, 8192 x 8192 by 64 103 and 111; 4096 x 4096 by 128 38 and 36.
    Row { class: Class::Only32, ..short(32, Tier::Khr, 240, tile(64, 64, 32, 128, 1)) },
    Row { class: Class::Only32, ..short(64, Tier::Khr, 240, tile(64, 64, 64, 128, 1)) },
    // Matrices of the subgroup are as fast as those of the workgroup or faster, and need no pipeline for each shape.
    // TFLOP/s, bfloat16, right operand as it is and transposed: 8192^3 342 and 341 against 345 and 344, 4096^3 327 and 322
    // against 290 and 201 to 274, 4096 x 4096 by 12288 330 and 332 against 213 and 210, 4096 x 12288 by 4096 320 against
    // 293 to 325, 512 x 12288 by 4096 318 and 313 against 326 and 315; before sizes are known to the pipeline 8192 x 3072 by
    // 768 265 against 160, 4096 x 4096 by 512 232 against 147.
    row(Class::Only32, Tier::Khr, 240, tile(128, 128, 64, 128, 1)),
    // 8192 products of 64 x 64 by 64 in float16, us: 82, by matrices of the workgroup 129.
    Row { class: Class::Only32, ..short(128, Tier::Khr, 264, tile(64, 64, 64, 128, 1)) },
    // H200, bfloat16: 512 x 512 by 64 174 us against 217. On an H100 the row above is better where it holds: 8192 x 8192 by
    // 64 107 us against 249, 16384 x 4096 by 128 128 against 262.
    short(128, Tier::Nv2, 264, tile(64, 64, 64, 128, 1)),
    // Where there are no matrices of the subgroup.
    row(Class::Any, Tier::Nv2, 2048, tile(128, 128, 64, 128, 1)),
    row(Class::Any, Tier::Nv2, 512, tile(128, 256, 64, 256, 1)),
    // Where there are 32 KiB of shared memory: 281.
    row(Class::Only32, Tier::Khr, 240, tile(128, 128, 32, 128, 1)),
    // One after the other, right operand as it is and transposed: 512 x 4096 by 4096 211 and 210 against 204 and 174,
    // 256 x 4096 163 against 160 and 151, 300 x 5000 by 7000 145 against 72; 128 x 4096 in four 135 against 106,
    // 64 x 8192 by 8192 in four 166 against 81. Two parts are slower than the whole when side by side (87 against 155).
    row(Class::Only32, Tier::Khr, 120, tile(64, 128, 64, 128, 1)),
    // 512^3 28 against 24; larger tiles 21.
    Row { class: Class::Only32, ..short(1024, Tier::Khr, 1, tile(64, 64, 64, 128, 1)) },
    row(Class::Only32, Tier::Khr, 1, tile(64, 128, 64, 128, 1)),
    row(Class::Only32, Tier::Khr, 1, tile(64, 64, 64, 128, 1)),
    // By 4096 x 4096 in eight: 32 rows 59 against 30, 16 rows 31 against 11.
    row(Class::Only32, Tier::Khr, 0, tile(32, 64, 64, 64, 1)),
    // Few chunks a thread, for operands that are gathered; and fewer sums, since where subgroups have other sizes 64 x 64
    // for a subgroup is too much (Mesa 25.0 for RDNA 3: 20 to 126 registers in memory).
    row(Class::Any, Tier::Khr, 120, tile(128, 128, 32, 256, 1)),
    row(Class::Any, Tier::Khr, 0, tile(64, 64, 32, 128, 1)),
    // Without matrices of the subgroup. In steps of 64 for two of 32: bfloat16 512 x 12288 by 4096 301 TFLOP/s against 226,
    // 256 x 12288 291 against 234; one after the other 512 x 4096 by 12288 287 us against 366.
    row(Class::Any, Tier::Nv2, 120, tile(128, 128, 64, 128, 1)),
    row(Class::Any, Tier::Nv2, 0, tile(64, 64, 64, 128, 1)),
    row(Class::Any, Tier::Nv2, 0, tile(32, 64, 64, 128, 1)),
    row(Class::Software, Tier::Tiled, 0, tile(32, 32, 8, 64, 1)),
    // Compiled by Mesa 25.0 for GCN and CDNA, not measured: two and four waves a unit for one, a tenth to a fifth fewer
    // cycles for a multiplication.
    row(Class::Only64, Tier::Tiled, 120, tile(128, 64, 16, 256, 1)),
    row(Class::Only64, Tier::Tiled, 120, tile(64, 64, 16, 256, 1)),
    row(Class::Any, Tier::Tiled, 120, tile(128, 128, 16, 256, 1)),
    row(Class::Any, Tier::Tiled, 120, tile(128, 64, 16, 128, 1)),
    row(Class::Any, Tier::Tiled, 120, tile(64, 64, 16, 64, 1)),
    // Likewise for RDNA too: twice the waves, half of the cycles.
    row(Class::Wide, Tier::Tiled, 0, tile(32, 32, 16, 64, 1)),
    row(Class::Any, Tier::Tiled, 0, tile(32, 32, 32, 64, 1)),
];

/// Floating point operations of the card above which a padded copy pays for a faster kernel.
const PADDING: f64 = 1e9;
/// Likewise, above which a shape may get a pipeline of its own.
const SPECIAL: f64 = 1e8;
/// Likewise, above which a copy pays that brings K to the outer axis of both operands.
const REORDER: f64 = 1e8;
/// Fewest rows, and rows for each right matrix, that make one tall product of sorted single rows (H200).
const RUN_ROWS: i64 = 16;
/// See [`RUN_ROWS`].
const RUN_LENGTH: i64 = 4;

/// Whether a padded copy of the operands pays.
pub fn pads(p: &Profile, flops: f64) -> bool {
    flops >= p.work(PADDING, &H200)
}

/// Whether a shape may get a pipeline of its own.
pub fn specialises(p: &Profile, flops: f64) -> bool {
    flops >= p.work(SPECIAL, &H200)
}

/// Whether a copy pays that brings K to the outer axis of both operands.
pub fn reorders(p: &Profile, flops: f64) -> bool {
    flops >= p.work(REORDER, &H200)
}

/// Whether so many sorted single rows, of so many right matrices, make one tall product.
pub fn runs(rows: i64, matrices: i64) -> bool {
    rows >= RUN_ROWS.max(RUN_LENGTH * matrices)
}

/// What a product looks like to the table.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Element type.
    pub dtype: Dtype,
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// Length of the sums.
    pub k: u64,
    /// Number of products.
    pub batch: u64,
    /// Operands meet the alignment of [`Tier::Nv2`].
    pub aligned: bool,
}

/// A kernel, its tile and the number of parts that K is cut into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Kernel family.
    pub tier: Tier,
    /// Tile.
    pub tile: Tile,
    /// Length of K of a part, a multiple of what the tile walks at once.
    pub k_split: u32,
    /// Number of parts.
    pub splits: u32,
}

fn component(dtype: Dtype) -> Component {
    if dtype == Dtype::BF16 { Component::Bf16 } else { Component::F16 }
}

/// Whether the device multiplies workgroup-wide matrices of this tile.
fn nv2_supports(f: &Features, dtype: Dtype, t: Tile) -> bool {
    let Some(c2) = &f.coop2 else { return false };
    let want = component(dtype);
    let fits = |e: &&crate::vulkan::CoopFlexible| {
        e.workgroup_scope
            && e.a == want
            && e.b == want
            && e.c == Component::F32
            && e.result == Component::F32
            && e.workgroup_invocations == t.threads
            && t.bm.is_multiple_of(e.m_granularity.max(1))
            && t.bn.is_multiple_of(e.n_granularity.max(1))
            && t.bk.is_multiple_of(e.k_granularity.max(1))
    };
    f.spirv16
        && f.memory_model
        && c2.workgroup_scope
        && c2.flexible_dimensions
        && c2.conversions
        && c2.tensor_addressing
        && c2.per_element_operations
        && f.float16
        && (dtype != Dtype::BF16 || f.bfloat16_coop)
        && t.threads <= c2.max_workgroup_size
        && f.coop_flexible.iter().any(|e| fits(&e))
}

/// The fixed size of the subgroups that add up what teams of so many threads have, and whether several teams share one.
/// Every kernel asks here, since sums have the same bits only in the same order.
pub fn team_subgroup(f: &Features, team: u32) -> Option<(u32, bool)> {
    let size = fixed_subgroup(f).filter(|_| f.subgroup_arithmetic)?;
    (size <= team || f.subgroup_clustered).then_some((size, size > team))
}

/// Size of a fixed subgroup in this library's kernels, if the device can promise one.
pub fn fixed_subgroup(f: &Features) -> Option<u32> {
    if f.min_subgroup_size == f.max_subgroup_size {
        return Some(f.subgroup_size);
    }
    let can = |s: u32| f.subgroup_size_control && f.min_subgroup_size <= s && s <= f.max_subgroup_size;
    [32, f.subgroup_size].into_iter().find(|&s| can(s))
}

/// Shape (M, N, K) of the KHR cooperative matrix that suits a dtype, if there is one.
pub fn fragment(f: &Features, dtype: Dtype) -> Option<[u32; 3]> {
    if !f.spirv16 || !f.memory_model || !f.float16 || (dtype == Dtype::BF16 && !f.bfloat16_coop) {
        return None;
    }
    let want = component(dtype);
    let fits = f.coop_matrices.iter().filter(|c| {
        c.subgroup_scope
            && c.a == want
            && c.b == want
            && c.c == Component::F32
            && c.result == Component::F32
            && c.m % 8 == 0
            && c.n % 8 == 0
            && c.k % 8 == 0
            && 32 % c.m.max(1) == 0
            && 32 % c.n.max(1) == 0
            && 32 % c.k.max(1) == 0
    });
    // 16 x 16 x 16 where there is one, else the largest.
    let best = fits.max_by_key(|c| ((c.m, c.n, c.k) == (16, 16, 16), c.m * c.n * c.k));
    best.map(|c| [c.m, c.n, c.k])
}

/// Whether the device has KHR cooperative matrices of just this shape (M, N, K) for a dtype.
pub fn multiplies(f: &Features, dtype: Dtype, shape: [u32; 3]) -> bool {
    let want = component(dtype);
    let like = |c: &crate::vulkan::CoopMatrix| {
        let float = c.c == Component::F32 && c.result == Component::F32;
        c.subgroup_scope && c.a == want && c.b == want && float && [c.m, c.n, c.k] == shape
    };
    fragment(f, dtype).is_some() && f.coop_matrices.iter().any(like)
}

/// Stages of shared memory of a KHR tile.
pub fn stages(t: Tile) -> u32 {
    t.unroll.clamp(1, 2)
}

/// Subgroups along M and N for a KHR tile: what each has is as square as it comes.
pub fn subgroup_grid(t: Tile, subgroup: u32, [fm, fn_]: [u32; 2]) -> (u32, u32) {
    let count = t.threads / subgroup.max(1);
    let grids = (0..=count.checked_ilog2().unwrap_or(0)).rev().map(|m| (1 << m, count >> m));
    let fits = |&(m, n): &(u32, u32)| {
        m * n == count && t.bm.is_multiple_of(m * fm.max(1)) && t.bn.is_multiple_of(n * fn_.max(1))
    };
    grids.filter(fits).min_by_key(|(m, n)| t.bm / m + t.bn / n).unwrap_or((1, count))
}

/// Whether matmul_khr.comp is written out for as many fragments of a subgroup as a side has steps.
fn written(side: u32, step: u32) -> bool {
    [1, 2, 4, 8].iter().any(|n| n * step == side)
}

fn khr_supports(f: &Features, dtype: Dtype, t: Tile) -> bool {
    let (Some([fm, fn_, fk]), Some(sg)) = (fragment(f, dtype), fixed_subgroup(f)) else { return false };
    let (sm, sn) = subgroup_grid(t, sg, [fm, fn_]);
    // The wider of the two orientations, with its padding; one fragment a subgroup in the end.
    let operands = t.bk * (t.bm + t.bn) * 2 + 16 * (t.bm.max(t.bk) + t.bn.max(t.bk));
    let shared = (stages(t) * operands).max(sm * sn * fm * (4 * fn_ + 32));
    t.threads.is_multiple_of(sg)
        && sm * sn * sg == t.threads
        && t.bm.is_multiple_of(sm * fm)
        && t.bn.is_multiple_of(sn * fn_)
        && t.bk.is_multiple_of(fk)
        && t.bk.is_multiple_of(8)
        && written(t.bm, sm * fm)
        && written(t.bn, sn * fn_)
        && shared <= f.shared_memory
        && t.threads <= f.max_workgroup_invocations
}

/// Results of a thread along M and N for a portable tile.
pub fn thread_tile(t: Tile) -> (u32, u32) {
    match t.bm * t.bn / t.threads.max(1) {
        128 => (16, 8),
        64 => (8, 8),
        32 => (8, 4),
        _ => (4, 4),
    }
}

pub fn tiled_supports(f: &Features, dtype: Dtype, t: Tile) -> bool {
    let (tm, tn) = thread_tile(t);
    let vector = if dtype == Dtype::F32 { 4 } else { 8 };
    tm * tn * t.threads == t.bm * t.bn
        && t.bm.is_multiple_of(32)
        && t.bn.is_multiple_of(32)
        && (t.bn / tn).is_multiple_of(8)
        && (t.bm / tm).is_multiple_of(4)
        && t.bk.is_multiple_of(vector)
        && 32u32.is_multiple_of(t.bk / vector)
        && 8 * t.bk * (t.bm + t.bn) <= f.shared_memory
        && t.threads <= f.max_workgroup_invocations
}

/// Whether a tier may be used for a product on a device.
pub fn supports(f: &Features, s: &Shape, tier: Tier, t: Tile) -> bool {
    let half = matches!(s.dtype, Dtype::F16 | Dtype::BF16);
    match tier {
        Tier::Nv2 => half && s.aligned && !MATMUL_NV2.disabled() && nv2_supports(f, s.dtype, t),
        Tier::Khr => half && !MATMUL_KHR.disabled() && khr_supports(f, s.dtype, t),
        Tier::Tiled => tiled_supports(f, s.dtype, t),
    }
}

#[cfg(test)]
thread_local! {
    /// Tile that a test forces on its thread.
    pub static TEST_TILE: std::cell::Cell<Option<Tile>> = const { std::cell::Cell::new(None) };
}

/// The tile of MLX_VK_MATMUL_TILE.
pub fn forced_tile() -> Option<Tile> {
    #[cfg(test)]
    if let Some(t) = TEST_TILE.get() {
        return Some(t);
    }
    static TILE: OnceLock<Option<Tile>> = OnceLock::new();
    *TILE.get_or_init(|| MATMUL_TILE.sizes().and_then(|v| tile_of(&v)))
}

fn tile_fits(v: &[u32]) -> bool {
    matches!(v.len(), 4 | 5) && v.iter().all(|n| (1..=4096).contains(n))
}

fn tile_of(sizes: &[u32]) -> Option<Tile> {
    match *sizes {
        [bm, bn, bk, threads] => Some(tile(bm, bn, bk, threads, 1)),
        [bm, bn, bk, threads, unroll] => Some(tile(bm, bn, bk, threads, unroll)),
        _ => None,
    }
}

/// Number of tiles of a product.
pub fn tiles(s: &Shape, t: Tile) -> u64 {
    s.m.div_ceil(u64::from(t.bm)) * s.n.div_ceil(u64::from(t.bn))
}

/// The kernel for a product: the first row of the table that the device supports and the product fills.
pub fn choose(p: &Profile, s: &Shape) -> Choice {
    choose_among(p, s, u64::MAX, |_| true)
}

/// As [`choose`], for a product that gathers an operand.
pub fn choose_gathered(p: &Profile, s: &Shape) -> Choice {
    choose_among(p, s, u64::MAX, gathers)
}

/// Whether a kernel has registers for gathered chunks: each has a place in the input of its own.
fn gathers(r: &Row) -> bool {
    r.tier != Tier::Khr || r.tile.bm.max(r.tile.bn) * r.tile.bk <= 16 * r.tile.threads
}

/// As [`choose`], for a product whose rows come in runs of about `run` that are multiplied one by one: taller
/// tiles would repeat themselves.
pub fn choose_flat(p: &Profile, s: &Shape, run: u64) -> Choice {
    choose_among(p, s, run.next_power_of_two().max(32), |_| true)
}

fn choose_among(p: &Profile, s: &Shape, tallest: u64, among: fn(&Row) -> bool) -> Choice {
    let f = &p.features;
    let last = row(Class::Any, Tier::Tiled, 0, tile(32, 32, 16, 64, 1));
    if let Some(t) = forced_tile() {
        for tier in [Tier::Nv2, Tier::Khr, Tier::Tiled] {
            if supports(f, s, tier, t) {
                return split(p, s, tier, t);
            }
        }
    }
    if let Some((tier, t)) = winner(p, s).filter(|w| u64::from(w.1.bm) <= tallest) {
        return split(p, s, tier, t);
    }
    let suits = |r: &&Row| {
        r.class.has(f)
            && among(r)
            && u64::from(r.tile.bm) <= tallest
            && s.k <= r.longest
            && (r.groups == 0 || tiles(s, r.tile) * s.batch >= p.like(r.groups, r.card))
            && (r.groups == 0 || 2 * s.m > u64::from(r.tile.bm) && 2 * s.n > u64::from(r.tile.bn))
            && supports(f, s, r.tier, r.tile)
    };
    // Among the small tiles of the cooperative tier, a flat product takes the flat one.
    let flat = |r: &&Row| r.tier != Tier::Nv2 || r.groups > 0 || s.m > 32 || r.tile.bm <= 32;
    let found = TABLE.iter().find(|r| suits(r) && flat(r)).unwrap_or(&last);
    split(p, s, found.tier, found.tile)
}

/// What the choice was measured for: sides to the nearest power of two. One product whose operands lie as the fastest
/// kernels want them.
pub fn subject(s: &Shape) -> Option<Subject> {
    let class = |n: u64| ((n as f64).log2().round() as u32).min(16) as u8;
    (s.aligned && s.batch == 1).then(|| Subject::Matmul(s.dtype, [s.m, s.n, s.k].map(class)))
}

/// The kernel that won on this device, if it was measured and can be used.
fn winner(p: &Profile, s: &Shape) -> Option<(Tier, Tile)> {
    if p.winners.is_empty() {
        return None;
    }
    let (tier, t) = variant(p.winners.get(&subject(s)?)?)?;
    supports(&p.features, s, tier, t).then_some((tier, t))
}

/// The numbers of a kernel in the cache.
pub fn numbers(tier: Tier, t: Tile) -> Vec<u32> {
    vec![tier as u32, t.bm, t.bn, t.bk, t.threads, t.unroll]
}

/// The kernel of such numbers.
pub fn variant(numbers: &[u32]) -> Option<(Tier, Tile)> {
    let &[tier, bm, bn, bk, threads, unroll] = numbers else { return None };
    let tier = [Tier::Nv2, Tier::Khr, Tier::Tiled].into_iter().find(|&t| t as u32 == tier)?;
    let sane = [bm, bn, bk, threads, unroll].iter().all(|n| (1..=4096).contains(n));
    sane.then(|| (tier, tile(bm, bn, bk, threads, unroll)))
}

/// The kernels of the table that a device has for a product, each once.
pub fn candidates(p: &Profile, s: &Shape) -> Vec<Vec<u32>> {
    let mut all: Vec<Vec<u32>> = Vec::new();
    let f = &p.features;
    let class = |r: &&Row| r.class.has(f) && f.software == (r.class == Class::Software);
    for r in TABLE.iter().filter(class).filter(|r| supports(&p.features, s, r.tier, r.tile)) {
        let n = numbers(r.tier, r.tile);
        if !all.contains(&n) {
            all.push(n);
        }
    }
    all
}

/// The kernel for a product of few results and long sums, such as the gradient of a convolution's kernel: the
/// tile that wastes least on the result, and as many parts of K as fill the GPU.
pub fn choose_long(p: &Profile, s: &Shape) -> Choice {
    let f = &p.features;
    // Small tiles read their operands more often: count them as half as good for each halving.
    let cost = |r: &&Row| {
        let padded = s.m.next_multiple_of(r.tile.bm.into()) * s.n.next_multiple_of(r.tile.bn.into());
        let reads = 1.0 / f64::from(r.tile.bm) + 1.0 / f64::from(r.tile.bn);
        padded as f64 * (1.0 + 32.0 * reads)
    };
    let fits = |r: &&Row| {
        let class = r.class.has(f) && f.software == (r.class == Class::Software);
        class && gathers(r) && supports(f, s, r.tier, r.tile)
    };
    let best = |t: Tier| {
        let of_tier = TABLE.iter().filter(|r| r.tier == t).filter(fits);
        of_tier.min_by(|a, b| cost(a).total_cmp(&cost(b)))
    };
    let forced = forced_tile().and_then(|t| {
        [Tier::Khr, Tier::Tiled].into_iter().find(|&tier| supports(f, s, tier, t)).map(|tier| (tier, t))
    });
    let found = || best(Tier::Khr).or_else(|| best(Tier::Tiled)).map(|r| (r.tier, r.tile));
    let (tier, tile) = forced.or_else(found).unwrap_or((Tier::Tiled, tile(32, 32, 16, 64, 1)));
    // Workgroups of 256 threads that fill the GPU, or as many threads in smaller ones.
    let wanted = p.fill() * 256 / u64::from(tile.threads) / (tiles(s, tile) * s.batch).max(1);
    in_parts(s, tier, tile, wanted, 128)
}

/// Fewest parts of K that pay on [`Tier::Nv2`], whose kernels keep fewer loads under way where K does not begin at
/// zero. H200, bfloat16, by 4096 x 4096, one after the other, whole against parts: 512 rows 95 us against 254 in two,
/// 128 rows 53 against 101 in two, 64 rows 41 against 55 in four, 32 rows 26 against 31 in four and 21 in eight.
const FEWEST_PARTS: u64 = 6;

/// Cuts K where the tiles alone leave the GPU idle and every part keeps enough work.
fn split(p: &Profile, s: &Shape, tier: Tier, t: Tile) -> Choice {
    let groups = tiles(s, t) * s.batch;
    let fill = if tier == Tier::Khr { p.fill() * 128 / u64::from(t.threads) } else { p.fill() };
    let parts = filling(false, groups as i64, fill as i64) as u64;
    match tier {
        Tier::Nv2 if parts < FEWEST_PARTS => in_parts(s, tier, t, 1, 1),
        Tier::Nv2 => in_parts(s, tier, t, equal_parts(s.k / u64::from(t.bk * t.unroll), parts), 64),
        Tier::Khr if parts.min(s.k / 512) <= 2 => in_parts(s, tier, t, 1, 1),
        Tier::Khr => in_parts(s, tier, t, parts.min(s.k / 512), 64),
        Tier::Tiled => in_parts(s, tier, t, parts, 64),
    }
}

/// As many parts of so many steps as `wanted`, or up to half as many more or fewer where those are equal.
fn equal_parts(steps: u64, wanted: u64) -> u64 {
    let near = (FEWEST_PARTS.max(wanted / 2)..=wanted + wanted / 2).filter(|&p| steps.is_multiple_of(p));
    near.min_by_key(|&p| p.abs_diff(wanted)).unwrap_or(wanted)
}

/// K in `wanted` parts, at most `most`, each a multiple of the tile's step and not too short.
fn in_parts(s: &Shape, tier: Tier, t: Tile, wanted: u64, most: i64) -> Choice {
    let most = if MATMUL_SPLIT.disabled() { 1 } else { most };
    let (k_split, splits) = cut(s.k as i64, wanted as i64, 256, most, i64::from(t.bk * t.unroll));
    Choice {
        tier,
        tile: t,
        k_split: if splits == 1 { s.k as u32 } else { k_split as u32 },
        splits: splits as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::devices;
    use super::*;

    fn portable() -> Profile {
        let f = Features { shared_memory: 32768, max_workgroup_invocations: 256, ..Default::default() };
        Profile { features: f, ..devices::h200() }
    }

    fn shape(dtype: Dtype, m: u64, n: u64, k: u64, batch: u64) -> Shape {
        Shape { dtype, m, n, k, batch, aligned: true }
    }

    #[test]
    fn devices_of_64_lanes_take_tiles_that_leave_room_for_several_waves() {
        let lanes = |low, high| {
            let mut p = portable();
            (p.features.min_subgroup_size, p.features.max_subgroup_size) = (low, high);
            let sizes = |n| {
                let t = choose(&p, &shape(Dtype::F32, n, n, n, 1)).tile;
                [t.bm, t.bn, t.bk, t.threads]
            };
            [sizes(4096), sizes(64)]
        };
        assert_eq!(lanes(64, 64), [[128, 64, 16, 256], [32, 32, 16, 64]]);
        assert_eq!(lanes(32, 64), [[128, 128, 16, 256], [32, 32, 16, 64]]);
        assert_eq!(lanes(32, 32), [[128, 128, 16, 256], [32, 32, 32, 64]]);
    }

    #[test]
    fn large_products_take_large_tiles_and_small_ones_small_tiles() {
        let f = portable();
        assert_eq!(choose(&f, &shape(Dtype::F32, 4096, 4096, 4096, 1)).tile.bm, 128);
        assert_eq!(choose(&f, &shape(Dtype::F32, 64, 64, 64, 1)).tile.bm, 32);
        assert_eq!(choose(&f, &shape(Dtype::F32, 64, 64, 64, 1)).splits, 1);
    }

    #[test]
    fn workgroup_wide_products_are_cut_into_many_equal_parts_or_none() {
        let p = devices::h200();
        let tile = tile(64, 64, 64, 128, 1);
        let chosen = |m, n, k| split(&p, &shape(Dtype::BF16, m, n, k, 1), Tier::Nv2, tile);
        for (m, n, k) in [(64, 4096, 4096), (128, 4096, 4096), (512, 4096, 4096), (512, 4096, 12288)] {
            assert_eq!(chosen(m, n, k).splits, 1, "{m} x {n} by {k}");
        }
        for (m, n, k) in [(32, 512, 8192), (64, 512, 8192), (64, 1024, 12288), (128, 256, 5120)] {
            let c = chosen(m, n, k);
            assert!(u64::from(c.splits) >= FEWEST_PARTS, "{m} x {n} by {k}: {c:?}");
            assert_eq!(u64::from(c.splits) * u64::from(c.k_split), k, "{m} x {n} by {k}: {c:?}");
        }
        assert_eq!(
            [equal_parts(64, 7), equal_parts(64, 6), equal_parts(61, 8), equal_parts(0, 9)],
            [8, 8, 8, 9]
        );
    }

    #[test]
    fn products_take_the_matrices_and_parts_that_were_fastest() {
        let p = devices::h200();
        for ((m, n, k), tier, sizes, splits) in [
            ((8192, 8192, 8192), Tier::Khr, [128, 128, 64, 128], 1),
            ((8192, 3072, 768), Tier::Khr, [128, 128, 64, 128], 1),
            ((512, 12288, 4096), Tier::Khr, [128, 128, 64, 128], 1),
            ((4096, 4096, 4096), Tier::Khr, [128, 128, 64, 128], 1),
            ((4096, 4096, 12288), Tier::Khr, [128, 128, 64, 128], 1),
            ((512, 4096, 4096), Tier::Khr, [64, 128, 64, 128], 1),
            ((256, 4096, 4096), Tier::Khr, [64, 128, 64, 128], 1),
            ((128, 4096, 4096), Tier::Khr, [64, 128, 64, 128], 4),
            ((64, 8192, 8192), Tier::Khr, [64, 128, 64, 128], 4),
            ((512, 512, 512), Tier::Khr, [64, 64, 64, 128], 1),
            ((32, 4096, 4096), Tier::Khr, [32, 64, 64, 64], 8),
        ] {
            let c = choose(&p, &shape(Dtype::BF16, m, n, k, 1));
            let found = [c.tile.bm, c.tile.bn, c.tile.bk, c.tile.threads];
            assert_eq!((c.tier, found, c.splits), (tier, sizes, splits), "{m} x {n} by {k}");
        }
        let s = shape(Dtype::BF16, 4096, 4096, 4096, 1);
        assert_eq!(choose_gathered(&p, &Shape { aligned: false, ..s }).tile, tile(128, 128, 32, 256, 1));
    }

    #[test]
    fn tiles_of_the_subgroup_keep_to_the_memory_and_are_square() {
        let mut f = devices::h200().features;
        let grids = [(128, 128, 256), (64, 128, 128), (64, 128, 64), (32, 64, 64), (32, 32, 256)]
            .map(|(bm, bn, threads)| subgroup_grid(tile(bm, bn, 32, threads, 1), 32, [16, 16]));
        assert_eq!(grids, [(4, 2), (2, 2), (1, 2), (1, 2), (1, 8)]);
        let large = tile(128, 128, 64, 128, 1);
        assert!(khr_supports(&f, Dtype::BF16, large));
        f.shared_memory = 32 << 10;
        assert!(!khr_supports(&f, Dtype::BF16, large));
        for r in TABLE.iter().filter(|r| r.tier == Tier::Khr && r.tile != large) {
            assert!(khr_supports(&f, Dtype::BF16, r.tile), "{:?}", r.tile);
            assert_eq!(stages(r.tile), 1);
        }
        assert!(!khr_supports(&f, Dtype::BF16, tile(128, 128, 32, 128, 2)));
        // Three fragments of a subgroup along a side are not written out.
        let f = devices::h200().features;
        for (bm, bn) in [(96, 64), (64, 96), (96, 96)] {
            assert!(!khr_supports(&f, Dtype::BF16, tile(bm, bn, 32, 128, 1)), "{bm} x {bn}");
        }
    }

    #[test]
    fn parts_of_k_cover_it_and_are_multiples_of_the_step() {
        let f = portable();
        for k in [1000, 4096, 100_003] {
            let c = choose(&f, &shape(Dtype::F32, 64, 64, k, 1));
            assert!(c.splits > 1);
            assert_eq!(c.k_split % c.tile.bk, 0);
            assert_eq!(u64::from(c.splits), k.div_ceil(u64::from(c.k_split)));
        }
    }

    #[test]
    fn every_portable_row_is_valid_on_a_plain_device() {
        for r in TABLE.iter().filter(|r| r.tier == Tier::Tiled) {
            for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
                assert!(tiled_supports(&portable().features, dtype, r.tile), "{:?}", r.tile);
            }
        }
    }

    #[test]
    fn tiles_come_with_and_without_unroll() {
        assert!(TABLE.iter().all(|r| r.tile.bm <= TALLEST));
        assert_eq!(tile_of(&[128, 128, 32, 128]), Some(tile(128, 128, 32, 128, 1)));
        assert_eq!(tile_of(&[128, 256, 64, 256, 2]), Some(tile(128, 256, 64, 256, 2)));
        assert_eq!(tile_of(&[128]), None);
    }
}

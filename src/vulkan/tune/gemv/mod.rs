//! How products with at most eight rows or columns are laid out. Pure; called by the host of `gemv`.
//! MLX_VK_GEMV=THREADSxROWSxUNROLL overrides the layout over rows.

pub(in crate::vulkan) mod held;
pub(in crate::vulkan) mod wide;

use std::sync::OnceLock;

use super::matmul::{MATMUL_KHR, MATMUL_SPLIT, fragment};
use super::profile::{Best, Profile, best};
use super::{ceil, cut, filling, row_threads};
use crate::core::Dtype;
use crate::core::env::{KernelVariant, Values, Variable};

pub static GEMV_LAYOUT: Variable = Variable::new(
    "MLX_VK_GEMV",
    "measured table",
    Values::Sizes("THREADSxROWSxUNROLL", fits, &[]),
    "Layout of the matrix-vector kernel",
);

pub static GEMV: KernelVariant =
    KernelVariant::new("gemv", "tiles, for products with a side of at most 8 too");

/// Most vectors that the kernels multiply at once.
pub const VECTORS: i64 = 8;

/// What is read once: one of so many matrices, of how many bytes, and whether K is contiguous in it.
#[derive(Debug, Clone, Copy)]
pub struct Matrix {
    pub dtype: Dtype,
    pub bytes: u64,
    pub by_rows: bool,
    pub batches: i64,
}

/// Bytes of a matrix from which tiles of cooperative matrices read it faster than these kernels for more than four
/// vectors, where K is contiguous, and for more than one where it is not. H100, bfloat16, these kernels and tiles in us: K 4096
/// by 12,288 with 8 vectors 48 and 32, with 4 42 and 32; K 12,288 by 4096 with 8 84 and 46, with 4 37 and 46; K 4096 by 4096
/// with 8 22 and 18, with 4 11 and 16; K 3072 by 1024 with 8 7 and 11. Not contiguous: K 4096 by 4096 with 8 46 and 17, with 2
/// 16 and 15, with 1 13 and 15; K 1024 by 3072 with 8 14 and 8.
const LARGE_ROWS: u64 = 16 << 20;
/// See [`LARGE_ROWS`].
const LARGE_COLUMNS: u64 = 4 << 20;

/// Whether so many vectors go to these kernels, or to tiles.
pub fn takes(p: &Profile, vectors: i64, w: Matrix) -> bool {
    let half = matches!(w.dtype, Dtype::F16 | Dtype::BF16) && fragment(&p.features, w.dtype).is_some();
    let tiles = half && w.batches == 1 && !MATMUL_KHR.disabled();
    let most = match w.by_rows {
        true if tiles && w.bytes >= LARGE_ROWS => 4,
        false if tiles && w.bytes >= LARGE_COLUMNS => 1,
        _ => VECTORS,
    };
    vectors <= most
}

/// gemv_rows.comp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Threads a row.
    pub threads: u32,
    /// Rows a thread.
    pub rows: u32,
    /// Chunks in flight.
    pub unroll: u32,
    /// Length of a part of K, and parts.
    pub k_split: u32,
    /// Number of parts.
    pub splits: u32,
}

/// gemv_cols.comp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    /// Parts of K inside the workgroup.
    pub slices: u32,
    /// Length of a part of K.
    pub k_split: u32,
    /// Number of parts.
    pub splits: u32,
}

/// gemv_joined.comp: threads a row, rows a thread, chunks in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JoinedRows {
    pub threads: u32,
    pub rows: u32,
    pub unroll: u32,
}

/// Rows below which a long one gets a whole workgroup.
pub static FEW_ROWS: Best = best("gemv_few_rows", 2048);

fn fits(v: &[u32]) -> bool {
    matches!(v, &[threads, rows, unroll] if row_threads(threads) && rows <= 64 && unroll <= 64)
}

pub(in crate::vulkan) fn forced() -> Option<(u32, u32, u32)> {
    static FORCED: OnceLock<Option<(u32, u32, u32)>> = OnceLock::new();
    *FORCED.get_or_init(|| match GEMV_LAYOUT.sizes()?[..] {
        [threads, rows, unroll] => Some((threads, rows, unroll)),
        _ => None,
    })
}

/// Threads a row, rows a thread and chunks in flight. A software driver gets the shortest code, since it compiles
/// slower than it runs.
fn layout(p: &Profile, rows: i64, chunks: i64, batches: i64, vectors: u32) -> (u32, u32, u32) {
    if let Some(forced) = forced() {
        return forced;
    }
    if p.features.software {
        return (8, 1, 1);
    }
    let threads: u32 = match chunks {
        0..=16 => 8,
        512.. if rows * batches < p.count(&FEW_ROWS) as i64 => 256,
        // In GB/s on an H200, rows of 4096 bfloat16: 3450 (16384 rows) and 3441 (4096), against 3179 and less
        // with 32 threads a row.
        256.. if vectors == 1 => return (128, 1, 2),
        _ => 32,
    };
    // Few rows of a matrix, of many: all threads have one.
    let whole = |n: i64| (n.clamp(1, 256) as u32).next_power_of_two();
    let threads = threads.max((256 / whole(rows)).min(whole(chunks)));
    let teams = i64::from(256 / threads);
    let fills = |r: i64| ceil(rows, teams * r) * batches >= p.nearly(2) as i64;
    let most = if vectors > 2 { 2 } else { 4 };
    let r = [4, 2].into_iter().find(|&r| r <= most && fills(r)).unwrap_or(1);
    (threads, r as u32, if r == 4 { 2 } else { 4 })
}

/// Workgroups of a part, up to which there may be so many parts: a dot product of 33.5M numbers fills the card (H200: with 64 parts 134 us
/// where 64 are the memory's).
const FEW_GROUPS: i64 = 4;
/// See [`FEW_GROUPS`].
const MOST_PARTS_OF_FEW: i64 = 256;
/// Parts of the length of other matrices.
const MOST_PARTS: i64 = 64;

/// For a matrix of `rows` rows of length `k` that lie together, in chunks of `vector` elements, times `vectors`
/// vectors, `batches` times.
pub fn by_rows(p: &Profile, rows: i64, k: i64, vector: i64, batches: i64, vectors: u32) -> Rows {
    let (threads, r, unroll) = layout(p, rows, k / vector, batches, vectors);
    let groups = ceil(rows, i64::from(256 / threads * r)) * batches;
    let step = i64::from(threads) * vector;
    let parts = filling(MATMUL_SPLIT.disabled(), groups, p.fill() as i64);
    let most = if groups <= FEW_GROUPS { MOST_PARTS_OF_FEW } else { MOST_PARTS };
    let (k_split, splits) = cut(k, parts, step * 8, most, step);
    Rows { threads, rows: r, unroll, k_split: k_split as u32, splits: splits as u32 }
}

/// For a matrix whose `rows` results lie together.
pub fn by_columns(p: &Profile, rows: i64, k: i64, vector: i64, batches: i64) -> Columns {
    let slices = if rows <= 16 * vector { 32 } else { 8 };
    let groups = ceil(rows, 256 / slices * vector) * batches;
    let parts = filling(MATMUL_SPLIT.disabled(), groups, 4 * p.fill() as i64);
    let (k_split, splits) = cut(k, parts, slices * 8, MOST_PARTS, slices * 4);
    Columns { slices: slices as u32, k_split: k_split as u32, splits: splits as u32 }
}

/// For one row of so many chunks times matrices that have `rows` rows together. With `norm` each workgroup normalises the
/// row, and has many rows of the matrices for that; `pair`: rows of two matrices beside each other, an even number.
pub(in crate::vulkan) fn joined(p: &Profile, rows: i64, chunks: i64, norm: bool, pair: bool) -> JoinedRows {
    let (mut threads, mut each, mut unroll) = layout(p, rows, chunks, 1, 1);
    if norm && forced().is_none() && !p.features.software && threads > 64 {
        let fills = |r: i64| ceil(rows, 256 / 64 * r) >= p.nearly(1) as i64;
        let most = [4, 2].into_iter().find(|&r| fills(r));
        if let Some(most) = most {
            (threads, each, unroll) = (64, most as u32, 2);
        }
    }
    if pair {
        each = each.max(2).next_multiple_of(2);
    }
    JoinedRows { threads, rows: each, unroll: unroll.clamp(1, 4) }
}

/// Rows of a matrix for each of the workgroups that fill the device, up to which each of those normalises the row for itself:
/// with more of them that takes longer than a kernel of its own.
const NORMALISED: u64 = 128;

/// Whether the row of a product with a dense matrix of so many rows is normalised by the product's kernel.
pub fn takes_norm(p: &Profile, rows: i64) -> bool {
    rows as u64 <= NORMALISED * p.fill()
}

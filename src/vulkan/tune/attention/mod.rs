//! Which attention kernel runs, and with what tiles: the one place for limits and factors. Each can be set for a
//! process by an environment variable: MLX_VK_SDPA_ROWS (most queries of the vector kernel), MLX_VK_SDPA_GROUPS
//! (workgroups that the keys are cut for), MLX_VK_SDPA_KEYS (least keys of a part), MLX_VK_SDPA_SPLITS (parts, instead
//! of what follows from the others), MLX_VK_SDPA_COOP (0: no matrix kernel; others: ordinary arithmetic in its place,
//! for tests), MLX_VK_SDPA_TEAMS (its subgroups). MLX_VK_DISABLE=sdpa_vector, sdpa_split, sdpa_rope, sdpa_tile,
//! sdpa_coop, sdpa_held, sdpa_blocks or sdpa_grad takes one out. Pure; called by `attention`.

pub(in crate::vulkan) mod several;
pub mod token;

use super::matmul::{fixed_subgroup, fragment};
use super::profile::{Best, H200, Profile, best};
use super::warpgroup::always;
use crate::core::Dtype;
use crate::core::env::{KernelVariant, Values, Variable};
use crate::core::fork::Made;
use crate::vulkan::Features;
use crate::vulkan::kernels::elem::{WG, shuffles};

pub static SDPA_ROWS: Variable = Variable::new(
    "MLX_VK_SDPA_ROWS",
    "8",
    Values::Number(1, 1 << 20),
    "Most queries that the vector kernel of attention takes",
);

pub static SDPA_GROUPS: Variable = Variable::new(
    "MLX_VK_SDPA_GROUPS",
    "by device",
    Values::Number(1, 1 << 20),
    "Workgroups that the vector kernel cuts the keys for",
);

pub static SDPA_KEYS: Variable =
    Variable::new("MLX_VK_SDPA_KEYS", "64", Values::Number(1, 1 << 20), "Least keys of a part");

pub static SDPA_SPLITS: Variable = Variable::new(
    "MLX_VK_SDPA_SPLITS",
    "by size",
    Values::Number(1, 256),
    "Parts that the keys are cut into, whatever their number",
);

pub static SDPA_COOP: Variable = Variable::new(
    "MLX_VK_SDPA_COOP",
    "1",
    Values::Word(&["0", "1", "plain", "plain_held"]),
    "0: no attention on cooperative matrices. plain, plain_held: the same kernel with ordinary arithmetic, with \
         scores in shared memory or in registers, for tests",
);

pub static SDPA_TEAMS: Variable = Variable::new(
    "MLX_VK_SDPA_TEAMS",
    "by head size",
    Values::Number(4, 8),
    "Subgroups of a workgroup of attention's matrix kernels with scores in registers: 4 or 8",
);

pub static SDPA_VECTOR: KernelVariant =
    KernelVariant::new("sdpa_vector", "tiles, for few queries too, where they hold the head");

pub static SDPA_SPLIT: KernelVariant =
    KernelVariant::new("sdpa_split", "the vector kernel over all keys at once");

pub static SDPA_ROPE: KernelVariant = KernelVariant::new(
    "sdpa_rope",
    "rotations before attention of one query, and caches, in a kernel of their own",
);

pub static SDPA_TILE: KernelVariant =
    KernelVariant::new("sdpa_tile", "the vector kernel, for many queries too");

pub static SDPA_MATRICES: KernelVariant = KernelVariant::new("sdpa_coop", "portable tiles");

pub static SDPA_HELD: KernelVariant =
    KernelVariant::new("sdpa_held", "attention's matrix kernel with scores in shared memory");

pub static SDPA_WARPGROUP: KernelVariant = KernelVariant::new(
    "sdpa_warpgroup",
    "the matrices of Vulkan, on GPUs that take PTX with warpgroup products",
);

pub static SDPA_BLOCKS: KernelVariant =
    KernelVariant::new("sdpa_blocks", "masks of attention that are not looked at before it");

pub static SDPA_GRAD: KernelVariant =
    KernelVariant::new("sdpa_grad", "attention's gradient composed of products and softmax");

/// Features of the longest head that the kernels take.
pub const MOST_FEATURES: u64 = 2048;

/// Most features of a row that the kernel over rotated rows takes, and most rows in all (H200).
pub const ROTATED_FEATURES: i64 = 512;
/// See [`ROTATED_FEATURES`].
pub const ROTATED_ROWS: i64 = 1 << 14;

struct Limits {
    rows: u64,
    groups: Option<u64>,
    keys: Option<u64>,
    splits: Option<u64>,
    coop: bool,
    plain: bool,
    held: bool,
    teams: Option<u32>,
}

static LIMITS: Made<Limits> = Made::new(|| Limits {
    rows: SDPA_ROWS.count(),
    groups: SDPA_GROUPS.number(),
    keys: SDPA_KEYS.number(),
    splits: SDPA_SPLITS.number(),
    coop: SDPA_COOP.word() != Some("0"),
    plain: matches!(SDPA_COOP.word(), Some("plain" | "plain_held")),
    held: SDPA_COOP.word() == Some("plain_held"),
    teams: SDPA_TEAMS.number().map(|n| if n < 8 { 4 } else { 8 }),
});

/// Workgroups that the vector kernel cuts the keys for.
pub static GROUPS: Best = best("attention_groups", 128);
/// Where several parts would have more keys than this, there are twice as many (H100, 8192 keys of 8 heads for 32 queries: 21 us in
/// place of 24, 32768: 60 and 78; 2048 the other way round, 11.5 and 10.7). 8 rows of 32 queries over 1100 keys of 8 heads: 23
/// and 29, over 600 of 4 heads 15.5 and 17.5; 32 rows, for which the card is full, 87 and 75.
const LONG_PART: u64 = 512;
/// Least keys of a part.
pub static KEYS: Best = Best { name: "attention_keys", value: 64, card: &H200, grows: false };

/// Most parts that keys are cut into: as many as sdpa_merge.comp joins.
const MOST_SPLITS: u64 = 256;

/// Floating point operations of attention on warpgroups, and on Vulkan's matrices, a nanosecond of the card; what the two passes over
/// keys and values take besides their bytes (H200).
const WARPGROUP: [f64; 2] = [400_000.0, 220_000.0];
/// See [`WARPGROUP`].
const WARPGROUP_NS: f64 = 8000.0;

/// The features that a kernel on warpgroups has room for, where it can take such arrays.
fn room(p: &Profile, dtype: Dtype, [batch, heads, l, n]: [u64; 4], [d, dv]: [u64; 2]) -> Option<u32> {
    let half = matches!(dtype, Dtype::F16 | Dtype::BF16);
    let features = if d.max(dv) <= 64 { 64 } else { 128 };
    let fits = d.max(dv) <= features && d % 8 == 0 && dv % 8 == 0;
    let counts = n < 1 << 31 && batch.max(heads) < 1 << 16 && l.max(n).div_ceil(64) < 1 << 16;
    // FITS: 64 or 128.
    (half && p.features.ptx && fits && counts && !SDPA_WARPGROUP.disabled()).then_some(features as u32)
}

/// The features that the kernel on warpgroups has room for, for arrays of (batch, heads, heads of keys, queries, keys), where it is
/// the best.
pub fn warpgroup(
    p: &Profile,
    dtype: Dtype,
    [batch, heads, kv, l, n]: [u64; 5],
    [d, dv]: [u64; 2],
    causal: bool,
) -> Option<u32> {
    let room = room(p, dtype, [batch, heads, l, n], [d, dv])?;
    let features = u64::from(room);
    let seen = if causal { n.saturating_sub(l / 2) } else { n };
    let flops = 2.0 * (batch * heads * l.next_multiple_of(128) * seen * 2 * features) as f64;
    let useful = 2.0 * (batch * heads * l * seen * (d + dv)) as f64;
    let passes = (4 * batch * kv * n * 2 * features) as f64 / f64::from(p.bandwidth) + WARPGROUP_NS;
    let [ours, others] = WARPGROUP.map(|w| p.work(w, &H200));
    (flops / ours + passes < useful / others || always()).then_some(room)
}

/// Keys up to which warpgroups, which read all of a dense mask, take it although its blocks are known (H200, us of 8 x 32 heads of 128, a
/// triangle, whose half has no blocks to read: 256 x 256 51 and 104, 2048 x 2048 1,530 and 1,996; a window of long rows has few).
const WHOLE_MASKS: u64 = 512;

/// Whether attention of so many keys with a dense mask goes to warpgroups where it does without one; by the twin what no query sees may be
/// `known` (255 x 255 63 and 156 us, 2047 x 2047 2,020 and 6,927, of which it is not).
pub fn masks_whole(keys: u64, known: bool) -> bool {
    !known || keys <= WHOLE_MASKS || always()
}

/// Least scores for which the gradient goes to warpgroups: its kernels and four passes, at least 49 us (H100; 12 heads of 64 over 512 x
/// 512 by Vulkan's matrices 49 too, 32 of 128 over 256 x 256 106 and 65, over 4096 x 4096 1.97 and 1.22 ms).
const GRADIENT_SCORES: u64 = 2 << 20;

/// Features that the kernels of the gradient on warpgroups have room for, keys that the one of queries meets at a time, and queries
/// that the other does (4096 x 4096, 32 heads of 128: keys 64 422 us, 48 359, 32 361; of 64, both kernels: 709 by 64, 836 by 32).
pub fn warpgroup_gradient(
    p: &Profile,
    dtype: Dtype,
    [batch, heads, l, n]: [u64; 4],
    widths: [u64; 2],
) -> Option<[u32; 3]> {
    let features = room(p, dtype, [batch, heads, l, n], widths)?;
    let [keys, queries] = if features <= 64 { [64, 64] } else { [48, 32] };
    (batch * heads * l * n >= GRADIENT_SCORES || always()).then_some([features, keys, queries])
}

/// Whether few enough queries for the vector kernel, or heads that the tiles do not hold.
pub fn vector(queries: u64, dv: u64) -> bool {
    let tiles = TILES.iter().any(|t| dv <= t.features);
    !tiles || SDPA_TILE.disabled() || (queries <= LIMITS.rows && !SDPA_VECTOR.disabled())
}

/// Parts of the keys, and keys of a part (a multiple of `step`), for `groups` workgroups a part.
pub fn parts(p: &Profile, groups: u64, keys: u64, step: u64) -> (u64, u64) {
    let wanted = LIMITS.groups.unwrap_or_else(|| p.count(&GROUPS));
    let least = LIMITS.keys.unwrap_or_else(|| p.count(&KEYS)).max(1);
    let fill = |wanted: u64| wanted.div_ceil(groups.max(1)).min(keys / least);
    let long = groups <= wanted && keys > LONG_PART * fill(wanted);
    let fill = if long { fill(2 * wanted) } else { fill(wanted) };
    let most = if SDPA_SPLIT.disabled() { 1 } else { MOST_SPLITS };
    let splits = LIMITS.splits.unwrap_or(fill).clamp(1, most);
    let span = keys.div_ceil(splits).next_multiple_of(step);
    (keys.div_ceil(span), span)
}

/// What a workgroup of the vector kernel works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Rows of queries.
    pub rows: u32,
    /// Keys of a lane at a time.
    pub unroll: u32,
    /// Rows that are merged at once.
    pub merged: u32,
}

impl Block {
    /// Bytes of shared memory: scores (all of them where lanes cannot shuffle), extremes and sums of rows, values.
    fn shared(self, shuffles: bool) -> u32 {
        let kept = if shuffles { WG / 4 } else { WG };
        4 * kept * self.rows * self.unroll + WG * self.rows + 32 * WG * self.merged + 16
    }
}

/// Keys from which on it counts how often they are read (an estimate).
const MANY_KEYS: u64 = 8192;

/// Rows of queries that a workgroup takes at a time, of `rows` for each of `lines` heads of keys. Few are done sooner, while
/// the workgroups of all find room side by side and read the keys a few times at most. H100, us, 2, 4 and 8 rows: 32
/// queries over 600 keys of 4 heads 8.8, 11.1 and 15.8, of 8 heads 8.6 and 10.9; over 4096 of 4 heads 14, 15 and 25.
fn rows_together(p: &Profile, lines: u64, rows: u64, keys: u64) -> u64 {
    let most = if keys > MANY_KEYS { 2 } else { 4 };
    let tiles = |r: &u64| rows.div_ceil(*r);
    let few = |r: &u64| lines * tiles(r) <= 2 * p.count(&GROUPS) && tiles(r) <= most;
    [2, 4].into_iter().find(few).unwrap_or(8)
}

/// The block for `rows` rows for each of `lines` heads of keys that the shared memory holds. `side` keys are side by side: a part of
/// few takes no more of them at a time than it has.
pub fn block(p: &Profile, lines: u64, rows: u64, keys: u64, side: u64) -> Block {
    let f = &p.features;
    let halves = |n: u32| (0..=n.ilog2()).map(move |i| n >> i);
    let most = rows.next_power_of_two().min(rows_together(p, lines, rows, keys)) as u32;
    let all = halves(most).flat_map(|rows| {
        let keys = halves((16 / rows).clamp(1, 4));
        keys.flat_map(move |unroll| halves(rows.min(4)).map(move |merged| Block { rows, unroll, merged }))
    });
    let fits = |b: &Block| b.shared(shuffles(f)) <= f.shared_memory;
    let b = all.into_iter().find(fits).unwrap_or(Block { rows: 1, unroll: 1, merged: 1 });
    let (_, span) = parts(p, lines * rows.div_ceil(b.rows.into()), keys, side);
    // FITS: the smaller of both has 32 bits.
    let turns = span.div_ceil(side).next_power_of_two().min(b.unroll.into()) as u32;
    Block { unroll: turns.max(1), ..b }
}

/// Whether a block of rows of `lanes` lanes each, and the newest key, have a group of lanes each, and room for these rows and for
/// the angles they are turned by.
pub fn newest_fits(f: &Features, b: Block, lanes: u32) -> bool {
    (b.rows + 1) * lanes <= WG && b.shared(shuffles(f)) + 32 * lanes * (b.rows + 2) <= f.shared_memory
}

/// A tile of the kernel for many queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Sixteenths of rows and of keys.
    pub tm: u32,
    pub tn: u32,
    /// Features that are staged at a time.
    pub dc: u32,
    /// Values that are staged at a time.
    pub vk: u32,
    /// Features of the longest values.
    features: u64,
}

const fn tile(tm: u32, tn: u32, dc: u32, vk: u32, features: u64) -> Tile {
    Tile { tm, tn, dc, vk, features }
}

/// First that fits counts.
const TILES: &[Tile] = &[
    tile(4, 4, 32, 16, 256),
    tile(2, 2, 32, 16, 256),
    tile(2, 2, 32, 8, 512),
    tile(1, 2, 16, 8, 256),
    tile(1, 1, 16, 4, 512),
];

impl Tile {
    /// Bytes of shared memory for values of `columns` features.
    pub fn bytes(&self, columns: u32) -> u64 {
        let (bm, bn) = (16 * self.tm, 16 * self.tn);
        let stage = ((bm + bn) * (self.dc + 1)).max(self.vk * columns);
        u64::from(4 * (stage + bm * (bn + 1) + 3 * bm + 256))
    }
}

/// The tile for `rows` rows of values with `dv` features, in so much shared memory; the last resort where none fits.
pub fn tiled(rows: u64, dv: u64, shared: u64) -> Tile {
    let columns = dv.next_multiple_of(16) as u32;
    let fits = |t: &&Tile| {
        let small = t.tm > 2 && rows <= 32;
        dv <= t.features && t.bytes(columns) <= shared && !small
    };
    *TILES.iter().find(fits).unwrap_or(&TILES[TILES.len() - 1])
}

/// The kernel on cooperative matrices, for heads of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Coop {
    /// Lanes of a subgroup.
    pub lanes: u32,
    /// Features of keys and values, padded to whole fragments.
    pub hd: u32,
    pub hv: u32,
    /// 16-byte words of a staged row, one of them padding against bank conflicts.
    pub wd: u32,
    /// Subgroups of a workgroup, of 16 rows each.
    pub teams: u32,
    /// Scores stay in registers.
    pub held: bool,
    /// Ordinary arithmetic in place of matrix instructions.
    pub plain: bool,
}

/// Features of heads up to which four subgroups are faster than eight (H200, us, eight and four: 16 x 12 heads of 64 over 512 with a
/// causal mask 145 and 127, "causal" 85 and 75).
const SHORT_HEAD: u32 = 64;

/// Subgroups of a workgroup where there are many rows.
fn most_teams(features: u32) -> u32 {
    LIMITS.teams.unwrap_or(if features <= SHORT_HEAD { 4 } else { 8 })
}

/// Longest heads whose sums stay in registers.
const COOP_FEATURES: u64 = 128;

/// The matrix kernel for 16-bit heads of `d` and `dv` features (multiples of 8), where the device has it; `known` says
/// whether scores can stay in registers.
pub fn coop(
    f: &Features,
    dtype: Dtype,
    rows: u64,
    [d, dv]: [u64; 2],
    known: impl FnOnce() -> bool,
) -> Option<Coop> {
    if !matches!(dtype, Dtype::F16 | Dtype::BF16) || d.max(dv) > COOP_FEATURES || rows < 16 {
        return None;
    }
    let lanes = match fixed_subgroup(f) {
        _ if LIMITS.plain => 32,
        Some(n @ (32 | 64))
            if LIMITS.coop
                && shuffles(f)
                && fragment(f, dtype) == Some([16; 3])
                && !SDPA_MATRICES.disabled() =>
        {
            n
        }
        _ => return None,
    };
    let (hd, hv) = (d.next_multiple_of(16) as u32, dv.next_multiple_of(16) as u32);
    let wd = hd.max(hv) / 8 + 1;
    let held = (LIMITS.held || known()) && lanes == 32 && !SDPA_HELD.disabled();
    let choices = if held && rows > 64 { [most_teams(hd.max(hv)), 4] } else { [4, 4] };
    let fits = |teams: &u32| {
        let rows = 16 * teams;
        let words = if held { (128 * wd).max(rows * wd.max(17)) } else { 64 * wd + rows * 17 + 4 * rows };
        let shared = 16 * words + if LIMITS.plain { 4 * teams * (lanes + 256) } else { 0 };
        shared <= f.shared_memory && teams * lanes <= f.max_workgroup_invocations
    };
    let teams = choices.into_iter().find(fits)?;
    Some(Coop { lanes, hd, hv, wd, teams, held, plain: LIMITS.plain })
}

/// Least heads that a mask serves for it to be looked at first, and least queries and keys: a block has 64 of each.
const MASK_HEADS: u64 = 4;
const MASK_KEYS: u64 = 128;

/// Whether a mask of `l` queries by `n` keys, which `heads` heads share, is looked at block by block first.
pub fn mask_blocks(heads: u64, l: u64, n: u64) -> bool {
    heads >= MASK_HEADS && l.min(n) >= MASK_KEYS && !SDPA_BLOCKS.disabled()
}

/// The kernels of the gradient, for heads of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gradient {
    /// What the kernel of queries works with.
    pub coop: Coop,
    /// Subgroups of a workgroup of the kernel of keys.
    pub teams: u32,
    /// Keys that the kernel of queries stages at a time, and the other way round.
    pub keys: u32,
    pub queries: u32,
}

/// Keys and queries that are staged at a time. First that fits counts (H200, ms, queries of 4096 x 4096 of 32 causal heads of 128: by 64
/// keys 1.24, by 32 1.31; heads of 64 0.74 and 0.86).
const STAGED: [u32; 2] = [64, 32];

/// Features of keys and values together up to which the mask of a tile of scores is read before the tile (an estimate).
const EARLY_MASK: u32 = 128;

/// Whether there are registers for the mask of a whole tile of scores.
pub fn early_mask(c: &Coop) -> bool {
    c.hd + c.hv <= EARLY_MASK
}

/// The kernels of the gradient for 16-bit heads of `d` and `dv` features (multiples of 8), where matrices lie in registers as
/// `known` says.
pub fn gradient(
    f: &Features,
    dtype: Dtype,
    rows: u64,
    [d, dv]: [u64; 2],
    known: impl FnOnce() -> bool,
) -> Option<Gradient> {
    if SDPA_GRAD.disabled() || !d.is_multiple_of(8) || !dv.is_multiple_of(8) {
        return None;
    }
    let coop = coop(f, dtype, rows, [d, dv], known).filter(|c| c.held)?;
    // H200, ms, keys of 4096 x 4096 of 32 causal heads of 128: eight subgroups 1.13, four 1.23; heads of 64 0.66 and 0.62.
    let fits = |&(n, teams): &(u32, u32)| {
        // Staged rows or results, and three floats of each staged row or one of each lane.
        let words = (2 * n * coop.wd).max(16 * teams * coop.wd.max(17));
        let plain = if coop.plain { 4 * teams * (coop.lanes + 256) } else { 0 };
        let shared = 16 * words + 4 * (3 * n).max(teams * coop.lanes) + plain;
        shared <= f.shared_memory && teams * coop.lanes <= f.max_workgroup_invocations
    };
    let (keys, _) = STAGED.map(|n| (n, coop.teams)).into_iter().find(fits)?;
    let choices = [most_teams(coop.hd.max(coop.hv)), 4].into_iter();
    let (queries, teams) = choices.flat_map(|teams| STAGED.map(|n| (n, teams))).find(fits)?;
    Some(Gradient { coop, teams, keys, queries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_keys() {
        for (groups, keys, step) in
            [(8, 8192, 64), (1, 1, 64), (1, 65, 64), (1000, 4096, 32), (2, 100_003, 128)]
        {
            let (splits, span) = parts(&super::super::tests::devices::h200(), groups, keys, step);
            assert!(splits * span >= keys && (splits - 1) * span < keys && span % step == 0);
            assert!(splits <= MOST_SPLITS);
        }
    }

    #[test]
    fn long_keys_are_cut_where_workgroups_fill_the_card_once() {
        let p = super::super::tests::devices::h200();
        let count = |groups, keys| parts(&p, groups, keys, 64).0;
        assert_eq!([count(128, 320), count(128, 1100), count(256, 1100)], [1, 2, 1]);
    }

    #[test]
    fn blocks_fit_the_shared_memory() {
        let mut p = Profile { features: Features::default(), ..super::super::tests::devices::h200() };
        p.features.shared_memory = 16_384;
        assert_eq!(block(&p, 1000, 7, 100, 16), Block { rows: 4, unroll: 1, merged: 1 });
        for (shared, shuffling, rows) in [16_384, 32_768, 49_152, 65_536]
            .into_iter()
            .flat_map(|n| [(n, false), (n, true)])
            .flat_map(|x| [1, 2, 3, 8, 50].map(|rows| (x.0, x.1, rows)))
        {
            let f = &mut p.features;
            f.shared_memory = shared;
            (f.subgroup_basic, f.subgroup_shuffle) = (shuffling, shuffling);
            (f.subgroup_size, f.min_subgroup_size, f.max_subgroup_size) = (32, 32, 32);
            for lines in [1, 1000] {
                let b = block(&p, lines, rows, 300, 16);
                assert!(b.shared(shuffling) <= shared && b.merged <= b.rows && b.rows <= 8, "{b:?}");
                assert!(!shuffling || lines == 1 || u64::from(b.rows) >= rows.min(8), "{b:?}");
            }
        }
    }

    #[test]
    fn few_rows_go_together_where_workgroups_are_few() {
        let (large, small) =
            (super::super::tests::devices::h200(), super::super::tests::devices::integrated());
        let rows = |p, lines, rows, keys| block(p, lines, rows, keys, 16).rows;
        assert_eq!([4, 8].map(|r| rows(&large, 8, r, 600)), [2, 2]);
        assert_eq!([16, 32, 64].map(|r| rows(&large, 8, r, 600)), [4, 8, 8]);
        assert_eq!([4, 8].map(|r| rows(&large, 4, r, 100_000)), [2, 4]);
        assert_eq!([1, 2].map(|r| rows(&large, 1000, r, 600)), [1, 2]);
        assert_eq!(rows(&large, 1000, 8, 600), 8);
        assert_eq!(rows(&small, 8, 8, 600), 8);
    }

    #[test]
    fn the_newest_rows_need_groups_of_lanes_and_room() {
        let mut f = super::super::tests::devices::h200().features;
        let fits = |f: &Features, rows, lanes| newest_fits(f, Block { rows, unroll: 1, merged: 1 }, lanes);
        assert_eq!([8, 16, 32, 128].map(|lanes| fits(&f, 2, lanes)), [true, true, true, false]);
        assert_eq!([4, 8].map(|rows| fits(&f, rows, 32)), [true, false]);
        f.shared_memory = 8192;
        assert!(!fits(&f, 2, 16));
    }

    #[test]
    fn long_parts_become_twice_as_many() {
        let p = super::super::tests::devices::h200();
        assert_eq!([2048, 4096, 8192, 32768].map(|keys| parts(&p, 16, keys, 64).0), [8, 8, 16, 16]);
    }

    #[test]
    fn tiles_fit_the_least_shared_memory() {
        for dv in [1, 64, 80, 128, 256] {
            let t = tiled(1000, dv, 16_384);
            assert!(t.bytes(dv.next_multiple_of(16) as u32) <= 16_384, "{dv} {t:?}");
        }
        assert_eq!(tiled(1000, 128, 49_152).tm, 4);
    }
}

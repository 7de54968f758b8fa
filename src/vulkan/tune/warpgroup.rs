//! Which products and convolutions go to the warpgroups of NVIDIA's sm_90a (kernels/matmul/warpgroup): by what they take there, with the pass
//! over one operand, and what they would take on Vulkan's matrices. Pure; called by `matmul` and `conv`.

use super::matmul::{Shape, forced_tile};
use super::profile::{Card, H200, Profile};
use crate::core::Dtype;
use crate::core::env::{KernelVariant, Values, Variable};
use crate::core::fork::Made;

pub static WARPGROUP: Variable = Variable::new(
    "MLX_VK_WARPGROUP",
    "auto",
    Values::Word(&["auto", "all"]),
    "Products and attention in PTX (NVIDIA's sm_90a). auto: where they are the fastest. all: wherever they can be, for \
         tests",
);

/// Whether they are taken wherever they can be.
pub fn always() -> bool {
    static ALWAYS: Made<bool> = Made::new(|| WARPGROUP.word() == Some("all"));
    *ALWAYS
}

/// Whether so many workgroups may wait beside commands that still run, whose multiprocessors they share. H200, steps of 30B-A3B whose sums
/// of experts wait so, 8 and 32 sequences (64 and 256 workgroups): 4.60 and 9.7 ms, behind barriers 4.91 and 7.6.
pub fn waits_beside(p: &Profile, groups: u64) -> bool {
    groups <= u64::from(p.units)
}

pub static MATMUL_WARPGROUP: KernelVariant = KernelVariant::new(
    "matmul_warpgroup",
    "the matrices of Vulkan, on GPUs that take PTX with warpgroup products",
);

pub static QMM_WARPGROUP: KernelVariant = KernelVariant::new(
    "qmm_warpgroup",
    "weights that are dequantised first, for many rows by codes of four bits on GPUs that take PTX with warpgroup products",
);

pub static CONV_WARPGROUP: KernelVariant = KernelVariant::new(
    "conv_warpgroup",
    "the gathered product, for 16-bit elements on GPUs that take PTX with warpgroup products too",
);

/// Columns of a tile, and nanoseconds that a multiprocessor of the card takes for 16 of K with all multiprocessors at work.
struct Row {
    columns: u32,
    step_ns: f64,
    card: &'static Card,
}

/// 8192^3 in bfloat16 652, 489 TFLOP/s (256, 128 columns); 12288 x 64 by 4096 42 us. 192 columns: between its neighbours, which take as long
/// as their bytes need from the second-level cache.
const TABLE: &[Row] = &[
    Row { columns: 256, step_ns: 212.0, card: &H200 },
    Row { columns: 192, step_ns: 177.0, card: &H200 },
    Row { columns: 128, step_ns: 142.0, card: &H200 },
    Row { columns: 64, step_ns: 120.0, card: &H200 },
];

/// Rows of every tile.
const ROWS: u64 = 128;
/// Elements of K that every part is a multiple of.
const DEPTH: u64 = 128;
/// What a tile takes besides its steps, and a command more besides its bytes, in nanoseconds (H200).
const TILE_NS: f64 = 2500.0;
/// See [`TILE_NS`].
const COMMAND_NS: f64 = 3000.0;
/// Floating point operations a nanosecond of the card on Vulkan's matrices, what such a product takes at least, and the least share of
/// the card that it fills: 512^3 9.6 us, 8192^3 342 TFLOP/s, 256 and 128 rows by 4096 x 4096 163 and 135 TFLOP/s.
const OTHERS: f64 = 330_000.0;
/// See [`OTHERS`].
const OTHERS_NS: f64 = 5000.0;
/// See [`OTHERS`].
const OTHERS_FILL: f64 = 0.4;
/// Bytes of results that they write in a nanosecond of the card: 8192 x 8192 by 64 102 us.
const OTHERS_WRITE: f64 = 1300.0;
/// What steps take where the right side is read as it lies, for those from an image: 8192^3 562 TFLOP/s against 602.
const ACROSS: f64 = 1.07;
/// Most float32 sums of parts, in bytes: they are written and read again.
const SUMS: u64 = 1 << 31;
/// Parts of K that are tried: those for which some number of tiles fills the multiprocessors of the card.
const PARTS: [u64; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16];
/// Most tiles whose parts the last workgroup of each adds: a share of the words that kernels count in.
const JOINED: u64 = 1024;
/// Bytes of sums that a multiprocessor of the card leaves in the second-level cache in a nanosecond while all do, those that it
/// reads while few do, and nanoseconds of the count between. Estimates, from the 7 TB/s of that cache: 128 x 4096 by 4096 21.6 us by them,
/// 22.8 on an H100; 300 x 5000 by 7000 64 and 74, 64 x 8192 by 8192 46 and 64.
const LEAVE: f64 = 40.0;
/// See [`LEAVE`].
const JOIN: f64 = 80.0;
/// See [`LEAVE`].
const COUNT_NS: f64 = 1500.0;

/// What the operands of a product need.
#[derive(Debug, Clone, Copy)]
pub struct Sides {
    /// Whether rows of K lie as the kernel reads the side that is not packed: of the left matrix, of the right one turned.
    pub direct: [bool; 2],
    /// Whether the other side is read as it lies too: elements of rows beside each other.
    pub across: [bool; 2],
    /// Matrices of the batch that are not the same, of each side.
    pub matrices: [u64; 2],
    /// Whether sums go to memory first, since something follows them that the kernel does not do, or rows of the result are odd.
    pub sums: bool,
}

/// How a product goes there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// The right matrix, turned, is the side that is not packed, and results are written by column.
    pub turned: bool,
    /// Columns of a tile.
    pub columns: u32,
    /// Steps of 16 along K of a part, and of all of it.
    pub steps: u32,
    /// See `steps`.
    pub all_steps: u32,
    /// Parts of K.
    pub parts: u32,
    /// Nanoseconds.
    pub cost: f64,
}

/// How long `bytes` take to be read and written.
fn passing(p: &Profile, bytes: u64) -> f64 {
    bytes as f64 / f64::from(p.bandwidth)
}

/// Whether elements of a product can go there, on this device and where nobody says otherwise (`disabled`).
fn open(p: &Profile, s: &Shape, disabled: bool) -> bool {
    let half = matches!(s.dtype, Dtype::F16 | Dtype::BF16);
    half && p.features.ptx && !disabled && forced_tile().is_none()
}

/// The cheapest of all tiles and parts, turned or not.
fn cheapest(p: &Profile, s: &Shape, sides: &Sides, turned: &[bool]) -> Option<Plan> {
    let rows = turned.iter().flat_map(|&turned| TABLE.iter().map(move |row| (turned, row)));
    let plans = rows.flat_map(|(turned, row)| PARTS.map(|parts| candidate(p, s, sides, turned, row, parts)));
    plans.flatten().min_by(|a, b| a.cost.total_cmp(&b.cost))
}

/// The best plan for a product, if it is better than what other kernels would do.
pub fn plan(p: &Profile, s: &Shape, sides: &Sides) -> Option<Plan> {
    if !open(p, s, MATMUL_WARPGROUP.disabled()) || s.batch > 65_535 {
        return None;
    }
    let best = cheapest(p, s, sides, &[false, true])?;
    (best.cost < others(p, s, sides) || always()).then_some(best)
}

/// Nanoseconds on Vulkan's matrices: what is multiplied, or what is read and written where sums are short.
fn others(p: &Profile, s: &Shape, sides: &Sides) -> f64 {
    let flops = 2.0 * s.m as f64 * s.n as f64 * s.k as f64 * s.batch as f64;
    let small = (s.m.div_ceil(64) * s.n.div_ceil(128) * s.batch) as f64 / p.fill() as f64;
    let work = flops / (p.work(OTHERS, &H200) * small.clamp(OTHERS_FILL, 1.0));
    let slower = f64::from(H200.bandwidth) / OTHERS_WRITE;
    let moved = passing(p, operands(s, sides)) + slower * passing(p, 2 * s.m * s.n * s.batch);
    work.max(moved) + OTHERS_NS
}

/// Bytes of both operands.
fn operands(s: &Shape, sides: &Sides) -> u64 {
    2 * s.k * (s.m * sides.matrices[0] + s.n * sides.matrices[1])
}

/// Nanoseconds by which the kernel is longer that adds so many parts of its tiles.
fn joining(p: &Profile, columns: u32, tiles: u64, parts: u64) -> f64 {
    let [waves, joins] = [tiles * parts, tiles].map(|n| n.div_ceil(u64::from(p.units)) as f64);
    let bytes = (4 * ROWS * u64::from(columns)) as f64;
    waves * bytes / LEAVE + joins * parts as f64 * bytes / JOIN + COUNT_NS
}

fn candidate(p: &Profile, s: &Shape, sides: &Sides, turned: bool, row: &Row, parts: u64) -> Option<Plan> {
    let (r, c) = if turned { (s.n, s.m) } else { (s.m, s.n) };
    let (near, far) = (usize::from(turned), usize::from(!turned));
    let blocks = s.k.div_ceil(DEPTH);
    // Short parts, and those that nothing is left for.
    if parts > 1 && blocks <= 3 * parts {
        return None;
    }
    let blocks_of_part = blocks.div_ceil(parts);
    if blocks.div_ceil(blocks_of_part) != parts {
        return None;
    }
    let results = s.m * s.n * s.batch;
    let tiles = r.div_ceil(ROWS) * c.div_ceil(u64::from(row.columns)) * s.batch;
    let joined = parts > 1 && !sides.sums;
    let room = match (joined, sides.sums) {
        (true, _) => tiles * ROWS * u64::from(row.columns) * parts * 4,
        (false, true) => results * parts * 4,
        (false, false) => 0,
    };
    // Where tiles fill the card the last of them, which are fewer, take less than this thinks.
    if room > SUMS || (joined && tiles > JOINED.min(p.units.into())) {
        return None;
    }
    let waves = (tiles * parts).div_ceil(u64::from(p.units)) as f64;
    let step = if sides.across[far] { ACROSS * row.step_ns } else { row.step_ns };
    // Cards of other clocks are not known; what a multiprocessor does is thought to be the same.
    debug_assert_eq!(row.card.units, H200.units);
    let mut work = waves * (blocks_of_part as f64 * (DEPTH / 16) as f64 * step + TILE_NS);
    if joined {
        work += joining(p, row.columns, tiles, parts);
    }
    let read = passing(p, operands(s, sides) + 2 * results);
    let mut cost = work.max(read) + COMMAND_NS;
    if !sides.across[far] {
        cost += passing(p, 4 * c * s.k * sides.matrices[far]) + COMMAND_NS;
    }
    if !sides.direct[near] {
        cost += passing(p, 4 * r * s.k * sides.matrices[near]) + COMMAND_NS;
    }
    if sides.sums {
        cost += passing(p, results * (4 * parts * 2 + 2)) + COMMAND_NS;
    }
    Some(Plan {
        turned,
        columns: row.columns,
        // FITS: K has 32 bits.
        steps: (blocks_of_part * DEPTH / 16) as u32,
        all_steps: (blocks * DEPTH / 16) as u32,
        parts: parts as u32,
        cost,
    })
}

/// The best plan for `s.m` rows by codes, which are the side that is not packed.
pub fn codes(p: &Profile, s: &Shape) -> Option<Plan> {
    if !open(p, s, QMM_WARPGROUP.disabled()) {
        return None;
    }
    let sides = Sides { direct: [true; 2], across: [false; 2], matrices: [1; 2], sums: false };
    cheapest(p, s, &sides, &[true])
}

/// Floating point operations a nanosecond of the card on Vulkan's matrices where rows pick theirs: experts of 30B-A3B, a prompt of 4096 122
/// and 228 TFLOP/s (H200).
const OTHER_RUNS: f64 = 200_000.0;

/// Columns of a tile, and steps of K, for a tall product of `s.m` sorted rows that meet `matrices` right ones, where that is better
/// than what other kernels do. Rows are the columns here.
pub fn runs(p: &Profile, s: &Shape, matrices: u64, codes: bool) -> Option<(u32, u32)> {
    if !open(p, s, if codes { QMM_WARPGROUP.disabled() } else { MATMUL_WARPGROUP.disabled() }) {
        return None;
    }
    let blocks = s.k.div_ceil(DEPTH);
    let cost = |row: &&Row| {
        // The last tile of each matrix is half empty.
        let tiles = s.m.div_ceil(u64::from(row.columns)) + matrices.min(s.m) / 2;
        let waves = (tiles * s.n.div_ceil(ROWS)).div_ceil(u64::from(p.units)) as f64;
        let step = (DEPTH / 16) as f64 * row.step_ns;
        let image = passing(p, 2 * s.k * (s.m + tiles * u64::from(row.columns)));
        waves * (blocks as f64 * step + TILE_NS) + image + 3.0 * COMMAND_NS
    };
    // Tiles of 192 were not measured with runs.
    let rows = TABLE.iter().filter(|row| row.columns.is_power_of_two());
    let best = rows.min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    // Otherwise codes are dequantised first, all of them.
    let values = if codes { passing(p, 2 * matrices * s.n * s.k) } else { 0.0 };
    let others = 2.0 * (s.m * s.n * s.k) as f64 / p.work(OTHER_RUNS, &H200) + OTHERS_NS + values;
    // FITS: K has 32 bits.
    (cost(&best) < others || always()).then_some((best.columns, (blocks * DEPTH / 16) as u32))
}

/// As [`TABLE`], where the left side is a convolution's input and a multiprocessor has one tile. All are 40 bytes a nanosecond of what a
/// tile reads; what was measured is two tiles at a time, see [`TWO`].
const OUTPUTS: &[Row] = &[
    Row { columns: 256, step_ns: 300.0, card: &H200 },
    Row { columns: 128, step_ns: 210.0, card: &H200 },
    Row { columns: 64, step_ns: 150.0, card: &H200 },
];
/// How long two tiles of 64 or 128 columns take, which a multiprocessor has at a time, for one: 3 x 3 kernels on 32 images of 56 x 56 x 64
/// 290 ns a step of 64 columns, of 28 x 28 x 128 415 of 128 (H100).
const TWO: f64 = 1.95;
/// Likewise, where the right side is: 64 x 576 by 100,352 300 ns (H100); the others in proportion.
const WEIGHTS: &[Row] = &[
    Row { columns: 256, step_ns: 300.0, card: &H200 },
    Row { columns: 128, step_ns: 210.0, card: &H200 },
    Row { columns: 64, step_ns: 170.0, card: &H200 },
];
/// See [`OTHERS`], of gathered products: 3 x 3 kernels, 64 to 256 channels, bfloat16 60 to 110 TFLOP/s.
const OTHER_CONVS: f64 = 110_000.0;

/// Most elements that the kernel has for an output: a table of their chunks is made for every call.
pub const KERNEL: i64 = 1 << 16;

/// How a convolution goes there: its output, or the gradient of its kernel, as a product. Without `whole` K is not cut, since rows of
/// the result are not evenly spaced.
pub fn conv(p: &Profile, s: &Shape, gradient: bool, whole: bool) -> Option<Plan> {
    if !open(p, s, CONV_WARPGROUP.disabled()) {
        return None;
    }
    let blocks = s.k.div_ceil(depth(gradient));
    let rows = if gradient { WEIGHTS } else { OUTPUTS };
    let plans = rows.iter().flat_map(|row| {
        let tiles = s.m.div_ceil(ROWS) * s.n.div_ceil(u64::from(row.columns)) * s.batch;
        // Parts that fill the card once, twice, three times, and are not short.
        let most = if whole { (blocks * depth(gradient) / 512).max(1) } else { 1 };
        let parts = [0, 1, 2, 3].map(|waves| (waves * slots(p, row, gradient) / tiles).clamp(1, most));
        parts.map(|parts| part_of_conv(p, s, gradient, row, parts))
    });
    let best = plans.flatten().min_by(|a, b| a.cost.total_cmp(&b.cost))?;
    let flops = 2.0 * s.m as f64 * s.n as f64 * s.k as f64 * s.batch as f64;
    // What is small fills less of the card, but for gradients, which are cut along K.
    let small = (s.m.div_ceil(64) * s.n.div_ceil(128) * s.batch) as f64 / p.fill() as f64;
    let fill = if gradient { 1.0 } else { small.clamp(OTHERS_FILL, 1.0) };
    let others = flops / (p.work(OTHER_CONVS, &H200) * fill) + OTHERS_NS;
    (best.cost < others || always()).then_some(best)
}

/// Elements of K that parts are multiples of.
fn depth(gradient: bool) -> u64 {
    if gradient { DEPTH } else { DEPTH / 2 }
}

/// Tiles that are worked on at a time.
fn slots(p: &Profile, row: &Row, gradient: bool) -> u64 {
    u64::from(p.units) * if row.columns < 256 && !gradient { 2 } else { 1 }
}

fn part_of_conv(p: &Profile, s: &Shape, gradient: bool, row: &Row, parts: u64) -> Option<Plan> {
    let steps = depth(gradient) / 16;
    let blocks = s.k.div_ceil(16 * steps);
    let blocks_of_part = blocks.div_ceil(parts);
    let parts = blocks.div_ceil(blocks_of_part);
    let results = s.m * s.n * s.batch;
    if parts > 1 && results * parts * 4 > SUMS || parts > 65_535 {
        return None;
    }
    let tiles = s.m.div_ceil(ROWS) * s.n.div_ceil(u64::from(row.columns)) * s.batch * parts;
    let one = (blocks_of_part * steps) as f64 * row.step_ns;
    // Of the multiprocessor that has most: tiles two at a time, where there is room, and one that is left.
    let (most, two) = (tiles.div_ceil(u64::from(p.units)), slots(p, row, gradient) > u64::from(p.units));
    let work = match two {
        true => (most / 2) as f64 * (TWO * one + TILE_NS) + (most % 2) as f64 * (one + TILE_NS),
        false => most as f64 * (one + TILE_NS),
    };
    let mut cost = work + COMMAND_NS;
    // The kernel's image, or the output's gradient turned.
    cost += passing(p, 4 * (if gradient { s.m } else { s.n }) * s.k * s.batch) + COMMAND_NS;
    if parts > 1 {
        cost += passing(p, results * (4 * parts * 2 + 2)) + COMMAND_NS;
    }
    Some(Plan {
        turned: false,
        columns: row.columns,
        // FITS: K has 32 bits.
        steps: (blocks_of_part * steps) as u32,
        all_steps: (blocks * steps) as u32,
        parts: parts as u32,
        cost,
    })
}

/// Tile rows that are walked before the next tile columns, so that what runs at a time shares operands in the cache: 8192^3 by 8
/// 629, by 16 643 TFLOP/s (H200).
pub const TOGETHER: u32 = 16;

#[cfg(test)]
mod tests {
    use super::super::tests::devices;
    use super::*;

    fn hopper() -> Profile {
        let mut p = devices::h200();
        p.features.ptx = true;
        p
    }

    fn of(p: &Profile, m: u64, n: u64, k: u64, sides: Sides) -> Option<Plan> {
        plan(p, &Shape { dtype: Dtype::BF16, m, n, k, batch: 1, aligned: true }, &sides)
    }

    const ALONG: Sides = Sides { direct: [true; 2], across: [false; 2], matrices: [1; 2], sums: false };

    #[test]
    fn large_products_go_to_warpgroups_and_the_smaller_side_is_packed() {
        let p = hopper();
        for (m, n, k, turned, columns) in
            [(8192, 8192, 8192, false, 256), (512, 12288, 4096, true, 256), (8192, 3072, 768, false, 256)]
        {
            let found = of(&p, m, n, k, ALONG).unwrap();
            assert_eq!((found.turned, found.columns, found.parts), (turned, columns, 1), "{m} x {n} by {k}");
            assert_eq!(u64::from(found.all_steps) * 16, k);
        }
        // A side that does not lie along K is packed rather than copied.
        let across = Sides { direct: [true, false], across: [false, true], ..ALONG };
        assert!(!of(&p, 512, 12288, 4096, across).unwrap().turned);
    }

    #[test]
    fn small_products_and_other_devices_stay() {
        assert_eq!(of(&hopper(), 256, 256, 256, ALONG), None);
        assert_eq!(of(&devices::h200(), 8192, 8192, 8192, ALONG), None);
        let s = Shape { dtype: Dtype::F32, m: 4096, n: 4096, k: 4096, batch: 1, aligned: true };
        assert_eq!(plan(&hopper(), &s, &ALONG), None);
    }

    #[test]
    fn convolutions_go_to_warpgroups_but_for_small_ones() {
        let p = hopper();
        let of = |m, n, k, gradient, whole| {
            conv(&p, &Shape { dtype: Dtype::BF16, m, n, k, batch: 1, aligned: true }, gradient, whole)
        };
        for (m, n, k) in [(100_352, 64, 576), (25_088, 128, 1152), (6272, 256, 2304), (12_544, 256, 1152)] {
            let found = of(m, n, k, false, true).unwrap();
            assert_eq!((found.parts, u64::from(found.all_steps)), (1, k / 16), "{m} x {n} by {k}");
            let found = of(n, k, m, true, true).unwrap();
            assert!(found.parts > 1, "{n} x {k} by {m}");
            assert!(found.steps * found.parts >= found.all_steps);
            assert!(found.steps * (found.parts - 1) < found.all_steps && found.steps.is_multiple_of(8));
        }
        // Sums may end half way through the kernel's loop.
        assert_eq!(of(100_352, 64, 72 * 9, false, true).unwrap().all_steps, 44);
        assert_eq!(of(196, 64, 576, false, true), None);
        // Rows that are not evenly spaced are not summed in parts.
        assert!(of(2048, 512, 36_864, false, true).unwrap().parts > 1);
        assert_eq!(of(2048, 512, 36_864, false, false).unwrap().parts, 1);
        let s = Shape { dtype: Dtype::F32, m: 100_352, n: 64, k: 576, batch: 1, aligned: true };
        assert_eq!(conv(&p, &s, false, true), None);
    }

    #[test]
    fn parts_cover_k() {
        let p = hopper();
        for (m, n, k) in [(128, 256, 16_384), (64, 512, 100_000), (200, 300, 70_001)] {
            let s = Shape { dtype: Dtype::BF16, m, n, k, batch: 1, aligned: true };
            let all = TABLE.iter().flat_map(|row| PARTS[1..].iter().map(move |&parts| (row, parts)));
            let found = all.filter_map(|(row, parts)| candidate(&p, &s, &ALONG, false, row, parts));
            let found = found.min_by(|a, b| a.cost.total_cmp(&b.cost)).unwrap();
            assert!(found.parts > 1, "{m} x {n} by {k}");
            assert!(u64::from(found.all_steps) * 16 >= k && found.steps * found.parts >= found.all_steps);
            assert!(found.steps * (found.parts - 1) < found.all_steps && found.steps.is_multiple_of(8));
        }
    }

    #[test]
    fn parts_fill_the_card_once_where_tiles_do_not() {
        let p = hopper();
        let across = Sides { direct: [true, false], across: [false, true], ..ALONG };
        for (m, n, k) in
            [(128, 4096, 4096), (300, 5000, 7000), (64, 8192, 8192), (256, 4096, 4096), (384, 4096, 4096)]
        {
            let found = of(&p, m, n, k, across).unwrap();
            let tiles = m.div_ceil(ROWS) * n.div_ceil(u64::from(found.columns));
            let groups = tiles * u64::from(found.parts);
            assert!(found.parts > 1 && (100..=132).contains(&groups), "{m} x {n} by {k}: {found:?}");
        }
        // Wide and short enough for seven parts, as the old numbers were not.
        let found = of(&p, 1104, 400, 14_592, across).unwrap();
        assert_eq!((found.columns, found.parts), (256, 7));
    }

    #[test]
    fn joined_parts_keep_to_their_counters_and_their_room() {
        let p = hopper();
        let s = Shape { dtype: Dtype::BF16, m: 8192, n: 8192, k: 8192, batch: 4, aligned: true };
        let at = |sides: &Sides, row: usize, parts| candidate(&p, &s, sides, false, &TABLE[row], parts);
        assert!(at(&ALONG, 0, 1).is_some());
        for (row, parts) in [(0, 2), (3, 2), (3, 8)] {
            assert_eq!(at(&ALONG, row, parts), None);
        }
        // An addend that the kernel does not add costs more than what it does add.
        let alone = of(&p, 8192, 768, 3072, ALONG).unwrap();
        let behind = of(&p, 8192, 768, 3072, Sides { sums: true, ..ALONG }).unwrap();
        assert!(behind.cost > alone.cost + COMMAND_NS);
    }

    #[test]
    fn short_sums_go_to_warpgroups_for_what_is_written() {
        let found = of(&hopper(), 8192, 8192, 64, ALONG).unwrap();
        assert_eq!((found.columns, found.parts, found.all_steps), (256, 1, 8));
        // Where little is written they stay.
        assert_eq!(of(&hopper(), 256, 512, 64, ALONG), None);
    }
}

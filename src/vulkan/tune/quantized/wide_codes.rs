//! How rows are multiplied by long matrices of codes on warpgroups (kernels/quantized/wide_codes): sums stay in registers along K, so
//! that only workgroups that share K leave anything to add up. Pure; called by the host of joined products.

use std::ops::RangeInclusive;

use super::{Shape, chain, few_rows, forced, native, plain, winner};
use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::tune::ceil;
use crate::vulkan::tune::profile::{Best, Profile, best};

pub static QMM_WIDE: KernelVariant = KernelVariant::new(
    "qmm_wide",
    "qmm_few_rows, for 17 to 64 rows by long matrices of four-bit codes on GPUs that take PTX; the kernels on Vulkan's matrices, for 2 \
     to 64 rows by codes of two to eight bits that qmm_few_rows does not take; those of one row, for small floats",
);

/// Rows of x at a time: as many as there are.
const COLUMNS: [i64; 3] = [8, 16, 32];
/// Rows that it takes, at most 32 at a time, of formats that `few_rows` has too.
const ROWS: RangeInclusive<i64> = 17..=64;
/// The same of other formats, and of small floats, of which chains have no single rows.
const OTHERS: RangeInclusive<i64> = 2..=64;
/// See [`OTHERS`].
const SMALL_FLOATS: RangeInclusive<i64> = 1..=64;
/// Rows of weights of a warp.
pub(in crate::vulkan) const BLOCK: u32 = 16;
/// Warps that multiply, three warpgroups, and those that bring rows of x.
pub(in crate::vulkan) const ACROSS: u32 = 12;
/// Spans of x in shared memory, each of them a warp's that brings it.
pub(in crate::vulkan) const RING: u32 = 4;
/// Elements of K of a span.
pub(in crate::vulkan) const SPAN: u32 = 128;
/// Floats of shared memory between two columns of a warp's sums: lanes write four of them apart.
pub(in crate::vulkan) const COLUMN: u32 = 20;
/// Places that the kernel counts in 32 bits.
const REACH: i64 = 1 << 31;
/// Fewest weights of formats that `few_rows` does not have: of fewer, commands take what they take to begin and to end.
const LEAST: i64 = 1 << 21;
/// Most workgroups that share K.
const SPLITS: i64 = 12;
/// Workgroups that a device has at once: one a multiprocessor.
static RESIDENT: Best = best("wide_workgroups", 132);
/// Its number in the cache, of formats that `few_rows` does not have: how it is laid out follows from the product.
pub(super) const NUMBERS: [u32; 1] = [5];

/// What it takes and what its twin does, in hundredths of a microsecond, as 32 rows did on an H200, by a host of its own that launches the
/// texts (us, this and `qmm_few_rows`: 24576 x 4096 with a gated unit 28.5 and 41.3, 4096 x 12288 22.3 and 25.3, 6144 x 4096 12.6 and 15.4, 4096 x
/// 4096 14.4 and 12.7). A workgroup without its work:
const START: i64 = 300;
/// Each batch of it.
const OF_BATCH: i64 = 160;
/// What workgroups that share K add.
const JOIN: i64 = 500;
/// The twin without its work, and a batch of a block for each multiprocessor.
const TWIN: [i64; 2] = [600, 20];
/// A batch, and what workgroups that share K add, by rows of x at a time, of formats that `few_rows` does not have (H200, within steps of 8B,
/// docs/performance.md).
const OTHERS_COST: [[i64; 2]; 3] = [[140, 350], [145, 430], [150, 650]];

/// A batch by rows of x at a time, of codes that are taken by eights; those of 9 to 16 rows are guesses (H200, within steps of 8B in groups of 64, us of
/// gate and up and of down with 8 and 32 rows, by 6, 5, 3 and 2 bits: 38.9 and 23.9, 44.0 and 29.2; 40.9 and 25.4, 50.9 and 32.1; 27.3 and 18.5, 37.3
/// and 25.2; 22.5 and 16.2, 31.0 and 22.8).
const ODD_COST: [(u32, [i64; 3]); 4] =
    [(6, [112, 118, 128]), (5, [118, 130, 150]), (3, [152, 175, 214]), (2, [122, 140, 175])];

/// Elements of K of a row that are asked for at a time, by loads that are awaited together: 64 to 128 bytes of codes.
pub(in crate::vulkan) const fn batch(format: Format) -> u32 {
    if format.bits > 4 { SPAN } else { 2 * SPAN }
}

/// Rows of x at a time of so many.
pub(in crate::vulkan) fn columns(m: i64) -> u32 {
    // FITS: at most 32.
    COLUMNS[place(m)] as u32
}

/// Its place among [`COLUMNS`].
fn place(m: i64) -> usize {
    COLUMNS.into_iter().position(|n| m <= n).unwrap_or(COLUMNS.len() - 1)
}

/// What a batch of a block for each multiprocessor takes the kernels on Vulkan's matrices, by up to 8, 16 and 32 rows of x (H200, within steps
/// of 8B: 4096 x 4096 of eight bits stays there, 12 to 16 us for 15 to 19; docs/performance.md). Those of groups of 16 are none; single rows
/// are those of a shader that reads as many codes at a time.
fn shaders(format: Format) -> [i64; 3] {
    match (format.mode, format.bits, format.group) {
        (Mode::Affine, 8, 32) => [17, 17, 22],
        (Mode::Affine, 8, _) => [13, 14, 17],
        // Of 8B in groups of 64, with 8 and 32 rows, gate and up: 64.9 and 76.3 us, 66.4 and 79.4, 54.2 and 78.5, 43.6 and 67.1.
        (Mode::Affine, 6, _) => [16, 17, 19],
        (Mode::Affine, 5, _) => [16, 17, 21],
        (Mode::Affine, 3, _) => [26, 28, 39],
        (Mode::Affine, 2, _) => [20, 22, 33],
        (Mode::Affine, _, 32) => [24, 21, 39],
        (Mode::Affine, ..) => [17, 19, 28],
        (Mode::Mxfp4, ..) => [32, 37, 41],
        (Mode::Mxfp8, ..) => [23, 25, 26],
        (Mode::Nvfp4, ..) => [63, 126, 130],
    }
}

/// The same of a single row (a layer of 8B on an H200: mxfp4 159 us, nvfp4 162, mxfp8 193).
fn single(format: Format) -> i64 {
    if format.bits == 8 { 20 } else { 30 }
}

/// Whether `few_rows` knows the format.
fn of_few_rows(format: Format) -> bool {
    format.affine() && format.bits == 4 && format.group == few_rows::GROUP
}

/// Whether codes become elements of a dtype: powers of two that are scales do not fit float16.
fn decodes(format: Format, dtype: Dtype) -> bool {
    match (format.mode, dtype) {
        (Mode::Affine, Dtype::F16 | Dtype::BF16) => (2..=8).contains(&format.bits),
        (Mode::Nvfp4, Dtype::F16 | Dtype::BF16) | (Mode::Mxfp4 | Mode::Mxfp8, Dtype::BF16) => true,
        _ => false,
    }
}

/// Whether shaders join few rows of the format with others and what follows: the one on cooperative matrices does, of long groups.
pub(in crate::vulkan) fn shaders_join(format: Format) -> bool {
    format.group >= 32
}

/// Whether such products are joined because they go here, though shaders do not join them.
pub(in crate::vulkan) fn joins(p: &Profile, s: &Shape) -> bool {
    !shaders_join(s.format) && s.m > 1 && s.n % 2 == 0 && layout(p, s).is_some()
}

/// As [`layout`], of products with others or with what follows: those that shaders do not join in any case.
pub(in crate::vulkan) fn joined(p: &Profile, s: &Shape) -> Option<u32> {
    match shaders_join(s.format) {
        true => layout(p, s),
        false => possible(p, s.dtype, s.format, [s.m, s.k, s.n]).map(|c| c.0).filter(|_| s.matrices == 1),
    }
}

/// How many workgroups share K of a product, or of several whose rows of codes are `s.n` together, unless the tuner found another kernel's the fastest.
pub(in crate::vulkan) fn layout(p: &Profile, s: &Shape) -> Option<u32> {
    let sizes = [s.m, s.k, s.n];
    if s.batch != 1 || s.matrices != 1 || !s.transpose || s.runs {
        return None;
    }
    let own = if of_few_rows(s.format) { few_rows::NUMBERS } else { NUMBERS };
    match winner(p, s).filter(|_| !native()) {
        Some(won) if won != own => None,
        Some(_) if !of_few_rows(s.format) => possible(p, s.dtype, s.format, sizes).map(|c| c.0),
        _ => splits(p, s.dtype, s.format, sizes),
    }
}

/// Whether the tuner tries it beside the kernels on Vulkan's matrices.
pub(super) fn tried(p: &Profile, s: &Shape) -> bool {
    let one = s.batch == 1 && s.matrices == 1 && s.transpose && !s.runs;
    one && !of_few_rows(s.format) && possible(p, s.dtype, s.format, [s.m, s.k, s.n]).is_some()
}

/// How many workgroups share K where `m` rows of length `k` meet matrices that have `n` rows together, if they are better done here than by
/// the twin.
pub(in crate::vulkan) fn splits(p: &Profile, dtype: Dtype, format: Format, sizes: [i64; 3]) -> Option<u32> {
    let [m, k, n] = sizes;
    // A chain has what is before and behind, too.
    if m == 1 && chain::leads(p, Some(format), dtype, [k, n]) {
        return None;
    }
    let (splits, cost) = possible(p, dtype, format, sizes)?;
    let shared = of_few_rows(format);
    let each = match m {
        _ if shared => TWIN[1],
        1 => single(format),
        _ => shaders(format)[place(m)],
    };
    let work = ceil(n, BLOCK.into()) * (k / i64::from(batch(format)));
    let twin = TWIN[0] + each * work / p.count(&RESIDENT) as i64;
    let pays = cost < twin && (shared || n * k >= LEAST);
    (pays || native() && !shared).then_some(splits)
}

/// The same wherever it can be, and what it takes.
fn possible(p: &Profile, dtype: Dtype, format: Format, [m, k, n]: [i64; 3]) -> Option<(u32, i64)> {
    let rows = match format.mode {
        _ if of_few_rows(format) => ROWS,
        Mode::Affine => OTHERS,
        _ => SMALL_FLOATS,
    };
    let other = forced().is_some() || plain() || QMM_WIDE.disabled();
    if !p.features.ptx || !rows.contains(&m) || !decodes(format, dtype) || other {
        return None;
    }
    let length = i64::from(batch(format));
    let fits = k > 0 && k % length == 0 && (1..REACH).contains(&(n * k)) && m * n < REACH;
    if !fits {
        return None;
    }
    let (blocks, all) = (ceil(n, BLOCK.into()), k / length);
    let resident = p.count(&RESIDENT) as i64;
    let units = ceil(blocks, ACROSS.into());
    let odd = ODD_COST.iter().find(|(bits, _)| format.affine() && *bits == format.bits);
    let [of_batch, join] = match odd {
        _ if of_few_rows(format) => [OF_BATCH, JOIN],
        Some((_, cost)) => [cost[place(m)], OTHERS_COST[place(m)][1]],
        None => OTHERS_COST[place(m)],
    };
    let cost = |splits: i64| {
        let rounds = ceil(units * splits, resident);
        rounds * (START + ceil(all, splits) * of_batch) + if splits > 1 { join } else { 0 }
    };
    // As many as have something to do.
    let possible = (1..=all.min(SPLITS)).filter(|&s| ceil(all, ceil(all, s)) == s);
    let splits = possible.min_by_key(|&s| cost(s))?;
    Some((splits as u32, cost(splits)))
}

#[cfg(test)]
mod tests {
    use super::super::{candidates, subject};
    use super::*;
    use crate::vulkan::Features;
    use crate::vulkan::tune::fusion::{joins_products, row_product};
    use crate::vulkan::tune::tests::devices;

    fn codes(group: u32) -> Format {
        Format { mode: Mode::Affine, group, bits: 4 }
    }

    #[test]
    fn long_matrices_fill_the_device() {
        let mut p = devices::h200();
        p.features.ptx = true;
        let shared = |format, sizes| splits(&p, Dtype::BF16, format, sizes);
        for (format, sizes, want) in [
            (codes(64), [32, 4096, 24576], Some(1)),
            (codes(32), [64, 4096, 151_936], Some(1)),
            (codes(64), [32, 12288, 4096], Some(6)),
            (codes(64), [32, 4096, 6144], Some(4)),
            (codes(64), [32, 4096, 4096], None),
            (codes(64), [32, 1024, 6144], None),
            (codes(64), [32, 4224, 24576], None),
            (codes(64), [16, 4096, 24576], None),
            (codes(64), [32, 1 << 17, 1 << 17], None),
            (codes(64), [65, 4096, 24576], None),
        ] {
            assert_eq!(shared(format, sizes), want, "{format:?} {sizes:?}");
        }
        assert_eq!(splits(&p, Dtype::F16, codes(64), [32, 4096, 24576]), Some(1));
        assert!(splits(&p, Dtype::F32, codes(64), [32, 4096, 24576]).is_none());
        let without = |p: &Profile| splits(p, Dtype::BF16, codes(64), [32, 4096, 24576]).is_none();
        assert!(devices::all().iter().all(without));
    }

    #[test]
    fn formats_that_few_rows_does_not_have_come_from_two_rows_on() {
        let mut p = devices::h200();
        let format = |mode, group, bits| Format { mode, group, bits };
        let both = [[32, 4], [128, 4], [32, 8], [64, 8], [128, 8], [64, 6], [32, 5], [128, 3], [64, 2]]
            .map(|[g, b]| format(Mode::Affine, g, b));
        let wide = [format(Mode::Mxfp4, 32, 4), format(Mode::Mxfp8, 32, 8)];
        let all = both.into_iter().chain(wide).chain([format(Mode::Nvfp4, 16, 4)]);
        for (format, m) in all.flat_map(|f| [2, 8, 9, 33, 64].map(|m| (f, m))) {
            let s = |dtype, m| row_product(format, dtype, [m, 4096, 24576]);
            p.features.ptx = false;
            assert_eq!(layout(&p, &s(Dtype::BF16, m)), None);
            p.features.ptx = true;
            assert_eq!(layout(&p, &s(Dtype::BF16, m)), Some(1), "{format:?} {m}");
            assert_eq!(layout(&p, &s(Dtype::F16, m)).is_some(), !wide.contains(&format), "{format:?}");
            assert_eq!(layout(&p, &s(Dtype::BF16, 65)), None);
            assert_eq!(layout(&p, &s(Dtype::BF16, 1)).is_some(), !format.affine());
            let chained = Profile { features: Features { units: 132, ..p.features.clone() }, ..p.clone() };
            let one = layout(&chained, &s(Dtype::BF16, 1)).is_some();
            assert_eq!(one, !format.affine() && format.mode != Mode::Mxfp4);
            assert_eq!(layout(&p, &s(Dtype::F32, m)), None);
            assert_eq!(layout(&p, &Shape { batch: 2, ..s(Dtype::BF16, m) }), None);
            // Of short matrices little is read: shaders start and end faster.
            let short = row_product(format, Dtype::BF16, [m, 512, 512]);
            assert!(layout(&p, &short).is_none() && tried(&p, &short));
        }
        assert_eq!([2, 8, 9, 16, 17, 64].map(columns), [8, 8, 16, 16, 32, 32]);
    }

    /// As measured on an H200: all but the shortest matrices of eight bits, of others those too.
    #[test]
    fn widths_of_a_model_go_where_they_were_faster() {
        let mut p = devices::h200();
        p.features.ptx = true;
        let sizes = [[4096, 24576], [12288, 4096], [4096, 6144], [4096, 4096]];
        let of = |mode, group, bits, m| {
            let format = Format { mode, group, bits };
            sizes.map(|[k, n]| splits(&p, Dtype::BF16, format, [m, k, n]))
        };
        for m in [8, 16, 32, 64] {
            assert_eq!(of(Mode::Affine, 64, 8, m), [Some(1), Some(6), Some(4), None], "{m}");
            for (mode, group, bits) in [
                (Mode::Affine, 32, 8),
                (Mode::Affine, 32, 4),
                (Mode::Affine, 128, 4),
                (Mode::Affine, 64, 6),
                (Mode::Affine, 32, 5),
                (Mode::Affine, 64, 3),
                (Mode::Affine, 128, 2),
                (Mode::Mxfp4, 32, 4),
                (Mode::Mxfp8, 32, 8),
                (Mode::Nvfp4, 16, 4),
            ] {
                let all = [Some(1), Some(6), Some(4), Some(6)];
                assert_eq!(of(mode, group, bits, m), all, "{mode:?} {group} {bits} {m}");
            }
        }
        let short = [[1024, 6144], [3072, 1024], [1024, 4096], [2048, 1024]];
        let eight = Format { mode: Mode::Affine, group: 64, bits: 8 };
        assert_eq!(short.map(|[k, n]| splits(&p, Dtype::BF16, eight, [8, k, n])), [None; 4]);
    }

    #[test]
    fn groups_of_sixteen_are_joined_where_they_go_here() {
        let mut p = devices::h200();
        let format = Format { mode: Mode::Nvfp4, group: 16, bits: 4 };
        for (ptx, sizes, joined) in [
            (false, [8, 4096, 12288], false),
            (true, [8, 4096, 12288], true),
            (true, [64, 4096, 12288], true),
            (true, [8, 4096, 12289], false),
            (true, [65, 4096, 12288], false),
            (true, [8, 512, 512], false),
        ] {
            p.features.ptx = ptx;
            assert_eq!(joins_products(&p, format, Dtype::BF16, sizes, &|_, _| true), joined, "{sizes:?}");
            // Several that are joined go here, whatever they are together.
            let [m, k, n] = sizes;
            let all = self::joined(&p, &row_product(format, Dtype::BF16, [m, k, 3 * n]));
            assert!(all.is_some() || !joined, "{sizes:?}");
        }
    }

    /// Whatever kernel one product alone would have: gate and up of Qwen2.5-7B and down of Qwen3-14B.
    #[test]
    fn one_row_is_joined_where_there_are_chains() {
        let mut p = devices::h200();
        (p.features.ptx, p.features.units) = (true, 132);
        for sizes in
            [[1, 3584, 18944], [1, 18944, 3584], [1, 5120, 17408], [1, 17408, 5120], [1, 4096, 12288]]
        {
            assert!(joins_products(&p, codes(64), Dtype::BF16, sizes, &|_, _| true), "{sizes:?}");
        }
    }

    #[test]
    fn what_was_measured_comes_first() {
        let mut p = devices::h200();
        p.features.ptx = true;
        let s = row_product(Format { mode: Mode::Affine, group: 64, bits: 8 }, Dtype::BF16, [8, 1024, 1024]);
        let all = candidates(&p, &s, &|_, _| true);
        assert!(all.contains(&NUMBERS.to_vec()) && layout(&p, &s).is_none());
        for (won, taken) in all.into_iter().map(|won| (won == NUMBERS, won)).map(|(t, won)| (won, t)) {
            p.winners.set(subject(&s).unwrap(), won);
            assert_eq!(layout(&p, &s).is_some(), taken);
        }
        let four = row_product(codes(64), Dtype::BF16, [32, 4096, 24576]);
        assert!(!candidates(&p, &four, &|_, _| true).contains(&NUMBERS.to_vec()));
    }

    #[test]
    fn every_workgroup_that_shares_k_has_some() {
        let mut p = devices::h200();
        p.features.ptx = true;
        for k in (256..20_000).step_by(256) {
            for n in [1024, 4096, 6144, 11008, 28672, 151_936] {
                let Some(shared) = splits(&p, Dtype::BF16, codes(64), [32, k, n]) else { continue };
                let (all, shared) = (k / i64::from(batch(codes(64))), i64::from(shared));
                assert!((shared - 1) * ceil(all, shared) < all, "{k} {n} {shared}");
            }
        }
    }
}

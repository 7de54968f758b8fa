//! How 17 and more rows are multiplied by long matrices on warpgroups (kernels/quantized/wide), of elements or of four-bit codes: sums stay
//! in registers along K, so that only workgroups that share K leave anything to add up. Pure; called by the host of joined products.

use std::ops::RangeInclusive;

use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::kernels::quantized::quant::Format;
use crate::vulkan::tune::ceil;
use crate::vulkan::tune::profile::{Best, Profile, best};

pub static MATMUL_WIDE: KernelVariant = KernelVariant::new(
    "matmul_wide",
    "matmul_held, for 17 to 32 rows by long matrices of bfloat16 on GPUs that take PTX",
);
pub static QMM_WIDE: KernelVariant = KernelVariant::new(
    "qmm_wide",
    "qmm_few_rows, for 17 to 64 rows by long matrices of four-bit codes on GPUs that take PTX",
);

/// A layout of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) struct Form {
    /// Rows of x, in eights.
    pub tiles: u32,
    /// Workgroups that share K.
    pub splits: u32,
}

/// Rows of x at a time.
pub(in crate::vulkan) const COLUMNS: u32 = 32;
/// Rows that it takes.
const ROWS: RangeInclusive<i64> = 17..=32;
/// Rows that it takes where matrices are codes, [`COLUMNS`] at a time.
const ROWS_OF_CODES: RangeInclusive<i64> = 17..=64;
/// Rows of weights of a warp.
pub(in crate::vulkan) const BLOCK: u32 = 16;
/// Warps that multiply, three warpgroups, and those that bring rows of x.
pub(in crate::vulkan) const ACROSS: u32 = 12;
/// Spans of x in shared memory, each of them a warp's that brings it.
pub(in crate::vulkan) const RING: u32 = 4;
/// Elements of K of a span.
pub(in crate::vulkan) const SPAN: u32 = 128;
/// Spans of codes that are asked for at a time: all loads of a batch are awaited together.
pub(in crate::vulkan) const BATCH: u32 = 2;
/// Floats of shared memory between two columns of a warp's sums: lanes write four of them apart.
pub(in crate::vulkan) const COLUMN: u32 = 20;
/// Places that the kernel counts in 32 bits.
const REACH: i64 = 1 << 31;
/// Most workgroups that share K.
const SPLITS: i64 = 12;
/// Workgroups that a device has at once: one a multiprocessor.
static RESIDENT: Best = best("wide_workgroups", 132);

/// What it takes, in hundredths of a microsecond, and what its twin takes. H200, 32 rows, by a host of its own that launches the texts.
struct Costs {
    /// A workgroup without its spans, and each batch of them.
    start: i64,
    batch: i64,
    /// What workgroups that share K add.
    join: i64,
    /// The twin without its work, and a block's batch for each multiprocessor.
    twin: [i64; 2],
}

/// H200, us, this and `qmm_few_rows`: 24576 x 4096 with a gated unit 28.5 and 41.3, 4096 x 12288 22.3 and 25.3, 6144 x 4096 12.6 and 15.4,
/// 4096 x 4096 14.4 and 12.7.
const CODES: Costs = Costs { start: 300, batch: 160, join: 500, twin: [600, 20] };
/// H200, us, this and `matmul_held`: 24576 x 4096 with a gated unit 55 and 87, 4096 x 12288 36.6 and 41, 6144 x 4096 20.7 and 22.3,
/// 4096 x 4096 20 and 18.
const VALUES: Costs = Costs { start: 300, batch: 160, join: 600, twin: [700, 18] };

/// How `m` rows of length `k` are multiplied by so many blocks of rows of weights, if they are better done here than by the twin.
pub(in crate::vulkan) fn form(
    p: &Profile,
    dtype: Dtype,
    format: Option<Format>,
    [m, k, n]: [i64; 3],
) -> Option<Form> {
    let (rows, costs, batch, variant) = match format {
        Some(f) if f.affine() && f.bits == 4 => (ROWS_OF_CODES, CODES, SPAN * BATCH, &QMM_WIDE),
        None => (ROWS, VALUES, SPAN, &MATMUL_WIDE),
        _ => return None,
    };
    let batch = i64::from(batch);
    let fits = k > 0 && k % batch == 0 && (1..REACH).contains(&(n * k)) && m * n < REACH;
    let may = p.features.ptx && dtype == Dtype::BF16 && rows.contains(&m) && !variant.disabled();
    if !may || !fits {
        return None;
    }
    let (blocks, all) = (ceil(n, BLOCK.into()), k / batch);
    let resident = p.count(&RESIDENT) as i64;
    let units = ceil(blocks, ACROSS.into());
    let cost = |splits: i64| {
        let rounds = ceil(units * splits, resident);
        rounds * (costs.start + ceil(all, splits) * costs.batch) + if splits > 1 { costs.join } else { 0 }
    };
    // As many as have something to do.
    let possible = (1..=all.min(SPLITS)).filter(|&s| ceil(all, ceil(all, s)) == s);
    let splits = possible.min_by_key(|&s| cost(s))?;
    let twin = costs.twin[0] + costs.twin[1] * blocks * all / resident;
    let tiles = ceil(m.min(COLUMNS.into()), 8) as u32;
    (cost(splits) < twin).then_some(Form { tiles: tiles.next_power_of_two(), splits: splits as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::quantized::quant::Mode;
    use crate::vulkan::tune::tests::devices;

    fn codes(group: u32) -> Option<Format> {
        Some(Format { mode: Mode::Affine, group, bits: 4 })
    }

    #[test]
    fn long_matrices_fill_the_device() {
        let mut p = devices::h200();
        p.features.ptx = true;
        let splits = |format, sizes| form(&p, Dtype::BF16, format, sizes).map(|f| f.splits);
        for (format, sizes, want) in [
            (None, [17, 4096, 24576], Some(1)),
            (None, [32, 4096, 151_936], Some(1)),
            (None, [32, 12288, 4096], Some(6)),
            (None, [32, 4096, 4096], None),
            (None, [33, 4096, 24576], None),
            (None, [16, 4096, 24576], None),
            (None, [32, 4160, 24576], None),
            (None, [32, 1 << 17, 1 << 17], None),
            (codes(64), [32, 4096, 24576], Some(1)),
            (codes(32), [64, 4096, 151_936], Some(1)),
            (codes(64), [32, 12288, 4096], Some(6)),
            (codes(64), [32, 4096, 6144], Some(4)),
            (codes(64), [32, 4096, 4096], None),
            (codes(64), [32, 1024, 6144], None),
            (codes(64), [32, 4224, 24576], None),
            (codes(64), [65, 4096, 24576], None),
            (Some(Format { mode: Mode::Affine, group: 64, bits: 8 }), [32, 4096, 24576], None),
        ] {
            assert_eq!(splits(format, sizes), want, "{format:?} {sizes:?}");
        }
        assert!(form(&p, Dtype::F16, None, [32, 4096, 24576]).is_none());
        let without = |p: &Profile| form(p, Dtype::BF16, codes(64), [32, 4096, 24576]).is_none();
        assert!(devices::all().iter().all(without));
    }

    #[test]
    fn every_workgroup_that_shares_k_has_some() {
        let mut p = devices::h200();
        p.features.ptx = true;
        for k in (256..20_000).step_by(256) {
            for n in [1024, 4096, 6144, 11008, 28672, 151_936] {
                let Some(f) = form(&p, Dtype::BF16, codes(64), [32, k, n]) else { continue };
                let (all, splits) = (k / i64::from(SPAN * BATCH), i64::from(f.splits));
                assert!((splits - 1) * ceil(all, splits) < all, "{k} {n} {splits}");
            }
        }
    }
}

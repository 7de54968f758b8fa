//! How 17 and more rows are multiplied by long matrices of four-bit codes on warpgroups (kernels/quantized/wide_codes): sums stay in
//! registers along K, so that only workgroups that share K leave anything to add up. Pure; called by the host of joined products.

use std::ops::RangeInclusive;

use super::{Shape, few_rows, forced, native, plain, winner};
use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::kernels::quantized::quant::Format;
use crate::vulkan::tune::ceil;
use crate::vulkan::tune::profile::{Best, Profile, best};

pub static QMM_WIDE: KernelVariant = KernelVariant::new(
    "qmm_wide",
    "qmm_few_rows, for 17 to 64 rows by long matrices of four-bit codes on GPUs that take PTX",
);

/// Rows of x at a time.
pub(in crate::vulkan) const COLUMNS: u32 = 32;
/// Rows that it takes, [`COLUMNS`] at a time.
const ROWS: RangeInclusive<i64> = 17..=64;
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

/// How many workgroups share K of a product, or of several whose rows of codes are `s.n` together, unless the tuner found another kernel's the fastest.
pub(in crate::vulkan) fn layout(p: &Profile, s: &Shape) -> Option<u32> {
    let one = s.batch == 1 && s.matrices == 1 && s.transpose && !s.runs;
    let splits = splits(p, s.dtype, s.format, [s.m, s.k, s.n]).filter(|_| one)?;
    let other = !native() && winner(p, s).is_some_and(|won| won != few_rows::NUMBERS);
    (!other).then_some(splits)
}

/// How many workgroups share K where `m` rows of length `k` meet matrices that have `n` rows together, if they are better done here than by
/// the twin.
pub(in crate::vulkan) fn splits(
    p: &Profile,
    dtype: Dtype,
    format: Format,
    [m, k, n]: [i64; 3],
) -> Option<u32> {
    let batch = i64::from(SPAN * BATCH);
    let fits = k > 0 && k % batch == 0 && (1..REACH).contains(&(n * k)) && m * n < REACH;
    let codes = format.affine() && format.bits == 4;
    let other = forced().is_some() || plain() || QMM_WIDE.disabled();
    if !p.features.ptx
        || !matches!(dtype, Dtype::F16 | Dtype::BF16)
        || !ROWS.contains(&m)
        || !codes
        || !fits
        || other
    {
        return None;
    }
    let (blocks, all) = (ceil(n, BLOCK.into()), k / batch);
    let resident = p.count(&RESIDENT) as i64;
    let units = ceil(blocks, ACROSS.into());
    let cost = |splits: i64| {
        let rounds = ceil(units * splits, resident);
        rounds * (START + ceil(all, splits) * OF_BATCH) + if splits > 1 { JOIN } else { 0 }
    };
    // As many as have something to do.
    let possible = (1..=all.min(SPLITS)).filter(|&s| ceil(all, ceil(all, s)) == s);
    let splits = possible.min_by_key(|&s| cost(s))?;
    let twin = TWIN[0] + TWIN[1] * blocks * all / resident;
    (cost(splits) < twin).then_some(splits as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::quantized::quant::Mode;
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
            (Format { mode: Mode::Affine, group: 64, bits: 8 }, [32, 4096, 24576], None),
        ] {
            assert_eq!(shared(format, sizes), want, "{format:?} {sizes:?}");
        }
        assert_eq!(splits(&p, Dtype::F16, codes(64), [32, 4096, 24576]), Some(1));
        assert!(splits(&p, Dtype::F32, codes(64), [32, 4096, 24576]).is_none());
        let without = |p: &Profile| splits(p, Dtype::BF16, codes(64), [32, 4096, 24576]).is_none();
        assert!(devices::all().iter().all(without));
    }

    #[test]
    fn every_workgroup_that_shares_k_has_some() {
        let mut p = devices::h200();
        p.features.ptx = true;
        for k in (256..20_000).step_by(256) {
            for n in [1024, 4096, 6144, 11008, 28672, 151_936] {
                let Some(shared) = splits(&p, Dtype::BF16, codes(64), [32, k, n]) else { continue };
                let (all, shared) = (k / i64::from(SPAN * BATCH), i64::from(shared));
                assert!((shared - 1) * ceil(all, shared) < all, "{k} {n} {shared}");
            }
        }
    }
}

//! How products of one row by matrices of codes of two to eight bits, or of elements, that follow each other are cut for one kernel (kernels/quantized/chain). Pure.

use super::{forced, plain, streams};
use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::tune::gemv;
use crate::vulkan::tune::profile::Profile;

pub static QMM_CHAIN: KernelVariant =
    KernelVariant::new("qmm_chain", "a kernel for each product of one row, on GPUs that take PTX");

pub static GEMV_CHAIN: KernelVariant = KernelVariant::new(
    "gemv_chain",
    "a kernel for each product of one row with a matrix of 16-bit elements and what is around it, on GPUs that take PTX",
);

pub static QMM_CHAIN_MIXED: KernelVariant = KernelVariant::new(
    "qmm_chain_mixed",
    "a kernel of its own for products of one row that follow each other by one kind of codes, or by 16-bit elements, on GPUs that take PTX",
);

pub static QMM_CHAIN_PICKED: KernelVariant = KernelVariant::new(
    "qmm_chain_picked",
    "kernels of their own for the products of one row with the matrices that it picks, on GPUs that take PTX",
);

pub static QMM_CHAIN_SUMMED: KernelVariant = KernelVariant::new(
    "qmm_chain_summed",
    "a kernel of its own for what normalised results of one row are added to, on GPUs that take PTX",
);

/// Threads of a workgroup, of which each multiprocessor has one, and warps.
pub(in crate::vulkan) const THREADS: u32 = 512;
pub(in crate::vulkan) const WARPS: u32 = THREADS / 32;
/// Rows of codes of a tile: a warp has so many at once.
pub(in crate::vulkan) const TILE: u32 = 4;
/// Batches of a span of a row, one for each of four lanes.
pub(in crate::vulkan) const BATCHES: u32 = 4;
/// Elements of a span of a row of matrices of elements, and of a batch: eight of each lane.
const SPAN: u32 = 512;
/// See [`SPAN`].
pub(in crate::vulkan) const LANES: u32 = 256;

/// What matrices hold: codes of so many bits, of which a group shares a scale and a bias; or elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) struct Kind {
    pub group: u32,
    pub bits: u32,
    /// Codes are small floats (E2M1), and scales powers of two.
    pub floats: bool,
}

impl Kind {
    /// Elements of 16 bits.
    pub const VALUES: Kind = Kind::codes(0, 16);
    /// Small floats (MXFP4).
    pub const FLOATS: Kind = Kind { floats: true, ..Kind::codes(32, 4) };

    /// Whole numbers.
    pub const fn codes(group: u32, bits: u32) -> Kind {
        Kind { group, bits, floats: false }
    }

    pub fn of(format: Option<Format>) -> Kind {
        match format {
            Some(f) if f.mode == Mode::Mxfp4 => Kind::FLOATS,
            Some(f) => Kind::codes(f.group, f.bits),
            None => Kind::VALUES,
        }
    }

    /// What kernels' names say of it.
    pub fn name(self) -> String {
        match self {
            Kind::VALUES => "_dense".into(),
            Kind { floats: true, .. } => "_mxfp4".into(),
            Kind { group, bits, .. } => format!("_q{bits}g{group}"),
        }
    }

    pub fn values(self) -> bool {
        self == Kind::VALUES
    }

    /// Codes that a row of the left side of products has: a group, or a part of one, of which a lane has a fourth.
    pub fn part(self) -> u32 {
        match self.bits {
            5 | 6 | 8 => 32,
            _ => self.group.min(64),
        }
    }

    /// Codes, or elements, of a span of a row: a batch has eight parts.
    pub fn span(self) -> u32 {
        if self.values() { SPAN } else { 8 * self.part() * BATCHES }
    }

    /// See [`slots`].
    pub fn slots(self, row: u32) -> u32 {
        slots(&[self], row)
    }

    /// Bytes of shared memory that sums of a row's groups take.
    pub fn totals(self, row: u32) -> u32 {
        if self.values() { 16 } else { (4 * row / self.part()).next_multiple_of(16) }
    }

    /// Elements of a row of `k` in shared memory: of all but the longest as many, so that one kernel has them.
    pub fn row(self, k: u32) -> u32 {
        k.next_multiple_of(self.span()).max(LONGEST)
    }
}

/// Spans of a workgroup's tiles, of both matrices where there are two at once, that shared memory has room for beside rows of so many
/// elements, which meet matrices of these kinds.
pub(in crate::vulkan) fn slots(kinds: &[Kind], row: u32) -> u32 {
    let most = if kinds.contains(&Kind::VALUES) { 1024 } else { 512 };
    let totals = kinds.iter().map(|k| k.totals(row)).max().unwrap_or(0);
    let left = SHARED.saturating_sub(2 * row + totals + 4 * WARPS);
    if row == LONGEST { most } else { most.min(left / (4 * TILE)) }
}

/// Bytes of shared memory.
const SHARED: u32 = 48 << 10;
/// Elements of most rows at the most, as shared memory holds them; of one that is normalised, as registers do.
pub(in crate::vulkan) const LONGEST: u32 = 14336;
pub(in crate::vulkan) const NORMED: u32 = 8192;
/// Sixteen bytes of a row that a thread brings at once.
pub(in crate::vulkan) const PIECES: u32 = LONGEST.div_ceil(8 * THREADS);
/// Elements of the longest row of all, beside which there is less room for sums; and what a thread brings of it after the first pieces.
pub(in crate::vulkan) const LONG: u32 = 20480;
/// See [`LONG`].
pub(in crate::vulkan) const MORE_PIECES: u32 = LONG.div_ceil(8 * THREADS) - PIECES;
/// Shortest rows. H200, us of a layer's products, as one kernel and as four: 8B 45.8 and 52.0, 0.6B (rows of 1024 to 3072) 19.7 and 23.2.
const LEAST: i64 = 1024;

/// How many tiles workgroups have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vulkan) struct Cut {
    /// Of each workgroup, and workgroups that have one more.
    pub each: u32,
    pub more: u32,
}

/// Whether rows of `k` elements, normalised or not, go through such kernels. One product alone takes what it did (H200, us of o, gate and up,
/// down, q k v of 8B by a host of its own 6.3, 19.2, 11.5, 8.4; qmm_stream in PTX 6.4, 18.4, 11, 8.9).
pub(in crate::vulkan) fn takes(p: &Profile, format: Format, dtype: Dtype, [k, norm]: [i64; 2]) -> bool {
    let whole =
        format.affine() && [2, 3, 4, 5, 6, 8].contains(&format.bits) && [32, 64, 128].contains(&format.group);
    let codes = whole || format.mode == Mode::Mxfp4;
    let asked = forced().is_some() || plain() || streams();
    let fits = k % i64::from(format.group) == 0;
    codes && fits && !asked && rows(p, dtype, [k, norm]) && !QMM_CHAIN.disabled()
}

/// Whether rows of `k` elements go through them that pick so many matrices of `n` rows; `summed`: each matrix has a row of its own, and
/// what they give is added up.
pub(in crate::vulkan) fn picks(
    p: &Profile,
    format: Format,
    dtype: Dtype,
    [k, n, count]: [i64; 3],
    summed: bool,
) -> bool {
    let long = if summed { k * count } else { k.max(n * count) };
    takes(p, format, dtype, [k.max(LEAST), 0]) && long <= i64::from(LONGEST) && !QMM_CHAIN_PICKED.disabled()
}

/// Whether a choice of what one of their products makes is theirs, too.
pub(in crate::vulkan) fn chooses() -> bool {
    !QMM_CHAIN_PICKED.disabled()
}

/// Whether products of a chain may be of several kinds.
pub(in crate::vulkan) fn mixes() -> bool {
    !QMM_CHAIN_MIXED.disabled()
}

/// Whether a row of `k` elements of a chain may be the sum of another one and a normalised result.
pub(in crate::vulkan) fn sums(p: &Profile, dtype: Dtype, k: i64) -> bool {
    k % 8 == 0 && rows(p, dtype, [k, 1]) && !QMM_CHAIN_SUMMED.disabled()
}

/// The same for matrices of elements, whose rows begin at whole chunks.
pub(in crate::vulkan) fn takes_values(p: &Profile, dtype: Dtype, [k, norm]: [i64; 2]) -> bool {
    let asked = gemv::forced().is_some();
    k % 8 == 0 && !asked && rows(p, dtype, [k, norm]) && !GEMV_CHAIN.disabled()
}

/// What matrices hold of chains that take such rows, if there are any.
pub(in crate::vulkan) fn kind(
    p: &Profile,
    format: Option<Format>,
    dtype: Dtype,
    lengths: [i64; 2],
) -> Option<Kind> {
    let taken = match format {
        Some(format) => takes(p, format, dtype, lengths),
        None => takes_values(p, dtype, lengths),
    };
    taken.then(|| Kind::of(format))
}

/// Whether a chain may have a product of one row of `k` elements by a matrix of `n` rows.
pub(crate) fn leads(p: &Profile, format: Option<Format>, dtype: Dtype, [k, n]: [i64; 2]) -> bool {
    let Some(kind) = kind(p, format, dtype, [k, 0]) else { return false };
    // FITS: `takes` bounds the length of rows.
    let (spans, slots) = ((k as u32).div_ceil(kind.span()), kind.slots(kind.row(k as u32)));
    tiles(n).is_some_and(|tiles| cut(tiles, 1, spans, p.features.units, slots).is_some())
}

/// Whether there are such kernels, for rows of this length.
fn rows(p: &Profile, dtype: Dtype, [k, norm]: [i64; 2]) -> bool {
    let f = &p.features;
    let longest = i64::from(if norm > 0 { NORMED } else { LONG });
    f.ptx && f.units > 0 && (LEAST..=longest).contains(&k) && matches!(dtype, Dtype::F16 | Dtype::BF16)
}

/// How so many tiles of `sides` matrices at once, of so many spans each, are shared by `workgroups`.
pub(in crate::vulkan) fn cut(tiles: u32, sides: u32, spans: u32, workgroups: u32, slots: u32) -> Option<Cut> {
    let most = tiles.div_ceil(workgroups);
    // A thread has one of the workgroup's results, or none.
    let fits = most * sides * spans <= slots && most * TILE <= THREADS;
    fits.then_some(Cut { each: tiles / workgroups, more: tiles % workgroups })
}

/// Tiles of so many rows; whole ones.
pub(in crate::vulkan) fn tiles(rows: i64) -> Option<u32> {
    let tile = i64::from(TILE);
    (rows > 0 && rows % tile == 0).then(|| u32::try_from(rows / tile).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODES: Kind = Kind::codes(64, 4);

    /// All tiles are somebody's, and what is cut fits shared memory; 132 workgroups, 114 and 78.
    #[test]
    fn products_are_cut_to_fit() {
        for workgroups in [132, 114, 78] {
            for spans in [1, 2, 3, 5, 6, 7] {
                for (tiles, sides) in [(1, 1), (64, 1), (640, 1), (1024, 1), (1536, 1), (3072, 2), (4352, 2)]
                {
                    for slots in [Kind::VALUES.slots(LONGEST), CODES.slots(LONGEST)] {
                        let Some(c) = cut(tiles, sides, spans, workgroups, slots) else { continue };
                        assert_eq!(c.each * workgroups + c.more, tiles);
                        assert!(tiles.div_ceil(workgroups) * sides * spans <= slots);
                    }
                }
            }
        }
        // Gate and up of 8B and of 32B; a head has more rows than there are threads.
        assert_eq!(cut(3072, 2, 2, 132, 512), Some(Cut { each: 23, more: 36 }));
        assert!(cut(6400, 2, 3, 132, 512).is_some());
        assert_eq!(cut(37984, 1, 2, 132, 512), None);
        // The same as elements: spans of 512.
        assert!(
            cut(3072, 2, 8, 132, Kind::VALUES.slots(LONGEST)).is_some()
                && cut(4352, 2, 10, 132, Kind::VALUES.slots(LONGEST)).is_some()
        );
    }

    /// Rows of 14B and of Qwen2.5-7B beside the sums of the products before them, hidden sizes of 5120 and 3584.
    #[test]
    fn long_rows_leave_room_for_sums() {
        let kinds = [32, 64, 128].map(|group| [2, 3, 4, 5, 6, 8].map(|bits| Kind::codes(group, bits)));
        for kind in kinds.into_iter().flatten().chain([Kind::VALUES, Kind::FLOATS]) {
            assert_eq!(kind.row(1024), LONGEST);
            for (k, hidden) in [(17408, 5120_u32), (18944, 3584)] {
                let row = kind.row(k);
                let slots = kind.slots(row);
                assert!(row >= k && row <= LONG && row % kind.span() == 0, "{kind:?}");
                assert!(2 * row + kind.totals(row) + 4 * WARPS + 4 * TILE * slots <= SHARED, "{kind:?}");
                let before = cut(k / TILE, 2, hidden.div_ceil(kind.span()), 132, slots);
                let behind = cut(hidden / TILE, 1, k.div_ceil(kind.span()), 132, slots);
                assert!(before.is_some(), "{kind:?} {k}");
                assert!(behind.is_some(), "{kind:?} {k}");
            }
        }
    }

    #[test]
    fn attention_leads_what_there_is_a_chain_for() {
        let mut p = crate::vulkan::tune::tests::devices::h200();
        let codes = |bits| Some(Format { mode: Mode::Affine, group: 64, bits });
        let of = |p: &Profile, format, sizes| leads(p, format, Dtype::BF16, sizes);
        assert!(!of(&p, codes(4), [4096, 4096]));
        (p.features.ptx, p.features.units) = (true, 132);
        assert!(of(&p, codes(4), [4096, 4096]) && of(&p, None, [4096, 4096]));
        assert!(of(&p, codes(8), [4096, 4096]));
        assert!([2, 3, 5, 6].into_iter().all(|bits| of(&p, codes(bits), [4096, 4096])));
        assert!(!of(&p, codes(4), [512, 4096]));
        assert!(!of(&p, codes(4), [4096, 4094]) && !of(&p, codes(4), [4096, 151_936]));
    }

    #[test]
    fn rows_are_whole_tiles() {
        assert_eq!(tiles(4096), Some(1024));
        assert!(tiles(0).is_none() && tiles(26).is_none());
    }
}

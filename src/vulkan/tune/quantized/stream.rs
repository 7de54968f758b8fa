//! How one row is multiplied by matrices of four-bit codes that walk by it (shaders/quantized/qmm_stream.comp): where the tuner found
//! that the fastest. Pure; called by [`choose`](super::choose) and by the host of joined products.

use std::ops::RangeInclusive;

use super::{Shape, forced, native, plain, streams, winner};
use crate::core::Dtype;
use crate::core::env::KernelVariant;
use crate::vulkan::tune::matmul::fixed_subgroup;
use crate::vulkan::tune::profile::{Best, Profile, best};
use crate::vulkan::tune::{ceil, round_up};

pub static QMM_STREAM: KernelVariant =
    KernelVariant::new("qmm_stream", "the kernel of one long row on cooperative matrices, or of few rows");

pub static QMM_STREAM_PTX: KernelVariant = KernelVariant::new(
    "qmm_stream_ptx",
    "shaders for one row by codes of four bits, on GPUs that take PTX too",
);

/// A layout of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) struct Streamed {
    /// Threads that span a row of codes, whole subgroups: a team.
    pub threads: u32,
    /// Teams of a workgroup.
    pub teams: u32,
    /// Rows of codes that a team has on their way, of both matrices where there are two at once.
    pub rows: u32,
    /// Times that it takes so many, at most: a power of two.
    pub turns: u32,
    /// Lanes of a subgroup.
    pub subgroup: u32,
    /// In PTX, where what follows is known there.
    pub native: bool,
    /// Workgroups of a multiprocessor that its registers are kept for then.
    pub together: u32,
    /// A workgroup's units are neighbours, in PTX; otherwise they are a grid apart.
    pub neighbours: bool,
}

/// Its number in the cache: how it is laid out follows from the product.
pub(super) const NUMBERS: [u32; 1] = [3];
/// The same of workgroups that have neighbours.
pub(super) const NEIGHBOURS: [u32; 1] = [5];

/// Codes of a row that a thread has.
pub(in crate::vulkan) const CODES: u32 = 32;
/// Shortest rows that take it. H100, us with all that a command costs, of qmm_rows or qmm_coop and this one where codes are numbers by a
/// mask: 6144 x 1024 with normalisation and gated unit 7.0 and 6.2, 1024 x 2048 with an addition 4.8 and 4.5, 151936 x 1024 44 and 33.
/// Shorter ones would leave lanes idle.
const LONG: i64 = 1024;
/// Threads of a workgroup, nearly.
const THREADS: i64 = 128;
/// Lanes of a subgroup of those that take PTX.
pub(in crate::vulkan) const WARP: u32 = 32;
/// Bytes of shared memory for sums.
pub(in crate::vulkan) const SUMS: u32 = 8 << 10;

/// Subgroups that walk over the rows of codes side by side, with eight rows on their way each. H100, us of gate and up of 8B and
/// of its head: 396 workgroups of four 23.3 and 118, 528 23.6 and 120, 660 26.3 and 149.
static WALKING: Best = best("qmm_stream_subgroups", 132 * 12);
/// The same with four rows, which need fewer registers: gate and up 24.4, and 768 workgroups 27.0.
static WALKING_FOUR: Best = best("qmm_stream_subgroups_four", 132 * 16);
/// Workgroups that there are at least, if there is work for them: 4096 x 12288, workgroups of 12 subgroups with four rows, 256
/// 13.8 us; with eight rows, of which a multiprocessor has one, 128 14.2.
static WORKGROUPS: Best = best("qmm_stream_workgroups", 264);
/// Threads of a team from which four rows are on their way.
const MANY: i64 = 256;
/// Threads of a team beyond which two are, in PTX: more registers there are not.
const MOST: i64 = 512;
/// Threads of a multiprocessor that there are registers for in PTX: with eight rows on their way, with fewer.
const KEPT: [u32; 2] = [512, 768];

impl Streamed {
    /// Rows of codes of a unit, of each matrix.
    pub fn span(&self, pair: bool) -> i64 {
        i64::from(if pair { self.rows / 2 } else { self.rows })
    }

    /// Workgroups that there may be.
    fn most(&self, p: &Profile) -> i64 {
        let walking = p.count(if self.rows == 8 { &WALKING } else { &WALKING_FOUR }) as i64;
        let of_one = i64::from(self.threads * self.teams / self.subgroup);
        (walking / of_one).max(p.count(&WORKGROUPS) as i64).max(1)
    }

    /// Workgroups for so many units of rows: each has nearly as many.
    pub fn workgroups(&self, p: &Profile, units: i64) -> i64 {
        let lists = ceil(units, self.teams.into());
        ceil(lists, ceil(lists, self.most(p)).min(self.turns.into()))
    }

    /// With so many rows, for products of `n` rows of codes together, of each matrix.
    fn taking(self, rows: u32, p: &Profile, n: i64, pair: bool) -> Streamed {
        let mut l = Streamed { rows, ..self };
        // Each of three matrices may end inside a unit.
        let lists = ceil(ceil(n, l.span(pair)) + 2, l.teams.into());
        let sums = 4 * i64::from(l.teams * l.rows * l.threads / l.subgroup);
        let room = (i64::from(SUMS) / sums).max(1) as u32;
        let turns = ceil(lists, l.most(p)) as u64;
        l.turns = turns.next_power_of_two().min(1 << room.ilog2()) as u32;
        l.together = (KEPT[usize::from(rows < 8)] / (l.threads * l.teams)).max(1);
        l
    }
}

/// Codes of products that it takes unasked in PTX, of one matrix or of several beside each other. H200, us in a token's turn, of qmm_row or
/// qmm_joined and of this one: 4096 x 4096 8.9 and 8.6, 2048 x 4096 7.3 and 6.5, 6144 x 4096 11.7 and 10.6, 4096 x 12288 14.8 and 14.4;
/// but 1024 x 2048 4.6 and 5.4, gate and up of 8B 21.9 and 23.7, 151936 x 4096 92 and 100.
const TAKEN: RangeInclusive<i64> = 8 << 20..=64 << 20;
/// Rows of codes from which shorter ones are taken too, where qmm_coop would take them: 151936 x 1024 37.5 and 30.1, x 2048 70.6 and 54.5.
const MANY_ROWS: i64 = 1 << 16;
/// See [`MANY_ROWS`].
const SHORT: i64 = 2048;

/// Whether it is the fastest in PTX.
fn pays(s: &Shape, pair: bool) -> bool {
    !pair && (TAKEN.contains(&(s.n * s.k)) || (s.n >= MANY_ROWS && s.k <= SHORT))
}

/// The layout for a product, or for several whose rows of codes are `s.n` together, of which the smallest matrix has `least`;
/// `pair`: of two at once. How a row is cut depends on its length alone, so that results do not depend on what is joined. As a shader
/// nobody takes it unasked: with codes as digits of numbers from 128 on, which is what NVIDIA's driver leaves, it costs more than qmm_row
/// (H100, gate and up of 8B 26.3 and 32.9 us, 6144 x 1024 7.0 and 8.0).
pub(in crate::vulkan) fn layout(p: &Profile, s: &Shape, least: i64, pair: bool) -> Option<Streamed> {
    let won = winner(p, s);
    let [taken, neighbours] = [NUMBERS, NEIGHBOURS].map(|n| won.is_some_and(|won| won == n));
    let asked = taken || neighbours || streams();
    let unasked = p.features.ptx && (native() || won.is_none() && pays(s, pair));
    if !asked && !unasked {
        return None;
    }
    let laid = possible(p, s, least, pair)?;
    (asked || laid.native).then_some(Streamed { neighbours, ..laid })
}

/// The layout where the kernel can be used.
pub(super) fn possible(p: &Profile, s: &Shape, least: i64, pair: bool) -> Option<Streamed> {
    let f = &p.features;
    let half = matches!(s.dtype, Dtype::F16 | Dtype::BF16);
    let one = s.m == 1 && s.batch == 1 && s.matrices == 1 && s.transpose && !s.runs;
    let codes = s.format.affine() && s.format.bits == 4 && [32, 64, 128].contains(&s.format.group);
    let other = forced().is_some() || plain();
    if !half || !one || !codes || other || QMM_STREAM.disabled() {
        return None;
    }
    if !streams() && (f.software || s.k < LONG) {
        return None;
    }
    let subgroup = fixed_subgroup(f).filter(|_| f.subgroup_shuffle && f.subgroup_arithmetic)?;
    let threads = round_up(ceil(s.k, CODES.into()), subgroup.into());
    let limit = i64::from(f.max_workgroup_invocations);
    if threads > limit {
        return None;
    }
    let teams = ceil(THREADS, threads).min(limit / threads);
    let native = f.ptx && subgroup == WARP && !QMM_STREAM_PTX.disabled();
    let l = Streamed {
        threads: threads as u32,
        teams: teams as u32,
        rows: 0,
        turns: 1,
        subgroup,
        native,
        together: 1,
        neighbours: false,
    };
    let (sides, n) = if pair { (2, ceil(s.n, 2)) } else { (1, s.n) };
    let fits = |&rows: &u32| rows >= sides && i64::from(rows / sides) <= least && rows <= subgroup;
    // Eight where workgroups have them more than once; short code for a software driver.
    let often = |rows: u32| {
        let l = l.taking(rows, p, n, pair);
        ceil(ceil(n, l.span(pair)), teams) > l.most(p)
    };
    let eight = !f.software && threads < MANY && often(8);
    let many = |&rows: &u32| (rows < 8 || eight) && (rows < 4 || !native || threads <= MOST);
    let rows = [8, 4, 2, 1].into_iter().filter(many).find(fits)?;
    Some(l.taking(rows, p, n, pair))
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;

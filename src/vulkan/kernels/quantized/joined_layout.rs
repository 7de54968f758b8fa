//! Which kernel takes joined products, and how it is laid out: called by `qmm_joined`, which defines and records it.

use super::qmm::two_factors;
use super::qmm_joined::Joined;
use crate::core::Dtype;
use crate::vulkan::Features;
use crate::vulkan::tune::Profile;
use crate::vulkan::tune::gemv::{self, JoinedRows, held as dense};
use crate::vulkan::tune::quantized::held::{self, Held};
use crate::vulkan::tune::quantized::picked::{self, Combine};
use crate::vulkan::tune::quantized::row::{self, Row};
use crate::vulkan::tune::quantized::stream::{self, Streamed};
use crate::vulkan::tune::quantized::{Coop, Variant, layout_of_rows, of_rows, stage};

/// The kernel and how it is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Layout {
    /// qmm_row.comp.
    Row(Row),
    /// qmm_stream.comp.
    Streamed(Streamed),
    /// qmm_held.comp, or matmul_held.comp for dense matrices.
    Held(Held),
    /// qmm_coop.comp; `aligned`: codes can be read 16 bytes at a time, `factors`: so can those of two groups.
    Coop { coop: Coop, aligned: bool, factors: bool },
    /// qmm_rows.comp; `aligned`: codes can be read 16 bytes at a time.
    Rows { threads: u32, rows: u32, unit: u32, aligned: bool },
    /// qmm_combine.comp; `aligned` as before.
    Combine { combine: Combine, aligned: bool },
    /// gemv_joined.comp; `staged`: the normalised row lies in shared memory.
    Dense { layout: JoinedRows, staged: bool },
}

impl Layout {
    /// Rows of codes of a workgroup.
    pub fn span(&self, pair: bool) -> i64 {
        match self {
            Layout::Held(_) => Held::UNIT,
            Layout::Streamed(s) => s.span(pair),
            Layout::Row(r) if pair => i64::from(r.beside * 8),
            Layout::Row(r) => i64::from(r.beside * 16),
            Layout::Coop { coop, .. } => i64::from(coop.tiles * 16) / if pair { 2 } else { 1 },
            Layout::Rows { threads, rows, .. } if pair => i64::from(256 / threads * rows / 2),
            Layout::Rows { threads, rows, .. } => i64::from(256 / threads * rows),
            Layout::Combine { combine, .. } => i64::from(combine.rows),
            Layout::Dense { layout: d, .. } => i64::from(256 / d.threads * d.rows) / if pair { 2 } else { 1 },
        }
    }

    pub fn variant(&self) -> Option<Variant> {
        match *self {
            Layout::Row(r) => Some(Variant::Row(r)),
            Layout::Streamed(s) => Some(Variant::Streamed(s)),
            // Of dense matrices nothing is counted.
            Layout::Held(h) => Some(Variant::Held(h)),
            Layout::Coop { coop, .. } => Some(Variant::Coop(coop)),
            Layout::Rows { threads, rows, unit, .. } => {
                Some(Variant::Rows { threads, rows, vectors: 1, unit })
            }
            Layout::Combine { combine: Combine { threads, rows, unit, .. }, .. } => {
                Some(Variant::Rows { threads, rows, vectors: 1, unit })
            }
            Layout::Dense { .. } => None,
        }
    }
}

/// Whether qmm_stream, qmm_row and qmm_held can read the parts of a matrix.
pub fn aligned(parts: [u64; 3]) -> bool {
    parts[0].is_multiple_of(16) && parts[1].is_multiple_of(4) && parts[2].is_multiple_of(4)
}

/// How the products are multiplied together.
pub(super) fn layout(
    profile: &Profile,
    f: &Features,
    j: &Joined,
    known: &dyn Fn(Dtype, u32) -> bool,
) -> Layout {
    let pair = j.pair();
    let Some(format) = j.format else {
        if j.m > 1 {
            // INVARIANT: patterns take what `suits_dense` says.
            let held = dense::layout(profile, j.dtype, [j.m, j.k, j.rows()], known);
            return Layout::Held(held.expect("a layout of few rows"));
        }
        let layout =
            gemv::joined(profile, j.rows(), j.k * j.dtype.size() as i64 / 16, j.norm.is_some(), pair);
        let staged = j.norm.is_some() && j.k * j.dtype.size() as i64 <= i64::from(stage(f));
        return Layout::Dense { layout, staged };
    };
    let product = j.shape(format);
    let wide = j.matrices.iter().all(|m| m.parts[0].is_multiple_of(16));
    let words = |c: &Coop| {
        two_factors(c, &product)
            && j.matrices.iter().all(|m| m.parts[1].is_multiple_of(4) && m.parts[2].is_multiple_of(4))
    };
    if j.picks.is_some()
        && j.combined.is_none()
        && let Some(coop) = picked::grouped(profile, &product, pair, known)
    {
        return Layout::Coop { coop, aligned: wide, factors: words(&coop) };
    }
    if let (Some(c), Some(picks)) = (j.combined, j.picks) {
        let combine = picked::combine(profile, &product, c.each, picks.count / c.each);
        return Layout::Combine { combine, aligned: wide };
    }
    let even = j.matrices.iter().all(|m| aligned(m.parts));
    if even && let Some(held) = held::layout(profile, &product, known) {
        return Layout::Held(held);
    }
    if j.m > 1 {
        // INVARIANT: patterns take what `tune::fusion::joins_products` says, which asks for the same.
        let coop = of_rows(profile, &product, pair, known).expect("a layout of few rows");
        return Layout::Coop { coop, aligned: wide, factors: words(&coop) };
    }
    let least = j.matrices.iter().map(|m| m.rows).min().unwrap_or(0);
    if even
        && j.picks.is_none()
        && let Some(stream) = stream::layout(profile, &product, least, pair)
        && (!stream.native || super::stream::knows(j.dtype, j.after))
    {
        return Layout::Streamed(stream);
    }
    if even && let Some(row) = row::layout(profile, &product, pair, known) {
        return Layout::Row(row);
    }
    let unit = if j.k % 32 == 0 { 32 } else { 16 };
    let (mut threads, mut rows) = match j.picks {
        Some(_) => picked::rows(profile, &product, j.k / unit),
        None => layout_of_rows(profile, &product, j.k / unit, 1),
    };
    // x goes through shared memory.
    let most = stage(f) / (unit as u32 * j.dtype.size() as u32);
    while j.norm.is_some() && threads > most {
        threads /= 2;
    }
    if pair {
        rows = rows.max(2);
    }
    Layout::Rows { threads, rows, unit: unit as u32, aligned: wide }
}

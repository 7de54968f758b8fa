//! What a chain knows of products with matrices that a row picks: which follow, and what becomes of them.

use smallvec::SmallVec;

use super::super::{Chained, PickArgs, Range, STAGES, Stage, stage};
use super::text::{COLUMNS, Picked, ROWS, SAME, TABLES};
use crate::kernels::matmul::epilogue::Origin;
use crate::vulkan::kernels::quantized::qmm_joined::{Combined, Joined, Matrix, Picks};
use crate::vulkan::kernels::sort::choice::Chosen;
use crate::vulkan::tune::quantized::chain::{self, Kind};

/// A product by picked matrices as one of a long matrix, of so many of them: their rows one behind the other, or their columns.
pub(super) fn whole<'a>(j: &Joined<'a>, count: i64, matrices: &'a [Matrix]) -> Joined<'a> {
    let k = if j.combined.is_some() { count * j.k } else { j.k };
    Joined { k, matrices, picks: None, combined: None, ..*j }
}

/// Their matrices.
pub(super) fn long(j: &Joined, count: i64) -> SmallVec<[Matrix; 2]> {
    let times = if j.combined.is_some() { 1 } else { count };
    j.matrices.iter().map(|m| Matrix { rows: times * m.rows, parts: m.parts }).collect()
}

/// The product `j`, which is `whole` as one of a long matrix, as a stage, if there is a kernel for it, and its flag.
pub(super) fn picked_stage(j: &Joined, whole: &Joined, holds: Kind, workgroups: u32) -> Option<(Stage, u32)> {
    let parts = i64::from(holds.group.max(1));
    let rows = j.matrices[0].rows;
    // A lane's codes and scales are of one matrix, and units of rows, too.
    if rows % parts != 0 || j.k % parts != 0 {
        return None;
    }
    let mut made = stage(whole, holds, workgroups)?;
    let mut kind = if j.combined.is_some() { COLUMNS } else { ROWS };
    if let (Some(_), &[table]) = (j.combined, j.added) {
        made.added = [0, table, 0];
    }
    for origin in j.after.iter().flat_map(|a| &a.inputs) {
        if let Origin::Picked(k) = *origin {
            kind |= TABLES[usize::from(k)];
        }
    }
    // FITS: `stage` bounds both.
    Some((Stage { rows: rows as u32, part: j.k as u32, ..made }, kind))
}

impl Chained {
    /// Whether its products are of such elements, and may be by such codes.
    pub(super) fn alike(&self, j: &Joined) -> bool {
        self.dtype == j.dtype && j.format.is_some() && self.takes(Kind::of(j.format))
    }

    /// Whether the sum of products, as one product, is of what the last one made, by the matrices that were picked for it.
    pub(super) fn sums(
        &self,
        whole: &Joined,
        picks: &Picks,
        c: Combined,
        reads: &[Range],
        writes: &[Range],
    ) -> bool {
        let Some((picked, args)) = &self.picks else { return false };
        let size = if c.wide { 4 } else { 2 };
        let choice = [(args.places, 4 * picks.count as u64), (c.weights, size * picks.count as u64)];
        let others: SmallVec<[Range; 16]> = reads.iter().copied().filter(|r| !choice.contains(r)).collect();
        // Those of a choice are made here; others stood there before.
        let weighed = match picked {
            Picked::Chosen(_) | Picked::Within(_) => c.weights == args.chosen && !c.wide,
            Picked::Stored { .. } => !self.stores_to(choice[1]),
        };
        picks.indices.0 == args.places
            && weighed
            && c.each == picks.count
            && picks.share == 1
            && picks.count == i64::from(picked.count())
            && self.fits(whole, &others, writes)
    }

    /// Whether a choice is of what the last product makes.
    pub(in crate::vulkan::kernels::quantized::chain) fn chooses(&self, c: &Chosen) -> bool {
        let ([keys, rows, places, chosen], how) = (c.told(), c.choice.how);
        let made = [(places, 4 * u64::from(how.count)), (chosen, 2 * u64::from(how.count))];
        let last = self.stages.len().checked_sub(1);
        self.picks.is_none()
            && self.summed.is_none()
            // Beside longer ones there is no room for what is picked.
            && self.row() == chain::LONGEST
            && rows == 1
            && c.choice.dtype == self.dtype
            && self.stages.len() < STAGES
            && last.is_some()
            && self.maker(keys, 2 * u64::from(c.choice.n)) == last
            && !made.iter().any(|&w| self.touches(w))
            && chain::chooses()
    }

    /// Has it be made before the next product.
    pub(in crate::vulkan::kernels::quantized::chain) fn choose(&mut self, c: &Chosen) {
        let [_, _, places, chosen] = c.told();
        let (keys, key_tag) = self.words_of(self.stages.len() - 1);
        let stage = self.stages.len() as u32;
        let args = PickArgs { keys, places, chosen, stage, key_tag, ..PickArgs::default() };
        self.writes.extend([
            (places, 4 * u64::from(c.choice.how.count)),
            (chosen, 2 * u64::from(c.choice.how.count)),
        ]);
        self.late.extend([places, chosen]);
        self.picks = Some((Picked::Within(c.choice), args));
    }

    /// Whether the product is of the last one's row, which that normalised, by matrices that were chosen of what it made.
    pub(super) fn picks(&self, j: &Joined, picks: &Picks, reads: &[Range], writes: &[Range]) -> bool {
        let (Some((Picked::Within(choice), args)), Some(last)) = (&self.picks, self.stages.last()) else {
            return false;
        };
        let (x, count) = ((j.x, 2 * j.k as u64), i64::from(choice.how.count));
        let known = |r: &Range| *r == x || *r == (args.places, 4 * count as u64);
        let foreign = |r: &Range| !known(r) && self.stores_to(*r);
        args.stage as usize == self.stages.len()
            && (last.kept, i64::from(last.k)) == (j.x, j.k)
            && (picks.indices.0, picks.count, picks.share) == (args.places, count, count)
            && i64::from(choice.n) <= picks.matrices
            && !reads.iter().any(foreign)
            && !writes.iter().any(|&w| self.touches(w))
    }

    /// Adds such a product.
    pub(super) fn add_picks(
        &mut self,
        j: &Joined,
        (mut made, kind): (Stage, u32),
        reads: &[Range],
        writes: &[Range],
    ) {
        let mut same = SAME;
        if let Some(last) = self.stages.last() {
            (made.x, made.x_tag, made.eps) = (last.x, last.x_tag, last.eps);
            if self.kind(last) != Kind::of(j.format) {
                // Another kind has the row in another order, and so it is normalised once more.
                (made.norm, same) = (last.norm, 0);
            }
        }
        self.push(j, made, reads, writes);
        // Numbers that are none come out of a normalised row as they are.
        self.mark(kind | same | 1);
    }

    /// Adds such a sum.
    pub(super) fn add_sum(
        &mut self,
        j: &Joined,
        c: Combined,
        (made, kind): (Stage, u32),
        reads: &[Range],
        writes: &[Range],
    ) {
        if let Some((Picked::Stored { wide, .. }, args)) = &mut self.picks {
            (*wide, args.chosen) = (c.wide, c.weights);
            self.late.push(c.weights);
        }
        self.add(j, made, reads, writes);
        self.mark(kind);
    }
}

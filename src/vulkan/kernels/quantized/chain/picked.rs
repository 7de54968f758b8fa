//! A chain of products of one row with the matrices that it picks, and of those of what they make, weighed and added up, as products of one
//! long matrix each. Which ones are picked is chosen there, where the choice is held back, or read. Called by `qmm_joined`
//! (MLX_VK_DISABLE=qmm_chain_picked: `few_picked` and shaders).

use smallvec::SmallVec;

use super::picks::{COLUMNS, Picked, ROWS, SAME};
use super::{Chained, PRODUCTS, PickArgs, Range, STAGES, Stage, stage, words};
use crate::core::Result;
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::quantized::qmm_joined::{Combined, Joined, Matrix, Picks};
use crate::vulkan::kernels::quantized::stream;
use crate::vulkan::kernels::sort::choice::{self, Chosen, Within};
use crate::vulkan::tune::quantized::chain::{self, VALUES};

/// A product by picked matrices as one of a long matrix, of so many of them: their rows one behind the other, or their columns.
fn whole<'a>(j: &Joined<'a>, count: i64, matrices: &'a [Matrix]) -> Joined<'a> {
    let k = if j.combined.is_some() { count * j.k } else { j.k };
    Joined { k, matrices, picks: None, combined: None, ..*j }
}

/// Their matrices.
fn long(j: &Joined, count: i64) -> SmallVec<[Matrix; 2]> {
    let times = if j.combined.is_some() { 1 } else { count };
    j.matrices.iter().map(|m| Matrix { rows: times * m.rows, parts: m.parts }).collect()
}

/// Such a product as a stage, if there is a kernel for it, and its flag.
fn picked_stage(j: &Joined, count: i64, group: u32, workgroups: u32) -> Option<(Stage, u32)> {
    let parts = i64::from(group.max(1));
    let rows = j.matrices[0].rows;
    // A lane's codes and scales are of one matrix, and units of rows, too.
    if rows % parts != 0 || j.k % parts != 0 {
        return None;
    }
    let matrices = long(j, count);
    let made = stage(&whole(j, count, &matrices), group, workgroups)?;
    let kind = if j.combined.is_some() { COLUMNS } else { ROWS };
    // FITS: `stage` bounds both.
    Some((Stage { rows: rows as u32, part: j.k as u32, ..made }, kind))
}

impl Chained {
    /// Whether the sum of products is of what the last product made, by the matrices that were picked for it.
    fn sums(&self, j: &Joined, picks: &Picks, c: Combined, reads: &[Range], writes: &[Range]) -> bool {
        let Some((picked, args)) = &self.picks else { return false };
        let size = if c.wide { 4 } else { 2 };
        let choice = [(args.places, 4 * picks.count as u64), (c.weights, size * picks.count as u64)];
        let others: SmallVec<[Range; 16]> = reads.iter().copied().filter(|r| !choice.contains(r)).collect();
        let matrices = long(j, picks.count);
        // Those of a choice are made here; others stood there before.
        let weighed = match picked {
            Picked::Chosen(_) | Picked::Within(_) => c.weights == args.chosen && !c.wide,
            Picked::Stored { .. } => !self.writes.iter().any(|&w| super::meet(choice[1], w)),
        };
        picks.indices.0 == args.places
            && weighed
            && c.each == picks.count
            && picks.share == 1
            && picks.count == i64::from(picked.count())
            && self.fits(&whole(j, picks.count, &matrices), &others, writes)
    }

    /// Whether a choice is of what the last product makes.
    pub(super) fn chooses(&self, c: &Chosen) -> bool {
        let ([keys, rows, places, chosen], how) = (c.told(), c.choice.how);
        let made = [(places, 4 * u64::from(how.count)), (chosen, 2 * u64::from(how.count))];
        let over = |w: &Range| self.reads.iter().chain(&self.writes).any(|&r| super::meet(r, *w));
        let last = self.stages.len().checked_sub(1);
        self.picks.is_none()
            && self.group != VALUES
            && rows == 1
            && c.choice.dtype == self.dtype
            && self.stages.len() < STAGES
            && last.is_some()
            && self.maker(keys, 2 * u64::from(c.choice.n)) == last
            && !made.iter().any(over)
            && chain::chooses()
    }

    /// Has it be made before the next product.
    pub(super) fn choose(&mut self, c: &Chosen) {
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
    fn picks(&self, j: &Joined, picks: &Picks, reads: &[Range], writes: &[Range]) -> bool {
        let (Some((Picked::Within(choice), args)), Some(last)) = (&self.picks, self.stages.last()) else {
            return false;
        };
        let (x, count) = ((j.x, 2 * j.k as u64), i64::from(choice.how.count));
        let known = |r: &Range| *r == x || *r == (args.places, 4 * count as u64);
        let foreign = |r: &Range| !known(r) && self.writes.iter().any(|&w| super::meet(*r, w));
        let over = |w: &Range| self.reads.iter().chain(&self.writes).any(|&r| super::meet(r, *w));
        args.stage as usize == self.stages.len()
            && (last.kept, i64::from(last.k)) == (j.x, j.k)
            && (picks.indices.0, picks.count, picks.share) == (args.places, count, count)
            && i64::from(choice.n) <= picks.matrices
            && !reads.iter().any(foreign)
            && !writes.iter().any(over)
    }

    /// Adds such a product.
    fn add_picks(&mut self, j: &Joined, (mut made, kind): (Stage, u32), reads: &[Range], writes: &[Range]) {
        if let Some(last) = self.stages.last() {
            (made.x, made.x_tag, made.eps) = (last.x, last.x_tag, last.eps);
        }
        self.push(j, made, reads, writes);
        // Numbers that are none come out of a normalised row as they are.
        self.mark(kind | SAME | 1);
    }

    /// Adds such a sum.
    fn add_sum(
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

/// The group of codes of such products, if a chain takes them.
fn group(enc: &CommandEncoder, j: &Joined, picks: &Picks) -> Option<u32> {
    let device = enc.device();
    let format = j.format?;
    let one = j.m == 1 && j.norm.is_none() && j.kept.is_none() && j.added.is_empty();
    let sizes = [j.k, j.matrices[0].rows, picks.count];
    let taken = chain::picks(device.profile(), format, j.dtype, sizes, j.combined.is_some());
    (one && device.warpgroups() && taken && stream::knows(j.dtype, j.after)).then_some(format.group)
}

/// Begins a chain with what is picked, or adds the sum of what it makes to it; whether it did.
pub fn run(enc: &mut CommandEncoder, j: &Joined, reads: &[Range], writes: &[Range]) -> Result<bool> {
    let Some(picks) = j.picks else { return Ok(false) };
    let of_one = picks.share == if j.combined.is_some() { 1 } else { picks.count };
    let Some(group) = group(enc, j, &picks).filter(|_| of_one) else { return Ok(false) };
    let units = enc.device().profile().features.units;
    let Some((made, kind)) = picked_stage(j, picks.count, group, units) else { return Ok(false) };
    let matrices = long(j, picks.count);
    let whole = whole(j, picks.count, &matrices);
    enc.describe(2.0 * (whole.rows() * whole.k) as f64, &[picks.count, j.m, j.rows(), j.k]);
    let mut args = PickArgs {
        places: picks.indices.0,
        matrices: picks.matrices as u32,
        signed: u32::from(picks.indices.1),
        ..PickArgs::default()
    };
    if let Some(c) = j.combined {
        if c.each != picks.count {
            return Ok(false);
        }
        let alike = |chain: &Chained| chain.dtype == j.dtype && chain.group == group;
        let fits = |chain: &Chained| alike(chain) && chain.sums(j, &picks, c, reads, writes);
        let add = |chain: &mut Chained| chain.add_sum(&whole, c, (made, kind), reads, writes);
        if enc.extend(reads, writes, fits, add)? {
            return Ok(true);
        }
        args.chosen = c.weights;
    } else if within(enc, &whole, &picks, (made, kind), [reads, writes])?
        || chosen(enc, &whole, &picks, (made, kind), args, [reads, writes])?
    {
        return Ok(true);
    }
    let wide = j.combined.is_some_and(|c| c.wide);
    let picked = Picked::Stored { count: picks.count as u32, wide };
    begin(enc, &whole, (made, kind), (picked, args), [reads, writes])?;
    Ok(true)
}

/// Adds the product to the chain that made its row and the choice; whether it did.
fn within(
    enc: &mut CommandEncoder,
    whole: &Joined,
    picks: &Picks,
    made: (Stage, u32),
    [reads, writes]: [&[Range]; 2],
) -> Result<bool> {
    let group = whole.format.map_or(0, |f| f.group);
    let alike = |chain: &Chained| chain.dtype == whole.dtype && i64::from(chain.group) == i64::from(group);
    let fits = |chain: &Chained| alike(chain) && chain.picks(whole, picks, reads, writes);
    enc.extend(reads, writes, fits, |chain: &mut Chained| chain.add_picks(whole, made, reads, writes))
}

/// Begins a chain with the choice of what is picked, if that is held back; whether it is.
fn chosen(
    enc: &mut CommandEncoder,
    whole: &Joined,
    picks: &Picks,
    made: (Stage, u32),
    args: PickArgs,
    [reads, writes]: [&[Range]; 2],
) -> Result<bool> {
    let sizes = [picks.count, picks.share, picks.matrices];
    let Some(Within { choice, keys, chosen }) = choice::held(enc, args.places, sizes) else {
        return Ok(false);
    };
    if choice.dtype != whole.dtype {
        return Ok(false);
    }
    let Some([mut read, mut written]) = choice::take(enc, args.places) else { return Ok(false) };
    read.extend(reads.iter().copied().filter(|r| r.0 != args.places));
    written.extend_from_slice(writes);
    let args = PickArgs { keys, chosen, ..args };
    let begun = begin(enc, whole, made, (Picked::Chosen(choice), args), [&read, &written]);
    begun.inspect_err(|e| enc.fail(e)).map(|()| true)
}

/// Holds back a chain of what is picked and the first product by it.
fn begin(
    enc: &mut CommandEncoder,
    whole: &Joined,
    (made, kind): (Stage, u32),
    (picked, args): (Picked, PickArgs),
    [reads, writes]: [&[Range]; 2],
) -> Result<()> {
    let words = words(enc)?;
    let mut written: SmallVec<[Range; 16]> = writes.into();
    written.push((words.0, PRODUCTS as u64));
    let group = whole.format.map_or(0, |f| f.group);
    let mut chain = Chained::new(group, whole.dtype, enc.device().profile().features.units, words);
    chain.late.extend([args.keys, args.places, args.chosen]);
    chain.picks = Some((picked, args));
    chain.push(whole, made, reads, &written);
    chain.mark(kind);
    enc.hold(Box::new(chain), reads, &written)
}

#[cfg(test)]
impl Chained {
    /// Begins with the product by what is picked.
    pub(super) fn begin_picked(&mut self, j: &Joined) {
        let count = j.picks.expect("picks").count;
        let (made, kind) = picked_stage(j, count, self.group, self.workgroups).expect("a stage");
        let matrices = long(j, count);
        let whole = whole(j, count, &matrices);
        let written = (j.results[0], 2 * whole.matrices[0].rows as u64);
        self.push(&whole, made, &[(j.x, 2 * whole.k as u64)], &[written]);
        self.mark(kind);
    }

    /// Adds the product by what was chosen amid the others.
    pub(super) fn follow_by_picks(&mut self, j: &Joined) {
        let picks = j.picks.expect("picks");
        let made = picked_stage(j, picks.count, self.group, self.workgroups).expect("a stage");
        let matrices = long(j, picks.count);
        let whole = whole(j, picks.count, &matrices);
        let writes = [(j.results[0], 2 * whole.matrices[0].rows as u64)];
        let reads = [(j.x, 2 * j.k as u64), (picks.indices.0, 4 * picks.count as u64)];
        assert!(self.picks(&whole, &picks, &reads, &writes));
        self.add_picks(&whole, made, &reads, &writes);
    }

    /// Adds the sum of what they make, if it fits; whether it did.
    pub(super) fn follow_by_sum(&mut self, j: &Joined) -> bool {
        let (picks, c) = (j.picks.expect("picks"), j.combined.expect("a sum"));
        let (reads, writes) =
            ([(j.x, 2 * (picks.count * j.k) as u64)], [(j.results[0], 2 * j.rows() as u64)]);
        let made = picked_stage(j, picks.count, self.group, self.workgroups).expect("a stage");
        let fits = self.sums(j, &picks, c, &reads, &writes);
        let matrices = long(j, picks.count);
        self.add_sum(&whole(j, picks.count, &matrices), c, made, &reads, &writes);
        fits
    }
}

//! A chain of products of one row with the matrices that it picks, and of those of what they make, weighed and added up, as products of one
//! long matrix each. Which ones are picked is chosen there, where the choice is held back, or read. Called by `qmm_joined`
//! (MLX_VK_DISABLE=qmm_chain_picked: `few_picked` and shaders).

mod biases;
mod check;
mod columns;
mod made;
#[cfg(test)]
mod tests;
pub mod text;
#[cfg(test)]
mod within_tests;

use smallvec::SmallVec;

use self::made::{long, picked_stage, whole};
use self::text::Picked;
use super::{Chained, PRODUCTS, PickArgs, Range, Stage, words};
use crate::core::Result;
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::quantized::qmm_joined::{Joined, Picks};
use crate::vulkan::kernels::quantized::stream;
use crate::vulkan::kernels::sort::choice::{self, Within};
use crate::vulkan::tune::quantized::chain::{self, Kind};

/// The codes of such products, if a chain takes them.
fn codes(enc: &CommandEncoder, j: &Joined, picks: &Picks) -> Option<Kind> {
    let device = enc.device();
    let format = j.format?;
    // What is added to each product belongs to those that are summed up.
    let added = j.added.is_empty() || j.combined.is_some();
    let one = j.m == 1 && j.norm.is_none() && j.kept.is_none() && added;
    let sizes = [j.k, j.matrices[0].rows, picks.count];
    let taken = chain::picks(device.profile(), format, j.dtype, sizes, j.combined.is_some());
    (one && device.warpgroups() && taken && stream::knows(j.dtype, j.after)).then(|| Kind::of(j.format))
}

/// Begins a chain with what is picked, or adds the sum of what it makes to it; whether it did.
pub fn run(enc: &mut CommandEncoder, j: &Joined, reads: &[Range], writes: &[Range]) -> Result<bool> {
    let Some(picks) = j.picks else { return Ok(false) };
    let of_one = picks.share == if j.combined.is_some() { 1 } else { picks.count };
    let Some(holds) = codes(enc, j, &picks).filter(|_| of_one) else { return Ok(false) };
    let units = enc.device().profile().features.units;
    let matrices = long(j, picks.count);
    let whole = whole(j, picks.count, &matrices);
    let Some(made) = picked_stage(j, &whole, holds, units) else { return Ok(false) };
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
        let fits = |chain: &Chained| chain.alike(j) && chain.sums(&whole, &picks, c, reads, writes);
        let add = |chain: &mut Chained| chain.add_sum(&whole, c, made, reads, writes);
        if enc.extend(reads, writes, fits, add)? {
            return Ok(true);
        }
        args.chosen = c.weights;
    } else if within(enc, &whole, &picks, made, [reads, writes])?
        || chosen(enc, &whole, &picks, made, args, [reads, writes])?
    {
        return Ok(true);
    }
    let wide = j.combined.is_some_and(|c| c.wide);
    let picked = Picked::Stored { count: picks.count as u32, wide };
    begin(enc, &whole, made, (picked, args), [reads, writes])?;
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
    let fits = |chain: &Chained| chain.alike(whole) && chain.picks(whole, picks, reads, writes);
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
    let Some(Within { choice, keys, chosen }) = choice::held(enc, args.places, sizes, writes) else {
        return Ok(false);
    };
    if choice.dtype != whole.dtype {
        return Ok(false);
    }
    let Some([read, written]) = choice::take(enc, args.places, [reads, writes]) else { return Ok(false) };
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
    let mut chain = Chained::new(whole.dtype, enc.device().profile().features.units, words);
    chain.late.extend([args.keys, args.places, args.chosen]);
    chain.picks = Some((picked, args));
    chain.push(whole, made, reads, &written);
    chain.mark(kind);
    enc.hold(Box::new(chain), reads, &written)
}

//! Pattern: the choice of experts. Places of the largest (or least) elements of short rows, by a sort of which a part is
//! kept, and numbers at those places; with the softmax of the row before, and what the numbers are divided by, or their own
//! softmax, behind, or with elementwise steps around it (`routers`).

use smallvec::{SmallVec, smallvec};

use super::plan::{Free, Join, Members, Work};
use super::routers::{At, Joined};
use super::{device, routers};
use crate::core::{Array, Dtype, Primitive, Result, Stream};
use crate::kernels::Inst;
use crate::kernels::elementwise::table::op;
use crate::kernels::sort::around::MAX_OTHERS;
use crate::kernels::sort::{Around, Followed, Selection};
use crate::on_gpu;
use crate::ops::elementwise::instruction;
use crate::ops::index::indexing::takes_along;
use crate::ops::reduce::is_softmax;
use crate::ops::sort::places_along;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
use crate::ops::view::{begins_along, is_stop_gradient};
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::{elementwise::dense, sort::select};

pub(super) type Steps = SmallVec<[usize; 8]>;
/// Where arrays beside the rows are.
type Others = SmallVec<[At; MAX_OTHERS]>;

/// Steps behind the order of a row in which its numbers are taken: all that experts do may stand between, where a graph is
/// walked depth first.
pub(super) const REACH: usize = 64;

struct Chosen {
    how: Selection,
    /// The step and the number of its input that rows are ranked by.
    keys: At,
    /// The same of the numbers, where they are others.
    numbers: Option<At>,
    /// Steps around the choice.
    around: Option<(Around, Others)>,
}

/// What the numbers are, for a row of keys that step `order` puts in order and step `take` reads.
struct Source {
    keys: At,
    numbers: Option<At>,
    softmax: bool,
    negated: bool,
    /// Steps that make the keys of the numbers.
    members: Steps,
    /// Those that make both of one row.
    before: Option<Joined>,
}

/// Whether a primitive is an elementwise operation, by its name.
pub(super) fn is(p: &dyn Primitive, name: &str) -> bool {
    instruction(p) == Some(Inst::Op(op(name)))
}

fn source(free: &Free, order: usize, take: usize, stream: Stream) -> Option<Source> {
    let (ranked, numbers) = (&free.node(order)?.inputs[0], &free.node(take)?.inputs[0]);
    let mut found = Source {
        keys: (order, 0),
        numbers: None,
        softmax: false,
        negated: false,
        members: Steps::new(),
        before: None,
    };
    if let Some((before, at)) = routers::before(free, order, take, stream) {
        (found.keys, found.members) = (at, before.members.clone());
        found.before = Some(before);
        return Some(found);
    }
    if !ranked.same(numbers) {
        let makes = |&m: &usize| {
            let node = free.node(m).filter(|n| n.stream == stream);
            node.is_some_and(|n| is(&*n.primitive, "negative") && n.inputs[0].same(numbers))
        };
        match free.maker(order, ranked).filter(|&m| free.only_used(m, 1)).filter(makes) {
            Some(m) => {
                (found.keys, found.negated) = ((m, 0), true);
                found.members.push(m);
            }
            None => {
                found.numbers = Some((take, 0));
                return Some(found);
            }
        }
    }
    let first = found.keys.0;
    let makes = |&m: &usize| free.node(m).is_some_and(|n| n.stream == stream && is_softmax(&*n.primitive));
    if let Some(m) = free.maker(first, numbers).filter(|&m| free.only_used(m, 2)).filter(makes) {
        (found.keys, found.softmax) = ((m, 0), true);
        found.members.push(m);
    }
    Some(found)
}

/// What becomes of the numbers of step `take`, and the steps that do it; the program of those, where it is more than a division.
/// Of `plain` numbers it is not: GPUs that take PTX choose among those together with other kernels.
fn followed(
    free: &Free,
    [order, take]: [usize; 2],
    plain: bool,
    stream: Stream,
) -> Option<(Followed, Steps, Option<Joined>)> {
    if let Some(j) = free.reader(take, stream)
        && is_softmax(&*free.node(j)?.primitive)
    {
        return Some((Followed::Softmax, smallvec![j], None));
    }
    let found = routers::behind(free, [order, take], plain, stream)?;
    let members = found.members.clone();
    if routers::divides(&found.program) {
        return Some((Followed::Divided, members, None));
    }
    Some((Followed::Steps, members, Some(found)))
}

/// What the kernel of a choice gets of steps around it, and where the other arrays are that those read.
fn around(before: Option<Joined>, behind: Option<Joined>) -> Option<(Around, Others)> {
    if before.is_none() && behind.is_none() {
        return None;
    }
    let both = || before.iter().chain(&behind).flat_map(|j| &j.others);
    let (others, spreads) = (both().map(|o| o.0).collect(), both().map(|o| o.1).collect());
    let [before, behind] = [before, behind].map(|j| j.map(|j| j.program));
    Some((Around { before, behind, others: spreads }, others))
}

/// The join that begins with the order of step `i`.
pub(super) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    let node = free.node(i).filter(|n| n.stream == stream)?;
    let ranked = &node.inputs[0];
    let axis = ranked.ndim().checked_sub(1)?;
    let float = |a: &Array| matches!(a.dtype(), Dtype::F32 | Dtype::F16 | Dtype::BF16);
    if places_along(&*node.primitive) != Some(axis)
        || !float(ranked)
        || !device::selects(stream, ranked.dim(-1), ranked.size() as i64)
    {
        return None;
    }
    let cut = free.reader(i, stream)?;
    let from = begins_along(&*free.node(cut)?.primitive, axis, free.array(i), free.array(cut))?;
    let mut members: Steps = smallvec![i, cut];
    let mut places = cut;
    if let Some(j) =
        free.reader(cut, stream).filter(|&j| free.node(j).is_some_and(|n| is_stop_gradient(&*n.primitive)))
    {
        members.push(j);
        places = j;
    }
    let takes = |j: &usize| {
        let node = free.node(*j).filter(|n| n.stream == stream && takes_along(&*n.primitive) == Some(axis));
        node.is_some_and(|n| {
            let numbers = &n.inputs[0];
            n.inputs[1].same(free.array(places)) && numbers.shape() == ranked.shape() && float(numbers)
        })
    };
    let take = free.following(places, REACH).find(takes)?;
    members.push(take);
    let source = source(free, i, take, stream)?;
    members.extend(source.members);
    let plain = source.before.is_none() && free.array(take).dtype() != Dtype::F32;
    let (mut chosen, mut after, mut behind) = (take, Followed::Nothing, None);
    if let Some((what, steps, program)) = followed(free, [i, take], plain, stream) {
        (after, behind) = (what, program);
        chosen = *steps.last()?;
        members.extend(steps);
    }
    let count = free.array(cut).dim(-1);
    let how = Selection {
        from: from as u32,
        count: count as u32,
        softmax: source.softmax,
        negated: source.negated,
        after,
    };
    let results: SmallVec<[usize; 3]> = smallvec![places, chosen];
    let at = free.place(&members, &results)?;
    let around = around(source.before, behind);
    if around.as_ref().is_some_and(|(_, others)| others.len() > MAX_OTHERS) {
        return None;
    }
    let work = Box::new(Chosen { how, keys: source.keys, numbers: source.numbers, around });
    Some(Join { at, members, results, work })
}

impl Work for Chosen {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let mut rows = |(step, input): At| {
                let v = dev_in(enc, &members[step].inputs[input])?;
                if v.is_row_contiguous() { Ok(v) } else { dense(enc, &v) }
            };
            let keys = rows(self.keys)?;
            let numbers = self.numbers.map(&mut rows).transpose()?;
            let others = self.around.iter().flat_map(|a| a.1.iter().copied()).map(rows);
            let others = others.collect::<Result<SmallVec<[_; MAX_OTHERS]>>>()?;
            let around = self.around.as_ref().map(|a| (a.0.clone(), &others[..]));
            let (places, chosen) = (dev_out(enc, &results[0])?, dev_out(enc, &results[1])?);
            select::select(enc, &keys, numbers.as_ref(), self.how, around, &places, &chosen)
        })
    }
}

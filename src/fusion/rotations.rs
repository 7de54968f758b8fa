//! Pattern: rotary embeddings of two arrays by the same angles (queries and keys), each with the normalisation of its rows; and
//! the caches that keys, and values beside them, are written to.

use smallvec::{SmallVec, smallvec};

use super::device;
use super::plan::{Free, Join, Members, REACH, Work, primitive};
use crate::core::{Array, Result, Stream};
use crate::on_gpu;
use crate::ops::fast::{Norm, Rope};
use crate::ops::index::slice_update::SliceUpdate;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
use crate::ops::view::transposed;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::attention::rope_rows;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::elementwise::dense;

/// An array that is rotated or copied.
struct Item {
    /// The step, and the number of its input.
    source: (usize, usize),
    /// Order of the source's axes in which it is rotated.
    axes: Option<SmallVec<[usize; 4]>>,
    /// What normalises the rows, and the epsilon.
    norm: Option<(usize, f32)>,
    rotated: bool,
    /// What writes the rows into a larger array.
    update: Option<usize>,
}

struct Rotations {
    /// A step that turns; the others do so in the same way.
    rope: usize,
    items: SmallVec<[Item; 3]>,
}

/// What step `i` turns, and the steps before it that are joined with it.
fn item(free: &Free, i: usize, x: &Array, stream: Stream) -> (Item, SmallVec<[usize; 2]>) {
    let plain = || {
        let item = Item { source: (i, 0), axes: None, norm: None, rotated: true, update: None };
        (item, SmallVec::new())
    };
    let Some(mut maker) = free.maker(i, x).filter(|&m| free.only_used(m, 1)) else { return plain() };
    let Some(node) = free.node(maker).filter(|n| n.stream == stream) else { return plain() };
    let (mut steps, mut axes): (SmallVec<[usize; 2]>, _) = (SmallVec::new(), None);
    if let Some(order) = transposed(&*node.primitive).filter(|o| o.last() == Some(&(o.len() - 1))) {
        steps.push(maker);
        axes = Some(SmallVec::from_slice(order));
        match free.maker(maker, &node.inputs[0]).filter(|&m| free.only_used(m, 1)) {
            Some(m) => maker = m,
            None => return plain(),
        }
    }
    let Some((norm, _)) = free.primitive::<Norm>(maker, stream) else { return plain() };
    if !norm.is_weighted_rms() {
        return plain();
    }
    steps.push(maker);
    (Item { source: (maker, 0), axes, norm: Some((maker, norm.eps)), rotated: true, update: None }, steps)
}

fn suits(x: &Array, rope: &Rope) -> bool {
    let features = x.dim(-1);
    rope.how.dims == features && device::joins_rotations(x.dtype(), features, x.size() as i64 / features)
}

/// Steps around `i` that write an array of the shape of `rows` into a slice.
fn updates<'a>(
    free: &'a Free,
    i: usize,
    rows: &'a Array,
    stream: Stream,
) -> impl Iterator<Item = (usize, &'a SliceUpdate, &'a Array)> {
    (i.saturating_sub(REACH)..free.behind(i).end).filter_map(move |j| {
        let (update, inputs) = free.primitive::<SliceUpdate>(j, stream)?;
        let fits = inputs[1].shape() == rows.shape()
            && inputs[1].dtype() == rows.dtype()
            && inputs[0].dtype() == rows.dtype()
            && inputs[0].ndim() == 4;
        fits.then_some((j, update, &inputs[1]))
    })
}

/// The join that begins with the rotation of step `i`.
pub(super) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    let (rope, inputs) = free.primitive::<Rope>(i, stream)?;
    let x = &inputs[0];
    if !suits(x, rope) {
        return None;
    }
    let (first, steps) = item(free, i, x, stream);
    let mut members: SmallVec<[usize; 8]> = smallvec![i];
    members.extend(steps);
    let mut items: SmallVec<[Item; 3]> = smallvec![first];
    let mut results: SmallVec<[usize; 3]> = smallvec![i];
    let partner = free.behind(i).find_map(|j| {
        let (other, reads) = free.primitive::<Rope>(j, stream)?;
        let y = &reads[0];
        let same = other == rope
            && inputs[1..].iter().zip(&reads[1..]).all(|(a, b)| a.same(b))
            && y.dtype() == x.dtype()
            && [0, 2, 3].iter().all(|&d| x.dim(d) == y.dim(d))
            && suits(y, rope);
        let (second, steps) = same.then(|| item(free, j, y, stream))?;
        let eps = |item: &Item| item.norm.map(|n| n.1);
        (eps(&items[0]) == eps(&second)).then_some((j, second, steps))
    });
    if let Some((j, second, steps)) = partner {
        members.push(j);
        members.extend(steps);
        items.push(second);
        results.push(j);
    }
    // The last one may be written to where it is kept, and another array of its shape beside it.
    let last = results.len() - 1;
    let made = free.array(results[last]);
    let kept = updates(free, results[last], made, stream).find(|u| u.2.same(made));
    if let Some((j, update, _)) = kept.filter(|_| free.only_used(results[last], 1)) {
        members.push(j);
        items[last].update = Some(j);
        results[last] = j;
        let beside = |u: &(usize, &SliceUpdate, &Array)| u.0 != j && u.1 == update && !u.2.same(made);
        if let Some((k, ..)) = updates(free, j, made, stream).find(beside) {
            members.push(k);
            items.push(Item { source: (k, 1), axes: None, norm: None, rotated: false, update: Some(k) });
            results.push(k);
        }
    }
    let reads = |k: usize| free.steps[k].node.as_ref().map_or(&[][..], |n| &n.inputs);
    let takes_result = |k: usize| reads(k).iter().any(|a| results.iter().any(|&r| free.array(r).same(a)));
    let at = free.place(&members, &results)?;
    let fits = members.len() > 1 && !members.iter().any(|&m| takes_result(m));
    let work = Box::new(Rotations { rope: i, items });
    fits.then_some(Join { at, members, results, work })
}

impl Work for Rotations {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        // INVARIANT: the step was found to be one.
        let rope = primitive::<Rope>(&members[self.rope]).expect("a rotation");
        on_gpu!(stream, |enc| {
            let mut items: SmallVec<[rope_rows::Item; 3]> = SmallVec::new();
            for (item, out) in self.items.iter().zip(results) {
                let mut src = dev_in(enc, &members[item.source.0].inputs[item.source.1])?;
                if let Some(axes) = &item.axes {
                    src = src.permute(axes);
                }
                if !rope_rows::reads(&src) {
                    src = dense(enc, &src)?;
                }
                let mut weight = None;
                if let Some((step, _)) = item.norm {
                    let w = dev_in(enc, &members[step].inputs[1])?;
                    weight = Some(if w.is_row_contiguous() { w } else { dense(enc, &w)? });
                }
                let part = match item.update {
                    Some(step) => {
                        let node = &members[step];
                        // INVARIANT: the step was found to be one.
                        let update = primitive::<SliceUpdate>(node).expect("an update");
                        update.target(enc, &node.inputs, out)?
                    }
                    None => dev_out(enc, out)?,
                };
                // Slices may lie any way.
                let fits = rope_rows::reads(&part);
                let dst = if fits { part.clone() } else { rope_rows::scratch(enc, &part)? };
                items.push(rope_rows::Item {
                    src,
                    weight,
                    dst,
                    part: (!fits).then_some(part),
                    rotated: item.rotated,
                });
            }
            let others = &members[self.rope].inputs;
            let view = |a: Option<&Array>, enc: &mut _| a.map(|a| dev_in(enc, a)).transpose();
            let (offsets, waves) = (view(rope.offsets(others), enc)?, view(rope.waves(others), enc)?);
            let eps = self.items.iter().find_map(|i| i.norm).map(|n| n.1);
            rope_rows::rope_rows(enc, &items, eps, offsets.as_ref(), waves.as_ref(), &rope.form())
        })
    }
}

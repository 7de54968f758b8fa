//! Pattern: rotary embeddings of two arrays by the same angles (queries and keys), each with the normalisation of its rows; the
//! caches that keys, and values beside them, are written to; and, of one position, the attention that reads them.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::device;
use super::plan::{Free, Join, Members, REACH, Work, primitive};
use super::products::row_products::product;
#[cfg(feature = "vulkan")]
use crate::core::Shape;
use crate::core::array::Node;
use crate::core::{Array, Result, Stream};
#[cfg(feature = "vulkan")]
use crate::kernels::DeviceView;
use crate::on_gpu;
use crate::ops::fast::{Attention, Norm, Rope};
use crate::ops::index::slice_update::SliceUpdate;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
use crate::ops::view::{begins_along, is_reshape, transposed};
#[cfg(feature = "vulkan")]
use crate::vulkan::CommandEncoder;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::attention::newest::{self, Newest};
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::attention::{attention, rope_rows};
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::elementwise::dense;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::quantized::front;

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
    attended: Option<Attended>,
}

/// Attention of one query a head over the caches.
struct Attended {
    step: usize,
    /// Steps that cut the keys and values that are there out of them.
    parts: [Option<usize>; 2],
    /// Where the newest are.
    place: i64,
    /// A product of one row takes its result that a kernel can have together with it.
    leads: bool,
}

/// Steps behind a rotation among which its attention is looked for: views of masks and of caches stand between.
const FAR: usize = 4 * REACH;
/// Views between attention and what reads it.
const VIEWS: usize = 3;

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
    let (features, dims) = (x.dim(-1), rope.how.dims);
    // Those that stay as they are come in pairs, too.
    let pairs = dims == features || features % 2 == 0 && dims % 2 == 0 && (1..features).contains(&dims);
    pairs && device::joins_rotations(x.dtype(), features, x.size() as i64 / features)
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

/// Whether a kernel that begins with the attention of step `i` can have the product that takes its result, behind views of it.
fn leads(free: &Free, mut i: usize, stream: Stream) -> bool {
    for _ in 0..=VIEWS {
        let Some(reader) = free.first_reader(i, stream, REACH) else { return false };
        if let Some(p) = product(free, reader, stream) {
            let sizes = [p.x.dim(-1), free.array(reader).dim(-1)];
            return p.indices.is_none() && device::leads(stream, p.format, p.x.dtype(), sizes);
        }
        let view = |n: &&Arc<Node>| transposed(&*n.primitive).is_some() || is_reshape(&*n.primitive);
        if free.node(reader).filter(view).is_none() {
            return false;
        }
        i = reader;
    }
    false
}

/// The attention of one query a head that alone reads the turned queries, and of keys and values which updates write to, or the part of them
/// up to the newest and behind it.
fn attended(free: &Free, [q, k, v]: [usize; 3], stream: Stream) -> Option<Attended> {
    if !device::joins_attention() {
        return None;
    }
    let step = free.reader_within(q, stream, FAR)?;
    let (_, reads) = free.primitive::<Attention>(step, stream)?;
    let (update, writes) = free.primitive::<SliceUpdate>(k, stream)?;
    let place = update.begins_along(2, &writes[0], &writes[1])?;
    let one = reads[0].same(free.array(q)) && reads[0].dim(2) == 1 && place < reads[1].dim(2);
    let part = |a: &Array, cache: usize| {
        if a.same(free.array(cache)) {
            return Some(None);
        }
        let cut = free.maker_within(step, a, FAR).filter(|&m| free.only_used(m, 1))?;
        let node = free.node(cut).filter(|n| n.inputs[0].same(free.array(cache)))?;
        (begins_along(&*node.primitive, 2, &node.inputs[0], a) == Some(0)).then_some(Some(cut))
    };
    let parts = [part(&reads[1], k)?, part(&reads[2], v)?];
    let leads = || reads[0].dim(0) == 1 && leads(free, step, stream);
    one.then(|| Attended { step, parts, place, leads: leads() })
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
    if members.len() == 1 || members.iter().any(|&m| takes_result(m)) {
        return None;
    }
    if let Some(a) = results.first_chunk().and_then(|&found| attended(free, found, stream)) {
        let mut all = members.clone();
        all.push(a.step);
        all.extend(a.parts.into_iter().flatten());
        let results: SmallVec<[usize; 3]> = smallvec![a.step, results[1], results[2]];
        if let Some(at) = free.place(&all, &results) {
            let work = Box::new(Rotations { rope: i, items, attended: Some(a) });
            return Some(Join { at, members: all, results, work });
        }
    }
    let at = free.place(&members, &results)?;
    let work = Box::new(Rotations { rope: i, items, attended: None });
    Some(Join { at, members, results, work })
}

/// What is turned or copied, where to, and all of the array that is updated, if one is.
#[cfg(feature = "vulkan")]
struct Turn {
    item: rope_rows::Item,
    cache: Option<DeviceView>,
}

#[cfg(feature = "vulkan")]
impl Rotations {
    /// The array of an item on the device, and what its rows are normalised with.
    fn source(
        &self,
        enc: &mut CommandEncoder,
        item: &Item,
        members: &Members,
    ) -> Result<(DeviceView, Option<DeviceView>)> {
        let mut src = dev_in(enc, &members[item.source.0].inputs[item.source.1])?;
        if let Some(axes) = &item.axes {
            src = src.permute(axes);
        }
        if !rope_rows::reads(&src) {
            src = dense(enc, &src)?;
        }
        let Some((step, _)) = item.norm else { return Ok((src, None)) };
        let w = dev_in(enc, &members[step].inputs[1])?;
        Ok((src, Some(if w.is_row_contiguous() { w } else { dense(enc, &w)? })))
    }

    fn turn(
        &self,
        enc: &mut CommandEncoder,
        item: &Item,
        members: &Members,
        out: Option<&Array>,
    ) -> Result<Turn> {
        let (src, weight) = self.source(enc, item, members)?;
        let (mut cache, mut part) = (None, None);
        let dst = match (item.update, out) {
            (Some(step), Some(out)) => {
                let node = &members[step];
                // INVARIANT: the step was found to be one.
                let update = primitive::<SliceUpdate>(node).expect("an update");
                let [all, to] = update.target(enc, &node.inputs, out)?;
                cache = Some(all);
                // Slices may lie any way.
                if rope_rows::reads(&to) {
                    to
                } else {
                    let dst = rope_rows::scratch(enc, &to)?;
                    part = Some(to);
                    dst
                }
            }
            (_, Some(out)) => dev_out(enc, out)?,
            // Queries that attention turns itself, or that get memory then.
            (_, None) => src.clone(),
        };
        let rotated = item.rotated;
        Ok(Turn { item: rope_rows::Item { src, weight, dst, part, rotated }, cache })
    }
}

impl Work for Rotations {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        // INVARIANT: the step was found to be one.
        let rope = primitive::<Rope>(&members[self.rope]).expect("a rotation");
        on_gpu!(stream, |enc| {
            let mut turns: SmallVec<[Turn; 3]> = SmallVec::new();
            for (n, (item, out)) in self.items.iter().zip(results).enumerate() {
                // The first result is attention's, where that is joined, and not the queries.
                let own = (n > 0 || self.attended.is_none()).then_some(out);
                turns.push(self.turn(enc, item, members, own)?);
            }
            let others = &members[self.rope].inputs;
            let view = |a: Option<&Array>, enc: &mut _| a.map(|a| dev_in(enc, a)).transpose();
            let (offsets, waves) = (view(rope.offsets(others), enc)?, view(rope.waves(others), enc)?);
            let (offsets, waves) = (offsets.as_ref(), waves.as_ref());
            let eps = self.items.iter().find_map(|i| i.norm).map(|n| n.1);
            let form = rope.form();
            let Some(attended) = &self.attended else {
                let items: SmallVec<[_; 3]> = turns.into_iter().map(|t| t.item).collect();
                return rope_rows::rope_rows(enc, &items, eps, offsets, waves, &form);
            };
            let node = &members[attended.step];
            // INVARIANT: the step was found to be one.
            let op = primitive::<Attention>(node).expect("attention");
            let (mask, sinks) = (view(op.mask(&node.inputs), enc)?, view(op.sinks(&node.inputs), enc)?);
            let (mask, sinks) = (mask.as_ref(), sinks.as_ref());
            // INVARIANT: an item each for queries, keys and values, of which the last two are updated.
            let [q, k, v] = &turns[..] else { unreachable!("three items") };
            // The first of all that the caches have room for.
            let first = |t: &Turn, part: &Array| {
                let cache = t.cache.clone().expect("a cache");
                DeviceView { shape: Shape::from_slice(part.shape()), ..cache }
            };
            let (keys, values) = (first(k, &node.inputs[1]), first(v, &node.inputs[2]));
            let dst = dev_out(enc, &results[0])?;
            let kept = |t: &Turn| t.item.part.as_ref().unwrap_or(&t.item.dst).clone();
            let (key, value) = (kept(k), kept(v));
            let newest = Newest {
                key: [&k.item.src, &key],
                value: [&v.item.src, &value],
                weights: [q, k].map(|t| t.item.weight.as_ref()),
                eps,
                offsets,
                waves,
                form,
                // FITS: below the number of keys.
                place: attended.place as u32,
            };
            let how = (op.scale, op.causal);
            let qkv = [&q.item.src, &keys, &values];
            if attended.leads && front::attention(enc, qkv, (mask, sinks), how.0, &dst, &newest)?
                || newest::attention(enc, qkv, (mask, sinks), how, &dst, &newest)?
            {
                return Ok(());
            }
            let q = rope_rows::scratch(enc, &q.item.src)?;
            turns[0].item.dst = q.clone();
            let items: SmallVec<[_; 3]> = turns.into_iter().map(|t| t.item).collect();
            rope_rows::rope_rows(enc, &items, eps, offsets, waves, &form)?;
            attention(enc, [&q, &keys, &values], mask, sinks, op.scale, op.causal, &dst)
        })
    }
}

//! Pattern: picked experts of tokens. The last products, with their biases, times the weights of their picks and summed up
//! over the picks of each token, with what follows, are one kernel. Picks of many tokens are sorted by models first, rows of
//! x and indices with them, and what the experts give is put back into the order of tokens: kernels whose workgroups lie so
//! that a matrix which is picked twice is read once need no order, so that all this goes, and the whole is two kernels.

use smallvec::{SmallVec, smallvec};

use super::following::following;
#[cfg(feature = "vulkan")]
use super::picked_biases::dev_read;
use super::picked_biases::{Indices, PickedBias, picked_bias};
use super::row_products::{Input, Picked, Product, Products, product, together};
#[cfg(feature = "vulkan")]
use super::row_products::{Range, dev_row, matrix};
use crate::core::{Array, Dtype, Result, Stream};
use crate::fusion::device;
use crate::fusion::plan::{Free, Join, Members, Work};
use crate::fusion::selections::is;
use crate::kernels::Inst;
use crate::kernels::matmul::epilogue::KeptAfter;
use crate::kernels::quantized::quant::Format;
use crate::on_gpu;
use crate::ops::elementwise::composed::widens_product;
use crate::ops::elementwise::{instruction, scalar_bits};
use crate::ops::index::indexing::takes_rows;
use crate::ops::quantized::quantized_matmul::QuantizedMatmul;
use crate::ops::reduce::sums_along;
use crate::ops::sort::places_along;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
use crate::ops::view::{is_broadcast, is_reshape};
#[cfg(feature = "vulkan")]
use crate::vulkan::{CommandEncoder, kernels::quantized::qmm_joined};

type Steps = SmallVec<[usize; 8]>;

/// Steps around a product in which what belongs to it stands: all that experts do may stand between, where a graph is
/// walked depth first.
const REACH: usize = 64;

/// Products of picked matrices that are weighed and summed up.
struct Combined {
    format: Format,
    product: usize,
    picked: Picked,
    weights: Input,
    /// A table whose rows are added to products before they are weighed.
    bias: Option<Input>,
    /// Weights are float32, and so are weighed products; their sum is not.
    wide: bool,
    /// Picks of a token.
    each: i64,
    after: Option<KeptAfter>,
    arrays: SmallVec<[Input; 2]>,
}

/// A sum, its steps and the one that gives the result.
struct Found {
    sum: Combined,
    members: Steps,
    result: usize,
}

/// Steps that put rows and indices into the order of the indices, and back.
struct Order {
    members: Steps,
    /// Rows and indices as they were, and how many indices have one row.
    x: Input,
    indices: Input,
    share: i64,
    /// The places at which the picks are found again.
    inverse: Array,
}

/// Sorted picks: the products before the last one, and the sum.
struct Sorted {
    unit: Products,
    sum: Combined,
}

/// What weighs products: steps up to there.
struct Weighed {
    /// The step that weighs, and the one whose array it takes.
    scaled: usize,
    made: usize,
    members: Steps,
    bias: Option<Input>,
    /// Products are float32 there.
    wide: bool,
}

/// Whether step `j` converts to a dtype.
fn casts(free: &Free, j: usize, to: Dtype) -> bool {
    let cast = free.node(j).is_some_and(|n| instruction(&*n.primitive) == Some(Inst::Cast));
    cast && free.array(j).dtype() == to
}

/// The array that is weighed and what weighs it: each element of one row of weights goes with a row of products.
fn weighed(free: &Free, j: usize, made: &Array) -> Option<(Input, Steps)> {
    let node = free.node(j)?;
    let place = node.inputs.iter().position(|a| a.same(made))?;
    if !is(&*node.primitive, "multiply") && widens_product(&*node.primitive) != Some(place) {
        return None;
    }
    let mut from = (j, 1 - place);
    let mut weights = &node.inputs[from.1];
    let mut members: Steps = smallvec![j];
    let repeats =
        |b: &usize| free.node(*b).is_some_and(|n| n.stream == node.stream && is_broadcast(&*n.primitive));
    if let Some(b) = free.maker_within(j, weights, REACH).filter(repeats).filter(|&b| free.only_used(b, 1)) {
        from = (b, 0);
        weights = &free.node(b)?.inputs[0];
        members.push(b);
    }
    let outer = made.ndim().checked_sub(1)?;
    let fits = weights.ndim() == made.ndim()
        && weights.shape()[..outer] == made.shape()[..outer]
        && weights.dim(-1) == 1
        && weights.dtype() == free.array(j).dtype()
        && free.array(j).shape() == made.shape();
    fits.then_some((from, members))
}

/// What is added to the products of step `at` by step `j`, if that is all it does.
fn biased(free: &Free, last: &Product, at: usize, j: usize, stream: Stream) -> Option<PickedBias> {
    let (made, out) = (free.array(at), free.array(j));
    let node = free.node(j).filter(|n| is(&*n.primitive, "add"))?;
    let input = node.inputs.iter().position(|a| !a.same(made))?;
    let alike = out.shape() == made.shape() && out.dtype() == made.dtype();
    picked_bias(free, (j, input), Indices::of(free, last).filter(|_| alike)?, made, stream)
}

/// The steps between the products of `last` and what weighs them: a bias, the return to the order of tokens by `inverse`, a conversion.
fn up_to_weights(free: &Free, last: &Product, inverse: Option<&Array>, stream: Stream) -> Option<Weighed> {
    let (product, count) = (last.steps[0], last.indices?.size() as i64);
    let mut members = last.steps.iter().copied().collect::<Steps>();
    let (mut at, mut returned, mut wide, mut bias) = (product, inverse.is_none(), false, None);
    let narrow = free.array(product).dtype();
    loop {
        let j = free.reader_within(at, stream, REACH)?;
        let node = free.node(j)?;
        let back = |inverse: &Array| {
            takes_rows(&*node.primitive)
                && node.inputs[0].same(free.array(at))
                && node.inputs[1].same(inverse)
                && free.array(at).shape()[0] == count
        };
        if !returned && inverse.is_some_and(back) {
            returned = true;
        } else if !wide && casts(free, j, Dtype::F32) && narrow != Dtype::F32 {
            wide = true;
        } else if !is_reshape(&*node.primitive) {
            // Rows are those of the products' own order.
            let early = bias.is_none() && !wide && returned == inverse.is_none();
            let Some(found) = early.then(|| biased(free, last, at, j, stream)).flatten() else {
                // Of many elements the conversion is part of the product with the weights.
                let wide = wide || widens_product(&*node.primitive).is_some();
                return returned.then_some(Weighed { scaled: j, made: at, members, bias, wide });
            };
            bias = Some(found.table);
            members.extend(found.steps);
        }
        members.push(j);
        at = j;
    }
}

/// What weighs the products of `last` and adds them up, if nobody else reads them; with `inverse`, behind their return to
/// the order of tokens.
fn combined(free: &Free, last: &Product, inverse: Option<&Array>, stream: Stream) -> Option<Found> {
    let product = last.steps[0];
    let picked = last.picked(free).filter(|p| p.share == 1)?;
    let count = last.indices?.size() as i64;
    let narrow = free.array(product).dtype();
    let Weighed { scaled, made, mut members, bias, wide } = up_to_weights(free, last, inverse, stream)?;
    let made = free.array(made);
    let axis = made.ndim().checked_sub(2)?;
    let (each, columns) = (made.dim(-2), free.array(product).dim(-1));
    if made.dim(-1) != columns || each < 1 || count % each != 0 || !device::combines(stream, each) {
        return None;
    }
    let (weights, steps) = weighed(free, scaled, made)?;
    members.extend(steps);
    let sum = free.reader_within(scaled, stream, REACH)?;
    if sums_along(&*free.node(sum)?.primitive).is_none_or(|s| s.0 != axis)
        || free.array(sum).dtype() != free.array(scaled).dtype()
    {
        return None;
    }
    members.push(sum);
    let mut last_step = sum;
    if wide {
        last_step = free.reader_within(sum, stream, REACH).filter(|&j| casts(free, j, narrow))?;
        members.push(last_step);
    }
    let (mut result, mut follow, mut arrays) = (last_step, None, SmallVec::new());
    if let Some(f) = following(free, &[last_step], None, stream) {
        (result, follow, arrays) = (f.last(), Some(f.after), f.arrays);
        members.extend(f.steps);
    }
    let format = last.format?;
    let sum = Combined { format, product, picked, weights, bias, wide, each, after: follow, arrays };
    Some(Found { sum, members, result })
}

/// How the rows `x` and the indices of the products of step `i` were sorted; so many products read the rows.
fn order(free: &Free, i: usize, x: &Array, picks: &Array, products: usize) -> Option<Order> {
    let stream = free.node(i)?.stream;
    let made = |a: &Array| {
        free.maker_within(i, a, REACH).filter(|&m| free.node(m).is_some_and(|n| n.stream == stream))
    };
    let takes = |a: &Array| {
        let m = made(a)?;
        let node = free.node(m).filter(|n| takes_rows(&*n.primitive))?;
        Some((m, &node.inputs[0], &node.inputs[1]))
    };
    let (taken, indices, places) = takes(picks)?;
    let (rows, from, numbers) = takes(x).filter(|t| free.only_used(t.0, products))?;
    let sort = made(places).filter(|&m| free.only_used(m, 3))?;
    let divide = made(numbers).filter(|&m| free.only_used(m, 1))?;
    let node = free.node(divide).filter(|n| is(&*n.primitive, "floor_divide"))?;
    let share = scalar_bits(&node.inputs[1])? as i64;
    let ranks = |j: &usize| {
        let node =
            free.node(*j).filter(|n| n.stream == stream && n.inputs.first().is_some_and(|a| a.same(places)));
        node.is_some_and(|n| places_along(&*n.primitive) == Some(0))
    };
    let back = free.following(sort, REACH).find(ranks).filter(|&j| free.only_used(j, 1))?;
    let count = indices.size() as i64;
    let fits = places_along(&*free.node(sort)?.primitive) == Some(0)
        && [indices, places].iter().all(|a| a.ndim() == 1 && a.size() as i64 == count)
        && node.inputs[0].same(places)
        && node.inputs[0].dtype() == node.inputs[1].dtype()
        && share > 0
        && from.shape().first().is_some_and(|rows| rows * share == count)
        && from.size() as i64 * share == count * from.dim(-1);
    let members = smallvec![taken, rows, sort, divide, back];
    let inverse = free.array(back).clone();
    fits.then_some(Order { members, x: (rows, 0), indices: (taken, 0), share, inverse })
}

/// The products of step `i` and what follows, without the sort around them.
fn sorted(free: &Free, first: &Product, i: usize, stream: Stream) -> Option<Join> {
    // Most picks are not sorted.
    let picks = &free.node(i)?.inputs[first.picked(free)?.indices.1];
    let taken = free.maker_within(i, picks, REACH)?;
    if !takes_rows(&*free.node(taken)?.primitive) {
        return None;
    }
    let unit = together(free, i, stream)?;
    let mut work = unit.work;
    let mut picked = work.picked?;
    let [made] = unit.results[..] else { return None };
    let inputs = &free.node(i)?.inputs;
    let (x, indices) = (&inputs[0], &inputs[picked.indices.1]);
    let order = order(free, i, x, indices, work.products.len())?;
    let down = free.reader_within(made, stream, REACH)?;
    let last = product(free, down, stream)?;
    if !last.x.same(free.array(made)) || !last.indices.is_some_and(|p| p.same(indices)) {
        return None;
    }
    let mut found = combined(free, &last, Some(&order.inverse), stream)?;
    // The last product reads the indices too, and so does what took the rows that are added to products.
    let reads = work.products.len() + work.tables() + 1 + usize::from(found.sum.bias.is_some());
    if !free.only_used(order.indices.0, reads) {
        return None;
    }
    (picked.indices, picked.share) = (order.indices, order.share);
    found.sum.picked.indices = order.indices;
    (work.row, work.picked) = (order.x, Some(picked));
    let mut members = unit.members;
    members.extend(order.members);
    members.extend(found.members);
    let results: SmallVec<[usize; 3]> = smallvec![found.result];
    let at = free.place(&members, &results)?;
    Some(Join { at, members, results, work: Box::new(Sorted { unit: work, sum: found.sum }) })
}

/// The join that begins with the product of step `i`.
pub(in crate::fusion) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    // Most products pick nothing, which is sooner seen than that a kernel takes them.
    let (op, inputs) = free.primitive::<QuantizedMatmul>(i, stream)?;
    op.split(inputs).rhs?;
    let first = product(free, i, stream)?;
    let Some(Found { sum, members, result }) = combined(free, &first, None, stream) else {
        return sorted(free, &first, i, stream);
    };
    let results: SmallVec<[usize; 3]> = smallvec![result];
    let at = free.place(&members, &results)?;
    Some(Join { at, members, results, work: Box::new(sum) })
}

#[cfg(feature = "vulkan")]
impl Combined {
    /// Records the kernel over rows of x that lie there.
    fn record(&self, enc: &mut CommandEncoder, members: &Members, x: Range, to: Range) -> Result<()> {
        let mut reads: SmallVec<[Range; 16]> = smallvec![x];
        let inputs = &members[self.product].inputs;
        let weights = dev_row(enc, &members[self.weights.0].inputs[self.weights.1])?;
        reads.push(weights);
        let picks = self.picked.read(enc, members, &mut reads)?;
        let matrix = matrix(enc, Some(self.format), &inputs[1..], &mut reads)?;
        let mut results: SmallVec<[u64; 3]> = smallvec![to.0];
        let mut added: SmallVec<[u64; 1]> = SmallVec::new();
        if let Some((step, input)) = self.bias {
            let read = dev_read(enc, &members[step], input)?;
            added.push(read.0);
            reads.push(read);
        }
        for &(step, input) in &self.arrays {
            let read = dev_row(enc, &members[step].inputs[input])?;
            results.push(read.0);
            reads.push(read);
        }
        let joined = qmm_joined::Joined {
            format: Some(self.format),
            dtype: inputs[0].dtype(),
            m: 1,
            k: inputs[0].dim(-1),
            x: x.0,
            norm: None,
            kept: None,
            matrices: &[matrix],
            after: self.after,
            added: &added,
            results: &results,
            picks: Some(picks),
            combined: Some(qmm_joined::Combined { weights: weights.0, each: self.each, wide: self.wide }),
        };
        qmm_joined::run(enc, &joined, &reads, &[to])
    }
}

impl Work for Combined {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let x = dev_row(enc, &members[self.product].inputs[0])?;
            let to = (dev_out(enc, &results[0])?.ptr, results[0].nbytes() as u64);
            self.record(enc, members, x, to)
        })
    }
}

impl Work for Sorted {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let x = &members[self.sum.product].inputs[0];
            let rows = (enc.temp(x.nbytes().next_multiple_of(16))?, x.nbytes() as u64);
            self.unit.record(enc, members, &[rows])?;
            let to = (dev_out(enc, &results[0])?.ptr, results[0].nbytes() as u64);
            self.sum.record(enc, members, rows, to)
        })
    }
}

//! Pattern: products of one row with quantised or dense matrices: those of the same row, the normalisation that makes the row, and the
//! elementwise operations on the results. The same of few rows with quantised matrices, and of quantised matrices that are picked by
//! index, without the normalisation.

use smallvec::{SmallVec, smallvec};

use super::following::{Following, following};
#[cfg(feature = "vulkan")]
use super::halves::halved;
use super::halves::halves;
use super::picked_biases::Indices;
#[cfg(feature = "vulkan")]
use super::picked_biases::dev_read;
use super::row_biases::{biases, made_elsewhere};
use crate::core::layout::is_row_major;
use crate::core::{Array, Dtype, Result, Stream};
use crate::fusion::device;
use crate::fusion::plan::{Free, Join, Members, Work, primitive};
use crate::kernels::matmul::epilogue::{KeptAfter, MATRICES, Origin};
use crate::kernels::quantized::quant::Format;
use crate::on_gpu;
use crate::ops::fast::Norm;
use crate::ops::matmul::{AddMm, Matmul};
use crate::ops::quantized::quantized_matmul::QuantizedMatmul;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
use crate::ops::view::{is_broadcast, is_reshape};
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::quantized::qmm_joined;

/// An input of a step, by their numbers.
pub(in crate::fusion) type Input = (usize, usize);

pub(in crate::fusion) struct Products {
    /// None for dense matrices.
    format: Option<Format>,
    pub products: SmallVec<[usize; 3]>,
    /// The row.
    pub row: Input,
    /// Where matrices are picked by index.
    pub picked: Option<Picked>,
    /// Dense matrices, in the order of the products.
    dense: SmallVec<[Array; 3]>,
    norm: Option<Normalised>,
    after: Option<KeptAfter>,
    /// What `after` reads besides the products.
    arrays: SmallVec<[Input; 2]>,
    /// What is added to each product, if something is.
    biases: SmallVec<[Input; 3]>,
    /// The halves of the only matrix count as one each.
    halved: bool,
}

/// What makes the row of a join.
#[derive(Clone, Copy)]
struct Normalised {
    step: usize,
    eps: f32,
    /// Others read the row too, which is then the last result.
    kept: bool,
}

/// How the products of a join pick their matrices.
#[derive(Clone, Copy)]
pub(in crate::fusion) struct Picked {
    pub indices: Input,
    /// Matrices to choose from.
    pub matrices: i64,
    /// Indices that follow each other and have one row of x.
    pub share: i64,
}

/// Most products of matrices that are picked by index: the push block then holds the indices too.
const PICKED: usize = MATRICES - 1;

/// Steps before a product among which rows are repeated for its picks: a choice of experts stands between.
const TOKENS: usize = 64;

/// A product that the kernel can have.
pub(in crate::fusion) struct Product<'a> {
    /// How its matrix lies in memory.
    pub format: Option<Format>,
    /// The row, or rows, and the indices of the matrices where they are picked.
    pub x: &'a Array,
    row: Input,
    pub indices: Option<&'a Array>,
    /// A dense matrix, a row for each result.
    dense: Option<&'a Array>,
    /// What the step itself adds to the only row.
    bias: Option<Input>,
    /// The step itself, and reshapes of one row before and behind it, which nobody else needs.
    pub steps: SmallVec<[usize; 3]>,
    /// The one of them that gives the result.
    result: usize,
}

impl Product<'_> {
    /// Whether one kernel can have both.
    fn goes_with(&self, other: &Product) -> bool {
        let indices = match (self.indices, other.indices) {
            (Some(i), Some(j)) => i.same(j),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let biased = self.bias.is_some() == other.bias.is_some();
        indices && biased && self.format == other.format && self.x.same(other.x)
    }

    /// How its matrix is picked.
    pub fn picked(&self, free: &Free) -> Option<Picked> {
        let step = self.steps[0];
        let node = free.node(step)?;
        let op = primitive::<QuantizedMatmul>(node)?;
        let (matrices, _) = op.split(&node.inputs).picks()?;
        let share = self.indices?.size() as i64 * self.x.dim(-1) / self.x.size() as i64;
        Some(Picked { indices: (step, op.picks_at()?), matrices, share })
    }
}

/// The product of step `i`, if the kernel can have it.
pub(in crate::fusion) fn product<'a>(free: &Free<'a>, i: usize, stream: Stream) -> Option<Product<'a>> {
    quantized(free, i, stream).or_else(|| dense(free, i, stream))
}

/// Whether elements are there, in order.
pub(in crate::fusion) fn is_there(free: &Free, a: &Array) -> bool {
    free.is_there(a) && a.data().is_ok_and(|d| is_row_major(a.shape(), &d.strides))
}

fn quantized<'a>(free: &Free<'a>, i: usize, stream: Stream) -> Option<Product<'a>> {
    let (op, inputs) = free.primitive::<QuantizedMatmul>(i, stream)?;
    let parts = op.split(inputs);
    let dtype = parts.x.dtype();
    let (k, n) = (parts.x.dim(-1), parts.codes.dim(-2));
    let pays = match parts.rhs {
        Some(indices) => {
            let sizes = |(matrices, _)| [k, n, indices.size() as i64, matrices];
            parts.picks().is_some_and(|p| device::joins_picks(stream, op.format, dtype, sizes(p)))
        }
        None => {
            let rows = || parts.x.size() as i64 / k;
            parts.plain() && k > 0 && device::joins_products(stream, op.format, dtype, [rows(), k, n])
        }
    };
    let fits = op.transpose
        && pays
        && (!op.format.affine() || parts.scales.dtype() == dtype)
        && [Some(parts.codes), Some(parts.scales), parts.biases]
            .into_iter()
            .flatten()
            .all(|a| is_there(free, a));
    let mut product = Product {
        format: Some(op.format),
        x: parts.x,
        row: (i, 0),
        indices: parts.rhs,
        dense: None,
        bias: None,
        steps: smallvec![i],
        result: i,
    };
    if parts.rhs.is_some()
        && let Some((step, x)) = repeated(free, i, parts.x, stream)
    {
        (product.x, product.row) = (x, (step, 0));
        product.steps.push(step);
    }
    fits.then_some(product)
}

/// The step that repeats each row of `x` for picks that follow each other, for the product of step `i` alone, and its rows.
fn repeated<'a>(free: &Free<'a>, i: usize, x: &Array, stream: Stream) -> Option<(usize, &'a Array)> {
    let step = free.maker_within(i, x, TOKENS).filter(|&m| free.only_used(m, 1))?;
    let node = free.node(step).filter(|n| n.stream == stream && is_broadcast(&*n.primitive))?;
    let from = &node.inputs[0];
    let alike = from.shape().iter().zip(x.shape()).take_while(|(a, b)| a == b).count();
    let whole = from.ndim() == x.ndim() && from.ndim() > 2 && from.dim(-1) == x.dim(-1);
    let single = from.shape()[alike..].split_last().is_some_and(|(_, ones)| ones.iter().all(|&n| n == 1));
    (whole && single).then_some((step, from))
}

/// One row, or few, times a matrix that is the transposition of one whose rows lie in order.
fn dense<'a>(free: &Free<'a>, i: usize, stream: Stream) -> Option<Product<'a>> {
    let (inputs, bias) = match free.primitive::<Matmul>(i, stream) {
        Some((_, inputs)) => (inputs, None),
        None => (free.primitive::<AddMm>(i, stream).filter(|(op, _)| op.is_sum())?.1, Some((i, 2))),
    };
    let (mut x, view) = (&inputs[0], &inputs[1]);
    let (k, n) = (x.dim(-1), view.dim(-1));
    let sizes = || [x.size() as i64 / k, k, n];
    if k == 0 || view.ndim() != 2 || !device::joins_dense(stream, x.dtype(), sizes()) {
        return None;
    }
    if bias.is_some() && !(x.size() as i64 == k && device::adds_to_products(stream)) {
        return None;
    }
    let matrix = free.transposed(view).filter(|a| is_there(free, a))?;
    let start = matrix.data().ok()?.offset * matrix.dtype().size() as i64;
    if start % 16 != 0 {
        return None;
    }
    let (mut steps, mut result, mut row): (SmallVec<[usize; 3]>, _, _) = (smallvec![i], i, (i, 0));
    let is_reshape = |j: usize| {
        let node = free.node(j).filter(|n| n.stream == stream && is_reshape(&*n.primitive));
        node.map(|n| &n.inputs[0])
    };
    if let Some(before) = free.maker(i, x).filter(|&j| free.only_used(j, 1))
        && let Some(whole) = is_reshape(before)
    {
        x = whole;
        row = (before, 0);
        steps.push(before);
    }
    let mut behind = free.behind(i);
    if free.only_used(i, 1)
        && let Some(j) = behind.find(|&j| is_reshape(j).is_some_and(|a| a.same(free.array(i))))
    {
        result = j;
        steps.push(j);
    }
    Some(Product { format: None, x, row, indices: None, dense: Some(matrix), bias, steps, result })
}

/// What makes the rows of so many products that begin with `first`, the one of step `i`, and give so many results of a row.
fn normalised(
    free: &Free,
    i: usize,
    first: &Product,
    results: i64,
    products: usize,
    stream: Stream,
) -> Option<Normalised> {
    let step = free.maker(i, first.x).filter(|_| first.indices.is_none())?;
    let (norm, _) = free.primitive::<Norm>(step, stream)?;
    let k = first.x.dim(-1);
    let sizes = [first.x.size() as i64 / k, k, results];
    let kept = !free.only_used(step, products);
    // One row can be stored besides.
    let fits = norm.is_weighted_rms()
        && (sizes[0] == 1 || !kept)
        && device::takes_norm(stream, first.format, first.x.dtype(), sizes);
    fits.then_some(Normalised { step, eps: norm.eps, kept })
}

/// Products that are done together, beginning with that of a step.
pub(in crate::fusion) struct Together {
    /// The last step of them.
    at: usize,
    pub members: SmallVec<[usize; 8]>,
    pub results: SmallVec<[usize; 3]>,
    pub work: Products,
    /// There is more than one product alone.
    joins: bool,
}

/// The join that begins with the product of step `i`.
pub(in crate::fusion) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    let Together { at, members, results, work, joins } = together(free, i, stream)?;
    joins.then(|| Join { at, members, results, work: Box::new(work) })
}

/// What follows products, and the halves of the only one's results where it takes those.
fn after(
    free: &Free,
    all: &[Product],
    results: &[usize],
    stream: Stream,
) -> Option<(Following, Option<[usize; 2]>)> {
    if let [only] = all
        && only.indices.is_none()
        && let Some(both) = halves(free, only.result, stream)
        && let Some(f) = following(free, &both, None, stream)
    {
        return Some((f, Some(both)));
    }
    let few = all.len() <= 2;
    let found = few.then(|| following(free, results, Indices::of(free, &all[0]), stream)).flatten()?;
    Some((found, None))
}

/// Whether a row is read by a normalisation alone.
fn is_normalised(free: &Free, row: usize, stream: Stream) -> bool {
    let read = free.reader(row, stream).and_then(|j| free.primitive::<Norm>(j, stream));
    read.is_some_and(|(norm, _)| norm.is_weighted_rms())
}

/// The products that go with that of step `i`, and what is around them.
pub(in crate::fusion) fn together(free: &Free, i: usize, stream: Stream) -> Option<Together> {
    let first = product(free, i, stream)?;
    let (format, picked) = (first.format, first.indices.is_some());
    let most = if picked { PICKED } else { MATRICES };
    let (mut at, x) = (i, first.x);
    let mut all: SmallVec<[Product; 3]> = smallvec![first];
    // Few of those behind read the same, and a look at that is short.
    let reads = |j: usize| free.node(j).and_then(|n| n.inputs.first()).is_some_and(|a| a.same(x));
    for j in free.behind(i) {
        if all.len() < most
            && (picked || format.is_none() || reads(j))
            && let Some(other) = product(free, j, stream).filter(|p| p.goes_with(&all[0]))
        {
            all.push(other);
        }
    }
    let mut members: SmallVec<[usize; 8]> = all.iter().flat_map(|p| p.steps.iter().copied()).collect();
    let alone = members.len();
    let mut results: SmallVec<[usize; 3]> = all.iter().map(|p| p.result).collect();
    let (mut follow, mut arrays) = (None, SmallVec::new());
    let mut biased: SmallVec<[Input; 3]> = all.iter().filter_map(|p| p.bias).collect();
    if !biased.is_empty() {
        // What the products add may be made between them, or by them.
        at = free.place(&members, &results).filter(|_| made_elsewhere(free, &members, &biased))?;
    }
    let mut split = None;
    if biased.is_empty()
        && let Some((f, both)) = after(free, &all, &results, stream)
    {
        at = f.last();
        results = smallvec![at];
        (follow, arrays, split) = (Some(f.after), f.arrays, both);
        members.extend(f.steps.into_iter().chain(f.taken).chain(split.into_iter().flatten()));
    }
    let one = !picked && free.array(i).size() as i64 == free.array(i).dim(-1);
    if follow.is_none()
        && biased.is_empty()
        && one
        && device::adds_to_products(stream)
        && let Some(b) = biases(free, &results, stream)
        && let Some(place) = free.place(&[&members[..], &b.steps[..]].concat(), &b.steps)
    {
        (at, results, biased) = (place, b.steps, b.arrays);
        members.extend_from_slice(&results);
    }
    let n = all.iter().map(|p| free.array(p.result).dim(-1)).sum();
    let norm = normalised(free, i, &all[0], n, all.len(), stream).and_then(|n| {
        let with = |steps: &[usize]| steps.iter().copied().chain([n.step]).collect::<SmallVec<[usize; 8]>>();
        if n.kept {
            // One workgroup stores the row, and what follows the products of others would read it before.
            let reads = |&(step, k): &Input| free.node(step).is_some_and(|n| n.inputs[k].same(x));
            if biased.iter().chain(&arrays).any(reads) {
                return None;
            }
            at = free.place(&with(&members), &with(&results))?;
            results.push(n.step);
        }
        members.push(n.step);
        Some(n)
    });
    // Reshapes alone are no reason; a sum by itself is two kernels, and one where there are chains, which go on with a normalised result.
    let chained = || device::leads(stream, None, all[0].x.dtype(), [all[0].x.dim(-1), n]);
    let goes_on = || one && all.len() == 1 && format.is_none() && is_normalised(free, results[0], stream);
    let joins = all.len() > 1 || members.len() > alone || (all[0].bias.is_some() || goes_on()) && chained();
    let products = all.iter().map(|p| p.steps[0]).collect();
    let picked = all[0].picked(free);
    let row = all[0].row;
    let dense = all.iter().filter_map(|p| p.dense.cloned()).collect();
    let work = Products {
        format,
        products,
        row,
        picked,
        dense,
        norm,
        after: follow,
        arrays,
        biases: biased,
        halved: split.is_some(),
    };
    Some(Together { at, members, results, work, joins })
}

impl Work for Products {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let to = results.iter().map(|r| Ok((dev_out(enc, r)?.ptr, r.nbytes() as u64)));
            let to: SmallVec<[Range; 3]> = to.collect::<Result<_>>()?;
            self.record(enc, members, &to)
        })
    }
}

/// Address and bytes.
#[cfg(feature = "vulkan")]
pub(in crate::fusion) type Range = (u64, u64);

impl Products {
    /// Arrays of which a row belongs to each picked matrix.
    pub fn tables(&self) -> usize {
        self.after.map_or(0, |a| a.inputs.iter().filter(|o| matches!(o, Origin::Picked(_))).count())
    }
}

#[cfg(feature = "vulkan")]
impl Products {
    /// Records the kernel, whose results go to these places.
    pub fn record(
        &self,
        enc: &mut crate::vulkan::CommandEncoder,
        members: &Members,
        results: &[Range],
    ) -> Result<()> {
        let mut reads: SmallVec<[Range; 16]> = SmallVec::new();
        let (mut row, mut norm) = (&members[self.row.0].inputs[self.row.1], None);
        let (dtype, k) = (row.dtype(), row.dim(-1));
        if let Some(Normalised { step, eps, .. }) = self.norm {
            let inputs = &members[step].inputs;
            let weight = dev_row(enc, &inputs[1])?;
            reads.push(weight);
            (row, norm) = (&inputs[0], Some((weight.0, eps)));
        }
        let x = dev_row(enc, row)?;
        reads.push(x);
        let picks = self.picked.map(|p| p.read(enc, members, &mut reads)).transpose()?;
        let mut matrices: SmallVec<[qmm_joined::Matrix; 3]> = SmallVec::new();
        for (i, &p) in self.products.iter().enumerate() {
            let inputs = match self.dense.get(i) {
                Some(matrix) => std::slice::from_ref(matrix),
                None => &members[p].inputs[1..],
            };
            matrices.push(matrix(enc, self.format, inputs, &mut reads)?);
            if self.halved {
                matrices = halved(&matrices[0], &inputs[..parts_of(self.format)]);
            }
        }
        let kept = self.norm.filter(|n| n.kept).and(results.last());
        let own = results.len() - usize::from(kept.is_some());
        let mut to: SmallVec<[u64; 3]> = results[..own].iter().map(|r| r.0).collect();
        for &(step, input) in &self.arrays {
            let read = dev_read(enc, &members[step], input)?;
            to.push(read.0);
            reads.push(read);
        }
        let mut added: SmallVec<[u64; 3]> = SmallVec::new();
        for &(step, input) in &self.biases {
            let read = dev_row(enc, &members[step].inputs[input])?;
            added.push(read.0);
            reads.push(read);
        }
        let joined = qmm_joined::Joined {
            format: self.format,
            dtype,
            m: if picks.is_some() { 1 } else { row.size() as i64 / k },
            k,
            x: x.0,
            norm,
            kept: kept.map(|r| r.0),
            matrices: &matrices,
            after: self.after,
            results: &to,
            added: &added,
            picks,
            combined: None,
        };
        qmm_joined::run(enc, &joined, &reads, results)
    }
}

#[cfg(feature = "vulkan")]
impl Picked {
    /// What kernels read.
    pub fn read(
        &self,
        enc: &mut crate::vulkan::CommandEncoder,
        members: &Members,
        reads: &mut SmallVec<[Range; 16]>,
    ) -> Result<qmm_joined::Picks> {
        let indices = &members[self.indices.0].inputs[self.indices.1];
        let read = dev_row(enc, indices)?;
        reads.push(read);
        let Picked { matrices, share, .. } = *self;
        let signed = indices.dtype() == Dtype::I32;
        Ok(qmm_joined::Picks { indices: (read.0, signed), count: indices.size() as i64, matrices, share })
    }
}

/// Arrays that a matrix is.
#[cfg(feature = "vulkan")]
fn parts_of(format: Option<Format>) -> usize {
    format.map_or(1, |f| 2 + usize::from(f.affine()))
}

/// The parts of a matrix, which begin `inputs`.
#[cfg(feature = "vulkan")]
pub(in crate::fusion) fn matrix(
    enc: &mut crate::vulkan::CommandEncoder,
    format: Option<Format>,
    inputs: &[Array],
    reads: &mut SmallVec<[Range; 16]>,
) -> Result<qmm_joined::Matrix> {
    let mut parts = [0; 3];
    for (to, a) in parts.iter_mut().zip(&inputs[..parts_of(format)]) {
        let d = a.data()?;
        *to = enc.resident(&d.storage)?.wrapping_add_signed(d.offset * a.dtype().size() as i64);
        reads.push((*to, a.nbytes() as u64));
    }
    Ok(qmm_joined::Matrix { rows: inputs[0].dim(-2), parts })
}

/// Address and bytes of an array's elements in order, aligned to 16 bytes; copied if they do not lie so.
#[cfg(feature = "vulkan")]
pub(in crate::fusion) fn dev_row(enc: &mut crate::vulkan::CommandEncoder, a: &Array) -> Result<(u64, u64)> {
    let v = dev_in(enc, a)?;
    let fits = v.is_row_contiguous() && v.ptr.is_multiple_of(16);
    let ptr = if fits { v.ptr } else { crate::vulkan::kernels::elementwise::dense(enc, &v)?.ptr };
    Ok((ptr, a.nbytes() as u64))
}

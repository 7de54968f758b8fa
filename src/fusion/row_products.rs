//! Pattern: products of one row with quantised or dense matrices: those of the same row, the normalisation that makes the row, and the
//! elementwise operations on the results. The same of few rows with quantised matrices, and of quantised matrices that are picked by
//! index, without the normalisation.

use smallvec::{SmallVec, smallvec};

use super::device;
use super::plan::{Free, Join, Members, Work, primitive};
use crate::core::layout::is_row_major;
use crate::core::{Array, Dtype, Result, Stream};
use crate::kernels::Program;
use crate::kernels::matmul::epilogue::{After, KeptAfter, MATRICES, Origin};
use crate::kernels::quantized::quant::Format;
use crate::on_gpu;
use crate::ops::elementwise::instruction;
use crate::ops::fast::Norm;
use crate::ops::matmul::Matmul;
use crate::ops::quantized::quantized_matmul::QuantizedMatmul;
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
use crate::ops::view::is_reshape;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::quantized::qmm_joined;

struct Products {
    /// None for dense matrices.
    format: Option<Format>,
    products: SmallVec<[usize; 3]>,
    /// The step that reads the row, and the number of its input.
    row: (usize, usize),
    /// Dense matrices, in the order of the products.
    dense: SmallVec<[Array; 3]>,
    /// What makes the row, and the epsilon.
    norm: Option<(usize, f32)>,
    after: Option<KeptAfter>,
    /// What `after` reads besides the products: inputs of a step, by number.
    arrays: SmallVec<[(usize, usize); 2]>,
}

/// Most products of matrices that are picked by index: the push block then holds the indices too.
const PICKED: usize = MATRICES - 1;

/// A product that the kernel can have.
struct Product<'a> {
    /// How its matrix lies in memory.
    format: Option<Format>,
    /// The row, or rows, and the indices of the matrices where they are picked.
    x: &'a Array,
    indices: Option<&'a Array>,
    /// A dense matrix, a row for each result.
    dense: Option<&'a Array>,
    /// The step itself, and reshapes of one row before and behind it, which nobody else needs.
    steps: SmallVec<[usize; 3]>,
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
        indices && self.format == other.format && self.x.same(other.x)
    }
}

/// The product of step `i`, if the kernel can have it.
fn product<'a>(free: &Free<'a>, i: usize, stream: Stream) -> Option<Product<'a>> {
    quantized(free, i, stream).or_else(|| dense(free, i, stream))
}

/// Whether elements are there, in order. What the recorder is still to reach is waited for: how much it has done must not
/// decide.
fn is_there(a: &Array) -> bool {
    a.wait_event().is_ok() && a.data().is_ok_and(|d| is_row_major(a.shape(), &d.strides))
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
        && [Some(parts.codes), Some(parts.scales), parts.biases].into_iter().flatten().all(is_there);
    let (x, indices) = (parts.x, parts.rhs);
    let format = Some(op.format);
    fits.then(|| Product { format, x, indices, dense: None, steps: smallvec![i], result: i })
}

/// One row, or few, times a matrix that is the transposition of one whose rows lie in order.
fn dense<'a>(free: &Free<'a>, i: usize, stream: Stream) -> Option<Product<'a>> {
    let (_, inputs) = free.primitive::<Matmul>(i, stream)?;
    let (mut x, view) = (&inputs[0], &inputs[1]);
    let (k, n) = (x.dim(-1), view.dim(-1));
    let sizes = || [x.size() as i64 / k, k, n];
    if k == 0 || view.ndim() != 2 || !device::joins_dense(stream, x.dtype(), sizes()) {
        return None;
    }
    let matrix = free.transposed(view).filter(|a| is_there(a))?;
    let start = matrix.data().ok()?.offset * matrix.dtype().size() as i64;
    if start % 16 != 0 {
        return None;
    }
    let (mut steps, mut result): (SmallVec<[usize; 3]>, _) = (smallvec![i], i);
    let is_reshape = |j: usize| {
        let node = free.node(j).filter(|n| n.stream == stream && is_reshape(&*n.primitive));
        node.map(|n| &n.inputs[0])
    };
    if let Some(before) = free.maker(i, x).filter(|&j| free.only_used(j, 1))
        && let Some(whole) = is_reshape(before)
    {
        x = whole;
        steps.push(before);
    }
    let mut behind = free.behind(i);
    if free.only_used(i, 1)
        && let Some(j) = behind.find(|&j| is_reshape(j).is_some_and(|a| a.same(free.array(i))))
    {
        result = j;
        steps.push(j);
    }
    Some(Product { format: None, x, indices: None, dense: Some(matrix), steps, result })
}

/// What step `i` does to each element of its inputs, if that is all.
fn elementwise(free: &Free, i: usize, stream: Stream) -> Option<Program> {
    let node = free.node(i).filter(|n| n.stream == stream && !n.has_siblings())?;
    if let Some(fused) = node.primitive.program().and_then(|p| p.downcast_ref::<Program>()) {
        return Some(fused).filter(|p| p.outputs.len() == 1).cloned();
    }
    let dtypes: SmallVec<[Dtype; 3]> = node.inputs.iter().map(Array::dtype).collect();
    Some(Program::one(instruction(&*node.primitive)?, &dtypes, free.array(i).dtype()))
}

/// The step that takes the results of `products`, which nobody else needs, and what it reads besides.
fn after(
    free: &Free,
    products: &[usize],
    stream: Stream,
) -> Option<(usize, KeptAfter, SmallVec<[(usize, usize); 2]>)> {
    let last = *products.last()?;
    let made = free.array(last);
    if products.iter().any(|&p| free.array(p).shape() != made.shape()) {
        return None;
    }
    let uses = |i: usize| free.array(i).handles() - 1;
    let reads = |j: &usize| {
        let Some(node) = free.node(*j) else { return false };
        products.iter().all(|&p| node.inputs.iter().filter(|a| a.same(free.array(p))).count() == uses(p))
    };
    // Whoever reads one of them reads all, or nobody can be joined.
    let j = free.behind(last).find(reads)?;
    let out = free.array(j);
    let inputs = &free.node(j)?.inputs;
    let like = |a: &Array| a.shape() == made.shape() && a.dtype() == made.dtype();
    if !like(out) || !inputs.iter().all(like) {
        return None;
    }
    let program = elementwise(free, j, stream)?;
    let mut arrays: SmallVec<[(usize, usize); 2]> = SmallVec::new();
    let origin = |(k, a): (usize, &Array)| match products.iter().position(|&p| free.array(p).same(a)) {
        Some(n) => Origin::Product(n as u8),
        None => {
            arrays.push((j, k));
            Origin::Array(arrays.len() as u8 - 1)
        }
    };
    let after = After { program, inputs: inputs.iter().enumerate().map(origin).collect() };
    // The push block has an address for each matrix.
    if arrays.len() > MATRICES - 1 { None } else { Some((j, after.kept()?, arrays)) }
}

/// The join that begins with the product of step `i`.
pub(super) fn find(free: &Free, i: usize, stream: Stream) -> Option<Join> {
    let first = product(free, i, stream)?;
    let (format, x, picked) = (first.format, first.x, first.indices.is_some());
    let most = if picked { PICKED } else { MATRICES };
    let mut at = i;
    let mut all: SmallVec<[Product; 3]> = smallvec![first];
    for j in free.behind(i) {
        if all.len() < most
            && let Some(other) = product(free, j, stream).filter(|p| p.goes_with(&all[0]))
        {
            all.push(other);
        }
    }
    let mut members: SmallVec<[usize; 8]> = all.iter().flat_map(|p| p.steps.iter().copied()).collect();
    let alone = members.len();
    let mut results: SmallVec<[usize; 3]> = all.iter().map(|p| p.result).collect();
    let (mut follow, mut arrays) = (None, SmallVec::new());
    if all.len() <= 2
        && let Some((j, a, read)) = after(free, &results, stream)
    {
        (at, follow, arrays) = (j, Some(a), read);
        members.push(j);
        results = smallvec![j];
    }
    let norm = free.maker(i, x).filter(|_| !picked).and_then(|h| {
        let (norm, _) = free.primitive::<Norm>(h, stream)?;
        let n = all.iter().map(|p| free.array(p.result).dim(-1)).sum();
        let sizes = [x.size() as i64 / x.dim(-1), x.dim(-1), n];
        let fits = norm.is_weighted_rms()
            && free.only_used(h, all.len())
            && device::takes_norm(stream, format, x.dtype(), sizes);
        fits.then_some((h, norm.eps))
    });
    members.extend(norm.map(|n| n.0));
    // Reshapes alone are no reason.
    let joins = all.len() > 1 || members.len() > alone;
    let products = all.iter().map(|p| p.steps[0]).collect();
    let row = (*all[0].steps.get(1).filter(|&&s| format.is_none() && s < i).unwrap_or(&i), 0);
    let dense = all.iter().filter_map(|p| p.dense.cloned()).collect();
    let work = Box::new(Products { format, products, row, dense, norm, after: follow, arrays });
    joins.then_some(Join { at, members, results, work })
}

impl Work for Products {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let mut reads: SmallVec<[(u64, u64); 16]> = SmallVec::new();
            let (mut row, mut norm) = (&members[self.row.0].inputs[self.row.1], None);
            let (dtype, k) = (row.dtype(), row.dim(-1));
            if let Some((step, eps)) = self.norm {
                let inputs = &members[step].inputs;
                let weight = dev_row(enc, &inputs[1])?;
                reads.push(weight);
                (row, norm) = (&inputs[0], Some((weight.0, eps)));
            }
            let x = dev_row(enc, row)?;
            reads.push(x);
            let mut picks = None;
            let first = &members[self.products[0]];
            if let Some(op) = primitive::<QuantizedMatmul>(first) {
                let parts = op.split(&first.inputs);
                if let (Some(indices), Some((matrices, each))) = (parts.rhs, parts.picks()) {
                    let read = dev_row(enc, indices)?;
                    reads.push(read);
                    let (signed, count) = (indices.dtype() == Dtype::I32, indices.size() as i64);
                    picks = Some(qmm_joined::Picks { indices: (read.0, signed), count, matrices, each });
                }
            }
            let mut matrices: SmallVec<[qmm_joined::Matrix; 3]> = SmallVec::new();
            for (i, &p) in self.products.iter().enumerate() {
                let inputs = match self.dense.get(i) {
                    Some(matrix) => std::slice::from_ref(matrix),
                    None => &members[p].inputs[1..],
                };
                let mut parts = [0; 3];
                let own = self.format.map_or(1, |f| 2 + usize::from(f.affine()));
                for (to, a) in parts.iter_mut().zip(&inputs[..own]) {
                    let d = a.data()?;
                    *to = enc.resident(&d.storage)?.wrapping_add_signed(d.offset * a.dtype().size() as i64);
                    reads.push((*to, a.nbytes() as u64));
                }
                matrices.push(qmm_joined::Matrix { rows: inputs[0].dim(-2), parts });
            }
            let mut to: SmallVec<[u64; 3]> = SmallVec::new();
            let mut writes: SmallVec<[(u64, u64); 3]> = SmallVec::new();
            for r in results {
                let ptr = dev_out(enc, r)?.ptr;
                to.push(ptr);
                writes.push((ptr, r.nbytes() as u64));
            }
            for &(step, input) in &self.arrays {
                let read = dev_row(enc, &members[step].inputs[input])?;
                to.push(read.0);
                reads.push(read);
            }
            let (format, after) = (self.format, self.after);
            let joined = qmm_joined::Joined {
                format,
                dtype,
                m: if picks.is_some() { 1 } else { row.size() as i64 / k },
                k,
                x: x.0,
                norm,
                matrices: &matrices,
                after,
                results: &to,
                picks,
            };
            qmm_joined::run(enc, &joined, &reads, &writes)
        })
    }
}

/// Address and bytes of an array's elements in order, aligned to 16 bytes; copied if they do not lie so.
#[cfg(feature = "vulkan")]
fn dev_row(enc: &mut crate::vulkan::CommandEncoder, a: &Array) -> Result<(u64, u64)> {
    let v = dev_in(enc, a)?;
    let fits = v.is_row_contiguous() && v.ptr.is_multiple_of(16);
    let ptr = if fits { v.ptr } else { crate::vulkan::kernels::elementwise::dense(enc, &v)?.ptr };
    Ok((ptr, a.nbytes() as u64))
}

//! Pattern: products of one row with quantised matrices: those of the same row, the normalisation that makes the row, and the
//! elementwise operations on the results. The same of matrices that are picked by index, without the normalisation.

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
use crate::ops::quantized::quantized_matmul::{Parts, QuantizedMatmul};
#[cfg(feature = "vulkan")]
use crate::ops::support::*;
#[cfg(feature = "vulkan")]
use crate::vulkan::kernels::quantized::qmm_joined;

struct Products {
    format: Format,
    products: SmallVec<[usize; 3]>,
    /// What makes the row, and the epsilon.
    norm: Option<(usize, f32)>,
    after: Option<KeptAfter>,
    /// What `after` reads besides the products: inputs of a step, by number.
    arrays: SmallVec<[(usize, usize); 2]>,
}

/// Most products of matrices that are picked by index: the push block then holds the indices too.
const PICKED: usize = MATRICES - 1;

/// Whether some operands are the same arrays: x, and the indices if there are some.
fn same_operands(a: &Parts, b: &Parts) -> bool {
    let indices = match (a.rhs, b.rhs) {
        (Some(i), Some(j)) => i.same(j),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    indices && a.x.same(b.x)
}

/// The product of step `i` (beside `first`, if there is one), if the kernel can have it.
fn product<'a>(
    free: &Free<'a>,
    i: usize,
    first: Option<&Parts>,
    stream: Stream,
) -> Option<(Format, Parts<'a>)> {
    let (op, inputs) = free.primitive::<QuantizedMatmul>(i, stream)?;
    let parts = op.split(inputs);
    if first.is_some_and(|f| !same_operands(f, &parts)) {
        return None;
    }
    // What the recorder is still to reach is waited for: how much it has done must not decide.
    let there =
        |a: &Array| a.wait_event().is_ok() && a.data().is_ok_and(|d| is_row_major(a.shape(), &d.strides));
    let dtype = parts.x.dtype();
    let (k, n) = (parts.x.dim(-1), parts.codes.dim(-2));
    let pays = match parts.rhs {
        Some(indices) => {
            let sizes = |(matrices, _)| [k, n, indices.size() as i64, matrices];
            parts.picks().is_some_and(|p| device::joins_picks(stream, op.format, dtype, sizes(p)))
        }
        None => {
            parts.plain()
                && parts.x.size() as i64 == k
                && device::joins_products(stream, op.format, dtype, k, n)
        }
    };
    let fits = op.transpose
        && pays
        && (!op.format.affine() || parts.scales.dtype() == dtype)
        && [Some(parts.codes), Some(parts.scales), parts.biases].into_iter().flatten().all(there);
    fits.then_some((op.format, parts))
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
    let (format, parts) = product(free, i, None, stream)?;
    let (x, picked) = (parts.x, parts.rhs.is_some());
    let most = if picked { PICKED } else { MATRICES };
    let mut at = i;
    let mut members: SmallVec<[usize; 8]> = smallvec![i];
    for j in free.behind(i) {
        if members.len() < most && product(free, j, Some(&parts), stream).is_some_and(|(f, _)| f == format) {
            members.push(j);
        }
    }
    let products: SmallVec<[usize; 3]> = SmallVec::from_slice(&members);
    let (mut results, mut follow, mut arrays) = (products.clone(), None, SmallVec::new());
    if products.len() <= 2
        && let Some((j, a, read)) = after(free, &products, stream)
    {
        (at, follow, arrays) = (j, Some(a), read);
        members.push(j);
        results = smallvec![j];
    }
    let norm = free.maker(i, x).filter(|_| !picked).and_then(|h| {
        let (norm, _) = free.primitive::<Norm>(h, stream)?;
        let fits = norm.is_weighted_rms() && free.only_used(h, products.len());
        fits.then_some((h, norm.eps))
    });
    members.extend(norm.map(|n| n.0));
    let work = Box::new(Products { format, products, norm, after: follow, arrays });
    (members.len() > 1).then_some(Join { at, members, results, work })
}

impl Work for Products {
    fn run(&self, stream: Stream, members: &Members, results: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let mut reads: SmallVec<[(u64, u64); 16]> = SmallVec::new();
            let (mut row, mut norm) = (&members[self.products[0]].inputs[0], None);
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
            // INVARIANT: the step was found to be one.
            let parts = primitive::<QuantizedMatmul>(first).expect("a product").split(&first.inputs);
            if let (Some(indices), Some((matrices, each))) = (parts.rhs, parts.picks()) {
                let read = dev_row(enc, indices)?;
                reads.push(read);
                let (signed, count) = (indices.dtype() == Dtype::I32, indices.size() as i64);
                picks = Some(qmm_joined::Picks { indices: (read.0, signed), count, matrices, each });
            }
            let mut matrices: SmallVec<[qmm_joined::Matrix; 3]> = SmallVec::new();
            for &p in &self.products {
                let inputs = &members[p].inputs[1..];
                let mut parts = [0; 3];
                let own = 2 + usize::from(self.format.affine());
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

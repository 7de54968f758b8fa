//! Products that are matrix products or broadcast multiplications of rearranged operands: tensordot, inner,
//! outer, vecdot, kron and products of matrices with masked blocks.

use smallvec::SmallVec;

use super::{matmul, matrices};
use crate::bail;
use crate::core::layout::{broadcast_shapes, checked_size, normalize_axis, show, shown};
use crate::core::notes::note;
use crate::core::{Array, Dtype, Error, Result, Shape, Stored, Stream};
use crate::ops::composite;
use crate::ops::elementwise::{astype, conjugate, multiply, select};
use crate::ops::reduce::sum;
use crate::ops::support::{refuse_f64, scalar_i64};
use crate::ops::view::{broadcast_to, expand_dims, flatten, reshape, slice, transpose};
use crate::params;

/// Normalised, distinct axes in the given order.
fn distinct(axes: &[i64], ndim: usize) -> Result<Vec<usize>> {
    let mut out = Vec::with_capacity(axes.len());
    for &a in axes {
        let a = normalize_axis("tensordot", a, ndim)?;
        if out.contains(&a) {
            bail!(Value, "[tensordot] Duplicate axis in {:?}.", shown(axes));
        }
        out.push(a);
    }
    Ok(out)
}

/// A stored product.
pub(in crate::ops) fn restore(c: &Stored) -> Result<Array> {
    let s = c.stream;
    if c.name == "block_masked_mm" {
        let [a, b, masks @ ..] = c.inputs else { return c.unknown() };
        let mut masks = masks.iter();
        let mut next = |i: usize| Ok::<_, Error>(if c.flag(i)? { masks.next() } else { None });
        let (out, lhs, rhs) = (next(1)?, next(2)?, next(3)?);
        return block_masked_mm(a, b, c.int(0)?, out, lhs, rhs, s);
    }
    let [a, b] = c.inputs()?;
    match c.name {
        "tensordot" => tensordot(a, b, c.ints(0)?, c.ints(1)?, s),
        "outer" => outer(a, b, s),
        "vecdot" => vecdot(a, b, c.int(0)?, s),
        "kron" => kron(a, b, s),
        _ => c.unknown(),
    }
}

/// Sum of products over pairs of axes: `axes_a[i]` of `a` with `axes_b[i]` of `b`; the other axes of `a`, then
/// those of `b`, remain. Inexact dtypes only.
pub fn tensordot(a: &Array, b: &Array, axes_a: &[i64], axes_b: &[i64], s: Stream) -> Result<Array> {
    if axes_a.len() != axes_b.len() {
        bail!(Value, "[tensordot] axes must have the same size.");
    }
    let (in_a, in_b) = (distinct(axes_a, a.ndim())?, distinct(axes_b, b.ndim())?);
    if in_a.iter().zip(&in_b).any(|(&i, &j)| a.shape()[i] != b.shape()[j]) {
        bail!(Value, "[tensordot] a and b must have the same shape on the contracted axes.");
    }
    if let Some(out) = composite::one("tensordot", || vec![axes_a.into(), axes_b.into()], &[a, b], s)? {
        return Ok(out);
    }
    let rest =
        |x: &Array, used: &[usize]| -> Vec<usize> { (0..x.ndim()).filter(|i| !used.contains(i)).collect() };
    let dims = |x: &Array, axes: &[usize]| -> Shape { axes.iter().map(|&i| x.shape()[i]).collect() };
    let (free_a, free_b) = (rest(a, &in_a), rest(b, &in_b));
    let (rows, cols) = (dims(a, &free_a), dims(b, &free_b));
    let out: Shape = rows.iter().chain(&cols).copied().collect();
    checked_size("tensordot", &out, a.dtype().promote(b.dtype()).size())?;
    let order = |first: &[usize], then: &[usize]| -> Vec<i64> {
        first.iter().chain(then).map(|&i| i as i64).collect()
    };
    // FITS: parts of shapes of arrays, here and below.
    let k = dims(a, &in_a).iter().product();
    let left = transpose(a, Some(&order(&free_a, &in_a)), s)?;
    let left = reshape(&left, &[rows.iter().product(), k], s)?;
    let right = transpose(b, Some(&order(&in_b, &free_b)), s)?;
    let right = reshape(&right, &[k, cols.iter().product()], s)?;
    reshape(&matmul(&left, &right, s)?, &out, s)
}

/// Sum of products over the last `n` axes of `a` and the first `n` of `b`.
pub fn tensordot_last(a: &Array, b: &Array, n: i64, s: Stream) -> Result<Array> {
    if n < 0 {
        bail!(Value, "[tensordot] axis must be greater or equal to 0.");
    }
    if n > a.ndim().min(b.ndim()) as i64 {
        bail!(Value, "[tensordot] axis must be less than the number of dimensions of a and b.");
    }
    let first: Vec<i64> = (0..n).collect();
    let last: Vec<i64> = first.iter().map(|i| i - n).collect();
    tensordot(a, b, &last, &first, s)
}

/// Sum of products over the last axes; the product where one operand is a scalar.
pub fn inner(a: &Array, b: &Array, s: Stream) -> Result<Array> {
    if a.ndim() == 0 || b.ndim() == 0 {
        return multiply(a, b, s);
    }
    if a.dim(-1) != b.dim(-1) {
        bail!(Value, "[inner] a and b must have the same last dimension.");
    }
    tensordot(a, b, &[-1], &[-1], s)
}

/// Products of every element of one flattened array with every element of the other.
pub fn outer(a: &Array, b: &Array, s: Stream) -> Result<Array> {
    if let Some(out) = composite::one("outer", Vec::new, &[a, b], s)? {
        return Ok(out);
    }
    let (n, m) = (a.size() as i64, b.size() as i64);
    checked_size("outer", &[n, m], a.dtype().promote(b.dtype()).size())?;
    multiply(&reshape(a, &[n, 1], s)?, &flatten(b, 0, -1, s)?, s)
}

/// Sum of `conj(a) * b` along an axis; the other axes broadcast.
pub fn vecdot(a: &Array, b: &Array, axis: i64, s: Stream) -> Result<Array> {
    if a.ndim() == 0 || b.ndim() == 0 {
        bail!(Value, "[vecdot] inputs must be at least 1D.");
    }
    let nd = a.ndim().max(b.ndim());
    normalize_axis("vecdot", axis, nd)?;
    if let Some(out) = composite::one("vecdot", || vec![axis.into()], &[a, b], s)? {
        return Ok(out);
    }
    // A negative axis counts from the end of both operands, which broadcast from there.
    let widened = |x: &Array| -> Result<Array> {
        let mut shape: Shape = SmallVec::from_elem(1, nd - x.ndim());
        shape.extend_from_slice(x.shape());
        reshape(x, &shape, s)
    };
    let inside = |x: &Array| if axis < 0 { -axis <= x.ndim() as i64 } else { axis < x.ndim() as i64 };
    if !inside(a) || !inside(b) {
        bail!(Value, "[vecdot] axis is out of bounds.");
    }
    if a.dim(axis) != b.dim(axis) {
        bail!(Value, "[vecdot] a and b must have the same size along axis.");
    }
    if axis >= 0 && a.ndim() != b.ndim() {
        bail!(Value, "[vecdot] axis is out of bounds.");
    }
    let a = if a.dtype() == Dtype::C64 { conjugate(a, s)? } else { a.clone() };
    sum(&multiply(&widened(&a)?, &widened(b)?, s)?, Some(&[axis]), false, s)
}

/// Kronecker product: every element of `a` times the whole of `b`, in place of that element.
pub fn kron(a: &Array, b: &Array, s: Stream) -> Result<Array> {
    if a.size() == 0 || b.size() == 0 {
        bail!(Value, "[kron] Input arrays cannot be empty.");
    }
    if let Some(out) = composite::one("kron", Vec::new, &[a, b], s)? {
        return Ok(out);
    }
    let nd = a.ndim().max(b.ndim());
    let dim = |x: &Array, i: usize| if i < nd - x.ndim() { 1 } else { x.shape()[i + x.ndim() - nd] };
    let left: Shape = (0..nd).flat_map(|i| [dim(a, i), 1]).collect();
    let right: Shape = (0..nd).flat_map(|i| [1, dim(b, i)]).collect();
    let out: Shape = (0..nd).map(|i| dim(a, i).saturating_mul(dim(b, i))).collect();
    checked_size("kron", &out, a.dtype().promote(b.dtype()).size())?;
    let product = multiply(&reshape(a, &left, s)?, &reshape(b, &right, s)?, s)?;
    reshape(&product, &out, s)
}

/// Promoted dtype of a product that is defined for real floating point numbers only.
pub(in crate::ops) fn real_dtype(op: &str, a: &Array, b: &Array) -> Result<Dtype> {
    let dtype = a.dtype().promote(b.dtype());
    if !dtype.is_float() {
        bail!(
            Value,
            "[{op}] Only real floating point types are supported but {} and {} were provided which results \
             in {dtype}, which is not a real floating point type.",
            a.dtype(),
            b.dtype()
        );
    }
    Ok(dtype)
}

/// `x` with each block of its last two axes scaled by an element of the mask, or zeroed where that is false.
fn masked(x: &Array, mask: Option<&Array>, block: i64, batch: &[i64], s: Stream) -> Result<Array> {
    let Some(mask) = mask else { return Ok(x.clone()) };
    if mask.dtype() == Dtype::C64 {
        bail!(Value, "[block_masked_mm] Masks must be bool or real, got {}.", mask.dtype());
    }
    let (rows, cols) = (x.dim(-2), x.dim(-1));
    let (tr, tc) = ((rows + block - 1) / block, (cols + block - 1) / block);
    // A number, or one for each column of blocks, is broadcast.
    let few = matches!(mask.shape(), []) || matches!(mask.shape(), &[n] if n == 1 || n == tc);
    let mask = &if few { broadcast_to(mask, &[tr, tc], s)? } else { mask.clone() };
    let nm = mask.ndim();
    let fits = nm >= 2
        && mask.shape()[nm - 2..] == [tr, tc]
        && broadcast_shapes("block_masked_mm", &mask.shape()[..nm - 2], batch)?.as_slice() == batch;
    if !fits {
        bail!(
            Value,
            "[block_masked_mm] Expected a mask of shape (..., {tr}, {tc}) that broadcasts to the batch {}, \
             got {}.",
            show(batch),
            show(mask.shape())
        );
    }
    let apply = |x: &Array, mask: &Array| match mask.dtype() {
        Dtype::Bool => select(mask, x, &scalar_i64(0, x.dtype())?, s),
        _ => multiply(x, &astype(mask, x.dtype(), s)?, s),
    };
    let tiles = expand_dims(mask, &[-1, -3], s)?;
    if rows % block == 0 && cols % block == 0 {
        let mut shape: Shape = x.shape()[..x.ndim() - 2].into();
        shape.extend([tr, block, tc, block]);
        let y = apply(&reshape(x, &shape, s)?, &tiles)?;
        let mut shape: Shape = y.shape()[..y.ndim() - 4].into();
        shape.extend([rows, cols]);
        return reshape(&y, &shape, s);
    }
    let mut shape: Shape = mask.shape()[..nm - 2].into();
    shape.extend([tr, block, tc, block]);
    let wide = broadcast_to(&tiles, &shape, s)?;
    let mut shape: Shape = mask.shape()[..nm - 2].into();
    shape.extend([tr * block, tc * block]);
    let wide = reshape(&wide, &shape, s)?;
    let mut stop = shape.to_vec();
    (stop[nm - 2], stop[nm - 1]) = (rows, cols);
    apply(x, &slice(&wide, &vec![0; nm], &stop, &vec![1; nm], s)?)
}

/// Matrix product whose operands and result are masked in blocks of `block` by `block` elements: a bool mask
/// keeps or zeroes a block, any other scales it.
pub fn block_masked_mm(
    a: &Array,
    b: &Array,
    block: i64,
    mask_out: Option<&Array>,
    mask_lhs: Option<&Array>,
    mask_rhs: Option<&Array>,
    s: Stream,
) -> Result<Array> {
    const OP: &str = "block_masked_mm";
    if mask_out.is_none() && mask_lhs.is_none() && mask_rhs.is_none() {
        return matmul(a, b, s);
    }
    let masks = [mask_out, mask_lhs, mask_rhs];
    let inputs: SmallVec<[&Array; 5]> = [a, b].into_iter().chain(masks.into_iter().flatten()).collect();
    let given = || std::iter::once(block.into()).chain(masks.map(|m| m.is_some().into())).collect();
    if let Some(out) = composite::one(OP, given, &inputs, s)? {
        return Ok(out);
    }
    let dtype = real_dtype(OP, a, b)?;
    if block != 32 && block != 64 {
        bail!(Value, "[{OP}] Only block_sizes 32, 64 are supported. Got block size {block}.");
    }
    let (x, y) = matrices(OP, a, b, s)?;
    let batch = broadcast_shapes(OP, &x.shape()[..x.ndim() - 2], &y.shape()[..y.ndim() - 2])?;
    let (x, y) = (astype(&x, dtype, s)?, astype(&y, dtype, s)?);
    refuse_f64(OP, std::slice::from_ref(&x), s)?;
    let left = masked(&x, mask_lhs, block, &batch, s)?;
    let right = masked(&y, mask_rhs, block, &batch, s)?;
    let mut out = masked(&matmul(&left, &right, s)?, mask_out, block, &batch, s)?;
    note(std::slice::from_ref(&out), || {
        let masks = [mask_out, mask_lhs, mask_rhs].into_iter().flatten().cloned();
        ("block_masked_mm", params![block], [x, y].into_iter().chain(masks).collect())
    });
    let mut drop: SmallVec<[i64; 2]> = SmallVec::new();
    if a.ndim() == 1 {
        drop.push(-2);
    }
    if b.ndim() == 1 {
        drop.push(-1);
    }
    if !drop.is_empty() {
        out = crate::ops::view::squeeze(&out, Some(&drop), s)?;
    }
    Ok(out)
}

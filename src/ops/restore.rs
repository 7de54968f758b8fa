//! Stored calls made into graph again. Each primitive says by `params` what a file must keep of it, and has a
//! `restore` beside its other rules; this table finds that by the primitive's name. Rows of the elementwise table
//! need no entry. Whatever comes in is checked as the arguments of a public op are: files are not trusted.

use super::fft::{hadamard, stft};
use super::index::{indexing, masked, scatter, slice_update, subscript};
use super::linalg::norm;
use super::matmul::{einsum, gather_mm, products, segmented_mm};
use super::quantized::{quantize, quantized_matmul};
use super::reduce::{count, scan};
use super::sort::{search, select, unique};
use super::view::{concatenate, diagonal, grid};
use super::{
    batching, conv, create, depends, elementwise, fast, fft, linalg, matmul, random, ranges, reduce, sort,
    view,
};
use crate::bail;
use crate::core::layout::show;
use crate::core::varying::Lengths;
use crate::core::{Array, Device, Primitive, Result, Shape, Stored, default_stream};

/// How to make the outputs of a stored call.
enum Maker {
    One(fn(&Stored) -> Result<Array>),
    Many(fn(&Stored) -> Result<Vec<Array>>),
}

use Maker::*;

/// Makers by the names of the primitives.
const MAKERS: &[(&[&str], Maker)] = &[
    (&["astype"], One(elementwise::restore_cast)),
    (&["full"], One(elementwise::restore_full)),
    (&["arange"], One(ranges::restore)),
    (
        &[
            "reshape",
            "transpose",
            "broadcast_to",
            "broadcast_with",
            "slice",
            "as_strided",
            "view",
            "stop_gradient",
            "alias",
            "contiguous",
        ],
        One(view::restore),
    ),
    (&["diagonal"], One(diagonal::restore)),
    (&["diag"], One(diagonal::restore_diag)),
    (&["tril", "triu"], One(create::restore_triangle)),
    (&["full_like"], One(create::restore_full_like)),
    (&["repeated"], One(batching::restore)),
    (&["flip", "view_as"], One(view::restore_public)),
    (&["split"], Many(concatenate::restore_split)),
    (&["pad"], One(concatenate::restore_pad)),
    (&["repeat", "tile", "roll"], One(concatenate::restore_repeat)),
    (&["meshgrid", "unstack"], Many(grid::restore)),
    (&["einsum"], One(einsum::restore)),
    (&["tensordot", "outer", "vecdot", "kron", "block_masked_mm"], One(products::restore)),
    (&["cross"], One(norm::restore_cross)),
    (&["stft", "istft"], One(stft::restore_public)),
    (&["frames"], One(stft::restore_frames)),
    (&["overlap_add"], One(stft::restore_overlap_add)),
    (&["concatenate"], One(concatenate::restore)),
    (&["depends"], Many(depends::restore)),
    (&["sum", "prod", "min", "max", "all", "any"], One(reduce::restore_reduce)),
    (&["argmin", "argmax"], One(reduce::restore_arg_reduce)),
    (&["softmax"], One(reduce::restore_softmax)),
    (&["logsumexp"], One(reduce::restore_logsumexp)),
    (&["number_of_elements"], One(count::restore)),
    (&["cumsum", "cumprod", "cummin", "cummax", "logcumsumexp"], One(scan::restore)),
    (&["recurrence"], One(scan::restore_recurrence)),
    (&["sort", "argsort"], One(sort::restore)),
    (&["partition", "argpartition"], One(select::restore)),
    (&["topk", "median"], One(select::restore_selection)),
    (&["searchsorted"], One(search::restore)),
    (&["search_sorted"], One(search::restore_public)),
    (&["unique"], Many(unique::restore_unique)),
    (&["diff"], One(scan::restore_diff)),
    (&["index", "index_update"], One(subscript::restore)),
    (&["take_along"], One(indexing::restore_along)),
    (&["logsumexp_parts"], Many(reduce::restore_logsumexp_parts)),
    (&["slice_at"], One(indexing::restore_slice_at)),
    (&["put_along_axis", "scatter_add_axis", "slice_update_at"], One(scatter::restore_public)),
    (&["masked_scatter"], One(masked::restore_public)),
    (&["mask_rank"], One(masked::restore)),
    (&["gather", "take_along_axis"], One(indexing::restore)),
    (&["scatter", "scatter_add", "scatter_prod", "scatter_max", "scatter_min"], One(scatter::restore)),
    (&["slice_update"], One(slice_update::restore)),
    (&["matmul", "matrix_product", "addmm"], One(matmul::restore)),
    (&["gather_mm"], One(gather_mm::restore)),
    (&["gather_matmul"], One(gather_mm::restore_public)),
    (&["segmented_mm"], One(segmented_mm::restore)),
    (&["convolution", "convolution_kernel_gradient"], One(conv::restore)),
    (&["conv_general", "conv_transpose", "convolve"], One(conv::restore_public)),
    (&["fft", "ifft", "rfft", "irfft"], One(fft::restore)),
    (&["fftn", "fftshift", "ifftshift"], One(fft::restore_axes)),
    (&["hadamard_transform"], One(hadamard::restore)),
    (&["hadamard"], One(hadamard::restore_public)),
    (&["linalg_lu", "pinv", "linalg_solve"], Many(linalg::restore_public)),
    (&["random_bits"], One(random::restore)),
    (&["rms_norm", "layer_norm"], One(fast::restore_norm)),
    (&["rope"], One(fast::restore_rope)),
    (&["scaled_dot_product_attention"], One(fast::restore_attention)),
    (&["scaled_dot_product_attention_kept"], Many(fast::restore_attention_kept)),
    (&["scaled_dot_product_attention_whole"], One(fast::restore_attention_whole)),
    (&["scaled_dot_product_attention_vjp"], Many(fast::restore_attention_grad)),
    (&["gated_delta_update"], Many(fast::restore_gated_delta)),
    (&["custom_kernel"], Many(fast::restore_metal_kernel)),
    (&["quantize"], Many(quantize::restore_quantize)),
    (&["dequantize"], One(quantize::restore_dequantize)),
    (&["quantize_dequantize"], One(quantize::restore_rounded)),
    (&["quantized_matmul", "gather_qmm"], One(quantized_matmul::restore)),
    (
        &[
            "inv",
            "tri_inv",
            "solve",
            "solve_triangular",
            "cholesky",
            "det",
            "slogdet",
            "lu",
            "qr",
            "svd",
            "eigh",
            "eig",
        ],
        Many(linalg::restore),
    ),
];

/// Names of the primitives that files can hold, besides the rows of the elementwise table.
#[cfg(test)]
pub fn names() -> impl Iterator<Item = &'static str> {
    MAKERS.iter().flat_map(|(names, _)| names.iter().copied())
}

/// The outputs, unchecked: they may have other shapes than the stored ones.
pub(super) fn made(c: &Stored) -> Result<Vec<Array>> {
    match MAKERS.iter().find(|(names, _)| names.contains(&c.name)) {
        Some((_, One(f))) => Ok(vec![f(c)?]),
        Some((_, Many(f))) => f(c),
        None => Ok(vec![elementwise::restore(c)?]),
    }
}

/// Shapes of a primitive's outputs for other inputs, after the checks of the public op.
pub(super) fn shapes(p: &dyn Primitive, inputs: &[Array]) -> Result<Vec<Shape>> {
    let Some(params) = p.params() else { return Err(p.missing("output_shapes")) };
    let (stream, _fixed) = (default_stream(Device::CPU), Lengths::fixed());
    let outputs = made(&Stored { name: p.name(), params: &params, inputs, specs: &[], stream })?;
    Ok(outputs.iter().map(|o| o.shape().into()).collect())
}

/// The outputs of a stored call.
///
/// # Errors
/// Value error where parameters, inputs and outputs do not fit each other.
pub fn restore(c: &Stored) -> Result<Vec<Array>> {
    let outputs = made(c)?;
    if outputs.len() != c.specs.len() {
        bail!(Value, "[{}] Expected {} outputs, got {}.", c.name, c.specs.len(), outputs.len());
    }
    for (o, (shape, dtype)) in outputs.iter().zip(c.specs) {
        if o.shape() != shape.as_slice() || o.dtype() != *dtype {
            let (got, want) = (show(o.shape()), show(shape));
            bail!(Value, "[{}] Expected {want} of {dtype}, got {got} of {}.", c.name, o.dtype());
        }
    }
    Ok(outputs)
}

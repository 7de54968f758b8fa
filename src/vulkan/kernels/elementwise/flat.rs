//! Which operands are computed by vectors that run on from row to row: dense outputs whose rows are no multiple of a
//! vector, with inputs that are as dense, or broadcast, or rows with gaps.

use smallvec::SmallVec;

use super::{ELEMENTWISE_FLAT, ELEMENTWISE_WIDE, Launch, Piece, dispatch};
use crate::core::Result;
use crate::core::layout::row_major;
use crate::kernels::Program;
use crate::kernels::elementwise::codegen::{self, Access, Class};
use crate::vulkan::CommandEncoder;

/// The flat class of a piece whose class by rows is `rows`, where it is faster.
pub(super) fn class(piece: &Piece, sizes: &[usize], rows: &Class, n_in: usize) -> Option<Class> {
    let (shape, ndim) = (&piece.shape, piece.shape.len());
    let by_vector = rows.access[n_in..].iter().all(|&a| a == Access::Wide);
    if !(2..=3).contains(&ndim) || by_vector || ELEMENTWISE_WIDE.disabled() || ELEMENTWISE_FLAT.disabled() {
        return None;
    }
    let dense = row_major(shape);
    let is_dense = |k: usize| piece.strides[k] == dense;
    let width = codegen::vector_width((0..sizes.len()).filter(|&k| is_dense(k)).map(|k| sizes[k]));
    let elements: i64 = shape.iter().product();
    if width == 1 || elements < i64::from(width) {
        return None;
    }
    let mut access: SmallVec<[Access; 6]> = SmallVec::new();
    for (k, &size) in sizes.iter().enumerate() {
        let strides = &piece.strides[k];
        let aligned = piece.ptrs[k].is_multiple_of((width as usize * size).min(16) as u64);
        access.push(match is_dense(k) {
            true if aligned => Access::Wide,
            true if k < n_in => Access::Unit,
            false if k < n_in && strides.iter().all(|&s| s == 0) => Access::Splat,
            // Neighbours in memory, or the same element: threads of a subgroup meet in few lines.
            false if k < n_in && strides[ndim - 1] <= 1 && strides.iter().all(|&s| s >= 0) => Access::Stepped,
            _ => return None,
        });
    }
    Some(Class { access, ndim: ndim as u8, width, flat: true })
}

/// Records a kernel of a class that [`class`] found.
pub(super) fn run(enc: &mut CommandEncoder, p: &Program, piece: &Piece, class: Class) -> Result<()> {
    let elements = piece.shape.iter().product::<i64>() as u64;
    let vectors = elements.div_ceil(u64::from(class.width));
    let lengths = piece.shape[1..].iter().map(|&d| d as i32);
    let strides = piece.strides.iter().flat_map(|s| s.iter().map(|&s| s as i32));
    let params: SmallVec<[i32; 64]> = lengths.chain(strides).collect();
    let ptrs = piece.ptrs.clone();
    dispatch(
        enc,
        p,
        piece,
        Launch { class, ptrs, params: &params, inner: elements, per_row: vectors, total: vectors },
    )
}

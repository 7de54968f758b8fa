//! Geometry of convolutions, shared by both backends. A convolution with dilated input or flipped kernel is
//! cut into dense blocks (`blocks`): convolutions of every element of the input with a part of the kernel that write
//! a strided part of the output. So no kernel multiplies the zeros that input dilation puts between elements.
//!
//! Layouts are channels last: input (N, S..., C), weight (Cout, K..., C / groups), output (N, O..., Cout).
//! output\[o\] sums x\[(o * stride - low + k' * dilation) / input_dilation\] * w\[k\], where k' is k, or
//! K - 1 - k with `flip`; positions outside the input, and between its elements, count as zero.

mod blocks;

use smallvec::SmallVec;

pub use self::blocks::*;
use super::View;
use crate::bail;
use crate::core::Result;
use crate::core::layout::show;

/// One spatial axis of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConvAxis {
    /// Step of the kernel over the dilated input; positive.
    pub stride: i64,
    /// Zeros before the first element; negative where the kernel starts inside.
    pub low: i64,
    /// Distance between kernel elements; positive.
    pub dilation: i64,
    /// Distance between input elements; positive.
    pub input_dilation: i64,
}

/// A convolution; sizes come with the arrays.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Conv {
    /// Spatial axes, one to three.
    pub axes: SmallVec<[ConvAxis; 3]>,
    /// Channels are cut into this many groups that do not see each other.
    pub groups: i64,
    /// The kernel is applied mirrored.
    pub flip: bool,
}

impl Conv {
    /// Checks the arrays of a convolution, of which `dst` is written: they have one dtype, which the backend has kernels
    /// for (`taken`), and channels that belong together.
    ///
    /// # Errors
    /// Value error for other arrays.
    pub fn check<P: Copy>(&self, [x, w, y]: [&View<P>; 3], dst: &View<P>, taken: bool) -> Result<()> {
        let nd = self.axes.len() + 2;
        let fits = taken
            && (3..=5).contains(&nd)
            && [x, w, y].iter().all(|v| v.dtype == dst.dtype && v.ndim() == nd)
            && x.shape[0] == y.shape[0]
            && w.shape[0] == y.shape[nd - 1]
            && w.shape[nd - 1] * self.groups == x.shape[nd - 1]
            && w.shape[0] % self.groups.max(1) == 0
            && dst.is_row_contiguous();
        if !fits {
            let [x, w, y] = [x, w, y].map(|v| format!("{} {}", show(&v.shape), v.dtype));
            bail!(
                Value,
                "[conv] Expected arrays of one floating point dtype that belong together, got {x}, {w} and {y}."
            );
        }
        Ok(())
    }
}

/// One spatial axis of a dense block: output o meets input o * stride - low + k * dilation at kernel element k.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DenseAxis {
    /// Step of the kernel; positive.
    pub stride: i64,
    /// Position of the first kernel element, negated.
    pub low: i64,
    /// Distance between kernel elements, negative where the kernel is mirrored.
    pub dilation: i64,
}

impl DenseAxis {
    /// Whether output o reads exactly input o.
    pub fn is_identity(&self, kernel: i64, input: i64, output: i64) -> bool {
        kernel == 1 && self.stride == 1 && self.low == 0 && input == output
    }
}

/// A dense part of a convolution; nothing in it is empty.
#[derive(Debug, Clone)]
pub struct Block<P> {
    /// Input, whole.
    pub x: View<P>,
    /// The kernel elements that meet these outputs.
    pub w: View<P>,
    /// Outputs.
    pub y: View<P>,
    /// Spatial axes.
    pub axes: SmallVec<[DenseAxis; 3]>,
    /// As in [`Conv`].
    pub groups: i64,
}

impl<P> Block<P> {
    /// Whether every output reads the one input at its own position: a product of matrices.
    pub fn is_pointwise(&self) -> bool {
        let sizes = self.w.shape[1..].iter().zip(&self.x.shape[1..]).zip(&self.y.shape[1..]);
        self.axes.iter().zip(sizes).all(|(a, ((&k, &i), &o))| a.is_identity(k, i, o))
    }
}

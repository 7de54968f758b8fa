//! Walks over strided memory in terms of whole lines along one axis; shared by the kernels that work line by
//! line.

use smallvec::SmallVec;

use crate::core::layout::collapse;
use crate::kernels::HostView;

/// One axis: length, stride in the source, stride in the destination (0 for a reduced axis); in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) n: usize,
    pub(crate) src: isize,
    pub(crate) dst: isize,
}

/// Axes, outermost first.
pub(crate) type Axes = SmallVec<[Axis; 4]>;

/// Element offsets (source, destination) of a flat index over the axes.
#[inline(always)]
pub(crate) fn locate(axes: &[Axis], mut index: usize) -> (isize, isize) {
    let (mut src, mut dst) = (0isize, 0isize);
    for (i, a) in axes.iter().enumerate().rev() {
        let k = if i == 0 { index } else { index % a.n };
        if i > 0 {
            index /= a.n;
        }
        src += k as isize * a.src;
        dst += k as isize * a.dst;
    }
    (src, dst)
}

/// All lines of a view along one axis, paired with the lines (or single elements) of a second view.
#[derive(Clone)]
pub(crate) struct Lines {
    /// The other axes.
    pub(crate) axes: Axes,
    /// Number of lines.
    pub(crate) count: usize,
    /// Elements of a line.
    pub(crate) len: usize,
    /// Stride along a source line.
    pub(crate) src: isize,
    /// Stride along a destination line; 0 when the destination has no such axis.
    pub(crate) dst: isize,
}

impl Lines {
    /// Lines of `src` along `axis`. `dst` has the shape of `src`, or that shape without the axis.
    pub(crate) fn new(src: &HostView, axis: usize, dst: &HostView) -> Lines {
        let same = src.ndim() == dst.ndim();
        let others: SmallVec<[usize; 6]> = (0..src.ndim()).filter(|&a| a != axis).collect();
        let shape: SmallVec<[i64; 6]> = others.iter().map(|&a| src.shape[a]).collect();
        let from: SmallVec<[i64; 6]> = others.iter().map(|&a| src.strides[a]).collect();
        let to: SmallVec<[i64; 6]> = match same {
            true => others.iter().map(|&a| dst.strides[a]).collect(),
            false => dst.strides.iter().copied().collect(),
        };
        let count = shape.iter().product::<i64>() as usize;
        let (shape, strides) = collapse(&shape, &[&from, &to]);
        let axes = (0..shape.len())
            .map(|i| Axis { n: shape[i] as usize, src: strides[0][i] as isize, dst: strides[1][i] as isize })
            .collect();
        Lines {
            axes,
            count,
            len: src.shape[axis] as usize,
            src: src.strides[axis] as isize,
            dst: if same { dst.strides[axis] as isize } else { 0 },
        }
    }
}

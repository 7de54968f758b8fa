//! How a convolution with dilated input or flipped kernel is cut into dense blocks: by residues of the outputs along
//! each axis.

use smallvec::SmallVec;

use super::{Block, Conv, ConvAxis, DenseAxis};
use crate::kernels::View;

/// Every `step`-th element of an axis, from `start` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Comb {
    start: i64,
    step: i64,
    count: i64,
}

/// Outputs of one residue along an axis, and the kernel elements that meet input elements there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Phase {
    outputs: Comb,
    kernel: Comb,
    axis: DenseAxis,
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The phases of an axis that meet the kernel at all; outputs outside of them are zero.
fn phases(a: &ConvAxis, flip: bool, kernel: i64, outputs: i64) -> SmallVec<[Phase; 4]> {
    let (low, dilation) =
        if flip { (a.low - (kernel - 1) * a.dilation, -a.dilation) } else { (a.low, a.dilation) };
    let t = a.input_dilation;
    let period = t / gcd(t, a.stride);
    let step = t / gcd(t, a.dilation);
    let phase = |r: i64| {
        // The first kernel element whose position is a multiple of t.
        let at = |k: i64| r * a.stride - low + k * dilation;
        let start = (0..step.min(kernel)).find(|&k| at(k) % t == 0)?;
        let comb = |start: i64, step: i64, n: i64| Comb { start, step, count: (n - start + step - 1) / step };
        Some(Phase {
            outputs: comb(r, period, outputs),
            kernel: comb(start, step, kernel),
            axis: DenseAxis {
                stride: a.stride * period / t,
                low: -(at(start) / t),
                dilation: dilation * step / t,
            },
        })
    };
    (0..period.min(outputs)).filter_map(phase).collect()
}

/// Memory that a view can start at.
pub trait Place: Copy {
    /// The place so many bytes further on.
    fn advanced(self, bytes: i64) -> Self;
}

impl Place for u64 {
    fn advanced(self, bytes: i64) -> u64 {
        self.wrapping_add_signed(bytes)
    }
}

impl Place for *mut u8 {
    fn advanced(self, bytes: i64) -> *mut u8 {
        self.wrapping_offset(bytes as isize)
    }
}

impl<P: Place> View<P> {
    fn combed(&mut self, axis: usize, c: &Comb) {
        self.ptr = self.ptr.advanced(c.start * self.strides[axis] * self.dtype.size() as i64);
        self.strides[axis] *= c.step;
        self.shape[axis] = c.count;
    }
}

/// A convolution as dense blocks.
#[derive(Debug, Clone)]
pub struct Blocks<P> {
    /// The blocks. Their outputs are disjoint, and so are their parts of the kernel: along an axis an output
    /// and a kernel element meet only where their residues agree.
    pub list: Vec<Block<P>>,
    /// Some outputs lie in no block: they are zero.
    pub output_gaps: bool,
    /// Some kernel elements lie in no block: they meet no input element.
    pub kernel_gaps: bool,
}

/// Cuts a convolution into dense blocks.
pub fn blocks<P: Place>(conv: &Conv, x: &View<P>, w: &View<P>, y: &View<P>) -> Blocks<P> {
    let empty = x.size() == 0 || w.size() == 0 || y.size() == 0;
    let whole =
        Block { x: x.clone(), w: w.clone(), y: y.clone(), axes: SmallVec::new(), groups: conv.groups };
    let mut out =
        Blocks { list: if empty { Vec::new() } else { vec![whole] }, output_gaps: empty, kernel_gaps: empty };
    for (i, a) in conv.axes.iter().enumerate() {
        let (kernel, outputs) = (w.shape[i + 1], y.shape[i + 1]);
        let list = phases(a, conv.flip, kernel, outputs);
        out.output_gaps |= list.iter().map(|p| p.outputs.count).sum::<i64>() < outputs;
        out.kernel_gaps |= list.iter().map(|p| p.kernel.count).sum::<i64>() < kernel;
        let with = |b: &Block<P>, p: &Phase| {
            let mut b = b.clone();
            b.y.combed(i + 1, &p.outputs);
            b.w.combed(i + 1, &p.kernel);
            b.axes.push(p.axis);
            b
        };
        out.list = out.list.iter().flat_map(|b| list.iter().map(move |p| with(b, p))).collect();
    }
    out
}

#[cfg(test)]
mod tests;

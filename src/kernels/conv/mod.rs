//! Geometry of convolutions, shared by both backends. A convolution with dilated input or flipped kernel is
//! cut into dense blocks: convolutions of every element of the input with a part of the kernel that write a
//! strided part of the output. So no kernel multiplies the zeros that input dilation puts between elements.
//!
//! Layouts are channels last: input (N, S..., C), weight (Cout, K..., C / groups), output (N, O..., Cout).
//! output\[o\] sums x\[(o * stride - low + k' * dilation) / input_dilation\] * w\[k\], where k' is k, or
//! K - 1 - k with `flip`; positions outside the input, and between its elements, count as zero.

use smallvec::SmallVec;

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
mod tests {
    use super::*;
    use crate::core::Layout;

    #[test]
    fn blocks_share_neither_outputs_nor_kernel_elements() {
        let axis = ConvAxis { stride: 1, low: 1, dilation: 1, input_dilation: 2 };
        let conv = Conv { axes: [axis, axis].into_iter().collect(), groups: 1, flip: true };
        let view = |shape: &[i64]| View::new(0u64, crate::core::Dtype::F32, &Layout::contiguous(shape));
        let b = blocks(&conv, &view(&[1, 4, 4, 2]), &view(&[2, 3, 3, 2]), &view(&[1, 7, 7, 2]));
        assert_eq!(b.list.len(), 4);
        assert!(!b.output_gaps && !b.kernel_gaps);
        assert_eq!(b.list.iter().map(|b| b.y.size()).sum::<usize>(), 98);
        assert_eq!(b.list.iter().map(|b| b.w.size()).sum::<usize>(), 36);
    }

    #[test]
    fn phases_reach_what_the_definition_reaches() {
        for code in 0..4000i64 {
            let pick = |d: i64, n: i64| code / d % n;
            let a = ConvAxis {
                stride: 1 + pick(1, 4),
                low: pick(4, 7) - 3,
                dilation: 1 + pick(28, 3),
                input_dilation: 1 + pick(84, 5),
            };
            let (flip, kernel, outputs, input) =
                (pick(420, 2) == 1, pick(3, 5), 1 + pick(7, 9), 1 + pick(5, 6));
            let mut want = Vec::new();
            for o in 0..outputs {
                for k in 0..kernel {
                    let at = o * a.stride - a.low + if flip { kernel - 1 - k } else { k } * a.dilation;
                    if at % a.input_dilation == 0 && (0..input).contains(&(at / a.input_dilation)) {
                        want.push((o, k, at / a.input_dilation));
                    }
                }
            }
            let mut got = Vec::new();
            for p in phases(&a, flip, kernel, outputs) {
                for o in 0..p.outputs.count {
                    for k in 0..p.kernel.count {
                        let at = o * p.axis.stride - p.axis.low + k * p.axis.dilation;
                        assert!(p.kernel.count > 0);
                        if (0..input).contains(&at) {
                            let o = p.outputs.start + o * p.outputs.step;
                            got.push((o, p.kernel.start + k * p.kernel.step, at));
                        }
                    }
                }
            }
            got.sort_unstable();
            assert_eq!(got, want, "{a:?} flip {flip} kernel {kernel} outputs {outputs} input {input}");
        }
    }
}

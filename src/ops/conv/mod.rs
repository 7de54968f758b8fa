//! Convolutions, channels last. One primitive computes, from two of input, kernel and output, either the output
//! or the gradient of the kernel; the gradient of the input is an output again, of the transposed
//! convolution. The three are each other's derivatives, so they nest.

use smallvec::SmallVec;

use super::batching;
use super::composite;
use super::elementwise::astype;
use super::support::*;
use super::view::{moveaxis, reshape, slice, swapaxes};
use crate::bail;
use crate::core::layout::{checked_size, show};
use crate::core::primitive::Batched;
use crate::core::{
    Array, Derivatives, Dtype, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp, Vmap,
};
use crate::kernels::conv::{Conv, ConvAxis};
use crate::on_gpu;
use crate::params;

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The output, from input and kernel.
    Output,
    /// The gradient of the kernel, from input and cotangent of the output.
    Kernel,
}

struct Convolution {
    conv: Conv,
    wanted: Wanted,
}

impl Primitive for Convolution {
    fn name(&self) -> &str {
        match self.wanted {
            Wanted::Output => "convolution",
            Wanted::Kernel => "convolution_kernel_gradient",
        }
    }

    fn params(&self) -> Option<Vec<Param>> {
        let list = |f: fn(&ConvAxis) -> i64| Param::Ints(self.conv.axes.iter().map(f).collect());
        params![
            self.conv.groups,
            self.conv.flip,
            list(|a| a.stride),
            list(|a| a.low),
            list(|a| a.dilation),
            list(|a| a.input_dilation),
        ]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (a, b, dst) = (host_in(&inputs[0])?, host_in(&inputs[1])?, host_out(&outputs[0])?);
        match self.wanted {
            _ if dst.size() == 0 => Ok(()),
            Wanted::Output => crate::cpu::conv::output(&a, &b, &dst, &self.conv),
            Wanted::Kernel => crate::cpu::conv::weight(&a, &b, &dst, &self.conv),
        }
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let (a, b) = (dev_in(enc, &inputs[0])?, dev_in(enc, &inputs[1])?);
            let dst = dev_out(enc, &outputs[0])?;
            match self.wanted {
                _ if dst.size() == 0 => Ok(()),
                Wanted::Output => crate::vulkan::kernels::conv::output(enc, &a, &b, &dst, &self.conv),
                Wanted::Kernel => crate::vulkan::kernels::conv::weight(enc, &a, &b, &dst, &self.conv),
            }
        })
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let (p, cot, s) = (r.primals, &r.cotangents[0], r.stream);
        r.each(|i| {
            let a = match (self.wanted, i) {
                (Wanted::Output, 0) => input_gradient(cot, &p[1], spatial(&p[0]), &self.conv, s),
                (Wanted::Output, _) => kernel_gradient(&p[0], cot, spatial(&p[1]), &self.conv, s),
                (Wanted::Kernel, 0) => input_gradient(&p[1], cot, spatial(&p[0]), &self.conv, s),
                (Wanted::Kernel, _) => output(&p[0], cot, spatial(&p[1]), &self.conv, s),
            };
            a.map(Some)
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let (sizes, mut total) = (spatial(&r.outputs[0]), None);
        for (t, &i) in r.tangents.iter().zip(r.argnums) {
            let (a, b) = if i == 0 { (t, &r.primals[1]) } else { (&r.primals[0], t) };
            let term = match self.wanted {
                Wanted::Output => output(a, b, sizes, &self.conv, r.stream),
                Wanted::Kernel => kernel_gradient(a, b, sizes, &self.conv, r.stream),
            };
            total = plus(total, term?, r.stream)?;
        }
        Ok(Some(vec![total]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let (conv, s, n) = (&self.conv, r.stream, r.size());
        let sizes = spatial(&r.outputs[0]);
        let grouped = Conv { groups: conv.groups * n, ..conv.clone() };
        let out = match (self.wanted, r.axes[0].is_some(), r.axes[1].is_some()) {
            (Wanted::Output, true, false) => {
                let y = output(&fold(&batching::front(r, 0)?, 0, s)?, &r.inputs[1], sizes, conv, s)?;
                unfold(&y, 0, n, s)?
            }
            (Wanted::Output, false, _) => {
                // Output channels become (group, batch, channel of the group).
                let w = unfold(&batching::front(r, 1)?, 1, conv.groups, s)?;
                let w = fold(&fold(&swapaxes(&w, 0, 1, s)?, 0, s)?, 0, s)?;
                let y = output(&r.inputs[0], &w, sizes, conv, s)?;
                let last = y.ndim() - 1;
                let y = unfold(&unfold(&y, last, conv.groups, s)?, last + 1, n, s)?;
                fold(&moveaxis(&y, last as i64 + 1, 0, s)?, last + 1, s)?
            }
            (Wanted::Output, true, true) => {
                let x = into_channels(&batching::front(r, 0)?, s)?;
                let y = output(&x, &fold(&batching::front(r, 1)?, 0, s)?, sizes, &grouped, s)?;
                let last = y.ndim() - 1;
                moveaxis(&unfold(&y, last, n, s)?, last as i64, 0, s)?
            }
            (Wanted::Kernel, _, _) => {
                let whole = |i: usize| into_channels(&batching::with_batch(r, i)?, s);
                unfold(&kernel_gradient(&whole(0)?, &whole(1)?, sizes, &grouped, s)?, 0, n, s)?
            }
        };
        Ok(batching::batched(out))
    }
}

/// A stored convolution or gradient of one.
pub(super) fn restore(c: &Stored) -> Result<Array> {
    let ([x, other], (shape, dtype)) = (c.inputs()?, c.spec()?);
    let n = x.ndim().saturating_sub(2);
    let (stride, low) = (c.steps(2, n)?, c.steps(3, n)?);
    let (dilation, input_dilation) = (c.steps(4, n)?, c.steps(5, n)?);
    let (groups, flip) = (c.int(0)?, c.flag(1)?);
    let all = || [stride, low, dilation, input_dilation].into_iter().flatten();
    let positive = [stride, dilation, input_dilation].into_iter().flatten().all(|&v| v > 0);
    let small = all().all(|v| v.unsigned_abs() <= i32::MAX as u64);
    if !positive || !small || shape.len() != n + 2 || other.ndim() != n + 2 || x.dtype() != other.dtype() {
        bail!(Value, "[{}] Cannot convolve {} with {}.", c.name, show(x.shape()), show(other.shape()));
    }
    checked_size(c.name, shape, dtype.size())?;
    let axes = (0..n).map(|i| ConvAxis {
        stride: stride[i],
        low: low[i],
        dilation: dilation[i],
        input_dilation: input_dilation[i],
    });
    let conv = Conv { axes: axes.collect(), groups, flip };
    let sizes = &shape[1..=n];
    if c.name == "convolution" {
        check(x, other, groups, c.stream)?;
        return output(x, other, sizes, &conv, c.stream);
    }
    // The kernel takes the place of the output: what it would have to look like is checked.
    let kernel = Array::placeholder(shape.clone(), *dtype)?;
    check(x, &kernel, groups, c.stream)?;
    if other.dim(-1) != shape[0] || other.shape()[0] != x.shape()[0] {
        bail!(Value, "[{}] Cotangent {} does not fit {}.", c.name, show(other.shape()), show(shape));
    }
    kernel_gradient(x, other, sizes, &conv, c.stream)
}

/// Spatial sizes of an array.
fn spatial(a: &Array) -> &[i64] {
    &a.shape()[1..a.ndim() - 1]
}

/// Axes `at` and `at + 1` as one.
fn fold(a: &Array, at: usize, s: Stream) -> Result<Array> {
    let mut shape: Shape = a.shape().into();
    let n = shape.remove(at);
    shape[at] *= n;
    reshape(a, &shape, s)
}

/// Axis `at` as (`parts`, rest).
fn unfold(a: &Array, at: usize, parts: i64, s: Stream) -> Result<Array> {
    let mut shape: Shape = a.shape().into();
    shape[at] /= parts.max(1);
    shape.insert(at, parts);
    reshape(a, &shape, s)
}

/// The first axis joined to the channels, as the slower one.
fn into_channels(a: &Array, s: Stream) -> Result<Array> {
    let at = a.ndim() - 2;
    fold(&moveaxis(a, 0, at as i64, s)?, at, s)
}

fn node(
    conv: Conv,
    wanted: Wanted,
    sizes: &[i64],
    ends: [i64; 2],
    inputs: [&Array; 2],
    s: Stream,
) -> Result<Array> {
    let shape: Shape = [ends[0]].into_iter().chain(sizes.iter().copied()).chain([ends[1]]).collect();
    Array::lazy(shape, inputs[0].dtype(), Convolution { conv, wanted }, inputs.map(Array::clone).to_vec(), s)
}

/// The convolution node; `sizes` are those of the output.
fn output(x: &Array, w: &Array, sizes: &[i64], conv: &Conv, s: Stream) -> Result<Array> {
    node(conv.clone(), Wanted::Output, sizes, [x.shape()[0], w.shape()[0]], [x, w], s)
}

/// Gradient of a kernel of spatial `sizes` from the cotangent of the output.
fn kernel_gradient(x: &Array, dy: &Array, sizes: &[i64], conv: &Conv, s: Stream) -> Result<Array> {
    let ends = [dy.dim(-1), x.dim(-1) / conv.groups];
    node(conv.clone(), Wanted::Kernel, sizes, ends, [x, dy], s)
}

/// Gradient of an input of spatial `sizes`: the cotangent, its elements `stride` apart, convolved with the kernel
/// mirrored and its channels exchanged.
fn input_gradient(dy: &Array, w: &Array, sizes: &[i64], conv: &Conv, s: Stream) -> Result<Array> {
    let turn = |(a, &k): (&ConvAxis, &i64)| ConvAxis {
        stride: a.input_dilation,
        low: (k - 1) * a.dilation - a.low,
        dilation: a.dilation,
        input_dilation: a.stride,
    };
    let axes = conv.axes.iter().zip(spatial(w)).map(turn).collect();
    let transposed = Conv { axes, groups: conv.groups, flip: !conv.flip };
    let w = if conv.groups == 1 {
        swapaxes(w, 0, -1, s)?
    } else {
        fold(&swapaxes(&unfold(w, 0, conv.groups, s)?, 1, -1, s)?, 0, s)?
    };
    output(dy, &w, sizes, &transposed, s)
}

/// What [`conv_general`] takes besides the arrays. A list is empty (for the default), holds one value for all
/// spatial axes, or one for each.
#[derive(Debug, Clone, Default)]
pub struct ConvOptions {
    /// Step of the kernel; 1.
    pub stride: SmallVec<[i64; 3]>,
    /// Zeros before the input; negative ones crop it. 0.
    pub padding_low: SmallVec<[i64; 3]>,
    /// Zeros behind the input; negative ones crop it. 0.
    pub padding_high: SmallVec<[i64; 3]>,
    /// Distance between kernel elements; 1.
    pub kernel_dilation: SmallVec<[i64; 3]>,
    /// Distance between input elements; 1.
    pub input_dilation: SmallVec<[i64; 3]>,
    /// Groups of channels; 0 counts as an error.
    pub groups: i64,
    /// Applies the kernel mirrored.
    pub flip: bool,
}

impl ConvOptions {
    fn params(&self) -> Vec<Param> {
        let lists = [
            &self.stride,
            &self.padding_low,
            &self.padding_high,
            &self.kernel_dilation,
            &self.input_dilation,
        ];
        lists.map(|l| Param::from(&l[..])).into_iter().chain([self.groups.into(), self.flip.into()]).collect()
    }

    fn restore(c: &Stored) -> Result<ConvOptions> {
        let list = |i: usize| c.ints(i).map(SmallVec::from_slice);
        Ok(ConvOptions {
            stride: list(0)?,
            padding_low: list(1)?,
            padding_high: list(2)?,
            kernel_dilation: list(3)?,
            input_dilation: list(4)?,
            groups: c.int(5)?,
            flip: c.flag(6)?,
        })
    }
}

/// A stored convolution as the public ops have it.
pub(super) fn restore_public(c: &Stored) -> Result<Array> {
    let ([x, w], s) = (c.inputs()?, c.stream);
    match c.name {
        "conv_general" => conv_general(x, w, &ConvOptions::restore(c)?, s),
        "conv_transpose" => conv_transpose(x, w, &ConvOptions::restore(c)?, c.ints(7)?, s),
        "convolve" => {
            let modes = [ConvolveMode::Full, ConvolveMode::Same, ConvolveMode::Valid];
            convolve(x, w, c.choice(0, &modes)?, s)
        }
        _ => c.unknown(),
    }
}

const RANK: &str = "[conv] Only works for inputs with 1-3 spatial dimensions. The inputs must be in the format \
                    [N, ..., C_in]";

/// Whether the arrays belong together, in the order and the words that MLX checks them.
fn check(x: &Array, w: &Array, groups: i64, s: Stream) -> Result<()> {
    if !(3..=5).contains(&x.ndim()) {
        bail!(Value, "{RANK}");
    }
    let n = x.ndim() - 2;
    for (a, what) in [(x, "input"), (w, "weight")] {
        // MLX takes weights of any dtype, and drops the imaginary part of complex ones.
        if !a.dtype().is_float() && (what == "input" || a.dtype() == Dtype::C64) {
            bail!(
                Value,
                "[conv] Invalid {what} array with type {}. Convolution currently only supports floating point \
                 types",
                a.dtype()
            );
        }
    }
    if w.ndim() != n + 2 {
        bail!(
            Value,
            "[conv] Invalid weight array with {} dimensions for {n}D convolution. Expected an array with {} \
             dimensions following the format [C_out, ..., C_in].",
            w.ndim(),
            n + 2
        );
    }
    if groups < 1 {
        bail!(Value, "[conv] The number of groups must be positive. Got {groups} groups.");
    }
    if x.dim(-1) % groups != 0 {
        bail!(
            Value,
            "[conv] The input channels must be divisible by the number of groups. Got input with shape {} and \
             {groups} groups.",
            show(x.shape())
        );
    }
    if w.shape()[0] % groups != 0 {
        bail!(
            Value,
            "[conv] If groups > 1, the output channels must be divisible by the number of groups. Got {} output \
             channels and {groups} groups.",
            w.shape()[0]
        );
    }
    if w.dim(-1) * groups != x.dim(-1) {
        if groups == 1 {
            bail!(
                Value,
                "[conv] Expect the input channels in the input and weight array to match but got shapes - \
                 input: {} and weight: {}",
                show(x.shape()),
                show(w.shape())
            );
        }
        bail!(
            Value,
            "[conv] Given groups={groups} and weights of shape {}, expected to have {} input channels but got \
             {} input channels instead.",
            show(w.shape()),
            w.dim(-1) * groups,
            x.dim(-1)
        );
    }
    refuse_f64("conv", &[x.clone(), w.clone()], s)
}

/// One value for each of `n` axes.
fn per_axis(list: &[i64], default: i64, n: usize) -> SmallVec<[i64; 3]> {
    match list {
        [] => SmallVec::from_elem(default, n),
        [one] => SmallVec::from_elem(*one, n),
        _ => list.into(),
    }
}

/// Crops axes with negative padding and returns what padding is left.
fn crop(
    x: &Array,
    low: &[i64],
    high: &[i64],
    s: Stream,
) -> Result<(Array, SmallVec<[i64; 3]>, SmallVec<[i64; 3]>)> {
    let rest = |p: &[i64]| p.iter().map(|&v| v.max(0)).collect();
    if low.iter().chain(high).all(|&p| p >= 0) {
        return Ok((x.clone(), low.into(), high.into()));
    }
    let (mut start, mut stop) = (vec![0; x.ndim()], x.shape().to_vec());
    for (i, (&l, &h)) in low.iter().zip(high).enumerate() {
        let n = stop[i + 1];
        start[i + 1] = (-l).clamp(0, n);
        // As a slice counts: an end before the first element counts from the back.
        let end = n + h.min(0);
        stop[i + 1] = if end < 0 { (end + n).max(0) } else { end };
    }
    let cropped = slice(x, &start, &stop, &vec![1; x.ndim()], s)?;
    Ok((cropped, rest(low), rest(high)))
}

/// Convolution of `x` (N, S..., Cin) with `w` (Cout, K..., Cin / groups) over one to three spatial axes; the result
/// is (N, O..., Cout) in the promoted dtype.
pub fn conv_general(x: &Array, w: &Array, options: &ConvOptions, s: Stream) -> Result<Array> {
    let o = options;
    check(x, w, o.groups, s)?;
    if let Some(out) = composite::one("conv_general", || o.params(), &[x, w], s)? {
        return Ok(out);
    }
    let n = x.ndim() - 2;
    let stride = per_axis(&o.stride, 1, n);
    let (low, high) = (per_axis(&o.padding_low, 0, n), per_axis(&o.padding_high, 0, n));
    let (kernel_dilation, input_dilation) =
        (per_axis(&o.kernel_dilation, 1, n), per_axis(&o.input_dilation, 1, n));
    let fits = |list: &[i64], what: &str| -> Result<()> {
        if list.len() != n {
            bail!(Value, "[conv] Invalid {what} {} for {n}D convolution.", show(list));
        }
        Ok(())
    };
    fits(&stride, "strides")?;
    if low.len() != n || high.len() != n {
        bail!(Value, "[conv] Invalid padding {} | {} for {n}D convolution.", show(&low), show(&high));
    }
    fits(&kernel_dilation, "kernel dilation")?;
    fits(&input_dilation, "input dilation")?;
    for (list, sizes, what) in [
        (&kernel_dilation, "Kernel dilation", "kernel dilation"),
        (&input_dilation, "Input dilation", "input dilation"),
        (&stride, "Stride", "strides"),
    ] {
        if list.iter().any(|&v| v < 1) {
            bail!(Value, "[conv] {sizes} sizes must be positive. Got {what} {}.", show(list));
        }
    }
    let (x, low, high) = crop(x, &low, &high, s)?;
    let mut sizes = SmallVec::<[i64; 3]>::new();
    for i in 0..n {
        let padded = (x.shape()[i + 1] - 1) * input_dilation[i] + 1 + low[i] + high[i];
        let kernel = (w.shape()[i + 1] - 1) * kernel_dilation[i] + 1;
        if padded < kernel {
            bail!(
                Value,
                "[conv] Spatial dimensions of input after padding cannot be smaller than weight spatial \
                 dimensions. Got error at axis {} for input with shape {}, padding low {}, padding high {}, and \
                 weight of shape {}.",
                i + 1,
                show(x.shape()),
                show(&low),
                show(&high),
                show(w.shape())
            );
        }
        sizes.push((padded - kernel) / stride[i] + 1);
    }
    let dtype = x.dtype().promote(w.dtype());
    let shape: Shape =
        [x.shape()[0]].into_iter().chain(sizes.iter().copied()).chain([w.shape()[0]]).collect();
    checked_size("conv", &shape, dtype.size())?;
    let axis = |i: usize| ConvAxis {
        stride: stride[i],
        low: low[i],
        dilation: kernel_dilation[i],
        input_dilation: input_dilation[i],
    };
    let conv = Conv { axes: (0..n).map(axis).collect(), groups: o.groups, flip: o.flip };
    output(&astype(&x, dtype, s)?, &astype(w, dtype, s)?, &sizes, &conv, s)
}

/// Transposed convolution of `x` (N, S..., Cin) with `w` (Cout, K..., Cin / groups): the gradient of a convolution
/// with that stride, padding and dilation. `output_padding`, one number an axis, lengthens the result at its end.
/// `options` gives stride, low padding, kernel dilation and groups, the lists as long or of one value.
pub fn conv_transpose(
    x: &Array,
    w: &Array,
    options: &ConvOptions,
    output_padding: &[i64],
    s: Stream,
) -> Result<Array> {
    let given = || options.params().into_iter().chain([output_padding.into()]).collect();
    if let Some(out) = composite::one("conv_transpose", given, &[x, w], s)? {
        return Ok(out);
    }
    let n = output_padding.len();
    let (padding, dilation) =
        (per_axis(&options.padding_low, 0, n), per_axis(&options.kernel_dilation, 1, n));
    let transposed = |i: usize| {
        let k = w.shape().get(i + 1).copied().unwrap_or(1);
        (k - 1) * dilation[i] - padding[i]
    };
    let general = ConvOptions {
        stride: SmallVec::from_elem(1, n),
        padding_low: (0..n).map(transposed).collect(),
        padding_high: (0..n).map(|i| transposed(i) + output_padding[i]).collect(),
        kernel_dilation: dilation.clone(),
        input_dilation: options.stride.clone(),
        groups: options.groups,
        flip: true,
    };
    conv_general(x, w, &general, s)
}

/// What part of the full convolution of two sequences is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvolveMode {
    /// All of it: the sum of the lengths minus one.
    Full,
    /// The middle, as long as the longer one.
    Same,
    /// Where the shorter one lies wholly inside the longer one.
    Valid,
}

/// Convolution of two sequences, as `numpy.convolve`.
pub fn convolve(a: &Array, v: &Array, mode: ConvolveMode, s: Stream) -> Result<Array> {
    if a.ndim() != 1 || v.ndim() != 1 {
        bail!(Value, "[convolve] Inputs must be 1D.");
    }
    if a.size() == 0 || v.size() == 0 {
        bail!(Value, "[convolve] Inputs cannot be empty.");
    }
    if let Some(out) = composite::one("convolve", || vec![(mode as usize).into()], &[a, v], s)? {
        return Ok(out);
    }
    let (a, v) = if a.size() < v.size() { (v, a) } else { (a, v) };
    let n = v.size() as i64;
    let (low, high) = match mode {
        ConvolveMode::Full => (n - 1, n - 1),
        ConvolveMode::Same => (n / 2, n - 1 - n / 2),
        ConvolveMode::Valid => (0, 0),
    };
    let line = |a: &Array| reshape(a, &[1, -1, 1], s);
    let options = ConvOptions {
        padding_low: [low].into_iter().collect(),
        padding_high: [high].into_iter().collect(),
        groups: 1,
        flip: true,
        ..ConvOptions::default()
    };
    reshape(&conv_general(&line(a)?, &line(v)?, &options, s)?, &[-1], s)
}

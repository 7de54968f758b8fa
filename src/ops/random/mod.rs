//! Random numbers from MLX's threefry2x32 counter generator: the same key gives the same bits on every
//! device (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Distributions are graph
//! ops over those bits.

use super::batching::{batched, front};
use super::elementwise::*;
use super::index::indexing::take;
use super::ranges::arange;
use super::reduce::scan::cumsum;
use super::reduce::{argmax, max};
use super::sort::argsort;
use super::sort::search::searchsorted;
use super::support::*;
use super::view::{broadcast_to, expand_dims, reshape, slice, view};
use crate::bail;
use crate::core::fork::Shared;
use crate::core::layout::{broadcast_shapes, checked_size, normalize_axis, show};
use crate::core::lengths_vary;
use crate::core::primitive::cannot_follow;
use crate::core::{
    Array, Batched, Device, Dtype, Param, Primitive, Result, Shape, Stored, Stream, Vmap, default_stream,
};
use crate::kernels::{Draw, ScanForm};
use crate::on_gpu;
use crate::params;

/// Words of a key, or of each of several keys.
pub(crate) struct RandomBits(pub(crate) Draw);

/// Key array seen as (number of keys, words a key) output.
fn rows<P: Copy>(mut v: crate::kernels::View<P>, keys: usize) -> crate::kernels::View<P> {
    let n = v.size().checked_div(keys).unwrap_or(0) as i64;
    v.shape = smallvec::smallvec![keys as i64, n];
    v.strides = smallvec::smallvec![n.max(1), 1];
    v
}

impl Primitive for RandomBits {
    fn name(&self) -> &str {
        "random_bits"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![self.0 as usize]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let (keys, dst) = (host_in(&inputs[0])?, host_out(&outputs[0])?);
        if dst.size() == 0 {
            return Ok(());
        }
        crate::cpu::random::draw(self.0, &keys, &rows(dst, inputs[0].size() / 2))
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        on_gpu!(stream, |enc| {
            let keys = dev_in(enc, &inputs[0])?;
            let dst = dev_out(enc, &outputs[0])?;
            if dst.size() == 0 {
                return Ok(());
            }
            crate::vulkan::kernels::random::draw(enc, self.0, &keys, &rows(dst, inputs[0].size() / 2))
        })
    }

    fn may_join(&self) -> bool {
        true
    }

    fn blocks_gradient(&self) -> bool {
        true
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        // One row of words a key; nested batches of keys stay in front.
        let keys = front(r, 0)?;
        let out = &r.outputs[0];
        Array::lazy(r.shape(0), out.dtype(), RandomBits(self.0), vec![keys], r.stream).map(batched)
    }
}

/// Stored random words.
pub(super) fn restore(c: &Stored) -> Result<Array> {
    let (keys, (shape, dtype)) = (c.input()?, c.spec()?);
    let draw = c.choice(0, &Draw::ALL)?;
    let lead = keys.ndim().saturating_sub(1);
    let fits = match draw {
        Draw::Bits => matches!(dtype, Dtype::U8 | Dtype::U16 | Dtype::U32),
        _ => *dtype == Dtype::F32,
    };
    let size = checked_size("random_bits", shape, dtype.size())?;
    let rows = keys.size() / 2;
    if !fits
        || keys.dtype() != Dtype::U32
        || keys.shape().last() != Some(&2)
        || shape.len() < lead
        || shape[..lead] != keys.shape()[..lead]
        || (rows == 0 && size > 0)
    {
        let key = show(keys.shape());
        bail!(Value, "[random_bits] Cannot draw {} of {dtype} with keys of shape {key}.", show(shape));
    }
    Array::lazy(shape.clone(), *dtype, RandomBits(draw), vec![keys.clone()], c.stream)
}

pub(crate) static STATE: Shared<Option<Array>> = Shared::new(|| None);

fn clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |d| d.as_millis() as u64)
}

/// A key from a seed: its high and low 32 bits.
pub fn key(seed: u64) -> Result<Array> {
    // SAFETY: two 32-bit words.
    // FITS: both halves of the seed.
    from_host(&[2], Dtype::U32, |p| unsafe { *p.cast() = [(seed >> 32) as u32, seed as u32] })
}

/// Seeds the process-wide generator.
pub fn seed(value: u64) -> Result<()> {
    *STATE.lock() = Some(key(value)?);
    Ok(())
}

/// The process-wide key that the next implicit draw will split.
pub fn global_key() -> Result<Array> {
    let mut st = STATE.lock();
    if st.is_none() {
        *st = Some(key(clock())?);
    }
    // INVARIANT: set just above.
    Ok(st.clone().expect("seeded"))
}

/// Replaces the process-wide key.
pub fn set_global_key(k: Array) {
    *STATE.lock() = Some(k);
}

fn next_key(given: Option<&Array>, s: Stream) -> Result<Array> {
    if let Some(k) = given {
        if k.dtype() != Dtype::U32 || k.ndim() == 0 || k.dim(-1) != 2 {
            bail!(
                Value,
                "[random] Expected a uint32 key of shape (2,), got {} of shape {}.",
                k.dtype(),
                show(k.shape())
            );
        }
        return Ok(k.clone());
    }
    let current = global_key()?;
    // The chain of keys lives on the host: it is tiny and every device reads it.
    let host = default_stream(Device::CPU);
    let on = if current.is_tracer() { s } else { host };
    let pair = split(&current, 2, on)?;
    let pick = |i: i64| reshape(&slice(&pair, &[i, 0], &[i + 1, 2], &[1, 1], on)?, &[2], on);
    set_global_key(pick(0)?);
    pick(1)
}

/// `num` new keys from one.
pub fn split(k: &Array, num: i64, s: Stream) -> Result<Array> {
    if num < 0 {
        bail!(Value, "[random.split] num must be non-negative, got {num}.");
    }
    bits(&[num, 2], 4, Some(k), s)
}

/// Uniform random integers of `width` bytes (1, 2 or 4).
pub fn bits(shape: &[i64], width: usize, k: Option<&Array>, s: Stream) -> Result<Array> {
    let dtype = match width {
        1 => Dtype::U8,
        2 => Dtype::U16,
        4 => Dtype::U32,
        _ => bail!(Value, "[bits] Bit width must be in {{1, 2, 4}}, got {width}."),
    };
    draw(Draw::Bits, shape, dtype, k, s)
}

/// Words of one key, finished by the kernel that makes them.
fn draw(finish: Draw, shape: &[i64], dtype: Dtype, k: Option<&Array>, s: Stream) -> Result<Array> {
    checked_size("random", shape, dtype.size())?;
    let k = next_key(k, s)?;
    if k.ndim() != 1 {
        bail!(Value, "[random] Expected key shape (2,), got {}.", show(k.shape()));
    }
    // Shapes of random numbers are given as numbers, which may follow from an argument's.
    if lengths_vary() {
        return Err(cannot_follow("RandomBits"));
    }
    Array::lazy(shape, dtype, RandomBits(finish), vec![k], s)
}

fn float_only(op: &str, dtype: Dtype) -> Result<()> {
    if dtype == Dtype::F64 {
        bail!(Runtime, "[{op}] Can only generate float16, bfloat16 or float32 numbers, got float64.");
    }
    if !dtype.is_float() {
        bail!(Value, "[{op}] Can only generate float16, bfloat16 or float32 numbers, got {dtype}.");
    }
    Ok(())
}

/// Whether an array is this float32 number, already on the host.
fn is_number(a: &Array, value: f32) -> bool {
    // FITS: the low bytes are the element.
    a.dtype() == Dtype::F32 && scalar_bits(a).is_some_and(|bits| f32::from_bits(bits as u32) == value)
}

/// The value of a number that lies on the host, without axes, if floats of 24 bits have it. What follows from it needs no
/// kernel.
fn number(a: &Array) -> Option<f32> {
    const EXACT: i64 = 1 << 24;
    let bits = (a.ndim() == 0 && !a.is_tracer()).then(|| scalar_bits(a)).flatten()?;
    let whole = |v: i64| ((-EXACT..=EXACT).contains(&v)).then_some(v as f32);
    // FITS: the low bytes are the element.
    match a.dtype() {
        Dtype::F32 => Some(f32::from_bits(bits as u32)),
        Dtype::F16 => Some(half::f16::from_bits(bits as u16).to_f32()),
        Dtype::BF16 => Some(half::bf16::from_bits(bits as u16).to_f32()),
        Dtype::I8 => whole(i64::from(bits as i8)),
        Dtype::I16 => whole(i64::from(bits as i16)),
        Dtype::I32 => whole(i64::from(bits as i32)),
        Dtype::I64 => whole(bits as i64),
        Dtype::Bool | Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => whole(i64::try_from(bits).ok()?),
        Dtype::F64 | Dtype::C64 => None,
    }
}

/// A bound in a floating-point dtype.
fn bound(a: &Array, dtype: Dtype, s: Stream) -> Result<Array> {
    match number(a).filter(|_| s.device.is_gpu() && a.dtype() != dtype) {
        Some(v) => scalar_f64(v.into(), dtype),
        None => astype(a, dtype, s),
    }
}

/// `hi - lo`, both of one floating-point dtype.
fn range(hi: &Array, lo: &Array, s: Stream) -> Result<Array> {
    match (number(hi), number(lo)) {
        (Some(h), Some(l)) if s.device.is_gpu() => scalar_f64((h - l).into(), hi.dtype()),
        _ => subtract(hi, lo, s),
    }
}

/// `a` less `less` in an integer dtype, where both are integers that every step on the way has.
fn whole(a: &Array, less: i64, dtype: Dtype, s: Stream) -> Option<Result<Array>> {
    let exact = if a.dtype().is_integer() { 1 << 24 } else { 1 << 8 };
    let v = number(a).filter(|v| s.device.is_gpu() && v.fract() == 0.0 && v.abs() <= exact as f32)? as i64;
    let (low, high) = match dtype {
        Dtype::I8 => (-128, 127),
        Dtype::U8 => (0, 255),
        Dtype::I16 => (-(1 << 15), (1 << 15) - 1),
        Dtype::U16 => (0, (1 << 16) - 1),
        Dtype::I32 | Dtype::I64 => (-exact, exact),
        Dtype::U32 | Dtype::U64 => (0, exact),
        _ => return None,
    };
    // The difference is one in the dtype of the bound.
    let fits = (low..=high).contains(&(v - less)) && (low..=high).contains(&v) && a.dtype() != Dtype::Bool;
    (fits && (less == 0 || v >= less)).then(|| scalar_i64(v - less, dtype))
}

/// Uniform numbers in `[low, high)`; bounds broadcast to `shape`.
pub fn uniform(
    low: &Array,
    high: &Array,
    shape: &[i64],
    dtype: Dtype,
    k: Option<&Array>,
    s: Stream,
) -> Result<Array> {
    float_only("uniform", dtype)?;
    let (lo, hi) = (bound(low, dtype, s)?, bound(high, dtype, s)?);
    let out = broadcast_shapes("uniform", &broadcast_shapes("uniform", lo.shape(), hi.shape())?, shape)?;
    if out.as_slice() != shape {
        bail!(
            Value,
            "[uniform] Cannot generate random values of shape {} from bounds of shape {} and {}.",
            show(shape),
            show(low.shape()),
            show(high.shape())
        );
    }
    // Every dtype starts from 32 random bits.
    let unit = match dtype {
        Dtype::F16 => Draw::UnitF16,
        Dtype::BF16 => Draw::UnitBF16,
        _ => Draw::Unit,
    };
    let unit = astype(&draw(unit, shape, Dtype::F32, k, s)?, dtype, s)?;
    if is_number(low, 0.0) && is_number(high, 1.0) {
        return Ok(unit);
    }
    let range = range(&hi, &lo, s)?;
    add(&multiply(&range, &unit, s)?, &lo, s)
}

/// Normal numbers with mean `loc` and standard deviation `scale`.
pub fn normal(
    shape: &[i64],
    dtype: Dtype,
    loc: Option<&Array>,
    scale: Option<&Array>,
    k: Option<&Array>,
    s: Stream,
) -> Result<Array> {
    if dtype == Dtype::C64 {
        // Two independent parts, each with half of the variance.
        let mut pairs = shape.to_vec();
        pairs.push(2);
        let parts = normal(&pairs, Dtype::F32, None, None, k, s)?;
        let parts = multiply(&parts, &scalar_f64(std::f64::consts::FRAC_1_SQRT_2, Dtype::F32)?, s)?;
        let mut x = reshape(&view(&parts, Dtype::C64, s)?, shape, s)?;
        if let Some(scale) = scale {
            x = multiply(&astype(scale, dtype, s)?, &x, s)?;
        }
        return loc.map_or(Ok(x.clone()), |loc| add(&astype(loc, dtype, s)?, &x, s));
    }
    // float64 numbers are float32 ones, scaled and moved in float64.
    if dtype != Dtype::F64 {
        float_only("normal", dtype)?;
    }
    if dtype == Dtype::F32 && scale.is_none() {
        let x = draw(Draw::Normal, shape, dtype, k, s)?;
        return loc.map_or(Ok(x.clone()), |loc| add(&astype(loc, dtype, s)?, &x, s));
    }
    let x = astype(&draw(Draw::Erfinv, shape, Dtype::F32, k, s)?, dtype, s)?;
    let mut factor = scalar_f64(std::f64::consts::SQRT_2, dtype)?;
    if let Some(scale) = scale {
        factor = multiply(&factor, &astype(scale, dtype, s)?, s)?;
    }
    let mut x = multiply(&factor, &x, s)?;
    if let Some(loc) = loc {
        x = add(&astype(loc, dtype, s)?, &x, s)?;
    }
    Ok(x)
}

/// Integers in `[low, high)`: float32 draws between the bounds, cut to what the bounds are in `dtype`, for a draw may
/// round to the upper one, and bounds may be fractions or outside the dtype.
pub fn randint(
    low: &Array,
    high: &Array,
    shape: &[i64],
    dtype: Dtype,
    k: Option<&Array>,
    s: Stream,
) -> Result<Array> {
    if !dtype.is_integer() && dtype != Dtype::Bool {
        bail!(Value, "[randint] randint only accepts integer dtypes and bool, got {dtype}.");
    }
    let u = uniform(low, high, shape, Dtype::F32, k, s)?;
    let drawn = astype(&floor(&u, s)?, dtype, s)?;
    let one = scalar_f64(1.0, if high.dtype() == Dtype::Bool { Dtype::I32 } else { high.dtype() })?;
    let last = whole(high, 1, dtype, s).unwrap_or_else(|| astype(&subtract(high, &one, s)?, dtype, s))?;
    let first = whole(low, 0, dtype, s).unwrap_or_else(|| astype(low, dtype, s))?;
    maximum(&minimum(&drawn, &last, s)?, &first, s)
}

/// True with probability `p`.
pub fn bernoulli(p: &Array, shape: &[i64], k: Option<&Array>, s: Stream) -> Result<Array> {
    if !p.dtype().is_float() {
        bail!(Value, "[bernoulli] bernoulli probability `p` must be a float type.");
    }
    let (zero, one) = (scalar_f64(0.0, Dtype::F32)?, scalar_f64(1.0, Dtype::F32)?);
    let u = uniform(&zero, &one, shape, Dtype::F32, k, s)?;
    let out = less(&u, p, s)?;
    if out.shape() != shape {
        bail!(
            Value,
            "[bernoulli] shape of `p` {} is incompatible with argument `shape` {}.",
            show(p.shape()),
            show(shape)
        );
    }
    Ok(out)
}

/// Standard normal numbers restricted to `[lower, upper]`.
pub fn truncated_normal(
    lower: &Array,
    upper: &Array,
    shape: Option<&[i64]>,
    dtype: Dtype,
    k: Option<&Array>,
    s: Stream,
) -> Result<Array> {
    float_only("truncated_normal", dtype)?;
    let (lo, hi) = (astype(lower, dtype, s)?, astype(upper, dtype, s)?);
    let shape: Shape = match shape {
        Some(sh) => sh.into(),
        None => broadcast_shapes("truncated_normal", lo.shape(), hi.shape())?,
    };
    let root = scalar_f64(std::f64::consts::SQRT_2, dtype)?;
    let a = erf(&divide(&lo, &root, s)?, s)?;
    let b = erf(&divide(&hi, &root, s)?, s)?;
    let u = uniform(&a, &b, &shape, dtype, k, s)?;
    let x = multiply(&root, &erfinv(&u, s)?, s)?;
    maximum(&minimum(&x, &hi, s)?, &lo, s)
}

/// Gumbel numbers: `-log(-log(u))`.
pub fn gumbel(shape: &[i64], dtype: Dtype, k: Option<&Array>, s: Stream) -> Result<Array> {
    let (zero, one) = (scalar_f64(0.0, dtype)?, scalar_f64(1.0, dtype)?);
    let u = uniform(&zero, &one, shape, dtype, k, s)?;
    negative(&log(&negative(&log(&u, s)?, s)?, s)?, s)
}

/// Laplace numbers with location `loc` and scale `scale`.
pub fn laplace(
    shape: &[i64],
    dtype: Dtype,
    loc: Option<&Array>,
    scale: Option<&Array>,
    k: Option<&Array>,
    s: Stream,
) -> Result<Array> {
    // float64 numbers are float32 ones, scaled and moved in float64.
    if dtype != Dtype::F64 {
        float_only("laplace", dtype)?;
    }
    let u = draw(Draw::Symmetric, shape, Dtype::F32, k, s)?;
    let x = multiply(&sign(&u, s)?, &log1p(&negative(&abs(&u, s)?, s)?, s)?, s)?;
    let mut x = astype(&x, dtype, s)?;
    if let Some(scale) = scale {
        x = multiply(&astype(scale, dtype, s)?, &x, s)?;
    }
    if let Some(loc) = loc {
        x = add(&astype(loc, dtype, s)?, &x, s)?;
    }
    Ok(x)
}

/// How many categorical samples to draw.
pub enum Draws<'a> {
    /// One for every distribution.
    One,
    /// This many for every distribution, on a new last axis.
    Many(i64),
    /// An explicit output shape that the distributions broadcast to.
    Shape(&'a [i64]),
}

/// Indices drawn from unnormalised log-probabilities along `axis`; uint32.
pub fn categorical(logits: &Array, axis: i64, draws: Draws, k: Option<&Array>, s: Stream) -> Result<Array> {
    let ax = normalize_axis("categorical", axis, logits.ndim())?;
    let classes = logits.shape()[ax];
    let mut batch: Shape = logits.shape().into();
    batch.remove(ax);
    if let Some(shape) = draws_of_one(&batch, &draws)
        && classes > 0
    {
        return by_running_sum(logits, &shape, k, s);
    }
    match draws {
        Draws::One => {
            let noise = gumbel(logits.shape(), Dtype::F32, k, s)?;
            argmax(&add(&noise, logits, s)?, Some(ax as i64), false, s)
        }
        Draws::Many(n) => {
            let mut full: Shape = logits.shape().into();
            full.push(n);
            let noise = gumbel(&full, Dtype::F32, k, s)?;
            argmax(&add(&noise, &expand_dims(logits, &[-1], s)?, s)?, Some(ax as i64), false, s)
        }
        Draws::Shape(shape) => {
            if broadcast_shapes("categorical", &batch, shape)?.as_slice() != shape {
                bail!(
                    Value,
                    "[categorical] Requested shape {} is not broadcast compatible with logits of shape {}.",
                    show(shape),
                    show(logits.shape())
                );
            }
            let extra = shape.len() - batch.len();
            let mut full: Shape = shape.into();
            full.insert(extra + ax, classes);
            let noise = gumbel(&full, Dtype::F32, k, s)?;
            argmax(&add(&noise, &broadcast_to(logits, &full, s)?, s)?, Some((extra + ax) as i64), false, s)
        }
    }
}

/// The shape of the draws where MLX takes them from one distribution, in an array with an axis.
fn draws_of_one(batch: &[i64], draws: &Draws) -> Option<Shape> {
    let mut shape: Shape = match draws {
        Draws::Shape(shape) => Shape::from_slice(shape),
        _ => batch.into(),
    };
    if let Draws::Many(n) = draws {
        shape.push(*n);
    }
    let fits =
        !matches!(draws, Draws::Shape(_)) || broadcast_shapes("", batch, &shape).is_ok_and(|b| b == shape);
    (batch.iter().all(|&d| d == 1) && !shape.is_empty() && fits).then_some(shape)
}

/// Positions of uniform numbers in the running sum of the probabilities: one number a draw instead of one for
/// every class, and the draws that MLX makes with the same key.
fn by_running_sum(logits: &Array, shape: &[i64], k: Option<&Array>, s: Stream) -> Result<Array> {
    let x = astype(&reshape(logits, &[-1], s)?, Dtype::F32, s)?;
    let n = x.size() as i64;
    let weights = exp(&subtract(&x, &max(&x, None, true, s)?, s)?, s)?;
    let form = ScanForm { reverse: false, inclusive: true };
    let sums = cumsum(&weights, Some(0), form, None, s)?;
    let (zero, one) = (scalar_f64(0.0, Dtype::F32)?, scalar_f64(1.0, Dtype::F32)?);
    let draws = uniform(&zero, &one, shape, Dtype::F32, k, s)?;
    let total = slice(&sums, &[n - 1], &[n], &[1], s)?;
    let index = searchsorted(&sums, &multiply(&draws, &reshape(&total, &[], s)?, s)?, true, s)?;
    minimum(&index, &scalar_i64(n - 1, Dtype::U32)?, s)
}

/// A random order of `0..n`; uint32.
pub fn permutation(n: i64, k: Option<&Array>, s: Stream) -> Result<Array> {
    if n < 0 {
        bail!(Value, "[permutation] Expected a non-negative number, got {n}.");
    }
    if n == 0 {
        return arange(0.0, 0.0, 1.0, Dtype::U32, s);
    }
    argsort(&bits(&[n], 4, k, s)?, Some(0), s)
}

/// The array with its slices along `axis` in random order.
pub fn permute(a: &Array, axis: i64, k: Option<&Array>, s: Stream) -> Result<Array> {
    let ax = normalize_axis("permutation", axis, a.ndim())?;
    take(a, &permutation(a.shape()[ax], k, s)?, Some(ax as i64), s)
}

//! The elementwise class: one primitive for every row of the table, and casts. Inputs of other shapes are
//! read through broadcast strides, so no broadcast node is built; the vjp sums over what was broadcast.

pub(crate) mod composed;
pub mod fp8;
pub mod partials;

use smallvec::smallvec;

pub(crate) use self::composed::composed;
use super::reduce::sum_to;
use super::support::*;
use super::{batching, view};
use crate::bail;
use crate::core::array::Inputs;
use crate::core::fork::Made;
use crate::core::layout::{broadcast_shapes, broadcast_strides, checked_size, is_row_major, show};
use crate::core::lengths_vary;
use crate::core::notes::note;
use crate::core::{
    Array, Batched, Derivatives, Dtype, Jvp, Param, Primitive, PrimitiveRef, Result, Shape, Stored, Stream,
    Strides, Vjp, Vmap,
};
use crate::cpu::elementwise::small;
use crate::kernels::View;
use crate::kernels::elementwise::program::{Inst, Instr, Program};
use crate::kernels::elementwise::table::{ComplexRule, OpId, TypeRule, find, op, table};
use crate::on_gpu;
use crate::params;

/// A table op applied elementwise.
struct Elementwise(OpId);

/// Conversion to the output's dtype.
struct Cast;

/// The input, broadcast to the output's shape and written out.
struct Full;

/// A view as one of shape `to`.
pub(crate) fn expanded<P: Copy>(mut v: View<P>, to: &[i64]) -> View<P> {
    if v.shape.as_slice() != to {
        v.strides = broadcast_strides(&v.shape, &v.strides, to);
        v.shape = to.into();
    }
    v
}

/// The layout that the outputs of a program have where that is not row-major; a copy of equal dtype is asked for to
/// make it so.
fn kept(p: &Program, inputs: &[Array], outputs: &[Array]) -> Option<Strides> {
    let copies = |i: &Instr| i.op == Inst::Cast && p.compute_dtype(i) == i.dtype;
    let kept = kept_layout(&outputs[0], inputs)?;
    (!p.instrs.iter().any(copies)).then_some(kept)
}

/// Runs a program on inputs that broadcast to the outputs' shape.
pub(crate) fn run_cpu(p: &Program, inputs: &[Array], outputs: &[Array]) -> Result<()> {
    let out = &outputs[0];
    let kept = kept(p, inputs, outputs);
    let mut ins = smallvec::SmallVec::<[_; 3]>::new();
    for a in inputs {
        ins.push(match &kept {
            Some(_) => expanded(flat(host_in(a)?), &[out.size() as i64]),
            None => expanded(host_in(a)?, out.shape()),
        });
    }
    // With several outputs, one is written while others still need the inputs.
    let dst = match (outputs, &kept) {
        ([out], None) => smallvec![host_out_reusing(out, inputs)?],
        ([out], Some(kept)) => smallvec![host_out_kept(out, inputs, kept)?],
        (all, None) => all.iter().map(host_out).collect::<Result<smallvec::SmallVec<[_; 1]>>>()?,
        (all, Some(kept)) => all.iter().map(|o| host_out_kept(o, &[], kept)).collect::<Result<_>>()?,
    };
    if out.size() == 0 {
        return Ok(());
    }
    crate::cpu::elementwise::run(p, &ins, &dst)
}

/// One instruction on few elements, where each operand lies like the output or is a single element; false where
/// one does not.
fn run_small(inst: Inst, inputs: &[Array], out: &Array) -> Result<bool> {
    let n = out.size();
    if n == 0 || n > small::LIMIT {
        return Ok(false);
    }
    let mut operands = smallvec::SmallVec::<[_; 3]>::new();
    for a in inputs {
        let d = a.data()?;
        let single = a.size() == 1 && n > 1;
        if !single && (a.size() != n || !is_row_major(a.shape(), &d.strides)) {
            return Ok(false);
        }
        operands.push(small::Operand { ptr: host_start(d, a.dtype())?, dtype: a.dtype(), single });
    }
    let dst = host_ptr_reusing(out, inputs)?;
    // SAFETY: operands that are not single have as many elements as the output, one behind the other. The output's
    // memory is its own, or that of an operand of the same size.
    unsafe { small::run(inst, &operands, n, dst, out.dtype())? };
    Ok(true)
}

/// As [`run_cpu`], on a GPU stream.
pub(crate) fn run_gpu(p: &Program, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
    on_gpu!(stream, |enc| {
        let out = &outputs[0];
        let kept = kept(p, inputs, outputs);
        let mut ins = smallvec::SmallVec::<[_; 3]>::new();
        for a in inputs {
            ins.push(match &kept {
                Some(_) => expanded(flat(dev_in(enc, a)?), &[out.size() as i64]),
                None => expanded(dev_in(enc, a)?, out.shape()),
            });
        }
        let dst = match (outputs, &kept) {
            ([out], None) => smallvec![dev_out_reusing(enc, out, inputs)?],
            ([out], Some(kept)) => smallvec![dev_out_kept(enc, out, inputs, kept)?],
            (all, None) => {
                all.iter().map(|o| dev_out(enc, o)).collect::<Result<smallvec::SmallVec<[_; 1]>>>()?
            }
            (all, Some(kept)) => {
                all.iter().map(|o| dev_out_kept(enc, o, &[], kept)).collect::<Result<_>>()?
            }
        };
        if out.size() == 0 {
            return Ok(());
        }
        crate::vulkan::kernels::elementwise::run(enc, p, &ins, &dst)
    })
}

/// What a primitive does to each element, if that is all it does.
pub(crate) fn instruction(p: &dyn Primitive) -> Option<Inst> {
    let any: &dyn std::any::Any = p;
    if any.is::<Cast>() {
        return Some(Inst::Cast);
    }
    any.downcast_ref::<Elementwise>().map(|e| Inst::Op(e.0))
}

/// Whether a primitive is a row of the table.
pub(crate) fn is_elementwise(p: &dyn Primitive) -> bool {
    (p as &dyn std::any::Any).is::<Elementwise>()
}

/// Whether a primitive writes a broadcast value out.
pub(crate) fn is_full(p: &dyn Primitive) -> bool {
    (p as &dyn std::any::Any).is::<Full>()
}

/// Bits of an evaluated single number that lies on the host.
pub(crate) fn scalar_bits(a: &Array) -> Option<u64> {
    if a.size() != 1 || a.event().is_some() {
        return None;
    }
    let d = a.data().ok()?;
    if d.storage.only_on_gpu().is_some() || a.dtype() == Dtype::C64 {
        return None;
    }
    let (base, size) = (d.storage.host_ptr().ok()?, a.dtype().size());
    let mut bytes = [0u8; 8];
    // SAFETY: one element of at most eight bytes lies at the offset.
    unsafe {
        std::ptr::copy_nonoverlapping(
            base.offset(d.offset as isize * size as isize),
            bytes.as_mut_ptr(),
            size,
        );
    }
    Some(u64::from_le_bytes(bytes))
}

impl Elementwise {
    fn program(&self, inputs: &[Array], out: &Array) -> Program {
        let dtypes: smallvec::SmallVec<[Dtype; 3]> = inputs.iter().map(Array::dtype).collect();
        Program::single(self.0, &dtypes, out.dtype())
    }
}

/// Cotangent of a complex operand of a row that is not holomorphic.
fn complex_vjp(rule: ComplexRule, a: &Array, cot: &Array, s: Stream) -> Result<Option<Array>> {
    Ok(Some(match rule {
        ComplexRule::Magnitude => multiply(cot, &sign(a, s)?, s)?,
        ComplexRule::RealPart => astype(cot, Dtype::C64, s)?,
        ComplexRule::ImaginaryPart => multiply(cot, &scalar_c64(0.0, 1.0)?, s)?,
        ComplexRule::Conjugate => conjugate(cot, s)?,
        ComplexRule::Zero | ComplexRule::Partials => return Ok(None),
    }))
}

/// Tangent of one of those rows.
fn complex_jvp(rule: ComplexRule, a: &Array, t: &Array, s: Stream) -> Result<Option<Array>> {
    Ok(Some(match rule {
        ComplexRule::Magnitude => real(&multiply(&conjugate(&sign(a, s)?, s)?, t, s)?, s)?,
        ComplexRule::RealPart => real(t, s)?,
        ComplexRule::ImaginaryPart => imag(t, s)?,
        ComplexRule::Conjugate => conjugate(t, s)?,
        ComplexRule::Zero | ComplexRule::Partials => return Ok(None),
    }))
}

/// What `select` passes on of `weight` to or from its operand `i`; nothing is multiplied by zero, so that an
/// infinity on the other side stays there.
fn chosen(i: usize, cond: &Array, weight: &Array, s: Stream) -> Result<Option<Array>> {
    let zero = scalar_f64(0.0, weight.dtype())?;
    Ok(match i {
        0 => None,
        1 => Some(select(cond, weight, &zero, s)?),
        _ => Some(select(cond, &zero, weight, s)?),
    })
}

impl Primitive for Elementwise {
    fn name(&self) -> &str {
        table()[self.0.0 as usize].name
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![]
    }

    fn may_join(&self) -> bool {
        true
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        if run_small(Inst::Op(self.0), inputs, &outputs[0])? {
            return Ok(());
        }
        run_cpu(&self.program(inputs, &outputs[0]), inputs, outputs)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        run_gpu(&self.program(inputs, &outputs[0]), stream, inputs, outputs)
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let &Vjp { primals, cotangents, outputs, stream: s, .. } = r;
        let row = &table()[self.0.0 as usize];
        r.each(|i| {
            let p = &primals[i];
            let g = match row.partials.get(i) {
                _ if row.rule == TypeRule::Select => chosen(i, &primals[0], &cotangents[0], s)?,
                _ if p.dtype() == Dtype::C64 && row.complex != ComplexRule::Partials => {
                    complex_vjp(row.complex, p, &cotangents[0], s)?
                }
                Some(text) => partials::adjoint(text, &cotangents[0], primals, &outputs[0], s)?,
                None => None,
            };
            g.map(|g| astype(&sum_to(&g, p.shape(), s)?, p.dtype(), s)).transpose()
        })
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let &Jvp { primals, tangents, argnums, outputs, stream: s } = r;
        let row = &table()[self.0.0 as usize];
        let out = &outputs[0];
        let others: Vec<&Array> = primals.iter().collect();
        let mut total: Option<Array> = None;
        for (t, &i) in tangents.iter().zip(argnums) {
            let term = match row.partials.get(i) {
                _ if row.rule == TypeRule::Select => chosen(i, &primals[0], t, s)?,
                _ if t.dtype() == Dtype::C64 && row.complex != ComplexRule::Partials => {
                    complex_jvp(row.complex, &primals[i], t, s)?
                }
                Some(text) => partials::weighted(text, t, primals, out, s)?,
                None => None,
            };
            if let Some(term) = term {
                let term =
                    astype(&view::broadcast_along(&term, out.shape(), &others, &[], s)?, out.dtype(), s)?;
                total = plus(total, term, s)?;
            }
        }
        Ok(Some(vec![total]))
    }

    fn zero_tangent_like_inputs(&self, _: &[Array]) -> bool {
        self.0.row().rule == TypeRule::Bool
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let args = batching::aligned(r)?;
        let args: Vec<&Array> = args.iter().collect();
        let out = apply(self.0, &args, r.stream)?;
        astype(&out, r.outputs[0].dtype(), r.stream).map(batching::batched)
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        (other as &dyn std::any::Any).downcast_ref::<Elementwise>().is_some_and(|o| o.0 == self.0)
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        let mut shape = Shape::new();
        for a in inputs {
            shape = broadcast_shapes(self.name(), &shape, a.shape())?;
        }
        Ok(vec![shape])
    }
}

/// A stored row of the table.
pub(super) fn restore(c: &Stored) -> Result<Array> {
    let Some(id) = find(c.name).filter(|id| id.row().name == c.name) else { return c.unknown() };
    let args: Vec<&Array> = c.inputs.iter().collect();
    let out = apply(id, &args, c.stream)?;
    match (c.inputs, c.spec()?.1) {
        ([a], dtype) if c.name == "from_fp8" && dtype.is_float() && dtype != out.dtype() => {
            apply_as(id, a, dtype, c.stream)
        }
        _ => Ok(out),
    }
}

impl Primitive for Cast {
    fn name(&self) -> &str {
        "astype"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        if run_small(Inst::Cast, inputs, &outputs[0])? {
            return Ok(());
        }
        run_cpu(&Program::cast(inputs[0].dtype(), outputs[0].dtype()), inputs, outputs)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        run_gpu(&Program::cast(inputs[0].dtype(), outputs[0].dtype()), stream, inputs, outputs)
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        Ok(vec![Some(astype(&r.cotangents[0], r.primals[0].dtype(), r.stream)?)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        Ok(Some(vec![Some(astype(&r.tangents[0], r.outputs[0].dtype(), r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let to = r.outputs[0].dtype();
        let same = to == r.inputs[0].dtype();
        let out = if same { copy_node(&r.inputs[0], r.stream) } else { astype(&r.inputs[0], to, r.stream)? };
        Ok((vec![out], r.axes.to_vec()))
    }

    fn same(&self, other: &dyn Primitive) -> bool {
        // The dtype is that of the output, which callers compare.
        (other as &dyn std::any::Any).is::<Cast>()
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        Ok(vec![inputs[0].shape().into()])
    }
}

/// A stored conversion or copy.
pub(super) fn restore_cast(c: &Stored) -> Result<Array> {
    let (a, dtype) = (c.input()?, c.spec()?.1);
    if a.dtype() == dtype { Ok(copy_node(a, c.stream)) } else { astype(a, dtype, c.stream) }
}

impl Primitive for Full {
    fn name(&self) -> &str {
        "full"
    }

    fn params(&self) -> Option<Vec<Param>> {
        params![]
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        Cast.eval_cpu(inputs, outputs)
    }

    fn eval_gpu(&self, stream: Stream, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        Cast.eval_gpu(stream, inputs, outputs)
    }

    fn may_join(&self) -> bool {
        true
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        Ok(vec![Some(sum_to(&r.cotangents[0], r.primals[0].shape(), r.stream)?)])
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        Ok(Some(vec![Some(filled(&r.tangents[0], r.outputs[0].shape(), r.stream)?)]))
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let value = batching::raised(r, 0, r.outputs[0].ndim())?;
        filled(&value, &r.shape(0), r.stream).map(batching::batched)
    }
}

/// A stored broadcast with memory of its own.
pub(super) fn restore_full(c: &Stored) -> Result<Array> {
    let shape = &c.spec()?.0;
    checked_size("full", shape, c.input()?.dtype().size())?;
    filled(c.input()?, shape, c.stream)
}

/// `value` broadcast to `shape`, with memory of its own.
pub(super) fn filled(value: &Array, shape: &[i64], s: Stream) -> Result<Array> {
    if value.shape() == shape {
        return Ok(value.clone());
    }
    if broadcast_shapes("full", value.shape(), shape)?.as_slice() != shape {
        bail!(Value, "[full] Cannot broadcast {} to {}.", show(value.shape()), show(shape));
    }
    if lengths_vary() {
        return super::broadcast_to(value, shape, s);
    }
    Array::lazy(shape, value.dtype(), Full, vec![value.clone()], s)
}

/// Converts to another dtype. Float to integer truncates towards zero; NaN becomes an unspecified integer.
pub fn astype(a: &Array, dtype: Dtype, s: Stream) -> Result<Array> {
    if a.dtype() == dtype {
        return Ok(a.clone());
    }
    if s.device.is_gpu() && (dtype == Dtype::F64 || a.dtype() == Dtype::F64) {
        bail!(Value, "[astype] float64 is not supported on the GPU; use a CPU stream.");
    }
    let inputs: Inputs = smallvec![a.clone()];
    Ok(Array::like(a, dtype, Cast, inputs, s))
}

/// Row-major copy of an array of any layout.
pub(super) fn copy_node(a: &Array, s: Stream) -> Array {
    Array::like(a, a.dtype(), Cast, vec![a.clone()], s)
}

/// The primitive of a row; each is made once.
fn primitive(id: OpId) -> PrimitiveRef {
    static ROWS: Made<Vec<Elementwise>> =
        // FITS: the table has some hundred rows.
        Made::new(|| (0..table().len() as u16).map(|i| Elementwise(OpId(i))).collect());
    PrimitiveRef::Kept(&ROWS[id.0 as usize])
}

/// Applies a table op with type promotion and broadcasting.
pub fn apply(id: OpId, args: &[&Array], s: Stream) -> Result<Array> {
    apply_to(id, args.iter().copied().cloned().collect(), s)
}

/// As [`apply`], on operands that the node gets.
pub fn apply_to(id: OpId, mut inputs: Inputs, s: Stream) -> Result<Array> {
    let row = &table()[id.0 as usize];
    if inputs.len() != row.arity as usize {
        bail!(Value, "[{}] Expected {} arguments, got {}.", row.name, row.arity, inputs.len());
    }
    let mut dtypes: smallvec::SmallVec<[Dtype; 3]> = smallvec![];
    for a in &inputs {
        dtypes.push(a.dtype());
    }
    let (compute, out) = row.types(&dtypes)?;
    let mut shape = Shape::from_slice(inputs[0].shape());
    for a in &inputs[1..] {
        if a.shape() != shape.as_slice() {
            shape = broadcast_shapes(row.name, &shape, a.shape())?;
        }
    }
    let want = |i: usize| if row.rule == TypeRule::Select && i == 0 { Dtype::Bool } else { compute };
    if dtypes.iter().enumerate().any(|(i, &d)| d != want(i))
        && let Some(out) = composed::joined(row.name, u32::MAX, &inputs, s, &|a| {
            apply_to(id, a.iter().cloned().collect(), s)
        })?
    {
        return Ok(out);
    }
    for (i, a) in inputs.iter_mut().enumerate() {
        if a.dtype() != want(i) {
            *a = astype(a, want(i), s)?;
        }
    }
    refuse_f64(row.name, &inputs, s)?;
    Array::single(shape, out, primitive(id), inputs, s)
}

/// A table op whose result has a dtype of its own; the kernels round what they compute to it.
pub(super) fn apply_as(id: OpId, a: &Array, dtype: Dtype, s: Stream) -> Result<Array> {
    id.row().types(&[a.dtype()])?;
    Array::single(a.shape().into(), dtype, primitive(id), smallvec![a.clone()], s)
}

macro_rules! named {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),+) = $row:literal;)*) => {$(
        $(#[$doc])*
        #[doc = concat!("Table op `", $row, "`.")]
        pub fn $name($($arg: &Array,)+ s: Stream) -> Result<Array> {
            static ID: Made<OpId> = Made::new(|| op($row));
            apply(*ID, &[$($arg),+], s)
        }
    )*};
}

named! {
    abs(a) = "abs";
    negative(a) = "negative";
    sign(a) = "sign";
    real(a) = "real";
    imag(a) = "imag";
    conjugate(a) = "conjugate";
    exp(a) = "exp";
    log(a) = "log";
    log1p(a) = "log1p";
    sqrt(a) = "sqrt";
    rsqrt(a) = "rsqrt";
    square(a) = "square";
    sin(a) = "sin";
    cos(a) = "cos";
    erf(a) = "erf";
    erfinv(a) = "erfinv";
    floor(a) = "floor";
    isnan(a) = "isnan";
    isinf(a) = "isinf";
    logical_not(a) = "logical_not";
    add(a, b) = "add";
    subtract(a, b) = "subtract";
    multiply(a, b) = "multiply";
    divide(a, b) = "divide";
    floor_divide(a, b) = "floor_divide";
    remainder(a, b) = "remainder";
    power(a, b) = "power";
    maximum(a, b) = "maximum";
    minimum(a, b) = "minimum";
    equal(a, b) = "equal";
    not_equal(a, b) = "not_equal";
    greater(a, b) = "greater";
    greater_equal(a, b) = "greater_equal";
    less(a, b) = "less";
    less_equal(a, b) = "less_equal";
    logical_and(a, b) = "logical_and";
    logical_or(a, b) = "logical_or";
    bitwise_and(a, b) = "bitwise_and";
    bitwise_or(a, b) = "bitwise_or";
    bitwise_xor(a, b) = "bitwise_xor";
    left_shift(a, b) = "left_shift";
    right_shift(a, b) = "right_shift";
    select(cond, x, y) = "select";
}

/// Quotient and remainder of a floored division.
pub fn divmod(a: &Array, b: &Array, s: Stream) -> Result<(Array, Array)> {
    if a.dtype() == Dtype::C64 || b.dtype() == Dtype::C64 {
        bail!(Value, "[divmod] Complex type not supported.");
    }
    let both = [floor_divide(a, b, s)?, remainder(a, b, s)?];
    note(&both, || ("divmod", params![], vec![a.clone(), b.clone()]));
    let [quotient, rest] = both;
    Ok((quotient, rest))
}

/// Clamps to `[lo, hi]`; a missing bound does not clamp.
pub fn clip(a: &Array, lo: Option<&Array>, hi: Option<&Array>, s: Stream) -> Result<Array> {
    if lo.is_none() && hi.is_none() {
        bail!(Value, "[clip] At most one of a_min and a_max may be None.");
    }
    let inputs: Vec<Array> = [Some(a), lo, hi].into_iter().flatten().cloned().collect();
    let (has_lo, has_hi) = (lo.is_some(), hi.is_some());
    composed("clip", u32::from(has_lo) | u32::from(has_hi) << 1, &inputs, s, &|x| {
        let mut y = x[0].clone();
        if has_lo {
            y = maximum(&y, &x[1], s)?;
        }
        if has_hi {
            y = minimum(&y, &x[x.len() - 1], s)?;
        }
        Ok(y)
    })
}

/// Rounds to `decimals` places, halves to even.
pub fn round(a: &Array, decimals: i32, s: Stream) -> Result<Array> {
    static ROUND: Made<OpId> = Made::new(|| op("round"));
    if decimals == 0 {
        return apply(*ROUND, &[a], s);
    }
    if decimals > 0 && !a.dtype().is_inexact() {
        return Ok(a.clone());
    }
    let dtype = a.dtype().at_least_float();
    let scale = scalar_f64(10f64.powi(decimals.abs()), dtype)?;
    composed("round", u32::from(decimals > 0), &[a.clone(), scale], s, &|x| {
        let (a, scale) = (&x[0], &x[1]);
        let x = astype(a, dtype, s)?;
        let scaled = if decimals > 0 { multiply(&x, scale, s)? } else { divide(&x, scale, s)? };
        let r = apply(*ROUND, &[&scaled], s)?;
        let r = if decimals > 0 { divide(&r, scale, s)? } else { multiply(&r, scale, s)? };
        note(std::slice::from_ref(&r), || ("round_to", params![i64::from(decimals)], vec![x]));
        astype(&r, a.dtype(), s)
    })
}

/// `|a - b| <= atol + rtol * |b|`, infinities equal to themselves.
pub fn isclose(a: &Array, b: &Array, rtol: f64, atol: f64, equal_nan: bool, s: Stream) -> Result<Array> {
    let dtype = a.dtype().promote(b.dtype()).at_least_float();
    // Half precision is held against a bound in float32.
    let real = if dtype == Dtype::F64 { dtype } else { Dtype::F32 };
    let inputs = [a.clone(), b.clone(), scalar_f64(rtol, real)?, scalar_f64(atol, real)?];
    composed("isclose", u32::from(equal_nan), &inputs, s, &|x| {
        let (a, b) = (astype(&x[0], dtype, s)?, astype(&x[1], dtype, s)?);
        let bound = add(&x[3], &multiply(&x[2], &abs(&b, s)?, s)?, s)?;
        let close = less_equal(&abs(&subtract(&a, &b, s)?, s)?, &bound, s)?;
        let same = equal(&a, &b, s)?;
        let inf = logical_or(&isinf(&a, s)?, &isinf(&b, s)?, s)?;
        let mut out = select(&inf, &same, &close, s)?;
        if equal_nan {
            out = logical_or(&out, &logical_and(&isnan(&a, s)?, &isnan(&b, s)?, s)?, s)?;
        }
        note(std::slice::from_ref(&out), || ("isclose", params![rtol, atol, equal_nan], vec![a, b]));
        Ok(out)
    })
}

//! Dense linear algebra. The factorisations are primitives of CPU streams; a GPU stream is refused when the op is
//! made, as in MLX. Inverses, solves, determinants, Cholesky and Hermitian spectra have derivatives, built from the
//! same ops.

pub mod norm;

use super::batching::{front, with_batch};
use super::composite;
use super::create::{eye, tril, triu};
use super::elementwise::{add, astype, conjugate, divide, multiply, negative, select, subtract};
use super::matmul::matmul;
use super::reduce::max;
use super::support::*;
use super::view::{broadcast_to, expand_dims, slice, squeeze, swapaxes};
use super::{equal, greater, sqrt, zeros_like};
use crate::bail;
use crate::core::fallback;
use crate::core::layout::{broadcast_shapes, show};
use crate::core::{
    Array, Batched, Derivatives, Dtype, Error, Jvp, Param, Primitive, Result, Shape, Stored, Stream, Vjp,
    Vmap,
};
use crate::cpu::linalg as host;
use crate::params;
use std::sync::Arc;

/// A factorisation of the last two axes; all of them batch over the others.
#[derive(Clone, Copy, PartialEq)]
enum Linalg {
    Inverse,
    TriangularInverse { upper: bool },
    Solve { triangle: Option<bool> },
    Cholesky { upper: bool },
    Det,
    SlogDet,
    Lu,
    Qr,
    Svd { vectors: bool },
    Eigh { upper: bool, vectors: bool },
    Eig { vectors: bool },
}

use Linalg::*;

impl Linalg {
    fn op(self) -> &'static str {
        match self {
            Inverse => "inv",
            TriangularInverse { .. } => "tri_inv",
            Solve { triangle: None } => "solve",
            Solve { .. } => "solve_triangular",
            Cholesky { .. } => "cholesky",
            Det => "det",
            SlogDet => "slogdet",
            Lu => "lu",
            Qr => "qr",
            Svd { .. } => "svd",
            Eigh { .. } => "eigh",
            Eig { .. } => "eig",
        }
    }

    /// Shapes and dtypes of the outputs for a matrix argument (and, for solves, a right side).
    fn outputs(self, a: &Array, b: Option<&Array>) -> Vec<(Shape, Dtype)> {
        let (lead, m, n) = (&a.shape()[..a.ndim() - 2], a.dim(-2), a.dim(-1));
        let with = |dims: &[i64]| -> Shape { lead.iter().chain(dims).copied().collect() };
        let d = a.dtype();
        let real = if d == Dtype::C64 { Dtype::F32 } else { d };
        let k = m.min(n);
        let mut list = match self {
            Inverse | TriangularInverse { .. } | Cholesky { .. } => vec![(with(&[n, n]), d)],
            Solve { .. } => vec![(b.map_or_else(|| with(&[n, n]), |b| b.shape().into()), d)],
            Det => vec![(with(&[]), d)],
            SlogDet => vec![(with(&[]), d); 2],
            Lu => vec![(with(&[m, n]), d), (with(&[k]), Dtype::U32), (with(&[m]), Dtype::U32)],
            Qr => vec![(with(&[m, k]), d), (with(&[k, n]), d)],
            Svd { .. } => vec![(with(&[m, m]), d), (with(&[k]), real), (with(&[n, n]), d)],
            Eigh { .. } => vec![(with(&[n]), real), (with(&[n, n]), d)],
            Eig { .. } => vec![(with(&[n]), Dtype::C64), (with(&[n, n]), Dtype::C64)],
        };
        match self {
            Svd { vectors: false } => list = vec![list.swap_remove(1)],
            Eigh { vectors: false, .. } | Eig { vectors: false } => list.truncate(1),
            Svd { .. } | Eigh { .. } | Eig { .. } => {}
            Inverse | TriangularInverse { .. } | Solve { .. } | Cholesky { .. } | Det | SlogDet | Lu | Qr => {
            }
        }
        list
    }

    fn apply(self, inputs: Vec<Array>, s: Stream) -> Result<Vec<Array>> {
        let s = host_stream(self.op(), s)?;
        let specs = self.outputs(&inputs[0], inputs.get(1));
        Array::lazy_many(specs, Arc::new(self), inputs, s)
    }

    fn one(self, inputs: Vec<Array>, s: Stream) -> Result<Array> {
        Ok(self.apply(inputs, s)?.swap_remove(0))
    }

    fn refusal(self) -> Error {
        refusal(self.op())
    }
}

fn refusal(op: &str) -> Error {
    Error::Value(format!(
        "[linalg::{op}] This op is not yet supported on the GPU. Explicitly pass a CPU stream to run it."
    ))
}

/// Fails for a GPU stream unless the user lets such operations run on the host.
fn refuse(op: &str, s: Stream) -> Result<()> {
    if s.device.is_gpu() && !fallback::allowed() { Err(refusal(op)) } else { Ok(()) }
}

/// The CPU stream that works for a GPU stream, which is counted; other streams as they are.
fn on_host(op: &'static str, s: Stream) -> Stream {
    if !s.device.is_gpu() {
        return s;
    }
    fallback::note(op);
    crate::core::default_stream(crate::core::Device::CPU)
}

fn host_stream(op: &'static str, s: Stream) -> Result<Stream> {
    refuse(op, s)?;
    Ok(on_host(op, s))
}

impl Primitive for Linalg {
    fn name(&self) -> &str {
        self.op()
    }

    fn params(&self) -> Option<Vec<Param>> {
        match *self {
            TriangularInverse { upper } | Cholesky { upper } => params![upper],
            Solve { triangle: Some(upper) } => params![upper],
            Svd { vectors } | Eig { vectors } => params![vectors],
            Eigh { upper, vectors } => params![vectors, upper],
            Inverse | Solve { triangle: None } | Det | SlogDet | Lu | Qr => params![],
        }
    }

    fn eval_cpu(&self, inputs: &[Array], outputs: &[Array]) -> Result<()> {
        let a = host_in(&inputs[0])?;
        let out = outputs.iter().map(host_out).collect::<Result<Vec<_>>>()?;
        if out.iter().all(|o| o.size() == 0) {
            return Ok(());
        }
        match *self {
            Inverse => host::inverse(&a, &out[0]),
            TriangularInverse { upper } => host::triangular_inverse(&a, upper, &out[0]),
            Solve { triangle } => host::solve(&a, &host_in(&inputs[1])?, triangle, &out[0]),
            Cholesky { upper } => host::cholesky(&a, upper, &out[0]),
            Det | SlogDet => host::determinant(&a, &out),
            Lu => host::lu(&a, &out[0], &out[1], &out[2]),
            Qr => host::qr(&a, &out[0], &out[1]),
            Svd { .. } => host::svd(&a, &out),
            Eigh { upper, .. } => host::eigh(&a, upper, &out),
            Eig { .. } => host::eig(&a, &out),
        }
    }

    fn eval_gpu(&self, _: Stream, _: &[Array], _: &[Array]) -> Result<()> {
        Err(self.refusal())
    }

    fn vjp(&self, r: &Vjp) -> Result<Derivatives> {
        let (a, c, s) = (&r.primals[0], r.cotangents, r.stream);
        match *self {
            Inverse => {
                let y = transposed(&r.outputs[0], s)?;
                Ok(vec![Some(negative(&matmul(&matmul(&y, &c[0], s)?, &y, s)?, s)?)])
            }
            TriangularInverse { upper } => {
                let y = transposed(&r.outputs[0], s)?;
                let g = negative(&matmul(&matmul(&y, &c[0], s)?, &y, s)?, s)?;
                Ok(vec![Some(triangle(&g, upper, s)?)])
            }
            Solve { triangle: kind } => {
                let flipped = Solve { triangle: kind.map(|upper| !upper) };
                let b = flipped.one(vec![transposed(a, s)?, c[0].clone()], s)?;
                r.each(|i| {
                    if i == 1 {
                        return Ok(Some(b.clone()));
                    }
                    let g = negative(&matmul(&b, &transposed(&r.outputs[0], s)?, s)?, s)?;
                    Ok(Some(match kind {
                        Some(upper) => triangle(&g, upper, s)?,
                        None => g,
                    }))
                })
            }
            Cholesky { upper } => {
                let t = |x: &Array| if upper { transposed(x, s) } else { Ok(x.clone()) };
                let (l, g) = (t(&r.outputs[0])?, t(&c[0])?);
                Ok(vec![Some(cholesky_vjp(&l, &g, s)?)])
            }
            Det => {
                let scale = matrix_of(&multiply(&c[0], &r.outputs[0], s)?, s)?;
                Ok(vec![Some(multiply(&scale, &transposed(&Inverse.one(vec![a.clone()], s)?, s)?, s)?)])
            }
            SlogDet => {
                let inverse = Inverse.one(vec![a.clone()], s)?;
                Ok(vec![Some(multiply(&matrix_of(&c[1], s)?, &transposed(&inverse, s)?, s)?)])
            }
            Eigh { upper, .. } => {
                // An output that nobody kept has lost its node.
                let kept = |x: &Array| x.has_data() || x.node().is_some();
                let (w, v) = match r.outputs {
                    [w, v] if kept(w) && kept(v) => (w.clone(), v.clone()),
                    _ => {
                        let both = Eigh { upper, vectors: true }.apply(vec![a.clone()], s)?;
                        (both[0].clone(), both[1].clone())
                    }
                };
                Ok(vec![Some(eigh_vjp(&w, &v, &c[0], c.get(1), s)?)])
            }
            Lu | Qr | Svd { .. } | Eig { .. } => Err(self.missing("vjp")),
        }
    }

    fn jvp(&self, r: &Jvp) -> Result<Option<Derivatives>> {
        let s = r.stream;
        match *self {
            Inverse => {
                let y = &r.outputs[0];
                let t = negative(&matmul(&matmul(y, &r.tangents[0], s)?, y, s)?, s)?;
                Ok(Some(vec![Some(t)]))
            }
            Lu | Qr | Svd { .. } | Eig { .. } => Err(self.missing("jvp")),
            TriangularInverse { .. } | Solve { .. } | Cholesky { .. } | Det | SlogDet | Eigh { .. } => {
                Ok(None)
            }
        }
    }

    fn vmap(&self, r: &Vmap) -> Result<Batched> {
        let inputs = match self {
            Solve { .. } => vec![with_batch(r, 0)?, with_batch(r, 1)?],
            Inverse | TriangularInverse { .. } | Cholesky { .. } | Det | SlogDet => vec![front(r, 0)?],
            Lu | Qr | Svd { .. } | Eigh { .. } | Eig { .. } => vec![front(r, 0)?],
        };
        let out = self.apply(inputs, r.stream)?;
        let axes = vec![Some(0); out.len()];
        Ok((out, axes))
    }

    fn output_shapes(&self, inputs: &[Array]) -> Result<Vec<Shape>> {
        super::restore::shapes(self, inputs)
    }
}

/// A stored factorisation.
pub(super) fn restore(c: &Stored) -> Result<Vec<Array>> {
    let op = match c.name {
        "inv" => Inverse,
        "tri_inv" => TriangularInverse { upper: c.flag(0)? },
        "solve" => Solve { triangle: None },
        "solve_triangular" => Solve { triangle: Some(c.flag(0)?) },
        "cholesky" => Cholesky { upper: c.flag(0)? },
        "det" => Det,
        "slogdet" => SlogDet,
        "lu" => Lu,
        "qr" => Qr,
        "svd" => Svd { vectors: c.flag(0)? },
        "eigh" => Eigh { vectors: c.flag(0)?, upper: c.flag(1)? },
        "eig" => Eig { vectors: c.flag(0)? },
        _ => return c.unknown(),
    };
    let Some(a) = c.inputs.first() else { return c.unknown() };
    let complex = matches!(op, Svd { .. } | Eigh { .. } | Eig { .. });
    check(c.name, a, complex, !matches!(op, Lu | Qr | Svd { .. }), c.stream)?;
    if let Solve { .. } = op {
        let [a, b] = c.inputs()?;
        let lead = a.ndim() - 2;
        let fits = a.ndim() == b.ndim() && a.dtype() == b.dtype() && a.shape()[..=lead] == b.shape()[..=lead];
        if !fits {
            bail!(Value, "[linalg::{}] Cannot solve {} for {}.", c.name, show(a.shape()), show(b.shape()));
        }
    } else {
        c.input()?;
    }
    op.apply(c.inputs.to_vec(), c.stream)
}

/// Stored functions that are made of factorisations.
pub(super) fn restore_public(c: &Stored) -> Result<Vec<Array>> {
    let s = c.stream;
    match c.name {
        "linalg_lu" => lu(c.input()?, s).map(|(p, l, u)| vec![p, l, u]),
        "pinv" => pinv(c.input()?, s).map(|a| vec![a]),
        "linalg_solve" => {
            let ([a, b], triangle) = (c.inputs()?, c.maybe_int(0)?.map(|upper| upper != 0));
            let op = if triangle.is_some() { "solve_triangular" } else { "solve" };
            solved(op, a, b, triangle, s).map(|a| vec![a])
        }
        _ => c.unknown(),
    }
}

fn transposed(a: &Array, s: Stream) -> Result<Array> {
    swapaxes(a, -1, -2, s)
}

fn adjoint(a: &Array, s: Stream) -> Result<Array> {
    let t = transposed(a, s)?;
    if a.dtype() == Dtype::C64 { conjugate(&t, s) } else { Ok(t) }
}

fn triangle(a: &Array, upper: bool, s: Stream) -> Result<Array> {
    if upper { triu(a, 0, s) } else { tril(a, 0, s) }
}

/// A value a matrix, with two axes of length 1 behind it.
fn matrix_of(a: &Array, s: Stream) -> Result<Array> {
    expand_dims(a, &[-1, -2], s)
}

fn half(a: &Array, s: Stream) -> Result<Array> {
    multiply(a, &scalar_f64(0.5, a.dtype())?, s)
}

/// Cotangent of a symmetric matrix from that of its lower Cholesky factor (Murray, Differentiation of the Cholesky
/// decomposition, 2016, eq. 10).
fn cholesky_vjp(l: &Array, cot: &Array, s: Stream) -> Result<Array> {
    let inverse = TriangularInverse { upper: false }.one(vec![l.clone()], s)?;
    let p = tril(&matmul(&transposed(l, s)?, cot, s)?, 0, s)?;
    let diagonal = multiply(&p, &eye(l.dim(-1), l.dim(-1), 0, l.dtype(), s)?, s)?;
    let p = subtract(&p, &half(&diagonal, s)?, s)?;
    let g = matmul(&matmul(&transposed(&inverse, s)?, &p, s)?, &inverse, s)?;
    half(&add(&g, &transposed(&g, s)?, s)?, s)
}

/// Cotangent of a Hermitian matrix from those of its eigenvalues and, if there, eigenvectors (Giles, An extended
/// collection of matrix derivative results, 2008, section 3.1). Vectors of equal eigenvalues get none.
fn eigh_vjp(w: &Array, v: &Array, cw: &Array, cv: Option<&Array>, s: Stream) -> Result<Array> {
    let n = w.dim(-1);
    let id = eye(n, n, 0, w.dtype(), s)?;
    let mut inner = astype(&multiply(&expand_dims(cw, &[-2], s)?, &id, s)?, v.dtype(), s)?;
    if let Some(cv) = cv {
        let gaps = subtract(&expand_dims(w, &[-2], s)?, &expand_dims(w, &[-1], s)?, s)?;
        let none = equal(&gaps, &scalar_f64(0.0, w.dtype())?, s)?;
        let ones = super::ones_like(&gaps, s)?;
        let gaps = divide(&ones, &select(&none, &ones, &gaps, s)?, s)?;
        let gaps = select(&none, &zeros_like(&gaps, s)?, &gaps, s)?;
        inner = add(&inner, &multiply(&gaps, &matmul(&adjoint(v, s)?, cv, s)?, s)?, s)?;
    }
    let g = matmul(&matmul(v, &inner, s)?, &adjoint(v, s)?, s)?;
    half(&add(&g, &adjoint(&g, s)?, s)?, s)
}

fn check(op: &str, a: &Array, complex: bool, square: bool, s: Stream) -> Result<()> {
    refuse(op, s)?;
    let known = matches!(a.dtype(), Dtype::F32 | Dtype::F64) || (complex && a.dtype() == Dtype::C64);
    if !known {
        let types = if complex { "float32, float64 or complex64" } else { "float32 or float64" };
        bail!(Value, "[linalg::{op}] Arrays must have type {types}. Received array with type {}.", a.dtype());
    }
    check_shape(op, a, square)
}

fn check_shape(op: &str, a: &Array, square: bool) -> Result<()> {
    if a.ndim() < 2 {
        bail!(
            Value,
            "[linalg::{op}] Arrays must have >= 2 dimensions. Received array with {} dimensions.",
            a.ndim()
        );
    }
    if square && a.dim(-1) != a.dim(-2) {
        bail!(Value, "[linalg::{op}] Only defined for square matrices, got shape {}.", show(a.shape()));
    }
    Ok(())
}

/// Inverses of square matrices (float32, float64); a singular one is a runtime error when evaluated.
pub fn inv(a: &Array, s: Stream) -> Result<Array> {
    check("inv", a, false, true, s)?;
    Inverse.one(vec![a.clone()], s)
}

/// Inverses of lower (or upper) triangular matrices; what lies in the other triangle is not read.
pub fn tri_inv(a: &Array, upper: bool, s: Stream) -> Result<Array> {
    check("tri_inv", a, false, true, s)?;
    TriangularInverse { upper }.one(vec![a.clone()], s)
}

/// Lower factors `l` of `a = l @ l.T`, or upper ones of `a = u.T @ u`; one triangle is read. Matrices that are not
/// positive semi-definite give NaN.
pub fn cholesky(a: &Array, upper: bool, s: Stream) -> Result<Array> {
    check("cholesky", a, false, true, s)?;
    Cholesky { upper }.one(vec![a.clone()], s)
}

/// Inverses of the matrices whose lower (or upper) Cholesky factors are given.
pub fn cholesky_inv(l: &Array, upper: bool, s: Stream) -> Result<Array> {
    check("cholesky_inv", l, false, true, s)?;
    let i = TriangularInverse { upper }.one(vec![l.clone()], s)?;
    let t = transposed(&i, s)?;
    if upper { matmul(&i, &t, s) } else { matmul(&t, &i, s) }
}

/// `a` in the precision that it is factorised in.
fn determined(op: &str, a: &Array, s: Stream) -> Result<Array> {
    refuse(op, s)?;
    if a.dtype() == Dtype::C64 {
        bail!(Value, "[linalg::{op}] Complex inputs are not supported.");
    }
    check_shape(op, a, true)?;
    astype(a, if a.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 }, s)
}

/// Determinants of square matrices, in their floating point type (float32 for integers).
pub fn det(a: &Array, s: Stream) -> Result<Array> {
    let d = Det.one(vec![determined("det", a, s)?], s)?;
    astype(&d, a.dtype().at_least_float(), s)
}

/// Signs of the determinants and logarithms of their absolute values; dtypes as for [`det`].
pub fn slogdet(a: &Array, s: Stream) -> Result<(Array, Array)> {
    let both = SlogDet.apply(vec![determined("slogdet", a, s)?], s)?;
    let dtype = a.dtype().at_least_float();
    Ok((astype(&both[0], dtype, s)?, astype(&both[1], dtype, s)?))
}

/// Packed factors (the unit diagonal of the lower one is left out) and the exchanges of rows, uint32.
pub fn lu_factor(a: &Array, s: Stream) -> Result<(Array, Array)> {
    check("lu_factor", a, false, false, s)?;
    let mut all = Lu.apply(vec![a.clone()], s)?;
    let pivots = all.swap_remove(1);
    Ok((all.swap_remove(0), pivots))
}

/// `p`, `l`, `u` with `a = l[p, :] @ u`.
pub fn lu(a: &Array, s: Stream) -> Result<(Array, Array, Array)> {
    check("lu", a, false, false, s)?;
    if let Some(mut all) = composite::many("linalg_lu", Vec::new, &[a], s)?
        && all.len() == 3
    {
        let (rest, p) = (all.split_off(1), all.remove(0));
        return Ok((p, rest[0].clone(), rest[1].clone()));
    }
    let all = Lu.apply(vec![a.clone()], s)?;
    let (packed, rows) = (&all[0], &all[2]);
    let k = a.dim(-1).min(a.dim(-2));
    let part = |m: i64, n: i64| {
        let mut stop = packed.shape().to_vec();
        let at = stop.len() - 2;
        (stop[at], stop[at + 1]) = (m, n);
        slice(packed, &vec![0; stop.len()], &stop, &vec![1; stop.len()], s)
    };
    let mut lower = tril(&part(a.dim(-2), k)?, -1, s)?;
    if k > 0 {
        lower = add(&lower, &eye(a.dim(-2), k, 0, a.dtype(), s)?, s)?;
    }
    Ok((rows.clone(), lower, triu(&part(k, a.dim(-1))?, 0, s)?))
}

/// `q` with orthonormal columns and upper trapezoidal `r`, `a = q @ r`.
pub fn qr(a: &Array, s: Stream) -> Result<(Array, Array)> {
    check("qr", a, false, false, s)?;
    let mut both = Qr.apply(vec![a.clone()], s)?;
    let r = both.swap_remove(1);
    Ok((both.swap_remove(0), r))
}

/// `[u, s, vt]` with square `u` and `vt`, or `[s]` alone; `s` is real and descends. NaN is a runtime error when
/// evaluated.
pub fn svd(a: &Array, vectors: bool, s: Stream) -> Result<Vec<Array>> {
    check("svd", a, true, false, s)?;
    Svd { vectors }.apply(vec![a.clone()], s)
}

/// Eigenvalues, ascending, and eigenvectors in columns (`[w, v]`, or `[w]` alone) of symmetric or Hermitian matrices,
/// of which one triangle is read.
pub fn eigh(a: &Array, uplo: &str, vectors: bool, s: Stream) -> Result<Vec<Array>> {
    let op = if vectors { "eigh" } else { "eigvalsh" };
    check(op, a, true, true, s)?;
    let upper = match uplo {
        "L" | "l" => false,
        "U" | "u" => true,
        _ => bail!(Value, "[linalg::{op}] UPLO must be \"L\" or \"U\", got {uplo:?}."),
    };
    Eigh { upper, vectors }.apply(vec![a.clone()], s)
}

/// Eigenvalues and eigenvectors in columns (`[w, v]`, or `[w]` alone) of square matrices; complex64.
pub fn eig(a: &Array, vectors: bool, s: Stream) -> Result<Vec<Array>> {
    check(if vectors { "eig" } else { "eigvals" }, a, true, true, s)?;
    Eig { vectors }.apply(vec![a.clone()], s)
}

/// Moore-Penrose inverses; singular values below `10 max(m, n)` epsilons of the largest count as zero.
pub fn pinv(a: &Array, s: Stream) -> Result<Array> {
    check("pinv", a, false, false, s)?;
    if let Some(out) = composite::one("pinv", Vec::new, &[a], s)? {
        return Ok(out);
    }
    let (m, n) = (a.dim(-2), a.dim(-1));
    let k = m.min(n);
    if a.size() == 0 {
        let mut shape: Shape = a.shape().into();
        let at = shape.len() - 2;
        shape.swap(at, at + 1);
        return super::zeros(&shape, a.dtype(), s);
    }
    let parts = svd(a, true, s)?;
    let epsilon = if a.dtype() == Dtype::F64 { f64::EPSILON } else { f32::EPSILON.into() };
    let cutoff = multiply(
        &max(&parts[1], Some(&[-1]), true, s)?,
        &scalar_f64(10.0 * m.max(n) as f64 * epsilon, a.dtype())?,
        s,
    )?;
    let large = greater(&parts[1], &cutoff, s)?;
    let ones = super::ones_like(&parts[1], s)?;
    let values = divide(&ones, &select(&large, &parts[1], &ones, s)?, s)?;
    let values = select(&large, &values, &zeros_like(&values, s)?, s)?;
    // Infinite matrices have NaN for values, which are not larger than anything.
    let values = add(&values, &subtract(&parts[1], &parts[1], s)?, s)?;
    let first = |x: &Array, axis: usize| {
        let mut stop = x.shape().to_vec();
        let at = stop.len() - 2 + axis;
        stop[at] = k;
        slice(x, &vec![0; stop.len()], &stop, &vec![1; stop.len()], s)
    };
    let (u, vt) = (first(&parts[0], 1)?, first(&parts[2], 0)?);
    let scaled = multiply(&transposed(&vt, s)?, &expand_dims(&values, &[-2], s)?, s)?;
    matmul(&scaled, &transposed(&u, s)?, s)
}

/// Broadcast operands of a solve, the right side as matrices; whether it was a vector.
fn operands(op: &str, a: &Array, b: &Array, s: Stream) -> Result<(Array, Array, bool)> {
    refuse(op, s)?;
    if a.ndim() < 2 {
        bail!(
            Value,
            "[linalg::{op}] First input must have >= 2 dimensions. Received array with {} dimensions.",
            a.ndim()
        );
    }
    if b.ndim() < 1 {
        bail!(
            Value,
            "[linalg::{op}] Second input must have >= 1 dimensions. Received array with 0 dimensions."
        );
    }
    if a.dim(-1) != a.dim(-2) {
        bail!(
            Value,
            "[linalg::{op}] First input must be a square matrix. Received array with shape {}.",
            show(a.shape())
        );
    }
    let vector = b.ndim() == 1;
    if a.dim(-1) != b.dim(if vector { -1 } else { -2 }) {
        bail!(
            Value,
            "[linalg::{op}] Last dimension of first input with shape {} must match second to last dimension of \
             second input with shape {}.",
            show(a.shape()),
            show(b.shape())
        );
    }
    let dtype = a.dtype().promote(b.dtype());
    if !matches!(dtype, Dtype::F32 | Dtype::F64) {
        bail!(
            Value,
            "[linalg::{op}] Input arrays must promote to float32 or float64. Received arrays with type {} and {}.",
            a.dtype(),
            b.dtype()
        );
    }
    let b = if vector { expand_dims(b, &[-1], s)? } else { b.clone() };
    let (la, lb) = (&a.shape()[..a.ndim() - 2], &b.shape()[..b.ndim() - 2]);
    let lead = broadcast_shapes(op, la, lb)?;
    let whole = |x: &Array| {
        let shape: Shape = lead.iter().chain(&x.shape()[x.ndim() - 2..]).copied().collect();
        broadcast_to(&astype(x, dtype, s)?, &shape, s)
    };
    Ok((whole(a)?, whole(&b)?, vector))
}

fn solved(op: &str, a: &Array, b: &Array, triangle: Option<bool>, s: Stream) -> Result<Array> {
    let given = || vec![triangle.map(i64::from).into()];
    if let Some(out) = composite::one("linalg_solve", given, &[a, b], s)? {
        return Ok(out);
    }
    let (a, b, vector) = operands(op, a, b, s)?;
    let x = Solve { triangle }.one(vec![a, b], s)?;
    if vector { squeeze(&x, Some(&[-1]), s) } else { Ok(x) }
}

/// Solutions of `a @ x = b`; batches broadcast. A singular matrix is a runtime error when evaluated.
pub fn solve(a: &Array, b: &Array, s: Stream) -> Result<Array> {
    solved("solve", a, b, None, s)
}

/// Solutions of `a @ x = b` for lower (or upper) triangular `a`, of which the other triangle is not read.
pub fn solve_triangular(a: &Array, b: &Array, upper: bool, s: Stream) -> Result<Array> {
    solved("solve_triangular", a, b, Some(upper), s)
}

/// Normal numbers with the given means `(..., n)` and covariances `(..., n, n)`; batches broadcast with `shape`.
/// Square roots of the covariances come from their singular values, on a CPU stream.
pub fn multivariate_normal(
    mean: &Array,
    cov: &Array,
    shape: &[i64],
    k: Option<&Array>,
    s: Stream,
) -> Result<Array> {
    const OP: &str = "multivariate_normal";
    if mean.ndim() == 0 {
        bail!(Value, "[{OP}] mean must have at least one dimension.");
    }
    if cov.ndim() < 2 {
        bail!(Value, "[{OP}] cov must have at least two dimensions, got shape {}.", show(cov.shape()));
    }
    let n = mean.dim(-1);
    if cov.dim(-1) != cov.dim(-2) {
        bail!(Value, "[{OP}] last two dimensions of cov must be equal, got shape {}.", show(cov.shape()));
    }
    if cov.dim(-1) != n {
        let (m, c) = (show(mean.shape()), show(cov.shape()));
        bail!(Value, "[{OP}] mean and cov must have compatible shapes, got {m} and {c}.");
    }
    let lead = broadcast_shapes(OP, &cov.shape()[..cov.ndim() - 2], &mean.shape()[..mean.ndim() - 1])?;
    let mut out = broadcast_shapes(OP, &lead, shape)?;
    out.push(n);
    if s.device.is_gpu() && fallback::refused() {
        return Err(refusal(OP));
    }
    let on = on_host(OP, s);
    let parts = svd(&astype(cov, Dtype::F32, on)?, true, on)?;
    let scaled = multiply(&parts[0], &expand_dims(&sqrt(&parts[1], on)?, &[-2], on)?, on)?;
    let root = matmul(&scaled, &parts[2], on)?;
    let noise = super::random::normal(&out, Dtype::F32, None, None, k, s)?;
    let draws = squeeze(&matmul(&expand_dims(&noise, &[-2], s)?, &root, s)?, Some(&[-2]), s)?;
    add(mean, &draws, s)
}

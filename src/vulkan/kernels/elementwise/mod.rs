//! Records elementwise programs: collapses axes, chooses the layout class, binds operands by address. The
//! GLSL comes from `kernels::elementwise::codegen`. Pieces whose positions pass 2^30 elements or 4 GiB are split on the host,
//! so that shaders index with 32 bits.

mod flat;
pub mod tabled;

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Weak};

use smallvec::{SmallVec, smallvec};

use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::layout::{self, Layout};
use crate::core::{Dtype, Result, Shape, Strides};
use crate::kernels::elementwise::codegen::{self, Access, Caps, Class, GROUP};
use crate::kernels::elementwise::program::{Inst, Src};
use crate::kernels::{DeviceView, Program};
use crate::vulkan::shader::pipeline::FastHasher;
use crate::vulkan::tune::random;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Pipeline, Source};

pub static ELEMENTWISE_WIDE: KernelVariant = KernelVariant::new("elementwise_wide", "one element at a time");

pub static ELEMENTWISE_FLAT: KernelVariant =
    KernelVariant::new("elementwise_flat", "vectors that end with each row");

pub static HALF_CONVERT: KernelVariant = KernelVariant::new("half_convert", "float16 by integer code");

pub static COPY_TRANSPOSE: KernelVariant = KernelVariant::new("copy_transpose", "the strided copy");

/// Elements that one dispatch may span, in any operand.
const SPAN: i64 = 1 << 30;

/// Elements of so many bytes that one dispatch may span: no more than 4 GiB, as NVIDIA's compiler (driver 580) counts
/// the bytes between an address and an element in 32 bits.
pub(in crate::vulkan) fn span(size: usize) -> i64 {
    SPAN.min((1 << 32) / size as i64)
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    General(Class),
    /// Many lists, of which a table tells.
    Tabled(Class),
    /// Edge of the tile.
    Transpose(u32),
    Arange,
}

/// A kernel: what it computes, and for which layouts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ElementwiseKey {
    program: Program,
    kind: Kind,
}

/// What generated kernels and those over the function library may ask of the device.
pub(in crate::vulkan) fn caps(f: &Features) -> Caps {
    Caps {
        int64: f.int64,
        preserve_nan: f.nan_preserve32,
        preserve_denorm: f.denorm_preserve32,
        round_even: f.rte32,
        // NVIDIA and AMD have no other multiply-add.
        fused_fma: matches!(f.vendor_id, 0x10de | 0x1002),
        // Of AMD's two instructions a driver may take the one that truncates.
        half_convert: f.vendor_id == 0x10de && !HALF_CONVERT.disabled(),
        products_beside: random::products_beside(f.vendor_id),
    }
}

impl KernelKey for ElementwiseKey {
    fn name(&self) -> String {
        let types: Vec<&str> = self.program.inputs.iter().map(|d| d.name()).collect();
        match &self.kind {
            Kind::General(c) => {
                let flat = if c.flat { "_flat" } else { "" };
                format!("{}_{}_{}d_v{}{flat}", self.program.name(), types.join("_"), c.ndim, c.width)
            }
            Kind::Tabled(c) => format!("{}_{}_table_v{}", self.program.name(), types.join("_"), c.width),
            Kind::Transpose(_) => format!("{}_{}_transposed", self.program.name(), types.join("_")),
            Kind::Arange => format!("arange_{}", types.join("_")),
        }
    }

    fn module(&self, f: &Features) -> Module {
        let text = match &self.kind {
            Kind::General(c) => codegen::elementwise(&self.program, c, caps(f)),
            Kind::Tabled(c) => codegen::tabled(&self.program, c, caps(f)),
            Kind::Transpose(tile) => codegen::transpose(&self.program, *tile, caps(f)),
            Kind::Arange => codegen::arange(self.program.inputs[0], caps(f)),
        };
        // `run` checked the program; the message would show in the compiler's log.
        let text = text.unwrap_or_else(|e| format!("#version 460\n#error {e}\n"));
        Module { source: Source::Text(text), ..Default::default() }
    }
}

/// Operands over one collapsed shape.
#[derive(Clone)]
struct Piece {
    shape: Shape,
    ptrs: SmallVec<[u64; 6]>,
    strides: SmallVec<[Strides; 6]>,
}

impl Piece {
    fn range(&self, k: usize, size: usize) -> (u64, u64) {
        let l = Layout { shape: self.shape.clone(), strides: self.strides[k].clone(), offset: 0 };
        let (lo, hi) = l.span().unwrap_or((0, -1));
        (self.ptrs[k].wrapping_add_signed(lo * size as i64), (hi - lo + 1) as u64 * size as u64)
    }
}

/// What the quick path of [`run`] needs of a kernel.
struct Quick {
    pipeline: Weak<Pipeline>,
    width: u32,
}

thread_local! {
    /// Kernels of one instruction over operands without gaps, by [`signature`].
    static QUICK: RefCell<HashMap<u64, Quick, BuildHasherDefault<FastHasher>>> = RefCell::default();
}

/// A number for a program of one instruction whose operands are dense or single numbers, with the device and
/// which operands are single; `None` for everything else. Most calls of eager code are of this kind, and
/// they cost less than half when nothing is collapsed, classified or hashed.
fn signature(device: u32, p: &Program, inputs: &[DeviceView], outputs: &[DeviceView]) -> Option<u64> {
    let ([instr], [out]) = (p.instrs.as_slice(), outputs) else { return None };
    let n = out.size();
    // 64 elements fill a vector of any dtype.
    let plain = instr.args.len() == inputs.len()
        && instr.args.iter().enumerate().all(|(i, &a)| a == Src::Input(i as u8));
    let widest = inputs.iter().chain(outputs).map(|v| v.dtype.size()).max().unwrap_or(1);
    if !plain || n < 64 || n as i64 > span(widest) || device >= 1 << 8 {
        return None;
    }
    let op = match instr.op {
        Inst::Op(id) => u64::from(id.0) + 1,
        Inst::Cast => 0,
    };
    let mut key = u64::from(ELEMENTWISE_WIDE.disabled()) << 63
        | op << 32
        | u64::from(device) << 24
        | instr.dtype as u64;
    for (k, v) in inputs.iter().enumerate() {
        let single = v.strides.iter().all(|&s| s == 0);
        if !single && (v.strides != out.strides || !v.ptr.is_multiple_of(16)) {
            return None;
        }
        key |= (v.dtype as u64 | u64::from(single) << 4) << (4 + 5 * k);
    }
    (out.ptr.is_multiple_of(16) && out.is_row_contiguous()).then_some(key)
}

/// Records a kernel of [`QUICK`].
fn quick(
    enc: &mut CommandEncoder,
    pipeline: &Arc<Pipeline>,
    width: u32,
    inputs: &[DeviceView],
    out: &DeviceView,
) -> Result<()> {
    let n = out.size() as u64;
    let total = n.div_ceil(u64::from(width));
    let (groups, grid_row) = grid(enc, total);
    let mut push = [0u8; 64];
    let mut ranges = [(0, 0); 3];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        push[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    for (v, r) in inputs.iter().zip(&mut ranges) {
        let single = v.strides.iter().all(|&s| s == 0);
        *r = (v.ptr, if single { 1 } else { n } * v.dtype.size() as u64);
        put(&v.ptr.to_ne_bytes());
    }
    put(&out.ptr.to_ne_bytes());
    put(&0u64.to_ne_bytes());
    for v in [n as u32, total as u32, total as u32, grid_row, 1] {
        put(&v.to_ne_bytes());
    }
    let written = (out.ptr, n * out.dtype.size() as u64);
    enc.dispatch(pipeline, &push[..at], groups, &ranges[..inputs.len()], &[written])
}

/// Computes `p` on inputs that are broadcast to the outputs' shape. An output may be the same memory as an
/// input of the same layout.
pub fn run(
    enc: &mut CommandEncoder,
    p: &Program,
    inputs: &[DeviceView],
    outputs: &[DeviceView],
) -> Result<()> {
    let Some(key) = signature(enc.device().index(), p, inputs, outputs) else {
        return run_any(enc, p, inputs, outputs);
    };
    let known = QUICK.with_borrow(|map| map.get(&key).and_then(|q| Some((q.pipeline.upgrade()?, q.width))));
    // A GPU that was lost and opened again has the index it had.
    let known = known.filter(|(pipeline, _)| pipeline.is_of(enc.device()));
    let (pipeline, width) = match known {
        Some((pipeline, width)) => {
            pipeline.touch();
            (pipeline, width)
        }
        None => {
            codegen::supported(p, caps(enc.device().features()))?;
            let dense = |v: &DeviceView| i64::from(v.strides.iter().any(|&s| s != 0));
            let views: SmallVec<[&DeviceView; 6]> = inputs.iter().chain(outputs).collect();
            let sizes: SmallVec<[usize; 6]> = views.iter().map(|v| v.dtype.size()).collect();
            let piece = Piece {
                shape: smallvec![outputs[0].size() as i64],
                ptrs: views.iter().map(|v| v.ptr).collect(),
                strides: views.iter().map(|v| smallvec![dense(v)]).collect(),
            };
            let class = classify(&piece, &sizes, inputs.len());
            let width = u32::from(class.width);
            let key_ = ElementwiseKey { program: p.clone(), kind: Kind::General(class) };
            let pipeline = enc.device().pipeline(&key_)?;
            let q = Quick { pipeline: Arc::downgrade(&pipeline), width };
            QUICK.with_borrow_mut(|map| map.insert(key, q));
            (pipeline, width)
        }
    };
    quick(enc, &pipeline, width, inputs, &outputs[0])
}

/// [`run`] for operands of any layout.
fn run_any(
    enc: &mut CommandEncoder,
    p: &Program,
    inputs: &[DeviceView],
    outputs: &[DeviceView],
) -> Result<()> {
    codegen::supported(p, caps(enc.device().features()))?;
    if outputs[0].size() == 0 {
        return Ok(());
    }
    let views: SmallVec<[&DeviceView; 6]> = inputs.iter().chain(outputs).collect();
    let sizes: SmallVec<[usize; 6]> = views.iter().map(|v| v.dtype.size()).collect();
    let strides: SmallVec<[&[i64]; 6]> = views.iter().map(|v| v.strides.as_slice()).collect();
    let (mut shape, mut strides) = layout::collapse(&outputs[0].shape, &strides);
    if shape.is_empty() {
        shape.push(1);
        for s in &mut strides {
            s.push(1);
        }
    }
    let piece = Piece { shape, ptrs: views.iter().map(|v| v.ptr).collect(), strides: strides.into() };
    let mut todo = vec![piece];
    while let Some(mut piece) = todo.pop() {
        let too_long = |k: usize| piece.range(k, 1).1 as i64 > span(sizes[k]);
        if layout::size_of(&piece.shape) as i64 > SPAN || (0..views.len()).any(too_long) {
            let Some(ax) = widest_axis(&piece) else { continue };
            // At a multiple that keeps vectors aligned.
            let half = ((piece.shape[ax] / 2 + 15) & !15).min(piece.shape[ax] - 1);
            let mut rest = piece.clone();
            piece.shape[ax] = half;
            rest.shape[ax] -= half;
            for k in 0..views.len() {
                let bytes = half * rest.strides[k][ax] * sizes[k] as i64;
                rest.ptrs[k] = rest.ptrs[k].wrapping_add_signed(bytes);
            }
            todo.push(rest);
            todo.push(piece);
            continue;
        }
        if !transposed(enc, p, &piece, &sizes)? {
            general(enc, p, &piece, &sizes)?;
        }
    }
    Ok(())
}

/// The axis that leads farthest in the operand that spans most: halved, it leaves the fewest pieces.
fn widest_axis(piece: &Piece) -> Option<usize> {
    let far = |s: &Strides, a: usize| (piece.shape[a] - 1) * s[a].abs();
    let spans = |s: &&Strides| (0..piece.shape.len()).map(|a| far(s, a)).sum::<i64>();
    let most = piece.strides.iter().max_by_key(spans)?;
    (0..piece.shape.len()).max_by_key(|&a| far(most, a))
}

/// The layout class of a piece.
fn classify(piece: &Piece, sizes: &[usize], n_in: usize) -> Class {
    let last = piece.shape.len() - 1;
    let inner = |k: usize| piece.strides[k][last];
    let wide_sizes = (0..sizes.len()).filter(|&k| inner(k) == 1).map(|k| sizes[k]);
    let mut width = codegen::vector_width(wide_sizes);
    if piece.shape[last] < i64::from(width) || ELEMENTWISE_WIDE.disabled() {
        width = 1;
    }
    let mut access: SmallVec<[Access; 6]> = SmallVec::new();
    for (k, &size) in sizes.iter().enumerate() {
        let unit = (width as usize * size).min(16) as i64;
        let aligned = piece.ptrs[k].is_multiple_of(unit as u64)
            && piece.strides[k][..last].iter().all(|s| s * size as i64 % unit == 0);
        access.push(match inner(k) {
            0 if k < n_in => Access::Splat,
            1 if aligned && width > 1 => Access::Wide,
            1 => Access::Unit,
            _ => Access::Strided,
        });
    }
    if !access.contains(&Access::Wide) {
        width = 1;
    }
    Class { access, ndim: piece.shape.len().min(4) as u8, width, flat: false }
}

/// Copies an array to one of its shape, which may have another dtype.
pub fn copy(enc: &mut CommandEncoder, from: &DeviceView, to: &DeviceView) -> Result<()> {
    let program = Program::cast(from.dtype, to.dtype);
    run(enc, &program, std::slice::from_ref(from), std::slice::from_ref(to))
}

/// A contiguous copy, aligned to 16 bytes, in scratch memory.
pub fn dense(enc: &mut CommandEncoder, v: &DeviceView) -> Result<DeviceView> {
    let ptr = enc.temp((v.size() * v.dtype.size()).next_multiple_of(16).max(16))?;
    let dense = DeviceView { ptr, strides: layout::row_major(&v.shape), ..v.clone() };
    copy(enc, v, &dense)?;
    Ok(dense)
}

/// A grid of at least `groups` workgroups in rows of at most `width`.
pub(in crate::vulkan) fn grid_of_width(enc: &CommandEncoder, groups: u64, width: u32) -> [u32; 3] {
    let width = u64::from(enc.device().features().max_groups_x.min(width));
    let x = groups.clamp(1, width);
    [x as u32, groups.div_ceil(x).max(1) as u32, 1]
}

/// The grid, and how many invocations a row of it has, by which these kernels number them.
fn grid(enc: &CommandEncoder, invocations: u64) -> ([u32; 3], u32) {
    let groups = grid_of_width(enc, invocations.div_ceil(u64::from(GROUP)), 1 << 20);
    (groups, groups[0] * GROUP)
}

fn general(enc: &mut CommandEncoder, p: &Program, piece: &Piece, sizes: &[usize]) -> Result<()> {
    let n_in = p.inputs.len();
    let class = classify(piece, sizes, n_in);
    if let Some(class) = flat::class(piece, sizes, &class, n_in) {
        return flat::run(enc, p, piece, class);
    }
    let last = piece.shape.len() - 1;
    let width = u64::from(class.width);
    let inner = piece.shape[last] as u64;
    let per_row = inner.div_ceil(width);
    let total = per_row * piece.shape[..last].iter().product::<i64>() as u64;
    let needs_params = class.ndim > 1 || class.access.contains(&Access::Strided);
    let mut params: SmallVec<[i32; 64]> = SmallVec::new();
    let mut ptrs = piece.ptrs.clone();
    params.extend(piece.shape[..last].iter().map(|&d| d as i32));
    for (k, &size) in sizes.iter().enumerate() {
        let s = &piece.strides[k];
        let below: i64 = piece.shape.iter().zip(s).map(|(&d, &s)| ((d - 1) * s).min(0)).sum();
        params.push(-below as i32);
        params.push(s[last] as i32);
        params.extend(s[..last].iter().map(|&s| s as i32));
        // Positions count from the lowest one, so that they are never negative.
        ptrs[k] = ptrs[k].wrapping_add_signed(below * size as i64);
    }
    let params = if needs_params { &params[..] } else { &[] };
    dispatch(enc, p, piece, Launch { class, ptrs, params, inner, per_row, total })
}

/// A kernel of a class with what its push constants say.
struct Launch<'a> {
    class: Class,
    ptrs: SmallVec<[u64; 6]>,
    params: &'a [i32],
    inner: u64,
    per_row: u64,
    total: u64,
}

fn dispatch(enc: &mut CommandEncoder, p: &Program, piece: &Piece, l: Launch) -> Result<()> {
    let sizes: SmallVec<[usize; 6]> =
        p.inputs.iter().copied().chain(p.output_dtypes()).map(Dtype::size).collect();
    let n_in = p.inputs.len();
    let mut push: SmallVec<[u8; 128]> = SmallVec::new();
    l.ptrs.iter().for_each(|ptr| push.extend_from_slice(&ptr.to_ne_bytes()));
    let address = if l.params.is_empty() {
        0
    } else {
        let bytes: SmallVec<[u8; 256]> = l.params.iter().flat_map(|v| v.to_ne_bytes()).collect();
        enc.params(&bytes)?
    };
    push.extend_from_slice(&address.to_ne_bytes());
    let (groups, grid_row) = grid(enc, l.total);
    for v in [l.inner as u32, l.per_row as u32, l.total as u32, grid_row, piece.shape.len() as u32] {
        push.extend_from_slice(&v.to_ne_bytes());
    }
    if push.len() > 128 {
        bail!(Value, "[{}] A kernel takes at most 12 arrays, got {}.", p.name(), sizes.len());
    }
    let ranges: SmallVec<[(u64, u64); 6]> = (0..sizes.len()).map(|k| piece.range(k, sizes[k])).collect();
    let pipeline =
        enc.device().pipeline(&ElementwiseKey { program: p.clone(), kind: Kind::General(l.class) })?;
    enc.dispatch(&pipeline, &push, groups, &ranges[..n_in], &ranges[n_in..])
}

/// Copies or casts through a shared-memory tile where the input runs along another axis than the output;
/// false where the layouts are not of that kind.
fn transposed(enc: &mut CommandEncoder, p: &Program, piece: &Piece, sizes: &[usize]) -> Result<bool> {
    let ndim = piece.shape.len();
    if !p.is_cast() || !(2..=3).contains(&ndim) || COPY_TRANSPOSE.disabled() {
        return Ok(false);
    }
    let (src, dst, last) = (&piece.strides[0], &piece.strides[1], ndim - 1);
    let Some(row) = (0..last).find(|&a| src[a] == 1) else { return Ok(false) };
    let batch_axis = (0..last).find(|&a| a != row);
    let (rows, cols) = (piece.shape[row], piece.shape[last]);
    let batch = batch_axis.map_or(1, |a| piece.shape[a]);
    let positive = src.iter().chain(dst.iter()).all(|&s| s >= 0);
    let bytes = sizes.iter().copied().max().unwrap_or(1);
    let tile =
        codegen::transpose_tile(bytes, (rows * cols * batch) as u64, enc.device().features().shared_memory);
    let row_tiles = (rows as u64).div_ceil(u64::from(tile));
    if dst[last] != 1
        || src[last] < 2
        || !positive
        || rows < 16
        || cols < 16
        || row_tiles > 65535
        || batch > 65535
    {
        return Ok(false);
    }
    let mut push: SmallVec<[u8; 64]> = SmallVec::new();
    push.extend_from_slice(&piece.ptrs[0].to_ne_bytes());
    push.extend_from_slice(&piece.ptrs[1].to_ne_bytes());
    let batch_stride = |s: &Strides| batch_axis.map_or(0, |a| s[a]);
    for v in [rows, cols, src[last], dst[row], batch_stride(src), batch_stride(dst)] {
        push.extend_from_slice(&(v as i32).to_ne_bytes());
    }
    let groups = [(cols as u32).div_ceil(tile), row_tiles as u32, batch as u32];
    let pipeline =
        enc.device().pipeline(&ElementwiseKey { program: p.clone(), kind: Kind::Transpose(tile) })?;
    enc.dispatch(&pipeline, &push, groups, &[piece.range(0, sizes[0])], &[piece.range(1, sizes[1])])?;
    Ok(true)
}

/// Bits of a number in a real dtype, as constants and ranges use them.
fn number_bits(v: f64, d: Dtype) -> u64 {
    match d {
        Dtype::F32 => u64::from((v as f32).to_bits()),
        Dtype::F16 => u64::from(half::f16::from_f32_const(v as f32).to_bits()),
        Dtype::BF16 => u64::from(half::bf16::from_f32(v as f32).to_bits()),
        Dtype::F64 => v.to_bits(),
        _ => v as i64 as u64,
    }
}

/// Element `i` of `dst` becomes `T(start) + i * T(step)` in `dst`'s dtype `T`. `dst` is contiguous.
pub fn arange(enc: &mut CommandEncoder, start: f64, step: f64, dst: &DeviceView) -> Result<()> {
    let d = dst.dtype;
    codegen::arange(d, caps(enc.device().features())).map(drop)?;
    let key = ElementwiseKey { program: Program::cast(d, d), kind: Kind::Arange };
    let mut done: u64 = 0;
    while done < dst.size() as u64 {
        let count = (dst.size() as u64 - done).min(span(d.size()) as u64);
        let ptr = dst.ptr + done * d.size() as u64;
        let (groups, grid_row) = grid(enc, count);
        let mut push: SmallVec<[u8; 64]> = SmallVec::new();
        push.extend_from_slice(&ptr.to_ne_bytes());
        push.extend_from_slice(&(count as u32).to_ne_bytes());
        push.extend_from_slice(&grid_row.to_ne_bytes());
        push.extend_from_slice(&number_bits(start, d).to_ne_bytes());
        push.extend_from_slice(&number_bits(step, d).to_ne_bytes());
        push.extend_from_slice(&(done as u32).to_ne_bytes());
        let pipeline = enc.device().pipeline(&key)?;
        enc.dispatch(&pipeline, &push, groups, &[], &[(ptr, count * d.size() as u64)])?;
        done += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests;

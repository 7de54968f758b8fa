//! Attention of one position of several sequences on matrix units in PTX, with what comes before it in a decoder, as `token`, whose
//! kernel is the twin (MLX_VK_DISABLE=sdpa_several). Host side of `text`.

mod args;
mod front;
mod join;
mod parts;
mod ready;
#[cfg(test)]
pub mod tests;
mod text;

use smallvec::SmallVec;

pub use self::args::Args;
use self::args::told;
pub use self::text::Program;
use super::newest::{Newest, ready};
use super::{Mask, tell, touched};
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::hal::encoder::COUNTERS;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::report::stats::STATS;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::attention::several::{Several, THREADS, front, several};
use crate::vulkan::{CommandEncoder, Features};

impl KernelKey for Program {
    fn name(&self) -> String {
        let norm = if self.norm { "norm_" } else { "" };
        let turned = match (self.traditional, self.dims == self.features) {
            (false, true) => String::new(),
            (false, false) => format!("{}_", self.dims),
            (true, _) => format!("{}_neighbours_", self.dims),
        };
        format!("sdpa_{norm}rope_{turned}several_{}_of_{}_{}", self.parts, self.features, self.dtype)
    }

    fn module(&self, _: &Features) -> Module {
        Module { source: Source::Ptx { text: self.text(), threads: THREADS }, ..Default::default() }
    }
}

type Ranges = SmallVec<[(u64, u64); 12]>;

/// Whether the kernel knows what comes before the products.
fn known(q: &DeviceView, dst: &DeviceView, newest: &Newest) -> bool {
    let plain = matches!(q.dtype, Dtype::F16 | Dtype::BF16) && dst.ptr.is_multiple_of(8);
    // A pair's other element is another lane's, which has eight.
    let turns = newest.form.dims.is_multiple_of(if newest.form.traditional { 8 } else { 16 });
    // Sums of squares are those of the kernel for rows, which lies otherwise where these are padded.
    let sums = newest.eps.is_none() || q.shape[3] % 64 == 0;
    plain && turns && sums && newest.normed()
}

/// The kernel of such a cut.
fn program(
    s: Several,
    [q, k]: [&DeviceView; 2],
    (mask, sinks): (Option<&DeviceView>, Option<&DeviceView>),
    newest: &Newest,
) -> Program {
    // FITS: counts of heads.
    Program {
        dtype: q.dtype,
        features: s.features,
        dims: newest.form.dims as u32,
        traditional: newest.form.traditional,
        group: (q.shape[1] / k.shape[1]) as u32,
        rows: s.rows,
        tiles: s.tiles,
        parts: s.parts,
        norm: newest.eps.is_some(),
        waves: newest.waves.is_some(),
        mask: Mask::of(mask, false),
        sinks: sinks.is_some(),
        kv: k.shape[1] as u32,
        front: None,
    }
}

/// How the kernel goes over these arrays, its parts and their keys; `None` where it does not take them.
fn plan(
    enc: &CommandEncoder,
    [q, k]: [&DeviceView; 2],
    with: (Option<&DeviceView>, Option<&DeviceView>),
    dst: &DeviceView,
    newest: &Newest,
) -> Option<(Program, u32)> {
    let device = enc.device();
    let [batch, kv, n] = [0, 1, 2].map(|i| k.shape[i] as u64);
    if !known(q, dst, newest) || batch.max(kv) > u64::from(u16::MAX) {
        return None;
    }
    let s = several(device.profile(), [batch, kv], q.shape[1] as u64 / kv, n, q.shape[3] as u64)?;
    let counted = batch * kv * u64::from(s.tiles) <= COUNTERS as u64 / 16;
    (counted && device.warpgroups()).then(|| (program(s, [q, k], with, newest), s.span))
}

/// What the kernel reads and writes, but for parts.
fn ranges(
    [q, k, v]: [&DeviceView; 3],
    (mask, sinks): (Option<&DeviceView>, Option<&DeviceView>),
    dst: &DeviceView,
    newest: &Newest,
) -> (Ranges, Ranges) {
    let (reads, written) = touched([Some(q), Some(k), Some(v), mask], sinks, Some(newest));
    (reads, written.into_iter().chain([dst.range()]).collect())
}

/// Where what the kernel reads behind its wait begins: queries, the newest key and value, and places. All else is older, the other keys and
/// values too.
pub fn late(q: &DeviceView, newest: &Newest) -> SmallVec<[u64; 4]> {
    let [key, value] = [newest.key[0], newest.value[0]];
    [Some(q), Some(key), Some(value), newest.offsets].into_iter().flatten().map(|x| x.ptr).collect()
}

/// What a chain begins with: the kernel, what it is told but for words, and what it reads and writes.
pub struct Fronted {
    pub program: Program,
    pub args: Args,
    pub reads: Ranges,
    pub writes: Ranges,
}

/// The attention of one sequence as what a chain begins with, where there is such a kernel.
pub fn fronted(
    enc: &mut CommandEncoder,
    qkv: [&DeviceView; 3],
    with: (Option<&DeviceView>, Option<&DeviceView>),
    scale: f32,
    dst: &DeviceView,
    newest: &Newest,
) -> Result<Option<Fronted>> {
    let [q, k, _] = qkv;
    if q.shape[0] != 1 || !known(q, dst, newest) || ready(enc, qkv, with.0, newest).is_none() {
        return Ok(None);
    }
    let [heads, features] = [1, 3].map(|i| q.shape[i] as u64);
    let [kv, n] = [1, 2].map(|i| k.shape[i] as u64);
    let device = enc.device();
    let cut = front(device.profile(), kv, heads / kv, n, features);
    let Some(s) = cut.filter(|_| device.warpgroups()) else { return Ok(None) };
    let Some(args) = told(enc, qkv, with, newest)? else { return Ok(None) };
    tell(enc, [1, heads, 1, n, features, features], false);
    STATS.attention(0, 1, n, u64::from(s.parts));
    let (reads, writes) = ranges(qkv, with, dst, newest);
    let args = Args { span: s.span, scale, dst: dst.ptr, ..args };
    Ok(Some(Fronted { program: program(s, [q, k], with, newest), args, reads, writes }))
}

/// Runs the kernel; whether it takes these arrays, whose newest rows [`newest::turned`](super::newest) found where they are kept.
pub(super) fn attention(
    enc: &mut CommandEncoder,
    qkv: [&DeviceView; 3],
    (mask, sinks): (Option<&DeviceView>, Option<&DeviceView>),
    (scale, causal): (f32, bool),
    dst: &DeviceView,
    newest: &Newest,
) -> Result<bool> {
    let [q, k, _] = qkv;
    let Some((program, span)) = plan(enc, [q, k], (mask, sinks), dst, newest) else { return Ok(false) };
    let Some(args) = told(enc, qkv, (mask, sinks), newest)? else { return Ok(false) };
    let [batch, heads, d] = [0, 1, 3].map(|i| q.shape[i] as u64);
    let (kv, n) = (k.shape[1] as u64, k.shape[2] as u64);
    let (reads, mut written) = ranges(qkv, (mask, sinks), dst, newest);
    let mut args = Args { span, scale, dst: dst.ptr, ..args };
    if program.parts > 1 {
        let parts = batch * heads * u64::from(program.parts);
        // Values, and then maxima and sums.
        let [values, extremes] = [4 * d * parts, 8 * parts];
        let slots = batch * kv * u64::from(program.tiles);
        args.parts = enc.temp((values + extremes) as usize)?;
        args.heads = args.parts + values;
        args.counters = enc.counters(slots as usize)?;
        written.extend([(args.parts, values + extremes), (args.counters, 4 * slots)]);
    }
    tell(enc, [batch, heads, 1, n, d, d], causal);
    STATS.attention(0, 1, n, u64::from(program.parts));
    let pipeline = enc.device().pipeline(&program)?;
    let grid = [program.parts * program.tiles, kv as u32, batch as u32];
    enc.dispatch_early(&pipeline, args.bytes(), grid, [&reads, &written], &late(q, newest))?;
    Ok(true)
}

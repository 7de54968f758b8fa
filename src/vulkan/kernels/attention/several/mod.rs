//! Attention of one position of several sequences on matrix units in PTX, with what comes before it in a decoder, as `token`, whose
//! kernel is the twin (MLX_VK_DISABLE=sdpa_several). Host side of `text`. Not measured on a card yet: taken where
//! MLX_VK_WARPGROUP=all asks for what can be.

mod join;
mod ready;
#[cfg(test)]
mod tests;
mod text;

use self::text::Program;
use super::newest::Newest;
use super::token::{bytes, mask_bytes};
use super::{Mask, rope, steps_of_vector, tell, touched};
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::hal::encoder::COUNTERS;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::report::stats::STATS;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::attention::several::{THREADS, several};
use crate::vulkan::tune::warpgroup::always;
use crate::vulkan::{CommandEncoder, Features};

impl KernelKey for Program {
    fn name(&self) -> String {
        let norm = if self.norm { "norm_" } else { "" };
        format!("sdpa_{norm}rope_several_{}_of_{}_bfloat16", self.parts, self.features)
    }

    fn module(&self, _: &Features) -> Module {
        Module { source: Source::Ptx { text: self.text(), threads: THREADS }, ..Default::default() }
    }
}

/// Place of an argument.
macro_rules! place {
    ($field:ident) => {
        std::mem::offset_of!(crate::vulkan::kernels::attention::several::Args, $field)
    };
}
use place;

/// What the kernel is told; the text reads it by these places. Steps from one batch, head and key to the next are bytes.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Args {
    q: u64,
    key: u64,
    value: u64,
    /// All keys and values; the newest ones have their places there.
    k: u64,
    v: u64,
    q_weight: u64,
    k_weight: u64,
    /// Angles of pairs, `table_step` elements apart.
    table: u64,
    /// The place of each sequence, or 0 where all are at `start`.
    starts: u64,
    mask: u64,
    sinks: u64,
    dst: u64,
    /// What parts leave: values, their greatest scores and sums, and how many came.
    parts: u64,
    heads: u64,
    counters: u64,
    q_steps: [u32; 2],
    key_steps: [u32; 2],
    value_steps: [u32; 2],
    k_steps: [u32; 3],
    v_steps: [u32; 3],
    m_steps: [u32; 3],
    /// Heads of keys, keys, the newest one's place among them, and keys of a part.
    lines: u32,
    n: u32,
    place: u32,
    span: u32,
    table_step: i32,
    start: i32,
    start_step: i32,
    sink_step: i32,
    pace: f32,
    sign: f32,
    scale: f32,
    eps: f32,
    unused: u32,
}

const _: () = assert!(size_of::<Args>() == 15 * 8 + 28 * 4);

// SAFETY: repr(C) of fields of 8 bytes and an even number of 4, without padding.
unsafe impl Told for Args {}

/// How the kernel goes over these arrays, its parts and their keys; `None` where it does not take them.
fn plan(
    enc: &CommandEncoder,
    [q, k]: [&DeviceView; 2],
    (mask, sinks): (Option<&DeviceView>, Option<&DeviceView>),
    dst: &DeviceView,
    newest: &Newest,
) -> Option<(Program, u32)> {
    let device = enc.device();
    let [batch, kv, n] = [0, 1, 2].map(|i| k.shape[i] as u64);
    let plain = !newest.form.traditional && q.dtype == Dtype::BF16 && dst.ptr.is_multiple_of(8);
    let weights = newest.weights.iter().flatten().count();
    let normed = newest.eps.map_or(weights == 0, |_| weights == 2);
    if !(always() && plain && normed && batch.max(kv) <= u64::from(u16::MAX)) {
        return None;
    }
    let group = q.shape[1] as u64 / kv;
    let s = several(device.profile(), batch * kv, group, n, q.shape[3] as u64)?;
    if batch * kv * u64::from(s.tiles) > COUNTERS as u64 / 16 || !device.warpgroups() {
        return None;
    }
    let program = Program {
        features: s.features,
        group: group as u32,
        rows: s.rows,
        tiles: s.tiles,
        parts: s.parts,
        norm: newest.eps.is_some(),
        waves: newest.waves.is_some(),
        mask: Mask::of(mask, false),
        sinks: sinks.is_some(),
    };
    Some((program, s.span))
}

/// What the kernel is told but for where parts go.
fn told(
    enc: &mut CommandEncoder,
    [q, k, v]: [&DeviceView; 3],
    (mask, sinks): (Option<&DeviceView>, Option<&DeviceView>),
    newest: &Newest,
) -> Result<Option<Args>> {
    let two = |x: &DeviceView| bytes(x).map(|s| [s[0], s[1]]);
    let all = (two(q), two(newest.key[0]), two(newest.value[0]), bytes(k), bytes(v));
    let (Some(q_steps), Some(key_steps), Some(value_steps), Some(k_steps), Some(v_steps)) = all else {
        return Ok(None);
    };
    let Some(m_steps) = mask.map_or(Some([0; 3]), mask_bytes) else { return Ok(None) };
    let form = &newest.form;
    let at = |x: Option<&DeviceView>| x.map_or(0, |x| x.ptr);
    let [q_weight, k_weight] = newest.weights.map(at);
    Ok(Some(Args {
        q: q.ptr,
        key: newest.key[0].ptr,
        value: newest.value[0].ptr,
        k: k.ptr,
        v: v.ptr,
        q_weight,
        k_weight,
        table: rope::angles(enc, newest.waves, form)?,
        starts: at(newest.offsets),
        mask: at(mask),
        sinks: at(sinks),
        q_steps,
        key_steps,
        value_steps,
        k_steps,
        v_steps,
        m_steps,
        // FITS: `newest::turned` and `plan` ask for that.
        lines: k.shape[1] as u32,
        n: k.shape[2] as u32,
        place: newest.place,
        table_step: rope::step(newest.waves, 1) as i32,
        start: form.offset as i32,
        start_step: rope::step(newest.offsets, 0) as i32,
        sink_step: sinks.map_or(0, steps_of_vector) as i32,
        pace: form.scale,
        sign: if form.back { -1.0 } else { 1.0 },
        eps: newest.eps.unwrap_or(0.0),
        ..Args::default()
    }))
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
    let (reads, mut written) = touched(
        {
            let [q, k, v] = qkv.map(Some);
            [q, k, v, mask]
        },
        sinks,
        Some(newest),
    );
    written.push(dst.range());
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
    enc.dispatch(&pipeline, args.bytes(), grid, &reads, &written)?;
    Ok(true)
}

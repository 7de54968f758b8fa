//! What the kernel of `text` is told.

use super::super::newest::Newest;
use super::super::token::{bytes, mask_bytes};
use super::super::{rope, steps_of_vector};
use crate::core::Result;
use crate::kernels::DeviceView;
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;

/// Place of an argument.
macro_rules! place {
    ($field:ident) => {
        std::mem::offset_of!(crate::vulkan::kernels::attention::several::args::Args, $field)
    };
}
pub(super) use place;

/// What the kernel is told; the text reads it by these places. Steps from one batch, head and key to the next are bytes.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Args {
    pub(super) q: u64,
    pub(super) key: u64,
    pub(super) value: u64,
    /// All keys and values; the newest ones have their places there.
    pub(super) k: u64,
    pub(super) v: u64,
    pub(super) q_weight: u64,
    pub(super) k_weight: u64,
    /// Angles of pairs, `table_step` elements apart.
    pub(super) table: u64,
    /// The place of each sequence, or 0 where all are at `start`.
    pub(super) starts: u64,
    pub(super) mask: u64,
    pub(super) sinks: u64,
    pub dst: u64,
    /// What parts leave: values, their greatest scores and sums, and how many came.
    pub parts: u64,
    pub(super) heads: u64,
    pub(super) counters: u64,
    /// Words of the result, where it is a front, and what marks them and those of parts.
    pub words: u64,
    pub(super) q_steps: [u32; 2],
    pub(super) key_steps: [u32; 2],
    pub(super) value_steps: [u32; 2],
    pub(super) k_steps: [u32; 3],
    pub(super) v_steps: [u32; 3],
    pub(super) m_steps: [u32; 3],
    /// Heads of keys, keys, the newest one's place among them, and keys of a part.
    pub(super) lines: u32,
    pub(super) n: u32,
    pub(super) place: u32,
    pub(super) span: u32,
    pub(super) table_step: i32,
    pub(super) start: i32,
    pub(super) start_step: i32,
    pub(super) sink_step: i32,
    pub(super) pace: f32,
    pub(super) sign: f32,
    pub(super) scale: f32,
    pub(super) eps: f32,
    pub tag: u32,
}

const _: () = assert!(size_of::<Args>() == 16 * 8 + 28 * 4);

// SAFETY: repr(C) of fields of 8 bytes and an even number of 4, without padding.
unsafe impl Told for Args {}

/// What the kernel is told but for where parts go.
pub(super) fn told(
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

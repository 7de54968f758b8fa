//! Host side of shaders/attention/sdpa_token.comp: attention of one query a head with what comes before it in a decoder, as
//! `newest`, for heads of 16-bit elements whose lanes a subgroup holds: of one sequence over one turn of keys, and of several, with
//! masks and offsets, over some turns.

use smallvec::SmallVec;

use super::newest::Newest;
use super::{Mask, rope, rope_rows, steps, steps_of_vector, tell, touched};
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::hal::encoder::COUNTERS;
use crate::vulkan::kernels::elem::{
    Defines, Push, define, float_controls, joined_by_last, operand, required_subgroup,
};
use crate::vulkan::report::stats::STATS;
use crate::vulkan::tune::attention::token::{ROOM, Token, token};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

/// Features of a lane.
const FEATURES: i64 = 8;

/// What decides the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    dtype: Dtype,
    mask: Mask,
    sinks: bool,
    waves: bool,
    /// Lanes that sum up the squares of a row.
    norm: Option<u32>,
    workgroup: u32,
    /// That share a row.
    lanes: u32,
    rows: u32,
    tiles: u32,
    unroll: u32,
    /// Parts that the last workgroup joins.
    parts: Option<u32>,
    /// Steps in which lanes divide scores, where a part has several turns of keys.
    steps: Option<u32>,
    /// Arguments are push constants.
    pushed: bool,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let norm = if self.norm.is_some() { "norm_" } else { "" };
        let kind = if self.steps.is_some() { "turns" } else { "token" };
        format!("sdpa_{norm}rope_{kind}_{}", self.dtype)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        float_controls(&mut d, f);
        operand(&mut d, "A", self.dtype);
        operand(&mut d, "B", self.dtype);
        let flags = [
            (self.sinks, "SINKS"),
            (self.waves, "WAVES"),
            (self.norm.is_some(), "NORM"),
            (self.pushed, "PUSHED"),
            (self.steps.is_some(), "TURNS"),
            (self.mask == Mask::Bool, "MASK_BOOL"),
            (self.mask == Mask::Add, "MASK_ADD"),
        ];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        let numbers = [
            ("ROWS", Some(self.rows)),
            ("UNROLL", Some(self.unroll)),
            ("SUM_LANES", self.norm),
            ("PARTS", self.parts),
            ("STEPS", self.steps),
            ("ROOM", self.steps.map(|_| ROOM)),
        ];
        for (name, n) in numbers {
            if let Some(n) = n {
                define(&mut d, name, format!("{n}u"));
            }
        }
        if self.parts.is_some() {
            joined_by_last(&mut d);
        }
        Module {
            source: Source::File("sdpa_token.comp"),
            defines: d,
            spec: vec![self.workgroup, self.lanes, f.subgroup_size, self.tiles],
            subgroup_size: required_subgroup(f),
            ..Module::default()
        }
    }
}

/// Bytes of what shaders/attention/attention.glsl calls TokenArgs, for one turn of keys and for several.
const ARGUMENTS: usize = 204;
/// See [`ARGUMENTS`].
const TURNS_ARGUMENTS: usize = 236;

/// Of which there are so many.
fn arguments(steps: Option<u32>) -> usize {
    steps.map_or(ARGUMENTS, |_| TURNS_ARGUMENTS)
}

/// Steps from one batch, head and key to the next in bytes, where all they lead to lies within 2 GiB.
pub(super) fn bytes(x: &DeviceView) -> Option<[u32; 3]> {
    let steps = steps(x);
    let size = x.dtype.size() as i64;
    let far = |i: usize| (x.shape[i] - 1).checked_mul(steps[i]);
    let last = far(0)?.checked_add(far(1)?)?.checked_add(far(2)?)?.checked_add(x.shape[3])?;
    let near = steps.iter().all(|&s| s >= 0) && last.checked_mul(size)? < i64::from(i32::MAX);
    // FITS: at most `last`, as steps of axes of length one are zero.
    near.then(|| [0, 1, 2].map(|i| (steps[i] * size) as u32))
}

/// The same of a mask's batch, head and key.
pub(super) fn mask_bytes(m: &DeviceView) -> Option<[u32; 3]> {
    let [batch, head, _, key] = steps(m);
    let size = m.dtype.size() as i64;
    let far = |n: i64, step: i64| (n - 1).checked_mul(step);
    let last =
        far(m.shape[0], batch)?.checked_add(far(m.shape[1], head)?)?.checked_add(far(m.shape[3], key)?)?;
    let near = batch.min(head).min(key) >= 0 && (last + 1).checked_mul(size)? < i64::from(i32::MAX);
    // FITS: as in `bytes`.
    near.then(|| [batch, head, key].map(|s| (s * size) as u32))
}

/// How the kernel goes over these arrays, and what it is told of where they lie.
struct Plan {
    token: Token,
    key: Key,
    strides: SmallVec<[u32; 12]>,
    /// Of the mask.
    across: [u32; 3],
}

/// `None` where the kernel does not take these arrays.
fn plan(
    enc: &CommandEncoder,
    [q, k, v]: [&DeviceView; 3],
    (mask, sinks): (Option<&DeviceView>, Option<&DeviceView>),
    dst: &DeviceView,
    newest: &Newest,
) -> Option<Plan> {
    let (profile, f) = (enc.device().profile(), enc.device().features());
    let d = q.shape[3];
    let [batch, kv, n] = [0, 1, 2].map(|i| k.shape[i] as u64);
    let lanes = d / FEATURES;
    let whole = d % FEATURES == 0 && (lanes as u64).is_power_of_two() && dst.ptr.is_multiple_of(8);
    let plain = !newest.form.traditional && newest.form.dims as i64 == d && q.dtype.size() == 2;
    let norm = newest.eps.map(|_| rope_rows::sums(d, q.dtype, true)[0]);
    let held = norm.is_none_or(|n| i64::from(n) <= lanes);
    if !(whole && plain && newest.normed() && held && batch.max(kv) <= u64::from(u16::MAX)) {
        return None;
    }
    // FITS: at most MOST_FEATURES.
    let lanes = lanes as u32;
    let one = mask.is_none() && newest.offsets.is_none();
    let t = token(profile, batch * kv, q.shape[1] as u64 / kv, n, lanes, one)?;
    if t.parts > 1 && batch * kv * u64::from(t.tiles) > COUNTERS as u64 / 16 {
        return None;
    }
    let key = Key {
        dtype: q.dtype,
        mask: Mask::of(mask, false),
        sinks: sinks.is_some(),
        waves: newest.waves.is_some(),
        norm,
        workgroup: t.workgroup,
        lanes,
        rows: t.rows,
        tiles: t.tiles,
        unroll: t.unroll,
        parts: (t.parts > 1).then_some(t.parts),
        steps: t.steps,
        pushed: f.push_constants as usize >= arguments(t.steps),
    };
    let mut strides = SmallVec::new();
    for (x, n) in [(q, 2), (newest.key[0], 2), (k, 3), (v, 3), (newest.value[0], 2)] {
        strides.extend_from_slice(&bytes(x)?[..n]);
    }
    // The mask's rows have one query.
    let across = mask.map_or(Some([0; 3]), mask_bytes)?;
    Some(Plan { token: t, key, strides, across })
}

impl Plan {
    /// What TokenArgs are; `to` are the addresses of parts, of their extremes and sums, of counters and of the result.
    fn arguments(
        &self,
        enc: &mut CommandEncoder,
        [q, k, v]: [&DeviceView; 3],
        (mask, sinks): (Option<&DeviceView>, Option<&DeviceView>),
        scale: f32,
        newest: &Newest,
        to: [u64; 4],
    ) -> Result<Vec<u8>> {
        let form = &newest.form;
        let table = rope::angles(enc, newest.waves, form)?;
        let at = |x: Option<&DeviceView>| x.map_or(0, |x| x.ptr);
        let [wq, wk] = newest.weights.map(at);
        let back = if form.back { -1.0f32 } else { 1.0 };
        // FITS: `newest::turned` and `plan` ask for that.
        let counts = [k.shape[2] as u32, (q.shape[1] / k.shape[1]) as u32, newest.place, self.token.span];
        let turn = [rope::step(newest.waves, 1) as u32, form.offset as u32];
        let floats = [form.scale, back, scale, newest.eps.unwrap_or(0.0)].map(f32::to_bits);
        let words: SmallVec<[u32; 24]> = self
            .strides
            .iter()
            .copied()
            .chain(counts)
            .chain(turn)
            .chain(floats)
            .chain([q.shape[3] as u32, 0])
            .collect();
        let mut args = Push::default()
            .u64s(&[q.ptr, newest.key[0].ptr, wq, wk, table, k.ptr, v.ptr, newest.value[0].ptr])
            .u32s(&words);
        let sink_step = sinks.map_or(0, steps_of_vector) as i32 as u32;
        args.extend(Push::default().u64s(&to).u64s(&[at(sinks)]).u32s(&[sink_step]));
        if self.key.steps.is_some() {
            let turns = Push::default().u32s(&[rope::step(newest.offsets, 0) as i32 as u32]);
            args.extend(turns);
            args.extend(Push::default().u64s(&[at(mask), at(newest.offsets)]).u32s(&self.across));
        }
        debug_assert_eq!(args.len(), arguments(self.key.steps));
        if self.key.pushed {
            return Ok(args);
        }
        Ok(Push::default().u64s(&[enc.params(&args)?]).u32s(&[]))
    }
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
    let Some(plan) = plan(enc, qkv, (mask, sinks), dst, newest) else { return Ok(false) };
    let [q, k, _] = qkv;
    let [batch, heads, d] = [0, 1, 3].map(|i| q.shape[i] as u64);
    let (kv, n) = (k.shape[1] as u64, k.shape[2] as u64);
    let t = plan.token;
    let slots = batch * kv * u64::from(t.tiles);
    let parts = batch * heads * u64::from(t.parts);
    // Values, and then maxima and sums.
    let [values, heads_of] = [4 * d * parts, 8 * parts];
    let (to, counters) = if t.parts > 1 {
        (enc.temp((values + heads_of) as usize)?, enc.counters(slots as usize)?)
    } else {
        (0, 0)
    };
    let push =
        plan.arguments(enc, qkv, (mask, sinks), scale, newest, [to, to + values, counters, dst.ptr])?;
    let [q, k, v] = qkv.map(Some);
    let (reads, mut written) = touched([q, k, v, mask], sinks, Some(newest));
    written.push(dst.range());
    if t.parts > 1 {
        written.extend([(to, values + heads_of), (counters, 4 * slots)]);
    }
    tell(enc, [batch, heads, 1, n, d, d], causal);
    STATS.attention(0, 1, n, u64::from(t.parts));
    let pipeline = enc.device().pipeline(&plan.key)?;
    enc.dispatch(&pipeline, &push, [t.parts * t.tiles, kv as u32, batch as u32], &reads, &written)?;
    Ok(true)
}

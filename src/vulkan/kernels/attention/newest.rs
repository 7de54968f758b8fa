//! Attention of one query a head together with what comes before it in a decoder (shaders/attention/fresh.glsl): queries and the
//! newest key are normalised and turned, the newest key and value are kept with the others.

use smallvec::SmallVec;

use super::{Vector, attend, is_wide, rope, rope_rows, several, steps, steps_of_vector, token};
use crate::core::Result;
use crate::kernels::DeviceView;
use crate::kernels::attention::rope::Form;
use crate::vulkan::kernels::elem::{Defines, Push, define, float_controls, shuffles};
use crate::vulkan::tune::attention as table;
use crate::vulkan::{CommandEncoder, Features};

/// The newest key and value, and what is done to keys and queries.
pub struct Newest<'a> {
    /// Keys of (batch, key heads, 1, features), and where they are kept among the others.
    pub key: [&'a DeviceView; 2],
    pub value: [&'a DeviceView; 2],
    /// What queries and keys are normalised with, contiguous.
    pub weights: [Option<&'a DeviceView>; 2],
    pub eps: Option<f32>,
    pub offsets: Option<&'a DeviceView>,
    pub waves: Option<&'a DeviceView>,
    pub form: Form,
    /// The newest key's place among all.
    pub place: u32,
}

/// What decides the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Turned {
    pub features: u32,
    /// Of which so many are turned.
    pub dims: u32,
    pub traditional: bool,
    pub waves: bool,
    /// Lanes that sum up the squares of a row.
    pub norm: Option<u32>,
    /// A lane has what one of those takes at a time.
    in_lane: bool,
    /// Arguments are push constants.
    pushed: bool,
}

impl Turned {
    pub(super) fn define(&self, d: &mut Defines, f: &Features) {
        float_controls(d, f);
        define(d, "FRESH", 1);
        define(d, "DIMS", format!("{}u", self.dims));
        if let Some(lanes) = self.norm {
            define(d, "NORM", 1);
            define(d, "SUM_LANES", format!("{lanes}u"));
        }
        let flags = [
            (self.traditional, "TRADITIONAL"),
            (self.waves, "WAVES"),
            (self.in_lane, "IN_LANE"),
            (self.pushed, "PUSHED"),
        ];
        flags.iter().filter(|x| x.0).for_each(|x| define(d, x.1, 1));
    }
}

/// Whether the newest row lies where it is kept among the others, at `place` of them.
fn among(others: &DeviceView, kept: &DeviceView, place: u32) -> bool {
    let (all, own) = (steps(others), steps(kept));
    let there = others.ptr as i64 + i64::from(place) * all[2] * others.dtype.size() as i64;
    kept.ptr as i64 == there && all[..2] == own[..2]
}

/// What the kernel is told, or `None` where it does not take these arrays.
pub(super) fn turned(
    f: &Features,
    [q, k, v]: [&DeviceView; 3],
    mask: Option<&DeviceView>,
    newest: &Newest,
    Vector { block, lanes }: Vector,
) -> Option<Turned> {
    let d = q.shape[3];
    let one = q.shape[2] == 1 && v.shape[3] == d;
    let [key, value] = [newest.key[0], newest.value[0]];
    let weights = || newest.weights.into_iter().flatten();
    let wide = is_wide(key) && is_wide(value) && weights().all(|w| w.ptr.is_multiple_of(16));
    let kept = among(k, newest.key[1], newest.place) && among(v, newest.value[1], newest.place);
    let arrays = [q, k, v, key, value].into_iter().chain(mask);
    let near = arrays.flat_map(steps).all(|s| i32::try_from(s).is_ok());
    let norm = newest.eps.map(|_| rope_rows::sums(d, q.dtype, true)[0]);
    let sums = norm.is_none_or(|lanes| lanes <= f.subgroup_size);
    let room = table::newest_fits(f, block, lanes);
    (one && wide && kept && near && shuffles(f) && sums && room).then_some(Turned {
        // FITS: at most MOST_FEATURES.
        features: d as u32,
        dims: newest.form.dims as u32,
        traditional: newest.form.traditional,
        waves: newest.waves.is_some(),
        norm,
        in_lane: q.dtype.size() == 2 && lanes <= f.subgroup_size,
        pushed: pushed(f),
    })
}

/// What is told besides [`Newest`]: queries, keys, values and a mask, as shaders/attention/attention.glsl names the rest.
pub(super) struct Told<'a> {
    pub arrays: [Option<&'a DeviceView>; 4],
    pub sinks: Option<&'a DeviceView>,
    /// Addresses of the result, of parts of it, and of counters.
    pub to: [u64; 3],
    /// As in the block of other kernels.
    pub counts: [u32; 10],
    pub scale: f32,
}

/// Bytes of what shaders/attention/attention.glsl calls FreshArgs.
const ARGUMENTS: usize = 248;

/// Whether a device takes them as push constants: to read them from memory costs 1 us more (H200).
fn pushed(f: &Features) -> bool {
    f.push_constants as usize >= ARGUMENTS
}

impl Newest<'_> {
    /// The push block: what FreshArgs are, or their address.
    pub(super) fn arguments(&self, enc: &mut CommandEncoder, told: &Told) -> Result<Vec<u8>> {
        let f = &self.form;
        let table = rope::angles(enc, self.waves, f)?;
        let at = |x: Option<&DeviceView>| x.map_or(0, |x| x.ptr);
        let [q, k, v, mask] = told.arrays.map(|x| x.map_or([0; 4], steps));
        let [key, value] = [self.key[0], self.value[0]].map(steps);
        let some = [&q[..2], &k[..3], &v[..3], &mask[..], &key[..2], &value[..2]];
        // FITS: `turned` asks for that.
        let strides = some.into_iter().flatten().map(|&s| s as i32 as u32);
        let sink_step = told.sinks.map_or(0, steps_of_vector);
        let numbers = [
            sink_step as i32 as u32,
            f.offset as u32,
            rope::step(self.waves, 1) as u32,
            rope::step(self.offsets, 0) as u32,
        ];
        let [batch, kv, group, _, n, _, _, rows, splits, span] = told.counts;
        let counts = [batch, kv, group, n, rows, splits, span];
        // FITS: at most MOST_FEATURES.
        let ends = [self.place, self.key[0].shape[3] as u32];
        let floats =
            [told.scale, f.scale, if f.back { -1.0 } else { 1.0 }, self.eps.unwrap_or(0.0)].map(f32::to_bits);
        let words: SmallVec<[u32; 40]> =
            strides.chain(numbers).chain(counts).chain(ends).chain(floats).collect();
        let args = Push::default()
            .u64s(&told.arrays.map(at))
            .u64s(&[at(told.sinks)])
            .u64s(&told.to)
            .u64s(&[self.key[0].ptr, self.value[0].ptr])
            .u64s(&self.weights.map(at))
            .u64s(&[table, at(self.offsets)])
            .u32s(&words);
        debug_assert_eq!(args.len(), ARGUMENTS);
        if pushed(enc.device().features()) {
            return Ok(args);
        }
        Ok(Push::default().u64s(&[enc.params(&args)?]).u32s(&[]))
    }

    /// Whether both queries and keys are normalised with weights, or neither is.
    pub(super) fn normed(&self) -> bool {
        let weights = self.weights.iter().flatten().count();
        self.eps.map_or(weights == 0, |_| weights == 2)
    }

    pub(super) fn reads(&self) -> impl Iterator<Item = (u64, u64)> {
        let others = self.weights.into_iter().chain([self.offsets, self.waves]).flatten();
        [self.key[0], self.value[0]].into_iter().chain(others).map(DeviceView::range)
    }

    pub(super) fn writes(&self) -> [(u64, u64); 2] {
        [self.key[1].range(), self.value[1].range()]
    }
}

/// What the vector kernel is told, or `None` where it does not take these arrays.
pub(super) fn ready(
    enc: &CommandEncoder,
    qkv: [&DeviceView; 3],
    mask: Option<&DeviceView>,
    newest: &Newest,
) -> Option<(Turned, Vector)> {
    let [q, _, v] = qkv;
    if !(table::vector(q.shape[2] as u64, v.shape[3] as u64) && qkv.into_iter().all(is_wide)) {
        return None;
    }
    let vector = Vector::of(enc, qkv);
    Some((turned(enc.device().features(), qkv, mask, newest, vector)?, vector))
}

/// As [`attention`](super::attention) for what [`Newest`] says, where `q` is not turned yet and `k` and `v` have room for the newest
/// rows; whether the kernel takes these arrays.
pub fn attention(
    enc: &mut CommandEncoder,
    qkv: [&DeviceView; 3],
    (mask, sinks): (Option<&DeviceView>, Option<&DeviceView>),
    (scale, causal): (f32, bool),
    dst: &DeviceView,
    newest: &Newest,
) -> Result<bool> {
    let Some((turned, vector)) = ready(enc, qkv, mask, newest) else { return Ok(false) };
    let both = (mask, sinks);
    if several::attention(enc, qkv, both, (scale, causal), dst, newest)?
        || token::attention(enc, qkv, both, (scale, causal), dst, newest)?
    {
        return Ok(true);
    }
    attend(enc, qkv, (mask, sinks), (scale, causal), dst, Some((newest, turned, vector)))?;
    Ok(true)
}

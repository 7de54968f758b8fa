//! Attention of one query a head together with what comes before it in a decoder (shaders/attention/fresh.glsl): queries and the
//! newest key are normalised and turned, the newest key and value are kept with the others.

use super::{Vector, attend, is_wide, rope, rope_rows, steps};
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
    pub traditional: bool,
    pub waves: bool,
    /// Lanes that sum up the squares of a row.
    pub norm: Option<u32>,
}

impl Turned {
    pub(super) fn define(&self, d: &mut Defines, f: &Features) {
        float_controls(d, f);
        define(d, "FRESH", 1);
        if let Some(lanes) = self.norm {
            define(d, "NORM", 1);
            define(d, "SUM_LANES", format!("{lanes}u"));
        }
        let flags = [(self.traditional, "TRADITIONAL"), (self.waves, "WAVES")];
        flags.iter().filter(|x| x.0).for_each(|x| define(d, x.1, 1));
    }
}

/// What the kernel is told, or `None` where it does not take these arrays.
pub(super) fn turned(
    f: &Features,
    [q, v]: [&DeviceView; 2],
    newest: &Newest,
    Vector { block, lanes }: Vector,
) -> Option<Turned> {
    let d = q.shape[3];
    let one = q.shape[2] == 1 && v.shape[3] == d && newest.form.dims as i64 == d;
    let [key, value] = [newest.key[0], newest.value[0]];
    let weights = || newest.weights.into_iter().flatten();
    let wide = is_wide(key) && is_wide(value) && weights().all(|w| w.ptr.is_multiple_of(16));
    let kept = is_wide(newest.key[1]) && is_wide(newest.value[1]);
    let norm = newest.eps.map(|_| rope_rows::sums(d, q.dtype, true)[0]);
    let sums = norm.is_none_or(|lanes| lanes <= f.subgroup_size);
    let room = table::newest_fits(f, block, lanes);
    (one && wide && kept && shuffles(f) && sums && room).then_some(Turned {
        // FITS: at most MOST_FEATURES.
        features: d as u32,
        traditional: newest.form.traditional,
        waves: newest.waves.is_some(),
        norm,
    })
}

impl Newest<'_> {
    /// Address of what shaders/attention/attention.glsl calls FreshArgs.
    pub(super) fn arguments(&self, enc: &mut CommandEncoder) -> Result<u64> {
        let f = &self.form;
        let table = rope::angles(enc, self.waves, f)?;
        let ptr = |a: Option<&DeviceView>| a.map_or(0, |a| a.ptr);
        let arrays = [self.key[0], self.value[0], self.key[1], self.value[1]];
        let [q_weight, k_weight] = self.weights.map(ptr);
        let addresses = arrays.map(|a| a.ptr);
        let strides = arrays.map(|a| {
            let [batch, head, ..] = steps(a);
            [batch, head]
        });
        let args = Push::default()
            .u64s(&addresses)
            .u64s(&[q_weight, k_weight, table, ptr(self.offsets)])
            .i64s(strides.as_flattened())
            .u32s(&[
                f.offset as u32,
                rope::step(self.waves, 1) as u32,
                rope::step(self.offsets, 0) as u32,
                f.scale.to_bits(),
                if f.back { -1f32 } else { 1.0 }.to_bits(),
                self.eps.unwrap_or(0.0).to_bits(),
                self.place,
                // FITS: at most MOST_FEATURES.
                f.dims as u32,
            ]);
        enc.params(&args)
    }

    pub(super) fn reads(&self) -> impl Iterator<Item = (u64, u64)> {
        let others = self.weights.into_iter().chain([self.offsets, self.waves]).flatten();
        [self.key[0], self.value[0]].into_iter().chain(others).map(DeviceView::range)
    }

    pub(super) fn writes(&self) -> [(u64, u64); 2] {
        [self.key[1].range(), self.value[1].range()]
    }
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
    let [q, _, v] = qkv;
    if !(table::vector(q.shape[2] as u64, v.shape[3] as u64) && qkv.into_iter().all(is_wide)) {
        return Ok(false);
    }
    let vector = Vector::of(enc, qkv);
    let Some(turned) = turned(enc.device().features(), [q, v], newest, vector) else {
        return Ok(false);
    };
    attend(enc, qkv, (mask, sinks), (scale, causal), dst, Some((newest, turned, vector)))?;
    Ok(true)
}

//! Host side of shaders/random/random.comp: threefry random bits, the same as MLX gives for the same key. The
//! layout of counters is described in shaders/random/threefry.glsl.

pub mod drawn;

use super::elem::{Defines, Push, WG, collapse, dims, grid};
use crate::bail;
use crate::core::{Dtype, Result};
use crate::kernels::{DeviceView, Draw};
use crate::vulkan::kernels::elementwise::caps;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RandomKey {
    draw: Draw,
    /// A single key of fewer than 2^30 counters.
    one: bool,
}

impl KernelKey for RandomKey {
    fn name(&self) -> String {
        format!("random_{:?}{}", self.draw, ["", "_one"][usize::from(self.one)]).to_lowercase()
    }

    fn module(&self, f: &Features) -> Module {
        let source = Source::File("random.comp");
        let mut defines: Defines = vec![("FINISH".into(), (self.draw as u32).to_string())];
        if caps(f).products_beside {
            defines.push(("SUMS_BY_PRODUCTS".into(), "1".into()));
        }
        if self.one {
            defines.push(("ONE".into(), "1".into()));
        }
        Module { source, defines, spec: vec![WG], subgroup_size: None, spirv16: false }
    }
}

/// Fills `dst` (contiguous; u8, u16 or u32; shape `keys.shape[..-1] + ...`) with random bits: one run of
/// equal length for each of the `keys` (u32, last axis 2, any strides).
pub fn bits(enc: &mut CommandEncoder, keys: &DeviceView, dst: &DeviceView) -> Result<()> {
    draw(enc, Draw::Bits, keys, dst)
}

/// As [`bits`], with every 32-bit word finished to a float32 (or left alone).
pub fn draw(enc: &mut CommandEncoder, draw: Draw, keys: &DeviceView, dst: &DeviceView) -> Result<()> {
    let Some((&2, lead)) = keys.shape.split_last() else {
        bail!(
            Value,
            "[bits] Expected keys of shape (..., 2), got {}.",
            crate::core::layout::show(&keys.shape)
        );
    };
    let fits = match draw {
        Draw::Bits => matches!(dst.dtype, Dtype::U8 | Dtype::U16 | Dtype::U32),
        _ => dst.dtype == Dtype::F32,
    };
    if keys.dtype != Dtype::U32 || !fits {
        bail!(
            Value,
            "[bits] Expected uint32 keys and uint8, uint16 or uint32 bits, got {} and {}.",
            keys.dtype,
            dst.dtype
        );
    }
    let num_keys = crate::core::layout::size_of(lead) as u64;
    if num_keys == 0 || dst.size() == 0 {
        return Ok(());
    }
    let bytes = (dst.size() * dst.dtype.size()) as u64 / num_keys;
    let words = bytes.div_ceil(4);
    let (half, odd) = (words / 2, words % 2);
    if half + odd > u64::from(u32::MAX) || num_keys > u64::from(u32::MAX) {
        bail!(
            Value,
            "[bits] More than 2^33 words a key or 2^32 keys are not supported, got {words} and {num_keys}."
        );
    }
    let lanes = (half + odd).div_ceil(4);
    let kept = collapse(lead.iter().copied().zip(keys.strides.iter().copied()));
    let key_stride = keys.strides[lead.len()];
    let params = dims(enc, &kept)?;
    let push = Push::default().u64s(&[keys.ptr, dst.ptr, params, bytes, half, lanes]).i64s(&[key_stride]);
    let push = push.u32s(&[num_keys as u32, kept.len() as u32, odd as u32]);
    let key = RandomKey { draw, one: num_keys == 1 && half + odd < 1 << 30 };
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, (lanes * num_keys).div_ceil(u64::from(WG)));
    enc.dispatch(&pipeline, &push, groups, &[keys.range()], &[dst.range()])
}

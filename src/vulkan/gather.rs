//! Host side of shaders/gather.comp: `take` along one axis. Contiguous rows are copied in the widest units
//! that the addresses, strides and the row length allow.

use super::elem::{Defines, Push, WG, collapse, define, dims, grid};
use super::{CommandEncoder, Features, KernelKey, Module, Source};
use crate::bail;
use crate::core::{Kind, Result};
use crate::kernels::DeviceView;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// Bytes copied at once.
    unit: u64,
    index: u64,
    signed: bool,
    /// 64-bit positions.
    big: bool,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        format!("take_{}B_{}{}", self.unit, if self.signed { "i" } else { "u" }, self.index * 8)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        let (stored, bits, reference) = match self.unit {
            1 => ("uint8_t", "uint", "Raw1"),
            2 => ("uint16_t", "uint", "Raw2"),
            4 => ("uint", "uint", "Raw4"),
            8 => ("uvec2", "uvec2", "Raw8"),
            _ => ("uvec4", "uvec4", "Vec16"),
        };
        define(&mut d, "UNIT", self.unit);
        define(&mut d, "BITS", bits);
        define(&mut d, "STORED", stored);
        define(&mut d, "REF", reference);
        define(&mut d, "I_SIZE", self.index);
        define(&mut d, "I_SIGNED", u32::from(self.signed));
        define(&mut d, "I_RAW", format!("Raw{}", self.index));
        define(&mut d, "I_DEC", format!("dec_{}{}", if self.signed { "i" } else { "u" }, self.index * 8));
        if self.big {
            define(&mut d, "BIG", 1);
        }
        Module {
            source: Source::File("gather.comp"),
            defines: d,
            spec: vec![WG],
            subgroup_size: None,
            spirv16: false,
        }
    }
}

/// `dst = src.take(indices, axis)`: `dst` is contiguous with shape `src[:axis] + indices + src[axis+1:]`.
/// Indices have any integer dtype; negative ones count from the end, others out of range are clamped.
pub fn take(
    enc: &mut CommandEncoder,
    src: &DeviceView,
    indices: &DeviceView,
    axis: usize,
    dst: &DeviceView,
) -> Result<()> {
    if !matches!(indices.dtype.kind(), Kind::Unsigned | Kind::Signed | Kind::Bool) {
        bail!(Value, "[take] Expected integer indices, got {}.", indices.dtype);
    }
    if dst.size() == 0 {
        return Ok(());
    }
    let size = src.dtype.size() as i64;
    let len = src.shape[axis];
    if len == 0 {
        bail!(Value, "[take] Cannot take from an axis of length 0.");
    }
    let axes = |r: std::ops::Range<usize>| collapse(r.map(|a| (src.shape[a], src.strides[a])));
    let mut outer = axes(0..axis);
    let mut inner = axes(axis + 1..src.ndim());
    let mut row: i64 = inner.iter().map(|i| i.0).product();
    let mut stride = if len == 1 { 0 } else { src.strides[axis] };

    // The widest unit that every position of a row's start is a multiple of.
    let mut unit = size;
    if inner.is_empty() || (inner.len() == 1 && inner[0].1 == 1) {
        inner.clear();
        while unit < 16 {
            let next = unit * 2;
            let fits = |bytes: i64| bytes % next == 0;
            let even = outer.iter().all(|o| fits(o.1 * size)) && fits(stride * size) && fits(row * size);
            if !(even && fits(src.ptr as i64) && fits(dst.ptr as i64)) {
                break;
            }
            unit = next;
        }
        let per = unit / size;
        outer.iter_mut().for_each(|o| o.1 /= per);
        stride /= per;
        row /= per;
    }
    let count = indices.size() as u64;
    let total = dst.size() as u64 * size as u64 / unit as u64;
    if row as u64 > u64::from(u32::MAX) || count > u64::from(u32::MAX) {
        bail!(Value, "[take] More than 4294967295 indices or elements a row are not supported.");
    }
    let places = collapse(indices.shape.iter().copied().zip(indices.strides.iter().copied()));
    let list: Vec<(i64, i64)> = outer.iter().chain(&inner).chain(&places).copied().collect();
    let params = dims(enc, &list)?;
    let push = Push::default().u64s(&[src.ptr, indices.ptr, dst.ptr, params, total]).i64s(&[stride]);
    let counts = [outer.len(), inner.len(), places.len()].map(|n| n as u32);
    let shift = if row.count_ones() == 1 { row.trailing_zeros() } else { 32 };
    let push = push.u32s(&[row as u32, count as u32, len as u32, counts[0], counts[1], counts[2], shift]);
    let index = indices.dtype;
    let signed = index.kind() == Kind::Signed;
    let key = Key { unit: unit as u64, index: index.size() as u64, signed, big: total >= 1 << 31 };
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, total.div_ceil(u64::from(2 * WG)));
    enc.dispatch(&pipeline, &push, groups, &[src.range(), indices.range()], &[dst.range()])
}

//! What the hosts of gather and scatter share: the parameter block of shaders/index/indexed.glsl, the macros
//! that read index arrays, and copy units.

use smallvec::SmallVec;

use crate::bail;
use crate::core::{Kind, Result};
use crate::kernels::DeviceView;
use crate::kernels::index::indexed::{Dim, Walk};
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::elem::{Defines, define};

/// How index arrays are read; all of them have one dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::vulkan) struct Indices {
    /// Bytes of an index.
    pub size: u64,
    pub signed: bool,
    pub count: usize,
}

impl Indices {
    pub(in crate::vulkan) fn of(op: &str, indices: &[DeviceView]) -> Result<Indices> {
        let Some(first) = indices.first() else { bail!(Value, "[{op}] Expected an index array.") };
        if let Some(other) = indices.iter().find(|i| i.dtype != first.dtype) {
            bail!(
                Value,
                "[{op}] Expected index arrays of one dtype, got {} and {}.",
                first.dtype,
                other.dtype
            );
        }
        let kind = first.dtype.kind();
        if !matches!(kind, Kind::Unsigned | Kind::Signed | Kind::Bool) {
            bail!(Value, "[{op}] Expected integer indices, got {}.", first.dtype);
        }
        let size = first.dtype.size() as u64;
        Ok(Indices { size, signed: kind == Kind::Signed, count: indices.len() })
    }

    pub(in crate::vulkan) fn define(&self, d: &mut Defines) {
        let (bits, sign) = (self.size * 8, if self.signed { "i" } else { "u" });
        define(d, "NPICK", self.count);
        define(d, "I_SIZE", self.size);
        define(d, "I_SIGNED", u32::from(self.signed));
        define(d, "I_RAW", format!("Raw{}", self.size));
        define(d, "I_DEC", format!("dec_{sign}{bits}"));
    }

    pub(in crate::vulkan) fn name(&self) -> String {
        let sign = if self.signed { "i" } else { "u" };
        let many = if self.count > 1 { format!("x{}", self.count) } else { String::new() };
        format!("{sign}{}{many}", self.size * 8)
    }
}

/// Collects the words of a parameter block.
#[derive(Default)]
pub(in crate::vulkan) struct Words(Vec<u8>);

impl Words {
    pub(in crate::vulkan) fn push(&mut self, words: &[i64]) {
        words.iter().for_each(|w| self.0.extend_from_slice(&w.to_ne_bytes()));
    }

    /// An axis: its fields, then the steps in the index arrays.
    pub(in crate::vulkan) fn axis(&mut self, fields: &[i64], dim: &Dim) {
        self.push(fields);
        self.push(&dim.index);
    }

    /// The index arrays; `step` is what each adds to a position.
    pub(in crate::vulkan) fn picks(
        &mut self,
        walk: &Walk,
        indices: &[DeviceView],
        step: impl Fn(usize) -> i64,
    ) {
        for (k, (p, view)) in walk.picks.iter().zip(indices).enumerate() {
            self.push(&[view.ptr as i64, step(k), p.len, p.limit]);
        }
    }

    pub(in crate::vulkan) fn upload(&self, enc: &mut CommandEncoder) -> Result<u64> {
        enc.params(&self.0)
    }
}

/// The widest unit in bytes, from one element up to 16, that divides a row of `row` elements and every step
/// and address around it.
pub(in crate::vulkan) fn widest(
    size: i64,
    row: i64,
    steps: impl IntoIterator<Item = i64>,
    addresses: &[u64],
) -> i64 {
    let steps: SmallVec<[i64; 8]> = steps.into_iter().collect();
    let mut unit = size;
    while unit < 16 {
        let next = unit * 2;
        let fits = |elements: i64| (elements * size) % next == 0;
        let even = fits(row) && steps.iter().all(|&s| fits(s));
        if !even || addresses.iter().any(|a| !a.is_multiple_of(next as u64)) {
            break;
        }
        unit = next;
    }
    unit
}

/// Macros for copies in units of so many bytes.
pub(in crate::vulkan) fn define_unit(d: &mut Defines, unit: u64) {
    let (stored, bits, reference) = match unit {
        1 => ("uint8_t", "uint", "Raw1"),
        2 => ("uint16_t", "uint", "Raw2"),
        4 => ("uint", "uint", "Raw4"),
        8 => ("uvec2", "uvec2", "Raw8"),
        _ => ("uvec4", "uvec4", "Vec16"),
    };
    define(d, "UNIT", unit);
    define(d, "BITS", bits);
    define(d, "STORED", stored);
    define(d, "REF", reference);
}

/// The log2 of a power of two, or 32, which shaders take as "divide".
pub(in crate::vulkan) fn shift(n: u64) -> u32 {
    if n.is_power_of_two() { n.trailing_zeros() } else { 32 }
}

//! What the hosts of the hand-written kernels share: macro definitions of the element codecs in
//! shaders/lib/codecs.glsl, packing of push constants and dimension lists, grids, alignment checks.

use std::sync::Arc;

use super::elementwise::{caps, grid_of_width};
use crate::core::{Dtype, Kind, Result};
use crate::vulkan::hal::recorder::FULL_BARRIERS;
use crate::vulkan::shader::pipeline::Pipeline;
use crate::vulkan::tune::sort::RADIX_SHARED;
use crate::vulkan::{CommandEncoder, Features};

/// Macro definitions for a module.
pub type Defines = Vec<(String, String)>;

/// Lanes of a workgroup.
pub const WG: u32 = 256;

/// A push constant block, packed in the order of the calls (scalar layout: 8-byte members first).
pub struct Push(Vec<u8>);

/// Bytes that most blocks, and those of arguments in memory, do not outgrow.
const PUSH_ROOM: usize = 320;

impl Default for Push {
    fn default() -> Push {
        Push(Vec::with_capacity(PUSH_ROOM))
    }
}

impl Push {
    /// Appends 8-byte members.
    pub fn u64s(mut self, values: &[u64]) -> Push {
        values.iter().for_each(|v| self.0.extend_from_slice(&v.to_ne_bytes()));
        self
    }

    /// Appends signed 8-byte members.
    pub fn i64s(mut self, values: &[i64]) -> Push {
        values.iter().for_each(|v| self.0.extend_from_slice(&v.to_ne_bytes()));
        self
    }

    /// Appends 4-byte members and ends the block.
    pub fn u32s(mut self, values: &[u32]) -> Vec<u8> {
        values.iter().for_each(|v| self.0.extend_from_slice(&v.to_ne_bytes()));
        self.0
    }
}

/// `name` without a value or with one.
pub fn define(defines: &mut Defines, name: &str, value: impl ToString) {
    defines.push((name.to_owned(), value.to_string()));
}

/// What `lib/float_controls.glsl` reads. Kernels over `lib/math.glsl` need it: without these modes a driver was seen
/// to drop `precise`.
pub fn float_controls(defines: &mut Defines, f: &Features) {
    caps(f).float_modes().for_each(|name| define(defines, name, 1));
}

/// What `lib/last.glsl` reads, for kernels whose last workgroup joins what all of them computed.
pub fn joined_by_last(defines: &mut Defines) {
    define(defines, "LAST", 1);
    if FULL_BARRIERS.switch().unwrap_or(false) {
        define(defines, "FULL_BARRIERS", 1);
    }
}

/// GLSL type that elements are computed in.
pub fn compute_type(d: Dtype) -> &'static str {
    match (d.kind(), d.size()) {
        (Kind::Bool | Kind::Unsigned, 8) => "uint64_t",
        (Kind::Signed, 8) => "int64_t",
        (Kind::Bool | Kind::Unsigned, _) => "uint",
        (Kind::Signed, _) => "int",
        (Kind::Float, _) => "float",
        (Kind::Complex, _) => "vec2",
    }
}

/// Suffix of the codec functions.
pub fn short(d: Dtype) -> &'static str {
    match d {
        Dtype::Bool => "bool",
        Dtype::U8 => "u8",
        Dtype::U16 => "u16",
        Dtype::U32 => "u32",
        Dtype::U64 => "u64",
        Dtype::I8 => "i8",
        Dtype::I16 => "i16",
        Dtype::I32 => "i32",
        Dtype::I64 => "i64",
        Dtype::F16 => "f16",
        Dtype::BF16 => "bf16",
        Dtype::F32 => "f32",
        Dtype::F64 => "f64",
        Dtype::C64 => "c64",
    }
}

/// Codec of operand `p` ("A" is read, "B" written).
pub fn operand(defines: &mut Defines, p: &str, d: Dtype) {
    let kind = match d.kind() {
        Kind::Bool | Kind::Unsigned => 0,
        Kind::Signed => 1,
        Kind::Float => 2,
        Kind::Complex => 3,
    };
    define(defines, &format!("{p}_SIZE"), d.size());
    define(defines, &format!("{p}_C"), compute_type(d));
    define(defines, &format!("{p}_DEC"), format!("dec_{}", short(d)));
    define(defines, &format!("{p}_ENC"), format!("enc_{}", short(d)));
    define(defines, &format!("{p}_KIND"), kind);
    if d == Dtype::BF16 {
        define(defines, &format!("{p}_BF16"), 1);
    }
}

/// Codec of operand A with the order of its elements (shaders/sort/order.glsl).
pub fn ordered(defines: &mut Defines, d: Dtype) {
    operand(defines, "A", d);
    let mantissa = match d {
        Dtype::F16 => 10,
        Dtype::BF16 => 7,
        _ => 23,
    };
    define(defines, "A_MANTISSA", mantissa);
}

/// Whether kernels may number lanes by subgroup and exchange values by shuffles.
pub fn shuffles(f: &Features) -> bool {
    f.subgroup_basic
        && f.subgroup_shuffle
        && f.subgroup_size.is_power_of_two()
        && (4..=WG).contains(&f.subgroup_size)
        && (f.min_subgroup_size == f.max_subgroup_size || f.subgroup_size_control)
}

/// Whether the radix sort runs on a device: its kernels rank by ballots over subgroups of 4 to 64 lanes.
pub fn ranks(f: &Features) -> bool {
    shuffles(f) && f.subgroup_ballot && (4..=64).contains(&f.subgroup_size) && f.shared_memory >= RADIX_SHARED
}

/// The subgroup size to require so that workgroups consist of full subgroups of one size.
pub fn required_subgroup(f: &Features) -> Option<u32> {
    (shuffles(f) && f.min_subgroup_size != f.max_subgroup_size).then_some(f.subgroup_size)
}

/// Uploads (size, stride) pairs for `offset_of`; 0 for none.
pub fn dims(enc: &mut CommandEncoder, list: &[(i64, i64)]) -> Result<u64> {
    if list.is_empty() {
        return Ok(0);
    }
    let bytes: Vec<u8> = list.iter().flat_map(|&(d, s)| [d, s]).flat_map(i64::to_ne_bytes).collect();
    enc.params(&bytes)
}

/// The same for `row_offset` of shaders/lib/codecs.glsl: the stride of a single axis as it is, which no kernel has to read.
pub fn row_dims(enc: &mut CommandEncoder, list: &[(i64, i64)]) -> Result<u64> {
    match list {
        &[(_, stride)] => Ok(stride.cast_unsigned()),
        _ => dims(enc, list),
    }
}

/// A push block that says where in the whole grid a dispatch begins.
pub trait GridPush: Copy {
    /// The block of the dispatch that begins there.
    fn beginning(self, tile0: u32, batch0: u32) -> Self;
    /// The block as bytes.
    fn bytes(&self) -> &[u8];
}

/// Runs a kernel over `tiles`, `splits` parts and `batches`, in as many dispatches as limits ask for.
pub fn launch(
    enc: &mut CommandEncoder,
    pipeline: &Arc<Pipeline>,
    push: impl GridPush,
    tiles: u64,
    splits: u32,
    batches: i64,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<()> {
    let f = enc.device().features();
    let (max_x, max_z) = (u64::from(f.max_groups_x.max(65535)), i64::from(f.max_groups_z.max(65535)));
    for batch0 in (0..batches).step_by(max_z as usize) {
        let z = (batches - batch0).min(max_z) as u32;
        for tile0 in (0..tiles).step_by(max_x as usize) {
            let x = (tiles - tile0).min(max_x) as u32;
            let push = push.beginning(tile0 as u32, batch0 as u32);
            enc.dispatch(pipeline, push.bytes(), [x, splits, z], reads, writes)?;
        }
    }
    Ok(())
}

/// A grid of at least `groups` workgroups; kernels number them by y * width + x and skip the surplus.
pub fn grid(enc: &CommandEncoder, groups: u64) -> [u32; 3] {
    grid_of_width(enc, groups, 65535)
}

/// Whether an address and the strides that lead away from it keep 16-byte alignment.
pub fn aligned16<'a>(ptr: u64, size: usize, strides: impl IntoIterator<Item = &'a i64>) -> bool {
    ptr.is_multiple_of(16) && strides.into_iter().all(|s| (s * size as i64) % 16 == 0)
}

/// Drops axes of length 1 and joins neighbours that are walked without a seam.
pub fn collapse(axes: impl IntoIterator<Item = (i64, i64)>) -> Vec<(i64, i64)> {
    let mut out: Vec<(i64, i64)> = Vec::new();
    for (d, s) in axes {
        match out.last_mut() {
            _ if d == 1 => {}
            Some(last) if last.1 == s * d => *last = (last.0 * d, s),
            _ => out.push((d, s)),
        }
    }
    out
}

//! Host side of the attention kernels. Few queries: sdpa_vector.comp over parts of the keys, and sdpa_merge.comp
//! that joins them. Many: sdpa_coop.comp where that is asked for, else sdpa_tile.comp.

mod blocks;
pub mod gated_delta;
pub mod gradient;
pub mod newest;
pub mod rope;
pub mod rope_rows;
pub mod several;
mod token;
mod warpgroup;

use smallvec::SmallVec;

use super::elem::{
    Defines, Push, WG, aligned16, define, grid, joined_by_last, operand, required_subgroup, shuffles,
};
use super::elementwise;
use super::matmul::fragment_probe;
use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::layout::show;
use crate::core::{Dtype, Error, Result};
use crate::kernels::DeviceView;
use crate::vulkan::hal::encoder::COUNTERS;
use crate::vulkan::report::stats::STATS;
use crate::vulkan::tune::attention::{self as table, Coop, MOST_FEATURES, Tile};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};
use blocks::Blocks;
use newest::{Newest, Told, Turned};

const OP: &str = "scaled_dot_product_attention";

pub static SDPA: KernelVariant = KernelVariant::new("sdpa", "attention composed of products and softmax");

/// Which part a mask plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mask {
    None,
    Causal,
    Bool,
    Add,
}

impl Mask {
    fn of(mask: Option<&DeviceView>, causal: bool) -> Mask {
        match mask {
            None if causal => Mask::Causal,
            None => Mask::None,
            Some(m) if m.dtype == Dtype::Bool => Mask::Bool,
            Some(_) => Mask::Add,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kernel {
    Vector {
        rows: u32,
        unroll: u32,
        lanes: u32,
        merged: u32,
        last: bool,
    },
    Merge,
    Tile(Tile, u32),
    Coop(Coop),
    /// Of the gradient: subgroups of a workgroup, rows that are staged at a time.
    Queries(Coop, u32),
    Keys(Coop, u32),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    dtype: Dtype,
    mask: Mask,
    sinks: bool,
    wide: bool,
    /// Neighbours in a row of the mask are read together.
    pairs: bool,
    /// Extents of rows are written, or were before the gradient.
    kept: bool,
    /// The newest rows are made ready.
    newest: Option<Turned>,
    kernel: Kernel,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let kind = match self.kernel {
            Kernel::Vector { .. } if self.newest.is_some_and(|n| n.norm.is_some()) => "norm_rope_vector",
            Kernel::Vector { .. } if self.newest.is_some() => "rope_vector",
            Kernel::Vector { last: true, .. } => "vector_joined",
            Kernel::Vector { .. } => "vector",
            Kernel::Merge => "merge",
            Kernel::Tile(..) => "tile",
            Kernel::Coop(Coop { held: true, .. }) => "coop_held",
            Kernel::Coop(_) => "coop",
            Kernel::Queries(..) => "grad_q",
            Kernel::Keys(..) => "grad_kv",
        };
        format!("sdpa_{kind}_{}", self.dtype)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        operand(&mut d, "A", self.dtype);
        operand(&mut d, "B", self.dtype);
        let vector = matches!(self.kernel, Kernel::Vector { .. });
        if let Some(newest) = &self.newest {
            newest.define(&mut d, f);
        }
        let flags = [
            (self.wide, "VEC"),
            (self.sinks, "SINKS"),
            (self.mask == Mask::Causal, "CAUSAL"),
            (self.mask == Mask::Bool, "MASK_BOOL"),
            (self.mask == Mask::Add, "MASK_ADD"),
            (self.pairs, "PAIRS"),
            (self.kept, "KEPT"),
            (vector && shuffles(f), "SG"),
        ];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        let mut m = Module::default();
        let mut number = |name: &str, n: u32| define(&mut d, name, format!("{n}u"));
        let file = match self.kernel {
            Kernel::Vector { rows, unroll, lanes, merged, last } => {
                number("ROWS", rows);
                number("MERGED", merged);
                number("UNROLL", unroll);
                if last {
                    joined_by_last(&mut d);
                }
                m.spec = [WG, lanes].into_iter().chain(self.newest.map(|n| n.features)).collect();
                m.subgroup_size = required_subgroup(f);
                "sdpa_vector.comp"
            }
            Kernel::Merge => "sdpa_merge.comp",
            Kernel::Tile(t, columns) => {
                let all = [("TM", t.tm), ("TN", t.tn), ("DC", t.dc), ("VK", t.vk), ("NC", columns)];
                all.iter().for_each(|&(name, n)| number(name, n));
                "sdpa_tile.comp"
            }
            Kernel::Coop(c) => {
                matrices(&mut d, &mut m, f, c, self.dtype);
                "sdpa_coop.comp"
            }
            Kernel::Queries(c, staged) | Kernel::Keys(c, staged) => {
                number("BN", staged);
                matrices(&mut d, &mut m, f, c, self.dtype);
                if matches!(self.kernel, Kernel::Queries(..)) {
                    "sdpa_grad_q.comp"
                } else {
                    "sdpa_grad_kv.comp"
                }
            }
        };
        Module { source: Source::File(file), defines: d, ..m }
    }
}

/// What all kernels on matrices are told.
fn matrices(d: &mut Defines, m: &mut Module, f: &Features, c: Coop, dtype: Dtype) {
    let all = [("LANES", c.lanes), ("TEAMS", c.teams), ("HD", c.hd), ("HV", c.hv), ("WD", c.wd)];
    all.iter().for_each(|&(name, n)| define(d, name, format!("{n}u")));
    define(d, "DTYPE", if dtype == Dtype::BF16 { 2 } else { 1 });
    if c.held {
        define(d, "HELD", 1);
    }
    if table::early_mask(&c) {
        define(d, "EARLY", 1);
    }
    if c.plain {
        define(d, "PLAIN", 1);
    } else {
        m.subgroup_size = f.subgroup_size_control.then_some(c.lanes);
        m.spirv16 = true;
    }
}

/// Whether heads of so many features have a kernel.
pub fn takes(d: i64, dv: i64) -> bool {
    d.max(dv) as u64 <= MOST_FEATURES && !SDPA.disabled()
}

/// Attention of q, k, v (batch, heads, length, features; one dtype of float16, bfloat16, float32) with a mask of
/// the full shape of scores (bool, or the dtype, which is added) and a sink for each head. `dst` is contiguous.
pub fn attention(
    enc: &mut CommandEncoder,
    [q, k, v]: [&DeviceView; 3],
    mask: Option<&DeviceView>,
    sinks: Option<&DeviceView>,
    scale: f32,
    causal: bool,
    dst: &DeviceView,
) -> Result<()> {
    attend(enc, [q, k, v], (mask, sinks), (scale, causal), dst, None)
}

/// How the vector kernel goes over queries, keys and values.
#[derive(Clone, Copy)]
struct Vector {
    block: table::Block,
    /// That share a row.
    lanes: u32,
}

impl Vector {
    fn of(enc: &CommandEncoder, [q, k, v]: [&DeviceView; 3]) -> Vector {
        let [batch, heads, l, d] = [0, 1, 2, 3].map(|i| q.shape[i] as u64);
        let (kv, n, dv) = (k.shape[1] as u64, k.shape[2] as u64, v.shape[3] as u64);
        let lanes = d.max(dv).div_ceil(8).next_power_of_two().clamp(8, WG.into()) as u32;
        let side = u64::from(WG / lanes);
        let block = table::block(enc.device().profile(), batch * kv, heads / kv * l, n, side);
        Vector { block, lanes }
    }
}

/// Fails for arrays that no kernel takes.
fn check([q, k, v]: [&DeviceView; 3]) -> Result<()> {
    if !matches!(q.dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32) {
        bail!(Value, "[{OP}] Expected a 16- or 32-bit float, got {}.", q.dtype);
    }
    let rows = q.shape[1] / k.shape[1] * q.shape[2];
    let long = q.shape[3].max(v.shape[3]) as u64 > MOST_FEATURES;
    if long || rows > i32::MAX.into() || k.shape[2] > i64::from(i32::MAX) / 2 {
        return Err(too_large(q, k));
    }
    Ok(())
}

/// Parts that sdpa_vector.comp reads at once, whether there are as many or not.
const PARTS_AT_ONCE: u64 = 8;

/// What a kernel reads, and what it writes besides results.
fn touched(
    arrays: [Option<&DeviceView>; 4],
    sinks: Option<&DeviceView>,
    newest: Option<&Newest>,
) -> (SmallVec<[(u64, u64); 12]>, SmallVec<[(u64, u64); 5]>) {
    let mut reads: SmallVec<_> = arrays.into_iter().chain([sinks]).flatten().map(DeviceView::range).collect();
    let mut written = SmallVec::new();
    if let Some(newest) = newest {
        reads.extend(newest.reads());
        written.extend(newest.writes());
    }
    (reads, written)
}

/// See [`attention`]; with the newest rows only where the vector kernel takes them.
fn attend(
    enc: &mut CommandEncoder,
    [q, k, v]: [&DeviceView; 3],
    (mask, sinks): (Option<&DeviceView>, Option<&DeviceView>),
    (scale, causal): (f32, bool),
    dst: &DeviceView,
    newest: Option<(&Newest, Turned, Vector)>,
) -> Result<()> {
    check([q, k, v])?;
    let [batch, heads, l, d] = [0, 1, 2, 3].map(|i| q.shape[i] as u64);
    let (kv, n, dv) = (k.shape[1] as u64, k.shape[2] as u64, v.shape[3] as u64);
    let group = heads / kv;
    let rows = group * l;
    let wide = [q, k, v].into_iter().all(is_wide);
    let kind = Mask::of(mask, causal);

    let vector = table::vector(l, dv);
    let Vector { block, lanes } = newest.map_or_else(|| Vector::of(enc, [q, k, v]), |n| n.2);
    let side = u64::from(WG / lanes);
    let (held, unroll) = (u64::from(block.rows), u64::from(block.unroll));
    if wide && !vector && dst.ptr.is_multiple_of(16) {
        let device = enc.device();
        let known = || fragment_probe::known(device, q.dtype, 16);
        if let Some(coop) = table::coop(device.features(), q.dtype, rows, [d, dv], known) {
            return on_matrices(enc, coop, [q, k, v], (mask, sinks), (scale, causal), [dst.range(), (0, 0)]);
        }
    }
    let key = |kernel| Key {
        dtype: q.dtype,
        mask: kind,
        sinks: sinks.is_some(),
        wide,
        pairs: false,
        kept: false,
        newest: newest.map(|n| n.1),
        kernel,
    };
    let profile = enc.device().profile();
    let tile = table::tiled(rows, dv, profile.features.shared_memory.into());
    let (groups, splits, span) = if vector {
        let groups = batch * kv * rows.div_ceil(held);
        let (splits, span) = table::parts(profile, groups, n, side * unroll);
        (groups, splits, span)
    } else {
        (batch * kv * rows.div_ceil(16 * u64::from(tile.tm)), 1, n)
    };
    if groups * splits > u64::from(u32::MAX) {
        return Err(too_large(q, k));
    }
    let lines = batch * heads * l;
    let part_bytes = if splits > 1 { lines * splits * (dv + 2) * 4 } else { 0 };
    let room = part_bytes + (PARTS_AT_ONCE - 1) * (dv + 2) * 4;
    let parts = if splits > 1 { enc.temp(room as usize)? } else { 0 };
    // The last workgroup joins so many parts, eight at a time.
    let last = splits > 1 && splits <= u64::from(WG / 8) && groups <= COUNTERS as u64 / 16;
    let counters = if last { (enc.counters(groups as usize)?, 4 * groups) } else { (0, 0) };

    let counts = [batch, kv, group, l, n, d, dv, rows, splits, span].map(|x| x as u32);
    let addresses = [dst.ptr, parts, counters.0];
    let arrays = [Some(q), Some(k), Some(v), mask];
    let push = match newest {
        Some((newest, ..)) => newest.arguments(enc, &Told { arrays, sinks, to: addresses, counts, scale })?,
        None => arguments(enc, arrays, sinks, addresses, &counts, scale, Blocks::default())?,
    };
    let (reads, mut written) = touched(arrays, sinks, newest.map(|n| n.0));
    tell(enc, [batch, heads, l, n, d, dv], causal);
    STATS.attention(usize::from(!vector), l, n, splits);
    if !vector {
        let columns = dv.div_ceil(16) as u32;
        let pipeline = enc.device().pipeline(&key(Kernel::Tile(tile, columns)))?;
        let grid = grid(enc, groups);
        return enc.dispatch(&pipeline, &push, grid, &reads, &[dst.range()]);
    }
    let table::Block { rows, unroll, merged } = block;
    let kernel = Kernel::Vector { rows, unroll, lanes, merged, last };
    let pipeline = enc.device().pipeline(&key(kernel))?;
    let found = if splits > 1 { (parts, part_bytes) } else { dst.range() };
    written.push(found);
    let first = grid(enc, groups * splits);
    if last {
        written.extend([counters, dst.range()]);
    }
    enc.dispatch(&pipeline, &push, first, &reads, &written)?;
    if splits > 1 && !last {
        let push = arguments(enc, arrays, sinks, addresses, &counts, scale, Blocks::default())?;
        merge(enc, key(Kernel::Merge), &push, found, sinks, lines, dst)?;
    }
    Ok(())
}

/// The same without sinks on cooperative matrices, for a derivative: it also writes the extent of each row (batch, heads,
/// length; see shaders/attention/attention.glsl), a float32.
///
/// # Errors
/// Runtime error where [`gradient::takes`] is false.
pub fn kept(
    enc: &mut CommandEncoder,
    qkv: [&DeviceView; 3],
    mask: Option<&DeviceView>,
    scale: f32,
    causal: bool,
    [dst, extents]: [&DeviceView; 2],
) -> Result<()> {
    let wide = widened(enc, &qkv)?;
    let [q, k, v] = [0, 1, 2].map(|i| &wide[i]);
    let [heads, l, d] = [1, 2, 3].map(|i| q.shape[i] as u64);
    let rows = heads / k.shape[1] as u64 * l;
    let device = enc.device();
    let known = || fragment_probe::known(device, q.dtype, 16);
    let coop = table::coop(device.features(), q.dtype, rows, [d, v.shape[3] as u64], known);
    let Some(coop) = coop.filter(|c| c.held) else {
        bail!(Runtime, "[scaled_dot_product_attention] The device has no kernel that keeps extents.");
    };
    let ranges = [dst.range(), extents.range()];
    on_matrices(enc, coop, [q, k, v], (mask, None), (scale, causal), ranges)
}

/// Attention on cooperative matrices, to the first range of memory; extents of rows go to the second, if there is one.
fn on_matrices(
    enc: &mut CommandEncoder,
    coop: Coop,
    [q, k, v]: [&DeviceView; 3],
    (mask, sinks): (Option<&DeviceView>, Option<&DeviceView>),
    (scale, causal): (f32, bool),
    [dst, extents]: [(u64, u64); 2],
) -> Result<()> {
    // Whether the twin passes over what no query sees.
    let known = coop.held && mask.is_some_and(blocks::are_known);
    if warpgroup::takes_sinks(sinks, q.dtype)
        && (mask.is_none() || table::masks_whole(k.shape[2] as u64, known))
        && let Some(kernel) = warpgroup::kernel(enc, [q, k, v], mask, extents.0 != 0, (scale, causal))
    {
        return warpgroup::run(enc, kernel, [q, k, v], (mask, sinks), scale, [dst, extents]);
    }
    let [batch, heads, l, d] = [0, 1, 2, 3].map(|i| q.shape[i] as u64);
    let (kv, n, dv) = (k.shape[1] as u64, k.shape[2] as u64, v.shape[3] as u64);
    let group = heads / kv;
    let groups = batch * kv * (group * l).div_ceil(16 * u64::from(coop.teams));
    if groups > u64::from(u32::MAX) {
        return Err(too_large(q, k));
    }
    let known_mask = mask.filter(|_| coop.held);
    let seen = known_mask.map_or(Ok(Blocks::default()), |m| blocks::look(enc, m))?;
    let key = Key {
        dtype: q.dtype,
        mask: Mask::of(mask, causal),
        sinks: sinks.is_some(),
        wide: true,
        pairs: known_mask.is_some_and(blocks::in_pairs),
        kept: extents.0 != 0,
        newest: None,
        kernel: Kernel::Coop(coop),
    };
    let counts = [batch, kv, group, l, n, d, dv, group * l, 1, n].map(|x| x as u32);
    let arrays = [Some(q), Some(k), Some(v), mask];
    let push = arguments(enc, arrays, sinks, [dst.0, extents.0, 0], &counts, scale, seen)?;
    let mut reads: Vec<_> = arrays.into_iter().chain([sinks]).flatten().map(DeviceView::range).collect();
    reads.extend(seen.range());
    tell(enc, [batch, heads, l, n, d, dv], causal);
    STATS.attention(2, l, n, 1);
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, groups);
    let written = [dst, extents];
    enc.dispatch(&pipeline, &push, groups, &reads, &written[..1 + usize::from(extents.0 != 0)])
}

fn too_large(q: &DeviceView, k: &DeviceView) -> Error {
    let (q, k) = (show(&q.shape), show(&k.shape));
    Error::Value(format!("[{OP}] Queries {q} and keys {k} are too large."))
}

/// Tells the encoder of the work.
fn tell(enc: &mut CommandEncoder, [batch, heads, l, n, d, dv]: [u64; 6], causal: bool) {
    let lines = batch * heads * l;
    // Products of the two matrices, in bytes of traffic that take as long.
    enc.add_work(lines * n * (d + dv) / if causal { 16 } else { 8 });
    let flops = 2.0 * (lines * keys_of_row(l, n, causal)) as f64 * (d + dv) as f64;
    enc.describe(flops, &[batch, heads, l, n, d].map(|v| v as i64));
}

/// Keys that a row sees on average.
fn keys_of_row(l: u64, n: u64, causal: bool) -> u64 {
    if causal && l > 0 { n - (l - 1).min(n) / 2 } else { n }
}

/// Whether rows of an array can be read by vectors of 16 bytes.
fn is_wide(x: &DeviceView) -> bool {
    let (s, size) = (steps(x), x.dtype.size());
    (s[3] == 1 || x.shape[3] == 1)
        && (x.shape[3] as usize * size).is_multiple_of(16)
        && aligned16(x.ptr, size, &s[..3])
}

/// Arrays as they are, or copies, so that all can be read by such vectors.
fn widened(enc: &mut CommandEncoder, arrays: &[&DeviceView]) -> Result<Vec<DeviceView>> {
    arrays.iter().map(|&x| if is_wide(x) { Ok(x.clone()) } else { elementwise::dense(enc, x) }).collect()
}

/// Strides of four axes; those of length one count as zero.
fn steps(x: &DeviceView) -> [i64; 4] {
    [0, 1, 2, 3].map(|i| if x.shape[i] == 1 { 0 } else { x.strides[i] })
}

/// The arguments of all attention kernels, in a block of their own: push constants hold its address.
fn arguments(
    enc: &mut CommandEncoder,
    arrays: [Option<&DeviceView>; 4],
    sinks: Option<&DeviceView>,
    [dst, parts, counters]: [u64; 3],
    counts: &[u32],
    scale: f32,
    seen: Blocks,
) -> Result<Vec<u8>> {
    let at = |x: Option<&DeviceView>| x.map_or(0, |x| x.ptr);
    let [q, k, v, mask] = arrays.map(at);
    let mut strides: SmallVec<[i64; 17]> = SmallVec::new();
    for x in arrays {
        strides.extend(x.map_or([0; 4], steps));
    }
    strides.push(sinks.map_or(0, steps_of_vector));
    let numbers: SmallVec<[u32; 13]> =
        counts.iter().copied().chain([scale.to_bits()]).chain(seen.steps).collect();
    let args = Push::default()
        .u64s(&[q, k, v, mask, at(sinks), dst, parts, counters, seen.ptr])
        .i64s(&strides)
        .u32s(&numbers);
    Ok(Push::default().u64s(&[enc.params(&args)?]).u32s(&[]))
}

/// Joins the parts of `lines` results.
fn merge(
    enc: &mut CommandEncoder,
    key: Key,
    push: &[u8],
    parts: (u64, u64),
    sinks: Option<&DeviceView>,
    lines: u64,
    dst: &DeviceView,
) -> Result<()> {
    let pipeline = enc.device().pipeline(&Key {
        mask: Mask::None,
        wide: false,
        pairs: false,
        kept: false,
        newest: None,
        ..key
    })?;
    let mut reads = vec![parts];
    reads.extend(sinks.map(DeviceView::range));
    let size = grid(enc, lines);
    enc.dispatch(&pipeline, push, size, &reads, &[dst.range()])
}

fn steps_of_vector(v: &DeviceView) -> i64 {
    if v.shape[0] == 1 { 0 } else { v.strides[0] }
}

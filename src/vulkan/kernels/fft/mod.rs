//! Host side of shaders/fft/fft.comp. A line that fits a workgroup's shared memory takes one pass; a longer one takes
//! several of large radices, through scratch memory. Lengths with other prime factors than 2 to 13 become
//! convolutions by Bluestein's algorithm, in one pass where they fit, too. Real lines of even length are transformed as half as many pairs.

pub mod frames;
pub mod hadamard;
mod kernel;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use self::kernel::{CONVOLVED, FftKey, TWIDDLE, Way, io};
use super::elem::{Push, collapse, dims, grid};
use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::fork::Made;
use crate::core::layout::show;
use crate::core::{Dtype, Result, Storage};
use crate::kernels::fft::constants;
use crate::kernels::fft::plan::{self, Entry, LinePlan};
use crate::kernels::{DeviceView, Fft, FftKind};
use crate::memory;
use crate::vulkan::tune::fft::{Access, Room};
use crate::vulkan::{CommandEncoder, tune};

pub static FFT_CONVOLVED: KernelVariant = KernelVariant::new(
    "fft_convolved",
    "two kernels, through memory, for transforms of short lines by convolution",
);

/// Bytes of tables that are kept.
const TABLES_MAX: usize = 256 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Table {
    Factors(Vec<usize>),
    Roots(usize),
    Split(usize),
    Chirp(usize),
    Filter(usize),
}

impl Table {
    fn entries(&self) -> Vec<Entry> {
        match *self {
            Table::Factors(ref radices) => constants::factors(radices),
            Table::Roots(n) => constants::roots(n),
            Table::Split(n) => constants::split_roots(n),
            Table::Chirp(n) => constants::chirp(n),
            Table::Filter(n) => constants::chirp_filter(n),
        }
    }
}

#[derive(Default)]
struct Tables {
    made: HashMap<(u32, Table), Arc<Storage>>,
    bytes: usize,
}

static TABLES: Made<Mutex<Tables>> = Made::new(Mutex::default);

/// Address and length of a table on the encoder's device.
fn table(enc: &mut CommandEncoder, which: Table) -> Result<(u64, u64)> {
    let key = (enc.device().index(), which.clone());
    let known = TABLES.lock().unwrap_or_else(|e| e.into_inner()).made.get(&key).cloned();
    let storage = match known {
        Some(s) => s,
        None => {
            // Outside the lock: long tables take a while.
            let entries = which.entries();
            let bytes = entries.len() * size_of::<Entry>();
            let storage = memory::host_storage(bytes)?;
            // SAFETY: the storage is fresh and holds that many bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(entries.as_ptr().cast(), storage.host_ptr_mut()?, bytes);
            }
            let mut tables = TABLES.lock().unwrap_or_else(|e| e.into_inner());
            if tables.bytes + bytes > TABLES_MAX {
                *tables = Tables::default();
            }
            tables.bytes += bytes;
            tables.made.insert(key, storage.clone());
            storage
        }
    };
    Ok((enc.resident(&storage)?, storage.nbytes() as u64))
}

/// Where the lines of a pass lie: sizes and strides of the axes over them (the columns last), the stride along
/// the axis and from value to value, in elements; the first line; and the bytes that all of it spans.
#[derive(Clone)]
struct Side {
    ptr: u64,
    axes: Vec<(i64, i64)>,
    unit: i64,
    step: i64,
    first: u64,
    range: (u64, u64),
}

/// What happens to values on the way in and out.
#[derive(Clone, Default)]
struct Hooks {
    load: u32,
    store: u32,
    flags: Vec<&'static str>,
    /// Factors of the columns: the length whose root they are powers of, and the period of the columns.
    twiddle: Option<(usize, usize)>,
    /// Table behind `extra`.
    extra: Option<Table>,
    chirp: Option<usize>,
    /// Values present and values wanted.
    n_in: usize,
    n_out: usize,
    n: usize,
    scale: f32,
}

struct Pass {
    n: usize,
    lines: u64,
    cols: u64,
    input: Side,
    output: Side,
    /// Values of a line that lie side by side, `input.step` apart from the next ones; 1 where all are that far apart.
    tile: usize,
    /// Whether scratch on the other side has such tiles.
    tiled: bool,
    hooks: Hooks,
}

impl Pass {
    /// The only one of its lines.
    fn alone(n: usize, lines: u64, input: Side, output: Side, hooks: Hooks) -> Pass {
        Pass { n, lines, cols: 1, input, output, tile: 1, tiled: false, hooks }
    }
}

fn room(enc: &CommandEncoder) -> Room {
    let f = enc.device().features();
    Room { memory: f.shared_memory as usize, lanes: f.max_workgroup_invocations as usize }
}

/// How a workgroup does a pass, and how values come and go.
fn choose(room: Room, p: &Pass, access: Access) -> (LinePlan, (Way, Way)) {
    let (load, store) = (p.hooks.load, p.hooks.store);
    let half_in = load == io::HALF_PAIRS;
    let mixed = [Access::ColumnsToLines, Access::LinesToColumns].contains(&access);
    let half_out = store == io::STORE_HALF && !mixed;
    let (least_in, least_out) = tune::fft::PAIR_LANES;
    let lanes = (if half_in { least_in } else { least_out }, room.line_lanes(p.n));
    let mirrored = (half_in || half_out).then(|| LinePlan::mirrored(p.n, half_in, lanes)).flatten();
    let paired = mirrored.is_some();
    let plan = mirrored.unwrap_or_else(|| tune::fft::plan(room, p.n, access));
    let small = plan.lanes < 4 && [Access::Dense, Access::LinesToColumns].contains(&access);
    let way_in = match () {
        () if paired && half_in => Way::Pairs,
        () if small => Way::Staged,
        () => Way::Lanes,
    };
    let way_out = match () {
        () if paired && half_out => Way::Pairs,
        () if mixed || store == io::STORE_HALF || small => Way::Staged,
        () => Way::Lanes,
    };
    (plan, (way_in, way_out))
}

/// The kernel of a pass.
fn key_of(room: Room, p: &Pass) -> FftKey {
    let Hooks { load, store, ref flags, .. } = p.hooks;
    let in_fast = p.input.step.abs() != 1 && p.lines * p.cols > 1;
    let out_fast = p.output.step.abs() != 1 && p.lines * p.cols > 1;
    let access = match (in_fast, out_fast) {
        (true, true) if p.tile > 1 => Access::Tail,
        (true, true) if p.tiled => Access::Head,
        (true, true) => Access::Columns,
        (true, false) => Access::ColumnsToLines,
        (false, true) => Access::LinesToColumns,
        (false, false) => Access::Dense,
    };
    let (plan, ways) = choose(room, p, access);
    let staged = ways.0 == Way::Staged || ways.1 == Way::Staged;
    let layout = tune::fft::layout(room, &plan, p.lines * p.cols, access, staged);
    let total = p.n as u64 * p.cols;
    let mut flags = flags.clone();
    let mut flag = |on: bool, name: &'static str| flags.extend(on.then_some(name));
    flag(in_fast, "LINES_FAST");
    flag(out_fast, "OUT_FAST");
    flag((p.hooks.n_in as u64) < total && load == io::COMPLEX, "BOUND_IN");
    flag((p.hooks.n_out as u64) < total, "BOUND_OUT");
    flag(p.hooks.scale != 1.0, "SCALE");
    flag(p.hooks.twiddle.is_some(), TWIDDLE);
    let unit = (p.input.step == 1, p.output.step == 1);
    FftKey { plan, layout, load, store, ways, unit, tile: p.tile, flags }
}

fn run(enc: &mut CommandEncoder, p: &Pass) -> Result<()> {
    let key = key_of(room(enc), p);
    let radices: Vec<usize> = key.plan.stages.iter().map(|s| s.radix).collect();
    let mut reads = vec![p.input.range];
    let mut tables = [0u64; 4];
    let (period, split) = match p.hooks.twiddle {
        Some((n, period)) => (period, constants::low_bits(n)),
        None => (1, 0),
    };
    let wanted = [
        Some(Table::Factors(radices)),
        p.hooks.twiddle.map(|(n, _)| Table::Split(n)),
        p.hooks.extra.clone(),
        p.hooks.chirp.map(Table::Chirp),
    ];
    for (slot, which) in tables.iter_mut().zip(wanted) {
        if let Some(which) = which {
            let range = table(enc, which)?;
            *slot = range.0;
            reads.push(range);
        }
    }
    let list: Vec<(i64, i64)> = p.input.axes.iter().chain(&p.output.axes).copied().collect();
    let params = dims(enc, &list)?;
    let count = p.lines * p.cols;
    let push = Push::default()
        .u64s(&[p.input.ptr, p.output.ptr, params, tables[0], tables[1], tables[2], tables[3]])
        .i64s(&[p.input.unit, p.input.step, p.output.step])
        .u32s(&[
            count as u32,
            (p.input.first * p.cols) as u32,
            (p.output.first * p.cols) as u32,
            p.input.axes.len() as u32,
            p.output.axes.len() as u32,
            p.cols as u32,
            period as u32,
            split,
            p.hooks.n_in as u32,
            p.hooks.n_out as u32,
            p.hooks.n as u32,
            p.hooks.scale.to_bits(),
        ]);
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, count.div_ceil(key.layout.lines as u64));
    reads.retain(|r| r.1 > 0);
    enc.dispatch(&pipeline, &push, groups, &reads, &[p.output.range])
}

/// A line of `total` values as passes of the given radices between two sides; intermediate results go through
/// `scratch`. The hooks of the first pass hold on the way in, those of the last one on the way out.
fn passes(
    room: Room,
    radices: &[usize],
    lines: u64,
    (input, output): (&Side, &Side),
    (first, last): (&Hooks, &Hooks),
    scratch: &[Side],
) -> Vec<Pass> {
    let mut list = Vec::with_capacity(radices.len());
    let total: usize = radices.iter().product();
    let tile = tune::fft::tile(room, radices);
    let mut before = 1usize;
    let mut from = input.clone();
    for (i, &n) in radices.iter().enumerate() {
        let (head, tail) = (i == 0, i + 1 == radices.len());
        let cols = total / n;
        let free = |s: &&Side| s.ptr != from.ptr && s.ptr != output.ptr;
        let to = match scratch.iter().find(free) {
            Some(s) if !tail => s.clone(),
            _ => output.clone(),
        };
        let whole = Hooks { n_in: total, n_out: total, n: total, scale: 1.0, ..Hooks::default() };
        let mut hooks = if head { first.clone() } else { whole.clone() };
        if tail {
            let keep = hooks.clone();
            hooks = Hooks { load: keep.load, n_in: keep.n_in, twiddle: keep.twiddle, ..last.clone() };
            hooks.flags.extend(keep.flags);
            hooks.chirp = hooks.chirp.or(keep.chirp);
            hooks.extra = hooks.extra.or(keep.extra);
        } else {
            hooks.n_out = total;
            hooks.scale = 1.0;
        }
        if before > 1 {
            hooks.twiddle = Some((before * n, before));
        }
        let mut a = from.clone();
        let mut b = to.clone();
        if tile > 1 && tail {
            a.axes.push((cols as i64, tile as i64));
            a.step = (tile * cols) as i64;
        } else if cols > 1 {
            a.axes.push((cols as i64, from.unit));
            a.step = from.unit * cols as i64;
        }
        if tile > 1 && head {
            b.axes.extend([((cols / tile) as i64, (n * tile) as i64), (tile as i64, 1)]);
            b.step = tile as i64;
        } else if cols > 1 {
            if cols > before {
                b.axes.push(((cols / before) as i64, to.unit * (before * n) as i64));
            }
            if before > 1 {
                b.axes.push((before as i64, to.unit));
            }
            b.step = to.unit * before as i64;
        }
        let (before_tile, tiled) = (if tail { tile } else { 1 }, tile > 1);
        list.push(Pass { n, lines, cols: cols as u64, input: a, output: b, tile: before_tile, tiled, hooks });
        before *= n;
        from = to;
    }
    list
}

/// The lines of a view along `axis`, whose elements have `size` bytes.
fn side(v: &DeviceView, axis: usize) -> Side {
    let others = (0..v.ndim()).filter(|&i| i != axis).map(|i| (v.shape[i], v.strides[i]));
    let unit = if v.shape[axis] == 1 { 1 } else { v.strides[axis] };
    Side { ptr: v.ptr, axes: collapse(others), unit, step: unit, first: 0, range: v.range() }
}

/// Lines of reals as half as many complex numbers, where the addresses allow it.
fn as_pairs(s: &Side) -> Option<Side> {
    let even = s.unit == 1 && s.ptr.is_multiple_of(8) && s.axes.iter().all(|a| a.1 % 2 == 0);
    even.then(|| Side { axes: s.axes.iter().map(|a| (a.0, a.1 / 2)).collect(), ..s.clone() })
}

/// A transform of one value is that value.
fn single(enc: &mut CommandEncoder, t: &Fft, src: &DeviceView, dst: &DeviceView) -> Result<()> {
    if src.shape[t.axis] == 0 {
        return enc.fill(dst.range(), 0);
    }
    let mut one: DeviceView = src.clone();
    one.shape[t.axis] = 1;
    debug_assert!(t.scale == 1.0);
    crate::vulkan::kernels::elementwise::copy(enc, &one, dst)
}

/// The pass over real lines of even length as half as many pairs.
fn pairs(t: &Fft, lines: u64, input: Side, output: Side, base: Hooks) -> Pass {
    let half = t.n / 2;
    if t.kind == FftKind::Forward {
        let n_in = base.n_in;
        let whole = n_in == t.n;
        let (load, input) = match as_pairs(&input).filter(|_| whole || n_in.is_multiple_of(2)) {
            Some(s) => (io::COMPLEX, s),
            None => (io::PAIRS, input),
        };
        let n_in = if load == io::COMPLEX { n_in / 2 } else { n_in };
        let extra = Some(Table::Roots(t.n));
        let hooks = Hooks { load, store: io::STORE_HALF, extra, n_in, n_out: half, ..base };
        return Pass::alone(half, lines, input, output, hooks);
    }
    let (store, output) = match as_pairs(&output) {
        Some(s) => (io::COMPLEX, s),
        None => (io::STORE_PAIRS, output),
    };
    let hooks = Hooks {
        load: io::HALF_PAIRS,
        store,
        flags: vec!["SWAP_IN", "SWAP_END"],
        extra: Some(Table::Roots(t.n)),
        n_out: half,
        ..base
    };
    Pass::alone(half, lines, input, output, hooks)
}

/// Transforms the lines of `src` along `t.axis` into `dst`, a fresh row-major array; dtypes as in the host's twin.
/// `src` has any strides.
///
/// # Errors
/// Value error for other dtypes and for lines of 2^30 elements and more.
pub fn fft(enc: &mut CommandEncoder, t: &Fft, src: &DeviceView, dst: &DeviceView) -> Result<()> {
    let real_in = src.dtype == Dtype::F32;
    if !real_in && (src.dtype != Dtype::C64 || t.kind == FftKind::Forward) {
        bail!(Value, "[fft] Expected float32 or complex64, got {}.", src.dtype);
    }
    if dst.size() == 0 {
        return Ok(());
    }
    if t.n >= 1 << 30 {
        bail!(Value, "[fft] A line of {} elements is too long for the GPU.", t.n);
    }
    if t.n == 1 {
        return single(enc, t, src, dst);
    }
    let (input, output) = (side(src, t.axis), side(dst, t.axis));
    let lines = dst.size() as u64 / dst.shape[t.axis] as u64;
    if lines > u64::from(u32::MAX) {
        bail!(Value, "[fft] Shape {} is too large for the GPU.", show(&src.shape));
    }
    let strided = (input.unit.abs() != 1 || output.unit != 1) && lines > 1;
    let longest = tune::fft::longest(room(enc));
    // What goes through shared memory as it is, and what may take turns there.
    let limit = if strided { longest.column } else { longest.line };
    let split = if strided { longest.column } else { longest.split };
    let n_in = t.len_in().min(src.shape[t.axis] as usize);
    let base = Hooks { n_in, n_out: t.len_out(), n: t.n, scale: t.scale, ..Hooks::default() };

    // Real lines of even length that fit: half as many pairs.
    let half = t.n / 2;
    let even = t.kind != FftKind::Complex && t.n.is_multiple_of(2) && half > 1;
    if even && plan::is_smooth(half) && half <= limit {
        return run(enc, &pairs(t, lines, input, output, base));
    }

    let load = match t.kind {
        FftKind::Backward => io::HALF,
        FftKind::Complex | FftKind::Forward if real_in => io::REAL,
        FftKind::Complex | FftKind::Forward => io::COMPLEX,
    };
    let store = if t.kind == FftKind::Backward { io::REAL } else { io::COMPLEX };
    let mut first = Hooks { load, ..base.clone() };
    let mut last = Hooks { store, ..base };
    if t.inverse {
        first.flags.push("SWAP_IN");
        last.flags.push("SWAP_END");
    }
    let smooth = plan::is_smooth(t.n);
    if smooth && t.n <= split {
        let hooks = Hooks { store, flags: [first.flags.clone(), last.flags.clone()].concat(), ..first };
        return run(enc, &Pass::alone(t.n, lines, input, output, hooks));
    }
    let m = if smooth { t.n } else { constants::bluestein_length(t.n) };
    if !smooth && m <= split && !strided && !FFT_CONVOLVED.disabled() {
        let parts = [first.flags, last.flags, vec!["CHIRP_IN", "SWAP_OUT", "CHIRP_OUT", CONVOLVED]];
        let (extra, chirp) = (Some(Table::Filter(t.n)), Some(t.n));
        let hooks = Hooks { store, flags: parts.concat(), extra, chirp, ..first };
        return run(enc, &Pass::alone(m, lines, input, output, hooks));
    }
    let radices = if m <= limit && !strided { vec![m] } else { plan::split(m, longest.column) };
    several(enc, t.n, &radices, lines, (&input, &output), (&first, &last))
}

/// Several passes of `radices` over lines of `n` values, a chunk of lines at a time, through two blocks of scratch. Where
/// the passes together are longer than a line, they are Bluestein's convolution.
fn several(
    enc: &mut CommandEncoder,
    n: usize,
    radices: &[usize],
    lines: u64,
    (input, output): (&Side, &Side),
    (first, last): (&Hooks, &Hooks),
) -> Result<()> {
    let m = radices.iter().product::<usize>();
    let convolved = m != n;
    let room = room(enc);
    let line_bytes = m as u64 * size_of::<Entry>() as u64;
    let chunk = (tune::fft::SCRATCH / line_bytes).clamp(1, lines);
    // Results in between alternate between two blocks; a convolution keeps its middle in one more.
    let needed = (radices.len() - 1).min(2) + usize::from(convolved);
    let blocks: Vec<u64> =
        (0..needed).map(|_| enc.temp((chunk * line_bytes) as usize)).collect::<Result<_>>()?;
    let mut start = 0;
    while start < lines {
        let count = chunk.min(lines - start);
        let (input, output) =
            (Side { first: start, ..input.clone() }, Side { first: start, ..output.clone() });
        let scratch: Vec<Side> = blocks
            .iter()
            .map(|&ptr| {
                let axes = vec![(count as i64, m as i64)];
                Side { ptr, axes, unit: 1, step: 1, first: 0, range: (ptr, count * line_bytes) }
            })
            .collect();
        let list = if convolved {
            let whole = Hooks { n_in: m, n_out: m, n, scale: 1.0, ..Hooks::default() };
            let mut chirp = Hooks { chirp: Some(n), ..first.clone() };
            chirp.flags.push("CHIRP_IN");
            let filter = Hooks { flags: vec!["FILTER"], extra: Some(Table::Filter(n)), ..whole.clone() };
            // INVARIANT: a convolution has a block for its middle.
            let middle = scratch[0].clone();
            let mut list = passes(room, radices, count, (&input, &middle), (&chirp, &filter), &scratch);
            let back = Hooks { flags: vec!["SWAP_IN"], ..whole };
            let mut end = Hooks { chirp: Some(n), ..last.clone() };
            end.flags.extend(["SWAP_OUT", "CHIRP_OUT"]);
            list.extend(passes(room, radices, count, (&middle, &output), (&back, &end), &scratch));
            list
        } else {
            passes(room, radices, count, (&input, &output), (first, last), &scratch)
        };
        for p in &list {
            run(enc, p)?;
        }
        start += count;
    }
    Ok(())
}

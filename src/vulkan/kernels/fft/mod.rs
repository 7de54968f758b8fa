//! Host side of shaders/fft/fft.comp. A line that fits a workgroup's shared memory takes one pass; a longer one takes
//! several of large radices, through scratch memory. Lengths with other prime factors than 2 to 13 become
//! convolutions by Bluestein's algorithm, in one pass where they fit, too. Real lines of even length are transformed as half as many pairs.

pub mod frames;
pub mod hadamard;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::elem::{Defines, Push, WG, collapse, define, dims, grid};
use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::fork::Made;
use crate::core::layout::show;
use crate::core::{Dtype, Result, Storage};
use crate::kernels::fft::constants;
use crate::kernels::fft::plan::{self, Entry, LinePlan};
use crate::kernels::{DeviceView, Fft, FftKind};
use crate::memory;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source, tune};

pub static FFT_CONVOLVED: KernelVariant = KernelVariant::new(
    "fft_convolved",
    "two kernels, through memory, for transforms of short lines by convolution",
);

/// Bytes of tables that are kept.
const TABLES_MAX: usize = 256 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Table {
    Roots(usize),
    Split(usize),
    Chirp(usize),
    Filter(usize),
}

impl Table {
    fn entries(self) -> Vec<Entry> {
        match self {
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
    let key = (enc.device().index(), which);
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

/// Values of `LOAD` and `STORE` in the shader.
mod io {
    pub const COMPLEX: u32 = 0;
    pub const REAL: u32 = 1;
    pub const HALF: u32 = 2;
    pub const HALF_PAIRS: u32 = 3;
    pub const PAIRS: u32 = 4;
    pub const STORE_PAIRS: u32 = 2;
    pub const STORE_HALF: u32 = 3;
}

/// Flag of a kernel that does all of a convolution.
const CONVOLVED: &str = "CONVOLVED";

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct FftKey {
    plan: LinePlan,
    /// Lines of a workgroup.
    lines: usize,
    pitch: usize,
    padding: usize,
    load: u32,
    store: u32,
    staged: (bool, bool),
    unit: (bool, bool),
    flags: Vec<&'static str>,
}

impl KernelKey for FftKey {
    fn name(&self) -> String {
        let real = if self.load + self.store == 0 { "" } else { "_real" };
        format!("fft_{}{real}", self.plan.n)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        let mut number = |name: &str, v: usize| define(&mut d, name, format!("{v}u"));
        number("N", self.plan.n);
        number("T", self.plan.lanes);
        number("C", self.lines);
        number("E", self.plan.registers);
        number("PITCH", self.pitch);
        number("PADDING", self.padding);
        let (stage_in, stage_out) = self.staged;
        let half = self.plan.stages.len();
        let count = if self.flags.contains(&CONVOLVED) { 2 * half } else { half };
        let last = count - 1;
        let list = (0..count).map(|i| {
            let s = &self.plan.stages[i % half];
            let from = if i == half { 2 } else { u32::from(i == 0 && !stage_in) };
            let to = u32::from(i == last && !stage_out);
            format!("STAGE({}, {}, {}, {from}, {to})", s.radix, s.before, s.each)
        });
        define(&mut d, "STAGES", list.collect::<Vec<_>>().join(" "));
        define(&mut d, "SHARES", u32::from(last > 0 || stage_in || stage_out));
        define(&mut d, "STAGED_IN", u32::from(stage_in));
        define(&mut d, "STAGED_OUT", u32::from(stage_out));
        define(&mut d, "IN_STEP", if self.unit.0 { "1" } else { "in_step" });
        define(&mut d, "OUT_STEP", if self.unit.1 { "1" } else { "out_step" });
        define(&mut d, "LOAD", self.load);
        define(&mut d, "STORE", self.store);
        self.flags.iter().for_each(|f| define(&mut d, f, 1));
        let spec = vec![(self.plan.lanes * self.lines) as u32];
        Module { source: Source::File("fft.comp"), defines: d, spec, subgroup_size: None, spirv16: false }
    }
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
    hooks: Hooks,
}

/// Lines of `n` values that fit: shared memory and lanes of a workgroup.
fn shape_of(f: &Features, plan: &LinePlan, fast: bool, mixed: bool, lines: u64) -> (usize, usize, usize) {
    let memory = f.shared_memory as usize / size_of::<Entry>() - 64;
    let padded = plan.n + plan.n.div_ceil(16);
    let (pitch, padding) = if fast || padded > memory { (plan.n, plan.n + 1) } else { (padded, 16) };
    let lanes = (f.max_workgroup_invocations as usize).min(tune::fft::lanes(fast)).max(plan.lanes);
    // Each line also keeps two addresses there.
    let mut count = (lanes / plan.lanes).min(memory / (pitch + 2)).max(1);
    count = count.min(lines.min(1 << 16) as usize).max(1);
    if !fast {
        return (count, pitch, padding);
    }
    // An odd pitch keeps the way out free of bank conflicts where it goes along the lines.
    let wide = count + usize::from(mixed && count.is_multiple_of(2));
    if wide * (plan.n + 2) <= memory { (count, wide, padding) } else { (count, count, padding) }
}

fn run(enc: &mut CommandEncoder, p: &Pass) -> Result<()> {
    let f = enc.device().features();
    let Hooks { load, store, ref flags, .. } = p.hooks;
    let plan = LinePlan::new(p.n, (f.max_workgroup_invocations as usize).min(WG as usize));
    let in_fast = p.input.step.abs() != 1 && p.lines * p.cols > 1;
    let out_fast = p.output.step.abs() != 1 && p.lines * p.cols > 1;
    let small = plan.lanes < 4;
    let staged_in = !in_fast && small;
    let staged_out = in_fast != out_fast || store == io::STORE_HALF || (!out_fast && small);
    let (lines, pitch, padding) = shape_of(f, &plan, in_fast, in_fast != out_fast, p.lines * p.cols);
    let mut flags = flags.clone();
    let mut flag = |on: bool, name: &'static str| {
        if on {
            flags.push(name);
        }
    };
    let total = p.n as u64 * p.cols;
    let bounded_in = (p.hooks.n_in as u64) < total;
    let bounded_out = (p.hooks.n_out as u64) < total;
    flag(in_fast, "LINES_FAST");
    flag(out_fast, "OUT_FAST");
    flag(bounded_in && load == io::COMPLEX, "BOUND_IN");
    flag(bounded_out, "BOUND_OUT");
    flag(p.hooks.scale != 1.0, "SCALE");
    flag(p.hooks.twiddle.is_some(), "TWIDDLE");
    let key = FftKey {
        plan,
        lines,
        pitch,
        padding,
        load,
        store,
        staged: (staged_in, staged_out),
        unit: (p.input.step == 1, p.output.step == 1),
        flags,
    };

    let mut reads = vec![p.input.range];
    let mut tables = [0u64; 4];
    let (period, split) = match p.hooks.twiddle {
        Some((n, period)) => (period, constants::low_bits(n)),
        None => (1, 0),
    };
    let wanted = [
        Some(Table::Roots(p.n)),
        p.hooks.twiddle.map(|(n, _)| Table::Split(n)),
        p.hooks.extra,
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
    let groups = grid(enc, count.div_ceil(lines as u64));
    reads.retain(|r| r.1 > 0);
    enc.dispatch(&pipeline, &push, groups, &reads, &[p.output.range])
}

/// A line of `total` values as passes of the given radices between two sides; intermediate results go through
/// `scratch`. The hooks of the first pass hold on the way in, those of the last one on the way out.
fn passes(
    enc: &mut CommandEncoder,
    radices: &[usize],
    lines: u64,
    (input, output): (&Side, &Side),
    (first, last): (&Hooks, &Hooks),
    scratch: &[Side],
) -> Result<()> {
    let total: usize = radices.iter().product();
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
        if cols > 1 {
            a.axes.push((cols as i64, from.unit));
            a.step = from.unit * cols as i64;
            if cols > before {
                b.axes.push(((cols / before) as i64, to.unit * (before * n) as i64));
            }
            if before > 1 {
                b.axes.push((before as i64, to.unit));
            }
            b.step = to.unit * before as i64;
        }
        run(enc, &Pass { n, lines, cols: cols as u64, input: a, output: b, hooks })?;
        before *= n;
        from = to;
    }
    Ok(())
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
        return Pass { n: half, lines, cols: 1, input, output, hooks };
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
    Pass { n: half, lines, cols: 1, input, output, hooks }
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
    let f = enc.device().features();
    let memory = f.shared_memory as usize / size_of::<Entry>() - 64;
    let (input, output) = (side(src, t.axis), side(dst, t.axis));
    let lines = dst.size() as u64 / dst.shape[t.axis] as u64;
    if lines > u64::from(u32::MAX) {
        bail!(Value, "[fft] Shape {} is too large for the GPU.", show(&src.shape));
    }
    let strided = (input.unit.abs() != 1 || output.unit != 1) && lines > 1;
    let (line_max, column_max) = tune::fft::longest(memory);
    let limit = if strided { column_max } else { line_max };
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
    if smooth && t.n <= limit {
        let hooks = Hooks { store, flags: [first.flags.clone(), last.flags.clone()].concat(), ..first };
        return run(enc, &Pass { n: t.n, lines, cols: 1, input, output, hooks });
    }
    let m = if smooth { t.n } else { constants::bluestein_length(t.n) };
    if !smooth && m <= line_max && !strided && !FFT_CONVOLVED.disabled() {
        let parts = [first.flags, last.flags, vec!["CHIRP_IN", "SWAP_OUT", "CHIRP_OUT", CONVOLVED]];
        let (extra, chirp) = (Some(Table::Filter(t.n)), Some(t.n));
        let hooks = Hooks { store, flags: parts.concat(), extra, chirp, ..first };
        return run(enc, &Pass { n: m, lines, cols: 1, input, output, hooks });
    }
    let radices = if m <= line_max && !strided { vec![m] } else { plan::split(m, column_max) };
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
        if convolved {
            let whole = Hooks { n_in: m, n_out: m, n, scale: 1.0, ..Hooks::default() };
            let mut chirp = Hooks { chirp: Some(n), ..first.clone() };
            chirp.flags.push("CHIRP_IN");
            let filter = Hooks { flags: vec!["FILTER"], extra: Some(Table::Filter(n)), ..whole.clone() };
            // INVARIANT: a convolution has a block for its middle.
            let middle = scratch[0].clone();
            passes(enc, radices, count, (&input, &middle), (&chirp, &filter), &scratch)?;
            let back = Hooks { flags: vec!["SWAP_IN"], ..whole };
            let mut end = Hooks { chirp: Some(n), ..last.clone() };
            end.flags.extend(["SWAP_OUT", "CHIRP_OUT"]);
            passes(enc, radices, count, (&middle, &output), (&back, &end), &scratch)?;
        } else {
            passes(enc, radices, count, (&input, &output), (first, last), &scratch)?;
        }
        start += count;
    }
    Ok(())
}

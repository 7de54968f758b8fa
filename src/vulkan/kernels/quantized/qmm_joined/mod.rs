//! Host side of shaders/quantized/qmm_stream.comp, qmm_row.comp and qmm_held.comp, of qmm_rows.comp for one row of x and several quantised matrices,
//! or with what comes before or after the product, of qmm_coop.comp for few rows of x, likewise, which come as they are, and of
//! matmul/gemv_joined.comp, the same as the first of dense matrices: the row is normalised first, matrices follow each other in one grid, and a
//! program of elementwise operations takes the results before they are stored. Of qmm_combine.comp too, where it takes the weighted sum
//! of picked products. Numbers are rounded where separate kernels would round them.

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use super::joined_layout::{Layout, layout};
use super::push::Push;
use super::qmm::define_coop;
use super::quant::{define_format, show as show_format};
use super::{chain, few_picked, few_rows, single, stream, subnormal_probe, sums, wide, wide_codes};
use crate::core::{Dtype, Result, Stream};
use crate::kernels::DeviceView;
use crate::kernels::elementwise::table::calls_library;
use crate::kernels::matmul::epilogue::{KeptAfter, MATRICES};
use crate::kernels::quantized::quant::Format;
use crate::vulkan::hal::stream::StreamState;
use crate::vulkan::kernels::elem::{self, Defines, define, launch};
use crate::vulkan::kernels::matmul::ceil;
use crate::vulkan::kernels::matmul::fragment_probe;
use crate::vulkan::kernels::norm::{How, norm};
use crate::vulkan::report::stats::STATS;
use crate::vulkan::tune::fusion::{joins_dense, joins_picks, joins_products, normalises, row_product};
use crate::vulkan::tune::gemv::JoinedRows;
use crate::vulkan::tune::matmul::team_subgroup;
use crate::vulkan::tune::quantized::picked::{self, Combine};
use crate::vulkan::tune::quantized::{Coop, Shape, stage};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

/// A matrix with a row of codes, or of elements, for each result.
pub struct Matrix {
    /// How many.
    pub rows: i64,
    /// Addresses of packed codes, scales and biases (0 where the format has none); or of elements, aligned to 16 bytes.
    pub parts: [u64; 3],
}

/// Which of many matrices, in one piece behind each [`Matrix`], is multiplied by; for at most two of those.
#[derive(Clone, Copy)]
pub struct Picks {
    /// Address of 32-bit indices, and whether they are signed.
    pub indices: (u64, bool),
    /// How many.
    pub count: i64,
    /// Matrices to choose from.
    pub matrices: i64,
    /// How many that follow each other have one row of x.
    pub share: i64,
}

/// Picked products that are added up, each times a weight.
#[derive(Clone, Copy)]
pub struct Combined {
    /// Address of the weights, one for each pick.
    pub weights: u64,
    /// Picks of a sum.
    pub each: i64,
    /// Weights are float32: weighed products are not rounded then.
    pub wide: bool,
}

/// A row of x, or few, times matrices.
pub struct Joined<'a> {
    /// How the codes are read; none for dense matrices.
    pub format: Option<Format>,
    /// Of x and of the results.
    pub dtype: Dtype,
    /// Rows of x; more than one are not picked for, and normalised before quantised matrices by `few_rows` alone.
    pub m: i64,
    /// Length of a row.
    pub k: i64,
    /// Address of x, aligned to 16 bytes.
    pub x: u64,
    /// Address of weights, aligned to 16 bytes, and the epsilon that rows of x are normalised with.
    pub norm: Option<(u64, f32)>,
    /// Where the normalised row is stored besides, aligned to 16 bytes.
    pub kept: Option<u64>,
    /// At most [`MATRICES`].
    pub matrices: &'a [Matrix],
    /// What becomes of the results of one matrix, or of two of the same length.
    pub after: Option<KeptAfter>,
    /// Addresses of the results, one for each matrix; with `after` that of the only result, and of what it reads.
    pub results: &'a [u64],
    /// Of one row: addresses of what is added to the results of each matrix, if something is; nothing comes after them then. With
    /// `combined` that of what is added to products before they are weighed, a row for each matrix to choose from.
    pub added: &'a [u64],
    /// Where matrices are picked by index; `x` is not normalised then.
    pub picks: Option<Picks>,
    /// Picked products with one matrix each of which sums are stored; `after` takes those.
    pub combined: Option<Combined>,
}

impl<'a> Joined<'a> {
    /// Rows of x, `m` of length `k`, times matrices, with nothing before or behind the products.
    pub(super) fn alone(
        format: Option<Format>,
        dtype: Dtype,
        [m, k]: [i64; 2],
        x: u64,
        matrices: &'a [Matrix],
        results: &'a [u64],
    ) -> Joined<'a> {
        Joined {
            format,
            dtype,
            m,
            k,
            x,
            norm: None,
            kept: None,
            matrices,
            after: None,
            results,
            added: &[],
            picks: None,
            combined: None,
        }
    }

    /// Where what others may just have made begins, or is written.
    pub(super) fn late(&self) -> SmallVec<[u64; 8]> {
        self.results.iter().chain(self.added).copied().chain([self.x]).collect()
    }

    /// Results of all products.
    pub(super) fn rows(&self) -> i64 {
        self.matrices.iter().map(|m| m.rows).sum()
    }

    /// Rows of each matrix.
    pub(super) fn lengths(&self) -> [u32; MATRICES] {
        let mut lengths = [0; MATRICES];
        // FITS: whoever joins them bounds products of them.
        lengths.iter_mut().zip(self.matrices).for_each(|(n, m)| *n = m.rows as u32);
        lengths
    }

    /// Whether the results of two matrices become one.
    pub(super) fn pair(&self) -> bool {
        self.after.is_some() && self.matrices.len() == 2
    }

    /// Units of so many rows of codes, of which each matrix has whole ones; of a pair those of one matrix.
    pub(super) fn units(&self, span: i64) -> i64 {
        let matrices = if self.pair() { &self.matrices[..1] } else { self.matrices };
        matrices.iter().map(|m| ceil(m.rows, span)).sum()
    }

    /// The products as `tune` sees them.
    pub(super) fn shape(&self, format: Format) -> Shape {
        let product = row_product(format, self.dtype, [self.m, self.k, self.rows()]);
        self.picks.map_or(product, |p| Shape { batch: p.count, matrices: p.matrices, ..product })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    format: Option<Format>,
    dtype: Dtype,
    layout: Layout,
    norm: Option<u32>,
    /// The normalised row is stored.
    keep: bool,
    k: u32,
    lengths: [u32; MATRICES],
    after: Option<KeptAfter>,
    picks: bool,
    /// Something is added to the results of each matrix.
    added: bool,
    /// Picks that are added up.
    combined: u32,
    /// By weights of float32.
    wide: bool,
    /// Codes of qmm_stream become numbers by a mask.
    masks: bool,
}

impl Key {
    fn matrices(&self) -> usize {
        self.lengths.iter().filter(|&&n| n > 0).count()
    }
}

/// What kernels are defined by whose teams of so many threads walk rows of codes, or of elements; the size that subgroups
/// are to have.
pub(super) fn define_teams(
    d: &mut Defines,
    f: &Features,
    threads: u32,
    numbers: &[(&str, u32)],
) -> Option<u32> {
    define(d, "TPR", threads);
    numbers.iter().for_each(|(name, v)| define(d, name, v));
    let (size, shared) = team_subgroup(f, threads)?;
    define(d, "SUBGROUP", size);
    if shared {
        define(d, "CLUSTERED", 1);
    }
    f.subgroup_size_control.then_some(size)
}

/// What becomes of results.
pub(super) fn define_after(d: &mut Defines, after: &KeptAfter) {
    let code = after.function("after");
    if calls_library(&code) {
        define(d, "AFTER_MATH", 1);
    }
    define(d, "AFTER", code);
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let format = self.format.map_or_else(|| "dense".into(), show_format);
        let before = match self.norm {
            _ if self.picks => "picked_",
            Some(_) if self.keep => "norm_kept_",
            Some(_) => "norm_",
            None => "",
        };
        let after = self.after.as_ref().map_or(String::new(), |f| format!("_{}", f.program.name()));
        let biased = if self.added { "_biased" } else { "" };
        let end = format!("{format}_{}_{}{biased}{after}", self.dtype, self.matrices());
        match self.layout {
            Layout::Row(r) => format!("qmm_row_{before}{}x{}_{end}", r.parts, r.beside),
            Layout::Streamed(s) => {
                format!("qmm_stream_{before}{}x{}x{}_{end}", s.threads, s.teams, s.rows)
            }
            Layout::Held(h) => {
                let kind = if self.format.is_some() { "qmm" } else { "matmul" };
                format!("{kind}_held_{before}{}x{}_v{}_{end}", h.subgroups, h.splits, h.width)
            }
            Layout::Coop { coop: Coop { subgroups, tiles, stretch, vectors, .. }, .. } => {
                let kind = if self.picks { "grouped" } else { "joined" };
                format!("qmm_coop_{kind}_{subgroups}x{tiles}x{stretch}_v{vectors}_{end}")
            }
            Layout::Rows { threads, rows, .. } => format!("qmm_joined_{before}{threads}x{rows}_{end}"),
            Layout::Combine { combine: Combine { threads, rows, .. }, .. } => {
                let wide = if self.wide { "_wide" } else { "" };
                let end = format!("{}_{}{biased}{wide}{after}", self.dtype, self.combined);
                format!("qmm_combine_{threads}x{rows}_{format}_{end}")
            }
            Layout::Dense { layout: d, .. } => {
                format!("gemv_joined_{before}{}x{}x{}_{end}", d.threads, d.rows, d.unroll)
            }
        }
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        elem::float_controls(&mut d, f);
        match self.format {
            Some(format) => define_format(&mut d, format, self.dtype),
            None => define(&mut d, "DTYPE", crate::vulkan::kernels::matmul::kernel::dtype_code(self.dtype)),
        }
        let mut put = |list: &[(&str, u32)]| list.iter().for_each(|(name, v)| define(&mut d, name, v));
        put(&[("JOINED", self.matrices() as u32), ("TRANSPOSE", 1)]);
        // Whether kernels that multiply matrices do so by instructions.
        let (mut subgroup_size, mut matrices, mut wide) = (None, None, false);
        let file = match self.layout {
            Layout::Row(r) => {
                put(&[("WK", r.parts), ("WN", r.beside), ("WIDTH", r.width)]);
                matrices = Some(!r.plain);
                "qmm_row.comp"
            }
            Layout::Streamed(s) => {
                put(&[("TPR", s.threads), ("SUBGROUP", s.subgroup), ("TEAMS", s.teams)]);
                put(&[("R", s.rows), ("TURNS", s.turns)]);
                subgroup_size = f.subgroup_size_control.then_some(s.subgroup);
                "qmm_stream.comp"
            }
            Layout::Held(h) => {
                put(&[("WK", h.subgroups), ("COLS", h.cols), ("TURN", h.turn), ("WIDTH", h.width)]);
                put(&[("SPLITS", h.splits), ("BUFFERS", h.buffers)]);
                matrices = Some(!h.plain);
                if h.splits > 1 {
                    elem::joined_by_last(&mut d);
                }
                if self.format.is_some() { "qmm_held.comp" } else { "matmul_held.comp" }
            }
            Layout::Coop { coop, aligned, factors } => {
                define_coop(&mut d, coop, aligned, factors);
                if self.picks {
                    define(&mut d, "MOST", picked::LOOKED_AT);
                }
                matrices = Some(!coop.plain);
                "qmm_coop.comp"
            }
            Layout::Rows { threads, rows, unit, aligned } => {
                let numbers = [("R", rows), ("VECTORS", 1), ("UNIT", unit), ("STAGE", stage(f))];
                subgroup_size = define_teams(&mut d, f, threads, &numbers);
                wide = aligned;
                "qmm_rows.comp"
            }
            Layout::Combine { combine: Combine { threads, rows, teams, unit }, aligned } => {
                let picks = self.combined;
                let numbers = [("R", rows), ("UNIT", unit), ("TEAM_COUNT", teams), ("COMBINED", picks)];
                subgroup_size = define_teams(&mut d, f, threads, &numbers);
                wide = aligned;
                "qmm_combine.comp"
            }
            Layout::Dense { layout: JoinedRows { threads, rows, unroll }, staged } => {
                let numbers = [("R", rows), ("UNROLL", unroll), ("STAGED", 1)];
                let numbers = &numbers[..if staged { 3 } else { 2 }];
                subgroup_size = define_teams(&mut d, f, threads, numbers);
                "gemv_joined.comp"
            }
        };
        let spirv16 = matrices == Some(true);
        if spirv16 {
            subgroup_size = f.subgroup_size_control.then_some(32);
        }
        let flags = [
            (matrices == Some(false), "PLAIN"),
            (self.norm.is_some(), "NORM"),
            (self.keep, "KEEP"),
            (self.after.is_some() && self.matrices() == 2, "PAIR"),
            (self.picks, "PICKS"),
            (self.added, "BIASED"),
            (self.masks, "MASKED"),
            (self.wide, "WIDE"),
            (wide, "ALIGNED"),
        ];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        if let Some(after) = &self.after {
            define_after(&mut d, after);
        }
        let numbers = self.lengths.map(|n| n.max(1)).into_iter().chain([self.norm.unwrap_or(0)]);
        let spec = [self.k].into_iter().chain(numbers).collect();
        Module { source: Source::File(file), defines: d, spec, subgroup_size, spirv16 }
    }
}

/// Whether a kernel that can join would multiply `m` rows of length `k` by a matrix with `n` rows of codes.
pub fn suits(stream: Stream, format: Format, dtype: Dtype, sizes: [i64; 3]) -> bool {
    let Ok(state) = StreamState::of(stream) else { return false };
    let known = |dtype, cols| fragment_probe::known(state.device, dtype, cols);
    joins_products(state.device.profile(), format, dtype, sizes, &known)
}

/// Whether kernels in PTX, where a device has them, know what follows products.
pub fn follows(stream: Stream, dtype: Dtype, after: KeptAfter) -> bool {
    StreamState::of(stream).is_ok_and(|s| !s.device.warpgroups() || super::stream::knows(dtype, Some(after)))
}

/// The same for a dense matrix with `n` rows.
pub fn suits_dense(stream: Stream, dtype: Dtype, sizes: [i64; 3]) -> bool {
    let Ok(state) = StreamState::of(stream) else { return false };
    let known = |dtype, cols| fragment_probe::known(state.device, dtype, cols);
    joins_dense(state.device.profile(), dtype, sizes, &known)
}

/// The same for picked matrices: lengths of rows, rows of codes, picks, matrices to choose from.
pub fn suits_picks(stream: Stream, format: Format, dtype: Dtype, sizes: [i64; 4]) -> bool {
    let Ok(state) = StreamState::of(stream) else { return false };
    let known = |dtype, cols| fragment_probe::known(state.device, dtype, cols);
    joins_picks(state.device.profile(), format, dtype, sizes, &known)
}

/// Whether `m` rows of length `k` are normalised by each workgroup of their products with matrices that have `n` rows together.
pub fn takes_norm(stream: Stream, format: Option<Format>, dtype: Dtype, sizes: [i64; 3]) -> bool {
    let Ok(state) = StreamState::of(stream) else { return false };
    let known = |dtype, cols| fragment_probe::known(state.device, dtype, cols);
    normalises(state.device.profile(), format, dtype, sizes, &known)
}

/// Records the products; `reads` and `writes` are all ranges that they touch.
pub fn run(enc: &mut CommandEncoder, j: &Joined, reads: &[(u64, u64)], writes: &[(u64, u64)]) -> Result<()> {
    let native = [wide_codes::run, few_rows::run, chain::picked::run, few_picked::run, chain::run, wide::run];
    for run in native {
        if run(enc, j, reads, writes)? {
            return Ok(());
        }
    }
    match j.norm {
        Some(norm) if j.m > 1 && j.format.is_some() => normalised_apart(enc, j, norm, reads, writes),
        _ if single::apart(j) => single::run(enc, j, reads, writes),
        _ => by_shaders(enc, j, reads, writes),
    }
}

/// Few rows that `few_rows` would have normalised if their operands lay as it reads them: by a kernel of its own.
fn normalised_apart(
    enc: &mut CommandEncoder,
    j: &Joined,
    (weights, eps): (u64, f32),
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<()> {
    let view = |ptr, shape: &[i64], strides: &[i64]| DeviceView {
        ptr,
        dtype: j.dtype,
        shape: SmallVec::from_slice(shape),
        strides: SmallVec::from_slice(strides),
    };
    let rows = |ptr| view(ptr, &[j.m, j.k], &[j.k, 1]);
    // FITS: x is as large.
    let to = rows(enc.temp((j.m * j.k) as usize * j.dtype.size())?);
    let weight = view(weights, &[j.k], &[1]);
    norm(enc, &rows(j.x), How { weight: Some(&weight), eps, ..How::default() }, &to)?;
    let mut all: SmallVec<[(u64, u64); 16]> = SmallVec::from_slice(reads);
    all.push(to.range());
    by_shaders(enc, &Joined { x: to.ptr, norm: None, ..*j }, &all, writes)
}

/// The same by shaders.
fn by_shaders(
    enc: &mut CommandEncoder,
    j: &Joined,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<()> {
    let device = enc.device();
    let known = |dtype, cols| fragment_probe::known(device, dtype, cols);
    if let (Some(c), Some(format)) = (j.combined, j.format)
        && picked::grouped(device.profile(), &j.shape(format), false, &known).is_some()
    {
        return sums::run(enc, j, c, reads, writes);
    }
    let layout = layout(device.profile(), device.features(), j, &known);
    if let (Some(variant), Some(format)) = (layout.variant(), j.format) {
        j.matrices.iter().for_each(|_| STATS.quantized(variant.number(), j.m, j.k / i64::from(format.group)));
    }
    if let Layout::Streamed(laid) = layout
        && j.added.is_empty()
        && stream::run(enc, j, &laid, reads, writes)?
    {
        return Ok(());
    }
    record(enc, j, layout, reads, writes)
}

/// Records the shader of a layout.
fn record(
    enc: &mut CommandEncoder,
    j: &Joined,
    layout: Layout,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<()> {
    let (device, pair) = (enc.device(), j.pair());
    let key = Key {
        format: j.format,
        dtype: j.dtype,
        layout,
        norm: j.norm.map(|n| n.1.to_bits()),
        keep: j.kept.is_some(),
        k: j.k as u32,
        lengths: j.lengths(),
        after: j.after,
        picks: j.picks.is_some(),
        added: !j.added.is_empty(),
        combined: j.combined.map_or(0, |c| c.each as u32),
        wide: j.combined.is_some_and(|c| c.wide),
        masks: matches!(layout, Layout::Streamed(_)) && subnormal_probe::keeps(device),
    };
    // Products of one grid: of all picks, or their sums.
    let products = match (j.picks, j.combined) {
        (Some(p), Some(c)) => p.count / c.each,
        (Some(p), None) => p.count,
        (None, _) => 1,
    };
    let mut push = Push::of(j);
    push.norm = j.combined.map_or(push.norm, |c| c.weights);
    push.rows = j.picks.map_or(j.m, |_| products) as u32;
    // Rows that are stored have no such arrays.
    push.sums = j.kept.unwrap_or(0);
    if let (Some(_), &[table]) = (j.combined, j.added) {
        push.sums = table;
    } else if !j.added.is_empty() {
        let addresses = j.added.iter().copied().chain(j.kept).flat_map(u64::to_le_bytes);
        let addresses: SmallVec<[u8; 32]> = addresses.collect();
        push.sums = enc.params(&addresses)?;
    }
    let units = j.units(layout.span(pair));
    let shared = match (layout, j.picks, j.format) {
        (Layout::Coop { .. }, Some(p), Some(format)) => {
            Some((picked::sharers(device.profile(), &j.shape(format), units), p.matrices))
        }
        _ => None,
    };
    if let Some((sharers, _)) = shared {
        push.sums = sharers as u64;
    }
    let mut writes: SmallVec<[(u64, u64); 6]> = SmallVec::from_slice(writes);
    let groups = match layout {
        Layout::Row(r) => r.workgroups(device.profile(), units),
        Layout::Streamed(s) => s.workgroups(device.profile(), units),
        Layout::Held(h) => {
            let lists = h.lists(device.profile(), units);
            if h.splits > 1 {
                let bytes = 4 * h.left(units, if pair { 2 } else { 1 });
                push.sums = enc.temp(bytes)?;
                push.norm = enc.counters(lists as usize)?;
                writes.extend([(push.sums, bytes as u64), (push.norm, 4 * lists as u64)]);
            }
            lists * i64::from(h.splits)
        }
        Layout::Coop { .. } | Layout::Rows { .. } | Layout::Combine { .. } | Layout::Dense { .. } => {
            shared.map_or(units * products, |(sharers, matrices)| sharers * matrices)
        }
    };
    let (n, batch) = (j.rows(), j.picks.map_or(1, |p| p.count));
    enc.describe(2.0 * (n * batch * j.m) as f64 * j.k as f64, &[batch, j.m, n, j.k]);
    let pipeline = enc.device().pipeline(&key)?;
    launch(enc, &pipeline, push, groups as u64, 1, 1, reads, &writes)
}

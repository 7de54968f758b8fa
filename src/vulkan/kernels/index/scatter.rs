//! Host side of the scatter shaders. Results do not depend on the order in which lanes run: only integers are
//! combined by atomics. Updates that cannot meet are written at once. Of up to 256 updates in a line each looks
//! for its like, and one lane combines all that meet. Of many that replace each other a table holds the last.
//! All others are sorted by where they go, and runs of equal keys are combined in the order of the updates.

use smallvec::SmallVec;

use super::indexed::{Indices, Words, shift, widest};
use super::sums;
use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::kernels::index::indexed::{Combine, Dim, Groups, Role, Walk, numbering};
use crate::vulkan::kernels::elem::{Defines, Push, WG, compute_type, define, grid, operand};
use crate::vulkan::kernels::elementwise::copy;
use crate::vulkan::kernels::sort;
use crate::vulkan::tune::sort::{SCATTER_LANES, SCATTER_LEVEL};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source, tune};

pub static SCATTER_ATOMIC: KernelVariant =
    KernelVariant::new("scatter_atomic", "updates in order, for 32-bit integers too");

pub static SCATTER_LINKED: KernelVariant =
    KernelVariant::new("scatter_linked", "sorted updates, for few of them too");

pub static SCATTER_CLAIMED: KernelVariant =
    KernelVariant::new("scatter_claimed", "a table of who writes last, and a second look at all updates");

pub static SCATTER_OWNED: KernelVariant =
    KernelVariant::new("scatter_owned", "sorted updates, for assignments too");

/// What a scatter does.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// How an update and an element become one.
    pub how: Combine,
    /// Whether indices out of range are held inside their axis; else such updates are dropped.
    pub hold: bool,
    /// Whether no two updates meet.
    pub distinct: bool,
}

/// What decides the code of the two kernels that write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Code {
    dtype: Dtype,
    how: Combine,
    hold: bool,
    indices: Indices,
    /// Elements of a vector.
    vector: u64,
    /// All elements of a vector take one update.
    splat: bool,
}

impl Code {
    fn name(&self) -> String {
        let how = match self.how {
            Combine::Set => "set",
            Combine::Add => "add",
            Combine::Prod => "prod",
            Combine::Max => "max",
            Combine::Min => "min",
        };
        format!("scatter_{how}_{}_{}", self.dtype, self.indices.name())
    }

    fn defines(&self) -> Defines {
        let mut d = Defines::new();
        operand(&mut d, "A", self.dtype);
        operand(&mut d, "B", self.dtype);
        self.indices.define(&mut d);
        define(&mut d, "OP", self.how as u32);
        define(&mut d, "VECTOR", self.vector);
        define(&mut d, "SPLAT", u32::from(self.splat));
        let wide = matches!(compute_type(self.dtype), "uint64_t" | "int64_t");
        define(&mut d, "ACC_ALIGN", if wide { 8 } else { 4 });
        define(&mut d, "ACC_SIZE", if wide || self.dtype == Dtype::C64 { "8u" } else { "4u" });
        let flags = [(self.dtype == Dtype::Bool, "BOOL"), (self.hold, "HOLD")];
        flags.iter().filter(|f| f.0).for_each(|f| define(&mut d, f.1, 1));
        d
    }
}

/// Which updates meet, for the kernel that writes in the order of the updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Meeting {
    Never,
    Linked,
    Owned,
    Atomic,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Direct {
    code: Code,
    meeting: Meeting,
    axes: usize,
    big: bool,
}

impl KernelKey for Direct {
    fn name(&self) -> String {
        self.code.name()
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = self.code.defines();
        define(&mut d, "DUP", self.meeting as u32);
        define(&mut d, "AXES", format!("{}u", self.axes));
        if self.big {
            define(&mut d, "BIG", 1);
        }
        Module { source: Source::File("scatter.comp"), defines: d, spec: vec![WG], ..Default::default() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Runs {
    code: Code,
    /// Of what is left of runs, not of updates.
    level: bool,
    /// Keys of 16 bits.
    short: bool,
    /// Keys lie in their order.
    ordered: bool,
    axes: usize,
    row_axes: usize,
}

impl KernelKey for Runs {
    fn name(&self) -> String {
        format!("{}_{}", self.code.name(), if self.level { "level" } else { "runs" })
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = self.code.defines();
        define(&mut d, "AXES", format!("{}u", self.axes));
        define(&mut d, "ROW_AXES", format!("{}u", self.row_axes));
        if self.level {
            define(&mut d, "LEVEL", format!("{SCATTER_LEVEL}u"));
        }
        let flags = [(self.short, "SHORT"), (self.ordered, "ORDERED")];
        flags.iter().filter(|f| f.0).for_each(|f| define(&mut d, f.1, 1));
        Module { source: Source::File("scatter_runs.comp"), defines: d, spec: vec![WG], ..Default::default() }
    }
}

/// Modes of shaders/index/scatter_keys.comp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mode {
    Keys,
    Links,
    Owners,
    Lines,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Keys {
    mode: Mode,
    hold: bool,
    /// Keys of 16 bits.
    short: bool,
    /// Of the updates.
    dtype: Dtype,
    /// Places of a line that shared memory holds.
    places: u64,
    indices: Indices,
    axes: usize,
}

impl KernelKey for Keys {
    fn name(&self) -> String {
        format!("scatter_{:?}_{}", self.mode, self.indices.name()).to_lowercase()
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        if self.mode == Mode::Lines {
            operand(&mut d, "A", self.dtype);
            operand(&mut d, "B", self.dtype);
            define(&mut d, "PLACES", self.places);
        }
        self.indices.define(&mut d);
        define(&mut d, "MODE", self.mode as u32);
        define(&mut d, "AXES", format!("{}u", self.axes));
        let flags = [(self.hold, "HOLD"), (self.short, "SHORT")];
        flags.iter().filter(|f| f.0).for_each(|f| define(&mut d, f.1, 1));
        Module { source: Source::File("scatter_keys.comp"), defines: d, spec: vec![WG], ..Default::default() }
    }
}

/// Writes to elements of a dtype what their owners have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Claims(Dtype);

impl KernelKey for Claims {
    fn name(&self) -> String {
        format!("scatter_claims_{}", self.0)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        operand(&mut d, "A", self.0);
        operand(&mut d, "B", self.0);
        Module {
            source: Source::File("scatter_claims.comp"),
            defines: d,
            spec: vec![WG],
            ..Default::default()
        }
    }
}

/// One scatter on its way to the encoder.
struct Job<'a> {
    walk: &'a Walk,
    updates: &'a DeviceView,
    indices: &'a [DeviceView],
    dst: &'a DeviceView,
    groups: Groups,
    code: Code,
}

/// Combines the dense array `updates` of a walk into its base `dst`, both of one dtype; the base is written in
/// place. Index arrays are of one integer dtype; negative indices count from the end. There is
/// an update. `base`: a dense array as long as `dst`, what that has to hold first, unless it does; some ways read it where it lies.
pub fn scatter(
    enc: &mut CommandEncoder,
    kind: Kind,
    walk: &Walk,
    updates: &DeviceView,
    indices: &[DeviceView],
    base: Option<&DeviceView>,
    dst: &DeviceView,
) -> Result<()> {
    let groups = walk.groups();
    let dtype = match (kind.how, dst.dtype.size()) {
        (Combine::Set, 1) => Dtype::U8,
        (Combine::Set, 2) => Dtype::U16,
        (Combine::Set, 4) => Dtype::U32,
        (Combine::Set, _) => Dtype::U64,
        (Combine::Add | Combine::Prod | Combine::Max | Combine::Min, _) => dst.dtype,
    };
    let (vector, splat) = vectors(walk, updates, dst);
    let indices_kind = Indices::of("scatter", indices)?;
    let code = Code { dtype, how: kind.how, hold: kind.hold, indices: indices_kind, vector, splat };
    let mut job = Job { walk, updates, indices, dst, groups, code };
    let way = job.way(enc, kind)?;
    match way {
        Way::Sums if sums::scatter(enc, kind.hold, walk, updates, indices, base, dst)? => return Ok(()),
        Way::Claimed(1) if job.groups.total == dst.size() as u64 => return job.claimed(enc, 1, base),
        _ => {}
    }
    if let Some(base) = base {
        copy(enc, base, dst)?;
    }
    match way {
        Way::Direct(meeting) => {
            if meeting == Meeting::Atomic {
                (job.code.vector, job.code.splat) = (1, false);
            }
            job.direct(enc, meeting)
        }
        Way::Lines(step) => job.keys(enc, Mode::Lines, false, step, dst.range()),
        Way::Claimed(step) => job.claimed(enc, step, None),
        Way::Sums | Way::Sorted => job.sorted(enc),
    }
}

/// How a scatter is done; with the steps of places in the base.
#[derive(Debug, Clone, Copy)]
enum Way {
    Direct(Meeting),
    Lines(i64),
    Claimed(i64),
    /// Exact sums if `sums` takes them, else as sorted ones.
    Sums,
    Sorted,
}

/// Elements that a lane handles at once, and whether one update serves them all.
fn vectors(walk: &Walk, updates: &DeviceView, dst: &DeviceView) -> (u64, bool) {
    let size = dst.dtype.size() as i64;
    let Some((last, others)) = walk.dims.split_last() else { return (1, false) };
    if last.role != Role::Row || last.base != 1 || !(0..=1).contains(&last.dense) {
        return (1, false);
    }
    let splat = last.dense == 0;
    let base = others.iter().map(|d| d.base).chain(walk.picks.iter().map(|p| p.stride));
    let dense = others.iter().filter(|_| !splat).map(|d| d.dense);
    let addresses = [dst.ptr, if splat { 0 } else { updates.ptr }];
    match widest(size, last.size, base.chain(dense), &addresses) {
        16 => (16 / size as u64, splat),
        _ => (1, false),
    }
}

impl Job<'_> {
    /// What suits the updates.
    fn way(&self, enc: &CommandEncoder, kind: Kind) -> Result<Way> {
        let Groups { per_line, total, lines, .. } = self.groups;
        let many = self.groups.size();
        if kind.distinct || per_line <= 1 {
            return Ok(Way::Direct(Meeting::Never));
        }
        let same = self.walk.dims.iter().all(|d| d.dense == 0 || d.size == 1);
        if kind.how == Combine::Set && same {
            return Ok(Way::Direct(Meeting::Never));
        }
        let dtype = self.code.dtype;
        let extreme = matches!(kind.how, Combine::Max | Combine::Min);
        let atomic = extreme || kind.how == Combine::Add;
        let words = atomic && matches!(dtype, Dtype::I32 | Dtype::U32);
        if (words || extreme && dtype == Dtype::F32) && !SCATTER_ATOMIC.disabled() {
            return Ok(Way::Direct(Meeting::Atomic));
        }
        if many > u64::from(u32::MAX >> 1) - 2 || total >= u64::from(u32::MAX) {
            bail!(Value, "[scatter] {many} updates in {total} places are too many for one scatter.");
        }
        if per_line <= u64::from(WG) && !SCATTER_LINKED.disabled() {
            return Ok(Way::Direct(Meeting::Linked));
        }
        if kind.how == Combine::Set && tune::index::scatter_by_table(total, many) && !SCATTER_OWNED.disabled()
        {
            let step = if self.code.vector == 1 && self.in_order() { self.key_step() } else { 0 };
            let places = self.groups.places();
            let by_lines = tune::index::scatter_by_lines(enc.device().profile(), lines, places);
            return Ok(match step {
                1.. if by_lines => Way::Lines(step),
                1.. if !SCATTER_CLAIMED.disabled() => Way::Claimed(step),
                _ => Way::Direct(Meeting::Owned),
            });
        }
        let exact = kind.how == Combine::Add && matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16);
        Ok(if exact { Way::Sums } else { Way::Sorted })
    }

    /// Steps in the base, in vectors.
    fn base(&self, step: i64) -> i64 {
        step / self.code.vector as i64
    }

    /// Steps in the updates, in vectors unless one update serves a vector.
    fn dense(&self, step: i64) -> i64 {
        if self.code.splat { step } else { step / self.code.vector as i64 }
    }

    fn ranges(&self) -> SmallVec<[(u64, u64); 6]> {
        std::iter::once(self.updates).chain(self.indices).map(DeviceView::range).collect()
    }

    /// Axes before the row that vectors lie in, and the last axis if it is one.
    fn split(&self) -> (&[Dim], Option<&Dim>) {
        match self.walk.dims.split_last() {
            Some((last, others)) if last.role == Role::Row && last.base == 1 => (others, Some(last)),
            _ => (&self.walk.dims, None),
        }
    }

    /// Whether keys have 16 bits, which are sorted in half the time.
    fn short(&self) -> bool {
        self.groups.total < 0xffff
    }

    /// Steps in the base, in vectors, of a step of the key, where places follow from keys; else 0.
    fn key_step(&self) -> i64 {
        let Groups { order, keys, pick_keys, .. } = &self.groups;
        let axes = order.iter().zip(keys).map(|(&i, &key)| (self.walk.dims[i].base, key));
        let picks = self.walk.picks.iter().zip(pick_keys).filter(|(p, _)| p.len > 1);
        let steps = axes.chain(picks.map(|(p, &key)| (p.stride, key)));
        let steps: SmallVec<[(i64, i64); 6]> = steps.collect();
        let Some(&(base, key)) = steps.iter().find(|s| s.1 != 0) else { return 0 };
        let step = base / key;
        if step > 0 && steps.iter().all(|&(base, key)| base == key * step) { self.base(step) } else { 0 }
    }

    /// Whether updates are single elements that lie in the order of their numbers.
    fn in_order(&self) -> bool {
        let mut step = 1;
        let dense = self.groups.order.iter().rev().all(|&i| {
            let d = &self.walk.dims[i];
            let here = d.dense == step;
            step *= d.size;
            here
        });
        dense && self.walk.size() == self.groups.size()
    }

    /// Runs a kernel over the keys of all updates, which writes `out`; `step` is that of [`Job::key_step`] where it is asked for.
    fn keys(
        &self,
        enc: &mut CommandEncoder,
        mode: Mode,
        short: bool,
        step: i64,
        out: (u64, u64),
    ) -> Result<()> {
        let mut words = Words::default();
        for (&i, &key) in self.groups.order.iter().zip(&self.groups.keys) {
            words.axis(&[self.walk.dims[i].size, key], &self.walk.dims[i]);
        }
        words.picks(self.walk, self.indices, |k| self.groups.pick_keys[k]);
        let params = words.upload(enc)?;
        let (count, per_line) = (self.groups.size(), self.groups.per_line);
        let places = self.groups.places();
        let push = Push::default().u64s(&[out.0, params, self.updates.ptr]).i64s(&[step]);
        let push = push.u32s(&[count as u32, per_line as u32, places as u32]);
        let axes = self.groups.order.len();
        let (hold, indices) = (self.code.hold, self.code.indices);
        let moves = mode == Mode::Lines;
        let dtype = if moves { self.code.dtype } else { Dtype::U32 };
        let held = if mode == Mode::Lines { places.next_power_of_two() } else { 0 };
        let key = Keys { mode, hold, short, dtype, places: held, indices, axes };
        let pipeline = enc.device().pipeline(&key)?;
        let wg = u64::from(WG);
        let live = match mode {
            Mode::Links => wg / per_line * per_line,
            Mode::Lines => per_line,
            Mode::Keys | Mode::Owners => wg,
        };
        let updates = Some(self.updates).filter(|_| moves);
        let reads: Vec<_> = self.indices.iter().chain(updates).map(DeviceView::range).collect();
        let groups = grid(enc, count.div_ceil(live));
        enc.dispatch(&pipeline, &push, groups, &reads, &[out])
    }

    /// One pass over the updates, after one that finds out which of them meet.
    fn direct(&self, enc: &mut CommandEncoder, meeting: Meeting) -> Result<()> {
        let links = match meeting {
            Meeting::Never | Meeting::Atomic => (0, 0),
            Meeting::Linked => {
                let bytes = 4 * self.groups.size();
                let out = (enc.temp(bytes as usize)?, bytes);
                self.keys(enc, Mode::Links, false, 0, out)?;
                out
            }
            Meeting::Owned => {
                let bytes = 4 * self.groups.total;
                let out = (enc.temp(bytes as usize)?, bytes);
                enc.fill(out, 0)?;
                self.keys(enc, Mode::Owners, false, 0, out)?;
                out
            }
        };
        let Groups { order, keys, pick_keys, .. } = &self.groups;
        let (dims, row) = self.split();
        let number = numbering(&self.walk.dims, order);
        let mut words = Words::default();
        for (i, d) in dims.iter().enumerate() {
            let key = order.iter().position(|&o| o == i).map_or(0, |o| keys[o]);
            words.axis(&[d.size, self.base(d.base), self.dense(d.dense), number[i], key], d);
        }
        words.picks(self.walk, self.indices, |k| self.base(self.walk.picks[k].stride));
        let mut chain = 0;
        if meeting == Meeting::Linked {
            for &i in order {
                words.push(&[self.walk.dims[i].size, self.dense(self.walk.dims[i].dense)]);
            }
            chain = order.len();
        }
        words.push(pick_keys);
        let params = words.upload(enc)?;
        let inner = row.map_or(1, |r| self.base(r.size)) as u64;
        if inner > u64::from(u32::MAX) {
            bail!(Value, "[scatter] Rows of more than 4294967295 elements are not supported.");
        }
        let total = self.walk.size() / self.code.vector;
        let row_step = match row {
            Some(r) if self.code.vector == 1 => r.dense,
            Some(_) if !self.code.splat => 1,
            _ => 0,
        };
        let push = Push::default().u64s(&[self.updates.ptr, self.dst.ptr, params, links.0, total]);
        let push = push.u32s(&[inner as u32, shift(inner), chain as u32, row_step as i32 as u32]);
        let key = Direct { code: self.code.clone(), meeting, axes: dims.len(), big: total >= 1 << 31 };
        let pipeline = enc.device().pipeline(&key)?;
        let mut reads = self.ranges();
        reads.push(links);
        let groups = grid(enc, total.div_ceil(u64::from(WG)));
        enc.dispatch(&pipeline, &push, groups, &reads, &[self.dst.range()])
    }

    /// An assignment of single elements: each update claims its place by its number, the last one keeps it, and each place fetches
    /// what its owner has, or what `base` has. A second look at all updates would read the table at random and write at random.
    fn claimed(&self, enc: &mut CommandEncoder, step: i64, base: Option<&DeviceView>) -> Result<()> {
        let total = self.groups.total;
        let table = (enc.temp(4 * total as usize)?, 4 * total);
        enc.fill(table, 0)?;
        self.keys(enc, Mode::Owners, false, 0, table)?;
        let dst = self.dst;
        let push = Push::default().u64s(&[table.0, base.unwrap_or(dst).ptr, dst.ptr, self.updates.ptr]);
        let push = push.i64s(&[step]).u32s(&[total as u32]);
        let pipeline = enc.device().pipeline(&Claims(self.code.dtype))?;
        let groups = grid(enc, total.div_ceil(u64::from(4 * WG)));
        let reads: SmallVec<[_; 3]> =
            [table, self.updates.range()].into_iter().chain(base.map(DeviceView::range)).collect();
        enc.dispatch(&pipeline, &push, groups, &reads, &[dst.range()])
    }

    /// Keys in their order or by number, and what goes with them.
    fn in_turn(&self, enc: &mut CommandEncoder, key_step: i64) -> Result<Turn> {
        let (count, per_line) = (self.groups.size(), self.groups.per_line);
        let list = |ptr, dtype| DeviceView {
            ptr,
            dtype,
            shape: [self.groups.lines as i64, per_line as i64].into_iter().collect(),
            strides: [per_line as i64, 1].into_iter().collect(),
        };
        let words = self.code.dtype.size() == 4 && self.in_order();
        let values = key_step > 0 && words && sort::by_radix(enc, per_line, Dtype::U32, true);
        let short = self.short() && !values;
        let dtype = if short { Dtype::U16 } else { Dtype::U32 };
        let keys = list(enc.temp(dtype.size() * count as usize)?, dtype);
        self.keys(enc, Mode::Keys, short, 0, keys.range())?;
        let ordered = sort::by_radix(enc, per_line, dtype, true);
        let [keys, order] = if ordered {
            let bits = (u64::BITS - self.groups.total.leading_zeros()).min(8 * dtype.size() as u32);
            let beside = if values { self.updates.range() } else { (0, 0) };
            sort::radix::ordered_keys(enc, &keys, bits, beside)?
        } else {
            let order = list(enc.temp(4 * count as usize)?, Dtype::U32);
            sort::argsort(enc, &keys, 1, &order)?;
            [keys.range(), order.range()]
        };
        let src = if values { order } else { self.updates.range() };
        Ok(Turn { level: Level { src, keys, order, count }, short, ordered, values })
    }

    /// Updates in the order of their keys.
    fn sorted(&self, enc: &mut CommandEncoder) -> Result<()> {
        let (count, per_line) = (self.groups.size(), self.groups.per_line);
        let key_step = self.key_step();
        let turn = self.in_turn(enc, key_step)?;
        let width = self.walk.size() / count / self.code.vector;
        if width > u64::from(u32::MAX) {
            bail!(Value, "[scatter] Rows of more than 4294967295 elements are not supported.");
        }
        let mut words = Words::default();
        let dims = &self.walk.dims;
        for &i in &self.groups.order {
            let d = &dims[i];
            words.axis(&[d.size, self.base(d.base), self.dense(d.dense)], d);
        }
        words.picks(self.walk, self.indices, |k| self.base(self.walk.picks[k].stride));
        let rows: SmallVec<[&Dim; 4]> = dims.iter().filter(|d| d.role == Role::Row).collect();
        for (i, d) in rows.iter().enumerate() {
            let vectors = self.code.vector > 1 && i + 1 == rows.len();
            words.push(&match vectors {
                true => [self.base(d.size), 1, i64::from(!self.code.splat)],
                false => [d.size, self.base(d.base), self.dense(d.dense)],
            });
        }
        let params = words.upload(enc)?;
        let (axes, row_axes) = (self.groups.order.len(), rows.len());
        let part = self.code.vector * if self.dst.dtype.size() == 8 { 8 } else { 4 };

        // What is left of runs at the end of a level is combined in the next one.
        // Words that lie in order are as what is left of runs.
        let mut chunk = (width * count / enc.device().profile().count(&SCATTER_LANES)).clamp(8, 64);
        let (mut input, mut level) = (turn.level, turn.values);
        if level {
            chunk = SCATTER_LEVEL;
        }
        while input.count > 1 || !level {
            let chunks = input.count.div_ceil(chunk);
            let lanes = chunks * width;
            let mut temp = |bytes: u64| -> Result<(u64, u64)> { Ok((enc.temp(bytes as usize)?, bytes)) };
            let left = Level {
                src: temp(lanes * part)?,
                keys: temp(4 * chunks)?,
                order: temp(4 * chunks)?,
                count: if chunks == 1 { 0 } else { chunks },
            };
            let src = if level { input.src.0 } else { self.updates.ptr };
            let push = Push::default().u64s(&[src, self.dst.ptr, params, input.keys.0, input.order.0]);
            let push = push.u64s(&[left.src.0, left.keys.0, left.order.0, lanes]).i64s(&[key_step]);
            let sizes = [input.count, per_line, chunk].map(|n| n as u32);
            let push = push.u32s(&[width as u32, shift(width), sizes[0], sizes[1], sizes[2]]);
            let pipeline = enc.device().pipeline(&Runs {
                code: self.code.clone(),
                level,
                short: !level && turn.short,
                ordered: !level && turn.ordered,
                axes,
                row_axes,
            })?;
            let mut reads = self.ranges();
            reads.extend([input.src, input.keys, input.order]);
            let writes = [self.dst.range(), left.src, left.keys, left.order];
            enc.dispatch(&pipeline, &push, grid(enc, lanes.div_ceil(u64::from(WG))), &reads, &writes)?;
            (input, level, chunk) = (left, true, SCATTER_LEVEL);
        }
        Ok(())
    }
}

/// Updates on their way to be combined: keys of 16 bits, keys in their order, and updates in it too.
struct Turn {
    level: Level,
    short: bool,
    ordered: bool,
    values: bool,
}

/// Updates in the order of their keys: ranges of the updates themselves, of their keys and of their numbers.
struct Level {
    src: (u64, u64),
    keys: (u64, u64),
    order: (u64, u64),
    count: u64,
}

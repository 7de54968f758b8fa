//! Products of one row by matrices of codes of two to eight bits, or of 16-bit elements, that follow each other, with what comes before and
//! behind each, as one kernel in PTX: host side of `text`. What one product makes the next one takes as words, two elements and a tag each, for
//! which it waits by itself, so that there is no barrier between. Called by `qmm_joined`, which holds a product back until it is known what
//! follows (MLX_VK_DISABLE=qmm_chain,gemv_chain: a kernel each).

mod codes;
mod finish;
pub mod front;
mod mixed;
mod odd;
pub mod picked;
mod row;
pub mod summed;
#[cfg(test)]
mod tests;
mod text;
mod values;

use std::any::Any;
use std::sync::Arc;

use smallvec::SmallVec;

use self::front::Front;
use self::mixed::{KINDS, Mix, PLACE, Part};
use self::picked::text::Picked;
use self::summed::Summed;
use super::qmm_joined::Joined;
use super::steps::arrays;
use super::stream;
use crate::core::storage::Storage;
use crate::core::{Dtype, Result};
use crate::kernels::matmul::epilogue::{KeptAfter, MATRICES};
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::held::{Chain, Launch, meet};
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::quantized::Shape;
use crate::vulkan::tune::quantized::chain::{
    Kind, LONG, LONGEST, THREADS, cut, kind, mixes, slots, takes, tiles,
};
use crate::vulkan::{CommandEncoder, Features};

/// Most products of a chain.
const STAGES: usize = 5;
/// Bytes of the words of a product's results.
const WORDS: usize = LONG as usize / 2 * 8;
/// Those of all products that another one follows.
const PRODUCTS: usize = (STAGES - 1) * WORDS;
/// A matrix that begins behind all tiles.
const NEVER: u32 = u32::MAX;

/// Place of an argument of the stage at `sa`.
macro_rules! place {
    ($field:ident) => {
        std::mem::offset_of!(Stage, $field)
    };
}
use place;

/// What the kernel is told of a product; the text reads it by these places.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Stage {
    /// The row; or the words that the product before made of it.
    x: u64,
    /// Weights that the row is normalised with, and where it is stored then.
    norm: u64,
    kept: u64,
    /// Of a row that is a sum (`summed`): weights that the last result is normalised with, what it is added to, and where that is stored.
    post: u64,
    other: u64,
    sum: u64,
    codes: [u64; MATRICES],
    scales: [u64; MATRICES],
    biases: [u64; MATRICES],
    /// Of each matrix; or the only result, and what is read after it.
    results: [u64; MATRICES],
    /// What is added to the results of each matrix; 0 where nothing is.
    added: [u64; MATRICES],
    /// Where the results are stored as words, too.
    words: u64,
    /// The first tile of each matrix.
    starts: [u32; MATRICES],
    eps: f32,
    post_eps: f32,
    k: u32,
    /// See [`flags`].
    flags: u32,
    /// Tiles of each workgroup, and workgroups that have one more.
    each: u32,
    more: u32,
    /// What marks the words of the row, of arrays, and of the results; 0 where they are none.
    x_tag: u32,
    array_tags: [u32; 2],
    tag: u32,
    /// Of matrices that are picked: rows of each, and how many columns are of one of them.
    rows: u32,
    part: u32,
    even: u32,
}

/// What the kernel is told.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Args {
    stages: u64,
    stage: [Stage; STAGES],
}

impl Stage {
    /// The number of its kind.
    fn kind(&self) -> usize {
        (self.flags >> PLACE) as usize % KINDS
    }
}

const _: () = assert!(size_of::<Stage>() == (7 + 5 * MATRICES) * 8 + 16 * 4);
const _: () = assert!(size_of::<Args>() == 8 + STAGES * size_of::<Stage>());

// SAFETY: repr(C) of fields of 8 bytes and an even number of 4, without padding.
unsafe impl Told for Args {}

/// What it is told of what is picked: the row it is chosen from, where places of what is chosen are, numbers beside them, if any;
/// matrices to choose from, and whether places are signed.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct PickArgs {
    keys: u64,
    places: u64,
    chosen: u64,
    matrices: u32,
    signed: u32,
    /// Of a choice amid the products: which stage comes after it, and what marks the words of the row.
    stage: u32,
    key_tag: u32,
}

// SAFETY: repr(C) of fields of 8 bytes and four of 4.
unsafe impl Told for PickArgs {}

/// Two matrices are multiplied by at once.
const PAIR: u32 = 4;

/// How many arrays are read after a product.
fn read_after(j: &Joined) -> u32 {
    j.after.as_ref().map_or(0, |a| arrays(a))
}

/// Where they lie.
fn stored_after<'a>(j: &Joined<'a>) -> &'a [u64] {
    &j.results[1..][..read_after(j) as usize]
}

/// The row is normalised, is stored then, two matrices are multiplied by at once; arrays that are read after that, and which of the
/// kernel's programs comes after it.
fn flags(j: &Joined, after: usize) -> u32 {
    u32::from(j.norm.is_some())
        | u32::from(j.kept.is_some()) << 1
        | (u32::from(j.pair()) * PAIR)
        | read_after(j) << 8
        | (after as u32) << 16
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    chain: text::Chain,
    afters: SmallVec<[KeptAfter; STAGES]>,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let afters = self.afters.iter().map(|a| format!("_{}", a.program.name()));
        let kinds = self.chain.kinds();
        let kind = match kinds[..] {
            [Kind::VALUES] => "gemv_chain".to_string(),
            _ => "qmm_chain".to_string() + &kinds.iter().map(|k| k.name()).collect::<String>(),
        };
        // What all names said before there was another dtype.
        let kind = if self.chain.half() { kind + "_float16" } else { kind };
        let kind = if self.chain.summed { kind + "_norm_added" } else { kind };
        let kind = self.chain.front.map_or(String::new(), |f| f.name() + "_") + &kind;
        let picks = match self.chain.picks {
            Some(Picked::Chosen(choice)) => choice.name() + "_",
            Some(Picked::Within(choice)) => format!("with_{}_", choice.name()),
            Some(Picked::Stored { count, wide }) => {
                format!("picked_{count}_{}", if wide { "wide_" } else { "" })
            }
            None => String::new(),
        };
        let kind = picks + &kind;
        kind + &afters.collect::<String>()
    }

    fn module(&self, _: &Features) -> Module {
        // INVARIANT: `stage` asks `knows`.
        let steps = |a: &KeptAfter| stream::steps(self.chain.dtype, a).unwrap_or_default();
        let afters: Vec<String> = self.afters.iter().map(steps).collect();
        Module {
            source: Source::Ptx { text: self.chain.text(&afters), threads: THREADS },
            ..Default::default()
        }
    }
}

/// A range of bytes: where, and how many.
type Range = (u64, u64);

/// The products of a chain so far.
struct Chained {
    stages: SmallVec<[Stage; STAGES]>,
    /// Bytes of each product's only result; 0 where it has several.
    made: SmallVec<[u64; STAGES]>,
    afters: SmallVec<[KeptAfter; STAGES]>,
    /// The attention before them.
    front: Option<Front>,
    /// What is picked, and how that is told.
    picks: Option<(Picked, PickArgs)>,
    /// The last row that is a sum.
    summed: Option<Summed>,
    /// What matrices hold, by its number in a stage's flags.
    kinds: SmallVec<[Kind; KINDS]>,
    dtype: Dtype,
    workgroups: u32,
    /// Memory for words, and the tag of the first product's.
    words: (u64, u32),
    reads: SmallVec<[Range; 32]>,
    writes: SmallVec<[Range; 8]>,
    /// Where what others may just have made begins: rows, arrays, and what attention reads.
    late: SmallVec<[u64; 16]>,
    /// Memory that comes back behind it only.
    memory: SmallVec<[Arc<Storage>; 6]>,
}

impl Chained {
    fn new(dtype: Dtype, workgroups: u32, words: (u64, u32)) -> Chained {
        Chained {
            stages: SmallVec::new(),
            made: SmallVec::new(),
            afters: SmallVec::new(),
            front: None,
            picks: None,
            summed: None,
            kinds: SmallVec::new(),
            dtype,
            workgroups,
            words,
            reads: SmallVec::new(),
            writes: SmallVec::new(),
            late: SmallVec::new(),
            memory: SmallVec::new(),
        }
    }

    /// The kernel, and what it is told.
    fn program(&self) -> (Key, Args) {
        let part = |(i, &holds): (usize, &Kind)| -> Part {
            let products = || self.stages.iter().filter(|s| s.kind() == i && s.each + s.more > 0);
            (holds, products().any(|s| s.k % holds.span() != 0))
        };
        let parts: SmallVec<[Part; KINDS]> = self.kinds.iter().enumerate().map(part).collect();
        let ((holds, ragged), mix) = Mix::of(if parts.is_empty() { &[(front::NONE, false)] } else { &parts });
        let front = self.front.as_ref().map(|f| f.program);
        let picks = self.picks.map(|p| p.0);
        let (row, summed) = (self.row(), self.summed.is_some());
        let chain = text::Chain { holds, dtype: self.dtype, ragged, mix, row, front, picks, summed };
        let key = Key { chain, afters: self.afters.clone() };
        let mut args = Args { stages: self.stages.len() as u64, ..Args::default() };
        args.stage[..self.stages.len()].copy_from_slice(&self.stages);
        (key, args)
    }

    /// All that the kernel is told.
    fn told(&self, args: &Args) -> SmallVec<[u8; 256]> {
        let front = self.front.as_ref().map_or(&[][..], |f| f.args.bytes());
        let picks = self.picks.as_ref().map_or(&[][..], |p| p.1.bytes());
        let mut all = SmallVec::with_capacity(size_of::<Args>() + front.len() + picks.len());
        [args.bytes(), front, picks].into_iter().for_each(|part| all.extend_from_slice(part));
        all
    }

    /// The number of what comes after a product, from 1 on; 0 is nothing.
    fn after(&mut self, after: Option<KeptAfter>) -> usize {
        let Some(after) = after else { return 0 };
        let found = self.afters.iter().position(|a| *a == after);
        1 + found.unwrap_or_else(|| {
            self.afters.push(after);
            self.afters.len() - 1
        })
    }

    /// Has product i make words; where they are, and their tag.
    fn words_of(&mut self, i: usize) -> (u64, u32) {
        let words = (self.words.0 + (i * WORDS) as u64, self.words.1 + i as u32);
        (self.stages[i].words, self.stages[i].tag) = words;
        words
    }

    fn push(&mut self, j: &Joined, mut stage: Stage, reads: &[Range], writes: &[Range]) {
        let kind = Kind::of(j.format);
        let number = self.kinds.iter().position(|k| *k == kind).unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        stage.flags = flags(j, self.after(j.after)) | (number as u32) << PLACE;
        let alone = j.after.is_some() || j.matrices.len() == 1;
        self.made.push(if alone { 2 * j.matrices[0].rows as u64 } else { 0 });
        self.stages.push(stage);
        self.late.extend(j.late());
        self.reads.extend_from_slice(reads);
        self.writes.extend_from_slice(writes);
    }

    /// Whether products by such codes, or elements, may be its own.
    fn takes(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind) || self.kinds.is_empty() || self.kinds.len() < KINDS && mixes()
    }

    /// What a stage is by.
    fn kind(&self, s: &Stage) -> Kind {
        self.kinds[s.kind()]
    }

    /// Elements of its rows in shared memory.
    fn row(&self) -> u32 {
        self.stages.iter().map(|s| self.kind(s).row(s.k)).max().unwrap_or(LONGEST)
    }

    /// Whether the sums of all products, `next` among them, find room beside the longest of their rows. What rows pick has no longer ones.
    fn has_room(&self, j: &Joined, next: &Stage) -> bool {
        let kind = Kind::of(j.format);
        let row = self.row().max(kind.row(next.k));
        let kinds: SmallVec<[Kind; KINDS]> = self.kinds.iter().copied().chain([kind]).collect();
        let sides = |s: &Stage| if s.flags & PAIR != 0 { 2 } else { 1 };
        let there = self.stages.iter().map(|s| (s, sides(s), self.kind(s)));
        let all = there.chain([(next, if j.pair() { 2 } else { 1 }, kind)]);
        let sums = |(s, sides, kind): (&Stage, u32, Kind)| {
            (s.each + u32::from(s.more > 0)) * sides * s.k.div_ceil(kind.span())
        };
        row == LONGEST || self.picks.is_none() && all.map(sums).all(|sums| sums <= slots(&kinds, row))
    }

    /// Whether one of its commands writes something there.
    fn stores_to(&self, range: Range) -> bool {
        self.writes.iter().any(|&w| meet(range, w))
    }

    /// Whether one reads or writes something there.
    fn touches(&self, range: Range) -> bool {
        self.stores_to(range) || self.reads.iter().any(|&r| meet(range, r))
    }

    /// The last product is one of picked matrices.
    fn mark(&mut self, kind: u32) {
        if let Some(stage) = self.stages.last_mut() {
            stage.flags |= kind;
        }
    }

    /// The last product whose only result lies at `address`, so many bytes long.
    fn maker(&self, address: u64, bytes: u64) -> Option<usize> {
        (0..self.stages.len()).rev().find(|&i| self.stages[i].results[0] == address && self.made[i] == bytes)
    }

    /// The products that made the arrays which are read after another, if they are made here.
    fn makers(&self, j: &Joined) -> SmallVec<[Option<usize>; 2]> {
        let rows = 2 * j.matrices[0].rows as u64;
        stored_after(j).iter().map(|&a| self.maker(a, rows)).collect()
    }

    /// Whether a product takes the last one's result as its row, and touches what others do in no other way.
    fn fits(&self, j: &Joined, reads: &[Range], writes: &[Range]) -> bool {
        let (x, rows) = ((j.x, 2 * j.k as u64), 2 * j.matrices[0].rows as u64);
        let follows = match (self.stages.len().checked_sub(1), self.open_sum(), &self.front) {
            (_, Some(sum), _) => sum == x && j.norm.is_some(),
            (Some(last), None, _) => self.maker(x.0, x.1) == Some(last),
            (None, None, front) => front.as_ref().is_some_and(|f| f.made == x),
        };
        if self.products() == STAGES || !follows {
            return false;
        }
        let (arrays, makers) = (stored_after(j), self.makers(j));
        let known =
            |r: Range| r == x || arrays.iter().zip(&makers).any(|(&a, m)| m.is_some() && r == (a, rows));
        let foreign = |r: &Range| !known(*r) && self.stores_to(*r);
        // An element is read by the thread that stores over it.
        let stored = |w: &Range| arrays.contains(&w.0) && w.1 == rows;
        let over = |w: &Range| !stored(w) && self.touches(*w);
        !reads.iter().any(foreign) && !writes.iter().any(over)
    }

    /// Adds a product that fits.
    fn add(&mut self, j: &Joined, mut stage: Stage, reads: &[Range], writes: &[Range]) {
        let sum = self.close_sum();
        (stage.x, stage.x_tag) = match (&sum, self.stages.len().checked_sub(1)) {
            (Some(sum), _) => (sum.x, sum.x_tag),
            (None, Some(last)) => self.words_of(last),
            (None, None) => self.front.as_ref().map_or((stage.x, 0), |f| f.words),
        };
        for (k, maker) in self.makers(j).into_iter().enumerate() {
            if let Some(i) = maker {
                (stage.results[k + 1], stage.array_tags[k]) = self.words_of(i);
            }
        }
        self.push(j, stage, reads, writes);
        if let Some(sum) = sum {
            self.sum_before(&sum);
        }
    }
}

impl Chain for Chained {
    fn count(&self) -> usize {
        let within = matches!(self.picks, Some((Picked::Within(_), _)));
        self.stages.len() + usize::from(self.front.is_some()) + usize::from(within)
    }

    fn launch(&self, device: &'static Device) -> Result<Launch> {
        let (key, args) = self.program();
        let pipeline = device.pipeline(&key)?;
        let (push, late) = (self.told(&args), Some(self.late.clone()));
        Ok(Launch { pipeline, push, groups: [self.workgroups, 1, 1], late })
    }

    fn any(&mut self) -> &mut dyn Any {
        self
    }

    fn take_in(&mut self, next: &dyn Any, asked: bool) -> bool {
        let Some(chosen) = next.downcast_ref() else { return false };
        let fits = self.chooses(chosen);
        if fits && !asked {
            self.choose(chosen);
        }
        fits
    }
}

/// A product as a stage, if there is a kernel for it; what it makes words of, and the number of what comes after it, come later.
fn stage(j: &Joined, holds: Kind, workgroups: u32) -> Option<Stage> {
    if j.m != 1 || j.picks.is_some() || j.combined.is_some() || !stream::knows(j.dtype, j.after) {
        return None;
    }
    let mut s = Stage {
        x: j.x,
        norm: j.norm.map_or(0, |n| n.0),
        eps: j.norm.map_or(0.0, |n| n.1),
        kept: j.kept.unwrap_or(0),
        // FITS: `takes` bounds the length of rows.
        k: j.k as u32,
        ..Stage::default()
    };
    s.starts = [0, NEVER, NEVER];
    let mut all = 0;
    for (i, m) in j.matrices.iter().enumerate() {
        let aligned = m.parts[0].is_multiple_of(16) && m.parts[1..].iter().all(|p| p.is_multiple_of(4));
        let n = tiles(m.rows).filter(|_| aligned)?;
        (s.codes[i], s.scales[i], s.biases[i]) = m.parts.into();
        s.starts[i] = all;
        all += n;
    }
    // Of two at once the text knows where the second begins.
    let sides = if j.pair() { 2 } else { 1 };
    let spans = s.k.div_ceil(holds.span());
    let c = cut(all / sides, sides, spans, workgroups, holds.slots(holds.row(s.k)))?;
    (s.each, s.more) = (c.each, c.more);
    s.results[..j.results.len()].copy_from_slice(j.results);
    s.added[..j.added.len()].copy_from_slice(j.added);
    Some(s)
}

/// Whether a product of one row is one of those that are held back.
pub fn suits(device: &'static Device, s: &Shape) -> bool {
    let one = s.m == 1 && s.batch == 1 && s.matrices == 1 && s.transpose && !s.runs;
    one && tiles(s.n).is_some() && takes(device.profile(), s.format, s.dtype, [s.k, 0])
}

/// Memory for words of a chain, with its first tag: products', and behind those what a front leaves.
fn words(enc: &mut CommandEncoder) -> Result<(u64, u32)> {
    enc.tagged(PRODUCTS + front::BYTES, STAGES as u32)
}

/// Adds the product to the chain that is held back, or begins one; whether there is a kernel for it. It is the same kernel for one product
/// as for many, so that bits do not depend on what the stream records when.
pub fn run(enc: &mut CommandEncoder, j: &Joined, reads: &[Range], writes: &[Range]) -> Result<bool> {
    let device = enc.device();
    let p = device.profile();
    let lengths = [j.k, i64::from(j.norm.is_some())];
    let holds = kind(p, j.format, j.dtype, lengths).filter(|_| device.warpgroups());
    let Some(holds) = holds else { return Ok(false) };
    let Some(stage) = stage(j, holds, p.features.units) else { return Ok(false) };
    enc.describe(2.0 * j.rows() as f64 * j.k as f64, &[1, j.m, j.rows(), j.k]);
    let alike = |c: &Chained| c.dtype == j.dtype && c.takes(holds);
    let fits = |c: &Chained| alike(c) && c.fits(j, reads, writes) && c.has_room(j, &stage);
    if enc.extend(reads, writes, fits, |c: &mut Chained| c.add(j, stage, reads, writes))? {
        return Ok(true);
    }
    let words = words(enc)?;
    let mut writes: SmallVec<[Range; 8]> = SmallVec::from_slice(writes);
    writes.push((words.0, PRODUCTS as u64));
    let mut chain = Chained::new(j.dtype, p.features.units, words);
    chain.push(j, stage, reads, &writes);
    enc.hold(Box::new(chain), reads, &writes)?;
    Ok(true)
}

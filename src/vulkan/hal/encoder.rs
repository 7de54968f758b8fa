//! Records operations of a stream straight into command buffers: brings their data onto the device, notes who reads and
//! writes it, and hands each dispatch with the byte ranges it touches to the stream's `recorder`.

use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use smallvec::SmallVec;

use super::deferred;
use super::device::Device;
use super::held::{Chain, Held};
use super::progress::Early;
use super::recorder::touched;
use super::stream::{Point, StreamState};
use crate::bail;
use crate::core::{DeviceBlock, Error, Result, Storage, trace};
use crate::vulkan::memory::{Block, Kind, crossing, transfer};
use crate::vulkan::report::compile_only;
use crate::vulkan::report::profile::Work;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Pipeline, Source};

/// Bytes of a chunk of the parameter ring.
const PARAMS_CHUNK: usize = 256 << 10;
/// Words that kernels count in (see [`CommandEncoder::counters`]).
pub(in crate::vulkan) const COUNTERS: usize = 16 << 10;

/// What an operation keeps until its end.
#[derive(Default)]
pub(crate) struct OpState {
    params: Option<Arc<Block>>,
    params_used: usize,
    /// Zeros that kernels count in, and the next to hand out.
    counters: Option<(Arc<dyn DeviceBlock>, usize)>,
    touched: Vec<(Arc<dyn DeviceBlock>, bool)>,
    /// Words of chains, and the last tag in them.
    words: Option<(Arc<dyn DeviceBlock>, u32)>,
    /// The number of the stream's progress.
    progress: Option<Arc<dyn DeviceBlock>>,
    /// A command of it was recorded.
    begun: bool,
}

/// Records one operation of a stream. Made by [`crate::vulkan::with_encoder`]; do not enter the same stream again
/// while one exists.
pub struct CommandEncoder {
    state: &'static StreamState,
    op: MutexGuard<'static, OpState>,
    /// `submitted` when the operation began: blocks are noted again if batches were submitted meanwhile.
    start: u64,
    /// What the next dispatch works on, while a profile runs.
    work: Option<Work>,
}

fn as_block(block: &dyn DeviceBlock) -> Result<&Block> {
    match block.as_any().downcast_ref::<Block>() {
        Some(b) => Ok(b),
        None => bail!(Runtime, "[vulkan] A device block of another backend."),
    }
}

impl CommandEncoder {
    pub(crate) fn new(state: &'static StreamState) -> Result<CommandEncoder> {
        let me = thread_mark();
        if state.owner.load(Ordering::Relaxed) == me {
            bail!(Runtime, "[vulkan] A stream's encoder was asked for inside an operation on that stream.");
        }
        let mut op = state.op.lock().unwrap_or_else(|e| e.into_inner());
        op.begun = false;
        state.owner.store(me, Ordering::Relaxed);
        Ok(CommandEncoder { state, op, start: state.submitted.load(Ordering::Acquire), work: None })
    }

    /// The device that the stream belongs to.
    pub fn device(&self) -> &'static Device {
        self.state.device
    }

    /// Where the open batch will end.
    pub(in crate::vulkan) fn point(&self) -> Point {
        Point { stream: self.state, value: self.state.open_value() }
    }

    /// Notes a read of `block` by this operation, behind its last write.
    fn note_read(&mut self, block: Arc<dyn DeviceBlock>) -> Result<u64> {
        let b = as_block(&*block)?;
        if let Some(write) = b.read(self.point())? {
            self.state.wait_for(write)?;
        }
        let address = b.address();
        self.op.touched.push((block, false));
        Ok(address)
    }

    /// Notes a write of `block` by this operation, behind all uses elsewhere.
    pub(in crate::vulkan) fn note_write(&mut self, block: Arc<dyn DeviceBlock>) -> Result<u64> {
        let b = as_block(&*block)?;
        for p in b.overwrite(self.point()) {
            self.state.wait_for(p)?;
        }
        let address = b.address();
        self.op.touched.push((block, true));
        Ok(address)
    }

    fn on_device(&mut self, s: &Storage) -> Result<Arc<dyn DeviceBlock>> {
        let id = self.state.device.id();
        if let Some(b) = s.device_block(id) {
            return Ok(b);
        }
        if let Some(b) = s.cross(id, |from, n| crossing::cross(self.state, from, n))? {
            return Ok(b);
        }
        s.ensure_device(id, |src, n| {
            // SAFETY: the storage hands out n valid bytes.
            let block = unsafe { transfer::upload(self.state, src, n) }?;
            Ok(block)
        })
    }

    /// Address of a storage's bytes for reading: uploads them if needed, and orders the read behind writes
    /// of other streams.
    pub fn resident(&mut self, s: &Storage) -> Result<u64> {
        let block = self.on_device(s)?;
        self.note_read(block)
    }

    /// Fresh device storage that this stream is about to write.
    pub fn output(&mut self, nbytes: usize) -> Result<(Arc<Storage>, u64)> {
        let block: Arc<dyn DeviceBlock> =
            self.state.device.alloc_kind(Kind::Device, nbytes, Some(self.state))?;
        let address = self.note_write(block.clone())?;
        Ok((Storage::from_device(block, nbytes), address))
    }

    /// Fresh device storage with bytes that `fill` provides, piece by piece and in order; each piece but the
    /// last is a multiple of 4096 bytes long.
    pub fn filled(
        &mut self,
        nbytes: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<Arc<Storage>> {
        let block = transfer::upload_with(self.state, nbytes, fill)?;
        Ok(Storage::from_device(block, nbytes))
    }

    /// Address of a donated storage that this stream is about to overwrite; its host copy is forgotten.
    pub fn overwrite(&mut self, s: &Storage) -> Result<u64> {
        let block = self.on_device(s)?;
        let address = self.note_write(block)?;
        s.invalidate_host();
        Ok(address)
    }

    /// Scratch for this operation, not initialised. Its accesses count in `dispatch` like any others.
    pub fn temp(&mut self, nbytes: usize) -> Result<u64> {
        let block = self.state.device.alloc_kind(Kind::Device, nbytes, Some(self.state))?;
        self.note_write(block)
    }

    /// `n` words (at most [`COUNTERS`]) that are zero, and zero again when the kernel that takes them ends.
    pub fn counters(&mut self, n: usize) -> Result<u64> {
        // Those that an operation which failed wrote may not be zero.
        let zeros = |c: &(Arc<dyn DeviceBlock>, usize)| as_block(&*c.0).is_ok_and(|b| b.last_write().is_ok());
        let (block, next) = match self.op.counters.take().filter(zeros) {
            Some(c) => c,
            None => (self.zeros(4 * COUNTERS, &Fill { once: false })?, 0),
        };
        let start = if next + n > COUNTERS { 0 } else { next };
        self.op.counters = Some((block.clone(), start + n));
        Ok(self.note_write(block)? + 4 * start as u64)
    }

    /// Copies parameters to memory that kernels of this operation read; 16-byte aligned.
    pub fn params(&mut self, bytes: &[u8]) -> Result<u64> {
        let start = self.op.params_used.next_multiple_of(16);
        let fits = self.op.params.as_ref().is_some_and(|c| start + bytes.len() <= c.capacity() as usize);
        let (chunk, start) = match &self.op.params {
            Some(c) if fits => (c.clone(), start),
            _ => {
                // The old chunk goes back to the pool, and comes out again when the GPU is past its uses.
                let n = bytes.len().max(PARAMS_CHUNK);
                let chunk = self.state.device.alloc_kind(Kind::Params, n, None)?;
                self.op.params = Some(chunk.clone());
                (chunk, 0)
            }
        };
        let Some(host) = chunk.host() else { bail!(Runtime, "[vulkan] Parameter memory is not mapped.") };
        // SAFETY: the range lies inside the chunk and was not handed out before.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), host.as_ptr().add(start), bytes.len()) };
        self.op.params_used = start + bytes.len();
        let address = chunk.address() + start as u64;
        chunk.touch(self.point(), false);
        let id = Arc::as_ptr(&chunk).cast::<u8>();
        if !self.op.touched.iter().any(|(b, _)| Arc::as_ptr(b).cast::<u8>() == id) {
            self.op.touched.push((chunk, false));
        }
        Ok(address)
    }

    /// The number of the stream's progress.
    fn progress(&mut self) -> Result<u64> {
        let number = self.state.lock_rec().progress.number;
        let block = match self.op.progress.take().filter(|_| number != 0) {
            Some(block) => block,
            None => self.zeros(4, &Fill { once: true })?,
        };
        self.op.progress = Some(block.clone());
        let address = self.note_write(block)?;
        if number != address {
            let mut r = self.state.lock_rec();
            r.progress.anew(address);
            // The next command comes behind its zero.
            r.hazards.touch_all();
        }
        Ok(address)
    }

    /// Runs a kernel in PTX as [`CommandEncoder::dispatch`] does, while the commands before it end: it waits for them by itself before it
    /// reads ranges that begin at `late` or writes anything. Its program is told [`BYTES`](super::progress::BYTES) more.
    pub(in crate::vulkan) fn dispatch_early(
        &mut self,
        pipeline: &Arc<Pipeline>,
        push: &[u8],
        groups: [u32; 3],
        [reads, writes]: [&[(u64, u64)]; 2],
        late: &[u64],
    ) -> Result<()> {
        let number = self.progress()?;
        self.run(pipeline, push, groups, [reads, writes], Some(&Early { number, late }))
    }

    /// The same behind barriers, for programs that gain nothing by beginning early.
    pub(in crate::vulkan) fn dispatch_behind(
        &mut self,
        pipeline: &Arc<Pipeline>,
        push: &[u8],
        groups: [u32; 3],
        [reads, writes]: [&[(u64, u64)]; 2],
    ) -> Result<()> {
        self.run(pipeline, push, groups, [reads, writes], Some(&Early { number: 0, late: &[] }))
    }

    /// Runs a kernel over `groups` workgroups. `reads` and `writes` are the exact byte ranges (address,
    /// length) it touches, parameters excepted: a barrier is recorded where they meet earlier ones.
    pub fn dispatch(
        &mut self,
        pipeline: &Arc<Pipeline>,
        push: &[u8],
        groups: [u32; 3],
        reads: &[(u64, u64)],
        writes: &[(u64, u64)],
    ) -> Result<()> {
        self.run(pipeline, push, groups, [reads, writes], None)
    }

    fn run(
        &mut self,
        pipeline: &Arc<Pipeline>,
        push: &[u8],
        groups: [u32; 3],
        [reads, writes]: [&[(u64, u64)]; 2],
        early: Option<&Early<'_>>,
    ) -> Result<()> {
        if groups.contains(&0) {
            return Ok(());
        }
        let device = self.state.device;
        let f = device.features();
        if push.len() > f.push_constants as usize || !push.len().is_multiple_of(4) {
            bail!(
                Runtime,
                "[vulkan] {}: push constants take at most {} bytes in multiples of 4, got {}.",
                pipeline.name(),
                f.push_constants,
                push.len()
            );
        }
        if groups[0] > f.max_groups_x || groups[1] > f.max_groups_y || groups[2] > f.max_groups_z {
            bail!(
                Runtime,
                "[vulkan] {}: the grid {groups:?} exceeds the device's {:?}.",
                pipeline.name(),
                [f.max_groups_x, f.max_groups_y, f.max_groups_z]
            );
        }
        if compile_only::drops() {
            pipeline.hits.fetch_add(1, Ordering::Relaxed);
            return pipeline.wait().map(drop);
        }
        let mut r = self.state.lock_rec();
        r.begin(self.state)?;
        self.op.begun = true;
        let work = self.work.take();
        // SAFETY: the caller vouches for the addresses in `push`.
        unsafe { r.command(self.state, (pipeline, push, groups), [reads, writes], early, work)? };
        r.count(self.state, touched(reads, writes))
    }

    /// Holds a command back, as the first of a chain; `reads` and `writes` as in [`CommandEncoder::dispatch`].
    pub(in crate::vulkan) fn hold(
        &mut self,
        chain: Box<dyn Chain>,
        reads: &[(u64, u64)],
        writes: &[(u64, u64)],
    ) -> Result<()> {
        self.op.begun = true;
        let number = self.progress()?;
        let (reads, writes) = (reads.into(), writes.into());
        let held = Held { chain, reads, writes, number, work: self.work.take() };
        self.state.lock_rec().hold(self.state, held)
    }

    /// Before a chain is held whose first command has workgroups that wait for each other: see [`Turn`](super::held::Turn).
    pub(in crate::vulkan) fn take_turn(&mut self) -> Result<()> {
        self.state.device.turn.take(self.state)
    }

    /// Adds a command to the chain that is held, if it fits; whether it did.
    pub(in crate::vulkan) fn extend<T: Chain>(
        &mut self,
        reads: &[(u64, u64)],
        writes: &[(u64, u64)],
        fits: impl Fn(&T) -> bool,
        add: impl FnOnce(&mut T),
    ) -> Result<bool> {
        let mut add = Some(add);
        self.extend_by(reads, writes, &mut |chain, asked| {
            let Some(chain) = chain.any().downcast_mut().filter(|c| fits(c)) else { return false };
            if let Some(add) = add.take_if(|_| !asked) {
                add(chain);
            }
            true
        })
    }

    /// Offers a command to the chain that is held, whatever that is; whether it took it in.
    pub(in crate::vulkan) fn offer(
        &mut self,
        next: &dyn Any,
        reads: &[(u64, u64)],
        writes: &[(u64, u64)],
    ) -> Result<bool> {
        self.extend_by(reads, writes, &mut |chain, asked| chain.take_in(next, asked))
    }

    fn extend_by(
        &mut self,
        reads: &[(u64, u64)],
        writes: &[(u64, u64)],
        by: &mut dyn FnMut(&mut dyn Chain, bool) -> bool,
    ) -> Result<bool> {
        let mut turn = false;
        loop {
            let mut r = self.state.lock_rec();
            let Some(held) = r.held(self.state) else { return Ok(false) };
            turn |= held.chain.count() > 1;
            if !by(&mut *held.chain, true) {
                return Ok(false);
            }
            if !turn {
                // Another stream's recorder may be waited for.
                drop(r);
                self.state.device.turn.take(self.state)?;
                turn = true;
                continue;
            }
            by(&mut *held.chain, false);
            held.reads.extend_from_slice(reads);
            held.writes.extend_from_slice(writes);
            if let (Some(all), Some(work)) = (&mut held.work, &self.work.take()) {
                all.flops += work.flops;
            }
            r.counted(self.state, touched(reads, writes));
            self.op.begun = true;
            return Ok(true);
        }
    }

    /// What is to be known of the command that is held back, if it is a `T`.
    pub(in crate::vulkan) fn ask_held<T: Chain, R>(&self, ask: impl Fn(&T) -> Option<R>) -> Option<R> {
        let mut r = self.state.lock_rec();
        r.held(self.state)?.chain.any().downcast_ref().and_then(ask)
    }

    /// Takes the command that is held back out of what is recorded, if it is such a `T`, for the next one, which does what it would have
    /// done; what that reads and writes.
    pub(in crate::vulkan) fn take_held<T: Chain>(
        &mut self,
        is: impl Fn(&T) -> bool,
    ) -> Option<[SmallVec<[(u64, u64); 16]>; 2]> {
        let mut r = self.state.lock_rec();
        r.held(self.state).and_then(|h| h.chain.any().downcast_ref()).filter(|&c| is(c))?;
        let held = r.held.take()?;
        Some([held.reads, held.writes[..].into()])
    }

    /// The batch lacks a command of an earlier operation, too.
    pub(in crate::vulkan) fn fail(&self, error: &Error) {
        deferred::fail(self.point(), error, true);
    }

    /// A block of its own for this stream, full of zeros.
    fn zeros(&mut self, nbytes: usize, fill: &Fill) -> Result<Arc<dyn DeviceBlock>> {
        let block: Arc<dyn DeviceBlock> =
            self.state.device.alloc_kind(Kind::Device, nbytes, Some(self.state))?;
        let address = self.note_write(block.clone())?;
        self.fill_by(fill, (address, nbytes as u64), 0)?;
        Ok(block)
    }

    /// Memory for words that carry tags, of `nbytes` that never change, and `n` tags that none of them has.
    pub(in crate::vulkan) fn tagged(&mut self, nbytes: usize, n: u32) -> Result<(u64, u32)> {
        let (block, last) = match self.op.words.take() {
            Some((block, last)) if last <= u32::MAX - n => (block, last),
            _ => (self.zeros(nbytes, &Fill { once: true })?, 0),
        };
        self.op.words = Some((block.clone(), last + n));
        Ok((self.note_write(block)?, last + 1))
    }

    /// The operation failed: nobody may read what it has begun to overwrite.
    pub(in crate::vulkan) fn spoil(&mut self, error: &Error) {
        if self.op.begun {
            let written = self.op.touched.iter().filter(|t| t.1).filter_map(|t| as_block(&*t.0).ok());
            written.for_each(|block| block.spoil(error));
        }
    }

    /// Submits what was recorded and waits for it, amid an operation; interruptible. The host may read what was written.
    pub(in crate::vulkan) fn drain(&mut self) -> Result<()> {
        self.for_host();
        let value = self.state.open_value();
        self.state.flush()?;
        self.state.wait(value)
    }

    /// The host will read what this batch writes.
    pub(in crate::vulkan) fn for_host(&mut self) {
        self.state.lock_rec().to_host = true;
    }

    /// Tells profiles how many floating point operations the next dispatch makes, and the sizes that decide them.
    pub fn describe(&mut self, flops: f64, dims: &[i64]) {
        if trace::on() {
            self.work = Some(Work { flops, dims: dims.iter().map(|&d| d as u64).collect() });
        }
    }

    /// Adds to the work of the open batch, in bytes of memory traffic that would take as long. For kernels
    /// bound by arithmetic, so that a batch does not grow long enough to trip a watchdog.
    pub fn add_work(&mut self, bytes: u64) {
        self.state.lock_rec().bytes += bytes;
    }

    /// Sets every 32-bit word of the range (address, length in bytes) to `value`; bytes beyond the last
    /// whole word take the value's low bytes. The address is 4-byte aligned.
    pub fn fill(&mut self, range: (u64, u64), value: u32) -> Result<()> {
        self.fill_by(&Fill { once: false }, range, value)
    }

    fn fill_by(&mut self, key: &Fill, range: (u64, u64), value: u32) -> Result<()> {
        /// Bytes that a dispatch fills: it counts words by 32 bits.
        const MOST: u64 = 4 << 30;
        let (address, bytes) = range;
        if !address.is_multiple_of(4) {
            bail!(Runtime, "[vulkan] fill needs an address aligned to 4 bytes, got {address:#x}.");
        }
        if bytes == 0 {
            return Ok(());
        }
        if bytes > MOST {
            self.fill_by(key, (address, MOST), value)?;
            return self.fill_by(key, (address + MOST, bytes - MOST), value);
        }
        let pipeline = self.state.device.pipeline(key)?;
        let mut push = [0u8; 24];
        push[..8].copy_from_slice(&address.to_ne_bytes());
        push[8..16].copy_from_slice(&bytes.to_ne_bytes());
        push[16..20].copy_from_slice(&value.to_ne_bytes());
        let each = if address.is_multiple_of(16) { 16 } else { 4 };
        let groups = bytes.div_ceil(each * 256).min(16_384) as u32;
        self.dispatch(&pipeline, &push, [groups, 1, 1], &[], &[range])
    }
}

/// A number that no other living thread has, never 0.
pub(super) fn thread_mark() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|m| std::ptr::from_ref(m) as usize)
}

impl Drop for CommandEncoder {
    fn drop(&mut self) {
        self.state.owner.store(0, Ordering::Relaxed);
        // A batch submitted meanwhile (it was full, or another thread waited for a block) moved later
        // commands of this operation into the next batch: note the blocks again with it.
        if self.state.submitted.load(Ordering::Acquire) != self.start {
            let point = Point { stream: self.state, value: self.state.recorded.load(Ordering::Acquire) };
            for (block, write) in &self.op.touched {
                if let Ok(b) = as_block(&**block) {
                    b.touch(point, *write);
                }
            }
        }
        self.op.touched.clear();
    }
}

/// Key of the kernel behind [`CommandEncoder::fill`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Fill {
    /// Of memory that a stream keeps.
    once: bool,
}

impl KernelKey for Fill {
    fn name(&self) -> String {
        if self.once { "once_fill" } else { "fill" }.into()
    }

    fn module(&self, _: &crate::vulkan::Features) -> Module {
        Module { source: Source::File("fill.comp"), ..Default::default() }
    }
}

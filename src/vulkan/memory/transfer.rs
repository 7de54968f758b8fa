//! Bytes between host and device. Unified memory is a memcpy. Else small arrays are written by the host
//! straight into host-visible device memory; the others go through staging, downloads through cached
//! staging. Large ones go in pieces on a queue of their own, beside the kernels.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::copy::copy;
use super::{Block, Kind, Region};
use crate::bail;
use crate::core::env::KernelVariant;
use crate::core::{DeviceBlock, Result, trace};
use crate::vulkan::hal::stream::{Point, StreamState};
use crate::vulkan::tune::transfer::{DIRECT, DIRECT_WITHOUT_BAR, PIECE, PIECES, SMALL};

pub static COPY_QUEUE: KernelVariant =
    KernelVariant::new("copy_queue", "large copies on the stream that needs them");

/// A block holding `bytes` from `src`, ready for commands of `state`.
///
/// # Safety
/// `src` must be valid for `bytes` of reads.
pub(crate) unsafe fn upload(state: &'static StreamState, src: *const u8, bytes: usize) -> Result<Arc<Block>> {
    // SAFETY: by the caller.
    unsafe { upload_from(state, src, bytes, SMALL) }
}

/// As [`upload`]; copies of more than `small` bytes run beside the kernels of `state`.
///
/// # Safety
/// As `upload`.
pub(in crate::vulkan) unsafe fn upload_from(
    state: &'static StreamState,
    src: *const u8,
    bytes: usize,
    small: usize,
) -> Result<Arc<Block>> {
    let mut at = 0;
    upload_pieces(state, bytes, (small, PIECE), &mut |dst: &mut [u8]| {
        // SAFETY: by the caller; the pieces are asked for in order and are `bytes` long together.
        unsafe { copy(src.add(at), dst.as_mut_ptr(), dst.len()) };
        at += dst.len();
        Ok(())
    })
}

/// A block of `bytes` that `fill` provides, ready for commands of `state`: it is called with one piece of
/// host-visible memory after the other, each but the last a multiple of 4096 bytes long.
pub(crate) fn upload_with(
    state: &'static StreamState,
    bytes: usize,
    fill: &mut dyn FnMut(&mut [u8]) -> Result<()>,
) -> Result<Arc<Block>> {
    upload_pieces(state, bytes, (SMALL, PIECE), fill)
}

/// As [`upload_with`]; copies of more than `small` bytes run beside the kernels of `state`, in pieces of `piece` bytes.
pub(super) fn upload_pieces(
    state: &'static StreamState,
    bytes: usize,
    (small, piece): (usize, usize),
    fill: &mut dyn FnMut(&mut [u8]) -> Result<()>,
) -> Result<Arc<Block>> {
    let device = state.device;
    let _span = trace::span("upload", || format!("{bytes} bytes"));
    let direct = if device.features().bar { DIRECT } else { DIRECT_WITHOUT_BAR };
    // Memory in pieces is not mapped anywhere.
    let in_place = device.features().unified && bytes as u64 <= device.features().max_allocation;
    if in_place || bytes <= direct {
        let kind = if in_place { Kind::Device } else { Kind::Bar };
        let block = device.alloc_kind(kind, bytes, None)?;
        fill_block(&block, bytes, fill)?;
        return Ok(block);
    }
    // Large copies run beside the kernels; whoever reads the block waits for the copy's stream.
    let apart = bytes > small && !COPY_QUEUE.disabled();
    let state = if apart { device.upload_stream()? } else { state };
    let block = device.alloc_kind(Kind::Device, bytes, Some(state))?;
    for p in block.all_uses() {
        state.wait_for(p)?;
    }
    let mut pieces: VecDeque<u64> = VecDeque::new();
    let mut at = 0;
    while at < bytes {
        if pieces.len() == PIECES
            && let Some(value) = pieces.pop_front()
        {
            state.wait(value)?;
        }
        let n = piece.min(bytes - at);
        let staging = device.alloc_kind(Kind::Upload, n, None)?;
        fill_block(&staging, n, fill)?;
        pieces.push_back(record(state, (&staging, 0), (&block, at as u64), n as u64, false)?);
        if bytes > SMALL {
            state.flush()?;
        }
        at += n;
    }
    Ok(block)
}

/// Has the first `bytes` of a block written that the host sees and nothing uses.
fn fill_block(block: &Block, bytes: usize, fill: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()> {
    // Not every kind of block keeps its memory where the device is lost.
    let _driver = block.owner().driver()?;
    match block.host() {
        // SAFETY: the caller has just been given the block, which is at least so large, and nothing uses it.
        Some(host) => fill(unsafe { std::slice::from_raw_parts_mut(host.as_ptr(), bytes) }),
        None => bail!(Runtime, "[vulkan] Staging memory is not mapped."),
    }
}

/// Records a copy and notes it on both blocks.
pub(in crate::vulkan) fn record(
    state: &'static StreamState,
    src: (&Block, u64),
    dst: (&Block, u64),
    bytes: u64,
    to_host: bool,
) -> Result<u64> {
    let mut rec = state.lock_rec();
    // Noted first: a batch that is submitted may be told of as failed all the same.
    let point = Point { stream: state, value: state.open_value() };
    src.0.touch(point, false);
    dst.0.touch(point, true);
    rec.copy(state, (src.0.region(), src.1), (dst.0.region(), dst.1), bytes, to_host)
}

/// Copies bytes to memory from elsewhere, at which nobody is until that is done. Returns the batch that holds the copy.
pub(super) fn record_into(
    state: &'static StreamState,
    src: (&Block, u64),
    dst: (Region, u64),
    bytes: u64,
) -> Result<u64> {
    let mut rec = state.lock_rec();
    src.0.touch(Point { stream: state, value: state.open_value() }, false);
    rec.copy(state, (src.0.region(), src.1), dst, bytes, true)
}

/// Copies bytes from memory from elsewhere, at which nobody writes until that is done. Returns the batch that holds the copy.
pub(super) fn record_from(
    state: &'static StreamState,
    src: (Region, u64),
    dst: (&Block, u64),
    bytes: u64,
) -> Result<u64> {
    let mut rec = state.lock_rec();
    dst.0.touch(Point { stream: state, value: state.open_value() }, true);
    rec.copy(state, src, (dst.0.region(), dst.1), bytes, false)
}

/// A copy of a block's first bytes that was recorded behind the write that made them.
pub(super) struct Landing {
    staging: Arc<Block>,
    point: Point,
    pub bytes: usize,
}

/// Begins to copy the first `bytes` of a block to the host, if they are few and the last write is part of a batch that was
/// not submitted yet.
pub(super) fn begin_download(block: &Block, bytes: usize) -> Result<Option<Landing>> {
    if bytes == 0 || bytes > SMALL || bytes as u64 > block.capacity() || block.mapped().is_some() {
        return Ok(None);
    }
    let Some(write) = block.last_write()? else { return Ok(None) };
    let state = write.stream;
    if block.owner().is_lost() || state.submitted.load(Ordering::Acquire) >= write.value {
        return Ok(None);
    }
    let staging = block.owner().alloc_kind(Kind::Download, bytes, None)?;
    let value = record(state, (block, 0), (&staging, 0), bytes as u64, true)?;
    Ok(Some(Landing { staging, point: Point { stream: state, value }, bytes }))
}

/// Copies the first `bytes` of a block to the host, after its last write.
///
/// # Safety
/// `dst` must be valid for `bytes` of writes.
pub(crate) unsafe fn download(block: &Block, dst: *mut u8, bytes: usize) -> Result<()> {
    let device = block.owner();
    device.usable()?;
    let _span = trace::span("download", || format!("{bytes} bytes"));
    if bytes as u64 > block.capacity() {
        bail!(Runtime, "[vulkan] Download of {bytes} bytes from a block of {}.", block.capacity());
    }
    if let Some(host) = block.mapped() {
        block.wait_written()?;
        // SAFETY: by the caller; the block holds the bytes.
        unsafe { copy(host.as_ptr(), dst, bytes) };
        return Ok(());
    }
    if let Some(Landing { staging, point, .. }) = block.landing(bytes).map(|l| *l) {
        point.stream.wait(point.value)?;
        let Some(host) = staging.host() else { bail!(Runtime, "[vulkan] Staging memory is not mapped.") };
        // SAFETY: by the caller; the staging holds as many bytes, and the copy there is done.
        unsafe { copy(host.as_ptr(), dst, bytes) };
        return Ok(());
    }
    let mut pieces = Download::new(block, bytes, PIECE)?;
    let mut at = 0;
    while at < bytes {
        // SAFETY: by the caller; `at + n <= bytes`.
        at += pieces.next(|piece| unsafe { copy(piece.as_ptr(), dst.add(at), piece.len()) })?;
    }
    Ok(())
}

/// The first bytes of a block on their way to the host, after its last write: piece by piece and in order. Two pieces are
/// under way while the host has a third.
pub(super) struct Download<'a> {
    block: &'a Block,
    state: &'static StreamState,
    bytes: usize,
    piece: usize,
    at: usize,
    pieces: VecDeque<(Arc<Block>, u64, usize)>,
}

impl<'a> Download<'a> {
    /// Begins; the block has so many bytes and is not mapped.
    pub fn new(block: &'a Block, bytes: usize, piece: usize) -> Result<Download<'a>> {
        let write = block.last_write()?;
        let state = match write {
            Some(w) if COPY_QUEUE.disabled() => w.stream,
            // Not behind what was recorded since.
            Some(w) if bytes <= SMALL && w.stream.recorded.load(Ordering::Acquire) <= w.value => w.stream,
            _ => block.owner().download_stream()?,
        };
        if let Some(w) = write {
            state.wait_for(w)?;
        }
        let mut download = Download { block, state, bytes, piece, at: 0, pieces: VecDeque::new() };
        download.go_on()?;
        Ok(download)
    }

    fn go_on(&mut self) -> Result<()> {
        while self.at < self.bytes && self.pieces.len() < 2 {
            let n = self.piece.min(self.bytes - self.at);
            let staging = self.block.owner().alloc_kind(Kind::Download, n, None)?;
            let value = record(self.state, (self.block, self.at as u64), (&staging, 0), n as u64, true)?;
            self.state.flush()?;
            self.pieces.push_back((staging, value, n));
            self.at += n;
        }
        Ok(())
    }

    /// Hands out the next piece, of which there has to be one; how long it is.
    pub fn next(&mut self, take: impl FnOnce(&[u8])) -> Result<usize> {
        let Some((staging, value, n)) = self.pieces.pop_front() else {
            bail!(Runtime, "[vulkan] All {} bytes have come.", self.bytes)
        };
        self.state.wait(value)?;
        self.go_on()?;
        let Some(host) = staging.host() else { bail!(Runtime, "[vulkan] Staging memory is not mapped.") };
        // SAFETY: the staging holds so many bytes, and the copy there is done.
        take(unsafe { std::slice::from_raw_parts(host.as_ptr(), n) });
        Ok(n)
    }
}

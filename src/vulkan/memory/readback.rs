//! Batches on their way through the GPU: bytes go up and results come down on queues of their own, while the caller
//! records the next batch. Results stay in the staging memory they land in: the host reads it at full speed, so that
//! no copy follows the transfer.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::transfer;
use super::{Block, Kind};
use crate::bail;
use crate::core::{DeviceBlock, HostBlock, Result, Storage, Stream};
use crate::vulkan::hal::device::device;
use crate::vulkan::hal::stream::{Point, StreamState};
use crate::vulkan::memory::transfer::COPY_QUEUE;
use crate::vulkan::tune::transfer::SMALL_BATCH;

/// Copies host bytes to memory of the stream's device, beside its kernels. The bytes may change when it returns.
///
/// # Safety
/// `src` must be valid for `bytes` of reads.
///
/// # Errors
/// Value error for a stream of the CPU; what the device says.
pub unsafe fn put(stream: Stream, src: *const u8, bytes: usize) -> Result<Arc<Storage>> {
    let state = StreamState::of(stream)?;
    // SAFETY: by the caller.
    let block = unsafe { transfer::upload_from(state, src, bytes, SMALL_BATCH) }?;
    Ok(Storage::from_device(block, bytes))
}

/// Host memory that results come down to.
pub struct ReadbackBuffer(Arc<Block>);

/// A copy to the host under way.
pub struct Readback(Point);

impl ReadbackBuffer {
    /// Memory for `bytes` from GPU `index`; `None` where that is more than one allocation holds.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(index: u32, bytes: usize) -> Result<Option<ReadbackBuffer>> {
        let device = device(index)?;
        if bytes as u64 > device.features().max_allocation {
            return Ok(None);
        }
        let block = device.alloc_kind(Kind::Download, bytes, None)?;
        Ok(block.host().is_some().then_some(ReadbackBuffer(block)))
    }

    /// First byte.
    pub fn ptr(&self) -> NonNull<u8> {
        // INVARIANT: `new` saw the address.
        self.0.host().expect("mapped staging")
    }

    /// Copies `bytes` at `offset` of a block to byte `at`, after the block's last write. Returns at once.
    ///
    /// # Errors
    /// Runtime error for ranges outside either block, and what the device says.
    pub fn begin(&self, from: &dyn DeviceBlock, offset: u64, at: u64, bytes: usize) -> Result<Readback> {
        let Some(from) = from.as_any().downcast_ref::<Block>() else {
            bail!(Runtime, "[vulkan] A device block of another backend.");
        };
        let n = bytes as u64;
        let fits =
            |start: u64, block: &Block| start.checked_add(n).is_some_and(|end| end <= block.capacity());
        if !fits(offset, from) || !fits(at, &self.0) {
            bail!(Runtime, "[vulkan] A copy of {bytes} bytes lies outside its blocks.");
        }
        if bytes == 0 {
            // Vulkan has no such copies.
            return Ok(Readback(Point { stream: from.owner().download_stream()?, value: 0 }));
        }
        let write = from.last_write()?;
        let state = match write {
            Some(w) if COPY_QUEUE.disabled() => w.stream,
            // Not behind what was recorded since.
            Some(w) if bytes <= SMALL_BATCH && w.stream.recorded.load(Ordering::Acquire) <= w.value => {
                w.stream
            }
            _ => from.owner().download_stream()?,
        };
        if let Some(w) = write {
            state.wait_for(w)?;
        }
        let value = transfer::record(state, (from, offset), (&self.0, at), n, true)?;
        state.flush()?;
        Ok(Readback(Point { stream: state, value }))
    }

    /// The memory for arrays to keep; its copies must be done.
    pub fn into_host(self) -> HostBlock {
        HostBlock::lent(self.ptr(), Box::new(self.0))
    }
}

impl Readback {
    /// Blocks until the bytes are there; interruptible.
    ///
    /// # Errors
    /// Interrupted, or a lost device.
    pub fn wait(&self) -> Result<()> {
        self.0.stream.wait(self.0.value)
    }
}

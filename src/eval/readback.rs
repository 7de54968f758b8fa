//! Batches on their way through a device: arrays made from host bytes without a copy on the host, and results that
//! come down while the next batch computes. `python::pipeline` decides what is under way at once.

use std::sync::Arc;

use super::{flush_gpu, schedule};
use crate::bail;
use crate::core::layout::{checked_size, size_of};
use crate::core::{Array, Device, Dtype, HostBlock, Layout, Result, Shape, Storage, Stream, default_stream};
#[cfg(feature = "vulkan")]
use crate::vulkan;
use crate::{memory, ops};

/// An array of host bytes for kernels of `stream`. The bytes may change when it returns.
///
/// # Safety
/// `src` must be valid for reads of the elements.
pub unsafe fn put(src: *const u8, shape: &[i64], dtype: Dtype, stream: Stream) -> Result<Array> {
    let bytes = checked_size("pipeline", shape, dtype.size())? * dtype.size();
    #[cfg(feature = "vulkan")]
    if stream.device.is_gpu() && bytes > dtype.size() {
        // SAFETY: by the caller.
        let storage = unsafe { vulkan::put(stream, src, bytes) }?;
        return Array::from_data(Layout::contiguous(shape), dtype, storage);
    }
    // SAFETY: both sides have the elements and do not overlap.
    ops::from_host(shape, dtype, |dst| unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes) })
}

/// Where the parts of one result come together on the host.
pub struct HostBuffer {
    shape: Shape,
    dtype: Dtype,
    memory: Memory,
}

enum Memory {
    None,
    /// The only part itself, which the host can read.
    Whole(Array),
    Host(HostBlock),
    #[cfg(feature = "vulkan")]
    Staging(vulkan::ReadbackBuffer),
}

/// A part on its way.
pub struct Part {
    at: usize,
    source: Source,
}

enum Source {
    /// What the host waits for, and then reads.
    Array(Array),
    #[cfg(feature = "vulkan")]
    Readback(vulkan::Readback),
}

impl HostBuffer {
    /// For a result of `shape`.
    pub fn new(shape: Shape, dtype: Dtype) -> HostBuffer {
        HostBuffer { shape, dtype, memory: Memory::None }
    }

    /// Shape of the whole result.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn nbytes(&self) -> usize {
        size_of(&self.shape) * self.dtype.size()
    }

    /// Begins to bring a scheduled array down to byte `at`.
    fn begin(&mut self, a: &Array, at: usize) -> Result<Part> {
        #[cfg(feature = "vulkan")]
        if let Some(index) =
            a.data().ok().filter(|_| a.event().is_none()).and_then(|d| d.storage.only_on_gpu())
        {
            let a = dense(a, default_stream(Device { index, ..Device::GPU }))?;
            let d = a.data()?;
            if let Memory::None = self.memory
                && let Some(buffer) = vulkan::ReadbackBuffer::new(index, self.nbytes())?
            {
                self.memory = Memory::Staging(buffer);
            }
            if let (Memory::Staging(buffer), Some(block)) = (&self.memory, d.storage.any_device_block()) {
                let offset = d.offset as u64 * a.dtype().size() as u64;
                let readback = buffer.begin(&*block, offset, at as u64, a.nbytes())?;
                return Ok(Part { at, source: Source::Readback(readback) });
            }
        }
        Ok(Part { at, source: Source::Array(a.clone()) })
    }

    /// Waits until a part is there.
    ///
    /// # Errors
    /// Interrupted: the part is still on its way. Other errors are those of the part's computation.
    pub fn finish(&mut self, part: &Part) -> Result<()> {
        let a = match &part.source {
            Source::Array(a) => a,
            #[cfg(feature = "vulkan")]
            Source::Readback(readback) => return readback.wait(),
        };
        a.wait()?;
        if a.nbytes() == self.nbytes() && matches!(self.memory, Memory::None) {
            self.memory = Memory::Whole(a.clone());
            return Ok(());
        }
        if matches!(self.memory, Memory::None) {
            self.memory = Memory::Host(memory::host_block(self.nbytes())?);
        }
        let base = match &self.memory {
            Memory::Host(block) => block.ptr(),
            #[cfg(feature = "vulkan")]
            Memory::Staging(buffer) => buffer.ptr().as_ptr(),
            Memory::None | Memory::Whole(_) => bail!(Runtime, "[pipeline] Two parts for one place."),
        };
        if part.at + a.nbytes() > self.nbytes() {
            bail!(Runtime, "[pipeline] A part lies outside its result.");
        }
        let a = dense(a, default_stream(Device::CPU))?;
        let from = a.host_ptr()?;
        // SAFETY: the array is row-contiguous, the range lies inside the memory and no copy to it is under way.
        unsafe { std::ptr::copy_nonoverlapping(from, base.add(part.at), a.nbytes()) };
        Ok(())
    }

    /// The result; its parts must be finished.
    ///
    /// # Errors
    /// Runtime error where no part came.
    pub fn array(self) -> Result<Array> {
        let nbytes = self.nbytes();
        let block = match self.memory {
            Memory::Whole(a) => return Ok(a),
            Memory::Host(block) => block,
            #[cfg(feature = "vulkan")]
            Memory::Staging(buffer) => buffer.into_host(),
            Memory::None => bail!(Runtime, "[pipeline] A result without parts."),
        };
        let storage: Arc<Storage> = Storage::from_host(block, nbytes);
        Array::from_data(Layout::contiguous(&self.shape), self.dtype, storage)
    }
}

/// The evaluated array, or a copy in row-major order that `s` makes.
fn dense(a: &Array, s: Stream) -> Result<Array> {
    if a.layout()?.is_row_contiguous() {
        return Ok(a.clone());
    }
    let copy = ops::contiguous(a, false, s)?;
    schedule(std::slice::from_ref(&copy))?;
    Ok(copy)
}

/// Starts the computation of arrays and their way to the host, each to its place (bytes) in its buffer. Returns at
/// once.
///
/// # Errors
/// What goes wrong when the arrays are scheduled.
pub fn start(arrays: &[Array], buffers: &mut [HostBuffer], places: &[usize]) -> Result<Vec<Part>> {
    let streams = schedule(arrays)?;
    // Small copies join the batch of the kernels.
    let parts: Result<Vec<Part>> =
        arrays.iter().zip(buffers).zip(places).map(|((a, buffer), &at)| buffer.begin(a, at)).collect();
    flush_gpu(&streams)?;
    parts
}

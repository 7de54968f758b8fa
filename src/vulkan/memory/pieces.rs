//! Memory of an array that is more than one allocation of the driver holds: a sparse buffer, whose one range of addresses is
//! bound to several allocations. The host does not see it, not even where device and host share their memory, so that
//! its bytes cross through staging. Called by the pool.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use ash::vk;

use super::{Kind, Memory, Pool, RawBlock};
use crate::core::fault::Site;
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::fault::pass;
use crate::vulkan::hal::gate::Driver;
use crate::vulkan::hal::stream::Watchdog;

/// Waits for what a queue binds are cut into slices of this length.
const SLICE_NS: u64 = 50_000_000;

impl Pool {
    /// New memory from the driver, in pieces of as many bytes as one allocation holds.
    pub(super) fn create_pieces(
        &self,
        device: &Device,
        driver: &Driver<'_>,
        capacity: u64,
    ) -> Result<RawBlock, vk::Result> {
        if self.vma.read().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Ok(RawBlock::absent(Kind::Device, capacity));
        }
        self.has_room(capacity)?;
        let info = super::buffer_info(device, capacity).flags(vk::BufferCreateFlags::SPARSE_BINDING);
        // SAFETY: the description is complete; the device is there.
        let buffer = unsafe { driver.create_buffer(&info, None) }?;
        self.list_memory().insert(buffer, Memory::Pieces(Vec::new()));
        match self.bind_pieces(device, driver, buffer) {
            Ok(()) => {
                self.allocated.fetch_add(capacity, Ordering::Relaxed);
                let address = super::address_of(driver, buffer);
                Ok(RawBlock { buffer, address, mapped: None, capacity })
            }
            // The queue may still hold it; it goes with the device.
            Err(vk::Result::ERROR_DEVICE_LOST) => Err(vk::Result::ERROR_DEVICE_LOST),
            Err(e) => {
                // SAFETY: nobody has seen the buffer, and no queue has it.
                unsafe { self.give_back(driver, buffer) };
                Err(e)
            }
        }
    }

    /// Allocates the pieces of a sparse buffer and binds them.
    fn bind_pieces(
        &self,
        device: &Device,
        driver: &Driver<'_>,
        buffer: vk::Buffer,
    ) -> Result<(), vk::Result> {
        // SAFETY: the buffer was just created.
        let needs = unsafe { driver.get_buffer_memory_requirements(buffer) };
        let piece = device.features().max_allocation / needs.alignment * needs.alignment;
        let types = self.local_types & needs.memory_type_bits;
        if piece == 0 || types == 0 {
            return Err(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        }
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let mut binds: Vec<vk::SparseMemoryBind> = Vec::new();
        let mut at = 0;
        while at < needs.size {
            let size = piece.min(needs.size - at);
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(size)
                .memory_type_index(types.trailing_zeros())
                .push_next(&mut flags);
            pass(Site::Allocation)?;
            // SAFETY: the description is complete; the device is there.
            let memory = unsafe { driver.allocate_memory(&info, None) }?;
            self.created.fetch_add(1, Ordering::Relaxed);
            if let Some(Memory::Pieces(pieces)) = self.list_memory().get_mut(&buffer) {
                pieces.push(memory);
            }
            binds.push(vk::SparseMemoryBind::default().resource_offset(at).size(size).memory(memory));
            at += size;
        }
        bind(device, driver, buffer, &binds)
    }
}

/// Has a queue bind memory to a sparse buffer, and waits until that is done.
fn bind(
    device: &Device,
    driver: &Driver<'_>,
    buffer: vk::Buffer,
    binds: &[vk::SparseMemoryBind],
) -> Result<(), vk::Result> {
    let Some(queue) = device.sparse_queue() else { return Err(vk::Result::ERROR_FEATURE_NOT_PRESENT) };
    let buffers = [vk::SparseBufferMemoryBindInfo::default().buffer(buffer).binds(binds)];
    let info = vk::BindSparseInfo::default().buffer_binds(&buffers);
    // SAFETY: the device is there.
    let fence = unsafe { driver.create_fence(&vk::FenceCreateInfo::default(), None) }?;
    let asked = pass(Site::Submission).and_then(|()| {
        let queue = queue.lock();
        // SAFETY: the pieces were made for this buffer and cover it; the queue is locked and binds sparse memory.
        unsafe { driver.queue_bind_sparse(*queue, &[info], fence) }
    });
    let mut watchdog = Watchdog::new(device);
    let done = asked.and_then(|()| {
        loop {
            // SAFETY: the fence is of this device.
            match unsafe { driver.wait_for_fences(&[fence], true, SLICE_NS) } {
                Err(vk::Result::TIMEOUT) => watchdog.check().map_err(|_| vk::Result::ERROR_DEVICE_LOST)?,
                // What was asked for is under way, and nobody may free the pieces.
                Err(_) => return Err(vk::Result::ERROR_DEVICE_LOST),
                Ok(()) => return Ok(()),
            }
        }
    });
    if done == Err(vk::Result::ERROR_DEVICE_LOST) {
        device.made().fences.push(fence);
    } else {
        // SAFETY: no queue has the fence any more.
        unsafe { driver.destroy_fence(fence, None) };
    }
    done
}

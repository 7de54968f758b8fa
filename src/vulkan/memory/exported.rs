//! Memory of arrays that another API of the same GPU uses (VK_KHR_external_memory_fd): a file descriptor is handed out
//! once, and what was made of it lives as long as the memory. Processes of a group over NCCL have such memory, and those that
//! see several GPUs of one maker beside CUDA's driver.

#[cfg(unix)]
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;

use crate::core::env::{self, KernelVariant};
use crate::vulkan::hal::adapter::{AdapterInfo, Loader};
use crate::vulkan::tune::transfer::EXPORTED;

#[cfg(unix)]
use super::{Block, Memory, Pool, peer};
#[cfg(unix)]
use crate::core::{Error, Result, Storage};
#[cfg(unix)]
use crate::vulkan::hal::adapter::adapters;
#[cfg(unix)]
use crate::vulkan::hal::device::device;
#[cfg(unix)]
use crate::vulkan::tune::transfer::PEER;

pub static EXTERNAL_MEMORY: KernelVariant = KernelVariant::new(
    "external_memory",
    "collectives over NCCL, and copies between two GPUs, through memory of the host",
);

/// Bytes from which on blocks of a GPU may be wanted by another API: of NCCL where the environment names such a group, of
/// CUDA where other GPUs are there.
pub fn wanted(info: &AdapterInfo) -> Option<u64> {
    if cfg!(not(unix)) || EXTERNAL_MEMORY.disabled() {
        return None;
    }
    if env::foreign_text("NCCL_HOST_IP").is_some() {
        return Some(EXPORTED);
    }
    #[cfg(unix)]
    if adapters().iter().filter(|a| a.vendor_id == info.vendor_id).count() > 1 && peer::is_possible() {
        return Some(PEER as u64);
    }
    None
}

/// What a buffer says that lies in such memory.
pub fn buffer_info() -> vk::ExternalMemoryBufferCreateInfo<'static> {
    vk::ExternalMemoryBufferCreateInfo::default().handle_types(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD)
}

/// What other APIs made of a device's memory.
pub struct Exports {
    #[cfg_attr(not(unix), allow(dead_code))]
    fds: ash::khr::external_memory_fd::Device,
    least: u64,
    types: Vec<vk::ExternalMemoryHandleTypeFlagsKHR>,
    imports: Mutex<HashMap<vk::Buffer, Arc<dyn std::any::Any + Send + Sync>>>,
}

impl Exports {
    /// Blocks of so many bytes and more have memory of their own.
    pub fn new(loader: &Loader, info: &AdapterInfo, device: &ash::Device, least: u64) -> Exports {
        // SAFETY: plain query.
        let memory = unsafe { loader.instance.get_physical_device_memory_properties(info.physical) };
        let local = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        let kind = |t: &vk::MemoryType| match t.property_flags.contains(local) {
            true => vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD,
            false => vk::ExternalMemoryHandleTypeFlags::empty(),
        };
        Exports {
            fds: ash::khr::external_memory_fd::Device::new(&loader.instance, device),
            least,
            types: memory.memory_types_as_slice().iter().map(kind).collect(),
            imports: Mutex::default(),
        }
    }

    /// Bytes from which on blocks have memory of their own.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// What each type of memory can be exported as.
    pub fn types(&self) -> &[vk::ExternalMemoryHandleTypeFlagsKHR] {
        &self.types
    }

    /// The memory of a buffer is about to go.
    pub fn forget(&self, buffer: vk::Buffer) {
        drop(self.imports.lock().unwrap_or_else(PoisonError::into_inner).remove(&buffer));
    }
}

/// Fresh memory of a GPU that can be exported, for an array that another API is about to write.
///
/// # Errors
/// Out of memory, or a lost device.
#[cfg(unix)]
pub fn exportable(gpu: u32, nbytes: usize) -> Result<Option<Arc<Storage>>> {
    let device = device(gpu)?;
    if device.pool.exports.as_ref().is_none_or(|e| (nbytes as u64) < e.least) {
        return Ok(None);
    }
    Ok(Some(Storage::from_device(device.alloc(nbytes)?, nbytes)))
}

/// What `import` makes of the memory of an array, called once for as long as that memory lives, with its file and its
/// size. `None` where the array is not in such memory. Whoever uses the result keeps the storage.
///
/// # Errors
/// What the driver or `import` says.
#[cfg(unix)]
pub fn imported<T: Any + Send + Sync>(
    storage: &Storage,
    import: impl FnOnce(std::os::fd::OwnedFd, u64) -> Result<T>,
) -> Result<Option<Arc<T>>> {
    let Some(block) = storage.any_device_block() else { return Ok(None) };
    let Some(block) = block.as_any().downcast_ref::<Block>() else { return Ok(None) };
    imported_block(block, import)
}

/// As [`imported`], of a block.
#[cfg(unix)]
pub(super) fn imported_block<T: Any + Send + Sync>(
    block: &Block,
    import: impl FnOnce(std::os::fd::OwnedFd, u64) -> Result<T>,
) -> Result<Option<Arc<T>>> {
    let device = block.owner();
    let driver = device.driver()?;
    let Some(exports) = device.pool.exports.as_ref().filter(|e| block.capacity() >= e.least) else {
        return Ok(None);
    };
    let mut imports = exports.imports.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = imports.get(&block.buffer()) {
        return Ok(known.clone().downcast().ok());
    }
    let Some((memory, size)) = device.pool.own_memory(block.buffer()) else { return Ok(None) };
    let ask = vk::MemoryGetFdInfoKHR::default()
        .memory(memory)
        .handle_type(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD);
    // SAFETY: the memory was allocated to be exported, and the device is there as long as `driver` is.
    let fd = unsafe { exports.fds.get_memory_fd(&ask) }
        .map_err(|e| Error::Runtime(format!("[vulkan] vkGetMemoryFdKHR failed with {e}.")))?;
    drop(driver);
    // SAFETY: a descriptor that nobody else has.
    let fd = unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) };
    let made = Arc::new(import(fd, size)?);
    imports.insert(block.buffer(), made.clone());
    Ok(Some(made))
}

#[cfg(unix)]
impl Pool {
    /// The memory of a buffer that has one of its own, and its size.
    fn own_memory(&self, buffer: vk::Buffer) -> Option<(vk::DeviceMemory, u64)> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let vma = self.vma.read().unwrap_or_else(PoisonError::into_inner);
        let Memory::Whole(whole) = memory.get(&buffer)? else { return None };
        let told = vma.as_ref()?.get_allocation_info(whole);
        (told.offset == 0).then_some((told.device_memory, told.size))
    }
}

//! Memory that another API made on the same GPU and handed over as a file (VK_KHR_external_memory_fd): a buffer over all of
//! it.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use ash::vk;

use super::{Region, address_of, buffer_info, exported};
use crate::bail;
use crate::core::Result;
use crate::vulkan::hal::adapter::loader;
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::gate::Driver;

/// Memory of another API.
pub(in crate::vulkan) struct Foreign {
    device: &'static Device,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    address: u64,
}

impl Foreign {
    /// Imports memory of so many bytes.
    ///
    /// # Errors
    /// A device that imports nothing, or what the driver says.
    pub fn import(device: &'static Device, file: OwnedFd, bytes: u64) -> Result<Foreign> {
        if !device.features().external_memory {
            bail!(Runtime, "[vulkan] The device imports no memory.");
        }
        let driver = device.driver()?;
        let mut external = exported::buffer_info();
        let info = buffer_info(device, bytes).push_next(&mut external);
        // SAFETY: a whole description; the device is there.
        let buffer = device.check("vkCreateBuffer", unsafe { driver.create_buffer(&info, None) })?;
        let mut foreign = Foreign { device, buffer, memory: vk::DeviceMemory::null(), address: 0 };
        foreign.bind(&driver, file, bytes)?;
        Ok(foreign)
    }

    /// Binds the memory, as the first type of memory that the driver takes for it: those of the device first.
    fn bind(&mut self, driver: &Driver<'_>, file: OwnedFd, bytes: u64) -> Result<()> {
        // SAFETY: a buffer of this device.
        let needs = unsafe { driver.get_buffer_memory_requirements(self.buffer) };
        let physical = self.device.adapter().physical;
        let Some(loader) = loader() else { bail!(Runtime, "[vulkan] There is no loader.") };
        // SAFETY: plain query.
        let all = unsafe { loader.instance.get_physical_device_memory_properties(physical) };
        let local = |t: u32| {
            let kind = all.memory_types[t as usize].property_flags;
            kind.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)
        };
        let mut types: Vec<u32> =
            (0..all.memory_type_count).filter(|t| needs.memory_type_bits >> t & 1 == 1).collect();
        types.sort_by_key(|&t| !local(t));
        let mut refused = vk::Result::ERROR_INVALID_EXTERNAL_HANDLE;
        for kind in types {
            let Ok(copy) = file.try_clone() else { break };
            let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().buffer(self.buffer);
            let mut import = vk::ImportMemoryFdInfoKHR::default()
                .handle_type(vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD)
                .fd(copy.as_raw_fd());
            let mut flags =
                vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            let mut ask = vk::MemoryAllocateInfo::default()
                .allocation_size(bytes)
                .memory_type_index(kind)
                .push_next(&mut import)
                .push_next(&mut flags);
            if self.device.features().software {
                ask = ask.push_next(&mut dedicated);
            }
            // SAFETY: a whole description; the descriptor is the driver's where this succeeds.
            match unsafe { driver.allocate_memory(&ask, None) } {
                Ok(memory) => {
                    let _ = copy.into_raw_fd();
                    self.memory = memory;
                    break;
                }
                Err(e) => refused = e,
            }
        }
        if self.memory == vk::DeviceMemory::null() {
            bail!(Runtime, "[vulkan] vkAllocateMemory imports no memory of another API: {refused}.");
        }
        // SAFETY: memory and a buffer of the same size, bound once.
        let bound = unsafe { driver.bind_buffer_memory(self.buffer, self.memory, 0) };
        self.device.check("vkBindBufferMemory", bound)?;
        self.address = address_of(driver, self.buffer);
        Ok(())
    }

    /// All of it, for copies.
    pub(in crate::vulkan) fn region(&self) -> Region {
        Region { buffer: self.buffer, address: self.address }
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let Some(driver) = self.device.enter().filter(|_| !self.device.is_lost()) else { return };
        // SAFETY: whoever drops it has waited for the commands that use it.
        unsafe {
            driver.destroy_buffer(self.buffer, None);
            driver.free_memory(self.memory, None);
        }
    }
}

//! Memory that was not made here, with a buffer over all of it: of another API on the same GPU, handed over as a file
//! (VK_KHR_external_memory_fd), or of the host, which several GPUs may have at once (VK_EXT_external_memory_host).

#[cfg(unix)]
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::ptr::NonNull;

use ash::vk;

use super::{Region, address_of, buffer_info};
use crate::bail;
use crate::core::Result;
use crate::vulkan::hal::adapter::{Loader, loader};
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::gate::Driver;

/// Memory of another API, or of the host.
pub(in crate::vulkan) struct Foreign {
    device: &'static Device,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    address: u64,
}

/// Where memory comes from.
enum Source {
    #[cfg(unix)]
    File(OwnedFd),
    Host(NonNull<u8>),
}

impl Source {
    fn handle(&self) -> vk::ExternalMemoryHandleTypeFlags {
        match self {
            #[cfg(unix)]
            Source::File(_) => vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD,
            Source::Host(_) => vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT,
        }
    }

    /// The types of memory that it may be.
    fn types(&self, device: &Device, driver: &Driver<'_>, loader: &Loader) -> u32 {
        match self {
            #[cfg(unix)]
            Source::File(_) => u32::MAX,
            Source::Host(at) => {
                let functions = ash::ext::external_memory_host::Device::new(&loader.instance, driver);
                let mut told = vk::MemoryHostPointerPropertiesEXT::default();
                let ask = functions.fp().get_memory_host_pointer_properties_ext;
                let at = at.as_ptr().cast();
                // SAFETY: memory of this process that begins where the device wants it to.
                let asked = unsafe { ask(functions.device(), self.handle(), at, &mut told) }.result();
                let asked = device.check("vkGetMemoryHostPointerPropertiesEXT", asked);
                asked.map_or(0, |()| told.memory_type_bits)
            }
        }
    }

    /// Memory of the device for it.
    fn allocate(
        &self,
        driver: &Driver<'_>,
        ask: vk::MemoryAllocateInfo<'_>,
    ) -> std::result::Result<vk::DeviceMemory, vk::Result> {
        match self {
            #[cfg(unix)]
            Source::File(file) => {
                let copy = file.try_clone().map_err(|_| vk::Result::ERROR_INVALID_EXTERNAL_HANDLE)?;
                let mut import =
                    vk::ImportMemoryFdInfoKHR::default().handle_type(self.handle()).fd(copy.as_raw_fd());
                // SAFETY: a whole description; the descriptor is the driver's where this succeeds.
                let memory = unsafe { driver.allocate_memory(&ask.push_next(&mut import), None) }?;
                let _ = copy.into_raw_fd();
                Ok(memory)
            }
            Source::Host(at) => {
                let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
                    .handle_type(self.handle())
                    .host_pointer(at.as_ptr().cast());
                // SAFETY: a whole description of memory that lives longer, by the caller of `of_host`.
                unsafe { driver.allocate_memory(&ask.push_next(&mut import), None) }
            }
        }
    }
}

impl Foreign {
    /// Imports memory of so many bytes.
    ///
    /// # Errors
    /// A device that imports nothing, or what the driver says.
    #[cfg(unix)]
    pub fn import(device: &'static Device, file: OwnedFd, bytes: u64) -> Result<Foreign> {
        if !device.features().external_memory {
            bail!(Runtime, "[vulkan] The device imports no memory.");
        }
        Foreign::new(device, &Source::File(file), bytes)
    }

    /// Memory of the host as a device has it.
    ///
    /// # Safety
    /// It has to live longer than this, and to begin and to end at multiples of what the device's features say.
    ///
    /// # Errors
    /// What the driver says.
    pub unsafe fn of_host(device: &'static Device, at: NonNull<u8>, bytes: u64) -> Result<Foreign> {
        Foreign::new(device, &Source::Host(at), bytes)
    }

    fn new(device: &'static Device, source: &Source, bytes: u64) -> Result<Foreign> {
        let driver = device.driver()?;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(source.handle());
        let info = buffer_info(device, bytes).push_next(&mut external);
        // SAFETY: a whole description; the device is there.
        let buffer = device.check("vkCreateBuffer", unsafe { driver.create_buffer(&info, None) })?;
        let mut foreign = Foreign { device, buffer, memory: vk::DeviceMemory::null(), address: 0 };
        foreign.bind(&driver, source, bytes)?;
        Ok(foreign)
    }

    /// Binds the memory, as the first type of memory that the driver takes for it: those of the device first.
    fn bind(&mut self, driver: &Driver<'_>, source: &Source, bytes: u64) -> Result<()> {
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
        let possible = needs.memory_type_bits & source.types(self.device, driver, loader);
        let mut types: Vec<u32> = (0..all.memory_type_count).filter(|t| possible >> t & 1 == 1).collect();
        types.sort_by_key(|&t| !local(t));
        let mut refused = vk::Result::ERROR_INVALID_EXTERNAL_HANDLE;
        for kind in types {
            let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().buffer(self.buffer);
            let mut flags =
                vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
            let mut ask = vk::MemoryAllocateInfo::default()
                .allocation_size(bytes)
                .memory_type_index(kind)
                .push_next(&mut flags);
            if self.device.features().software && !matches!(source, Source::Host(_)) {
                ask = ask.push_next(&mut dedicated);
            }
            match source.allocate(driver, ask) {
                Ok(memory) => {
                    self.memory = memory;
                    break;
                }
                Err(e) => refused = e,
            }
        }
        if self.memory == vk::DeviceMemory::null() {
            bail!(Runtime, "[vulkan] vkAllocateMemory imports no memory from elsewhere: {refused}.");
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
    #[cfg(unix)]
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

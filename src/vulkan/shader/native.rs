//! Kernels that are no shaders: PTX, which NVIDIA's driver takes beside SPIR-V (VK_NVX_binary_import) and keeps, compiled, in a
//! cache of its own. They run between other commands, in the same buffers, over the same addresses; their only parameter
//! is what shaders have as push constants.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;
use std::time::Instant;

use ash::vk;

use crate::bail;
use crate::core::fault::Site;
use crate::core::{Result, trace};
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::fault::pass;
use crate::vulkan::report::stats::STATS;
use crate::vulkan::report::{compile_only, progress};

/// The entry point of every program.
const ENTRY: &CStr = c"main_kernel";
/// As it stands in the text.
pub const ENTRY_NAME: &str = match ENTRY.to_str() {
    Ok(name) => name,
    Err(_) => unreachable!(),
};

/// What the driver made of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Handle {
    /// Of SPIR-V.
    Shader(vk::Pipeline),
    /// Of PTX.
    Native(Native),
}

/// A loaded program and its kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Native {
    module: vk::CuModuleNVX,
    function: vk::CuFunctionNVX,
    threads: u32,
}

/// The functions of the extension, and what the device was seen to take.
pub struct Importer {
    api: ash::nvx::binary_import::DeviceFn,
    warpgroups: OnceLock<bool>,
}

impl Importer {
    /// Of a device that was created with the extension.
    pub fn new(instance: &ash::Instance, raw: &ash::Device) -> Importer {
        let load = |name: &CStr| -> *const c_void {
            // SAFETY: instance and device are there; the name is a C string.
            let function = unsafe { instance.get_device_proc_addr(raw.handle(), name.as_ptr()) };
            function.map_or(std::ptr::null(), |f| f as *const c_void)
        };
        Importer { api: ash::nvx::binary_import::DeviceFn::load(load), warpgroups: OnceLock::new() }
    }
}

impl Handle {
    /// Destroys it.
    ///
    /// # Safety
    /// It belongs to the device, nobody has it any more, and all that was recorded with it is done.
    pub unsafe fn destroy(self, device: &Device, raw: &ash::Device) {
        match (self, &device.importer) {
            // SAFETY: by the caller.
            (Handle::Shader(pipeline), _) => unsafe { raw.destroy_pipeline(pipeline, None) },
            // SAFETY: by the caller.
            (Handle::Native(kernel), Some(importer)) => unsafe {
                (importer.api.destroy_cu_function_nvx)(raw.handle(), kernel.function, std::ptr::null());
                (importer.api.destroy_cu_module_nvx)(raw.handle(), kernel.module, std::ptr::null());
            },
            (Handle::Native(_), None) => {}
        }
    }
}

impl Native {
    /// Records a launch over `groups` workgroups.
    ///
    /// # Safety
    /// The command buffer is being recorded for the device, `push` has as many bytes as the kernel's parameter, and the
    /// addresses in it are valid.
    pub unsafe fn launch(self, device: &Device, cmd: vk::CommandBuffer, push: &[u8], groups: [u32; 3]) {
        let Some(importer) = &device.importer else { return };
        let params: [*const c_void; 1] = [push.as_ptr().cast()];
        let mut info = vk::CuLaunchInfoNVX {
            function: self.function,
            grid_dim_x: groups[0],
            grid_dim_y: groups[1],
            grid_dim_z: groups[2],
            block_dim_x: self.threads,
            block_dim_y: 1,
            block_dim_z: 1,
            ..Default::default()
        };
        (info.param_count, info.p_params) = (params.len(), params.as_ptr());
        // SAFETY: by the caller; the driver copies the parameter.
        unsafe { (importer.api.cmd_cu_launch_kernel_nvx)(cmd, &info) };
    }
}

/// PCI devices of NVIDIA's GH100 (0x2300 to 0x23ff), the one chip of sm_90: no other driver is shown such a program.
pub fn is_hopper(vendor: u32, device: u32) -> bool {
    (vendor, device >> 8) == (0x10de, 0x23)
}

/// The least program for multiprocessors with warpgroup products (sm_90a).
const LEAST: &str =
    ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry main_kernel()\n{\nret;\n}\n";

impl Device {
    /// Whether the driver takes kernels with warpgroup products: asked once.
    pub(in crate::vulkan) fn warpgroups(&'static self) -> bool {
        let Some(importer) = &self.importer else { return compile_only::rehearses() };
        *importer.warpgroups.get_or_init(|| match self.import("the least of kernels", LEAST, 32) {
            Ok(_) => true,
            Err(e) => {
                tracing::debug!("no warpgroup products: {e}");
                false
            }
        })
    }

    /// Loads a program; also, how many nanoseconds that took.
    pub(super) fn import(&'static self, name: &str, text: &str, threads: u32) -> Result<(Handle, u64)> {
        let _span = trace::span("compile", || name.to_string());
        let _told = progress::compiling(name);
        let driver = self.driver()?;
        let Some(Importer { api, .. }) = &self.importer else {
            bail!(Runtime, "[vulkan] Kernel {name} is PTX, which the device does not take.");
        };
        let start = Instant::now();
        let terminated: Vec<u8> = text.bytes().chain([0]).collect();
        let info = vk::CuModuleCreateInfoNVX::default().data(&terminated);
        let mut module = vk::CuModuleNVX::null();
        // SAFETY: the text lives through the call and ends with a zero.
        let mut make = || unsafe {
            (api.create_cu_module_nvx)(driver.handle(), &info, std::ptr::null(), &mut module).result()
        };
        let made = pass(Site::Pipeline).and_then(|()| make());
        self.check(&format!("vkCreateCuModuleNVX for kernel {name}"), made)?;
        let info = vk::CuFunctionCreateInfoNVX::default().module(module).name(ENTRY);
        let mut function = vk::CuFunctionNVX::null();
        // SAFETY: the module was just made.
        let made = unsafe {
            (api.create_cu_function_nvx)(driver.handle(), &info, std::ptr::null(), &mut function).result()
        };
        let made = made.inspect_err(|_| {
            // SAFETY: nothing was made from the module.
            unsafe { (api.destroy_cu_module_nvx)(driver.handle(), module, std::ptr::null()) };
        });
        self.check(&format!("vkCreateCuFunctionNVX for kernel {name}"), made)?;
        let handle = Handle::Native(Native { module, function, threads });
        self.made().pipelines.insert(handle);
        let ns = start.elapsed().as_nanos() as u64;
        STATS.pipeline_ns.add(ns);
        Ok((handle, ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hopper_is_known_by_its_numbers() {
        // H100 SXM and PCIe, H200, GH200; an A100, an RTX 4090, another maker's.
        for device in [0x2330, 0x2331, 0x2335, 0x2342] {
            assert!(is_hopper(0x10de, device));
        }
        assert!(!is_hopper(0x10de, 0x20b0) && !is_hopper(0x10de, 0x2684) && !is_hopper(0x1002, 0x2330));
    }

    #[test]
    fn the_entry_point_has_one_name() {
        assert_eq!(ENTRY.to_str(), Ok(ENTRY_NAME));
        assert!(LEAST.contains(ENTRY_NAME));
    }
}

//! Whether a device runs a module that users bring or write: its capabilities, extensions, modes and shared memory
//! against what the device has.

use crate::bail;
use crate::core::Result;
use crate::kernels::spirv::{Spirv, read};
use crate::vulkan::hal::features::Features;

/// Capabilities (section 3.31 of the specification) that some devices lack, and what each needs. Others that kernels
/// may declare are in [`ALWAYS`].
const NEEDS: &[(u32, &str, fn(&Features) -> bool)] = &[
    (9, "Float16", |f| f.float16),
    (10, "Float64", |f| f.float64),
    (11, "Int64", |f| f.int64),
    (12, "Int64Atomics", |f| f.atomic_int64),
    (22, "Int16", |f| f.int16),
    (39, "Int8", |f| f.int8),
    (61, "GroupNonUniform", |f| f.subgroup_basic),
    (62, "GroupNonUniformVote", |f| f.subgroup_vote),
    (63, "GroupNonUniformArithmetic", |f| f.subgroup_arithmetic),
    (64, "GroupNonUniformBallot", |f| f.subgroup_ballot),
    (65, "GroupNonUniformShuffle", |f| f.subgroup_shuffle),
    (66, "GroupNonUniformShuffleRelative", |f| f.subgroup_shuffle_relative),
    (67, "GroupNonUniformClustered", |f| f.subgroup_clustered),
    (4428, "WorkgroupMemoryExplicitLayoutKHR", |f| f.workgroup_explicit_layout),
    (4435, "StoragePushConstant16", |f| f.push_constant16),
    (4450, "StoragePushConstant8", |f| f.push_constant8),
    (4464, "DenormPreserve", |f| f.denorm_preserve32 || f.denorm_preserve16),
    (4466, "SignedZeroInfNanPreserve", |f| f.nan_preserve32 || f.nan_preserve16),
    (4467, "RoundingModeRTE", |f| f.rte32 || f.rte16),
    (5116, "BFloat16TypeKHR", |f| f.bfloat16),
    (5117, "BFloat16DotProductKHR", |f| f.bfloat16_dot),
    (5118, "BFloat16CooperativeMatrixKHR", |f| f.bfloat16_coop),
    (5430, "CooperativeMatrixReductionsNV", |f| f.coop2.as_ref().is_some_and(|c| c.reductions)),
    (5431, "CooperativeMatrixConversionsNV", |f| f.coop2.as_ref().is_some_and(|c| c.conversions)),
    (5432, "CooperativeMatrixPerElementOperationsNV", |f| {
        f.coop2.as_ref().is_some_and(|c| c.per_element_operations)
    }),
    (5433, "CooperativeMatrixTensorAddressingNV", |f| f.coop2.as_ref().is_some_and(|c| c.tensor_addressing)),
    (5434, "CooperativeMatrixBlockLoadsNV", |f| f.coop2.as_ref().is_some_and(|c| c.block_loads)),
    (5439, "TensorAddressingNV", |f| f.coop2.as_ref().is_some_and(|c| c.tensor_addressing)),
    (5345, "VulkanMemoryModel", |f| f.memory_model),
    (5346, "VulkanMemoryModelDeviceScope", |f| f.memory_model_device_scope),
    (6016, "DotProductInputAll", |f| f.int_dot_product),
    (6017, "DotProductInput4x8Bit", |f| f.int_dot_product),
    (6018, "DotProductInput4x8BitPacked", |f| f.int_dot_product),
    (6019, "DotProduct", |f| f.int_dot_product),
    (6022, "CooperativeMatrixKHR", |f| !f.coop_matrices.is_empty()),
    (6033, "AtomicFloat32AddEXT", |f| f.atomic_float32_add),
];

/// Matrix, Shader, 16- and 8-bit storage, PhysicalStorageBufferAddresses: every device that is used has them.
const ALWAYS: &[u32] = &[0, 1, 4433, 4434, 4448, 4449, 5347];

/// Extensions of SPIR-V that a device has only where it reports an extension of Vulkan: others are part of Vulkan 1.2.
const EXTENSIONS: &[(&str, fn(&Features) -> bool)] = &[
    ("SPV_KHR_float_controls", |_| true),
    ("SPV_KHR_8bit_storage", |_| true),
    ("SPV_KHR_16bit_storage", |_| true),
    ("SPV_KHR_physical_storage_buffer", |_| true),
    ("SPV_EXT_physical_storage_buffer", |_| true),
    ("SPV_KHR_storage_buffer_storage_class", |_| true),
    ("SPV_KHR_vulkan_memory_model", |f| f.memory_model),
    ("SPV_KHR_bfloat16", |f| f.bfloat16),
    ("SPV_KHR_cooperative_matrix", |f| !f.coop_matrices.is_empty()),
    ("SPV_KHR_integer_dot_product", |f| f.int_dot_product),
    ("SPV_KHR_workgroup_memory_explicit_layout", |f| f.workgroup_explicit_layout),
    ("SPV_EXT_shader_atomic_float_add", |f| f.atomic_float32_add),
    ("SPV_NV_cooperative_matrix2", |f| f.coop2.is_some()),
    ("SPV_NV_tensor_addressing", |f| f.coop2.is_some()),
];

/// Execution modes of float controls (section 3.6), which devices have for some widths.
const MODES: &[(u32, &str, fn(&Features, u32) -> bool)] = &[
    (4459, "DenormPreserve", |f, width| [f.denorm_preserve16, f.denorm_preserve32][usize::from(width == 32)]),
    (4461, "SignedZeroInfNanPreserve", |f, width| {
        [f.nan_preserve16, f.nan_preserve32][usize::from(width == 32)]
    }),
    (4462, "RoundingModeRTE", |f, width| [f.rte16, f.rte32][usize::from(width == 32)]),
];

/// Whether the device has the extensions and execution modes that a kernel of our own declares. Modules of users may
/// name extensions that only tell something, as debuggers' do.
///
/// # Errors
/// Runtime error that names what the device lacks.
pub fn declared(kernel: &str, module: &Spirv, f: &Features) -> Result<()> {
    for name in &module.extensions {
        if !EXTENSIONS.iter().any(|e| e.0 == name && e.1(f)) {
            bail!(Runtime, "[vulkan_kernel] {kernel} needs the extension {name}, which the device lacks.");
        }
    }
    for &(mode, width) in &module.modes {
        if let Some((_, name, has)) = MODES.iter().find(|m| m.0 == mode)
            && !has(f, width)
        {
            bail!(
                Runtime,
                "[vulkan_kernel] {kernel} needs the mode {name} of {width} bits, which the device lacks."
            );
        }
    }
    Ok(())
}

/// Whether the device runs a module that gets at most `push` bytes of push constants.
///
/// # Errors
/// Runtime error that names what the device lacks.
pub fn fits(kernel: &str, words: &[u32], push: u64, f: &Features) -> Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let module = match read(&bytes, push) {
        Ok(module) => module,
        Err(reason) => bail!(Runtime, "[vulkan_kernel] {kernel}: {reason}."),
    };
    if module.version.1 > 5 && !f.spirv16 {
        bail!(Runtime, "[vulkan_kernel] {kernel} needs SPIR-V 1.6, which the device lacks.");
    }
    for &c in module.capabilities.iter().filter(|c| !ALWAYS.contains(c)) {
        match NEEDS.iter().find(|n| n.0 == c) {
            Some((_, _, has)) if has(f) => {}
            Some((_, name, _)) => {
                bail!(
                    Runtime,
                    "[vulkan_kernel] {kernel} needs the capability {name}, which the device lacks."
                )
            }
            None => bail!(
                Runtime,
                "[vulkan_kernel] {kernel} needs the SPIR-V capability {c}, which is not offered."
            ),
        }
    }
    if module.shared > u64::from(f.shared_memory) {
        bail!(
            Runtime,
            "[vulkan_kernel] {kernel} asks for {} bytes of shared memory, the device has {}.",
            module.shared,
            f.shared_memory
        );
    }
    Ok(())
}

//! Structures of extensions that are younger than the `ash` release in use, by the values of the
//! published Vulkan registry: VK_NV_cooperative_matrix2 and VK_KHR_shader_bfloat16.

use std::ffi::{CStr, c_void};
use std::ptr;

use ash::vk;

pub const COOPERATIVE_MATRIX2: &CStr = c"VK_NV_cooperative_matrix2";
pub const SHADER_BFLOAT16: &CStr = c"VK_KHR_shader_bfloat16";

const BFLOAT16_FEATURES: i32 = 1_000_141_000;
const COOPMAT2_FEATURES: i32 = 1_000_593_000;
const FLEXIBLE_PROPERTIES: i32 = 1_000_593_001;
const COOPMAT2_PROPERTIES: i32 = 1_000_593_002;
/// VK_COMPONENT_TYPE_BFLOAT16_KHR
pub const COMPONENT_BFLOAT16: i32 = 1_000_141_000;

/// VkPhysicalDeviceShaderBfloat16FeaturesKHR
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bfloat16Features {
    pub s_type: vk::StructureType,
    pub p_next: *mut c_void,
    pub shader_type: vk::Bool32,
    pub dot_product: vk::Bool32,
    pub cooperative_matrix: vk::Bool32,
}

/// VkPhysicalDeviceCooperativeMatrix2FeaturesNV
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CoopMat2Features {
    pub s_type: vk::StructureType,
    pub p_next: *mut c_void,
    pub workgroup_scope: vk::Bool32,
    pub flexible_dimensions: vk::Bool32,
    pub reductions: vk::Bool32,
    pub conversions: vk::Bool32,
    pub per_element_operations: vk::Bool32,
    pub tensor_addressing: vk::Bool32,
    pub block_loads: vk::Bool32,
}

/// VkPhysicalDeviceCooperativeMatrix2PropertiesNV
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CoopMat2Properties {
    pub s_type: vk::StructureType,
    pub p_next: *mut c_void,
    pub workgroup_scope_max_workgroup_size: u32,
    pub flexible_dimensions_max_dimension: u32,
    pub workgroup_scope_reserved_shared_memory: u32,
}

/// VkCooperativeMatrixFlexibleDimensionsPropertiesNV
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FlexibleDimensions {
    pub s_type: vk::StructureType,
    pub p_next: *mut c_void,
    pub m_granularity: u32,
    pub n_granularity: u32,
    pub k_granularity: u32,
    pub a_type: vk::ComponentTypeKHR,
    pub b_type: vk::ComponentTypeKHR,
    pub c_type: vk::ComponentTypeKHR,
    pub result_type: vk::ComponentTypeKHR,
    pub saturating_accumulation: vk::Bool32,
    pub scope: vk::ScopeKHR,
    pub workgroup_invocations: u32,
}

/// vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV
pub type GetFlexibleDimensions =
    unsafe extern "system" fn(vk::PhysicalDevice, *mut u32, *mut FlexibleDimensions) -> vk::Result;

impl Default for Bfloat16Features {
    fn default() -> Self {
        let s_type = vk::StructureType::from_raw(BFLOAT16_FEATURES);
        Bfloat16Features {
            s_type,
            p_next: ptr::null_mut(),
            shader_type: 0,
            dot_product: 0,
            cooperative_matrix: 0,
        }
    }
}

impl Default for CoopMat2Features {
    fn default() -> Self {
        CoopMat2Features {
            s_type: vk::StructureType::from_raw(COOPMAT2_FEATURES),
            p_next: ptr::null_mut(),
            workgroup_scope: 0,
            flexible_dimensions: 0,
            reductions: 0,
            conversions: 0,
            per_element_operations: 0,
            tensor_addressing: 0,
            block_loads: 0,
        }
    }
}

impl Default for CoopMat2Properties {
    fn default() -> Self {
        CoopMat2Properties {
            s_type: vk::StructureType::from_raw(COOPMAT2_PROPERTIES),
            p_next: ptr::null_mut(),
            workgroup_scope_max_workgroup_size: 0,
            flexible_dimensions_max_dimension: 0,
            workgroup_scope_reserved_shared_memory: 0,
        }
    }
}

impl Default for FlexibleDimensions {
    fn default() -> Self {
        FlexibleDimensions {
            s_type: vk::StructureType::from_raw(FLEXIBLE_PROPERTIES),
            p_next: ptr::null_mut(),
            m_granularity: 0,
            n_granularity: 0,
            k_granularity: 0,
            a_type: vk::ComponentTypeKHR::FLOAT16,
            b_type: vk::ComponentTypeKHR::FLOAT16,
            c_type: vk::ComponentTypeKHR::FLOAT16,
            result_type: vk::ComponentTypeKHR::FLOAT16,
            saturating_accumulation: 0,
            scope: vk::ScopeKHR::SUBGROUP,
            workgroup_invocations: 0,
        }
    }
}

// SAFETY: the layout and the structure type are those of the registry.
unsafe impl vk::TaggedStructure for Bfloat16Features {
    const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw(BFLOAT16_FEATURES);
}
// SAFETY: the registry lists it as extending both chains.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Bfloat16Features {}
// SAFETY: as above.
unsafe impl vk::ExtendsDeviceCreateInfo for Bfloat16Features {}
// SAFETY: the layout and the structure type are those of the registry.
unsafe impl vk::TaggedStructure for CoopMat2Features {
    const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw(COOPMAT2_FEATURES);
}
// SAFETY: the registry lists it as extending both chains.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for CoopMat2Features {}
// SAFETY: as above.
unsafe impl vk::ExtendsDeviceCreateInfo for CoopMat2Features {}
// SAFETY: the layout and the structure type are those of the registry.
unsafe impl vk::TaggedStructure for CoopMat2Properties {
    const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw(COOPMAT2_PROPERTIES);
}
// SAFETY: the registry lists it as extending this chain.
unsafe impl vk::ExtendsPhysicalDeviceProperties2 for CoopMat2Properties {}

//! Asks a device what it can do and opens it with all that kernels may use enabled: one chain of structures serves the
//! question and, reduced, the creation. A profile file hides features and lowers limits here.

use std::collections::HashSet;
use std::ffi::{CString, c_char};

use ash::vk;

use super::adapter::{AdapterInfo, AdapterKind, Loader};
use super::device::{MOST_PUSH_BYTES, PUSH_BYTES};
use super::features::{Component, CoopFlexible, CoopMatrix, CoopMatrix2, Features};
use super::nv;
use crate::core::env::{Values, Variable};
use crate::vulkan::memory::exported;
use crate::vulkan::report::compile_only;
use crate::vulkan::shader::native::is_hopper;
use crate::vulkan::tune::file::{Settings, hides, settings};
use crate::vulkan::tune::made_up;
use crate::vulkan::tune::memory::GRANTS_MORE;

pub static UNIFIED: Variable = Variable::new(
    "MLX_VK_UNIFIED",
    "probed",
    Values::SWITCH,
    "0: a device that shares memory with the host is treated like one that does not (staging copies)",
);

fn component(t: vk::ComponentTypeKHR) -> Component {
    match t {
        vk::ComponentTypeKHR::FLOAT16 => Component::F16,
        vk::ComponentTypeKHR::FLOAT32 => Component::F32,
        vk::ComponentTypeKHR::FLOAT64 => Component::F64,
        vk::ComponentTypeKHR::SINT8 => Component::I8,
        vk::ComponentTypeKHR::SINT16 => Component::I16,
        vk::ComponentTypeKHR::SINT32 => Component::I32,
        vk::ComponentTypeKHR::SINT64 => Component::I64,
        vk::ComponentTypeKHR::UINT8 => Component::U8,
        vk::ComponentTypeKHR::UINT16 => Component::U16,
        vk::ComponentTypeKHR::UINT32 => Component::U32,
        vk::ComponentTypeKHR::UINT64 => Component::U64,
        t if t.as_raw() == nv::COMPONENT_BFLOAT16 => Component::Bf16,
        t => Component::Other(t.as_raw()),
    }
}

/// The extensions to enable, among those reported, and what each is asked for; whether one tells the memory's budget.
fn extensions(info: &AdapterInfo, reported: &HashSet<CString>) -> (Vec<*const c_char>, Have, bool) {
    let v13 = info.api_version >= vk::API_VERSION_1_3;
    let mut extensions: Vec<*const c_char> = Vec::new();
    let mut take = |name: &'static std::ffi::CStr| {
        let have = reported.contains(name);
        if have {
            extensions.push(name.as_ptr());
        }
        have
    };
    take(c"VK_KHR_portability_subset");
    let budget = take(c"VK_EXT_memory_budget");
    let size_control = !v13 && take(c"VK_EXT_subgroup_size_control");
    let maintenance4 = !v13 && take(c"VK_KHR_maintenance4");
    let dot = !v13 && take(c"VK_KHR_shader_integer_dot_product");
    let atomic = take(c"VK_EXT_shader_atomic_float");
    let explicit = take(c"VK_KHR_workgroup_memory_explicit_layout");
    let coop = take(c"VK_KHR_cooperative_matrix");
    let coop2 = coop && take(nv::COOPERATIVE_MATRIX2);
    let bf16 = take(nv::SHADER_BFLOAT16);
    let external = exported::wanted(info).is_some() && take(vk::KHR_EXTERNAL_MEMORY_FD_NAME);
    let host = take(vk::EXT_EXTERNAL_MEMORY_HOST_NAME);
    let known = is_hopper(info.vendor_id, info.device_id) && !hides("binary_import");
    let ptx = known && !compile_only::on() && take(ash::nvx::binary_import::NAME);
    let statistics = compile_only::on() && take(vk::KHR_PIPELINE_EXECUTABLE_PROPERTIES_NAME);
    let have = Have {
        v13,
        size_control,
        maintenance4,
        dot,
        atomic,
        explicit,
        coop,
        coop2,
        bf16,
        external,
        host,
        ptx,
        statistics,
    };
    (extensions, have, budget)
}

/// Takes over what the reduced chain says of single features.
fn enabled(features: &mut Features, chain: &Chain, f10: &vk::PhysicalDeviceFeatures) {
    let Chain { f11, f12, f13, size_control, maintenance4, dot, atomic, explicit, bf16, statistics, .. } =
        chain;
    let on = |b: vk::Bool32| b != 0;
    features.subgroup_size_control &= on(f13.subgroup_size_control) | on(size_control.subgroup_size_control);
    features.full_subgroups = on(f13.compute_full_subgroups) | on(size_control.compute_full_subgroups);
    features.subgroup_extended_types = on(f12.shader_subgroup_extended_types);
    features.int64 = on(f10.shader_int64);
    features.int16 = on(f10.shader_int16);
    features.int8 = on(f12.shader_int8);
    features.host_query_reset = on(f12.host_query_reset);
    features.float16 = on(f12.shader_float16);
    features.float64 = on(f10.shader_float64);
    features.bfloat16 = on(bf16.shader_type);
    features.bfloat16_dot = on(bf16.dot_product);
    features.bfloat16_coop = on(bf16.cooperative_matrix);
    features.push_constant8 = on(f12.storage_push_constant8);
    features.push_constant16 = on(f11.storage_push_constant16);
    features.int_dot_product = on(f13.shader_integer_dot_product) | on(dot.shader_integer_dot_product);
    features.atomic_int64 = on(f12.shader_buffer_int64_atomics);
    features.atomic_float32 = on(atomic.shader_buffer_float32_atomics);
    features.atomic_float32_add = on(atomic.shader_buffer_float32_atomic_add);
    features.memory_model = on(f12.vulkan_memory_model);
    features.memory_model_device_scope = on(f12.vulkan_memory_model_device_scope);
    features.workgroup_explicit_layout = on(explicit.workgroup_memory_explicit_layout);
    features.maintenance4 = on(f13.maintenance4) | on(maintenance4.maintenance4);
    features.sparse_binding = on(f10.sparse_binding);
    features.pipeline_statistics = on(statistics.pipeline_executable_info);
}

/// The shapes of cooperative matrices, and what their second extension adds.
fn matrices(
    features: &mut Features,
    chain: &Chain,
    loader: &Loader,
    physical: vk::PhysicalDevice,
    have: &Have,
) {
    let Chain { coop, coop2, .. } = chain;
    let on = |b: vk::Bool32| b != 0;
    if have.coop && on(coop.cooperative_matrix) {
        features.coop_matrices = coop_matrices(loader, physical);
    }
    match &mut features.coop2 {
        Some(c) if on(coop2.workgroup_scope) || on(coop2.tensor_addressing) => {
            c.workgroup_scope = on(coop2.workgroup_scope);
            c.flexible_dimensions = on(coop2.flexible_dimensions);
            c.reductions = on(coop2.reductions);
            c.conversions = on(coop2.conversions);
            c.per_element_operations = on(coop2.per_element_operations);
            c.tensor_addressing = on(coop2.tensor_addressing);
            c.block_loads = on(coop2.block_loads);
            if c.flexible_dimensions {
                features.coop_flexible = coop_flexible(&loader.entry, &loader.instance, physical);
            }
        }
        c => *c = None,
    }
}

/// Features of the device and the logical device with all of them enabled.
pub(crate) fn open(
    loader: &Loader,
    info: &AdapterInfo,
    families: &[(u32, u32)],
) -> Result<(ash::Device, Features), vk::Result> {
    let Loader { instance, .. } = loader;
    let physical = info.physical;
    // SAFETY: the handle comes from this instance.
    let reported = unsafe { instance.enumerate_device_extension_properties(physical) }?;
    let reported: HashSet<CString> =
        reported.iter().filter_map(|e| e.extension_name_as_c_str().ok().map(Into::into)).collect();
    let (extensions, have, budget) = extensions(info, &reported);
    // One set of structures serves the query and, reduced to what kernels may use, the creation.
    let mut chain = Chain::default();
    let mut f2 = chain.link(&have);
    // SAFETY: every structure in the chain belongs to a reported version or extension.
    unsafe { instance.get_physical_device_features2(physical, &mut f2) };
    let mut f10 = vk::PhysicalDeviceFeatures {
        shader_int64: f2.features.shader_int64,
        shader_int16: f2.features.shader_int16,
        shader_float64: f2.features.shader_float64,
        sparse_binding: f2.features.sparse_binding & u32::from(binds(loader, info, families)),
        ..Default::default()
    };
    chain.reduce();
    let lowered = settings().ok().flatten();
    if let Some(s) = lowered {
        chain.hide(s, &mut f10);
    }

    let (sizes, largest) = (have.v13 || have.size_control, have.v13 || have.maintenance4);
    let mut features = limits(loader, info, sizes, largest, have.coop2);
    features.units = units(loader, info, &reported);
    features.spirv16 = have.v13;
    features.memory_budget = budget;
    features.ptx = have.ptx;
    features.external_memory = have.external;
    features.host_memory = if have.host { host_memory(loader, physical) } else { 0 };
    enabled(&mut features, &chain, &f10);
    matrices(&mut features, &chain, loader, physical, &have);
    if let Some(s) = lowered {
        lower(&mut features, s);
    }
    set_largest(&mut features);
    if compile_only::rehearses() {
        features = made_up::rehearsed(&features);
    }

    let priorities = vec![1.0f32; families.iter().map(|f| f.1 as usize).max().unwrap_or(1)];
    let queues: Vec<vk::DeviceQueueCreateInfo> = families
        .iter()
        .map(|&(family, count)| {
            vk::DeviceQueueCreateInfo::default()
                .queue_family_index(family)
                .queue_priorities(&priorities[..count as usize])
        })
        .collect();
    let mut f2 = chain.link(&have).features(f10);
    let create = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&extensions)
        .push_next(&mut f2);
    // SAFETY: the chain outlives the call; only what the device reported is asked for.
    let device = unsafe { instance.create_device(physical, &create, None) }?;
    Ok((device, features))
}

/// What memory of the host has to begin and end at that the device is to use as it lies.
fn host_memory(loader: &Loader, physical: vk::PhysicalDevice) -> u64 {
    let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
    let mut p = vk::PhysicalDeviceProperties2::default().push_next(&mut host);
    // SAFETY: the structure belongs to a reported extension.
    unsafe { loader.instance.get_physical_device_properties2(physical, &mut p) };
    host.min_imported_host_pointer_alignment
}

/// Whether one of the queues that are used binds memory to sparse buffers.
fn binds(loader: &Loader, info: &AdapterInfo, families: &[(u32, u32)]) -> bool {
    // SAFETY: the handle comes from this instance.
    let all = unsafe { loader.instance.get_physical_device_queue_family_properties(info.physical) };
    families.iter().any(|f| all[f.0 as usize].queue_flags.contains(vk::QueueFlags::SPARSE_BINDING))
}

/// Says how large an array may be: `max_buffer` says before what a buffer may have, and the memory.
fn set_largest(f: &mut Features) {
    let most = match (f.large_allocations, f.sparse_binding) {
        (true, _) => f.max_buffer,
        (false, true) => f.max_buffer.min(f.sparse_space),
        (false, false) => 0,
    };
    f.max_buffer = most.max(f.max_allocation);
}

/// Multiprocessors or compute units, where an extension tells.
fn units(loader: &Loader, info: &AdapterInfo, reported: &HashSet<CString>) -> u32 {
    let mut nvidia = vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV::default();
    let mut amd = vk::PhysicalDeviceShaderCorePropertiesAMD::default();
    let mut arm = vk::PhysicalDeviceShaderCoreBuiltinsPropertiesARM::default();
    let mut p = vk::PhysicalDeviceProperties2::default();
    if reported.contains(c"VK_NV_shader_sm_builtins") {
        p = p.push_next(&mut nvidia);
    }
    if reported.contains(c"VK_AMD_shader_core_properties") {
        p = p.push_next(&mut amd);
    }
    if reported.contains(c"VK_ARM_shader_core_builtins") {
        p = p.push_next(&mut arm);
    }
    // SAFETY: every structure in the chain belongs to a reported extension.
    unsafe { loader.instance.get_physical_device_properties2(info.physical, &mut p) };
    let amd =
        amd.shader_engine_count * amd.shader_arrays_per_engine_count * amd.compute_units_per_shader_array;
    nvidia.shader_sm_count.max(amd).max(arm.shader_core_count)
}

/// Takes from the features what a profile file hides of properties, and lowers limits.
fn lower(f: &mut Features, s: &Settings) {
    let keep = |on: &mut bool, name| *on &= !s.hides(name);
    keep(&mut f.subgroup_size_control, "size_control");
    keep(&mut f.full_subgroups, "size_control");
    keep(&mut f.subgroup_arithmetic, "subgroup_arithmetic");
    keep(&mut f.subgroup_clustered, "subgroup_arithmetic");
    keep(&mut f.subgroup_ballot, "subgroup_ballot");
    keep(&mut f.subgroup_shuffle, "subgroup_shuffle");
    keep(&mut f.subgroup_shuffle_relative, "subgroup_shuffle");
    keep(&mut f.spirv16, "spirv16");
    keep(&mut f.memory_budget, "memory_budget");
    for on in [
        &mut f.nan_preserve32,
        &mut f.nan_preserve16,
        &mut f.denorm_preserve32,
        &mut f.denorm_preserve16,
        &mut f.rte32,
        &mut f.rte16,
    ] {
        keep(on, "float_controls");
    }
    let least = |have: &mut u32, most: Option<u32>| *have = most.map_or(*have, |m| m.min(*have));
    least(&mut f.shared_memory, s.shared_memory);
    least(&mut f.max_workgroup_invocations, s.invocations);
    least(&mut f.push_constants, s.push_constants);
    for n in [&mut f.max_groups_x, &mut f.max_groups_y, &mut f.max_groups_z] {
        least(n, s.workgroups);
    }
    let invocations = f.max_workgroup_invocations;
    f.max_workgroup_size = f.max_workgroup_size.map(|n| n.min(invocations));
    if let Some(most) = s.max_buffer {
        f.max_allocation = f.max_allocation.min(most);
        f.large_allocations = false;
    }
}

/// Which structures the device knows, beyond those of Vulkan 1.2.
struct Have {
    v13: bool,
    size_control: bool,
    maintenance4: bool,
    dot: bool,
    atomic: bool,
    explicit: bool,
    coop: bool,
    coop2: bool,
    bf16: bool,
    external: bool,
    host: bool,
    ptx: bool,
    statistics: bool,
}

#[derive(Default)]
struct Chain {
    f11: vk::PhysicalDeviceVulkan11Features<'static>,
    f12: vk::PhysicalDeviceVulkan12Features<'static>,
    f13: vk::PhysicalDeviceVulkan13Features<'static>,
    size_control: vk::PhysicalDeviceSubgroupSizeControlFeatures<'static>,
    maintenance4: vk::PhysicalDeviceMaintenance4Features<'static>,
    dot: vk::PhysicalDeviceShaderIntegerDotProductFeatures<'static>,
    atomic: vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT<'static>,
    explicit: vk::PhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR<'static>,
    coop: vk::PhysicalDeviceCooperativeMatrixFeaturesKHR<'static>,
    coop2: nv::CoopMat2Features,
    bf16: nv::Bfloat16Features,
    statistics: vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR<'static>,
}

impl Chain {
    /// The structures that the device knows, linked.
    fn link(&mut self, have: &Have) -> vk::PhysicalDeviceFeatures2<'_> {
        let mut f2 = vk::PhysicalDeviceFeatures2::default().push_next(&mut self.f11).push_next(&mut self.f12);
        if have.v13 {
            f2 = f2.push_next(&mut self.f13);
        }
        if have.size_control {
            f2 = f2.push_next(&mut self.size_control);
        }
        if have.maintenance4 {
            f2 = f2.push_next(&mut self.maintenance4);
        }
        if have.dot {
            f2 = f2.push_next(&mut self.dot);
        }
        if have.atomic {
            f2 = f2.push_next(&mut self.atomic);
        }
        if have.explicit {
            f2 = f2.push_next(&mut self.explicit);
        }
        if have.coop {
            f2 = f2.push_next(&mut self.coop);
        }
        if have.coop2 {
            f2 = f2.push_next(&mut self.coop2);
        }
        if have.bf16 {
            f2 = f2.push_next(&mut self.bf16);
        }
        if have.statistics {
            f2 = f2.push_next(&mut self.statistics);
        }
        f2
    }

    /// Keeps what kernels may use; cuts the links.
    fn reduce(&mut self) {
        let null = std::ptr::null_mut();
        let (f11, f12, f13) = (self.f11, self.f12, self.f13);
        self.f11 = vk::PhysicalDeviceVulkan11Features {
            storage_buffer16_bit_access: f11.storage_buffer16_bit_access,
            uniform_and_storage_buffer16_bit_access: f11.uniform_and_storage_buffer16_bit_access,
            storage_push_constant16: f11.storage_push_constant16,
            variable_pointers: f11.variable_pointers,
            variable_pointers_storage_buffer: f11.variable_pointers_storage_buffer,
            ..Default::default()
        };
        self.f12 = vk::PhysicalDeviceVulkan12Features {
            storage_buffer8_bit_access: f12.storage_buffer8_bit_access,
            uniform_and_storage_buffer8_bit_access: f12.uniform_and_storage_buffer8_bit_access,
            storage_push_constant8: f12.storage_push_constant8,
            shader_buffer_int64_atomics: f12.shader_buffer_int64_atomics,
            shader_shared_int64_atomics: f12.shader_shared_int64_atomics,
            shader_float16: f12.shader_float16,
            shader_int8: f12.shader_int8,
            scalar_block_layout: f12.scalar_block_layout,
            uniform_buffer_standard_layout: f12.uniform_buffer_standard_layout,
            shader_subgroup_extended_types: f12.shader_subgroup_extended_types,
            host_query_reset: f12.host_query_reset,
            timeline_semaphore: f12.timeline_semaphore,
            buffer_device_address: f12.buffer_device_address,
            vulkan_memory_model: f12.vulkan_memory_model,
            vulkan_memory_model_device_scope: f12.vulkan_memory_model_device_scope,
            subgroup_broadcast_dynamic_id: f12.subgroup_broadcast_dynamic_id,
            ..Default::default()
        };
        self.f13 = vk::PhysicalDeviceVulkan13Features {
            subgroup_size_control: f13.subgroup_size_control,
            compute_full_subgroups: f13.compute_full_subgroups,
            synchronization2: f13.synchronization2,
            maintenance4: f13.maintenance4,
            shader_integer_dot_product: f13.shader_integer_dot_product,
            ..Default::default()
        };
        self.coop.cooperative_matrix_robust_buffer_access = 0;
        self.size_control.p_next = null;
        self.maintenance4.p_next = null;
        self.dot.p_next = null;
        self.atomic.p_next = null;
        self.explicit.p_next = null;
        self.coop.p_next = null;
        self.coop2.p_next = null;
        self.bf16.p_next = null;
        self.statistics.p_next = null;
    }
}

impl Chain {
    /// Takes out what a profile file hides, so that it is not enabled either.
    fn hide(&mut self, s: &Settings, f10: &mut vk::PhysicalDeviceFeatures) {
        let hide = |name, on: &mut [&mut vk::Bool32]| {
            if s.hides(name) {
                on.iter_mut().for_each(|b| **b = 0);
            }
        };
        hide("int64", &mut [&mut f10.shader_int64]);
        hide("int16", &mut [&mut f10.shader_int16]);
        hide("float64", &mut [&mut f10.shader_float64]);
        hide("sparse_binding", &mut [&mut f10.sparse_binding]);
        hide("int8", &mut [&mut self.f12.shader_int8]);
        hide("float16", &mut [&mut self.f12.shader_float16]);
        let f = &mut self.f12;
        hide("atomic_int64", &mut [&mut f.shader_buffer_int64_atomics, &mut f.shader_shared_int64_atomics]);
        hide("memory_model", &mut [&mut f.vulkan_memory_model, &mut f.vulkan_memory_model_device_scope]);
        hide("subgroup_extended_types", &mut [&mut f.shader_subgroup_extended_types]);
        hide("host_query_reset", &mut [&mut f.host_query_reset]);
        hide("push_constant8", &mut [&mut f.storage_push_constant8]);
        hide("push_constant16", &mut [&mut self.f11.storage_push_constant16]);
        let (f, e) = (&mut self.f13, &mut self.size_control);
        hide("size_control", &mut [&mut f.subgroup_size_control, &mut f.compute_full_subgroups]);
        hide("size_control", &mut [&mut e.subgroup_size_control, &mut e.compute_full_subgroups]);
        hide("maintenance4", &mut [&mut f.maintenance4, &mut self.maintenance4.maintenance4]);
        let dot = &mut self.dot.shader_integer_dot_product;
        hide("int_dot_product", &mut [&mut f.shader_integer_dot_product, dot]);
        let a = &mut self.atomic;
        hide(
            "atomic_float",
            &mut [&mut a.shader_buffer_float32_atomics, &mut a.shader_buffer_float32_atomic_add],
        );
        let b = &mut self.bf16;
        hide("bfloat16", &mut [&mut b.shader_type, &mut b.dot_product, &mut b.cooperative_matrix]);
        hide("cooperative_matrix", &mut [&mut self.coop.cooperative_matrix, &mut b.cooperative_matrix]);
        if s.hides("cooperative_matrix") || s.hides("cooperative_matrix2") {
            self.coop2 = nv::CoopMat2Features::default();
        }
    }
}

fn limits(
    loader: &Loader,
    info: &AdapterInfo,
    size_control: bool,
    max_buffer: bool,
    coop2: bool,
) -> Features {
    let mut p11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut floats = vk::PhysicalDeviceFloatControlsProperties::default();
    let mut sizes = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
    let mut m4 = vk::PhysicalDeviceMaintenance4Properties::default();
    let mut c2 = nv::CoopMat2Properties::default();
    let mut p = vk::PhysicalDeviceProperties2::default().push_next(&mut p11).push_next(&mut floats);
    if size_control {
        p = p.push_next(&mut sizes);
    }
    if max_buffer {
        p = p.push_next(&mut m4);
    }
    if coop2 {
        p = p.push_next(&mut c2);
    }
    // SAFETY: every structure in the chain belongs to a reported version or extension.
    unsafe { loader.instance.get_physical_device_properties2(info.physical, &mut p) };
    let l = p.properties.limits;
    let ops = if p11.subgroup_supported_stages.contains(vk::ShaderStageFlags::COMPUTE) {
        p11.subgroup_supported_operations
    } else {
        vk::SubgroupFeatureFlags::empty()
    };
    let on = |b: vk::Bool32| b != 0;
    let known = size_control && sizes.min_subgroup_size > 0;
    let known_cap = max_buffer && m4.max_buffer_size > 0;
    let buffer_cap = if known_cap { m4.max_buffer_size } else { u64::MAX };
    Features {
        vendor_id: info.vendor_id,
        software: info.kind == AdapterKind::Software,
        unified: unified(loader, info),
        bar: !hides("device_local_host_visible")
            && has_memory(
                loader,
                info,
                vk::MemoryPropertyFlags::DEVICE_LOCAL
                    | vk::MemoryPropertyFlags::HOST_VISIBLE
                    | vk::MemoryPropertyFlags::HOST_COHERENT,
            ),
        host_cached: !hides("host_cached"),
        subgroup_size: p11.subgroup_size,
        min_subgroup_size: if known { sizes.min_subgroup_size } else { p11.subgroup_size },
        max_subgroup_size: if known { sizes.max_subgroup_size } else { p11.subgroup_size },
        subgroup_size_control: known
            && sizes.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE),
        subgroup_basic: ops.contains(vk::SubgroupFeatureFlags::BASIC),
        subgroup_vote: ops.contains(vk::SubgroupFeatureFlags::VOTE),
        subgroup_arithmetic: ops.contains(vk::SubgroupFeatureFlags::ARITHMETIC),
        subgroup_ballot: ops.contains(vk::SubgroupFeatureFlags::BALLOT),
        subgroup_shuffle: ops.contains(vk::SubgroupFeatureFlags::SHUFFLE),
        subgroup_shuffle_relative: ops.contains(vk::SubgroupFeatureFlags::SHUFFLE_RELATIVE),
        subgroup_clustered: ops.contains(vk::SubgroupFeatureFlags::CLUSTERED),
        nan_preserve32: on(floats.shader_signed_zero_inf_nan_preserve_float32),
        nan_preserve16: on(floats.shader_signed_zero_inf_nan_preserve_float16),
        denorm_preserve32: on(floats.shader_denorm_preserve_float32),
        denorm_preserve16: on(floats.shader_denorm_preserve_float16),
        rte32: on(floats.shader_rounding_mode_rte_float32),
        rte16: on(floats.shader_rounding_mode_rte_float16),
        coop2: coop2.then_some(CoopMatrix2 {
            max_workgroup_size: c2.workgroup_scope_max_workgroup_size,
            max_dimension: c2.flexible_dimensions_max_dimension,
            reserved_shared_memory: c2.workgroup_scope_reserved_shared_memory,
            ..Default::default()
        }),
        shared_memory: l.max_compute_shared_memory_size,
        push_constants: l.max_push_constants_size.clamp(PUSH_BYTES, MOST_PUSH_BYTES),
        max_workgroup_invocations: l.max_compute_work_group_invocations,
        max_workgroup_size: l.max_compute_work_group_size,
        max_groups_x: l.max_compute_work_group_count[0],
        max_groups_y: l.max_compute_work_group_count[1],
        max_groups_z: l.max_compute_work_group_count[2],
        max_buffer: buffer_cap.min(info.memory_size),
        max_allocation: p11.max_memory_allocation_size.min(buffer_cap),
        large_allocations: known_cap && GRANTS_MORE.contains(&info.vendor_id),
        sparse_space: l.sparse_address_space_size,
        timestamp_period: l.timestamp_period,
        ..Default::default()
    }
}

/// Memory that is local to the device, mapped, coherent and cached on a device without memory of its own.
/// MLX_VK_UNIFIED=0 treats such a device like a discrete one (to test that path).
fn unified(loader: &Loader, info: &AdapterInfo) -> bool {
    if info.kind == AdapterKind::Discrete || compile_only::on() || UNIFIED.switch() == Some(false) {
        return false;
    }
    let hidden = ["unified", "device_local_host_visible", "host_cached"].into_iter().any(hides);
    !hidden && has_memory(loader, info, UNIFIED_MEMORY)
}

fn has_memory(loader: &Loader, info: &AdapterInfo, flags: vk::MemoryPropertyFlags) -> bool {
    // SAFETY: the handle comes from this instance.
    let memory = unsafe { loader.instance.get_physical_device_memory_properties(info.physical) };
    memory.memory_types_as_slice().iter().any(|t| t.property_flags.contains(flags))
}

/// Properties of the memory type behind a unified device's blocks.
pub(crate) const UNIFIED_MEMORY: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::DEVICE_LOCAL.as_raw()
        | vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw()
        | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw()
        | vk::MemoryPropertyFlags::HOST_CACHED.as_raw(),
);

fn coop_matrices(loader: &Loader, physical: vk::PhysicalDevice) -> Vec<CoopMatrix> {
    let api = ash::khr::cooperative_matrix::Instance::new(&loader.entry, &loader.instance);
    // SAFETY: the extension is reported by this device.
    let list = unsafe { api.get_physical_device_cooperative_matrix_properties(physical) };
    let entry = |p: &vk::CooperativeMatrixPropertiesKHR| CoopMatrix {
        m: p.m_size,
        n: p.n_size,
        k: p.k_size,
        a: component(p.a_type),
        b: component(p.b_type),
        c: component(p.c_type),
        result: component(p.result_type),
        saturating: p.saturating_accumulation != 0,
        subgroup_scope: p.scope == vk::ScopeKHR::SUBGROUP,
    };
    list.unwrap_or_default().iter().map(entry).collect()
}

fn coop_flexible(
    entry: &ash::Entry,
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Vec<CoopFlexible> {
    let name = c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
    // SAFETY: the instance is alive; the name is a C string.
    let Some(raw) = (unsafe { entry.get_instance_proc_addr(instance.handle(), name.as_ptr()) }) else {
        return Vec::new();
    };
    // SAFETY: the registry gives the command this signature.
    let query: nv::GetFlexibleDimensions = unsafe { std::mem::transmute(raw) };
    let mut n = 0;
    // SAFETY: a null list asks for the count.
    if unsafe { query(physical, &mut n, std::ptr::null_mut()) } != vk::Result::SUCCESS {
        return Vec::new();
    }
    let mut list = vec![nv::FlexibleDimensions::default(); n as usize];
    // SAFETY: the list holds n initialised entries.
    let status = unsafe { query(physical, &mut n, list.as_mut_ptr()) };
    if status != vk::Result::SUCCESS && status != vk::Result::INCOMPLETE {
        return Vec::new();
    }
    list.truncate(n as usize);
    list.iter()
        .map(|p| CoopFlexible {
            m_granularity: p.m_granularity,
            n_granularity: p.n_granularity,
            k_granularity: p.k_granularity,
            a: component(p.a_type),
            b: component(p.b_type),
            c: component(p.c_type),
            result: component(p.result_type),
            saturating: p.saturating_accumulation != 0,
            workgroup_scope: p.scope == vk::ScopeKHR::WORKGROUP,
            workgroup_invocations: p.workgroup_invocations,
        })
        .collect()
}

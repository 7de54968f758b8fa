//! Features of devices that are not there: those of the tests of choices, and of the GPU that is rehearsed
//! (`report::compile_only`).

use crate::vulkan::{Component, CoopFlexible, CoopMatrix, CoopMatrix2, Features};

/// A cooperative matrix of a subgroup with sums in float32.
pub fn matrix([m, n, k]: [u32; 3], a: Component) -> CoopMatrix {
    let float = Component::F32;
    CoopMatrix { m, n, k, a, b: a, c: float, result: float, saturating: false, subgroup_scope: true }
}

fn flexible(a: Component, workgroup_invocations: u32) -> CoopFlexible {
    CoopFlexible {
        m_granularity: 32,
        n_granularity: 32,
        k_granularity: 16,
        a,
        b: a,
        c: Component::F32,
        result: Component::F32,
        saturating: false,
        workgroup_scope: true,
        workgroup_invocations,
    }
}

/// What every device here can do.
pub fn plain(subgroup: u32) -> Features {
    Features {
        subgroup_size: subgroup,
        min_subgroup_size: subgroup,
        max_subgroup_size: subgroup,
        subgroup_size_control: true,
        full_subgroups: true,
        subgroup_basic: true,
        subgroup_vote: true,
        subgroup_arithmetic: true,
        subgroup_ballot: true,
        subgroup_shuffle: true,
        int16: true,
        int8: true,
        float16: true,
        denorm_preserve16: true,
        memory_model: true,
        memory_model_device_scope: true,
        spirv16: true,
        shared_memory: 32 << 10,
        max_workgroup_invocations: 1024,
        max_workgroup_size: [1024, 1024, 64],
        max_groups_x: 65535,
        max_groups_y: 65535,
        max_groups_z: 65535,
        max_buffer: 2 << 30,
        max_allocation: 2 << 30,
        ..Features::default()
    }
}

/// The features of an NVIDIA H200 that choices ask for.
pub fn hopper() -> Features {
    let halves = [Component::F16, Component::Bf16];
    let shapes = [[16, 16, 16], [16, 8, 16], [16, 8, 8]];
    Features {
        bfloat16: true,
        bfloat16_coop: true,
        subgroup_shuffle_relative: true,
        subgroup_clustered: true,
        subgroup_extended_types: true,
        shared_memory: 48 << 10,
        coop_matrices: halves.iter().flat_map(|&c| shapes.map(|s| matrix(s, c))).collect(),
        coop2: Some(CoopMatrix2 {
            workgroup_scope: true,
            flexible_dimensions: true,
            reductions: true,
            conversions: true,
            per_element_operations: true,
            tensor_addressing: true,
            block_loads: true,
            max_workgroup_size: 1024,
            max_dimension: 1024,
            reserved_shared_memory: 0,
        }),
        coop_flexible: halves.iter().flat_map(|&c| [64, 128, 256].map(|n| flexible(c, n))).collect(),
        ..plain(32)
    }
}

/// Bytes of memory of an H200.
pub const MEMORY: u64 = 140 << 30;

/// What an H200 has besides, over what the device that takes its place says of itself.
pub fn rehearsed(there: &Features) -> Features {
    Features {
        vendor_id: 0x10de,
        units: super::H200.units,
        ptx: true,
        bar: true,
        host_cached: true,
        int64: true,
        atomic_int64: true,
        atomic_float32: true,
        atomic_float32_add: true,
        int_dot_product: true,
        push_constant8: true,
        push_constant16: true,
        maintenance4: true,
        denorm_preserve32: there.denorm_preserve32,
        nan_preserve32: there.nan_preserve32,
        nan_preserve16: there.nan_preserve16,
        rte32: there.rte32,
        rte16: there.rte16,
        push_constants: 256,
        max_groups_x: i32::MAX as u32,
        max_buffer: 1 << 36,
        max_allocation: 1 << 32,
        large_allocations: true,
        timestamp_period: there.timestamp_period,
        host_query_reset: there.host_query_reset,
        ..hopper()
    }
}

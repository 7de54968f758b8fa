//! Made-up devices for the tests of choices.

use crate::vulkan::tune::{H200, Profile, Source, Winners};
use crate::vulkan::{Component, CoopFlexible, CoopMatrix, CoopMatrix2, Features};

fn matrix([m, n, k]: [u32; 3], a: Component) -> CoopMatrix {
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
fn plain(subgroup: u32) -> Features {
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
fn hopper() -> Features {
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

fn profile(name: &str, units: u32, bandwidth: u32, features: Features) -> Profile {
    Profile {
        name: name.into(),
        source: Source::File,
        units,
        bandwidth,
        dependent_ns: H200.dependent_ns,
        matrices: if features.coop_matrices.is_empty() { 0 } else { H200.matrices },
        features,
        winners: Winners::default(),
    }
}

/// A card of 132 multiprocessors: the one that the tables were measured on.
pub fn h200() -> Profile {
    profile(H200.name, H200.units, H200.bandwidth, hopper())
}

/// An integrated GPU of 8 units and 60 GB/s, with subgroups of 8 to 32 lanes.
pub fn integrated() -> Profile {
    let f = Features { min_subgroup_size: 8, max_subgroup_size: 32, unified: true, ..plain(16) };
    profile("integrated", 8, 60, f)
}

/// A card of 32 units whose subgroups have so many lanes; with fewer than 16 it has little shared memory and small
/// workgroups too.
pub fn subgroups(lanes: u32) -> Profile {
    let small = lanes < 16;
    let f = Features {
        shared_memory: if small { 16 << 10 } else { 32 << 10 },
        max_workgroup_invocations: if small { 256 } else { 1024 },
        float16: !small,
        ..plain(lanes)
    };
    profile("subgroups", 32, 400, f)
}

/// A card of 96 units with subgroups of 32 or 64 lanes and cooperative matrices of the subgroup.
pub fn large() -> Profile {
    let f = Features {
        min_subgroup_size: 32,
        max_subgroup_size: 64,
        shared_memory: 64 << 10,
        coop_matrices: vec![matrix([16; 3], Component::F16)],
        ..plain(64)
    };
    profile("large", 96, 960, f)
}

/// A software driver on four processors.
pub fn software() -> Profile {
    profile("software", 4, 20, Features { software: true, unified: true, ..plain(8) })
}

/// All of them.
pub fn all() -> Vec<Profile> {
    let lanes = [8, 16, 32, 64].map(subgroups);
    [integrated(), large(), h200(), software()].into_iter().chain(lanes).collect()
}

//! Made-up devices for the tests of choices.

use crate::vulkan::tune::made_up::{hopper, matrix, plain};
use crate::vulkan::tune::{H200, Profile, Source, Winners};
use crate::vulkan::{Component, Features};

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

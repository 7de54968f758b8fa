//! What a device can do and which kernels follow from that, told for people: limits, probed features, and what the
//! tables choose for some typical sizes.

use crate::core::Dtype;
use crate::core::tree::Tree;
use crate::vulkan::hal::device::Device;
use crate::vulkan::kernels::elem;
use crate::vulkan::tune::attention;
use crate::vulkan::tune::matmul::{self as table, Choice, Shape, Tier};

const FLOATS: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::BF16];

fn product(dtype: Dtype, n: u64) -> Shape {
    Shape { dtype, m: n, n, k: n, batch: 1, aligned: true }
}

fn show(c: Choice) -> String {
    let tier = match c.tier {
        Tier::Nv2 => "matmul_nv2",
        Tier::Khr => "matmul_khr",
        Tier::Tiled => "matmul_tiled",
    };
    let t = c.tile;
    format!("{tier} {}x{}x{}", t.bm, t.bn, t.bk)
}

fn by_dtype(f: impl Fn(Dtype) -> String) -> Tree {
    Tree::map(FLOATS.map(|d| (d.name(), Tree::from(f(d)))))
}

/// Which kernels the device runs.
pub fn tiers(device: &Device) -> Tree {
    let (f, p) = (device.features(), device.profile());
    let coop = |d| attention::coop(f, d, 128, [128, 128], || false).is_some();
    Tree::map([
        ("matmul_4096", by_dtype(|d| show(table::choose(p, &product(d, 4096))))),
        ("matmul_256", by_dtype(|d| show(table::choose(p, &product(d, 256))))),
        ("attention", by_dtype(|d| (if coop(d) { "sdpa_coop" } else { "sdpa_tile" }).into())),
        ("sort", Tree::from(if elem::ranks(f) { "radix, merge" } else { "merge" })),
        ("subgroups", Tree::from(f.subgroup_arithmetic && f.subgroup_shuffle)),
    ])
}

/// What choices know of the device.
fn profile(device: &Device) -> Tree {
    let p = device.profile();
    Tree::map([
        ("name", Tree::from(p.name.clone())),
        ("source", format!("{:?}", p.source).to_lowercase().into()),
        ("units", u64::from(p.units).into()),
        ("bandwidth", u64::from(p.bandwidth).into()),
        ("dependent_ns", u64::from(p.dependent_ns).into()),
        ("matrices", u64::from(p.matrices).into()),
        ("winners", (p.winners.lines().len() as u64).into()),
    ])
}

/// Everything that was probed.
pub fn describe(device: &Device) -> Vec<(&'static str, Tree)> {
    let (f, info) = (device.features(), device.device_info());
    let (used, available) = device.memory_budget();
    let features = info.features.iter().map(|(name, on)| (*name, Tree::Bool(*on)));
    let queues = device.queues.len() as u64;
    let limits = [
        ("max_buffer", f.max_buffer.into()),
        ("max_allocation", f.max_allocation.into()),
        ("shared_memory", f.shared_memory.into()),
        ("max_workgroup_invocations", f.max_workgroup_invocations.into()),
        ("push_constants", f.push_constants.into()),
        ("max_workgroup_size", Tree::numbers(&f.max_workgroup_size)),
        ("max_groups", Tree::numbers(&[f.max_groups_x, f.max_groups_y, f.max_groups_z])),
        ("subgroup_sizes", Tree::numbers(&[f.min_subgroup_size, f.max_subgroup_size])),
        ("timestamp_period_ns", Tree::Float(f.timestamp_period.into())),
    ];
    vec![
        ("name", info.name.into()),
        ("kind", info.kind.name().into()),
        ("driver", info.driver.into()),
        ("api_version", info.api_version.into()),
        ("vendor_id", info.vendor_id.into()),
        ("device_id", info.device_id.into()),
        ("memory_size", info.memory_size.into()),
        ("memory_used", used.into()),
        ("memory_available", available.into()),
        ("compute_queues", queues.into()),
        ("copy_queue", device.has_copy_queue().into()),
        ("timestamps", (device.queues[0].timestamp_mask != 0).into()),
        ("limits", Tree::map(limits)),
        ("features", Tree::map(features)),
        ("profile", profile(device)),
        ("tiers", tiers(device)),
    ]
}

/// The folder of compiled kernels.
pub fn cache() -> Tree {
    let (folder, files, bytes) = crate::vulkan::shader::cache::contents().unwrap_or_default();
    Tree::map([
        ("folder", Tree::from(folder.to_string_lossy().into_owned())),
        ("files", files.into()),
        ("bytes", bytes.into()),
    ])
}

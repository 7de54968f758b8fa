//! Every shader variant of the convolutions through the compiler, also those that the device at hand cannot
//! run. Values are tested from Python.

use super::FIXED;
use super::winograd::WinogradKey as Winograd;
use crate::core::Dtype;
use crate::vulkan::kernels::matmul::kernel::{Gather, Kernel, MatmulKey};
use crate::vulkan::shader::compiler;
use crate::vulkan::tune::matmul::Tile;
use crate::vulkan::{Features, KernelKey};

fn key(kernel: Kernel, dtype: Dtype, gather: Gather) -> MatmulKey {
    MatmulKey {
        wide: gather.wide,
        partial: gather.gradient && gather.wide,
        ta: gather.gradient,
        tb: !gather.gradient && gather.strided,
        gather: Some(gather),
        ..crate::vulkan::kernels::matmul::plain(kernel, dtype)
    }
}

#[test]
fn every_variant_of_the_convolutions_compiles() {
    let f = Features {
        subgroup_size: 32,
        min_subgroup_size: 32,
        max_subgroup_size: 32,
        spirv16: true,
        ..Default::default()
    };
    let tile = |bm, bn, bk, threads| Tile { bm, bn, bk, threads, unroll: 1 };
    let half = [
        Kernel::Khr { tile: tile(128, 128, 32, 256) },
        Kernel::Khr { tile: tile(64, 64, 32, 128) },
        Kernel::Tiled { tile: tile(32, 32, 8, 64) },
    ];
    let single = [
        Kernel::Tiled { tile: tile(128, 64, 16, 128) },
        Kernel::Tiled { tile: tile(32, 32, 8, 64) },
        Kernel::Depthwise { channels: 1 },
        Kernel::DepthwiseGradient { channels: 1, lanes: 8, taps: 3 },
    ];
    let mut keys = Vec::new();
    for (axes, flags) in (1..=3).flat_map(|axes| (0..4).map(move |flags| (axes, flags))) {
        let (gradient, wide) = (flags & 1 != 0, flags & 2 != 0);
        let fixed = (axes == 2).then_some([1; FIXED]);
        let gather = Gather { axes, gradient, wide, strided: !gradient && !wide, fixed };
        keys.extend(single.iter().map(|&k| key(k, Dtype::F32, gather)));
        for dtype in [Dtype::F16, Dtype::BF16] {
            keys.extend(half.iter().map(|&k| key(k, dtype, gather)));
        }
    }
    let plain = Gather { axes: 2, gradient: false, wide: false, strided: true, fixed: None };
    for (dtype, channels) in [(Dtype::F32, 4), (Dtype::F16, 8), (Dtype::BF16, 8)] {
        keys.push(key(Kernel::Depthwise { channels }, dtype, plain));
        for taps in [1, 4, 5] {
            keys.push(key(Kernel::DepthwiseGradient { channels, lanes: 32, taps }, dtype, plain));
        }
    }
    for key in keys {
        let words = compiler::spirv(&key.name(), &key.module(&f)).unwrap();
        assert_eq!(words[0], 0x0723_0203, "{}", key.name());
    }
    let winograd = [1, 4].map(|width| [Winograd::Input { width }, Winograd::Output { width }]);
    for key in winograd.as_flattened().iter().chain([&Winograd::Kernel]) {
        let words = compiler::spirv(&key.name(), &key.module(&f)).unwrap();
        assert_eq!(words[0], 0x0723_0203, "{}", key.name());
    }
}

//! How a device spreads cooperative matrices over the lanes of a subgroup. Vulkan leaves that open; a kernel that knows
//! it sets elements itself, and turns sums into an operand in registers. So it is looked at once, and what is seen must
//! be what shaders/matmul/mma.glsl and HELD of shaders/matmul/fragment.glsl say.

use crate::bail;
use crate::core::{Dtype, Result};
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::stream::StreamState;
use crate::vulkan::kernels::elem::{Defines, Push, define};
use crate::vulkan::memory::Kind;
use crate::vulkan::report::compile_only;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

const LANES: usize = 32;

/// Element type, and columns of the right side: 8 or 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ProbeKey(Dtype, u32);

impl ProbeKey {
    /// Numbers of the elements that a lane is expected to have: of the left side, the right side, the sums.
    fn expected(self, lane: usize) -> Vec<u32> {
        let (g, t, cols) = (lane / 4, lane % 4, self.1 as usize);
        let blocks = cols / 8;
        let pairs = |n: usize, first: &dyn Fn(usize) -> usize, apart: usize| -> Vec<u32> {
            (0..n).flat_map(|j| [first(j), first(j) + apart]).map(|e| e as u32).collect()
        };
        [
            pairs(4, &|j| (g + j / 2 * 8) * 16 + 2 * t + j % 2 * 8, 1),
            pairs(cols / 4, &|j| (2 * t + j % 2 * 8) * cols + g + j / 2 * 8, cols),
            pairs(cols / 4, &|j| (g + j / blocks * 8) * cols + 2 * t + j % blocks * 8, 1),
        ]
        .concat()
    }
}

impl KernelKey for ProbeKey {
    fn name(&self) -> String {
        format!("fragment_probe_{}_{}", self.0, self.1)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        define(&mut d, "DTYPE", if self.0 == Dtype::BF16 { 2 } else { 1 });
        define(&mut d, "COLS", self.1);
        Module {
            source: Source::File("fragment_probe.comp"),
            defines: d,
            subgroup_size: f.subgroup_size_control.then_some(LANES as u32),
            spirv16: true,
            ..Default::default()
        }
    }
}

/// Whether matrices of 16-bit `dtype` with `cols` columns on the right side (8 or 16), which the device has, lie as expected;
/// those of float16 multiply its smallest numbers too. The first call waits for the GPU.
pub(in crate::vulkan) fn known(device: &'static Device, dtype: Dtype, cols: u32) -> bool {
    let slot = &device.fragments[usize::from(dtype == Dtype::BF16) + 2 * usize::from(cols == 8)];
    *slot.get_or_init(|| {
        look(device, ProbeKey(dtype, cols)).unwrap_or_else(|e| {
            tracing::debug!("matrices of {dtype} were not looked at: {e}");
            false
        })
    })
}

fn look(device: &'static Device, key: ProbeKey) -> Result<bool> {
    let wanted: Vec<u32> = (0..LANES).flat_map(|lane| key.expected(lane)).collect();
    writes(device, &key, &[], &wanted)
}

/// Whether one workgroup of a kernel, which is told where to and `more`, writes these words. Waits for the GPU.
pub(in crate::vulkan) fn writes(
    device: &'static Device,
    key: &impl KernelKey,
    more: &[u32],
    wanted: &[u32],
) -> Result<bool> {
    if compile_only::rehearses() {
        return Ok(true);
    }
    let stream = StreamState::create(device, &device.queues[0])?;
    let pipeline = device.built(key)?;
    let bytes = 4 * wanted.len();
    let block = device.alloc_kind(Kind::Download, bytes, Some(stream))?;
    {
        let mut enc = CommandEncoder::new(stream)?;
        let address = enc.note_write(block.clone())?;
        let push = Push::default().u64s(&[address]).u32s(more);
        enc.dispatch(&pipeline, &push, [1, 1, 1], &[], &[(address, bytes as u64)])?;
        enc.for_host();
    }
    stream.flush()?;
    stream.wait_uninterrupted(stream.open_value() - 1)?;
    let Some(host) = block.host() else { bail!(Runtime, "[vulkan] Staging memory is not mapped.") };
    // SAFETY: the block holds so many words and the GPU is done with it.
    let seen: &[u32] = unsafe { std::slice::from_raw_parts(host.as_ptr().cast(), wanted.len()) };
    Ok(seen == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::shader::compiler;

    #[test]
    fn every_element_has_one_place() {
        for cols in [8, 16] {
            let lanes: Vec<Vec<u32>> = (0..LANES).map(|l| ProbeKey(Dtype::F16, cols).expected(l)).collect();
            let own = cols as usize / 2;
            for (part, count) in [(0..8, 256), (8..8 + own, 16 * cols), (8 + own..8 + 2 * own, 16 * cols)] {
                let mut places: Vec<u32> = lanes.iter().flat_map(|l| l[part.clone()].to_vec()).collect();
                places.sort_unstable();
                assert_eq!(places, (0..count).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_probes_compile() {
        for key in [ProbeKey(Dtype::F16, 8), ProbeKey(Dtype::BF16, 16)] {
            compiler::check("probe", &key.module(&Features::default())).unwrap();
        }
    }
}

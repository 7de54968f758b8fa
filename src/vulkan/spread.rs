//! How a device spreads cooperative matrices over the lanes of a subgroup. Vulkan leaves that open; a kernel that knows
//! it can turn sums into an operand in registers. So it is looked at once, and what is seen must be what
//! shaders/lib/fragment.glsl calls HELD.

use super::device::Device;
use super::elem::{Defines, Push, define};
use super::memory::Kind;
use super::stream::StreamState;
use super::{CommandEncoder, Features, KernelKey, Module, Source};
use crate::bail;
use crate::core::{Dtype, Result};

const LANES: usize = 32;
/// Elements of a lane.
const OWN: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key(Dtype);

impl KernelKey for Key {
    fn name(&self) -> String {
        format!("fragment_probe_{}", self.0)
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        define(&mut d, "DTYPE", if self.0 == Dtype::BF16 { 2 } else { 1 });
        Module {
            source: Source::File("fragment_probe.comp"),
            defines: d,
            subgroup_size: f.subgroup_size_control.then_some(LANES as u32),
            spirv16: true,
            ..Default::default()
        }
    }
}

/// Number of the element that HELD puts at place `i` of a lane.
fn held_at(lane: usize, i: usize) -> u32 {
    let (row, col) = (lane / 4 + (i & 4) * 2, lane % 4 * 2 + (i & 1) + (i & 2) * 4);
    (row * 16 + col) as u32
}

/// Whether sums and left operands of 16 x 16 elements of `dtype` lie as HELD says. The first call waits for the GPU.
pub(super) fn held(device: &'static Device, dtype: Dtype) -> bool {
    let slot = &device.held[usize::from(dtype == Dtype::BF16)];
    *slot.get_or_init(|| {
        look(device, dtype).unwrap_or_else(|e| {
            tracing::debug!("matrices of {dtype} were not looked at: {e}");
            false
        })
    })
}

fn look(device: &'static Device, dtype: Dtype) -> Result<bool> {
    let stream = StreamState::create(device, &device.queues[0])?;
    let words = LANES * 2 * OWN + 1;
    let block = device.alloc_kind(Kind::Download, 4 * words, Some(stream))?;
    {
        let mut enc = CommandEncoder::new(stream)?;
        let address = enc.note_write(block.clone())?;
        let pipeline = device.pipeline(&Key(dtype))?;
        let push = Push::default().u64s(&[address]).u32s(&[]);
        enc.dispatch(&pipeline, &push, [1, 1, 1], &[], &[(address, 4 * words as u64)])?;
        enc.for_host();
    }
    stream.flush()?;
    stream.wait(stream.open_value() - 1)?;
    let Some(host) = block.host() else { bail!(Runtime, "[vulkan] Staging memory is not mapped.") };
    // SAFETY: the block holds so many words and the GPU is done with it.
    let seen: &[u32] = unsafe { std::slice::from_raw_parts(host.as_ptr().cast(), words) };
    let fits = |(at, &v): (usize, &u32)| v == held_at(at / (2 * OWN), at % OWN);
    Ok(seen[..words - 1].iter().enumerate().all(fits) && seen[words - 1] as usize == OWN * 16 + OWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::compiler;

    #[test]
    fn every_element_has_one_place() {
        let mut places: Vec<u32> =
            (0..LANES).flat_map(|lane| (0..OWN).map(move |i| held_at(lane, i))).collect();
        places.sort_unstable();
        assert_eq!(places, (0..256).collect::<Vec<_>>());
    }

    #[test]
    fn the_probe_compiles() {
        for dtype in [Dtype::F16, Dtype::BF16] {
            compiler::check("probe", &Key(dtype).module(&Features::default())).unwrap();
        }
    }
}

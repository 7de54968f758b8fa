//! Whether a device keeps subnormal numbers of float32 in sums of products, with what it promises of them (float controls) or without:
//! then codes of four bits become float32 by a mask alone (shaders/quantized/qmm_stream.comp). It is looked at once.

use crate::core::env::KernelVariant;
use crate::vulkan::hal::device::Device;
use crate::vulkan::kernels::elem::{Defines, float_controls};
use crate::vulkan::kernels::matmul::fragment_probe::writes;
use crate::vulkan::{Features, KernelKey, Module, Source};

pub static QMM_STREAM_MASKS: KernelVariant =
    KernelVariant::new("qmm_stream_masks", "codes of qmm_stream as digits of numbers from 128 on");

/// Codes, and the places at which words hold those that are masked.
const CODES: u32 = 16;
/// See [`CODES`].
const PLACES: u32 = 6;
/// Bits of 2^126: no product is subnormal any more.
const UP: u32 = 253 << 23;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ProbeKey;

impl KernelKey for ProbeKey {
    fn name(&self) -> String {
        "subnormal_probe".into()
    }

    fn module(&self, f: &Features) -> Module {
        let mut defines = Defines::new();
        float_controls(&mut defines, f);
        Module { source: Source::File("subnormal_probe.comp"), defines, ..Default::default() }
    }
}

/// Bits of the products, in the order in which lanes write them.
fn expected() -> Vec<u32> {
    let product = |code: u32, place: u32| f32::from_bits(code << (4 * place)) * f32::from_bits(UP);
    (0..CODES).flat_map(|code| (0..PLACES).map(move |place| product(code, place).to_bits())).collect()
}

/// Whether it does. The first call waits for the GPU.
pub fn keeps(device: &'static Device) -> bool {
    !QMM_STREAM_MASKS.disabled()
        && *device.subnormals.get_or_init(|| {
            writes(device, &ProbeKey, &[UP, 0], &expected()).unwrap_or_else(|e| {
                tracing::debug!("subnormal numbers were not looked at: {e}");
                false
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_codes_are_codes_times_a_power_of_two() {
        for (i, bits) in expected().into_iter().enumerate() {
            let (code, place) = (i as u32 / PLACES, i as u32 % PLACES);
            let wanted = f64::from(code) * 2f64.powi(4 * place as i32 - 149 + 126);
            assert_eq!(f64::from(f32::from_bits(bits)), wanted);
            assert!(code == 0 || f32::from_bits(bits).is_normal());
        }
    }
}

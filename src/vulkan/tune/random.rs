//! How random bits are made. Pure.

use crate::core::env::KernelVariant;

pub static RANDOM_PRODUCTS: KernelVariant =
    KernelVariant::new("random_products", "random bits by sums alone");

/// Whether products of integers run beside sums and rotations, as on NVIDIA's GPUs since 2017. H200, us of 33.5M numbers with sums as
/// sums and as products: uniform float32 63 and 59, int32 82 and 76, of bernoulli 66 and 59.
pub(in crate::vulkan) fn products_beside(vendor: u32) -> bool {
    vendor == 0x10de && !RANDOM_PRODUCTS.disabled()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_maker_has_such_units() {
        assert!(products_beside(0x10de) && !products_beside(0x1002) && !products_beside(0x8086));
    }
}

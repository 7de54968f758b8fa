//! How far a stream looks for free memory, and which drivers grant more than they promise. Called by `memory`.

use std::time::Duration;

use crate::vulkan::Features;

/// Makers whose drivers allocate more in one piece than they promise, up to the largest buffer, at no loss of speed: NVIDIA
/// (H200, driver 580: 4 GiB promised, 120 GiB granted, every byte right; written and read as fast as bound in pieces).
pub const GRANTS_MORE: &[u32] = &[0x10de];

/// Free blocks of a class that are looked at (H200, as what follows).
pub const LOOKED_AT: usize = 16;
/// Free blocks of a class among which a stream finds one that no command since the last barrier used, before it takes
/// one that needs a barrier (H200: a row of codes 18.5 us with one, 13.8 with four).
pub const TURNS: usize = 4;
/// The part of the memory that a block may be for which there are several.
pub const TURN_SHARE: u64 = 256;

/// How long memory waits that an emptied cache no longer counts. H200: after `mx.clear_cache`, which the host waited 6 to 30 ms for, a
/// prompt of 8 x 255 tokens took 20 ms more, and the first token behind it 5 to 13, until the driver had allocated the same blocks anew.
pub const LINGER: Duration = Duration::from_millis(250);

/// The same of a device: where it shares the host's memory, blocks cost next to nothing, and others want the memory.
pub fn lingers(f: &Features) -> Option<Duration> {
    (!f.unified && !f.software).then_some(LINGER)
}

#[cfg(test)]
mod tests {
    use super::super::tests::devices;
    use super::*;

    #[test]
    fn memory_waits_where_the_host_has_its_own() {
        assert_eq!(lingers(&devices::h200().features), Some(LINGER));
        assert_eq!(lingers(&devices::integrated().features), None);
        assert_eq!(lingers(&devices::software().features), None);
    }
}

//! Memory that an emptied cache gives back later.

use std::time::Duration;

use super::*;

/// A size that no other test has.
const BYTES: usize = 9 << 20;

#[test]
fn memory_of_an_emptied_cache_is_there_until_it_goes_back() {
    let Some((device, _guard)) = gpu() else { return };
    stats::clear_cache(stats::When::Now);
    let (cached, active) = (stats::cache(), stats::active());
    let blocks: Vec<_> = (0..3).map(|_| device.alloc(BYTES).unwrap()).collect();
    drop(blocks);
    assert!(stats::cache() >= cached + 3 * BYTES && stats::active() == active);
    let created = device.pool.created();
    device.pool.clear();
    assert!(stats::cache() < BYTES, "nothing is counted");
    // Asked for again, two of them are no new ones, and are counted as ever.
    let again = [device.alloc(BYTES).unwrap(), device.alloc(BYTES).unwrap()];
    assert_eq!(device.pool.created(), created);
    assert!(stats::active() >= active + 2 * BYTES);
    assert!(device.pool.give_back_after(device, Duration::from_secs(3600)), "the third waits");
    assert!(!device.pool.give_back_after(device, Duration::ZERO));
    let third = device.alloc(BYTES).unwrap();
    assert_eq!(device.pool.created(), created + 1);
    drop((again, third));
    assert!(stats::cache() >= 3 * BYTES, "what comes back later is in the cache");
    stats::clear_cache(stats::When::Now);
    assert!(stats::cache() < BYTES);
}

#[test]
fn what_lingers_counts_towards_the_limit() {
    let Some((device, _guard)) = gpu() else { return };
    stats::clear_cache(stats::When::Now);
    drop(device.alloc(BYTES).unwrap());
    device.pool.clear();
    let before = stats::set_memory_limit(stats::active() + BYTES + (3 << 20));
    let other = device.alloc(BYTES / 2);
    stats::set_memory_limit(before);
    assert!(other.is_ok());
    assert!(
        !device.pool.give_back_after(device, Duration::from_secs(3600)),
        "it went back for the new block"
    );
}

//! Memory that an emptied cache gives back later.

use std::time::Duration;

use super::*;

/// A size that no other test has.
const BYTES: usize = 34 << 20;
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn memory_of_an_emptied_cache_is_there_until_it_goes_back() {
    let Some((device, _guard)) = gpu() else { return };
    let pool = &device.pool;
    let waiting = || pool.waiting(BYTES as u64);
    let blocks: Vec<_> = (0..3).map(|_| device.alloc(BYTES).unwrap()).collect();
    let known: Vec<u64> = blocks.iter().map(|b| b.region().address).collect();
    drop(blocks);
    assert_eq!(waiting(), 0);
    pool.clear();
    assert_eq!(waiting(), 3);
    // Asked for again, two of them are no new ones.
    let again = [device.alloc(BYTES).unwrap(), device.alloc(BYTES).unwrap()];
    assert!(again.iter().all(|b| known.contains(&b.region().address)));
    assert_eq!(waiting(), 1);
    assert!(pool.give_back_after(device, LONG), "the third waits");
    assert_eq!(waiting(), 1);
    pool.give_back_after(device, Duration::ZERO);
    assert_eq!(waiting(), 0);
    drop(again);
    assert_eq!(waiting(), 0, "what comes back later is in the cache");
    stats::clear_cache(stats::When::Now);
}

#[test]
fn what_lingers_counts_towards_the_limit() {
    let Some((device, _guard)) = gpu() else { return };
    drop(device.alloc(BYTES).unwrap());
    device.pool.clear();
    assert_eq!(device.pool.waiting(BYTES as u64), 1);
    let before = stats::set_memory_limit(stats::active() + BYTES + (3 << 20));
    let other = device.alloc(BYTES / 2);
    stats::set_memory_limit(before);
    assert!(other.is_ok());
    assert_eq!(device.pool.waiting(BYTES as u64), 0, "it went back for the new block");
}

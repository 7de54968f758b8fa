//! How attention of one position of several sequences on matrix units (kernels/attention/several) is cut into workgroups. Pure.

use super::LIMITS;
use super::token::{SDPA_TOKEN, TOKEN_GROUPS};
use crate::core::env::KernelVariant;
use crate::vulkan::tune::ceil;
use crate::vulkan::tune::profile::Profile;
use crate::vulkan::tune::quantized::chain::LONGEST;

pub static SDPA_SEVERAL: KernelVariant = KernelVariant::new(
    "sdpa_several",
    "sdpa_token, for one position of several sequences on GPUs that take PTX",
);

/// Threads of a workgroup, its warps, and workgroups that a multiprocessor has at a time.
pub(in crate::vulkan) const THREADS: u32 = 32 * WARPS;
/// See [`THREADS`].
pub(in crate::vulkan) const WARPS: u32 = 8;
/// See [`THREADS`].
pub(in crate::vulkan) const TOGETHER: u32 = 2;
/// Keys that a warp has at a time.
pub(in crate::vulkan) const KEYS: u32 = 16;
/// Turns of keys and values that are brought to the second-level cache before their time (an estimate).
pub(in crate::vulkan) const AHEAD: u32 = 2;
/// Most heads of a workgroup: columns of products.
const ROWS: u64 = 8;
/// The same where a chain begins with it: what halves of warps leave has room where the chain's row lies later.
const FRONT_ROWS: u64 = 4;
/// Most bytes of words of parts.
pub(in crate::vulkan) const FRONT_LEFT: u32 = 2 << 20;
/// Most keys of one sequence that `token` has: H200, 32 heads of 128 that share eight of keys, us of 512 keys 7.6 and here 11.5, of 8,192
/// (the vector kernel) 23.6 and 19.3.
const ALONE: u64 = 1024;
/// Features of heads that there are kernels for.
const FEATURES: [u64; 3] = [64, 96, 128];
/// Features of heads that the vector kernel is as fast for where each has keys of its own: of 8 and 32 sequences of 300 keys, 32 heads, 17.2 and
/// 50.9 us, here 17.6 and 54.3 (H200).
const UNSHARED: u64 = 96;
/// Fewest keys of a part (an estimate), and most parts, which the last workgroup has in registers.
const FEW_KEYS: u64 = 64;
const MOST_PARTS: u64 = 16;
/// Keys of a part up to which one workgroup a multiprocessor does: what all warps have in a turn, as each part less is one less to join.
/// H200, us of 512 places of keys of which 300 are there, 32 heads over 4 of 8 sequences: 4 parts 11.7, 8 parts 14.5. A step of 8B of 8
/// sequences, over 8 of keys, in 2 parts 2,430, in 4 parts 2,390.
const TURN: u64 = (KEYS * WARPS) as u64;
/// The same where one part has all keys: nothing is joined then. 32 sequences of 300 keys 15.8, in two parts 17.7; a step of 30B-A3B 6.79 and 7.14 ms.
const WHOLE: u64 = 4 * TURN;

/// What a workgroup works on, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vulkan) struct Several {
    pub features: u32,
    /// Heads of a workgroup, of those that share keys, and groups of so many.
    pub rows: u32,
    pub tiles: u32,
    /// Parts of the keys, and keys of a part.
    pub parts: u32,
    pub span: u32,
}

/// For `batch` sequences of `kv` heads of keys, each of `group` of queries; `None` where another kernel is better, or the only one.
pub(in crate::vulkan) fn several(
    p: &Profile,
    [batch, kv]: [u64; 2],
    group: u64,
    keys: u64,
    features: u64,
) -> Option<Several> {
    let alone = batch == 1 && keys <= ALONE && !SDPA_TOKEN.disabled();
    if alone || batch > 1 && group == 1 && features == UNSHARED {
        None
    } else {
        cut(p, batch * kv, group, keys, features)
    }
}

/// How `lines` heads of keys are cut, where there is a kernel.
fn cut(p: &Profile, lines: u64, group: u64, keys: u64, features: u64) -> Option<Several> {
    let known = FEATURES.contains(&features) && keys <= i32::MAX as u64;
    if SDPA_SEVERAL.disabled() || LIMITS.splits.is_some() || !p.features.ptx || !known {
        return None;
    }
    let tiles = group.div_ceil(ROWS);
    let wanted = LIMITS.groups.unwrap_or_else(|| p.count(&TOKEN_GROUPS));
    let most = keys.div_ceil(FEW_KEYS).next_power_of_two();
    let parts_of =
        |wanted: u64| most.min(1 << (wanted / (lines * tiles).max(1)).clamp(1, MOST_PARTS).ilog2());
    let few = parts_of(wanted / u64::from(TOGETHER));
    let suffices = keys <= if few == 1 { WHOLE } else { few * TURN };
    let parts = if LIMITS.groups.is_none() && suffices { few } else { parts_of(wanted) };
    let span = ceil(keys as i64, parts as i64) as u32;
    // FITS: as asked for above.
    Some(Several {
        features: features as u32,
        rows: group.min(ROWS) as u32,
        tiles: tiles as u32,
        parts: parts as u32,
        span: span.next_multiple_of(KEYS),
    })
}

/// Bytes of the words of a part of a head: values, and behind them the greatest score and the sum.
pub(in crate::vulkan) fn of_part(features: u32) -> u32 {
    8 * (features + 2)
}

/// The same for one sequence as what a chain of products begins with: a workgroup a multiprocessor, of four heads at most. Parts are as many
/// however few the keys are, so that a sequence that grows keeps its kernel: one of a chain takes half a second to a second to be made.
pub(in crate::vulkan) fn front(
    p: &Profile,
    kv: u64,
    group: u64,
    keys: u64,
    features: u64,
) -> Option<Several> {
    let s = cut(p, kv, group, keys, features)?;
    let tiles = group.div_ceil(FRONT_ROWS);
    let room = u64::from(p.features.units) / (kv * tiles).max(1);
    let parts = 1 << room.min(MOST_PARTS).checked_ilog2()?;
    let (heads, of_part) = (kv * group, u64::from(of_part(s.features)));
    if heads * features > LONGEST.into() || heads * parts * of_part > u64::from(FRONT_LEFT) {
        return None;
    }
    // FITS: as above.
    Some(Several {
        rows: group.min(FRONT_ROWS) as u32,
        tiles: tiles as u32,
        parts: parts as u32,
        span: (ceil(keys as i64, parts as i64) as u32).next_multiple_of(KEYS),
        ..s
    })
}

#[cfg(test)]
#[path = "several_tests.rs"]
mod tests;

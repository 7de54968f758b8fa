//! Faults for tests. Each place where a driver or the system can fail asks here first, and fails in the same way where a
//! test wants it to: MLX_VK_FAULT=kind@n names the n-th call of a kind, kind@n+ that one and all behind it. It is in every
//! build, so that what is tested is what is shipped; off, it costs a relaxed load, and no place is passed once for each
//! operation.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::error::Result;
use crate::bail;
use crate::core::env::{Values, Variable};

pub static FAULT: Variable = Variable::new(
    "MLX_VK_FAULT",
    "none",
    Values::Form("kind@n or kind@n+", known),
    "For tests: the n-th call of a kind fails as the driver would let it fail, with `+` all behind it too. \
         docs/reliability.md lists the kinds",
);

macro_rules! sites {
    ($($(#[$doc:meta])* $site:ident = $name:literal,)*) => {
        /// What can be made to fail.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Site { $($(#[$doc])* $site,)* }

        impl Site {
            /// All of them.
            pub const ALL: &'static [Site] = &[$(Site::$site,)*];

            /// Its name in MLX_VK_FAULT.
            pub const fn name(self) -> &'static str {
                match self { $(Site::$site => $name,)* }
            }
        }
    };
}

sites! {
    /// Memory of a device.
    Allocation = "allocation",
    /// Memory of a device that the host sees.
    Mapping = "mapping",
    /// Memory of the host, from the system.
    HostMemory = "host_memory",
    /// A command buffer, new or used again.
    CommandBuffer = "command_buffer",
    /// The beginning or the end of recording.
    Recording = "recording",
    /// A batch on its way to the device.
    Submission = "submission",
    /// The same; the device is lost.
    LostSubmission = "lost_submission",
    /// Waiting for a batch.
    Wait = "wait",
    /// The same; the device is lost.
    LostWait = "lost_wait",
    /// What batches of a stream are counted by.
    Semaphore = "semaphore",
    /// GLSL to SPIR-V, for want of memory.
    Compile = "compile",
    /// A module of SPIR-V.
    Module = "module",
    /// A pipeline.
    Pipeline = "pipeline",
    /// A pipeline that the driver's compiler does not manage.
    Refusal = "refusal",
    /// The driver's cache of pipelines, made or asked for its content.
    PipelineCache = "pipeline_cache",
    /// A file of the cache that is read.
    CacheRead = "cache_read",
    /// A file of the cache that is written.
    CacheWrite = "cache_write",
    /// Timestamps of a profile.
    Query = "query",
    /// The device itself.
    Device = "device",
}

const SITES: usize = Site::ALL.len();

/// Calls of one kind that fail, counted from 1.
#[derive(Clone, Copy)]
struct Plan {
    site: Site,
    first: u64,
    /// All behind the first fail too.
    on: bool,
}

/// What was asked for, and what came of it.
struct State {
    plan: Option<Plan>,
    calls: [u64; SITES],
    fired: u64,
}

const UNREAD: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static MODE: AtomicU8 = AtomicU8::new(UNREAD);
static STATE: Mutex<State> = Mutex::new(State { plan: None, calls: [0; SITES], fired: 0 });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(|e| e.into_inner())
}

fn parse(text: &str) -> Option<Plan> {
    let (name, n) = text.split_once('@')?;
    let site = *Site::ALL.iter().find(|s| s.name() == name)?;
    let (n, on) = n.strip_suffix('+').map_or((n, false), |n| (n, true));
    let first = n.parse().ok().filter(|&n| n > 0)?;
    Some(Plan { site, first, on })
}

/// Whether a text names calls that shall fail.
pub fn known(text: &str) -> bool {
    parse(text).is_some()
}

/// Whether a test wants calls to fail, or counts them.
#[inline]
pub fn watched() -> bool {
    MODE.load(Ordering::Relaxed) == ON
}

/// Whether this call of a site shall fail.
#[inline]
pub fn hit(site: Site) -> bool {
    MODE.load(Ordering::Relaxed) != OFF && counted(site)
}

#[cold]
fn counted(site: Site) -> bool {
    let mut s = state();
    if MODE.load(Ordering::Relaxed) == UNREAD {
        s.plan = FAULT.value().and_then(|text| parse(&text));
        MODE.store(if s.plan.is_some() { ON } else { OFF }, Ordering::Relaxed);
    }
    s.calls[site as usize] += 1;
    let n = s.calls[site as usize];
    let fails = s.plan.is_some_and(|p| p.site == site && (n == p.first || p.on && n > p.first));
    s.fired += u64::from(fails);
    fails
}

/// Has other calls fail from now on, in place of those of MLX_VK_FAULT: `count` none, `off` none without counting.
/// Returns how often each site was called since the last call, and how many of those calls failed.
///
/// # Errors
/// Value error for other texts that name no calls.
pub fn set(text: &str) -> Result<(Vec<(&'static str, u64)>, u64)> {
    let plan = match text {
        "count" | "off" => None,
        _ => match parse(text) {
            Some(plan) => Some(plan),
            None => {
                bail!(Value, "[fault] Expected kind@n or kind@n+ with a kind of the library, got {text}.")
            }
        },
    };
    let mut s = state();
    MODE.store(if text == "off" { OFF } else { ON }, Ordering::Relaxed);
    let calls = Site::ALL.iter().map(|&site| (site.name(), s.calls[site as usize])).collect();
    let fired = s.fired;
    *s = State { plan, calls: [0; SITES], fired: 0 };
    Ok((calls, fired))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_calls() {
        assert!(known("wait@1") && known("cache_read@20+"));
        assert!(["", "wait", "wait@", "wait@0", "wait@-1", "wait@1-", "waits@1"].iter().all(|t| !known(t)));
        assert!(Site::ALL.iter().enumerate().all(|(i, &s)| s as usize == i));
    }
}

//! Work for a GPU stream that runs on the host, because it has no GPU kernel. MLX_VK_FALLBACK decides whether that
//! is refused; what happened is counted by operation.

use std::collections::BTreeMap;

use crate::core::env::{Values, Variable};
use crate::core::fork::Shared;

pub static FALLBACK: Variable = Variable::new(
    "MLX_VK_FALLBACK",
    "error",
    Values::Word(&["error", "warn", "allow"]),
    "What happens when an operation that has no GPU kernel (dense linear algebra) is asked for on a GPU \
         stream. error: ValueError, as in MLX. warn: it runs on the CPU, and each operation says so once. allow: \
         it runs on the CPU. `mx.vulkan.stats()` counts them",
);

pub(crate) static COUNTS: Shared<BTreeMap<&'static str, u64>> = Shared::new(BTreeMap::new);

/// Whether operations that MLX refuses on a GPU stream may run on the host. Not unless the user says so.
pub fn allowed() -> bool {
    matches!(FALLBACK.word(), Some("warn" | "allow"))
}

/// Whether the user wants even those refused that run on the host by design.
pub fn refused() -> bool {
    FALLBACK.word() == Some("error")
}

/// Counts an operation that runs on the host, and says so the first time if the user asked for that.
pub fn note(op: &'static str) {
    let mut counts = COUNTS.lock();
    let n = counts.entry(op).or_default();
    *n += 1;
    if *n == 1 && FALLBACK.word() == Some("warn") {
        eprintln!("[{op}] There is no GPU kernel; it runs on the CPU (MLX_VK_FALLBACK=warn).");
    }
}

/// How often each operation ran on the host.
pub fn counts() -> Vec<(&'static str, u64)> {
    let counts = COUNTS.lock();
    counts.iter().map(|(op, n)| (*op, *n)).collect()
}

/// Starts from zero.
pub fn reset() {
    COUNTS.lock().clear();
}

//! Arrays of a GPU's memory that NCCL reads and writes where they are: memory of Vulkan, mapped into CUDA.

use std::sync::Arc;

use crate::core::{Error, Result, Storage};
use crate::distributed::{Exchange, OnGpu, Subject};
use crate::memory::cuda::{Gpu, Memory, Shared};

/// Bytes of an array from which on it stays on the GPU. Two H100s, all_sum in us where it is and through pinned memory:
/// 256 KiB 178 and 180 to 221, 1 MiB 178 and 479, 4 MiB 178 and 1499.
pub const LEAST: usize = 256 << 10;

/// Whether an array of such an operation is worth the change.
pub fn is_large(what: Exchange, about: Subject, members: usize) -> bool {
    let bytes = about.bytes();
    match what {
        Exchange::Gather => bytes * members >= LEAST,
        Exchange::SumScatter => bytes >= LEAST * members,
        Exchange::Reduce(_) | Exchange::Send(_) | Exchange::Recv(_) => bytes >= LEAST,
    }
}

/// Addresses of an array's memory, and what keeps them.
pub struct Addresses {
    pub input: Memory,
    pub output: Memory,
    /// Kept until NCCL is done.
    pub kept: Vec<Arc<dyn std::any::Any + Send + Sync>>,
}

/// Where NCCL finds the bytes; `None` where they cannot be handed to it.
#[cfg(feature = "vulkan")]
pub fn addresses(on: Gpu, ends: &OnGpu) -> Option<Addresses> {
    let mut kept: Vec<Arc<dyn std::any::Any + Send + Sync>> = Vec::new();
    let mut at = |storage: &Arc<Storage>| {
        let import = |file, size| -> Result<Shared> { Shared::new(on, file, size).map_err(Error::Runtime) };
        let shared = crate::vulkan::imported(storage, import).ok().flatten()?;
        let address = shared.address(&on)?;
        kept.push(shared);
        kept.push(storage.clone());
        Some(address)
    };
    let output = at(&ends.output)?;
    let input = match &ends.input {
        Some((storage, offset)) => at(storage)? + *offset as Memory,
        None => output,
    };
    Some(Addresses { input, output, kept })
}

#[cfg(not(feature = "vulkan"))]
pub fn addresses(_: Gpu, _: &OnGpu) -> Option<Addresses> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Dtype;
    use crate::distributed::Reduction;

    #[test]
    fn what_is_large_is_counted_in_bytes_of_the_larger_side() {
        let is = |what, n: i64, dtype| is_large(what, Subject { shape: &[n, 2], dtype }, 4);
        let least = LEAST as i64;
        assert!(is(Exchange::Reduce(Reduction::Sum), least / 4, Dtype::F16));
        assert!(!is(Exchange::Reduce(Reduction::Sum), least / 4 - 1, Dtype::F16));
        assert!(
            is(Exchange::Gather, least / 32, Dtype::F32) && !is(Exchange::Gather, least / 32 - 1, Dtype::F32)
        );
        assert!(
            is(Exchange::SumScatter, least * 2, Dtype::I8) && !is(Exchange::SumScatter, least, Dtype::I8)
        );
        assert!(!is(Exchange::Recv(0), 0, Dtype::F32) && is(Exchange::Send(1), least, Dtype::U8));
    }
}

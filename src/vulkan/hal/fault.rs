//! Driver calls that a test can let fail (see `core::fault`): each returns the error that the driver would.

use ash::vk;

use crate::core::fault::{Site, hit};

/// What the driver would say. Sites that are no calls of the driver have no code of their own.
fn code(site: Site) -> vk::Result {
    match site {
        Site::Allocation | Site::Submission => vk::Result::ERROR_OUT_OF_DEVICE_MEMORY,
        Site::Mapping => vk::Result::ERROR_MEMORY_MAP_FAILED,
        Site::LostSubmission | Site::LostWait => vk::Result::ERROR_DEVICE_LOST,
        Site::Device => vk::Result::ERROR_INITIALIZATION_FAILED,
        Site::CommandBuffer
        | Site::Recording
        | Site::Wait
        | Site::Semaphore
        | Site::Module
        | Site::Pipeline
        | Site::PipelineCache
        | Site::Query => vk::Result::ERROR_OUT_OF_HOST_MEMORY,
        Site::Refusal | Site::HostMemory | Site::Compile | Site::CacheRead | Site::CacheWrite => {
            vk::Result::ERROR_UNKNOWN
        }
    }
}

/// Fails where a test wants the site to.
#[inline]
pub(in crate::vulkan) fn pass(site: Site) -> Result<(), vk::Result> {
    if hit(site) { Err(code(site)) } else { Ok(()) }
}

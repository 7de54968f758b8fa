//! From GLSL to pipelines: the compiler and its threads, the disk cache, what a module may ask for, and how many
//! pipelines a device keeps.

pub(super) mod cache;
pub(super) mod compile_pool;
pub mod compiler;
pub(super) mod native;
pub(super) mod pipeline;
pub(super) mod pipeline_cache;
mod private;
pub(super) mod prune;
pub(super) mod requirements;
pub(super) mod shelf;
pub mod spirv;

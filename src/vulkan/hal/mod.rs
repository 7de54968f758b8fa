//! The layer over Vulkan itself: adapters and what they can do, devices, streams, and the encoder that records, orders
//! and submits commands. Knows no kernel.

pub mod adapter;
pub(super) mod backlog;
pub(super) mod caller;
pub(super) mod deferred;
pub(super) mod device;
pub(super) mod encoder;
pub(super) mod end;
pub(super) mod fault;
pub(super) mod features;
pub(super) mod gate;
pub(super) mod hazards;
pub(super) mod held;
pub(super) mod nv;
pub mod overseers;
pub(super) mod probe;
pub(super) mod progress;
pub(super) mod reclaim;
pub(super) mod recorder;
pub(super) mod stream;

//! The bottom floor: values every other floor speaks of. Knows no backend and no operation.

pub mod array;
pub mod device;
pub mod dtype;
pub mod env;
pub mod error;
pub mod event;
pub mod failure;
pub mod fallback;
pub mod fault;
pub mod fork;
pub mod husks;
pub mod layout;
pub(crate) mod lines;
pub mod notes;
pub mod panics;
mod placeholders;
pub mod primitive;
pub mod storage;
pub mod stored;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod tree;
pub mod varying;

pub use array::{Array, Data, Node};
pub use device::{Device, DeviceKind, Stream, default_device, default_stream};
pub use dtype::{Category, Dtype, Kind};
pub use error::{Error, Foreign, Result};
pub use event::Event;
pub use layout::{Layout, Shape, Strides};
pub(crate) use placeholders::Placeholders;
pub use primitive::{Batched, Derivatives, Jvp, Primitive, PrimitiveRef, Vjp, Vmap};
pub use storage::{DeviceBlock, HostBlock, Storage};
pub use stored::{Param, Stored};
pub use varying::lengths_vary;

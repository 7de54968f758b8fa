//! Files: npy, npz, safetensors and GGUF. Loading reads and checks the headers at once and makes arrays whose
//! bytes are read when they are evaluated; saving evaluates first and then writes.
//!
//! Bytes are fetched by positioned reads from a file that stays open, not through a mapping: a mapping of a
//! file that somebody else shortens ends the process with SIGBUS, a read returns an error. All arrays of one
//! file share the open handle. Files are written beside the old ones and renamed over them, so arrays that
//! still have to be read from an old file keep reading that one.

mod cursor;
pub mod function;
pub mod gguf;
pub mod load;
pub mod npy;
pub mod npz;
pub mod replace;
pub mod safetensors;
pub mod save;
pub mod source;

pub use load::Place;
pub use replace::Replacement;
pub use save::Dense;
pub use source::Source;

use crate::core::layout::checked_size;
use crate::core::{Array, Error, Result};

/// What a file of several arrays holds, in the order of the file.
pub type Named = Vec<(String, Array)>;

/// Element count of a shape that a file states. One that no array has makes the file wrong: not the caller's number
/// overflowed.
fn stated_size(op: &str, shape: &[i64], itemsize: usize) -> Result<usize> {
    checked_size(op, shape, itemsize).map_err(|e| match e {
        Error::Overflow(text) => Error::Value(text),
        other => other,
    })
}

//! MPI.

use std::sync::Arc;

use super::Group;
use crate::bail;
use crate::core::Result;

pub fn is_available() -> bool {
    false
}

pub fn init(strict: bool) -> Result<Option<Arc<dyn Group>>> {
    if strict {
        bail!(Runtime, "Cannot initialize MPI");
    }
    Ok(None)
}

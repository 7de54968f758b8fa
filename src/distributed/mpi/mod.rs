//! MPI, whichever library is there: it is opened when a group is asked for (`library`). Elements travel as blocks of
//! bytes and are reduced by this library's own operations, so that all dtypes work alike under every MPI (`group`).
//! Calls start operations that do not block and look after them, so that each ends by its timeout. After a failure MPI
//! is not called any more: it may still write to what it was given.

#[cfg(unix)]
mod group;
#[cfg(unix)]
mod library;

use std::sync::Arc;

use super::Group;
use crate::bail;
use crate::core::env::{Values, Variable};
use crate::core::{Result, env};

pub static LIBNAME: Variable = Variable::new(
    "MLX_MPI_LIBNAME",
    "`libmpi.so`, `libmpi.so.40`, `libmpich.so.12` or `libmpi.so.12`",
    Values::Text("library"),
    "The MPI library that is opened",
);

/// Set by mpirun: of Open MPI, of the family of MPICH, and of PMIx.
const STARTED_BY_MPIRUN: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"];

/// Whether an MPI library can be opened.
pub fn is_available() -> bool {
    #[cfg(unix)]
    return library::mpi().is_some();
    #[cfg(not(unix))]
    false
}

/// All processes that mpirun started. Starting MPI in a process that nothing else takes part in is left out, unless the
/// caller insists.
pub fn init(strict: bool) -> Result<Option<Arc<dyn Group>>> {
    if !strict && !STARTED_BY_MPIRUN.iter().any(|name| env::foreign(name)) {
        return Ok(None);
    }
    #[cfg(unix)]
    if let Some(mpi) = library::mpi() {
        return group::world(mpi).map(Some);
    }
    if strict {
        bail!(Runtime, "Cannot initialize MPI");
    }
    Ok(None)
}

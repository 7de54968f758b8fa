//! What all writers need: the bytes of arrays, evaluated, on the host and without gaps.

use std::io::{self, Write};

use crate::core::event::check_interrupt;
use crate::core::{Array, Device, Dtype, Result, default_stream};
use crate::ops;

/// Bytes that are written at once; compressed, they take a tenth of a second.
const CHUNK: usize = 4 << 20;

/// An evaluated array whose bytes lie on the host in row-major order, or in column-major order.
pub struct Dense {
    array: Array,
    ptr: *const u8,
    /// Whether the first axis is the one of neighbours in memory.
    pub column_major: bool,
}

// SAFETY: the bytes belong to the array, are complete and are not written any more.
unsafe impl Send for Dense {}
// SAFETY: as above.
unsafe impl Sync for Dense {}

impl Dense {
    /// Evaluates arrays, all at once, and lays out anew those that have gaps or another order.
    pub fn all<'a>(arrays: impl IntoIterator<Item = &'a Array>, column_major: bool) -> Result<Vec<Dense>> {
        let arrays: Vec<Array> = arrays.into_iter().cloned().collect();
        crate::eval::eval(&arrays)?;
        // The bytes go to the host anyway, so that is where they are put in order.
        let s = default_stream(Device::CPU);
        let dense: Vec<Array> =
            arrays.iter().map(|a| ops::contiguous(a, column_major, s)).collect::<Result<_>>()?;
        crate::eval::eval(&dense)?;
        dense.into_iter().map(Dense::of).collect()
    }

    fn of(array: Array) -> Result<Dense> {
        let ptr = array.host_ptr()?;
        let column_major = !array.layout()?.is_row_contiguous();
        Ok(Dense { array, ptr, column_major })
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.array.dtype()
    }

    /// Dimensions.
    pub fn shape(&self) -> &[i64] {
        self.array.shape()
    }

    /// Writes all bytes; interruptible.
    pub fn write(&self, w: &mut dyn Write) -> io::Result<()> {
        self.bytes().chunks(CHUNK).try_for_each(|chunk| {
            check_interrupt().map_err(io::Error::other)?;
            w.write_all(chunk)
        })
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        if self.array.size() == 0 {
            return &[];
        }
        // SAFETY: an evaluated array without gaps has `nbytes` bytes from its first element on, and keeps
        // them alive.
        unsafe { std::slice::from_raw_parts(self.ptr, self.array.nbytes()) }
    }
}

//! Conversion to and from 8-bit floats (E4M3), which are held as uint8.

use super::{apply, apply_as, astype};
use crate::bail;
use crate::core::{Array, Dtype, Result, Stream};
use crate::kernels::elementwise::table::op;

/// The nearest 8-bit float of each element, to even; what is too large becomes the largest value, 448.
pub fn to_fp8(a: &Array, s: Stream) -> Result<Array> {
    apply(op("to_fp8"), &[a], s)
}

/// The values of 8-bit floats as a real floating dtype, all of which hold them exactly.
pub fn from_fp8(a: &Array, dtype: Dtype, s: Stream) -> Result<Array> {
    if !dtype.is_float() {
        bail!(Value, "[from_fp8] Only real floating types are supported but dtype == {dtype}.");
    }
    if dtype == Dtype::F64 {
        return astype(&apply(op("from_fp8"), &[a], s)?, dtype, s);
    }
    apply_as(op("from_fp8"), a, dtype, s)
}

//! Windows of signal processing.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::array::{Out, out};
use super::device::{S, pick};
use crate::ops;

macro_rules! windows {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[pyfunction]
            #[pyo3(signature = (M, *, stream=None))]
            #[allow(non_snake_case)]
            fn $name(M: i64, stream: S) -> Out {
                let Ok(n) = i32::try_from(M) else {
                    let text = concat!(stringify!($name), "(): M does not fit 32 bits");
                    return Err(PyTypeError::new_err(text));
                };
                out(ops::$name(n.into(), pick(stream)))
            }
        )*

        /// Adds the functions.
        pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $(m.add_function(wrap_pyfunction!($name, m)?)?;)*
            Ok(())
        }
    };
}

windows! {
    /// Bartlett window of `M` points: a triangle that is zero at both ends. float32.
    ///
    /// >>> mx.bartlett(5)
    /// array([0, 0.5, 1, 0.5, 0], dtype=float32)
    bartlett;
    /// Blackman window of `M` points: three cosine terms, zero at both ends. float32.
    ///
    /// >>> mx.blackman(3)
    /// array([0, 1, 0], dtype=float32)
    blackman;
    /// Hamming window of `M` points: a raised cosine, 0.08 at both ends. float32.
    ///
    /// >>> mx.hamming(3)
    /// array([0.08, 1, 0.08], dtype=float32)
    hamming;
    /// Hann window of `M` points: a raised cosine, zero at both ends. float32.
    ///
    /// >>> mx.hanning(5)
    /// array([0, 0.5, 1, 0.5, 0], dtype=float32)
    hanning;
}

//! Windows of signal processing.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::ops;
use crate::python::array::{Out, out};
use crate::python::runtime::device::{S, pick};

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
    /// Bartlett window: a triangle that is zero at both ends.
    ///
    /// Point n is `1 - abs(2 * n / (M - 1) - 1)`. One point alone is 1.
    ///
    /// Args:
    #[doc = shared!(window)]
    ///
    /// >>> mx.bartlett(5)
    /// array([0, 0.5, 1, 0.5, 0], dtype=float32)
    bartlett;
    /// Blackman window: three cosine terms, zero at both ends, with very low side lobes.
    ///
    /// Point n is `0.42 - 0.5 * cos(2 * pi * n / (M - 1)) + 0.08 * cos(4 * pi * n / (M - 1))`. One point
    /// alone is 1.
    ///
    /// Args:
    #[doc = shared!(window)]
    ///
    /// >>> mx.blackman(3)
    /// array([0, 1, 0], dtype=float32)
    blackman;
    /// Hamming window: a raised cosine, 0.08 at both ends, with a low first side lobe.
    ///
    /// Point n is `0.54 - 0.46 * cos(2 * pi * n / (M - 1))`. One point alone is 1.
    ///
    /// Args:
    #[doc = shared!(window)]
    ///
    /// >>> mx.hamming(3)
    /// array([0.08, 1, 0.08], dtype=float32)
    hamming;
    /// Hann window: a raised cosine, zero at both ends.
    ///
    /// Point n is `0.5 - 0.5 * cos(2 * pi * n / (M - 1))`. One point alone is 1. See `mlx.core.fft.stft`,
    /// which takes it by name.
    ///
    /// Args:
    #[doc = shared!(window)]
    ///
    /// >>> mx.hanning(5)
    /// array([0, 0.5, 1, 0.5, 0], dtype=float32)
    hanning;
}

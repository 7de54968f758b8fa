//! What a Fourier transform along one axis is, for both backends: direction, kind, length and scale. The
//! kernels read inputs that are shorter or longer than the transform as padded with zeros or cut.

pub mod constants;
pub mod hadamard;
pub mod plan;

/// Which values go in and come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FftKind {
    /// All coefficients of complex (or float32) input.
    Complex,
    /// The first `n / 2 + 1` coefficients of float32 input.
    Forward,
    /// float32 values from the first `n / 2 + 1` coefficients; the imaginary part of the first one, and of
    /// the last one for even `n`, is not read.
    Backward,
}

/// A transform of every line along one axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fft {
    /// Values in and out.
    pub kind: FftKind,
    /// The axis, of source and destination.
    pub axis: usize,
    /// Length of the transform, at least 1.
    pub n: usize,
    /// The sign of the exponent is positive.
    pub inverse: bool,
    /// Factor of every result.
    pub scale: f32,
}

impl Fft {
    /// Elements of a line that count as input; the others are cut.
    pub fn len_in(&self) -> usize {
        if self.kind == FftKind::Backward { self.n / 2 + 1 } else { self.n }
    }

    /// Elements of an output line.
    pub fn len_out(&self) -> usize {
        if self.kind == FftKind::Forward { self.n / 2 + 1 } else { self.n }
    }
}

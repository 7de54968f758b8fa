//! Reduces elements of another process into those of this one. Sums of bools are "or", as in MLX; halves are summed in
//! float32 and rounded once for each addend; complex numbers are ordered by real, then imaginary part; NaN wins.

use half::{bf16, f16};
use num_complex::Complex32;

use super::Reduction;
use crate::core::Dtype;

trait Element: Copy {
    fn sum(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Element for $t {
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }
        }
    )*};
}

macro_rules! floats {
    ($($t:ty: $add:expr),*) => {$(
        impl Element for $t {
            fn sum(self, other: Self) -> Self {
                $add(self, other)
            }
            fn max(self, other: Self) -> Self {
                if self.is_nan() || self > other { self } else { other }
            }
            fn min(self, other: Self) -> Self {
                if self.is_nan() || self < other { self } else { other }
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 i8 i16 i32 i64);
floats!(
    f32: |a: f32, b: f32| a + b,
    f64: |a: f64, b: f64| a + b,
    f16: |a: f16, b: f16| f16::from_f32(a.to_f32() + b.to_f32()),
    bf16: |a: bf16, b: bf16| bf16::from_f32(a.to_f32() + b.to_f32())
);

impl Element for Complex32 {
    fn sum(self, other: Self) -> Self {
        self + other
    }
    fn max(self, other: Self) -> Self {
        if self.is_nan() || (!other.is_nan() && (self.re, self.im) > (other.re, other.im)) {
            self
        } else {
            other
        }
    }
    fn min(self, other: Self) -> Self {
        if self.is_nan() || (!other.is_nan() && (self.re, self.im) < (other.re, other.im)) {
            self
        } else {
            other
        }
    }
}

/// One byte that is 0 or 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Truth(u8);

impl Element for Truth {
    fn sum(self, other: Self) -> Self {
        self.max(other)
    }
    fn max(self, other: Self) -> Self {
        Truth(u8::from(self.0 | other.0 != 0))
    }
    fn min(self, other: Self) -> Self {
        Truth(u8::from(self.0 != 0 && other.0 != 0))
    }
}

fn each<T: Copy>(into: &mut [u8], from: &[u8], f: impl Fn(T, T) -> T) {
    let n = into.len().min(from.len()) / size_of::<T>();
    let (into, from) = (into.as_mut_ptr().cast::<T>(), from.as_ptr().cast::<T>());
    for i in 0..n {
        // SAFETY: both slices hold `n` elements; every pattern of bits is a value of these types, and nothing is
        // assumed about alignment.
        unsafe { into.add(i).write_unaligned(f(into.add(i).read_unaligned(), from.add(i).read_unaligned())) };
    }
}

fn run<T: Element>(how: Reduction, into: &mut [u8], from: &[u8]) {
    match how {
        Reduction::Sum => each(into, from, T::sum),
        Reduction::Max => each(into, from, T::max),
        Reduction::Min => each(into, from, T::min),
    }
}

/// Reduces `from` into `into`, element by element.
pub fn accumulate(how: Reduction, dtype: Dtype, into: &mut [u8], from: &[u8]) {
    match dtype {
        Dtype::Bool => run::<Truth>(how, into, from),
        Dtype::U8 => run::<u8>(how, into, from),
        Dtype::U16 => run::<u16>(how, into, from),
        Dtype::U32 => run::<u32>(how, into, from),
        Dtype::U64 => run::<u64>(how, into, from),
        Dtype::I8 => run::<i8>(how, into, from),
        Dtype::I16 => run::<i16>(how, into, from),
        Dtype::I32 => run::<i32>(how, into, from),
        Dtype::I64 => run::<i64>(how, into, from),
        Dtype::F16 => run::<f16>(how, into, from),
        Dtype::BF16 => run::<bf16>(how, into, from),
        Dtype::F32 => run::<f32>(how, into, from),
        Dtype::F64 => run::<f64>(how, into, from),
        Dtype::C64 => run::<Complex32>(how, into, from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced<T: Copy>(how: Reduction, dtype: Dtype, a: &[T], b: &[T]) -> Vec<T> {
        let bytes = |x: &[T]| -> Vec<u8> {
            // SAFETY: the bytes of plain numbers.
            unsafe { std::slice::from_raw_parts(x.as_ptr().cast::<u8>(), size_of_val(x)) }.to_vec()
        };
        let mut into = bytes(a);
        accumulate(how, dtype, &mut into, &bytes(b));
        // SAFETY: the same numbers back.
        (0..a.len()).map(|i| unsafe { into.as_ptr().cast::<T>().add(i).read_unaligned() }).collect()
    }

    #[test]
    fn integers_wrap_bools_or_and_nan_wins() {
        assert_eq!(reduced(Reduction::Sum, Dtype::U8, &[250u8, 1], &[10, 2]), [4, 3]);
        assert_eq!(reduced(Reduction::Sum, Dtype::Bool, &[1u8, 0, 0], &[1, 1, 0]), [1, 1, 0]);
        assert_eq!(reduced(Reduction::Min, Dtype::Bool, &[1u8, 0, 1], &[1, 1, 0]), [1, 0, 0]);
        for how in [Reduction::Max, Reduction::Min] {
            let r = reduced(how, Dtype::F32, &[f32::NAN, 1.0], &[1.0, f32::NAN]);
            assert!(r.iter().all(|x| x.is_nan()));
        }
        let third = f16::from_f32(1.0 / 3.0);
        let sum = reduced(Reduction::Sum, Dtype::F16, &[third], &[f16::ONE])[0];
        assert_eq!(sum, f16::from_f32(third.to_f32() + 1.0));
        let c = Complex32::new;
        let big = reduced(Reduction::Max, Dtype::C64, &[c(2.0, 0.0)], &[c(2.0, 1.0)]);
        assert_eq!(big, [c(2.0, 1.0)]);
    }
}

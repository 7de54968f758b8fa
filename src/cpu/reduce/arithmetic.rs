//! Arithmetic of each element type that reductions are made of: sums and products, orders, truth.

use num_complex::Complex32;

use crate::cpu::runtime::elem::Half;

/// Accumulators of sums and products; integers wrap.
pub(crate) trait Ring: Copy + Send + Sync + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn plus(self, o: Self) -> Self;
    fn times(self, o: Self) -> Self;
}

macro_rules! ring {
    ($($t:ty, $zero:expr, $one:expr, |$a:ident, $b:ident| $sum:expr, $product:expr;)*) => { $(
        impl Ring for $t {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            #[inline(always)]
            fn plus(self, $b: Self) -> Self { let $a = self; $sum }
            #[inline(always)]
            fn times(self, $b: Self) -> Self { let $a = self; $product }
        }
    )* };
}

ring! {
    u32, 0, 1, |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    u64, 0, 1, |a, b| a.wrapping_add(b), a.wrapping_mul(b);
    f32, 0.0, 1.0, |a, b| a + b, a * b;
    f64, 0.0, 1.0, |a, b| a + b, a * b;
    Complex32, Complex32::new(0.0, 0.0), Complex32::new(1.0, 0.0), |a, b| a + b, a * b;
}

/// Values with an order; the choice of a NaN wins, and stays.
pub(crate) trait Order: Copy + Send + Sync + 'static {
    const LEAST: Self;
    const GREATEST: Self;
    fn lesser(self, o: Self) -> Self;
    fn greater(self, o: Self) -> Self;
}

macro_rules! order_int {
    ($($t:ty),*) => { $(
        impl Order for $t {
            const LEAST: Self = <$t>::MIN;
            const GREATEST: Self = <$t>::MAX;
            #[inline(always)]
            fn lesser(self, o: Self) -> Self { if self < o { self } else { o } }
            #[inline(always)]
            fn greater(self, o: Self) -> Self { if self > o { self } else { o } }
        }
    )* };
}
macro_rules! order_float {
    ($($t:ty),*) => { $(
        impl Order for $t {
            const LEAST: Self = <$t>::NEG_INFINITY;
            const GREATEST: Self = <$t>::INFINITY;
            #[inline(always)]
            fn lesser(self, o: Self) -> Self { if (self < o) | self.is_nan() { self } else { o } }
            #[inline(always)]
            fn greater(self, o: Self) -> Self { if (self > o) | self.is_nan() { self } else { o } }
        }
    )* };
}
order_int!(u8, u16, u32, u64, i8, i16, i32, i64);
order_float!(f32, f64);

fn complex_nan(x: Complex32) -> bool {
    x.re.is_nan() || x.im.is_nan()
}

// Lexicographic: real part first.
impl Order for Complex32 {
    const LEAST: Self = Complex32::new(f32::NEG_INFINITY, f32::NEG_INFINITY);
    const GREATEST: Self = Complex32::new(f32::INFINITY, f32::INFINITY);
    fn lesser(self, o: Self) -> Self {
        if complex_nan(self) || complex_nan(o) {
            return Complex32::new(f32::NAN, 0.0);
        }
        if (self.re, self.im) < (o.re, o.im) { self } else { o }
    }
    fn greater(self, o: Self) -> Self {
        if complex_nan(self) || complex_nan(o) {
            return Complex32::new(f32::NAN, 0.0);
        }
        if (self.re, self.im) > (o.re, o.im) { self } else { o }
    }
}

/// Whether an element counts as true.
pub(crate) trait Truth: Copy + Send + Sync + 'static {
    fn truth(self) -> u8;
}

macro_rules! truth {
    ($($t:ty: |$x:ident| $e:expr;)*) => { $(
        impl Truth for $t {
            #[inline(always)]
            fn truth(self) -> u8 { let $x = self; u8::from($e) }
        }
    )* };
}
truth! {
    u8: |x| x != 0;
    u16: |x| x != 0;
    u32: |x| x != 0;
    u64: |x| x != 0;
    Half: |x| x.0 & 0x7fff != 0;
    f32: |x| x != 0.0;
    f64: |x| x != 0.0;
    Complex32: |x| (x.re != 0.0) | (x.im != 0.0);
}

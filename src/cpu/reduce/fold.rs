//! The arithmetic of each reduction: how an element enters an accumulator, how accumulators join, how one
//! becomes a result. The loops over memory are elsewhere and know nothing of the operation.

use std::marker::PhantomData;

use num_complex::Complex32;

pub(crate) use crate::cpu::runtime::elem::{Bool, Brain, Half, To};

/// A reduction of `S` elements through accumulators `A` to a result `D`. `join` is associative and
/// commutative up to rounding.
pub(crate) trait Fold: Copy + Send + Sync + 'static {
    type S: Copy + Send + Sync + 'static;
    type A: Copy + Send + Sync + 'static;
    type D: Copy + Send + Sync + 'static;
    const IDENTITY: Self::A;
    fn lift(x: Self::S) -> Self::A;
    fn join(a: Self::A, b: Self::A) -> Self::A;
    fn finish(a: Self::A) -> Self::D;
}

/// Joins partial results as a balanced tree, in the order they come (a binary counter).
pub(crate) struct Cascade<F: Fold> {
    levels: [F::A; 40],
    count: usize,
}

impl<F: Fold> Cascade<F> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Cascade { levels: [F::IDENTITY; 40], count: 0 }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, mut x: F::A) {
        let mut level = 0;
        while (self.count >> level) & 1 == 1 {
            x = F::join(self.levels[level], x);
            level += 1;
        }
        self.levels[level] = x;
        self.count += 1;
    }

    #[inline(always)]
    pub(crate) fn result(&self) -> F::A {
        let mut out: Option<F::A> = None;
        for level in 0..40 {
            if (self.count >> level) & 1 == 1 {
                let x = self.levels[level];
                out = Some(out.map_or(x, |y| F::join(x, y)));
            }
        }
        out.unwrap_or(F::IDENTITY)
    }
}

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

macro_rules! folds {
    ($($name:ident <$($g:ident),+> where {$($bound:tt)*}
        ($s:ty, $a:ty, $d:ty), $identity:expr, |$x:ident| $lift:expr, |$l:ident, $r:ident| $join:expr,
        |$z:ident| $finish:expr;)*) => { $(
        #[derive(Clone, Copy)]
        pub(crate) struct $name<$($g),+>(PhantomData<($($g,)+)>);
        impl<$($g: Copy + Send + Sync + 'static),+> Fold for $name<$($g),+> where $($bound)* {
            type S = $s;
            type A = $a;
            type D = $d;
            const IDENTITY: Self::A = $identity;
            #[inline(always)]
            fn lift($x: Self::S) -> Self::A { $lift }
            #[inline(always)]
            fn join($l: Self::A, $r: Self::A) -> Self::A { $join }
            #[inline(always)]
            fn finish($z: Self::A) -> Self::D { $finish }
        }
    )* };
}

folds! {
    Sum<S, A, D> where {S: To<A>, A: Ring + To<D>}
        (S, A, D), A::ZERO, |x| x.to(), |a, b| a.plus(b), |a| a.to();
    Prod<S, A, D> where {S: To<A>, A: Ring + To<D>}
        (S, A, D), A::ONE, |x| x.to(), |a, b| a.times(b), |a| a.to();
    Min<S, A> where {S: To<A>, A: Order + To<S>}
        (S, A, S), A::GREATEST, |x| x.to(), |a, b| a.lesser(b), |a| a.to();
    Max<S, A> where {S: To<A>, A: Order + To<S>}
        (S, A, S), A::LEAST, |x| x.to(), |a, b| a.greater(b), |a| a.to();
    All<S> where {S: Truth}
        (S, u8, u8), 1, |x| x.truth(), |a, b| a & b, |a| a;
    Any<S> where {S: Truth}
        (S, u8, u8), 0, |x| x.truth(), |a, b| a | b, |a| a;
}

//! The arithmetic of each reduction: how an element enters an accumulator, how accumulators join, how one
//! becomes a result. The loops over memory are elsewhere and know nothing of the operation.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::arithmetic::{Order, Ring, Truth};

pub(crate) use crate::cpu::runtime::elem::{Bool, Brain, Half, To};

/// A reduction of `S` elements through accumulators `A` to a result `D`. `join` is associative and
/// commutative up to rounding.
pub(crate) trait Fold: Copy + Send + Sync + 'static {
    type S: Copy + Send + Sync + 'static;
    type A: Copy + Send + Sync + 'static;
    type D: Copy + Send + Sync + 'static;
    const IDENTITY: Self::A;
    /// Whether accumulators are added or multiplied.
    const RING: bool;
    fn lift(x: Self::S) -> Self::A;
    fn join(a: Self::A, b: Self::A) -> Self::A;
    fn finish(a: Self::A) -> Self::D;
}

/// Joins partial results as a balanced tree, in the order they come (a binary counter).
pub(crate) struct Cascade<F: Fold> {
    /// Those are there whose bit is set in the count.
    levels: [MaybeUninit<F::A>; 40],
    count: usize,
}

impl<F: Fold> Cascade<F> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Cascade { levels: [const { MaybeUninit::uninit() }; 40], count: 0 }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, mut x: F::A) {
        let mut level = 0;
        while (self.count >> level) & 1 == 1 {
            // SAFETY: the bit is set.
            x = F::join(unsafe { self.levels[level].assume_init() }, x);
            level += 1;
        }
        self.levels[level].write(x);
        self.count += 1;
    }

    #[inline(always)]
    pub(crate) fn result(&self) -> F::A {
        let mut out: Option<F::A> = None;
        for level in 0..40 {
            if (self.count >> level) & 1 == 1 {
                // SAFETY: the bit is set.
                let x = unsafe { self.levels[level].assume_init() };
                out = Some(out.map_or(x, |y| F::join(x, y)));
            }
        }
        out.unwrap_or(F::IDENTITY)
    }
}

macro_rules! folds {
    ($($name:ident <$($g:ident),+> where {$($bound:tt)*}
        ($s:ty, $a:ty, $d:ty), $ring:literal, $identity:expr, |$x:ident| $lift:expr, |$l:ident, $r:ident| $join:expr,
        |$z:ident| $finish:expr;)*) => { $(
        #[derive(Clone, Copy)]
        pub(crate) struct $name<$($g),+>(PhantomData<($($g,)+)>);
        impl<$($g: Copy + Send + Sync + 'static),+> Fold for $name<$($g),+> where $($bound)* {
            type S = $s;
            type A = $a;
            type D = $d;
            const IDENTITY: Self::A = $identity;
            const RING: bool = $ring;
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
        (S, A, D), true, A::ZERO, |x| x.to(), |a, b| a.plus(b), |a| a.to();
    Prod<S, A, D> where {S: To<A>, A: Ring + To<D>}
        (S, A, D), true, A::ONE, |x| x.to(), |a, b| a.times(b), |a| a.to();
    Min<S, A> where {S: To<A>, A: Order + To<S>}
        (S, A, S), false, A::GREATEST, |x| x.to(), |a, b| a.lesser(b), |a| a.to();
    Max<S, A> where {S: To<A>, A: Order + To<S>}
        (S, A, S), false, A::LEAST, |x| x.to(), |a, b| a.greater(b), |a| a.to();
    All<S> where {S: Truth}
        (S, u8, u8), false, 1, |x| x.truth(), |a, b| a & b, |a| a;
    Any<S> where {S: Truth}
        (S, u8, u8), false, 0, |x| x.truth(), |a, b| a | b, |a| a;
}

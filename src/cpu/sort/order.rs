//! The order of elements as unsigned integers: NaN last, complex numbers by real, then imaginary part. Shared
//! by the kernels that sort, select and search.

use num_complex::Complex32;

use crate::cpu::runtime::elem::{Brain, Half};

/// An element with an order-preserving integer.
pub(in crate::cpu) trait Element: Copy + Send + Sync + 'static {
    /// Unsigned integer type of the keys.
    type Key: Key;
    /// Whether an element follows from its strict key.
    const STRICT: bool = true;
    /// Equal elements have equal keys; every NaN has the greatest one.
    fn key(self) -> Self::Key;
    /// A key of its own for every bit pattern: -0 comes before 0, and NaNs follow their bits.
    fn strict(self) -> Self::Key;
    /// The element of a strict key.
    fn back(key: Self::Key) -> Self;
}

/// Unsigned integers that a radix sort takes apart; `Pair` is a key with an index.
pub(in crate::cpu) trait Key: Copy + Ord + Send + Sync + Default + 'static {
    const BITS: u32;
    type Pair: Copy + Ord + Send + Sync + Default + 'static;
    fn word(self) -> u64;
    fn pair(self, index: u32) -> Self::Pair;
    fn index(pair: Self::Pair) -> u32;
    fn pair_word(pair: Self::Pair) -> u64;
}

macro_rules! narrow_keys {
    ($($t:ty),*) => { $(impl Key for $t {
        const BITS: u32 = <$t>::BITS;
        type Pair = u64;
        #[inline(always)]
        fn word(self) -> u64 { self.into() }
        #[inline(always)]
        fn pair(self, index: u32) -> u64 { u64::from(self) << 32 | u64::from(index) }
        #[inline(always)]
        fn index(pair: u64) -> u32 { pair as u32 }
        #[inline(always)]
        fn pair_word(pair: u64) -> u64 { pair >> 32 }
    })* };
}
narrow_keys!(u8, u16, u32);

impl Key for u64 {
    const BITS: u32 = 64;
    type Pair = (u64, u32);
    #[inline(always)]
    fn word(self) -> u64 {
        self
    }
    #[inline(always)]
    fn pair(self, index: u32) -> (u64, u32) {
        (self, index)
    }
    #[inline(always)]
    fn index(pair: (u64, u32)) -> u32 {
        pair.1
    }
    #[inline(always)]
    fn pair_word(pair: (u64, u32)) -> u64 {
        pair.0
    }
}

macro_rules! integers {
    ($($t:ty, $key:ty, $flip:expr;)*) => { $(impl Element for $t {
        type Key = $key;
        #[inline(always)]
        fn key(self) -> $key { self as $key ^ $flip }
        #[inline(always)]
        fn strict(self) -> $key { self.key() }
        #[inline(always)]
        fn back(key: $key) -> $t { (key ^ $flip) as $t }
    })* };
}
integers! {
    u8, u8, 0;
    u16, u16, 0;
    u32, u32, 0;
    u64, u64, 0;
    i8, u8, 0x80;
    i16, u16, 0x8000;
    i32, u32, 1 << 31;
    i64, u64, 1 << 63;
}

// Floating point bits in the order of their values: negative numbers are inverted. That puts NaNs with a sign
// first; strict keys are turned round by their number, so that they come last like the others.
macro_rules! floats {
    ($($t:ty, $key:ty, $mantissa:expr, |$x:ident| $bits:expr, |$k:ident| $back:expr;)*) => { $(
        impl Element for $t {
            type Key = $key;
            #[inline(always)]
            fn key(self) -> $key {
                const SIGN: $key = 1 << (<$key>::BITS - 1);
                const INFINITY: $key = (SIGN - 1) & !((1 << $mantissa) - 1);
                let $x = self;
                let bits: $key = if $bits == SIGN { 0 } else { $bits };
                let key = if bits & SIGN != 0 { !bits } else { bits | SIGN };
                if bits & !SIGN > INFINITY { <$key>::MAX } else { key }
            }
            #[inline(always)]
            fn strict(self) -> $key {
                const SIGN: $key = 1 << (<$key>::BITS - 1);
                let $x = self;
                let bits: $key = $bits;
                let key = if bits & SIGN != 0 { !bits } else { bits | SIGN };
                key.wrapping_sub((1 << $mantissa) - 1)
            }
            #[inline(always)]
            fn back(key: $key) -> $t {
                const SIGN: $key = 1 << (<$key>::BITS - 1);
                let key = key.wrapping_add((1 << $mantissa) - 1);
                let $k: $key = if key & SIGN != 0 { key ^ SIGN } else { !key };
                $back
            }
        }
    )* };
}
floats! {
    Half, u16, 10, |x| x.0, |k| Half(k);
    Brain, u16, 7, |x| x.0, |k| Brain(k);
    f32, u32, 23, |x| x.to_bits(), |k| f32::from_bits(k);
    f64, u64, 52, |x| x.to_bits(), |k| f64::from_bits(k);
}

impl Element for Complex32 {
    type Key = u64;
    const STRICT: bool = false;
    #[inline(always)]
    fn key(self) -> u64 {
        match self.re.is_nan() || self.im.is_nan() {
            true => u64::MAX,
            false => u64::from(self.re.key()) << 32 | u64::from(self.im.key()),
        }
    }
    #[inline(always)]
    fn strict(self) -> u64 {
        self.key()
    }
    #[inline(always)]
    fn back(key: u64) -> Complex32 {
        Complex32::new(f32::back((key >> 32) as u32), f32::back(key as u32))
    }
}

/// Calls a generic function with the element type of a dtype: `by_dtype!(dtype, f::<_>(args))`.
macro_rules! by_dtype {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {{
        use $crate::core::Dtype::*;
        use $crate::cpu::runtime::elem::{Brain, Half};
        match $dtype {
            Bool | U8 => $f::<u8>($($arg),*),
            U16 => $f::<u16>($($arg),*),
            U32 => $f::<u32>($($arg),*),
            U64 => $f::<u64>($($arg),*),
            I8 => $f::<i8>($($arg),*),
            I16 => $f::<i16>($($arg),*),
            I32 => $f::<i32>($($arg),*),
            I64 => $f::<i64>($($arg),*),
            F16 => $f::<Half>($($arg),*),
            BF16 => $f::<Brain>($($arg),*),
            F32 => $f::<f32>($($arg),*),
            F64 => $f::<f64>($($arg),*),
            C64 => $f::<num_complex::Complex32>($($arg),*),
        }
    }};
}
pub(in crate::cpu) use by_dtype;

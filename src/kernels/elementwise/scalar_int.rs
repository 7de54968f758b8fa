//! Integer arithmetic that the elementwise table needs of every integer type.

/// Integer arithmetic that the table needs of every integer type.
pub trait Int: Copy + PartialOrd {
    /// Quotient rounded down; 0 where the divisor is 0.
    fn floor_div(self, b: Self) -> Self;
    /// Remainder with the divisor's sign; the dividend where the divisor is 0.
    fn floor_mod(self, b: Self) -> Self;
    /// Wrapping power; 0 for negative exponents.
    fn power(self, b: Self) -> Self;
    /// -1, 0 or 1.
    fn sign(self) -> Self;
    /// Wrapping absolute value.
    fn magnitude(self) -> Self;
    /// Shift by the count modulo the width of computation (32, or 64 for 64-bit types).
    fn shift_left(self, b: Self) -> Self;
    /// As `shift_left`; arithmetic for signed types.
    fn shift_right(self, b: Self) -> Self;
}

macro_rules! int {
    ($signed:literal, $wide:ty: $($t:ty),*) => { $(impl Int for $t {
        #[inline(always)]
        fn floor_div(self, b: Self) -> Self {
            let d = if b == 0 { 1 } else { b };
            let q = self.wrapping_div(d);
            #[allow(unused_comparisons)]
            let down = $signed && self.wrapping_rem(d) != 0 && ((self < 0) != (d < 0));
            if b == 0 { 0 } else { q.wrapping_sub(down as $t) }
        }
        #[inline(always)]
        fn floor_mod(self, b: Self) -> Self {
            let d = if b == 0 { 1 } else { b };
            let r = self.wrapping_rem(d);
            #[allow(unused_comparisons)]
            let fix = $signed && r != 0 && ((r < 0) != (d < 0));
            if b == 0 { self } else if fix { r.wrapping_add(d) } else { r }
        }
        #[inline(always)]
        fn power(self, b: Self) -> Self {
            #[allow(unused_comparisons)]
            if b < 0 {
                return 0;
            }
            let (mut x, mut e, mut y) = (self, b, 1 as $t);
            while e != 0 {
                if e & 1 != 0 {
                    y = y.wrapping_mul(x);
                }
                x = x.wrapping_mul(x);
                e >>= 1;
            }
            y
        }
        #[inline(always)]
        fn sign(self) -> Self {
            #[allow(unused_comparisons)]
            let negative = $signed && self < 0;
            ((self > 0) as $t).wrapping_sub(negative as $t)
        }
        #[inline(always)]
        fn magnitude(self) -> Self {
            #[allow(unused_comparisons)]
            if $signed && self < 0 { (0 as $t).wrapping_sub(self) } else { self }
        }
        #[inline(always)]
        fn shift_left(self, b: Self) -> Self {
            (self as $wide).wrapping_shl(b as u32) as $t
        }
        #[inline(always)]
        fn shift_right(self, b: Self) -> Self {
            (self as $wide).wrapping_shr(b as u32) as $t
        }
    })* };
}
int!(false, u32: u8, u16, u32);
int!(false, u64: u64);
int!(true, i32: i8, i16, i32);
int!(true, i64: i64);

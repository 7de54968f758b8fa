//! Block kernels of table rows on the host: `out[i] = f(a[i], b[i], c[i])` over contiguous operands, each
//! compiled for up to three instruction sets. Rows name them through the macros below.

use crate::core::Dtype;
use crate::core::fork::Made;

/// A loop over `n` elements of contiguous operands; unused operands may be null. The output must not
/// overlap an operand.
pub type BlockFn = unsafe fn(n: usize, a: *const u8, b: *const u8, c: *const u8, out: *mut u8);

/// One loop for the baseline, AVX2 and AVX-512.
#[derive(Clone, Copy)]
pub struct Kern(pub [BlockFn; 3]);

/// Loops of a row by computation dtype; float16 and bfloat16 are computed as float32.
#[derive(Clone, Copy)]
pub struct Cpu {
    pub bool_: Option<Kern>,
    /// u8, u16, u32, u64, i8, i16, i32, i64.
    pub ints: Option<[Kern; 8]>,
    pub f32: Option<Kern>,
    pub f64: Option<Kern>,
    pub c64: Option<Kern>,
    /// What the float32 loop does to each element, where processors have an instruction for it.
    pub single: Option<Single>,
}

/// Float32 operations that are an instruction or two, and a function that often stands among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Single {
    Add,
    Subtract,
    Multiply,
    Divide,
    Maximum,
    Minimum,
    Abs,
    Negative,
    Square,
    Sqrt,
    Erf,
}

/// No loops; rows name those they have.
pub const NONE: Cpu = Cpu { bool_: None, ints: None, f32: None, f64: None, c64: None, single: None };

static LEVEL: Made<usize> = Made::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        let v3 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        let v4 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq");
        return if v3 && v4 { 2 } else { v3 as usize };
    }
    #[allow(unreachable_code)]
    0
});

/// Best instruction set of this machine: 0 baseline, 1 AVX2, 2 AVX-512.
pub fn level() -> usize {
    *LEVEL
}

impl Kern {
    /// The loop for this machine.
    pub fn get(&self) -> BlockFn {
        self.0[level()]
    }
}

impl Cpu {
    /// The loop for a computation dtype.
    pub fn kern(&self, dtype: Dtype) -> Option<Kern> {
        match dtype {
            Dtype::Bool => self.bool_,
            Dtype::F16 | Dtype::BF16 | Dtype::F32 => self.f32,
            Dtype::F64 => self.f64,
            Dtype::C64 => self.c64,
            d => self.ints.map(|k| k[d as usize - Dtype::U8 as usize]),
        }
    }
}

/// # Safety
/// `a` and `o` are valid for `n` elements and do not overlap.
#[inline(always)]
pub unsafe fn loop1<T: Copy, U>(n: usize, a: *const u8, o: *mut u8, f: impl Fn(T) -> U) {
    let (a, o) = (a.cast::<T>(), o.cast::<U>());
    for i in 0..n {
        // SAFETY: i < n, as the caller promises.
        unsafe { o.add(i).write(f(*a.add(i))) }
    }
}

/// One compiled loop: arity, element types, parameters and expression, and the instruction set's features.
/// The expression is pasted into the loop: a closure made in a function with target features is one of its
/// own, which LLVM leaves as a call for each element once it is large.
macro_rules! one_loop {
    ($arity:tt, $t:ty => $u:ty, |$($x:tt),*| $e:expr $(, $features:literal)?) => {{
        $(#[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))])?
        #[allow(unused_variables)]
        unsafe fn k(n: usize, a: *const u8, b: *const u8, c: *const u8, o: *mut u8) {
            let o = o.cast::<$u>();
            $crate::kernels::elementwise::loops::one_loop!(@cast $arity, $t, a, b, c);
            for i in 0..n {
                $crate::kernels::elementwise::loops::one_loop!(@read $arity, $t, i, a, b, c, $($x),*);
                let y: $u = $e;
                // SAFETY: i < n, for which the contract of `BlockFn` makes operands and output valid.
                unsafe { o.add(i).write(y) }
            }
        }
        k as $crate::kernels::elementwise::loops::BlockFn
    }};
    (@cast 1, $t:ty, $a:ident, $b:ident, $c:ident) => {
        let $a = $a.cast::<$t>();
    };
    (@cast 2, $t:ty, $a:ident, $b:ident, $c:ident) => {
        let ($a, $b) = ($a.cast::<$t>(), $b.cast::<$t>());
    };
    (@cast 3, $t:ty, $a:ident, $b:ident, $c:ident) => {
        let ($b, $c) = ($b.cast::<$t>(), $c.cast::<$t>());
    };
    (@read 1, $t:ty, $i:ident, $a:ident, $b:ident, $c:ident, $x:tt) => {
        // SAFETY: as for the write.
        let $x: $t = unsafe { *$a.add($i) };
    };
    (@read 2, $t:ty, $i:ident, $a:ident, $b:ident, $c:ident, $x:tt, $y:tt) => {
        // SAFETY: as for the write.
        let ($x, $y): ($t, $t) = unsafe { (*$a.add($i), *$b.add($i)) };
    };
    (@read 3, $t:ty, $i:ident, $a:ident, $b:ident, $c:ident, $x:tt, $y:tt, $z:tt) => {
        // SAFETY: as for the write.
        let ($x, $y, $z): (u8, $t, $t) = unsafe { (*$a.add($i), *$b.add($i), *$c.add($i)) };
    };
}
/// A loop for baseline and AVX2.
macro_rules! kern2 {
    ($arity:tt, $t:ty => $u:ty, |$($x:tt),*| $e:expr) => {{
        const V3: $crate::kernels::elementwise::loops::BlockFn =
            $crate::kernels::elementwise::loops::one_loop!($arity, $t => $u, |$($x),*| $e, "avx2,fma,f16c,bmi1,bmi2");
        $crate::kernels::elementwise::loops::Kern([$crate::kernels::elementwise::loops::one_loop!($arity, $t => $u, |$($x),*| $e), V3, V3])
    }};
}
/// A loop for baseline, AVX2 and AVX-512.
macro_rules! kern3 {
    ($arity:tt, $t:ty => $u:ty, |$($x:tt),*| $e:expr) => {
        $crate::kernels::elementwise::loops::Kern([
            $crate::kernels::elementwise::loops::one_loop!($arity, $t => $u, |$($x),*| $e),
            $crate::kernels::elementwise::loops::one_loop!($arity, $t => $u, |$($x),*| $e, "avx2,fma,f16c,bmi1,bmi2"),
            $crate::kernels::elementwise::loops::one_loop!(
                $arity, $t => $u, |$($x),*| $e, "avx512f,avx512vl,avx512bw,avx512dq"
            ),
        ])
    };
}
/// A float32 loop; the result type is given where it is not float32.
macro_rules! f32_loop {
    ($arity:tt, |$($x:tt),*| $e:expr) => { Some($crate::kernels::elementwise::loops::kern3!($arity, f32 => f32, |$($x),*| $e)) };
    ($arity:tt => $u:ty, |$($x:tt),*| $e:expr) => { Some($crate::kernels::elementwise::loops::kern3!($arity, f32 => $u, |$($x),*| $e)) };
}
/// One compiled float32 loop with a quick form for blocks whose elements all permit it.
macro_rules! one_split {
    (|$x:ident| if $near:expr => $quick:expr, else $e:expr $(; $features:literal)?) => {{
        $(#[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))])?
        unsafe fn k(n: usize, a: *const u8, _: *const u8, _: *const u8, o: *mut u8) {
            let (a, o) = (a.cast::<f32>(), o.cast::<f32>());
            for from in (0..n).step_by(256) {
                let to = n.min(from + 256);
                let mut all = true;
                for i in from..to {
                    // SAFETY: i < n, for which the contract of `BlockFn` makes the operand valid.
                    let $x = unsafe { *a.add(i) };
                    all &= $near;
                }
                if all {
                    for i in from..to {
                        // SAFETY: as above.
                        let $x = unsafe { *a.add(i) };
                        let y: f32 = $quick;
                        // SAFETY: as above, for the output.
                        unsafe { o.add(i).write(y) }
                    }
                } else {
                    for i in from..to {
                        // SAFETY: as above.
                        let $x = unsafe { *a.add(i) };
                        let y: f32 = $e;
                        // SAFETY: as above, for the output.
                        unsafe { o.add(i).write(y) }
                    }
                }
            }
        }
        k as $crate::kernels::elementwise::loops::BlockFn
    }};
}
/// A float32 loop of one operand with a quick form, which gives the same value wherever it is permitted.
macro_rules! f32_split {
    (|$x:ident| if $near:expr => $quick:expr, else $e:expr) => {
        Some($crate::kernels::elementwise::loops::Kern([
            $crate::kernels::elementwise::loops::one_split!(|$x| if $near => $quick, else $e),
            $crate::kernels::elementwise::loops::one_split!(
                |$x| if $near => $quick, else $e; "avx2,fma,f16c,bmi1,bmi2"
            ),
            $crate::kernels::elementwise::loops::one_split!(
                |$x| if $near => $quick, else $e; "avx512f,avx512vl,avx512bw,avx512dq"
            ),
        ]))
    };
}
/// The same for two operands.
macro_rules! one_split2 {
    (|$x:ident, $y:ident| if $near:expr => $quick:expr, else $e:expr $(; $features:literal)?) => {{
        $(#[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))])?
        #[allow(unused_variables)]
        unsafe fn k(n: usize, a: *const u8, b: *const u8, _: *const u8, o: *mut u8) {
            let (a, b, o) = (a.cast::<f32>(), b.cast::<f32>(), o.cast::<f32>());
            for from in (0..n).step_by(256) {
                let to = n.min(from + 256);
                let mut all = true;
                for i in from..to {
                    // SAFETY: i < n, for which the contract of `BlockFn` makes the operands valid.
                    let ($x, $y) = unsafe { (*a.add(i), *b.add(i)) };
                    all &= $near;
                }
                if all {
                    for i in from..to {
                        // SAFETY: as above.
                        let ($x, $y) = unsafe { (*a.add(i), *b.add(i)) };
                        let y: f32 = $quick;
                        // SAFETY: as above, for the output.
                        unsafe { o.add(i).write(y) }
                    }
                } else {
                    for i in from..to {
                        // SAFETY: as above.
                        let ($x, $y) = unsafe { (*a.add(i), *b.add(i)) };
                        let y: f32 = $e;
                        // SAFETY: as above, for the output.
                        unsafe { o.add(i).write(y) }
                    }
                }
            }
        }
        k as $crate::kernels::elementwise::loops::BlockFn
    }};
}
/// A float32 loop of two operands with a quick form, whose values may differ in the last place.
macro_rules! f32_split2 {
    (|$x:ident, $y:ident| if $near:expr => $quick:expr, else $e:expr) => {
        Some($crate::kernels::elementwise::loops::Kern([
            $crate::kernels::elementwise::loops::one_split2!(|$x, $y| if $near => $quick, else $e),
            $crate::kernels::elementwise::loops::one_split2!(
                |$x, $y| if $near => $quick, else $e; "avx2,fma,f16c,bmi1,bmi2"
            ),
            $crate::kernels::elementwise::loops::one_split2!(
                |$x, $y| if $near => $quick, else $e; "avx512f,avx512vl,avx512bw,avx512dq"
            ),
        ]))
    };
}
/// One compiled float32 loop of two operands whose rare bad results are computed again, one by one.
macro_rules! one_checked {
    (|$x:ident, $y:ident| $e:expr, if |$r:ident| $bad:expr => $again:expr $(; $features:literal)?) => {{
        $(#[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))])?
        unsafe fn k(n: usize, a: *const u8, b: *const u8, _: *const u8, o: *mut u8) {
            let (a, b, o) = (a.cast::<f32>(), b.cast::<f32>(), o.cast::<f32>());
            for from in (0..n).step_by(256) {
                let to = n.min(from + 256);
                for i in from..to {
                    // SAFETY: i < n, for which the contract of `BlockFn` makes the operands valid.
                    let ($x, $y) = unsafe { (*a.add(i), *b.add(i)) };
                    let y: f32 = $e;
                    // SAFETY: as above, for the output.
                    unsafe { o.add(i).write(y) }
                }
                let mut any = false;
                for i in from..to {
                    // SAFETY: as above; the output was just written.
                    let ($x, $y, $r) = unsafe { (*a.add(i), *b.add(i), *o.add(i)) };
                    any |= $bad;
                }
                for i in if any { from..to } else { 0..0 } {
                    // SAFETY: as above.
                    let ($x, $y, $r) = unsafe { (*a.add(i), *b.add(i), *o.add(i)) };
                    if $bad {
                        // SAFETY: as above.
                        unsafe { o.add(i).write($again) }
                    }
                }
            }
        }
        k as $crate::kernels::elementwise::loops::BlockFn
    }};
}
/// A float32 loop of two operands with a check of the results; those that fail it are computed again.
macro_rules! f32_checked {
    (|$x:ident, $y:ident| $e:expr, if |$r:ident| $bad:expr => $again:expr) => {
        Some($crate::kernels::elementwise::loops::Kern([
            $crate::kernels::elementwise::loops::one_checked!(|$x, $y| $e, if |$r| $bad => $again),
            $crate::kernels::elementwise::loops::one_checked!(
                |$x, $y| $e, if |$r| $bad => $again; "avx2,fma,f16c,bmi1,bmi2"
            ),
            $crate::kernels::elementwise::loops::one_checked!(
                |$x, $y| $e, if |$r| $bad => $again; "avx512f,avx512vl,avx512bw,avx512dq"
            ),
        ]))
    };
}
/// A float64 loop.
macro_rules! f64_loop {
    ($arity:tt, |$($x:tt),*| $e:expr) => { Some($crate::kernels::elementwise::loops::kern2!($arity, f64 => f64, |$($x),*| $e)) };
    ($arity:tt => $u:ty, |$($x:tt),*| $e:expr) => { Some($crate::kernels::elementwise::loops::kern2!($arity, f64 => $u, |$($x),*| $e)) };
}
/// A complex64 loop.
macro_rules! c64_loop {
    ($arity:tt, |$($x:tt),*| $e:expr) => { $crate::kernels::elementwise::loops::c64_loop!($arity => num_complex::Complex32, |$($x),*| $e) };
    ($arity:tt => $u:ty, |$($x:tt),*| $e:expr) => {{
        const K: $crate::kernels::elementwise::loops::BlockFn =
            $crate::kernels::elementwise::loops::one_loop!($arity, num_complex::Complex32 => $u, |$($x),*| $e);
        Some($crate::kernels::elementwise::loops::Kern([K, K, K]))
    }};
}
/// A bool loop; elements are bytes of 0 or 1.
macro_rules! bool_loop {
    ($arity:tt, |$($x:tt),*| $e:expr) => { Some($crate::kernels::elementwise::loops::kern2!($arity, u8 => u8, |$($x),*| $e)) };
}
/// Loops for the eight integer types; the result type is given where it is not the operands'.
macro_rules! int_loops {
    ($arity:tt, |$($x:tt),*| $e:expr) => {
        Some([
            $crate::kernels::elementwise::loops::kern2!($arity, u8 => u8, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, u16 => u16, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, u32 => u32, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, u64 => u64, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, i8 => i8, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, i16 => i16, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, i32 => i32, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, i64 => i64, |$($x),*| $e),
        ])
    };
    ($arity:tt => $u:ty, |$($x:tt),*| $e:expr) => {
        Some([
            $crate::kernels::elementwise::loops::kern2!($arity, u8 => $u, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, u16 => $u, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, u32 => $u, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, u64 => $u, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, i8 => $u, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, i16 => $u, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, i32 => $u, |$($x),*| $e),
            $crate::kernels::elementwise::loops::kern2!($arity, i64 => $u, |$($x),*| $e),
        ])
    };
}
pub(crate) use {
    bool_loop, c64_loop, f32_checked, f32_loop, f32_split, f32_split2, f64_loop, int_loops, kern2, kern3,
    one_checked, one_loop, one_split, one_split2,
};

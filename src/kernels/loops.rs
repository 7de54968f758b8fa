//! Block kernels of table rows on the host: `out[i] = f(a[i], b[i], c[i])` over contiguous operands, each
//! compiled for up to three instruction sets. Rows name them through the macros below.

use std::sync::LazyLock;

use crate::core::Dtype;

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
}

/// No loops; rows name those they have.
pub const NONE: Cpu = Cpu { bool_: None, ints: None, f32: None, f64: None, c64: None };

static LEVEL: LazyLock<usize> = LazyLock::new(|| {
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

/// # Safety
/// As `loop1`, for two operands.
#[inline(always)]
pub unsafe fn loop2<T: Copy, V: Copy, U>(
    n: usize,
    a: *const u8,
    b: *const u8,
    o: *mut u8,
    f: impl Fn(T, V) -> U,
) {
    let (a, b, o) = (a.cast::<T>(), b.cast::<V>(), o.cast::<U>());
    for i in 0..n {
        // SAFETY: i < n, as the caller promises.
        unsafe { o.add(i).write(f(*a.add(i), *b.add(i))) }
    }
}

/// # Safety
/// As `loop1`, for a bool and two operands.
#[inline(always)]
pub unsafe fn loop3<T: Copy, U>(
    n: usize,
    a: *const u8,
    b: *const u8,
    c: *const u8,
    o: *mut u8,
    f: impl Fn(u8, T, T) -> U,
) {
    let (b, c, o) = (b.cast::<T>(), c.cast::<T>(), o.cast::<U>());
    for i in 0..n {
        // SAFETY: i < n, as the caller promises.
        unsafe { o.add(i).write(f(*a.add(i), *b.add(i), *c.add(i))) }
    }
}

/// One compiled loop: arity, element types, scalar function, and the instruction set's features.
macro_rules! one_loop {
    ($arity:tt, $t:ty => $u:ty, $f:expr $(, $features:literal)?) => {{
        $(#[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))])?
        #[allow(unused_variables)]
        unsafe fn k(n: usize, a: *const u8, b: *const u8, c: *const u8, o: *mut u8) {
            // SAFETY: the contract of `BlockFn`.
            unsafe { $crate::kernels::loops::one_loop!(@ $arity, $t, $u, $f, n, a, b, c, o) }
        }
        k as $crate::kernels::loops::BlockFn
    }};
    (@ 1, $t:ty, $u:ty, $f:expr, $n:ident, $a:ident, $b:ident, $c:ident, $o:ident) => {
        $crate::kernels::loops::loop1::<$t, $u>($n, $a, $o, $f)
    };
    (@ 2, $t:ty, $u:ty, $f:expr, $n:ident, $a:ident, $b:ident, $c:ident, $o:ident) => {
        $crate::kernels::loops::loop2::<$t, $t, $u>($n, $a, $b, $o, $f)
    };
    (@ 3, $t:ty, $u:ty, $f:expr, $n:ident, $a:ident, $b:ident, $c:ident, $o:ident) => {
        $crate::kernels::loops::loop3::<$t, $u>($n, $a, $b, $c, $o, $f)
    };
}
/// A loop for baseline and AVX2.
macro_rules! kern2 {
    ($arity:tt, $t:ty => $u:ty, $f:expr) => {{
        const V3: $crate::kernels::loops::BlockFn =
            $crate::kernels::loops::one_loop!($arity, $t => $u, $f, "avx2,fma,f16c,bmi1,bmi2");
        $crate::kernels::loops::Kern([$crate::kernels::loops::one_loop!($arity, $t => $u, $f), V3, V3])
    }};
}
/// A loop for baseline, AVX2 and AVX-512.
macro_rules! kern3 {
    ($arity:tt, $t:ty => $u:ty, $f:expr) => {
        $crate::kernels::loops::Kern([
            $crate::kernels::loops::one_loop!($arity, $t => $u, $f),
            $crate::kernels::loops::one_loop!($arity, $t => $u, $f, "avx2,fma,f16c,bmi1,bmi2"),
            $crate::kernels::loops::one_loop!($arity, $t => $u, $f, "avx512f,avx512vl,avx512bw,avx512dq"),
        ])
    };
}
/// A float32 loop; the result type is given where it is not float32.
macro_rules! f32_loop {
    ($arity:tt, $f:expr) => { Some($crate::kernels::loops::kern3!($arity, f32 => f32, $f)) };
    ($arity:tt => $u:ty, $f:expr) => { Some($crate::kernels::loops::kern3!($arity, f32 => $u, $f)) };
}
/// A float64 loop.
macro_rules! f64_loop {
    ($arity:tt, $f:expr) => { Some($crate::kernels::loops::kern2!($arity, f64 => f64, $f)) };
    ($arity:tt => $u:ty, $f:expr) => { Some($crate::kernels::loops::kern2!($arity, f64 => $u, $f)) };
}
/// A complex64 loop.
macro_rules! c64_loop {
    ($arity:tt, $f:expr) => { $crate::kernels::loops::c64_loop!($arity => num_complex::Complex32, $f) };
    ($arity:tt => $u:ty, $f:expr) => {{
        const K: $crate::kernels::loops::BlockFn =
            $crate::kernels::loops::one_loop!($arity, num_complex::Complex32 => $u, $f);
        Some($crate::kernels::loops::Kern([K, K, K]))
    }};
}
/// A bool loop; elements are bytes of 0 or 1.
macro_rules! bool_loop {
    ($arity:tt, $f:expr) => { Some($crate::kernels::loops::kern2!($arity, u8 => u8, $f)) };
}
/// Loops for the eight integer types; the result type is given where it is not the operands'.
macro_rules! int_loops {
    ($arity:tt, $f:expr) => {
        Some([
            $crate::kernels::loops::kern2!($arity, u8 => u8, $f),
            $crate::kernels::loops::kern2!($arity, u16 => u16, $f),
            $crate::kernels::loops::kern2!($arity, u32 => u32, $f),
            $crate::kernels::loops::kern2!($arity, u64 => u64, $f),
            $crate::kernels::loops::kern2!($arity, i8 => i8, $f),
            $crate::kernels::loops::kern2!($arity, i16 => i16, $f),
            $crate::kernels::loops::kern2!($arity, i32 => i32, $f),
            $crate::kernels::loops::kern2!($arity, i64 => i64, $f),
        ])
    };
    ($arity:tt => $u:ty, $f:expr) => {
        Some([
            $crate::kernels::loops::kern2!($arity, u8 => $u, $f),
            $crate::kernels::loops::kern2!($arity, u16 => $u, $f),
            $crate::kernels::loops::kern2!($arity, u32 => $u, $f),
            $crate::kernels::loops::kern2!($arity, u64 => $u, $f),
            $crate::kernels::loops::kern2!($arity, i8 => $u, $f),
            $crate::kernels::loops::kern2!($arity, i16 => $u, $f),
            $crate::kernels::loops::kern2!($arity, i32 => $u, $f),
            $crate::kernels::loops::kern2!($arity, i64 => $u, $f),
        ])
    };
}
pub(crate) use {bool_loop, c64_loop, f32_loop, f64_loop, int_loops, kern2, kern3, one_loop};

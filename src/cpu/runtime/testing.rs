//! Helpers of the kernels' tests: owned strided arrays in many layouts, seeded values of every dtype, and
//! element access in a common type.

use half::{bf16, f16};
use num_complex::{Complex32, Complex64};

use crate::core::layout::{row_major, size_of};
use crate::core::{Dtype, Layout};
use crate::kernels::HostView;

/// A small seeded generator (splitmix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// An owned array with a layout; `u64` words keep the bytes aligned.
pub struct Owned {
    pub words: Vec<u64>,
    pub dtype: Dtype,
    pub layout: Layout,
}

impl Owned {
    pub fn zeros(dtype: Dtype, shape: &[i64]) -> Owned {
        let bytes = size_of(shape) * dtype.size();
        Owned { words: vec![0; bytes / 8 + 1], dtype, layout: Layout::contiguous(shape) }
    }

    /// `count` elements of memory with values from `f`, seen through `layout`.
    pub fn filled(
        dtype: Dtype,
        count: usize,
        layout: Layout,
        mut f: impl FnMut(usize) -> Complex64,
    ) -> Owned {
        let mut a = Owned { words: vec![0; count * dtype.size() / 8 + 1], dtype, layout };
        for i in 0..count {
            // SAFETY: i < count elements are allocated.
            unsafe { store(a.words.as_mut_ptr().cast(), dtype, i as isize, f(i)) };
        }
        a
    }

    pub fn from_f64(dtype: Dtype, shape: &[i64], values: &[f64]) -> Owned {
        Owned::filled(dtype, values.len(), Layout::contiguous(shape), |i| values[i].into())
    }

    pub fn view(&self) -> HostView {
        let p = self.words.as_ptr() as *mut u8;
        HostView::new(
            p.wrapping_offset(self.layout.offset as isize * self.dtype.size() as isize),
            self.dtype,
            &self.layout,
        )
    }

    /// Logical elements in row-major order.
    pub fn values(&self) -> Vec<Complex64> {
        values(&self.view())
    }

    pub fn reals(&self) -> Vec<f64> {
        self.values().iter().map(|z| z.re).collect()
    }

    /// Element bits in row-major order.
    pub fn bits(&self) -> Vec<u64> {
        let v = self.view();
        positions(&v).map(|p| unsafe { raw(v.ptr, v.dtype, p) }).collect()
    }
}

/// Element offsets of a view in row-major order.
pub fn positions(v: &HostView) -> impl Iterator<Item = isize> {
    let (shape, strides) = (v.shape.clone(), v.strides.clone());
    let dense = row_major(&shape);
    (0..size_of(&shape) as i64)
        .map(move |i| (0..shape.len()).map(|a| (i / dense[a] % shape[a].max(1) * strides[a]) as isize).sum())
}

pub fn values(v: &HostView) -> Vec<Complex64> {
    // SAFETY: tests pass views of memory they own.
    positions(v).map(|p| unsafe { load(v.ptr, v.dtype, p) }).collect()
}

unsafe fn raw(p: *const u8, dtype: Dtype, i: isize) -> u64 {
    unsafe {
        match dtype.size() {
            1 => (*p.offset(i)).into(),
            2 => (*p.cast::<u16>().offset(i)).into(),
            4 => (*p.cast::<u32>().offset(i)).into(),
            _ => *p.cast::<u64>().offset(i),
        }
    }
}

unsafe fn load(p: *const u8, dtype: Dtype, i: isize) -> Complex64 {
    use Dtype::*;
    let re = unsafe {
        match dtype {
            Bool | U8 => (*p.offset(i)).into(),
            U16 => (*p.cast::<u16>().offset(i)).into(),
            U32 => (*p.cast::<u32>().offset(i)).into(),
            U64 => *p.cast::<u64>().offset(i) as f64,
            I8 => (*p.cast::<i8>().offset(i)).into(),
            I16 => (*p.cast::<i16>().offset(i)).into(),
            I32 => (*p.cast::<i32>().offset(i)).into(),
            I64 => *p.cast::<i64>().offset(i) as f64,
            F16 => (*p.cast::<f16>().offset(i)).into(),
            BF16 => (*p.cast::<bf16>().offset(i)).into(),
            F32 => (*p.cast::<f32>().offset(i)).into(),
            F64 => *p.cast::<f64>().offset(i),
            C64 => {
                let z = *p.cast::<Complex32>().offset(i);
                return Complex64::new(z.re.into(), z.im.into());
            }
        }
    };
    re.into()
}

unsafe fn store(p: *mut u8, dtype: Dtype, i: isize, z: Complex64) {
    use Dtype::*;
    let x = z.re;
    unsafe {
        match dtype {
            Bool => *p.offset(i) = (x != 0.0).into(),
            U8 => *p.offset(i) = x as i64 as u8,
            U16 => *p.cast::<u16>().offset(i) = x as i64 as u16,
            U32 => *p.cast::<u32>().offset(i) = x as i64 as u32,
            U64 => *p.cast::<u64>().offset(i) = x as i64 as u64,
            I8 => *p.cast::<i8>().offset(i) = x as i64 as i8,
            I16 => *p.cast::<i16>().offset(i) = x as i64 as i16,
            I32 => *p.cast::<i32>().offset(i) = x as i64 as i32,
            I64 => *p.cast::<i64>().offset(i) = x as i64,
            F16 => *p.cast::<f16>().offset(i) = f16::from_f64(x),
            BF16 => *p.cast::<bf16>().offset(i) = bf16::from_f64(x),
            F32 => *p.cast::<f32>().offset(i) = x as f32,
            F64 => *p.cast::<f64>().offset(i) = x,
            C64 => *p.cast::<Complex32>().offset(i) = Complex32::new(x as f32, z.im as f32),
        }
    }
}

/// Layouts of `shape` over one memory block: (name, layout, elements of memory needed).
pub fn layouts(shape: &[i64]) -> Vec<(&'static str, Layout, usize)> {
    let n = shape.len();
    let mut out = Vec::new();
    let dense = Layout::contiguous(shape);
    let size = dense.size();
    out.push(("contiguous", dense.clone(), size));
    let mut l = dense.clone();
    l.offset = 3;
    out.push(("offset", l, size + 3));
    // Column-major.
    let mut l = dense.clone();
    let mut step = 1;
    for (s, d) in l.strides.iter_mut().zip(shape) {
        *s = step;
        step *= d.max(&1);
    }
    out.push(("transposed", l, size));
    // Every second element along the last axis, rows with a gap.
    let mut l = dense.clone();
    l.strides.iter_mut().for_each(|s| *s *= 2);
    out.push(("strided", l, 2 * size));
    // All axes backwards.
    let mut l = dense.clone();
    l.strides.iter_mut().for_each(|s| *s = -*s);
    l.offset = size as i64 - 1;
    out.push(("negative", l, size));
    if n >= 2 {
        // First and last axis swapped in memory, last one backwards.
        let mut swapped: Vec<i64> = shape.to_vec();
        swapped.swap(0, n - 1);
        let s = row_major(&swapped);
        let mut l = dense.clone();
        l.strides = s.clone();
        l.strides[0] = s[n - 1];
        l.strides[n - 1] = -s[0];
        l.offset = s[0] * (shape[n - 1] - 1).max(0);
        out.push(("swapped", l, size));
    }
    for a in [0, n.saturating_sub(1)] {
        if n > 0 {
            // Axis `a` repeated.
            let mut one: Vec<i64> = shape.to_vec();
            one[a] = 1;
            let mut l = dense.clone();
            l.strides = row_major(&one);
            l.strides[a] = 0;
            out.push(("broadcast", l, size_of(&one)));
        }
    }
    out
}

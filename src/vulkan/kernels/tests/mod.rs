//! Values of the hand-written kernels against plain host loops, over dtypes and layouts, on whichever
//! adapter exists: one file a family. Elements are compared as complex float64; inputs are chosen so that sums
//! are exact.

mod index;
mod norm;
pub mod ptx;
mod random;
mod reduce;
mod sort;

use std::sync::Arc;

use half::{bf16, f16};

use crate::core::layout::{row_major, size_of};
use crate::core::{Device, Dtype, Layout, Result, Storage, device};
use crate::kernels::{DeviceView, ReduceOp};
use crate::vulkan::{CommandEncoder, with_encoder};

type C = (f64, f64);

const REAL: [Dtype; 12] = {
    use Dtype::*;
    [Bool, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32]
};

struct Rng(u64);
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
}

/// An array on the host with a layout into its bytes.
struct Host {
    dtype: Dtype,
    layout: Layout,
    values: Vec<C>,
    storage: Arc<Storage>,
}

fn encode(d: Dtype, (re, im): C, out: &mut Vec<u8>) {
    let i = re as i128;
    match d {
        Dtype::Bool => out.push((re != 0.0) as u8),
        Dtype::U8 | Dtype::I8 => out.push(i as u8),
        Dtype::U16 | Dtype::I16 => out.extend((i as u16).to_ne_bytes()),
        Dtype::U32 | Dtype::I32 => out.extend((i as u32).to_ne_bytes()),
        Dtype::U64 | Dtype::I64 => out.extend((i as u64).to_ne_bytes()),
        Dtype::F16 => out.extend(f16::from_f64(re).to_ne_bytes()),
        Dtype::BF16 => out.extend(bf16::from_f64(re).to_ne_bytes()),
        Dtype::F32 => out.extend((re as f32).to_ne_bytes()),
        Dtype::F64 => out.extend(re.to_ne_bytes()),
        Dtype::C64 => [re, im].iter().for_each(|x| out.extend((*x as f32).to_ne_bytes())),
    }
}

fn decode(d: Dtype, b: &[u8]) -> C {
    // INVARIANT: every chunk has the dtype's size.
    macro_rules! get {
        ($t:ty, $at:expr) => {
            <$t>::from_ne_bytes(b[$at..$at + size_of::<$t>()].try_into().expect("size"))
        };
    }
    use std::mem::size_of;
    let re = match d {
        Dtype::Bool | Dtype::U8 => b[0] as f64,
        Dtype::I8 => b[0] as i8 as f64,
        Dtype::U16 => get!(u16, 0) as f64,
        Dtype::I16 => get!(i16, 0) as f64,
        Dtype::U32 => get!(u32, 0) as f64,
        Dtype::I32 => get!(i32, 0) as f64,
        Dtype::U64 => get!(u64, 0) as f64,
        Dtype::I64 => get!(i64, 0) as f64,
        Dtype::F16 => get!(f16, 0).to_f64(),
        Dtype::BF16 => get!(bf16, 0).to_f64(),
        Dtype::F32 => get!(f32, 0) as f64,
        Dtype::F64 => get!(f64, 0),
        Dtype::C64 => return (get!(f32, 0) as f64, get!(f32, 4) as f64),
    };
    (re, 0.0)
}

fn round(d: Dtype, v: C) -> C {
    let mut b = Vec::new();
    encode(d, v, &mut b);
    decode(d, &b)
}

impl Host {
    /// `total` elements of storage filled by `f`, seen through `layout`.
    fn new(dtype: Dtype, total: usize, layout: Layout, mut f: impl FnMut(usize) -> C) -> Host {
        let mut bytes = Vec::new();
        let values: Vec<C> = (0..total)
            .map(|i| {
                let v = round(dtype, f(i));
                encode(dtype, v, &mut bytes);
                v
            })
            .collect();
        let storage = crate::memory::host_storage(bytes.len().max(1)).unwrap();
        // SAFETY: the storage is fresh and holds as many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), storage.host_ptr_mut().unwrap(), bytes.len())
        };
        Host { dtype, layout, values, storage }
    }

    fn view(&self, enc: &mut CommandEncoder) -> Result<DeviceView> {
        let base = enc.resident(&self.storage)?;
        let ptr = base.wrapping_add_signed(self.layout.offset * self.dtype.size() as i64);
        Ok(DeviceView::new(ptr, self.dtype, &self.layout))
    }

    /// Elements in row-major order.
    fn elements(&self) -> Vec<C> {
        indices(&self.layout.shape).iter().map(|i| self.at(i)).collect()
    }

    fn at(&self, index: &[i64]) -> C {
        let off: i64 = index.iter().zip(&self.layout.strides).map(|(i, s)| i * s).sum();
        self.values[(self.layout.offset + off) as usize]
    }
}

fn indices(shape: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &d in shape {
        all = all.iter().flat_map(|p| (0..d).map(move |i| [&p[..], &[i]].concat())).collect();
    }
    all
}

/// Runs `f` on a GPU stream and returns the elements that it wrote into a contiguous array.
fn gpu(
    dtype: Dtype,
    shape: &[i64],
    f: impl FnOnce(&mut CommandEncoder, &DeviceView) -> Result<()>,
) -> Vec<C> {
    let n = size_of(shape) * dtype.size();
    let stream = device::default_stream(Device::GPU);
    let storage = with_encoder(stream, |enc| {
        let (storage, address) = enc.output(n.max(1))?;
        f(enc, &DeviceView::new(address, dtype, &Layout::contiguous(shape)))?;
        Ok(storage)
    })
    .unwrap();
    let p = storage.host_ptr().unwrap();
    // SAFETY: the storage holds n bytes.
    let bytes = unsafe { std::slice::from_raw_parts(p, n) };
    bytes.chunks(dtype.size()).map(|b| decode(dtype, b)).collect()
}

fn have_gpu() -> bool {
    !crate::vulkan::adapters().is_empty()
}

fn layout(shape: &[i64], strides: &[i64], offset: i64) -> Layout {
    Layout { shape: shape.into(), strides: strides.into(), offset }
}

/// (storage elements, layout) pairs: contiguous, permuted, negative, strided, broadcast, offset, tiny.
fn layouts() -> Vec<(usize, Layout)> {
    let perm = |shape: &[i64], axes: &[usize]| {
        let s = row_major(shape);
        let l = layout(
            &axes.iter().map(|&a| shape[a]).collect::<Vec<_>>(),
            &axes.iter().map(|&a| s[a]).collect::<Vec<_>>(),
            0,
        );
        (size_of(shape), l)
    };
    vec![
        (33, Layout::contiguous(&[33])),
        (1, Layout::contiguous(&[1])),
        (3 * 40 * 64, Layout::contiguous(&[3, 40, 64])),
        (3 * 4 * 5 * 6, Layout::contiguous(&[3, 4, 5, 6])),
        perm(&[3, 4, 5, 6], &[2, 0, 3, 1]),
        perm(&[6, 5, 4], &[2, 1, 0]),
        (7 * 33, layout(&[7, 33], &[33, -1], 32)),
        (7 * 33, layout(&[7, 33], &[-33, 1], 6 * 33)),
        (8 * 40, layout(&[4, 20], &[80, 2], 1)),
        (33, layout(&[5, 33], &[0, 1], 0)),
        (9, layout(&[9, 6], &[1, 0], 0)),
        (1 + 6 * 35, layout(&[6, 35], &[35, 1], 1)),
    ]
}

fn same(a: C, b: C) -> bool {
    let nan = |c: C| c.0.is_nan() || c.1.is_nan();
    a == b || (nan(a) && nan(b))
}

fn sample(op: ReduceOp, d: Dtype, rng: &mut Rng) -> C {
    let r = rng.next();
    match op {
        ReduceOp::Prod if !r.is_multiple_of(16) => {
            ([1.0, if d.is_inexact() { -1.0 } else { 1.0 }][(r >> 8) as usize & 1], 0.0)
        }
        ReduceOp::Prod => (1.0 + (r >> 8 & 1) as f64, 0.0),
        ReduceOp::All => (!r.is_multiple_of(40) as u8 as f64, 0.0),
        ReduceOp::Any => (r.is_multiple_of(40) as u8 as f64, 0.0),
        _ => (
            (r % 9) as f64 - if d.is_inexact() || d.kind() == crate::core::Kind::Signed { 4.0 } else { 0.0 },
            { if d == Dtype::C64 { (r >> 8 & 3) as f64 } else { 0.0 } },
        ),
    }
}

//! What op files share: turning arrays into kernel views on either device, allocating or donating outputs,
//! host constants, axes and broadcasting helpers.

use std::sync::Arc;

use crate::bail;
use crate::core::dtype::make_truths;
use crate::core::layout::{checked_size, is_row_major, normalize_axis, row_major, shown};
use crate::core::{
    Array, Data, Device, Dtype, Jvp, Layout, Primitive, Result, Shape, Storage, Stream, default_stream,
};
use crate::kernels::{HostView, View};
use crate::memory;

#[cfg(feature = "vulkan")]
use crate::{kernels::DeviceView, vulkan::CommandEncoder};

/// Records on the encoder of a GPU stream: `on_gpu!(stream, |enc| { ... })`.
#[macro_export]
macro_rules! on_gpu {
    ($stream:expr, |$enc:ident| $body:expr) => {{
        #[cfg(feature = "vulkan")]
        {
            $crate::vulkan::with_encoder($stream, |$enc| $body)
        }
        #[cfg(not(feature = "vulkan"))]
        {
            Err($crate::core::Error::Runtime(format!(
                "[eval] {} is not available: built without Vulkan.",
                $stream
            )))
        }
    }};
}

/// First element of evaluated data on the host.
pub fn host_start(d: &Data, dtype: Dtype) -> Result<*mut u8> {
    let base = d.storage.host_ptr()?;
    // SAFETY: layouts stay inside their storage by construction.
    Ok(unsafe { base.offset(d.offset as isize * dtype.size() as isize) })
}

/// View of an evaluated input on the host.
pub fn host_in(a: &Array) -> Result<HostView> {
    let d = a.data()?;
    let ptr = host_start(d, a.dtype())?;
    Ok(View { ptr, dtype: a.dtype(), shape: a.shape().into(), strides: d.strides.clone() })
}

/// Fresh row-major host memory for an output.
pub fn host_out(a: &Array) -> Result<HostView> {
    let storage = memory::host_storage(a.nbytes())?;
    place_host(a, storage)
}

fn place_host(a: &Array, storage: Arc<Storage>) -> Result<HostView> {
    let ptr = place(a, storage)?;
    Ok(View { ptr, dtype: a.dtype(), shape: a.shape().into(), strides: row_major(a.shape()) })
}

fn place(a: &Array, storage: Arc<Storage>) -> Result<*mut u8> {
    let ptr = storage.host_ptr_mut()?;
    a.set_data(row_major(a.shape()), 0, storage);
    Ok(ptr)
}

/// The storage of an input that nobody needs any more and that fits `out` exactly.
fn donor(out: &Array, inputs: &[Array]) -> Option<Arc<Storage>> {
    inputs.iter().find_map(|a| {
        let fits = a.is_unshared() && a.dtype().size() == out.dtype().size() && a.shape() == out.shape();
        let d = a.data().ok().filter(|_| fits)?;
        let whole = d.offset == 0
            && d.storage.nbytes() == out.nbytes()
            && Arc::strong_count(&d.storage) == 1
            && !d.storage.is_lent()
            && is_row_major(out.shape(), &d.strides);
        whole.then(|| d.storage.clone())
    })
}

/// Host memory for an elementwise output; reuses a dying input of equal layout.
pub fn host_out_reusing(out: &Array, inputs: &[Array]) -> Result<HostView> {
    match donor(out, inputs) {
        Some(storage) => place_host(out, storage),
        None => host_out(out),
    }
}

/// As [`host_out_reusing`]: only the address of the first element.
pub fn host_ptr_reusing(out: &Array, inputs: &[Array]) -> Result<*mut u8> {
    match donor(out, inputs) {
        Some(storage) => place(out, storage),
        None => place(out, memory::host_storage(out.nbytes())?),
    }
}

/// Whether two evaluated arrays lie in the same bytes.
pub fn same_storage(a: &Array, b: &Array) -> Result<bool> {
    Ok(Arc::ptr_eq(&a.data()?.storage, &b.data()?.storage))
}

/// View of an evaluated input on the device of the encoder's stream.
#[cfg(feature = "vulkan")]
pub fn dev_in(enc: &mut CommandEncoder, a: &Array) -> Result<DeviceView> {
    let d = a.data()?;
    let size = a.dtype().size();
    let ptr = if a.size() == 0 {
        0
    } else if a.size() == 1 && d.storage.any_device_block().is_none() {
        // A host scalar rides in the parameter ring: no upload, no barrier.
        // SAFETY: one element lies at the offset.
        let bytes = unsafe {
            std::slice::from_raw_parts(d.storage.host_ptr()?.offset(d.offset as isize * size as isize), size)
        };
        enc.params(bytes)?
    } else {
        enc.resident(&d.storage)?.wrapping_add_signed(d.offset * size as i64)
    };
    Ok(View { ptr, dtype: a.dtype(), shape: a.shape().into(), strides: d.strides.clone() })
}

/// Fresh row-major device memory for an output.
#[cfg(feature = "vulkan")]
pub fn dev_out(enc: &mut CommandEncoder, a: &Array) -> Result<DeviceView> {
    let strides = row_major(a.shape());
    let (storage, ptr) = enc.output(a.nbytes())?;
    a.set_data(strides.clone(), 0, storage);
    Ok(View { ptr, dtype: a.dtype(), shape: a.shape().into(), strides })
}

/// Device memory for an elementwise output; reuses a dying input of equal layout.
#[cfg(feature = "vulkan")]
pub fn dev_out_reusing(enc: &mut CommandEncoder, out: &Array, inputs: &[Array]) -> Result<DeviceView> {
    let id = enc.device().id();
    match donor(out, inputs).filter(|s| s.device_block(id).is_some() && out.size() > 0) {
        None => dev_out(enc, out),
        Some(storage) => {
            let strides = row_major(out.shape());
            let ptr = enc.overwrite(&storage)?;
            out.set_data(strides.clone(), 0, storage);
            Ok(View { ptr, dtype: out.dtype(), shape: out.shape().into(), strides })
        }
    }
}

/// An evaluated host array of `shape`; `fill` writes all of its bytes, those of bools as it likes.
pub fn from_host(shape: &[i64], dtype: Dtype, fill: impl FnOnce(*mut u8)) -> Result<Array> {
    let n = checked_size("array", shape, dtype.size())?;
    let storage = memory::host_storage(n * dtype.size())?;
    let bytes = storage.host_ptr_mut()?;
    fill(bytes);
    if dtype == Dtype::Bool && n > 0 {
        // SAFETY: the storage has these bytes, `fill` wrote them, and nothing else knows of them.
        make_truths(unsafe { std::slice::from_raw_parts_mut(bytes, n) });
    }
    Array::from_data(Layout::contiguous(shape), dtype, storage)
}

/// A rank-0 host array of a real number converted to `dtype`; integers wrap, as C casts do.
pub fn scalar_f64(v: f64, dtype: Dtype) -> Result<Array> {
    use half::{bf16, f16};
    // SAFETY: `from_host` hands out memory for one element of `dtype`, aligned to 64 bytes.
    from_host(&[], dtype, |p| unsafe {
        match dtype {
            Dtype::Bool => *p = u8::from(v != 0.0),
            // FITS: integers are reduced by their width, as MLX does.
            Dtype::U8 => *p = v as i64 as u8,
            Dtype::I8 => *p = v as i64 as u8,
            Dtype::U16 => *p.cast() = v as i64 as u16,
            Dtype::I16 => *p.cast() = v as i64 as i16,
            Dtype::U32 => *p.cast() = v as i64 as u32,
            Dtype::I32 => *p.cast() = v as i64 as i32,
            Dtype::U64 => *p.cast() = if v < 0.0 { v as i64 as u64 } else { v as u64 },
            Dtype::I64 => *p.cast() = v as i64,
            Dtype::F16 => *p.cast() = f16::from_f32(v as f32),
            Dtype::BF16 => *p.cast() = bf16::from_f32(v as f32),
            Dtype::F32 => *p.cast() = v as f32,
            Dtype::F64 => *p.cast() = v,
            Dtype::C64 => *p.cast() = [v as f32, 0.0],
        }
    })
}

/// A rank-0 host array of an integer converted to `dtype`; integers wrap.
pub fn scalar_i64(v: i64, dtype: Dtype) -> Result<Array> {
    if dtype.is_integer() {
        // SAFETY: little-endian truncation writes exactly the element's bytes.
        from_host(&[], dtype, |p| unsafe {
            std::ptr::copy_nonoverlapping(v.to_le_bytes().as_ptr(), p, dtype.size());
        })
    } else {
        scalar_f64(v as f64, dtype)
    }
}

/// A rank-0 host bool.
pub fn scalar_bool(v: bool) -> Result<Array> {
    scalar_i64(i64::from(v), Dtype::Bool)
}

/// A rank-0 host complex number.
pub fn scalar_c64(re: f32, im: f32) -> Result<Array> {
    // SAFETY: eight bytes for one complex element.
    from_host(&[], Dtype::C64, |p| unsafe { *p.cast() = [re, im] })
}

/// Normalised, sorted axes; all of them for `None`.
pub fn sorted_axes(op: &str, axes: Option<&[i64]>, ndim: usize) -> Result<Vec<usize>> {
    let Some(axes) = axes else { return Ok((0..ndim).collect()) };
    let mut out = axes.iter().map(|&a| normalize_axis(op, a, ndim)).collect::<Result<Vec<_>>>()?;
    out.sort_unstable();
    Ok(out)
}

/// As [`sorted_axes`], each of them once.
pub fn axes_of(op: &str, axes: Option<&[i64]>, ndim: usize) -> Result<Vec<usize>> {
    let out = sorted_axes(op, axes, ndim)?;
    if out.windows(2).any(|w| w[0] == w[1]) {
        bail!(Value, "[{op}] Duplicate axis in {:?}.", shown(axes.unwrap_or(&[])));
    }
    Ok(out)
}

/// Fails for more arrays than an operation makes at once: an array without elements can be cut into any number of them.
pub fn check_count(op: &str, arrays: i64) -> Result<()> {
    const MOST: i64 = 1 << 22;
    if arrays > MOST {
        bail!(Value, "[{op}] At most {MOST} arrays are made at once, got {arrays}.");
    }
    Ok(())
}

/// `shape` with `axes` removed, or kept as 1.
pub fn drop_axes(shape: &[i64], axes: &[usize], keep: bool) -> Shape {
    let mut out = Shape::new();
    for (i, &d) in shape.iter().enumerate() {
        if !axes.contains(&i) {
            out.push(d);
        } else if keep {
            out.push(1);
        }
    }
    out
}

/// A running sum of derivative terms.
pub fn plus(total: Option<Array>, term: Array, s: Stream) -> Result<Option<Array>> {
    Ok(Some(match total {
        None => term,
        Some(sum) => super::add(&sum, &term, s)?,
    }))
}

/// The tangent of an input; zeros where it is constant.
pub fn tangent_or_zeros(r: &Jvp, input: usize) -> Result<Array> {
    match r.tangent(input) {
        Some(t) => Ok(t.clone()),
        None => super::zeros_like(&r.primals[input], r.stream),
    }
}

/// Fails for dtypes that a GPU stream does not compute with.
pub fn refuse_f64(op: &str, arrays: &[Array], s: Stream) -> Result<()> {
    if s.device.is_gpu() && arrays.iter().any(|a| a.dtype() == Dtype::F64) {
        bail!(Value, "[{op}] float64 is not supported on the GPU; use a CPU stream.");
    }
    Ok(())
}

/// Shapes of what a primitive stands for, over these inputs.
pub fn shapes_of(p: &dyn Primitive, inputs: &[Array]) -> Result<Vec<Shape>> {
    let stream = default_stream(Device::CPU);
    Ok(p.expand(inputs, stream)?.iter().map(|a| a.shape().into()).collect())
}

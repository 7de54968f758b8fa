//! Arrays of the host that an op makes: constants, and what is filled at once.

use std::sync::Arc;

use crate::core::dtype::make_truths;
use crate::core::layout::checked_size;
use crate::core::{Array, Dtype, Layout, Result, Storage, Stream};
use crate::memory;

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

/// An evaluated array of `shape` with the elements that lie at `src` in row-major order. Many of them go where `stream` will use
/// them at once.
///
/// # Safety
/// `src` must be valid for reads of that many elements; those of bools are 0 or 1 or anything else.
pub unsafe fn from_elements(shape: &[i64], dtype: Dtype, src: *const u8, stream: Stream) -> Result<Array> {
    let bytes = checked_size("array", shape, dtype.size())? * dtype.size();
    // SAFETY: by the caller.
    if let Some(storage) = unsafe { on_gpu(dtype, src, bytes, stream) }? {
        return Array::from_data(Layout::contiguous(shape), dtype, storage);
    }
    // SAFETY: the destination is fresh memory of as many bytes.
    from_host(shape, dtype, |dst| unsafe { std::ptr::copy_nonoverlapping(src, dst, bytes) })
}

/// The elements on the stream's GPU alone, if they are kept best there. Where that fails the host has them, and who uses
/// them there gets the error.
///
/// # Safety
/// As [`from_elements`].
#[cfg_attr(not(feature = "vulkan"), allow(unused_variables))]
unsafe fn on_gpu(dtype: Dtype, src: *const u8, bytes: usize, stream: Stream) -> Result<Option<Arc<Storage>>> {
    #[cfg(feature = "vulkan")]
    if stream.device.kind == crate::core::DeviceKind::Gpu && !matches!(dtype, Dtype::Bool | Dtype::F64) {
        memory::init();
        // SAFETY: by the caller.
        return match unsafe { crate::vulkan::made(stream, src, bytes) } {
            Err(e) if !matches!(e, crate::core::Error::Interrupted) => Ok(None),
            made => made,
        };
    }
    Ok(None)
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

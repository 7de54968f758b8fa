//! Arrays as views of kernels on either device: inputs where they lie, outputs in new memory or in that of an input
//! that nobody else needs.

use std::sync::Arc;

use crate::core::layout::{is_dense, is_row_major, row_major};
use crate::core::{Array, Data, Dtype, Result, Shape, Storage, Strides};
#[cfg(feature = "vulkan")]
use crate::kernels::DeviceView;
use crate::kernels::{HostView, View};
use crate::memory;
#[cfg(feature = "vulkan")]
use crate::vulkan::CommandEncoder;

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
    Ok(View {
        ptr,
        dtype: a.dtype(),
        shape: Shape::from_slice(a.shape()),
        strides: Strides::from_slice(&d.strides),
    })
}

/// Fresh row-major host memory for an output.
pub fn host_out(a: &Array) -> Result<HostView> {
    let storage = memory::host_storage(a.nbytes())?;
    place_host(a, storage)
}

fn place_host(a: &Array, storage: Arc<Storage>) -> Result<HostView> {
    let ptr = place(a, storage)?;
    Ok(View { ptr, dtype: a.dtype(), shape: Shape::from_slice(a.shape()), strides: row_major(a.shape()) })
}

fn place(a: &Array, storage: Arc<Storage>) -> Result<*mut u8> {
    let ptr = storage.host_ptr_mut()?;
    a.set_data(row_major(a.shape()), 0, storage);
    Ok(ptr)
}

/// The layout that an elementwise result takes over: the one that all of its inputs but single numbers have, where that is
/// without gaps and of another order than row-major.
pub fn kept_layout(out: &Array, inputs: &[Array]) -> Option<Strides> {
    let n = out.size();
    if n <= 1 {
        return None;
    }
    let mut kept: Option<&Strides> = None;
    for a in inputs.iter().filter(|a| a.size() != 1) {
        let strides = &a.data().ok()?.strides;
        let same = match kept {
            None => !is_row_major(a.shape(), strides) && is_dense(a.shape(), strides),
            Some(k) => k.iter().zip(strides).zip(a.shape()).all(|((x, y), &d)| x == y || d == 1),
        };
        if !same || a.shape() != out.shape() {
            return None;
        }
        kept = Some(strides);
    }
    kept.cloned()
}

/// The storage of an input that nobody needs any more and that fits `out` exactly.
fn donor(out: &Array, inputs: &[Array]) -> Option<Arc<Storage>> {
    donor_of(out, inputs, &|strides| is_row_major(out.shape(), strides))
}

fn donor_of(out: &Array, inputs: &[Array], fitting: &dyn Fn(&[i64]) -> bool) -> Option<Arc<Storage>> {
    inputs.iter().find_map(|a| {
        let fits = a.is_unshared() && a.dtype().size() == out.dtype().size() && a.shape() == out.shape();
        let d = a.data().ok().filter(|_| fits)?;
        let whole = d.offset == 0
            && d.storage.nbytes() == out.nbytes()
            && Arc::strong_count(&d.storage) == 1
            && !d.storage.is_lent()
            && fitting(&d.strides);
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

/// As [`host_out_reusing`], for an output of the layout that [`kept_layout`] found: its elements in the order in which they
/// lie.
pub fn host_out_kept(out: &Array, inputs: &[Array], kept: &Strides) -> Result<HostView> {
    let storage = match donor_of(out, inputs, &|strides| strides == &kept[..]) {
        Some(storage) => storage,
        None => memory::host_storage(out.nbytes())?,
    };
    let ptr = storage.host_ptr_mut()?;
    out.set_data(kept.clone(), 0, storage);
    Ok(flat(View { ptr, dtype: out.dtype(), shape: Shape::from_slice(out.shape()), strides: kept.clone() }))
}

/// The elements of a view without gaps in the order in which they lie, or of a single number.
pub fn flat<P: Copy>(v: View<P>) -> View<P> {
    let n = v.size() as i64;
    View { shape: [n].as_slice().into(), strides: [1].as_slice().into(), ..v }
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
    Ok(View {
        ptr,
        dtype: a.dtype(),
        shape: Shape::from_slice(a.shape()),
        strides: Strides::from_slice(&d.strides),
    })
}

/// Fresh row-major device memory for an output.
#[cfg(feature = "vulkan")]
pub fn dev_out(enc: &mut CommandEncoder, a: &Array) -> Result<DeviceView> {
    let strides = row_major(a.shape());
    let (storage, ptr) = enc.output(a.nbytes())?;
    a.set_data(Strides::from_slice(&strides), 0, storage);
    Ok(View { ptr, dtype: a.dtype(), shape: Shape::from_slice(a.shape()), strides })
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
            out.set_data(Strides::from_slice(&strides), 0, storage);
            Ok(View { ptr, dtype: out.dtype(), shape: Shape::from_slice(out.shape()), strides })
        }
    }
}

/// As [`dev_out_reusing`], for an output of the layout that [`kept_layout`] found: its elements in the order in which they
/// lie.
#[cfg(feature = "vulkan")]
pub fn dev_out_kept(
    enc: &mut CommandEncoder,
    out: &Array,
    inputs: &[Array],
    kept: &Strides,
) -> Result<DeviceView> {
    let id = enc.device().id();
    let donor = donor_of(out, inputs, &|strides| strides == &kept[..]);
    let (storage, ptr) = match donor.filter(|s| s.device_block(id).is_some()) {
        Some(storage) => {
            let ptr = enc.overwrite(&storage)?;
            (storage, ptr)
        }
        None => enc.output(out.nbytes())?,
    };
    out.set_data(kept.clone(), 0, storage);
    Ok(flat(View { ptr, dtype: out.dtype(), shape: Shape::from_slice(out.shape()), strides: kept.clone() }))
}

//! DLPack 1.0, both ways (the C structs of dlpack.h). Exports show the evaluated bytes on the host, read-only
//! unless they are a copy; arrays on a GPU come down first. Imports from host memory share it where the
//! elements are aligned and of a type that MLX has; the memory is then never overwritten.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use super::PyArray;
use super::arguments::type_name;
use super::convert::host;
use crate::core::dtype::make_truths;
use crate::core::layout::{MOST_AXES, checked_size, row_major};
use crate::core::{Array, Device, Dtype, HostBlock, Layout, Shape, Storage, Strides, default_stream, panics};
use crate::ops;

const LEGACY: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const VERSION: Version = Version { major: 1, minor: 0 };
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
/// Device types whose memory the host reads: the CPU, and pinned memory of CUDA and ROCm.
const CPU: i32 = 1;
const HOST_DEVICES: [i32; 3] = [CPU, 3, 11];

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: Tensor,
}

fn code_of(d: Dtype) -> (u8, u8) {
    let code = match d {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 0,
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => 1,
        Dtype::F16 | Dtype::F32 | Dtype::F64 => 2,
        Dtype::BF16 => 4,
        Dtype::C64 => 5,
        Dtype::Bool => 6,
    };
    // FITS: at most 64.
    (code, d.size() as u8 * 8)
}

/// What a struct that was handed out keeps alive. The struct comes first, so that its address is the box's.
#[repr(C)]
struct Exported<T> {
    managed: T,
    _array: Array,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

unsafe extern "C" fn free_legacy(p: *mut Managed) {
    // SAFETY: `p` is the start of the box that the export leaked; consumers call this once.
    panics::contained(|| drop(unsafe { Box::from_raw(p.cast::<Exported<Managed>>()) }));
}

unsafe extern "C" fn free_versioned(p: *mut ManagedVersioned) {
    // SAFETY: as above.
    panics::contained(|| drop(unsafe { Box::from_raw(p.cast::<Exported<ManagedVersioned>>()) }));
}

/// Frees what a capsule holds that nobody took.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: called by the interpreter with one of our capsules. A taken one has another name, and with
    // the name comes the type of the pointer.
    unsafe {
        for (name, versioned) in [(LEGACY, false), (VERSIONED, true)] {
            if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) == 1 {
                let p = ffi::PyCapsule_GetPointer(capsule, name.as_ptr());
                if versioned { free_versioned(p.cast()) } else { free_legacy(p.cast()) }
            }
        }
    }
}

fn tensor(a: &Array, data: *const u8, shape: &mut [i64], strides: &mut [i64]) -> Tensor {
    let (code, bits) = code_of(a.dtype());
    Tensor {
        data: data.cast_mut().cast(),
        device_type: CPU,
        device_id: 0,
        // FITS: at most 64.
        ndim: a.ndim() as i32,
        code,
        bits,
        lanes: 1,
        shape: shape.as_mut_ptr(),
        strides: strides.as_mut_ptr(),
        byte_offset: 0,
    }
}

/// A capsule for `__dlpack__`.
pub fn export<'py>(
    py: Python<'py>,
    a: &Array,
    max_version: Option<(u32, u32)>,
    dl_device: Option<(i32, i32)>,
    copy: bool,
) -> PyResult<Bound<'py, PyAny>> {
    if dl_device.is_some_and(|d| d != (CPU, 0)) {
        return Err(PyBufferError::new_err(
            "[dlpack] Arrays are exported as host memory, device (1, 0), only.",
        ));
    }
    let a = match copy {
        true => ops::copy(a, default_stream(Device::CPU))?,
        false => a.clone(),
    };
    let (a, data) = host(py, &a)?;
    let mut shape = a.shape().to_vec();
    let mut strides = a.data()?.strides.to_vec();
    let tensor = tensor(&a, data, &mut shape, &mut strides);
    let (pointer, name) = if max_version.is_some_and(|v| v.0 >= 1) {
        let flags = if copy { IS_COPIED } else { READ_ONLY };
        let (context, deleter) = (ptr::null_mut(), Some(free_versioned as _));
        let managed = ManagedVersioned { version: VERSION, context, deleter, flags, tensor };
        let boxed = Box::new(Exported { managed, _array: a, shape, strides });
        (Box::into_raw(boxed).cast::<c_void>(), VERSIONED)
    } else {
        let managed = Managed { tensor, context: ptr::null_mut(), deleter: Some(free_legacy) };
        let boxed = Box::new(Exported { managed, _array: a, shape, strides });
        (Box::into_raw(boxed).cast::<c_void>(), LEGACY)
    };
    // SAFETY: the pointer is not null, the name is static, and `destroy` frees the box of either kind.
    unsafe {
        let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destroy));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// A struct taken out of a capsule; gives it back to its producer when dropped.
enum Taken {
    Legacy(NonNull<Managed>),
    Versioned(NonNull<ManagedVersioned>),
}

// SAFETY: the protocol lets the deleter be called from any thread, and the memory is only read.
unsafe impl Send for Taken {}
// SAFETY: as above.
unsafe impl Sync for Taken {}

impl Taken {
    /// Takes the struct over: the capsule is renamed, so that its destructor leaves it alone.
    fn from(capsule: &Bound<'_, PyAny>) -> PyResult<Taken> {
        let c = capsule.as_ptr();
        // SAFETY: the object is alive; names are static. A capsule of a name holds a pointer to its struct.
        unsafe {
            let take = |name: &CStr, used: &'static CStr| {
                if ffi::PyCapsule_IsValid(c, name.as_ptr()) == 0 {
                    return None;
                }
                let p = NonNull::new(ffi::PyCapsule_GetPointer(c, name.as_ptr()))?;
                (ffi::PyCapsule_SetName(c, used.as_ptr()) == 0).then_some(p)
            };
            if let Some(p) = take(VERSIONED, c"used_dltensor_versioned") {
                let taken = Taken::Versioned(p.cast());
                let version = p.cast::<ManagedVersioned>().as_ref().version;
                if version.major != VERSION.major {
                    let text =
                        format!("[from_dlpack] DLPack {}.{} is not supported.", version.major, version.minor);
                    return Err(PyBufferError::new_err(text));
                }
                return Ok(taken);
            }
            match take(LEGACY, c"used_dltensor") {
                Some(p) => Ok(Taken::Legacy(p.cast())),
                None => Err(PyTypeError::new_err("[from_dlpack] Expected an unused DLPack capsule.")),
            }
        }
    }

    fn tensor(&self) -> &Tensor {
        // SAFETY: alive until the deleter is called, which is in drop.
        unsafe {
            match self {
                Taken::Legacy(p) => &p.as_ref().tensor,
                Taken::Versioned(p) => &p.as_ref().tensor,
            }
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: the struct was taken over, and is given back once.
        unsafe {
            match self {
                Taken::Legacy(p) => {
                    if let Some(free) = p.as_ref().deleter {
                        free(p.as_ptr());
                    }
                }
                Taken::Versioned(p) => {
                    if let Some(free) = p.as_ref().deleter {
                        free(p.as_ptr());
                    }
                }
            }
        }
    }
}

/// What a foreign tensor holds; complex128 has no dtype here.
enum Element {
    Known(Dtype),
    Complex128,
}

fn element(t: &Tensor) -> Option<Element> {
    if t.lanes != 1 {
        return None;
    }
    if (t.code, t.bits) == (5, 128) {
        return Some(Element::Complex128);
    }
    Dtype::ALL.into_iter().find(|&d| code_of(d) == (t.code, t.bits)).map(Element::Known)
}

/// The array over the memory of a taken struct, as it is; complex128 as pairs of float64.
fn adopt(taken: Taken) -> PyResult<(Array, bool)> {
    let t = taken.tensor();
    if !HOST_DEVICES.contains(&t.device_type) {
        let text = format!(
            "[from_dlpack] Memory of device ({}, {}) is not host memory.",
            t.device_type, t.device_id
        );
        return Err(PyValueError::new_err(text));
    }
    let (dtype, pairs) = match element(t) {
        Some(Element::Known(d)) => (d, false),
        Some(Element::Complex128) => (Dtype::F64, true),
        None => {
            return Err(PyValueError::new_err(format!(
                "[from_dlpack] Elements of type code {} with {} bits and {} lanes are not supported.",
                t.code, t.bits, t.lanes
            )));
        }
    };
    let n = usize::try_from(t.ndim).ok().filter(|&n| n <= MOST_AXES);
    let Some(n) = n.filter(|&n| n == 0 || !t.shape.is_null()) else {
        return Err(PyValueError::new_err(format!("[from_dlpack] A tensor of {} axes.", t.ndim)));
    };
    let numbers = |p: *mut i64| match n {
        0 => &[][..],
        // SAFETY: the arrays of a tensor have `ndim` entries where they are given.
        _ => unsafe { std::slice::from_raw_parts(p, n) },
    };
    let mut shape: Shape = numbers(t.shape).into();
    let mut strides: Strides = match t.strides.is_null() {
        true => row_major(&shape),
        false => numbers(t.strides).into(),
    };
    if pairs {
        strides.iter_mut().for_each(|s| *s = s.saturating_mul(2));
        shape.push(2);
        strides.push(1);
    }
    let size = dtype.size();
    if checked_size("from_dlpack", &shape, size)? == 0 {
        return Ok((ops::from_host(&shape, dtype, |_| ())?, pairs));
    }
    // In wide numbers: strides are whatever the producer says.
    let reach = |up: bool| -> i128 {
        let steps = shape.iter().zip(&strides).map(|(&d, &s)| i128::from(d - 1) * i128::from(s));
        steps.filter(|&r| (r > 0) == up).sum()
    };
    let wide = size as i128;
    // FITS: an address.
    let first = t.data as usize as i128 + i128::from(t.byte_offset) + reach(false) * wide;
    let span =
        usize::try_from((reach(true) - reach(false) + 1) * wide).ok().filter(|&n| n <= isize::MAX as usize);
    let base = usize::try_from(first).ok();
    let offset = -reach(false) as i64;
    let (Some(span), Some(base)) = (span, base.filter(|_| !t.data.is_null())) else {
        return Err(PyValueError::new_err("[from_dlpack] The tensor has no memory."));
    };
    // SAFETY: the producer states that the span is readable.
    let strange = || unsafe { std::slice::from_raw_parts(base as *const u8, span) }.iter().any(|&b| b > 1);
    if !base.is_multiple_of(size.min(8)) || dtype == Dtype::Bool && strange() {
        return copied(base, span, Layout { shape, strides, offset }, dtype).map(|a| (a, pairs));
    }
    // INVARIANT: not null by the filter above.
    let p = NonNull::new(base as *mut u8).expect("memory of a tensor");
    let storage = Storage::from_host(HostBlock::lent(p, Box::new(taken)), span);
    crate::memory::init();
    Ok((Array::from_data(Layout { shape, strides, offset }, dtype, storage)?, pairs))
}

/// A copy of `span` bytes, with the layout that the elements have in them: of elements that are not aligned, and of
/// bools whose bytes are neither 0 nor 1.
fn copied(base: usize, span: usize, layout: Layout, dtype: Dtype) -> PyResult<Array> {
    let storage = crate::memory::host_storage(span)?;
    // SAFETY: the producer states that the span is readable; the destination has as many bytes.
    let bytes = unsafe {
        let dst = storage.host_ptr_mut()?;
        ptr::copy_nonoverlapping(base as *const u8, dst, span);
        std::slice::from_raw_parts_mut(dst, span)
    };
    if dtype == Dtype::Bool {
        make_truths(bytes);
    }
    Ok(Array::from_data(layout, dtype, storage)?)
}

/// The capsule of a producer, asked for in the newest form that it knows.
fn capsule_of<'py>(obj: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = obj.py();
    if obj.is_instance_of::<PyCapsule>() {
        return Ok(Some(obj.clone()));
    }
    let Some(method) = obj.getattr_opt(intern!(py, "__dlpack__"))? else { return Ok(None) };
    let options = PyDict::new(py);
    options.set_item("max_version", (VERSION.major, VERSION.minor))?;
    if let Some(device) = obj.getattr_opt(intern!(py, "__dlpack_device__"))? {
        let (kind, _): (i32, i32) = device.call0()?.extract()?;
        if !HOST_DEVICES.contains(&kind) {
            options.set_item("dl_device", (CPU, 0))?;
        }
    }
    match method.call((), Some(&options)) {
        Ok(c) => Ok(Some(c)),
        // Producers of before DLPack 1.0 take no such arguments.
        Err(e) if e.is_instance_of::<PyTypeError>(py) => method.call0().map(Some),
        Err(e) => Err(e),
    }
}

/// Whether an object speaks DLPack.
pub fn is_producer(obj: &Bound<'_, PyAny>) -> PyResult<bool> {
    obj.hasattr(intern!(obj.py(), "__dlpack__"))
}

/// The array of a producer or capsule. float64 becomes float32 and complex128 complex64 unless `dtype` asks
/// for float64. `copy`: never (`Some(false)`, an error where it cannot be), always, or where needed.
pub fn import(obj: &Bound<'_, PyAny>, dtype: Option<Dtype>, copy: Option<bool>) -> PyResult<Array> {
    let py = obj.py();
    let Some(capsule) = capsule_of(obj)? else {
        let text = format!("from_dlpack(): expected an object with __dlpack__, got {}", type_name(obj));
        return Err(PyTypeError::new_err(text));
    };
    let (a, pairs) = adopt(Taken::from(&capsule)?)?;
    let natural = match a.dtype() {
        Dtype::F64 if pairs => Dtype::C64,
        Dtype::F64 => Dtype::F32,
        d => d,
    };
    let wanted = dtype.unwrap_or(natural);
    if wanted == a.dtype()
        && !pairs
        && (copy == Some(false) || (copy.is_none() && a.data()?.storage.is_lent()))
    {
        if copy == Some(false) && a.size() > 0 && !a.data()?.storage.is_lent() {
            return Err(PyValueError::new_err(
                "[from_dlpack] Cannot import unaligned memory without a copy.",
            ));
        }
        return Ok(a);
    }
    if copy == Some(false) {
        return Err(PyValueError::new_err(format!(
            "[from_dlpack] Cannot convert {} to {wanted} without a copy.",
            if pairs { "complex128" } else { a.dtype().name() }
        )));
    }
    let made = py.detach(|| -> crate::core::Result<Array> {
        // Evaluated now: later the producer may have changed its memory.
        let s = default_stream(Device::CPU);
        let a = if pairs { ops::view(&ops::astype(&a, Dtype::F32, s)?, Dtype::C64, s)? } else { a };
        let a = if pairs { ops::squeeze(&a, Some(&[-1]), s)? } else { a };
        let made = if a.dtype() == wanted { ops::copy(&a, s)? } else { ops::astype(&a, wanted, s)? };
        crate::eval::eval(std::slice::from_ref(&made))?;
        Ok(made)
    })?;
    Ok(made)
}

/// An array from an array of another library, through DLPack.
///
/// Host memory is shared unless `copy` is true: the array then shows what its owner writes later. float64 and
/// complex128 are converted to float32 and complex64, so they are always copied. Memory of other devices
/// comes over the host where the producer offers that.
///
/// Args:
///     x (object): An object with `__dlpack__` (arrays of NumPy, PyTorch, JAX and others), a DLPack
///         capsule, or a buffer such as bytes, which is copied.
///     copy (bool, optional): True always copies, False never does, None copies where it must. Default: None.
///
/// Returns:
///     array: With the elements of `x`.
///
/// Raises:
///     ValueError: if a copy is needed and `copy` is False, or the capsule holds what arrays cannot be.
///     TypeError: if `x` is something else.
///
/// >>> import numpy as np
/// >>> mx.from_dlpack(np.arange(3, dtype=np.float32))
/// array([0, 1, 2], dtype=float32)
#[pyfunction]
#[pyo3(signature = (x, /, *, copy=None))]
fn from_dlpack(x: &Bound<'_, PyAny>, copy: Option<bool>) -> PyResult<PyArray> {
    let a = match x.cast::<PyArray>() {
        Ok(a) if copy == Some(true) => {
            ops::copy(&a.get().array(), crate::python::runtime::device::current())?
        }
        Ok(a) => a.get().array(),
        Err(_) if only_buffer(x)? => match copy {
            Some(false) => {
                return Err(PyValueError::new_err("[from_dlpack] Cannot import a buffer without a copy."));
            }
            _ => super::buffer::import(x, None)?,
        },
        Err(_) => import(x, None, copy)?,
    };
    Ok(PyArray::new(a))
}

/// Whether an object shows its memory as a buffer and in no other way: bytes, NumPy's numbers.
fn only_buffer(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    // SAFETY: a live object under the GIL.
    let shows = unsafe { ffi::PyObject_CheckBuffer(x.as_ptr()) == 1 };
    Ok(shows && !x.hasattr(intern!(x.py(), "__dlpack__"))?)
}

/// The arguments of `__dlpack__` that matter; forms that are no version are taken for the oldest one.
pub fn version(max_version: Option<&Bound<'_, PyAny>>) -> Option<(u32, u32)> {
    let v = max_version?.cast::<PyTuple>().ok()?;
    let major = v.get_item(0).ok()?.extract().ok()?;
    Some((major, v.get_item(1).ok().and_then(|m| m.extract().ok()).unwrap_or(0)))
}

/// Adds the function.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(from_dlpack, m)?)
}

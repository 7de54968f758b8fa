//! What kernels see of an array: the place of its first element, dtype, shape and strides. One type for
//! both backends, so that a kernel and its twin take the same arguments.

use smallvec::SmallVec;

use crate::core::layout::collapse;
use crate::core::{Dtype, Layout, Shape, Strides};

/// Typed, strided memory; `P` is a host pointer or a device address.
#[derive(Debug, Clone)]
pub struct View<P> {
    /// First element (the layout's offset is already applied).
    pub ptr: P,
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions.
    pub shape: Shape,
    /// Strides in elements; zero or negative ones are allowed.
    pub strides: Strides,
}

/// A view of host memory. Writable only where the kernel's contract says so.
pub type HostView = View<*mut u8>;
/// A view of device memory by buffer address.
pub type DeviceView = View<u64>;

// SAFETY: a view is a plain description; whoever made it guarantees exclusive or shared access.
unsafe impl Send for HostView {}
// SAFETY: as above.
unsafe impl Sync for HostView {}

impl<P: Copy> View<P> {
    /// A view with the shape and strides of `layout`; `ptr` is already advanced by its offset.
    pub fn new(ptr: P, dtype: Dtype, layout: &Layout) -> Self {
        View {
            ptr,
            dtype,
            shape: SmallVec::from_slice(&layout.shape),
            strides: SmallVec::from_slice(&layout.strides),
        }
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        crate::core::layout::size_of(&self.shape)
    }

    /// Number of axes.
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Whether elements lie row-major without gaps.
    pub fn is_row_contiguous(&self) -> bool {
        crate::core::layout::is_row_major(&self.shape, &self.strides)
    }

    /// Shape and strides as a layout with offset 0.
    pub fn layout(&self) -> Layout {
        Layout {
            shape: SmallVec::from_slice(&self.shape),
            strides: SmallVec::from_slice(&self.strides),
            offset: 0,
        }
    }

    /// The same memory with axes in another order.
    pub fn permute(&self, axes: &[usize]) -> Self {
        let shape = axes.iter().map(|&a| self.shape[a]).collect();
        let strides: SmallVec<_> = axes.iter().map(|&a| self.strides[a]).collect();
        View { ptr: self.ptr, dtype: self.dtype, shape, strides }
    }

    /// All axes but the last as one, if they are evenly spaced; there is a last one.
    pub fn rows(&self) -> Option<Self> {
        let last = self.ndim() - 1;
        let (shape, strides) = collapse(&self.shape[..last], &[&self.strides[..last]]);
        let (rows, step) = match shape.len() {
            0 => (1, self.shape[last]),
            1 => (shape[0], strides[0][0]),
            _ => return None,
        };
        let shape = [rows, self.shape[last]].into_iter().collect();
        let strides = [step, self.strides[last]].into_iter().collect();
        Some(View { ptr: self.ptr, dtype: self.dtype, shape, strides })
    }
}

impl DeviceView {
    /// Bytes touched, as (first address, length); length 0 when there are no elements.
    pub fn range(&self) -> (u64, u64) {
        let size = self.dtype.size() as i64;
        match self.layout().span() {
            None => (self.ptr, 0),
            Some((lo, hi)) => (self.ptr.wrapping_add_signed(lo * size), ((hi - lo + 1) * size) as u64),
        }
    }
}

impl HostView {
    /// Typed pointer to the first element.
    pub fn as_ptr<T>(&self) -> *mut T {
        self.ptr.cast()
    }
}

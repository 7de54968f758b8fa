//! Epilogues of products on the host side: the arrays that one reads, for the part of the result that a problem is
//! about, and the block by which kernels find them (shaders/matmul/epilogue.glsl). Called by `matmul`.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Problem;
use crate::core::Result;
use crate::kernels::{DeviceView, Epilogue, Spread};
use crate::vulkan::CommandEncoder;

/// An epilogue with the arrays that it reads.
#[derive(Debug, Clone)]
pub(in crate::vulkan) struct Fused {
    pub code: &'static Epilogue,
    /// Addresses, for the part of the result that the problem is about.
    arrays: SmallVec<[u64; 4]>,
    pub ranges: SmallVec<[(u64, u64); 4]>,
    /// Address of the block that kernels read.
    pub block: u64,
}

impl Fused {
    /// `code` and its inputs besides the product, in order.
    pub fn new(code: &'static Epilogue, arrays: &[DeviceView]) -> Fused {
        let ranges = arrays.iter().map(DeviceView::range).collect();
        Fused { code, arrays: arrays.iter().map(|v| v.ptr).collect(), ranges, block: 0 }
    }

    /// For a part of the result that begins at an element of the whole, in a column.
    pub fn moved(&self, element: i64, column: i64) -> Fused {
        let mut f = self.clone();
        let sizes = f.code.array_sizes();
        for ((at, spread), size) in f.arrays.iter_mut().zip(&f.code.spread).zip(sizes) {
            let by = match spread {
                Spread::Whole => element,
                Spread::Columns => column,
                Spread::Single => 0,
            };
            *at = at.wrapping_add_signed(by * size as i64);
        }
        f
    }
}

/// The problem with the block that its epilogue reads.
pub(in crate::vulkan) fn with_block<'a>(
    enc: &mut CommandEncoder,
    p: &'a Problem,
) -> Result<Cow<'a, Problem>> {
    let Some(f) = &p.fused else { return Ok(Cow::Borrowed(p)) };
    let mut bytes: SmallVec<[u8; 40]> = SmallVec::new();
    bytes.extend([p.alpha, p.beta].iter().flat_map(|v| v.to_ne_bytes()));
    bytes.extend(f.arrays.iter().flat_map(|v| v.to_ne_bytes()));
    let block = enc.params(&bytes)?;
    Ok(Cow::Owned(Problem { fused: Some(Fused { block, ..f.clone() }), ..p.clone() }))
}

//! Host side of shaders/attention/sdpa_mask.comp: what is in the blocks of a mask that many heads share, so that
//! attention's matrix kernels pass over those that take all keys out, and do not read those that change nothing.

use super::Mask;
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::kernels::elem::{Defines, Push, define, grid, operand};
use crate::vulkan::tune::attention as table;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

/// Queries of a block, and keys that a word of blocks has.
const BLOCK: [u64; 2] = [16, 16 * 64];

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct BlocksKey(Dtype);

impl KernelKey for BlocksKey {
    fn name(&self) -> String {
        format!("sdpa_mask_{}", self.0)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        operand(&mut d, "A", self.0);
        define(&mut d, if self.0 == Dtype::Bool { "MASK_BOOL" } else { "MASK_ADD" }, 1);
        Module { source: Source::File("sdpa_mask.comp"), defines: d, ..Default::default() }
    }
}

/// Tables of blocks, one for each different mask; none at all where the address is null.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Blocks {
    pub ptr: u64,
    bytes: u64,
    /// Tables from one batch, and from one head, to the next.
    pub steps: [u32; 2],
}

impl Blocks {
    /// The memory that kernels read.
    pub fn range(&self) -> Option<(u64, u64)> {
        (self.ptr != 0).then_some((self.ptr, self.bytes))
    }
}

/// Whether neighbours in the rows of a mask of the full shape of scores can be read together.
pub(super) fn in_pairs(mask: &DeviceView) -> bool {
    let s = super::steps(mask);
    s[3] == 1
        && mask.shape[3] % 2 == 0
        && s[..3].iter().all(|x| x % 2 == 0)
        && mask.ptr.is_multiple_of(2 * mask.dtype.size() as u64)
}

/// How many different masks there are, and those of one batch.
fn different(mask: &DeviceView) -> [u64; 2] {
    let s = super::steps(mask);
    let of = |i: usize| if s[i] == 0 { 1 } else { mask.shape[i] as u64 };
    [of(0) * of(1), of(1)]
}

/// Whether a mask of the full shape of scores is worth a look.
pub(super) fn are_known(mask: &DeviceView) -> bool {
    let [batch, heads, l, n] = [0, 1, 2, 3].map(|i| mask.shape[i] as u64);
    in_pairs(mask) && table::mask_blocks(batch * heads / different(mask)[0], l, n)
}

/// What is in the blocks of a mask of the full shape of scores, where it is worth a look.
pub(super) fn look(enc: &mut CommandEncoder, mask: &DeviceView) -> Result<Blocks> {
    debug_assert_ne!(Mask::of(Some(mask), false), Mask::None);
    let s = super::steps(mask);
    let [l, n] = [2, 3].map(|i| mask.shape[i] as u64);
    let [masks, own] = different(mask);
    if !are_known(mask) {
        return Ok(Blocks::default());
    }
    let rows = l.div_ceil(BLOCK[0]);
    let bytes = 4 * masks * rows * n.div_ceil(BLOCK[1]);
    let ptr = enc.temp(bytes as usize)?;
    let steps = [if s[0] == 0 { 0 } else { own as u32 }, u32::from(s[1] != 0)];
    let pipeline = enc.device().pipeline(&BlocksKey(mask.dtype))?;
    let push =
        Push::default().u64s(&[mask.ptr, ptr]).i64s(&s[..3]).u32s(&[own, l, n, masks].map(|x| x as u32));
    let groups = grid(enc, masks * rows);
    enc.dispatch(&pipeline, &push, groups, &[mask.range()], &[(ptr, bytes)])?;
    Ok(Blocks { ptr, bytes, steps })
}

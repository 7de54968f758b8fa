//! Rows of a chain that are sums: what the product before made is normalised and added to another row, as decoders do that normalise
//! what they add (Gemma, GLM-4). The next product normalises the sum and takes it; the first workgroup stores it. Of a sum that is added
//! to later in the same chain threads have their elements. Without a chain, a kernel of its own (`kernels/norm`;
//! MLX_VK_DISABLE=qmm_chain_summed). Host side of `text`.

#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use super::{Chained, NEVER, Range, STAGES, Stage};
use crate::core::Result;
use crate::core::storage::Storage;
use crate::kernels::DeviceView;
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::norm::How;
use crate::vulkan::tune::quantized::chain::sums;

/// Of a stage's flags: its row is a sum; what is added to is the last sum of the chain.
pub(super) const SUMMED: u32 = 1 << 12;
pub(super) const AGAIN: u32 = 1 << 13;

/// A sum of the chain.
#[derive(Clone, Copy)]
pub(super) struct Summed {
    /// Where it is stored.
    made: Range,
    /// No product takes it yet: the last stage has no other work.
    open: bool,
}

/// A row that is to be normalised, and added to another.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    pub x: Range,
    pub weight: Range,
    pub eps: f32,
    pub other: Range,
    pub to: Range,
}

impl Sum {
    /// Of views of one row in order.
    fn of(src: &DeviceView, how: &How, dst: &DeviceView) -> Option<Sum> {
        let How { weight: Some(weight), bias: None, eps, centred: false, added: Some(other) } = *how else {
            return None;
        };
        let in_order = |v: &DeviceView| v.is_row_contiguous() && v.ptr.is_multiple_of(16);
        let whole = src.shape.last().is_some_and(|&n| n == src.size() as i64);
        let all = [src, weight, other, dst].into_iter().all(in_order);
        let sum = Sum { x: src.range(), weight: weight.range(), eps, other: other.range(), to: dst.range() };
        (whole && all).then_some(sum)
    }
}

impl Chained {
    /// Stages that are products.
    pub(super) fn products(&self) -> usize {
        self.stages.len() - usize::from(self.open_sum().is_some())
    }

    /// The sum that the next product may take.
    pub(super) fn open_sum(&self) -> Option<Range> {
        self.summed.filter(|s| s.open).map(|s| s.made)
    }

    /// Takes the stage out that the sum is by itself, for the product that takes it.
    pub(super) fn close_sum(&mut self) -> Option<Stage> {
        let sum = self.summed.as_mut().filter(|s| s.open)?;
        sum.open = false;
        self.made.pop();
        self.stages.pop()
    }

    /// Has the last stage make the sum that was one by itself.
    pub(super) fn sum_before(&mut self, sum: &Stage) {
        if let Some(stage) = self.stages.last_mut() {
            (stage.post, stage.other, stage.sum) = (sum.post, sum.other, sum.sum);
            stage.post_eps = sum.post_eps;
            stage.flags |= sum.flags & (SUMMED | AGAIN);
        }
    }

    /// Whether the last result can be normalised and added so.
    pub(super) fn sums_up(&self, s: &Sum) -> bool {
        let Some(last) = self.stages.len().checked_sub(1) else { return false };
        let again = self.summed.is_some_and(|h| h.made == s.other);
        self.picks.is_none()
            && self.open_sum().is_none()
            && self.stages.len() < STAGES
            && self.maker(s.x.0, s.x.1) == Some(last)
            && (again || !self.stores_to(s.other))
            && !self.stores_to(s.weight)
            && !self.touches(s.to)
    }

    /// Adds such a sum, for the next product or by itself.
    pub(super) fn sum_up(&mut self, s: &Sum) {
        let (x, x_tag) = self.words_of(self.stages.len() - 1);
        let again = self.summed.is_some_and(|h| h.made == s.other);
        let stage = Stage {
            x,
            x_tag,
            post: s.weight.0,
            other: s.other.0,
            sum: s.to.0,
            starts: [0, NEVER, NEVER],
            post_eps: s.eps,
            // FITS: `sums` bounds it.
            k: (s.x.1 / 2) as u32,
            flags: SUMMED | if again { AGAIN } else { 0 },
            ..Stage::default()
        };
        self.stages.push(stage);
        self.made.push(0);
        self.late.extend([s.weight.0, s.other.0, s.to.0]);
        self.reads.extend([s.weight, s.other]);
        self.writes.push(s.to);
        self.summed = Some(Summed { made: s.to, open: true });
    }
}

/// Has the chain that is held back normalise its last result and add it to another row, if it can; whether it does. The memory of all
/// three does not come back before the chain ends: what follows could not be written there.
pub fn run(
    enc: &mut CommandEncoder,
    src: &DeviceView,
    how: &How,
    dst: &DeviceView,
    memory: [&Arc<Storage>; 3],
) -> Result<bool> {
    let device = enc.device();
    if !device.warpgroups() || !sums(device.profile(), src.dtype, src.size() as i64) {
        return Ok(false);
    }
    let Some(sum) = Sum::of(src, how, dst) else { return Ok(false) };
    let fits = |c: &Chained| c.dtype == src.dtype && c.sums_up(&sum);
    enc.extend(&[sum.x, sum.weight, sum.other], &[sum.to], fits, |c: &mut Chained| {
        c.sum_up(&sum);
        c.memory.extend(memory.map(Arc::clone));
    })
}

//! Sums of normalised rows and others, which wait for the next command: where that normalises them, too, one kernel does both.

use smallvec::smallvec;

use super::{Args, Program};
use crate::core::Result;
use crate::kernels::DeviceView;
use crate::vulkan::CommandEncoder;
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::held::{Chain, Launch, meet};
use crate::vulkan::kernels::matmul::warpgroup::text::Told;

/// Such sums, which are held back.
struct Sums {
    program: Program,
    args: Args,
    rows: u32,
}

impl Sums {
    /// Where rows lie, from `at` on, so many bytes apart.
    fn range(&self, at: u64, step: u64) -> (u64, u64) {
        (at, u64::from(self.rows - 1) * step + 2 * u64::from(self.args.n))
    }

    /// Whether what these make is all that `next` reads, and that may be written while they read. Who has an element of a row that
    /// lies in its place has read it.
    fn go_on(&self, next: &Args, rows: u32) -> bool {
        let (Args { src, step, dst, weight, added, n, .. }, of_row) = (self.args, 2 * u64::from(self.args.n));
        let to = self.range(next.dst, of_row);
        let apart = |other: (u64, u64)| !meet(to, other);
        let in_place = step == of_row && src == next.dst;
        (next.src, next.n, next.step, rows) == (dst, n, of_row, self.rows)
            && (in_place || apart(self.range(src, step)))
            && (added == next.dst || apart(self.range(added, of_row)))
            && [weight, next.weight].into_iter().all(|at| apart((at, of_row)))
            && apart(self.range(dst, of_row))
            // What the sums are stored over is not what they are normalised by.
            && !meet(self.range(dst, of_row), (next.weight, of_row))
    }
}

impl Chain for Sums {
    fn count(&self) -> usize {
        1
    }

    fn launch(&self, device: &'static Device) -> Result<Launch> {
        Ok(Launch {
            pipeline: device.pipeline(&self.program)?,
            push: self.args.bytes().into(),
            groups: [self.rows, 1, 1],
            late: Some(smallvec![self.args.src, self.args.added]),
        })
    }

    fn any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Holds sums back, which read the first three of these views and write the last one.
pub(super) fn hold(
    enc: &mut CommandEncoder,
    program: Program,
    args: Args,
    rows: u32,
    [src, weight, added, dst]: [&DeviceView; 4],
) -> Result<()> {
    let reads = [src, weight, added].map(DeviceView::range);
    enc.hold(Box::new(Sums { program, args, rows }), &reads, &[dst.range()])
}

/// Has the sums that are held back normalised as `next` would be, if it is they that it reads; whether they are.
pub(super) fn normalises(
    enc: &mut CommandEncoder,
    program: Program,
    next: Args,
    rows: u32,
    [weight, dst]: [&DeviceView; 2],
) -> Result<bool> {
    let goes_on = |s: &Sums| s.program.dtype == program.dtype && s.go_on(&next, rows);
    let Some(before) = enc.ask_held(|s: &Sums| goes_on(s).then_some(s.args)) else { return Ok(false) };
    let pipeline = enc.device().pipeline(&Program { added: true, again: true, ..program })?;
    let Some([mut reads, mut writes]) = enc.take_held(goes_on) else { return Ok(false) };
    reads.push(weight.range());
    writes.push(dst.range());
    let args = Args { next_weight: next.weight, next: next.dst, next_eps: next.eps, ..before };
    let late = [args.src, args.added];
    let recorded = enc.dispatch_early(&pipeline, args.bytes(), [rows, 1, 1], [&reads, &writes], &late);
    recorded.inspect_err(|e| enc.fail(e)).map(|()| true)
}

//! Host side of shaders/sort/tops.comp: the few elements of long rows that sorting would put first or last, found by
//! counting digits from the highest one on. Rows are cut into segments as `tune::sort` says; no workgroup waits for another.

use super::{Output, job, present};
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::kernels::elem::{Defines, Push, WG, define, grid, ordered};
use crate::vulkan::tune::sort::segments;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TopsKey {
    src: Dtype,
    out: Output,
    greatest: bool,
    first: bool,
    last: bool,
    lanes: u32,
}

impl KernelKey for TopsKey {
    fn name(&self) -> String {
        let what = self.out.op();
        format!("{what}_{}_{}", if self.greatest { "greatest" } else { "least" }, self.src)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        ordered(&mut d, self.src);
        self.out.define(&mut d, self.src);
        let flags = [(self.greatest, "TOP"), (self.first, "FIRST"), (self.last, "LAST")];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        Module {
            source: Source::File("tops.comp"),
            defines: d,
            spec: vec![self.lanes],
            subgroup_size: None,
            spirv16: false,
        }
    }
}

/// The first elements along `axis` of the sorted `src`, or the `greatest` ones, in their order, or their indices (u32) under
/// `arg`. `dst` has the shape of `src` but for that axis, which is as long as they are many.
pub fn tops(
    enc: &mut CommandEncoder,
    src: &DeviceView,
    axis: usize,
    greatest: bool,
    arg: bool,
    dst: &DeviceView,
) -> Result<()> {
    let out = Output::of(src.dtype, arg);
    let Some(job) = job(enc, src, axis, dst, out)? else { return Ok(()) };
    let (count, rows, mut n) = (dst.shape[axis] as u64, job.rows, job.n);
    let lanes = WG.min(enc.device().features().max_workgroup_invocations);
    let mut input = [(0u64, 0u64); 2];
    for level in 0.. {
        let segments = segments(n, count, rows);
        let (first, last) = (level == 0, segments == 1);
        let mut part = |here: bool, size: u64| -> Result<(u64, u64)> {
            let bytes = if here && !last { rows * segments * count * size } else { 0 };
            Ok((if bytes > 0 { enc.temp(bytes as usize)? } else { 0 }, bytes))
        };
        let output = [part(true, job.key_size())?, part(out.carries(), 4)?];
        let key = TopsKey { src: src.dtype, out, greatest, first, last, lanes };
        let addresses = [src.ptr, dst.ptr, job.params, input[0].0, input[1].0, output[0].0, output[1].0];
        let push = Push::default().u64s(&addresses).i64s(&job.strides);
        let push = push.u32s(&[n as u32, segments as u32, job.nk, rows as u32, count as u32]);
        let pipeline = enc.device().pipeline(&key)?;
        let groups = grid(enc, rows * segments);
        let reads = present([input[0], input[1], src.range()]);
        let writes = if last { vec![dst.range()] } else { present(output) };
        enc.dispatch(&pipeline, &push, groups, &reads, &writes)?;
        if last {
            break;
        }
        (n, input) = (segments * count, output);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::shader::compiler;

    #[test]
    fn every_variant_compiles() {
        for src in Dtype::ALL.into_iter().filter(|&d| d != Dtype::F64) {
            let values = Output::of(src, false);
            for (out, greatest) in
                [(values, false), (values, true), (Output::Indices, false), (Output::Indices, true)]
            {
                for (first, last) in [(true, true), (true, false), (false, false), (false, true)] {
                    let key = TopsKey { src, out, greatest, first, last, lanes: 256 };
                    compiler::spirv(&key.name(), &key.module(&Features::default())).unwrap();
                }
            }
        }
    }
}

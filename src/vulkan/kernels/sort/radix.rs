//! Host side of shaders/sort/radix.comp: least-significant-digit radix sort of long rows by bytes. Each pass counts the
//! digits of the tiles, scans the counts and moves the elements; no kernel relies on another workgroup's progress.

use super::{Job, Output, present};
use crate::core::{Dtype, Result};
use crate::kernels::DeviceView;
use crate::vulkan::kernels::elem::{Defines, Push, WG, define, dims, grid, ordered, required_subgroup};
use crate::vulkan::tune;
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    Count,
    Scan,
    Scatter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RadixKey {
    src: Dtype,
    out: Output,
    step: Step,
    first: bool,
    last: bool,
    /// Words that lie beside the keys go along in place of indices.
    carry: bool,
    few: bool,
    lanes: u32,
    items: u32,
}

impl KernelKey for RadixKey {
    fn name(&self) -> String {
        let what = self.out.op();
        format!("{what}_radix_{:?}_{}", self.step, self.src).to_lowercase()
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        ordered(&mut d, self.src);
        self.out.define(&mut d, self.src);
        define(&mut d, "MODE", self.step as u32);
        define(&mut d, "ITEMS", format!("{}u", self.items));
        define(&mut d, "SG_SIZE", format!("{}", f.subgroup_size));
        let flags = [(self.first, "FIRST"), (self.last, "LAST"), (self.few, "FEW"), (self.carry, "CARRY")];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        Module {
            source: Source::File("radix.comp"),
            defines: d,
            spec: vec![self.lanes],
            subgroup_size: required_subgroup(f),
            spirv16: false,
        }
    }
}

/// Sorts the rows of `job`.
pub(in crate::vulkan) fn sort(enc: &mut CommandEncoder, job: &Job) -> Result<()> {
    passes(enc, job, job.src.dtype.size() as u32, true, (0, 0)).map(|_| ())
}

/// Keys of unsigned integers, lines of `per_line` one behind the other, in their order by the lowest `bits`, as words, and
/// beside them their numbers in their lines or, where there are such, the words of `beside`.
pub(in crate::vulkan) fn ordered_keys(
    enc: &mut CommandEncoder,
    keys: &DeviceView,
    bits: u32,
    beside: (u64, u64),
) -> Result<[(u64, u64); 2]> {
    let (rows, n) = (keys.shape[0] as u64, keys.shape[1] as u64);
    let params = dims(enc, &[(keys.shape[0], keys.strides[0])])?;
    let job = Job {
        src: keys,
        dst: keys,
        out: Output::Indices,
        strides: [1, 1],
        n,
        rows,
        params,
        nk: 1,
        next_row: [None; 2],
    };
    passes(enc, &job, bits.div_ceil(8).max(1), false, beside)
}

/// So many passes, the last of them into the destination unless that is left out; where the keys and what goes along with
/// them are then.
fn passes(
    enc: &mut CommandEncoder,
    job: &Job,
    passes: u32,
    into: bool,
    beside: (u64, u64),
) -> Result<[(u64, u64); 2]> {
    let Job { src, dst, n, rows, .. } = *job;
    let f = enc.device().features();
    let lanes = f.subgroup_size * tune::sort::SUBGROUPS;
    let items = tune::sort::items(enc.device().profile(), job.key_size(), lanes, rows * n);
    let tiles = n.div_ceil(u64::from(lanes) * items);
    let mut scratch = [[(0u64, 0u64); 2]; 2];
    for s in scratch.iter_mut().take((passes - u32::from(into)).min(2) as usize) {
        *s = job.scratch(enc)?;
    }
    let bytes = rows * 256 * (tiles + 1) * 4;
    let counts = (enc.temp(bytes as usize)?, bytes);
    for pass in 0..passes {
        let (first, last) = (pass == 0, into && pass + 1 == passes);
        let carry = beside.1 > 0;
        let mut input = scratch[(pass as usize + 1) % 2];
        if first {
            input = [(0, 0), beside];
        }
        let output = scratch[pass as usize % 2];
        let addresses =
            [src.ptr, dst.ptr, job.params, input[0].0, input[1].0, output[0].0, output[1].0, counts.0];
        let push = Push::default().u64s(&addresses).i64s(&job.strides);
        let push = push.u32s(&[n as u32, tiles as u32, job.nk, rows as u32, 8 * pass]);
        let keys = if first { src.range() } else { input[0] };
        let few = tiles <= tune::sort::FEW_TILES;
        let key = RadixKey {
            src: src.dtype,
            out: job.out,
            step: Step::Count,
            first,
            last,
            carry: carry && first,
            few,
            lanes,
            items: items as u32,
        };
        let moved = present([input[0], input[1], counts, src.range()]);
        let written = if last { vec![dst.range()] } else { present(output) };
        let scan_groups = if few { rows } else { rows * 256 };
        for (step, groups, reads, writes) in [
            (Step::Count, rows * tiles, vec![keys], vec![counts]),
            (Step::Scan, scan_groups, vec![counts], vec![counts]),
            (Step::Scatter, rows * tiles, moved, written),
        ] {
            // Only the keys' width decides how counts are scanned.
            let key = match step {
                Step::Scan => RadixKey {
                    step,
                    out: Output::Values,
                    first: false,
                    last: false,
                    carry: false,
                    lanes: WG,
                    ..key.clone()
                },
                Step::Count => RadixKey { step, last: false, carry: false, few: false, ..key.clone() },
                Step::Scatter => RadixKey { step, few: false, ..key.clone() },
            };
            let pipeline = enc.device().pipeline(&key)?;
            let size = grid(enc, groups);
            enc.dispatch(&pipeline, &push, size, &reads, &writes)?;
        }
    }
    Ok(scratch[(passes as usize + 1) % 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::shader::compiler;

    #[test]
    fn every_variant_compiles() {
        for size in [8, 64] {
            let f = Features { subgroup_size: size, ..Default::default() };
            for src in [Dtype::U8, Dtype::F16, Dtype::F32, Dtype::I64, Dtype::C64] {
                let values = Output::of(src, false);
                for out in [values, Output::Indices] {
                    for (first, last) in [(true, true), (true, false), (false, false), (false, true)] {
                        for step in [Step::Count, Step::Scan, Step::Scatter] {
                            let lanes = tune::sort::SUBGROUPS * size;
                            let carry = first && !last && out == Output::Indices;
                            let key =
                                RadixKey { src, out, step, first, last, carry, few: first, lanes, items: 8 };
                            compiler::spirv(&key.name(), &key.module(&f)).unwrap();
                        }
                    }
                }
            }
        }
    }
}

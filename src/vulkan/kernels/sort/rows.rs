//! Host side of shaders/sort/rows.comp: many short rows, a block of them to a workgroup.

use super::{Job, Output};
use crate::core::{Dtype, Result};
use crate::vulkan::kernels::elem::{Defines, Push, define, grid, ordered};
use crate::vulkan::tune::sort::{Block, blocks};
use crate::vulkan::{CommandEncoder, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RowsKey {
    src: Dtype,
    out: Output,
    /// Neighbouring lanes read neighbouring rows, and write them.
    rows_in: bool,
    rows_out: bool,
    lanes: u32,
    /// Elements of a lane.
    items: u32,
}

impl KernelKey for RowsKey {
    fn name(&self) -> String {
        let what = self.out.op();
        format!("{what}_rows_{}", self.src)
    }

    fn module(&self, _: &Features) -> Module {
        let mut d = Defines::new();
        ordered(&mut d, self.src);
        self.out.define(&mut d, self.src);
        define(&mut d, "ITEMS", format!("{}u", self.items));
        let flags = [(self.rows_in, "ROWS_IN"), (self.rows_out, "ROWS_OUT")];
        flags.iter().filter(|x| x.0).for_each(|x| define(&mut d, x.1, 1));
        Module {
            source: Source::File("rows.comp"),
            defines: d,
            spec: vec![self.lanes],
            subgroup_size: None,
            spirv16: false,
        }
    }
}

/// Sorts the rows of `job`, all of them short.
pub(super) fn sort(enc: &mut CommandEncoder, job: &Job) -> Result<()> {
    let Job { src, dst, n, rows, .. } = *job;
    // Rows lie closer than elements where the next row is the nearer one.
    let closer = |next: Option<i64>, stride: i64| next.is_some_and(|r| r.abs() < stride.abs());
    let [from, to] = job.next_row;
    let (rows_in, rows_out) = (closer(from, job.strides[0]), closer(to, job.strides[1]));
    let most = enc.device().features().max_workgroup_invocations;
    let profile = enc.device().profile();
    let Block { lanes, items, pitch, rows: block } =
        blocks(profile, n as u32, rows, most, rows_in || rows_out);
    let key = RowsKey { src: src.dtype, out: job.out, rows_in, rows_out, lanes, items };
    let push = Push::default().u64s(&[src.ptr, dst.ptr, job.params]).i64s(&job.strides);
    let push = push.u32s(&[n as u32, job.nk, rows as u32, block, pitch]);
    let pipeline = enc.device().pipeline(&key)?;
    let groups = grid(enc, rows.div_ceil(u64::from(block)));
    enc.dispatch(&pipeline, &push, groups, &[src.range()], &[dst.range()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::shader::compiler;

    #[test]
    fn every_variant_compiles() {
        for src in Dtype::ALL.into_iter().filter(|&d| d != Dtype::F64) {
            let values = Output::of(src, false);
            for out in [values, Output::Indices] {
                for (rows_in, rows_out, items) in [(false, false, 1), (true, false, 4), (true, true, 4)] {
                    let key = RowsKey { src, out, rows_in, rows_out, lanes: 256, items };
                    compiler::spirv(&key.name(), &key.module(&Features::default())).unwrap();
                }
            }
        }
    }
}

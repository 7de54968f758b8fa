//! Rows by long matrices of codes of two to eight bits on warpgroups, on GPUs that take PTX: sums stay in registers along K, so that only
//! workgroups that share K leave anything to add up. Takes what `qmm_joined` joins, but no normalisation. The twins are `few_rows`, and
//! the kernels on Vulkan's matrices for what that does not know (MLX_VK_DISABLE=qmm_wide).

mod bring;
mod decode;
mod finish;
mod join;
mod odd;
#[cfg(test)]
mod tests;
mod text;

use smallvec::SmallVec;

use self::text::{Program, THREADS};
use super::few_rows::readable;
use super::push::Push;
use super::qmm_joined::{Joined, Matrix};
use super::quant::show;
use crate::core::Result;
use crate::vulkan::hal::device::Device;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::report::stats::STATS;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::quantized::wide_codes::{columns, joined, layout};
use crate::vulkan::tune::quantized::{Shape, few_rows as table};
use crate::vulkan::{CommandEncoder, Features};

impl KernelKey for Program {
    fn name(&self) -> String {
        let after = self.after.map_or(String::new(), |f| format!("_{}", f.program.name()));
        format!(
            "qmm_wide_{}_v{}_{}_{}_{}{after}",
            self.splits,
            self.columns,
            show(self.format),
            self.dtype,
            self.rows().matrices()
        )
    }

    fn module(&self, _: &Features) -> Module {
        Module { source: Source::Ptx { text: self.text(), threads: THREADS }, ..Default::default() }
    }
}

/// Whether the kernel can read and write what lies there.
fn fits(j: &Joined, program: &Program) -> bool {
    // Where factors of a batch lie, a load begins.
    let factors = u64::from(program.lane_factors());
    let matrix = |m: &Matrix| {
        m.parts[0].is_multiple_of(16)
            && m.parts[1..].iter().all(|p| p.is_multiple_of(factors))
            && m.rows % 2 == 0
    };
    j.norm.is_none() && readable(j) && j.matrices.iter().all(matrix)
}

/// Whether a product alone is better done here, where its operands lie so.
pub fn suits(device: &'static Device, s: &Shape) -> bool {
    layout(device.profile(), s).is_some() && device.warpgroups()
}

/// Records the products, if they are better done here; whether it did. `reads` and `writes` are all ranges that they touch.
pub fn run(
    enc: &mut CommandEncoder,
    j: &Joined,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<bool> {
    let device = enc.device();
    let alone = j.matrices.len() == 1 && j.after.is_none();
    let laid = if alone { layout } else { joined };
    let laid = j.format.and_then(|f| Some((f, laid(device.profile(), &j.shape(f))?)));
    let Some((format, splits)) = laid else { return Ok(false) };
    let columns = columns(j.m);
    // FITS: `layout` bounds products of them.
    let k = j.k as u32;
    let program =
        Program { splits, format, columns, dtype: j.dtype, k, lengths: j.lengths(), after: j.after };
    if !fits(j, &program) || !device.warpgroups() {
        return Ok(false);
    }
    let pipeline = device.pipeline(&program)?;
    let (push, units, late) = (Push::of(j), program.units(), j.late());
    for first in (0..j.m).step_by(columns as usize) {
        let rows = (j.m - first).min(columns.into());
        let (mut told, own) = push.of_rows(j, [first, rows]);
        // So that those of other rows need not be awaited.
        let mut written = if rows < j.m { own } else { SmallVec::from_slice(writes) };
        if splits > 1 {
            let bytes = (units * splits * program.left()) as usize;
            told.sums = enc.temp(bytes)?;
            told.norm = enc.counters(units as usize)?;
            written.extend([(told.sums, bytes as u64), (told.norm, 4 * u64::from(units))]);
        }
        enc.describe(2.0 * (j.rows() * rows) as f64 * j.k as f64, &[1, rows, j.rows(), j.k]);
        let groups = [units * splits, 1, 1];
        enc.dispatch_early(&pipeline, told.bytes(), groups, [reads, &written], &late)?;
    }
    j.matrices.iter().for_each(|_| STATS.quantized(table::PLACE, j.m, j.k / i64::from(format.group)));
    Ok(true)
}

//! Few rows by long dense matrices in PTX, on GPUs that take it: a workgroup has all of K, so that it leaves nothing to add up; weights
//! go from memory into registers as they lie, rows of x through shared memory. Takes what `qmm_joined` joins, but no normalisation. The
//! twin is matmul_held.comp (MLX_VK_DISABLE=matmul_wide).

#[cfg(test)]
mod tests;
mod text;

use smallvec::SmallVec;

use self::text::Program;
use super::few_rows::steps;
use super::qmm_joined::{Joined, Push};
use crate::core::Result;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::gemv::wide::{COLUMNS, THREADS, takes};
use crate::vulkan::{CommandEncoder, Features};

impl KernelKey for Program {
    fn name(&self) -> String {
        let after = self.after.map_or(String::new(), |f| format!("_{}", f.program.name()));
        format!("matmul_wide_v{COLUMNS}_dense_bfloat16_{}{after}", self.rows().matrices())
    }

    fn module(&self, _: &Features) -> Module {
        Module { source: Source::Ptx { text: self.text(), threads: THREADS }, ..Default::default() }
    }
}

/// Whether the kernel can read and write what lies there, and knows what becomes of the results.
fn fits(j: &Joined) -> bool {
    let alone = j.norm.is_none() && j.kept.is_none() && j.picks.is_none() && j.combined.is_none();
    alone
        && j.format.is_none()
        && j.x.is_multiple_of(16)
        && j.results.iter().all(|r| r.is_multiple_of(4))
        && j.matrices.iter().all(|m| m.parts[0].is_multiple_of(16) && m.rows % 2 == 0)
        && j.after.is_none_or(|a| j.matrices.len() <= 2 && steps(&a).is_some())
}

/// Records the products, if they are better done here; whether it did. `reads` and `writes` are all ranges that they touch.
pub fn run(
    enc: &mut CommandEncoder,
    j: &Joined,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<bool> {
    let device = enc.device();
    if !fits(j) || !takes(device.profile(), j.dtype, [j.m, j.k, j.rows()]) || !device.warpgroups() {
        return Ok(false);
    }
    // FITS: `takes` bounds products of them.
    let mut program = Program { k: j.k as u32, lengths: [0; 3], after: j.after };
    let mut push = Push { x: j.x, rows: j.m as u32, ..Push::default() };
    for (i, m) in j.matrices.iter().enumerate() {
        program.lengths[i] = m.rows as u32;
        push.parts[0][i] = m.parts[0];
    }
    push.parts[3][..j.results.len()].copy_from_slice(j.results);
    let pipeline = device.pipeline(&program)?;
    enc.describe(2.0 * (j.rows() * j.m) as f64 * j.k as f64, &[1, j.m, j.rows(), j.k]);
    let writes: SmallVec<[(u64, u64); 6]> = SmallVec::from_slice(writes);
    enc.dispatch(&pipeline, push.bytes(), [program.rows().all(), 1, 1], reads, &writes)?;
    Ok(true)
}

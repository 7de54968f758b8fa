//! Few rows by long dense matrices in PTX, on GPUs that take it: a workgroup has all of K, so that it leaves nothing to add up; weights
//! go from memory into registers as they lie, rows of x through shared memory. Takes what `qmm_joined` joins, but no normalisation. The
//! twin is matmul_held.comp (MLX_VK_DISABLE=matmul_wide).

#[cfg(test)]
mod tests;
mod text;

use self::text::Program;
use super::few_rows::readable;
use super::push::Push;
use super::qmm_joined::{Joined, Matrix};
use crate::core::Result;
use crate::kernels::DeviceView;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::matmul::{Problem, matmul_or};
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

/// Whether the kernel can read and write what lies there.
fn fits(j: &Joined) -> bool {
    let matrix = |m: &Matrix| m.parts[0].is_multiple_of(16) && m.rows % 2 == 0;
    j.format.is_none() && j.norm.is_none() && readable(j) && j.matrices.iter().all(matrix)
}

/// `dst = a @ b` as `kernels/matmul` has it, by this kernel where that is better.
pub fn matmul(enc: &mut CommandEncoder, a: &DeviceView, b: &DeviceView, dst: &DeviceView) -> Result<()> {
    matmul_or(enc, product, [a, b, dst])
}

/// Records the product of problem `p` if it is better done here; whether it did.
fn product(enc: &mut CommandEncoder, p: &Problem) -> Result<bool> {
    let (x, w) = (&p.a, &p.b);
    let dense = x.cs == 1 && x.rs == p.k && w.rs == 1 && w.cs == p.k && p.d_rs == p.n;
    let alone = p.batch.is_empty() && p.table.is_none() && p.fused.is_none() && !p.has_addend();
    if !dense || !alone {
        return Ok(false);
    }
    let (matrices, results) = ([Matrix { rows: p.n, parts: [w.ptr, 0, 0] }], [p.d]);
    let j = Joined::alone(None, p.dtype, [p.m, p.k], x.ptr, &matrices, &results);
    run(enc, &j, &[x.range, w.range], &[p.d_range])
}

/// Records the products, if they are better done here; whether it did. `reads` and `writes` are all ranges that they touch.
pub fn run(
    enc: &mut CommandEncoder,
    j: &Joined,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<bool> {
    let device = enc.device();
    if !takes(device.profile(), j.dtype, [j.m, j.k, j.rows()]) || !fits(j) || !device.warpgroups() {
        return Ok(false);
    }
    // FITS: `takes` bounds products of them.
    let program = Program { k: j.k as u32, lengths: j.lengths(), after: j.after };
    let pipeline = device.pipeline(&program)?;
    enc.describe(2.0 * (j.rows() * j.m) as f64 * j.k as f64, &[1, j.m, j.rows(), j.k]);
    let (push, groups) = (Push::of(j), [program.rows().all(), 1, 1]);
    enc.dispatch_early(&pipeline, Told::bytes(&push), groups, [reads, writes], &j.late())?;
    Ok(true)
}

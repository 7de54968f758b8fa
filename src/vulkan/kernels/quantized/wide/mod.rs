//! Few rows by dense matrices in PTX, on GPUs that take it: sums stay in registers along K, or along the part of it that warps and
//! workgroups have; weights go from memory into registers as they lie, rows of x through shared memory. Takes what `qmm_joined` joins, but no normalisation. The
//! twin is matmul_held.comp (MLX_VK_DISABLE=matmul_wide).

mod finish;
mod join;
#[cfg(test)]
mod tests;
mod text;

use smallvec::SmallVec;

use self::text::Program;
use super::few_rows::readable;
use super::push::Push;
use super::qmm_joined::{Joined, Matrix};
use crate::core::Result;
use crate::kernels::DeviceView;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::matmul::{Problem, matmul_or};
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::gemv::wide::{Form, layout, takes_alone};
use crate::vulkan::{CommandEncoder, Features};

impl KernelKey for Program {
    fn name(&self) -> String {
        let after = self.after.map_or(String::new(), |f| format!("_{}", f.program.name()));
        let Form { blocks, teams, splits, columns, .. } = self.form;
        let matrices = self.rows().matrices();
        format!("matmul_wide_{blocks}x{teams}x{splits}_v{columns}_dense_{}_{matrices}{after}", self.dtype)
    }

    fn module(&self, _: &Features) -> Module {
        Module {
            source: Source::Ptx { text: self.text(), threads: self.form.threads() },
            ..Default::default()
        }
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
    if !dense || !alone || !takes_alone(p.m) {
        return Ok(false);
    }
    let (matrices, results) = ([Matrix { rows: p.n, parts: [w.ptr, 0, 0] }], [p.d]);
    let j = Joined::alone(None, p.dtype, [p.m, p.k], x.ptr, &matrices, &results);
    record(enc, &j, &[x.range, w.range], &[p.d_range], true)
}

/// Records the products, if they are better done here; whether it did. `reads` and `writes` are all ranges that they touch.
pub fn run(
    enc: &mut CommandEncoder,
    j: &Joined,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<bool> {
    record(enc, j, reads, writes, false)
}

/// The same; `any_size`: by the kernel that is told the sizes of its only matrix.
fn record(
    enc: &mut CommandEncoder,
    j: &Joined,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
    any_size: bool,
) -> Result<bool> {
    let device = enc.device();
    let form = layout(device.profile(), j.dtype, [j.m, j.k, j.rows()]);
    let Some(form) = form.filter(|_| fits(j) && device.warpgroups()) else { return Ok(false) };
    // FITS: `layout` bounds products of them.
    let program = Program { form, dtype: j.dtype, k: j.k as u32, lengths: j.lengths(), after: j.after };
    let pipeline = device.pipeline(&if any_size { program.of_any_size() } else { program })?;
    let (mut push, mut written) = (Push::of(j), SmallVec::<[(u64, u64); 8]>::from_slice(writes));
    if any_size {
        // In place of scales, of which there are none.
        push.parts[1][0] = u64::from(program.k) | u64::from(program.lengths[0]) << 32;
    }
    let units = program.rows().all();
    if form.splits > 1 {
        let bytes = program.left();
        push.sums = enc.temp(bytes)?;
        push.norm = enc.counters(units as usize)?;
        written.extend([(push.sums, bytes as u64), (push.norm, 4 * u64::from(units))]);
    }
    enc.describe(2.0 * (j.rows() * j.m) as f64 * j.k as f64, &[1, j.m, j.rows(), j.k]);
    let groups = [units * form.splits, 1, 1];
    enc.dispatch_early(&pipeline, Told::bytes(&push), groups, [reads, &written], &j.late())?;
    Ok(true)
}

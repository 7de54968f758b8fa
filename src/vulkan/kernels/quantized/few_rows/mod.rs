//! Few rows by matrices of four-bit codes in PTX, on GPUs that take it: the rows stay in registers, codes are copied to shared memory
//! ahead, and become elements by a mask alone, as numbers below the smallest normal one, which matrix units keep; x is multiplied
//! by powers of two to make up for that. Takes what `qmm_joined` joins; a normalisation where a workgroup has whole rows. The kernels on
//! Vulkan's matrices are the twins (MLX_VK_DISABLE=qmm_few_rows).

mod biases;
mod elements;
mod finish;
mod formats;
mod held;
mod normal;
pub(super) mod program;
mod rows;
#[cfg(test)]
mod tests;
mod weighed;

use smallvec::SmallVec;

use self::program::Program;
use super::push::Push;
use super::qmm_joined::{Joined, Matrix};
use super::steps::{self, Step};
use crate::core::{Dtype, Result};
use crate::kernels::matmul::epilogue::After;
use crate::kernels::quantized::quant::{Format, Mode};
use crate::vulkan::hal::device::Device;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::report::stats::STATS;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::quantized::Shape;
use crate::vulkan::tune::quantized::few_rows::{self as table, Form, GROUP, UNIT};
use crate::vulkan::{CommandEncoder, Features};

impl KernelKey for Program {
    fn name(&self) -> String {
        let Form { tiles, pieces, warps, splits, .. } = self.form;
        let after = self.after.map_or(String::new(), |f| format!("_{}", f.program.name()));
        let matrices = self.matrices();
        let before = if self.norm.is_some() { "norm_" } else { "" };
        format!(
            "qmm_few_rows_{before}{warps}x{pieces}x{splits}_v{}_q4g64_{}_{matrices}{after}",
            8 * tiles,
            self.dtype
        )
    }

    fn module(&self, _: &Features) -> Module {
        let threads = 32 * self.form.warps;
        Module { source: Source::Ptx { text: self.text(), threads }, ..Default::default() }
    }
}

/// Steps of a program, and arrays that it reads.
const MOST: usize = 12;
/// See [`MOST`].
const ARRAYS: u32 = 2;

// SAFETY: repr(C) of 8-byte fields and two of 4, without padding.
unsafe impl Told for Push {}

/// The steps of what follows the products, if the text has them all.
pub(super) fn steps(dtype: Dtype, after: &After) -> Option<SmallVec<[Step; 4]>> {
    let all = steps::steps(dtype, after)?;
    (all.len() <= MOST && steps::arrays(after) <= ARRAYS).then_some(all)
}

/// Whether texts of few rows can read and write what lies there besides matrices and what normalises them, and know what becomes of the
/// results.
pub(super) fn readable(j: &Joined) -> bool {
    let alone = j.kept.is_none() && j.picks.is_none() && j.combined.is_none() && j.added.is_empty();
    alone
        && j.x.is_multiple_of(16)
        && j.results.iter().all(|r| r.is_multiple_of(4))
        && j.after.is_none_or(|a| j.matrices.len() <= 2 && steps(j.dtype, &a).is_some())
}

/// Whether the kernel can read and write what lies there.
fn fits(j: &Joined, form: Form) -> bool {
    let matrix = |m: &Matrix| {
        m.parts[0].is_multiple_of(16)
            && m.parts[1..].iter().all(|p| p.is_multiple_of(8))
            && m.rows % i64::from(UNIT) == 0
    };
    let whole = j.norm.is_none_or(|(weights, _)| form.splits == 1 && weights.is_multiple_of(16));
    whole && readable(j) && j.matrices.iter().all(matrix)
}

/// Whether a product alone is better done here, where its operands lie so.
pub fn suits(device: &'static Device, s: &Shape) -> bool {
    table::layout(device.profile(), s).is_some() && device.warpgroups()
}

/// The layout for such products, if they are better done here.
fn form(enc: &CommandEncoder, j: &Joined) -> Option<Form> {
    let device = enc.device();
    let p = device.profile();
    let form = table::layout(p, &j.shape(j.format?))?;
    let sides = if j.pair() { 2 } else { 1 };
    // FITS: whoever joins them bounds products of them.
    let units = j.units(UNIT.into()) as u32;
    let form = table::held(p, j.dtype, [j.m, j.k], [units, sides]).unwrap_or(form);
    (fits(j, form) && device.warpgroups()).then_some(form)
}

/// Records the products, if they are better done here; whether it did. `reads` and `writes` are all ranges that they touch.
pub fn run(
    enc: &mut CommandEncoder,
    j: &Joined,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<bool> {
    let Some(form) = form(enc, j) else { return Ok(false) };
    let program = Program {
        form,
        // `form` knows one.
        format: Format { mode: Mode::Affine, group: GROUP, bits: 4 },
        dtype: j.dtype,
        k: j.k as u32,
        lengths: j.lengths(),
        norm: j.norm.map(|n| n.1.to_bits()),
        after: j.after,
        picked: false,
    };
    let push = Push::of(j);
    let pipeline = enc.device().pipeline(&program)?;
    let (most, late) = (i64::from(8 * form.tiles * form.parts), j.late());
    let lists = form.lists(enc.device().profile(), program.units());
    for first in (0..j.m).step_by(most as usize) {
        let rows = (j.m - first).min(most);
        let (mut told, own) = push.of_rows(j, [first, rows]);
        // So that those of other rows need not be awaited.
        let mut written = if rows < j.m { own } else { SmallVec::from_slice(writes) };
        if form.splits > 1 {
            let bytes = 4 * form.left(program.units() * program.sides());
            told.sums = enc.temp(bytes)?;
            told.norm = enc.counters(lists as usize)?;
            written.extend([(told.sums, bytes as u64), (told.norm, 4 * u64::from(lists))]);
        }
        enc.describe(2.0 * (j.rows() * rows) as f64 * j.k as f64, &[1, rows, j.rows(), j.k]);
        let groups = [lists * form.splits * form.parts, 1, 1];
        enc.dispatch_early(&pipeline, told.bytes(), groups, [reads, &written], &late)?;
    }
    for _ in j.matrices {
        STATS.quantized(table::PLACE, j.m, j.k / i64::from(GROUP));
    }
    Ok(true)
}

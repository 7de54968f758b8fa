//! Rows of x that pick their matrices of codes by index, in PTX on GPUs that take it: the codes of a matrix that is picked are
//! read once for up to eight of its rows, which are the right sides of products, as those of `few_rows` are, whose text this is but for the
//! lists of picks. Each workgroup counts the picks of each matrix, and takes its share of the rows of codes of all that are picked.
//! Takes what `qmm_joined` joins for picks; sums over picks are made of products that stand in memory (`sums`). The shaders
//! are the twins (MLX_VK_DISABLE=qmm_few_picked).

mod join;
mod program;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use smallvec::SmallVec;

use self::program::Program;
use super::few_rows::program::Program as Rows;
use super::few_rows::steps;
use super::push::Push;
use super::qmm_joined::{Joined, Matrix, Picks};
use super::quant::show;
use super::sums;
use crate::core::Result;
use crate::kernels::matmul::epilogue::{After, Origin};
use crate::kernels::quantized::quant::Format;
use crate::vulkan::hal::device::Device;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::kernels::sort::choice;
use crate::vulkan::report::stats::STATS;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Pipeline, Source};
use crate::vulkan::tune::quantized::Shape;
use crate::vulkan::tune::quantized::few_picked::{self as table, Picked};
use crate::vulkan::tune::quantized::few_rows::UNIT;
use crate::vulkan::tune::quantized::pieces::Piece;
use crate::vulkan::{CommandEncoder, Features};

impl KernelKey for Program {
    fn name(&self) -> String {
        let form = self.rows.form;
        let after = self.rows.after.map_or(String::new(), |f| format!("_{}", f.program.name()));
        let (warps, pieces, slots, splits) = (form.warps, form.pieces, self.slots, form.splits);
        let matrices = self.rows.matrices();
        let before = self.choice.map_or(String::new(), |c| c.name() + "_");
        format!(
            "{before}qmm_few_picked_{warps}x{pieces}x{slots}x{splits}_of_{}_{}_{}_{matrices}{after}",
            self.matrices,
            show(self.rows.format),
            self.rows.dtype
        )
    }

    fn module(&self, _: &Features) -> Module {
        let threads = 32 * self.rows.form.warps;
        Module { source: Source::Ptx { text: self.text(), threads }, ..Default::default() }
    }
}

/// Whether what is read after the products are tables alone, a row for each matrix.
fn tables(after: &After) -> bool {
    !after.inputs.iter().any(|origin| matches!(origin, Origin::Array(_)))
}

/// Whether the kernel can read and write what lies there, and knows what becomes of the results.
fn fits(j: &Joined, format: Format) -> bool {
    let n = j.matrices[0].rows;
    // FITS: `layout` bounds products of it.
    let piece = Piece::of(format, j.k as u32);
    let copied = u64::from(if piece.whole { piece.factors } else { 4 });
    let matrix = |m: &Matrix| {
        m.parts[0].is_multiple_of(16)
            && m.parts[1..].iter().all(|p| p.is_multiple_of(copied))
            && m.rows == n
            && m.rows % i64::from(UNIT) == 0
    };
    let known = j.combined.is_some()
        || j.after.is_none_or(|a| tables(&a) && j.matrices.len() <= 2 && steps(j.dtype, &a).is_some());
    j.norm.is_none()
        && j.kept.is_none()
        && j.x.is_multiple_of(16)
        && j.results.iter().all(|r| r.is_multiple_of(4))
        && j.matrices.iter().all(matrix)
        && known
}

/// Whether products of one matrix for each pick are better done here, where their operands lie so.
pub fn suits(device: &'static Device, s: &Shape) -> bool {
    table::layout(device.profile(), s, false, false).is_some() && device.warpgroups()
}

/// The layout for such products, if they are better done here.
fn layout(enc: &CommandEncoder, j: &Joined) -> Option<Picked> {
    let device = enc.device();
    let summed = j.combined.is_some();
    let format = j.format?;
    let laid = table::layout(device.profile(), &j.shape(format), j.pair(), summed)?;
    (fits(j, format) && device.warpgroups()).then_some(laid)
}

/// Records the products, if they are better done here; whether it did. `reads` and `writes` are all ranges that they touch.
pub fn run(
    enc: &mut CommandEncoder,
    j: &Joined,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<bool> {
    let (Some(picks), Some(format)) = (j.picks, j.format) else { return Ok(false) };
    let Some(Picked { form, slots }) = layout(enc, j) else { return Ok(false) };
    if let Some(c) = j.combined {
        return sums::run(enc, j, c, reads, writes).map(|()| true);
    }
    let rows = Rows {
        form,
        format,
        dtype: j.dtype,
        k: j.k as u32,
        lengths: j.lengths(),
        norm: None,
        after: j.after,
        picked: true,
    };
    let matrices = (picks.matrices as u32, picks.share as u32);
    let program = Program { rows, slots, matrices: matrices.0, share: matrices.1, choice: None };
    if !chosen(enc, j, &picks, &program, [reads, writes])? {
        let mut push = Push { rows: picks.count as u32, ..Push::of(j) };
        let pipeline = enc.device().pipeline(&program)?;
        let mut written: SmallVec<[(u64, u64); 8]> = SmallVec::from_slice(writes);
        if form.splits > 1 {
            let lists = groups(enc, &program, push.rows) / form.splits;
            let most = table::items(program.matrices).min(push.rows) * program.rows.units();
            let bytes = 4 * form.left(most * program.rows.sides());
            push.sums = enc.temp(bytes)?;
            push.norm = enc.counters(lists as usize)?;
            written.extend([(push.sums, bytes as u64), (push.norm, 4 * u64::from(lists))]);
        }
        record(enc, j, (&program, &pipeline), &push, [reads, &written])?;
    }
    for _ in j.matrices {
        STATS.quantized(table::PLACE, j.m, j.k / i64::from(format.group));
    }
    Ok(true)
}

/// Workgroups of such products.
fn groups(enc: &CommandEncoder, program: &Program, picks: u32) -> u32 {
    table::workgroups(enc.device().profile(), &program.rows.form, picks * program.rows.units())
}

/// Records the products with the choice of what they pick, if that was held back; whether it was.
fn chosen(
    enc: &mut CommandEncoder,
    j: &Joined,
    picks: &Picks,
    program: &Program,
    [reads, writes]: [&[(u64, u64)]; 2],
) -> Result<bool> {
    let (places, sizes) = (picks.indices.0, [picks.count, picks.share, picks.matrices]);
    // What workgroups share has the places of what a choice is told.
    if program.rows.form.splits > 1 {
        return Ok(false);
    }
    let Some(within) = choice::held(enc, places, sizes, writes) else { return Ok(false) };
    let program = Program { choice: Some(within.choice), ..*program };
    // What may fail comes first.
    let pipeline = enc.device().pipeline(&program)?;
    let Some([read, written]) = choice::take(enc, places, [reads, writes]) else { return Ok(false) };
    let push = Push { rows: picks.count as u32, norm: within.keys, sums: within.chosen, ..Push::of(j) };
    record(enc, j, (&program, &pipeline), &push, [&read, &written]).inspect_err(|e| enc.fail(e))?;
    Ok(true)
}

fn record(
    enc: &mut CommandEncoder,
    j: &Joined,
    (program, pipeline): (&Program, &Arc<Pipeline>),
    push: &Push,
    touched: [&[(u64, u64)]; 2],
) -> Result<()> {
    let (n, batch) = (j.rows(), i64::from(push.rows));
    enc.describe(2.0 * (n * batch) as f64 * j.k as f64, &[batch, j.m, n, j.k]);
    let groups = groups(enc, program, push.rows);
    // It knows no weights before others made the picks, and its workgroups are all that the device has room for. H200, steps of 30B-A3B of 32
    // sequences, behind barriers and early: 7.40 and 8.30 ms.
    enc.dispatch_behind(pipeline, Told::bytes(push), [groups, 1, 1], touched)
}

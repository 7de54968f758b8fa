//! One program over many lists of operands of one length, as one command: a table says where those of each lie.

use smallvec::SmallVec;

use super::{ELEMENTWISE_WIDE, ElementwiseKey, Kind, span};
use crate::core::{Dtype, Result};
use crate::kernels::Program;
use crate::kernels::elementwise::codegen::{self, Access, Class, GROUP};
use crate::vulkan::CommandEncoder;

/// Where a list's inputs and its output lie.
pub struct Row {
    /// One address for each.
    pub inputs: SmallVec<[u64; 3]>,
    /// Of `n` elements.
    pub output: u64,
}

/// Whether the kernel takes so many lists of `n` elements.
pub fn takes(enc: &CommandEncoder, p: &Program, n: usize, rows: usize) -> bool {
    let widest = p.dtypes().map(Dtype::size).max().unwrap_or(1);
    p.outputs.len() == 1
        && n > 0
        && n as i64 <= span(widest)
        && rows <= enc.device().features().max_groups_y as usize
}

/// Computes `p` on `n` elements of each row's inputs; those of which `single` says so have one for all.
pub fn run(enc: &mut CommandEncoder, p: &Program, n: usize, single: &[bool], rows: &[Row]) -> Result<()> {
    let caps = super::caps(enc.device().features());
    codegen::supported(p, caps)?;
    let sizes: SmallVec<[usize; 4]> =
        p.inputs.iter().copied().chain(p.output_dtypes()).map(Dtype::size).collect();
    let dense = |k: usize| single.get(k).is_none_or(|s| !s);
    let mut width = codegen::vector_width((0..sizes.len()).filter(|&k| dense(k)).map(|k| sizes[k]));
    let aligned = |k: usize, at: u64| !dense(k) || at.is_multiple_of(16);
    let whole =
        |r: &Row| r.inputs.iter().enumerate().all(|(k, &at)| aligned(k, at)) && r.output.is_multiple_of(16);
    if n < usize::from(width) || ELEMENTWISE_WIDE.disabled() || !rows.iter().all(whole) {
        width = 1;
    }
    let unit = if width > 1 { Access::Wide } else { Access::Unit };
    let access = (0..sizes.len()).map(|k| if dense(k) { unit } else { Access::Splat }).collect();
    let class = Class { access, ndim: 1, width, flat: false };
    let table: SmallVec<[u8; 512]> = rows
        .iter()
        .flat_map(|r| r.inputs.iter().chain([&r.output]))
        .flat_map(|at| at.to_ne_bytes())
        .collect();
    let total = n.div_ceil(width.into()) as u32;
    let mut push: SmallVec<[u8; 16]> = SmallVec::new();
    push.extend_from_slice(&enc.params(&table)?.to_ne_bytes());
    [n as u32, total].iter().for_each(|v| push.extend_from_slice(&v.to_ne_bytes()));
    let bytes = |k: usize| (if dense(k) { n } else { 1 } * sizes[k]) as u64;
    let reads: SmallVec<[(u64, u64); 16]> =
        rows.iter().flat_map(|r| r.inputs.iter().enumerate().map(|(k, &at)| (at, bytes(k)))).collect();
    let last = sizes.len() - 1;
    let writes: SmallVec<[(u64, u64); 16]> = rows.iter().map(|r| (r.output, bytes(last))).collect();
    let groups = [total.div_ceil(GROUP), rows.len() as u32, 1];
    let pipeline =
        enc.device().pipeline(&ElementwiseKey { program: p.clone(), kind: Kind::Tabled(class) })?;
    enc.dispatch(&pipeline, &push, groups, &reads, &writes)
}

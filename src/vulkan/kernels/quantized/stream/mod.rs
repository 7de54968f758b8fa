//! One row of x by codes of four bits that walk by it, in PTX where a device takes that: host side of `text`, whose twin is
//! shaders/quantized/qmm_stream.comp (MLX_VK_DISABLE=qmm_stream_ptx). Called by `qmm_joined`.

mod after;
mod results;
#[cfg(test)]
mod tests;
mod text;

pub(super) use after::steps;
pub(super) use text::{rounded, widen};

use std::cell::RefCell;
use std::collections::HashMap;

use super::qmm_joined::Joined;
use super::steps::arrays;
use crate::core::{Dtype, Result};
use crate::kernels::matmul::epilogue::{KeptAfter, MATRICES};
use crate::kernels::quantized::quant::Format;
use crate::vulkan::kernels::matmul::ceil;
use crate::vulkan::kernels::matmul::warpgroup::text::Told;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::quantized::stream::Streamed;
use crate::vulkan::{CommandEncoder, Features};
use text::Walk;

/// Place of an argument.
macro_rules! place {
    ($field:ident) => {
        std::mem::offset_of!(Args, $field)
    };
}
use place;

/// What the kernel is told; the text reads it by these places.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Args {
    x: u64,
    /// Weights that the row is normalised with.
    norm: u64,
    /// Where the normalised row is stored.
    kept: u64,
    codes: [u64; MATRICES],
    scales: [u64; MATRICES],
    biases: [u64; MATRICES],
    /// Of each matrix; or the only result, and what is read after it.
    results: [u64; MATRICES],
    /// Rows of each matrix.
    lengths: [u32; MATRICES],
    eps: f32,
    /// Units from one workgroup's first to the next one's, and from one turn to the next.
    apart: u32,
    step: u32,
}

const _: () = assert!(size_of::<Args>() == (3 + 4 * MATRICES) * 8 + 24);

// SAFETY: repr(C) of 8-byte fields and six of 4, without padding.
unsafe impl Told for Args {}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    walk: Walk,
    after: Option<KeptAfter>,
}

impl KernelKey for Key {
    fn name(&self) -> String {
        let w = &self.walk;
        let before = match (w.norm, w.keep) {
            (true, true) => "norm_kept_",
            (true, false) => "norm_",
            _ => "",
        };
        let after = self.after.as_ref().map_or(String::new(), |a| format!("_{}", a.program.name()));
        format!(
            "qmm_stream_ptx_{before}{}x{}x{}_q4g{}_{}_{}{after}",
            w.threads, w.teams, w.rows, w.group, w.dtype, w.matrices
        )
    }

    fn module(&self, _: &Features) -> Module {
        let threads = self.walk.threads * self.walk.teams;
        // INVARIANT: `joined_layout` asks `knows`.
        let steps = self.after.and_then(|a| after::steps(self.walk.dtype, &a)).unwrap_or_default();
        Module { source: Source::Ptx { text: self.walk.text(&steps), threads }, ..Default::default() }
    }
}

fn walk(j: &Joined, format: Format, s: &Streamed) -> Walk {
    Walk {
        dtype: j.dtype,
        group: format.group,
        // FITS: `possible` bounds the length of rows.
        k: j.k as u32,
        threads: s.threads,
        teams: s.teams,
        rows: s.rows,
        together: s.together,
        matrices: j.matrices.len() as u32,
        pair: j.pair(),
        norm: j.norm.is_some(),
        keep: j.kept.is_some(),
        after: j.after.as_ref().map(|a| arrays(a)),
    }
}

/// Whether what follows products of such elements is known here.
pub(super) fn knows(dtype: Dtype, after: Option<KeptAfter>) -> bool {
    thread_local! {
        /// What was asked before.
        static KNOWN: RefCell<HashMap<(Dtype, KeptAfter), bool>> = RefCell::default();
    }
    let Some(kept) = after else { return true };
    KNOWN.with_borrow_mut(|k| *k.entry((dtype, kept)).or_insert_with(|| after::steps(dtype, &kept).is_some()))
}

/// The kernel of so many units of rows and workgroups, and what it is told.
fn told(j: &Joined, format: Format, s: &Streamed, [units, groups]: [i64; 2]) -> (Key, Args) {
    let key = Key { walk: walk(j, format, s), after: j.after };
    let mut args = Args {
        x: j.x,
        norm: j.norm.map_or(0, |n| n.0),
        kept: j.kept.unwrap_or(0),
        eps: j.norm.map_or(0.0, |n| n.1),
        ..Args::default()
    };
    for (i, m) in j.matrices.iter().enumerate() {
        (args.codes[i], args.scales[i], args.biases[i]) = m.parts.into();
        // FITS: whoever calls counts rows in 32 bits.
        args.lengths[i] = m.rows as u32;
    }
    args.results[..j.results.len()].copy_from_slice(j.results);
    let (teams, turns) = (i64::from(s.teams), ceil(units, groups * i64::from(s.teams)));
    let (apart, step) = if s.neighbours { (turns * teams, teams) } else { (teams, groups * teams) };
    (args.apart, args.step) = (apart as u32, step as u32);
    (key, args)
}

/// Records the products, if there is a kernel for them; whether there is.
pub(super) fn run(
    enc: &mut CommandEncoder,
    j: &Joined,
    s: &Streamed,
    reads: &[(u64, u64)],
    writes: &[(u64, u64)],
) -> Result<bool> {
    let Some(format) = j.format.filter(|_| s.native && enc.device().warpgroups()) else { return Ok(false) };
    let units = j.units(s.span(j.pair()));
    let groups = s.workgroups(enc.device().profile(), units);
    let (key, args) = told(j, format, s, [units, groups]);
    let pipeline = enc.device().pipeline(&key)?;
    enc.describe(2.0 * j.rows() as f64 * j.k as f64, &[1, j.m, j.rows(), j.k]);
    enc.dispatch(&pipeline, args.bytes(), [groups as u32, 1, 1], reads, writes)?;
    Ok(true)
}

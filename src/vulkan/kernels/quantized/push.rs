//! What kernels are told of joined products: one block for the shaders, and for the texts of few rows in PTX.

use smallvec::SmallVec;

use super::qmm_joined::{Joined, Picks};
use crate::kernels::matmul::epilogue::MATRICES;
use crate::vulkan::kernels::elem::GridPush;

/// The push block of shaders/quantized/qmm.glsl with JOINED.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(in crate::vulkan) struct Push {
    pub x: u64,
    pub norm: u64,
    /// Codes, scales, biases, and results.
    pub parts: [[u64; MATRICES]; 4],
    pub tile0: u32,
    pub rows: u32,
    pub sums: u64,
}

impl Push {
    /// What all kernels are told of products: rows, what normalises them, matrices, results, and which matrices are picked.
    pub(super) fn of(j: &Joined) -> Push {
        let mut push = Push { x: j.x, norm: j.norm.map_or(0, |n| n.0), rows: j.m as u32, ..Push::default() };
        for (i, m) in j.matrices.iter().enumerate() {
            (push.parts[0][i], push.parts[1][i], push.parts[2][i]) = m.parts.into();
        }
        push.parts[3][..j.results.len()].copy_from_slice(j.results);
        if let Some(p) = &j.picks {
            push.pick(p);
        }
        push
    }

    /// What is told of `rows` rows from `first` on, of what this tells of all, and the results that are theirs alone.
    pub(super) fn of_rows(self, j: &Joined, [first, rows]: [i64; 2]) -> (Push, SmallVec<[(u64, u64); 6]>) {
        let bytes = |rows: i64, length: i64| 2 * (rows * length) as u64;
        let mut told = Push { x: self.x + bytes(first, j.k), rows: rows as u32, ..self };
        // Arrays that are read with the results of one matrix, or of two at once, have rows of that length.
        let length = |i: usize| j.matrices.get(if j.after.is_some() { 0 } else { i }).map_or(0, |m| m.rows);
        (0..).zip(&mut told.parts[3]).for_each(|(i, to)| *to += bytes(first, length(i)));
        let results = if j.after.is_some() { 1 } else { j.matrices.len() };
        let written = (0..results).map(|i| (told.parts[3][i], bytes(rows, length(i)))).collect();
        (told, written)
    }

    /// Says which matrices are picked.
    pub(super) fn pick(&mut self, p: &Picks) {
        let flags = u64::from(p.indices.1) | (p.share as u64) << 1;
        self.parts[0][MATRICES - 1] = p.indices.0;
        self.parts[1][MATRICES - 1] = p.matrices as u64 | flags << 32;
    }
}

/// Bytes of the block that shaders see.
const PUSH_BYTES: usize = (3 + 4 * MATRICES) * 8 + 8;

impl GridPush for Push {
    fn beginning(self, tile0: u32, _: u32) -> Push {
        Push { tile0, ..self }
    }

    fn bytes(&self) -> &[u8] {
        const { assert!(size_of::<Push>() == PUSH_BYTES) };
        // SAFETY: repr(C) of 8-byte fields and two of 4, without padding.
        unsafe { std::slice::from_raw_parts((self as *const Push).cast(), PUSH_BYTES) }
    }
}

//! What kernels are told of joined products: one block for the shaders, and for the texts of few rows in PTX.

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

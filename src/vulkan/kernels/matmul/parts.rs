//! Float32 products on matrices of float16: each operand is brought into parts (shaders/parts/parts.glsl), the product of these
//! follows, and blocks whose numbers do not allow it are computed by plain arithmetic from the operands themselves. The
//! device decides which: the host asks for nothing. Called by `matmul`.

use super::kernel::{Kernel, MatmulKey, Push};
use super::{Operand, Problem, ceil, plain, round_up, tiled};
use crate::core::{Dtype, Error, Result};
use crate::vulkan::CommandEncoder;
use crate::vulkan::kernels::elem::launch;
use crate::vulkan::tune::matmul::{Tile, tiles};
use crate::vulkan::tune::parts::{LEFT_OVER, STRETCH};

/// Elements of K that a group holds, and the 16-byte words of its parts.
const GROUP: i64 = 16;
/// See [`GROUP`].
const GROUP_WORDS: i64 = 4;

/// One product; both operands are row-major or column-major. Where there is no memory for parts it goes without.
pub fn run(enc: &mut CommandEncoder, p: &Problem, tile: Tile) -> Result<()> {
    let groups = round_up(p.k, i64::from(tile.bk)) / GROUP;
    let left = split(enc, &p.a, p.m, p.k, groups);
    let blocks = left.and_then(|a| Ok((a, split(enc, &p.b.transposed(), p.n, p.k, groups)?)));
    let (a, b) = match blocks {
        Err(Error::OutOfMemory { .. }) => return tiled(enc, p),
        blocks => blocks?,
    };
    // INVARIANT: `solve` brought both operands into a form.
    let (ta, lda) = p.a.form(p.m, p.k).unwrap_or((false, 0));
    let (tb, ldb) = p.b.form(p.k, p.n).unwrap_or((false, 0));
    let even = p.d.is_multiple_of(16) && p.d_rs % 4 == 0;
    let push = Push { a: a.0, b: b.0, flags: u32::from(even), ..p.push() };
    let key = |kernel| MatmulKey { addmm: p.has_addend(), fused: p.epilogue(), ..plain(kernel, p.dtype) };
    let mut reads = p.reads();
    (reads[0], reads[1]) = (a, b);
    let shape = p.product(false);
    enc.describe(2.0 * p.m as f64 * p.n as f64 * p.k as f64, &[1, p.m, p.n, p.k]);
    let pipeline = enc.device().pipeline(&key(Kernel::Parts { tile }))?;
    let whole = Push { lda: groups as u32, ..push };
    launch(enc, &pipeline, whole, tiles(&shape, tile), 1, 1, &reads, &[p.d_range])?;

    reads.extend([p.a.range, p.b.range]);
    let wide = p.a.aligned(p.dtype, lda) && p.b.aligned(p.dtype, ldb);
    let kernel = Kernel::LeftOver { tile: LEFT_OVER };
    let pipeline = enc.device().pipeline(&MatmulKey { wide, ta, tb, ..key(kernel) })?;
    let rest_of = Push { lda: lda as u32, ldb: ldb as u32, ..push };
    launch(enc, &pipeline, rest_of, tiles(&shape, LEFT_OVER), 1, 1, &reads, &[p.d_range])
}

/// The block of an operand of so many rows, and its bytes.
fn split(enc: &mut CommandEncoder, o: &Operand, rows: i64, k: i64, groups: i64) -> Result<(u64, u64)> {
    let along = o.cs == 1 || k == 1;
    let stretches = ceil(k, i64::from(STRETCH));
    let words = 1 + ceil(rows, 2) + rows * groups * GROUP_WORDS;
    let block = (enc.temp(words as usize * 16)?, words as u64 * 16);
    let extents = ((rows * stretches) as usize * 8).next_multiple_of(16);
    let extents = (enc.temp(extents)?, extents as u64);
    let push = Push {
        c: o.ptr,
        m: rows as u32,
        k: k as u32,
        c_rs: o.rs as u32,
        c_cs: o.cs as u32,
        lda: groups as u32,
        nb0: 1,
        ..Push::default()
    };
    let pipeline = enc.device().pipeline(&plain(Kernel::PartsExtent { along }, Dtype::F32))?;
    let find = Push { a: block.0, d: extents.0, ..push };
    let blocks = ceil(rows, if along { 8 } else { 32 }) as u64;
    launch(enc, &pipeline, find, blocks, stretches as u32, 1, &[o.range], &[extents, block])?;
    let pipeline = enc.device().pipeline(&plain(Kernel::PartsSplit { along }, Dtype::F32))?;
    let cut = Push { a: extents.0, d: block.0, flags: stretches as u32, ..push };
    let along_k = ceil(groups * GROUP, 64) as u32;
    launch(enc, &pipeline, cut, ceil(rows, 32) as u64, along_k, 1, &[o.range, extents], &[block])?;
    Ok(block)
}

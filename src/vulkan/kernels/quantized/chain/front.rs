//! A chain that begins with attention: what `kernels/attention/several` makes is the row of the first product.

use super::{Chained, PRODUCTS, STAGES, WORDS, words};
use crate::core::{Dtype, Result, Stream};
use crate::kernels::DeviceView;
use crate::kernels::quantized::quant::Format;
use crate::vulkan::CommandEncoder;
use crate::vulkan::hal::stream::StreamState;
use crate::vulkan::kernels::attention::newest::Newest;
use crate::vulkan::kernels::attention::several::{Args, Fronted, Program, fronted, late};
use crate::vulkan::tune::attention::several::FRONT_LEFT;
use crate::vulkan::tune::quantized::chain::{self, Kind};

/// Bytes of words: of the result, and of what parts leave, so many at most.
pub(super) const BYTES: usize = WORDS + FRONT_LEFT as usize;
/// What matrices of a chain without products hold.
pub(super) const NONE: Kind = Kind::codes(64, 4);

/// The attention that comes first.
pub(super) struct Front {
    pub program: Program,
    pub args: Args,
    /// Its result, as bytes, and as words with their tag.
    pub made: (u64, u64),
    pub words: (u64, u32),
}

/// The kernel with what it is told among the chain's arguments, and words behind those of products.
pub(super) fn placed(mut program: Program, args: &mut Args, words: (u64, u32)) -> Program {
    args.words = words.0 + PRODUCTS as u64;
    args.parts = args.words + WORDS as u64;
    // Products have the tags before it.
    args.tag = words.1 + STAGES as u32 - 1;
    // FITS: a block of arguments.
    program.front = Some(size_of::<super::Args>() as u32);
    program
}

/// Whether a chain may have a product of one row, `k` long, by a matrix of `n` rows.
pub fn leads(stream: Stream, format: Option<Format>, dtype: Dtype, [k, n]: [i64; 2]) -> bool {
    let Ok(state) = StreamState::of(stream) else { return false };
    state.device.warpgroups() && chain::leads(state.device.profile(), format, dtype, [k, n])
}

/// Holds back an attention as what a chain begins with, where there is such a kernel; whether there is.
pub fn attention(
    enc: &mut CommandEncoder,
    qkv: [&DeviceView; 3],
    with: (Option<&DeviceView>, Option<&DeviceView>),
    scale: f32,
    dst: &DeviceView,
    newest: &Newest,
) -> Result<bool> {
    let Some(f) = fronted(enc, qkv, with, scale, dst, newest)? else { return Ok(false) };
    let Fronted { program, mut args, reads, mut writes } = f;
    let words = words(enc)?;
    writes.push((words.0, (PRODUCTS + BYTES) as u64));
    let program = placed(program, &mut args, words);
    let mut chain = Chained::new(dst.dtype, enc.device().profile().features.units, words);
    chain.front = Some(Front { program, args, made: dst.range(), words: (args.words, args.tag) });
    // Products may write over what it reads: each has all of the row before it writes, and that comes when all parts have read theirs.
    chain.writes.extend_from_slice(&writes);
    chain.late.extend(late(qkv[0], newest));
    enc.take_turn()?;
    enc.hold(Box::new(chain), &reads, &writes)?;
    Ok(true)
}

//! Bytes of one GPU's memory on their way to another's. Small arrays are read to the host and written from there, where they
//! stay. From [`PEER`] bytes on they go from GPU to GPU by CUDA, where that reaches both (`peer`); larger ones go over memory of
//! the host that both have (`between`), or are copied from one staging memory to the other, piece by piece, while both buses
//! are at work.

use std::sync::Arc;

use super::Block;
use super::between;
use super::copy::copy;
#[cfg(unix)]
use super::peer;
use super::transfer::{Download, upload_pieces};
use crate::core::env::KernelVariant;
use crate::core::{DeviceBlock, Result, trace};
use crate::vulkan::hal::stream::StreamState;
#[cfg(unix)]
use crate::vulkan::tune::transfer::PEER;
use crate::vulkan::tune::transfer::{CROSSING_PIECE, SMALL};

pub static PEER_COPY: KernelVariant =
    KernelVariant::new("peer_copy", "copies between two GPUs through memory of the host");

pub static STAGED_COPY: KernelVariant =
    KernelVariant::new("staged_copy", "copies between two GPUs of which the host has the whole in between");

/// The first bytes of another GPU's block, all written, in memory that commands of `state` may read. `None` where they have
/// to come to the host first.
pub(in crate::vulkan) fn cross(
    state: &'static StreamState,
    from: &dyn DeviceBlock,
    bytes: usize,
) -> Result<Option<Arc<dyn DeviceBlock>>> {
    let Some(from) = from.as_any().downcast_ref::<Block>() else { return Ok(None) };
    #[cfg(unix)]
    if bytes >= PEER
        && !PEER_COPY.disabled()
        && bytes as u64 <= from.capacity()
        && let Some(block) = peer::copy(from, state.device, bytes)?
    {
        return Ok(Some(block));
    }
    // Memory that the host reads in place is uploaded from there.
    if bytes <= SMALL || from.mapped().is_some() || STAGED_COPY.disabled() || bytes as u64 > from.capacity() {
        return Ok(None);
    }
    if let Some(block) = between::copy(from, state.device, bytes)? {
        return Ok(Some(block));
    }
    let _span = trace::span("crossing", || format!("{bytes} bytes through staging"));
    let mut pieces = Download::new(from, bytes, CROSSING_PIECE)?;
    let block = upload_pieces(state, bytes, (SMALL, CROSSING_PIECE), &mut |dst: &mut [u8]| {
        let mut at = 0;
        while at < dst.len() {
            // Pieces of both sides end at the same bytes.
            let rest = &mut dst[at..];
            at += pieces.next(|piece| {
                let n = piece.len().min(rest.len());
                // SAFETY: both have so many bytes, in different memory.
                unsafe { copy(piece.as_ptr(), rest.as_mut_ptr(), n) };
            })?;
        }
        Ok(())
    })?;
    Ok(Some(block))
}

//! Copies from GPU to GPU by CUDA: memory of Vulkan, exported and mapped into CUDA for as long as it lives. Two GPUs are tried
//! once, with bytes that are read back: whatever fails then or later, they go another way from then on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::crossing::PEER_COPY;
use super::exported::imported_block;
use super::{Block, Kind, transfer};
use crate::core::fork::lock;
use crate::core::{DeviceBlock, Error, Result};
use crate::memory::cuda::{self, Failed, Gpu, Outcome, Route, Shared};
use crate::vulkan::hal::device::Device;
use crate::vulkan::tune::transfer::{CROSSING_PIECE, PEER};

/// Whether CUDA may be asked for copies.
pub fn is_possible() -> bool {
    !PEER_COPY.disabled() && cuda::is_there()
}

/// Two GPUs, as CUDA has them.
struct Pair {
    from: Gpu,
    to: Gpu,
    route: Mutex<Route>,
}

/// By the opened devices; none where there is no way.
static PAIRS: Mutex<Option<HashMap<(u32, u32), Option<Arc<Pair>>>>> = Mutex::new(None);

/// The first bytes of a block, all written, in fresh memory of another device; `None` where CUDA does not do that.
pub fn copy(from: &Block, to: &'static Device, bytes: usize) -> Result<Option<Arc<Block>>> {
    if !to.features().external_memory || !from.owner().features().external_memory {
        return Ok(None);
    }
    let key = (from.owner().id(), to.id());
    let Some(pair) = pair(key, from.owner(), to) else { return Ok(None) };
    pair.carry(from, to, bytes)?.or_else(|why| {
        tracing::debug!("GPUs {key:?} are copied between without CUDA from now on: {why}");
        lock(&PAIRS).get_or_insert_default().insert(key, None);
        Ok(None)
    })
}

/// What two devices are to each other, tried at the first question.
fn pair(key: (u32, u32), from: &'static Device, to: &'static Device) -> Option<Arc<Pair>> {
    let mut pairs = lock(&PAIRS);
    let known = pairs.get_or_insert_default().entry(key);
    let new = || {
        let failed = |why: &String| tracing::debug!("GPUs {key:?} are copied between without CUDA: {why}");
        Pair::new(from, to).inspect_err(failed).ok().map(Arc::new)
    };
    known.or_insert_with(new).clone()
}

impl Pair {
    fn new(from: &'static Device, to: &'static Device) -> Outcome<Pair> {
        let cuda = cuda::driver().ok_or("CUDA's driver sees no GPU")?;
        let [source, target] = [from, to].map(|d| Gpu::of(cuda, d.adapter().uuid));
        let (source, target) = (source?, target?);
        let pair =
            Pair { from: source, to: target, route: Mutex::new(Route::new(source, target, CROSSING_PIECE)?) };
        match pair.proves(from, to) {
            Ok(true) => Ok(pair),
            Ok(false) => Err("the bytes that arrived are others".into()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Whether bytes arrive: on some hosts GPUs say that they reach each other, and what comes is something else.
    fn proves(&self, from: &'static Device, to: &'static Device) -> Result<bool> {
        let mut word = (1 + u64::from(from.id())) << 32 | u64::from(to.id());
        let words = std::iter::repeat_with(|| {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            word.rotate_left(29).to_le_bytes()
        });
        let sent: Vec<u8> = words.take(PEER / 8).flatten().collect();
        // SAFETY: the bytes are there until the upload returns.
        let block = unsafe { transfer::upload(from.upload_stream()?, sent.as_ptr(), PEER) }?;
        block.wait_written()?;
        let Ok(Some(there)) = self.carry(&block, to, PEER)? else { return Ok(false) };
        let mut back = vec![0u8; PEER];
        // SAFETY: so many bytes of room.
        unsafe { there.download(back.as_mut_ptr(), PEER) }?;
        Ok(back == sent)
    }

    /// Copies bytes of a block to fresh memory; `None` where one of them is in memory that CUDA does not get, and why where
    /// there is no way any more.
    fn carry(&self, from: &Block, to: &'static Device, bytes: usize) -> Result<Outcome<Option<Arc<Block>>>> {
        // Neither device is destroyed meanwhile.
        let _drivers = (from.owner().driver()?, to.driver()?);
        let target = to.alloc_kind(Kind::Device, bytes, None)?;
        Ok(self.between(from, target, bytes))
    }

    fn between(&self, from: &Block, target: Arc<Block>, bytes: usize) -> Outcome<Option<Arc<Block>>> {
        let map = |block: &Block, gpu: Gpu| {
            let import = |file, size| Shared::new(gpu, file, size).map_err(Error::Runtime);
            imported_block(block, import).map_err(|e| e.to_string())
        };
        let (Some(source), Some(sink)) = (map(from, self.from)?, map(&target, self.to)?) else {
            return Ok(None);
        };
        let (Some(begin), Some(end)) = (source.address(&self.from), sink.address(&self.to)) else {
            return Ok(None);
        };
        // SAFETY: blocks of so many bytes at least, of which nobody has the second yet; a copy that may go on keeps them.
        match unsafe { lock(&self.route).copy(begin, end, bytes) } {
            Ok(()) => Ok(Some(target)),
            Err(Failed::Refused(why)) => Err(why),
            Err(Failed::Begun(why)) => {
                std::mem::forget((source, sink, target));
                Err(why)
            }
        }
    }
}

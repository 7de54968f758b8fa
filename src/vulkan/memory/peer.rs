//! Copies from GPU to GPU by CUDA's copy engines: from memory of Vulkan, exported and mapped into CUDA for as long as it lives, to
//! memory of CUDA's that the other GPU's Vulkan has too, and from there to its place. Nothing of it takes the GPUs' compute
//! engines. Two GPUs are tried once, with bytes that are read back: whatever fails then or later, they go another way from then
//! on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::crossing::PEER_COPY;
use super::exported::imported_block;
use super::foreign::Foreign;
use super::{Block, Kind, transfer};
use crate::core::fork::lock;
use crate::core::{DeviceBlock, Error, Result, trace};
use crate::memory::cuda::{self, Gpu, Outcome, Shared};
use crate::memory::reach::{Route, UNDER_WAY};
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::stream::StreamState;
use crate::vulkan::tune::transfer::{PEER, PEER_AHEAD, PEER_PIECE};

/// Whether CUDA may be asked for copies.
pub fn is_possible() -> bool {
    !PEER_COPY.disabled() && cuda::is_there()
}

/// Two GPUs, as CUDA has them.
struct Pair {
    from: Gpu,
    way: Mutex<Way>,
}

/// The route, and what the second one's Vulkan has of its end.
struct Way {
    route: Route,
    landed: Foreign,
    /// Copies from there. Not the stream of other copies: its queue's engine does 85 GB/s within an H200.
    stream: &'static StreamState,
    /// The last batches that read each of the places where pieces land.
    readers: [u64; UNDER_WAY],
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
    let _span = trace::span("crossing", || format!("{bytes} bytes by CUDA"));
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
        let route = Route::new(source, target, PEER_PIECE)?;
        let (file, bytes) = (route.arrival().file()?, route.arrival().bytes() as u64);
        let landed = Foreign::import(to, file, bytes).map_err(|e| e.to_string())?;
        let queue = to.queues.last().ok_or("the GPU has no queue")?;
        let stream = StreamState::create(to, queue).map_err(|e| e.to_string())?;
        let way = Way { route, landed, stream, readers: [0; UNDER_WAY] };
        let pair = Pair { from: source, way: Mutex::new(way) };
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

    /// Copies bytes of a block to fresh memory; `None` where it is in memory that CUDA does not get, and why where there is no way
    /// any more.
    fn carry(&self, from: &Block, to: &'static Device, bytes: usize) -> Result<Outcome<Option<Arc<Block>>>> {
        // Neither device is destroyed meanwhile.
        let _drivers = (from.owner().driver()?, to.driver()?);
        let import = |file, size| Shared::new(self.from, file, size).map_err(Error::Runtime);
        let source = match imported_block(from, import) {
            Ok(Some(source)) => source,
            Ok(None) => return Ok(Ok(None)),
            Err(e) => return Ok(Err(e.to_string())),
        };
        let Some(begin) = source.address(&self.from) else { return Ok(Ok(None)) };
        let mut way = lock(&self.way);
        let target = to.alloc_kind(Kind::Device, bytes, Some(way.stream))?;
        for p in target.all_uses() {
            way.stream.wait_for(p)?;
        }
        let sent = way.carry(begin, &target, bytes)?;
        Ok(sent.map(|()| Some(target)).inspect_err(|_| {
            // What has begun may read yet.
            std::mem::forget(source.clone());
        }))
    }
}

impl Way {
    /// Brings bytes to a block, piece by piece: while some are under way the ones before are copied to their places.
    fn carry(&mut self, from: u64, target: &Block, bytes: usize) -> Result<Outcome> {
        let state = self.stream;
        let pieces: Vec<(usize, usize)> =
            (0..bytes).step_by(PEER_PIECE).map(|at| (at, PEER_PIECE.min(bytes - at))).collect();
        for n in 0..pieces.len() + PEER_AHEAD {
            if let Some(&(at, len)) = pieces.get(n) {
                // What lay there was copied.
                state.wait(self.readers[n % UNDER_WAY])?;
                // SAFETY: the source has so many bytes, and is kept where this fails.
                if let Err(why) = unsafe { self.route.send(n, from + at as u64, len) } {
                    return Ok(Err(why));
                }
            }
            let Some(last) = n.checked_sub(PEER_AHEAD).filter(|&n| n < pieces.len()) else { continue };
            if let Err(why) = self.route.await_piece(last) {
                return Ok(Err(why));
            }
            let (at, len) = pieces[last];
            let place = self.route.place(last) as u64;
            let landed = (self.landed.region(), place);
            let read = transfer::record_from(state, landed, (target, at as u64), len as u64)?;
            self.readers[last % UNDER_WAY] = read;
            state.flush()?;
        }
        Ok(Ok(()))
    }
}

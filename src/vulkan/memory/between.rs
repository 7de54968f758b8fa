//! Copies from GPU to GPU by their own engines, over memory of the host that both have (VK_EXT_external_memory_host): one
//! writes the pieces there and the other reads them, and the host tells each when.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use super::foreign::Foreign;
use super::transfer::{COPY_QUEUE, record_from, record_into};
use super::{Block, Kind};
use crate::core::env::KernelVariant;
use crate::core::fork::lock;
use crate::core::{Error, Result, trace};
use crate::vulkan::hal::device::Device;
use crate::vulkan::tune::transfer::{SHARED_AHEAD, SHARED_PIECE, SHARED_PIECES, shared_piece};

pub static SHARED_COPY: KernelVariant =
    KernelVariant::new("shared_copy", "copies between two GPUs through staging memory of each");

/// Memory of the host that two GPUs have, in places for pieces.
struct Between {
    from: Foreign,
    to: Foreign,
    /// The last batches that read each of the places.
    readers: [u64; SHARED_PIECES],
}

type Pair = Option<Arc<Mutex<Between>>>;

/// By the opened devices; none where there is no such memory.
static PAIRS: Mutex<Option<HashMap<(u32, u32), Pair>>> = Mutex::new(None);

/// The first bytes of a block, all written, in fresh memory of another device; `None` where the two have no memory in common.
pub fn copy(from: &Block, to: &'static Device, bytes: usize) -> Result<Option<Arc<Block>>> {
    let alike = [from.owner(), to].iter().all(|d| d.features().host_memory > 0);
    if !alike || SHARED_COPY.disabled() || COPY_QUEUE.disabled() {
        return Ok(None);
    }
    // Neither device is destroyed meanwhile.
    let _drivers = (from.owner().driver()?, to.driver()?);
    let Some(between) = pair(from.owner(), to) else { return Ok(None) };
    let _span = trace::span("crossing", || format!("{bytes} bytes over memory of both"));
    lock(&between).carry(from, to, bytes).map(Some)
}

/// What two devices have between them, made at the first question.
fn pair(from: &'static Device, to: &'static Device) -> Pair {
    let mut pairs = lock(&PAIRS);
    let key = (from.id(), to.id());
    let new = || {
        let failed = |why: &_| tracing::debug!("GPUs {key:?} have no memory of the host in common: {why}");
        Between::new(from, to).inspect_err(failed).ok().map(|b| Arc::new(Mutex::new(b)))
    };
    pairs.get_or_insert_default().entry(key).or_insert_with(new).clone()
}

impl Between {
    fn new(from: &'static Device, to: &'static Device) -> Result<Between> {
        let bytes = SHARED_PIECES * SHARED_PIECE;
        let least = from.features().host_memory.max(to.features().host_memory) as usize;
        let refused = || Error::Runtime("[vulkan] No memory of the host.".into());
        let layout = Layout::from_size_align(bytes.next_multiple_of(least), least).map_err(|_| refused())?;
        // SAFETY: a layout of some bytes.
        let at = NonNull::new(unsafe { std::alloc::alloc(layout) }).ok_or_else(refused)?;
        // It is never given back: a device that is lost or that the process leaves may have it still.
        let half = |device| unsafe {
            // SAFETY: so many bytes at such an address, for as long as the process lives.
            Foreign::of_host(device, at, layout.size() as u64)
        };
        Ok(Between { from: half(from)?, to: half(to)?, readers: [0; SHARED_PIECES] })
    }

    /// Copies the first bytes of a block to fresh memory: while some pieces are on their way up those behind them come
    /// down.
    fn carry(&mut self, from: &Block, to: &'static Device, bytes: usize) -> Result<Arc<Block>> {
        let (down, up) = (from.owner().download_stream()?, to.upload_stream()?);
        if let Some(write) = from.last_write()? {
            down.wait_for(write)?;
        }
        let target = to.alloc_kind(Kind::Device, bytes, Some(up))?;
        for p in target.all_uses() {
            up.wait_for(p)?;
        }
        let piece = shared_piece(bytes);
        let pieces: Vec<(usize, usize)> =
            (0..bytes).step_by(piece).map(|at| (at, piece.min(bytes - at))).collect();
        let mut written = [0; SHARED_PIECES];
        for n in 0..pieces.len() + SHARED_AHEAD {
            if let Some(&(at, len)) = pieces.get(n) {
                let place = n % SHARED_PIECES;
                // What lay there was read.
                up.wait(self.readers[place])?;
                let there = (self.from.region(), (place * SHARED_PIECE) as u64);
                written[place] = record_into(down, (from, at as u64), there, len as u64)?;
                down.flush()?;
            }
            let Some(last) = n.checked_sub(SHARED_AHEAD).filter(|&n| n < pieces.len()) else { continue };
            let ((at, len), place) = (pieces[last], last % SHARED_PIECES);
            down.wait(written[place])?;
            let there = (self.to.region(), (place * SHARED_PIECE) as u64);
            self.readers[place] = record_from(up, there, (&target, at as u64), len as u64)?;
            up.flush()?;
        }
        Ok(target)
    }
}

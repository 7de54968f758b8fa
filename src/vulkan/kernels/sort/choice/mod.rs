//! The choice of experts on GPUs that take PTX: host side of `text`. It is held back until it is known what follows: products whose
//! matrices it picks (`quantized::few_picked`, `quantized::chain`), or made its row, make it themselves, else it is a kernel of its own. The shader of `select` is
//! its twin (MLX_VK_DISABLE=choice).

mod numbers;
#[cfg(test)]
mod tests;
mod text;

use std::any::Any;
use std::mem::offset_of;

use smallvec::{SmallVec, smallvec};

pub use self::text::Choice;
use crate::core::Result;
use crate::kernels::DeviceView;
use crate::kernels::sort::Selection;
use crate::vulkan::hal::device::Device;
use crate::vulkan::hal::held::{Chain, Launch, meet};
use crate::vulkan::kernels::matmul::warpgroup::text::Told as Telling;
use crate::vulkan::shader::pipeline::{KernelKey, Module, Source};
use crate::vulkan::tune::sort::chooses;
use crate::vulkan::{CommandEncoder, Features};

/// Ranges of bytes: where, and how many.
type Touched = SmallVec<[(u64, u64); 16]>;

/// What the kernel is told.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Told {
    keys: u64,
    places: u64,
    chosen: u64,
    rows: u64,
}

// SAFETY: repr(C) of four words of 8 bytes.
unsafe impl Telling for Told {}

const _: () = assert!(offset_of!(Told, rows) == 24);

impl KernelKey for Choice {
    fn name(&self) -> String {
        let before = if self.how.softmax { "softmax_" } else { "" };
        format!("{before}choice_{}_of_{}_{}", self.how.count, self.n, self.dtype)
    }

    fn module(&self, _: &Features) -> Module {
        Module { source: Source::Ptx { text: self.text(), threads: text::LANES }, ..Default::default() }
    }
}

/// A choice that is held back.
pub struct Chosen {
    pub choice: Choice,
    told: Told,
}

impl Chosen {
    /// Where rows are, how many, where places go, and numbers.
    pub fn told(&self) -> [u64; 4] {
        let Told { keys, places, chosen, rows } = self.told;
        [keys, rows, places, chosen]
    }
}

impl Chain for Chosen {
    fn count(&self) -> usize {
        1
    }

    fn launch(&self, device: &'static Device) -> Result<Launch> {
        let pipeline = device.pipeline(&self.choice)?;
        Ok(Launch {
            pipeline,
            push: self.told.bytes().into(),
            groups: [self.told.rows as u32, 1, 1],
            late: Some(smallvec![self.told.keys]),
        })
    }

    fn any(&mut self) -> &mut dyn Any {
        self
    }
}

/// What stands for a choice in the kernel that makes it.
#[derive(Debug, Clone, Copy)]
pub struct Within {
    pub choice: Choice,
    /// Where rows are, and where the numbers of what is chosen go.
    pub keys: u64,
    pub chosen: u64,
}

/// The choice that is held back, if it makes so many places, all that there are at `places`, of `most` elements at most, for a kernel
/// that writes nothing where its rows lie: that memory may have come back, and one workgroup would write what another one still reads.
pub fn held(
    enc: &CommandEncoder,
    places: u64,
    [count, share, most]: [i64; 3],
    writes: &[(u64, u64)],
) -> Option<Within> {
    let within = |c: &Chosen| {
        let each = i64::from(c.choice.how.count);
        let rows = (c.told.keys, 2 * u64::from(c.choice.n) * c.told.rows);
        let fits = c.told.places == places
            && each == share
            && each * c.told.rows as i64 == count
            && i64::from(c.choice.n) <= most
            && !writes.iter().any(|&w| meet(rows, w));
        fits.then_some(Within { choice: c.choice, keys: c.told.keys, chosen: c.told.chosen })
    };
    enc.ask_held(within)
}

/// Holds back the choice from rows of `keys`, as `select` has them, if it is one of those that are made here; whether it is.
pub(super) fn hold(
    enc: &mut CommandEncoder,
    keys: &DeviceView,
    how: Selection,
    places: &DeviceView,
    chosen: &DeviceView,
) -> Result<bool> {
    // INVARIANT: the pattern asks for a last axis.
    let n = *keys.shape.last().expect("a last axis");
    let rows = keys.size() as i64 / n;
    let device = enc.device();
    if keys.dtype != chosen.dtype
        || !chooses(device.profile(), keys.dtype, how, [rows, n])
        || !device.warpgroups()
    {
        return Ok(false);
    }
    let choice = Choice { n: n as u32, dtype: keys.dtype, how };
    let told = Told { keys: keys.ptr, places: places.ptr, chosen: chosen.ptr, rows: rows as u64 };
    let (reads, writes) = ([keys.range()], [places.range(), chosen.range()]);
    let chosen = Chosen { choice, told };
    if !enc.offer(&chosen, &reads, &writes)? {
        enc.hold(Box::new(chosen), &reads, &writes)?;
    }
    Ok(true)
}

/// Takes what `held` told of, for the next command, which makes it; what that reads and writes then, places not being read any more. None
/// if it was recorded meanwhile.
pub fn take(
    enc: &mut CommandEncoder,
    places: u64,
    [reads, writes]: [&[(u64, u64)]; 2],
) -> Option<[Touched; 2]> {
    let [mut read, mut written] = enc.take_held(|c: &Chosen| c.told.places == places)?;
    read.extend(reads.iter().copied().filter(|r| r.0 != places));
    written.extend_from_slice(writes);
    Some([read, written])
}

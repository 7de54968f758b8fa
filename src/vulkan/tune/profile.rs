//! What the choices know of a device: what its kernels may use, how many units it has, how fast its memory is and what
//! a dependent command costs. A number that was best on one card stands in a row that names the card, and counts for as
//! many units as a device has. A guess is never wrong, only slower.

use super::file::Settings;
use super::winners::{Subject, Winners};
use crate::vulkan::{AdapterInfo, AdapterKind, Features};

/// A card that something was measured on.
#[derive(Debug, PartialEq)]
pub struct Card {
    /// Its name by the driver.
    pub name: &'static str,
    /// Multiprocessors or compute units.
    pub units: u32,
    /// Bytes a nanosecond.
    pub bandwidth: u32,
    /// Nanoseconds of a small command that waits for the one before it.
    pub dependent_ns: u32,
    /// Multiplications of float16 numbers by matrix units, in the time of ten of float32 numbers by others.
    pub matrices: u32,
}

/// Dependent small commands 2.0 us each, independent ones 0.4; 4.1 to 4.3 TB/s. What its matrix units do is an H100's, of the same
/// multiprocessors (179 to 184).
pub static H200: Card =
    Card { name: "NVIDIA H200", units: 132, bandwidth: 4096, dependent_ns: 2000, matrices: 180 };

const CARDS: [&Card; 1] = [&H200];

/// A number that was best on a card.
#[derive(Debug)]
pub struct Best {
    /// What it is called in the cache and in tables.
    pub name: &'static str,
    /// On the card.
    pub value: u64,
    /// Where it was measured.
    pub card: &'static Card,
    /// Whether it grows with the units.
    pub grows: bool,
}

/// A number that grows with the units.
pub const fn best(name: &'static str, value: u64) -> Best {
    Best { name, value, card: &H200, grows: true }
}

/// Where the units and speeds of a profile come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A row of known cards.
    Card,
    /// Short runs on the device, in an earlier process.
    Measured,
    /// Nothing but the kind of device, and the units where an extension tells them.
    Assumed,
    /// The file of MLX_VK_PROFILE.
    File,
}

/// A device, as the choices see it.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Name by the driver, or by a file.
    pub name: String,
    /// Where the numbers come from.
    pub source: Source,
    /// What kernels may use, and limits.
    pub features: Features,
    /// Multiprocessors or compute units, at least one.
    pub units: u32,
    /// Bytes a nanosecond that its memory moves, at least one.
    pub bandwidth: u32,
    /// Nanoseconds of a small command that waits for the one before it.
    pub dependent_ns: u32,
    /// Multiplications of float16 numbers by matrix units, in the time of ten of float32 numbers by others; 0 where there are
    /// none, or where that is not known.
    pub matrices: u32,
    /// What was measured on it by `python -m mlx.tune`.
    pub winners: Winners,
}

/// What short runs on a device showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// As in [`Profile`].
    pub units: u32,
    /// As in [`Profile`].
    pub bandwidth: u32,
    /// As in [`Profile`].
    pub dependent_ns: u32,
    /// As in [`Profile`].
    pub matrices: u32,
}

/// What is assumed of a device that nothing is known of. Its memory is thought to be fast: a batch that is submitted
/// early costs less than a GPU that waits.
fn assumed(kind: AdapterKind) -> Measured {
    let (units, bandwidth, dependent_ns) = match kind {
        AdapterKind::Discrete => (64, H200.bandwidth, H200.dependent_ns),
        AdapterKind::Integrated => (8, 512, 4000),
        AdapterKind::Virtual => (32, 1024, 4000),
        AdapterKind::Software => (threads(), 128, H200.dependent_ns),
    };
    Measured { units, bandwidth, dependent_ns, matrices: 0 }
}

/// Processors that a software driver runs on; in tests of this crate as many units as a large card has, so that they
/// meet the parts that one cuts work into.
fn threads() -> u32 {
    if cfg!(test) {
        return H200.units;
    }
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

impl Profile {
    /// The profile of a device, from all that is known of it.
    pub fn new(
        info: &AdapterInfo,
        features: Features,
        measured: Option<Measured>,
        file: Option<&Settings>,
        winners: Winners,
    ) -> Profile {
        let told = Some(features.units).filter(|&n| n > 0);
        let card = CARDS.iter().find(|c| c.name == info.name && told.is_none_or(|n| n == c.units));
        let (m, source) = match (card, measured) {
            (Some(c), _) => {
                let Card { units, bandwidth, dependent_ns, matrices, .. } = **c;
                (Measured { units, bandwidth, dependent_ns, matrices }, Source::Card)
            }
            (None, Some(m)) => (m, Source::Measured),
            (None, None) => (assumed(info.kind), Source::Assumed),
        };
        let mut p = Profile {
            name: info.name.clone(),
            source,
            features,
            units: told.unwrap_or(m.units).max(1),
            bandwidth: m.bandwidth.max(1),
            dependent_ns: m.dependent_ns,
            matrices: m.matrices,
            winners,
        };
        if let Some(s) = file {
            p.source = Source::File;
            p.name = s.name.clone().unwrap_or(p.name);
            p.units = s.units.unwrap_or(p.units);
            p.bandwidth = s.bandwidth.unwrap_or(p.bandwidth);
            p.dependent_ns = s.dependent_ns.unwrap_or(p.dependent_ns);
            p.matrices = s.matrices.unwrap_or(p.matrices);
        }
        p
    }

    /// Whether the device is worth a measurement: nothing tells its numbers.
    pub fn unknown(&self) -> bool {
        self.source == Source::Assumed && !self.features.software
    }

    /// As many as `n` were on a card with `units`, for the units of this device; at least one where `n` is.
    pub fn like(&self, n: u64, card: &Card) -> u64 {
        let units = u64::from(card.units);
        if u64::from(self.units) == units { n } else { (n * u64::from(self.units) / units).max(n.min(1)) }
    }

    /// A number of a table for this device: what was measured here, else what was best elsewhere.
    pub fn count(&self, b: &Best) -> u64 {
        if let Some(&[n]) = self.winners.get(&Subject::Count(b.name)) {
            return u64::from(n);
        }
        if b.grows { self.like(b.value, b.card) } else { b.value }
    }

    /// Workgroups of 256 lanes that fill the device: fewer make it worth cutting sums.
    pub fn fill(&self) -> u64 {
        self.count(&FILL)
    }

    /// Workgroups that nearly fill the device so many times: the last ones may be missing.
    pub fn nearly(&self, times: u64) -> u64 {
        let fill = self.fill();
        times * (fill - fill / 16)
    }

    /// Floating point operations that take about as long as so many on the card.
    pub fn work(&self, flops: f64, card: &Card) -> f64 {
        flops * f64::from(self.units) / f64::from(card.units)
    }
}

/// Two for each multiprocessor.
pub static FILL: Best = best("fill", 264);

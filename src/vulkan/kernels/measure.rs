//! Short runs that tell what no extension does: the units of a device, how fast its memory is, what a dependent
//! command costs, and how much more its matrix units multiply than the others. They run twice, in a thread of their own,
//! while the first kernels are compiled, and are kept in the disk cache by device and driver if both came to the same: other programs, or this one, may use the device meanwhile. A
//! process keeps the profile that it began with: the order of sums follows from it.

use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::elem::{Defines, Push, WG, define};
use crate::core::{Dtype, Result};
use crate::vulkan::hal::stream::StreamState;
use crate::vulkan::memory::Kind;
use crate::vulkan::shader::{cache, pipeline_cache};
use crate::vulkan::tune::Measured;
use crate::vulkan::tune::matmul::{fixed_subgroup, multiplies};
use crate::vulkan::{CommandEncoder, Device, Features, KernelKey, Module, Source};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mode {
    Arithmetic,
    Reading,
    Nothing,
    Matrices,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MeasureKey(Mode);

impl KernelKey for MeasureKey {
    fn name(&self) -> String {
        format!("measure_{:?}", self.0).to_lowercase()
    }

    fn module(&self, f: &Features) -> Module {
        let mut d = Defines::new();
        define(&mut d, "MODE", self.0 as u32);
        let plain = Module { source: Source::File("measure.comp"), defines: d, ..Module::default() };
        match self.0 {
            Mode::Matrices => {
                let subgroup_size = fixed_subgroup(f).filter(|_| f.subgroup_size_control);
                Module { subgroup_size, spirv16: true, ..plain }
            }
            _ => plain,
        }
    }
}

/// Most bytes that are read at once: more than caches hold.
const BYTES: u64 = 256 << 20;
/// Nanoseconds that a run takes at least: much longer than to submit and wait takes.
const LONG_NS: u64 = 250_000;

struct Bench {
    device: &'static Device,
    stream: &'static StreamState,
    data: (u64, u64),
}

impl Bench {
    /// The shortest time of some runs of so many commands, each behind the one before it.
    fn time(&self, mode: Mode, groups: u32, steps: u32, commands: u32) -> Result<u64> {
        let pipeline = self.device.built(&MeasureKey(mode))?;
        let count = if mode == Mode::Nothing { u32::MAX } else { (self.data.1 / 16) as u32 };
        let push = Push::default().u64s(&[self.data.0]).u32s(&[count, steps]);
        let mut best = u64::MAX;
        for _ in 0..3 {
            let begin = Instant::now();
            {
                let mut enc = CommandEncoder::new(self.stream)?;
                for _ in 0..commands {
                    enc.dispatch(&pipeline, &push, [groups, 1, 1], &[], &[self.data])?;
                }
            }
            self.stream.flush()?;
            self.stream.wait_uninterrupted(self.stream.open_value() - 1)?;
            best = best.min(begin.elapsed().as_nanos() as u64);
        }
        Ok(best)
    }

    /// Units: how much more many workgroups compute in a time than one does.
    fn units(&self, idle: u64) -> Result<u32> {
        let arithmetic = |groups, steps| -> Result<f64> {
            Ok(self.time(Mode::Arithmetic, groups, steps, 1)?.saturating_sub(idle).max(1) as f64)
        };
        let mut steps = 256;
        let mut one = arithmetic(1, steps)?;
        // Beside other work the idle time may be thought long: kernels that are longer than this would keep that waiting.
        while one < LONG_NS as f64 && steps < 1 << 14 {
            steps *= 2;
            one = arithmetic(1, steps)?;
        }
        // Few units are seen with few workgroups, and sooner.
        let few = 32.0 * one / arithmetic(32, steps)?;
        let units = if few < 16.0 { few } else { 1024.0 * one / arithmetic(1024, steps)? };
        Ok((units.round() as u32).clamp(1, 1024))
    }

    /// Multiplications of float16 numbers by matrix units, in the time of ten of float32 numbers by others.
    fn matrices(&self, units: u32, idle: u64) -> Result<u32> {
        let f = self.device.features();
        let Some(lanes) = fixed_subgroup(f).filter(|_| multiplies(f, Dtype::F16, [16; 3])) else {
            return Ok(0);
        };
        // Multiplications a nanosecond, of a workgroup that makes so many a step.
        let rate = |mode, of_step: f64| -> Result<f64> {
            let (mut steps, mut time) = (64, 0);
            while time < LONG_NS && steps < 1 << 16 {
                steps *= 4;
                time = self.time(mode, 8 * units, steps, 1)?.saturating_sub(idle).max(1);
            }
            Ok(of_step * f64::from(steps) / time as f64)
        };
        let subgroups = f64::from(WG / lanes.min(WG));
        // In turn, for the clock rises meanwhile.
        let (mut plain, mut matrices) = (0f64, 0f64);
        for _ in 0..4 {
            matrices = matrices.max(rate(Mode::Matrices, subgroups * 4.0 * 4096.0)?);
            plain = plain.max(rate(Mode::Arithmetic, f64::from(WG) * 64.0)?);
        }
        Ok((10.0 * matrices / plain).round().clamp(1.0, 65536.0) as u32)
    }

    fn all(&self) -> Result<Measured> {
        let idle = self.time(Mode::Nothing, 1, 0, 1)?;
        let dependent = self.time(Mode::Nothing, 1, 0, 33)?.saturating_sub(idle) / 32;
        let units = self.units(idle)?;
        let groups = 16 * units.max(16);
        let [once, often] = [1, 5].map(|n| self.time(Mode::Reading, groups, 1, n));
        let reading = often?.saturating_sub(once?).max(1) / 4;
        Ok(Measured {
            units,
            bandwidth: (self.data.1 / reading.max(1)).clamp(1, 1 << 20) as u32,
            dependent_ns: dependent.clamp(100, 1_000_000) as u32,
            matrices: self.matrices(units, idle)?,
        })
    }
}

/// Nanoseconds of a dependent command that no idle device takes.
const IDLE_NS: u32 = 50_000;

/// Whether two measurements are those of a device that had nothing else to do: no number is twice the other's.
fn agree(a: &Measured, b: &Measured) -> bool {
    let near = |a: u32, b: u32| a.max(b) / 2 < a.min(b).max(1);
    let numbers = near(a.units, b.units) && near(a.bandwidth, b.bandwidth) && near(a.matrices, b.matrices);
    numbers && near(a.dependent_ns, b.dependent_ns) && a.dependent_ns.max(b.dependent_ns) < IDLE_NS
}

/// Measures a device, some ten milliseconds on a GPU; and whether it came to the same twice.
pub(in crate::vulkan) fn look(device: &'static Device) -> Result<(Measured, bool)> {
    // INVARIANT: a device is opened with one queue at least.
    let queue = device.queues.last().expect("a queue");
    let stream = StreamState::create(device, queue)?;
    let f = device.features();
    let bytes = BYTES.min(f.max_buffer).min(device.adapter().memory_size / 16).max(1 << 20) & !0xffff;
    let block = device.alloc_kind(Kind::Device, bytes as usize, Some(stream))?;
    let data = (CommandEncoder::new(stream)?.note_write(block)?, bytes);
    let bench = Bench { device, stream, data };
    let (first, again) = (bench.all()?, bench.all()?);
    let best = Measured {
        bandwidth: first.bandwidth.max(again.bandwidth),
        dependent_ns: first.dependent_ns.min(again.dependent_ns),
        ..again
    };
    Ok((best, agree(&first, &again)))
}

static RUNNING: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

/// Keeps what was measured for the processes to come.
pub(in crate::vulkan) fn keep(device: &'static Device, m: Measured) {
    pipeline_cache::write_text("profile", device.adapter(), &m.text());
}

/// Measures a device in the background, if there is a place to keep the result. Called once a device.
pub(in crate::vulkan) fn begin(device: &'static Device) {
    if cache::cache().is_none() {
        return;
    }
    let run = move || match look(device) {
        Ok((m, true)) => keep(device, m),
        Ok((m, false)) => tracing::debug!("measurements of the device differ, the last one is {m:?}"),
        Err(e) => tracing::debug!("the device was not measured: {e}"),
    };
    let thread = std::thread::Builder::new().name("mlx-vulkan measure".into()).spawn(run).ok();
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).extend(thread);
}

/// Waits for measurements, at most until then. For the end of the process.
pub(in crate::vulkan) fn finish(until: Instant) {
    while is_running() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a device is being measured.
pub(in crate::vulkan) fn is_running() -> bool {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    running.iter().any(|thread| !thread.is_finished())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::{adapters, device, shader::compiler};

    #[test]
    fn measurements_beside_other_work_are_not_believed() {
        let alone = Measured { units: 132, bandwidth: 2830, dependent_ns: 2530, matrices: 0 };
        // On the same card beside a program that kept it busy.
        let beside = Measured { units: 1024, bandwidth: 333, dependent_ns: 209_362, matrices: 0 };
        assert!(agree(&alone, &alone) && !agree(&alone, &beside) && !agree(&beside, &beside));
        let near = Measured { units: 143, bandwidth: 1500, dependent_ns: 5059, matrices: 0 };
        assert!(agree(&alone, &near) && agree(&near, &alone));
        let far = Measured { units: 143, bandwidth: 1500, dependent_ns: 5060, matrices: 0 };
        assert!(!agree(&alone, &far));
        let least = Measured { units: 1, bandwidth: 1, dependent_ns: 100, matrices: 0 };
        assert!(agree(&least, &least));
    }

    #[test]
    fn a_device_is_measured() {
        for mode in [Mode::Arithmetic, Mode::Reading, Mode::Nothing, Mode::Matrices] {
            compiler::check("measure", &MeasureKey(mode).module(&Features::default())).unwrap();
        }
        if adapters().is_empty() {
            return;
        }
        let (m, _) = look(device(0).unwrap()).unwrap();
        assert!((1..=1024).contains(&m.units) && m.bandwidth >= 1 && m.dependent_ns >= 100, "{m:?}");
    }
}

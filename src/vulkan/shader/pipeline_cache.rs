//! The driver's pipeline cache with its file in the disk cache: read when a device is opened, written now and then as
//! pipelines are made.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ash::vk;

use super::cache::{self, Key};
use crate::core::fault::Site;
use crate::vulkan::hal::adapter::AdapterInfo;
use crate::vulkan::hal::fault::pass;
use crate::vulkan::report::compile_only;

/// The file is written again this long after the last write.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// The driver's pipeline cache with its file.
pub(crate) struct PipelineBlob {
    pub raw: vk::PipelineCache,
    name: String,
    #[cfg(test)]
    info: AdapterInfo,
    key: Key,
    made: AtomicU64,
    saved: Mutex<(u64, Instant)>,
}

/// The name of a file of the cache that belongs to a device and its driver.
fn name(what: &str, info: &AdapterInfo) -> String {
    let hex: String = info.cache_uuid.iter().map(|b| format!("{b:02x}")).collect();
    format!("{what}-{hex}-{:08x}.bin", info.driver_version)
}

/// What decides whether a driver can use a file.
fn key(info: &AdapterInfo) -> Key {
    let mut h = blake3::Hasher::new();
    for word in [info.vendor_id, info.device_id, info.driver_version] {
        h.update(&word.to_le_bytes());
    }
    h.update(&info.cache_uuid).finalize().into()
}

/// What decides whether a text belongs to a device: parts of a card have one driver and names of their own.
fn text_key(info: &AdapterInfo) -> Key {
    blake3::Hasher::new().update(&key(info)).update(info.name.as_bytes()).finalize().into()
}

/// A text that was kept for a device and its driver.
pub(in crate::vulkan) fn read_text(what: &str, info: &AdapterInfo) -> Option<String> {
    String::from_utf8(cache::cache()?.read(&name(what, info), &text_key(info))?).ok()
}

/// Keeps a text for a device and its driver; whether there is a cache.
pub(in crate::vulkan) fn write_text(what: &str, info: &AdapterInfo, text: &str) -> bool {
    let Some(cache) = cache::cache() else { return false };
    cache.write(&name(what, info), &text_key(info), text.as_bytes());
    true
}

impl PipelineBlob {
    /// Starts from the file of this device and driver, if it is good.
    pub fn load(device: &ash::Device, info: &AdapterInfo) -> PipelineBlob {
        let name = name("pipelines", info);
        let key = key(info);
        let data = cache::cache().and_then(|c| c.read(&name, &key)).filter(|d| fits(d, info));
        let make = |data: &[u8]| {
            let create = vk::PipelineCacheCreateInfo::default().initial_data(data);
            // SAFETY: this user wrote the data for this device, and its header was checked.
            pass(Site::PipelineCache).and_then(|()| unsafe { device.create_pipeline_cache(&create, None) })
        };
        // Devices that only compile shall do so, and tell how long it takes.
        let raw = match compile_only::on() {
            true => Ok(vk::PipelineCache::null()),
            false => make(&data.unwrap_or_default()).or_else(|_| make(&[])),
        };
        PipelineBlob {
            raw: raw.unwrap_or(vk::PipelineCache::null()),
            name,
            #[cfg(test)]
            info: info.clone(),
            key,
            made: AtomicU64::new(0),
            saved: Mutex::new((0, Instant::now())),
        }
    }

    /// Whether the file on disk is whole and made for this device; none without a file.
    #[cfg(test)]
    pub fn reread(&self) -> Option<bool> {
        let data = cache::cache()?.read(&self.name, &self.key)?;
        Some(fits(&data, &self.info))
    }

    /// Notes a new pipeline.
    pub fn on_pipeline(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes the file if there are new pipelines; unless `now`, not too often.
    pub fn save(&self, device: &ash::Device, now: bool) {
        let made = self.made.load(Ordering::Relaxed);
        let Ok(mut saved) = self.saved.try_lock() else { return };
        if made == saved.0 || !(now || saved.1.elapsed() >= SAVE_EVERY) {
            return;
        }
        *saved = (made, Instant::now());
        if self.raw != vk::PipelineCache::null()
            && let Some(cache) = cache::cache()
            // SAFETY: the cache belongs to this device.
            && let Ok(data) =
                pass(Site::PipelineCache).and_then(|()| unsafe { device.get_pipeline_cache_data(self.raw) })
        {
            cache.write(&self.name, &self.key, &data);
        }
    }
}

/// Whether a driver's blob was made by this device and driver (the header of the Vulkan specification).
fn fits(data: &[u8], info: &AdapterInfo) -> bool {
    let word = |at: usize| data.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    word(0).is_some_and(|n| n >= 32 && n as usize <= data.len())
        && word(4) == Some(1)
        && word(8) == Some(info.vendor_id)
        && word(12) == Some(info.device_id)
        && data.get(16..32) == Some(&info.cache_uuid)
}

//! The disk cache: SPIR-V by content hash, and the driver's pipeline cache by device. Files carry magic,
//! length and checksum, are written to a temporary name and renamed, and are ignored when anything about
//! them is wrong. A directory that cannot be written means no cache, silently.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ash::vk;

use super::adapter::AdapterInfo;

const MAGIC: &[u8; 8] = b"MLXVKC01";
const HEADER: usize = 8 + 16 + 8 + 8;
const SPIRV_MAGIC: u32 = 0x0723_0203;
/// The driver's cache is written again this long after the last write.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// Two independent 64-bit hashes of a byte stream: FNV-1a, and a multiply-rotate hash.
pub(crate) struct Hasher {
    fnv: u64,
    mix: u64,
}

impl Hasher {
    pub fn new() -> Hasher {
        Hasher { fnv: 0xcbf2_9ce4_8422_2325, mix: 0x9e37_79b9_7f4a_7c15 }
    }

    pub fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.fnv = (self.fnv ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
            self.mix = (self.mix.rotate_left(5) ^ u64::from(b)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        }
    }

    pub fn finish(&self) -> (u64, u64) {
        let end = |mut h: u64| {
            h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
            h ^ (h >> 29)
        };
        (end(self.fnv), end(self.mix))
    }
}

fn hash(bytes: &[u8]) -> (u64, u64) {
    let mut h = Hasher::new();
    h.write(bytes);
    h.finish()
}

/// The cache directory, or none where no place for it is known.
fn directory() -> Option<&'static Path> {
    static DIR: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        let var = |n: &str| std::env::var_os(n).filter(|v| !v.is_empty()).map(PathBuf::from);
        crate::core::env::text("MLX_VK_CACHE_DIR")
            .map(PathBuf::from)
            .or_else(|| var("XDG_CACHE_HOME").map(|p| p.join("mlx-vulkan")))
            .or_else(|| var("HOME").map(|p| p.join(".cache/mlx-vulkan")))
            .or_else(|| var("LOCALAPPDATA").map(|p| p.join("mlx-vulkan")))
    });
    DIR.as_deref()
}

/// The cache folder, how many files it holds and their bytes.
pub fn contents() -> Option<(PathBuf, u64, u64)> {
    let dir = directory()?;
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = files.filter_map(|f| f.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len());
    let (count, bytes) = sizes.fold((0, 0), |(n, sum), size| (n + 1, sum + size));
    Some((dir.to_path_buf(), count, bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Content of a cache file, if it is whole and belongs to `key`.
fn read_file(path: &Path, key: (u64, u64)) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let body = bytes.get(HEADER..)?;
    let good = bytes.starts_with(MAGIC)
        && u64_at(&bytes, 8)? == key.0
        && u64_at(&bytes, 16)? == key.1
        && u64_at(&bytes, 24)? == body.len() as u64
        && u64_at(&bytes, 32)? == hash(body).0;
    good.then(|| body.to_vec())
}

/// Writes a cache file whole or not at all; failures are nobody's business.
fn write_file(path: &Path, key: (u64, u64), body: &[u8]) {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let Some(dir) = path.parent() else { return };
    if std::fs::create_dir_all(dir).is_err() {
        return;
    }
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(MAGIC);
    for word in [key.0, key.1, body.len() as u64, hash(body).0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(body);
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temporary = dir.join(format!(".tmp-{}-{n}", std::process::id()));
    if std::fs::write(&temporary, &bytes).and_then(|()| std::fs::rename(&temporary, path)).is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
}

fn spirv_path(dir: &Path, key: (u64, u64)) -> PathBuf {
    dir.join(format!("{:016x}{:016x}.spv", key.0, key.1))
}

fn load_from(dir: &Path, key: (u64, u64)) -> Option<Vec<u32>> {
    let body = read_file(&spirv_path(dir, key), key)?;
    if !body.len().is_multiple_of(4) {
        return None;
    }
    let words: Vec<u32> =
        body.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    (words.first() == Some(&SPIRV_MAGIC)).then_some(words)
}

fn store_to(dir: &Path, key: (u64, u64), words: &[u32]) {
    let body: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    write_file(&spirv_path(dir, key), key, &body);
}

/// Whether the cache holds any SPIR-V.
pub(crate) fn has_spirv() -> bool {
    let files = directory().and_then(|d| std::fs::read_dir(d).ok()).into_iter().flatten().flatten();
    files.into_iter().any(|f| f.path().extension().is_some_and(|e| e == "spv"))
}

/// SPIR-V stored under `key`.
pub(crate) fn load(key: (u64, u64)) -> Option<Vec<u32>> {
    load_from(directory()?, key)
}

/// Stores SPIR-V under `key`.
pub(crate) fn store(key: (u64, u64), words: &[u32]) {
    if let Some(dir) = directory() {
        store_to(dir, key, words);
    }
}

/// The driver's pipeline cache with its file.
pub(crate) struct PipelineBlob {
    pub raw: vk::PipelineCache,
    file: Option<PathBuf>,
    #[cfg(test)]
    info: AdapterInfo,
    key: (u64, u64),
    made: AtomicU64,
    saved: Mutex<(u64, Instant)>,
}

impl PipelineBlob {
    /// Starts from the file of this device and driver, if it is good.
    pub fn load(device: &ash::Device, info: &AdapterInfo) -> PipelineBlob {
        let hex: String = info.cache_uuid.iter().map(|b| format!("{b:02x}")).collect();
        let file = directory().map(|d| d.join(format!("pipelines-{hex}-{:08x}.bin", info.driver_version)));
        let key =
            (u64::from(info.vendor_id) << 32 | u64::from(info.device_id), u64::from(info.driver_version));
        let data =
            file.as_deref().and_then(|f| read_file(f, key)).filter(|d| fits(d, info)).unwrap_or_default();
        let make = |data: &[u8]| {
            let create = vk::PipelineCacheCreateInfo::default().initial_data(data);
            // SAFETY: the data's header was checked; the driver checks the rest.
            unsafe { device.create_pipeline_cache(&create, None) }
        };
        let raw = make(&data).or_else(|_| make(&[])).unwrap_or(vk::PipelineCache::null());
        PipelineBlob {
            raw,
            file,
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
        let file = self.file.as_deref().filter(|f| f.exists())?;
        Some(read_file(file, self.key).is_some_and(|d| fits(&d, &self.info)))
    }

    /// Notes a new pipeline.
    pub fn on_pipeline(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes the file if there are new pipelines; unless `now`, not too often.
    pub fn save(&self, device: &ash::Device, now: bool) {
        let made = self.made.load(Ordering::Relaxed);
        let (Some(file), Ok(mut saved)) = (&self.file, self.saved.try_lock()) else { return };
        if made == saved.0 || !(now || saved.1.elapsed() >= SAVE_EVERY) {
            return;
        }
        *saved = (made, Instant::now());
        if self.raw != vk::PipelineCache::null()
            // SAFETY: the cache belongs to this device.
            && let Ok(data) = unsafe { device.get_pipeline_cache_data(self.raw) }
        {
            write_file(file, self.key, &data);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn temp_dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("mlx-vk-test-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        dir
    }

    #[test]
    fn damaged_and_foreign_files_are_ignored() {
        let dir = temp_dir("damage");
        let key = (1, 2);
        let words = [SPIRV_MAGIC, 7, 8, 9];
        assert_eq!(load_from(&dir, key), None);
        store_to(&dir, key, &words);
        assert_eq!(load_from(&dir, key).as_deref(), Some(&words[..]));
        let path = spirv_path(&dir, key);
        let good = std::fs::read(&path).unwrap();
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 0x10;
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(load_from(&dir, key), None, "flipped byte {i}");
            std::fs::write(&path, &good[..i]).unwrap();
            assert_eq!(load_from(&dir, key), None, "cut at {i}");
        }
        std::fs::write(&path, &good).unwrap();
        std::fs::copy(&path, spirv_path(&dir, (1, 3))).unwrap();
        assert_eq!(load_from(&dir, (1, 3)), None, "a file of another key");
        store_to(&dir, (5, 5), &[1, 2, 3]);
        assert_eq!(load_from(&dir, (5, 5)), None, "not SPIR-V");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn concurrent_writers_and_readers_see_whole_files() {
        let dir = temp_dir("race");
        let words: Vec<u32> = std::iter::once(SPIRV_MAGIC).chain(0..20_000).collect();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..50 {
                        store_to(&dir, (3, 4), &words);
                        assert_eq!(load_from(&dir, (3, 4)).as_deref(), Some(&words[..]));
                    }
                });
            }
        });
        let left: Vec<_> = std::fs::read_dir(&dir).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left.len(), 1, "{left:?}");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn an_unwritable_directory_means_no_cache() {
        let file = temp_dir("file");
        std::fs::write(&file, b"not a directory").unwrap();
        store_to(&file.join("sub"), (1, 1), &[SPIRV_MAGIC]);
        assert_eq!(load_from(&file.join("sub"), (1, 1)), None);
        std::fs::remove_file(&file).unwrap();
    }
}

//! The disk cache: SPIR-V by content hash, and the drivers' pipeline caches by device (`pipeline_cache`). Drivers trust what they
//! are given, so that nothing is taken from a file that this user did not write: folder and files are `private`, and
//! each carries a keyed hash (BLAKE3) whose key lies in the user's state folder. What is wrong in any way is ignored
//! and written anew. Without a folder or a key there is no cache; nothing fails.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::private::{Entry, Folder, Refusal, TEMPORARY};
use super::spirv::validate;
use crate::core::env::{Values, Variable};
use crate::core::fault::{Site, hit};
use crate::core::{Error, Result};
use crate::kernels::spirv;

pub static CACHE_DIR: Variable = Variable::new(
    "MLX_VK_CACHE_DIR",
    "`$XDG_CACHE_HOME/mlx-vulkan` or `~/.cache/mlx-vulkan`",
    Values::Text("folder, made when it is missing"),
    "Where compiled shaders and the drivers' pipelines are kept. The folder must be the user's own, and no link",
);

pub static CACHE_MB: Variable = Variable::new(
    "MLX_VK_CACHE_MB",
    "256",
    Values::Number(0, 1 << 20),
    "Megabytes that the folder may hold; what was used least recently goes first. 0: nothing is kept",
);

pub static CACHE_DAYS: Variable = Variable::new(
    "MLX_VK_CACHE_DAYS",
    "90",
    Values::Number(1, 36_500),
    "Days after which what nobody used is removed from the folder",
);

const MAGIC: &[u8; 8] = b"MLXVKC02";
const HASH: usize = blake3::OUT_LEN;
const HEADER: usize = MAGIC.len() + HASH;
/// The key of the keyed hash, in the user's state folder.
const SECRET: &str = "cache.key";
/// Ends of the names of our files.
const OURS: [&str; 2] = [".spv", ".bin"];
/// What a writer that died has left is removed after this long.
const ABANDONED: Duration = Duration::from_secs(3600);

/// What an entry is found by: a hash of everything that decides its content.
pub(crate) type Key = [u8; HASH];

/// The bytes that a file of the cache may have.
pub(in crate::vulkan) const MOST_BYTES: u64 = 64 << 20;

fn megabytes() -> u64 {
    CACHE_MB.count()
}

fn variable(n: &str) -> Option<PathBuf> {
    std::env::var_os(n).map(PathBuf::from).filter(|p| p.is_absolute())
}

/// The folder that a variable of the XDG base directory specification stands for.
fn place(name: &str, below_home: &str) -> Option<PathBuf> {
    variable(name)
        .or_else(|| variable("HOME").map(|p| p.join(below_home)))
        .or_else(|| variable("LOCALAPPDATA"))
        .map(|p| p.join("mlx-vulkan"))
}

/// The cache folder, or none where no place for it is known or nothing shall be kept.
fn directory() -> Option<&'static Path> {
    static DIR: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let named = CACHE_DIR.text().map(PathBuf::from);
        let dir = named.or_else(|| place("XDG_CACHE_HOME", ".cache"))?;
        (megabytes() > 0).then_some(dir)
    };
    DIR.get_or_init(find).as_deref()
}

/// Says once why there is no cache.
fn warn(why: &str) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        eprintln!("[vulkan] Compiled kernels are not kept: {why}.");
    }
}

/// Opens a folder, unless others could have written to it.
fn open(path: &Path) -> Option<Folder> {
    match Folder::open(path) {
        Ok(folder) => Some(folder),
        Err(Refusal::Missing) => None,
        Err(Refusal::Unsafe(why)) => {
            warn(&format!("the folder {why}"));
            None
        }
    }
}

/// The user's key in a folder, made where there is none: of several processes that make one, the first one's stays.
fn secret_in(dir: &Path) -> Option<Key> {
    let folder = open(dir)?;
    let read = || folder.read(SECRET, HASH as u64)?.try_into().ok();
    read().or_else(|| {
        let mut fresh: Key = [0; HASH];
        getrandom::fill(&mut fresh).ok()?;
        let made = folder.write_new(SECRET, &fresh);
        let key = read();
        if key.is_none() && made.is_err_and(|e| e.kind() == std::io::ErrorKind::AlreadyExists) {
            warn(&format!("{} is no key that only this user can read", dir.join(SECRET).display()));
        }
        key
    })
}

fn secret() -> Option<&'static Key> {
    static FOUND: OnceLock<Option<Key>> = OnceLock::new();
    FOUND.get_or_init(|| secret_in(&place("XDG_STATE_HOME", ".local/state")?)).as_ref()
}

/// The cache, open.
pub(in crate::vulkan) struct Cache<'a> {
    folder: Folder,
    secret: &'a Key,
}

/// The cache of this user, if there is one.
pub(in crate::vulkan) fn cache() -> Option<Cache<'static>> {
    let folder = open(directory()?)?;
    Some(Cache { folder, secret: secret()? })
}

impl Cache<'_> {
    fn tag(&self, key: &Key, body: &[u8]) -> blake3::Hash {
        blake3::Hasher::new_keyed(self.secret).update(MAGIC).update(key).update(body).finalize()
    }

    /// Content of a file, if it is whole, was written by this user and belongs to `key`.
    pub fn read(&self, name: &str, key: &Key) -> Option<Vec<u8>> {
        if hit(Site::CacheRead) {
            return None;
        }
        let mut bytes = self.folder.read(name, MOST_BYTES)?;
        let (head, body) = bytes.split_at_checked(HEADER)?;
        let (magic, tag) = head.split_at(MAGIC.len());
        // Hashes are compared in constant time.
        let good = magic == MAGIC && self.tag(key, body) == blake3::Hash::from_slice(tag).ok()?;
        good.then(|| {
            bytes.drain(..HEADER);
            bytes
        })
    }

    /// Writes a file whole or not at all; failures are nobody's business.
    pub fn write(&self, name: &str, key: &Key, body: &[u8]) {
        let size = (HEADER + body.len()) as u64;
        if size > MOST_BYTES {
            return;
        }
        let tag = self.tag(key, body);
        if !hit(Site::CacheWrite)
            && self.folder.write(name, &[MAGIC, &tag.as_bytes()[..], body].concat()).is_ok()
        {
            self.sweep_sometimes(size);
        }
    }

    /// Keeps the cache within its bounds: looks at its files with the first one that the process writes, and when it has
    /// written an eighth of the bound.
    fn sweep_sometimes(&self, size: u64) {
        static WRITTEN: AtomicU64 = AtomicU64::new(u64::MAX >> 1);
        let most = megabytes() << 20;
        if WRITTEN.fetch_add(size, Ordering::Relaxed) >= most / 8 {
            WRITTEN.store(0, Ordering::Relaxed);
            let days = CACHE_DAYS.count();
            self.sweep(most, Duration::from_secs(days * 24 * 3600));
        }
    }

    /// Removes what was not used for `longest`, and what was used least recently where there are more than `most` bytes.
    fn sweep(&self, most: u64, longest: Duration) {
        let now = SystemTime::now();
        let old = |e: &Entry, limit| now.duration_since(e.used).is_ok_and(|age| age > limit);
        let mut kept = Vec::new();
        for e in self.folder.entries() {
            if e.name.starts_with(TEMPORARY) {
                if old(&e, ABANDONED) {
                    self.folder.remove(&e);
                }
            } else if OURS.iter().any(|end| e.name.ends_with(end)) {
                if old(&e, longest) { self.folder.remove(&e) } else { kept.push(e) }
            }
        }
        let mut bytes: u64 = kept.iter().map(|e| e.size).sum();
        if bytes > most {
            // Room for a while.
            let goal = most / 4 * 3;
            kept.sort_unstable_by_key(|e| e.used);
            for e in kept {
                if bytes <= goal {
                    break;
                }
                bytes -= e.size;
                self.folder.remove(&e);
            }
        }
    }

    /// SPIR-V stored under `key`, if it is valid.
    fn load(&self, key: &Key) -> Option<Vec<u32>> {
        valid(&self.read(&spirv_name(key), key)?).ok()
    }

    fn store(&self, key: &Key, words: &[u32]) {
        let body: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.write(&spirv_name(key), key, &body);
    }
}

/// The words of a module that a driver may see.
pub(in crate::vulkan) fn valid(bytes: &[u8]) -> Result<Vec<u32>> {
    let module =
        spirv::read(bytes, u64::from(crate::vulkan::hal::device::MOST_PUSH_BYTES)).map_err(Error::Value)?;
    validate(&module)?;
    Ok(module.words.to_vec())
}

fn spirv_name(key: &Key) -> String {
    format!("{}.spv", blake3::Hash::from_bytes(*key).to_hex())
}

/// The cache folder, how many files it holds and their bytes.
pub fn contents() -> Option<(PathBuf, u64, u64)> {
    let dir = directory()?;
    let files = open(dir).map(|f| f.entries()).unwrap_or_default();
    Some((dir.to_path_buf(), files.len() as u64, files.iter().map(|e| e.size).sum()))
}

/// Whether the cache holds any SPIR-V.
pub(crate) fn has_spirv() -> bool {
    cache().is_some_and(|c| c.folder.names().iter().any(|name| name.ends_with(OURS[0])))
}

/// SPIR-V stored under `key`.
pub(crate) fn load(key: &Key) -> Option<Vec<u32>> {
    cache()?.load(key)
}

/// Stores SPIR-V under `key`.
pub(crate) fn store(key: &Key, words: &[u32]) {
    if let Some(cache) = cache() {
        cache.store(key, words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vulkan::shader::compiler;
    use crate::vulkan::shader::pipeline::{Module, Source};

    const KEY: Key = [7; HASH];
    const OTHER: Key = [8; HASH];

    fn cache_in<'a>(dir: &Path, secret: &'a Key) -> Cache<'a> {
        Cache { folder: Folder::open(&dir.join("cache")).unwrap(), secret }
    }

    #[test]
    fn damaged_foreign_and_forged_files_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(dir.path(), &KEY);
        assert_eq!(cache.read("x", &KEY), None);
        cache.write("x", &KEY, b"body");
        assert_eq!(cache.read("x", &KEY).as_deref(), Some(&b"body"[..]));
        let path = dir.path().join("cache/x");
        let good = std::fs::read(&path).unwrap();
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 0x10;
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(cache.read("x", &KEY), None, "flipped byte {i}");
            std::fs::write(&path, &good[..i]).unwrap();
            assert_eq!(cache.read("x", &KEY), None, "cut at {i}");
        }
        std::fs::write(&path, &good).unwrap();
        assert_eq!(cache.read("x", &OTHER), None, "an entry of another key");
        assert_eq!(cache_in(dir.path(), &OTHER).read("x", &KEY), None, "written with another secret");
        assert_eq!(cache.read("x", &KEY).as_deref(), Some(&b"body"[..]));
    }

    #[test]
    fn spirv_is_validated_as_that_of_users_is() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(dir.path(), &KEY);
        let source = Source::Text("#version 460\nvoid main() {}\n".into());
        let words = compiler::check("nothing", &Module { source, ..Default::default() }).unwrap();
        cache.store(&KEY, &words);
        assert_eq!(cache.load(&KEY).as_deref(), Some(&words[..]));
        let mut broken = words.clone();
        // The last instruction but one: the body of a function without its end.
        broken.truncate(words.len() - 1);
        for bad in [&broken[..], &[1, 2, 3], &[]] {
            cache.store(&OTHER, bad);
            assert_eq!(cache.load(&OTHER), None);
        }
    }

    #[test]
    fn concurrent_writers_readers_and_sweepers_see_whole_files() {
        let dir = tempfile::tempdir().unwrap();
        let body: Vec<u8> = (0..80_000u32).map(|i| i as u8).collect();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    let cache = cache_in(dir.path(), &KEY);
                    for i in 0..50 {
                        cache.write("x.spv", &KEY, &body);
                        let seen = cache.read("x.spv", &KEY);
                        assert!(seen.is_none_or(|b| b == body));
                        if i % 10 == 9 {
                            cache.sweep(0, Duration::MAX);
                        }
                    }
                });
            }
        });
        let cache = cache_in(dir.path(), &KEY);
        cache.write("x.spv", &KEY, &body);
        assert_eq!(cache.folder.names(), ["x.spv"]);
        assert_eq!(cache.read("x.spv", &KEY), Some(body));
    }

    #[test]
    fn a_sweep_keeps_what_was_written_or_used_since_it_looked() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(dir.path(), &KEY);
        for name in ["a.spv", "b.spv", "c.spv"] {
            cache.folder.write(name, &[0; 10]).unwrap();
            let path = dir.path().join("cache").join(name);
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(48 * 3600)).unwrap();
        }
        let seen = cache.folder.entries();
        cache.folder.write("a.spv", &[1; 10]).unwrap();
        cache.folder.read("b.spv", 10).unwrap(); // marks it as used
        seen.iter().for_each(|e| cache.folder.remove(e));
        let mut names = cache.folder.names();
        names.sort();
        assert_eq!(names, ["a.spv", "b.spv"]);
        assert_eq!(cache.folder.read("a.spv", 10), Some(vec![1; 10]));
    }

    #[test]
    fn a_sweep_keeps_what_was_used_last_and_files_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache_in(dir.path(), &KEY);
        let aged = |name: &str, hours: u64| {
            cache.folder.write(name, &[0; 1000]).unwrap();
            let file =
                std::fs::File::options().write(true).open(dir.path().join("cache").join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        };
        for (name, hours) in [
            ("a.spv", 50),
            ("b.spv", 30),
            ("c.spv", 20),
            ("d.bin", 40),
            ("notes", 900),
            (".tmp-1", 2),
            (".tmp-2", 0),
        ] {
            aged(name, hours);
        }
        let names = || {
            let mut names = cache.folder.names();
            names.sort();
            names
        };
        cache.sweep(1 << 20, Duration::from_secs(45 * 3600));
        assert_eq!(names(), [".tmp-2", "b.spv", "c.spv", "d.bin", "notes"]);
        cache.folder.read("d.bin", 1000).unwrap(); // marks it as used
        cache.sweep(2700, Duration::MAX);
        assert_eq!(names(), [".tmp-2", "c.spv", "d.bin", "notes"]);
    }

    #[test]
    fn whoever_makes_the_secret_first_makes_it_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let all: Vec<Key> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..8).map(|_| s.spawn(|| secret_in(&state).unwrap())).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(all.iter().all(|k| *k == all[0]) && all[0] != [0; HASH]);
        assert_eq!(secret_in(&state), Some(all[0]));
        assert_ne!(secret_in(&dir.path().join("other")), Some(all[0]));
        std::fs::write(state.join(SECRET), b"short").unwrap();
        assert_eq!(secret_in(&state), None);
    }
}

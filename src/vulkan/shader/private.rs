//! Folders and files that belong to the user alone: what is kept between processes lies there. A folder that somebody
//! else could have written to is refused, links are not followed, only regular files of bounded size are read, and
//! files appear whole or not at all. Every call opens the folder anew: it may be deleted at any time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// A file that is read is marked as used when its mark is older than this.
const FRESH: Duration = Duration::from_secs(24 * 3600);

/// Why a folder is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is none, and none can be made.
    Missing,
    /// Others could have written what it holds: how so.
    Unsafe(String),
}

/// A file of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written, or read, to a day.
    pub used: SystemTime,
    /// The number that the system gives the file; another of this name has another one.
    id: u64,
}

/// A folder of the user's own, open.
pub struct Folder(system::Dir);

impl Folder {
    /// Opens a folder; one that is missing is made, for the user alone.
    ///
    /// # Errors
    /// Where there is none, or one that others can write to.
    pub fn open(path: &Path) -> Result<Folder, Refusal> {
        // A slash at the end would have a link followed.
        let path: PathBuf = path.components().collect();
        system::Dir::open(&path).map(Folder)
    }

    /// The bytes of a file, if it is a regular one of the user's own with at most `most` bytes.
    pub fn read(&self, name: &str, most: u64) -> Option<Vec<u8>> {
        self.0.read(name, most).ok().flatten()
    }

    /// Writes a file in place of any other of that name.
    ///
    /// # Errors
    /// Those of the system; the file is as before then.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.placed(bytes, |temporary| self.0.rename(temporary, name))
    }

    /// Writes a file unless there is one of that name. Of several callers one succeeds.
    ///
    /// # Errors
    /// Those of the system, `AlreadyExists` among them.
    pub fn write_new(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.placed(bytes, |temporary| self.0.link(temporary, name))
    }

    fn placed(&self, bytes: &[u8], place: impl FnOnce(&str) -> io::Result<()>) -> io::Result<()> {
        let temporary = temporary_name();
        let done = self.0.create(&temporary, bytes).and_then(|()| place(&temporary));
        // Gone already where it was renamed.
        let _ = self.0.remove(&temporary);
        done
    }

    /// Removes a file unless it was used or replaced since it was looked at. It is moved aside first: whoever writes one
    /// of that name meanwhile keeps it.
    pub fn remove(&self, entry: &Entry) {
        let aside = temporary_name();
        if self.0.rename(&entry.name, &aside).is_err() {
            return;
        }
        let now = self.look(&aside).map(|e| Entry { name: entry.name.clone(), ..e });
        if now.as_ref() != Some(entry) {
            let _ = self.0.link(&aside, &entry.name);
        }
        let _ = self.0.remove(&aside);
    }

    fn look(&self, name: &str) -> Option<Entry> {
        self.0.look(name).ok().flatten().map(|(size, used, id)| Entry { name: name.into(), size, used, id })
    }

    /// Names in the folder.
    pub fn names(&self) -> Vec<String> {
        self.0.names().unwrap_or_default()
    }

    /// The regular files of the folder.
    pub fn entries(&self) -> Vec<Entry> {
        self.names().iter().filter_map(|name| self.look(name)).collect()
    }
}

/// A name that no other file has.
fn temporary_name() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{TEMPORARY}{}-{n}-{:x}", std::process::id(), since.as_nanos())
}

/// How the names of files begin that are not whole yet.
pub const TEMPORARY: &str = ".tmp-";

/// Whether a file shall be marked as used now.
fn stale(used: SystemTime) -> bool {
    SystemTime::now().duration_since(used).is_ok_and(|age| age > FRESH)
}

#[cfg(unix)]
mod system {
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    use std::path::Path;
    use std::time::SystemTime;

    use rustix::fs::{AtFlags, Mode, OFlags};

    use super::{Refusal, stale};

    /// An open folder that was checked.
    pub struct Dir(OwnedFd);

    /// A link is never followed, and opening a pipe does not wait.
    const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

    impl Dir {
        pub fn open(path: &Path) -> Result<Dir, Refusal> {
            let unsafe_ = |why: &str| Err(Refusal::Unsafe(format!("{} {why}", path.display())));
            let flags = SAFE.union(OFlags::DIRECTORY);
            let open = || rustix::fs::open(path, flags, Mode::empty());
            let fd = match open() {
                Err(rustix::io::Errno::NOENT) => {
                    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
                    made.ok().and_then(|()| open().ok()).ok_or(Refusal::Missing)?
                }
                Err(_) if path.is_symlink() => return unsafe_("is a link"),
                other => other.map_err(|_| Refusal::Missing)?,
            };
            let stat = rustix::fs::fstat(&fd).map_err(|_| Refusal::Missing)?;
            if stat.st_uid != rustix::process::geteuid().as_raw() {
                return unsafe_("belongs to another user");
            }
            if stat.st_mode & 0o022 != 0 {
                return unsafe_("can be written by other users");
            }
            Ok(Dir(fd))
        }

        /// A file of the user's own that others can neither read nor write.
        fn file(&self, name: &str) -> io::Result<Option<(File, std::fs::Metadata)>> {
            let fd = rustix::fs::openat(&self.0, name, SAFE | OFlags::RDONLY, Mode::empty())?;
            let file = File::from(fd);
            let meta = file.metadata()?;
            let own = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o077 == 0;
            Ok((meta.is_file() && own).then_some((file, meta)))
        }

        pub fn read(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
            let Some((file, meta)) = self.file(name)? else { return Ok(None) };
            if meta.len() > most {
                return Ok(None);
            }
            let mut bytes = Vec::with_capacity(meta.len() as usize);
            // The file may have grown since.
            (&file).take(most + 1).read_to_end(&mut bytes)?;
            if meta.modified().is_ok_and(stale) {
                let _ = file.set_modified(SystemTime::now());
            }
            Ok((bytes.len() as u64 <= most).then_some(bytes))
        }

        pub fn create(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
            let flags = SAFE | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let fd = rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?;
            File::from(fd).write_all(bytes)
        }

        pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
        }

        pub fn link(&self, from: &str, to: &str) -> io::Result<()> {
            Ok(rustix::fs::linkat(&self.0, from, &self.0, to, AtFlags::empty())?)
        }

        pub fn remove(&self, name: &str) -> io::Result<()> {
            Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
        }

        pub fn names(&self) -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in rustix::fs::Dir::read_from(&self.0)? {
                match entry?.file_name().to_str() {
                    Ok("." | "..") | Err(_) => {}
                    Ok(name) => names.push(name.to_string()),
                }
            }
            Ok(names)
        }

        pub fn look(&self, name: &str) -> io::Result<Option<(u64, SystemTime, u64)>> {
            let stat = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
            let since = std::time::Duration::from_secs(stat.st_mtime.max(0) as u64);
            Ok(regular.then(|| (stat.st_size.max(0) as u64, SystemTime::UNIX_EPOCH + since, stat.st_ino)))
        }
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::{self, File, OpenOptions};
    use std::io::{self, Read, Write};
    use std::path::{Path, PathBuf};
    use std::time::SystemTime;

    use super::{Refusal, stale};

    /// A folder. Who may write to it is what its parent, the user's profile, passes on.
    pub struct Dir(PathBuf);

    impl Dir {
        pub fn open(path: &Path) -> Result<Dir, Refusal> {
            fs::create_dir_all(path).map_err(|_| Refusal::Missing)?;
            match fs::symlink_metadata(path) {
                Ok(meta) if meta.is_dir() => Ok(Dir(path.into())),
                Ok(_) => Err(Refusal::Unsafe(format!("{} is a link", path.display()))),
                Err(_) => Err(Refusal::Missing),
            }
        }

        pub fn read(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
            let path = self.0.join(name);
            if !fs::symlink_metadata(&path)?.is_file() {
                return Ok(None);
            }
            let file = File::open(&path)?;
            let mut bytes = Vec::new();
            (&file).take(most + 1).read_to_end(&mut bytes)?;
            if file.metadata()?.modified().is_ok_and(stale)
                && let Ok(writable) = OpenOptions::new().append(true).open(&path)
            {
                let _ = writable.set_modified(SystemTime::now());
            }
            Ok((bytes.len() as u64 <= most).then_some(bytes))
        }

        pub fn create(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
            OpenOptions::new().write(true).create_new(true).open(self.0.join(name))?.write_all(bytes)
        }

        pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            fs::rename(self.0.join(from), self.0.join(to))
        }

        pub fn link(&self, from: &str, to: &str) -> io::Result<()> {
            fs::hard_link(self.0.join(from), self.0.join(to))
        }

        pub fn remove(&self, name: &str) -> io::Result<()> {
            fs::remove_file(self.0.join(name))
        }

        pub fn names(&self) -> io::Result<Vec<String>> {
            let names = fs::read_dir(&self.0)?.flatten();
            Ok(names.filter_map(|e| e.file_name().into_string().ok()).collect())
        }

        pub fn look(&self, name: &str) -> io::Result<Option<(u64, SystemTime, u64)>> {
            let meta = fs::symlink_metadata(self.0.join(name))?;
            Ok(if meta.is_file() { Some((meta.len(), meta.modified()?, 0)) } else { None })
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn place() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn folders_and_files_are_the_users_alone() {
        let dir = place();
        let path = dir.path().join("a/b");
        let folder = Folder::open(&path).unwrap();
        folder.write("x", b"12").unwrap();
        assert_eq!((mode(&path), mode(&path.join("x"))), (0o700, 0o600));
        assert_eq!(folder.read("x", 2).as_deref(), Some(&b"12"[..]));
        assert_eq!(folder.read("x", 1), None, "too large");
        assert_eq!(folder.write_new("x", b"34").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(folder.read("x", 2).as_deref(), Some(&b"12"[..]));
        assert_eq!(folder.names(), ["x"]);
        assert_eq!(folder.entries().iter().map(|e| e.size).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn what_others_could_have_written_is_refused() {
        let dir = place();
        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        for bits in [0o770, 0o707, 0o777] {
            std::fs::set_permissions(&open, std::fs::Permissions::from_mode(bits)).unwrap();
            assert!(matches!(Folder::open(&open), Err(Refusal::Unsafe(_))), "{bits:o}");
        }
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        let folder = Folder::open(&open).unwrap();
        folder.write("x", b"1").unwrap();
        for bits in [0o640, 0o604, 0o660, 0o602] {
            std::fs::set_permissions(open.join("x"), std::fs::Permissions::from_mode(bits)).unwrap();
            assert_eq!(folder.read("x", 9), None, "{bits:o}");
        }
        let link = dir.path().join("link");
        symlink(&open, &link).unwrap();
        assert!(matches!(Folder::open(&link), Err(Refusal::Unsafe(_))));
        assert!(matches!(Folder::open(&link.join("")), Err(Refusal::Unsafe(_))));
        std::fs::write(dir.path().join("file"), b"").unwrap();
        assert!(matches!(Folder::open(&dir.path().join("file/x")), Err(Refusal::Missing)));
    }

    #[test]
    fn planted_files_are_neither_read_nor_written_through() {
        let dir = place();
        let folder = Folder::open(&dir.path().join("own")).unwrap();
        let target = dir.path().join("target");
        std::fs::write(&target, b"precious").unwrap();
        for (name, to) in [("a", &*target), ("b", Path::new("/dev/zero")), ("c", Path::new("/nowhere"))] {
            symlink(to, dir.path().join("own").join(name)).unwrap();
            assert_eq!(folder.read(name, 100), None, "{name}");
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("own/pipe"), rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(folder.read("pipe", 100), None);
        folder.write("a", b"mine").unwrap();
        folder.write("pipe", b"mine").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
        assert_eq!(folder.read("a", 100).as_deref(), Some(&b"mine"[..]));
        assert_eq!(folder.read("pipe", 100).as_deref(), Some(&b"mine"[..]));
    }
}

//! Writing a file so that nobody ever sees half of it: into a temporary file of the same folder, which is
//! synchronised and renamed over the target at the end. Without `commit` the target stays as it was.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

const BUFFER: usize = 1 << 20;

/// A file that takes the place of another one when it is complete.
pub struct Replacement(Inner);

enum Inner {
    Renamed(BufWriter<NamedTempFile>, PathBuf),
    /// Devices and pipes cannot be replaced.
    Direct(BufWriter<File>),
}

impl Replacement {
    /// Starts to write what shall become `path`.
    pub fn create(path: &Path) -> io::Result<Replacement> {
        let mut target = path.to_path_buf();
        let mut permissions = None;
        if path.exists() {
            // Fails as a plain overwrite would: directories, files without write permission.
            let old = OpenOptions::new().write(true).open(path)?;
            let kind = old.metadata()?;
            if !kind.is_file() {
                return Ok(Replacement(Inner::Direct(BufWriter::with_capacity(BUFFER, old))));
            }
            permissions = Some(kind.permissions());
            target = path.canonicalize()?; // a link stays a link
        }
        let folder = match target.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".mlx-").suffix(".tmp");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)); // less the umask
        // The error of its kind alone: its text names the temporary file, which means nothing to the caller.
        let temp = builder.tempfile_in(folder).map_err(|e| io::Error::from(e.kind()))?;
        if let Some(p) = permissions {
            temp.as_file().set_permissions(p)?;
        }
        Ok(Replacement(Inner::Renamed(BufWriter::with_capacity(BUFFER, temp), target)))
    }

    /// Puts the complete file into its place.
    pub fn commit(self) -> io::Result<()> {
        match self.0 {
            Inner::Direct(mut file) => file.flush(),
            Inner::Renamed(file, target) => {
                let temp = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                temp.as_file().sync_all()?;
                temp.persist(target).map_err(|e| e.error)?;
                Ok(())
            }
        }
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Inner::Renamed(f, _) => f.write(bytes),
            Inner::Direct(f) => f.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Inner::Renamed(f, _) => f.flush(),
            Inner::Direct(f) => f.flush(),
        }
    }
}

impl Seek for Replacement {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.0 {
            Inner::Renamed(f, _) => f.seek(to),
            Inner::Direct(f) => f.seek(to),
        }
    }
}

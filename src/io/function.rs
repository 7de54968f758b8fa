//! Files of exported functions (`compile::export`). Numbers are little-endian. A header of 40 bytes: magic,
//! version, zero, length of the description, length of the constants, checksum over all that follows. Then the
//! description, filled up to 8 bytes, and the bytes of the constants, each filled up to 64.
//!
//! A reader trusts nothing: every length is held against the bytes that are there before memory is taken for it,
//! and the calls that the description names are checked when they are made into graph.

use std::io::Write;
use std::path::Path;

use super::{Dense, Replacement, Source};
use crate::bail;
use crate::compile::export::{Call, Exported, Place, Ref, Spec, Trace};
use crate::core::layout::MOST_AXES;
use crate::core::{Dtype, Param, Result, Shape};
use crate::io::stated_size;
use crate::ops::from_host;

const MAGIC: [u8; 8] = *b"MLXVKFUN";
const VERSION: u32 = 1;
const HEADER: u64 = 40;
const ALIGN: usize = 64;
/// More axes no array has; keeps work with axes short.
const MAX_AXES: u64 = MOST_AXES as u64;

/// A sum over 64-bit words that changes with every bit of them and with their order.
struct Checksum(u64);

impl Checksum {
    fn new() -> Checksum {
        Checksum(0xcbf2_9ce4_8422_2325)
    }

    /// Adds bytes, filled up with zeros to whole words.
    fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.word(u64::from_le_bytes(*w)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(last));
        }
    }

    fn word(&mut self, w: u64) {
        let h = (self.0 ^ w).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 = h ^ (h >> 29);
    }
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    fn text(&mut self, s: &str) {
        self.number(s.len() as u64);
        self.0.extend_from_slice(s.as_bytes());
    }

    fn ints(&mut self, list: &[i64]) {
        self.list(list, |w, &v| w.number(v as u64));
    }

    fn list<T>(&mut self, list: &[T], mut each: impl FnMut(&mut Writer, &T)) {
        self.number(list.len() as u64);
        list.iter().for_each(|x| each(self, x));
    }

    fn spec(&mut self, s: &Spec) {
        self.text(s.1.name());
        self.ints(&s.0);
    }

    fn reference(&mut self, r: &Ref) {
        let (kind, i) = match r {
            Ref::Input(i) => (0, i),
            Ref::Temp(i) => (1, i),
            Ref::Const(i) => (2, i),
        };
        self.0.push(kind);
        self.number(*i as u64);
    }

    fn param(&mut self, p: &Param) {
        match p {
            Param::Int(v) => {
                self.0.push(0);
                self.number(*v as u64);
            }
            Param::Float(v) => {
                self.0.push(1);
                self.number(v.to_bits());
            }
            Param::Ints(v) => {
                self.0.push(2);
                self.ints(v);
            }
            Param::Text(v) => {
                self.0.push(3);
                self.text(v);
            }
        }
    }

    fn call(&mut self, c: &Call) {
        self.text(&c.name);
        self.list(&c.params, Writer::param);
        self.0.push(match c.place {
            Place::Default => 0,
            Place::Cpu => 1,
            Place::Gpu => 2,
        });
        self.list(&c.args, Writer::reference);
        self.list(&c.specs, Writer::spec);
    }

    fn trace(&mut self, t: &Trace) {
        self.list(&t.inputs, Writer::spec);
        self.list(&t.keywords, |w, k| w.text(k));
        self.list(&t.calls, Writer::call);
        self.list(&t.outputs, Writer::reference);
    }
}

/// Writes a function in place of what `path` holds, at once or not at all.
///
/// # Errors
/// Runtime error for a file that cannot be written.
pub fn save(path: &Path, f: &Exported) -> Result<()> {
    let constants = Dense::all(&f.constants, false)?;
    let mut w = Writer::default();
    w.text(&f.metadata);
    w.0.push(u8::from(f.shapeless));
    w.list(&f.constants, |w, a| w.spec(&(a.shape().into(), a.dtype())));
    w.list(&f.traces, Writer::trace);
    w.0.resize(w.0.len().next_multiple_of(8), 0);
    let mut sum = Checksum::new();
    sum.add(&w.0);
    let fill = |bytes: &[u8]| bytes.len().next_multiple_of(ALIGN) - bytes.len();
    let mut length = 0;
    for c in &constants {
        let bytes = c.bytes();
        sum.add(bytes);
        length += bytes.len() + fill(bytes);
    }
    let write = || -> std::io::Result<()> {
        let mut file = Replacement::create(path)?;
        file.write_all(&MAGIC)?;
        file.write_all(&VERSION.to_le_bytes())?;
        file.write_all(&[0; 4])?;
        for v in [w.0.len() as u64, length as u64, sum.0] {
            file.write_all(&v.to_le_bytes())?;
        }
        file.write_all(&w.0)?;
        for c in &constants {
            file.write_all(c.bytes())?;
            file.write_all(&[0; ALIGN][..fill(c.bytes())])?;
        }
        file.commit()
    };
    match write() {
        Ok(()) => Ok(()),
        Err(e) => bail!(Runtime, "[export_function] Failed to open {}: {e}.", path.display()),
    }
}

/// A description that is being read.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: u64) -> Result<&'a [u8]> {
        let at = usize::try_from(n).ok().and_then(|n| self.bytes.split_at_checked(n));
        let Some((head, rest)) = at else {
            bail!(
                Runtime,
                "[import_function] The file is damaged: {n} bytes of its description are missing."
            );
        };
        self.bytes = rest;
        Ok(head)
    }

    fn byte(&mut self, below: u8) -> Result<u8> {
        match self.take(1)?[0] {
            v if v < below => Ok(v),
            v => bail!(Runtime, "[import_function] The file is damaged: {v} should be less than {below}."),
        }
    }

    fn number(&mut self) -> Result<u64> {
        // INVARIANT: eight bytes were taken.
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn index(&mut self) -> Result<usize> {
        Ok(usize::try_from(self.number()?).unwrap_or(usize::MAX))
    }

    fn text(&mut self) -> Result<String> {
        let n = self.number()?;
        match std::str::from_utf8(self.take(n)?) {
            Ok(s) => Ok(s.into()),
            Err(_) => bail!(Runtime, "[import_function] The file is damaged: a name is not UTF-8."),
        }
    }

    fn ints(&mut self) -> Result<Vec<i64>> {
        self.list(|r| Ok(r.number()? as i64))
    }

    /// A list, which grows as its elements are read: its length alone takes no memory.
    fn list<T>(&mut self, mut each: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let n = self.number()?;
        let mut all = Vec::new();
        for _ in 0..n {
            all.push(each(self)?);
        }
        Ok(all)
    }

    fn spec(&mut self) -> Result<Spec> {
        let name = self.text()?;
        let Some(dtype) = Dtype::from_name(&name) else {
            bail!(Runtime, "[import_function] The file is damaged: there is no dtype {name:?}.");
        };
        let shape = Shape::from_vec(self.ints()?);
        if shape.len() as u64 > MAX_AXES {
            bail!(Runtime, "[import_function] The file is damaged: an array has {} axes.", shape.len());
        }
        if let Err(e) = stated_size("import_function", &shape, dtype.size()) {
            bail!(Runtime, "[import_function] The file is damaged: {e}");
        }
        Ok((shape, dtype))
    }

    fn reference(&mut self) -> Result<Ref> {
        Ok(match self.byte(3)? {
            0 => Ref::Input(self.index()?),
            1 => Ref::Temp(self.index()?),
            _ => Ref::Const(self.index()?),
        })
    }

    fn param(&mut self) -> Result<Param> {
        Ok(match self.byte(4)? {
            0 => Param::Int(self.number()? as i64),
            1 => Param::Float(f64::from_bits(self.number()?)),
            2 => Param::Ints(self.ints()?),
            _ => Param::Text(self.text()?),
        })
    }

    fn call(&mut self) -> Result<Call> {
        Ok(Call {
            name: self.text()?,
            params: self.list(Self::param)?,
            place: [Place::Default, Place::Cpu, Place::Gpu][self.byte(3)? as usize],
            args: self.list(Self::reference)?,
            specs: self.list(Self::spec)?,
        })
    }

    fn trace(&mut self) -> Result<Trace> {
        let (inputs, keywords) = (self.list(Self::spec)?, self.list(Self::text)?);
        if keywords.len() > inputs.len() {
            bail!(Runtime, "[import_function] The file is damaged: more names than arguments.");
        }
        Ok(Trace { inputs, keywords, calls: self.list(Self::call)?, outputs: self.list(Self::reference)? })
    }
}

/// Reads a function.
///
/// # Errors
/// Runtime error for a file that cannot be read, is not of this format or version, or is damaged.
pub fn load(path: &Path) -> Result<Exported> {
    let source = match Source::open(path) {
        Ok(s) => s,
        Err(e) => bail!(Runtime, "[import_function] Failed to open {}: {e}.", path.display()),
    };
    let mut header = [0u8; HEADER as usize];
    if source.len() < HEADER {
        bail!(Runtime, "[import_function] {} is too short for an exported function.", source.name());
    }
    source.read_at(0, &mut header)?;
    let field = |at: usize| {
        // INVARIANT: the header has 40 bytes.
        u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"))
    };
    if header[..8] != MAGIC {
        bail!(Runtime, "[import_function] {} is not an exported function of this library.", source.name());
    }
    let version = field(8);
    if version != u64::from(VERSION) {
        bail!(
            Runtime,
            "[import_function] {} has version {version}, this library reads {VERSION}.",
            source.name()
        );
    }
    let (described, constants) = (field(16), field(24));
    let whole = described.checked_add(constants).and_then(|n| n.checked_add(HEADER));
    if whole != Some(source.len()) || !described.is_multiple_of(8) {
        bail!(Runtime, "[import_function] {} is truncated or damaged: its length is wrong.", source.name());
    }
    // FITS: not more than the file has, by the check above.
    let mut bytes = vec![0; described as usize];
    source.read_at(HEADER, &mut bytes)?;
    let mut sum = Checksum::new();
    sum.add(&bytes);
    let mut r = Reader { bytes: &bytes };
    let (metadata, shapeless) = (r.text()?, r.byte(2)? == 1);
    let specs = r.list(Reader::spec)?;
    let mut at = HEADER + described;
    let mut arrays = Vec::with_capacity(specs.len());
    for (shape, dtype) in &specs {
        let n = stated_size("import_function", shape, dtype.size())? * dtype.size();
        if !source.holds(at, n as u64) {
            bail!(Runtime, "[import_function] {} is damaged: constants are missing.", source.name());
        }
        let mut read = Ok(());
        let a = from_host(shape, *dtype, |p| {
            if n > 0 {
                // SAFETY: fresh memory of n bytes.
                let bytes = unsafe { std::slice::from_raw_parts_mut(p, n) };
                read = source.read_at(at, bytes);
                sum.add(bytes);
            }
        })?;
        read?;
        arrays.push(a);
        at += (n as u64).next_multiple_of(ALIGN as u64);
    }
    if sum.0 != field(32) {
        bail!(Runtime, "[import_function] {} is damaged: its checksum is wrong.", source.name());
    }
    let traces = r.list(Reader::trace)?;
    Ok(Exported { metadata, shapeless, constants: arrays, traces })
}

//! NumPy's npy format, versions 1 and 2 (NumPy Enhancement Proposal 1): magic, a Python dict literal with
//! `descr`, `fortran_order` and `shape`, then the elements. bfloat16, which NumPy lacks, is stored as void
//! elements of two bytes, as MLX does it.

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::cursor::Cursor;
use super::load::{self, Encoding, Place};
use super::save::Dense;
use super::source::Source;
use crate::bail;
use crate::core::{Array, Dtype, Error, Result};
use crate::ops;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The longest header taken; real ones have about a hundred bytes.
const HEADER_MAX: usize = 1 << 20;

/// What the header of an npy file says.
pub struct Header {
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions in the order of memory: reversed for Fortran order.
    pub shape: Vec<i64>,
    /// Bytes of all elements.
    pub nbytes: u64,
    /// Bytes of the header.
    pub len: u64,
    big_endian: bool,
    fortran: bool,
}

impl Header {
    /// Reads a header; `what` names the file for messages.
    pub fn read(mut reader: impl Read, what: &str) -> Result<Header> {
        let mut take = |n: usize| -> Result<Vec<u8>> {
            let mut bytes = vec![0; n];
            match reader.read_exact(&mut bytes) {
                Ok(()) => Ok(bytes),
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    bail!(Runtime, "[load] Unable to read {n} bytes of the header of {what}: it ends early.")
                }
                Err(e) => {
                    let text = format!("[load] Unable to read {n} bytes of the header of {what}: {e}.");
                    Err(Error::of_io(e, text))
                }
            }
        };
        let start = take(8)?;
        if start[..6] != MAGIC[..] {
            bail!(Runtime, "[load] Invalid header in {what}: it does not begin as an npy file.");
        }
        let size = match start[6..] {
            [1, 0] => take(2)?,
            [2, 0] => take(4)?,
            _ => bail!(Runtime, "[load] Unsupported npy format version {}.{} in {what}.", start[6], start[7]),
        };
        let text = size.iter().rev().fold(0usize, |n, &b| n << 8 | usize::from(b));
        if text > HEADER_MAX {
            bail!(Runtime, "[load] Invalid header in {what}: its length is {text} bytes.");
        }
        let len = (8 + size.len() + text) as u64;
        let text = take(text)?;
        let invalid = |why: &str| Error::Runtime(format!("[load] Invalid header in {what}: {why}."));
        let text = std::str::from_utf8(&text).map_err(|_| invalid("it is not text"))?;
        let (descr, fortran, mut shape) = Literal(text)
            .header()
            .ok_or_else(|| invalid("expected a dict with 'descr', 'fortran_order' and 'shape'"))?;
        let (dtype, big_endian) = dtype_of(&descr)?;
        if shape.iter().any(|&d| d < 0) {
            return Err(invalid("negative dimension in shape"));
        }
        if fortran {
            shape.reverse();
        }
        let count = super::stated_size("load", &shape, dtype.size())?;
        Ok(Header { dtype, nbytes: (count * dtype.size()) as u64, len, big_endian, fortran, shape })
    }

    /// The array whose elements `encoding` finds.
    pub fn array(&self, source: &Arc<Source>, encoding: Encoding, place: Place) -> Result<Array> {
        let scalar = if self.dtype == Dtype::C64 { 4 } else { self.dtype.size() };
        let foreign = scalar > 1 && self.big_endian != cfg!(target_endian = "big");
        let a = load::array(source, encoding, foreign.then_some(scalar), &self.shape, self.dtype, place)?;
        if self.fortran { ops::transpose(&a, None, place.stream(self.dtype)?) } else { Ok(a) }
    }
}

/// Element type and whether it is big-endian, from an array protocol string such as `<f4`.
fn dtype_of(descr: &str) -> Result<(Dtype, bool)> {
    let unsupported = || Error::Value(format!("[load] Unsupported array protocol type-string: {descr}"));
    let (order, kind) = match descr.as_bytes().first() {
        Some(b'<' | b'>' | b'|' | b'=') => descr.split_at(1),
        _ => ("=", descr),
    };
    let dtype = match kind {
        "b1" | "?" => Dtype::Bool,
        "u1" => Dtype::U8,
        "u2" => Dtype::U16,
        "u4" => Dtype::U32,
        "u8" => Dtype::U64,
        "i1" => Dtype::I8,
        "i2" => Dtype::I16,
        "i4" => Dtype::I32,
        "i8" => Dtype::I64,
        "f2" => Dtype::F16,
        "f4" => Dtype::F32,
        "f8" => Dtype::F64,
        "c8" => Dtype::C64,
        "V2" => Dtype::BF16,
        _ => return Err(unsupported()),
    };
    Ok((dtype, order == ">" || (order == "=" && cfg!(target_endian = "big"))))
}

/// A reader of the few Python literals that headers are made of.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    fn space(&mut self) {
        self.0 = self.0.trim_start();
    }

    /// Whether the next token is `c`, which is then passed.
    fn passed(&mut self, c: char) -> bool {
        self.space();
        let rest = self.0.strip_prefix(c);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn string(&mut self) -> Option<&'a str> {
        self.space();
        let quote = self.0.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let (text, rest) = self.0[1..].split_once(quote)?;
        self.0 = rest;
        Some(text)
    }

    /// A name, number or sign: everything up to a bracket, comma or space.
    fn word(&mut self) -> &'a str {
        self.space();
        let end = self.0.find(|c: char| c.is_whitespace() || ",:(){}[]".contains(c)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    fn tuple(&mut self) -> Option<Vec<i64>> {
        let mut all = Vec::new();
        if !self.passed('(') {
            return None;
        }
        while !self.passed(')') {
            all.push(self.word().trim_end_matches('L').parse().ok()?);
            if !self.passed(',') && !self.0.starts_with(')') {
                return None;
            }
        }
        Some(all)
    }

    /// (descr, fortran_order, shape)
    fn header(&mut self) -> Option<(String, bool, Vec<i64>)> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        if !self.passed('{') {
            return None;
        }
        while !self.passed('}') {
            let key = self.string()?;
            if !self.passed(':') {
                return None;
            }
            match key {
                "descr" => {
                    self.space();
                    // Records are lists: reported as a type that is not supported, not as a broken header.
                    descr = Some(match self.0.starts_with('[') {
                        true => return Some((self.0.chars().take(40).collect(), false, Vec::new())),
                        false => self.string()?.to_string(),
                    });
                }
                "fortran_order" => {
                    fortran = match self.word() {
                        "True" => Some(true),
                        "False" => Some(false),
                        _ => return None,
                    }
                }
                "shape" => shape = Some(self.tuple()?),
                _ => return None,
            }
            if !self.passed(',') && !self.0.trim_start().starts_with('}') {
                return None;
            }
        }
        Some((descr?, fortran?, shape?))
    }
}

/// The array of an npy file. Evaluation fails if the file ends before its last element.
pub fn load(source: &Arc<Source>, place: Place) -> Result<Array> {
    let header = Header::read(Cursor::new(source, 0), source.name())?;
    header.array(source, Encoding::Plain(header.len), place)
}

/// The array that comes next in a stream, of which nothing more is read.
pub fn load_stream(mut reader: impl Read, place: Place) -> Result<Array> {
    let header = Header::read(&mut reader, "the given file object")?;
    // Grows with what really comes, whatever the header claims.
    let mut bytes = Vec::new();
    match reader.take(header.nbytes).read_to_end(&mut bytes) {
        Ok(n) if n as u64 == header.nbytes => {}
        Ok(n) => bail!(Runtime, "[load] Unable to read {} bytes of elements: there are {n}.", header.nbytes),
        Err(e) => {
            let text = format!("[load] Unable to read {} bytes of elements: {e}.", header.nbytes);
            return Err(Error::of_io(e, text));
        }
    }
    header.array(&Source::memory("the given file object", bytes), Encoding::Plain(0), place)
}

fn descr(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::Bool => "|b1",
        Dtype::U8 => "|u1",
        Dtype::U16 => "<u2",
        Dtype::U32 => "<u4",
        Dtype::U64 => "<u8",
        Dtype::I8 => "|i1",
        Dtype::I16 => "<i2",
        Dtype::I32 => "<i4",
        Dtype::I64 => "<i8",
        Dtype::F16 => "<f2",
        Dtype::BF16 => "<V2",
        Dtype::F32 => "<f4",
        Dtype::F64 => "<f8",
        Dtype::C64 => "<c8",
    }
}

/// Writes an array as an npy file.
pub fn write(w: &mut dyn Write, a: &Dense) -> io::Result<()> {
    let fortran = if a.column_major { "True" } else { "False" };
    let dims: String = a.shape().iter().map(|d| format!("{d}, ")).collect();
    let shape = if a.shape().len() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let dict =
        format!("{{'descr': '{}', 'fortran_order': {fortran}, 'shape': ({shape}), }}", descr(a.dtype()));
    // Spaces let the elements begin at a multiple of 64 bytes, after the closing line feed.
    let wide = 12 + dict.len() + 64 > usize::from(u16::MAX);
    let begin = if wide { 12 } else { 10 };
    let text = (begin + dict.len() + 1).next_multiple_of(64) - begin;
    w.write_all(MAGIC)?;
    match wide {
        true => {
            w.write_all(&[2, 0])?;
            // FITS: the text of at most 64 dimensions.
            w.write_all(&(text as u32).to_le_bytes())?;
        }
        false => {
            w.write_all(&[1, 0])?;
            // FITS: `wide` says that it does.
            w.write_all(&(text as u16).to_le_bytes())?;
        }
    }
    writeln!(w, "{dict:width$}", width = text - 1)?;
    a.write(w)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Result<Header> {
        let mut bytes = [&MAGIC[..], &[1, 0], &(text.len() as u16).to_le_bytes()].concat();
        bytes.extend_from_slice(text.as_bytes());
        Header::read(&bytes[..], "a test")
    }

    #[test]
    fn keys_come_in_any_order_and_spacing() {
        for text in [
            "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 5), }   \n",
            "{'shape':(3,5),'fortran_order':False,'descr':'<i4'}",
            "{\"descr\" : \"=i4\", 'shape': ( 3 , 5 , ), 'fortran_order': False}",
            "{'descr': 'i4', 'fortran_order': False, 'shape': (3L, 5L)}",
        ] {
            let h = header(text).unwrap();
            assert_eq!((h.dtype, &h.shape[..], h.nbytes), (Dtype::I32, &[3, 5][..], 60), "{text}");
        }
        assert_eq!(header("{'descr': '>f8', 'fortran_order': True, 'shape': (3, 5)}").unwrap().shape, [5, 3]);
        assert_eq!(header("{'descr': '|b1', 'fortran_order': True, 'shape': ()}").unwrap().nbytes, 1);
    }

    #[test]
    fn broken_headers_are_errors() {
        for text in [
            "",
            "{",
            "{}",
            "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 5)",
            "{'descr': '<i4', 'fortran_order': Maybe, 'shape': (3, 5)}",
            "{'descr': '<i4', 'fortran_order': False, 'shape': (3 5)}",
            "{'descr': '<i4', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '<i4', 'fortran_order': False}",
        ] {
            assert!(matches!(header(text), Err(Error::Runtime(_))), "{text}");
        }
        for descr in ["'<U1'", "'|O'", "'<c16'", "[('f0', '<i4')]", "''", "'<'", "'é'"] {
            let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (3,)}}");
            assert!(matches!(header(&text), Err(Error::Value(_))), "{text}");
        }
        let huge = "{'descr': '<i4', 'fortran_order': False, 'shape': (2000000000, 2000000000, 2000000000)}";
        assert!(header(huge).is_err());
    }
}

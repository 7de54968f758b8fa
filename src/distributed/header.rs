//! What an operation is about, as processes of this library tell each other before data moves: so that different
//! programs are noticed before a wrong sum is handed out.

use super::Subject;
use crate::core::Dtype;
use crate::core::layout::show;

/// Axes that a header names.
const AXES: usize = 32;
/// Most bytes of a header.
pub const HEADER: usize = 19 + 8 * AXES;

/// The operations, as they are numbered on the wire. Who receives names what the other does: a send.
const NAMES: [&str; 7] = ["all_sum", "all_max", "all_min", "all_gather", "sum_scatter", "send", "split"];
const SEND: usize = 5;
/// Instead of an operation: the process has failed, and why.
const ABORT: u8 = u8::MAX;

/// What an operation is about: its number in the group, operation, dtype, axes, elements and shape.
#[derive(Clone)]
pub struct Header {
    bytes: Vec<u8>,
    receives: bool,
}

impl Header {
    /// The header of the operation with this number in the group; messages have none.
    pub fn new(number: u64, name: &str, about: Subject) -> Header {
        let receives = name == "recv";
        let code = if receives { Some(SEND) } else { NAMES.iter().position(|n| *n == name) };
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.extend([code.unwrap_or(NAMES.len()) as u8, about.dtype as u8, about.shape.len() as u8]);
        let elements: i64 = about.shape.iter().product();
        bytes.extend(elements.to_le_bytes());
        bytes.extend(about.shape.iter().take(AXES).flat_map(|d| d.to_le_bytes()));
        Header { bytes, receives }
    }

    /// Instead of a header, where there is no other way to tell of a failure.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub fn abort(why: &str) -> Header {
        let mut bytes = vec![0; 8];
        bytes.push(ABORT);
        bytes.extend(why.bytes().take(HEADER - bytes.len()));
        Header { bytes, receives: false }
    }

    /// The header that another process sent; zeros may follow it.
    pub fn received(bytes: &[u8]) -> Header {
        Header { bytes: bytes[..bytes.len().min(HEADER)].to_vec(), receives: false }
    }

    /// What is sent.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// As many bytes for every header: zeros follow.
    pub fn block(&self) -> [u8; HEADER] {
        let mut block = [0; HEADER];
        block[..self.bytes.len()].copy_from_slice(&self.bytes);
        block
    }

    /// For people.
    pub fn text(&self) -> String {
        let b = &self.bytes;
        let number =
            |at: usize| b.get(at..at + 8).map_or(0, |x| i64::from_le_bytes(x.try_into().unwrap_or_default()));
        let at = |i: usize| b.get(i).copied().unwrap_or(u8::MAX) as usize;
        let shape: Vec<i64> = (0..at(10).min(AXES)).map(|i| number(19 + 8 * i)).collect();
        let dtype = Dtype::ALL.get(at(9)).map_or("?".into(), |d| d.to_string());
        let what = format!("of {dtype} {}", show(&shape));
        match at(8) {
            SEND if self.receives => format!("recv {what}"),
            SEND => format!("send {what}"),
            code => {
                let name = NAMES.get(code).copied().unwrap_or("?");
                format!("{name} {what} as operation {}", number(0))
            }
        }
    }

    /// Fails if the other process is about something else.
    pub fn agrees(&self, own_rank: usize, other: &Header, peer: usize) -> Result<(), String> {
        if self.block() == other.block() {
            return Ok(());
        }
        if other.bytes.get(8) == Some(&ABORT) {
            let why = String::from_utf8_lossy(&other.bytes[9..]);
            return Err(format!("rank {peer} failed: {}", why.trim_end_matches('\0')));
        }
        Err(format!("rank {peer} does {} where rank {own_rank} does {}", other.text(), self.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_receives_agrees_with_who_sends_and_each_is_named_for_what_it_does() {
        let about = |shape| Subject { shape, dtype: Dtype::F32 };
        let recv = Header::new(0, "recv", about(&[2, 2]));
        assert_eq!(recv.agrees(1, &Header::new(0, "send", about(&[2, 2])), 0), Ok(()));
        let other = Header::received(&Header::new(0, "send", about(&[4])).block());
        assert_eq!(
            recv.agrees(1, &other, 0),
            Err("rank 0 does send of float32 (4) where rank 1 does recv of float32 (2,2)".into())
        );
        let sum = Header::new(3, "all_sum", about(&[4]));
        assert_eq!(sum.text(), "all_sum of float32 (4) as operation 3");
        let failed = Header::received(&Header::abort("rank 2 died").block());
        assert_eq!(sum.agrees(1, &failed, 0), Err("rank 0 failed: rank 2 died".into()));
        assert_eq!(Header::received(&[200; 11]).text().split(' ').next(), Some("?"));
    }
}

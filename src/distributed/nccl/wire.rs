//! What processes and the hub of a group tell each other: a length, a kind, and fields one after the other. Lengths that
//! come in are checked before memory is taken.

use std::io::{Read, Write};

use crate::distributed::Outcome;

/// First words of a connection, so that strangers are told apart.
const MAGIC: &[u8] = b"MLXVKHUB01";
/// Longest message.
const MOST: usize = 1 << 22;

/// Where processes meet: the group, and the operation of the group.
pub type MeetingKey = [u64; 2];

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// The first of a process: its number.
    Hello(u64),
    /// A process is there: where, its place among so many, and what it has to say.
    Meet(MeetingKey, u64, u64, Vec<u8>),
    /// Who is missing there?
    Ask(MeetingKey),
    /// All are there: what they said.
    Met(MeetingKey, Vec<Vec<u8>>),
    /// Places that nobody has taken.
    Missing(MeetingKey, Vec<u64>),
    /// A group failed at a process: its number, the group, and why.
    Failed(u64, u64, String),
    /// A process needs nothing more.
    Left(u64),
    /// The connection to a process is lost.
    Lost(u64),
}

/// Takes fields off the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*head))
    }

    fn key(&mut self) -> Option<MeetingKey> {
        Some([self.number()?, self.number()?])
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.number()?).ok()?;
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn list<T>(&mut self, f: impl Fn(&mut Fields<'a>) -> Option<T>) -> Option<Vec<T>> {
        let n = usize::try_from(self.number()?).ok().filter(|&n| n <= self.0.len())?;
        (0..n).map(|_| f(self)).collect()
    }
}

fn put(out: &mut Vec<u8>, numbers: &[u64]) {
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, &[bytes.len() as u64]);
    out.extend(bytes);
}

impl Message {
    /// As it is sent.
    fn bytes(&self) -> Vec<u8> {
        let mut b = vec![0; 4];
        match self {
            Message::Hello(rank) => {
                b.push(0);
                put(&mut b, &[*rank]);
                b.extend(MAGIC);
            }
            Message::Meet([group, number], place, count, said) => {
                b.push(1);
                put(&mut b, &[*group, *number, *place, *count]);
                put_bytes(&mut b, said);
            }
            Message::Ask(key) => {
                b.push(2);
                put(&mut b, key);
            }
            Message::Met([group, number], said) => {
                b.push(3);
                put(&mut b, &[*group, *number, said.len() as u64]);
                said.iter().for_each(|s| put_bytes(&mut b, s));
            }
            Message::Missing([group, number], places) => {
                b.push(4);
                put(&mut b, &[*group, *number, places.len() as u64]);
                put(&mut b, places);
            }
            Message::Failed(rank, group, why) => {
                b.push(5);
                put(&mut b, &[*rank, *group]);
                put_bytes(&mut b, why.as_bytes());
            }
            Message::Left(rank) => {
                b.push(6);
                put(&mut b, &[*rank]);
            }
            Message::Lost(rank) => {
                b.push(7);
                put(&mut b, &[*rank]);
            }
        }
        let length = b.len() as u32 - 4;
        b[..4].copy_from_slice(&length.to_le_bytes());
        b
    }

    /// The message of these bytes, which follow the length.
    fn parse(bytes: &[u8]) -> Option<Message> {
        let (&kind, rest) = bytes.split_first()?;
        let mut f = Fields(rest);
        let message = match kind {
            0 => {
                let rank = f.number()?;
                f.0 = f.0.strip_prefix(MAGIC)?;
                Message::Hello(rank)
            }
            1 => Message::Meet(f.key()?, f.number()?, f.number()?, f.bytes()?.to_vec()),
            2 => Message::Ask(f.key()?),
            3 => Message::Met(f.key()?, f.list(|f| f.bytes().map(<[u8]>::to_vec))?),
            4 => Message::Missing(f.key()?, f.list(Fields::number)?),
            5 => Message::Failed(f.number()?, f.number()?, String::from_utf8_lossy(f.bytes()?).into_owned()),
            6 => Message::Left(f.number()?),
            7 => Message::Lost(f.number()?),
            _ => return None,
        };
        f.0.is_empty().then_some(message)
    }

    /// Sends it.
    pub fn write(&self, mut to: impl Write) -> Outcome {
        let bytes = self.bytes();
        if bytes.len() > MOST {
            return Err(format!("a message of {} bytes is too long", bytes.len()));
        }
        to.write_all(&bytes).map_err(|e| e.to_string())
    }

    /// Receives one.
    pub fn read(mut from: impl Read) -> Outcome<Message> {
        let mut length = [0; 4];
        from.read_exact(&mut length).map_err(|e| e.to_string())?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MOST {
            return Err(format!("a message of {length} bytes is too long"));
        }
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes).map_err(|e| e.to_string())?;
        Message::parse(&bytes).ok_or_else(|| "what came in is no message of this protocol".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_broken_ones_are_refused() {
        let all = [
            Message::Hello(3),
            Message::Meet([1, 2], 0, 4, vec![1, 2, 3]),
            Message::Ask([1, 2]),
            Message::Met([1, 2], vec![vec![], vec![9]]),
            Message::Missing([1, 2], vec![0, 3]),
            Message::Failed(1, 2, "why".into()),
            Message::Left(1),
            Message::Lost(2),
        ];
        for m in &all {
            let bytes = m.bytes();
            assert_eq!(Message::read(&bytes[..]).as_ref(), Ok(m));
            for n in 4..bytes.len() {
                assert_eq!(Message::parse(&bytes[4..n]), None, "{m:?} {n}");
            }
        }
        assert!(Message::read(&u32::MAX.to_le_bytes()[..]).is_err());
        // A list that claims more than there is takes no memory.
        let mut b = vec![4];
        put(&mut b, &[1, 2, u64::MAX]);
        assert_eq!(Message::parse(&b), None);
    }
}

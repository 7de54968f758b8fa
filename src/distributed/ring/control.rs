//! What neighbours of this library tell each other beside the data: what each operation is about, so that different
//! programs are noticed before a wrong sum is handed out; that something failed, which is passed on around the ring; and
//! that a process ends. A message is a kind, a length and so many bytes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::link::{Link, Moved};
use crate::distributed::Outcome;
use crate::distributed::header::Header;

/// Longest message.
const MOST: usize = 4096;
/// Operations that a neighbour may be ahead. More cannot be: each of them needs this process.
const AHEAD: usize = 64;

const HEADER: u8 = 1;
const ABORT: u8 = 2;
const BYE: u8 = 3;
const READY: u8 = 4;

/// The message of a header.
pub fn message_of(header: &Header) -> Vec<u8> {
    message(HEADER, header.bytes())
}

fn message(kind: u8, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(MOST)];
    let mut bytes = vec![kind];
    bytes.extend((payload.len() as u16).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// A header from the bytes of its message.
pub fn header_of(bytes: &[u8]) -> Outcome<Header> {
    match bytes {
        [HEADER, _, _, rest @ ..] => Ok(Header::received(rest)),
        _ => Err("what came in is no message of this protocol".into()),
    }
}

/// How a neighbour's control connection ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Left,
    Died,
}

/// The control connection to a neighbour.
pub struct Control {
    link: Link,
    unread: Vec<u8>,
    headers: VecDeque<Header>,
    ready: VecDeque<bool>,
    end: End,
}

impl Control {
    pub fn new(link: Link) -> Control {
        Control { link, unread: Vec::new(), headers: VecDeque::new(), ready: VecDeque::new(), end: End::Open }
    }

    /// Reads what is there; whether it was anything.
    fn look(&mut self) -> Outcome<bool> {
        let mut any = false;
        let mut bytes = [0u8; 512];
        while self.end == End::Open {
            match self.link.read(&mut bytes) {
                Moved::Bytes(n) => self.unread.extend(&bytes[..n]),
                Moved::Nothing => break,
                Moved::Gone(_) => self.end = End::Died,
            }
            any = true;
        }
        while let [kind, low, high, ..] = self.unread[..] {
            let length = usize::from(u16::from_le_bytes([low, high]));
            if length > MOST || self.headers.len() > AHEAD {
                return Err(format!("rank {} sent what is no message of this protocol", self.link.peer));
            }
            if self.unread.len() < 3 + length {
                break;
            }
            let payload: Vec<u8> = self.unread.drain(..3 + length).skip(3).collect();
            match kind {
                HEADER => self.headers.push_back(Header::received(&payload)),
                READY => self.ready.push_back(payload == [1]),
                ABORT => return Err(String::from_utf8_lossy(&payload).into_owned()),
                BYE => self.end = End::Left,
                _ => return Err(format!("rank {} sent what is no message of this protocol", self.link.peer)),
            }
        }
        Ok(any)
    }

    /// Sends a message; one that does not fit is for somebody who does not read any more.
    fn post(&self, bytes: &[u8]) {
        let begin = Instant::now();
        let mut rest = bytes;
        while !rest.is_empty() && begin.elapsed() < Duration::from_secs(1) {
            match self.link.write(rest) {
                Moved::Bytes(n) => rest = &rest[n..],
                Moved::Nothing => std::thread::sleep(Duration::from_millis(1)),
                Moved::Gone(_) => return,
            }
        }
    }

    /// Tells that something failed.
    pub fn abort(&self, why: &str) {
        self.post(&message(ABORT, why.as_bytes()));
    }

    /// Tells that this process ends.
    pub fn bye(&self) {
        self.post(&message(BYE, &[]));
    }

    /// Tells how far the ring stands.
    pub fn ready(&self, all: bool) {
        self.post(&message(READY, &[u8::from(all)]));
    }
}

/// What a wait listens to.
pub struct Watch<'a> {
    controls: Vec<&'a mut Control>,
    expected: Option<(usize, Header)>,
    agreed: Vec<bool>,
    /// How long nothing may happen.
    pub timeout: Duration,
}

impl<'a> Watch<'a> {
    /// Listens for failures alone.
    pub fn new(controls: impl Iterator<Item = &'a mut Control>, timeout: Duration) -> Watch<'a> {
        let controls: Vec<&mut Control> = controls.collect();
        let agreed = vec![true; controls.len()];
        Watch { controls, expected: None, agreed, timeout }
    }

    /// Tells all neighbours what this process does, and listens for them to say the same.
    pub fn expect(&mut self, rank: usize, header: Header) -> Outcome {
        let bytes = message_of(&header);
        self.controls.iter().for_each(|c| c.post(&bytes));
        self.agreed.fill(false);
        self.expected = Some((rank, header));
        self.look().map(|_| ())
    }

    /// Reads what neighbours said; whether they said anything.
    pub fn look(&mut self) -> Outcome<bool> {
        let mut any = false;
        for (control, agreed) in self.controls.iter_mut().zip(&mut self.agreed) {
            any |= control.look()?;
            let Some((rank, own)) = &self.expected else { continue };
            if *agreed {
                continue;
            }
            let peer = control.link.peer;
            match (control.headers.pop_front(), control.end) {
                (Some(header), _) => {
                    own.agrees(*rank, &header, peer)?;
                    *agreed = true;
                }
                (None, End::Open) => {}
                (None, End::Left) => return Err(format!("rank {peer} has ended before {}", own.text())),
                (None, End::Died) => return Err(format!("rank {peer} died before {}", own.text())),
            }
        }
        Ok(any)
    }

    /// Whether all neighbours said what they should.
    pub fn satisfied(&self) -> bool {
        self.agreed.iter().all(|&a| a)
    }

    /// A neighbour that said nothing.
    pub fn silent(&self) -> Option<usize> {
        self.agreed.iter().position(|&a| !a).map(|i| self.controls[i].link.peer)
    }

    /// Connections that may bring something.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.controls.iter().filter(|c| c.end == End::Open).map(|c| &c.link)
    }

    /// Fails if this neighbour has ended: nothing new comes from it.
    pub fn alive(&self, peer: usize) -> Outcome {
        match self.controls.iter().find(|c| c.link.peer == peer).map(|c| c.end) {
            Some(End::Left) => Err(format!("rank {peer} has ended")),
            Some(End::Died) => Err(format!("rank {peer} died")),
            Some(End::Open) | None => Ok(()),
        }
    }

    /// Waits for the next word of a neighbour on how far the ring stands.
    pub fn ready(&mut self) -> Outcome<bool> {
        let begin = Instant::now();
        loop {
            self.look()?;
            let Some(control) = self.controls.first_mut() else { return Ok(false) };
            if let Some(all) = control.ready.pop_front() {
                return Ok(all);
            }
            let peer = control.link.peer;
            self.alive(peer)?;
            if begin.elapsed() > self.timeout {
                return Err(format!("the ring beyond rank {peer} does not come up"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

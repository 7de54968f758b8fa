//! Where a process of a ring is reached, and how it reaches others. A thread for each address accepts for as long as the
//! process lives. Connections of MLX's ring carry no greeting: the first one to each address is the left neighbour's. All
//! others, and with MLX_RING_SECRET those too, begin with a greeting that says what they are for; with a secret both
//! sides prove that they know it (keyed BLAKE3 of both sides' random numbers), without it the proof is zeros.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::link::Link;
use crate::distributed::{Outcome, interrupted, lock};

const MAGIC: &[u8; 8] = b"MLXVKR01";
/// Bytes of a greeting: magic, purpose, index, rank, group, random number.
const GREETING: usize = 8 + 1 + 2 + 4 + 8 + 16;
/// Longest time that a greeting may take.
const GREETED: Duration = Duration::from_secs(10);
/// Greetings that may be under way at once.
const STRANGERS: usize = 64;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Purpose {
    Data = 1,
    Control = 2,
    Direct = 3,
}

/// What is known of a connection that came in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkKey {
    pub purpose: Purpose,
    /// Zero for the group of all.
    pub group: u64,
    pub index: u16,
    /// The process that connected.
    pub from: usize,
}

/// Who takes part, where, and what all of them know.
pub struct Endpoint {
    pub rank: usize,
    pub addresses: Vec<Vec<SocketAddr>>,
    pub timeout: Duration,
    pub verbose: bool,
    secret: Option<[u8; 32]>,
    arrived: Mutex<Arrived>,
    signal: Condvar,
    strangers: AtomicUsize,
}

#[derive(Default)]
struct Arrived {
    streams: HashMap<LinkKey, TcpStream>,
    /// The left neighbour is taken for one without a control connection: it comes too late now.
    raw: bool,
}

/// The answer to a connection.
pub enum Answer {
    Stands(TcpStream),
    /// The other side does not speak this protocol, or not any more.
    Stranger,
}

fn proof(secret: Option<&[u8; 32]>, who: &[u8], greeting: &[u8], random: &[u8]) -> [u8; 32] {
    let Some(secret) = secret else { return [0; 32] };
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(who).update(greeting).update(random);
    *hasher.finalize().as_bytes()
}

fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

fn random() -> Outcome<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| format!("no random numbers: {e}"))?;
    Ok(bytes)
}

impl Endpoint {
    /// Listens on the addresses of this process.
    pub fn open(
        rank: usize,
        addresses: Vec<Vec<SocketAddr>>,
        secret: Option<String>,
        timeout: Duration,
        verbose: bool,
    ) -> Outcome<Arc<Endpoint>> {
        let secret = secret.map(|s| blake3::derive_key("mlx-vulkan ring secret", s.as_bytes()));
        let mut listeners = Vec::new();
        for address in &addresses[rank] {
            let listener = TcpListener::bind(address)
                .map_err(|e| format!("rank {rank} cannot listen on its address {address}: {e}"))?;
            listeners.push(listener);
        }
        let endpoint = Arc::new(Endpoint {
            rank,
            addresses,
            timeout,
            verbose,
            secret,
            arrived: Mutex::default(),
            signal: Condvar::new(),
            strangers: AtomicUsize::new(0),
        });
        for (index, listener) in listeners.into_iter().enumerate() {
            let own = endpoint.clone();
            let run = move || own.accept(&listener, index as u16);
            let thread = std::thread::Builder::new().name(format!("mlx-ring-{index}"));
            thread.spawn(run).map_err(|e| format!("no thread for a listener: {e}"))?;
        }
        Ok(endpoint)
    }

    /// Whether every connection proves that it belongs here.
    pub fn is_closed(&self) -> bool {
        self.secret.is_some()
    }

    /// Tells the user, if that is wanted.
    pub fn say(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("[ring] Rank {}: {}", self.rank, what());
        }
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener, index: u16) {
        let left = (self.rank + self.addresses.len() - 1) % self.addresses.len();
        let mut first = self.secret.is_none();
        loop {
            let Ok((stream, from)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            self.say(|| format!("a connection from {from} on address {index}"));
            if std::mem::take(&mut first) {
                self.keep(LinkKey { purpose: Purpose::Data, group: 0, index, from: left }, stream);
                continue;
            }
            if self.strangers.fetch_add(1, Ordering::Relaxed) >= STRANGERS {
                self.strangers.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let own = self.clone();
            let greet = move || {
                if let Err(why) = own.greet(stream) {
                    own.say(|| format!("refused {from}: {why}"));
                }
                own.strangers.fetch_sub(1, Ordering::Relaxed);
            };
            if std::thread::Builder::new().name("mlx-ring-greet".into()).spawn(greet).is_err() {
                self.strangers.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn keep(&self, key: LinkKey, stream: TcpStream) -> bool {
        let mut arrived = lock(&self.arrived);
        if arrived.raw && key.group == 0 && key.purpose == Purpose::Control {
            return false;
        }
        arrived.streams.insert(key, stream);
        self.signal.notify_all();
        true
    }

    /// The other half of [`Endpoint::greeted`].
    fn greet(&self, mut stream: TcpStream) -> Outcome {
        let text = |e: std::io::Error| e.to_string();
        stream.set_read_timeout(Some(GREETED)).map_err(text)?;
        stream.set_write_timeout(Some(GREETED)).map_err(text)?;
        let mut greeting = [0; GREETING];
        stream.read_exact(&mut greeting).map_err(text)?;
        let (purpose, index, from, group) = match greeting {
            [b'M', b'L', b'X', b'V', b'K', b'R', b'0', b'1', p, i0, i1, r0, r1, r2, r3, ref rest @ ..] => {
                let group = rest.first_chunk().map_or(0, |g| u64::from_le_bytes(*g));
                (p, u16::from_le_bytes([i0, i1]), u32::from_le_bytes([r0, r1, r2, r3]) as usize, group)
            }
            _ => return Err("no greeting of this protocol".into()),
        };
        let purpose = match purpose {
            1 => Purpose::Data,
            2 => Purpose::Control,
            3 => Purpose::Direct,
            _ => return Err("no purpose of this protocol".into()),
        };
        if from >= self.addresses.len() {
            return Err(format!("there is no rank {from}"));
        }
        let random = random()?;
        let secret = self.secret.as_ref();
        stream.write_all(&random).map_err(text)?;
        stream.write_all(&proof(secret, b"accepts", &greeting, &random)).map_err(text)?;
        let mut theirs = [0; 32];
        stream.read_exact(&mut theirs).map_err(text)?;
        if !same(&theirs, &proof(secret, b"connects", &greeting, &random)) {
            let _ = stream.write_all(&[2]);
            return Err(format!("rank {from} has another MLX_RING_SECRET"));
        }
        let copy = stream.try_clone().map_err(text)?;
        let kept = self.keep(LinkKey { purpose, group, index, from }, copy);
        stream.write_all(&[u8::from(!kept)]).map_err(text)
    }

    /// Tells the other side what a connection is for, and proves to be of this group.
    fn greeted(&self, mut stream: TcpStream, to: usize, key: LinkKey) -> Outcome<Answer> {
        let mut greeting = MAGIC.to_vec();
        greeting.push(key.purpose as u8);
        greeting.extend(key.index.to_le_bytes());
        greeting.extend((key.from as u32).to_le_bytes());
        greeting.extend(key.group.to_le_bytes());
        greeting.extend(random()?);
        let secret = self.secret.as_ref();
        let mut talk = || -> std::io::Result<Option<u8>> {
            stream.set_read_timeout(Some(self.timeout))?;
            stream.write_all(&greeting)?;
            let (mut random, mut theirs, mut status) = ([0; 16], [0; 32], [0]);
            stream.read_exact(&mut random)?;
            stream.read_exact(&mut theirs)?;
            if !same(&theirs, &proof(secret, b"accepts", &greeting, &random)) {
                return Ok(None);
            }
            stream.write_all(&proof(secret, b"connects", &greeting, &random))?;
            stream.read_exact(&mut status)?;
            stream.set_read_timeout(None)?;
            Ok(Some(status[0]))
        };
        match talk() {
            Ok(Some(0)) => Ok(Answer::Stands(stream)),
            Ok(Some(1)) => Ok(Answer::Stranger),
            Ok(_) => Err(format!("rank {to} has another MLX_RING_SECRET than rank {}", self.rank)),
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                Err(format!("rank {to} does not answer within {} s", self.timeout.as_secs_f64()))
            }
            Err(_) => Ok(Answer::Stranger),
        }
    }

    fn address(&self, to: usize, index: u16) -> SocketAddr {
        let all = &self.addresses[to];
        all[usize::from(index) % all.len()]
    }

    /// Connects to a process, which may only be starting.
    pub fn connect(&self, to: usize, key: LinkKey) -> Outcome<Link> {
        let address = self.address(to, key.index);
        let begin = Instant::now();
        let mut pause = Duration::from_millis(5);
        let stream = loop {
            interrupted()?;
            let left = self.timeout.saturating_sub(begin.elapsed());
            match TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1))) {
                Ok(stream) => break stream,
                Err(e) if begin.elapsed() >= self.timeout => {
                    let (rank, seconds) = (self.rank, self.timeout.as_secs_f64());
                    return Err(format!(
                        "rank {rank} could not reach rank {to} at {address} within {seconds} s: {e}"
                    ));
                }
                Err(_) => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(Duration::from_millis(200));
        };
        self.say(|| format!("connected to rank {to} at {address}"));
        if key.purpose == Purpose::Data && key.group == 0 && self.secret.is_none() {
            return Link::new(stream, to);
        }
        match self.greeted(stream, to, key)? {
            Answer::Stands(stream) => Link::new(stream, to),
            Answer::Stranger => Err(format!("rank {to} does not answer as this library does")),
        }
    }

    /// The control connection to a process that was reached already; none where it is another library's.
    pub fn control(&self, to: usize, group: u64) -> Outcome<Option<Link>> {
        let key = LinkKey { purpose: Purpose::Control, group, index: 0, from: self.rank };
        let Ok(stream) = TcpStream::connect_timeout(&self.address(to, 0), self.timeout) else {
            return Ok(None);
        };
        match self.greeted(stream, to, key)? {
            Answer::Stands(stream) => Link::new(stream, to).map(Some),
            Answer::Stranger => Ok(None),
        }
    }

    /// Waits for a connection to come in; `None` if it does not.
    pub fn await_from(&self, key: LinkKey, timeout: Duration) -> Outcome<Option<Link>> {
        let begin = Instant::now();
        let mut arrived = lock(&self.arrived);
        loop {
            if let Some(stream) = arrived.streams.remove(&key) {
                return Link::new(stream, key.from).map(Some);
            }
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                if key.group == 0 && key.purpose == Purpose::Control {
                    arrived.raw = true;
                }
                return Ok(None);
            }
            interrupted()?;
            let left = left.min(Duration::from_millis(100));
            arrived = self.signal.wait_timeout(arrived, left).unwrap_or_else(|e| e.into_inner()).0;
        }
    }
}

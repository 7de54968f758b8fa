//! Connections that never block, and the loop that moves bytes over several of them at once. While it waits, it listens
//! to the neighbours' control connections, so that a failure elsewhere ends the wait.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::control::Watch;
use crate::core::Dtype;
use crate::distributed::reduce::accumulate;
use crate::distributed::{Outcome, Reduction};

/// Bytes that are reduced at once: they come from the kernel and stay in the cache.
const CHUNK: usize = 1 << 18;

/// How long one wait lasts at most before the clock is looked at.
const TICK: Duration = Duration::from_millis(50);

/// A connection to a process.
pub struct Link {
    stream: TcpStream,
    /// The process at the other end.
    pub peer: usize,
}

/// What a read or a write did.
pub enum Moved {
    Bytes(usize),
    Nothing,
    /// The other end is gone: why.
    Gone(String),
}

impl Link {
    /// Takes over a connection.
    pub fn new(stream: TcpStream, peer: usize) -> Outcome<Link> {
        let set = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
        set.map_err(|e| format!("The connection to rank {peer} cannot be used: {e}"))?;
        Ok(Link { stream, peer })
    }

    /// Reads what is there.
    pub fn read(&self, into: &mut [u8]) -> Moved {
        Link::moved((&self.stream).read(into), "it ended or died")
    }

    /// Writes what fits.
    pub fn write(&self, from: &[u8]) -> Moved {
        Link::moved((&self.stream).write(from), "nothing can be written")
    }

    fn moved(result: std::io::Result<usize>, nothing: &str) -> Moved {
        match result {
            Ok(0) => Moved::Gone(nothing.into()),
            Ok(n) => Moved::Bytes(n),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Moved::Nothing,
            Err(e) => Moved::Gone(e.to_string()),
        }
    }
}

/// One part of a transfer: ranges of bytes of the buffer that are sent and received at the same time.
pub struct Step {
    pub send: Range<usize>,
    pub recv: Range<usize>,
    /// Whether what comes in is reduced into what is there.
    pub reduce: bool,
}

/// Steps one after the other, over a connection out and one in.
pub struct Transfer<'a> {
    out: Option<&'a Link>,
    from: Option<&'a Link>,
    steps: Vec<Step>,
    at: usize,
    sent: usize,
    got: usize,
    scratch: Vec<u8>,
    filled: usize,
}

impl<'a> Transfer<'a> {
    pub fn new(out: Option<&'a Link>, from: Option<&'a Link>, steps: Vec<Step>) -> Transfer<'a> {
        Transfer { out, from, steps, at: 0, sent: 0, got: 0, scratch: Vec::new(), filled: 0 }
    }

    /// Sends these bytes of the buffer.
    pub fn send(out: &'a Link, range: Range<usize>) -> Transfer<'a> {
        Transfer::new(Some(out), None, vec![Step { send: range, recv: 0..0, reduce: false }])
    }

    /// Receives these bytes of the buffer.
    pub fn recv(from: &'a Link, range: Range<usize>) -> Transfer<'a> {
        Transfer::new(None, Some(from), vec![Step { send: 0..0, recv: range, reduce: false }])
    }

    fn wants_read(&self) -> bool {
        self.steps.get(self.at).is_some_and(|s| self.got < s.recv.len())
    }

    fn wants_write(&self) -> bool {
        self.steps.get(self.at).is_some_and(|s| self.sent < s.send.len())
    }

    /// Moves what can be moved now; whether that was anything.
    fn advance(&mut self, data: &mut Bytes, how: Option<(Reduction, Dtype)>) -> Outcome<bool> {
        let mut moved = false;
        while let Some(step) = self.steps.get(self.at) {
            let mut now = false;
            if let (Some(out), true) = (self.out, self.sent < step.send.len()) {
                let rest = &data.read()[step.send.start + self.sent..step.send.end];
                match out.write(rest) {
                    Moved::Bytes(n) => (self.sent, now) = (self.sent + n, true),
                    Moved::Nothing => {}
                    Moved::Gone(why) => return Err(gone(out, &why)),
                }
            }
            if let (Some(from), true) = (self.from, self.got < step.recv.len()) {
                let whole = step.recv.clone();
                match (step.reduce, how) {
                    (true, Some(how)) => now |= self.take_in(from, whole, data, how)?,
                    _ => match from.read(&mut data.write()[whole.start + self.got..whole.end]) {
                        Moved::Bytes(n) => (self.got, now) = (self.got + n, true),
                        Moved::Nothing => {}
                        Moved::Gone(why) => return Err(gone(from, &why)),
                    },
                }
            }
            moved |= now;
            if !self.wants_read() && !self.wants_write() {
                (self.at, self.sent, self.got) = (self.at + 1, 0, 0);
            } else if !now {
                break;
            }
        }
        Ok(moved)
    }

    /// Receives into the scratch, and reduces it once it is full or complete.
    fn take_in(
        &mut self,
        from: &Link,
        whole: Range<usize>,
        data: &mut Bytes,
        (how, dtype): (Reduction, Dtype),
    ) -> Outcome<bool> {
        let begin = self.got - self.filled;
        let size = (whole.len() - begin).min(CHUNK);
        self.scratch.resize(size.max(self.scratch.len()), 0);
        match from.read(&mut self.scratch[self.filled..size]) {
            Moved::Bytes(n) => {
                self.filled += n;
                self.got += n;
                if self.filled == size {
                    let into = &mut data.write()[whole.start + begin..whole.start + begin + size];
                    accumulate(how, dtype, into, &self.scratch[..size]);
                    self.filled = 0;
                }
                Ok(true)
            }
            Moved::Nothing => Ok(false),
            Moved::Gone(why) => Err(gone(from, &why)),
        }
    }
}

fn gone(link: &Link, why: &str) -> String {
    format!("rank {} closed the connection ({why})", link.peer)
}

/// What is sent or filled.
pub enum Bytes<'a> {
    Read(&'a [u8]),
    Write(&'a mut [u8]),
}

impl Bytes<'_> {
    fn read(&self) -> &[u8] {
        match self {
            Bytes::Read(b) => b,
            Bytes::Write(b) => b,
        }
    }

    fn write(&mut self) -> &mut [u8] {
        match self {
            Bytes::Read(_) => &mut [],
            Bytes::Write(b) => b,
        }
    }
}

/// Moves bytes until all transfers are done and the neighbours said that they do the same.
pub fn run(
    transfers: &mut [Transfer],
    mut data: Bytes,
    how: Option<(Reduction, Dtype)>,
    watch: &mut Watch,
) -> Outcome {
    let mut since = Instant::now();
    loop {
        let mut moved = watch.look()?;
        for t in transfers.iter_mut() {
            // A neighbour that failed told why before it ended.
            moved |= t.advance(&mut data, how).map_err(|e| watch.look().err().unwrap_or(e))?;
        }
        if watch.satisfied() && transfers.iter().all(|t| t.at == t.steps.len()) {
            return Ok(());
        }
        if moved {
            since = Instant::now();
            continue;
        }
        if since.elapsed() > watch.timeout {
            let silent = transfers.iter().filter(|t| t.wants_read()).find_map(|t| t.from);
            let silent = silent.or_else(|| transfers.iter().filter(|t| t.wants_write()).find_map(|t| t.out));
            let peer = silent.map(|l| l.peer).or_else(|| watch.silent());
            let peer = peer.map_or("another process".into(), |p| format!("rank {p}"));
            return Err(format!("nothing came from {peer} within {} s", watch.timeout.as_secs_f64()));
        }
        sleep(transfers, watch);
    }
}

/// Sleeps until a connection is ready, at most a tick.
#[cfg(unix)]
fn sleep(transfers: &[Transfer], watch: &Watch) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds: Vec<PollFd> = Vec::new();
    for t in transfers {
        if let (Some(l), true) = (t.from, t.wants_read()) {
            fds.push(PollFd::new(&l.stream, PollFlags::IN));
        }
        if let (Some(l), true) = (t.out, t.wants_write()) {
            fds.push(PollFd::new(&l.stream, PollFlags::OUT));
        }
    }
    fds.extend(watch.links().map(|l| PollFd::new(&l.stream, PollFlags::IN)));
    let tick = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as i64 };
    // An interrupted sleep is a short one.
    let _ = poll(&mut fds, Some(&tick));
}

/// Sleeps for a moment.
#[cfg(not(unix))]
fn sleep(_: &[Transfer], _: &Watch) {
    std::thread::sleep(TICK / 500);
}

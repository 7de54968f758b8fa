//! Files that processes of one machine and one user hand to each other, over sockets that have a name of their own and no file.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};

use crate::distributed::{Outcome, interrupted};

/// Bytes of a name, which is by chance.
pub const NAME: usize = 16;
/// How often who waits looks.
const TICK: Duration = Duration::from_millis(1);

/// Where others may ask for a file.
pub struct Counter {
    listener: UnixListener,
    name: [u8; NAME],
}

fn address(name: &[u8]) -> Outcome<SocketAddr> {
    let mut full = b"mlx-bridge-".to_vec();
    full.extend(name);
    SocketAddr::from_abstract_name(full).map_err(|e| e.to_string())
}

/// Fails for a process of another user.
fn checked(stream: &UnixStream) -> Outcome {
    let other = sockopt::socket_peercred(stream).map_err(|e| e.to_string())?;
    match other.uid == rustix::process::geteuid() {
        true => Ok(()),
        false => Err("the other process is another user's".into()),
    }
}

impl Counter {
    /// A new one.
    pub fn new() -> Outcome<Counter> {
        let text = |e: std::io::Error| e.to_string();
        let mut name = [0; NAME];
        getrandom::fill(&mut name).map_err(|e| e.to_string())?;
        let listener = UnixListener::bind_addr(&address(&name)?).map_err(text)?;
        listener.set_nonblocking(true).map_err(text)?;
        Ok(Counter { listener, name })
    }

    /// What the others are told.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Hands a file to all others, and gets theirs: by place, none for this process.
    pub fn exchange(
        &self,
        file: &OwnedFd,
        names: &[Vec<u8>],
        me: usize,
        timeout: Duration,
    ) -> Outcome<Vec<Option<OwnedFd>>> {
        let (begin, text) = (Instant::now(), |e: std::io::Error| e.to_string());
        let mut asked = Vec::new();
        for (place, name) in names.iter().enumerate() {
            if place == me {
                asked.push(None);
                continue;
            }
            let stream = UnixStream::connect_addr(&address(name)?).map_err(text)?;
            checked(&stream)?;
            stream.set_read_timeout(Some(timeout)).map_err(text)?;
            asked.push(Some(stream));
        }
        for _ in 1..names.len() {
            let stream = loop {
                match self.listener.accept() {
                    Ok((stream, _)) if checked(&stream).is_ok() => break stream,
                    Ok(_) => {}
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => std::thread::sleep(TICK),
                    Err(e) => return Err(e.to_string()),
                }
                interrupted()?;
                if begin.elapsed() > timeout {
                    return Err("a process did not ask for its file".into());
                }
            };
            give(&stream, file)?;
        }
        asked.iter().map(|stream| stream.as_ref().map(take).transpose()).collect()
    }
}

fn give(stream: &UnixStream, file: &OwnedFd) -> Outcome {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&files));
    let sent = sendmsg(stream, &[IoSlice::new(&[1])], &mut control, SendFlags::NOSIGNAL);
    sent.map(drop).map_err(|e| e.to_string())
}

fn take(stream: &UnixStream) -> Outcome<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC).map_err(|e| e.to_string())?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut files) = message
            && let Some(file) = files.next()
        {
            return Ok(file);
        }
    }
    Err("no file came".into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn each_gets_the_files_of_all_others() {
        let counters: Vec<Counter> = (0..3).map(|_| Counter::new().unwrap()).collect();
        let names: Vec<Vec<u8>> = counters.iter().map(|c| c.name().to_vec()).collect();
        std::thread::scope(|s| {
            for (me, counter) in counters.iter().enumerate() {
                let names = &names;
                s.spawn(move || {
                    let mut own = tempfile::tempfile().unwrap();
                    own.write_all(&[me as u8; 3]).unwrap();
                    let all = counter.exchange(&own.into(), names, me, Duration::from_secs(20)).unwrap();
                    for (place, file) in all.into_iter().enumerate() {
                        assert_eq!(file.is_none(), place == me);
                        let Some(file) = file else { continue };
                        let (mut file, mut bytes) = (std::fs::File::from(file), Vec::new());
                        // The place in the file is shared with who wrote it.
                        file.rewind().unwrap();
                        file.read_to_end(&mut bytes).unwrap();
                        assert!(bytes.iter().all(|&b| b == place as u8));
                    }
                });
            }
        });
    }

    #[test]
    fn who_does_not_come_is_not_waited_for_longer_than_the_time() {
        let counters = [Counter::new().unwrap(), Counter::new().unwrap()];
        let names: Vec<Vec<u8>> = counters.iter().map(|c| c.name().to_vec()).collect();
        let own = tempfile::tempfile().unwrap().into();
        assert!(counters[0].exchange(&own, &names, 0, Duration::from_millis(30)).is_err());
        let nobody = [names[0].clone(), vec![7; NAME]];
        assert!(counters[0].exchange(&own, &nobody, 0, Duration::from_millis(30)).is_err());
    }
}

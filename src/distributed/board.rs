//! A board: memory that the processes of a group on one machine share. Each writes what it has to say in a place of its
//! own, and all look at the places of the others. That takes microseconds where a message over TCP or a call of NCCL takes
//! tens. The memory has no name: who made it tells its number, and the others open it through the process's folder in
//! `/proc`. Where that cannot be (another machine, another user, no such folder), there is no board.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::Outcome;
use super::header::HEADER;

/// Most bytes of data that go with a header.
pub const ROOM: usize = 256 << 10;
/// Bytes before what is said: how often its process has spoken, and the length of the data.
const FRONT: usize = 64;
/// Bytes of a place.
const PLACE: usize = (FRONT + HEADS + ROOM).next_multiple_of(4096);
/// Bytes for a header and what follows it at once.
const HEADS: usize = (HEADER + 1).next_multiple_of(64);
/// Bytes by which the memory is known.
const NONCE: usize = 16;
/// Bytes before the places.
const TOP: usize = 4096;

/// What a process said: a header, and data.
pub struct Said<'a> {
    pub header: &'a [u8],
    pub data: &'a [u8],
}

/// The board of a group, as one of its processes has it.
pub struct Board {
    memory: *mut u8,
    bytes: usize,
    members: usize,
    me: usize,
    /// How often this process has spoken. The places of even and of odd turns are apart: who speaks for the second time
    /// has heard everybody once since, so that nobody looks at what was said before any more.
    turn: u64,
}

// SAFETY: the memory belongs to the board, and is changed by `say` alone, which takes it exclusively.
unsafe impl Send for Board {}

/// How a board is found: the process and number of its file, and the bytes that it begins with.
pub struct Invitation {
    text: Vec<u8>,
    // Open until everybody has come.
    _file: OwnedFd,
}

impl Invitation {
    /// What the others are told.
    pub fn text(&self) -> &[u8] {
        &self.text
    }
}

/// Memory that has no name.
#[cfg(target_os = "linux")]
fn unnamed(bytes: usize) -> Outcome<OwnedFd> {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    let file = memfd_create("mlx-board", MemfdFlags::CLOEXEC).map_err(|e| e.to_string())?;
    ftruncate(&file, bytes as u64).map_err(|e| e.to_string())?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: usize) -> Outcome<OwnedFd> {
    Err("this system shares no memory without a name".into())
}

fn size(members: usize) -> usize {
    TOP + members * 2 * PLACE
}

impl Board {
    /// A new board for so many processes, of which the caller is one.
    pub fn new(members: usize, me: usize) -> Outcome<(Board, Invitation)> {
        let file = unnamed(size(members))?;
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|e| e.to_string())?;
        let board = Board::map(&file, members, me)?;
        // SAFETY: the first bytes of the memory, which nobody else knows yet.
        unsafe { std::ptr::copy_nonoverlapping(nonce.as_ptr(), board.memory, NONCE) };
        let mut text = u64::from(std::process::id()).to_le_bytes().to_vec();
        text.extend(file.as_raw_fd().to_le_bytes());
        text.extend(nonce);
        Ok((board, Invitation { text, _file: file }))
    }

    /// The board that another process made.
    pub fn join(invitation: &[u8], members: usize, me: usize) -> Outcome<Board> {
        let broken = || "what came in is no invitation to a board".to_string();
        let (process, rest) = invitation.split_first_chunk().ok_or_else(broken)?;
        let (number, nonce) = rest.split_first_chunk().ok_or_else(broken)?;
        let path = format!("/proc/{}/fd/{}", u64::from_le_bytes(*process), i32::from_le_bytes(*number));
        let text = |e: std::io::Error| format!("{path}: {e}");
        // On another machine the name may be that of anything.
        let what = std::fs::metadata(&path).map_err(text)?;
        if !what.is_file() || what.len() != size(members) as u64 || nonce.len() != NONCE {
            return Err(format!("{path} is no board of {members} processes"));
        }
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file: File =
            OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path).map_err(text)?;
        let board = Board::map(&file, members, me)?;
        // SAFETY: the memory has that many bytes, which nobody changes any more.
        let found = unsafe { std::slice::from_raw_parts(board.memory, NONCE) };
        if found == nonce { Ok(board) } else { Err(format!("{path} is another board")) }
    }

    fn map(file: impl AsFd, members: usize, me: usize) -> Outcome<Board> {
        let (bytes, access) = (size(members), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, at no address in particular, of a file that has so many bytes.
        let memory = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) };
        let memory = memory.map_err(|e| e.to_string())?.cast();
        Ok(Board { memory, bytes, members, me, turn: 0 })
    }

    /// The place of a process in this turn.
    fn place(&self, member: usize) -> *mut u8 {
        debug_assert!(member < self.members);
        let place = 2 * member + (self.turn % 2) as usize;
        // SAFETY: inside the memory.
        unsafe { self.memory.add(TOP + place * PLACE) }
    }

    /// How often a process has spoken, as its place of this turn has it.
    fn spoken(&self, member: usize) -> &AtomicU64 {
        // SAFETY: the first bytes of a place are that number, aligned and used as an atomic by everybody.
        unsafe { AtomicU64::from_ptr(self.place(member).cast()) }
    }

    /// Says something, which all have to do before anybody can say the next thing. Data of more than [`ROOM`] bytes and
    /// longer headers are cut.
    pub fn say(&mut self, header: &[u8], data: &[u8]) {
        self.turn += 1;
        let (heads, length) = (header.len().min(HEADS), data.len().min(ROOM));
        let place = self.place(self.me);
        // SAFETY: this process's place, at which nobody looks before the number is stored; it has room for both.
        unsafe {
            place.add(8).cast::<u64>().write(heads as u64);
            place.add(16).cast::<u64>().write(length as u64);
            std::ptr::copy_nonoverlapping(header.as_ptr(), place.add(FRONT), heads);
            std::ptr::copy_nonoverlapping(data.as_ptr(), place.add(FRONT + HEADS), length);
        }
        self.spoken(self.me).store(self.turn, Ordering::Release);
    }

    /// Processes that have not spoken in this turn.
    pub fn missing(&self) -> impl Iterator<Item = usize> {
        (0..self.members).filter(|&m| self.spoken(m).load(Ordering::Acquire) != self.turn)
    }

    /// What a process that is not missing has said in this turn.
    pub fn heard(&self, member: usize) -> Said<'_> {
        debug_assert!(self.missing().all(|m| m != member));
        let place = self.place(member);
        // SAFETY: a place holds two lengths, and as many bytes as these may be at most. Its process changes nothing there
        // before this one has spoken again, for which it needs the board exclusively.
        unsafe {
            let [heads, length] = [8, 16].map(|at| place.add(at).cast::<u64>().read());
            let part = |at, n: u64, most| std::slice::from_raw_parts(place.add(at), (n as usize).min(most));
            Said { header: part(FRONT, heads, HEADS), data: part(FRONT + HEADS, length, ROOM) }
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the mapping of this board, at which nobody looks any more.
        let _ = unsafe { munmap(self.memory.cast(), self.bytes) };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_each_says_is_heard_by_all_turn_after_turn() {
        let (first, invitation) = Board::new(3, 0).unwrap();
        let text = invitation.text();
        let mut boards = vec![first];
        boards.extend((1..3).map(|me| Board::join(text, 3, me).unwrap()));
        std::thread::scope(|s| {
            for (me, mut board) in boards.into_iter().enumerate() {
                s.spawn(move || {
                    for turn in 0..2000usize {
                        let own = vec![(me + turn) as u8; (turn * 37) % 5000];
                        board.say(&[me as u8, 7], &own);
                        while board.missing().next().is_some() {
                            std::thread::yield_now();
                        }
                        for other in 0..3 {
                            let said = board.heard(other);
                            assert_eq!(said.header, [other as u8, 7]);
                            assert_eq!(said.data.len(), own.len());
                            assert!(said.data.iter().all(|&b| b == (other + turn) as u8));
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn other_memory_is_no_board() {
        let (_board, invitation) = Board::new(2, 0).unwrap();
        let text = invitation.text();
        assert!(Board::join(text, 3, 1).is_err(), "of another size");
        for end in 0..text.len() {
            assert!(Board::join(&text[..end], 2, 1).is_err(), "{end}");
        }
        let mut other = text.to_vec();
        *other.last_mut().unwrap() ^= 1;
        assert!(Board::join(&other, 2, 1).is_err(), "with another beginning");
        let mut other = text.to_vec();
        other[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Board::join(&other, 2, 1).is_err(), "of no process");
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let (mut board, _invitation) = Board::new(1, 0).unwrap();
        board.say(&[1; 4 * HEADS], &vec![2; ROOM + 9]);
        assert!(board.missing().next().is_none());
        let said = board.heard(0);
        assert_eq!((said.header.len(), said.data.len()), (HEADS, ROOM));
        // Lengths that another process wrote are believed as far as the place goes.
        // SAFETY: the second length of the own place.
        unsafe { board.place(0).add(16).cast::<u64>().write(u64::MAX) };
        assert_eq!(board.heard(0).data.len(), ROOM);
    }
}

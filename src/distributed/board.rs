//! A board: memory that the processes of a group on one machine share. Each writes what it has to say in a place of its
//! own, and all look at the places of the others. That takes microseconds where a message over TCP or a call of NCCL takes
//! tens. The memory has no name: who made it tells its number, and the others open it through the process's folder in
//! `/proc`. Where that cannot be (another machine, another user, no such folder), there is no board.

use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
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
/// Entries of a process that may not be compared yet.
const ENTRIES: u64 = 256;
/// Bytes of a process's ledger.
const LEDGER: usize = (192 + ENTRIES as usize * HEADS).next_multiple_of(4096);

/// What a process said: a header, and data.
pub struct Said<'a> {
    pub header: &'a [u8],
    pub data: &'a [u8],
}

/// Memory that the processes share.
struct Mapping {
    memory: *mut u8,
    bytes: usize,
}

// SAFETY: memory of the process; what is written there is ordered by numbers in it.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping, at which nobody looks any more.
        let _ = unsafe { munmap(self.memory.cast(), self.bytes) };
    }
}

/// The board of a group, as one of its processes has it.
pub struct Board {
    shared: Arc<Mapping>,
    members: usize,
    me: usize,
    /// How often this process has spoken. The places of even and of odd turns are apart: who speaks for the second time
    /// has heard everybody once since, so that nobody looks at what was said before any more.
    turn: u64,
}

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
    ledger_of(members, members)
}

/// Where a process's ledger begins, behind the places.
fn ledger_of(member: usize, members: usize) -> usize {
    TOP + members * 2 * PLACE + member * LEDGER
}

impl Board {
    /// A new board for so many processes, of which the caller is one.
    pub fn new(members: usize, me: usize) -> Outcome<(Board, Invitation)> {
        let file = unnamed(size(members))?;
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|e| e.to_string())?;
        let board = Board::map(&file, members, me)?;
        // SAFETY: the first bytes of the memory, which nobody else knows yet.
        unsafe { std::ptr::copy_nonoverlapping(nonce.as_ptr(), board.shared.memory, NONCE) };
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
        let found = unsafe { std::slice::from_raw_parts(board.shared.memory, NONCE) };
        if found == nonce { Ok(board) } else { Err(format!("{path} is another board")) }
    }

    fn map(file: impl AsFd, members: usize, me: usize) -> Outcome<Board> {
        let (bytes, access) = (size(members), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, at no address in particular, of a file that has so many bytes.
        let memory = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) };
        let memory = memory.map_err(|e| e.to_string())?.cast();
        Ok(Board { shared: Arc::new(Mapping { memory, bytes }), members, me, turn: 0 })
    }

    /// The place of a process in this turn.
    fn place(&self, member: usize) -> *mut u8 {
        debug_assert!(member < self.members);
        let place = 2 * member + (self.turn % 2) as usize;
        // SAFETY: inside the memory.
        unsafe { self.shared.memory.add(TOP + place * PLACE) }
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

/// What the processes of a board begin one after the other without waiting for each other: each writes down what it is about,
/// and all compare later.
pub struct Ledger {
    shared: Arc<Mapping>,
    members: usize,
    me: usize,
}

impl Board {
    /// The ledger on the board.
    pub fn ledger(&self) -> Ledger {
        Ledger { shared: self.shared.clone(), members: self.members, me: self.me }
    }
}

impl Ledger {
    /// One of a process's numbers: how many entries it wrote, how many it has compared, and whether it failed.
    fn number(&self, member: usize, which: usize) -> &AtomicU64 {
        debug_assert!(member < self.members && which < 3);
        // SAFETY: inside the memory, aligned, used as an atomic by everybody.
        unsafe {
            AtomicU64::from_ptr(self.shared.memory.add(ledger_of(member, self.members) + 64 * which).cast())
        }
    }

    fn entry(&self, member: usize, number: u64) -> *mut u8 {
        let at = ledger_of(member, self.members) + 192 + (number % ENTRIES) as usize * HEADS;
        // SAFETY: inside the memory.
        unsafe { self.shared.memory.add(at) }
    }

    /// Whether there is room for an entry: all have compared the one whose place it takes.
    pub fn has_room(&self, number: u64) -> bool {
        (0..self.members).all(|m| self.number(m, 1).load(Ordering::Acquire) + ENTRIES > number)
    }

    /// Writes the entry with this number, one behind the last, for which there is room.
    pub fn write(&self, number: u64, entry: &[u8]) {
        debug_assert!(self.has_room(number));
        let length = entry.len().min(HEADS);
        // SAFETY: a place of this process that nobody looks at before the number is stored; all of it is written.
        unsafe {
            let at = self.entry(self.me, number);
            at.write_bytes(0, HEADS);
            std::ptr::copy_nonoverlapping(entry.as_ptr(), at, length);
        }
        self.number(self.me, 0).store(number + 1, Ordering::Release);
    }

    /// The processes that have not written the entry with this number.
    pub fn missing(&self, number: u64) -> impl Iterator<Item = usize> {
        (0..self.members).filter(move |&m| self.number(m, 0).load(Ordering::Acquire) <= number)
    }

    /// An entry of a process that has written it, before this process says that it was compared.
    pub fn read(&self, member: usize, number: u64) -> [u8; HEADER] {
        let mut entry = [0; HEADER];
        // SAFETY: a place of so many bytes, which is not written again before this process has compared it.
        unsafe { std::ptr::copy_nonoverlapping(self.entry(member, number), entry.as_mut_ptr(), HEADER) };
        entry
    }

    /// All entries before this one were compared.
    pub fn compared(&self, number: u64) {
        self.number(self.me, 1).store(number, Ordering::Release);
    }

    /// This process has failed. What it writes to memory of others from now on is no result.
    pub fn fail(&self) {
        self.number(self.me, 2).store(1, Ordering::SeqCst);
    }

    /// A process that has failed.
    pub fn failed(&self) -> Option<usize> {
        (0..self.members).find(|&m| self.number(m, 2).load(Ordering::SeqCst) != 0)
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
    fn entries_are_compared_before_they_are_written_again() {
        let (first, invitation) = Board::new(2, 0).unwrap();
        let second = Board::join(invitation.text(), 2, 1).unwrap();
        let ledgers = [first.ledger(), second.ledger()];
        drop((first, second));
        std::thread::scope(|s| {
            for (me, ledger) in ledgers.iter().enumerate() {
                s.spawn(move || {
                    let mut compared = 0;
                    let last = 5 * ENTRIES;
                    for number in 0..=last {
                        while compared < last && (number == last || !ledger.has_room(number)) {
                            if ledger.missing(compared).next().is_none() {
                                let said = ledger.read(1 - me, compared);
                                assert_eq!(said[..8], compared.to_le_bytes());
                                assert_eq!(said[8], 1 - me as u8);
                                compared += 1;
                                ledger.compared(compared);
                            }
                            std::thread::yield_now();
                        }
                        if number < last {
                            let mut entry = number.to_le_bytes().to_vec();
                            entry.push(me as u8);
                            ledger.write(number, &entry);
                        }
                    }
                });
            }
        });
        assert_eq!(ledgers[0].failed(), None);
        ledgers[0].fail();
        assert_eq!(ledgers[1].failed(), Some(0));
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

//! How the processes of a group meet before data moves: on the board that they share on one machine, where small arrays
//! are exchanged at once, or at the hub.

use std::time::{Duration, Instant};

use super::{Communicator, FORMING, State, reduced};
use crate::core::event::Spin;
use crate::distributed::board::{Board, Invitation, ROOM};
use crate::distributed::header::{HEADER, Header};
use crate::distributed::nccl::hub::{Meeting, Post};
use crate::distributed::nccl::shared::is_large;
use crate::distributed::{Ends, Exchange, Outcome, Reduction, SHARED_MEMORY, Subject, interrupted};

/// How long who waits at the board looks before it sleeps, and how long it sleeps each time.
const LOOK: Duration = Duration::from_millis(2);
const PAUSE: Duration = Duration::from_micros(20);

/// What a process says when it meets others.
fn words(about: &Header, on_gpu: bool) -> Vec<u8> {
    let mut words = about.block().to_vec();
    words.push(u8::from(on_gpu));
    words
}

impl Communicator {
    /// The board that the first process made, if all can look at it.
    pub(super) fn board(
        post: &Post,
        id: u64,
        members: &[usize],
        me: usize,
        invitation: &[u8],
        made: Option<(Board, Invitation)>,
    ) -> Outcome<Option<Board>> {
        if invitation.is_empty() {
            return Ok(None);
        }
        let (board, _invitation) = match made {
            Some((board, invitation)) => (Some(board), Some(invitation)),
            None if SHARED_MEMORY.switch() == Some(false) => (None, None),
            None => (Board::join(invitation, members.len(), me).ok(), None),
        };
        let said = vec![u8::from(board.is_some())];
        let all = post.meet(&Meeting { key: [id, FORMING - 1], members, place: me }, said)?;
        Ok(board.filter(|_| all.iter().all(|said| said[..] == [1])))
    }

    /// Whether the bytes of all are on a GPU, by what they said; fails where they are about different things.
    fn agree<'a>(&self, own: &Header, all: impl Iterator<Item = (usize, &'a [u8])>) -> Outcome<bool> {
        let (me, mut on_gpu) = (self.members[self.me], true);
        for (rank, said) in all {
            if rank != me {
                own.agrees(me, &Header::received(said), rank)?;
            }
            on_gpu &= said.get(HEADER) == Some(&1);
        }
        Ok(on_gpu)
    }

    /// All meet at the hub, as [`Communicator::agree`].
    fn meet_at(&self, at: &Meeting, own: &Header, on_gpu: bool) -> Outcome<bool> {
        let all = self.post.meet(at, words(own, on_gpu))?;
        self.agree(own, at.members.iter().copied().zip(all.iter().map(Vec::as_slice)))
    }

    /// The processes of an operation meet: on the board where there is one, which has all data of small arrays too.
    pub(super) fn meet(
        &self,
        state: &mut State,
        name: &str,
        about: Subject,
        on_gpu: bool,
        data: &[u8],
    ) -> Outcome<bool> {
        let header = Header::new(state.operations, name, about);
        let key = self.key(state.operations);
        state.operations += 1;
        let Some(board) = &mut state.board else {
            let at = Meeting { key, members: &self.members, place: self.me };
            return self.meet_at(&at, &header, on_gpu);
        };
        board.say(&words(&header, on_gpu), data);
        self.await_all(board)?;
        self.agree(&header, self.members.iter().enumerate().map(|(m, &rank)| (rank, board.heard(m).header)))
    }

    /// Waits until all have spoken.
    fn await_all(&self, board: &Board) -> Outcome {
        let all = || board.missing().next().is_none();
        if Spin::at_atomic(LOOK).until(all) {
            return Ok(());
        }
        let begin = Instant::now();
        loop {
            interrupted()?;
            let failure = self.post.failure(self.id, &self.members, true);
            // Whoever ended may have spoken before.
            if all() {
                return Ok(());
            }
            failure?;
            if begin.elapsed() > self.post.timeout {
                return Err(self.post.nothing_from(board.missing().map(|m| self.members[m])));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The two processes of a message meet.
    pub(super) fn meet_one(
        &self,
        state: &mut State,
        about: Subject,
        (other, sends): (usize, bool),
        on_gpu: bool,
    ) -> Outcome<bool> {
        let (from, to) = if sends { (self.me, other) } else { (other, self.me) };
        let number = state.messages.entry((from, to)).or_default();
        let key = self.key(1 << 63 | (from as u64) << 45 | (to as u64) << 27 | (*number & ((1 << 27) - 1)));
        *number += 1;
        let members = [self.members[from], self.members[to]];
        let (place, name) = if sends { (0, "send") } else { (1, "recv") };
        self.meet_at(&Meeting { key, members: &members, place }, &Header::new(0, name, about), on_gpu)
    }

    /// An operation on small arrays: each process writes its data on the board, and all come to the same result by
    /// themselves, in the same order.
    pub(super) fn on_board(
        &self,
        state: &mut State,
        what: Exchange,
        about: Subject,
        ends: &mut dyn Ends,
    ) -> Outcome {
        let (input, output) = ends.on_host().map_err(|e| e.to_string())?;
        self.meet(state, what.operation(), about, false, input)?;
        let Some(board) = &state.board else { return Err("there is no board".into()) };
        let said: Vec<&[u8]> = (0..self.members.len()).map(|m| board.heard(m).data).collect();
        if said.iter().any(|data| data.len() != input.len()) {
            return Err("what came over the board is of another length".into());
        }
        match what {
            Exchange::Gather => {
                said.iter().enumerate().for_each(|(m, data)| {
                    output[m * data.len()..][..data.len()].copy_from_slice(data);
                });
            }
            Exchange::Reduce(how) => reduced(how, about.dtype, output, said.into_iter()),
            Exchange::SumScatter => {
                let own = self.me * output.len()..(self.me + 1) * output.len();
                reduced(Reduction::Sum, about.dtype, output, said.into_iter().map(|d| &d[own.clone()]));
            }
            Exchange::Send(_) | Exchange::Recv(_) => return Err("messages are not for all".into()),
        }
        Ok(())
    }

    /// Whether such an operation goes over the board, if there is one: every process comes to the same.
    pub(super) fn is_small(&self, what: Exchange, about: Subject) -> bool {
        let bytes = about.bytes();
        let all = !matches!(what, Exchange::Send(_) | Exchange::Recv(_));
        all && bytes <= ROOM && !is_large(what, about, self.members.len())
    }
}

//! Where processes meet before data moves: all connect to the first one (NCCL_HOST_IP, NCCL_PORT), whose hub hands on
//! what each has to say once all of a group are there. So identifiers of NCCL get around, different programs are
//! noticed, and whoever is late or dies is known by name while NCCL itself would only wait.

use std::collections::HashMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::wire::{MeetingKey, Message};
use crate::distributed::{Outcome, interrupted, lock};

/// How long one wait lasts at most before signals are looked for.
const TICK: Duration = Duration::from_millis(50);

/// How a process is gone that needed nothing more.
const ENDED: &str = "has ended";

/// A meeting that is not complete: who came, and what they said.
type Came = Vec<Option<(usize, Vec<u8>)>>;

/// The first process's side.
#[derive(Default)]
struct Hub {
    clients: Vec<Option<TcpStream>>,
    /// Processes that will not send anything more.
    over: Vec<bool>,
    meetings: HashMap<MeetingKey, Came>,
}

impl Hub {
    fn tell(&self, rank: usize, message: &Message) {
        if let Some(Some(client)) = self.clients.get(rank) {
            // One that is gone is noticed by who reads from it.
            let _ = message.write(client);
        }
    }

    fn tell_all(&self, message: &Message) {
        (0..self.clients.len()).for_each(|r| self.tell(r, message));
    }

    fn take(&mut self, from: usize, message: Message) -> Outcome {
        match message {
            Message::Meet(key, place, count, said) => {
                let (place, count) = (place as usize, count as usize);
                if place >= count || count > self.clients.len() {
                    return Err("no such place".into());
                }
                let came = self.meetings.entry(key).or_insert_with(|| vec![None; count]);
                if came.len() != count || came[place].is_some() {
                    return Err("the place is taken".into());
                }
                came[place] = Some((from, said));
                if came.iter().all(Option::is_some) {
                    let all = self.meetings.remove(&key).unwrap_or_default();
                    let (ranks, said): (Vec<usize>, Vec<Vec<u8>>) = all.into_iter().flatten().unzip();
                    let message = Message::Met(key, said);
                    ranks.iter().for_each(|&r| self.tell(r, &message));
                }
            }
            Message::Ask(key) => {
                let open = self.meetings.get(&key).map_or(&[][..], Vec::as_slice);
                let missing = (0..open.len()).filter(|&p| open[p].is_none()).map(|p| p as u64).collect();
                self.tell(from, &Message::Missing(key, missing));
            }
            Message::Failed(_, group, why) => self.tell_all(&Message::Failed(from as u64, group, why)),
            Message::Left(_) => {
                self.over[from] = true;
                self.tell_all(&Message::Left(from as u64));
            }
            Message::Hello(_) | Message::Met(..) | Message::Missing(..) | Message::Lost(_) => {
                return Err("a process does not say that".into());
            }
        }
        Ok(())
    }
}

/// Accepts the processes, one after the other; strangers and second ones are turned away.
fn serve(listener: &TcpListener, hub: &Arc<Mutex<Hub>>, timeout: Duration) {
    for stream in listener.incoming().flatten() {
        let hub = hub.clone();
        let spawned = std::thread::Builder::new().name("mlx-hub".into()).spawn(move || {
            let _ = attend(&stream, &hub, timeout);
            let _ = stream.shutdown(Shutdown::Both);
        });
        if spawned.is_err() {
            return;
        }
    }
}

/// Looks after one process to its end.
fn attend(stream: &TcpStream, hub: &Mutex<Hub>, timeout: Duration) -> Outcome {
    let text = |e: std::io::Error| e.to_string();
    stream.set_nodelay(true).map_err(text)?;
    stream.set_read_timeout(Some(timeout)).map_err(text)?;
    stream.set_write_timeout(Some(timeout)).map_err(text)?;
    let Message::Hello(rank) = Message::read(stream)? else { return Err("a stranger".into()) };
    let rank = rank as usize;
    stream.set_read_timeout(None).map_err(text)?;
    {
        let mut hub = lock(hub);
        match hub.clients.get_mut(rank) {
            Some(place @ None) => *place = Some(stream.try_clone().map_err(text)?),
            Some(Some(_)) | None => return Err(format!("there is no rank {rank}, or two")),
        }
        // Answered with the same, so that nothing else is taken for a hub.
        Message::Hello(rank as u64).write(stream)?;
    }
    let end = loop {
        let message = Message::read(stream);
        if let Err(why) = message.and_then(|m| lock(hub).take(rank, m)) {
            break why;
        }
    };
    let mut hub = lock(hub);
    if !std::mem::replace(&mut hub.over[rank], true) {
        hub.tell_all(&Message::Lost(rank as u64));
    }
    Err(end)
}

/// What has come in from the hub.
#[derive(Default)]
struct Inbox {
    met: HashMap<MeetingKey, Vec<Vec<u8>>>,
    missing: HashMap<MeetingKey, Vec<u64>>,
    /// By the number of a process: how it is gone.
    gone: HashMap<u64, &'static str>,
    /// By group: why it failed elsewhere.
    failed: HashMap<u64, String>,
    /// The connection to the hub is lost.
    closed: bool,
}

/// A process's connection to the hub.
pub struct Post {
    stream: TcpStream,
    /// One message at a time.
    writing: Mutex<()>,
    inbox: Arc<(Mutex<Inbox>, Condvar)>,
    hub: Option<Arc<Mutex<Hub>>>,
    rank: usize,
    /// How long others may take.
    pub timeout: Duration,
}

/// Who meets: the group, which of its operations this is, and the numbers of the processes among all.
pub struct Meeting<'a> {
    pub key: MeetingKey,
    pub members: &'a [usize],
    pub place: usize,
}

impl Post {
    /// Connects to the first process, which may only be starting; the first one opens the hub.
    pub fn open(rank: usize, size: usize, address: SocketAddr, timeout: Duration) -> Outcome<Post> {
        let mut hub = None;
        if rank == 0 {
            let listener =
                TcpListener::bind(address).map_err(|e| format!("Cannot listen on address {address}: {e}"))?;
            let made = Arc::new(Mutex::new(Hub {
                clients: (0..size).map(|_| None).collect(),
                over: vec![false; size],
                meetings: HashMap::new(),
            }));
            hub = Some(made.clone());
            let run = move || serve(&listener, &made, timeout);
            std::thread::Builder::new().name("mlx-hub".into()).spawn(run).map_err(|e| e.to_string())?;
        }
        let begin = Instant::now();
        let stream = reach(rank, address, timeout)?;
        let text = |e: std::io::Error| e.to_string();
        stream.set_nodelay(true).map_err(text)?;
        Message::Hello(rank as u64).write(&stream)?;
        let left = timeout.saturating_sub(begin.elapsed()).max(Duration::from_secs(1));
        stream.set_read_timeout(Some(left)).map_err(text)?;
        if Message::read(&stream) != Ok(Message::Hello(rank as u64)) {
            return Err(format!(
                "rank 0 at {address} does not answer rank {rank} as this library does, or it has a rank {rank} already"
            ));
        }
        stream.set_read_timeout(None).map_err(text)?;
        let inbox = Arc::new((Mutex::new(Inbox::default()), Condvar::new()));
        let (into, from) = (inbox.clone(), stream.try_clone().map_err(text)?);
        let run = move || listen(&from, &into);
        std::thread::Builder::new().name("mlx-post".into()).spawn(run).map_err(|e| e.to_string())?;
        Ok(Post { stream, writing: Mutex::new(()), inbox, hub, rank, timeout })
    }

    fn send(&self, message: &Message) -> Outcome {
        let _one = lock(&self.writing);
        message.write(&self.stream).map_err(|why| format!("rank 0 cannot be reached: {why}"))
    }

    /// Fails where the group failed elsewhere or a process died. One that ended had done its part of what runs now, but
    /// fails what it is needed for (`ended`).
    pub fn failure(&self, group: u64, members: &[usize], ended: bool) -> Outcome {
        lock(&self.inbox.0).failure(group, members, ended)
    }

    /// Waits until something that is looked for is there, or the time is over.
    fn wait<T>(
        &self,
        timeout: Duration,
        mut look: impl FnMut(&mut Inbox) -> Outcome<Option<T>>,
    ) -> Outcome<Option<T>> {
        let begin = Instant::now();
        loop {
            interrupted()?;
            let mut inbox = lock(&self.inbox.0);
            if let Some(found) = look(&mut inbox)? {
                return Ok(Some(found));
            }
            if begin.elapsed() > timeout {
                return Ok(None);
            }
            // Looked at again whatever this ended by.
            let _ = self.inbox.1.wait_timeout(inbox, TICK);
        }
    }

    /// Says something to all others of a meeting; what all said, by their places. The end of a wait that takes too
    /// long names who is missing.
    pub fn meet(&self, at: &Meeting, said: Vec<u8>) -> Outcome<Vec<Vec<u8>>> {
        let (key, count) = (at.key, at.members.len());
        lock(&self.inbox.0).failure(key[0], at.members, true)?;
        self.send(&Message::Meet(key, at.place as u64, count as u64, said))?;
        let met = self.wait(self.timeout, |inbox| match inbox.met.remove(&key) {
            Some(all) => Ok(Some(all)),
            None => inbox.failure(key[0], at.members, true).map(|()| None),
        })?;
        if let Some(all) = met.filter(|all| all.len() == count) {
            return Ok(all);
        }
        self.send(&Message::Ask(key))?;
        let missing = self.wait(Duration::from_secs(10), |inbox| Ok(inbox.missing.remove(&key)))?;
        let missing = missing.unwrap_or_default();
        Err(self.nothing_from(missing.iter().filter_map(|&p| at.members.get(p as usize).copied())))
    }

    /// Who did not come in time, for people.
    pub fn nothing_from(&self, ranks: impl Iterator<Item = usize>) -> String {
        let names: Vec<String> = ranks.map(|r| format!("rank {r}")).collect();
        let names = if names.is_empty() { "another rank".into() } else { names.join(", ") };
        format!("nothing came from {names} within {} s", self.timeout.as_secs_f64())
    }

    /// Tells all that a group has failed here.
    pub fn abort(&self, group: u64, why: &str) {
        let _ = self.send(&Message::Failed(self.rank as u64, group, why.chars().take(2000).collect()));
    }

    /// This process needs nothing more. The first one waits for the others, which need its hub.
    pub fn leave(&self) {
        if self.send(&Message::Left(self.rank as u64)).is_err() {
            return;
        }
        let Some(hub) = &self.hub else { return };
        let begin = Instant::now();
        while begin.elapsed() < self.timeout && interrupted().is_ok() {
            let hub = lock(hub);
            if (0..hub.over.len()).all(|r| hub.over[r] || hub.clients[r].is_none()) {
                return;
            }
            drop(hub);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn reach(rank: usize, address: SocketAddr, timeout: Duration) -> Outcome<TcpStream> {
    let begin = Instant::now();
    let mut pause = Duration::from_millis(5);
    loop {
        interrupted()?;
        let left = timeout.saturating_sub(begin.elapsed());
        match TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            Err(e) if begin.elapsed() >= timeout => {
                let seconds = timeout.as_secs_f64();
                return Err(format!(
                    "rank {rank} could not reach rank 0 at {address} within {seconds} s: {e}"
                ));
            }
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}

impl Inbox {
    /// Why processes cannot meet any more, if so; `ended` where one that has ended is missed.
    fn failure(&self, group: u64, members: &[usize], ended: bool) -> Outcome {
        if let Some(why) = self.failed.get(&group) {
            return Err(why.clone());
        }
        let gone = members.iter().find_map(|&r| self.gone.get_key_value(&(r as u64)));
        if let Some((rank, how)) = gone.filter(|(_, how)| ended || **how != ENDED) {
            return Err(format!("rank {rank} {how}"));
        }
        if self.closed && (ended || !self.gone.contains_key(&0)) {
            Err("rank 0 has ended or died".into())
        } else {
            Ok(())
        }
    }
}

/// Takes in what the hub sends, to the end of the connection.
fn listen(from: &TcpStream, inbox: &(Mutex<Inbox>, Condvar)) {
    loop {
        let message = Message::read(from);
        let mut into = lock(&inbox.0);
        match message {
            Ok(Message::Met(key, said)) => drop(into.met.insert(key, said)),
            Ok(Message::Missing(key, places)) => drop(into.missing.insert(key, places)),
            Ok(Message::Failed(rank, group, why)) => {
                into.failed.entry(group).or_insert_with(|| format!("rank {rank} failed: {why}"));
            }
            Ok(Message::Left(rank)) => drop(into.gone.insert(rank, ENDED)),
            Ok(Message::Lost(rank)) => {
                into.gone.insert(rank, "closed the connection (it ended or died)");
            }
            Ok(Message::Hello(_) | Message::Meet(..) | Message::Ask(_)) | Err(_) => into.closed = true,
        }
        let over = into.closed;
        drop(into);
        inbox.1.notify_all();
        if over {
            return;
        }
    }
}

//! A ring over TCP, as MLX has it: MLX_HOSTFILE lists the addresses of each process, every process accepts its left
//! neighbour there and connects to its right one, and raw elements go around. Processes of official MLX may be any part
//! of a ring. Where a neighbour is of this library, a control connection (`control`) tells of differences and failures;
//! where all are, sums may be scattered, groups split, and anyone sends to anyone. After a failure the group is
//! unusable: what the others have done by then is not known.

mod control;
mod endpoint;
mod link;
mod steps;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use control::{Control, Watch, header_of, message_of};
use endpoint::{Endpoint, LinkKey, Purpose};
use link::{Bytes, Link, Transfer, run};

use super::header::Header;
use super::{
    Alone, Ends, Exchange, Group, OnHost, Outcome, Reduction, Standing, Subject, child, divide,
    exchange_on_host, lock, timeout, unconnected,
};
use crate::bail;
use crate::core::env::{Values, Variable};
use crate::core::{Dtype, Error, Result};

pub static RANK: Variable = Variable::new(
    "MLX_RANK",
    "none",
    Values::Text("number"),
    "The number of this process in its group, from 0 on; `mlx.launch` sets it",
);

pub static HOSTFILE: Variable = Variable::new(
    "MLX_HOSTFILE",
    "none",
    Values::Text("file"),
    "JSON file of a ring: for each process a list of the addresses (`\"address:port\"`) that it listens on; \
         `mlx.launch` writes it",
);

pub static VERBOSE: Variable = Variable::new(
    "MLX_RING_VERBOSE",
    "not set",
    Values::Text("anything"),
    "The ring tells on stderr who connects to whom",
);

pub static SECRET: Variable = Variable::new(
    "MLX_RING_SECRET",
    "none",
    Values::Text("text"),
    "What all processes of a ring have to know: each proves it on every connection. Official MLX cannot take part",
);

/// How long the left neighbour may take from its last data connection to its control connection.
const GRACE: Duration = Duration::from_secs(3);

/// A group over TCP.
struct Ring {
    endpoint: Arc<Endpoint>,
    /// Zero for all processes.
    id: u64,
    /// Numbers of the processes in the group of all.
    members: Vec<usize>,
    /// Which of them this process is.
    me: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    left: Vec<Link>,
    right: Vec<Link>,
    /// To the left and to the right.
    controls: [Option<Control>; 2],
    /// All processes are of this library.
    whole: bool,
    operations: u64,
    splits: u64,
    sending: HashMap<usize, Link>,
    receiving: HashMap<usize, Link>,
    standing: Standing,
}

impl State {
    fn watch(&mut self, timeout: Duration) -> (Watch<'_>, &[Link], &[Link]) {
        (Watch::new(self.controls.iter_mut().flatten(), timeout), &self.left, &self.right)
    }
}

fn text(v: &Variable) -> Option<String> {
    v.text().map(|t| t.to_string_lossy().into_owned())
}

/// The addresses of all processes, from the file's text.
fn addresses(text: &str) -> Outcome<Vec<Vec<SocketAddr>>> {
    let form = "expected a JSON list with a list of \"address:port\" for each process";
    let hosts: Vec<Vec<String>> = serde_json::from_str(text).map_err(|e| format!("{form}: {e}"))?;
    let resolve = |a: &String| {
        let found = a.to_socket_addrs().map_err(|e| format!("{a}: {e}"))?.next();
        found.ok_or_else(|| format!("{a} has no address"))
    };
    let all: Vec<Vec<SocketAddr>> =
        hosts.iter().map(|h| h.iter().map(resolve).collect()).collect::<Outcome<_>>()?;
    match all.first() {
        None => Err(form.into()),
        Some(first) if first.is_empty() || all.iter().any(|h| h.len() != first.len()) => {
            Err("every process needs as many addresses as the others, at least one".into())
        }
        Some(_) => Ok(all),
    }
}

/// The group of MLX_RANK and MLX_HOSTFILE.
pub fn init(strict: bool) -> Result<Option<Arc<dyn Group>>> {
    let (rank, file) = (text(&RANK), text(&HOSTFILE));
    let (Some(rank), Some(file)) = (&rank, &file) else {
        if strict {
            let (rank, file) = (rank.unwrap_or_default(), file.unwrap_or_default());
            bail!(
                Runtime,
                "[ring] You need to provide via environment variables both a rank (MLX_RANK) and a hostfile \
                 (MLX_HOSTFILE) but provided MLX_RANK=\"{rank}\" and MLX_HOSTFILE=\"{file}\""
            );
        }
        return Ok(None);
    };
    let failed = |why: String| Error::Runtime(format!("[ring] {why}"));
    let read =
        std::fs::read_to_string(file).map_err(|e| failed(format!("Cannot read MLX_HOSTFILE={file}: {e}")))?;
    let all = addresses(&read).map_err(|e| failed(format!("MLX_HOSTFILE={file}: {e}")))?;
    let rank = rank.parse().ok().filter(|&r: &usize| r < all.len());
    let Some(rank) = rank else {
        bail!(Runtime, "[ring] MLX_RANK is none of the {} processes of MLX_HOSTFILE={file}", all.len());
    };
    if all.len() == 1 {
        return Ok(Some(Arc::new(Alone)));
    }
    let verbose = VERBOSE.is_set();
    let everyone = (0..all.len()).collect();
    let ring = Endpoint::open(rank, all, text(&SECRET), timeout(), verbose)
        .and_then(|e| Ring::connect(e, 0, everyone, rank))
        .map_err(|why| unconnected("ring", "ring", why))?;
    Ok(Some(Arc::new(ring)))
}

impl Ring {
    /// Connects to the neighbours and lets them connect.
    fn connect(endpoint: Arc<Endpoint>, id: u64, members: Vec<usize>, me: usize) -> Outcome<Ring> {
        let n = members.len();
        let (left, right) = (members[(me + n - 1) % n], members[(me + 1) % n]);
        let own = endpoint.rank;
        let key = |purpose, index, from| LinkKey { purpose, group: id, index, from };
        let each = 0..endpoint.addresses[own].len() as u16;
        let mut state = State::default();
        let begin = Instant::now();
        for index in each.clone() {
            state.right.push(endpoint.connect(right, key(Purpose::Data, index, own))?);
        }
        state.controls[1] = endpoint.control(right, id)?.map(Control::new);
        for index in each {
            let timeout = endpoint.timeout.saturating_sub(begin.elapsed()).max(GRACE);
            let link = endpoint.await_from(key(Purpose::Data, index, left), timeout)?;
            let seconds = endpoint.timeout.as_secs_f64();
            state.left.push(
                link.ok_or_else(|| format!("rank {left} did not connect to rank {own} within {seconds} s"))?,
            );
        }
        let ours = id != 0 || endpoint.is_closed();
        let grace = if ours { endpoint.timeout } else { GRACE };
        state.controls[0] = endpoint.await_from(key(Purpose::Control, 0, left), grace)?.map(Control::new);
        // What is known of edges goes one further with each round.
        let mut whole = state.controls.iter().all(Option::is_some);
        for _ in 1..n {
            if let Some(c) = &state.controls[1] {
                c.ready(whole);
            }
            if state.controls[0].is_some() {
                whole &= Watch::new(state.controls[0].iter_mut(), endpoint.timeout).ready()?;
            }
        }
        state.whole = whole;
        endpoint.say(|| format!("the ring of {n} stands, all of this library: {whole}"));
        Ok(Ring { endpoint, id, members, me, state: Mutex::new(state) })
    }

    /// Runs an operation; a failure is told to the neighbours and ends the group.
    fn operate<T>(&self, name: &str, f: impl FnOnce(&mut State) -> Outcome<T>) -> Result<T> {
        let mut state = lock(&self.state);
        state.standing.check(name)?;
        f(&mut state).map_err(|why| {
            state.controls.iter().flatten().for_each(|c| c.abort(&why));
            // Whoever waits for data from here shall not wait any longer.
            (state.left, state.right) = (Vec::new(), Vec::new());
            state.sending.clear();
            state.receiving.clear();
            state.standing.fail(name, why)
        })
    }

    /// What all processes do together: every neighbour says the same, then transfers run.
    fn together(
        &self,
        name: &str,
        about: Subject,
        data: &mut [u8],
        how: Option<(Reduction, Dtype)>,
        plan: &[steps::Planned],
    ) -> Result<()> {
        self.operate(name, |state| {
            let number = state.operations;
            state.operations += 1;
            let (mut watch, left, right) = state.watch(self.endpoint.timeout);
            watch.expect(self.endpoint.rank, Header::new(number, name, about))?;
            let mut transfers: Vec<Transfer> = plan
                .iter()
                .map(|p| {
                    let (to, from) = if p.leftward { (left, right) } else { (right, left) };
                    Transfer::new(Some(&to[p.socket]), Some(&from[p.socket]), p.steps())
                })
                .collect();
            run(&mut transfers, Bytes::Write(data), how, &mut watch)
        })
    }

    fn shape(&self) -> steps::Shape {
        let sockets = self.endpoint.addresses[self.endpoint.rank].len();
        steps::Shape { rank: self.me, size: self.members.len(), sockets }
    }

    fn is_whole(&self) -> bool {
        lock(&self.state).whole
    }

    /// The neighbour's connections, if a process is one: those that carry what is sent to it, or come from it.
    fn neighbour<'a>(&self, state: &'a State, peer: usize, to_right_first: bool) -> Option<&'a [Link]> {
        let n = self.members.len();
        let (left, right) = ((self.me + n - 1) % n, (self.me + 1) % n);
        let (first, second) = if to_right_first {
            ((right, &state.right), (left, &state.left))
        } else {
            ((left, &state.left), (right, &state.right))
        };
        [first, second].into_iter().find(|(r, _)| *r == peer).map(|(_, links)| links.as_slice())
    }

    /// Fails for a process that only a ring of this library reaches.
    fn reachable(&self, op: &str, peer: usize) -> Result<()> {
        let apart = (peer + self.size() - self.me) % self.size();
        if apart == 0 || (apart != 1 && apart != self.size() - 1 && !self.is_whole()) {
            bail!(
                Runtime,
                "[{op}] Rank {} is no neighbour of rank {} and not all processes of the ring are of this library, or it \
                 is the same process.",
                self.members[peer],
                self.endpoint.rank
            );
        }
        Ok(())
    }
}

/// Bytes that each of several connections carries of a message between neighbours.
fn shares(bytes: usize, links: usize) -> usize {
    bytes.div_ceil(links.max(1)).max(1024)
}

impl Group for Ring {
    fn backend(&self) -> &'static str {
        "ring"
    }

    fn rank(&self) -> usize {
        self.me
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn split(&self, color: i64, key: i64) -> Result<Arc<dyn Group>> {
        if !self.is_whole() {
            bail!(Runtime, "[split] The ring can be split where all of its processes are of this library.");
        }
        let (chosen, me) = divide(self, color, key, |about, own, all| self.all_gather(about, own, all))?;
        self.operate("split", |state| {
            state.splits += 1;
            let id = child(self.id, state.splits, color);
            if chosen.len() == 1 {
                return Ok(Arc::new(Alone) as Arc<dyn Group>);
            }
            let global = chosen.iter().map(|&r| self.members[r]).collect();
            Ok(Arc::new(Ring::connect(self.endpoint.clone(), id, global, me)?) as Arc<dyn Group>)
        })
    }

    fn exchange(&self, what: Exchange, about: Subject, ends: &mut dyn Ends) -> Result<()> {
        exchange_on_host(self, what, about, ends)
    }

    fn leave(&self) {
        if let Ok(state) = self.state.try_lock() {
            state.controls.iter().flatten().for_each(Control::bye);
        }
    }
}

impl OnHost for Ring {
    fn all_reduce(&self, how: Reduction, about: Subject, data: &mut [u8]) -> Result<()> {
        let name = how.operation();
        let (size, width) = (about.dtype.size(), self.shape());
        let how = Some((how, about.dtype));
        if data.is_empty() {
            return self.together(name, about, data, how, &[]);
        }
        if data.len() / size < width.size {
            let mut padded = vec![0; width.size * size];
            padded[..data.len()].copy_from_slice(data);
            self.together(name, about, &mut padded, how, &[width.small(size)])?;
            data.copy_from_slice(&padded[..data.len()]);
            return Ok(());
        }
        self.together(name, about, data, how, &width.all_reduce(data.len(), size))
    }

    fn all_gather(&self, about: Subject, input: &[u8], output: &mut [u8]) -> Result<()> {
        output[self.me * input.len()..][..input.len()].copy_from_slice(input);
        self.together("all_gather", about, output, None, &self.shape().all_gather(input.len()))
    }

    fn sum_scatter(&self, about: Subject, data: &mut [u8], output: &mut [u8]) -> Result<()> {
        if !self.is_whole() {
            bail!(
                Runtime,
                "[sum_scatter] The ring scatters sums where all of its processes are of this library."
            );
        }
        let plan = self.shape().sum_scatter(data.len(), about.dtype.size());
        self.together("sum_scatter", about, data, Some((Reduction::Sum, about.dtype)), &plan)?;
        output.copy_from_slice(&data[self.me * output.len()..][..output.len()]);
        Ok(())
    }

    fn send(&self, about: Subject, data: &[u8], to: usize) -> Result<()> {
        self.reachable("send", to)?;
        self.operate("send", |state| {
            let timeout = self.endpoint.timeout;
            if !state.whole {
                let links = self.neighbour(state, to, true).unwrap_or_default();
                let part = shares(data.len(), links.len());
                let ranges = (0..data.len()).step_by(part).map(|a| a..data.len().min(a + part));
                let mut all: Vec<Transfer> =
                    links.iter().zip(ranges).map(|(l, range)| Transfer::send(l, range)).collect();
                return run(&mut all, Bytes::Read(data), None, &mut Watch::new([].into_iter(), timeout));
            }
            let peer = self.members[to];
            if let Entry::Vacant(missing) = state.sending.entry(to) {
                let from = self.endpoint.rank;
                let key = LinkKey { purpose: Purpose::Direct, group: self.id, index: 0, from };
                missing.insert(self.endpoint.connect(peer, key)?);
            }
            let mut watch = Watch::new(state.controls.iter_mut().flatten(), timeout);
            let link = &state.sending[&to];
            let header = message_of(&Header::new(0, "send", about));
            let mut first = [Transfer::send(link, 0..header.len())];
            run(&mut first, Bytes::Read(&header), None, &mut watch)?;
            run(&mut [Transfer::send(link, 0..data.len())], Bytes::Read(data), None, &mut watch)
        })
    }

    fn recv(&self, about: Subject, data: &mut [u8], from: usize) -> Result<()> {
        self.reachable("recv", from)?;
        self.operate("recv", |state| {
            let timeout = self.endpoint.timeout;
            if !state.whole {
                let links = self.neighbour(state, from, false).unwrap_or_default();
                let (all, part) = (data.len(), shares(data.len(), links.len()));
                let ranges = (0..all).step_by(part).map(|a| a..all.min(a + part));
                let mut all: Vec<Transfer> =
                    links.iter().zip(ranges).map(|(l, range)| Transfer::recv(l, range)).collect();
                return run(&mut all, Bytes::Write(data), None, &mut Watch::new([].into_iter(), timeout));
            }
            let peer = self.members[from];
            let mut watch = Watch::new(state.controls.iter_mut().flatten(), timeout);
            if let Entry::Vacant(missing) = state.receiving.entry(from) {
                let key = LinkKey { purpose: Purpose::Direct, group: self.id, index: 0, from: peer };
                missing.insert(self.first_from(key, &mut watch)?);
            }
            let link = &state.receiving[&from];
            let expected = Header::new(0, "recv", about);
            let mut header = vec![0; 3];
            run(&mut [Transfer::recv(link, 0..3)], Bytes::Write(&mut header), None, &mut watch)?;
            let length = 3 + usize::from(u16::from_le_bytes([header[1], header[2]])).min(4096);
            header.resize(length, 0);
            run(&mut [Transfer::recv(link, 3..length)], Bytes::Write(&mut header), None, &mut watch)?;
            expected.agrees(self.endpoint.rank, &header_of(&header)?, peer)?;
            let all = data.len();
            run(&mut [Transfer::recv(link, 0..all)], Bytes::Write(data), None, &mut watch)
        })
    }
}

impl Ring {
    /// The connection that a process makes when it sends for the first time.
    fn first_from(&self, key: LinkKey, watch: &mut Watch) -> Outcome<Link> {
        let begin = Instant::now();
        loop {
            watch.look()?;
            let ended = watch.alive(key.from);
            // It may have come before the end.
            if let Some(link) = self.endpoint.await_from(key, Duration::from_millis(20))? {
                return Ok(link);
            }
            ended?;
            if begin.elapsed() > watch.timeout {
                let seconds = watch.timeout.as_secs_f64();
                return Err(format!("nothing came from rank {} within {seconds} s", key.from));
            }
        }
    }
}

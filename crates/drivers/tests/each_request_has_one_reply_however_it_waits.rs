//! Many connections on every driver, whose requests park, wait for two logs and for tickets as a
//! seed chooses, while the reader of the logs stops and resumes: each request has one reply, in
//! order, and none is stuck. The test is alone in its process: it counts descriptors.
//!
//! `WAITS_CONNECTIONS` sets how many connections there are for each driver, `WAITS_SEED` the seed.

mod support;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use base::{MemoryBudget, Now};
use drivers::{Address, Config, Driver, Listen, Remote, Server, Slot};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use session::{
    Answer, BatchEnd, Bounds, Conn, LogId, Mark, Outcome, Passed, Reply, Resources, Ticket,
    WAIT_NS_MAX,
};

use support::answers::{Answers, KEYS, key, value};
use support::fake::{Delays, Fake, Items, withhold};
use support::random::Random;
use support::{PATIENCE, descriptors, drivers, eventually, raise_descriptors};

/// Connections for each driver, where the environment does not say.
const CONNECTIONS: usize = 200;

/// Batches of requests that each connection sends.
const ROUNDS: usize = 12;

/// Threads that the clients are divided among.
const CLIENT_THREADS: usize = 2;

/// Logs that another thread reads. Each worker has one more, which it reads itself.
const LOGS: usize = 2;

/// How long the reader stops: longer than any wait, so that waits end in errors.
const STOP: Duration = Duration::from_nanos(WAIT_NS_MAX + WAIT_NS_MAX / 4);

/// What the thread outside the server has to do.
enum Late {
    Mark(usize, u64),
    Reply(Ticket, Vec<u8>),
}

/// What the handlers of a server and the thread outside it share.
struct Outside {
    items: Items,
    seqs: [AtomicU64; LOGS],
    marks: [AtomicU64; LOGS],
    /// Requests cannot run.
    full: AtomicBool,
    waits: AtomicUsize,
}

/// The waits of one worker.
struct Waits {
    outside: Arc<Outside>,
    late: Sender<Late>,
    random: Random,
    own_log: LogId,
    /// The latest position of its own log, and how far that has passed.
    own: (u64, u64),
    silent: Vec<Ticket>,
}

impl Waits {
    fn late(&self, late: Late) {
        self.outside.waits.fetch_add(1, Ordering::Relaxed);
        // It fails only when the test is over.
        let _ = self.late.send(late);
    }

    /// The next position of the log that the worker reads itself.
    fn own_gate(&mut self) -> (LogId, u64) {
        self.own.0 += 1;
        (self.own_log, self.own.0)
    }

    /// The next position of a log that another thread reads.
    fn late_gate(&mut self) -> (LogId, u64) {
        let log = self.random.below(4).saturating_sub(2);
        let seq = self.outside.seqs[log].fetch_add(1, Ordering::SeqCst) + 1;
        self.late(Late::Mark(log, seq));
        (LogId(log as u32), seq)
    }
}

impl Delays for Waits {
    fn declines(&mut self) -> bool {
        self.random.below(2) == 0
    }

    fn confirms(&self) -> bool {
        self.own.0 == self.own.1
    }

    fn gate_now(&mut self) -> Answer {
        let (log, seq) = match self.random.below(3) {
            0 => self.own_gate(),
            1 => self.late_gate(),
            _ => return Answer::Done,
        };
        Answer::Gate { log, seq }
    }

    fn parks(&mut self, _conn: &Conn, _key: &[u8]) -> bool {
        self.outside.full.load(Ordering::SeqCst) && self.random.below(3) > 0
    }

    fn outcome(&mut self, _key: &[u8], ticket: Ticket, reply: &mut Reply, mark: Mark) -> Outcome {
        match self.random.below(8) {
            0 | 1 => {
                let (log, seq) = self.own_gate();
                Outcome::Gate { log, seq }
            }
            2..5 => {
                let (log, seq) = self.late_gate();
                Outcome::Gate { log, seq }
            }
            5 => {
                let bytes = withhold(reply, mark);
                if bytes.is_empty() {
                    self.silent.push(ticket);
                }
                self.late(Late::Reply(ticket, bytes));
                Outcome::Pending
            }
            _ => Outcome::Done,
        }
    }

    fn gate(&self, log: LogId, seq: u64) -> Passed {
        let mark = match self.outside.marks.get(log.0 as usize) {
            Some(mark) => mark.load(Ordering::SeqCst),
            None => self.own.1,
        };
        if seq <= mark { Passed::Yes } else { Passed::No }
    }

    fn is_silent(&self, ticket: Ticket) -> bool {
        self.silent.contains(&ticket)
    }

    fn end_batch(&mut self, _now: Now) -> BatchEnd {
        self.own.1 = self.own.0;
        BatchEnd::Send
    }
}

/// Raises marks, completes tickets and makes room, at random, until the server is gone. Between,
/// it stops once, for longer than any request waits.
fn serve_outside(outside: &Outside, remote: &Remote, late: &Receiver<Late>, mut random: Random) {
    let mut backlog = Vec::new();
    let stop_after = 300 + random.below(700);
    let mut stopped_until = None;
    loop {
        let pause = Duration::from_micros(random.below(3000) as u64);
        match late.recv_timeout(pause) {
            Ok(it) => backlog.push(it),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        backlog.extend(late.try_iter().take(200));
        if stopped_until.is_none() && outside.waits.load(Ordering::Relaxed) >= stop_after {
            stopped_until = Some(Instant::now() + STOP);
        }
        let stopped = stopped_until.is_some_and(|until| Instant::now() < until);
        outside.full.store(stopped || random.below(3) == 0, Ordering::SeqCst);
        if stopped {
            continue;
        }
        for _ in 0..random.below(backlog.len() + 1) {
            match backlog.swap_remove(random.below(backlog.len())) {
                Late::Mark(log, seq) => {
                    outside.marks[log].fetch_max(seq, Ordering::SeqCst);
                    remote.release(LogId(log as u32));
                }
                Late::Reply(ticket, bytes) if bytes.len() > 1 && random.below(2) == 0 => {
                    let (now, later) = bytes.split_at(1 + random.below(bytes.len() - 1));
                    remote.complete(ticket, now.to_vec(), false);
                    backlog.push(Late::Reply(ticket, later.to_vec()));
                }
                Late::Reply(ticket, bytes) => {
                    remote.complete(ticket, bytes, true);
                }
            }
        }
    }
}

/// One client: it sends a batch, and the next when all of it is answered.
struct Talker {
    stream: TcpStream,
    answers: Answers,
    unsent: Vec<u8>,
    rounds: usize,
    /// The server has closed it: a reply had begun, and its rest did not come in time.
    closed: bool,
}

impl Talker {
    fn is_done(&self) -> bool {
        self.closed || self.rounds == 0 && self.unsent.is_empty() && self.answers.is_complete()
    }

    /// Whether it may send its next batch.
    fn may_ask(&self) -> bool {
        self.rounds > 0 && self.unsent.is_empty() && self.answers.is_complete()
    }

    /// Takes steps until it waits for the server. A batch may have no reply at all.
    fn go_on(&mut self, random: &mut Random, buffer: &mut [u8]) {
        while self.may_ask() && !self.closed {
            self.step(random, buffer);
        }
    }

    /// Sends and receives what is possible without waiting.
    fn step(&mut self, random: &mut Random, buffer: &mut [u8]) {
        if self.may_ask() {
            self.rounds -= 1;
            let requests = 1 + random.below(16);
            self.unsent = self.answers.ask(random, requests);
        }
        match self.stream.write(&self.unsent) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.closed = true,
        }
        match self.stream.read(buffer) {
            Ok(0) => self.closed = true,
            Ok(count) => self.answers.take(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.closed = true,
        }
    }
}

/// Lets `talkers` talk until all are done; returns how many replies were errors, and how many
/// connections were closed.
fn talk(mut talkers: Vec<Talker>, mut random: Random) -> (usize, usize) {
    let mut buffer = vec![0; 64 << 10];
    let (mut errors, mut closed, mut latest) = (0, 0, Instant::now());
    while !talkers.is_empty() {
        let ready = {
            let interest = |talker: &Talker| {
                let writes =
                    if talker.unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
                PollFlags::IN | writes
            };
            let mut fds: Vec<_> =
                talkers.iter().map(|it| PollFd::new(&it.stream, interest(it))).collect();
            let second = Timespec { tv_sec: 1, tv_nsec: 0 };
            poll(&mut fds, Some(&second)).expect("poll works");
            fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>()
        };
        for (talker, ready) in talkers.iter_mut().zip(ready) {
            if ready {
                latest = Instant::now();
                talker.step(&mut random, &mut buffer);
                talker.go_on(&mut random, &mut buffer);
            }
        }
        assert!(latest.elapsed() < PATIENCE, "{} connections are stuck", talkers.len());
        talkers.retain(|talker| {
            if talker.is_done() {
                errors += talker.answers.errors;
                closed += usize::from(talker.closed);
            }
            !talker.is_done()
        });
    }
    (errors, closed)
}

fn number(name: &str, default: usize) -> usize {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// A server under test, and the thread outside it.
fn start(driver: Driver, budget: &Arc<MemoryBudget>, seed: u64) -> Server {
    let bounds = Bounds { requests_per_turn: 10, pending_max: 12, ..Bounds::default() };
    let resources = Resources { bounds, budget: budget.clone() };
    let mut config = Config::new(resources);
    config.driver = driver;
    config.workers = 2;
    config.connections_max = 10_000;
    config.listen = vec![Listen::Tcp("127.0.0.1:0".parse().expect("an address"))];
    let (late, post) = channel();
    let all = (0..KEYS).map(|at| (key(at).into_bytes(), value(at).into()));
    let outside = Arc::new(Outside {
        items: Items::new(all.collect::<BTreeMap<_, _>>().into()),
        seqs: Default::default(),
        marks: Default::default(),
        full: AtomicBool::new(false),
        waits: AtomicUsize::new(0),
    });
    let handlers = outside.clone();
    let server = Server::start(config, move |slot: Slot<u64>| {
        let delays = Waits {
            outside: handlers.clone(),
            late: late.clone(),
            random: Random(seed << 20 | u64::from(slot.worker.0)),
            own_log: LogId(100 + u32::from(slot.worker.0)),
            own: (0, 0),
            silent: Vec::new(),
        };
        let fake = Fake::new(delays, handlers.items.clone(), 200_000, 16 << 10);
        Fake { keys_per_call: 3, prompt: true, ..fake }
    });
    let server = server.expect("the loopback has a free port");
    let remote = server.remote();
    std::thread::spawn(move || serve_outside(&outside, &remote, &post, Random(seed)));
    server
}

#[test]
fn every_reply_comes_once_and_in_order_though_the_reader_stops() {
    let connections = number("WAITS_CONNECTIONS", CONNECTIONS);
    let seed = number("WAITS_SEED", 1) as u64;
    let most = raise_descriptors();
    assert!(most > 2 * connections as u64 + 200, "the hard limit is {most} open files");
    for driver in drivers() {
        let budget = MemoryBudget::new(1 << 30);
        let before = descriptors();
        let server = start(driver, &budget, seed);
        let Address::Tcp(address) = server.addresses()[0] else { panic!("it listens on a port") };
        let talker = |_| {
            let stream = TcpStream::connect(address).expect("the server listens");
            stream.set_nodelay(true).expect("a fresh socket");
            stream.set_nonblocking(true).expect("a fresh socket");
            let answers = Answers::default();
            Talker { stream, answers, unsent: Vec::new(), rounds: ROUNDS, closed: false }
        };
        let per_thread = connections.div_ceil(CLIENT_THREADS);
        let threads: Vec<_> = (0..CLIENT_THREADS)
            .map(|at| {
                let mut talkers: Vec<_> = (0..per_thread).map(talker).collect();
                let mut random = Random(seed ^ (at as u64 + 1) << 40);
                for talker in &mut talkers {
                    talker.go_on(&mut random, &mut [0; 1]);
                }
                std::thread::spawn(move || talk(talkers, random))
            })
            .collect();
        let (mut errors, mut closed) = (0, 0);
        for thread in threads {
            let (more, ended) = thread.join().unwrap_or_else(|_| panic!("{driver:?}, seed {seed}"));
            (errors, closed) = (errors + more, closed + ended);
        }
        assert!(errors > 0, "{driver:?}: the reader stopped, and waits ended in errors");
        assert!(closed < connections, "{driver:?}: {closed} closed of {connections}");
        let remote = server.remote();
        eventually("connections are closed", || remote.open() == 0);
        eventually("the budget has everything back", || budget.used_total() == 0);
        assert_eq!(remote.snapshot().mailbox_kicks, 0);
        drop(remote);
        drop(server);
        eventually("descriptors are as before", || descriptors() <= before);
    }
}

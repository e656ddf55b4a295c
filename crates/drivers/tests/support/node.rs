//! A server that asks another one, or a test in its place, over links. A link carries lines:
//!
//! ```text
//! ask N TEXT    the other end answers: got N TEXT
//! note          is counted
//! big           is answered by BIG_BYTES bytes
//! ```
//!
//! The key of a request chooses what happens: `link...` is asked over a link, and its reply is the
//! key; `note...` is answered at once and sends a note; `self...` is completed by an order of its
//! own call; `many...` after more orders than one batch carries out; `dial` connects apart and says
//! what came of that; `dials` connects [`DIALS`] times. Under `threads`, worker 0 has the links.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base::{MemoryBudget, Now};
use drivers::{Address, Config, Driver, Listen, Post, Remote, Server, Slot};
use session::{
    BatchEnd, Bounds, Completions, ConnId, LogId, Mark, Order, Outcome, Passed, Reply, Resources,
    Ticket, WorkerId,
};

use super::client::Client;
use super::fake::{Delays, Items, withhold};
use super::kinds::{Kinds, Mixed, Other};

/// Bytes of a long answer.
pub const BIG_BYTES: usize = 64 << 10;

/// Connections that `dials` orders at once.
pub const DIALS: usize = 1000;

/// Turns that `many` orders: if a worker slept after each batch of them, the reply would be late.
const TURNS: usize = 40_000;

/// The purpose of the link that all requests of a worker use. Others are numbers of tickets.
const SHARED_LINK: u64 = u64::MAX;
const APART: u64 = u64::MAX - 1;

/// What a test and the handlers of a server share.
#[derive(Default)]
pub struct Seen {
    /// Where links are opened to.
    pub peer: Mutex<Option<SocketAddr>>,
    pub notes: AtomicUsize,
    /// Connections that could not be opened.
    pub refused: AtomicUsize,
    /// Batches that ended before everything was done that was ordered in them.
    pub late: AtomicUsize,
    pub links_opened: Mutex<Vec<ConnId>>,
    pub links_closed: Mutex<Vec<ConnId>>,
}

/// The server.
pub struct Node {
    pub server: Server,
    pub seen: Arc<Seen>,
}

impl Node {
    /// One with a port for clients and one for links, changed by `change`. Its peer is itself.
    pub fn new(driver: Driver, change: impl FnOnce(&mut Config)) -> Self {
        let resources =
            Resources { bounds: Bounds::default(), budget: MemoryBudget::new(64 << 20) };
        let mut config = Config::new(resources);
        config.driver = driver;
        config.workers = 2;
        let port: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        config.listen = vec![Listen::Tcp(port), Listen::Links(port)];
        change(&mut config);
        let seen = Arc::new(Seen::default());
        let all = seen.clone();
        let factory = move |slot| Mixed::new(Asks::new(slot, driver, &all), Items::default());
        let server = Server::start(config, factory).expect("the loopback has free ports");
        let this = Self { server, seen };
        this.ask_at(this.links());
        this
    }

    pub fn plain(driver: Driver) -> Self {
        Self::new(driver, |_| {})
    }

    /// Links are opened to `peer` from now on.
    pub fn ask_at(&self, peer: SocketAddr) {
        *self.seen.peer.lock().expect("unpoisoned") = Some(peer);
    }

    /// Where other cells connect.
    pub fn links(&self) -> SocketAddr {
        self.port(1)
    }

    pub fn client(&self) -> Client {
        Client::tcp(self.port(0))
    }

    /// The other end of a link that this server accepts.
    pub fn link(&self) -> Client {
        Client::tcp(self.links())
    }

    fn port(&self, listener: usize) -> SocketAddr {
        match self.server.addresses()[listener] {
            Address::Tcp(address) => address,
            Address::Unix(_) => panic!("both are ports"),
        }
    }
}

/// What the thread of a client hands to the worker with the links.
pub enum Asked {
    Text(Ticket, Vec<u8>),
    Note,
}

/// The handler of one worker.
pub struct Asks {
    seen: Arc<Seen>,
    worker: WorkerId,
    remote: Remote,
    post: Post<Asked>,
    /// Whether its worker can have links.
    has_links: bool,
    orders: VecDeque<Order>,
    link: Option<ConnId>,
    connects: bool,
    /// What is to be sent on the link.
    queue: Vec<u8>,
    /// By their numbers; those that are answered are taken.
    tickets: Vec<Option<Ticket>>,
}

impl Asks {
    fn new(slot: Slot<Asked>, driver: Driver, seen: &Arc<Seen>) -> Self {
        Self {
            seen: seen.clone(),
            worker: slot.worker,
            remote: slot.remote,
            post: slot.post,
            has_links: driver != Driver::Threads || slot.worker == WorkerId(0),
            orders: VecDeque::new(),
            link: None,
            connects: false,
            queue: Vec::new(),
            tickets: Vec::new(),
        }
    }

    fn peer(&self) -> SocketAddr {
        self.seen.peer.lock().expect("unpoisoned").expect("set at the start")
    }

    fn number(&mut self, ticket: Ticket) -> usize {
        self.tickets.push(Some(ticket));
        self.tickets.len() - 1
    }

    fn connect(&mut self, purpose: u64) {
        let to = self.peer();
        self.orders.push_back(Order::Connect { to, purpose });
    }

    /// Sends a line on the link, which is opened if need be.
    fn send(&mut self, line: &[u8]) {
        self.queue.extend_from_slice(line);
        match self.link {
            Some(id) => self.orders.push_back(Order::Turn(id)),
            None if self.connects => {}
            None => {
                self.connects = true;
                self.connect(SHARED_LINK);
            }
        }
    }

    fn ask(&mut self, asked: Asked) {
        if !self.has_links {
            assert!(self.post.send(WorkerId(0), asked), "worker 0 outlives the clients");
            return;
        }
        match asked {
            Asked::Text(ticket, text) => {
                let number = self.number(ticket).to_string();
                self.send(&[b"ask ", number.as_bytes(), b" ", &text, b"\n"].concat());
            }
            Asked::Note => self.send(b"note\n"),
        }
    }

    fn answer(&mut self, number: usize, text: &[u8]) {
        let Some(ticket) = self.tickets[number].take() else { return };
        let bytes = [text, b"\r\n"].concat();
        if ticket.conn.worker == self.worker {
            self.orders.push_back(Order::Complete(Completions::one(ticket, &bytes)));
        } else {
            self.remote.complete(ticket, bytes, true);
        }
    }

    fn answer_all(&mut self, text: &[u8]) {
        self.queue.clear();
        (0..self.tickets.len()).for_each(|number| self.answer(number, text));
    }

    fn opens(&mut self, id: ConnId) -> Link {
        self.seen.links_opened.lock().expect("unpoisoned").push(id);
        Link { id, tail: Vec::new(), out: Vec::new() }
    }
}

impl Delays for Asks {
    fn outcome(&mut self, key: &[u8], ticket: Ticket, reply: &mut Reply, mark: Mark) -> Outcome {
        if key.starts_with(b"note") {
            self.ask(Asked::Note);
            return Outcome::Done;
        }
        if key.starts_with(b"link") {
            self.ask(Asked::Text(ticket, key.to_vec()));
        } else if key == b"dials" {
            (0..DIALS).for_each(|_| self.connect(APART));
            return Outcome::Done;
        } else if key == b"dial" {
            let number = self.number(ticket);
            self.connect(number as u64);
        } else if key.starts_with(b"self") || key.starts_with(b"many") {
            let turns = if key.starts_with(b"many") { TURNS } else { 0 };
            self.orders.extend((0..turns).map(|_| Order::Turn(ticket.conn)));
            let number = self.number(ticket);
            self.answer(number, key);
        } else {
            return Outcome::Done;
        }
        drop(withhold(reply, mark));
        Outcome::Pending
    }

    fn gate(&self, _: LogId, _: u64) -> Passed {
        Passed::Yes
    }

    fn end_batch(&mut self, _: Now) -> BatchEnd {
        let late = usize::from(!self.orders.is_empty());
        self.seen.late.fetch_add(late, Ordering::SeqCst);
        BatchEnd::Send
    }
}

impl Kinds for Asks {
    type Other = Link;
    type Mail = Asked;

    fn accept(&mut self, id: ConnId, listener: usize) -> Option<Link> {
        (listener == 1).then(|| self.opens(id))
    }

    fn connected(&mut self, id: ConnId, purpose: u64) -> Option<Link> {
        if purpose != SHARED_LINK {
            assert_ne!(purpose, APART, "nobody accepts these");
            self.answer(purpose as usize, b"OPEN");
            return None;
        }
        self.connects = false;
        self.link = Some(id);
        Some(self.opens(id))
    }

    fn unconnected(&mut self, purpose: u64) {
        self.seen.refused.fetch_add(1, Ordering::SeqCst);
        match purpose {
            APART => {}
            SHARED_LINK => {
                self.connects = false;
                self.answer_all(b"REFUSED");
            }
            number => self.answer(number as usize, b"REFUSED"),
        }
    }

    fn take_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    fn deliver_mail(&mut self, asked: Asked) {
        self.ask(asked);
    }

    fn has_closed(&mut self, id: ConnId) {
        if self.seen.links_opened.lock().expect("unpoisoned").contains(&id) {
            self.seen.links_closed.lock().expect("unpoisoned").push(id);
        }
        if self.link == Some(id) {
            self.link = None;
            self.answer_all(b"LOST");
        }
    }
}

/// A link of a worker, of either direction.
pub struct Link {
    id: ConnId,
    /// An incomplete line.
    tail: Vec<u8>,
    /// Answers, which leave in its next turn.
    out: Vec<u8>,
}

impl Link {
    fn line(&mut self, line: &[u8], asks: &mut Asks, out: &mut Vec<u8>) {
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let [word, number, text] = [(); 3].map(|()| words.next().unwrap_or_default());
        match word {
            b"ask" => {
                self.out.extend([b"got ", number, b" ", text, b"\n"].concat());
                asks.orders.push_back(Order::Turn(self.id));
            }
            b"got" => {
                let number = String::from_utf8_lossy(number).parse().expect("an own number");
                asks.answer(number, text);
            }
            b"note" => drop(asks.seen.notes.fetch_add(1, Ordering::SeqCst)),
            b"big" => out.extend([b'x'; BIG_BYTES]),
            _ => panic!("no such line: {:?}", String::from_utf8_lossy(line)),
        }
    }
}

impl Other<Asks> for Link {
    fn id(&self) -> ConnId {
        self.id
    }

    fn is_client(&self) -> bool {
        false
    }

    fn awaits_rest(&self) -> bool {
        !self.tail.is_empty()
    }

    fn receive(&mut self, asks: &mut Asks, input: &[u8], out: &mut Vec<u8>) {
        self.tail.extend_from_slice(input);
        let tail = std::mem::take(&mut self.tail);
        let mut lines = tail.split(|byte| *byte == b'\n');
        self.tail = lines.next_back().expect("there is a last one").to_vec();
        lines.for_each(|line| self.line(line, asks, out));
    }

    fn resume(&mut self, asks: &mut Asks, out: &mut Vec<u8>) {
        out.append(&mut self.out);
        if asks.link == Some(self.id) {
            out.append(&mut asks.queue);
        }
    }
}

//! A client: asks through random cells, a few requests at a time, and reads the answers.

use crate::dice::Dice;
use crate::history::{Answer, Ask, History};
use crate::net::{Chunk, Net, Party};
use crate::scene::{Event, PipeId, Scene};
use std::collections::VecDeque;
use std::sync::Arc;

/// How long a client waits for an answer before it closes the connection.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Requests that a client sends at once.
const TOGETHER_MAX: u64 = 3;
/// Requests without an answer after which it asks no more.
const WAITING_MAX: usize = 6;

/// From the number of one connection of a client to that of its next: more than there are clients.
const SESSIONS: usize = 1 << 16;

/// What the clients of a run ask for besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Habits {
    /// Flushes, at once and delayed.
    pub(crate) flushes: bool,
    /// Several keys at once.
    pub(crate) several: bool,
    /// That items stay which were stored for some time only.
    pub(crate) keeps: bool,
    /// To store for some time only.
    pub(crate) expires: bool,
    /// By how much longer they wait before they ask again.
    pub(crate) pace: u64,
}

impl Habits {
    /// Some of them.
    pub(crate) fn choose(dice: &mut Dice) -> Self {
        Self {
            flushes: dice.per_mille(400),
            several: dice.per_mille(500),
            keeps: dice.per_mille(250),
            expires: true,
            pace: 1,
        }
    }
}

/// A client.
pub(crate) struct Client {
    number: usize,
    /// The number of its connection, among those of all clients.
    session: usize,
    /// Its connection, and the cell at the other end.
    pub(crate) pipe: Option<(PipeId, usize)>,
    /// What has arrived of the answers.
    arrived: Vec<u8>,
    /// What it waits for, in order: each request has an entry for each of its keys.
    pub(crate) waiting: VecDeque<Vec<usize>>,
    /// When it asked last.
    asked_ns: u64,
    /// When it does what comes next.
    next_ns: u64,
    /// The latest item that it has seen: key, token, value.
    seen: Option<(usize, u64, u64)>,
    /// The names of all keys.
    names: Arc<[String]>,
    habits: Habits,
    /// It reads every key next, whatever it waits for.
    pub(crate) reads_all: bool,
    /// It asks no more.
    pub(crate) is_done: bool,
    /// Answers that no request has.
    pub(crate) fault: Option<String>,
}

impl Client {
    /// A client that asks about the keys with these names.
    pub(crate) fn new(number: usize, names: Arc<[String]>, habits: Habits) -> Self {
        Self {
            number,
            session: number,
            pipe: None,
            arrived: Vec::new(),
            waiting: VecDeque::new(),
            asked_ns: 0,
            next_ns: 0,
            seen: None,
            names,
            habits,
            reads_all: false,
            is_done: false,
            fault: None,
        }
    }

    /// Does what comes next: connects, asks, waits, or leaves.
    pub(crate) fn step(
        &mut self,
        cells: usize,
        net: &mut Net,
        history: &mut History,
        scene: &mut Scene,
    ) {
        if self.next_ns != scene.now_ns {
            return;
        }
        if self.pipe.is_none() {
            if !self.is_done {
                let cell = scene.dice.index(cells);
                let delay_ns = scene.dice.between(20_000, 2_000_000);
                scene.after(delay_ns, Event::ClientDials(self.number, cell));
            }
            return;
        }
        if std::mem::take(&mut self.reads_all) && !self.is_done {
            for key in 0..self.names.len() {
                self.ask(key, Ask::Get, history, net, scene);
            }
        } else if self.waiting.is_empty() {
            if self.is_done || scene.dice.per_mille(20) {
                return self.leave(net, scene);
            }
            for _ in 0..scene.dice.between(1, TOGETHER_MAX) {
                self.ask_any(history, net, scene);
            }
        } else if scene.now_ns >= self.asked_ns + PATIENCE_NS {
            return self.leave(net, scene);
        } else if self.waiting.len() < WAITING_MAX && !self.is_done {
            // It does not always wait: so requests arrive while a process is stopped.
            self.ask_any(history, net, scene);
        }
        let waits_ns = match self.waiting.len() < WAITING_MAX && scene.dice.per_mille(300) {
            true => scene.dice.duration(5_000_000, 600_000_000),
            false => PATIENCE_NS,
        };
        self.goes_on_after(waits_ns, scene);
    }

    /// Does what comes next after a delay, and not before.
    pub(crate) fn goes_on_after(&mut self, delay_ns: u64, scene: &mut Scene) {
        self.next_ns = scene.now_ns + delay_ns;
        scene.after(delay_ns, Event::Client(self.number));
    }

    /// Its connection to `cell` is open, or could not be opened.
    pub(crate) fn connected(&mut self, pipe: Option<PipeId>, cell: usize, scene: &mut Scene) {
        self.pipe = pipe.map(|pipe| (pipe, cell));
        self.session += SESSIONS;
        let delay_ns = scene.dice.duration(50_000, 5_000_000);
        self.goes_on_after(delay_ns, scene);
    }

    /// Closes its connection. What it waits for stays open.
    fn leave(&mut self, net: &mut Net, scene: &mut Scene) {
        if let Some((pipe, _)) = self.pipe
            && let Some(side) = net.side(pipe, Party::Client(self.number))
        {
            net.close(pipe, side, false, scene);
        }
        self.lose(scene);
    }

    /// Its connection is gone.
    fn lose(&mut self, scene: &mut Scene) {
        self.pipe = None;
        self.waiting.clear();
        self.arrived.clear();
        let delay_ns = scene.dice.duration(100_000, 20_000_000);
        self.goes_on_after(delay_ns, scene);
    }

    fn ask_any(&mut self, history: &mut History, net: &mut Net, scene: &mut Scene) {
        let key = scene.dice.index(self.names.len());
        let (key, ask) = match scene.dice.below(100) {
            0..=29 if self.habits.several && scene.dice.per_mille(500) => {
                let ask = if scene.dice.per_mille(500) { Ask::Get } else { Ask::Gets };
                return self.read_several(ask, history, net, scene);
            }
            0..=9 if self.habits.keeps => match self.habits.several {
                true => return self.read_several(Ask::Keep, history, net, scene),
                false => (key, Ask::Keep),
            },
            0..=29 => (key, Ask::Get),
            30..=41 => (key, Ask::Gets),
            42..=55 => (key, Ask::Set(history.new_value())),
            56..=61 if self.habits.expires => {
                let (value, seconds) = (history.new_value(), scene.dice.between(1, 5));
                (key, Ask::SetFor { value, seconds })
            }
            56..=71 => (key, Ask::Add(history.new_value())),
            72..=81 => (key, Ask::Delete),
            82..=90 => (key, Ask::Incr),
            91 if self.habits.flushes && scene.dice.per_mille(150) => {
                (key, Ask::Flush { seconds: scene.dice.between(1, 4) })
            }
            91 if self.habits.flushes && scene.dice.per_mille(150) => {
                let keys = (0..self.names.len()).collect();
                return self.ask_about(keys, Ask::FlushNow, history, (net, scene));
            }
            91 => (key, Ask::Incr),
            _ => match self.seen.take() {
                Some((key, token, seen)) => {
                    (key, Ask::Cas { value: history.new_value(), token, seen })
                }
                None => (key, Ask::Gets),
            },
        };
        self.ask(key, ask, history, net, scene);
    }

    /// Reads some keys at once.
    fn read_several(&mut self, ask: Ask, history: &mut History, net: &mut Net, scene: &mut Scene) {
        let mut keys: Vec<_> = (0..self.names.len()).collect();
        scene.dice.shuffle(&mut keys);
        keys.truncate(scene.dice.between(2, self.names.len().max(2) as u64) as usize);
        self.ask_about(keys, ask, history, (net, scene));
    }

    /// Asks on its connection.
    pub(crate) fn ask(
        &mut self,
        key: usize,
        ask: Ask,
        history: &mut History,
        net: &mut Net,
        scene: &mut Scene,
    ) {
        self.ask_about(vec![key], ask, history, (net, scene));
    }

    /// Asks the same about some keys, in one request.
    fn ask_about(
        &mut self,
        keys: Vec<usize>,
        ask: Ask,
        history: &mut History,
        (net, scene): (&mut Net, &mut Scene),
    ) {
        let Some((pipe, cell)) = self.pipe else { return };
        let names: Vec<_> = keys.iter().map(|key| self.names[*key].as_str()).collect();
        let Some(text) = text(&names.join(" "), ask) else { return };
        let (number, session) = (self.number, self.session);
        let mut ask_one = |key: &usize| {
            let entry = history.ask((number, session), *key, ask, scene.now_ns);
            scene.note("ask", &[number as u64, cell as u64 + 1, entry as u64, *key as u64]);
            scene.say(|| {
                format!("  client {number} asks cell {}: #{entry} {ask:?} key {key}", cell + 1)
            });
            entry
        };
        self.waiting.push_back(keys.iter().map(&mut ask_one).collect());
        self.asked_ns = scene.now_ns;
        if let Some(side) = net.side(pipe, Party::Client(number)) {
            net.send(pipe, side, Chunk::Data(text.into_bytes()), scene);
        }
    }

    /// Something arrives on its connection `pipe`.
    pub(crate) fn arrives(
        &mut self,
        pipe: PipeId,
        chunk: Chunk,
        history: &mut History,
        scene: &mut Scene,
    ) {
        if self.pipe.is_none_or(|(own, _)| own != pipe) {
            return;
        }
        let Chunk::Data(bytes) = chunk else { return self.lose(scene) };
        self.arrived.extend_from_slice(&bytes);
        while let Some(entries) = self.waiting.front().cloned() {
            let Some((used, answers)) = self.read(&entries, history) else { return };
            if answers.contains(&Answer::Refused) {
                let text = String::from_utf8_lossy(&self.arrived[..used]);
                scene.say(|| format!("  client {}: {}", self.number, text.trim_end()));
            }
            self.arrived.drain(..used);
            self.waiting.pop_front();
            for (entry, answer) in entries.into_iter().zip(answers) {
                history.answer(entry, answer, scene.now_ns);
                scene.note("answer", &[self.number as u64, entry as u64]);
                scene.say(|| format!("  client {}: #{entry} {answer:?}", self.number));
            }
        }
        if !self.arrived.is_empty() {
            let text = String::from_utf8_lossy(&self.arrived).into_owned();
            self.fault.get_or_insert(format!("client {}: {text:?} answers nothing", self.number));
        }
        let delay_ns = self.habits.pace * scene.dice.duration(100_000, 20_000_000);
        self.goes_on_after(delay_ns, scene);
    }

    /// The answers to `entries` of one request at the front of what has arrived, and their length.
    /// `None` if they are not whole.
    fn read(&mut self, entries: &[usize], history: &mut History) -> Option<(usize, Vec<Answer>)> {
        let ask = history.entries[*entries.first()?].ask;
        if ask.reads() {
            return self.read_values(entries, history);
        }
        let (line, used) = line(&self.arrived)?;
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match (ask, words.as_slice()) {
            (_, ["SERVER_ERROR", "in", "doubt:", ..]) => Answer::Open,
            // Other ranges may have been flushed.
            (Ask::FlushNow, ["SERVER_ERROR", ..]) => Answer::Open,
            (_, ["SERVER_ERROR", ..]) => Answer::Refused,
            (Ask::Flush { .. } | Ask::FlushNow, ["OK"]) => Answer::Done,
            (Ask::Incr, ["NOT_FOUND"]) => Answer::Value(None),
            (Ask::Incr, [number]) if number.parse::<u64>().is_ok() => {
                Answer::Value(number.parse().ok())
            }
            (Ask::Set(_) | Ask::SetFor { .. } | Ask::Add(_) | Ask::Cas { .. }, ["STORED"])
            | (Ask::Delete, ["DELETED"]) => Answer::Done,
            (Ask::Add(_), ["NOT_STORED"]) | (Ask::Delete | Ask::Cas { .. }, ["NOT_FOUND"]) => {
                Answer::Failed
            }
            (Ask::Cas { .. }, ["EXISTS"]) => Answer::Exists,
            _ => {
                self.fault.get_or_insert(format!("{line:?} answers {ask:?}"));
                Answer::Open
            }
        };
        Some((used, vec![answer; entries.len()]))
    }

    /// The same of a request that reads. Values may have left before an error.
    fn read_values(
        &mut self,
        entries: &[usize],
        history: &mut History,
    ) -> Option<(usize, Vec<Answer>)> {
        let (mut used, mut seen, mut answers) = (0, Vec::new(), vec![None; entries.len()]);
        let rest = loop {
            let (line, more) = line(&self.arrived[used..])?;
            used += more;
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["END"] => break Answer::Value(None),
                ["SERVER_ERROR", "in", "doubt:", ..] => break Answer::Open,
                ["SERVER_ERROR", ..] => break Answer::Refused,
                ["VALUE", name, _, _, token @ ..] => {
                    let (value, more) = self::line(&self.arrived[used..])?;
                    used += more;
                    let value = value.trim_end().parse().ok()?;
                    let is_of = |entry: &usize| self.names[history.entries[*entry].key] == *name;
                    let Some(at) = entries.iter().position(is_of) else {
                        self.fault.get_or_insert(format!("{line:?} was not asked for"));
                        break Answer::Open;
                    };
                    answers[at] = Some(Answer::Value(Some(value)));
                    let token = token.first().and_then(|token| token.parse().ok());
                    seen.extend(token.map(|token| (entries[at], token, value)));
                }
                _ => {
                    self.fault.get_or_insert(format!("{line:?} answers {entries:?}"));
                    break Answer::Open;
                }
            }
        };
        for (entry, token, value) in seen {
            let key = history.entries[entry].key;
            history.see(key, token, value);
            self.seen = Some((key, token, value));
        }
        Some((used, answers.into_iter().map(|answer| answer.unwrap_or(rest)).collect()))
    }
}

/// A request for the key, or the keys, with this name. `None` for what nobody asks.
fn text(name: &str, ask: Ask) -> Option<String> {
    Some(match ask {
        Ask::Get => format!("get {name}\r\n"),
        Ask::Gets => format!("gets {name}\r\n"),
        Ask::Keep => format!("gat 0 {name}\r\n"),
        Ask::Set(value) => store("set", name, (value, 0), ""),
        Ask::SetFor { value, seconds } => store("set", name, (value, seconds), ""),
        Ask::Add(value) => store("add", name, (value, 0), ""),
        Ask::Cas { value, token, .. } => store("cas", name, (value, 0), &format!(" {token}")),
        Ask::Delete => format!("delete {name}\r\n"),
        Ask::Incr => format!("incr {name} 1\r\n"),
        Ask::Flush { seconds } => format!("flush_all {seconds}\r\n"),
        Ask::FlushNow => "flush_all\r\n".to_owned(),
        Ask::Lose | Ask::End(_) => return None,
    })
}

fn store(verb: &str, key: &str, (value, seconds): (u64, u64), token: &str) -> String {
    let value = value.to_string();
    format!("{verb} {key} 0 {seconds} {}{token}\r\n{value}\r\n", value.len())
}

/// The first line of `bytes`, and its length with its end.
fn line(bytes: &[u8]) -> Option<(String, usize)> {
    let at = bytes.windows(2).position(|two| two == b"\r\n")?;
    Some((String::from_utf8_lossy(&bytes[..at]).into_owned(), at + 2))
}

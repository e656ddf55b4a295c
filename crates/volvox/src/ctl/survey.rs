//! What all cells of a ring say, asked at about the same time. If one is silent until its time is
//! over, the others are asked once more after that.
//!
//! The map is the newest that any of them shows: an older one names as primary a cell that is not
//! the primary any more.

use std::collections::BTreeMap;
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Client, NoAnswer};
use super::map::Map;
use super::report::find;

/// Cells that are asked at the same time.
const ASKED_MAX: usize = 64;
/// How often cells are asked that only a newer map names.
const ROUNDS_MAX: usize = 3;

/// What the cells say.
pub(super) struct Survey {
    /// The newest map.
    pub(super) map: Map,
    /// Every cell of it, but for witnesses.
    pub(super) cells: BTreeMap<u32, Asked>,
}

/// What one cell says.
pub(super) struct Asked {
    /// Where it was asked.
    pub(super) at: String,
    /// Its answer, or why there is none.
    pub(super) answer: Result<Answer, String>,
}

/// The answer of a cell.
pub(super) struct Answer {
    pub(super) map: Map,
    pub(super) memory: Memory,
    /// The second, by its clock.
    pub(super) time_s: u64,
    pub(super) evictions: u64,
}

/// The memory of a cell, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) limit: u64,
    /// How many items it holds, copies included.
    pub(super) items: u64,
    pub(super) item_bytes: u64,
    pub(super) index_bytes: u64,
    /// What is neither for items nor for their index: logs, links, connections.
    pub(super) other_bytes: u64,
    pub(super) segment_bytes: u64,
}

impl Survey {
    /// Asks the first of `servers` that answers, and then every cell that its map names.
    pub(super) fn take(servers: &[String], timeout: Duration) -> Result<Self, Box<dyn Error>> {
        let mut failures = Vec::new();
        for server in servers {
            match ask(server, timeout) {
                Ok(first) => return Ok(Self::around(first, server, timeout)),
                Err(error) => failures.push(format!("{server}: {error}")),
            }
        }
        Err(failures.join("\nvolvox: ").into())
    }

    fn around(first: Answer, server: &str, timeout: Duration) -> Self {
        let start = Instant::now();
        let map = first.map.clone();
        let first = Asked { at: server.to_owned(), answer: Ok(first) };
        let mut survey = Self { cells: BTreeMap::from([(map.cell, first)]), map };
        survey.ask_new(timeout);
        if start.elapsed() >= timeout {
            // One was silent, and the others have answered before that.
            let again = survey.answers().map(|(id, asked, _)| (id, asked.at.clone()));
            survey.ask(&again.collect::<Vec<_>>(), timeout);
            survey.ask_new(timeout);
        }
        survey.add_learned();
        survey
    }

    /// Adds to the map what only the primaries of ranges say: how much of them others have learned.
    fn add_learned(&mut self) {
        for range in &mut self.map.ranges {
            let primary = self.cells.get(&range.primary).and_then(|it| it.answer.as_ref().ok());
            let says = primary.and_then(|it| it.map.ranges.iter().find(|it| it.id == range.id));
            range.learned = says.and_then(|it| it.learned);
        }
    }

    /// Asks every cell that the map names and that was not asked.
    fn ask_new(&mut self, timeout: Duration) {
        for _ in 0..ROUNDS_MAX {
            // A witness has no address for clients.
            let new = self.map.cells.iter().filter(|(id, cell)| {
                let is_known = self.cells.contains_key(*id);
                !is_known && !cell.is_witness
            });
            let new: Vec<_> = new.map(|(id, cell)| (*id, cell.clients.clone())).collect();
            if !self.ask(&new, timeout) {
                break;
            }
        }
    }

    /// Asks `cells`. Whether one has a newer map.
    fn ask(&mut self, cells: &[(u32, String)], timeout: Duration) -> bool {
        for some in cells.chunks(ASKED_MAX) {
            self.cells.extend(ask_all(some, &self.map.ring, timeout));
        }
        let newest = self.answers().map(|(.., answer)| &answer.map).max_by_key(|map| map.version);
        let newer = newest.filter(|newest| newest.version > self.map.version).cloned();
        newer.map(|newer| self.map = newer).is_some()
    }

    /// The memory of each cell that answers.
    pub(super) fn memories(&self) -> BTreeMap<u32, Memory> {
        self.answers().map(|(id, _, answer)| (id, answer.memory)).collect()
    }

    /// The voters that run: cells that answer, and witnesses that the cell with the newest map
    /// hears.
    pub(super) fn living_voters(&self) -> Vec<u32> {
        let runs = |voter: &u32| {
            self.answers().any(|(id, ..)| id == *voter)
                || self.map.witnesses().any(|(id, it)| id == *voter && it.is_heard == Some(true))
        };
        self.map.voters.iter().copied().filter(runs).collect()
    }

    /// The answers that there are.
    pub(super) fn answers(&self) -> impl Iterator<Item = (u32, &Asked, &Answer)> {
        self.cells.iter().filter_map(|(id, asked)| {
            let answer = asked.answer.as_ref().ok()?;
            Some((*id, asked, answer))
        })
    }
}

fn ask_all(cells: &[(u32, String)], ring: &str, timeout: Duration) -> Vec<(u32, Asked)> {
    thread::scope(|scope| {
        let asks = cells.iter().map(|(id, at)| {
            let ask = scope.spawn(move || match ask(at, timeout) {
                Err(error) => Err(error.to_string()),
                Ok(answer) if answer.map.ring != ring => {
                    Err(format!("a cell of ring {} answers there", answer.map.ring))
                }
                Ok(answer) if answer.map.cell != *id => {
                    Err(format!("cell {} answers there", answer.map.cell))
                }
                Ok(answer) => Ok(answer),
            });
            (id, at, ask)
        });
        let asks: Vec<_> = asks.collect();
        let ended = asks.into_iter().map(|(id, at, ask)| {
            let answer = ask.join().expect("invariant: asking does not panic");
            (*id, Asked { at: at.clone(), answer })
        });
        ended.collect()
    })
}

fn ask(server: &str, timeout: Duration) -> Result<Answer, Box<dyn Error>> {
    let mut client = Client::connect(server, timeout)?;
    let ring = client.stats("ring").map_err(|error| match error {
        NoAnswer::Line(line) if line == "ERROR" => "it is in no ring".to_owned(),
        error => error.to_string(),
    })?;
    let (general, own) = (client.stats("")?, client.stats("volvox")?);
    let budget = |owner: &str| find::<u64>(&own, &format!("budget_{owner}"));
    let others = ["log", "links", "connections", "frames"].map(budget);
    let memory = Memory {
        limit: find(&general, "limit_maxbytes")?,
        items: find(&general, "curr_items")?,
        item_bytes: find(&general, "bytes")?,
        index_bytes: budget("index")?,
        other_bytes: others.into_iter().sum::<Result<_, _>>()?,
        segment_bytes: find(&own, "segment_bytes")?,
    };
    Ok(Answer {
        map: Map::parse(&ring)?,
        memory,
        time_s: find(&general, "time")?,
        evictions: find(&general, "evictions")?,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::*;

    /// A cell whose map has another version in each answer, for two connections.
    fn cell(listener: &TcpListener, silent: SocketAddr) {
        for version in [5, 6] {
            let (stream, _) = listener.accept().expect("it is asked");
            let mut stream = BufReader::new(stream);
            let mut request = String::new();
            while stream.read_line(&mut request).is_ok_and(|bytes| bytes > 0) {
                let at = listener.local_addr().expect("it listens");
                let lines = match request.trim_end() {
                    "stats ring" => format!(
                        "ring r|cell 2|map_version {version}|cells_wanted 2|copies_wanted 1|\
                         losses 0|cell:1:clients {silent}|cell:2:clients {at}"
                    ),
                    "stats volvox" => "budget_index 0|budget_log 0|budget_links 0|\
                                       budget_connections 0|budget_frames 0|segment_bytes 1"
                        .to_owned(),
                    _ => "limit_maxbytes 9|curr_items 0|bytes 0|time 7|evictions 0".to_owned(),
                };
                let lines = lines.split('|').map(|line| format!("STAT {line}\r\n"));
                let report = lines.collect::<String>() + "END\r\n";
                stream.get_mut().write_all(report.as_bytes()).expect("it is read");
                request.clear();
            }
        }
    }

    #[test]
    fn where_a_cell_is_silent_the_others_are_asked_after_that() {
        let listener = || TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (answers, silent) = (listener(), listener());
        let address = |it: &TcpListener| it.local_addr().expect("it listens");
        let (server, at) = (address(&answers).to_string(), address(&silent));
        let survey = thread::scope(|scope| {
            scope.spawn(|| cell(&answers, at));
            let survey = Survey::take(std::slice::from_ref(&server), Duration::from_secs(2));
            // A cell that waits to be asked ends by this.
            let _ = TcpStream::connect(&server);
            survey.expect("one answers")
        });
        assert!(survey.cells[&1].answer.as_ref().is_err_and(|it| it.contains("nothing within")));
        assert_eq!(survey.map.version, 6);
        assert!(survey.answers().all(|(id, _, answer)| (id, answer.map.version) == (2, 6)));
    }
}

//! Cells that are started one by one, each with a directory, so that one can end and come back
//! while the others run on.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::support::{Client, DEADLINE, free_ports};

/// Processes, ended when dropped.
pub struct Cells {
    directory: PathBuf,
    places: Vec<Place>,
}

struct Place {
    /// Clients, control, links.
    at: [SocketAddr; 3],
    /// Its command and flags.
    words: Vec<String>,
    child: Option<Child>,
}

impl Cells {
    /// A ring that forms with `cells`, and keeps two copies. Nothing runs yet.
    pub fn plan(name: &str, cells: usize, of_cells: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("volvox-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join("secret"), "a secret of the test").expect("a file");
        let mut ring = Self { directory, places: Vec::new() };
        for _ in 0..cells {
            let at = addresses();
            let clients = at[0].to_string();
            let mut words = vec!["serve", "--listen", &clients, "--workers", "1"];
            words.extend(of_cells);
            let words = words.into_iter().map(str::to_owned).collect();
            ring.add(at, words, &["--ring-links", &at[2].to_string()]);
            let cells = cells.to_string();
            let last = ring.places.last_mut().expect("it was added");
            last.words.extend(["--ring-cells", &cells, "--ring-copies", "2"].map(str::to_owned));
        }
        ring
    }

    /// A witness of it, which comes after all cells.
    pub fn plan_witness(&mut self) -> usize {
        let at = addresses();
        let number = (self.places.len() + 1).to_string();
        let path = |name: &str| self.directory.join(name).display().to_string();
        let seeds: Vec<_> = self.places.iter().map(|place| place.at[1].to_string()).collect();
        let words = [
            ("--directory", path(&number)),
            ("--listen", at[1].to_string()),
            ("--seeds", seeds.join(",")),
            ("--secret-file", path("secret")),
        ];
        let words = words.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]);
        let words = ["witness".to_owned()].into_iter().chain(words).collect();
        self.places.push(Place { at, words, child: None });
        self.places.len() - 1
    }

    fn add(&mut self, at: [SocketAddr; 3], mut words: Vec<String>, more: &[&str]) {
        let number = (self.places.len() + 1).to_string();
        let path = |name: &str| self.directory.join(name).display().to_string();
        let (own, secret, control) = (path(&number), path("secret"), at[1].to_string());
        let ring = ["--ring-directory", &own, "--ring-secret-file", &secret];
        words.extend(ring.iter().chain(&["--ring-listen", &control]).map(|it| (*it).to_owned()));
        words.extend(more.iter().map(|it| (*it).to_owned()));
        let seed = self.places.first().map(|first| first.at[1].to_string());
        words.extend(seed.into_iter().flat_map(|seed| ["--ring-seeds".to_owned(), seed]));
        self.places.push(Place { at, words, child: None });
    }

    /// Gives a cell another value of a flag from its next start on; `None`: not the flag.
    pub fn set(&mut self, cell: usize, flag: &str, value: Option<&str>) {
        let words = &mut self.places[cell].words;
        let has_value = |at: &usize| words.get(at + 1).is_some_and(|next| !next.starts_with("--"));
        if let Some(at) = words.iter().position(|word| word == flag) {
            words.drain(at..at + 1 + usize::from(has_value(&at)));
        }
        words.retain(|word| word.split('=').next() != Some(flag));
        words.extend(value.map(|value| format!("{flag}={value}")));
    }

    /// Waits until a cell has ended by itself. Returns its code, and what it has logged.
    pub fn ends(&mut self, cell: usize) -> (Option<i32>, String) {
        let start = Instant::now();
        let mut child = self.places[cell].child.take().expect("it was started");
        let code = loop {
            if let Some(status) = child.try_wait().expect("it is ours") {
                break status.code();
            }
            if start.elapsed() > DEADLINE {
                let _ = child.kill();
                panic!("cell {cell} does not end: {}", self.log(cell));
            }
            thread::yield_now();
        };
        (code, self.log(cell))
    }

    /// The directory of the ring, which is removed at the end.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts the cell number `cell`, for the first time or again.
    pub fn start(&mut self, cell: usize) {
        let log = self.directory.join(format!("{}.log", cell + 1));
        let log = File::options().create(true).append(true).open(log).expect("a file");
        let place = &mut self.places[cell];
        let child = Command::new(env!("CARGO_BIN_EXE_volvox"))
            .args(&place.words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        place.child = Some(child.expect("the binary starts"));
    }

    /// A cell is stopped: it runs on after [`Cells::resume`].
    pub fn pause(&self, cell: usize) {
        self.signal(cell, Signal::SIGSTOP);
    }

    pub fn resume(&self, cell: usize) {
        self.signal(cell, Signal::SIGCONT);
    }

    fn signal(&self, cell: usize, signal: Signal) {
        let child = self.places[cell].child.as_ref().expect("it was started");
        kill(Pid::from_raw(child.id() as i32), signal).expect("it runs");
    }

    /// Kills a cell, as a crash does.
    pub fn kill(&mut self, cell: usize) {
        let mut child = self.places[cell].child.take().expect("it runs");
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
    }

    /// Where a cell takes clients.
    pub fn clients(&self, cell: usize) -> SocketAddr {
        self.places[cell].at[0]
    }

    /// Where a cell takes the heartbeats and calls of others.
    pub fn control(&self, cell: usize) -> SocketAddr {
        self.places[cell].at[1]
    }

    /// Where a cell takes the links of others.
    pub fn links(&self, cell: usize) -> SocketAddr {
        self.places[cell].at[2]
    }

    /// Waits until a cell has logged `text`.
    pub fn until_log(&self, cell: usize, text: &str) {
        let start = Instant::now();
        while !self.log(cell).contains(text) {
            assert!(start.elapsed() < DEADLINE, "{text}: {}", self.log(cell));
            thread::yield_now();
        }
    }

    /// What a cell has logged.
    pub fn log(&self, cell: usize) -> String {
        fs::read_to_string(self.directory.join(format!("{}.log", cell + 1))).unwrap_or_default()
    }

    /// What `volvox ctl WORDS` prints, and how it ends, asked at a cell.
    pub fn ctl(&self, cell: usize, words: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_volvox"));
        command.arg("ctl").args(words).args(["--server", &self.clients(cell).to_string()]);
        let ended = command.output().expect("the binary runs");
        let text = [ended.stdout, ended.stderr].concat();
        let text = String::from_utf8(text).expect("output is text");
        (ended.status.code().expect("no signal ended it"), text)
    }

    /// Waits until `stats ring` of a cell has all these lines.
    pub fn until(&self, cell: usize, lines: &[&str]) {
        let (start, mut client) = (Instant::now(), None);
        loop {
            // One connection for all looks: each that is closed takes a port for a minute.
            client = client.or_else(|| Client::try_connect(self.clients(cell)));
            let report = client.as_mut().map(|it| it.list("stats ring")).unwrap_or_default();
            if lines.iter().all(|line| report.iter().any(|it| it == &format!("STAT {line}"))) {
                return;
            }
            let log = if start.elapsed() > DEADLINE { self.log(cell) } else { String::new() };
            assert!(start.elapsed() < DEADLINE, "{lines:?}: {report:#?}\n{log}");
            thread::yield_now();
        }
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        for place in &mut self.places {
            if let Some(child) = &mut place.child {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Three addresses that are free, and stay so while the cell is away.
fn addresses() -> [SocketAddr; 3] {
    let first = free_ports(3);
    [0, 1, 2].map(|more| SocketAddr::from(([127, 0, 0, 1], first + more)))
}

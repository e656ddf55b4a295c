//! What is started where: directories, ports, the secret. What a directory has from an earlier time
//! is used again, so that its cells come back as who they were.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::wanted::Wanted;

/// Bytes of a secret, before they are written as text.
const SECRET_BYTES: usize = 32;

/// Ports for other cells, below those that Linux gives to clients.
const PORTS: Range<u16> = 23_552..29_952;

/// At how many ports of these rings begin to look, and how far they are apart.
const APART: (u32, u32) = (100, 64);

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellPlan {
    /// From 1 on. The ring gives it the same one, unless a cell takes long to join.
    pub(super) number: u16,
    pub(super) clients: SocketAddr,
    pub(super) control: SocketAddr,
    pub(super) links: SocketAddr,
}

/// All cells, and what they share.
pub(super) struct Plan {
    /// What a cell is started with: the program that stands there then.
    pub(super) program: PathBuf,
    pub(super) directory: PathBuf,
    /// Whether the directory is removed at the end.
    is_temporary: bool,
    pub(super) copies: u8,
    /// Those that the ring forms with, and then the spares.
    pub(super) cells: Vec<CellPlan>,
    pub(super) spares: u16,
}

impl Plan {
    /// Makes what is missing of the directory.
    pub(super) fn make(wanted: &Wanted) -> Result<Self, Box<dyn Error>> {
        let is_temporary = wanted.directory.is_none();
        let directory = wanted.directory.clone().unwrap_or_else(temporary);
        let refused = |error| format!("{}: {error}", directory.display());
        fs::create_dir_all(&directory).map_err(refused)?;
        write_secret(&directory.join("secret")).map_err(refused)?;
        let (count, spares) = (wanted.cells + wanted.spares, wanted.spares);
        let last = wanted.port.checked_add(count - 1);
        let too_few = || format!("--port {}: there are too few ports above it", wanted.port);
        let of_clients = wanted.port..=last.ok_or_else(too_few)?;
        let ports = ports(&directory.join("ports"), count, &of_clients)?;
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let cells = ports.into_iter().zip(0..).map(|([control, links], at)| CellPlan {
            number: at + 1,
            clients: local(wanted.port + at),
            control: local(control),
            links: local(links),
        });
        // A ring of one cell has copies once a spare has joined it.
        let copies = wanted.copies.min(count.min(u16::from(u8::MAX)) as u8);
        let cells = cells.collect();
        let program = std::env::current_exe()?;
        Ok(Self { program, directory, is_temporary, copies, cells, spares })
    }

    /// How many cells the ring forms with.
    pub(super) fn forms_with(&self) -> usize {
        self.cells.len() - usize::from(self.spares)
    }

    /// Keeps the directory, where its logs are needed.
    pub(super) fn keep(&mut self) {
        self.is_temporary = false;
    }

    /// The flags of `volvox serve` for a cell, which are followed by those that a user has given.
    pub(super) fn flags(&self, cell: &CellPlan, given: &[String]) -> Vec<String> {
        let path = |name: &str| self.directory.join(name).display().to_string();
        let seed = self.cells.first().filter(|first| first.number != cell.number);
        let number = cell.number.to_string();
        let values = [
            ("--listen", cell.clients.to_string()),
            ("--ring-listen", cell.control.to_string()),
            ("--ring-links", cell.links.to_string()),
            ("--ring-directory", path(&number)),
            ("--ring-secret-file", path("secret")),
            ("--ring-cells", self.forms_with().to_string()),
            ("--ring-copies", self.copies.to_string()),
        ];
        let seeds = seed.map(|seed| ("--ring-seeds", seed.control.to_string()));
        // A journal each, above what they share.
        let has = |flag: &str| given.iter().any(|it| it.split('=').next() == Some(flag));
        let is_tiered = has("--tier-database") && !has("--tier-dir");
        let tier = is_tiered.then(|| ("--tier-dir", path(&format!("{number}/tier"))));
        let all = values.into_iter().chain(tier).chain(seeds);
        all.flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }

    /// A file that a cell has once it is in the ring.
    pub(super) fn identity(&self, number: u16) -> PathBuf {
        self.directory.join(number.to_string()).join("identity")
    }

    /// The log of a cell.
    pub(super) fn log(&self, number: u16) -> PathBuf {
        self.directory.join(format!("{number}.log"))
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        if self.is_temporary {
            // What cannot be removed stays, as other temporary files do.
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

fn temporary() -> PathBuf {
    std::env::temp_dir().join(format!("volvox-up-{}", std::process::id()))
}

/// Writes a secret that nobody else can read, unless there is one.
fn write_secret(path: &Path) -> std::io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut bytes = [0; SECRET_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

/// The ports of each cell for other cells: those that the directory has, or free ones, which it
/// keeps then.
fn ports(
    path: &Path,
    cells: u16,
    of_clients: &RangeInclusive<u16>,
) -> Result<Vec<[u16; 2]>, Box<dyn Error>> {
    let shown = path.display();
    if let Ok(text) = fs::read_to_string(path) {
        let kept: Vec<[u16; 2]> =
            serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}; remove it"))?;
        if kept.len() != usize::from(cells) {
            let had = kept.len();
            return Err(format!(
                "{shown} has {had} cells, --cells and --spares {cells}: ask for {had}"
            )
            .into());
        }
        for port in kept.iter().flatten() {
            if of_clients.contains(port) {
                return Err(format!(
                    "port {port} of {shown} is to be of clients: choose another --port"
                )
                .into());
            }
            TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).map_err(|error| {
                format!("port {port} of {shown}: {error}; end what uses it, or write another there")
            })?;
        }
        return Ok(kept);
    }
    let ports: Vec<_> = free_ports(cells * 2, of_clients)?.as_chunks().0.to_vec();
    fs::write(path, serde_json::to_string(&ports)?).map_err(|error| format!("{shown}: {error}"))?;
    Ok(ports)
}

/// Ports of which none is used, all `but` these, of those that the system gives to no client: a
/// cell that starts again could find one of the others taken.
fn free_ports(count: u16, but: &RangeInclusive<u16>) -> std::io::Result<Vec<u16>> {
    // Rings that are started at the same time begin at different ones.
    let first = PORTS.start + (std::process::id() % APART.0 * APART.1) as u16;
    let tried = (first..PORTS.end).chain(PORTS.start..first).filter(|port| !but.contains(port));
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    // All at once, so that none is given twice.
    let listeners: Vec<_> = tried.filter_map(|port| bind(port).ok()).take(count.into()).collect();
    if listeners.len() < count.into() {
        return Err(std::io::Error::other(format!("{count} ports of {PORTS:?} are not free")));
    }
    listeners.iter().map(|it| it.local_addr().map(|at| at.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn wanted(directory: &Path, cells: u16) -> Wanted {
        Wanted {
            cells,
            spares: 0,
            copies: 2,
            port: 11211,
            directory: Some(directory.to_owned()),
            stays_ended: false,
            json: false,
            flags: Vec::new(),
        }
    }

    #[test]
    fn a_directory_gives_the_same_ports_and_secret_again() {
        let scratch = Scratch::new("up");
        let directory = scratch.path("ring");
        let make = || Plan::make(&wanted(&directory, 3)).expect("it can be written");
        let (first, secret) = (make(), fs::read(directory.join("secret")).expect("a secret"));
        assert!(first.cells.iter().all(|it| PORTS.contains(&it.control.port())), "many are free");
        let again = make();
        assert_eq!(first.cells, again.cells);
        assert_eq!(fs::read(directory.join("secret")).expect("a secret"), secret);
        assert_eq!(secret.len(), 2 * SECRET_BYTES);
        assert!(first.flags(&first.cells[0], &[]).iter().all(|flag| flag != "--ring-seeds"));
        let seed = first.cells[0].control.to_string();
        assert!(first.flags(&first.cells[2], &[]).ends_with(&["--ring-seeds".to_owned(), seed]));
        let refused = Plan::make(&wanted(&directory, 4)).err().expect("another number");
        assert!(
            refused.to_string().ends_with("ports has 3 cells, --cells and --spares 4: ask for 3")
        );
        let taken = TcpListener::bind(first.cells[1].links).expect("it is free");
        let refused = Plan::make(&wanted(&directory, 3)).err().expect("a port is taken");
        let refused = refused.to_string();
        assert!(refused.starts_with(&format!("port {} of ", first.cells[1].links.port())));
        let remedy = "end what uses it, or write another there";
        assert!(refused.contains("/ports: ") && refused.ends_with(remedy), "{refused}");
        drop(taken);
        assert_eq!(make().cells, first.cells);
        let but = PORTS.start..=PORTS.end - 100;
        let others = free_ports(2, &but).expect("two are free");
        assert!(others.iter().all(|port| !but.contains(port)), "those of clients: {others:?}");
        let few = free_ports(101, &but).expect_err("there are 99");
        assert_eq!(few.to_string(), "101 ports of 23552..29952 are not free");
        let port = first.cells[2].links.port();
        let taken = Plan::make(&Wanted { port, ..wanted(&directory, 3) }).err().expect("its own");
        assert!(taken.to_string().ends_with("is to be of clients: choose another --port"));
        let spare = Plan::make(&Wanted { spares: 1, ..wanted(&directory, 2) }).expect("three");
        assert_eq!((&spare.cells, spare.forms_with()), (&first.cells, 2));
        let flags = spare.flags(&spare.cells[2], &[]).join(" ");
        assert!(flags.contains("--ring-cells 2 "), "the ring forms without it: {flags}");
    }
}

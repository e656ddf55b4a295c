//! The programs that are measured, and how each is started as a server.
//!
//! A server is ready when it answers `stats settings`, and only if the driver that serves is the
//! one of its contestant: where the system refuses a driver, our server takes another, and its
//! figures would stand in the wrong row.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use measure::Target;
use measure::process::{cores::Cores, exec::Exec, launch::Launch, server::Server};
use rustix::process::geteuid;

use crate::plan::{Contestant, ServerSettings};

/// The most connections of our servers: enough for the sweeps, and few enough for the descriptors
/// that an instrument leaves.
const CONNECTIONS_MAX: &str = "256";
/// Longest a memcached may take to print its version.
const VERSION_MAX: Duration = Duration::from_secs(20);
/// Longest that all keys may take to be written back.
const DRAIN_MAX: Duration = Duration::from_secs(600);
/// The journal of a cell above a tier.
const JOURNAL: &str = "256MiB";
/// Beside the logs: a directory for the tier of each server.
const TIERS: &str = "tiers";

/// Where the programs are, and the cores they run on.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    volvox: PathBuf,
    memcached: Option<PathBuf>,
    /// What lies below our servers, as `tier.database` has it; nothing if it is `None`.
    database: Option<String>,
    cores: Cores,
}

impl Programs {
    /// Our binary, and a memcached if one is measured, on the cores of this process.
    pub fn find(volvox: &Path, memcached: Option<&Path>) -> Result<Self> {
        let cores = Cores::find().context("read which cores may be used")?;
        let (volvox, memcached) = (volvox.to_owned(), memcached.map(Path::to_owned));
        Ok(Self { volvox, memcached, database: None, cores })
    }

    /// The same; our servers stand above a tier with this database.
    pub fn above(self, database: Option<String>) -> Self {
        Self { database, ..self }
    }

    /// Waits until a server has written back all that it holds.
    pub(super) fn drain(&self, address: SocketAddr) -> Result<()> {
        let (address, seconds) = (address.to_string(), DRAIN_MAX.as_secs().to_string());
        let words = ["ctl", "--server", &address, "tier", "drain", "--wait", &seconds];
        Exec::new(&self.volvox).args(words).capture(DRAIN_MAX).map(drop)
    }

    /// The cores of the servers and of the generator.
    pub fn cores(&self) -> &Cores {
        &self.cores
    }

    /// Name and version of the memcached, as it prints them.
    pub fn memcached_version(&self) -> Result<Option<String>> {
        let Some(memcached) = &self.memcached else { return Ok(None) };
        let text = Exec::new(memcached).arg("-V").capture(VERSION_MAX)?.trim().to_string();
        if text.starts_with("memcached ") {
            return Ok(Some(text));
        }
        let path = memcached.display();
        bail!("--memcached {path} is no memcached: -V prints {text:?}; give the path of its binary")
    }

    /// Starts a server by `launch`, and waits until it answers.
    pub(super) fn start(
        &self,
        settings: &ServerSettings,
        logs: &Path,
        launch: Launch,
    ) -> Result<Server> {
        let name = settings.contestant.name();
        let launch =
            launch.cores(if settings.pinned { self.cores.server() } else { self.cores.all() });
        let mut stats = Vec::new();
        let tier = logs.with_file_name(TIERS).join(name);
        if tier.exists() {
            fs::remove_dir_all(&tier).with_context(|| format!("empty {}", tier.display()))?;
        }
        let words = |port| self.words(settings, &tier, port);
        let server = launch.start(name, logs, words, |address| {
            stats = load::ask(&Target::Tcp(address), "stats settings")?;
            Ok(())
        })?;
        match stats.iter().find(|stat| stat.0 == "driver") {
            Some((_, driver)) if driver != name => {
                Err(server.failed(&format!("the system refuses it, {driver} serves")))
            }
            None if settings.contestant != Contestant::Memcached => {
                Err(server.failed("`stats settings` does not say which driver serves"))
            }
            _ => Ok(server),
        }
    }

    /// The words that start a server on `port`.
    fn words(&self, settings: &ServerSettings, tier: &Path, port: u16) -> Vec<String> {
        let (workers, memory_mib) = (settings.workers, settings.memory_mib);
        let original = settings.contestant == Contestant::Memcached;
        let (program, arguments) = match self.memcached.as_ref().filter(|_| original) {
            Some(memcached) => {
                // memcached runs as root only if root is named.
                let user = if geteuid().is_root() { " -u root" } else { "" };
                let own = format!("-l 127.0.0.1 -p {port} -U 0 -m {memory_mib} -t {workers}{user}");
                (memcached, own)
            }
            None => {
                let driver = settings.contestant.name();
                let own = format!(
                    "serve --driver {driver} --workers {workers} --listen 127.0.0.1:{port} \
                     --memory-limit {memory_mib}M --connections-max {CONNECTIONS_MAX}"
                );
                (&self.volvox, own)
            }
        };
        let program = program.display().to_string();
        let words = std::iter::once(program).chain(arguments.split(' ').map(str::to_string));
        let database = self.database.as_ref().filter(|_| !original);
        let tier = database.map(|database| {
            let tier = tier.display().to_string();
            ["--tier-dir", &tier, "--tier-journal", JOURNAL, "--tier-database", database]
                .map(str::to_owned)
        });
        words.chain(tier.into_iter().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(contestant: Contestant) -> ServerSettings {
        let (workers, pinned, keys, value_bytes, memory_mib) = (2, false, 1, 1, 768);
        ServerSettings { contestant, workers, pinned, keys, value_bytes, memory_mib }
    }

    #[test]
    fn every_contestant_is_started_with_its_own_words() {
        let programs = Programs::find(Path::new("/v"), Some(Path::new("/m"))).unwrap();
        for (contestant, expected) in [
            (Contestant::Uring, "/v serve --driver uring --workers 2 --listen 127.0.0.1:9"),
            (Contestant::Memcached, "/m -l 127.0.0.1 -p 9 -U 0 -m 768 -t 2"),
        ] {
            let words = programs.words(&settings(contestant), Path::new("/t"), 9).join(" ");
            assert!(words.starts_with(expected) && !words.contains("tier"), "{words}");
        }
        let programs = programs.above(Some("files".to_owned()));
        let words = |who| programs.words(&settings(who), Path::new("/t/it"), 9).join(" ");
        let tier = "--tier-dir /t/it --tier-journal 256MiB --tier-database files";
        assert!(words(Contestant::Threads).ends_with(tier));
        assert!(!words(Contestant::Memcached).contains("tier"));
    }

    #[test]
    fn a_program_that_is_no_server_is_named() {
        let folder = std::env::temp_dir().join(format!("lab-no-server-{}", std::process::id()));
        for (program, part) in [
            ("/bin/false", "epoll: ended with exit status: 1"),
            ("/no/such/program", "/no/such/program"),
        ] {
            let programs = Programs::find(Path::new(program), None).unwrap();
            let started = programs.start(&settings(Contestant::Epoll), &folder, Launch::new());
            let error = format!("{:#}", started.err().unwrap());
            assert!(error.contains(part), "{error}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_program_that_is_no_memcached_is_refused() {
        for (path, word) in [("/no/such/program", "/no/such/program"), ("/bin/true", "--memcached")]
        {
            let programs = Programs::find(Path::new("/v"), Some(Path::new(path))).unwrap();
            let error = format!("{:#}", programs.memcached_version().unwrap_err());
            assert!(error.contains(word), "{error}");
        }
    }
}

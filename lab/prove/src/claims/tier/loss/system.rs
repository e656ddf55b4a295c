//! The systems of the table: how each is started on a directory, killed, and spoken to.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::dialect::{Dialect, Speaker};
use crate::lab::Lab;
use measure::exec::Exec;
use measure::process::{Launch, Server, exec::WAIT_MAX};
use measure::tools;

/// Flags of our cell: it has memory for its logs, as what does not fit there is synced at once.
const FLAGS: &str = "--workers 2 --memory-limit 256MiB --tier-journal 128MiB";
/// Seconds until a change is written back: soon where nothing may be lost, and else not within a
/// load, so that the most is lost.
const AGES_S: [u32; 2] = [1, 60];
/// Settings of PostgreSQL: its log of changes fits on the disk that is cut.
const POSTGRES: &str = "-c listen_addresses=127.0.0.1 -c unix_socket_directories= \
                        -c max_wal_size=96MB -c min_wal_size=32MB -c shared_buffers=32MB";
/// The user that PostgreSQL runs as where we are the administrator, whom it refuses.
const POSTGRES_USER: &str = "postgres";
/// Longest that processes may take to end when they are killed, and how often they are looked at.
const END_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(2);
/// SQLite behind a socket.
const SQLITE: &str = "tests/power_cut/sqlite_server.py";

/// A system, and what its answers promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Our cell at a level.
    Volvox(&'static str),
    /// Redis with an append-only file, which it syncs so.
    Redis(&'static str),
    /// PostgreSQL with this `synchronous_commit`.
    Postgres(&'static str),
    /// SQLite with a WAL and this `synchronous`.
    Sqlite(&'static str),
}

/// All systems, ours first.
pub const ALL: [System; 10] = [
    System::Volvox("memory"),
    System::Volvox("os"),
    System::Volvox("disk"),
    System::Volvox("backend"),
    System::Redis("everysec"),
    System::Redis("always"),
    System::Postgres("off"),
    System::Postgres("on"),
    System::Sqlite("NORMAL"),
    System::Sqlite("FULL"),
];

impl System {
    /// Its name in the table.
    pub fn name(self) -> String {
        match self {
            Self::Volvox(level) => format!("volvox, {level}"),
            Self::Redis(sync) => format!("Redis, appendfsync {sync}"),
            Self::Postgres(sync) => format!("PostgreSQL, synchronous_commit {sync}"),
            Self::Sqlite(sync) => format!("SQLite, WAL, synchronous {sync}"),
        }
    }

    /// Whether it is ours.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Volvox(_))
    }

    /// Whether it is ours and promises to lose nothing by a kill.
    pub fn keeps_at_kill(self) -> bool {
        self.is_ours() && self != Self::Volvox("memory")
    }

    /// Whether it is ours and promises to lose nothing by a power cut.
    pub fn keeps_at_cut(self) -> bool {
        matches!(self, Self::Volvox("disk" | "backend"))
    }

    /// Connects to it.
    pub fn speak(self, address: SocketAddr) -> Result<Speaker> {
        Speaker::connect(self.dialect(), address)
    }

    fn dialect(self) -> Dialect {
        match self {
            Self::Volvox(_) | Self::Sqlite(_) => Dialect::Memcached,
            Self::Redis(_) => Dialect::Redis,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Makes what must be in an empty directory before its first start.
    pub fn prepare(self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
        if let Self::Postgres(_) = self {
            if geteuid().is_root() {
                let owner = [&format!("{POSTGRES_USER}:"), &directory.display().to_string()];
                Exec::new("chown").args(owner).capture(WAIT_MAX)?;
            }
            let initdb = tools::need_postgres()?.join("initdb").display().to_string();
            let words = [as_postgres(), vec![initdb]].concat();
            let exec = Exec::new(&words[0]).args(&words[1..]).arg("-D").arg(directory);
            // It is synced before the load.
            exec.args(["-A", "trust", "-U", POSTGRES_USER, "-N"])
                .cwd(directory)
                .capture(WAIT_MAX)?;
        }
        Ok(())
    }

    /// Starts it on a directory, with its log in `logs`; it answers then.
    pub fn start(self, lab: &Lab, directory: &Path, logs: &Path) -> Result<Server> {
        let program = match self {
            Self::Volvox(_) => lab.volvox()?,
            Self::Redis(_) => tools::REDIS.need()?,
            Self::Postgres(_) => tools::need_postgres()?.join("postgres"),
            Self::Sqlite(_) => tools::PYTHON.need()?,
        };
        let (program, at) = (program.display().to_string(), directory.display().to_string());
        let words = |port: u16| -> Vec<String> {
            let text = match self {
                Self::Volvox(level) => format!(
                    "{program} serve --listen 127.0.0.1:{port} {FLAGS} --tier-dir {at}/tier \
                     --tier-ack {level} --tier-age-s {}",
                    AGES_S[usize::from(!self.keeps_at_cut())]
                ),
                Self::Redis(sync) => format!(
                    "{program} --port {port} --bind 127.0.0.1 --dir {at} --appendonly yes \
                     --appendfsync {sync} --save"
                ),
                Self::Postgres(sync) => {
                    format!("{program} -D {at} -p {port} -c synchronous_commit={sync} {POSTGRES}")
                }
                Self::Sqlite(sync) => {
                    let script = lab.repo().path(SQLITE);
                    format!("{program} {} {port} {at}/kv.sqlite {sync}", script.display())
                }
            };
            let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            match self {
                Self::Postgres(_) => words.splice(0..0, as_postgres()).for_each(drop),
                // It saves at no points in time.
                Self::Redis(_) => words.push(String::new()),
                _ => {}
            }
            words
        };
        let answers = |at| Speaker::answers(self.dialect(), at, "nothing").map(drop);
        let name = format!("loss-{}", self.name().replace([' ', ','], "-"));
        Launch::new().start(&name, logs, words, answers)
    }
}

/// The words before a program of PostgreSQL.
fn as_postgres() -> Vec<String> {
    let words = format!("setpriv --reuid={POSTGRES_USER} --regid={POSTGRES_USER} --clear-groups");
    let is_root = geteuid().is_root();
    words.split(' ').filter(|_| is_root).map(str::to_owned).collect()
}

/// Kills a server and its children, as a `kill -9` of all of them does.
pub fn kill(server: Server) -> Result<()> {
    let pid = server.pid();
    // Stopped, it makes no more of them.
    send(pid, Signal::STOP)?;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .context("read the children of a server")?;
    let children: Vec<u32> = children.split_whitespace().flat_map(str::parse).collect();
    [pid].iter().chain(&children).try_for_each(|pid| send(*pid, Signal::KILL))?;
    // It is waited for when it is dropped; its children are not ours to wait for.
    drop(server);
    let until = Instant::now() + END_MAX;
    while children.iter().any(|child| is_running(*child)) {
        ensure!(Instant::now() < until, "a child of {pid} runs on though it was killed");
        thread::sleep(POLL);
    }
    Ok(())
}

fn send(pid: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("no process")?;
    match kill_process(pid, signal) {
        // A child may have ended meanwhile.
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context("signal a server"),
    }
}

/// Whether a process has not ended: one that nobody has waited for yet has.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses.
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

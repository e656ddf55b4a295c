//! Which core the servers run on, and which the generator.
//!
//! A process inherits the cores of the thread that starts it, so a server is started from a thread
//! that has moved to the server's core first. On a machine of one core nobody is pinned.

use std::io;
use std::process::{Child, Command};
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this process may use, as it was started.
#[derive(Clone)]
pub(crate) struct Cores {
    all: CpuSet,
    /// The core of the servers and that of the generator, where there are two.
    pair: Option<(usize, usize)>,
}

impl Cores {
    /// Reads them.
    pub fn find() -> io::Result<Self> {
        let all = sched_getaffinity(None)?;
        let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect();
        let pair = match usable[..] {
            [first, .., last] => Some((first, last)),
            _ => None,
        };
        Ok(Self { all, pair })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.count() as usize
    }

    /// The core of the servers and that of the generator.
    pub fn pair(&self) -> Option<(usize, usize)> {
        self.pair
    }

    /// Moves this thread, and those it starts, to the generator's core, or to all of them.
    pub fn move_generator(&self, pinned: bool) -> io::Result<()> {
        let core = self.pair.filter(|_| pinned).map(|pair| pair.1);
        Ok(sched_setaffinity(None, &self.set(core))?)
    }

    /// Starts `command` on the servers' core, or on all of them.
    pub fn spawn(&self, command: &mut Command, pinned: bool) -> io::Result<Child> {
        let core = self.pair.filter(|_| pinned).map(|pair| pair.0);
        let start = || {
            sched_setaffinity(None, &self.set(core))?;
            command.spawn()
        };
        thread::scope(|scope| scope.spawn(start).join())
            .expect("invariant: starting a program does not panic")
    }

    fn set(&self, core: Option<usize>) -> CpuSet {
        let Some(core) = core else { return self.all };
        let mut set = CpuSet::new();
        set.set(core);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_starts_on_the_servers_core_and_we_stay_where_we_are() {
        let cores = Cores::find().unwrap();
        let Some((server, generator)) = cores.pair() else { return };
        assert_ne!(server, generator);
        let before = sched_getaffinity(None).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "grep Cpus_allowed_list /proc/self/status"]);
        command.stdout(std::process::Stdio::piped());
        let said = cores.spawn(&mut command, true).unwrap().wait_with_output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said.split_whitespace().last(), Some(server.to_string().as_str()));
        assert!(sched_getaffinity(None).unwrap() == before);
    }
}

//! Which core the server runs on, and which the generator.
//!
//! A process inherits the cores of the thread that starts it. A program is therefore started from a
//! short-lived thread that first moves to the program's cores; the caller's own cores stay as they
//! are. A machine of one core has nothing to separate: there, every set is that one core.

use std::process::{Child, Command};
use std::{io, thread};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that a program may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreSet(CpuSet);

/// The cores of this process as it was started, divided between server and generator.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    all: CoreSet,
    server: CoreSet,
    generator: CoreSet,
}

impl CoreSet {
    fn one(core: usize) -> Self {
        let mut set = CpuSet::new();
        set.set(core);
        Self(set)
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        (0..CpuSet::MAX_CPU).filter(|core| self.0.is_set(*core))
    }

    /// Moves this thread, and what it starts from now on, to these cores.
    pub fn move_here(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.0)?)
    }

    /// Starts `command` on these cores.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        self.run(|| command.spawn())?
    }

    /// Runs `work` on these cores, in a thread of its own; a panic of it is passed on.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        let moved = || self.move_here().map(|()| work());
        let done = thread::scope(|scope| scope.spawn(moved).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Cores {
    /// Reads the cores of this process: the first is the server's, the last the generator's.
    pub fn find() -> io::Result<Self> {
        let all = CoreSet(sched_getaffinity(None)?);
        let (first, last) = (all.numbers().next(), all.numbers().last());
        let one = |core: Option<usize>| core.map_or(all, CoreSet::one);
        Ok(Self { all, server: one(first), generator: one(last) })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.0.count() as usize
    }

    /// Whether server and generator have a core each.
    pub fn are_apart(&self) -> bool {
        self.server != self.generator
    }

    /// All of them.
    pub fn all(&self) -> CoreSet {
        self.all
    }

    /// The server's core.
    pub fn server(&self) -> CoreSet {
        self.server
    }

    /// The generator's core.
    pub fn generator(&self) -> CoreSet {
        self.generator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_starts_on_its_core_and_the_caller_stays_on_its_own() {
        let cores = Cores::find().unwrap();
        assert_eq!(cores.are_apart(), cores.count() > 1);
        let before = sched_getaffinity(None).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "grep Cpus_allowed_list /proc/self/status"]);
        command.stdout(std::process::Stdio::piped());
        let said = cores.server().spawn(&mut command).unwrap().wait_with_output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let server = cores.server().numbers().next().unwrap();
        assert_eq!(said.split_whitespace().last(), Some(server.to_string().as_str()));
        assert!(sched_getaffinity(None).unwrap() == before);
    }
}

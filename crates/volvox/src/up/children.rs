//! The processes of the cells. All end when this is dropped.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::plan::{CellPlan, Plan};

/// How long a cell may take to end.
const ENDING: Duration = Duration::from_secs(5);
/// How long a cell may take to join, before the next one is started all the same.
const JOINING: Duration = Duration::from_secs(5);
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// The processes, in the order of the plan.
pub(super) struct Children(Vec<Option<Running>>);

/// A process, when it was started, and how long its log was then.
struct Running(Child, Instant, u64);

/// A cell that has ended.
pub(super) struct Ended {
    /// Its place in the plan.
    pub(super) cell: usize,
    /// For how long it has run.
    pub(super) ran: Duration,
    process: u32,
    status: ExitStatus,
    log_start: u64,
}

impl Ended {
    /// What people read: with the reason that its log has, if it has ended by itself.
    pub(super) fn describe(&self, plan: &Plan) -> String {
        let number = plan.cells[self.cell].number;
        let (process, status, path) = (self.process, self.status, plan.log(number));
        let log = fs::read(&path).unwrap_or_default();
        let log = String::from_utf8_lossy(log.get(self.log_start as usize..).unwrap_or_default());
        let said = reason(&log).filter(|_| self.signal().is_none());
        let said = said.map_or_else(String::new, |line| format!(" ({line})"));
        let log = path.display();
        format!("cell {number} (process {process}) has ended, {status}{said}; its log is {log}")
    }

    /// Its exit code, if it has ended by itself.
    pub(super) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that has ended it.
    pub(super) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

impl Children {
    /// Starts all cells, each when the one before it is in the ring: so the ring gives them the
    /// numbers that they have here. None is started after one that has ended, or once all are to
    /// end.
    pub(super) fn start(plan: &Plan, flags: &[String], ends: &AtomicBool) -> io::Result<Self> {
        let mut children = Self(plan.cells.iter().map(|_| None).collect());
        for (at, cell) in plan.cells.iter().enumerate() {
            children.0[at] = Some(start(plan, cell, flags)?);
            let (identity, since) = (plan.identity(cell.number), Instant::now());
            while !identity.exists() && since.elapsed() < JOINING {
                if ends.load(Ordering::Relaxed) || children.has_ended()? {
                    return Ok(children);
                }
                sleep(LOOK);
            }
        }
        Ok(children)
    }

    /// Whether one of them has ended.
    fn has_ended(&mut self) -> io::Result<bool> {
        for Running(child, ..) in self.0.iter_mut().flatten() {
            if child.try_wait()?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Their numbers; 0 for one that does not run.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|running| running.as_ref().map_or(0, |Running(child, ..)| child.id()))
    }

    /// A cell that has ended since the last time.
    pub(super) fn take_ended(&mut self) -> io::Result<Option<Ended>> {
        for (cell, slot) in self.0.iter_mut().enumerate() {
            let Some(Running(child, since, log_start)) = slot else { continue };
            if let Some(status) = child.try_wait()? {
                let (process, ran, log_start) = (child.id(), since.elapsed(), *log_start);
                *slot = None;
                return Ok(Some(Ended { cell, ran, process, status, log_start }));
            }
        }
        Ok(None)
    }

    /// Starts a cell again that has ended. Returns its process.
    pub(super) fn start_again(
        &mut self,
        plan: &Plan,
        flags: &[String],
        cell: usize,
    ) -> io::Result<u32> {
        let running = start(plan, &plan.cells[cell], flags)?;
        let process = running.0.id();
        self.0[cell] = Some(running);
        Ok(process)
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        let running = || self.0.iter().flatten();
        for Running(child, ..) in running() {
            // An error means that it has ended.
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGINT);
        }
        let start = Instant::now();
        for Running(child, ..) in self.0.iter_mut().flatten() {
            while matches!(child.try_wait(), Ok(None)) && start.elapsed() < ENDING {
                sleep(LOOK);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(plan: &Plan, cell: &CellPlan, flags: &[String]) -> io::Result<Running> {
    let log = plan.log(cell.number);
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    let log_start = log.metadata()?.len();
    let child = Command::new(&plan.program)
        .arg("serve")
        .args(plan.flags(cell, flags))
        .args(flags)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    Ok(Running(child, Instant::now(), log_start))
}

/// The line of a log that says why its process has ended: what is wrong with a flag, which is
/// followed by how to get help, or else the last line.
fn reason(log: &str) -> Option<&str> {
    let wrong = log.lines().find(|line| line.starts_with("error: "));
    wrong.or_else(|| log.lines().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_flag_is_the_reason_and_not_how_to_get_help() {
        let wrong = "error: unexpected argument '--bogus' found";
        let log =
            format!("{wrong}\n\nUsage: volvox serve\n\nFor more information, try '--help'.\n");
        assert_eq!(reason(&log), Some(wrong));
        assert_eq!(
            reason("a warning\nvolvox: the port is taken\n"),
            Some("volvox: the port is taken")
        );
        assert_eq!(reason(""), None);
    }
}

//! The limits of the process, its user and its memory.
//!
//! Each function changes one thing, once, before any other thread exists. An error names what the
//! system refuses, the limit and the remedy. Sizes are in bytes.

use std::fmt::{Display, Formatter};
use std::fs;

use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MlockAllFlags, mlockall};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::sysinfo::sysinfo;
use nix::unistd::{User, geteuid, setgid, setgroups, setuid};

/// Descriptors that are not for clients: listeners, files, standard streams.
pub const DESCRIPTORS_RESERVED: u64 = 128;
/// Descriptors of one worker: its event loop and its waker.
pub const DESCRIPTORS_PER_WORKER: u64 = 4;

/// What the system refused.
#[derive(Debug, PartialEq, Eq)]
pub enum ProcessError {
    /// Too few open files for the number of connections.
    OpenFiles {
        /// How many are needed.
        needed: u64,
        /// How many the system allows.
        allowed: u64,
    },
    /// The hard limit forbids core files.
    CoreDumps,
    /// Memory could not be locked.
    LockMemory(Errno),
    /// Started as root, and no user is named.
    RootUnnamed,
    /// No such user.
    UnknownUser(String),
    /// The identity could not be changed.
    Identity(String, Errno),
    /// A limit could not be read.
    Limits(Errno),
}

impl Display for ProcessError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OpenFiles { needed, allowed } => write!(
                f,
                "{needed} open files needed, {allowed} allowed; lower server.connections_max (-c), \
                 or raise the limit (ulimit -Hn)"
            ),
            Self::CoreDumps => f.write_str(
                "core files are limited to 0 bytes; raise the limit (ulimit -Hc), or leave \
                 process.core_dumps (-r) out",
            ),
            Self::LockMemory(error) => write!(
                f,
                "memory cannot be locked: {error}; raise the limit (ulimit -l), or leave \
                 memory.lock (-k) out"
            ),
            Self::RootUnnamed => f.write_str(
                "started as root without a user; name one with -u, or use -u root to stay root",
            ),
            Self::UnknownUser(name) => {
                write!(f, "process.user {name} (-u): there is no such user; name another")
            }
            Self::Identity(name, error) => {
                write!(f, "process.user {name} (-u): {error}; start as root, or leave it out")
            }
            Self::Limits(error) => write!(f, "the limits of the process cannot be read: {error}"),
        }
    }
}

impl std::error::Error for ProcessError {}

/// Raises the limit on open files so that `connections` clients of `workers` workers fit.
///
/// # Errors
/// That the system allows fewer.
pub fn allow_connections(connections: usize, workers: usize) -> Result<(), ProcessError> {
    let beside = DESCRIPTORS_PER_WORKER.saturating_mul(workers as u64) + DESCRIPTORS_RESERVED;
    let needed = beside.saturating_add(connections as u64);
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(ProcessError::Limits)?;
    if soft >= needed {
        return Ok(());
    }
    // Only root may raise the hard limit; an attempt costs nothing.
    setrlimit(Resource::RLIMIT_NOFILE, needed, needed.max(hard))
        .map_err(|_| ProcessError::OpenFiles { needed, allowed: hard })
}

/// Raises the limit on core files as far as it goes.
///
/// # Errors
/// That none could be written even then.
pub fn allow_core_dumps() -> Result<(), ProcessError> {
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE).map_err(ProcessError::Limits)?;
    let raised = setrlimit(Resource::RLIMIT_CORE, RLIM_INFINITY, RLIM_INFINITY)
        .or_else(|_| setrlimit(Resource::RLIMIT_CORE, hard, hard));
    if raised.is_err() || hard == 0 && getrlimit(Resource::RLIMIT_CORE).is_ok_and(|(s, _)| s == 0) {
        return Err(ProcessError::CoreDumps);
    }
    Ok(())
}

/// Bytes of memory that this process can use: the machine's, or fewer if its container has a limit.
#[must_use]
pub fn machine_bytes() -> u64 {
    let machine = sysinfo().map_or(u64::MAX, |system| system.ram_total());
    let container = fs::read_to_string("/sys/fs/cgroup/memory.max");
    container.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(machine).min(machine)
}

/// Locks all present and future memory.
///
/// # Errors
/// That the limit on locked memory is too low.
pub fn lock_memory() -> Result<(), ProcessError> {
    // Reserved memory is taken only as it is used, locked or not. nix has no name for this flag.
    let as_it_is_used = MlockAllFlags::from_bits_retain(libc::MCL_ONFAULT);
    mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | as_it_is_used)
        .map_err(ProcessError::LockMemory)
}

/// Becomes `user`, groups first. Only root can: for others nothing changes, as in memcached, and
/// the result is `false`.
///
/// # Errors
/// That the user is unknown, or that the system refuses; with `root_must_choose`, that none is
/// named.
pub fn become_user(user: Option<&str>, root_must_choose: bool) -> Result<bool, ProcessError> {
    if !geteuid().is_root() {
        return Ok(false);
    }
    let Some(name) = user else {
        return if root_must_choose { Err(ProcessError::RootUnnamed) } else { Ok(false) };
    };
    let refused = |error| ProcessError::Identity(name.to_owned(), error);
    let user = User::from_name(name).map_err(refused)?;
    let user = user.ok_or_else(|| ProcessError::UnknownUser(name.to_owned()))?;
    match setgroups(&[]) {
        // A container that forbids the call has dropped the groups itself.
        Ok(()) | Err(Errno::EPERM) => {}
        Err(error) => return Err(refused(error)),
    }
    setgid(user.gid).and_then(|()| setuid(user.uid)).map_err(refused)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_within_the_limit_are_allowed() {
        allow_connections(16, 2).expect("a few connections fit");
        let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit can be read");
        assert!(limit >= 16 + 2 * DESCRIPTORS_PER_WORKER + DESCRIPTORS_RESERVED);
    }

    #[test]
    fn too_many_connections_name_both_numbers() {
        let error = allow_connections(usize::MAX, 1).expect_err("no system allows this");
        let message = error.to_string();
        assert!(message.starts_with(&u64::MAX.to_string()), "{message}");
        assert!(message.contains("lower server.connections_max"), "{message}");
    }

    #[test]
    fn users_are_checked() {
        if geteuid().is_root() {
            let unknown = ProcessError::UnknownUser("no-such-user".to_owned());
            assert_eq!(become_user(Some("no-such-user"), true), Err(unknown));
            assert_eq!(become_user(None, true), Err(ProcessError::RootUnnamed));
        }
        assert_eq!(become_user(None, false), Ok(false));
    }
}

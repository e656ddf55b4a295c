//! The few system calls for signals that no safe crate offers: block signals, make a descriptor
//! send them, take one, and look at descriptors by their numbers.
//!
//! They pass numbers and pointers to locals, so none can affect more than the descriptor it names.
//! A signal that says what has happened to a descriptor is a [`Signal::About`]. When the system has
//! no memory to queue one, it sends SIGIO instead, which says only that: [`Signal::Lost`].

#![allow(unsafe_code, reason = "rustix has no fcntl(F_SETSIG) and no safe sigtimedwait")]

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;

use libc::{c_int, c_long, pollfd, siginfo_t, sigset_t, timespec};
use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::thread::Pid;

// From the kernel's fcntl.h: the same on every architecture we build for.
const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;
const F_OWNER_TID: c_int = 0;

/// What `F_SETOWN_EX` takes.
#[repr(C)]
struct Owner {
    kind: c_int,
    pid: c_int,
}

/// The beginning of `siginfo_t` for signals of descriptors, on a system of 64 bits.
///
/// ```text
/// 0      4      8      12       16          24
/// signo  errno  code   padding  band: long  fd
/// ```
#[repr(C)]
#[derive(Clone, Copy)]
struct PollInfo {
    signo: c_int,
    errno: c_int,
    code: c_int,
    padding: c_int,
    band: c_long,
    fd: c_int,
}

const _: () = assert!(size_of::<PollInfo>() <= size_of::<siginfo_t>());
const _: () = assert!(align_of::<PollInfo>() <= align_of::<siginfo_t>());
const _: () = assert!(size_of::<c_long>() == 8, "the layout above is that of 64 bits");

/// What a signal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Something has happened to a descriptor: `events` are those of `poll`.
    About { fd: RawFd, events: u32 },
    /// Signals are missing: the queue was full.
    Lost,
}

/// The signals of one thread that are about descriptors. They are blocked there, so no handler ever
/// runs, and stay in the thread's queue until they are taken.
pub(super) struct Signals {
    both: sigset_t,
    queued: sigset_t,
}

/// The signal that descriptors send: it is queued and says what has happened.
fn signal_number() -> c_int {
    libc::SIGRTMIN() + 1
}

fn set_of(signals: &[c_int]) -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the whole set that it is given.
    let mut set = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    };
    for signal in signals {
        // SAFETY: the set is initialised and borrowed for the call alone.
        unsafe { libc::sigaddset(&mut set, *signal) };
    }
    set
}

impl Signals {
    /// Blocks the signals in this thread, from now until it ends.
    pub(super) fn block() -> Result<Self, Errno> {
        let both = set_of(&[signal_number(), libc::SIGIO]);
        // SAFETY: the first set is valid, the second is null, which asks for nothing. Only this
        // thread's mask changes, and nothing else in the process uses these two signals.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &both, ptr::null_mut()) };
        if error != 0 {
            return Err(Errno::from_raw_os_error(error));
        }
        Ok(Self { both, queued: set_of(&[signal_number()]) })
    }

    /// The next signal, waiting for it up to `timeout`. `None` when none came in time, or when
    /// another signal interrupted the wait.
    #[inline]
    pub(super) fn wait(&self, timeout: &Timespec) -> Option<Signal> {
        let timeout = timespec { tv_sec: timeout.tv_sec, tv_nsec: timeout.tv_nsec };
        take(&self.both, &timeout)
    }

    /// Discards up to `count_max` signals that are queued.
    pub(super) fn discard(&self, count_max: usize) {
        let at_once = timespec { tv_sec: 0, tv_nsec: 0 };
        (0..count_max).take_while(|_| take(&self.queued, &at_once).is_some()).for_each(drop);
    }
}

#[inline]
fn take(set: &sigset_t, timeout: &timespec) -> Option<Signal> {
    let mut info = MaybeUninit::<siginfo_t>::zeroed();
    // SAFETY: the set and the time are valid for the call, and there is room for one siginfo_t.
    let signal = unsafe { libc::sigtimedwait(set, info.as_mut_ptr(), timeout) };
    if signal < 0 {
        return None;
    }
    if signal == libc::SIGIO {
        return Some(Signal::Lost);
    }
    // SAFETY: PollInfo is plain integers, no larger and no stricter aligned than the siginfo_t,
    // all of whose bytes were zeroed before the system wrote to it.
    let info = unsafe { *info.as_ptr().cast::<PollInfo>() };
    Some(Signal::About { fd: info.fd, events: info.band as u32 })
}

/// Fills in what is true of each descriptor now, without waiting. If `poll` fails, all of them are
/// reported as readable: the caller then finds out by reading.
pub(super) fn look(fds: &mut [pollfd]) {
    // SAFETY: the system reads and writes exactly this slice.
    let found = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0) };
    if found < 0 {
        fds.iter_mut().for_each(|fd| fd.revents = libc::POLLIN);
    }
}

/// Makes a non-blocking descriptor send a signal to `thread` each time something happens to it.
pub(super) fn send_signals(fd: &OwnedFd, thread: Pid) -> Result<(), Errno> {
    let owner = Owner { kind: F_OWNER_TID, pid: thread.as_raw_nonzero().get() };
    // SAFETY: F_SETOWN_EX reads one f_owner_ex, which lives through the call.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), F_SETOWN_EX, &raw const owner) })?;
    // SAFETY: F_SETSIG takes a number.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), F_SETSIG, signal_number()) })?;
    set_flags(fd, libc::O_NONBLOCK | libc::O_ASYNC)
}

/// Makes a descriptor send no more signals.
pub(super) fn send_none(fd: &OwnedFd) -> Result<(), Errno> {
    set_flags(fd, libc::O_NONBLOCK)
}

fn set_flags(fd: &OwnedFd, flags: c_int) -> Result<(), Errno> {
    // SAFETY: F_SETFL takes a number.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) })
}

fn check(result: c_int) -> Result<(), Errno> {
    if result >= 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};
    use rustix::thread::gettid;

    use super::*;

    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    const SOON: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

    #[test]
    fn a_pipe_signals_what_was_written_until_that_is_turned_off() {
        let signals = Signals::block().expect("any thread may");
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).expect("a pipe");
        assert_eq!(signals.wait(&AT_ONCE), None);
        send_signals(&read, gettid()).expect("its own thread");
        rustix::io::write(&write, b"x").expect("there is room");
        let Some(Signal::About { fd, events }) = signals.wait(&SOON) else { panic!("no signal") };
        assert_eq!(fd, read.as_raw_fd());
        assert_ne!(events & u32::from(libc::POLLIN as u16), 0);
        rustix::io::write(&write, b"xx").expect("there is room");
        rustix::io::write(&write, b"xx").expect("there is room");
        signals.discard(8);
        assert_eq!(signals.wait(&AT_ONCE), None);
        send_none(&read).expect("an open pipe");
        rustix::io::write(&write, b"x").expect("there is room");
        assert_eq!(signals.wait(&AT_ONCE), None);
    }
}

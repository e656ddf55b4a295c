//! Whether io_uring may be used here as this driver uses it.
//!
//! A system that grants a ring may still refuse what is done with it: to lend it buffers, to enter
//! it, requests that go on. So neither versions nor names are asked for: a client of our own is
//! accepted, received from and answered by the requests that serve later. Its socket has no file,
//! and nothing of it is left.

use std::fmt::Display;
use std::io;
use std::iter;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    getsockname, listen, recv, send, socket_with,
};

use super::raw::{Done, Ring};

/// How long the kernel may take for what it can do at once.
const WAIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

const QUESTION: &[u8] = b"?";
const ANSWER: &[u8] = b"!";

/// Whether this system lets this process use io_uring as this driver does.
///
/// # Errors
/// What it refuses, and what it says.
pub fn probe() -> io::Result<()> {
    // The ring belongs to the thread that makes it, so this one is used here and nowhere else.
    let mut ring = Ring::new().map_err(|error| refused("a ring with its buffers", &error))?;
    let (listener, client) = knock().map_err(|error| refused("a socket", &error))?;
    let server = accept(&mut ring, &listener).map_err(|error| refused("accepting", &error))?;
    receive(&mut ring, &server).map_err(|error| refused("receiving", &error))?;
    answer(&mut ring, &server, &client).map_err(|error| refused("sending", &error))
}

fn refused(what: &str, error: &dyn Display) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}

/// A listener, and a client that waits at it and has sent its question. The system gives it a name
/// that no other socket has.
fn knock() -> Result<(OwnedFd, OwnedFd), Errno> {
    let socket =
        || socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (listener, client) = (socket()?, socket()?);
    bind(&listener, &SocketAddrUnix::new_unnamed())?;
    listen(&listener, 1)?;
    connect(&client, &getsockname(&listener)?)?;
    send(&client, QUESTION, SendFlags::NOSIGNAL)?;
    Ok((listener, client))
}

fn accept(ring: &mut Ring, listener: &OwnedFd) -> Result<OwnedFd, Errno> {
    ring.accept(listener.as_fd(), 0)?;
    begun(ring)?.accepted.take().ok_or(Errno::OPNOTSUPP)
}

fn receive(ring: &mut Ring, server: &OwnedFd) -> Result<(), Errno> {
    ring.receive(server.as_fd(), 0)?;
    begun(ring)?;
    if ring.bytes(0) == QUESTION { Ok(()) } else { Err(Errno::OPNOTSUPP) }
}

fn answer(ring: &mut Ring, server: &OwnedFd, client: &OwnedFd) -> Result<(), Errno> {
    ring.exchange(iter::once((0, server.as_fd(), ANSWER)), &super::AT_ONCE);
    ring.done().first().ok_or(Errno::OPNOTSUPP)?.result?;
    let mut answer = [0; ANSWER.len()];
    recv(client, &mut answer, RecvFlags::DONTWAIT)?;
    if answer == ANSWER { Ok(()) } else { Err(Errno::OPNOTSUPP) }
}

/// Hands a request over and waits for its first completion, after which it must go on.
fn begun(ring: &mut Ring) -> Result<&mut Done, Errno> {
    // This returns what the system has against entering the ring, over which an exchange panics.
    ring.submit()?;
    ring.exchange(iter::empty(), &WAIT);
    let done = ring.done().first_mut().ok_or(Errno::TIMEDOUT)?;
    done.result?;
    if done.more { Ok(done) } else { Err(Errno::OPNOTSUPP) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where it fails, that is the system's to say and the suite's to leave out.
    #[test]
    fn it_leaves_no_descriptor() {
        let open = || std::fs::read_dir("/proc/self/fd").expect("this is Linux").count();
        let before = open();
        for _ in 0..100 {
            let _ = probe();
        }
        assert!(open() < before + 100);
    }
}

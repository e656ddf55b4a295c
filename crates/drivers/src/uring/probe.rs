//! Whether io_uring may be used here as this driver uses it.
//!
//! A system that allows a ring may still refuse what is done with it: registered buffers, entering
//! the ring, requests that continue. So this compares neither versions nor names. It accepts a
//! client of its own, receives from it and answers it, by the same requests that serve later. Its
//! socket has no file, and nothing is left of it.

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

use super::raw::{AT_ONCE, Done, Ring};

/// How long to wait for a completion that the kernel can produce at once.
const WAIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

const QUESTION: &[u8] = b"?";
const ANSWER: &[u8] = b"!";

/// Whether this system lets this process use io_uring as this driver does.
///
/// # Errors
/// What the system refuses, and its reason.
pub fn probe() -> io::Result<()> {
    // The ring belongs to the thread that makes it, so this one is used here and nowhere else.
    let mut ring = Ring::new().map_err(|error| refused("a ring with its buffers", &error))?;
    let (listener, client) = connected().map_err(|error| refused("a socket", &error))?;
    let server = accept(&mut ring, &listener).map_err(|error| refused("accepting", &error))?;
    receive(&mut ring, &server).map_err(|error| refused("receiving", &error))?;
    answer(&mut ring, &server, &client).map_err(|error| refused("sending", &error))
}

fn refused(what: &str, error: &dyn Display) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}

/// A listener, and a client that is connected to it and has sent its question. The system chooses
/// an abstract name that no other socket has.
fn connected() -> Result<(OwnedFd, OwnedFd), Errno> {
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
    first_completion(ring)?.accepted.take().ok_or(Errno::OPNOTSUPP)
}

fn receive(ring: &mut Ring, server: &OwnedFd) -> Result<(), Errno> {
    ring.receive(server.as_fd(), 0)?;
    first_completion(ring)?;
    if ring.bytes(0) == QUESTION { Ok(()) } else { Err(Errno::OPNOTSUPP) }
}

fn answer(ring: &mut Ring, server: &OwnedFd, client: &OwnedFd) -> Result<(), Errno> {
    ring.exchange(iter::once((0, server.as_fd(), ANSWER)), &AT_ONCE);
    ring.done().first().ok_or(Errno::OPNOTSUPP)?.result?;
    let mut answer = [0; ANSWER.len()];
    recv(client, &mut answer, RecvFlags::DONTWAIT)?;
    if answer == ANSWER { Ok(()) } else { Err(Errno::OPNOTSUPP) }
}

/// Submits a request and waits for its first completion, after which the request must continue.
fn first_completion(ring: &mut Ring) -> Result<&mut Done, Errno> {
    // This returns the error of a system that refuses to enter the ring; an exchange would panic.
    ring.submit()?;
    ring.exchange(iter::empty(), &WAIT);
    let done = ring.done().first_mut().ok_or(Errno::TIMEDOUT)?;
    done.result?;
    if done.more { Ok(done) } else { Err(Errno::OPNOTSUPP) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where io_uring is not allowed the probe fails, which is not what is tested here.
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

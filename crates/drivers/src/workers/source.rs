//! Where a worker learns what has happened to its sockets: all that tells one driver from another.
//!
//! A source reports edges: a socket once per news, not for as long as there is something to read.
//! It may report too much, never too little; whoever is told looks at the socket itself.

use std::os::fd::OwnedFd;

use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::client::Key;
use crate::counters::Counters;
use crate::mail::Bell;

/// Tells a worker which of its descriptors have news. It is made and used in one thread.
pub(crate) trait Source: Sized {
    /// What the system is asked for when one is made, as an error names it.
    const WHAT: &'static str;

    /// A bell that this kind of source can hear.
    fn bell() -> Result<Bell, Errno> {
        Bell::descriptor()
    }

    /// Watches `bell`, which rings when mail comes, under the key `mail`.
    fn new(bell: &OwnedFd, mail: Key) -> Result<Self, Errno>;

    /// Begins to report clients that wait at a listener.
    fn watch_listener(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno>;

    /// Stops that. One that is not watched is left as it is.
    fn unwatch_listener(&mut self, fd: &OwnedFd);

    /// Begins to report that a client has sent something or hung up.
    fn watch(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno>;

    /// A client is about to be closed.
    fn unwatch(&mut self, _fd: &OwnedFd) {}

    /// Not all clients that wait at a listener were accepted: they are to be reported again.
    /// Nothing to do for a source that does so anyway.
    fn remind(&mut self, _listener: &OwnedFd) {}

    /// Begins or stops to report that a client takes bytes again.
    fn watch_room(&mut self, fd: &OwnedFd, key: Key, on: bool) -> Result<(), Errno>;

    /// Waits up to `timeout` for news; returns how many there are.
    ///
    /// # Panics
    /// When the source itself is broken: a worker without one can do nothing.
    fn wait(&mut self, timeout: &Timespec, counters: &Counters) -> usize;

    /// News number `at` of the latest wait: about whom, and what.
    fn news(&self, at: usize) -> (Key, EventFlags);
}

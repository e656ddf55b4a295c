//! What other threads see of one worker, and how they reach it.
//!
//! A handle may outlive its worker: another thread may still hold it, and then posts to a mailbox
//! that nobody reads.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rustix::net::{Shutdown, shutdown};
use session::{ConnId, LogId};

use super::mailbox::{Mailbox, Message, Waker};
use super::waiting::bit_of;
use crate::counters::Counters;
use crate::sockets::{ConnectionInfo, Report};

/// The public side of one worker.
pub(crate) struct WorkerHandle {
    mailbox: Mailbox,
    counters: Counters,
    /// Connections that it has or is about to get.
    load: AtomicU32,
    /// The one connection of a worker whose thread blocks on it; shutting it down wakes the thread.
    socket: OnceLock<(ConnId, Arc<OwnedFd>)>,
    /// The logs that its connections wait for while it sleeps, one bit for each.
    logs: AtomicU64,
    /// By the index of the connection.
    connections: Mutex<Vec<Option<Arc<ConnectionInfo>>>>,
}

impl WorkerHandle {
    pub(crate) fn new(waker: Waker) -> Arc<Self> {
        Arc::new(Self {
            mailbox: Mailbox::new(waker),
            counters: Counters::default(),
            load: AtomicU32::new(0),
            socket: OnceLock::new(),
            logs: AtomicU64::new(0),
            connections: Mutex::default(),
        })
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn load(&self) -> u32 {
        self.load.load(Ordering::Relaxed)
    }

    /// One connection more is on its way to this worker.
    pub(crate) fn add_load(&self) {
        self.load.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection is closed, or did not reach this worker.
    pub(crate) fn drop_load(&self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
    }

    /// Lets other threads see that its connections wait for `logs`, one bit for each. What the
    /// worker reads after that is at least as new as what they wrote before they did not see it.
    pub(crate) fn announce(&self, logs: u64) {
        self.logs.store(logs, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Its worker is awake, and looks at every log before it sleeps.
    #[inline]
    pub(crate) fn withdraw(&self) {
        self.logs.store(0, Ordering::Relaxed);
    }

    /// Whether its worker must be woken for a log. A fence stands between the caller's mark and
    /// this.
    pub(super) fn waits_for(&self, log: LogId) -> bool {
        self.logs.load(Ordering::Relaxed) & bit_of(log) != 0
    }

    /// Says which connection the thread of this worker blocks on: for its whole life, only one.
    pub(crate) fn blocks_on(&self, conn: ConnId, socket: Arc<OwnedFd>) {
        self.socket.set((conn, socket)).expect("a handle is made for one client");
    }

    /// Shows the connection at `index` to other threads.
    pub(crate) fn show(&self, index: usize, info: Arc<ConnectionInfo>) {
        let mut connections = self.connections();
        if connections.len() <= index {
            connections.resize(index + 1, None);
        }
        connections[index] = Some(info);
    }

    /// The connection at `index` is gone.
    pub(crate) fn hide(&self, index: usize) {
        self.connections()[index] = None;
    }

    pub(super) fn close(&self, conn: ConnId) -> bool {
        if let Some((_, socket)) = self.socket.get().filter(|(id, _)| *id == conn) {
            // An error means that the connection is broken, which wakes its thread as well.
            let _ = shutdown(socket, Shutdown::Both);
        }
        self.mailbox.post(Message::Close(conn))
    }

    pub(super) fn reports(&self, now_s: u32) -> Vec<Report> {
        self.connections().iter().flatten().map(|info| info.report(now_s)).collect()
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Option<Arc<ConnectionInfo>>>> {
        self.connections.lock().expect("no holder of the connections panics")
    }
}

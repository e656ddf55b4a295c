//! One connection of a worker, and the table of all of them.
//!
//! ```text
//! key  63..........32 31.......0
//!      generation     index        what comes back with an event
//! ```
//!
//! A place that is used again has a new generation, so an event or a message that comes too late
//! finds nobody.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use session::{ConnId, Flow, Session, WorkerId};

use crate::info::ConnectionInfo;
use crate::outbox::Outbox;

/// One connection.
pub(crate) struct Client {
    pub(crate) fd: OwnedFd,
    pub(crate) session: Session,
    pub(super) outbox: Option<Box<Outbox>>,
    pub(super) info: Arc<ConnectionInfo>,
    /// Its replies in the present batch; while there are any, nothing is decided about it.
    pub(super) unsent: u32,
    /// The source receives from it by itself.
    pub(crate) receiving: bool,
    /// There may be something to receive, and nobody does.
    pub(crate) readable: bool,
    /// The peer has closed its side: whatever a `recv` returns, an end follows.
    pub(super) hung_up: bool,
    /// The end was received.
    pub(crate) ended: bool,
    /// It is in the list of those with more to do.
    pub(super) queued: bool,
    /// It is in the list of those with replies that wait.
    pub(super) waiting: bool,
    /// Somebody asked not to read from it.
    pub(super) paused: bool,
}

impl Client {
    pub(super) fn new(fd: OwnedFd, id: ConnId, info: Arc<ConnectionInfo>) -> Self {
        Self {
            fd,
            session: Session::new(id),
            outbox: None,
            info,
            unsent: 0,
            receiving: false,
            readable: false,
            hung_up: false,
            ended: false,
            queued: false,
            waiting: false,
            paused: false,
        }
    }

    /// Its name inside its worker.
    pub(crate) fn key(&self) -> Key {
        key_of(self.session.id())
    }

    /// Whether all that can be done for it now is to receive.
    #[inline]
    pub(super) fn is_receptive(&self) -> bool {
        self.session.flow() == Flow::Idle && self.outbox.is_none() && !self.paused
    }

    /// Whether a turn would get anywhere: not while its reader is behind.
    pub(super) fn has_more_to_do(&self) -> bool {
        if self.outbox.is_some() {
            return false;
        }
        if self.session.flow() == Flow::Idle {
            return self.readable && !self.paused;
        }
        matches!(self.session.flow(), Flow::Again | Flow::Full)
    }

    /// Whether no bound has stopped its session and none of its replies waits.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.session.flow() == Flow::Idle && !self.session.is_pending()
    }

    /// Whether nothing is to be decided once its replies are sent.
    #[inline]
    pub(super) fn is_content(&self) -> bool {
        self.session.flow() == Flow::Idle && !self.readable && !self.ended
    }

    /// Whether it stands between two requests with nothing left to read or send.
    pub(super) fn is_at_rest(&self) -> bool {
        let sent = self.unsent == 0 && self.outbox.is_none();
        sent && !self.readable && self.session.is_at_rest()
    }
}

const _: () = assert!(size_of::<Client>() <= 256, "4,000 connections take 1 MiB");

/// The name of a connection inside its worker.
pub(crate) type Key = u64;

/// Keys from here on are not connections.
pub(crate) const KEY_SPECIAL: Key = (u32::MAX as u64) << GENERATION_SHIFT;

const GENERATION_SHIFT: u32 = 32;

/// Packs the name of a connection.
pub(super) fn key_of(id: ConnId) -> Key {
    u64::from(id.generation) << GENERATION_SHIFT | u64::from(id.index)
}

struct Place {
    /// The name of whoever is here, or comes next.
    key: Key,
    client: Option<Client>,
}

/// The connections of one worker.
pub(crate) struct Clients {
    worker: WorkerId,
    places: Vec<Place>,
    free: Vec<u32>,
}

impl Clients {
    pub(super) fn new(worker: WorkerId) -> Self {
        Self { worker, places: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// How many places there are, free ones included.
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(super) fn get(&mut self, key: Key) -> Option<&mut Client> {
        let place = self.places.get_mut(key as u32 as usize)?;
        if place.key == key { place.client.as_mut() } else { None }
    }

    /// [`Clients::get`], to look only.
    pub(super) fn look(&self, key: Key) -> Option<&Client> {
        let place = self.places.get(key as u32 as usize)?;
        if place.key == key { place.client.as_ref() } else { None }
    }

    /// The key of whoever is at place `index`.
    pub(super) fn key_at(&self, index: usize) -> Option<Key> {
        let place = self.places.get(index)?;
        place.client.as_ref().map(|_| place.key)
    }

    /// The name that the next connection will have.
    pub(super) fn next_id(&mut self) -> ConnId {
        if self.free.is_empty() {
            let index = u32::try_from(self.places.len()).expect("descriptors are 31 bits");
            self.places.push(Place { key: index.into(), client: None });
            self.free.push(index);
        }
        let index = *self.free.last().expect("just made sure");
        let generation = (self.places[index as usize].key >> GENERATION_SHIFT) as u32;
        ConnId { worker: self.worker, index, generation }
    }

    /// Adds the connection that was named by [`Clients::next_id`].
    pub(super) fn insert(&mut self, client: Client) {
        let index = self.free.pop().expect("next_id has left it free");
        debug_assert_eq!(index, client.session.id().index);
        self.places[index as usize].client = Some(client);
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Client> {
        let id = self.get(key)?.session.id();
        let place = &mut self.places[id.index as usize];
        // The top generation is kept for keys that are not connections.
        place.key = key_of(ConnId { generation: (id.generation + 1) % u32::MAX, ..id });
        self.free.push(id.index);
        place.client.take()
    }
}

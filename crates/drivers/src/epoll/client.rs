//! One connection of a worker, and the table of all of them.
//!
//! ```text
//! key  63..........32 31.......0
//!      generation     index        what epoll gives back with an event
//! ```
//!
//! A place that is used again has a new generation, so an event or a letter that comes too late
//! finds nobody.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use base::{Grant, Owner};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use session::{ConnId, Flow, Ground, Handler, Reply, Session, Span, Turn, WorkerId};

use crate::card::Card;
use crate::counters::Counters;

/// What a client did not take yet.
pub(super) struct Outbox {
    pub(super) reply: Reply,
    pub(super) span: Span,
    _grant: Option<Grant>,
}

/// Bytes of unsent replies that every connection may hold without asking the budget.
const OUTBOX_FREE_BYTES: u64 = 2 << 10;

impl Outbox {
    /// Keeps `reply`; `None` when the budget has no room.
    pub(super) fn new(reply: Reply, ground: &Ground) -> Option<Box<Self>> {
        let bytes = reply.heap_bytes() as u64;
        let grant = match bytes {
            ..=OUTBOX_FREE_BYTES => None,
            _ => Some(ground.budget.take(Owner::Connections, bytes)?),
        };
        let span = reply.whole();
        Some(Box::new(Self { reply, span, _grant: grant }))
    }
}

/// One connection.
pub(super) struct Client {
    pub(super) fd: OwnedFd,
    pub(super) session: Session,
    pub(super) outbox: Option<Box<Outbox>>,
    pub(super) card: Arc<Card>,
    /// Its replies in the present batch; while there are any, nothing is decided about it.
    pub(super) unsent: u32,
    /// There may be something to receive.
    pub(super) readable: bool,
    /// The peer has closed its side: whatever a `recv` returns, an end follows.
    pub(super) hung_up: bool,
    /// The end was received.
    pub(super) ended: bool,
    /// It is in the list of those with more to do.
    pub(super) queued: bool,
    /// It is in the list of those with replies that wait.
    pub(super) waiting: bool,
    /// Somebody asked not to read from it.
    pub(super) paused: bool,
}

/// What came of reading once from a client.
pub(super) enum Received {
    /// The session has dealt with what there was.
    Input,
    /// There was nothing.
    Nothing,
    /// The client will send no more.
    End,
    /// The connection is broken.
    Broken,
}

impl Client {
    pub(super) fn new(fd: OwnedFd, id: ConnId, card: Arc<Card>) -> Self {
        Self {
            fd,
            session: Session::new(id),
            outbox: None,
            card,
            unsent: 0,
            readable: false,
            hung_up: false,
            ended: false,
            queued: false,
            waiting: false,
            paused: false,
        }
    }

    /// Receives once, into `buffer` or into the place of a value in progress, and has the session
    /// deal with it.
    #[inline(always)]
    pub(super) fn receive<H: Handler>(
        &mut self,
        buffer: &mut [u8],
        turn: &mut Turn<'_, H>,
        counters: &Counters,
    ) -> Received {
        counters.recv_calls.add(1);
        let landing = self.session.landing(turn.ground);
        let into_place = landing.is_some();
        let (room, result) = match landing {
            Some(place) => {
                let room = place.capacity() - place.len();
                (room, recv(&self.fd, spare_capacity(place), RecvFlags::empty()).map(|(_, n)| n))
            }
            None => {
                (buffer.len(), recv(&self.fd, &mut *buffer, RecvFlags::empty()).map(|(_, n)| n))
            }
        };
        match result {
            Ok(0) => {
                self.readable = false;
                self.ended = true;
                Received::End
            }
            Ok(count) => {
                counters.bytes_in.add(count as u64);
                self.readable = count == room || self.hung_up;
                let input = if into_place { &[] } else { &buffer[..count] };
                self.session.receive(input, turn);
                Received::Input
            }
            Err(Errno::AGAIN) => {
                self.readable = false;
                Received::Nothing
            }
            Err(Errno::INTR) => Received::Nothing,
            Err(_) => Received::Broken,
        }
    }

    /// Whether a step would get anywhere: not while its reader is behind.
    #[inline]
    pub(super) fn has_more_to_do(&self) -> bool {
        if self.outbox.is_some() {
            return false;
        }
        if self.session.flow() == Flow::Idle {
            return self.readable && !self.paused;
        }
        matches!(self.session.flow(), Flow::Again | Flow::Full)
    }

    /// Whether nothing is to be decided once its replies are sent.
    #[inline]
    pub(super) fn is_content(&self) -> bool {
        self.session.flow() == Flow::Idle && !self.readable && !self.ended
    }

    /// Whether it stands between two requests with nothing left to read or send.
    pub(super) fn is_at_rest(&self) -> bool {
        self.outbox.is_none() && !self.readable && self.session.is_at_rest()
    }
}

const _: () = assert!(size_of::<Client>() <= 256, "4,000 connections take 1 MiB");

/// The name of a connection inside its worker.
pub(super) type Key = u64;

/// Keys from here on are not connections.
pub(super) const KEY_SPECIAL: Key = (u32::MAX as u64) << 32;

/// Packs the name of a connection.
pub(super) fn key_of(id: ConnId) -> Key {
    u64::from(id.generation) << 32 | u64::from(id.index)
}

struct Place {
    generation: u32,
    client: Option<Client>,
}

/// The connections of one worker.
pub(super) struct Clients {
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
        if place.generation == (key >> 32) as u32 { place.client.as_mut() } else { None }
    }

    /// The key of whoever is at place `index`.
    pub(super) fn key_at(&self, index: usize) -> Option<Key> {
        let place = self.places.get(index)?;
        place.client.as_ref().map(|client| key_of(client.session.id()))
    }

    /// The name that the next connection will have.
    pub(super) fn next_id(&mut self) -> ConnId {
        if self.free.is_empty() {
            let index = u32::try_from(self.places.len()).expect("descriptors are 31 bits");
            self.places.push(Place { generation: 0, client: None });
            self.free.push(index);
        }
        let index = *self.free.last().expect("just made sure");
        let generation = self.places[index as usize].generation;
        ConnId { worker: self.worker, index, generation }
    }

    /// Adds the connection that was named by [`Clients::next_id`].
    pub(super) fn insert(&mut self, client: Client) {
        let index = self.free.pop().expect("next_id has left it free");
        debug_assert_eq!(index, client.session.id().index);
        self.places[index as usize].client = Some(client);
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Client> {
        self.get(key)?;
        let index = key as u32;
        let place = &mut self.places[index as usize];
        // The top generation is kept for keys that are not connections.
        place.generation = (place.generation + 1) % u32::MAX;
        self.free.push(index);
        place.client.take()
    }
}

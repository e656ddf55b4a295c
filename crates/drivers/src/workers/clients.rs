//! The table of the connections of one worker.
//!
//! A place that is free keeps the key of the connection that comes next, so a key is compared with
//! one load whether its place is taken or free.

use session::{ConnId, Connection, Serve, WorkerId};

use super::client::Client;
use super::key::{GENERATION_SHIFT, Key, key_of};

struct Place<H: Serve> {
    /// The key of the connection that is here, or of the one that comes next.
    key: Key,
    client: Option<Client<H>>,
}

/// The connections of one worker.
pub(crate) struct Clients<H: Serve> {
    worker: WorkerId,
    places: Vec<Place<H>>,
    free: Vec<u32>,
}

impl<H: Serve> Clients<H> {
    pub(super) fn new(worker: WorkerId) -> Self {
        Self { worker, places: Vec::new(), free: Vec::new() }
    }

    /// Connections that there are.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Places that there are, free ones included.
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    #[inline]
    pub(super) fn get(&mut self, key: Key) -> Option<&mut Client<H>> {
        let place = self.places.get_mut(key as u32 as usize)?;
        if place.key == key { place.client.as_mut() } else { None }
    }

    /// [`Clients::get`], without changing it.
    pub(super) fn look(&self, key: Key) -> Option<&Client<H>> {
        let place = self.places.get(key as u32 as usize)?;
        if place.key == key { place.client.as_ref() } else { None }
    }

    /// The connection at place `index`.
    pub(super) fn at(&mut self, index: usize) -> Option<&mut Client<H>> {
        self.places.get_mut(index)?.client.as_mut()
    }

    /// The id of the connection that [`Clients::insert`] adds next.
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

    /// Adds the connection whose id is from [`Clients::next_id`].
    pub(super) fn insert(&mut self, client: Client<H>) -> &mut Client<H> {
        let index = self.free.pop().expect("next_id has left it free");
        debug_assert_eq!(index, client.connection.id().index);
        self.places[index as usize].client.insert(client)
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Client<H>> {
        let id = self.get(key)?.connection.id();
        let place = &mut self.places[id.index as usize];
        // The top generation is kept for keys that are not connections.
        place.key = key_of(ConnId { generation: (id.generation + 1) % u32::MAX, ..id });
        self.free.push(id.index);
        place.client.take()
    }
}

//! Long values of the connections of a worker: those that arrive in pieces, and those that are sent
//! in parts.
//!
//! Each belongs to a connection, which has one of a kind at most. It keeps memory of the engine,
//! and gives that back when it is done with, or when its connection ends, or with the worker.

use crate::cell::Cell;
use engine::{Arriving, HeldValue, ItemView, LongValues, ReadSink};
use session::ConnId;
use std::collections::HashMap;
use std::sync::Arc;

/// Bit of `Conn::progress` while a value is being sent in parts. The other bits are the number of
/// keys that were answered before it.
pub(crate) const IN_PARTS: u64 = 1 << 63;

/// A value that is being received. Its memory is given back with it.
pub(crate) struct Received {
    cell: Arc<Cell>,
    value: Option<Arriving>,
}

impl Received {
    pub(crate) fn new(cell: Arc<Cell>, value: Arriving) -> Self {
        Self { cell, value: Some(value) }
    }

    pub(crate) fn value(&mut self) -> &mut Arriving {
        self.value.as_mut().expect("it is there until it is given back")
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.cell.engine().give_back_value(value);
        }
    }
}

/// A value that is being sent. Its memory is released with it.
struct Sent {
    cell: Arc<Cell>,
    value: Option<HeldValue>,
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.cell.engine().release(value);
        }
    }
}

/// The long values of a worker.
#[derive(Default)]
pub(crate) struct LongValuesOf {
    received: HashMap<ConnId, Received>,
    sent: HashMap<ConnId, Sent>,
}

impl LongValuesOf {
    pub(crate) fn begin(&mut self, conn: ConnId, value: Received) {
        self.received.insert(conn, value);
    }

    pub(crate) fn received(&mut self, conn: ConnId) -> Option<&mut Received> {
        self.received.get_mut(&conn)
    }

    pub(crate) fn take_received(&mut self, conn: ConnId) -> Option<Received> {
        self.received.remove(&conn)
    }

    /// A value is sent in parts from now on.
    pub(crate) fn send(&mut self, conn: ConnId, cell: Arc<Cell>, value: HeldValue) {
        self.sent.insert(conn, Sent { cell, value: Some(value) });
    }

    /// Appends the next part of the value that is being sent to `conn`. Returns whether it was the
    /// last one.
    pub(crate) fn append_part(&mut self, conn: ConnId, out: &mut Vec<u8>) -> bool {
        let Some(Sent { cell, value: Some(value) }) = self.sent.get_mut(&conn) else { return true };
        cell.engine().append_part(value, out);
        let is_last = value.left() == 0;
        if is_last {
            self.sent.remove(&conn);
        }
        is_last
    }

    /// A connection has ended.
    pub(crate) fn closed(&mut self, conn: ConnId) {
        if !self.received.is_empty() {
            self.received.remove(&conn);
        }
        if !self.sent.is_empty() {
            self.sent.remove(&conn);
        }
    }
}

/// A sink that holds a long value, of which the parts are appended later.
pub(crate) struct InParts<'h, S> {
    pub(crate) sink: S,
    pub(crate) held: &'h mut Option<HeldValue>,
}

impl<S: ReadSink> ReadSink for InParts<'_, S> {
    const AFTER: &'static [u8] = S::AFTER;
    const LONG: LongValues = LongValues::Held;

    #[inline(always)]
    fn open(&mut self, view: &ItemView<'_>) -> Option<&mut Vec<u8>> {
        self.sink.open(view)
    }

    fn rewind(&mut self) {
        self.sink.rewind();
    }

    fn hold(&mut self, value: HeldValue) {
        *self.held = Some(value);
    }
}

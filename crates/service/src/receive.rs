//! Values that arrive in pieces: those of any storage command, if they are long.

use crate::meta;
use crate::park::Park;
use crate::store::{expiry_s, store_any};
use crate::worker::Worker;
use base::Now;
use memcache::{KeyScratch, Request};
use session::{Conn, Outcome, Reply, ValueStart};

/// Begins a value of `bytes` bytes for `request`, if it arrives in pieces.
pub(crate) fn begin(
    worker: &mut Worker,
    now: Now,
    conn: &Conn,
    request: &Request<'_>,
    bytes: u64,
) -> ValueStart {
    let mut scratch: KeyScratch = [0; _];
    let (key, exptime) = match request {
        Request::Store(store) => (store.key, store.exptime),
        Request::MetaSet { args, mode, .. } => {
            (args.key.key(&mut scratch), meta::exptime(args, *mode).unwrap_or(0))
        }
        _ => return ValueStart::Whole,
    };
    let bytes = bytes as usize;
    if bytes <= worker.cell().engine().whole_value_bytes_max() {
        return ValueStart::Whole;
    }
    // As in memcached, an expiry time counts from when the line has arrived.
    worker.begin_value(conn, key.as_bytes(), (bytes, expiry_s(exptime, now)), now)
}

/// Executes `request`, whose value has arrived. It is given back unless it was stored, or can be
/// stored later.
pub(crate) fn finish(
    worker: &mut Worker,
    now: Now,
    conn: &Conn,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Outcome {
    let Some(received) = worker.long.take_received(conn.id()) else { return Outcome::Close };
    worker.received = Some(received);
    let executed = match request {
        Request::Store(store) => store_any(worker, now, store, reply.bytes_mut()),
        Request::MetaSet { args, mode, .. } => meta::set(worker, now, args, *mode, &[], reply),
        _ => Ok(()),
    };
    let received = worker.received.take();
    match executed {
        Ok(()) => Outcome::Done,
        Err(Park) => {
            received.into_iter().for_each(|value| worker.long.begin(conn.id(), value));
            Outcome::Park
        }
    }
}

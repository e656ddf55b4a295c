//! Authentication: the first request must be a `set` whose value is `user password`.
//!
//! The credentials are checked and never stored. Until they are accepted, a client may only ask for
//! the version and leave.

use crate::worker::Worker;
use memcache::{Request, StoreVerb, reply};
use session::{Conn, Outcome, Reply};

/// Executes a request of a client that has not authenticated yet.
#[cold]
pub(crate) fn authenticate(
    worker: &Worker,
    conn: &mut Conn,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Outcome {
    let options = worker.cell().options();
    let out = reply.bytes_mut();
    match request {
        Request::Store(store) if store.verb == StoreVerb::Set => {
            worker.counters().auth_cmds.add(1);
            if options.authenticate.as_ref().is_none_or(|check| check(store.value)) {
                conn.authenticated = true;
                out.extend_from_slice(reply::STORED);
            } else {
                worker.counters().auth_errors.add(1);
                out.extend_from_slice(reply::AUTH_FAILED);
            }
        }
        Request::Version => reply::version(out, &options.version),
        Request::Quit => return Outcome::Close,
        _ => out.extend_from_slice(b"CLIENT_ERROR unauthenticated\r\n"),
    }
    Outcome::Done
}

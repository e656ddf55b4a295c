//! ASCII authentication: the first request must be a `set` whose value is `user password`.

use crate::worker::Service;
use memcache::{Request, StoreVerb, reply};
use session::{Conn, Outcome, Reply};

impl Service {
    #[cold]
    pub(crate) fn authenticate(
        &mut self,
        conn: &mut Conn,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Outcome {
        let out = reply.bytes_mut();
        match request {
            Request::Store(store) if store.verb == StoreVerb::Set => {
                self.counters.auth_cmds.add(1);
                let check = self.cell.options.authenticate.as_ref();
                if check.is_none_or(|check| check(store.value)) {
                    conn.authenticated = true;
                    out.extend_from_slice(reply::STORED);
                } else {
                    self.counters.auth_errors.add(1);
                    out.extend_from_slice(reply::AUTH_FAILED);
                }
            }
            Request::Version => reply::version(out, &self.cell.options.version),
            Request::Quit => return Outcome::Close,
            _ => out.extend_from_slice(b"CLIENT_ERROR unauthenticated\r\n"),
        }
        Outcome::Done
    }
}

//! Which keys a request is about.

use crate::repeat::can_be_repeated;
use crate::ring::job::Repeat;
use memcache::{Key, KeyScratch, Keys, MetaFlags, MetaReturn, Request, Words};

/// The keys of a request.
pub(crate) enum Subject<'a> {
    /// One.
    Key(Key<'a>),
    /// Several, to be read.
    Keys(Keys<'a>),
    /// All that there are: `flush_all`. After how long, and whether the client wants no reply.
    All { delay: i64, noreply: bool },
    /// The ring: the words after `stats ring`.
    Ring(Words<'a>),
    /// The cells that clients may connect to.
    Discovery,
    /// A command of CellCycle, with these words.
    CellCycle(Words<'a>),
    /// None: it is about the cell, or the connection.
    Cell,
}

/// The keys of `request`.
pub(crate) fn subject<'a>(request: &Request<'a>, scratch: &'a mut KeyScratch) -> Subject<'a> {
    match request {
        Request::Get { keys, .. } | Request::Gat { keys, .. } => {
            let mut rest = *keys;
            match (rest.next(), rest.is_empty()) {
                (Some(Ok(key)), true) => Subject::Key(key),
                _ => Subject::Keys(*keys),
            }
        }
        Request::Store(store) => Subject::Key(store.key),
        Request::Delete { key, .. } | Request::Arith { key, .. } | Request::Touch { key, .. } => {
            Subject::Key(*key)
        }
        Request::MetaGet(args) | Request::MetaDelete(args) => Subject::Key(args.key.key(scratch)),
        Request::MetaSet { args, .. } | Request::MetaArith { args, .. } => {
            Subject::Key(args.key.key(scratch))
        }
        Request::MetaDebug(token) => Subject::Key(token.key(scratch)),
        Request::FlushAll { delay, noreply } => {
            Subject::All { delay: delay.unwrap_or(0), noreply: *noreply }
        }
        Request::Stats(args) => {
            let mut words = *args;
            if words.next() == Some(b"ring") { Subject::Ring(words) } else { Subject::Cell }
        }
        Request::ConfigCluster => Subject::Discovery,
        Request::CellCycle(words) => Subject::CellCycle(*words),
        _ => Subject::Cell,
    }
}

/// Whether the client of `request` wants no reply.
pub(crate) fn is_noreply(request: &Request<'_>) -> bool {
    match request {
        Request::Store(store) => store.noreply,
        Request::Delete { noreply, .. }
        | Request::Arith { noreply, .. }
        | Request::Touch { noreply, .. } => *noreply,
        _ => false,
    }
}

/// Length of the value that comes with `request`.
pub(crate) fn value_bytes(request: &Request<'_>) -> usize {
    match request {
        Request::Store(store) => store.value.len(),
        Request::MetaSet { value, .. } => value.len(),
        _ => 0,
    }
}

/// Whether an `mg` changes nothing that it or another one would show. The token of a stale item may
/// be lost with its reply, as where that is in doubt.
fn only_reads(flags: &MetaFlags<'_>) -> bool {
    let shows_uses =
        flags.returns().any(|fact| matches!(fact, MetaReturn::Hit | MetaReturn::LastAccess));
    let changes = [flags.ttl(), flags.vivify(), flags.recache()].iter().any(Option::is_some);
    !changes && !shows_uses
}

/// Whether `request` may be sent again.
pub(crate) fn repeat(request: &Request<'_>) -> Repeat {
    match request {
        Request::Get { .. } | Request::MetaDebug(_) => Repeat::Always,
        Request::MetaGet(args) if only_reads(&args.flags) => Repeat::Always,
        request if can_be_repeated(request) => Repeat::ById,
        _ => Repeat::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memcache::{Limits, Parsed};

    #[test]
    fn a_meta_get_that_changes_nothing_may_be_sent_again() {
        let cases = [
            (Repeat::Always, ["mg k v\r\n", "mg k t f c s k O7 q\r\n", "get k\r\n"]),
            (Repeat::Never, ["mg k v T30\r\n", "mg k N9 v\r\n", "mg k R9\r\n"]),
            (Repeat::Never, ["mg k h\r\n", "mg k v l\r\n", "gat 9 k\r\n"]),
            (Repeat::ById, ["md k\r\n", "ma k v\r\n", "touch k 9\r\n"]),
        ];
        for (expected, texts) in cases {
            for text in texts {
                let parsed = memcache::parse(text.as_bytes(), &Limits::default());
                let Parsed::Request { request, .. } = parsed else { panic!("{text:?}") };
                assert_eq!(repeat(&request), expected, "{text:?}");
            }
        }
    }
}

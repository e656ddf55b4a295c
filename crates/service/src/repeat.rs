//! Changes that may be asked for again: the reply to such a change, composed from what it has made.
//!
//! Invariant: where a change was made, the reply that is composed again is the first one, byte for
//! byte. What was refused has made nothing, and is executed again.

use effects::{Made, MadeKind};
use memcache::reply::{self, MetaStatus};
use memcache::{MetaReturn, Request};

/// Whether the reply to `request` can be composed again. That of a read that changes something
/// cannot: it has the value. Nor can the seconds that a number has to live.
pub(crate) fn can_be_repeated(request: &Request<'_>) -> bool {
    match request {
        Request::Store(_)
        | Request::Delete { .. }
        | Request::Arith { .. }
        | Request::Touch { .. }
        | Request::MetaSet { .. }
        | Request::MetaDelete(_) => true,
        Request::MetaArith { args, .. } => {
            !args.flags.returns().any(|fact| matches!(fact, MetaReturn::Ttl))
        }
        _ => false,
    }
}

/// Appends the reply to `request`, which has made this. False if it cannot have made it as its
/// success: a `set` for which there was no memory has removed the item.
pub(crate) fn reply_again(request: &Request<'_>, made: &Made, out: &mut Vec<u8>) -> bool {
    let done = MetaStatus::Done;
    match (request, made.kind) {
        (Request::Store(store), MadeKind::Put) => line(reply::STORED, store.noreply, out),
        (Request::Delete { noreply, .. }, MadeKind::Remove) => line(reply::DELETED, *noreply, out),
        (Request::Touch { noreply, .. }, MadeKind::Touch) => line(reply::TOUCHED, *noreply, out),
        (Request::Arith { noreply: true, .. }, MadeKind::Put) => {}
        (Request::Arith { .. }, MadeKind::Put) => reply::number(out, made.number),
        (Request::MetaSet { args, .. }, MadeKind::Put) => {
            reply::meta_stored(out, done, args, made.token, made.value_bytes.into());
        }
        (Request::MetaDelete(args), MadeKind::Put | MadeKind::Remove) => {
            reply::meta_status(out, done, args);
        }
        (Request::MetaArith { args, .. }, MadeKind::Put) => {
            reply::meta_number(out, args, made.number, made.token, None);
        }
        _ => return false,
    }
    true
}

fn line(line: &[u8], noreply: bool, out: &mut Vec<u8>) {
    if !noreply {
        out.extend_from_slice(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, VALUE_BYTES_MAX, cell_with_log};
    use crate::{Service, repeat};
    use effects::TAG_BYTES;
    use memcache::{Key, Limits, Parsed};
    use session::{Conn, ConnId, Handler, Reply, Ticket, WorkerId};

    fn service() -> Service {
        Service::new(cell_with_log(8 << 20, false), false)
    }

    /// Executes `text` with a tag. Returns its reply, and what it has made.
    fn execute(service: &mut Service, text: &[u8]) -> (Vec<u8>, Option<Made>) {
        let limits = Limits { value_bytes_max: VALUE_BYTES_MAX, ..Limits::default() };
        let Parsed::Request { request, .. } = memcache::parse(text, &limits) else {
            panic!("{text:?} is no request")
        };
        let id = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
        let (mut conn, mut reply) = (Conn::new(id), Reply::new());
        let key = Key::new(b"k").expect("a key");
        let key = service.worker.cell().engine().key(key.as_bytes()).id;
        let replies = service.worker.replies.as_mut().expect("a log");
        replies.sink.begin_tag(key, [1; TAG_BYTES]);
        service.call(NOW, &mut conn, &request, Ticket { conn: id, request: 0 }, &mut reply);
        let replies = service.worker.replies.as_mut().expect("a log");
        let made = replies.sink.end_tag();
        service.end_batch(NOW, || NOW);
        (reply.bytes_mut().clone(), made)
    }

    /// Each case: what is there before, and a request that succeeds then.
    const CASES: [(&str, &str); 34] = [
        ("", "set k 5 0 1\r\nv\r\n"),
        ("", "set k 5 0 1 noreply\r\nv\r\n"),
        ("set k 0 0 1\r\nv\r\n", "set k 5 0 3\r\nnew\r\n"),
        ("set k 0 1 1\r\nv\r\n", "set k 5 60 3\r\nnew\r\n"),
        ("", "add k 0 0 1\r\nv\r\n"),
        ("set k 0 0 1\r\nv\r\n", "replace k 0 0 0\r\n\r\n"),
        ("set k 0 0 1\r\nv\r\n", "append k 0 0 1\r\nw\r\n"),
        ("set k 0 0 1\r\nv\r\n", "prepend k 0 0 1\r\nw\r\n"),
        ("ms k 1 E77\r\nv\r\n", "cas k 0 0 1 77\r\nw\r\n"),
        ("set k 0 0 1\r\nv\r\n", "delete k\r\n"),
        ("set k 0 0 1\r\nv\r\n", "delete k noreply\r\n"),
        ("set k 0 0 1\r\nv\r\n", "touch k 100\r\n"),
        ("set k 0 1 1\r\nv\r\n", "touch k 0 noreply\r\n"),
        ("set k 0 0 2\r\n99\r\n", "incr k 1\r\n"),
        ("set k 0 0 2\r\n10\r\n", "decr k 1\r\n"),
        ("set k 0 0 2\r\n10\r\n", "decr k 1 noreply\r\n"),
        ("set k 0 0 20\r\n18446744073709551615\r\n", "incr k 7\r\n"),
        ("", "ms k 1 c k O9 s T90\r\nv\r\n"),
        ("", "ms aw== 1 b c k\r\nv\r\n"),
        ("", "ms k 1 q\r\nv\r\n"),
        ("", "ms k 1 c E123456789\r\nv\r\n"),
        ("", "ms k 1 c MA N60 s\r\nv\r\n"),
        ("set k 0 0 3\r\nold\r\n", "ms k 1 c MA s\r\nv\r\n"),
        ("set k 0 0 3\r\nold\r\n", "ms k 1 MP s c O1\r\nv\r\n"),
        ("ms k 1 E77\r\nv\r\n", "ms k 1 C7 I c s\r\nw\r\n"),
        ("set k 0 0 3\r\nold\r\n", "md k k O8\r\n"),
        ("set k 0 0 3\r\nold\r\n", "md k q\r\n"),
        ("set k 0 0 3\r\nold\r\n", "md k I T30 O8\r\n"),
        ("set k 0 0 3\r\nold\r\n", "md k x\r\n"),
        ("", "ma k N0 J13 v c k\r\n"),
        ("set k 0 0 1\r\n7\r\n", "ma k MD D9 v c O1\r\n"),
        ("set k 0 0 1\r\n7\r\n", "ma k E99 c\r\n"),
        ("set k 0 0 1\r\n7\r\n", "ma k q v\r\n"),
        ("set k 0 0 1\r\n7\r\n", "ma k T70\r\n"),
    ];

    #[test]
    fn a_reply_that_is_composed_again_is_the_first_one() {
        for (before, text) in CASES {
            let mut service = service();
            if !before.is_empty() {
                execute(&mut service, before.as_bytes());
            }
            let (first, made) = execute(&mut service, text.as_bytes());
            let made = made.unwrap_or_else(|| panic!("{text:?} has made nothing"));
            let limits = Limits { value_bytes_max: VALUE_BYTES_MAX, ..Limits::default() };
            let parsed = memcache::parse(text.as_bytes(), &limits);
            let Parsed::Request { request, .. } = parsed else { panic!("{text:?}") };
            assert!(repeat::can_be_repeated(&request), "{text:?}");
            let mut again = Vec::new();
            assert!(reply_again(&request, &made, &mut again), "{text:?} made {made:?}");
            let words = String::from_utf8_lossy(&first);
            assert_eq!(String::from_utf8_lossy(&again), words, "{text:?} made {made:?}");
        }
    }

    #[test]
    fn what_is_refused_makes_nothing_and_some_replies_cannot_be_composed_again() {
        let mut service = service();
        let refused = [
            "add k 0 0 1\r\nv\r\n",
            "replace j 0 0 1\r\nv\r\n",
            "cas k 0 0 1 1\r\nv\r\n",
            "append j 0 0 1\r\nv\r\n",
            "delete j\r\n",
            "incr k 1\r\n",
            "incr j 1\r\n",
            "touch j 1\r\n",
            "ms k 1 ME\r\nv\r\n",
            "md j\r\n",
            "ma j\r\n",
        ];
        execute(&mut service, b"ms k 1 E9\r\nv\r\n");
        for text in refused {
            assert_eq!(execute(&mut service, text.as_bytes()).1, None, "{text:?}");
        }
        let limits = Limits { value_bytes_max: VALUE_BYTES_MAX, ..Limits::default() };
        for text in ["mg k v T30\r\n", "gat 30 k\r\n", "ma k t\r\n", "flush_all\r\n"] {
            let parsed = memcache::parse(text.as_bytes(), &limits);
            let Parsed::Request { request, .. } = parsed else { panic!("{text:?}") };
            assert!(!repeat::can_be_repeated(&request), "{text:?}");
        }
        // A `set` that found no memory has removed the item: its reply was an error.
        let parsed = memcache::parse(b"set k 0 0 1\r\nv\r\n", &limits);
        let Parsed::Request { request, .. } = parsed else { panic!("a set") };
        let made = Made { kind: MadeKind::Remove, token: 1, value_bytes: 0, number: 0 };
        assert!(!reply_again(&request, &made, &mut Vec::new()));
    }
}

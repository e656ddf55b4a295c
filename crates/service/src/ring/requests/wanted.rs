//! How a request is to be answered: as its flag `P` says, or else as the ring does.

use memcache::{MetaFlags, Request};
use ring::{Consistency, Durability, Reads, UnknownToken};

/// How a request is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// What the reply waits for.
    pub(crate) durability: Durability,
    /// Whether it is a read that asks all copies. It needs no lease.
    pub(crate) fences: bool,
    /// Whether it is refused while there is one copy.
    pub(crate) needs_copy: bool,
}

impl Wanted {
    /// How `request` is to be answered in a ring with this `default`.
    ///
    /// # Errors
    /// If its flag `P` is meant for the ring, and names no level.
    pub(crate) fn of(request: &Request<'_>, default: Consistency) -> Result<Self, UnknownToken> {
        let token = flags(request).and_then(MetaFlags::word_for_proxy);
        let chosen = token.map_or(Ok(default), |token| default.with_token(token))?;
        Ok(Self::chosen(chosen, changes(request)))
    }

    /// How a change is to be answered that chooses nothing.
    pub(crate) fn of_change(default: Consistency) -> Self {
        Self::chosen(default, true)
    }

    fn chosen(Consistency { durability, reads }: Consistency, changes: bool) -> Self {
        let fences = reads == Reads::Fence && !changes;
        // A read of the last copy is as good as that copy.
        let needs_copy = durability == Durability::D2 && changes;
        let durability = match durability {
            Durability::D2 if !changes => Durability::D1,
            // There a reply waits for nothing, so not for its fence either.
            Durability::D0 if fences => Durability::D1,
            durability => durability,
        };
        Self { durability, fences, needs_copy }
    }
}

fn flags<'a, 'r>(request: &'a Request<'r>) -> Option<&'a MetaFlags<'r>> {
    match request {
        Request::MetaGet(args) | Request::MetaDelete(args) => Some(&args.flags),
        Request::MetaSet { args, .. } | Request::MetaArith { args, .. } => Some(&args.flags),
        _ => None,
    }
}

/// Whether `request` changes something. To win the token of a stale item does not count.
fn changes(request: &Request<'_>) -> bool {
    match request {
        Request::Get { .. } | Request::MetaDebug(_) => false,
        Request::MetaGet(args) => {
            let flags = &args.flags;
            flags.ttl().is_some() || flags.vivify().is_some() || flags.recache().is_some()
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memcache::{Limits, Parsed};

    fn wanted(text: &str, default: Consistency) -> Result<Wanted, UnknownToken> {
        let limits = Limits::default();
        let Parsed::Request { request, .. } = memcache::parse(text.as_bytes(), &limits) else {
            panic!("{text:?} is no request");
        };
        Wanted::of(&request, default)
    }

    #[test]
    fn a_request_chooses_and_else_the_ring() {
        use Durability::{D0, D1, D2};
        let ring = |durability, reads| Consistency { durability, reads };
        let (usual, strict) = (ring(D1, Reads::Lease), ring(D2, Reads::Fence));
        let is = |durability, fences, needs_copy| Ok(Wanted { durability, fences, needs_copy });
        let cases = [
            ("get k\r\n", usual, is(D1, false, false)),
            ("get k\r\n", strict, is(D1, true, false)),
            ("get k\r\n", ring(D0, Reads::Lease), is(D0, false, false)),
            ("get k\r\n", ring(D0, Reads::Fence), is(D1, true, false)),
            ("mg k v Pfence\r\n", usual, is(D1, true, false)),
            ("mg k v T30 Pfence\r\n", usual, is(D1, false, false)),
            ("mg k v N30\r\n", strict, is(D2, false, true)),
            ("gat 0 k\r\n", strict, is(D2, false, true)),
            ("delete k\r\n", strict, is(D2, false, true)),
            ("ms k 1 Pd0\r\n1\r\n", strict, is(D0, false, false)),
            ("md k Pd2\r\n", usual, is(D2, false, true)),
            ("ma k Pd1\r\n", strict, is(D1, false, false)),
            ("mg k v Pd2\r\n", usual, is(D1, false, false)),
            ("mg k v Pd0\r\n", usual, is(D0, false, false)),
            ("mg k v Ppool\r\n", usual, is(D1, false, false)),
            ("mg k v Pd9\r\n", usual, Err(UnknownToken)),
        ];
        for (text, default, expected) in cases {
            assert_eq!(wanted(text, default), expected, "{text:?} where the ring says {default:?}");
        }
    }
}

//! However the bytes of a request arrive, the result is the same: every prefix is incomplete and
//! wants no more bytes than the request has, and the bytes after a request change nothing.

mod common;

use common::{input, word};
use memcache::{Limits, Parsed, Refusal, Request, Store, announced, parse};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

const LIMITS: Limits = Limits { value_bytes_max: 64, multiget_line_bytes_max: 4096 };

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(4096))]

    #[test]
    fn prefixes_are_incomplete_and_suffixes_do_not_matter(input in input(), more in word()) {
        let parsed = parse(&input, &LIMITS);
        let consumed = match parsed {
            Parsed::Incomplete { needed } => {
                prop_assert!(needed > input.len());
                input.len()
            }
            Parsed::Request { consumed, .. } => consumed,
            Parsed::Refused { consumed, close: true, .. } => consumed,
            Parsed::Refused { consumed, .. } => consumed,
        };
        prop_assert!(consumed <= input.len());
        for len in 0..consumed.saturating_sub(1) {
            let Parsed::Incomplete { needed } = parse(&input[..len], &LIMITS) else {
                // A line that is too long is refused before it ends, and a binary request when its
                // header is there.
                let known = len > 2048 || input[0] == 0x80 && len >= 24;
                prop_assert!(known, "a prefix of {} bytes is whole", len);
                break;
            };
            let incomplete = matches!(parsed, Parsed::Incomplete { .. });
            prop_assert!(needed > len && (needed <= consumed || incomplete));
        }
        if !matches!(parsed, Parsed::Incomplete { .. } | Parsed::Refused { close: true, .. }) {
            let longer = [&input[..consumed], &more].concat();
            prop_assert_eq!(parse(&longer, &LIMITS), parsed);
        }
    }

    /// What a line announces is the request that follows, without its value.
    #[test]
    fn what_is_announced_is_the_request_without_its_value(input in input()) {
        if let Parsed::Request { mut request, consumed } = parse(&input, &LIMITS) {
            let value_bytes = match &mut request {
                Request::Store(Store { value, .. }) | Request::MetaSet { value, .. } => {
                    std::mem::take(value).len()
                }
                _ => {
                    prop_assert_eq!(announced(&input, &LIMITS), None);
                    return Ok(());
                }
            };
            let line_bytes = consumed - value_bytes - 2;
            for len in line_bytes..=consumed {
                prop_assert_eq!(announced(&input[..len], &LIMITS), Some((request, line_bytes)));
            }
            prop_assert_eq!(announced(&input[..line_bytes - 1], &LIMITS), None);
        } else if let Some((_, line_bytes)) = announced(&input, &LIMITS) {
            match parse(&input, &LIMITS) {
                Parsed::Incomplete { needed } => prop_assert!(needed >= line_bytes + 2),
                refused => {
                    let is_bad = matches!(
                        refused,
                        Parsed::Refused { refusal: Refusal::BadDataChunk, .. }
                    );
                    prop_assert!(is_bad);
                }
            }
        }
    }

    #[test]
    fn a_stored_value_is_the_one_that_was_sent(
        value in proptest::collection::vec(any::<u8>(), 0..64),
        key in "[!-~]{1,250}",
        flags in any::<u32>(),
        exptime in any::<i64>(),
        noreply in any::<bool>(),
    ) {
        let last = if noreply { " noreply" } else { "" };
        let line = format!("set {key} {flags} {exptime} {}{last}\r\n", value.len());
        let mut input = line.into_bytes();
        input.extend(&value);
        input.extend(b"\r\n");
        let Parsed::Request { request: memcache::Request::Store(store), consumed } =
            parse(&input, &LIMITS)
        else {
            panic!("{input:?} is a request");
        };
        prop_assert_eq!(consumed, input.len());
        prop_assert_eq!(store.key.as_bytes(), key.as_bytes());
        prop_assert_eq!((store.flags, store.exptime, store.noreply), (flags, exptime, noreply));
        prop_assert_eq!(store.value, value);
    }
}

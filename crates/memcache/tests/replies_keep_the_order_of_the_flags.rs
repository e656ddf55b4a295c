//! Meta replies: the code, the facts in the order of the request's flags, and no reply with `q`.

use memcache::reply::{
    ItemDebug, ItemFacts, Marks, MetaStatus, meta_debug, meta_hit, meta_miss, meta_number,
    meta_status, meta_stored,
};
use memcache::{Limits, MetaArgs, Parsed, Request, parse};

const ITEM: ItemFacts = ItemFacts {
    value_bytes: 300,
    cas: 123,
    client_flags: 30,
    ttl_s: None,
    idle_s: 12,
    fetched: true,
};

/// What `compose` appends for the key and the flags of the request `line`.
fn reply(line: &str, compose: impl FnOnce(&mut Vec<u8>, &MetaArgs<'_>)) -> String {
    let value = if line.starts_with("ms") { "x\r\n" } else { "" };
    let input = format!("{line}\r\n{value}");
    let Parsed::Request { request, .. } = parse(input.as_bytes(), &Limits::default()) else {
        panic!("{line} is a request");
    };
    let args = match request {
        Request::MetaGet(args)
        | Request::MetaSet { args, .. }
        | Request::MetaDelete(args)
        | Request::MetaArith { args, .. } => args,
        other => panic!("{other:?} has no flags"),
    };
    let mut out = Vec::new();
    compose(&mut out, &args);
    String::from_utf8(out).expect("keys in tests are ASCII")
}

#[test]
fn hits() {
    let mortal = ItemFacts { ttl_s: Some(90), fetched: false, ..ITEM };
    let none = Marks::default();
    let won = Marks { won: true, ..none };
    let stale = Marks { stale: true, sent: true, ..none };
    let all = Marks { won: true, stale: true, sent: true };
    let cases = [
        ("mg foo", ITEM, none, "HD\r\n"),
        ("mg foo v", ITEM, none, "VA 300\r\n"),
        ("mg foo v q", ITEM, none, "VA 300\r\n"),
        ("mg foo s v", ITEM, none, "VA 300 s300\r\n"),
        ("mg foo f s t c k O123 h l", ITEM, none, "HD f30 s300 t-1 c123 kfoo O123 h1 l12\r\n"),
        ("mg foo l h O k c t s f v", mortal, none, "VA 300 l12 h0 O kfoo c123 t90 s300 f30\r\n"),
        ("mg Zm9v b k", ITEM, none, "HD kZm9v b\r\n"),
        ("mg Zm9v k b t", ITEM, none, "HD kZm9v b t-1\r\n"),
        ("mg foo T30 N30 R30 E5 u t", ITEM, won, "HD t-1 W\r\n"),
        ("mg foo", ITEM, stale, "HD Z X\r\n"),
        ("mg foo c", ITEM, all, "HD c123 Z X W\r\n"),
    ];
    for (line, item, marks, want) in cases {
        let got = reply(line, |out, args| {
            meta_hit(out, args, &item, marks, args.flags.wants_value());
        });
        assert_eq!(got, want, "{line}");
    }
}

#[test]
fn misses() {
    for (line, want) in [
        ("mg foo v s t c f", "EN\r\n"),
        ("mg foo v k Oab s", "EN kfoo Oab\r\n"),
        ("mg Zm9v Oab k b", "EN Oab kZm9v b\r\n"),
        ("mg foo v k q", ""),
    ] {
        assert_eq!(reply(line, meta_miss), want, "{line}");
    }
}

#[test]
fn changes() {
    for (line, status, want) in [
        ("md foo", MetaStatus::Done, "HD\r\n"),
        ("md foo q", MetaStatus::Done, ""),
        ("md foo q k", MetaStatus::NotFound, "NF kfoo\r\n"),
        ("md foo O1 k", MetaStatus::Exists, "EX O1 kfoo\r\n"),
        ("ma foo q v c", MetaStatus::NotFound, "NF\r\n"),
        ("ma foo v O1 t", MetaStatus::Exists, "EX O1\r\n"),
    ] {
        assert_eq!(reply(line, |out, args| meta_status(out, status, args)), want);
    }
    for (line, status, want) in [
        ("ms foo 1", MetaStatus::Done, "HD\r\n"),
        ("ms foo 1 q", MetaStatus::Done, ""),
        ("ms foo 1 c O1 s k", MetaStatus::Done, "HD c5 O1 s9 kfoo\r\n"),
        ("ms foo 1 q c", MetaStatus::Exists, "EX c5\r\n"),
        ("ms foo 1 t v f", MetaStatus::NotStored, "NS\r\n"),
        ("ms Zm9v 1 b k", MetaStatus::NotFound, "NF kZm9v b\r\n"),
    ] {
        let got = reply(line, |out, args| meta_stored(out, status, args, 5, 9));
        assert_eq!(got, want, "{line}");
    }
}

#[test]
fn numbers() {
    for (line, want) in [
        ("ma foo", "HD\r\n"),
        ("ma foo q v", ""),
        ("ma foo v", "VA 20\r\n18446744073709551615\r\n"),
        ("ma foo O1 v t c k s", "VA 20 O1 t-1 c7 kfoo\r\n18446744073709551615\r\n"),
        ("ma foo c", "HD c7\r\n"),
    ] {
        let got = reply(line, |out, args| meta_number(out, args, u64::MAX, 7, None));
        assert_eq!(got, want, "{line}");
    }
}

#[test]
fn debugging() {
    let item = ItemDebug { facts: ITEM, class: 4, item_bytes: 370 };
    let want = "ME foo exp=-1 la=12 cas=123 fetch=yes cls=4 size=370\r\n";
    assert_eq!(reply("mg foo", |out, args| meta_debug(out, args.key, &item)), want);
    let mortal = ItemFacts { ttl_s: Some(5), fetched: false, ..ITEM };
    let item = ItemDebug { facts: mortal, ..item };
    let want = "ME Zm9v exp=5 la=12 cas=123 fetch=no cls=4 size=370\r\n";
    assert_eq!(reply("mg Zm9v b", |out, args| meta_debug(out, args.key, &item)), want);
}

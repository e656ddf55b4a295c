//! Any bytes as the flags of a meta command: every flag can be read, and a reply that returns all
//! of them is one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memcache::reply::{ItemFacts, Marks, MetaStatus, meta_hit, meta_number, meta_stored};
use memcache::{Limits, MetaArgs, Parsed, Request, parse};

fuzz_target!(|input: &[u8]| {
    let Some((which, text)) = input.split_first() else {
        return;
    };
    let command: &[u8] = [&b"mg "[..], b"md ", b"ma ", b"ms "][usize::from(which % 4)];
    let line = [command, text, b"\r\nvalue\r\n"].concat();
    let Parsed::Request { request, .. } = parse(&line, &Limits::default()) else {
        return;
    };
    match request {
        Request::MetaGet(args)
        | Request::MetaDelete(args)
        | Request::MetaArith { args, .. }
        | Request::MetaSet { args, .. } => answer(&args),
        _ => {}
    }
});

/// Reads every flag, and composes every reply that returns facts.
fn answer(args: &MetaArgs<'_>) {
    let MetaArgs { key, flags } = args;
    let mut scratch = [0; 250];
    let bytes = key.key(&mut scratch).as_bytes();
    assert!((1..=250).contains(&bytes.len()));
    for time in [flags.ttl(), flags.vivify(), flags.recache()].into_iter().flatten() {
        assert!(i32::try_from(time).is_ok());
    }
    let cas = flags.cas().or(flags.cas_new()).unwrap_or(flags.delta()).max(flags.initial());
    let facts = ItemFacts {
        value_bytes: 5,
        cas,
        client_flags: flags.client_flags(),
        ..ItemFacts::default()
    };
    let marks = Marks { sent: true, stale: true, won: true };
    let mut out = Vec::new();
    meta_hit(&mut out, args, &facts, marks, flags.wants_value());
    assert_line(&mut out);
    meta_stored(&mut out, MetaStatus::Exists, args, cas, 5);
    assert_line(&mut out);
    if !flags.quiet() && !flags.wants_value() {
        meta_number(&mut out, args, cas, cas, None);
        assert_line(&mut out);
    }
}

/// `out` is one line, and not longer than the flags can make it.
fn assert_line(out: &mut Vec<u8>) {
    assert!(out.ends_with(b"\r\n") && out.len() < 1024);
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
    out.clear();
}

//! A log that follows holds what the log that leads held, and takes nothing else.
#![cfg(not(any(loom, shuttle)))]

use base::{
    Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, Refused, Removal, SliceId, SliceRange,
    Value, Version,
};
use effects::{
    Batch, Broken, Entry, JoinError, Joining, Lanes, LanesConfig, Log, Mark, Part, Records,
    TAG_BYTES, Unfollowed, Who, WorkerSink,
};
use std::sync::Arc;

const FACTS: Facts = Facts {
    client_flags: 3,
    expiry_s: 9,
    token: Some(5),
    stale: true,
    token_sent: false,
    vivified: true,
};

fn lanes(follows: bool) -> Arc<Lanes> {
    let config = LanesConfig { lanes: 1, sinks: 1, bytes: 1 << 20, value_bytes_max: 0, follows };
    Lanes::new(&config, &MemoryBudget::new(1 << 24)).expect("enough memory")
}

fn log(lanes: &Lanes) -> &Log {
    lanes.logs().next().expect("one lane").1
}

fn any_slice() -> SliceId {
    SliceId::of(b"key")
}

fn change(change: Change<'_>, version: u64) -> Entry<'_> {
    let effect = Effect { key: b"key", change };
    Entry::Change { slice: any_slice(), version: Version::from_raw(version), effect, tag: None }
}

/// The same, made for a request that may be asked again.
fn tagged(change: Change<'_>, version: u64) -> Entry<'_> {
    let (effect, tag) = (Effect { key: b"key", change }, Some(&[9; TAG_BYTES]));
    Entry::Change { slice: any_slice(), version: Version::from_raw(version), effect, tag }
}

fn put(version: u64) -> Entry<'static> {
    change(Change::Put(Value::Parts([b"val", b"ue"]), FACTS), version)
}

/// One entry of every kind.
fn entries() -> Vec<Entry<'static>> {
    let value = Value::Parts([b"value", b""]);
    vec![
        put(1),
        change(Change::Put(Value::EMPTY, Facts::default()), 2),
        change(Change::Touch(7, None), 3),
        change(Change::Touch(9, Some((value, FACTS))), 4),
        change(Change::Remove(Removal::Deleted), 5),
        change(Change::Remove(Removal::Evicted), 6),
        change(Change::Remove(Removal::Expired), 7),
        tagged(Change::Put(Value::Parts([b"5", b""]), FACTS), 8),
        tagged(Change::Touch(9, None), 9),
        tagged(Change::Remove(Removal::Deleted), 10),
        Entry::Barrier(SliceRange::of(any_slice()), u32::MAX),
        Entry::Other { kind: 200, bytes: b"anything", spends: true },
        Entry::Skipped,
        Entry::Item {
            reader: 3,
            slice: any_slice(),
            version: Version::from_raw(2),
            key: b"key",
            value,
            facts: FACTS,
        },
    ]
}

fn encoded(entry: &Entry<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    bytes
}

#[test]
fn every_entry_is_the_same_after_the_way() {
    for entry in entries() {
        let bytes = encoded(&entry);
        let (decoded, length) = Entry::decode(&bytes).expect("as encoded");
        assert_eq!((format!("{decoded:?}"), length), (format!("{entry:?}"), bytes.len()));
        assert_eq!(encoded(&decoded), bytes);
        let key = match entry {
            Entry::Change { effect, .. } => effect.key,
            Entry::Item { key, .. } => key,
            _ => b"",
        };
        let two = [&bytes[..], &encoded(&put(1))].concat();
        let mut records = Records::new(1, &two);
        assert_eq!((records.next_key(), records.next_key()), (Some(key), Some(&b"key"[..])));
        assert!(records.next_key().is_none() && records.next().is_none());
        for cut in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..cut]).is_err(), "{entry:?} of {cut} bytes");
        }
    }
}

#[test]
fn there_is_one_form_of_each_entry() {
    for entry in entries() {
        let bytes = encoded(&entry);
        for at in 0..28 {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                if let Ok((decoded, length)) = Entry::decode(&other) {
                    assert_eq!(encoded(&decoded), other[..length], "{entry:?}: byte {at}");
                }
            }
        }
    }
    let mut bytes = encoded(&put(1));
    for (at, value, why) in
        [(0, 0, Broken::Kind(0)), (0, 8, Broken::Kind(8)), (3, 1, Broken::Fields)]
    {
        let before = std::mem::replace(&mut bytes[at], value);
        assert_eq!(Entry::decode(&bytes).expect_err("wrong"), why);
        bytes[at] = before;
    }
}

#[test]
fn a_copy_holds_what_its_source_held() {
    let (source, copy) = (lanes(false), lanes(true));
    let joining =
        Joining { who: Who::Copy(1), from: None, holds: Some(Mark::Written), grants: None };
    let reader = log(&source).join(&joining).expect("there is a place");
    let mut sink = WorkerSink::new(source.clone());
    let large = vec![7; 20_000];
    let key = KeyId { slice: any_slice(), hash: 0 };
    for number in 1..=100_u64 {
        let bytes = if number % 10 == 0 { &large[..] } else { b"small" };
        let change = Change::Put(Value::Parts([bytes, b""]), FACTS);
        let stamp = || Ok(Version::from_raw(number));
        sink.commit(key, &Effect { key: b"key", change }, stamp).expect("there is space");
    }
    sink.other(source.lane_of(any_slice()), 1, b"no change", false).expect("there is space");
    let (mut batch, mut from) = (Batch::new(1_000), 1);
    while from <= log(&source).end() {
        log(&source).read(reader, from, &mut batch).expect("it holds them");
        let sent = batch.parts().concat();
        for record in Records::new(batch.first(), &sent) {
            let record = record.expect("as sent");
            log(&copy).follow(record.position, &record.entry).expect("it is the next");
        }
        from = batch.next();
    }
    assert_eq!(copy.last(any_slice()), source.last(any_slice()));
    let all = |lanes: &Lanes| {
        let joining = Joining { from: Some(1), ..joining };
        let reader = log(lanes).join(&joining).expect("all is there");
        let (mut bytes, mut batch, mut from) = (Vec::new(), Batch::new(1_000), 1);
        while from <= log(lanes).end() {
            log(lanes).read(reader, from, &mut batch).expect("it is held");
            bytes.extend(batch.parts().concat());
            from = batch.next();
        }
        bytes
    };
    assert!(all(&source) == all(&copy));
}

#[test]
fn a_batch_says_between_which_slices_its_items_are() {
    let source = lanes(false);
    let joining = Joining { who: Who::Copy(1), from: None, holds: None, grants: None };
    let reader = log(&source).join(&joining).expect("there is a place");
    let mut sink = WorkerSink::new(source.clone());
    let mut batch = Batch::new(10_000);
    sink.other(source.lane_of(any_slice()), 1, b"no change", false).expect("there is space");
    log(&source).read(reader, 1, &mut batch).expect("it holds it");
    assert_eq!((batch.len(), batch.slices()), (1, None));
    let mut slices: Vec<_> = [b"one", b"two", b"six"].map(|key| SliceId::of(key)).into();
    for (slice, number) in slices.iter().zip(1..) {
        let change = Change::Remove(Removal::Deleted);
        let (key, stamp) = (KeyId { slice: *slice, hash: 0 }, || Ok(Version::from_raw(number)));
        sink.commit(key, &Effect { key: b"key", change }, stamp).expect("there is space");
    }
    slices.sort();
    log(&source).read(reader, 1, &mut batch).expect("it holds them");
    assert_eq!((batch.len(), batch.slices()), (4, Some((slices[0], slices[2]))));
    log(&source).read(reader, 5, &mut batch).expect("there is nothing");
    assert_eq!((batch.len(), batch.slices()), (0, None), "it is used again");
}

#[test]
fn what_does_not_follow_is_refused_and_counted() {
    let copy = lanes(true);
    let log = log(&copy);
    let other_slice = Entry::Change {
        slice: SliceId::of(b"another key"),
        version: Version::from_raw(9),
        effect: Effect { key: b"key", change: Change::Remove(Removal::Deleted) },
        tag: None,
    };
    let no_key = Entry::Change {
        slice: any_slice(),
        version: Version::from_raw(9),
        effect: Effect { key: b"", change: Change::Remove(Removal::Deleted) },
        tag: None,
    };
    let long = vec![7; copy.value_bytes_max() as usize * 2];
    let too_long = change(Change::Put(Value::Parts([&long, &[]]), FACTS), 9);
    log.follow(1, &put(4)).expect("the first");
    let last = Unfollowed::Order(Version::from_raw(4));
    for (at, entry, why) in [
        (1, put(5), Unfollowed::Gap(2)),
        (3, put(5), Unfollowed::Gap(2)),
        (2, put(4), last),
        (2, put(3), last),
        (2, other_slice, Unfollowed::Slice),
        (2, no_key, Unfollowed::Length),
        (2, too_long, Unfollowed::Length),
    ] {
        assert_eq!(log.follow(at, &entry), Err(why), "{entry:?} at {at}");
        assert_eq!((log.end(), copy.last(any_slice()).1.raw()), (1, 4));
    }
    let counts = log.refusals();
    assert_eq!((counts.gap, counts.order, counts.slice, counts.length), (2, 2, 1, 2));
    log.seal();
    assert_eq!(log.follow(2, &put(5)), Err(Unfollowed::NotFollowing));
    assert_eq!(log.refusals().not_following, 1);
}

#[test]
fn a_follower_stamps_nothing_until_it_leads_and_continues_then() {
    let copy = lanes(true);
    let log = log(&copy);
    let mut sink = WorkerSink::new(copy.clone());
    let mut append = |version| {
        let change = Change::Remove(Removal::Deleted);
        let effect = Effect { key: b"key", change };
        let key = KeyId { slice: any_slice(), hash: 0 };
        sink.commit(key, &effect, || Ok(Version::from_raw(version)))
    };
    assert!(log.advance(any_slice(), Version::from_raw(10)), "what it missed");
    assert_eq!(log.follow(1, &put(10)), Err(Unfollowed::Order(Version::from_raw(10))));
    log.follow(1, &put(11)).expect("the next");
    assert_eq!(append(12), Err(Refused::Sealed));
    assert_eq!((log.lead(), log.part()), (1, Part::Leads));
    append(1 << 20).expect("it leads");
    assert_eq!(copy.last(any_slice()).0.position, 2);
    assert_eq!(log.follow(3, &put(1 << 21)), Err(Unfollowed::NotFollowing));
}

#[test]
fn a_log_begins_again_as_an_empty_copy() {
    let copy = lanes(false);
    let log = log(&copy);
    let mut sink = WorkerSink::new(copy.clone());
    sink.other(copy.lane_of(any_slice()), 1, b"before", false).expect("there is space");
    let joining = Joining { who: Who::Journal, from: None, holds: None, grants: None };
    let reader = log.join(&joining).expect("there is a place");
    assert!(!log.follow_from(100), "it has a reader");
    log.leave(reader);
    sink.end_batch();
    assert!(log.follow_from(100) && !log.follow_from(0));
    assert_eq!((log.end(), log.first(), log.used_bytes()), (99, 100, 0));
    assert_eq!(log.follow(99, &put(1)), Err(Unfollowed::Gap(100)));
    log.follow(100, &put(1)).expect("the first");
    assert_eq!(log.join(&Joining { from: Some(2), ..joining }), Err(JoinError::Gone(100)));
}

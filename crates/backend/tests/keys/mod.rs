//! What every backend promises of keys and notes.

use crate::scratch::Scratch;
use backend::Directory;
use measure::rng::Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tier::{Backend, Change, Failure};

/// A backend, and what it lies in.
pub struct Opened {
    pub backend: Box<dyn Backend>,
    /// Dropped after the backend.
    pub directory: Option<Directory>,
    /// How many changes a random run makes.
    pub changes: usize,
}

/// The changes of a random run where nothing is asked over a network.
pub const CHANGES: usize = 2000;

/// How long a thread that reads again and again lets others run.
const PAUSE: Duration = Duration::from_micros(100);

/// Opens a backend at a path, again and again.
pub type Open<'a> = dyn Fn(&Path) -> Opened + 'a;

/// A promise, and what checks it.
pub type Promise = (&'static str, fn(&Open<'_>, &Scratch));

/// All of them.
pub const PROMISES: [Promise; 10] = [
    ("a_key_has_the_last_record_that_was_put", a_key_has_the_last_record_that_was_put),
    ("keys_are_any_bytes_and_records_any_length", keys_are_any_bytes_and_records_any_length),
    ("keys_of_other_lengths_are_refused", keys_of_other_lengths_are_refused),
    ("one_apply_carries_out_many_changes", one_apply_carries_out_many_changes),
    ("notes_are_kept_and_are_no_keys", notes_are_kept_and_are_no_keys),
    ("a_note_is_claimed_once", a_note_is_claimed_once),
    (
        "gets_during_applies_see_whole_records_and_never_older_ones",
        gets_during_applies_see_whole_records_and_never_older_ones,
    ),
    ("all_that_is_kept_is_shown", all_that_is_kept_is_shown),
    ("a_random_run_equals_a_map", a_random_run_equals_a_map),
    ("all_is_found_again", all_is_found_again),
];

pub fn a_key_has_the_last_record_that_was_put(open: &Open<'_>, scratch: &Scratch) {
    let Opened { backend, directory: _directory, .. } = open(scratch.path());
    let backend = &*backend;
    assert!(!backend.name().is_empty());
    let steps = [
        (Change::Delete { key: b"k" }, None),
        (put(b"k", b"first"), Some(&b"first"[..])),
        (put(b"other", b"other"), Some(b"first")),
        (put(b"k", b"2"), Some(b"2")),
        (put(b"k", b"a longer one"), Some(b"a longer one")),
        (put(b"k", b""), Some(b"")),
        (Change::Delete { key: b"k" }, None),
        (Change::Delete { key: b"k" }, None),
        (put(b"k", b"again"), Some(b"again")),
    ];
    assert_eq!(get(backend, b"k"), None);
    for (change, expected) in steps {
        backend.apply(&[change]).unwrap();
        assert_eq!(get(backend, b"k").as_deref(), expected, "after {change:?}");
    }
    assert_eq!(get(backend, b"other").as_deref(), Some(&b"other"[..]));
    let mut into = b"head ".to_vec();
    assert!(backend.get(b"k", &mut into).unwrap());
    assert_eq!(into, b"head again", "a record is appended");
    assert!(!backend.get(b"none", &mut into).unwrap());
    assert_eq!(into, b"head again", "a missing one appends nothing");
}

pub fn keys_are_any_bytes_and_records_any_length(open: &Open<'_>, scratch: &Scratch) {
    let Opened { backend, directory: _directory, .. } = open(scratch.path());
    let keys = any_keys();
    for (index, key) in keys.iter().enumerate() {
        backend.apply(&[put(key, &index.to_le_bytes())]).unwrap();
    }
    for (index, key) in keys.iter().enumerate() {
        assert_eq!(get(&*backend, key), Some(index.to_le_bytes().to_vec()), "{key:?}");
    }
    for bytes in [0, 1, 511, 4096, 65_537, 1 << 20] {
        let record: Vec<u8> = (0..bytes).map(|at: u32| (at % 251) as u8).collect();
        backend.apply(&[put(&keys[3], &record)]).unwrap();
        assert!(get(&*backend, &keys[3]) == Some(record), "a record of {bytes} bytes");
    }
    for (index, key) in keys.iter().enumerate().skip(4) {
        backend.apply(&[Change::Delete { key }]).unwrap();
        assert_eq!(get(&*backend, key), None, "{key:?}");
        let next = keys.get(index + 1);
        assert!(next.is_none_or(|next| get(&*backend, next).is_some()), "after {key:?}");
    }
}

pub fn keys_of_other_lengths_are_refused(open: &Open<'_>, scratch: &Scratch) {
    let Opened { backend, directory: _directory, .. } = open(scratch.path());
    for key in [&b""[..], &[b'k'; 251]] {
        let got = backend.get(key, &mut Vec::new()).unwrap_err();
        let changes = [put(b"good", b"1"), put(key, b"1")];
        let applied = backend.apply(&changes).unwrap_err();
        let deleted = backend.apply(&[Change::Delete { key }]).unwrap_err();
        for error in [got, applied, deleted] {
            assert_eq!(error.failure, Failure::Permanent);
            let text = format!("a key has {} bytes: it must have 1 to 250", key.len());
            assert!(error.what.ends_with(&text) && error.what.starts_with(backend.name()));
        }
        assert_eq!(get(&*backend, b"good"), None, "nothing of a refused apply is carried out");
    }
}

pub fn one_apply_carries_out_many_changes(open: &Open<'_>, scratch: &Scratch) {
    let Opened { backend, directory: _directory, .. } = open(scratch.path());
    let keys: Vec<Vec<u8>> = (0..300).map(|index| format!("key/{index}").into()).collect();
    backend.apply(&[]).unwrap();
    let all: Vec<Change<'_>> = keys.iter().map(|key| put(key, key)).collect();
    backend.apply(&all).unwrap();
    let odd = |index: usize| index % 2 == 1;
    let mixed = keys
        .iter()
        .enumerate()
        .map(|(index, key)| if odd(index) { Change::Delete { key } } else { put(key, b"even") });
    backend.apply(&mixed.collect::<Vec<_>>()).unwrap();
    for (index, key) in keys.iter().enumerate() {
        let expected = (!odd(index)).then_some(&b"even"[..]);
        assert_eq!(get(&*backend, key).as_deref(), expected, "{index}");
    }
}

/// The longest note of the tier has 30 bytes for each slice.
const NOTE_BYTES: usize = 30 * base::SLICES + 20;

pub fn notes_are_kept_and_are_no_keys(open: &Open<'_>, scratch: &Scratch) {
    let Opened { backend, directory: _directory, .. } = open(scratch.path());
    let names = ["place", "place/1", "\u{fc} %", ".", &"long".repeat(20)];
    for name in names {
        assert_eq!(backend.note(name), Ok(None));
        for bytes in [&b"first"[..], b"", &[0xFF; 100]] {
            backend.set_note(name, bytes).unwrap();
            assert_eq!(backend.note(name), Ok(Some(bytes.to_vec())), "{name}");
            assert_eq!(get(&*backend, name.as_bytes()), None, "{name}");
        }
        backend.apply(&[put(name.as_bytes(), b"a key")]).unwrap();
        assert_eq!(backend.note(name), Ok(Some(vec![0xFF; 100])), "{name}");
        backend.apply(&[Change::Delete { key: name.as_bytes() }]).unwrap();
        assert_eq!(backend.note(name), Ok(Some(vec![0xFF; 100])), "{name}");
    }
    for round in 1..4 {
        let note: Vec<u8> = (0..NOTE_BYTES).map(|at| (at % 251) as u8 ^ round).collect();
        backend.set_note("long", &note).unwrap();
        assert!(backend.note("long").unwrap() == Some(note), "round {round}");
    }
}

pub fn a_note_is_claimed_once(open: &Open<'_>, scratch: &Scratch) {
    let Opened { backend, directory: _directory, .. } = open(scratch.path());
    let claim = |bytes: &[u8]| backend.claim("owner", bytes);
    assert_eq!([claim(b"one"), claim(b"another"), claim(b"one")], [Ok(true), Ok(false), Ok(true)]);
    assert_eq!(backend.note("owner"), Ok(Some(b"one".to_vec())));
    backend.set_note("owner", b"another").unwrap();
    assert_eq!([claim(b"one"), claim(b"another")], [Ok(false), Ok(true)]);
}

pub fn gets_during_applies_see_whole_records_and_never_older_ones(
    open: &Open<'_>,
    scratch: &Scratch,
) {
    let Opened { backend, directory: _directory, .. } = open(scratch.path());
    let backend = &*backend;
    let record = |number: u64| number.to_le_bytes().repeat(1000);
    backend.apply(&[put(b"a", &record(0)), put(b"b", &record(0))]).unwrap();
    let (applied, ended, gets) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let read = |key: &[u8]| {
        while !ended.load(Ordering::SeqCst) {
            let before = applied.load(Ordering::SeqCst);
            let found = get(backend, key).expect("it is always there");
            let number = u64::from_le_bytes(found[..8].try_into().unwrap());
            assert!(found == record(number), "a record is whole");
            assert!(number >= before, "{number} was read after {before} was applied");
            gets.fetch_add(1, Ordering::SeqCst);
            // What keeps the keys may be another process, which needs a processor too.
            thread::sleep(PAUSE);
        }
    };
    thread::scope(|scope| {
        for key in [b"a", b"a", b"b"] {
            scope.spawn(|| read(key));
        }
        // The readers end also where an apply fails.
        let write = || -> Result<(), tier::BackendError> {
            let mut number = 0;
            while number < 50 || gets.load(Ordering::SeqCst) < 50 {
                number += 1;
                backend.apply(&[put(b"a", &record(number)), put(b"b", &record(number))])?;
                applied.store(number, Ordering::SeqCst);
            }
            Ok(())
        };
        let written = write();
        ended.store(true, Ordering::SeqCst);
        written.unwrap();
    });
}

pub fn all_that_is_kept_is_shown(open: &Open<'_>, scratch: &Scratch) {
    let Opened { backend, directory: _directory, .. } = open(scratch.path());
    let shown = |most: usize| {
        let mut shown = Vec::new();
        let can = backend.show(&mut |key, record| {
            shown.push((key.to_vec(), record.unwrap().to_vec()));
            shown.len() < most
        });
        assert_eq!(can, Ok(true));
        shown.sort();
        shown
    };
    assert!(shown(usize::MAX).is_empty());
    let keys = (0..1_100).map(|index| format!("key/{index}").into_bytes()).chain(any_keys());
    let mut kept: BTreeMap<Vec<u8>, Vec<u8>> =
        keys.enumerate().map(|(index, key)| (key, vec![7; index])).collect();
    let changes: Vec<Change<'_>> = kept.iter().map(|(key, record)| put(key, record)).collect();
    backend.apply(&changes).unwrap();
    backend.set_note("note", b"no key").unwrap();
    backend.apply(&[Change::Delete { key: b"key/7" }, put(b"key/8", b"other")]).unwrap();
    kept.remove(&b"key/7"[..]);
    kept.insert(b"key/8".to_vec(), b"other".to_vec());
    assert!(shown(usize::MAX).into_iter().eq(kept), "each key once, with its record");
    assert_eq!(shown(3).len(), 3, "it ends when that is wanted");
}

pub fn a_random_run_equals_a_map(open: &Open<'_>, scratch: &Scratch) {
    const SEED: u64 = 20_260_101;
    let mut rng = Rng::new(SEED, 0);
    let keys = any_keys();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut opened = open(scratch.path());
    let is_kept = !opened.backend.name().contains("memory");
    let mut done = 0;
    while done < opened.changes {
        let mut batch: BTreeMap<&[u8], Option<Vec<u8>>> = BTreeMap::new();
        for _ in 0..=rng.below(12) {
            let key = &keys[rng.below(keys.len() as u64) as usize];
            let record = vec![rng.next_u64() as u8; rng.below(300) as usize];
            batch.insert(key, (rng.below(3) > 0).then_some(record));
        }
        let changes: Vec<Change<'_>> = batch
            .iter()
            .map(|(key, record)| match record {
                Some(record) => Change::Put { key, record },
                None => Change::Delete { key },
            })
            .collect();
        opened.backend.apply(&changes).unwrap();
        done += changes.len();
        for (key, record) in batch {
            match record {
                Some(record) => model.insert(key.to_vec(), record),
                None => model.remove(key),
            };
        }
        if is_kept && rng.below(20) == 0 {
            drop(opened);
            opened = open(scratch.path());
        }
        for key in &keys {
            let found = get(&*opened.backend, key);
            assert_eq!(found.as_ref(), model.get(key), "seed {SEED}, {done} done, {key:?}");
        }
    }
    assert!(model.len() > 4, "the run keeps some keys");
}

pub fn all_is_found_again(open: &Open<'_>, scratch: &Scratch) {
    let keys = any_keys();
    for round in 0..3_u8 {
        let Opened { backend, directory: _directory, .. } = open(scratch.path());
        let last = |key: &[u8]| [key, &[round.wrapping_sub(1)]].concat();
        for key in keys.iter().filter(|_| round > 0) {
            assert_eq!(get(&*backend, key), Some(last(key)), "round {round}, {key:?}");
        }
        let gone = get(&*backend, b"gone");
        assert_eq!(gone, None);
        let note = (round > 0).then(|| vec![round - 1]);
        assert_eq!(backend.note("round"), Ok(note));
        let records: Vec<_> = keys.iter().map(|key| [&key[..], &[round]].concat()).collect();
        let pairs = keys.iter().zip(&records);
        backend.apply(&pairs.map(|(key, record)| put(key, record)).collect::<Vec<_>>()).unwrap();
        backend.apply(&[put(b"gone", b"soon")]).unwrap();
        backend.apply(&[Change::Delete { key: b"gone" }]).unwrap();
        backend.set_note("round", &[round]).unwrap();
    }
}

fn put<'a>(key: &'a [u8], record: &'a [u8]) -> Change<'a> {
    Change::Put { key, record }
}

fn get(backend: &dyn Backend, key: &[u8]) -> Option<Vec<u8>> {
    let mut into = Vec::new();
    backend.get(key, &mut into).unwrap().then_some(into)
}

/// Keys of 1 to 250 bytes with all bytes there are; each differs from the others.
fn any_keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [
        &b"/"[..],
        b".",
        b"%",
        b"..",
        b"%2F",
        b"%2f",
        b"k-",
        b"lock",
        b"t-0",
        b"A",
        b"a",
        b"\0",
        &[0xFF],
        b"a/../b",
        b".hidden",
        b"x.tmp",
        b" ",
        b"\n",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    for byte in [b'a', b'/', b'.', 0, 0xFF] {
        for bytes in [3, 84, 85, 249, 250] {
            keys.push(vec![byte; bytes]);
        }
    }
    keys.push((0..250).collect());
    keys.push((6..=255).collect());
    keys
}

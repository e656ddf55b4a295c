//! The files of a backend with a file for each key: what lies on the disk, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod scratch;

use backend::FilesBackend;
use scratch::Scratch;
use std::fs;
use std::path::Path;
use tier::{Backend, Change, Failure};

/// A key whose name would be too long.
const LONG: [u8; 250] = [b'/'; 250];

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path.join("keys")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn put<'a>(key: &'a [u8], record: &'a [u8]) -> Change<'a> {
    Change::Put { key, record }
}

/// The name of the file of [`LONG`].
fn shared(path: &Path) -> String {
    names(path).into_iter().find(|name| name.starts_with("h-")).unwrap()
}

#[test]
fn a_file_has_the_name_of_its_key_and_begins_with_it() {
    let scratch = Scratch::new("files-names");
    let backend = FilesBackend::open(scratch.path()).unwrap();
    backend.apply(&[put(b"a/b", b"record"), put(b"..", b"")]).unwrap();
    backend.set_note("place", b"7").unwrap();
    assert_eq!(names(scratch.path()), ["k-..", "k-a%2Fb", "lock", "n-place"]);
    let bytes = fs::read(scratch.path().join("keys/k-a%2Fb")).unwrap();
    assert_eq!(bytes, b"\x03\x06\0\0\0\0\0\0\0a/brecord");
    assert!(!backend.is_atomic());
    assert_eq!(backend.name(), format!("files in {}/keys", scratch.path().display()));
    let second = FilesBackend::open(scratch.path()).unwrap_err();
    assert!(second.what.contains("in use by another process"), "{second}");
}

#[test]
fn a_second_key_of_one_hash_is_refused_and_harms_nothing() {
    let scratch = Scratch::new("files-hash");
    let backend = FilesBackend::open(scratch.path()).unwrap();
    backend.apply(&[put(&LONG, b"record")]).unwrap();
    // The file is made that of another key.
    let file = scratch.path().join("keys").join(shared(scratch.path()));
    let mut bytes = fs::read(&file).unwrap();
    bytes[9] = b'x';
    fs::write(&file, &bytes).unwrap();
    let mut into = Vec::new();
    assert_eq!(backend.get(&LONG, &mut into), Ok(false), "the record is of another key");
    backend.apply(&[Change::Delete { key: &LONG }]).unwrap();
    assert_eq!(fs::read(&file).unwrap(), bytes, "it is not deleted");
    let refused = backend.apply(&[put(b"good", b""), put(&LONG, b"record")]).unwrap_err();
    assert_eq!(refused.failure, Failure::Permanent);
    assert!(refused.what.contains("is the file of another key with the same hash"), "{refused}");
    assert_eq!(fs::read(&file).unwrap(), bytes, "it is not overwritten");
    let left = names(scratch.path());
    assert_eq!(left, [&shared(scratch.path()), "lock"], "nothing of the apply is carried out");
    backend.apply(&[Change::Delete { key: &LONG }, put(b"good", b"")]).unwrap();
}

#[test]
fn a_file_that_is_not_what_was_written_is_corrupt() {
    let scratch = Scratch::new("files-corrupt");
    let backend = FilesBackend::open(scratch.path()).unwrap();
    let changes = [put(b"cut", b"record"), put(b"other", b""), put(b"empty", b"")];
    backend.apply(&changes).unwrap();
    let keys = scratch.path().join("keys");
    fs::write(keys.join("k-cut"), b"\x03\x06\0\0\0\0\0\0\0cutreco").unwrap();
    fs::copy(keys.join("k-other"), keys.join("k-another")).unwrap();
    fs::write(keys.join("k-empty"), b"").unwrap();
    let cases = [
        (&b"cut"[..], "k-cut has 16 bytes, which are not those of a record"),
        (b"another", "k-another holds the record of another key"),
        (b"empty", "k-empty has 0 bytes"),
    ];
    for (key, text) in cases {
        let error = backend.get(key, &mut Vec::new()).unwrap_err();
        assert_eq!(error.failure, Failure::Corrupt);
        assert!(error.what.contains(text), "{error}");
        backend.apply(&[put(key, b"new")]).unwrap();
        assert_eq!(backend.get(key, &mut Vec::new()), Ok(true), "a put mends it");
    }
}

#[test]
fn an_apply_that_fails_half_way_is_unknown_and_leaves_no_record_without_a_name() {
    let scratch = Scratch::new("files-half");
    let backend = FilesBackend::open(scratch.path()).unwrap();
    // A directory has the name of the key, so the rename fails, after that of the first key.
    fs::create_dir_all(scratch.path().join("keys/k-b/below")).unwrap();
    let changes = [put(b"a", b"1"), put(b"b", b"1"), put(b"c", b"1")];
    let failed = backend.apply(&changes).unwrap_err();
    assert_eq!(failed.failure, Failure::Unknown);
    assert!(failed.what.contains("cannot replace or remove k-b: "), "{failed}");
    assert_eq!(names(scratch.path()), ["k-a", "k-b", "lock"]);
    // Here the record cannot be written, so nothing is carried out.
    fs::create_dir(scratch.path().join("keys/t-1")).unwrap();
    let failed = backend.apply(&[put(b"d", b"1"), put(b"e", b"1")]).unwrap_err();
    assert_eq!(failed.failure, Failure::Transient);
    assert!(failed.what.contains("cannot write t-1: "), "{failed}");
    assert_eq!(names(scratch.path()), ["k-a", "k-b", "lock", "t-1"]);
}

#[test]
fn what_an_apply_left_that_did_not_end_is_removed_and_never_read() {
    let scratch = Scratch::new("files-left");
    drop(FilesBackend::open(scratch.path()).unwrap());
    let keys = scratch.path().join("keys");
    fs::write(keys.join("t-0"), b"half a rec").unwrap();
    fs::write(keys.join("t-17"), b"").unwrap();
    let backend = FilesBackend::open(scratch.path()).unwrap();
    assert_eq!(names(scratch.path()), ["lock"]);
    // A longer one that a failed clean-up left is cut before it is written.
    fs::write(keys.join("t-0"), [7; 1000]).unwrap();
    backend.apply(&[put(b"t-0", b"1")]).unwrap();
    let mut into = Vec::new();
    assert_eq!((backend.get(b"t-0", &mut into), into), (Ok(true), b"1".to_vec()));
}

#[test]
fn the_name_of_a_note_has_a_limit() {
    let scratch = Scratch::new("files-note");
    let backend = FilesBackend::open(scratch.path()).unwrap();
    backend.set_note(&"n".repeat(253), b"1").unwrap();
    let long = "n".repeat(254);
    for refused in [backend.set_note(&long, b"1"), backend.note(&long).map(drop)] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.failure, Failure::Permanent);
        assert!(refused.what.contains("a name of 254 bytes: "), "{refused}");
        assert!(refused.what.contains("it must have 253 at most"), "{refused}");
    }
}

#[test]
fn a_file_that_is_no_record_of_its_key_is_shown_by_its_name_and_the_others_with_it() {
    let scratch = Scratch::new("files-shown");
    let backend = FilesBackend::open(scratch.path()).unwrap();
    backend.apply(&[put(b"a", b"record"), put(b"b", b"other"), put(b"c", b"third")]).unwrap();
    let keys = scratch.path().join("keys");
    fs::write(keys.join("k-a"), b"short").unwrap();
    fs::copy(keys.join("k-c"), keys.join("k-b")).unwrap();
    let mut shown = Vec::new();
    let can = backend.show(&mut |key, record| {
        shown.push((key.to_vec(), record.map(<[u8]>::to_vec).map_err(|error| error.failure)));
        true
    });
    assert_eq!(can, Ok(true));
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    let corrupt = |name: &[u8]| (name.to_vec(), Err(Failure::Corrupt));
    let third = (b"c".to_vec(), Ok(b"third".to_vec()));
    assert_eq!(shown, [third, corrupt(b"k-a"), corrupt(b"k-b")]);
}

/// A mount that is lost, or a directory that was moved away: no key is missing because of that.
#[test]
fn where_the_directory_is_gone_nothing_is_missing() {
    let scratch = Scratch::new("files-gone");
    let (path, away) = (scratch.path().join("keys"), scratch.path().join("away"));
    let backend = FilesBackend::open(scratch.path()).unwrap();
    backend.apply(&[put(b"key", b"record")]).unwrap();
    let get = |key: &[u8]| backend.get(key, &mut Vec::new());
    assert_eq!((get(b"key"), get(b"other")), (Ok(true), Ok(false)));
    fs::rename(&path, &away).unwrap();
    assert!(get(b"key").is_err() && get(b"other").is_err());
    assert!(backend.apply(&[Change::Delete { key: b"key" }]).is_err());
    fs::create_dir(&path).unwrap();
    let what = get(b"key").unwrap_err().what;
    assert!(what.contains("is gone, or another directory is in its place"), "{what}");
    fs::remove_dir(&path).unwrap();
    fs::rename(&away, &path).unwrap();
    assert_eq!((get(b"key"), get(b"other")), (Ok(true), Ok(false)));
}

//! A directory of the system: what lies in it, and who may have it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod scratch;

use backend::{Directory, DirectoryError};
use scratch::Scratch;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use tier::{Disk, File};

#[test]
fn a_second_open_is_refused_until_the_first_is_dropped() {
    let scratch = Scratch::new("lock");
    let path = scratch.path().join("a/b");
    let first = Directory::open(&path, "the journal").unwrap();
    let second = Directory::open(&path, "the journal").unwrap_err();
    assert!(matches!(second, DirectoryError::InUse { .. }));
    let text = format!(
        "{} is to be the directory of the journal, and is in use by another process: stop that \
         process, or choose another directory",
        path.display()
    );
    assert_eq!(second.to_string(), text);
    drop(first);
    drop(Directory::open(&path, "the journal").unwrap());
}

#[test]
fn what_is_created_is_for_its_user_alone() {
    let scratch = Scratch::new("modes");
    let path = scratch.path().join("a/b");
    let directory = Directory::open(&path, "the test").unwrap();
    directory.open("file").unwrap();
    let cases = [("a", 0o700), ("a/b", 0o700), ("a/b/file", 0o600), ("a/b/lock", 0o600)];
    for (name, mode) in cases {
        let found = fs::metadata(scratch.path().join(name)).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{name}");
    }
    assert_eq!(directory.path(), path);
}

#[test]
fn what_cannot_be_a_directory_is_refused_and_the_message_says_what_to_do() {
    let scratch = Scratch::new("refused");
    fs::write(scratch.path().join("file"), b"").unwrap();
    fs::create_dir_all(scratch.path().join("odd/lock")).unwrap();
    let cases = [
        (scratch.path().join("file"), "create it"),
        (scratch.path().join("file/below"), "create it"),
        ("/proc/none".into(), "create it"),
        (scratch.path().join("odd"), "open the file lock in it"),
        ("".into(), "find it"),
    ];
    for (path, doing) in cases {
        let refused = Directory::open(&path, "the keys").unwrap_err();
        let text = refused.to_string();
        let begin = format!(
            "{} is to be the directory of the keys, and the system refuses to {doing}: ",
            path.display()
        );
        assert!(text.starts_with(&begin), "{text}");
        let end = "; make it a directory that this user can write, or choose another";
        assert!(text.ends_with(end), "{text}");
    }
}

#[test]
fn files_are_listed_renamed_and_removed() {
    let scratch = Scratch::new("names");
    let directory = Directory::open(scratch.path(), "the test").unwrap();
    fs::create_dir(scratch.path().join("folder")).unwrap();
    let listed = || {
        let mut names = directory.list().unwrap();
        names.sort();
        names
    };
    assert!(listed().is_empty());
    for name in ["b", "a", ".hidden"] {
        directory.open(name).unwrap().write_at(0, name.as_bytes()).unwrap();
    }
    assert_eq!(listed(), [".hidden", "a", "b"]);
    directory.rename("a", "b").unwrap();
    directory.remove(".hidden").unwrap();
    directory.sync_directory().unwrap();
    assert_eq!(listed(), ["b"]);
    assert_eq!(fs::read(scratch.path().join("b")).unwrap(), b"a");
    assert_eq!(directory.remove("a").unwrap_err().kind(), ErrorKind::NotFound);
    assert!(directory.find("a").unwrap().is_none());
    assert_eq!(listed(), ["b"], "to find does not create");
    assert_eq!(directory.find("b").unwrap().unwrap().bytes().unwrap(), 1);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let scratch = Scratch::new("elsewhere");
    let path = scratch.path().join("inside");
    fs::write(scratch.path().join("outside"), b"kept").unwrap();
    let directory = Directory::open(&path, "the test").unwrap();
    directory.open("file").unwrap();
    for name in ["", "/", "a/b", "../outside", "..", ".", "lock", "a\0b"] {
        let refusals = [
            directory.open(name).map(drop),
            directory.find(name).map(drop),
            directory.remove(name),
            directory.rename("file", name),
            directory.rename(name, "file"),
        ];
        for refused in refusals {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{name:?}");
            assert!(refused.to_string().contains(&format!("{name:?} cannot be the name")));
        }
    }
    assert_eq!(fs::read(scratch.path().join("outside")).unwrap(), b"kept");
}

#[test]
fn a_file_keeps_what_is_written_at_each_place() {
    let scratch = Scratch::new("file");
    let directory = Directory::open(scratch.path(), "the test").unwrap();
    let file = directory.open("file").unwrap();
    let read = |file: &dyn File| {
        let mut bytes = vec![0; usize::try_from(file.bytes().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        bytes
    };
    file.write_at(3, b"def").unwrap();
    assert_eq!(read(&*file), b"\0\0\0def");
    file.write_at(0, b"abc").unwrap();
    file.sync().unwrap();
    file.set_bytes(4).unwrap();
    assert_eq!(read(&*directory.open("file").unwrap()), b"abcd");
    file.set_bytes(6).unwrap();
    assert_eq!(read(&*file), b"abcd\0\0");
    let mut beyond = [0; 3];
    file.read_at(3, &mut beyond).unwrap();
    assert_eq!(&beyond, b"d\0\0");
    assert_eq!(file.read_at(4, &mut beyond).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

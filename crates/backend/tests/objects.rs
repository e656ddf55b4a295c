//! Objects in a directory keep the promises of all objects, and some of their own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod scratch;
mod suite;

use backend::DirectoryObjects;
use pages::{Created, Objects};
use scratch::Scratch;
use std::fs;
use std::thread;
use suite::object;

#[test]
fn a_directory_keeps_every_promise() {
    for (promise, check) in suite::PROMISES {
        println!("{promise}");
        let scratch = Scratch::new("objects-suite");
        check(&DirectoryObjects::open(&scratch.path().join("missing/too")).unwrap());
    }
}

#[test]
fn objects_are_found_again_and_what_has_no_name_is_removed() {
    let scratch = Scratch::new("objects-again");
    let objects = DirectoryObjects::open(scratch.path()).unwrap();
    objects.create(&object("a/b", "1")).unwrap();
    drop(objects);
    fs::write(scratch.path().join("new/1-1"), "a part").unwrap();
    let one = DirectoryObjects::open(scratch.path()).unwrap();
    assert_eq!(fs::read_dir(scratch.path().join("new")).unwrap().count(), 0);
    let other = DirectoryObjects::open(scratch.path()).unwrap();
    assert_eq!(other.create(&object("a/b", "2")), Ok(Created::Before));
    assert_eq!(other.create(&object("c", "3")), Ok(Created::Now));
    assert_eq!(one.get("a/b").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(one.list("", "", 9).unwrap(), ["a/b", "c"]);
    assert_eq!(fs::read_dir(scratch.path().join("new")).unwrap().count(), 0);
}

#[test]
fn the_last_object_leaves_no_directory_and_other_files_are_no_objects() {
    let scratch = Scratch::new("objects-empty");
    let objects = DirectoryObjects::open(scratch.path()).unwrap();
    let files = scratch.path().join("objects");
    objects.create(&object("a/b/c", "1")).unwrap();
    objects.create(&object("a/d", "1")).unwrap();
    assert!(files.join("a+/b+/c").is_file() && files.join("a+/d").is_file());
    objects.delete(&["a/b/c".to_owned()]).unwrap();
    assert!(!files.join("a+/b+").exists() && files.join("a+/d").is_file());
    objects.delete(&["a/d".to_owned()]).unwrap();
    assert_eq!(fs::read_dir(&files).unwrap().count(), 0);
    fs::create_dir(files.join("plain")).unwrap();
    fs::create_dir(files.join("cut=")).unwrap();
    for stray in ["plain/x", "cut=/x", "a b", "x~"] {
        fs::write(files.join(stray), "x").unwrap();
    }
    assert_eq!(objects.list("", "", 9), Ok(Vec::new()));
}

#[test]
fn a_path_that_is_no_directory_is_named_with_the_remedy() {
    let scratch = Scratch::new("objects-file");
    let path = scratch.path().join("file");
    fs::write(&path, "x").unwrap();
    let refused = DirectoryObjects::open(&path).unwrap_err();
    assert_eq!(refused.failure, tier::Failure::Permanent);
    assert!(refused.what.contains(path.to_str().unwrap()), "{refused}");
    assert!(refused.what.ends_with("; make it a directory of this user"), "{refused}");
}

#[test]
fn creates_and_deletes_in_one_directory_do_not_disturb_each_other() {
    let scratch = Scratch::new("objects-race");
    let objects = DirectoryObjects::open(scratch.path()).unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let objects = &objects;
            scope.spawn(move || {
                let own = object(&format!("a/b/c/{thread}"), "x");
                for _ in 0..200 {
                    assert_eq!(objects.create(&own), Ok(Created::Now));
                    assert!(objects.list("a/", "", 9).unwrap().contains(&own.name));
                    objects.delete(std::slice::from_ref(&own.name)).unwrap();
                    assert_eq!(objects.get(&own.name), Ok(None));
                }
            });
        }
    });
    assert_eq!(objects.list("", "", 9), Ok(Vec::new()));
}

//! What everything that keeps objects does alike: one suite, run over each of them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use backend::{OBJECT_BYTES_MAX, OBJECT_NAME_BYTES_MAX};
use pages::{Created, Object, Objects};
use std::sync::Barrier;
use std::thread;
use tier::Failure;

/// A promise, which is checked over what is empty.
pub type Promise = fn(&dyn Objects);

/// All promises, with their names.
pub const PROMISES: [(&str, Promise); 11] = [
    ("an object is read as it was created", an_object_is_read_as_it_was_created),
    ("an object is never changed", an_object_is_never_changed),
    ("one of eight creates the object", one_of_eight_creates_the_object),
    ("a list has the names in order", a_list_has_the_names_in_order),
    ("a list is read in parts", a_list_is_read_in_parts),
    ("a long list is whole", a_long_list_is_whole),
    ("a list shows at once what was created", a_list_shows_at_once_what_was_created),
    ("a deleted object is gone", a_deleted_object_is_gone),
    ("sizes", sizes),
    ("many at once", many_at_once),
    ("bad names and sizes are refused", bad_names_and_sizes_are_refused),
];

fn an_object_is_read_as_it_was_created(objects: &dyn Objects) {
    assert!(!objects.name().is_empty());
    let long = "long/".to_owned() + &"n".repeat(OBJECT_NAME_BYTES_MAX - 5);
    let deep = "d/".repeat(200) + "d";
    let names = ["a", "a/b", "a/b/c", "a%2Fb", "%", "%25", "-", ".a/..b", "new", &long, &deep];
    for name in names {
        assert_eq!(objects.get(name), Ok(None), "{name}");
        assert_eq!(objects.create(&object(name, name)), Ok(Created::Now), "{name}");
    }
    for name in names {
        assert_eq!(text(objects, name).as_deref(), Some(name));
    }
    assert_eq!(objects.list("", "", 100).unwrap(), sorted(&names));
}

fn an_object_is_never_changed(objects: &dyn Objects) {
    assert_eq!(objects.create(&object("k", "first")), Ok(Created::Now));
    for bytes in ["second", "first", "a longer one than the first"] {
        assert_eq!(objects.create(&object("k", bytes)), Ok(Created::Before));
        objects.create_all(&[object("k", bytes), object("other", "x")]).unwrap();
        assert_eq!(text(objects, "k").as_deref(), Some("first"));
    }
}

fn one_of_eight_creates_the_object(objects: &dyn Objects) {
    const THREADS: usize = 8;
    for round in 0..5 {
        let name = format!("race/{round}");
        let start = Barrier::new(THREADS);
        let create = |thread: usize| {
            let own = object(&name, &format!("{thread}"));
            start.wait();
            objects.create(&own).unwrap()
        };
        let created: Vec<Created> = thread::scope(|scope| {
            let create = &create;
            let threads: Vec<_> =
                (0..THREADS).map(|thread| scope.spawn(move || create(thread))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let winners: Vec<usize> =
            (0..THREADS).filter(|thread| created[*thread] == Created::Now).collect();
        assert_eq!(winners.len(), 1, "round {round}: {created:?}");
        assert_eq!(text(objects, &name), Some(winners[0].to_string()));
    }
}

fn a_list_has_the_names_in_order(objects: &dyn Objects) {
    // `-`, `.` and `%` come before `/`, digits and letters after it.
    let names = [
        "a",
        "a-b",
        "a.b",
        "a%b",
        "a/b",
        "a/b/c",
        "a/bc",
        "a0",
        "ab/c",
        "B",
        "b",
        "wal/0001",
        "wal/0002",
        "wal/001",
        "wal/1/x",
        "wal-1",
        "wal%2F0001",
        "wal.",
        "wal/.x",
        "x/y/z/1",
    ];
    let all: Vec<Object> = names.iter().map(|name| object(name, "x")).collect();
    objects.create_all(&all).unwrap();
    let names = sorted(&names);
    let prefixes = [
        "", "a", "a/", "a/b", "a/b/", "ab", "b", "B", "w", "wal", "wal/", "wal/0", "wal/00",
        "wal/000", "wal/0001", "wal/.", "wal%", "wal%2", "wal.", "x/y/z", "x/y/z/", "none",
        "no/ne", "/", "//", "a//", "./",
    ];
    let places = [
        "",
        "-",
        "/",
        "a",
        "a/",
        "a/b",
        "a//",
        "ab/c",
        "wal",
        "wal/",
        "wal/0001",
        "wal/0001/",
        "~",
    ];
    assert_eq!(objects.list("", "", 0), Ok(Vec::new()));
    for prefix in prefixes {
        for after in places {
            for max in [1, 3, 100] {
                let found = objects.list(prefix, after, max).unwrap();
                let fits = |name: &&String| name.starts_with(prefix) && name.as_str() > after;
                let expected: Vec<&String> = names.iter().filter(fits).take(max).collect();
                assert!(found.iter().eq(expected), "{prefix:?} {after:?} {max}: {found:?}");
            }
        }
    }
}

fn a_list_is_read_in_parts(objects: &dyn Objects) {
    let names: Vec<String> = (0..130).map(|index| format!("p/{index:04}")).collect();
    let all: Vec<Object> = names.iter().map(|name| object(name, "x")).collect();
    objects.create_all(&all).unwrap();
    for max in [1, 7, 64, 130, 131] {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let part = objects.list("p/", &after, max).unwrap();
            let is_last = part.len() < max;
            found.extend(part);
            if is_last {
                break;
            }
            after.clone_from(found.last().unwrap());
        }
        assert_eq!(found, names, "parts of {max}");
    }
}

fn a_long_list_is_whole(objects: &dyn Objects) {
    // A service returns 1,000 names in one answer.
    let names: Vec<String> = (0..1100).map(|index| format!("long/{index:04}")).collect();
    let all: Vec<Object> = names.iter().map(|name| object(name, "x")).collect();
    objects.create_all(&all).unwrap();
    for (after, max) in [("", 1000), ("", 1001), ("", 5000), (&names[49], 1050), (&names[9], 5000)]
    {
        let found = objects.list("long/", after, max).unwrap();
        let expected = names.iter().filter(|name| name.as_str() > after).take(max);
        assert!(found.iter().eq(expected), "{after:?} {max}: {} names", found.len());
    }
}

fn a_list_shows_at_once_what_was_created(objects: &dyn Objects) {
    for index in 0..20 {
        let name = format!("new/{index:03}");
        objects.create(&object(&name, "x")).unwrap();
        let last = objects.list("new/", "", 100).unwrap().pop();
        assert_eq!(last.as_ref(), Some(&name));
    }
}

fn a_deleted_object_is_gone(objects: &dyn Objects) {
    let names: Vec<String> = (0..30).map(|index| format!("gone/{index:02}/x")).collect();
    let all: Vec<Object> = names.iter().map(|name| object(name, "x")).collect();
    objects.create_all(&all).unwrap();
    let (even, odd): (Vec<String>, Vec<String>) =
        names.iter().cloned().partition(|name| name.as_bytes()[6] % 2 == 0);
    for _ in 0..2 {
        objects.delete(&even).unwrap();
        assert_eq!(objects.list("gone/", "", 100), Ok(odd.clone()));
        assert_eq!(objects.get(&even[0]), Ok(None));
    }
    objects.delete(&[]).unwrap();
    assert_eq!(objects.create(&object(&even[0], "again")), Ok(Created::Now));
    assert_eq!(text(objects, &even[0]).as_deref(), Some("again"));
    objects.delete(&names).unwrap();
    assert_eq!(objects.list("", "", 100), Ok(Vec::new()));
}

fn sizes(objects: &dyn Objects) {
    for bytes in [1, 64 << 10, 512 << 10, 4 << 20, OBJECT_BYTES_MAX] {
        let name = format!("size/{bytes}");
        let own: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let created = objects.create(&Object { name: name.clone(), bytes: own.clone() });
        assert_eq!(created, Ok(Created::Now), "{bytes}");
        assert!(objects.get(&name).unwrap() == Some(own.clone()), "{bytes}");
        let again = objects.create(&Object { name: name.clone(), bytes: vec![0; bytes] });
        assert_eq!(again, Ok(Created::Before), "{bytes}");
        assert!(objects.get(&name).unwrap() == Some(own), "{bytes} are as they were");
    }
}

fn many_at_once(objects: &dyn Objects) {
    let all: Vec<Object> =
        (0..50).map(|index| object(&format!("many/{index}"), &"x".repeat(index + 1))).collect();
    let (first, rest) = all.split_at(7);
    assert_eq!(objects.create_all(&[]), Ok(Vec::new()));
    assert_eq!(objects.create_all(first), Ok(vec![Created::Now; 7]));
    let created: Vec<Created> = objects.create_all(&all).unwrap();
    assert!(created[..7].iter().all(|it| *it == Created::Before));
    assert_eq!(created[7..], vec![Created::Now; rest.len()]);
    let mut names: Vec<String> = all.iter().map(|object| object.name.clone()).collect();
    names.insert(20, "many/none".to_owned());
    let mut found = objects.get_all(&names).unwrap();
    assert_eq!(found.remove(20), None);
    assert!(found.into_iter().map(Option::unwrap).eq(all.into_iter().map(|object| object.bytes)));
    assert_eq!(objects.get_all(&[]), Ok(Vec::new()));
}

fn bad_names_and_sizes_are_refused(objects: &dyn Objects) {
    let long = "n".repeat(OBJECT_NAME_BYTES_MAX + 1);
    let names = ["", "/a", "a/", "a//b", ".", "a/../b", "a b", "a\n", "\u{e4}", "a?b", &long];
    let fine = || object("fine", "x");
    for name in names {
        let names = ["fine".to_owned(), name.to_owned()];
        let refused = [
            objects.create(&object(name, "x")).map(drop),
            objects.create_all(&[fine(), object(name, "x")]).map(drop),
            objects.get(name).map(drop),
            objects.get_all(&names).map(drop),
            objects.delete(&names),
        ];
        for refused in refused {
            let refused = refused.unwrap_err();
            assert_eq!(refused.failure, Failure::Permanent, "{name:?}");
            assert!(refused.what.contains("cannot be the name of an object"), "{refused}");
            assert!(!refused.what.contains('\n') && refused.what.contains(objects.name()));
        }
    }
    for bytes in [0, OBJECT_BYTES_MAX + 1] {
        let object = Object { name: "size".to_owned(), bytes: vec![0; bytes] };
        let refused =
            [objects.create(&object).map(drop), objects.create_all(&[fine(), object]).map(drop)];
        for refused in refused {
            assert_eq!(refused.unwrap_err().failure, Failure::Permanent, "{bytes}");
        }
    }
    assert_eq!(objects.list("", "", 9), Ok(Vec::new()), "nothing of a refused call is carried out");
}

pub fn object(name: &str, bytes: &str) -> Object {
    Object { name: name.to_owned(), bytes: bytes.as_bytes().to_vec() }
}

fn text(objects: &dyn Objects, name: &str) -> Option<String> {
    objects.get(name).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
}

fn sorted(names: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    names.sort();
    names
}

//! All keys of a bucket are shown, also where a page or a record of its own is lost.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use pages::{MemoryObjects, Objects, Pages, PagesConfig};
use std::sync::Arc;
use tier::{Backend, Change, Failure};

/// A name, or a key, and what is shown of it.
type Shown = (String, Result<usize, Failure>);

fn shown(pages: &Pages) -> Vec<Shown> {
    let mut shown = Vec::new();
    let can = pages.show(&mut |key, record| {
        let record = record.map(<[u8]>::len).map_err(|error| error.failure);
        shown.push((String::from_utf8_lossy(key).into_owned(), record));
        true
    });
    assert_eq!(can, Ok(true));
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    shown
}

#[test]
fn what_is_lost_is_named_and_the_rest_is_shown() {
    let objects = Arc::new(MemoryObjects::new());
    let config = PagesConfig { page_bytes: 2_000, apart_from: 1_000, cache_bytes: 1 << 20 };
    let pages = Pages::open(objects.clone(), config).unwrap();
    assert!(shown(&pages).is_empty(), "nothing is led");
    pages.begin().unwrap();
    let keys: Vec<String> = (0..400).map(|number| format!("key/{number:03}")).collect();
    let record = |number: usize| vec![7; if number == 5 { 1_500 } else { 300 }];
    let records: Vec<_> = (0..400).map(record).collect();
    let put = |(key, record): (&String, &Vec<u8>)| {
        pages.apply(&[Change::Put { key: key.as_bytes(), record }]).unwrap();
    };
    keys.iter().zip(&records).for_each(put);
    let whole: Vec<Shown> =
        keys.iter().cloned().zip(records.iter().map(|record| Ok(record.len()))).collect();
    assert_eq!(shown(&pages), whole);
    // What lies in memory does not hide what is lost below.
    pages.tidy();
    let lose = |prefix: &str| {
        let name = objects.list(prefix, "", 1).unwrap().remove(0);
        objects.delete(std::slice::from_ref(&name)).unwrap();
        name
    };
    lose("value/");
    let mut expected = whole;
    expected[5].1 = Err(Failure::Corrupt);
    assert_eq!(shown(&pages), expected);
    let (lost, found) = (lose("page/"), shown(&pages));
    assert!(found.contains(&(lost, Err(Failure::Corrupt))), "{found:?}");
    let left = found.iter().filter(|(name, _)| name.starts_with("key/")).count();
    assert!((390..400).contains(&left), "a page has few keys: {left}");
}

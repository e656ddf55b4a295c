//! A tier that is filled through its cell.

use super::support::{Cell, Client, directory, statistic, volvox};

/// More than fits in memory, written back only where that is asked for.
const ENTRIES: usize = 5_000;
const BYTES: usize = 4_000;
const OLD: [&str; 2] = ["--tier-age-s", "86400"];

fn fill(cell: &Cell, more: &[&str]) -> (String, Option<i32>) {
    let (entries, bytes) = (ENTRIES.to_string(), BYTES.to_string());
    let words = ["tier", "fill", "--entries", &entries, "--value-bytes", &bytes];
    let keys = ["--name", "of:", "--key-bytes", "12", "--at", &cell.address()];
    volvox(&[&words[..], &keys, more].concat())
}

fn read(said: &str) -> serde_json::Value {
    serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// All values.
fn values(client: &mut Client) -> Vec<Vec<u8>> {
    let keys: Vec<_> = (0..ENTRIES).map(|number| format!("of:{number:09}")).collect();
    let found = keys.chunks(100).flat_map(|keys| client.get_all(keys));
    let found: Vec<_> = found.map(|it| it.expect("the key is there").1).collect();
    assert!(found.iter().all(|value| value.len() == BYTES));
    found
}

#[test]
fn every_entry_is_below_once_it_is_filled_and_drained() {
    let directory = directory("fill");
    let cell = Cell::start(&directory, &OLD);
    let (said, code) = fill(&cell, &["--json"]);
    let report = read(&said);
    assert_eq!((&report["stored"], &report["keys"], code), (&5_000.into(), &5_000.into(), Some(0)));
    assert!(report["drain"].is_null(), "{said}");
    let mut client = cell.client();
    assert_eq!(statistic(&mut client, "dirty_keys"), 5_000, "it was not waited for");
    let first = values(&mut client);
    let (said, code) = fill(&cell, &["--json", "--drain", "120"]);
    let report = read(&said);
    assert_eq!((&report["drain"]["dirty_keys"], code), (&0.into(), Some(0)), "{said}");
    assert_eq!(statistic(&mut client, "dirty_keys"), 0);
    assert_eq!(statistic(&mut client, "flushed_keys"), 5_000);
    cell.kill();
    let cell = Cell::start(&directory, &OLD);
    assert!(values(&mut cell.client()) == first, "filled once more, each key has its value");
}

#[test]
fn a_cell_without_a_tier_and_settings_that_mean_nothing_are_refused() {
    let (said, code) = fill(&Cell::start_plain(), &[]);
    assert!(code == Some(1) && said.contains("has no tier"), "{said}");
    let cell = Cell::start(&directory("fill-refused"), &OLD);
    for (words, expected) in [
        (["--entries", "0"], "0 is not in 1.."),
        (["--value-bytes", "many"], "--value-bytes: \"many\""),
        (["--drain", "0"], "expected seconds, 0.001 to 3600"),
        (["--at", "127.0.0.1:1"], "127.0.0.1:1"),
    ] {
        let at = ["tier", "fill", "--entries", "1", "--at", &cell.address()];
        let words: Vec<_> = match at.iter().position(|word| *word == words[0]) {
            Some(place) => [&at[..place], &words, &at[place + 2..]].concat(),
            None => [&at[..], &words].concat(),
        };
        let (said, code) = volvox(&words);
        assert!(code != Some(0) && said.contains(expected), "{words:?}: {said}");
    }
}

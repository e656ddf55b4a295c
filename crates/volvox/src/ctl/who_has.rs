//! `ctl who-has`: the range of each key, who leads and copies it, and which of them have it.
//!
//! Each cell is asked for what it holds itself (`stats ring key KEY`): a request for the key would
//! be answered by its primary, whatever cell gets it. A key that a line cannot hold is sent in
//! base64, as meta commands send it.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;

use base::SliceId;
use memcache::KEY_BYTES_MAX;
use serde_json::{Value, json};

use super::client::Client;
use super::keys::in_hex;
use super::map::Range;
use super::report::find;
use super::style::{Style, Tone};
use super::survey::Survey;
use super::table::{Table, bytes, numbers};
use super::wanted::Wanted;

/// What a cell holds of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    /// An item: its size in memory, and its CAS token.
    Item {
        bytes: u64,
        cas: u64,
    },
    Nothing,
    /// The cell has not said it.
    Unknown(String),
}

/// Prints the table. The code is 1 if no cell that answers holds one of the keys.
pub(super) fn print(
    survey: &Survey,
    (keys, are_hex): (&[String], bool),
    wanted: &Wanted,
    style: Style,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let read = |text: &String| {
        let key = if are_hex { from_hex(text) } else { Ok(text.as_bytes().to_vec()) };
        key.and_then(|key| Ok((word(&key)?, key))).map_err(|wrong| format!("{text:?}: {wrong}"))
    };
    let keys: Vec<_> = keys.iter().map(read).collect::<Result<_, _>>()?;
    if survey.map.version == 0 {
        return Err("this cell has no map yet; see `volvox ctl ring`".into());
    }
    if survey.map.ranges.is_empty() {
        return Err("the ring has not formed: no cell has a key; see `volvox ctl ring`".into());
    }
    let mut clients: BTreeMap<u32, Result<Client, String>> = BTreeMap::new();
    let mut table =
        Table::new(&["key", ">slice", ">range", ">primary", "copies", "has it", ">bytes"]);
    let mut code = 0;
    for (word, key) in &keys {
        let slice = SliceId::of(key).index();
        let Some(range) = survey.map.range_of(slice) else { continue };
        let holders = range.in_sync().chain(range.learner).map(|cell| {
            let client = clients.entry(cell).or_insert_with(|| connect(survey, cell, wanted));
            (cell, ask(client, word))
        });
        let holders: Vec<_> = holders.collect();
        if !holders.iter().any(|(_, held)| matches!(held, Held::Item { .. })) {
            code = 1;
        }
        if wanted.json {
            writeln!(out, "{}", to_json(key, slice, range, &holders))?;
        } else {
            table.row(row(key, slice, range, &holders));
        }
    }
    if !wanted.json {
        write!(out, "{}", table.render(style))?;
    }
    Ok(code)
}

/// The bytes of a key that is written in hexadecimal digits.
fn from_hex(text: &str) -> Result<Vec<u8>, &'static str> {
    let digits: Option<Vec<_>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2));
    let digits = digits.ok_or("--hex takes two hexadecimal digits for each byte")?;
    Ok(digits.chunks(2).map(|byte| (byte[0] << 4 | byte[1]) as u8).collect())
}

/// How a request names `key`: as it is, or in base64, where a line cannot hold it.
fn word(key: &[u8]) -> Result<String, &'static str> {
    let is_plain = |text: &&str| !text.contains(|it: char| it == ' ' || it.is_control());
    let plain = std::str::from_utf8(key).ok().filter(is_plain);
    let (mut token, flag) = plain.map_or((Vec::new(), " b"), |text| (text.into(), ""));
    if plain.is_none() {
        memcache::encode_base64(&mut token, key);
    }
    let fits = (1..=KEY_BYTES_MAX).contains(&token.len());
    fits.then(|| String::from_utf8_lossy(&token).into_owned() + flag)
        .ok_or("a key has 1 to 250 bytes, in base64 where it has spaces or control characters")
}

fn connect(survey: &Survey, cell: u32, wanted: &Wanted) -> Result<Client, String> {
    let asked = survey.cells.get(&cell).ok_or("it is not in the map")?;
    asked.answer.as_ref().map_err(Clone::clone)?;
    Client::connect(&asked.at, wanted.timeout).map_err(|error| error.to_string())
}

fn ask(client: &mut Result<Client, String>, word: &str) -> Held {
    let asked = client.as_mut().map_err(|reason| reason.clone()).and_then(|client| {
        let report =
            client.stats(&format!("ring key {word}")).map_err(|error| error.to_string())?;
        let value = |name| find::<u64>(&report, name).map_err(|error| error.to_string());
        let holds: String = find(&report, "holds").map_err(|error| error.to_string())?;
        if holds == "no" {
            return Ok(Held::Nothing);
        }
        Ok(Held::Item { bytes: value("bytes")?, cas: value("cas")? })
    });
    asked.unwrap_or_else(Held::Unknown)
}

fn row(key: &[u8], slice: usize, range: &Range, holders: &[(u32, Held)]) -> Vec<(String, Tone)> {
    let item = |(cell, held): &(u32, Held)| match held {
        Held::Item { bytes, cas } => Some((*cell, *bytes, *cas)),
        _ => None,
    };
    let items: Vec<_> = holders.iter().filter_map(item).collect();
    let unknown = holders.iter().filter(|(_, held)| matches!(held, Held::Unknown(_)));
    let unknown = numbers(unknown.map(|(cell, _)| *cell));
    let (mut has, mut tone) = match items.len() {
        0 => ("no cell".to_owned(), Tone::Warn),
        _ => (numbers(items.iter().map(|(cell, ..)| *cell)), Tone::Good),
    };
    if unknown != "-" {
        let known = if items.is_empty() { "not known" } else { &has };
        (has, tone) = (format!("{known} (no answer: {unknown})"), Tone::Warn);
    } else if items.iter().any(|(.., cas)| *cas != items[0].2) {
        // A change is on its way, or a copy is wrong.
        has = format!("{has} (not the same version)");
        tone = Tone::Warn;
    }
    let plain = |text: String| (text, Tone::Plain);
    let size = items.first().map_or_else(|| "-".to_owned(), |(_, size, _)| bytes(*size));
    let copies = numbers(range.copies.iter().copied());
    let copies = match range.learner {
        Some(cell) => format!("{copies} ({cell} learns)"),
        None => copies,
    };
    vec![
        plain(key.escape_ascii().to_string()),
        plain(slice.to_string()),
        plain(range.id.to_string()),
        plain(range.primary.to_string()),
        plain(copies),
        (has, tone),
        plain(size),
    ]
}

fn to_json(key: &[u8], slice: usize, range: &Range, holders: &[(u32, Held)]) -> Value {
    let holder = |(cell, held): &(u32, Held)| match held {
        Held::Item { bytes, cas } => {
            json!({ "cell": cell, "holds": true, "bytes": bytes, "cas": cas })
        }
        Held::Nothing => json!({ "cell": cell, "holds": false }),
        Held::Unknown(reason) => json!({ "cell": cell, "holds": null, "reason": reason }),
    };
    json!({
        "key": String::from_utf8_lossy(key),
        "key_hex": in_hex(key),
        "slice": slice,
        "range": range.id,
        "primary": range.primary,
        "copies": range.copies,
        "learner": range.learner,
        "cells": holders.iter().map(holder).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_those_that_have_the_key() {
        let range = Range { id: 7, primary: 2, copies: vec![3, 1], ..Range::default() };
        let item = |cas| Held::Item { bytes: 1536, cas };
        let unknown = Held::Unknown("late".into());
        let cases = [
            ([item(5), item(5), item(5)], "1-3", Tone::Good, "1.5K"),
            ([item(6), item(5), item(6)], "1-3 (not the same version)", Tone::Warn, "1.5K"),
            ([item(5), item(5), unknown], "2,3 (no answer: 1)", Tone::Warn, "1.5K"),
            ([Held::Nothing, Held::Nothing, Held::Nothing], "no cell", Tone::Warn, "-"),
        ];
        for (held, has, tone, size) in cases {
            let holders: Vec<_> = [2, 3, 1].into_iter().zip(held).collect();
            let row = row(b"k", 9, &range, &holders);
            assert_eq!(row[5], (has.to_owned(), tone));
            let texts: Vec<_> = row.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(texts, ["k", "9", "7", "2", "1,3", has, size]);
        }
    }

    #[test]
    fn keys_that_a_line_cannot_hold_are_asked_for_in_base64() {
        let long = |count| "k".repeat(count);
        let spaces = |count| " ".repeat(count);
        for (key, asked) in [
            ("a", "a"),
            ("\u{e4}", "\u{e4}"),
            ("a b", "YSBi b"),
            ("a\tb", "YQli b"),
            (&*long(250), &*long(250)),
        ] {
            assert_eq!(word(key.as_bytes()), Ok(asked.to_owned()), "{key:?}");
        }
        assert_eq!(word(b"\xff"), Ok("/w== b".to_owned()));
        assert_eq!(word(spaces(186).as_bytes()).map(|it| it.len()), Ok(248 + 2));
        for key in [&*long(251), &*spaces(187), ""] {
            assert!(word(key.as_bytes()).is_err_and(|it| it.starts_with("a key has 1 to 250")));
        }
    }

    #[test]
    fn keys_are_read_in_hexadecimal_digits() {
        assert_eq!(from_hex("6bFf"), Ok(vec![0x6b, 0xff]));
        for bad in ["6", "6b+f", "kk", "\u{e4}6"] {
            assert!(from_hex(bad).is_err(), "{bad}");
        }
    }
}

//! `ctl who-has`: the range of each key, who leads and copies it, and which of them have it.
//!
//! Each cell is asked for what it holds itself (`stats ring key KEY`): a request for the key would
//! be answered by its primary, whatever cell gets it.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;

use base::SliceId;
use serde_json::{Value, json};

use super::client::Client;
use super::map::Range;
use super::report::find;
use super::style::{Style, Tone};
use super::survey::Survey;
use super::table::{Table, bytes, numbers};
use super::wanted::Wanted;

/// Bytes of a key, at most.
const KEY_BYTES_MAX: usize = 250;

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
    keys: &[String],
    wanted: &Wanted,
    style: Style,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    if let Some(bad) = keys.iter().find(|key| !is_plain(key)) {
        let what = "a key has 1 to 250 bytes, without spaces and control characters";
        return Err(format!("{bad:?}: {what}").into());
    }
    if survey.map.ranges.is_empty() {
        return Err("the ring has not formed: no cell has a key; see `volvox ctl ring`".into());
    }
    let mut clients: BTreeMap<u32, Result<Client, String>> = BTreeMap::new();
    let mut table =
        Table::new(&["key", ">slice", ">range", ">primary", "copies", "has it", ">bytes"]);
    let mut code = 0;
    for key in keys {
        let slice = SliceId::of(key.as_bytes()).index();
        let Some(range) = survey.map.range_of(slice) else { continue };
        let holders = range.in_sync().chain(range.learner).map(|cell| {
            let client = clients.entry(cell).or_insert_with(|| connect(survey, cell, wanted));
            (cell, ask(client, key))
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

fn is_plain(key: &str) -> bool {
    let is_long = key.is_empty() || key.len() > KEY_BYTES_MAX;
    !is_long && key.bytes().all(|byte| byte > b' ' && byte != 0x7f)
}

fn connect(survey: &Survey, cell: u32, wanted: &Wanted) -> Result<Client, String> {
    let asked = survey.cells.get(&cell).ok_or("it is not in the map")?;
    asked.answer.as_ref().map_err(Clone::clone)?;
    Client::connect(&asked.at, wanted.timeout).map_err(|error| error.to_string())
}

fn ask(client: &mut Result<Client, String>, key: &str) -> Held {
    let asked = client.as_mut().map_err(|reason| reason.clone()).and_then(|client| {
        let report = client.stats(&format!("ring key {key}")).map_err(|error| error.to_string())?;
        let value = |name| find::<u64>(&report, name).map_err(|error| error.to_string());
        let holds: String = find(&report, "holds").map_err(|error| error.to_string())?;
        if holds == "no" {
            return Ok(Held::Nothing);
        }
        Ok(Held::Item { bytes: value("bytes")?, cas: value("cas")? })
    });
    asked.unwrap_or_else(Held::Unknown)
}

fn row(key: &str, slice: usize, range: &Range, holders: &[(u32, Held)]) -> Vec<(String, Tone)> {
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
        plain(key.to_owned()),
        plain(slice.to_string()),
        plain(range.id.to_string()),
        plain(range.primary.to_string()),
        plain(copies),
        (has, tone),
        plain(size),
    ]
}

fn to_json(key: &str, slice: usize, range: &Range, holders: &[(u32, Held)]) -> Value {
    let holder = |(cell, held): &(u32, Held)| match held {
        Held::Item { bytes, cas } => {
            json!({ "cell": cell, "holds": true, "bytes": bytes, "cas": cas })
        }
        Held::Nothing => json!({ "cell": cell, "holds": false }),
        Held::Unknown(reason) => json!({ "cell": cell, "holds": null, "reason": reason }),
    };
    json!({
        "key": key,
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
            let row = row("k", 9, &range, &holders);
            assert_eq!(row[5], (has.to_owned(), tone));
            let texts: Vec<_> = row.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(texts, ["k", "9", "7", "2", "1,3", has, size]);
        }
    }

    #[test]
    fn keys_that_a_line_cannot_hold_are_refused() {
        let (long, longest) = ("k".repeat(251), "k".repeat(250));
        for (key, plain) in [
            ("a", true),
            ("\u{e4}", true),
            (&*longest, true),
            (&*long, false),
            ("", false),
            ("a b", false),
            ("a\n", false),
        ] {
            assert_eq!(is_plain(key), plain, "{key:?}");
        }
    }
}

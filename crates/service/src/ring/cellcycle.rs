//! `cellcycle ...`: the commands of CellCycle, on the port of clients, in any case of letters, with
//! the answers that are known of it. `map` is new: for clients that find the cells by themselves.
//!
//! ```text
//! keys                 CELL HOST:PORT FIRST:LAST    for each range, of the CRC32 of keys; END
//! whohas KEY           Key CRC32 is assigned to: HOST:PORT
//! log                  what has changed in the map; END OF LOG
//! map [VERSION]        MAP VERSION BYTES, a JSON text; with a version, once the map is newer, or
//!                      after two seconds
//! scaleup              SENDED: half of its longest range goes to a spare
//! killyourself stop    HELLO DARKNESS MY OLD FRIEND...; the cell ends, as by `shutdown`. Also
//!                      killyourself terminate
//! ```
//!
//! What changes anything needs a client that has authenticated, and is about this cell alone. All
//! other lines get a list of these, which ends in `BYE`.

use super::cell::{Finding, RingCell};
use base::{RUN_SLICES, SLICE_BITS, SliceId};
use memcache::{KEY_BYTES_MAX, Words, reply};
use ring::{CellId, Division, Map, Order, Range};
use std::fmt::Write;

/// Bits of a CRC32 that name no slice.
const REST_BITS: u32 = u32::BITS - SLICE_BITS;

const GUIDE: &str = "ERROR\r\n\
    cellcycle keys\r\n\
    cellcycle whohas KEY\r\n\
    cellcycle log\r\n\
    cellcycle map [VERSION]\r\n\
    cellcycle scaleup\r\n\
    cellcycle killyourself stop|terminate\r\n\
    BYE\r\n";
const UNTRUSTED: &str = "CLIENT_ERROR this needs a client that has authenticated: start the cell \
                         with --auth-file\r\n";
const NO_MAP: &str = "SERVER_ERROR the ring has not formed\r\n";

/// What comes of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// It is answered.
    Answered,
    /// It is answered once the map is newer than this version.
    Watches(u64),
    /// The cell ends.
    Ends,
}

/// Answers a command with these words, of a client that `is_trusted`.
pub(super) fn answer(
    ring: &RingCell,
    mut words: Words<'_>,
    is_trusted: bool,
    out: &mut Vec<u8>,
) -> Asked {
    let map = ring.map();
    let verb = words.next().unwrap_or_default().to_ascii_lowercase();
    let (first, second) = (words.next(), words.next());
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
    let mut say = |text: &str| out.extend_from_slice(text.as_bytes());
    match (&verb[..], first, second) {
        (b"keys" | b"map", ..) if !map.has_formed() => say(NO_MAP),
        (b"keys", None, _) => keys(&map, out),
        (b"whohas", Some(key), None) if key.len() <= KEY_BYTES_MAX => say(&who_has(&map, key)),
        (b"log", None, _) => log(ring, out),
        (b"map", None, _) => self::map(&map, out),
        (b"map", Some(version), None) if number(version).is_some_and(|it| it >= map.version) => {
            return Asked::Watches(number(version).unwrap_or_default());
        }
        (b"map", Some(version), None) if number(version).is_some() => self::map(&map, out),
        (b"scaleup" | b"killyourself", ..) if !is_trusted => say(UNTRUSTED),
        (b"scaleup", None, _) if !ring.cell.options().allow_flush => {
            out.extend_from_slice(reply::FLUSH_DISABLED);
        }
        (b"scaleup", None, _) => say(&scale_up(ring, &map)),
        (b"killyourself", Some(how), None)
            if [&b"stop"[..], b"terminate"].iter().any(|it| it.eq_ignore_ascii_case(how)) =>
        {
            if ring.cell.options().allow_shutdown {
                say("HELLO DARKNESS MY OLD FRIEND...\r\n");
                return Asked::Ends;
            }
            out.extend_from_slice(reply::SHUTDOWN_DISABLED);
        }
        _ => say(GUIDE),
    }
    Asked::Answered
}

/// Where clients reach a cell.
fn place(map: &Map, cell: CellId) -> String {
    map.cells.get(&cell).map_or_else(String::new, |it| it.started.addresses.clients.to_string())
}

/// The first and the last CRC32 of the keys of a range.
fn crcs(range: &Range) -> (u32, u32) {
    let end = u64::from(range.end) << REST_BITS;
    (u32::from(range.start) << REST_BITS, (end - 1) as u32)
}

fn keys(map: &Map, out: &mut Vec<u8>) {
    for range in &map.ranges {
        let (first, last) = crcs(range);
        let (cell, place) = (range.primary, place(map, range.primary));
        out.extend_from_slice(format!("{cell} {place} {first}:{last}\r\n").as_bytes());
    }
    out.extend_from_slice(reply::END);
}

fn who_has(map: &Map, key: &[u8]) -> String {
    let crc = crc32fast::hash(key);
    match map.range_of(SliceId::of(key)) {
        Some(range) => format!("Key {crc} is assigned to: {}\r\n", place(map, range.primary)),
        None => NO_MAP.to_owned(),
    }
}

fn log(ring: &RingCell, out: &mut Vec<u8>) {
    for (at_s, change) in &ring.history.past().changes {
        let lines = change.lines.join("; ");
        let (version, cause) = (change.version, &change.cause);
        out.extend_from_slice(format!("{at_s} map {version}: {cause}: {lines}\r\n").as_bytes());
    }
    out.extend_from_slice(b"END OF LOG\r\n");
}

/// The map as a client needs it to find the cell of a key: by the top 14 bits of its CRC32.
pub(super) fn map(map: &Map, out: &mut Vec<u8>) {
    let mut text =
        format!("{{\"version\":{},\"slices\":{},\"ranges\":[", map.version, base::SLICES);
    for (nth, range) in map.ranges.iter().enumerate() {
        let at = |cell: &CellId| format!("\"{}\"", place(map, *cell));
        let copies = range.copies.iter().map(at).collect::<Vec<_>>().join(",");
        let (comma, first, last) = (if nth == 0 { "" } else { "," }, range.start, range.end - 1);
        let primary = at(&range.primary);
        let of = format!("\"primary\":{primary},\"copies\":[{copies}]");
        write!(text, "{comma}{{\"first\":{first},\"last\":{last},{of}}}").expect("it takes all");
    }
    text.push_str("]}");
    let head = format!("MAP {} {}\r\n", map.version, text.len());
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Has the longest range that this cell leads divided, for a spare that it hears.
fn scale_up(ring: &RingCell, map: &Map) -> String {
    let me = ring.identity.cell;
    let led = map.ranges.iter().filter(|range| range.primary == me);
    let longest = led.max_by_key(|range| range.end - range.start);
    let past = ring.history.past();
    let heard = past.outlook.as_ref().map(|outlook| &outlook.heard);
    let has_part = |cell: CellId| map.ranges.iter().any(|range| range.has(cell));
    let mut spares = map.cells.iter().filter(|(id, cell)| {
        let is_heard = heard.is_some_and(|heard| heard.contains(id));
        is_heard && !cell.is_witness && cell.leaves.is_none() && !has_part(**id)
    });
    let Some((range, (spare, _))) = longest.zip(spares.next()) else {
        return "SERVER_ERROR this cell leads nothing, or hears no spare: start another cell\r\n"
            .to_owned();
    };
    let middle = usize::from(range.start) + usize::from(range.end - range.start) / 2;
    let run = middle / RUN_SLICES * RUN_SLICES;
    let slice = if run > usize::from(range.start) { run } else { middle };
    let into = Division { slice: slice as u16, cell: *spare };
    ring.find(Finding::Ordered(Order::Divide { at: range.stamp(), into }));
    "SENDED\r\n".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::testing::{first_cell, formed};

    fn answered(ring: &RingCell, words: &str, is_trusted: bool) -> (Asked, String) {
        let mut out = Vec::new();
        let asked = answer(ring, Words::new(words.as_bytes()), is_trusted, &mut out);
        (asked, String::from_utf8(out).expect("text"))
    }

    #[test]
    fn each_command_is_answered_in_any_case_of_letters() {
        let ring = first_cell(|_| ());
        let says = |words: &str| answered(&ring, words, false).1;
        assert_eq!((says("keys"), says("MAP")), (NO_MAP.to_owned(), NO_MAP.to_owned()));
        ring.set_map(formed(2));
        assert_eq!(
            says("KEYS"),
            "1 127.0.0.1:1 0:2147483647\r\n2 127.0.0.1:1 2147483648:4294967295\r\nEND\r\n"
        );
        assert_eq!(says("WhoHas user:42"), "Key 1684999558 is assigned to: 127.0.0.1:1\r\n");
        assert!(says("log").ends_with("END OF LOG\r\n"));
        let version = ring.map().version;
        let text = says("map");
        let (head, json) = text.split_once("\r\n").expect("two lines");
        assert_eq!(head, format!("MAP {version} {}", json.len() - 2));
        assert!(json.contains("{\"first\":0,\"last\":8191,\"primary\":\"127.0.0.1:1\""), "{json}");
        assert_eq!(says(&format!("map {}", version - 1)), text);
        let (asked, nothing) = answered(&ring, &format!("map {version}"), false);
        assert_eq!((asked, &*nothing), (Asked::Watches(version), ""));
        for words in ["", "help", "keys now", "map x", "newcell", "whohas"] {
            assert!(says(words).starts_with("ERROR\r\n") && says(words).ends_with("BYE\r\n"));
        }
    }

    #[test]
    fn what_changes_anything_needs_a_client_that_has_authenticated() {
        let ring = first_cell(|_| ());
        ring.set_map(formed(2));
        for words in ["scaleup", "killyourself STOP"] {
            assert_eq!(answered(&ring, words, false), (Asked::Answered, UNTRUSTED.to_owned()));
        }
        let (_, said) = answered(&ring, "scaleup", true);
        assert!(said.contains("hears no spare"), "{said}");
        let (asked, said) = answered(&ring, "killyourself STOP", true);
        assert_eq!((asked, said.as_bytes()), (Asked::Answered, reply::SHUTDOWN_DISABLED));
    }
}

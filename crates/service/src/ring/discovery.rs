//! `config get cluster`: the cells that a client may connect to, as ElastiCache answers that. Its
//! version is that of the map, so it rises with each change.
//!
//! ```text
//! CONFIG cluster 0 BYTES
//! VERSION                     these two lines end in LF alone, and are the bytes
//! HOST|IP|PORT HOST|IP|PORT
//!
//! END
//! ```
//!
//! Source: the documentation of ElastiCache, "Adding auto discovery to your client library".

use memcache::reply;
use ring::Map;
use std::collections::BTreeSet;
use std::fmt::Write;

/// What it says before the ring has formed, and where this cell has not got the map in time.
const NO_RANGES: &[u8] = b"SERVER_ERROR the ring has not formed\r\n";
const NO_MAP: &[u8] = b"SERVER_ERROR this cell has no map yet: it hears too few of the others\r\n";

/// Appends the answer: the cells that lead something, in the order of their numbers. A cell that
/// leads nothing would have each request carried out by another one.
pub(crate) fn answer(map: &Map, out: &mut Vec<u8>) {
    let leading: BTreeSet<_> = map.ranges.iter().map(|range| range.primary).collect();
    if leading.is_empty() {
        out.extend_from_slice(if map.cells.is_empty() { NO_MAP } else { NO_RANGES });
        return;
    }
    let mut payload = format!("{}\n", map.version);
    let known = leading.iter().filter_map(|cell| map.cells.get(cell));
    for (nth, cell) in known.enumerate() {
        let at = cell.started.addresses.clients;
        let between = if nth == 0 { "" } else { " " };
        let (ip, port) = (at.ip(), at.port());
        write!(payload, "{between}{ip}|{ip}|{port}").expect("a string takes all");
    }
    payload.push('\n');
    out.extend_from_slice(
        format!("CONFIG cluster 0 {}\r\n{payload}\r\n", payload.len()).as_bytes(),
    );
    out.extend_from_slice(reply::END);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::{Addresses, CellId, Command, Incarnation, Started};
    use std::net::SocketAddr;

    fn answered(map: &Map) -> String {
        let mut out = Vec::new();
        answer(map, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_cells_that_lead_something_are_listed_by_the_version_of_the_map() {
        let mut map = Map::new(7, 3, 2);
        assert!(answered(&map).starts_with("SERVER_ERROR this cell has no map yet"));
        for token in 0..4 {
            let at = SocketAddr::from(([10, 0, 0, token as u8 + 1], 11_211));
            let addresses = Addresses { control: at, links: at, clients: at };
            let started = Started::new(Incarnation(1), addresses);
            map.apply(&Command::Join { token, started });
        }
        // The fourth is a spare.
        let list = "10.0.0.1|10.0.0.1|11211 10.0.0.2|10.0.0.2|11211 10.0.0.3|10.0.0.3|11211";
        let payload = format!("{}\n{list}\n", map.version);
        let expected = format!("CONFIG cluster 0 {}\r\n{payload}\r\nEND\r\n", payload.len());
        assert_eq!(answered(&map), expected);
        let before = map.version;
        let moves = Command::Move { at: map.ranges[0].stamp(), cell: CellId(2), from: None };
        map.apply(&moves);
        assert!(map.version > before);
        assert!(answered(&map).contains(&format!("\r\n{}\n{list}\n", map.version)));
    }
}

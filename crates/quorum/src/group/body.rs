//! What cells say to each other: JSON, with the ring that it is about and the agreement of the
//! sender. A body of another ring, one that is too long and one that cannot be decoded get an empty
//! answer.

use super::types::{LogId, SnapshotMeta, Types, Vote};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use ring::{Agreement, CellId, Command, Map, Verdict};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Most bytes of a body: the longest is a whole map of a ring with as many cells as it can have.
pub const BODY_MAX: usize = 8 << 20;

/// What a cell asks of another.
#[derive(Serialize, Deserialize)]
pub enum Request {
    /// From a leader: entries, or none as a heartbeat.
    Append(AppendEntriesRequest<Types>),
    /// From a candidate.
    Vote(VoteRequest<CellId>),
    /// From a leader: the map, to a cell that is too far behind for entries.
    Snapshot { vote: Vote, meta: SnapshotMeta, map: Box<Map> },
    /// Would you vote for me, whose last entry is this? Nothing changes by it.
    Canvass { last: Option<LogId> },
    /// To the leader.
    Propose(Command),
    /// To the leader: up to which entry must a read of now have applied?
    Read,
    /// To the leader: the map of now.
    Map,
    /// The newest map that you have.
    Newest,
    /// To a cell that may hear the leader: pass this on to it.
    Relay(Command),
}

/// What a cell answers.
#[derive(Serialize, Deserialize)]
pub enum Answer {
    Append(AppendEntriesResponse<CellId>),
    Vote(VoteResponse<CellId>),
    Snapshot(SnapshotResponse<CellId>),
    Canvass(bool),
    /// The proposal was compared with the map.
    Verdict(Verdict),
    /// The proposal may be applied yet.
    Unknown,
    /// The index of the entry.
    Read(Option<u64>),
    Map(Box<Map>),
    /// Nothing was done: this cell does not lead, but perhaps that one does.
    NotLeader(Option<CellId>),
    /// Nothing was done: the disk of this cell has failed, so it takes part no more. An earlier
    /// release takes it for no answer.
    CannotWrite,
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    ring: u64,
    /// The agreement of the sender.
    #[serde(default, skip_serializing_if = "Agreement::is_first")]
    agreement: Agreement,
    body: T,
}

/// The bytes of a request or an answer. `None` if they would be too many.
pub fn encode<T: Serialize>(ring: u64, agreement: Agreement, body: T) -> Option<Vec<u8>> {
    let bytes = serde_json::to_vec(&Envelope { ring, agreement, body }).ok()?;
    (bytes.len() <= BODY_MAX).then_some(bytes)
}

/// The request or the answer, if it is one of this ring, and the agreement of its sender.
pub fn decode<T: DeserializeOwned>(ring: u64, bytes: &[u8]) -> Option<(Agreement, T)> {
    if bytes.len() > BODY_MAX {
        return None;
    }
    let envelope: Envelope<T> = serde_json::from_slice(bytes).ok()?;
    (envelope.ring == ring).then_some((envelope.agreement, envelope.body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::{Addresses, CELLS_MAX, COPIES_MAX, Incarnation, Started};

    #[test]
    fn the_largest_map_fits_twice_into_a_body() {
        let mut map = Map::new(u64::MAX, CELLS_MAX as u32, COPIES_MAX);
        let at = "[2001:db8:1111:2222:3333:4444:5555:6666]:65535".parse().unwrap();
        let addresses = Addresses { control: at, links: at, clients: at };
        for token in 0..CELLS_MAX as u64 {
            let started = Started::new(Incarnation(u64::MAX), addresses);
            map.apply(&Command::Join { token: u64::MAX - token, started });
        }
        assert_eq!((map.cells.len(), map.ranges.len()), (CELLS_MAX, CELLS_MAX));
        let bytes = encode(7, Agreement::default(), Answer::Map(Box::new(map.clone()))).unwrap();
        assert!(bytes.len() * 2 < BODY_MAX, "{} bytes", bytes.len());
        let Some((_, Answer::Map(decoded))) = decode(7, &bytes) else { panic!("it was encoded") };
        assert_eq!(*decoded, map);
    }

    #[test]
    fn maps_of_releases_without_witnesses_are_read() {
        let at = "127.0.0.1:7".parse().unwrap();
        let addresses = Addresses { control: at, links: at, clients: at };
        let started = Started::new(Incarnation(1), addresses);
        let mut map = Map::new(7, 1, 1);
        map.apply(&Command::Join { token: 1, started });
        let old = serde_json::to_string(&map).unwrap();
        assert!(!old.contains("witness"), "releases before read it: {old}");
        assert_eq!(serde_json::from_str::<Map>(&old).unwrap(), map);
        map.apply(&Command::JoinWitness { token: 2, started });
        let new = serde_json::to_string(&map).unwrap();
        let read: Map = serde_json::from_str(&new).unwrap();
        assert!(read.cells[&CellId(2)].is_witness && !read.cells[&CellId(1)].is_witness);
    }

    #[test]
    fn what_is_of_another_ring_or_no_body_is_refused() {
        let bytes = encode(7, Agreement::default(), Request::Read).unwrap();
        assert_eq!(bytes, br#"{"ring":7,"body":"Read"}"#, "as before there were agreements");
        let later = Agreement::default().after(CellId(2), 5).unwrap();
        for agreement in [Agreement::default(), later] {
            let bytes = encode(7, agreement, Request::Read).unwrap();
            let decoded = decode(7, &bytes);
            assert!(matches!(decoded, Some((of, Request::Read)) if of == agreement));
        }
        assert!(decode::<Request>(8, &bytes).is_none());
        assert!(decode::<Answer>(7, b"{\"ring\":7}").is_none());
        let nested = [&b"[".repeat(100_000)[..], b"1"].concat();
        let long = vec![b' '; BODY_MAX + 1];
        for bytes in [&bytes[1..], b"", &nested, &long] {
            assert!(decode::<Request>(7, bytes).is_none());
        }
    }
}

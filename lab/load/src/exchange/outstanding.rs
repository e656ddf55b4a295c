//! Requests composed, and noted as outstanding in the same order.
//!
//! ```text
//! pending   Get(2 keys) | Set | Get(1 key) ...      oldest first; replies come in this order
//! asked     k7 k9       |     | k3                  keys of the gets, in the same order
//! ```
//!
//! A miss may require a refill, and the read of a read-modify-write requires its write: both wait
//! as follow-ups until the connection has room. Bounds: pending by the pipeline depth; asked and
//! follow-ups by depth times keys per get. Times are nanoseconds.

use std::collections::VecDeque;

use super::rules::Rules;
use crate::protocol::{Manner, compose_delete, compose_end, compose_get, compose_set};
use crate::tally::Kind;
use crate::workload::{Op, Request, Stream};

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub from_ns: u64,
    pub kind: Kind,
    /// Keys of a batch; 0 for a set or delete of one.
    pub keys: u32,
    /// Keys of a get that no reply has settled.
    pub left: u32,
    pub failed: bool,
}

/// A set that an earlier reply requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FollowUp {
    pub key: u64,
    pub kind: Kind,
    /// When the latency of a read-modify-write began; that of a refill begins when it is sent.
    pub from_ns: u64,
}

/// What was requested on one connection and is not answered.
#[derive(Debug, Default)]
pub(crate) struct Outstanding {
    pub(super) pending: VecDeque<Pending>,
    pub(super) asked: VecDeque<u64>,
    /// Keys of the reads of read-modify-writes, in the order of the reads.
    pub(super) modifying: VecDeque<u64>,
    pub(super) follow_ups: VecDeque<FollowUp>,
}

impl Outstanding {
    /// Appends the next request of `stream` to `out`; its latency counts from `from_ns`.
    #[inline]
    pub fn ask(&mut self, rules: &Rules, stream: &mut Stream, from_ns: u64, out: &mut Vec<u8>) {
        let workload = &*rules.workload;
        match stream.op() {
            op @ (Op::Set | Op::Delete) if rules.multiset > 1 => {
                self.write_batch(rules, stream, op, from_ns, out);
            }
            Op::Set => {
                let set = set_of(rules, stream.stored_key());
                self.store(rules, set, Kind::Set, from_ns, out);
            }
            Op::Get => {
                let first = self.asked.len();
                let count = rules.multiget.draw(stream, workload.keys_count(), &mut self.asked);
                let keys = self.asked.range(first..).copied();
                compose_get(rules.protocol, workload, keys, out);
                self.owe(Kind::Get, count, count, from_ns);
            }
            Op::Modify => {
                let key = stream.key();
                self.modifying.push_back(key);
                self.read(rules, key, Kind::Read, from_ns, out);
            }
            Op::Delete => {
                compose_delete(rules.protocol, workload, stream.key(), Manner::Alone, out);
                self.owe(Kind::Delete, 0, 0, from_ns);
            }
        }
    }

    /// Appends a get of one key, or a set, that the caller chose.
    pub fn put(&mut self, rules: &Rules, request: Request, out: &mut Vec<u8>) {
        match request.op {
            Op::Get => self.read(rules, request.key, Kind::Get, 0, out),
            _ => self.store(rules, request, Kind::Set, 0, out),
        }
    }

    /// Appends a batch of quiet sets or deletes: one request, answered by its end.
    #[inline(never)]
    fn write_batch(
        &mut self,
        rules: &Rules,
        stream: &mut Stream,
        op: Op,
        from_ns: u64,
        out: &mut Vec<u8>,
    ) {
        let (protocol, workload, quiet) = (rules.protocol, &*rules.workload, Manner::Quiet);
        for _ in 0..rules.multiset {
            if op == Op::Delete {
                compose_delete(protocol, workload, stream.key(), quiet, out);
            } else {
                compose_set(protocol, workload, set_of(rules, stream.stored_key()), quiet, out);
            }
        }
        compose_end(protocol, out);
        let kind = if op == Op::Delete { Kind::Delete } else { Kind::Set };
        self.owe(kind, rules.multiset, 0, from_ns);
    }

    /// Appends the follow-up that has waited longest.
    pub fn follow_up(&mut self, rules: &Rules, now_ns: u64, out: &mut Vec<u8>) {
        let Some(FollowUp { key, kind, from_ns }) = self.follow_ups.pop_front() else { return };
        let from_ns = if kind == Kind::Refill { now_ns } else { from_ns };
        self.store(rules, set_of(rules, key), kind, from_ns, out);
    }

    /// Whether a follow-up waits.
    #[inline]
    pub fn wants_follow_up(&self) -> bool {
        !self.follow_ups.is_empty()
    }

    #[inline]
    fn owe(&mut self, kind: Kind, keys: u32, left: u32, from_ns: u64) {
        self.pending.push_back(Pending { from_ns, kind, keys, left, failed: false });
    }

    #[inline]
    fn read(&mut self, rules: &Rules, key: u64, kind: Kind, from_ns: u64, out: &mut Vec<u8>) {
        self.asked.push_back(key);
        compose_get(rules.protocol, &rules.workload, std::iter::once(key), out);
        self.owe(kind, 1, 1, from_ns);
    }

    #[inline]
    fn store(&mut self, rules: &Rules, set: Request, kind: Kind, from_ns: u64, out: &mut Vec<u8>) {
        compose_set(rules.protocol, &rules.workload, set, Manner::Alone, out);
        self.owe(kind, 0, 0, from_ns);
    }
}

/// The set that stores `key`.
#[inline]
fn set_of(rules: &Rules, key: u64) -> Request {
    let workload = &rules.workload;
    let value_bytes = workload.value_bytes(key);
    Request { op: Op::Set, key, value_bytes, ttl_s: workload.ttl_s(key) }
}

//! The asking half of an exchange: requests composed, and noted as owed in the same order.

use super::{Exchange, FollowUp, Pending, Rules};
use crate::protocol::{Manner, compose_delete, compose_end, compose_get, compose_set};
use crate::tally::Kind;
use crate::workload::{Op, Request, Stream, Workload};

impl Exchange {
    /// Appends the next request of `stream`, which counts from `from_ns`.
    #[inline]
    pub fn ask(
        &mut self,
        rules: &Rules,
        workload: &Workload,
        stream: &mut Stream,
        from_ns: u64,
        out: &mut Vec<u8>,
    ) {
        match stream.op() {
            op @ (Op::Set | Op::Delete) if rules.multiset > 1 => {
                self.write_batch(rules, workload, stream, op, from_ns, out);
            }
            Op::Set => self.store(rules, workload, stream.stored_key(), Kind::Set, from_ns, out),
            Op::Get => {
                let first = self.asked.len();
                let count = rules.multiget.draw(stream, workload.keys_count(), &mut self.asked);
                let keys = self.asked.range(first..).map(|key| u64::from(*key));
                compose_get(rules.protocol, workload, keys, out);
                self.owe(Kind::Get, count, count, from_ns);
            }
            Op::Modify => {
                let key = stream.key();
                self.asked.push_back(key as u32);
                self.modifying.push_back(key as u32);
                compose_get(rules.protocol, workload, std::iter::once(key), out);
                self.owe(Kind::Read, 1, 1, from_ns);
            }
            Op::Delete => {
                let key = stream.key();
                compose_delete(rules.protocol, workload, key, Manner::Alone, out);
                self.owe(Kind::Delete, 0, 0, from_ns);
            }
        }
    }

    /// Appends a batch of quiet sets or deletes: one request, answered by its end.
    #[inline(never)]
    fn write_batch(
        &mut self,
        rules: &Rules,
        workload: &Workload,
        stream: &mut Stream,
        op: Op,
        from_ns: u64,
        out: &mut Vec<u8>,
    ) {
        let (protocol, quiet) = (rules.protocol, Manner::Quiet);
        for _ in 0..rules.multiset {
            if op == Op::Delete {
                compose_delete(protocol, workload, stream.key(), quiet, out);
            } else {
                compose_set(protocol, workload, set_of(workload, stream.stored_key()), quiet, out);
            }
        }
        compose_end(protocol, out);
        let kind = if op == Op::Delete { Kind::Delete } else { Kind::Set };
        self.owe(kind, rules.multiset, 0, from_ns);
    }

    /// Appends the set that waits longest for an earlier reply.
    pub fn follow_up(
        &mut self,
        rules: &Rules,
        workload: &Workload,
        now_ns: u64,
        out: &mut Vec<u8>,
    ) {
        let Some(FollowUp { key, kind, from_ns }) = self.follow_ups.pop_front() else { return };
        let from_ns = if kind == Kind::Refill { now_ns } else { from_ns };
        self.store(rules, workload, u64::from(key), kind, from_ns, out);
    }

    #[inline]
    fn owe(&mut self, kind: Kind, keys: u32, left: u32, from_ns: u64) {
        self.pending.push_back(Pending { from_ns, kind, keys, left, failed: false });
    }

    #[inline]
    fn store(
        &mut self,
        rules: &Rules,
        workload: &Workload,
        key: u64,
        kind: Kind,
        from_ns: u64,
        out: &mut Vec<u8>,
    ) {
        compose_set(rules.protocol, workload, set_of(workload, key), Manner::Alone, out);
        self.owe(kind, 0, 0, from_ns);
    }
}

/// The set that stores `key`.
#[inline]
fn set_of(workload: &Workload, key: u64) -> Request {
    let value_bytes = workload.value_bytes(key);
    Request { op: Op::Set, key, value_bytes, ttl_s: workload.ttl_s(key) }
}

//! What holds for every connection of a run.

use std::sync::Arc;

use crate::protocol::Protocol;
use crate::workload::{Multiget, Workload};

/// The rules of an exchange; times are nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub protocol: Protocol,
    pub workload: Arc<Workload>,
    /// Compare every byte of every value, and its length where the key has one.
    pub verify: bool,
    /// The longest value that is right. A trace states the length of a value with each request, so
    /// a hit may have any length up to this one; none where the length follows from the key.
    pub value_bytes_max: Option<u32>,
    /// Follow each miss with a set of its key.
    pub refill: bool,
    /// Keys of one get.
    pub multiget: Multiget,
    /// Keys of one set or delete; more than one go quietly, as a batch.
    pub multiset: u32,
    /// Requests that start earlier are not measured.
    pub measure_from_ns: u64,
    /// Replies that arrive later are not part of the rate.
    pub measure_until_ns: u64,
}

impl Rules {
    /// Rules for `workload` that measure everything: one key per request, no refill.
    pub fn plain(protocol: Protocol, workload: &Arc<Workload>, verify: bool) -> Self {
        Self {
            protocol,
            workload: Arc::clone(workload),
            verify,
            value_bytes_max: None,
            refill: false,
            multiget: Multiget::ONE,
            multiset: 1,
            measure_from_ns: 0,
            measure_until_ns: u64::MAX,
        }
    }

    #[inline]
    pub fn in_window(&self, now_ns: u64) -> bool {
        (self.measure_from_ns..self.measure_until_ns).contains(&now_ns)
    }

    /// Whether a value of `key` cannot have `value_bytes`.
    #[inline]
    pub fn is_wrong_length(&self, key: u64, value_bytes: u32) -> bool {
        match self.value_bytes_max {
            None => self.verify && self.workload.value_bytes(key) != value_bytes,
            Some(max) => value_bytes > max,
        }
    }
}

//! The unfinished end of a connection's input.
//!
//! Invariants: while empty, it owns no memory and no grant. Up to [`TAIL_FREE_BYTES`] it takes
//! nothing from the budget; beyond that, a grant covers its capacity. It grows by doubling, never
//! beyond what its request is known to need, so a client reserves no more than about twice what it
//! has sent.

use base::{Grant, Owner};

use crate::bounds::{DIRECT_BYTES_MIN, Resources, TAIL_FREE_BYTES, VALUE_RESERVE_BYTES};

/// Input that was received but not consumed.
#[derive(Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    grant: Option<Grant>,
}

impl Tail {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// How many bytes of `input` belong to its first request, which needs `needed` bytes in all:
    /// exactly the rest of a value, or the rest of a line.
    pub(super) fn lacks(&self, input: &[u8], needed: usize) -> usize {
        let missing = needed.saturating_sub(self.bytes.len());
        if missing > 1 {
            return missing.min(input.len());
        }
        memchr::memchr(b'\n', input).map_or(input.len(), |end| end + 1)
    }

    /// Appends `input`, and reserves memory for a request of `needed` bytes. An error
    /// changes nothing, and holds the bytes that the budget has refused.
    pub(super) fn append(
        &mut self,
        input: &[u8],
        needed: usize,
        resources: &Resources,
    ) -> Result<(), u64> {
        let len = self.bytes.len() + input.len();
        if len > self.bytes.capacity() {
            let capacity = (len * 2).max(VALUE_RESERVE_BYTES).min(needed.max(len));
            self.grow(capacity, resources)?;
        }
        self.bytes.extend_from_slice(input);
        Ok(())
    }

    /// The buffer itself, with capacity for more, when much of a value is missing: the driver then
    /// receives into it instead of into its own buffer. With `None`, [`Tail::append`] follows.
    pub(super) fn value_buffer(
        &mut self,
        needed: usize,
        resources: &Resources,
    ) -> Option<&mut Vec<u8>> {
        let len = self.bytes.len();
        if len == 0 || needed < len + DIRECT_BYTES_MIN {
            return None;
        }
        if self.bytes.capacity() < len + DIRECT_BYTES_MIN {
            let capacity = (len * 2).max(VALUE_RESERVE_BYTES).min(needed);
            self.grow(capacity, resources).ok()?;
        }
        Some(&mut self.bytes)
    }

    fn grow(&mut self, capacity: usize, resources: &Resources) -> Result<(), u64> {
        let granted = self.grant.as_ref().map_or(0, Grant::bytes);
        let bytes = (capacity as u64).saturating_sub(granted);
        if capacity > TAIL_FREE_BYTES && bytes > 0 {
            let has_room = match &mut self.grant {
                Some(grant) => grant.extend(bytes),
                none => {
                    *none = resources.budget.take(Owner::Connections, bytes);
                    none.is_some()
                }
            };
            if !has_room {
                return Err(bytes);
            }
        }
        self.bytes.reserve_exact(capacity - self.bytes.len());
        Ok(())
    }

    /// Lends the bytes for parsing; [`Tail::put_back`] follows.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Takes the last `left` of `bytes` back. What is empty is freed.
    pub(super) fn put_back(&mut self, mut bytes: Vec<u8>, left: usize) {
        if left == 0 {
            self.clear();
        } else {
            bytes.drain(..bytes.len() - left);
            self.bytes = bytes;
        }
    }

    /// Takes back `bytes` without those from `from` to `to`. What it does not need is freed.
    pub(super) fn put_back_without(&mut self, mut bytes: Vec<u8>, from: usize, to: usize) {
        bytes.drain(from..to);
        if bytes.len() <= TAIL_FREE_BYTES && self.grant.is_some() {
            bytes.shrink_to_fit();
            self.grant = None;
        }
        self.bytes = bytes;
    }

    pub(super) fn clear(&mut self) {
        self.bytes = Vec::new();
        self.grant = None;
    }

    /// Memory it owns.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

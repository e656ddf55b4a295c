//! What was counted: one [`Tally`] per thread, merged when the run is over.
//!
//! Two sets of requests are kept apart. **Measured** are those that were due (open loop) or sent
//! (closed loop) after the warm-up; they make up the latencies and every count by kind.
//! **Answered** are the replies that arrived inside the measured window, whenever they were asked
//! for; divided by the window they are the rate, and they divide the server's CPU time.

use hdrhistogram::Histogram;

use crate::timeline::Timeline;

/// Longest latency told apart, in nanoseconds; longer ones count as this.
const LATENCY_MAX_NS: u64 = 600_000_000_000;

/// Digits that are exact in a recorded latency.
const LATENCY_DIGITS: u8 = 3;

/// How many different complaints are kept word for word.
const SAMPLES_MAX: usize = 8;

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A get of the stream.
    Get,
    /// A set of the stream.
    Set,
    /// A set that follows a miss.
    Refill,
    /// A delete.
    Delete,
    /// The read of a read-modify-write.
    Read,
    /// Its write; counted from the moment the read began.
    Modify,
}

impl Kind {
    /// Whether it asks for values.
    #[inline]
    #[must_use]
    pub fn is_get(self) -> bool {
        matches!(self, Self::Get | Self::Read)
    }
}

/// Counts and latencies.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Gets answered, of whatever number of keys.
    pub gets: u64,
    /// Sets answered.
    pub sets: u64,
    /// Refills answered.
    pub refills: u64,
    /// Deletes answered, whether or not the key was there.
    pub deletes: u64,
    /// Read-modify-writes carried out; their reads count among the gets.
    pub modifies: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys not found.
    pub misses: u64,
    /// Sets that the server declined to store.
    pub not_stored: u64,
    /// Deletes of keys that were not there.
    pub not_found: u64,
    /// Replies that were error lines.
    pub errors: u64,
    /// Values that were not those of their key.
    pub wrong_values: u64,
    /// Requests whose connection ended before they were answered.
    pub lost: u64,
    /// Requests still without an answer when the run gave up on them.
    pub unanswered: u64,
    /// Requests of the open loop that were due and never sent.
    pub unsent: u64,
    /// Connections that ended before the run did.
    pub connections_lost: u64,
    /// Replies that arrived in the measured window.
    pub answered: u64,
    /// Keys asked for in those.
    pub keys_answered: u64,
    /// Bytes sent in the measured window.
    pub sent_bytes: u64,
    /// Bytes received in the measured window.
    pub received_bytes: u64,
    /// Replies in the measured window by time.
    pub timeline: Timeline,
    /// Latency of gets.
    pub get_ns: Histogram<u64>,
    /// Latency of sets and refills.
    pub set_ns: Histogram<u64>,
    /// Latency of deletes.
    pub delete_ns: Histogram<u64>,
    /// Latency of read-modify-writes, from the read's beginning to the write's end.
    pub modify_ns: Histogram<u64>,
    /// Open loop: how long a due request waited for the generator itself, with a connection free.
    pub own_delay_ns: Histogram<u64>,
    /// The first few different complaints, word for word.
    pub samples: Vec<String>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_DIGITS)
        .expect("the bounds of latencies are constants that the histogram accepts")
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            gets: 0,
            sets: 0,
            refills: 0,
            deletes: 0,
            modifies: 0,
            hits: 0,
            misses: 0,
            not_stored: 0,
            not_found: 0,
            errors: 0,
            wrong_values: 0,
            lost: 0,
            unanswered: 0,
            unsent: 0,
            connections_lost: 0,
            answered: 0,
            keys_answered: 0,
            sent_bytes: 0,
            received_bytes: 0,
            timeline: Timeline::default(),
            get_ns: histogram(),
            set_ns: histogram(),
            delete_ns: histogram(),
            modify_ns: histogram(),
            own_delay_ns: histogram(),
            samples: Vec::new(),
        }
    }
}

impl Tally {
    /// Counts a request that was answered as it should be.
    #[inline]
    pub fn complete(&mut self, kind: Kind, latency_ns: u64) {
        let (count, latencies) = match kind {
            Kind::Get | Kind::Read => (&mut self.gets, &mut self.get_ns),
            Kind::Set => (&mut self.sets, &mut self.set_ns),
            Kind::Refill => (&mut self.refills, &mut self.set_ns),
            Kind::Delete => (&mut self.deletes, &mut self.delete_ns),
            Kind::Modify => (&mut self.modifies, &mut self.modify_ns),
        };
        *count += 1;
        latencies.saturating_record(latency_ns);
    }

    /// Keeps `complaint` word for word unless it is known or there are enough.
    pub fn sample(&mut self, complaint: impl Into<String>) {
        let complaint = complaint.into();
        if self.samples.len() < SAMPLES_MAX && !self.samples.contains(&complaint) {
            self.samples.push(complaint);
        }
    }

    /// Requests measured and answered.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.gets + self.sets + self.refills + self.deletes + self.modifies
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        // Every field by name: one that is forgotten here does not compile.
        let Self {
            gets,
            sets,
            refills,
            deletes,
            modifies,
            hits,
            misses,
            not_stored,
            not_found,
            errors,
            wrong_values,
            lost,
            unanswered,
            unsent,
            connections_lost,
            answered,
            keys_answered,
            sent_bytes,
            received_bytes,
            timeline,
            get_ns,
            set_ns,
            delete_ns,
            modify_ns,
            own_delay_ns,
            samples,
        } = other;
        for (mine, theirs) in [
            (&mut self.gets, gets),
            (&mut self.sets, sets),
            (&mut self.refills, refills),
            (&mut self.deletes, deletes),
            (&mut self.modifies, modifies),
            (&mut self.hits, hits),
            (&mut self.misses, misses),
            (&mut self.not_stored, not_stored),
            (&mut self.not_found, not_found),
            (&mut self.errors, errors),
            (&mut self.wrong_values, wrong_values),
            (&mut self.lost, lost),
            (&mut self.unanswered, unanswered),
            (&mut self.unsent, unsent),
            (&mut self.connections_lost, connections_lost),
            (&mut self.answered, answered),
            (&mut self.keys_answered, keys_answered),
            (&mut self.sent_bytes, sent_bytes),
            (&mut self.received_bytes, received_bytes),
        ] {
            *mine += theirs;
        }
        for (mine, theirs) in [
            (&mut self.get_ns, get_ns),
            (&mut self.set_ns, set_ns),
            (&mut self.delete_ns, delete_ns),
            (&mut self.modify_ns, modify_ns),
            (&mut self.own_delay_ns, own_delay_ns),
        ] {
            mine.add(theirs).expect("all histograms have the same bounds");
        }
        self.timeline.merge(timeline);
        samples.iter().for_each(|complaint| self.sample(complaint.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_adds_counts_latencies_and_samples() {
        let (mut one, mut two) = (Tally::default(), Tally::default());
        one.complete(Kind::Get, 1_000);
        two.complete(Kind::Set, 2_000);
        two.complete(Kind::Refill, u64::MAX);
        two.errors = 3;
        for _ in 0..2 {
            two.sample("ERROR");
        }
        one.merge(&two);
        assert_eq!((one.gets, one.sets, one.refills, one.errors), (1, 1, 1, 3));
        assert_eq!((one.get_ns.len(), one.set_ns.len(), one.completed()), (1, 2, 3));
        assert_eq!(one.samples, ["ERROR"]);
        for number in 0..100 {
            one.sample(number.to_string());
        }
        assert_eq!(one.samples.len(), SAMPLES_MAX);
    }
}

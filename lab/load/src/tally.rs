//! What was counted: one [`Tally`] per thread, merged at the end of the run.
//!
//! Two sets of requests are distinguished. **Measured** are those that were due (open loop) or sent
//! (closed loop) after the warm-up; they make up the latencies and every count by kind.
//! **Answered** are the replies that arrived inside the measured window, whenever they were
//! requested; divided by the window they are the rate, and they divide the server's CPU time.
//!
//! Pure. Invariant: a measured request ends in exactly one of completed, `errors`, `lost`,
//! `unanswered` and `unsent`. Latencies are nanoseconds. Bound: eight complaints.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::by_time::ByTime;
use crate::timeline::Timeline;

/// The longest latency that is distinguished, in nanoseconds; longer ones count as this one.
const LATENCY_MAX_NS: u64 = 600_000_000_000;

/// Digits that are exact in a recorded latency.
const LATENCY_DIGITS: u8 = 3;

/// The most complaints that are kept word for word.
const SAMPLES_MAX: usize = 8;

/// A structure of counts that can be added.
macro_rules! counts {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name { $($(#[$doc])* pub $field: u64,)+ }

        impl std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)+
            }
        }
    };
}

counts! {
    /// Requests that were due or sent in the window, by their result.
    Requests {
        /// Answered as they should be: gets, sets and refills.
        completed,
        /// Gets, of any number of keys.
        gets,
        /// Sets of the stream.
        sets,
        /// Sets that followed a miss.
        refills,
        /// Deletes, whether or not the key was there.
        deletes,
        /// Read-modify-writes; their reads are among the gets.
        modifies,
        /// Sets of all kinds that the server declined.
        not_stored,
        /// Deletes of keys that were not there.
        not_found,
        /// Answered with an error line.
        errors,
        /// Their connection ended before the reply.
        lost,
        /// Not answered when the run gave up on them.
        unanswered,
        /// Due and never sent (open loop).
        unsent,
        /// Connections that ended before the run.
        connections_lost,
    }
}

counts! {
    /// Keys, replies and bytes.
    Totals {
        /// Keys found.
        hits,
        /// Keys not found.
        misses,
        /// Values that were not those of their key.
        wrong_values,
        /// Replies that arrived in the measured window.
        answered,
        /// Keys requested by those.
        keys_answered,
        /// Bytes sent in the measured window.
        sent_bytes,
        /// Bytes received in the measured window.
        received_bytes,
    }
}

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
    /// Whether its reply brings values.
    #[inline]
    #[must_use]
    pub fn is_get(self) -> bool {
        matches!(self, Self::Get | Self::Read)
    }
}

/// Counts and latencies.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests by their result; `completed` is counted at the end.
    pub requests: Requests,
    /// Keys, replies and bytes.
    pub totals: Totals,
    /// Replies in the measured window by time.
    pub timeline: Timeline,
    /// Latencies by time, where the run keeps them.
    pub by_time: Option<ByTime>,
    /// Latency of gets.
    pub get_ns: Histogram<u64>,
    /// Latency of sets and refills.
    pub set_ns: Histogram<u64>,
    /// Latency of deletes.
    pub delete_ns: Histogram<u64>,
    /// Latency of read-modify-writes, from the beginning of the read to the end of the write.
    pub modify_ns: Histogram<u64>,
    /// Open loop: how long due requests waited for the generator while a connection was free.
    pub own_delay_ns: Histogram<u64>,
    /// The part of each such delay that the CPU time of the generator's thread explains.
    pub work_delay_ns: Histogram<u64>,
    /// The first few different complaints, word for word.
    pub samples: Vec<String>,
}

impl Default for Tally {
    fn default() -> Self {
        let histogram = || {
            Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_DIGITS)
                .expect("invariant: the histogram accepts these bounds")
        };
        Self {
            requests: Requests::default(),
            totals: Totals::default(),
            timeline: Timeline::default(),
            by_time: None,
            get_ns: histogram(),
            set_ns: histogram(),
            delete_ns: histogram(),
            modify_ns: histogram(),
            own_delay_ns: histogram(),
            work_delay_ns: histogram(),
            samples: Vec::new(),
        }
    }
}

impl Tally {
    /// Counts a request that was answered as it should be.
    #[inline]
    pub fn complete(&mut self, kind: Kind, latency_ns: u64) {
        let requests = &mut self.requests;
        let (count, latencies) = match kind {
            Kind::Get | Kind::Read => (&mut requests.gets, &mut self.get_ns),
            Kind::Set => (&mut requests.sets, &mut self.set_ns),
            Kind::Refill => (&mut requests.refills, &mut self.set_ns),
            Kind::Delete => (&mut requests.deletes, &mut self.delete_ns),
            Kind::Modify => (&mut requests.modifies, &mut self.modify_ns),
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
        let Requests { gets, sets, refills, deletes, modifies, .. } = self.requests;
        gets + sets + refills + deletes + modifies
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.totals += other.totals;
        self.timeline.merge(&other.timeline);
        if let Some(theirs) = &other.by_time {
            self.by_time.get_or_insert_default().merge(theirs);
        }
        for (mine, theirs) in [
            (&mut self.get_ns, &other.get_ns),
            (&mut self.set_ns, &other.set_ns),
            (&mut self.delete_ns, &other.delete_ns),
            (&mut self.modify_ns, &other.modify_ns),
            (&mut self.own_delay_ns, &other.own_delay_ns),
            (&mut self.work_delay_ns, &other.work_delay_ns),
        ] {
            mine.add(theirs).expect("invariant: all histograms have the same bounds");
        }
        other.samples.iter().for_each(|complaint| self.sample(complaint.clone()));
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
        two.requests.errors = 3;
        for _ in 0..2 {
            two.sample("ERROR");
        }
        one.merge(&two);
        let Requests { gets, sets, refills, errors, .. } = one.requests;
        assert_eq!((gets, sets, refills, errors), (1, 1, 1, 3));
        assert_eq!((one.get_ns.len(), one.set_ns.len(), one.completed()), (1, 2, 3));
        assert_eq!(one.samples, ["ERROR"]);
        for number in 0..100 {
            one.sample(number.to_string());
        }
        assert_eq!(one.samples.len(), SAMPLES_MAX);
    }
}

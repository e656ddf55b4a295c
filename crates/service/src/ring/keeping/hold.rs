//! A leadership that commits nothing yet: an earlier primary may still hold a lease.
//!
//! A reader that passes nothing holds back what is written. So a gate that there is anyway keeps
//! the replies, and nothing else needs to know.

use crate::ring::terms::Term;
use effects::{JoinError, Joining, Lanes, ReaderId, Who};

/// A leadership that commits nothing yet.
pub(crate) struct Hold {
    pub(crate) term: Term,
    pub(crate) until_ns: u64,
    /// By lane.
    pub(crate) readers: Vec<ReaderId>,
}

impl Hold {
    /// Holds back what is written under `term` until that time.
    ///
    /// # Errors
    /// If a log has no place for a reader.
    pub(crate) fn begin(term: Term, until_ns: u64, lanes: &Lanes) -> Result<Self, JoinError> {
        let joining = Joining { who: Who::Watch, from: None, holds: None, grants: None };
        let mut hold = Self { term, until_ns, readers: Vec::new() };
        for (_, log) in lanes.logs() {
            match log.join(&joining) {
                Ok(reader) => hold.readers.push(reader),
                Err(error) => {
                    hold.end(lanes);
                    return Err(error);
                }
            }
        }
        Ok(hold)
    }

    /// Holds back nothing any more. No level may count on its readers.
    pub(crate) fn end(self, lanes: &Lanes) {
        for ((_, log), reader) in lanes.logs().zip(self.readers) {
            log.leave(reader);
        }
    }
}

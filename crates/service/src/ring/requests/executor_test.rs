//! What replies wait for.

use super::*;
use crate::ring::testing::{first_cell, first_cell_with};
use crate::testing::NOW;
use engine::{Put, WriteStatus};
use ring::Map;
use session::{Outcome, Passed};

/// At d0 no copy is waited for; above a tier the journal of this cell is, at the highest level of
/// any prefix.
#[test]
fn a_reply_at_d0_waits_for_the_journal_of_its_cell_alone() {
    let cells = [
        (first_cell_with(&["order:=memory"]), true, Passed::Yes),
        (first_cell_with(&["order:=disk"]), true, Passed::No),
        (first_cell(|_| ()), false, Passed::Yes),
    ];
    for (ring, waits, when_written) in cells {
        let mut executor = Executor::new(ring.clone(), WorkerId(0));
        let consistency = Consistency { durability: Durability::D0, ..Consistency::default() };
        let map = Map::new(ring.identity.ring, 1, 1).with_consistency(consistency);
        let routes = Routes::of(&map, ring.identity.cell, &ring.terms, |_| true, |_| 0);
        executor.routes = Some(Arc::new(routes));
        assert_eq!(executor.awaited().is_empty(), !waits);
        let level = Level::new(3).expect("a level");
        executor.is_next(level, Durability::D0, None);
        let worker = &mut executor.inner.worker;
        worker.begin(NOW);
        let put = Put { value: b"v", client_flags: 0, expiry_s: 0 };
        let wrote = worker.set(&ring.cell.engine().key(b"key"), put, NOW);
        assert_eq!(wrote, WriteStatus::Done);
        let replies = worker.replies.as_mut().expect("it keeps a log");
        match replies.outcome() {
            Outcome::Gate { log, seq } => {
                assert!(waits && replies.gate(log, seq) == Passed::No);
                // It is written when the batch ends.
                worker.end();
                let replies = worker.replies.as_mut().expect("it keeps a log");
                assert_eq!(replies.gate(log, seq), when_written);
                let tiered = ring.cell.tiered().expect("it is above a tier");
                (0..2).for_each(|_| tiered.sync(NOW));
                worker.begin(NOW);
                worker.end();
                let replies = worker.replies.as_mut().expect("it keeps a log");
                assert_eq!(replies.gate(log, seq), Passed::Yes);
            }
            _ => assert!(!waits, "it leaves before it is in the journal"),
        }
    }
}

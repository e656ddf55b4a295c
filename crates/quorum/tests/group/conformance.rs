//! What every coordinator promises, whatever it is made of: the model in memory and a group of
//! three cells pass the same cases.

use crate::cells;
use crate::cells::{Cells, Member, formed, insist, join, settle, stamp, until};
use quorum::model::{Fault, Model};
use quorum::{Coordinator, Outcome};
use ring::{Command, Map, Refusal, Verdict, Why};
use std::sync::Arc;

/// A coordinator as two cells see it, and how to lose an answer.
trait Subject {
    type Cell: Coordinator;
    fn two(&self) -> (Arc<Self::Cell>, Arc<Self::Cell>);
    /// Proposes at the first cell, and loses the answer.
    async fn propose_unheard(&self, command: Command) -> Outcome;
}

impl Subject for (Model, Fault) {
    type Cell = Model;

    fn two(&self) -> (Arc<Model>, Arc<Model>) {
        (Arc::new(self.0.clone()), Arc::new(self.0.clone()))
    }

    async fn propose_unheard(&self, command: Command) -> Outcome {
        self.0.set_fault(self.1);
        let outcome = self.0.propose(command).await;
        self.0.set_fault(Fault::None);
        outcome
    }
}

impl Subject for Cells {
    type Cell = Member;

    fn two(&self) -> (Arc<Member>, Arc<Member>) {
        let leader = self.cell(1).leader();
        let other = [2, 3].into_iter().find(|id| Some(ring::CellId(*id)) != leader).unwrap();
        (self.cell(other), self.cell(1))
    }

    async fn propose_unheard(&self, command: Command) -> Outcome {
        let (first, _) = self.two();
        let me = first.directory().identity().unwrap().1;
        self.net.cut(self.leader().await, me);
        let outcome = first.propose(command).await;
        self.net.heal();
        outcome
    }
}

/// Runs a case against a model, in which an unheard proposal is applied, lost or late, and a group.
macro_rules! against_all {
    ($($name:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            for fault in [Fault::UnknownApplied, Fault::UnknownLost, Fault::Delayed] {
                cases::$name(&(Model::new(formed()), fault)).await;
            }
            cases::$name(&Cells::three().await).await;
        }
    )*};
}

against_all! {
    a_command_about_an_older_state_is_refused
    what_one_cell_was_answered_every_cell_reads
    the_same_token_joins_once
    watchers_see_every_version_in_order
    an_unknown_outcome_is_settled_by_a_command_of_ones_own
    commands_at_the_same_time_are_applied_one_after_the_other
}

mod cases {
    use super::*;

    pub async fn a_command_about_an_older_state_is_refused(subject: &impl Subject) {
        let (cell, other) = subject.two();
        let before = cell.read().await.unwrap();
        let (at, copy) = (stamp(&before), before.ranges[0].copies[0]);
        let drop = Command::Drop { at, cell: copy, why: Why::Silent };
        assert!(matches!(insist(&*cell, drop).await, Verdict::Applied { .. }));
        for command in
            [drop, Command::Settle { at }, Command::Promote { at, cell: copy, why: Why::Silent }]
        {
            for cell in [&cell, &other] {
                assert_eq!(insist(&**cell, command).await, Verdict::Refused(Refusal::Changed));
            }
        }
        let after = other.read().await.unwrap();
        assert_eq!((after.version, after.ranges[0].copies.len()), (before.version + 1, 0));
    }

    pub async fn what_one_cell_was_answered_every_cell_reads(subject: &impl Subject) {
        let (first, second) = subject.two();
        for (writer, reader) in [(&first, &second), (&second, &first)].repeat(10) {
            let at = stamp(&writer.read().await.unwrap());
            let Verdict::Applied { version, .. } = insist(&**writer, Command::Settle { at }).await
            else {
                panic!("nobody else proposes");
            };
            assert!(reader.read().await.unwrap().version >= version);
        }
    }

    pub async fn the_same_token_joins_once(subject: &impl Subject) {
        let (first, second) = subject.two();
        let mut cells = Vec::new();
        for cell in [&first, &second, &first] {
            let Verdict::Applied { cell: Some(cell), .. } = insist(&**cell, join(77)).await else {
                panic!("there is room for a cell");
            };
            cells.push(cell);
        }
        assert!(cells.windows(2).all(|pair| pair[0] == pair[1]), "{cells:?}");
    }

    pub async fn watchers_see_every_version_in_order(subject: &impl Subject) {
        let (first, second) = subject.two();
        let mut watch = second.watch();
        let begin = first.read().await.unwrap().version;
        for version in begin + 1..begin + 20 {
            settle(&*first, 1).await;
            let seen =
                tokio::time::timeout(cells::WAIT, watch.wait_for(|map| map.version >= version));
            assert_eq!(seen.await.unwrap().unwrap().version, version);
        }
    }

    pub async fn an_unknown_outcome_is_settled_by_a_command_of_ones_own(subject: &impl Subject) {
        let (first, second) = subject.two();
        let before = first.read().await.unwrap();
        let (at, copy) = (stamp(&before), before.ranges[0].copies[0]);
        let unheard =
            subject.propose_unheard(Command::Drop { at, cell: copy, why: Why::Silent }).await;
        assert_eq!(unheard, Outcome::Unknown);
        let settled = insist(&*first, Command::Settle { at }).await;
        let after = until("the map after it", || async {
            let map = second.read().await.ok()?;
            (stamp(&map) != at).then_some(map)
        });
        let has_copy = |map: &Map| map.ranges[0].copies.contains(&copy);
        match settled {
            // It had been applied.
            Verdict::Refused(Refusal::Changed) => assert!(!has_copy(&*after.await)),
            // It had not been, and never will be.
            Verdict::Applied { .. } => assert!(has_copy(&*after.await)),
            Verdict::Refused(other) => panic!("{other}"),
        }
    }

    pub async fn commands_at_the_same_time_are_applied_one_after_the_other(subject: &impl Subject) {
        let (first, second) = subject.two();
        let before = first.read().await.unwrap().version;
        let mut proposals = tokio::task::JoinSet::new();
        for token in 100..120 {
            let cell = if token % 2 == 0 { first.clone() } else { second.clone() };
            proposals.spawn(async move { insist(&*cell, join(token)).await });
        }
        let mut versions: Vec<u64> = Vec::new();
        while let Some(verdict) = proposals.join_next().await {
            let Verdict::Applied { version, .. } = verdict.unwrap() else { panic!("refused") };
            versions.push(version);
        }
        versions.sort_unstable();
        assert_eq!(versions, (before + 1..=before + 20).collect::<Vec<_>>());
        assert_eq!(second.read().await.unwrap().version, before + 20);
    }
}

#[tokio::test]
async fn a_delayed_proposal_of_the_model_is_refused_once_it_was_settled() {
    let model = Model::new(formed());
    let at = stamp(&model.read().await.unwrap());
    model.set_fault(Fault::Delayed);
    assert_eq!(model.propose(Command::Settle { at }).await, Outcome::Unknown);
    model.set_fault(Fault::None);
    assert!(model.propose(Command::Settle { at }).await.is_applied());
    assert_eq!(model.apply_delayed(), Some(Verdict::Refused(Refusal::Changed)));
    assert_eq!(model.apply_delayed(), None);
    model.set_fault(Fault::Unavailable);
    assert!(matches!(model.propose(Command::Settle { at }).await, Outcome::Unavailable(_)));
    assert!(model.read().await.is_err());
}

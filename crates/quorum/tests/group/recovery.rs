//! An operator makes a survivor the only voter, and the voters of before form no second agreement.

use crate::cells;
use crate::cells::{Cells, ids, settle, stamp, until};
use quorum::{Coordinator, Outcome, RecoverError};
use ring::{Agreement, CellId, Command};
use std::time::Duration;

/// Cell 1 votes, cells 2 and 3 learn, and all have the same map.
async fn one_voter() -> Cells {
    let mut cells = Cells::founded().await;
    cells.start(2).await;
    cells.start(3).await;
    cells.present(&[1]).await;
    settle(&*cells.cell(2), 3).await;
    cells.settled().await;
    cells
}

/// Cell `id` begins a new agreement, and adds all cells to it.
async fn recovers(cells: &Cells, id: u32) -> Agreement {
    let cell = cells.cell(id);
    let version = cell.watch().borrow().version;
    // Twice at a time is once.
    let (one, other) = tokio::join!(cell.recover(version), cell.recover(version));
    let changed = |it: &Result<_, _>| matches!(it, Err(RecoverError::Changed(_)));
    assert!(changed(&one) != changed(&other), "{one:?} {other:?}");
    let agreement = one.or(other).unwrap();
    until("it has added all", || async {
        let leads = cell.leader() == Some(CellId(id));
        (leads && cell.set_present(&[CellId(id)]).await).then_some(())
    })
    .await;
    agreement
}

async fn takes_part(cells: &Cells, id: u32, agreement: Agreement) {
    until("it takes part in the later agreement", || async {
        let cell = cells.cell(id);
        (cell.agreement() == agreement && cell.voters() == ids(&[agreement.cell.0])).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_survivor_goes_on_from_its_map_and_the_old_voter_returns_without_a_vote() {
    let mut cells = one_voter().await;
    let before = cells.settled().await;
    cells.kill(CellId(1)).await;
    let survivor = cells.cell(2);
    let at = stamp(&before);
    let outcome = survivor.propose(Command::Settle { at }).await;
    assert!(!matches!(outcome, Outcome::Verdict(_)), "{outcome:?}");

    let agreement = recovers(&cells, 2).await;
    assert_eq!(agreement, Agreement { number: 1, cell: CellId(2), from: before.version });
    let after = survivor.read().await.unwrap();
    assert_eq!((&after.cells, &after.ranges), (&before.cells, &before.ranges));
    assert_eq!(after.version, agreement.first_version());
    // Cell 3 runs on: it has no change that the survivor has not.
    settle(&*cells.cell(3), 2).await;
    takes_part(&cells, 3, agreement).await;
    assert_eq!(*cells.cell(3).ended().borrow(), None);

    cells.start(1).await;
    takes_part(&cells, 1, agreement).await;
    assert_eq!(*cells.cell(1).ended().borrow(), None, "nobody has seen it in this life");
    settle(&*cells.cell(1), 2).await;
    cells.settled().await;
    cells.present(&[1, 2, 3]).await;
    assert_eq!(cells.voters(), ids(&[1, 2, 3]));
    cells.kill(CellId(2)).await;
    settle(&*cells.cell(1), 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_left_stays_left_when_every_cell_starts_again() {
    let mut cells = one_voter().await;
    cells.kill(CellId(1)).await;
    let agreement = recovers(&cells, 2).await;
    takes_part(&cells, 3, agreement).await;
    settle(&*cells.cell(3), 2).await;
    let before = cells.settled().await;
    cells.kill(CellId(2)).await;
    cells.kill(CellId(3)).await;
    // The voter of before comes first, and alone it is a voter still.
    cells.start(1).await;
    assert_eq!(cells.leader().await, CellId(1));
    cells.start(2).await;
    cells.start(3).await;
    takes_part(&cells, 2, agreement).await;
    takes_part(&cells, 3, agreement).await;
    takes_part(&cells, 1, agreement).await;
    let after = cells.cell(2).read().await.unwrap();
    assert!(after.version >= before.version);
    let at = stamp(&after);
    assert!(cells.cell(3).propose(Command::Settle { at }).await.is_applied());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_that_was_only_cut_off_votes_no_more_and_ends_if_it_went_on() {
    let mut cells = one_voter().await;
    cells.net.isolate(CellId(1));
    let old = cells.cell(1);
    settle(&*old, 2).await;
    let agreement = recovers(&cells, 2).await;
    takes_part(&cells, 3, agreement).await;
    settle(&*old, 2).await;
    let alone = old.read().await.unwrap();
    assert!(alone.version < cells.cell(2).watch().borrow().version);
    cells.net.heal();
    let mut ended = old.ended();
    let why = ended.wait_for(Option::is_some);
    let why = tokio::time::timeout(cells::WAIT, why).await.unwrap().unwrap().clone().unwrap();
    assert!(why.contains("recovered at cell 2"), "{why}");
    let at = stamp(&alone);
    let outcome = old.propose(Command::Settle { at }).await;
    assert!(!outcome.is_applied(), "{outcome:?}");
    // Its next life begins in the later agreement.
    drop(old);
    cells.kill(CellId(1)).await;
    cells.start(1).await;
    takes_part(&cells, 1, agreement).await;
    cells.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_voter_that_knows_more_does_not_lead_before_it_has_looked_around() {
    let mut cells = one_voter().await;
    cells.net.isolate(CellId(1));
    settle(&*cells.cell(1), 3).await;
    cells.kill(CellId(1)).await;
    cells.net.heal();
    let agreement = recovers(&cells, 2).await;
    // It has a map that the survivor has not. It would lead at once, and then have to end.
    cells.start(1).await;
    takes_part(&cells, 1, agreement).await;
    assert_eq!(*cells.cell(1).ended().borrow(), None);
    settle(&*cells.cell(1), 1).await;
    cells.settled().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_survivors_of_five_voters_go_on_and_three_that_return_are_no_majority() {
    let mut cells = Cells::three().await;
    for id in [4, 5] {
        settle(&*cells.cell(1), 1).await;
        cells::insist(&*cells.cell(1), cells::join(u64::from(id))).await;
        cells.start(id).await;
    }
    cells.present(&[1, 2, 3, 4, 5]).await;
    assert_eq!(cells.voters(), ids(&[1, 2, 3, 4, 5]));
    let before = cells.settled().await;
    for id in [1, 2, 3] {
        cells.kill(CellId(id)).await;
    }
    let agreement = recovers(&cells, 4).await;
    takes_part(&cells, 5, agreement).await;
    settle(&*cells.cell(5), 1).await;
    for id in [1, 2, 3] {
        cells.start(id).await;
    }
    for id in [1, 2, 3] {
        takes_part(&cells, id, agreement).await;
    }
    let after = cells.settled().await;
    assert_eq!(after.cells, before.cells);
    assert_eq!(cells.leader().await, CellId(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cells_that_agree_are_not_recovered() {
    let cells = Cells::three().await;
    settle(&*cells.cell(2), 1).await;
    for cell in cells.all() {
        let version = cell.watch().borrow().version;
        assert!(matches!(cell.recover(version).await, Err(RecoverError::Agrees)));
        assert!(cell.agreement().is_first());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_recoveries_one_counts() {
    let mut cells = one_voter().await;
    cells.kill(CellId(1)).await;
    cells.net.cut(CellId(2), CellId(3));
    cells.net.cut(CellId(3), CellId(2));
    let two = cells.cell(2);
    let first = recovers(&cells, 2).await;
    let second = recovers(&cells, 3).await;
    assert!(second > first);
    settle(&*two, 1).await;
    cells.net.heal();
    let mut ended = two.ended();
    let why = tokio::time::timeout(cells::WAIT, ended.wait_for(Option::is_some)).await;
    assert!(why.unwrap().unwrap().clone().unwrap().contains("recovered at cell 3"));
    drop(two);
    cells.kill(CellId(2)).await;
    cells.start(2).await;
    takes_part(&cells, 2, second).await;
    tokio::time::timeout(Duration::from_secs(5), settle(&*cells.cell(2), 1)).await.unwrap();
}

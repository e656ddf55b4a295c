//! Cells die and come back, links break, voters change, and all the time every cell proposes. What
//! was answered is true at the end: applied commands are in the map, and those that were certainly
//! not applied are not.

use crate::cells;
use crate::cells::dice::Dice;
use crate::cells::{Cells, join};
use quorum::{Coordinator, Outcome};
use ring::{CellId, Verdict};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Cells of the ring.
const CELLS: u32 = 5;
/// Faults of one run.
const FAULTS: u32 = 40;
/// Proposals of one run: a ring has 4,096 cells in its life.
const PROPOSALS_MAX: u64 = 3000;

/// What proposers were answered, by the tokens that they proposed.
#[derive(Default)]
struct Answers {
    applied: Vec<(u64, u64)>,
    refused: Vec<u64>,
    unknown: usize,
}

/// Proposes new tokens until it is stopped or the cell is killed.
fn proposer(
    cell: &Arc<cells::Member>,
    token: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
) -> JoinHandle<Answers> {
    let cell = Arc::downgrade(cell);
    tokio::spawn(async move {
        let mut answers = Answers::default();
        while let Some(cell) = cell.upgrade().filter(|_| !stop.load(Ordering::Relaxed)) {
            let token = token.fetch_add(1, Ordering::Relaxed);
            if token > PROPOSALS_MAX {
                break;
            }
            match cell.propose(join(token)).await {
                Outcome::Verdict(Verdict::Applied { version, .. }) => {
                    answers.applied.push((token, version));
                }
                Outcome::Verdict(Verdict::Refused(refusal)) => panic!("{refusal}"),
                Outcome::Unavailable(_) => answers.refused.push(token),
                Outcome::Unknown => answers.unknown += 1,
            }
            drop(cell);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        answers
    })
}

/// Fails if a version falls.
fn watcher(cell: &cells::Member) -> JoinHandle<()> {
    let mut watch = cell.watch();
    tokio::spawn(async move {
        let mut last = 0;
        while watch.changed().await.is_ok() {
            let version = watch.borrow_and_update().version;
            assert!(version >= last, "version {version} after {last}");
            last = version;
        }
    })
}

/// One fault; the cell that it killed comes back at once or at the next.
async fn fault(cells: &mut Cells, dice: &mut Dice, dead: &mut Option<CellId>) {
    match dice.below(6) {
        0 => cells.net.isolate(dice.cell(CELLS)),
        1 => cells.net.cut(dice.cell(CELLS), dice.cell(CELLS)),
        2 | 3 => cells.net.heal(),
        4 if dead.is_none() => {
            let cell = dice.cell(CELLS);
            cells.kill(cell).await;
            *dead = Some(cell);
        }
        _ => {
            let present: Vec<_> = (0..CELLS).map(|_| dice.cell(CELLS)).collect();
            for cell in cells.all() {
                let set = cell.set_present(&present);
                let _ = tokio::time::timeout(Duration::from_millis(300), set).await;
            }
        }
    }
    tokio::time::sleep(Duration::from_millis(u64::from(dice.below(400)))).await;
}

async fn churn(seed: u64) {
    let mut dice = Dice(seed);
    let mut cells = Cells::founded().await;
    for token in 4..=u64::from(CELLS) {
        cells::insist(&*cells.cell(1), join(token)).await;
    }
    for id in 2..=CELLS {
        cells.start(id).await;
    }
    cells.present(&[1, 2, 3, 4, 5]).await;

    let (token, stop) = (Arc::new(AtomicU64::new(1000)), Arc::new(AtomicBool::new(false)));
    let propose = |cell| proposer(cell, token.clone(), stop.clone());
    let mut proposers: Vec<_> = cells.all().map(propose).collect();
    let mut watchers: Vec<_> = cells.all().map(|cell| watcher(cell)).collect();
    let mut dead = None;
    for _ in 0..FAULTS {
        let was_dead = dead.is_some();
        fault(&mut cells, &mut dice, &mut dead).await;
        if let Some(id) = dead.filter(|_| was_dead) {
            cells.start(id.0).await;
            proposers.push(proposer(&cells.cell(id.0), token.clone(), stop.clone()));
            watchers.push(watcher(&cells.cell(id.0)));
            dead = None;
        }
    }
    cells.net.heal();
    if let Some(id) = dead {
        cells.start(id.0).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut all = Answers::default();
    for proposer in proposers {
        let answers = proposer.await.unwrap();
        all.applied.extend(answers.applied);
        all.refused.extend(answers.refused);
        all.unknown += answers.unknown;
    }
    let map = cells.settled().await;
    assert_eq!(map.fault(), None, "seed {seed}");
    let (applied, refused) = (all.applied.len(), all.refused.len());
    println!("seed {seed}: {applied} applied, {refused} not, {} unknown", all.unknown);
    let tokens: BTreeSet<u64> = map.cells.values().map(|cell| cell.token).collect();
    let lost: Vec<_> = all.applied.iter().filter(|(token, _)| !tokens.contains(token)).collect();
    assert!(lost.is_empty(), "seed {seed}: applied and lost: {lost:?}");
    let late: Vec<_> = all.refused.iter().filter(|token| tokens.contains(token)).collect();
    assert!(late.is_empty(), "seed {seed}: unavailable and applied: {late:?}");
    let versions: BTreeSet<u64> = all.applied.iter().map(|(_, version)| *version).collect();
    assert_eq!(versions.len(), applied, "seed {seed}: two commands made one version");
    drop(cells);
    for watcher in watchers {
        watcher.abort();
        assert!(!watcher.await.is_err_and(|error| error.is_panic()), "seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_is_true_at_the_end() {
    churn(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "many seeds; takes minutes"]
async fn what_was_answered_is_true_for_many_seeds() {
    for seed in 2..22 {
        churn(seed).await;
    }
}

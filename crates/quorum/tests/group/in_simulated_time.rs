//! Kills, cuts and changes of voters by the hundred, in simulated time: all cells apply the same
//! commands in one order, none that was acknowledged is lost, and after each phase the group lives.
//!
//! The clock of the runtime is paused: it goes on to the next timer whenever nothing else is left
//! to do. Files are real, links are those of `cells`. `QUORUM_FAULTS=1000` runs as many kills and
//! changes of voters; without it there are 30. `QUORUM_SEED` chooses them.

use crate::cells::dice::Dice;
use crate::cells::{Cells, Member, ids, insist, join};
use quorum::{Coordinator, Outcome};
use ring::{CellId, Map, Verdict};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Cells of the ring.
const CELLS: u32 = 5;
/// Kills and changes of voters, if the environment does not say.
const FAULTS: u32 = 30;
/// Faults of one group at most. Its map, which every cell shows and every check compares, grows
/// with each: more faults are spread over groups with rising seeds.
const RUN_FAULTS: u32 = 100;
/// Of them, after how many the group must live again.
const PHASE: u32 = 10;
/// Tokens of proposals: above those of the cells.
const TOKENS: u64 = 1000;

/// By version, what any cell has shown: two that differ are a divided group.
type Shown = Arc<Mutex<BTreeMap<u64, u64>>>;

fn digest(map: &Map) -> u64 {
    let mut hasher = DefaultHasher::new();
    for cell in map.cells.values() {
        (cell.token, cell.started.incarnation.0).hash(&mut hasher);
    }
    map.ranges.iter().for_each(|range| (range.epoch, range.config).hash(&mut hasher));
    hasher.finish()
}

/// Notes every map that a cell shows. Its panic is a failure: a version falls, or is another map
/// than at another cell.
fn watch(cell: &Member, shown: &Shown) -> JoinHandle<()> {
    let (mut watch, shown) = (cell.watch(), shown.clone());
    tokio::spawn(async move {
        let mut last = 0;
        loop {
            let map = watch.borrow_and_update().clone();
            assert!(map.version >= last, "version {} after {last}", map.version);
            last = map.version;
            let is = digest(&map);
            let was = *shown.lock().unwrap().entry(last).or_insert(is);
            assert_eq!(is, was, "version {last} is not the same map at all cells");
            if watch.changed().await.is_err() {
                return;
            }
        }
    })
}

/// The tokens of `applied` that `map` does not have.
fn lost<'a>(map: &Map, applied: impl IntoIterator<Item = &'a u64>) -> Vec<u64> {
    let tokens: BTreeSet<u64> = map.cells.values().map(|cell| cell.token).collect();
    applied.into_iter().copied().filter(|token| !tokens.contains(token)).collect()
}

/// A run.
struct Run {
    cells: Cells,
    dice: Dice,
    dead: Option<CellId>,
    shown: Shown,
    watchers: Vec<JoinHandle<()>>,
    proposals: Vec<JoinHandle<(u64, Outcome)>>,
    next_token: u64,
    applied: BTreeMap<u64, u64>,
    refused: Vec<u64>,
    kills: u32,
    changes: u32,
}

impl Run {
    async fn begin(seed: u64) -> Self {
        let mut cells = Cells::founded().await;
        for id in 2..=CELLS {
            insist(&*cells.cell(1), join(u64::from(id))).await;
            cells.start(id).await;
        }
        let shown = Shown::default();
        let watchers = cells.all().map(|cell| watch(cell, &shown)).collect();
        Self {
            cells,
            dice: Dice(seed),
            dead: None,
            shown,
            watchers,
            proposals: Vec::new(),
            next_token: TOKENS,
            applied: BTreeMap::new(),
            refused: Vec::new(),
            kills: 0,
            changes: 0,
        }
    }

    /// Two cells propose something.
    fn propose(&mut self) {
        for _ in 0..2 {
            let id = self.dice.cell(CELLS);
            if self.dead == Some(id) {
                continue;
            }
            let (cell, token) = (Arc::downgrade(&self.cells.cell(id.0)), self.next_token);
            self.next_token += 1;
            self.proposals.push(tokio::spawn(async move {
                let Some(cell) = cell.upgrade() else { return (token, Outcome::Unknown) };
                (token, cell.propose(join(token)).await)
            }));
        }
    }

    async fn start(&mut self, id: CellId) {
        self.cells.start(id.0).await;
        self.watchers.push(watch(&self.cells.cell(id.0), &self.shown));
        self.dead = None;
    }

    /// A kill or a change of voters, some of them while links are cut.
    async fn fault(&mut self) {
        match self.dice.below(4) {
            0 => self.cells.net.isolate(self.dice.cell(CELLS)),
            1 => self.cells.net.cut(self.dice.cell(CELLS), self.dice.cell(CELLS)),
            _ => self.cells.net.heal(),
        }
        if let Some(dead) = self.dead {
            self.start(dead).await;
        }
        if self.dice.below(2) == 0 {
            let led = self.cells.all().find_map(|cell| cell.leader());
            let cell = led.filter(|_| self.dice.below(2) == 0).unwrap_or(self.dice.cell(CELLS));
            self.cells.kill(cell).await;
            self.cells.all().for_each(|other| other.suspect(cell));
            (self.dead, self.kills) = (Some(cell), self.kills + 1);
        } else {
            let present: Vec<_> = (0..CELLS).map(|_| self.dice.cell(CELLS)).collect();
            for cell in self.cells.all() {
                let set = cell.set_present(&present);
                let _ = tokio::time::timeout(Duration::from_millis(300), set).await;
            }
            self.changes += 1;
        }
        self.propose();
        let rests_ms = u64::from(self.dice.below(700));
        tokio::time::sleep(Duration::from_millis(rests_ms)).await;
    }

    /// All faults end, and what must be true is looked at.
    async fn check(&mut self) {
        self.cells.net.heal();
        if let Some(dead) = self.dead {
            self.start(dead).await;
        }
        for proposal in std::mem::take(&mut self.proposals) {
            match proposal.await.unwrap() {
                (token, Outcome::Verdict(Verdict::Applied { version, .. })) => {
                    self.applied.insert(token, version);
                }
                (token, Outcome::Unavailable(_)) => self.refused.push(token),
                (_, Outcome::Unknown) => {}
                (token, outcome) => panic!("token {token}: {outcome:?}"),
            }
        }
        self.cells.present(&[1, 2, 3, 4, 5]).await;
        assert_eq!(self.cells.voters(), ids(&[1, 2, 3, 4, 5]));
        let map = self.cells.settled().await;
        assert_eq!(map.fault(), None);
        let lost_now = lost(&map, self.applied.keys());
        assert!(lost_now.is_empty(), "applied and lost: {lost_now:?}");
        let late = lost(&map, &self.refused);
        assert_eq!(late.len(), self.refused.len(), "unavailable, and applied all the same");
        let versions: BTreeSet<_> = self.applied.values().collect();
        assert_eq!(versions.len(), self.applied.len(), "two commands made one version");
        let (over, running): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.watchers).into_iter().partition(JoinHandle::is_finished);
        self.watchers = running;
        for watcher in over {
            // Without a panic: its cell has ended.
            watcher.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn kills_and_changes_of_voters_lose_and_divide_nothing() {
    let number =
        |name: &str| -> Option<u64> { std::env::var(name).ok().and_then(|text| text.parse().ok()) };
    let faults = number("QUORUM_FAULTS").map_or(FAULTS, |faults| faults as u32);
    let began = (std::time::Instant::now(), tokio::time::Instant::now());
    let (mut seed, mut left, mut done) = (number("QUORUM_SEED").unwrap_or(1), faults, [0; 4]);
    while left > 0 {
        let mut run = Run::begin(seed).await;
        let faults = left.min(RUN_FAULTS);
        for fault in 1..=faults {
            run.fault().await;
            if fault % PHASE == 0 || fault == faults {
                run.check().await;
            }
        }
        let of_run = [run.kills, run.changes, run.applied.len() as u32, run.refused.len() as u32];
        done = std::array::from_fn(|at| done[at] + of_run[at]);
        run.cells.end().await;
        (seed, left) = (seed + 1, left - faults);
    }
    let [kills, changes, applied, refused] = done;
    println!(
        "{kills} kills, {changes} changes of voters, {applied} applied, {refused} not: {:.0} s of \
         simulated time in {:.1} s",
        began.1.elapsed().as_secs_f64(),
        began.0.elapsed().as_secs_f64(),
    );
}

/// One of three does not hear what the others decide. One of these ends for ever, and the other one
/// comes back: as it was, or under its number with an empty log. Returns what is lost by that.
async fn comes_back(is_empty: bool) -> Vec<u64> {
    let mut cells = Cells::three().await;
    let leader = cells.leader().await;
    let others: Vec<_> = (1..=3).map(CellId).filter(|cell| *cell != leader).collect();
    let (returns, deaf) = (others[0], others[1]);
    cells.net.isolate(deaf);
    assert!(cells.cell(leader.0).propose(join(TOKENS)).await.is_applied());
    cells.kill(returns).await;
    cells.kill(leader).await;
    cells.net.heal();
    if is_empty {
        // What the directory forbids, by another directory.
        std::fs::remove_dir_all(cells.path(returns)).unwrap();
    }
    cells.start(returns.0).await;
    insist(&*cells.cell(deaf.0), join(TOKENS + 1)).await;
    lost(&*cells.settled().await, &[TOKENS])
}

#[tokio::test(start_paused = true)]
async fn a_number_that_comes_back_with_an_empty_log_loses_what_was_applied() {
    assert!(comes_back(false).await.is_empty(), "with its log nothing is lost");
    assert_eq!(comes_back(true).await, [TOKENS], "the check of this file notices it");
}

//! A cell through all agreements of its ring: it leaves one when it gets to know a later one, or
//! when an operator makes it the only voter of a new one.
//!
//! ```text
//! a body of a later agreement --> stops voting --> directory: the later one --> learns it, empty
//! recover                     --> stops voting --> directory: the new one   --> its only voter
//! ```
//!
//! Invariants: an agreement that was left is never taken part in again, not after a restart either.
//! A cell that has applied what the later agreement does not know of does not go on: it may have
//! answered clients by it. Its life ends, and the next one begins empty.

use super::caller::Caller;
use super::member::Member;
use super::shown::Shown;
use super::start::{StartError, Stored};
use crate::disk::Directory;
use crate::transport::Transport;
use ring::{Agreement, CellId, Change, Map, RECOVERIES_MAX};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::{Mutex, watch};

/// Why a cell did not become the only voter.
#[derive(Debug)]
pub enum RecoverError {
    /// The cells agree already.
    Agrees,
    /// It has no map to go on from.
    NoMap,
    /// Its map has another version by now.
    Changed(u64),
    /// The ring was recovered too often.
    TooOften,
    /// It takes part no more: its disk has failed, or it is stopped.
    Ended(String),
    /// The new agreement did not begin.
    Start(StartError),
}

/// A cell in the agreement of now.
pub struct Life<T> {
    pub me: CellId,
    pub directory: Arc<Directory>,
    pub shown: Shown,
    now: RwLock<Arc<Member<T>>>,
    /// Held while it goes from one agreement to another.
    changing: Mutex<()>,
    /// Why it must end, once it must.
    ended: watch::Sender<Option<String>>,
}

impl<T: Transport> Life<T> {
    /// Takes part with what is `stored`.
    pub async fn start(
        stored: Stored,
        ring: u64,
        me: CellId,
        transport: T,
    ) -> Result<Self, StartError> {
        let (directory, shown) = (stored.directory.clone(), stored.shown.clone());
        let caller = Caller::new(transport, ring, directory.agreement());
        let member = Member::start(stored, me, caller).await?;
        let (now, ended) = (RwLock::new(Arc::new(member)), watch::Sender::new(None));
        Ok(Self { me, directory, shown, now, changing: Mutex::new(()), ended })
    }

    /// Its part in the agreement of now.
    pub fn now(&self) -> Arc<Member<T>> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows `map`, which `asked` was sent, unless this cell has left that agreement meanwhile, or
    /// is about to.
    pub fn shows(&self, map: &Map, asked: &Arc<Member<T>>) {
        if let Ok(_changing) = self.changing.try_lock()
            && Arc::ptr_eq(&self.now(), asked)
        {
            self.shown.publish(map);
        }
    }

    /// Why the life of the cell must end, once it must.
    pub fn ended(&self) -> watch::Receiver<Option<String>> {
        self.ended.subscribe()
    }

    /// Goes to each later agreement of which it hears, as long as it is polled.
    pub async fn follow_agreements(self: Arc<Self>) {
        let mut latest = self.now().caller.latest();
        loop {
            let own = self.directory.agreement();
            let Ok(later) = latest.wait_for(|latest| *latest > own).await.map(|it| *it) else {
                return;
            };
            if let Err(error) = self.adopt(later).await {
                self.ended.send_replace(Some(error.to_string()));
            }
            if self.ended.borrow().is_some() {
                return;
            }
        }
    }

    async fn adopt(&self, later: Agreement) -> Result<(), StartError> {
        let _changing = self.changing.lock().await;
        let own = self.directory.agreement();
        if later <= own {
            return Ok(());
        }
        let before = self.now();
        before.stop().await;
        let version = self.shown.map().version;
        let goes_on = !before.has_taken_part() || own.is_continued_by(later, version);
        let stored = Stored::adopt(self.directory.clone(), later, self.shown.clone())?;
        if goes_on {
            return self.begin(stored, &before.caller.of(later)).await;
        }
        let cell = later.cell;
        self.ended.send_replace(Some(format!(
            "the ring was recovered at cell {cell}, which goes on from map {}; this cell has gone \
             on to map {version} without it: it votes no more, its items are given up, and it \
             ends. Start it again: it returns empty",
            later.from
        )));
        Ok(())
    }

    /// Becomes the only voter of a new agreement, which goes on from the map of `version`, the
    /// newest that this cell has. The caller has made sure that the voters of the present one are
    /// lost.
    pub async fn recover(&self, version: u64) -> Result<Agreement, RecoverError> {
        let _changing = self.changing.lock().await;
        let before = self.now();
        if let Some(failure) = before.health.failure() {
            return Err(RecoverError::Ended(failure.to_string()));
        }
        if before.caller.is_superseded() {
            return Err(RecoverError::Agrees);
        }
        let old = self.shown.map();
        if old.version != version {
            // By another recovery, too: two at a time are one.
            return Err(RecoverError::Changed(old.version));
        }
        if !old.cells.contains_key(&self.me) {
            return Err(RecoverError::NoMap);
        }
        let agreement = self.directory.agreement();
        let next = |from| agreement.after(self.me, from).ok_or(RecoverError::TooOften);
        next(version)?;
        before.stop().await;
        // What was decided until it has stopped, this cell may have gone by already.
        let old = self.shown.map();
        let next = next(old.version)?;
        let mut map = (*old).clone();
        map.version = next.first_version();
        self.shown.changes.push(Change::recovered(&old, &map, self.me));
        let (directory, shown) = (self.directory.clone(), self.shown.clone());
        let stored = Stored::recover(directory, next, (self.me, map.clone()), shown);
        let stored = stored.map_err(|error| RecoverError::Start(error.into()));
        let begun = async {
            self.begin(stored?, &before.caller.of(next)).await.map_err(RecoverError::Start)
        };
        begun.await.inspect_err(|error| {
            // It was stopped, so it takes part in nothing.
            self.ended.send_replace(Some(error.to_string()));
        })?;
        // It is in the log of the only voter, so it is decided.
        self.shown.publish(&map);
        Ok(next)
    }

    async fn begin(&self, stored: Stored, caller: &Caller<T>) -> Result<(), StartError> {
        let member = Member::start(stored, self.me, caller.clone()).await?;
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(member);
        Ok(())
    }
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agrees => f.write_str("the cells of the ring agree: there is nothing to recover"),
            Self::Changed(version) => write!(f, "its map is {version} by now: look at it again"),
            Self::NoMap => f.write_str("this cell has no map that names it: recover another one"),
            Self::TooOften => write!(f, "the ring was recovered {RECOVERIES_MAX} times, the most"),
            Self::Ended(failure) => write!(f, "this cell takes part no more: {failure}"),
            Self::Start(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecoverError {}

//! The runs of a bucket that this cell leads: how keys are looked up and changed there.
//!
//! ```text
//! apply    pages read, merged, created -> maps created -> no higher epoch? -> done -> old deleted
//! get      map in memory -> page, from the cache or read -> record, there or in an object
//! ```
//!
//! No name is used twice, and only the highest map of a run counts: what a bucket carries out late
//! changes nothing that counts. What a call has created that failed may count or not, until the
//! next one of that run has succeeded: so it is deleted after that.
//!
//! A run that is left, or led again, has another [`Led`]. A call that is under way ends with the
//! one that it began with.

use crate::cache::Cache;
use crate::led::{Led, SWEPT_AT_ONCE, Successor};
use crate::name::{self, Id, VALUES};
use crate::objects::{Object, Objects};
use crate::opening::{Notes, Opened, Run, open};
use crate::page::{self, Content, Spot};
use crate::rewrite::{Lengths, Next, Rewritten, create_all, gone, rewrite};
use crate::runs::{RUNS, run_of};
use crate::store::{LIST_AT_ONCE, Leftover, Store, again, check_epochs, not_led};
use base::SliceId;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};
use tier::{BackendError, Change, Failure};

/// Names that are kept to be deleted, at most: what is beyond lies there until the next start.
const LEFTOVERS_MAX: usize = 65_536;
/// Pages that are read at once to see which records of their own count.
const READ_AT_ONCE: usize = 8;
/// Calls that delete nothing after one that failed, at most.
const SKIPS_MAX: usize = 63;
/// Times that a key is looked up while its page is replaced.
const TRIES_MAX: usize = 16;

/// The runs of a bucket that this cell leads; none at first.
pub(crate) struct Leading {
    objects: Arc<dyn Objects>,
    lengths: Lengths,
    slots: Vec<RwLock<Slot>>,
    cache: Cache,
    /// Held by the call that changes anything.
    writing: Mutex<Writing>,
    /// Whether runs are led whose records of their own were not looked at.
    has_begun: AtomicBool,
    leftovers: Mutex<Leftovers>,
}

/// A run, led or not.
#[derive(Default)]
struct Slot {
    led: Option<Arc<Led>>,
    /// How often it was left.
    turn: u64,
}

/// What the call that changes anything needs.
#[derive(Default)]
struct Writing {
    /// The name up to which records of their own were looked at, until all were.
    values: Option<String>,
    /// Calls that delete nothing, after some that failed: how many are left, and how many there
    /// were the last time.
    skips: usize,
    skipped: usize,
}

/// Names to delete, and how many of them were left when some were deleted last.
#[derive(Default)]
struct Leftovers {
    names: Vec<Leftover>,
    kept: usize,
}

impl Leading {
    /// None yet: requests nothing.
    pub(crate) fn new(objects: Arc<dyn Objects>, lengths: Lengths, cache_bytes: usize) -> Self {
        Self {
            objects,
            lengths,
            slots: (0..RUNS).map(|_| RwLock::default()).collect(),
            cache: Cache::new(cache_bytes),
            writing: Mutex::default(),
            has_begun: AtomicBool::new(false),
            leftovers: Mutex::default(),
        }
    }

    /// Whether a record of this many bytes is an object of its own.
    pub(crate) fn is_apart(&self, bytes: usize) -> bool {
        self.lengths.is_apart(bytes)
    }

    /// Takes runs over, of which there is one at least: another that writes them is refused from
    /// now on. What is left meanwhile is not led then. Returns the notes where they are taken over.
    pub(crate) fn lead(&self, runs: &Range<usize>) -> Result<Option<(Store, Notes)>, BackendError> {
        let turns = self.leave(runs);
        let Opened { runs, notes, leftovers } = open(&self.objects, runs)?;
        for (found, turn) in runs.into_iter().zip(turns) {
            let mut slot = self.slot(found.store.run);
            if slot.turn == turn {
                slot.led = Some(Arc::new(Led::new(found)));
            }
        }
        self.has_begun.store(true, Ordering::Relaxed);
        self.leave_over(leftovers);
        Ok(notes)
    }

    /// Leads these runs no more. Returns how often each was left.
    pub(crate) fn leave(&self, runs: &Range<usize>) -> Vec<u64> {
        let leave = |number: usize| {
            let mut slot = self.slot(number);
            if let Some(led) = slot.led.take() {
                led.store.leave();
            }
            slot.turn += 1;
            slot.turn
        };
        runs.clone().filter(|number| *number < RUNS).map(leave).collect()
    }

    fn slot(&self, number: usize) -> RwLockWriteGuard<'_, Slot> {
        self.slots[number].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run that is led here, unless another cell was seen that leads it.
    fn led(&self, number: usize) -> Result<Arc<Led>, BackendError> {
        self.led_if_any(number)?.ok_or_else(|| not_led(&*self.objects, number))
    }

    /// A run, if it is led here.
    pub(crate) fn led_if_any(&self, number: usize) -> Result<Option<Arc<Led>>, BackendError> {
        let slot = self.slots[number].read().unwrap_or_else(PoisonError::into_inner);
        let led = slot.led.clone();
        led.iter().try_for_each(|led| led.store.check_known()).map(|()| led)
    }

    /// A page, from memory or from the bucket; `None` if it is not there.
    fn page(&self, store: &Store, id: Id) -> Result<Option<Arc<Vec<u8>>>, BackendError> {
        let page = self.read(store, id)?;
        page.iter().for_each(|page| self.cache.put((store.run, id), page));
        Ok(page)
    }

    /// As [`Self::page`], and does not keep it in memory.
    fn read(&self, store: &Store, id: Id) -> Result<Option<Arc<Vec<u8>>>, BackendError> {
        let of = (store.run, id);
        if let Some(page) = self.cache.get(of) {
            return Ok(Some(page));
        }
        let name = name::page(store.run, id);
        let Some(page) = self.objects.get(&name)? else { return Ok(None) };
        if !page::is_page(of, &page) {
            return Err(store.error(Failure::Corrupt, &format!("{name} is not what was written")));
        }
        Ok(Some(Arc::new(page)))
    }

    /// Appends the record of a key. Returns whether there is one.
    pub(crate) fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, BackendError> {
        let (spot, led) = (Spot::of(key), self.led(run_of(SliceId::of(key)))?);
        let mut missing = String::new();
        for _ in 0..TRIES_MAX {
            let run = led.run();
            let Some(entry) = run.map.find(&spot) else { return Ok(false) };
            let id = run.map.entries[entry].page;
            let mut name = name::page(led.store.run, id);
            if let Some(page) = self.page(&led.store, id)? {
                match page::find(&page, key) {
                    None => return Ok(false),
                    Some(Content::Here(record)) => {
                        into.extend_from_slice(&record);
                        return Ok(true);
                    }
                    Some(Content::Apart(id)) => name = name::value(key, id),
                }
                if let Some(record) = self.objects.get(&name)? {
                    into.extend_from_slice(&record);
                    return Ok(true);
                }
            }
            // It was replaced and deleted meanwhile, or it is lost.
            if led.run().id == run.id {
                return Err(gone(&led.store, &name));
            }
            missing = name;
        }
        let what = format!("{missing} and its successors were replaced again and again");
        Err(led.store.error(Failure::Transient, &what))
    }

    /// Carries out changes; those of one run all or none. Those of runs that are not led here are
    /// not carried out, and the others are.
    pub(crate) fn apply(&self, changes: &[Change<'_>]) -> Result<(), BackendError> {
        let _writing = lock(&self.writing);
        let run = |change: &Change<'_>| run_of(SliceId::of(change.key()));
        let mut order: Vec<&Change<'_>> = changes.iter().collect();
        order.sort_by_cached_key(|change| Spot::of(change.key()));
        let (mut changed, mut refused) = (Vec::new(), Ok(()));
        for of_run in order.chunk_by(|a, b| run(a) == run(b)) {
            let nexts: Vec<Next<'_>> = of_run.iter().map(|change| Next::of(change)).collect();
            let led = match self.led(run(of_run[0])) {
                Ok(led) => led,
                Err(error) => {
                    refused = refused.and(Err(error));
                    continue;
                }
            };
            let mut it = Rewritten::default();
            let done = rewrite(&led.store, &led.run(), &nexts, self.lengths, &mut it);
            if let Err(error) = done {
                // No map names them.
                let failed = std::iter::once((led.clone(), it));
                // What fails because this run was taken over concerns no other.
                let goes_on = led.store.check_known().is_err();
                let others = if goes_on { Vec::new() } else { std::mem::take(&mut changed) };
                failed.chain(others).for_each(|(led, it)| self.leave_over_of(&led, it.made));
                if !goes_on {
                    return Err(error);
                }
                refused = refused.and(Err(error));
                continue;
            }
            changed.push((led, it));
        }
        self.commit(changed).and(refused)
    }

    /// Has the changes of each run count, of which all pages were created. A run whose map may not
    /// be the one in memory gets a new one, also where nothing else of it changes.
    fn commit(&self, changed: Vec<(Arc<Led>, Rewritten)>) -> Result<(), BackendError> {
        let leds: Vec<Arc<Led>> = changed.iter().map(|(led, _)| led.clone()).collect();
        let mut successors = Vec::new();
        for (led, mut changes) in changed {
            if led.store.check_known().is_err() {
                self.leave_over_of(&led, changes.made);
            } else if changes.changes() || led.is_in_doubt() {
                let run = Run { id: led.store.id(), map: std::mem::take(&mut changes.map) };
                successors.push(Successor { led, run, changes });
            }
        }
        let object = |Successor { led, run, .. }: &Successor| Object {
            name: name::map(led.store.run, run.id),
            bytes: run.map.encode(led.store.run, run.id),
        };
        let maps: Vec<Object> = successors.iter().map(object).collect();
        let stores: Vec<&Store> = leds.iter().map(|led| &led.store).collect();
        let created = match maps.is_empty() {
            true => Ok(()),
            false => create_all(&*self.objects, &maps),
        };
        let created = created.and_then(|()| again(|| check_epochs(&stores)));
        for successor in successors {
            let led = successor.led.clone();
            if created.is_err() || led.store.check_known().is_err() {
                successor.doubt();
                continue;
            }
            let (names, pages) = successor.succeed();
            pages.iter().for_each(|id| self.cache.remove((led.store.run, *id)));
            self.leave_over_of(&led, names);
        }
        created.and_then(|()| stores.iter().try_for_each(|store| store.check_known()))
    }

    /// Deletes some of what does not count in the runs that are led here: more than was left over
    /// since the last time. What cannot be deleted is tried again later.
    pub(crate) fn tidy(&self) {
        let mut writing = lock(&self.writing);
        if writing.skips > 0 {
            writing.skips -= 1;
            return;
        }
        if self.has_begun.swap(false, Ordering::Relaxed) {
            writing.values = Some(String::new());
        }
        let count = {
            let Leftovers { names, kept } = &*lock(&self.leftovers);
            SWEPT_AT_ONCE + 2 * names.len().saturating_sub(*kept)
        };
        self.sweep(&mut writing);
        let mut names = {
            let all = &mut lock(&self.leftovers).names;
            all.split_off(all.len().saturating_sub(count))
        };
        names.retain(|(number, _)| *number >= RUNS || self.led(*number).is_ok());
        let mut has_failed = false;
        for some in names.chunks(LIST_AT_ONCE) {
            let list: Vec<String> = some.iter().map(|(_, name)| name.clone()).collect();
            has_failed = has_failed || self.objects.delete(&list).is_err();
            if has_failed {
                self.leave_over(some.to_vec());
            }
        }
        writing.skipped = if has_failed { (2 * writing.skipped + 1).min(SKIPS_MAX) } else { 0 };
        writing.skips = writing.skipped;
        let leftovers = &mut *lock(&self.leftovers);
        leftovers.kept = leftovers.names.len();
    }

    /// Looks at some pages of earlier writers, of one run that is led here; and after all these at
    /// some records of their own.
    fn sweep(&self, writing: &mut Writing) {
        for led in (0..RUNS).filter_map(|number| self.led(number).ok()) {
            match led.sweep() {
                None => {}
                Some(Ok(names)) => return self.leave_over_of(&led, names),
                Some(Err(_)) => return,
            }
        }
        if let Some(after) = writing.values.take() {
            writing.values = self.sweep_values(after);
        }
    }

    /// Looks at some records of their own that earlier writers have created, after this name: those
    /// that no page names now are named by none later. Returns the name up to which it has looked;
    /// `None`: at all.
    fn sweep_values(&self, mut after: String) -> Option<String> {
        let Ok(names) = self.objects.list(VALUES, &after, SWEPT_AT_ONCE) else {
            return Some(after);
        };
        let mut read = HashMap::new();
        for name in &names {
            let value = name::value_of(name);
            let of_led = value.and_then(|(key, id)| {
                let led = self.led(run_of(SliceId::of(&key))).ok()?;
                (id.epoch < led.store.epoch).then_some((led, key, id))
            });
            if let Some((led, key, id)) = of_led
                && !self.names_value(&led, (&key, id), &mut read)
            {
                self.leave_over_of(&led, vec![name.clone()]);
            }
            after.clone_from(name);
            if read.len() == READ_AT_ONCE {
                return Some(after);
            }
        }
        (names.len() == SWEPT_AT_ONCE).then_some(after)
    }

    /// Whether the page of `key` names this record of its own. Adds the page to `read`.
    fn names_value(
        &self,
        led: &Led,
        (key, id): (&[u8], Id),
        read: &mut HashMap<(usize, Id), Option<Arc<Vec<u8>>>>,
    ) -> bool {
        let run = led.run();
        let Some(entry) = run.map.find(&Spot::of(key)) else { return false };
        let of = (led.store.run, run.map.entries[entry].page);
        let page = match read.entry(of) {
            Entry::Occupied(page) => page.into_mut(),
            // One that cannot be read now says nothing of its records.
            Entry::Vacant(place) => place.insert(self.read(&led.store, of.1).ok().flatten()),
        };
        let is_named = |page: &Arc<Vec<u8>>| page::find(page, key) == Some(Content::Apart(id));
        page.as_ref().is_none_or(is_named)
    }

    /// Keeps names that do not count any more, to delete them later.
    pub(crate) fn leave_over(&self, names: Vec<Leftover>) {
        let all = &mut lock(&self.leftovers).names;
        all.extend(names);
        all.truncate(LEFTOVERS_MAX);
    }

    fn leave_over_of(&self, led: &Led, names: Vec<String>) {
        self.leave_over(names.into_iter().map(|name| (led.store.run, name)).collect());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

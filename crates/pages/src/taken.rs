//! A bucket that this writer has taken over: how keys are looked up and changed there.
//!
//! ```text
//! apply    pages read, merged, created -> maps created -> no higher epoch? -> done -> old deleted
//! get      map in memory -> page, from the cache or read -> record, there or in an object
//! ```
//!
//! No name is used twice, and only the highest map of a run counts: what a bucket carries out late
//! changes nothing that counts. What a call has created that failed may count or not, until the
//! next one of that run has succeeded: so it is deleted after that.

use crate::cache::Cache;
use crate::name::{self, Id, PAGES};
use crate::note;
use crate::objects::{Object, Objects};
use crate::opening::{Opened, RUNS, Run, open};
use crate::page::{self, Content, Spot};
use crate::rewrite::{Lengths, Next, Rewritten, gone, rewrite};
use crate::store::{LIST_AT_ONCE, Store};
use base::{SLICES, SliceId, SliceRange};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tier::{BackendError, Change, Failure};

/// Slices of a run.
const RUN_SLICES: usize = SLICES / RUNS;
/// Pages of earlier writers that are looked at at once.
const SWEPT_AT_ONCE: usize = 128;
/// Names that are kept to be deleted, at most: what is beyond lies there until the next start.
const LEFTOVERS_MAX: usize = 65_536;
/// Times that a key is looked up while its page is replaced.
const TRIES_MAX: usize = 16;

/// A bucket that this writer has taken over.
pub(crate) struct Taken {
    store: Store,
    lengths: Lengths,
    runs: Vec<RwLock<Arc<Run>>>,
    notes: Mutex<BTreeMap<String, (Id, Vec<u8>)>>,
    writer: Mutex<Writer>,
    cache: Cache,
}

/// What only the call that changes anything needs.
struct Writer {
    /// Names to delete, and how many of them were left when some were deleted last.
    leftovers: Vec<String>,
    kept: usize,
    /// By run, names that failed calls have created, and that a map may name.
    in_doubt: Vec<Vec<String>>,
    /// The name up to which pages of earlier writers were looked at, until all were; and those of
    /// them that counted at the start.
    sweep: Option<(String, HashSet<Id>)>,
}

impl Taken {
    /// Takes a bucket over. Another one that writes there is refused from now on.
    pub(crate) fn begin(
        objects: Arc<dyn Objects>,
        lengths: Lengths,
        cache_bytes: usize,
    ) -> Result<Self, BackendError> {
        let Opened { store, runs, notes, leftovers, named } = open(objects)?;
        let in_doubt = vec![Vec::new(); RUNS];
        let sweep = Some((String::new(), named));
        Ok(Self {
            store,
            lengths,
            runs: runs.into_iter().map(|run| RwLock::new(Arc::new(run))).collect(),
            notes: Mutex::new(notes),
            writer: Mutex::new(Writer { kept: leftovers.len(), leftovers, in_doubt, sweep }),
            cache: Cache::new(cache_bytes),
        })
    }

    fn run(&self, number: usize) -> Arc<Run> {
        self.runs[number].read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A page, from memory or from the bucket; `None` if it is not there.
    fn page(&self, id: Id) -> Result<Option<Arc<Vec<u8>>>, BackendError> {
        if let Some(page) = self.cache.get(id) {
            return Ok(Some(page));
        }
        let Some(page) = self.store.objects.get(&name::page(id))? else { return Ok(None) };
        if !page::is_page(id, &page) {
            let what = format!("{} is not what was written", name::page(id));
            return Err(self.store.error(Failure::Corrupt, &what));
        }
        let page = Arc::new(page);
        self.cache.put(id, &page);
        Ok(Some(page))
    }

    /// Appends the record of a key. Returns whether there is one.
    pub(crate) fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, BackendError> {
        let (spot, number) = (Spot::of(key), run_of(SliceId::of(key)));
        let mut missing = String::new();
        for _ in 0..TRIES_MAX {
            let run = self.run(number);
            let Some(entry) = run.map.find(&spot) else { return Ok(false) };
            let id = run.map.entries[entry].page;
            let mut name = name::page(id);
            if let Some(page) = self.page(id)? {
                match page::find(&page, key) {
                    None => return Ok(false),
                    Some(Content::Here(record)) => {
                        into.extend_from_slice(&record);
                        return Ok(true);
                    }
                    Some(Content::Apart(id)) => name = name::value(key, id),
                }
                if let Some(record) = self.store.objects.get(&name)? {
                    into.extend_from_slice(&record);
                    return Ok(true);
                }
            }
            // It was replaced and deleted meanwhile, or it is lost.
            if self.run(number).id == run.id {
                return Err(gone(&self.store, &name));
            }
            missing = name;
        }
        let what = format!("{missing} and its successors were replaced again and again");
        Err(self.store.error(Failure::Transient, &what))
    }

    /// Carries out changes; those of one run all or none.
    pub(crate) fn apply(&self, changes: &[Change<'_>]) -> Result<(), BackendError> {
        let mut writer = lock(&self.writer);
        self.store.check_known()?;
        let next = |change: &Change<'_>| -> (usize, usize) {
            let slice = SliceId::of(change.key());
            (run_of(slice), slice.index())
        };
        let mut order: Vec<&Change<'_>> = changes.iter().collect();
        order.sort_by_cached_key(|change| Spot::of(change.key()));
        let mut changed = BTreeMap::new();
        for of_run in order.chunk_by(|a, b| next(a).0 == next(b).0) {
            let (number, _) = next(of_run[0]);
            let nexts: Vec<Next<'_>> = of_run.iter().map(|change| Next::of(change)).collect();
            let mut it = Rewritten::default();
            let run = self.run(number);
            let done = rewrite(&self.store, (number, &run), &nexts, self.lengths, &mut it);
            changed.insert(number, it);
            if let Err(error) = done {
                // No map names them.
                writer.leftovers.extend(changed.into_values().flat_map(|it| it.made));
                writer.bound();
                return Err(error);
            }
        }
        self.commit(&mut writer, changed)
    }

    /// A note.
    pub(crate) fn note(&self, name: &str) -> Option<Vec<u8>> {
        lock(&self.notes).get(name).map(|(_, note)| note.clone())
    }

    /// Keeps a note.
    pub(crate) fn set_note(&self, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
        let mut writer = lock(&self.writer);
        self.store.check_known()?;
        let id = self.store.id();
        let object = Object { name: name::note(name, id), bytes: note::encode(bytes) };
        self.store.objects.create(&object)?;
        self.store.check_epoch()?;
        let before = lock(&self.notes).insert(name.to_owned(), (id, bytes.to_vec()));
        writer.leftovers.extend(before.map(|(id, _)| name::note(name, id)));
        Ok(())
    }

    /// Has the changes of each run count, of which all pages were created. A run whose map may not
    /// be the one in memory gets a new one, also where nothing else of it changes.
    fn commit(
        &self,
        writer: &mut Writer,
        changed: BTreeMap<usize, Rewritten>,
    ) -> Result<(), BackendError> {
        let successors: Vec<(usize, Run, Rewritten)> = changed
            .into_iter()
            .filter(|(run, it)| it.changes() || !writer.in_doubt[*run].is_empty())
            .map(|(run, mut it)| {
                let map = std::mem::take(&mut it.map);
                (run, Run { id: self.store.id(), map }, it)
            })
            .collect();
        if successors.is_empty() {
            return Ok(());
        }
        let object = |(run, Run { id, map }, _): &(usize, Run, Rewritten)| Object {
            name: name::map(*run, *id),
            bytes: map.encode(*run, *id),
        };
        let maps: Vec<Object> = successors.iter().map(object).collect();
        let created = self.store.objects.create_all(&maps).and_then(|()| self.store.check_epoch());
        for (number, run, it) in successors {
            if created.is_err() {
                let names = it.made.into_iter().chain([name::map(number, run.id)]);
                writer.in_doubt[number].extend(names);
                continue;
            }
            let mut now = self.runs[number].write().unwrap_or_else(PoisonError::into_inner);
            let before = std::mem::replace(&mut *now, Arc::new(run));
            drop(now);
            it.replaced.iter().for_each(|id| self.cache.remove(*id));
            writer.leftovers.push(name::map(number, before.id));
            writer.leftovers.extend(it.replaced.iter().map(|id| name::page(*id)));
            writer.leftovers.extend(it.dropped);
            writer.leftovers.append(&mut writer.in_doubt[number]);
        }
        writer.bound();
        created
    }

    /// Deletes some of what does not count: more than was left over since the last time. What
    /// cannot be deleted is tried again later.
    pub(crate) fn tidy(&self) {
        let writer = &mut *lock(&self.writer);
        if self.store.check_known().is_err() {
            return;
        }
        let added = writer.leftovers.len().saturating_sub(writer.kept);
        self.sweep(writer);
        let count = SWEPT_AT_ONCE + 2 * added;
        let names = writer.leftovers.split_off(writer.leftovers.len().saturating_sub(count));
        for some in names.chunks(LIST_AT_ONCE) {
            if self.store.objects.delete(some).is_err() {
                writer.leftovers.extend_from_slice(some);
            }
        }
        writer.kept = writer.leftovers.len();
    }

    /// Looks at some pages of earlier writers: those that did not count at the start are left over.
    fn sweep(&self, writer: &mut Writer) {
        let Some((after, named)) = &mut writer.sweep else { return };
        let Ok(names) = self.store.objects.list(PAGES, after, SWEPT_AT_ONCE) else { return };
        let is_left = |name: &&String| {
            let id = name::page_of(name);
            id.is_some_and(|id| id.epoch < self.store.epoch && !named.contains(&id))
        };
        writer.leftovers.extend(names.iter().filter(is_left).cloned());
        match names.last().filter(|_| names.len() == SWEPT_AT_ONCE) {
            Some(last) => after.clone_from(last),
            None => writer.sweep = None,
        }
    }
}

impl Writer {
    /// Forgets what is too much to be kept in memory.
    fn bound(&mut self) {
        self.leftovers.truncate(LEFTOVERS_MAX);
        self.in_doubt.iter_mut().for_each(|names| names.truncate(LEFTOVERS_MAX / RUNS));
    }
}

/// The slices of the run that `slice` is in.
pub(crate) fn group_of(slice: SliceId) -> SliceRange {
    let first = run_of(slice) * RUN_SLICES;
    SliceRange::new(first..first + RUN_SLICES)
}

/// The run that a slice is in.
fn run_of(slice: SliceId) -> usize {
    slice.index() / RUN_SLICES
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The objects of one writer of a run: their ids, and whether another writer has come.

use crate::name::{self, EPOCHS, Id};
use crate::objects::{Created, Object, Objects};
use crate::runs::{NOTES_RUN, slices_of};
use base::SliceRange;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tier::{BackendError, Failure};

/// Names that are listed at once.
pub(crate) const LIST_AT_ONCE: usize = 1000;
/// Times that epochs are tried for which others try too.
const TRIES_MAX: usize = 16;

/// Times that pages and maps are read or created: of thousands of requests one may fail.
const CALLS_MAX: usize = 3;

/// A name that does not count any more, after its run.
pub(crate) type Leftover = (usize, String);

/// The objects of one writer of a run, or of the notes.
pub(crate) struct Store {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) run: usize,
    pub(crate) epoch: u64,
    next: AtomicU64,
    /// Whether another writer was seen.
    is_deposed: AtomicBool,
    /// Whether this one does not write any more.
    is_left: AtomicBool,
}

impl Store {
    pub(crate) fn new(objects: Arc<dyn Objects>, run: usize, epoch: u64) -> Self {
        let (is_deposed, is_left) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { objects, run, epoch, next: AtomicU64::new(0), is_deposed, is_left }
    }

    /// An id that no object of the run has.
    pub(crate) fn id(&self) -> Id {
        Id { epoch: self.epoch, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }

    /// Ends this writer: it creates nothing more.
    pub(crate) fn leave(&self) {
        self.is_left.store(true, Ordering::Relaxed);
    }

    /// An error if another writer has come: what this one has created since may not count.
    pub(crate) fn check_epoch(&self) -> Result<(), BackendError> {
        check_epochs(&[self])?;
        self.check_known()
    }

    /// An error if another writer was seen, or this one was left: it creates nothing more.
    pub(crate) fn check_known(&self) -> Result<(), BackendError> {
        if self.is_deposed.load(Ordering::Relaxed) {
            let of = match self.run {
                NOTES_RUN => "its notes".to_owned(),
                run => shown(slices_of(run)),
            };
            let what = format!(
                "another cell has taken it over ({of}), and this one may not write there any more: \
                 end this cell, or give each a root of its own"
            );
            return Err(self.error(Failure::TakenOver, &what));
        }
        match self.is_left.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(not_led(&*self.objects, self.run)),
        }
    }

    /// An error that names the bucket.
    pub(crate) fn error(&self, failure: Failure, what: &str) -> BackendError {
        error(&*self.objects, failure, what)
    }
}

/// Takes an epoch of each of these runs, higher than all there are. Returns the names of those
/// before.
pub(crate) fn take(
    objects: &Arc<dyn Objects>,
    runs: &Range<usize>,
) -> Result<(Vec<Store>, Vec<Leftover>), BackendError> {
    for _ in 0..TRIES_MAX {
        let (mut epoch, mut before) = (1, Vec::new());
        for name in list_all(&**objects, &name::of_runs(EPOCHS, runs))? {
            let found = name::epoch_of(&name).filter(|(run, _)| runs.contains(run));
            if let Some((run, found)) = found {
                epoch = epoch.max(found + 1);
                before.push((run, name));
            }
        }
        let object = |run| Object { name: name::epoch(run, epoch), bytes: b"taken\n".to_vec() };
        let mut wanted: Vec<Object> = runs.clone().map(object).collect();
        let rest = wanted.split_off(1);
        // The first of them alone: of two that take the same runs at once, one gets them all.
        if objects.create(&wanted[0])? == Created::Now
            && !objects.create_all(&rest)?.contains(&Created::Before)
        {
            let store = |run| Store::new(objects.clone(), run, epoch);
            return Ok((runs.clone().map(store).collect(), before));
        }
    }
    let what = "other cells keep taking it over; use it for one, or for those of one ring";
    Err(error(&**objects, Failure::Transient, what))
}

/// Looks whether other writers have come, of which these learn.
///
/// # Errors
/// When that cannot be found out.
pub(crate) fn check_epochs(stores: &[&Store]) -> Result<(), BackendError> {
    let names = match stores {
        [] => return Ok(()),
        [store] => {
            let runs = store.run..store.run + 1;
            let own = name::epoch(store.run, store.epoch);
            store.objects.list(&name::of_runs(EPOCHS, &runs), &own, 1)?
        }
        [store, ..] => list_all(&*store.objects, EPOCHS)?,
    };
    for (run, epoch) in names.iter().filter_map(|name| name::epoch_of(name)) {
        let deposed = stores.iter().filter(|store| store.run == run && store.epoch < epoch);
        deposed.for_each(|store| store.is_deposed.store(true, Ordering::Relaxed));
    }
    Ok(())
}

/// Does it again where it was refused for a while, or not answered: the names and the bytes are the
/// same, so one that was created before is as good.
pub(crate) fn again<T>(call: impl Fn() -> Result<T, BackendError>) -> Result<T, BackendError> {
    for _ in 1..CALLS_MAX {
        match call() {
            Err(error) if is_passing(&error) => {}
            done => return done,
        }
    }
    call()
}

/// Whether a call may succeed when it is made again.
pub(crate) fn is_passing(error: &BackendError) -> bool {
    [Failure::Transient, Failure::Unknown].contains(&error.failure)
}

/// The error of a call about a run that this cell neither writes nor reads.
pub(crate) fn not_led(objects: &dyn Objects, run: usize) -> BackendError {
    let what = format!("{} of it are not led by this cell", shown(slices_of(run)));
    error(objects, Failure::NotLed, &what)
}

/// Slices as a message names them.
pub(crate) fn shown(slices: SliceRange) -> String {
    let Range { start, end } = slices.numbers();
    format!("slices {start} to {}", end.saturating_sub(1))
}

/// An error that names the bucket.
pub(crate) fn error(objects: &dyn Objects, failure: Failure, what: &str) -> BackendError {
    BackendError { failure, what: format!("{}: {what}", objects.name()) }
}

/// All names that begin with `prefix`.
pub(crate) fn list_all(objects: &dyn Objects, prefix: &str) -> Result<Vec<String>, BackendError> {
    let mut names: Vec<String> = Vec::new();
    loop {
        let after = names.last().map_or("", String::as_str);
        let more = objects.list(prefix, after, LIST_AT_ONCE)?;
        let is_last = more.len() < LIST_AT_ONCE;
        names.extend(more);
        if is_last {
            return Ok(names);
        }
    }
}

//! A run that is led here: what counts of it now, and what may.

use crate::name::{self, Id};
use crate::opening::{Found, Run};
use crate::rewrite::Rewritten;
use crate::store::Store;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tier::BackendError;

/// Pages of earlier writers that are looked at at once.
pub(crate) const SWEPT_AT_ONCE: usize = 128;
/// Names in doubt of a run, at most: what is beyond lies there until the run is led again.
const IN_DOUBT_MAX: usize = 1024;

/// A run, from when it is led here until it is left, or led again.
pub(crate) struct Led {
    pub(crate) store: Store,
    run: RwLock<Arc<Run>>,
    /// Names that failed calls have created, and that a map may name.
    in_doubt: Mutex<Vec<String>>,
    sweep: Mutex<Option<Sweep>>,
}

/// A look at the pages of earlier writers.
struct Sweep {
    /// The name up to which they were looked at.
    after: String,
    /// Those of them that counted when this writer began.
    named: HashSet<Id>,
}

/// A run with its next map, of which all pages were created.
pub(crate) struct Successor {
    pub(crate) led: Arc<Led>,
    pub(crate) run: Run,
    pub(crate) changes: Rewritten,
}

impl Led {
    /// As it was found.
    pub(crate) fn new(found: Found) -> Self {
        let Found { store, run, named } = found;
        let sweep = Mutex::new(Some(Sweep { after: String::new(), named }));
        Self { store, run: RwLock::new(Arc::new(run)), in_doubt: Mutex::default(), sweep }
    }

    /// What counts now.
    pub(crate) fn run(&self) -> Arc<Run> {
        self.run.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether its map may not be the one in memory.
    pub(crate) fn is_in_doubt(&self) -> bool {
        !lock(&self.in_doubt).is_empty()
    }

    /// Looks at some pages of earlier writers. Returns the names of those that do not count; `None`
    /// if all were looked at before.
    pub(crate) fn sweep(&self) -> Option<Result<Vec<String>, BackendError>> {
        let of_run = self.store.run..self.store.run + 1;
        let mut sweep = lock(&self.sweep);
        let Sweep { after, named } = sweep.as_mut()?;
        let prefix = name::of_runs(name::PAGES, &of_run);
        let mut names = match self.store.objects.list(&prefix, after, SWEPT_AT_ONCE) {
            Ok(names) => names,
            Err(error) => return Some(Err(error)),
        };
        let last = names.last().filter(|_| names.len() == SWEPT_AT_ONCE).cloned();
        names.retain(|name| {
            let id = name::page_of(name).map(|(_, id)| id);
            id.is_some_and(|id| id.epoch < self.store.epoch && !named.contains(&id))
        });
        match last {
            Some(last) => *after = last,
            None => *sweep = None,
        }
        Some(Ok(names))
    }
}

impl Successor {
    /// The names of its map, and of what was created for it.
    fn names(&self) -> impl Iterator<Item = String> {
        let map = name::map(self.led.store.run, self.run.id);
        self.changes.made.iter().cloned().chain([map])
    }

    /// Has it count from now on. Returns the names that do not count any more, and the pages.
    pub(crate) fn succeed(self) -> (Vec<String>, Vec<Id>) {
        let Self { led, run, changes } = self;
        let number = led.store.run;
        let mut now = led.run.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *now, Arc::new(run));
        drop(now);
        let mut names = vec![name::map(number, before.id)];
        names.extend(changes.replaced.iter().map(|id| name::page(number, *id)));
        names.extend(changes.dropped);
        names.append(&mut lock(&led.in_doubt));
        (names, changes.replaced)
    }

    /// Whether its map was created is not known: what was created for it is kept until a later map
    /// of its run counts.
    pub(crate) fn doubt(&self) {
        let mut in_doubt = lock(&self.led.in_doubt);
        in_doubt.extend(self.names());
        in_doubt.truncate(IN_DOUBT_MAX);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

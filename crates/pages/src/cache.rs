//! The pages that were read last.

use crate::name::Id;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A page, by its run and its id.
type Key = (usize, Id);

/// Pages in memory, of which the one that was not used for longest goes first.
pub(crate) struct Cache {
    bytes_max: usize,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    by_id: HashMap<Key, (Arc<Vec<u8>>, u64)>,
    bytes: usize,
    /// How often a page was used.
    uses: u64,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, pages: Mutex::default() }
    }

    /// A page that is in memory.
    pub(crate) fn get(&self, id: Key) -> Option<Arc<Vec<u8>>> {
        let pages = &mut *self.lock();
        pages.uses += 1;
        let (page, used) = pages.by_id.get_mut(&id)?;
        *used = pages.uses;
        Some(page.clone())
    }

    /// Keeps a page, unless it alone is too long.
    pub(crate) fn put(&self, id: Key, page: &Arc<Vec<u8>>) {
        let pages = &mut *self.lock();
        if page.len() > self.bytes_max || pages.by_id.contains_key(&id) {
            return;
        }
        while pages.bytes + page.len() > self.bytes_max {
            let oldest = pages.by_id.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(id, _)| *id) else { break };
            pages.remove(oldest);
        }
        pages.uses += 1;
        pages.bytes += page.len();
        pages.by_id.insert(id, (page.clone(), pages.uses));
    }

    /// Forgets a page that no map names any more.
    pub(crate) fn remove(&self, id: Key) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    fn remove(&mut self, id: Key) {
        if let Some((page, _)) = self.by_id.remove(&id) {
            self.bytes -= page.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_was_used_last_within_its_bytes() {
        let cache = Cache::new(250);
        let id = |number: u64| (number as usize % 2, Id { epoch: 1, number: number / 2 });
        let page = |bytes| Arc::new(vec![0; bytes]);
        (0..2).for_each(|number| cache.put(id(number), &page(100)));
        assert!(cache.get(id(0)).is_some());
        cache.put(id(2), &page(100));
        let is_there = |number| cache.get(id(number)).is_some();
        assert_eq!([is_there(0), is_there(1), is_there(2)], [true, false, true]);
        cache.put(id(3), &page(251));
        assert!(!is_there(3) && is_there(0), "too long for it");
        cache.remove(id(0));
        cache.put(id(4), &page(150));
        assert!(is_there(2) && is_there(4) && cache.lock().bytes == 250);
    }
}

//! How changes of the keys of one run become new pages, and a new map that names them.

use crate::map::{Entry, Map};
use crate::name::{self, Id};
use crate::objects::{Object, Objects};
use crate::opening::Run;
use crate::page::{self, Content, Row, Spot};
use crate::store::{Store, again, is_passing};
use tier::{BackendError, Change, Failure};

/// Pages that are read and written at once.
const PAGES_AT_ONCE: usize = 8;
/// A page that is written and takes no more than this part of what it may is joined with the next.
const SHORT_PART: usize = 4;

/// A change of one key.
pub(crate) struct Next<'a> {
    pub(crate) spot: Spot,
    /// `None`: the key has no record any more.
    pub(crate) record: Option<&'a [u8]>,
}

impl<'a> Next<'a> {
    /// Of a change.
    pub(crate) fn of(change: &Change<'a>) -> Self {
        let (key, record) = match *change {
            Change::Put { key, record } => (key, Some(record)),
            Change::Delete { key } => (key, None),
        };
        Self { spot: Spot::of(key), record }
    }
}

/// How long pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lengths {
    /// A page is cut where it would be longer.
    pub(crate) page_bytes: usize,
    /// A longer record is an object of its own.
    pub(crate) apart_from: usize,
}

impl Lengths {
    /// Whether a record of this many bytes is an object of its own.
    pub(crate) fn is_apart(self, bytes: usize) -> bool {
        bytes > self.apart_from
    }
}

/// A run after its changes.
#[derive(Default)]
pub(crate) struct Rewritten {
    pub(crate) map: Map,
    /// Objects that were created, and count once the map does.
    pub(crate) made: Vec<String>,
    /// Pages that do not count any more then, and records that had objects of their own.
    pub(crate) replaced: Vec<Id>,
    pub(crate) dropped: Vec<String>,
}

impl Rewritten {
    /// Whether the map is another one.
    pub(crate) fn changes(&self) -> bool {
        !self.made.is_empty() || !self.replaced.is_empty()
    }
}

/// Creates the pages of `run` with these changes, of at least one key, in the order of their keys.
/// `made` has what was created also where this fails.
pub(crate) fn rewrite(
    store: &Store,
    run: &Run,
    changes: &[Next<'_>],
    lengths: Lengths,
    into: &mut Rewritten,
) -> Result<(), BackendError> {
    let entries = &run.map.entries;
    let place = |next: &Next<'_>| run.map.find(&next.spot).unwrap_or(0);
    let groups: Vec<&[Next<'_>]> = changes.chunk_by(|a, b| place(a) == place(b)).collect();
    let places: Vec<usize> = groups.iter().map(|group| place(&group[0])).collect();
    let (mut kept, mut short) = (0, None);
    for (places_now, groups) in places.chunks(PAGES_AT_ONCE).zip(groups.chunks(PAGES_AT_ONCE)) {
        let ids: Vec<Id> =
            places_now.iter().filter_map(|place| entries.get(*place)).map(|it| it.page).collect();
        let names: Vec<String> = ids.iter().map(|id| name::page(store.run, *id)).collect();
        let mut before = ids.iter().zip(again(|| store.objects.get_all(&names))?);
        let mut objects = Vec::new();
        for (place, group) in places_now.iter().zip(groups) {
            let rows = match before.next() {
                Some((id, object)) => rows_of(store, (*id, run, *place), object)?,
                None => Vec::new(),
            };
            into.map.entries.extend_from_slice(&entries[kept..(*place).min(entries.len())]);
            kept = (place + 1).min(entries.len());
            let first = entries.get(*place).map(|entry| entry.first.clone());
            let is_changed = short.is_some() || has_changed(&rows, group);
            if let (Some(entry), false) = (entries.get(*place), is_changed) {
                into.map.entries.push(entry.clone());
                continue;
            }
            into.replaced.extend(entries.get(*place).map(|entry| entry.page));
            let (first, mut all) = short.take().unwrap_or((first.unwrap_or_default(), Vec::new()));
            all.extend(merge(store, rows, group, lengths, (&mut objects, &mut into.dropped)));
            if let (Some(next), true) = (entries.get(kept), is_short(&all, lengths)) {
                if places.binary_search(&kept).is_ok() {
                    short = Some((first, all));
                    continue;
                }
                if let Some(rows) = read_rows(store, (next.page, run, kept)) {
                    all.extend(rows);
                    into.replaced.push(next.page);
                    kept += 1;
                }
            }
            put_pages(store, &all, (first, lengths), into, &mut objects);
        }
        into.made.extend(objects.iter().map(|object| object.name.clone()));
        create_all(&*store.objects, &objects)?;
    }
    into.map.entries.extend_from_slice(&entries[kept..]);
    // The first page has whatever comes before its own first key.
    if let Some(entry) = into.map.entries.first_mut() {
        entry.first = Spot::default();
    }
    debug_assert!(into.map.entries.windows(2).all(|two| two[0].first < two[1].first));
    Ok(())
}

/// Creates objects at once, and one by one where some of them were refused for a while, or not
/// answered: a service that refuses some of many requests would refuse one of all each time. The
/// names and the bytes are the same, so one that was created before is as good.
pub(crate) fn create_all(into: &dyn Objects, objects: &[Object]) -> Result<(), BackendError> {
    match into.create_all(objects) {
        Err(error) if is_passing(&error) => {
            objects.iter().try_for_each(|it| again(|| into.create(it).map(drop)))
        }
        done => done.map(drop),
    }
}

/// The rows of a page that the map of a run names at a place: all of them belong there.
fn rows_of(
    store: &Store,
    (id, run, place): (Id, &Run, usize),
    object: Option<Vec<u8>>,
) -> Result<Vec<Row>, BackendError> {
    let name = name::page(store.run, id);
    let Some(object) = object else { return Err(gone(store, &name)) };
    let wrong = || store.error(Failure::Corrupt, &format!("{name} is not what was written"));
    let belongs = |row: &Row| run.map.find(&row.spot).unwrap_or(0) == place;
    let rows = page::decode((store.run, id), &object);
    rows.filter(|rows| rows.iter().all(belongs)).ok_or_else(wrong)
}

/// The rows of a page, if it can be read now.
fn read_rows(store: &Store, of: (Id, &Run, usize)) -> Option<Vec<Row>> {
    let object = store.objects.get(&name::page(store.run, of.0)).ok()?;
    rows_of(store, of, object).ok()
}

/// Whether a page of these rows is not worth an object.
fn is_short(rows: &[Row], lengths: Lengths) -> bool {
    let bytes: usize = rows.iter().map(Row::bytes).sum();
    !rows.is_empty() && bytes <= lengths.page_bytes / SHORT_PART
}

/// The error where an object that a map or a page names is not there.
pub(crate) fn gone(store: &Store, name: &str) -> BackendError {
    match store.check_known().and_then(|()| store.check_epoch()) {
        Err(error) => error,
        Ok(()) => store.error(Failure::Corrupt, &format!("{name} is not there, and should be")),
    }
}

/// Whether the changes make anything else of these rows.
fn has_changed(rows: &[Row], changes: &[Next<'_>]) -> bool {
    let has = |spot: &Spot| rows.binary_search_by(|row| row.spot.cmp(spot)).is_ok();
    changes.iter().any(|next| next.record.is_some() || has(&next.spot))
}

/// The rows with the changes; both are in order. Records that are long become objects.
fn merge(
    store: &Store,
    rows: Vec<Row>,
    changes: &[Next<'_>],
    lengths: Lengths,
    (objects, dropped): (&mut Vec<Object>, &mut Vec<String>),
) -> Vec<Row> {
    let mut merged = Vec::with_capacity(rows.len() + changes.len());
    let mut rows = rows.into_iter().peekable();
    for Next { spot, record } in changes {
        while let Some(row) = rows.next_if(|row| row.spot < *spot) {
            merged.push(row);
        }
        if let Some(row) = rows.next_if(|row| row.spot == *spot)
            && let Content::Apart(id) = row.content
        {
            dropped.push(name::value(row.key(), id));
        }
        let Some(record) = record else { continue };
        let content = match lengths.is_apart(record.len()) {
            false => Content::Here(record.to_vec()),
            true => {
                let id = store.id();
                let name = name::value(spot.key(), id);
                objects.push(Object { name, bytes: record.to_vec() });
                Content::Apart(id)
            }
        };
        merged.push(Row { spot: spot.clone(), content });
    }
    merged.extend(rows);
    merged
}

/// Cuts rows into pages. The first of them begins at `first`.
fn put_pages(
    store: &Store,
    rows: &[Row],
    (first, lengths): (Spot, Lengths),
    into: &mut Rewritten,
    objects: &mut Vec<Object>,
) {
    if rows.is_empty() {
        return;
    }
    let cuts = page::cuts(rows, lengths.page_bytes);
    let begins = std::iter::once((0, first)).chain(cuts.iter().cloned());
    let ends = cuts.iter().map(|(at, _)| *at).chain([rows.len()]);
    for ((begin, first), end) in begins.zip(ends) {
        let id = store.id();
        let bytes = page::encode((store.run, id), &rows[begin..end]);
        objects.push(Object { name: name::page(store.run, id), bytes });
        into.map.entries.push(Entry { first, page: id });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryObjects;
    use base::SliceId;
    use std::sync::Arc;

    /// A key of a slice among these.
    fn key(slices: std::ops::Range<usize>) -> Vec<u8> {
        let mut keys = (0..).map(|number: u32| format!("key-{number}").into_bytes());
        let is_one = |key: &Vec<u8>| slices.contains(&SliceId::of(key).index());
        keys.find(is_one).expect("there are many keys")
    }

    #[test]
    fn a_page_with_a_key_of_another_place_is_not_what_was_written() {
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        let store = Store::new(objects.clone(), 0, 1);
        let [first, second] = [1, 2].map(|number| Id { epoch: 1, number });
        let [low, high] = [key(0..100), key(200..256)];
        let lengths = Lengths { page_bytes: 1 << 16, apart_from: 1 << 16 };
        for (id, of) in [(first, &low), (second, &low)] {
            let row = Row { spot: Spot::of(of), content: Content::Here(b"record".to_vec()) };
            let (name, bytes) = (name::page(0, id), page::encode((0, id), &[row]));
            objects.create(&Object { name, bytes }).expect("nothing fails");
        }
        let entries = vec![
            Entry { first: Spot::default(), page: first },
            Entry { first: Spot::first_of(200), page: second },
        ];
        let run = Run { id: first, map: Map { entries } };
        let rewritten = |key: &[u8]| {
            let next = Next { spot: Spot::of(key), record: Some(b"other") };
            let mut into = Rewritten::default();
            rewrite(&store, &run, &[next], lengths, &mut into).map(|()| into.map.entries.len())
        };
        let failed = rewritten(&high).expect_err("its page has another's key").failure;
        assert_eq!(failed, Failure::Corrupt);
        assert_eq!(rewritten(&low), Ok(2), "no page is joined with it");
    }
}

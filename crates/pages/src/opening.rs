//! How a writer begins: it takes epochs, finds what counts, and makes that its own.
//!
//! ```text
//! epochs taken -> maps listed -> the highest of each run read -> each created again, in its epoch
//!              -> no higher epoch? -> led
//! ```
//!
//! A writer before this one that still runs looks for a higher epoch after each map, before it
//! says that the map counts. So each map that it has said counts is listed here, and none that it
//! creates later is higher than that of this epoch. A writer that begins looks too: else it would
//! lead what another one leads already.

use crate::map::Map;
use crate::name::{self, FORMAT, Id, MAPS, NOTES};
use crate::note;
use crate::objects::{Created, Object, Objects};
use crate::runs::{NOTES_RUN, RUNS};
use crate::store::{Leftover, Store, again, check_epochs, error, list_all, take};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use tier::{BackendError, Failure};

/// What the object that names the format says.
const FORMAT_TEXT: &[u8] = b"volvox: keys in pages, format 2, 64 runs\n";

/// A run of slices as it is now.
#[derive(Debug)]
pub(crate) struct Run {
    /// The id of its map.
    pub(crate) id: Id,
    pub(crate) map: Map,
}

/// A run as its writer has found it.
pub(crate) struct Found {
    pub(crate) store: Store,
    pub(crate) run: Run,
    /// The pages of earlier writers that count.
    pub(crate) named: HashSet<Id>,
}

/// Notes by their names, each with its id.
pub(crate) type Notes = BTreeMap<String, (Id, Vec<u8>)>;

/// What a writer has found.
pub(crate) struct Opened {
    pub(crate) runs: Vec<Found>,
    /// Where [`NOTES_RUN`] is among its runs.
    pub(crate) notes: Option<(Store, Notes)>,
    pub(crate) leftovers: Vec<Leftover>,
}

/// Takes runs over, of which there is one at least, to be the only one that writes there. The notes
/// are taken over with [`NOTES_RUN`].
pub(crate) fn open(
    objects: &Arc<dyn Objects>,
    runs: &Range<usize>,
) -> Result<Opened, BackendError> {
    let (mut stores, mut leftovers) = take(objects, runs)?;
    let of_notes = stores.pop_if(|store| store.run == NOTES_RUN);
    let mut own = Vec::new();
    let mut maps = maps(&**objects, runs, &mut leftovers)?;
    let mut found = Vec::new();
    for store in stores {
        let (id, map) = (store.id(), maps.remove(&store.run).unwrap_or_default());
        own.push(Object { name: name::map(store.run, id), bytes: map.encode(store.run, id) });
        let named = map.entries.iter().map(|entry| entry.page).collect();
        found.push(Found { store, run: Run { id, map }, named });
    }
    let mut kept = Notes::new();
    if let Some(store) = &of_notes {
        let mut old = Vec::new();
        for (of, (before, note)) in notes(&**objects, &mut old)? {
            let id = store.id();
            old.push((of.clone(), name::note(&of, before)));
            own.push(Object { name: name::note(&of, id), bytes: note::encode(&note) });
            kept.insert(of, (id, note));
        }
        leftovers.extend(old.into_iter().map(|(_, name)| (NOTES_RUN, name)));
    }
    again(|| objects.create_all(&own))?;
    let stores: Vec<&Store> = found.iter().map(|it| &it.store).chain(&of_notes).collect();
    check_epochs(&stores)?;
    stores.iter().try_for_each(|store| store.check_known())?;
    Ok(Opened { runs: found, notes: of_notes.map(|store| (store, kept)), leftovers })
}

/// The maps of these runs that count, as far as there are any. All there are now are left over.
fn maps(
    objects: &dyn Objects,
    runs: &Range<usize>,
    leftovers: &mut Vec<Leftover>,
) -> Result<BTreeMap<usize, Map>, BackendError> {
    let mut of_all = Vec::new();
    let mut newest = newest(objects, &name::of_runs(MAPS, runs), name::map_of, &mut of_all)?;
    newest.retain(|run, _| runs.contains(run));
    of_all.retain(|(run, _)| runs.contains(run));
    leftovers.append(&mut of_all);
    let mut maps = BTreeMap::new();
    for (run, (id, bytes)) in read(objects, newest)? {
        let map = (run < RUNS).then(|| Map::decode(run, id, &bytes)).flatten();
        let wrong =
            || error(objects, Failure::Corrupt, &format!("{} is no map", name::map(run, id)));
        maps.insert(run, map.ok_or_else(wrong)?);
        leftovers.push((run, name::map(run, id)));
    }
    Ok(maps)
}

/// The notes that count.
pub(crate) fn notes(
    objects: &dyn Objects,
    leftovers: &mut Vec<(String, String)>,
) -> Result<Notes, BackendError> {
    let notes = newest(objects, NOTES, name::note_of, leftovers)?;
    let mut found = BTreeMap::new();
    for (of, (id, bytes)) in read(objects, notes)? {
        let wrong =
            || error(objects, Failure::Corrupt, &format!("{} is no note", name::note(&of, id)));
        let note = note::decode(&bytes).ok_or_else(wrong)?;
        found.insert(of, (id, note));
    }
    Ok(found)
}

/// An error if something else is there, or if objects can be created again.
pub(crate) fn check_format(objects: &dyn Objects) -> Result<(), BackendError> {
    let error = |what: &str| Err(error(objects, Failure::Permanent, what));
    let format = Object { name: FORMAT.to_owned(), bytes: FORMAT_TEXT.to_vec() };
    match objects.get(FORMAT)? {
        Some(text) if text == FORMAT_TEXT => {}
        Some(_) => return error("it was written in another format; give the tier another root"),
        None if !objects.list("", "", 1)?.is_empty() => {
            return error("it has objects that are not of a tier; give the tier a root of its own");
        }
        // Where another cell begins too, one of them creates it.
        None => _ = objects.create(&format)?,
    }
    match objects.create(&format)? {
        Created::Before => Ok(()),
        Created::Now => error(
            "it creates an object again that is there, so what counts could be overwritten: use a \
             service that honours If-None-Match",
        ),
    }
}

/// The highest id of each thing whose names begin with `prefix`; the others are left over.
fn newest<T: Ord + Clone>(
    objects: &dyn Objects,
    prefix: &str,
    parse: impl Fn(&str) -> Option<(T, Id)>,
    leftovers: &mut Vec<(T, String)>,
) -> Result<BTreeMap<T, (Id, String)>, BackendError> {
    let mut newest: BTreeMap<T, (Id, String)> = BTreeMap::new();
    for name in list_all(objects, prefix)? {
        let wrong = || error(objects, Failure::Corrupt, &format!("{name} is no name of a tier"));
        let (of, id) = parse(&name).ok_or_else(wrong)?;
        if newest.get(&of).is_some_and(|(before, _)| *before > id) {
            leftovers.push((of, name));
        } else if let Some((_, before)) = newest.insert(of.clone(), (id, name)) {
            leftovers.push((of, before));
        }
    }
    Ok(newest)
}

/// Their bytes.
fn read<T: Ord + Clone>(
    objects: &dyn Objects,
    names: BTreeMap<T, (Id, String)>,
) -> Result<BTreeMap<T, (Id, Vec<u8>)>, BackendError> {
    let list: Vec<String> = names.values().map(|(_, name)| name.clone()).collect();
    let bytes = again(|| objects.get_all(&list))?;
    let mut read = BTreeMap::new();
    for ((of, (id, name)), bytes) in names.into_iter().zip(bytes) {
        let gone = || {
            let what = format!("{name} was listed, and is gone: does another cell write there?");
            error(objects, Failure::Transient, &what)
        };
        read.insert(of, (id, bytes.ok_or_else(gone)?));
    }
    Ok(read)
}

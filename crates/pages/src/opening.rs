//! How a writer begins: it takes an epoch, finds what counts, and makes that its own.
//!
//! ```text
//! epoch taken -> maps listed -> the highest of each run read -> each created again, in this epoch
//! ```
//!
//! A writer before this one that still runs looks for a higher epoch after each map, before it
//! says that the map counts. So each map that it has said counts is listed here, and none that it
//! creates later is higher than those of this epoch.

use crate::map::Map;
use crate::name::{self, FORMAT, Id, MAPS, NOTES};
use crate::note;
use crate::objects::{Created, Object, Objects};
use crate::store::{Store, error, list_all};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tier::{BackendError, Failure};

/// Runs of slices, each of which has a map.
pub(crate) const RUNS: usize = 64;
/// What the object that names the format says.
const FORMAT_TEXT: &[u8] = b"volvox: keys in pages, format 1, 64 runs\n";

/// A run of slices as it is now.
#[derive(Debug)]
pub(crate) struct Run {
    /// The id of its map.
    pub(crate) id: Id,
    pub(crate) map: Map,
}

/// What a writer has found.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) runs: Vec<Run>,
    pub(crate) notes: BTreeMap<String, (Id, Vec<u8>)>,
    /// Names that do not count any more.
    pub(crate) leftovers: Vec<String>,
    /// The pages of earlier writers that count.
    pub(crate) named: HashSet<Id>,
}

/// Takes a bucket over, to be the only one that writes there.
pub(crate) fn open(objects: Arc<dyn Objects>) -> Result<Opened, BackendError> {
    let (store, mut leftovers) = Store::begin(objects)?;
    let maps = newest(&*store.objects, MAPS, name::map_of, &mut leftovers)?;
    let maps = read(&*store.objects, maps)?;
    let notes = notes(&*store.objects, &mut leftovers)?;
    let mut found: BTreeMap<usize, Map> = BTreeMap::new();
    for (run, (id, bytes)) in maps {
        let map = (run < RUNS).then(|| Map::decode(run, id, &bytes)).flatten();
        let wrong = || store.error(Failure::Corrupt, &format!("{} is no map", name::map(run, id)));
        found.insert(run, map.ok_or_else(wrong)?);
        leftovers.push(name::map(run, id));
    }
    let named = found.values().flat_map(|map| map.entries.iter().map(|it| it.page)).collect();
    let runs: Vec<Run> = (0..RUNS)
        .map(|run| Run { id: store.id(), map: found.remove(&run).unwrap_or_default() })
        .collect();
    let object = |(run, Run { id, map }): (usize, &Run)| Object {
        name: name::map(run, *id),
        bytes: map.encode(run, *id),
    };
    let mut own: Vec<Object> = runs.iter().enumerate().map(object).collect();
    let mut kept = BTreeMap::new();
    for (of, (old, note)) in notes {
        let id = store.id();
        leftovers.push(name::note(&of, old));
        own.push(Object { name: name::note(&of, id), bytes: note::encode(&note) });
        kept.insert(of, (id, note));
    }
    store.objects.create_all(&own)?;
    store.check_epoch()?;
    Ok(Opened { store, runs, notes: kept, leftovers, named })
}

/// The notes that count, each with its id.
pub(crate) fn notes(
    objects: &dyn Objects,
    leftovers: &mut Vec<String>,
) -> Result<BTreeMap<String, (Id, Vec<u8>)>, BackendError> {
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
    leftovers: &mut Vec<String>,
) -> Result<BTreeMap<T, (Id, String)>, BackendError> {
    let mut newest: BTreeMap<T, (Id, String)> = BTreeMap::new();
    for name in list_all(objects, prefix)? {
        let wrong = || error(objects, Failure::Corrupt, &format!("{name} is no name of a tier"));
        let (of, id) = parse(&name).ok_or_else(wrong)?;
        if newest.get(&of).is_some_and(|(before, _)| *before > id) {
            leftovers.push(name);
        } else if let Some((_, before)) = newest.insert(of, (id, name)) {
            leftovers.push(before);
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
    let bytes = objects.get_all(&list)?;
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

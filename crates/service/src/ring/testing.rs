//! What the tests of this room share: a cell of a ring, and maps.

use super::cell::{Finding, RingCell, RingHost, RingIdentity};
use super::copy_reads::CopyReads;
use super::keeping::Keeper;
use super::routes::{Parts, Routes};
use crate::cell::Cell;
use crate::testing::{NOW, VALUE_BYTES_MAX, cell_with_log};
use backend::MemoryBackend;
use base::{ExpiryClock, SliceId, Version};
use ring::{Addresses, CellId, Command, Incarnation, Map, Started};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use tier::{Ack, Recovered, Rules, TierConfig};

/// Steps of a keeper until a cell leads.
const STEPS_MAX: usize = 10_000;

/// The first cell of ring 7, with 64 MiB. `find` takes what it finds.
pub(super) fn first_cell(find: impl Fn(Finding) + Send + Sync + 'static) -> Arc<RingCell> {
    first_cell_of(cell_with_log(64 << 20, true), find)
}

/// The first cell of ring 7, with this memory.
pub(super) fn first_cell_of(
    cell: Arc<Cell>,
    find: impl Fn(Finding) + Send + Sync + 'static,
) -> Arc<RingCell> {
    let identity = RingIdentity { ring: 7, cell: CellId(1), incarnation: 1 };
    let secret = peer::Secret::new(&[9; 32]).expect("long enough");
    let expiry = Arc::new(ExpiryClock::new(0, 0));
    let host = RingHost {
        nonce: Box::new(|| [5; _]),
        find: Box::new(find),
        expiry,
        copy_reads: CopyReads::default(),
    };
    RingCell::new(cell, identity, secret, host).expect("it has a log")
}

/// The first cell above a tier: in memory, with the smallest journal, and nothing below yet.
pub(super) fn first_cell_above_a_tier() -> Arc<RingCell> {
    first_cell_with(&[])
}

/// The same, at `os` but for keys with these prefixes.
pub(super) fn first_cell_with(prefixes: &[&str]) -> Arc<RingCell> {
    let prefixes = prefixes.iter().map(|it| it.parse().expect("a prefix and a level")).collect();
    let cell = cell_with_log(64 << 20, true);
    let disk: Arc<dyn tier::Disk> = Arc::new(MemoryDisk::default());
    let config = TierConfig {
        adopts: false,
        in_ring: true,
        rules: Arc::new(Rules::new(Ack::Os, prefixes).expect("they differ")),
        salvages: false,
        journal_bytes: 40 << 20,
        index_bytes: 4 << 20,
        value_bytes_max: VALUE_BYTES_MAX,
        age_ns: 0,
        lookups_max: 64,
        missing_max: 100,
    };
    let below = Arc::new(MemoryBackend::new());
    let first = |_: SliceId| Version::ZERO;
    let recovered = Recovered::find(&disk, below, config, ([7; _], [9; _]), first);
    cell.put_above(recovered.expect("a new journal"), NOW).expect("it begins");
    // Its segments are made: there is room for changes.
    cell.tiered().into_iter().for_each(|tiered| tiered.sync(NOW));
    first_cell_of(cell, |_| ())
}

/// Files in memory.
#[derive(Default)]
struct MemoryDisk(Mutex<BTreeMap<String, Arc<MemoryFile>>>);

#[derive(Default)]
struct MemoryFile(Mutex<Vec<u8>>);

impl MemoryFile {
    fn bytes_of(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("nobody panics")
    }
}

impl MemoryDisk {
    fn files(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<MemoryFile>>> {
        self.0.lock().expect("nobody panics")
    }
}

impl tier::Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn tier::File>> {
        Ok(self.files().entry(name.to_owned()).or_default().clone())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files().remove(name).map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

impl tier::File for MemoryFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut file, at) = (self.bytes_of(), at as usize);
        let end = at + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[at..end].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let (file, at) = (self.bytes_of(), at as usize);
        let from = file.get(at..at + into.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(from);
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes_of().len() as u64)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.bytes_of().resize(bytes as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What a cell has found since the last look, as far as a test wants to know it.
pub(super) struct Found<T>(Arc<Mutex<Vec<T>>>);

impl<T> Found<T> {
    pub(super) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics"))
    }
}

/// The same cell, and what `wanted` picks of what it finds.
pub(super) fn first_cell_finding<T: Send + 'static>(
    wanted: impl Fn(Finding) -> Option<T> + Send + Sync + 'static,
) -> (Arc<RingCell>, Found<T>) {
    let found = Arc::new(Mutex::new(Vec::new()));
    let finds = found.clone();
    let find = move |finding| finds.lock().expect("nobody panics").extend(wanted(finding));
    (first_cell(find), Found(found))
}

/// The routes of `ring` by `map`: it serves what it leads.
pub(super) fn routes_of(ring: &RingCell, map: &Map) -> Arc<Routes> {
    let parts = Parts {
        terms: &ring.terms,
        grants: &ring.grants,
        serves: &|_| true,
        copies: &|_| Some(0),
        lost_at: &|_| 0,
    };
    Arc::new(Routes::of(map, ring.identity.cell, &parts))
}

/// The map of a ring of N cells with two copies, which has formed.
pub(super) fn formed(cells: u32) -> Arc<Map> {
    formed_with(cells, 2)
}

/// The same, with this number of copies.
pub(super) fn formed_with(cells: u32, copies: u8) -> Arc<Map> {
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let addresses = Addresses { control: at, links: at, clients: at };
    let started = Started::new(Incarnation(1), addresses);
    let mut map = Map::new(7, cells, copies);
    for token in 0..u64::from(cells) {
        map.apply(&Command::Join { token, started });
    }
    Arc::new(map)
}

/// The only cell of a ring, which leads everything.
pub(super) fn only_cell() -> Arc<RingCell> {
    let ring = first_cell(|_| ());
    leads_all(&ring);
    ring
}

/// The map of a ring of one cell has come to it, and its leases last for ever.
pub(super) fn leads_all(ring: &Arc<RingCell>) {
    leads_all_by(ring, &formed(1));
}

/// The same, with `map`.
pub(super) fn leads_all_by(ring: &Arc<RingCell>, map: &Arc<Map>) {
    let mut keeper = Keeper::new(ring.clone(), Arc::new(Map::new(7, 1, 1)), NOW);
    keeper.adopt(map.clone(), BTreeMap::new(), NOW);
    // Above a tier, what an earlier life has journaled is void first.
    for _ in 0..STEPS_MAX {
        if map.ranges.iter().all(|range| ring.leads(range)) {
            break;
        }
        keeper.tend(NOW);
        // Its journal takes changes only of what it leads.
        ring.cell.tiered().into_iter().for_each(|tiered| tiered.sync(NOW));
    }
    map.ranges.iter().for_each(|range| ring.extend(range.id, range.epoch, u64::MAX));
}

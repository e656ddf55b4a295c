//! The backend: its calls as transactions, and a database that is opened again after a failure.

use super::errors::Doing;
use super::pages::Pages;
use crate::failure::{check_key, error, failure_of};
use redb::{
    Builder, Database, Durability, Error, Key, ReadOnlyTable, ReadableDatabase, TableDefinition,
    TableError, WriteTransaction,
};
use std::fmt;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{PoisonError, RwLock};
use tier::{Backend, BackendError, Change, Disk, Failure, See};

/// The records by their keys.
const KEYS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("keys");
/// The notes by their names.
const NOTES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("notes");

/// Keys and their records that are shown of one transaction, at most, and bytes of those, unless
/// one is longer.
const SHOWN_MAX: usize = 1024;
const SHOWN_BYTES_MAX: usize = 1 << 20;

/// A part of the keys, with their records.
type Part = Vec<(Vec<u8>, Vec<u8>)>;

/// Keeps records in a database of redb.
pub struct RedbBackend {
    name: String,
    pages: Pages,
    cache_bytes: usize,
    /// Locked for writing to open and close it, else for reading.
    opened: RwLock<Opened>,
}

struct Opened {
    /// `None` after a failure, until the next call.
    database: Option<Database>,
    /// How often it was opened.
    opens: u64,
}

impl RedbBackend {
    /// Opens the database in a file of `disk`, or creates it. `cache_bytes` is the most memory that
    /// it takes for pages; a transaction that changes more writes them early. After a crash this
    /// reads a few pages, or the whole file where an earlier release has written to it last.
    ///
    /// Nothing else may have the file open: the lock of the directory excludes other processes, and
    /// the caller opens it once.
    ///
    /// # Errors
    /// When the file cannot be opened, or holds something else.
    pub fn open(disk: &dyn Disk, file: &str, cache_bytes: usize) -> Result<Self, BackendError> {
        let name = format!("redb {file}");
        let opened = disk.open(file).and_then(|opened| disk.sync_directory().map(|()| opened));
        let opened = opened.map_err(|cause| {
            error(&name, failure_of(&cause), format!("cannot open its file: {cause}"))
        })?;
        let closed = RwLock::new(Opened { database: None, opens: 0 });
        let backend = Self { name, pages: Pages::new(opened), cache_bytes, opened: closed };
        backend.reopen()?;
        Ok(backend)
    }

    fn doing<'a>(&'a self, what: &'a str) -> Doing<'a> {
        Doing { name: &self.name, what }
    }

    /// Opens the database if it is closed: one attempt.
    fn reopen(&self) -> Result<(), BackendError> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if opened.database.is_some() {
            return Ok(());
        }
        let doing = self.doing("open it");
        self.pages.settle().map_err(|cause| doing.refused(Error::Io(cause)))?;
        let open = || {
            let mut builder = Builder::new();
            let pages = self.pages.clone();
            builder.set_cache_size(self.cache_bytes).create_with_backend(pages)
        };
        let database = catch_unwind(AssertUnwindSafe(open));
        let database = database.map_err(|panic| doing.panicked(&*panic))?;
        opened.database = Some(database.map_err(|cause| doing.refused(cause))?);
        opened.opens += 1;
        Ok(())
    }

    /// Does `work` with the open database. Closes it if that fails, unless it would fail again.
    fn with<T>(
        &self,
        doing: Doing<'_>,
        work: impl FnOnce(&Database) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let mut opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        if opened.database.is_none() {
            drop(opened);
            self.reopen()?;
            opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        }
        let Some(database) = &opened.database else { return Err(doing.refused(Error::PreviousIo)) };
        let done = catch_unwind(AssertUnwindSafe(|| work(database)));
        let done = done.unwrap_or_else(|panic| Err(doing.panicked(&*panic)));
        let opens = opened.opens;
        drop(opened);
        done.inspect_err(|failed| {
            if failed.failure != Failure::Permanent {
                self.close(opens);
            }
        })
    }

    /// Closes the database that was opened as number `opens`.
    fn close(&self, opens: u64) {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        if opened.opens == opens
            && let Some(database) = opened.database.take()
        {
            shut(database);
        }
    }

    /// One transaction, which is durable when this returns.
    fn write(
        &self,
        doing: Doing<'_>,
        work: impl FnOnce(&WriteTransaction) -> Result<(), Error>,
    ) -> Result<(), BackendError> {
        self.with(doing, |database| {
            let begin = || -> Result<WriteTransaction, Error> {
                let mut transaction = database.begin_write()?;
                transaction.set_durability(Durability::Immediate)?;
                // Without it an open after a crash reads the whole file.
                transaction.set_quick_repair(true);
                work(&transaction)?;
                Ok(transaction)
            };
            let transaction = begin().map_err(|cause| doing.refused(cause))?;
            transaction.commit().map_err(|cause| doing.doubted(cause))
        })
    }

    /// Hands the record or note to `found`, if there is one.
    fn read<'k, K: Key + 'static>(
        &self,
        doing: Doing<'_>,
        table: TableDefinition<'_, K, &'static [u8]>,
        key: K::SelfType<'k>,
        found: impl FnOnce(&[u8]),
    ) -> Result<bool, BackendError> {
        let read = |database: &Database| -> Result<bool, Error> {
            let table: ReadOnlyTable<K, &[u8]> = match database.begin_read()?.open_table(table) {
                // Nothing was written yet.
                Err(TableError::TableDoesNotExist(_)) => return Ok(false),
                table => table?,
            };
            let Some(guard) = table.get(key)? else { return Ok(false) };
            found(guard.value());
            Ok(true)
        };
        self.with(doing, |database| read(database).map_err(|cause| doing.refused(cause)))
    }
}

/// The keys after `before`, as many as are shown at once.
fn part(database: &Database, before: Option<&[u8]>) -> Result<Part, Error> {
    let table = match database.begin_read()?.open_table(KEYS) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Part::new()),
        table => table?,
    };
    let after = before.map_or(Bound::Unbounded, Bound::Excluded);
    let (mut part, mut bytes) = (Part::new(), 0);
    for row in table.range::<&[u8]>((after, Bound::Unbounded))? {
        let (key, record) = row?;
        bytes += record.value().len();
        part.push((key.value().to_vec(), record.value().to_vec()));
        if part.len() == SHOWN_MAX || bytes >= SHOWN_BYTES_MAX {
            break;
        }
    }
    Ok(part)
}

/// Closes a database. What fails here was not acknowledged, so no caller has to know it.
fn shut(database: Database) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
}

impl Drop for RedbBackend {
    fn drop(&mut self) {
        let opened = self.opened.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = opened.database.take() {
            shut(database);
        }
    }
}

impl fmt::Debug for RedbBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbBackend").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Backend for RedbBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, BackendError> {
        check_key(&self.name, key)?;
        self.read(self.doing("read a key"), KEYS, key, |record| into.extend_from_slice(record))
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<(), BackendError> {
        changes.iter().try_for_each(|change| check_key(&self.name, change.key()))?;
        self.write(self.doing(&format!("write {} changes", changes.len())), |transaction| {
            let mut keys = transaction.open_table(KEYS)?;
            for change in changes {
                match *change {
                    Change::Put { key, record } => drop(keys.insert(key, record)?),
                    Change::Delete { key } => drop(keys.remove(key)?),
                }
            }
            Ok(())
        })
    }

    fn show(&self, see: &mut See<'_>) -> Result<bool, BackendError> {
        let doing = self.doing("read the next keys");
        let mut before: Option<Vec<u8>> = None;
        loop {
            let read = |database: &Database| part(database, before.as_deref());
            let part =
                self.with(doing, |database| read(database).map_err(|it| doing.refused(it)))?;
            if !part.iter().all(|(key, record)| see(key, Ok(record))) {
                return Ok(true);
            }
            let Some((last, _)) = part.into_iter().next_back() else { return Ok(true) };
            before = Some(last);
        }
    }

    fn is_atomic(&self) -> bool {
        true
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let mut note = Vec::new();
        let found =
            self.read(self.doing("read a note"), NOTES, name, |bytes| note.extend(bytes))?;
        Ok(found.then_some(note))
    }

    fn set_note(&self, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
        self.write(self.doing("write a note"), |transaction| {
            transaction.open_table(NOTES)?.insert(name, bytes)?;
            Ok(())
        })
    }
}

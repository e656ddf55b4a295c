//! The engine: its parts, its making, and what its paths share.

use crate::config::{EngineConfig, Geometry, LIMIT_BYTES_MIN};
use crate::effect::{Change, Effect, EffectSink, Gone};
use crate::epoch::Epochs;
use crate::evict::Evictor;
use crate::expiry::expired;
use crate::ghosts::GhostClock;
use crate::hash::HashKey;
use crate::head::{Flags, Head};
use crate::index::{Chain, Index, Place, Slot};
use crate::item::ItemRef;
use crate::key::Key;
use crate::local::{Counters, Local, LocalCounters};
use crate::raw::{look_at_processor, slice_of};
use crate::read::{Found, Glance};
use crate::segment::{Addr, Census, Segments};
use crate::slices::Slices;
use crate::sync::{AtomicU64, Mutex, Ordering};
use base::{KeyId, MemoryBudget, Now, Owner, SliceId, Version};
use std::fmt;
use std::sync::Arc;

/// The memory of one cell. Shared by all its threads; see the crate's page for the whole.
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) epochs: Epochs,
    pub(crate) segments: Segments,
    pub(crate) index: Index,
    pub(crate) slices: Slices,
    pub(crate) evictor: Mutex<Evictor>,
    pub(crate) ghosts: GhostClock,
    /// The most items that the housekeeping of one request has looked at.
    pub(crate) paid_items_max: AtomicU64,
    /// The most words of ground that it has walked.
    pub(crate) paid_words_max: AtomicU64,
    /// The most items that one request has looked at to make the room it could not do without.
    pub(crate) room_items_max: AtomicU64,
    hash_key: HashKey,
    counters: Box<[LocalCounters]>,
}

/// Why an engine could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// The limit is below [`LIMIT_BYTES_MIN`].
    LimitTooLow {
        /// The limit asked for.
        limit_bytes: u64,
    },
    /// The budget has no room for the fixed parts.
    BudgetTooSmall {
        /// What they need.
        needed_bytes: u64,
    },
    /// The kernel refused address space.
    Reserve(std::io::Error),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitTooLow { limit_bytes } => write!(
                f,
                "a memory limit of {limit_bytes} bytes is too low: give at least {LIMIT_BYTES_MIN}"
            ),
            Self::BudgetTooSmall { needed_bytes } => write!(
                f,
                "the budget has no {needed_bytes} bytes for the index: raise the memory limit"
            ),
            Self::Reserve(error) => write!(
                f,
                "address space for the pool was refused ({error}): lower the memory limit, \
                 or raise the limit of the process (ulimit -v)"
            ),
        }
    }
}

impl std::error::Error for EngineError {}

/// How memory is used now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of one segment.
    pub segment_bytes: u64,
    /// Segments that hold memory.
    pub segments: u64,
    /// Of these, full ones in the small and in the main queue.
    pub segments_small: u64,
    /// See `segments_small`.
    pub segments_main: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// The most items that the housekeeping of one request has looked at.
    pub paid_items_max: u64,
    /// The most bytes of ground that it has walked.
    pub paid_bytes_max: u64,
    /// The most items that one request has looked at to make the room it could not do without.
    pub room_items_max: u64,
}

impl Engine {
    /// Makes an engine that takes its memory from `budget`, and its locals.
    ///
    /// # Errors
    /// When the limit is too low for a few segments, or address space is refused.
    pub fn new(
        mut config: EngineConfig,
        budget: Arc<MemoryBudget>,
    ) -> Result<(Self, Vec<Local>), EngineError> {
        if config.limit_bytes < LIMIT_BYTES_MIN {
            return Err(EngineError::LimitTooLow { limit_bytes: config.limit_bytes });
        }
        let geometry = Geometry::of(&config);
        config.value_bytes_max = config
            .value_bytes_max
            .min(crate::large::value_bytes_max(geometry.inline_value_bytes_max));
        let needed_bytes = Index::fixed_bytes(&geometry) + Slices::bytes();
        let fixed = budget
            .take(Owner::Index, needed_bytes.min(config.limit_bytes / 4))
            .ok_or(EngineError::BudgetTooSmall { needed_bytes })?;
        let huge = config.huge_pages;
        let index = Index::new(&geometry, config.limit_bytes, &budget, huge, fixed)
            .map_err(EngineError::Reserve)?;
        let segments =
            Segments::new(geometry, budget.clone(), huge).map_err(EngineError::Reserve)?;
        if config.prefault {
            segments.prefault(config.limit_bytes / 4 * 3);
        }
        let locals = (0..config.locals).map(Local::new).collect();
        look_at_processor();
        let engine = Self {
            epochs: Epochs::new(config.locals),
            segments,
            index,
            slices: Slices::new(config.epoch, config.version_seed),
            evictor: Mutex::new(Evictor::default()),
            ghosts: GhostClock::new(&geometry),
            paid_items_max: AtomicU64::new(0),
            paid_words_max: AtomicU64::new(0),
            room_items_max: AtomicU64::new(0),
            counters: (0..config.locals).map(|_| LocalCounters::default()).collect(),
            hash_key: HashKey::new(config.hash_seed),
            budget,
            config,
        };
        Ok((engine, locals))
    }

    /// `bytes` as a key: its slice and its hash. What is stored has a key of 1 to
    /// [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX) bytes; looking for another finds nothing.
    #[inline(always)]
    #[must_use]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        let id = KeyId { slice: slice_of(bytes), hash: self.hash_key.hash(bytes) };
        Key { id, bytes }
    }

    /// Begins a batch: what is linked now stays readable until [`Engine::unpin`].
    #[inline]
    pub fn pin(&self, local: &Local) {
        self.epochs.pin(local.slot);
    }

    /// Ends a batch.
    #[inline]
    pub fn unpin(&self, local: &Local) {
        self.epochs.unpin(local.slot);
    }

    /// Counters since the engine was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for counters in &self.counters {
            sum.add(counters);
        }
        sum
    }

    /// How memory is used now.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let Census { committed, small, main, .. } = self.segments.census();
        Usage {
            segment_bytes: self.segments.geometry().segment_bytes(),
            segments: committed as u64,
            segments_small: small as u64,
            segments_main: main as u64,
            index_bytes: self.budget.used(Owner::Index),
            paid_items_max: self.paid_items_max.load(Ordering::Relaxed),
            paid_bytes_max: 8 * self.paid_words_max.load(Ordering::Relaxed),
            room_items_max: self.room_items_max.load(Ordering::Relaxed),
        }
    }

    /// Bytes of the pool's address space: the most that the limit can be raised to.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        let geometry = self.segments.geometry();
        geometry.segments_max as u64 * geometry.segment_bytes()
    }

    /// The longest value it takes, in bytes.
    #[must_use]
    pub fn value_bytes_max(&self) -> usize {
        self.config.value_bytes_max
    }

    #[inline]
    pub(crate) fn count(&self, local: &Local) -> &LocalCounters {
        &self.counters[local.slot]
    }

    /// Whether an item counts as present.
    #[inline(always)]
    pub(crate) fn alive(&self, item: ItemRef<'_>, head: Head, slice: SliceId, now: Now) -> bool {
        item.version() > self.slices.barrier(slice) && !expired(item.expiry_s(head), now)
    }

    /// The item of `key` in a locked chain, dead or alive.
    pub(crate) fn find(&self, chain: &Chain<'_>, key: &Key<'_>) -> Option<Current<'_>> {
        let place = chain.find(key.id.hash, |addr| {
            let item = self.segments.item(addr);
            item.head().key_bytes() == key.bytes.len() && item.key_is(key.bytes)
        })?;
        Some(self.current(chain, place))
    }

    /// What the item slot at `place` points to.
    pub(crate) fn current(&self, chain: &Chain<'_>, place: Place) -> Current<'_> {
        let slot = chain.get(place);
        let item = self.segments.item(slot.addr());
        Current { place, slot, addr: slot.addr(), item, head: item.head() }
    }

    /// Takes an item out of the index, and its ground is dead.
    pub(crate) fn remove<S: EffectSink>(
        &self,
        local: &Local,
        chain: &mut Chain<'_>,
        key: &Key<'_>,
        current: &Current<'_>,
        gone: Gone,
        sink: &mut S,
    ) {
        if S::ON {
            self.tell(key, Change::Remove(gone), sink);
        }
        chain.set(current.place, Slot::EMPTY);
        self.index.count_removed(key.id.slice);
        self.bury(local, current);
        let counters = self.count(local);
        counters.items.subtract(1);
        let unread = u64::from(!current.head.is(Flags::FETCHED));
        match gone {
            Gone::Deleted => {}
            Gone::Evicted => {
                counters.evicted.add(1);
                counters.evicted_unread.add(unread);
            }
            Gone::Expired => {
                counters.expired.add(1);
                counters.expired_unread.add(unread);
            }
        }
    }

    /// Counts the ground of an item as dead.
    pub(crate) fn bury_ground(&self, local: &Local, current: &Current<'_>) {
        let words = current.head.span_words();
        self.segments.kill(current.addr, words);
        self.count(local).item_words.subtract(words as u64);
    }

    /// Counts the ground of an item, and of its chunks, as dead.
    pub(crate) fn bury(&self, local: &Local, current: &Current<'_>) {
        self.bury_ground(local, current);
        if current.head.is(Flags::LARGE) {
            self.bury_chunks(local, current.item, current.head);
        }
    }

    /// Gives a change its version, and tells the sink if it listens.
    pub(crate) fn tell<S: EffectSink>(
        &self,
        key: &Key<'_>,
        change: Change<'_>,
        sink: &mut S,
    ) -> Version {
        let proposed = self.slices.next(key.id.slice);
        if !S::ON {
            return proposed;
        }
        let effect = Effect { key: key.bytes, change, version: proposed };
        let version = sink.commit(key.id, &effect);
        if version > proposed {
            self.slices.raise(key.id.slice, version);
        }
        version
    }
}

/// An item found under the lock of its chain.
pub(crate) struct Current<'e> {
    pub(crate) place: Place,
    pub(crate) slot: Slot,
    pub(crate) addr: Addr,
    pub(crate) item: ItemRef<'e>,
    pub(crate) head: Head,
}

impl Current<'_> {
    /// A look at it.
    pub(crate) fn glance(&self, value_bytes: usize, now: Now) -> Glance<'_> {
        Glance { item: self.item, head: self.head, value_bytes, now, won: false }
    }

    /// What a client may know of it.
    pub(crate) fn found(&self, value_bytes: usize, now: Now) -> Found {
        self.glance(value_bytes, now).found()
    }
}

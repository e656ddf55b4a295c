//! The readers of one log: how far each of them is, and what follows from that.
//!
//! ```text
//! first                                               end
//!   |-----------|---------------|-------------|--------|
//!          Acknowledged      Durable       Written          marks of one reader
//!   freed <-----|                                           where its holding mark is
//!                               |<- level {(a, Durable), (b, Written)}: the lowest of its marks
//! ```
//!
//! A mark is the last position of which the reader says it; marks only rise. A level is a set of
//! marks; it has passed what all of them have passed. A reader either holds entries back, which are
//! freed only when one of its marks has passed them, or it may fall out.
//!
//! Nothing here is shared: the log keeps the table under its lock.

use crate::level::{LEVELS, Level, Levels};
use std::fmt;

/// Most readers of one log.
pub const READERS_MAX: usize = 8;

/// What a reader says of all entries up to a position. Each mark has a meaning of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// It has them in memory, or has given them to the kernel.
    Written = 0,
    /// They survive a power cut.
    Durable = 1,
    /// Nothing of them is missing any more.
    Acknowledged = 2,
}

const MARKS: usize = 3;

/// What a reader is, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The journal of this cell.
    Journal,
    /// A copy in the cell of this number.
    Copy(u32),
    /// A cell that is on its way to be a copy.
    Learner(u32),
    /// What brings changes to the tier.
    Flusher,
    /// A client that watches.
    Watch,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal => write!(f, "the journal"),
            Self::Copy(cell) => write!(f, "the copy at cell {cell}"),
            Self::Learner(cell) => write!(f, "the learner at cell {cell}"),
            Self::Flusher => write!(f, "the flusher"),
            Self::Watch => write!(f, "a watch"),
        }
    }
}

/// A reader of one log, from joining to leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderId {
    slot: u8,
    life: u32,
}

impl ReaderId {
    /// Its slot in the table of the log.
    #[must_use]
    pub fn slot(self) -> u8 {
        self.slot
    }
}

/// How a reader begins.
#[derive(Clone, Copy, Debug)]
pub struct Joining {
    /// What it is.
    pub who: Who,
    /// The first position that it wants; `None` for the next one.
    pub from: Option<u64>,
    /// The mark up to which entries may be freed. `None`: it may fall out.
    pub holds: Option<Mark>,
    /// Bytes of room that it grants at first. `None`: puts need no room of it.
    pub grants: Option<u64>,
}

/// Why a reader could not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// The log has [`READERS_MAX`] readers.
    TooMany,
    /// The position is not in the log: this is the first that is.
    Gone(u64),
    /// Writers already hold this many bytes of room, and the reader grants less.
    Grants(u64),
}

#[derive(Clone, Copy)]
struct Slot {
    life: u32,
    who: Who,
    holds: Option<Mark>,
    marks: [u64; MARKS],
    /// How much may be spent of its room since the log began.
    granted: u64,
    /// How much of it items have spent that were for this slot alone.
    own: u64,
    /// Up to where it has read, or cannot read any more.
    read: u64,
    /// The last position when it joined.
    joined: u64,
    has_fallen: bool,
}

/// How far entries may be freed.
pub(crate) struct Bounds {
    /// The last position that no reader holds back.
    pub(crate) unheld: u64,
    /// The last position that no reader wants any more, those included that may fall out.
    pub(crate) unwanted: u64,
}

/// All readers of one log, and its levels.
pub(crate) struct Readers {
    slots: [Slot; READERS_MAX],
    /// A bit for each slot that has a reader.
    live: u8,
    /// A bit for each mark of each slot.
    levels: [u32; LEVELS],
    /// The levels that have marks.
    used: Levels,
    /// How many marks were after the last position.
    refused: u64,
}

const _: () = assert!(READERS_MAX == 8 && READERS_MAX * MARK_BITS == u32::BITS as usize);
/// Bits of one slot in the mask of a level.
const MARK_BITS: usize = 4;

impl Readers {
    pub(crate) fn new() -> Self {
        let slot = Slot {
            life: 0,
            who: Who::Watch,
            holds: None,
            marks: [0; MARKS],
            granted: u64::MAX,
            own: 0,
            read: 0,
            joined: 0,
            has_fallen: false,
        };
        let slots = [slot; READERS_MAX];
        let levels = [0; LEVELS];
        Self { slots, live: 0, levels, used: Levels::default(), refused: 0 }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// A new reader, which has everything before `from`, and lets changes spend up to `granted`.
    /// `None` if there are too many. `own`: by slot, what items have spent that were for one.
    pub(crate) fn join(
        &mut self,
        joining: &Joining,
        from: u64,
        end: u64,
        (granted, own): (u64, &[u64; READERS_MAX]),
    ) -> Option<ReaderId> {
        let free = (!self.live).trailing_zeros() as usize;
        let slot = self.slots.get_mut(free)?;
        *slot = Slot {
            life: slot.life.wrapping_add(1),
            who: joining.who,
            holds: joining.holds,
            marks: [from - 1; MARKS],
            granted: granted.saturating_add(own[free]),
            own: own[free],
            read: from - 1,
            joined: end,
            has_fallen: false,
        };
        self.live |= 1 << free;
        Some(ReaderId { slot: free as u8, life: slot.life })
    }

    /// Removes a reader, and its marks from all levels. Returns whether it was there.
    pub(crate) fn leave(&mut self, reader: ReaderId) -> bool {
        if self.find(reader).is_none() {
            return false;
        }
        self.live &= !(1 << reader.slot);
        for level in Levels::ALL.iter() {
            let marks =
                self.levels[level.index()] & !(0xF << (usize::from(reader.slot) * MARK_BITS));
            self.set_marks(level, marks);
        }
        true
    }

    /// Sets what a level needs. Returns whether all its readers are there.
    pub(crate) fn set_level(&mut self, level: Level, of: &[(ReaderId, Mark)]) -> bool {
        let mut marks = 0;
        for (reader, mark) in of {
            if self.find(*reader).is_none() {
                return false;
            }
            marks |= 1 << (usize::from(reader.slot) * MARK_BITS + *mark as usize);
        }
        self.set_marks(level, marks);
        true
    }

    fn set_marks(&mut self, level: Level, marks: u32) {
        self.levels[level.index()] = marks;
        self.used = Levels::default();
        for level in Levels::ALL.iter() {
            if self.levels[level.index()] != 0 {
                self.used.insert(level);
            }
        }
    }

    /// The levels that have marks.
    pub(crate) fn used(&self) -> Levels {
        self.used
    }

    /// What a level has passed. A level without marks passes everything.
    pub(crate) fn passed(&self, level: Level) -> u64 {
        self.marks_of(level).map(|(_, position)| position).min().unwrap_or(u64::MAX)
    }

    /// The reader that holds a level up, if its mark is before `end`.
    pub(crate) fn slowest(&self, level: Level, end: u64) -> Option<Who> {
        let behind = self.marks_of(level).filter(|(_, position)| *position < end);
        behind.min_by_key(|(_, position)| *position).map(|(who, _)| who)
    }

    fn marks_of(&self, level: Level) -> impl Iterator<Item = (Who, u64)> {
        let mut marks = self.levels[level.index()];
        std::iter::from_fn(move || {
            let bit = (marks != 0).then_some(marks.trailing_zeros() as usize)?;
            marks &= marks - 1;
            let slot = &self.slots[bit / MARK_BITS % READERS_MAX];
            Some((slot.who, slot.marks[bit % MARK_BITS % MARKS]))
        })
    }

    /// How many marks were after the last position.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Raises a mark, if it is not after `end`. Returns whether it rose.
    #[inline]
    pub(crate) fn pass(&mut self, reader: ReaderId, mark: Mark, position: u64, end: u64) -> bool {
        if position > end {
            self.refused += 1;
            return false;
        }
        let Some(slot) = self.find(reader) else { return false };
        let kept = &mut slot.marks[mark as usize];
        let rose = position > *kept;
        *kept = position.max(*kept);
        rose
    }

    /// How much may be spent of the room of this reader.
    pub(crate) fn granted_by(&mut self, reader: ReaderId) -> Option<&mut u64> {
        self.find(reader).map(|slot| &mut slot.granted)
    }

    /// How much may be spent of the room of all readers: the least that one has left for that.
    pub(crate) fn granted(&self) -> u64 {
        self.all().map(Slot::for_all).min().unwrap_or(u64::MAX)
    }

    /// How much may be spent of the room of all readers before that of this one is used up, and
    /// what items for it alone have spent.
    pub(crate) fn left_of(&mut self, reader: ReaderId) -> Option<(u64, &mut u64)> {
        self.find(reader).map(|slot| (slot.for_all(), &mut slot.own))
    }

    /// A bit for each slot whose reader has no room left, where so much is `spent` of the room of
    /// all.
    pub(crate) fn lacking(&self, spent: u64) -> u8 {
        let lacks = |at: &usize| self.slots[*at].for_all() <= spent;
        (0..READERS_MAX).filter(lacks).fold(0, |bits, at| bits | 1 << at) & self.live
    }

    /// How far entries may be freed. There is no limit, if there are no readers.
    #[inline]
    pub(crate) fn bounds(&self) -> Bounds {
        let mut bounds = Bounds { unheld: u64::MAX, unwanted: u64::MAX };
        for slot in self.all() {
            if let Some(held) = slot.held() {
                bounds.unheld = bounds.unheld.min(held);
            } else {
                bounds.unwanted = bounds.unwanted.min(slot.read);
            }
        }
        Bounds { unwanted: bounds.unwanted.min(bounds.unheld), ..bounds }
    }

    /// The reader that holds most entries back, if it holds any.
    pub(crate) fn holder(&self, end: u64) -> Option<Who> {
        let holders = self.all().filter(|slot| slot.held().is_some_and(|held| held < end));
        holders.min_by_key(|slot| slot.held()).map(|slot| slot.who)
    }

    /// The reader that has the least room left.
    pub(crate) fn meanest(&self) -> Option<Who> {
        self.all().min_by_key(|slot| slot.for_all()).map(|slot| slot.who)
    }

    /// Entries before `first` were freed: nobody can want them.
    pub(crate) fn freed(&mut self, first: u64) {
        for slot in self.slots.iter_mut().filter(|slot| slot.holds.is_none()) {
            slot.read = slot.read.max(first - 1);
        }
    }

    /// Notes that a reader reads on from `from`. Returns the last position when it joined; `None`
    /// if it is gone or has fallen out.
    pub(crate) fn reads(&mut self, reader: ReaderId, from: u64) -> Option<u64> {
        let slot = self.find(reader).filter(|slot| !slot.has_fallen)?;
        slot.read = slot.read.max(from - 1);
        Some(slot.joined)
    }

    /// A reader asked for entries that were freed. One that holds entries back has passed them.
    pub(crate) fn falls_out(&mut self, reader: ReaderId) {
        if let Some(slot) = self.find(reader) {
            slot.has_fallen |= slot.holds.is_none();
        }
    }

    fn find(&mut self, reader: ReaderId) -> Option<&mut Slot> {
        let is_live = self.live & 1 << reader.slot != 0;
        let slot = self.slots.get_mut(usize::from(reader.slot))?;
        (is_live && slot.life == reader.life).then_some(slot)
    }

    #[inline]
    fn all(&self) -> impl Iterator<Item = &Slot> {
        let mut rest = self.live;
        std::iter::from_fn(move || {
            let slot = self.slots.get(rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(slot)
        })
    }
}

impl Slot {
    /// How much may be spent of the room of all readers before that of this one is used up.
    fn for_all(&self) -> u64 {
        self.granted.saturating_sub(self.own)
    }

    /// The position up to which it holds nothing back. `None` if it holds nothing.
    fn held(&self) -> Option<u64> {
        self.holds.map(|mark| self.marks[mark as usize])
    }
}

//! The memory of one log: blocks of entries, and the values that are too large for a block.
//!
//! ```text
//! oldest                                  newest
//! [block] [block] [block] ... [block] [open block    ]   spares: [] []
//!  first   first                       [entry|entry|..
//!            |
//!            +-- head, key; the value apart: [position, value]
//! ```
//!
//! A position is found by a search among the blocks, then from entry to entry: readers read on, so
//! they rarely begin in the middle of a block. Memory is freed in the order of positions: a block
//! when all its entries are free, a value apart as soon as its entry is.
//!
//! Invariants: the entries of all blocks are consecutive positions; an entry never lies in two
//! blocks; the charges of what is held were charged once, and are returned once, by `free`.

use crate::batch::Batch;
use crate::config::{APART_OVERHEAD, Sizes};
use crate::entry::{Draft, SKIPPED, is_for_reader, lying_bytes, spends};
use crate::readers::READERS_MAX;
use crate::shared::Shared;
use std::collections::VecDeque;
use std::sync::Arc;

/// Granted room that entries have spent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    /// Of all readers.
    pub(crate) of_all: u64,
    /// By slot, of one reader alone: by items that are for it.
    pub(crate) of_one: [u64; READERS_MAX],
}

impl Spent {
    /// Of the reader in `slot`.
    pub(crate) fn of(&self, slot: u8) -> u64 {
        self.of_all + self.of_one[usize::from(slot) % READERS_MAX]
    }

    /// Of all readers, and of each alone.
    pub(crate) fn sum(&self) -> u64 {
        self.of_all + self.of_one.iter().sum::<u64>()
    }
}

/// Consecutive entries.
#[derive(Default)]
struct Block {
    first: u64,
    /// The number of entries.
    count: u64,
    /// As long as a block; empty before the first entry.
    bytes: Box<[u8]>,
    /// Bytes of entries.
    filled: usize,
    charge: u64,
    /// Granted room that all entries before its first have spent.
    before: Spent,
}

impl Block {
    /// The position after its last entry.
    fn next(&self) -> u64 {
        self.first + self.count
    }

    /// Its entries from byte `at` on, where one begins. Values above `inline_max` lie apart.
    fn entries(&self, inline_max: usize, at: usize) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes[..self.filled].get(at..).unwrap_or_default();
        std::iter::from_fn(move || {
            let length = (!rest.is_empty()).then(|| lying_bytes(rest, inline_max))?;
            let (entry, after) = rest.split_at(length);
            rest = after;
            Some(entry)
        })
    }

    /// Empties it. Returns what was charged.
    fn clear(&mut self, first: u64) -> u64 {
        (self.first, self.count, self.filled) = (first, 0, 0);
        std::mem::take(&mut self.charge)
    }
}

/// A value that lies apart from its entry.
struct Apart {
    position: u64,
    value: Arc<Vec<u8>>,
    charge: u64,
}

/// How far a reader has read: it reads on from there, and need not look for the place in its block.
#[derive(Clone, Copy, Default)]
struct ReadTo {
    /// The position that it reads next; 0 before it has read any.
    position: u64,
    /// The first position of the block that the last entry lies in.
    block: u64,
    /// Where that entry ends in the block.
    at: usize,
}

/// Blocks that are freed when there is no spare one: more than one, fewer than would delay a
/// writer.
const FREED_AT_ONCE: u64 = 4;

/// Memory of what was freed, to drop when no lock is held.
#[derive(Default)]
pub(crate) struct Freed {
    charge: u64,
    blocks: Vec<Block>,
    values: Vec<Arc<Vec<u8>>>,
}

impl Freed {
    /// Whether that is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.charge == 0
    }
}

/// For which reader entries are copied.
#[derive(Clone, Copy)]
pub(crate) struct For {
    /// The slot of the reader.
    pub(crate) slot: u8,
    /// The last position when it joined: what was meant for its slot before is for another.
    pub(crate) joined: u64,
}

impl For {
    fn is_meant(self, slot: u8, position: u64) -> bool {
        slot == self.slot && position > self.joined
    }
}

pub(crate) struct Store {
    /// The lowest position that can be read.
    base: u64,
    closed: VecDeque<Block>,
    open: Block,
    spares: Vec<Block>,
    apart: VecDeque<Apart>,
    /// Granted room that all entries have spent.
    spent: Spent,
    /// By the slots of readers.
    read_to: [ReadTo; READERS_MAX],
    /// Where a value of several parts is joined.
    scratch: Vec<u8>,
    block_bytes: usize,
    spares_max: usize,
    /// Longest value that lies in a block.
    inline_max: usize,
}

impl Store {
    /// A store whose first entry will have position `first`.
    pub(crate) fn new(first: u64, sizes: &Sizes) -> Self {
        let spares_max = sizes.spares;
        Self {
            base: first,
            closed: VecDeque::new(),
            open: Block { first, ..Block::default() },
            spares: Vec::with_capacity(spares_max),
            apart: VecDeque::new(),
            spent: Spent::default(),
            read_to: [ReadTo::default(); READERS_MAX],
            scratch: Vec::new(),
            block_bytes: sizes.block,
            spares_max,
            inline_max: sizes.inline_max,
        }
    }

    /// The lowest position that can be read, or the next one to come.
    pub(crate) fn first(&self) -> u64 {
        self.base
    }

    /// Appends an entry, to which `charge` was reserved. `apart` is its value, if that is too large
    /// for a block.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        draft: &Draft<'_>,
        apart: Option<Arc<Vec<u8>>>,
        charge: u64,
        shared: &Shared,
    ) {
        let head = draft.head_bytes();
        let length = head + if apart.is_none() { draft.value.bytes() } else { 0 };
        let mut start = self.open.filled;
        if start + length > self.open.bytes.len() {
            self.roll(shared);
            start = self.open.filled;
        }
        let end = start + length;
        let to = self.open.bytes.get_mut(start..end).expect("invariant: a block holds any entry");
        let to_value = draft.write_head(to);
        if apart.is_none() {
            draft.write_value(to_value, &mut self.scratch);
        }
        self.open.filled = end;
        self.open.count += 1;
        self.open.charge += charge;
        if draft.spends {
            self.spent.of_all += charge;
        }
        if let Some(value) = apart {
            self.push_apart(value, shared);
        }
    }

    /// Counts the newest entry, an item, which spends `charge` of the room of one reader.
    pub(crate) fn spends_of(&mut self, slot: u8, charge: u64) {
        self.spent.of_one[usize::from(slot) % READERS_MAX] += charge;
    }

    /// Frees the oldest entries, up to position `limit`, until `needed` of their charges are
    /// returned. Drop what it returns when no lock is held, where it may be much.
    pub(crate) fn free(&mut self, limit: u64, needed: u64, shared: &Shared) -> Freed {
        let mut freed = Freed::default();
        while freed.charge < needed {
            let oldest = self.closed.front().unwrap_or(&self.open);
            let (next, is_empty) = (oldest.next(), oldest.count == 0);
            let apart = self.apart.front().map(|apart| apart.position);
            if apart.is_some_and(|position| position <= limit && position < next) {
                let apart = self.apart.pop_front().expect("invariant: it was looked at");
                self.base = self.base.max(apart.position + 1);
                freed.charge += apart.charge;
                freed.values.push(apart.value);
            } else if !is_empty && next - 1 <= limit {
                self.base = next;
                freed.charge += self.free_block(&mut freed.blocks);
            } else {
                break;
            }
        }
        shared.account.free(freed.charge);
        shared.set_apart(self.apart.len());
        freed
    }

    /// Copies entries from position `from` on, while they fit. `from` can be read or is the next.
    pub(crate) fn copy(&mut self, from: u64, reader: For, batch: &mut Batch) {
        batch.begin(from);
        let slot = usize::from(reader.slot) % READERS_MAX;
        let mut read_to = self.read_to[slot];
        let mut apart = self.apart.range(self.apart.partition_point(|it| it.position < from)..);
        let mut next_apart = apart.next();
        let closed = self.closed.partition_point(|block| block.next() <= from);
        'blocks: for block in self.closed.range(closed..).chain([&self.open]) {
            let reads_on = (read_to.position, read_to.block) == (batch.next(), block.first);
            let (mut position, mut at) =
                if reads_on { (read_to.position, read_to.at) } else { (block.first, 0) };
            for mut entry in block.entries(self.inline_max, at) {
                at += entry.len();
                position += 1;
                if position <= from {
                    continue;
                }
                let mut value = next_apart.filter(|apart| apart.position == position - 1);
                if value.is_some() {
                    next_apart = apart.next();
                }
                if is_for_reader(entry).is_some_and(|slot| !reader.is_meant(slot, position - 1)) {
                    (entry, value) = (&SKIPPED, None);
                }
                if !batch.push(entry, value.map(|apart| &apart.value)) {
                    break 'blocks;
                }
                read_to = ReadTo { position, block: block.first, at };
            }
        }
        self.read_to[slot] = read_to;
    }

    /// Granted room that all entries have spent.
    pub(crate) fn spent(&self) -> &Spent {
        &self.spent
    }

    /// What the entries up to `position` have spent of the room of the reader in `slot`. `None` if
    /// the entry after that is not there, and it is not the last.
    /// `all`: whether all that clients ask for spends.
    pub(crate) fn spent_up_to(
        &self,
        position: u64,
        slot: u8,
        (sizes, all): (&Sizes, bool),
    ) -> Option<u64> {
        if position + 1 == self.open.next() {
            return Some(self.spent.of(slot));
        }
        let number = self.closed.partition_point(|block| block.next() <= position + 1);
        let block = self.closed.get(number).unwrap_or(&self.open);
        let passed = (position + 1).checked_sub(block.first).filter(|it| *it < block.count)?;
        let entries = block.entries(self.inline_max, 0).take(passed as usize);
        let spends = entries.filter(|it| spends(it, all) || is_for_reader(it) == Some(slot));
        let spent = spends.map(|entry| sizes.charge_of_entry(entry)).sum::<u64>();
        Some(block.before.of(slot) + spent)
    }

    /// The charge of all entries from position `from` on, or a little more.
    pub(crate) fn charge_from(&self, from: u64) -> u64 {
        let blocks = self.closed.iter().chain([&self.open]).filter(|block| block.next() > from);
        let apart = self.apart.iter().filter(|apart| apart.position >= from);
        blocks.map(|block| block.charge).chain(apart.map(|apart| apart.charge)).sum()
    }

    /// Begins again, empty, with position `next`.
    pub(crate) fn restart(&mut self, next: u64) {
        self.base = next;
        self.read_to = [ReadTo::default(); READERS_MAX];
        (self.open.first, self.open.before) = (next, self.spent);
    }

    /// Links a value to the newest entry.
    fn push_apart(&mut self, value: Arc<Vec<u8>>, shared: &Shared) {
        let charge = value.len() as u64 + APART_OVERHEAD;
        self.open.charge -= charge;
        self.apart.push_back(Apart { position: self.open.next() - 1, value, charge });
        shared.set_apart(self.apart.len());
    }

    /// Closes the open block and opens an empty one. Frees a few of the oldest, so that there are
    /// as many as are needed after a while.
    #[cold]
    #[inline(never)]
    fn roll(&mut self, shared: &Shared) {
        if self.spares.is_empty() {
            // No more than can be kept.
            let blocks = FREED_AT_ONCE.min(self.spares_max as u64 - 1);
            let needed = blocks * self.block_bytes as u64;
            drop(self.free(shared.unwanted(), needed, shared));
        }
        if self.open.count == 0 && !self.open.bytes.is_empty() {
            return;
        }
        let mut block = self.spares.pop().unwrap_or_else(|| Block {
            bytes: vec![0; self.block_bytes].into(),
            ..Block::default()
        });
        (block.first, block.before) = (self.open.next(), self.spent);
        let full = std::mem::replace(&mut self.open, block);
        if full.count > 0 {
            self.closed.push_back(full);
        }
    }

    /// Empties the oldest block. Returns what was charged for it.
    fn free_block(&mut self, blocks: &mut Vec<Block>) -> u64 {
        let Some(mut block) = self.closed.pop_front() else {
            self.open.before = self.spent;
            return self.open.clear(self.open.next());
        };
        let charge = block.clear(0);
        if self.spares.len() < self.spares_max {
            self.spares.push(block);
        } else {
            blocks.push(block);
        }
        charge
    }
}

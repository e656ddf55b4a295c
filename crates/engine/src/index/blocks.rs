//! Which blocks of the index hold memory, and which of their places are in use.
//!
//! All functions are called under one lock, and touch no bucket. A block without a used place is
//! empty: it can become a block of the other kind, or its memory is returned.

use super::bucket::BucketId;
use base::Grant;
use std::collections::BTreeSet;

/// What the places of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Kind {
    /// Chunks of groups.
    Chunk,
    /// Single buckets.
    Single,
}

/// How many [`Kind`]s there are.
const KINDS: usize = 2;

/// A block that holds memory.
struct Block {
    kind: Kind,
    used: u32,
    /// A bit for each place, set while it is in use.
    map: Box<[u64]>,
}

/// An empty block that was taken out to return its memory.
pub(super) struct Retired {
    pub(super) number: u32,
    _grant: Grant,
}

pub(super) struct Blocks {
    block_buckets: u32,
    /// Buckets of a place, by kind.
    place_buckets: [u32; KINDS],
    blocks_max: u32,
    /// By number. `None` has no memory.
    blocks: Vec<Option<Block>>,
    /// Numbers below `blocks.len()` that have no memory.
    vacant: BTreeSet<u32>,
    /// Blocks with some places free and some used, by kind.
    open: [BTreeSet<u32>; KINDS],
    /// Blocks that hold memory, by kind: full, open or empty.
    count: [usize; KINDS],
    empty: BTreeSet<u32>,
    /// One for each block with memory, and for those to come.
    grants: Vec<Grant>,
    /// Places in use, by kind.
    used: [u64; KINDS],
}

impl Blocks {
    pub(super) fn new(block_buckets: u32, chunk_buckets: u32, blocks_max: u32) -> Self {
        Self {
            block_buckets,
            place_buckets: [chunk_buckets, 1],
            blocks_max,
            blocks: Vec::new(),
            vacant: BTreeSet::new(),
            open: Default::default(),
            count: [0; KINDS],
            empty: BTreeSet::new(),
            grants: Vec::new(),
            used: [0; KINDS],
        }
    }

    fn places(&self, kind: Kind) -> u32 {
        self.block_buckets / self.place_buckets[kind as usize]
    }

    /// Blocks that hold memory.
    fn held(&self) -> usize {
        self.count.iter().sum()
    }

    /// Buckets that hold memory and are not in use.
    pub(super) fn spare_buckets(&self) -> u64 {
        let [chunks, singles] = self.used;
        let used = chunks * u64::from(self.place_buckets[Kind::Chunk as usize]) + singles;
        self.grants.len() as u64 * u64::from(self.block_buckets) - used
    }

    /// Memory for a block to come.
    pub(super) fn add_grant(&mut self, grant: Grant) {
        self.grants.push(grant);
    }

    /// A place: in the lowest block that has one, else in a new block, for which `more` grants
    /// memory. `None` if it does not, or if there is no address space left.
    pub(super) fn take(
        &mut self,
        kind: Kind,
        more: impl FnOnce() -> Option<Grant>,
    ) -> Option<BucketId> {
        let open = self.open[kind as usize].first().copied();
        if let Some(number) = open.or_else(|| self.first_empty(kind, self.blocks_max)) {
            return Some(self.take_in(number));
        }
        let number = self.vacant.first().copied().unwrap_or(self.blocks.len() as u32);
        if number >= self.blocks_max {
            return None;
        }
        if self.grants.len() == self.held() {
            self.grants.push(more()?);
        }
        if number as usize == self.blocks.len() {
            self.blocks.push(None);
        }
        self.vacant.remove(&number);
        let words = self.places(Kind::Single).div_ceil(u64::BITS) as usize;
        self.blocks[number as usize] = Some(Block { kind, used: 0, map: vec![0; words].into() });
        self.count[kind as usize] += 1;
        Some(self.take_in(number))
    }

    /// A place below `bound`, in a block that holds memory.
    pub(super) fn take_below(&mut self, kind: Kind, bound: BucketId) -> Option<BucketId> {
        let bound = bound.0 / self.block_buckets;
        let open = self.open[kind as usize].first().copied().filter(|number| *number < bound);
        let number = open.or_else(|| self.first_empty(kind, bound))?;
        Some(self.take_in(number))
    }

    /// The lowest empty block below `bound`, now one of `kind`.
    fn first_empty(&mut self, kind: Kind, bound: u32) -> Option<u32> {
        let number = self.empty.first().copied().filter(|number| *number < bound)?;
        let block = self.blocks[number as usize].as_mut().expect("an empty block holds memory");
        self.count[block.kind as usize] -= 1;
        self.count[kind as usize] += 1;
        block.kind = kind;
        Some(number)
    }

    fn take_in(&mut self, number: u32) -> BucketId {
        let block = self.blocks[number as usize].as_mut().expect("a block with a free place");
        let kind = block.kind as usize;
        let place_buckets = self.place_buckets[kind];
        let (at, word) =
            block.map.iter_mut().enumerate().find(|(_, word)| **word != u64::MAX).expect("a place");
        let bit = word.trailing_ones();
        *word |= 1 << bit;
        block.used += 1;
        self.used[kind] += 1;
        self.empty.remove(&number);
        if block.used == self.block_buckets / place_buckets {
            self.open[kind].remove(&number);
        } else {
            self.open[kind].insert(number);
        }
        let place = at as u32 * u64::BITS + bit;
        BucketId(number * self.block_buckets + place * place_buckets)
    }

    /// Takes back a place.
    pub(super) fn give(&mut self, id: BucketId) {
        let number = id.0 / self.block_buckets;
        let block = self.blocks[number as usize].as_mut().expect("a place lies in a block");
        let kind = block.kind as usize;
        let place = id.0 % self.block_buckets / self.place_buckets[kind];
        let (word, bit) = (&mut block.map[(place / u64::BITS) as usize], 1 << (place % u64::BITS));
        assert!(*word & bit != 0, "a place is given back once");
        *word &= !bit;
        block.used -= 1;
        self.used[kind] -= 1;
        if block.used == 0 {
            self.open[kind].remove(&number);
            self.empty.insert(number);
        } else {
            self.open[kind].insert(number);
        }
    }

    /// The end of the lowest blocks of `kind` that have room for all its places in use.
    pub(super) fn bound(&self, kind: Kind) -> BucketId {
        let needed = self.used[kind as usize].div_ceil(u64::from(self.places(kind))) as usize;
        let is_kind = |block: &Option<Block>| block.as_ref().is_some_and(|of| of.kind == kind);
        let blocks = self.blocks.iter().enumerate().filter(|(_, block)| is_kind(block));
        let last = blocks.map(|(number, _)| number as u32 + 1).take(needed).last();
        BucketId(last.unwrap_or(0) * self.block_buckets)
    }

    /// Takes up to `blocks_max` empty blocks out, the highest first. Until [`Blocks::retired`]
    /// their numbers are not used.
    pub(super) fn retire(&mut self, blocks_max: usize) -> Vec<Retired> {
        let mut retired = Vec::new();
        while retired.len() < blocks_max
            && let Some(number) = self.empty.pop_last()
            && let Some(grant) = self.grants.pop()
        {
            let block = self.blocks[number as usize].take().expect("an empty block holds memory");
            self.count[block.kind as usize] -= 1;
            retired.push(Retired { number, _grant: grant });
        }
        retired
    }

    /// The memory of these blocks was returned, so their numbers can be used again.
    pub(super) fn retired(&mut self, retired: Vec<Retired>) {
        self.vacant.extend(retired.iter().map(|block| block.number));
    }
}

//! The state of a model: three cells, the maps that there have been, and what is on its way.

use super::cell::{Beat, CELLS, Cell, Entry, Flight, NOTHING};
use super::rules::LEASE;
use ring::{Addresses, CellId, Command, Incarnation, Map, Range, Started};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What the budget of a model was spent on so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spent {
    pub beats: u8,
    pub changes: u8,
    pub crashes: u8,
    pub deaf_beats: u8,
    pub deviations: u8,
    pub drops: u8,
    pub learns: u8,
    pub suspicions: u8,
    pub ticks: u8,
    pub unknowns: u8,
}

/// A state of a model.
#[derive(Clone, Debug)]
pub struct World {
    pub cells: [Cell; CELLS],
    /// The maps, from the oldest that a cell may still take on.
    pub maps: Vec<Arc<Map>>,
    pub flights: Vec<Flight>,
    /// From, to.
    pub beats: [[Option<Beat>; CELLS]; CELLS],
    /// Likewise.
    pub entries: [[Option<Entry>; CELLS]; CELLS],
    /// By how many ticks each clock is ahead of the one that is most behind.
    pub ahead: [u8; CELLS],
    /// The last change that was stamped at any cell.
    pub stamped: u8,
    /// The last change that was acknowledged or shown: no read may show an earlier one.
    pub floor: u8,
    /// The epoch with which the range begins again empty, until its primary shows that.
    pub lost: Option<u32>,
    /// What was not true.
    pub wrong: Option<&'static str>,
    pub spent: Spent,
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key() && self.maps == other.maps
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
        for map in &self.maps {
            let range = &map.ranges[0];
            (map.version, range.epoch, range.config, range.primary).hash(state);
            (&range.copies, range.learner, range.learner_since, range.losses).hash(state);
            let lives = map.cells.values().map(|cell| cell.started.incarnation.0);
            lives.for_each(|life| life.hash(state));
        }
    }
}

/// The id of the cell at an index.
pub fn id(cell: u8) -> CellId {
    CellId(u32::from(cell) + 1)
}

/// The index of a cell.
pub fn index(cell: CellId) -> u8 {
    (cell.0 - 1) as u8
}

fn bits(mask: u8) -> impl Iterator<Item = u8> {
    (0..CELLS as u8).filter(move |cell| mask >> cell & 1 == 1)
}

/// A start of a cell, which is reached nowhere.
pub fn started(life: u8) -> Started {
    let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let addresses = Addresses { control: at, links: at, clients: at };
    Started {
        incarnation: Incarnation(u64::from(life)),
        addresses,
        has_journal: false,
        has_tier: false,
        below: None,
        edition: 0,
    }
}

impl World {
    /// A healthy range, in which the key was set: the first cell leads it, those that follow copy
    /// it, as many as are
    /// `present`.
    pub fn new(present: u8, copies: u8) -> Self {
        let mut map = Map::new(7, 1, copies);
        let mut apply = |command: Command| {
            let before = map.version;
            map.apply(&command);
            assert_eq!(map.version, before + 1, "{command:?}");
            map.ranges.first().map(Range::stamp)
        };
        for token in 1..=CELLS as u64 {
            apply(Command::Join { token, started: started(1) });
        }
        for cell in (1..present).map(id) {
            let at = apply(Command::Start { cell, started: started(1) }).expect("a range");
            let at = apply(Command::Learn { at, cell }).expect("a range");
            apply(Command::Admit { at, cell });
        }
        let mut cells = [(); CELLS].map(|()| Cell::new(1));
        for cell in &mut cells {
            (cell.map, cell.young) = (map.version, 0);
        }
        cells[0].leads = map.ranges[0].epoch;
        cells[0].acked = [1; CELLS];
        for cell in &mut cells[..usize::from(present)] {
            (cell.version, cell.item) = (1, 1);
        }
        cells[0].exchanged = u8::MAX;
        Self {
            cells,
            maps: vec![Arc::new(map)],
            flights: Vec::new(),
            beats: Default::default(),
            entries: Default::default(),
            ahead: [0; CELLS],
            stamped: 1,
            floor: 1,
            lost: None,
            wrong: None,
            spent: Spent::default(),
        }
    }

    fn key(&self) -> impl Hash + PartialEq {
        let way = (self.flights.clone(), self.beats, self.entries);
        let rest = (self.ahead, self.stamped, self.floor, self.lost, self.wrong, self.spent);
        (self.cells.clone(), way, rest)
    }

    /// The newest map.
    pub fn map(&self) -> &Arc<Map> {
        self.maps.last().expect("there is a first one")
    }

    /// The map of this version, which a cell goes by.
    pub fn map_of(&self, version: u64) -> Option<&Arc<Map>> {
        self.maps.iter().find(|map| map.version == version)
    }

    /// The range as `cell` knows it. `None` while it knows none.
    pub fn range(&self, cell: u8) -> Option<&Range> {
        let cell = &self.cells[usize::from(cell)];
        let map = self.map_of(cell.map).filter(|_| cell.is_up)?;
        map.ranges.first()
    }

    /// The range, if `cell` leads it, as it believes.
    pub fn led(&self, cell: u8) -> Option<&Range> {
        let range = self.range(cell)?;
        let leads = range.primary == id(cell) && self.cells[usize::from(cell)].leads == range.epoch;
        leads.then_some(range)
    }

    /// The copies of the range as `cell` knows it, without the primary.
    pub fn copies(&self, cell: u8) -> u8 {
        let copies = self.range(cell).map_or(&[][..], |range| &range.copies);
        copies.iter().fold(0, |mask, copy| mask | 1 << index(*copy))
    }

    /// Up to which change all `of` have acknowledged to `cell`.
    pub fn acknowledged(&self, cell: u8, of: u8) -> u8 {
        let acked = &self.cells[usize::from(cell)].acked;
        let acked = bits(of).map(|copy| acked[usize::from(copy)]);
        acked.map(|acked| if acked == NOTHING { 0 } else { acked }).min().unwrap_or(u8::MAX)
    }

    /// Whether `cell` holds a lease of each of `of`.
    pub fn holds_leases(&self, cell: u8, of: u8) -> bool {
        bits(of).all(|copy| self.cells[usize::from(cell)].lease[usize::from(copy)] < LEASE)
    }

    /// Drops the maps that nobody can take on any more.
    pub fn forget_maps(&mut self) {
        let newest = self.map().version;
        // One that is down, or has just started, takes on the newest.
        let known = self.cells.iter().filter(|cell| cell.is_up && cell.map > 0);
        let oldest = known.map(|cell| cell.map).min().unwrap_or(newest);
        self.maps.retain(|map| map.version >= oldest);
    }
}

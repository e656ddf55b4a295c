//! What `volvox ctl` is asked for.

use std::time::Duration;

/// What is to be divided, and for whom; as the operator has said it, or chosen.
#[derive(Clone, Debug)]
pub struct Division {
    /// The cell of which a range is divided.
    pub cell: u32,
    /// That range. `None`: the one with the most slices.
    pub range: Option<u32>,
    /// Who is to lead one half. `None`: a cell that has no part in any range.
    pub to: Option<u32>,
    /// Of what each half is to have as much.
    pub by: By,
    /// Whether that is done where its memory would be short.
    pub is_forced: bool,
    /// How long it is waited for.
    pub wait: Duration,
}

/// That a cell becomes the primary of a range.
#[derive(Clone, Copy, Debug)]
pub struct Movement {
    /// The range.
    pub range: u32,
    /// The cell.
    pub cell: u32,
    /// Whether that is done where its memory would be short.
    pub is_forced: bool,
    /// How long it is waited for.
    pub wait: Duration,
}

/// That a cell leaves the ring while it runs, or stays after all.
#[derive(Clone, Debug)]
pub struct Leave {
    /// The cell.
    pub cell: u32,
    /// Whether its ranges become one with their neighbours.
    pub is_absorbed: bool,
    /// Whether that is done whatever speaks against it.
    pub is_forced: bool,
    /// Whether it stays.
    pub is_undone: bool,
    /// How long it is waited for.
    pub wait: Duration,
}

/// That cells begin again, one after the other.
#[derive(Clone, Debug)]
pub struct Restart {
    /// The cells; none: all.
    pub cells: Vec<u32>,
    /// Whether each is emptied whatever speaks against it.
    pub is_forced: bool,
    /// How long one cell is waited for.
    pub wait: Duration,
}

/// What is to be even.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// Slices, and so keys and bytes: keys are spread over the slices evenly
    #[default]
    Slices,
    /// What there is to do, by the requests of three seconds
    Load,
}

impl By {
    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Slices => "slices",
            Self::Load => "load",
        }
    }
}

/// That cells lead as much as others.
#[derive(Clone, Debug)]
pub struct Balance {
    /// Of what.
    pub by: By,
    /// Whether cells that have nothing get something, too.
    pub takes_spares: bool,
    /// Whether the steps are only shown.
    pub is_dry: bool,
    /// Whether cells get something where their memory would be short.
    pub is_forced: bool,
    /// How long all of it is waited for.
    pub wait: Duration,
}

/// The cell that is asked where none is named.
pub const DEFAULT_SERVER: &str = "127.0.0.1:11211";

/// A question, and who is asked.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// `HOST:PORT` of cells, one after the other until one answers.
    pub servers: Vec<String>,
    /// How long a cell may take for one answer, and between two lines of a long one.
    pub timeout: Duration,
    /// Whether to print JSON.
    pub json: bool,
    /// The question.
    pub question: Question,
}

/// A question.
#[derive(Clone, Debug)]
pub enum Question {
    /// What there is.
    Ring {
        /// Again after this time, until it is stopped.
        every: Option<Duration>,
    },
    /// The same, once each cell answers, each range has its copies, and nothing is under way.
    RingAtRest {
        /// How long that is waited for.
        wait: Duration,
    },
    /// Which cells hold these keys.
    WhoHas {
        /// The keys.
        keys: Vec<String>,
        /// Whether they are written in hexadecimal digits.
        are_hex: bool,
    },
    /// Cells are to lead as much as others.
    Balance(Balance),
    /// Which keys there are.
    Keys {
        /// Only those that begin like this.
        prefix: String,
        /// At most this number; 0 is no limit.
        limit: u64,
    },
    /// That a cell ends.
    Stop {
        /// The cell.
        cell: u32,
        /// Whether it ends whatever speaks against it.
        is_certain: bool,
    },
    /// That a cell becomes the primary of a range.
    Move(Movement),
    /// That a range becomes two, of which a spare leads one.
    Divide(Division),
    /// What is under way.
    Operations,
    /// That other cells take all that a cell has.
    Leave(Leave),
    /// That the ring forgets a cell that has ended.
    Remove {
        /// The cell.
        cell: u32,
        /// How long to wait until it has.
        wait: Duration,
    },
    /// That cells begin again, one after the other.
    Restart(Restart),
    /// That a range whose copies are all lost begins again empty.
    Forgive {
        /// The range.
        range: u32,
        /// Whether to do it, and not only say what would be lost.
        is_certain: bool,
    },
    /// That a cell goes on as the only voter.
    Recover {
        /// The cell.
        cell: u32,
        /// Whether to do it, and not only say what would be lost.
        is_certain: bool,
    },
    /// What the tier of a cell says of itself.
    Tier {
        /// Again after this time, until it is stopped.
        every: Option<Duration>,
    },
    /// That a cell writes back everything that is dirty.
    TierFlush {
        /// How long to wait until nothing is dirty; not at all, if it is `None`.
        wait: Option<Duration>,
    },
    /// That a cell tries at once to write back everything that is dirty.
    TierRetry {
        /// How long to wait for what comes of it.
        wait: Duration,
    },
    /// That a cell gives up changes that it has not written back.
    TierDiscard {
        /// Of these keys.
        keys: Vec<String>,
        /// Of all keys that begin like this.
        prefix: Option<String>,
        /// Of all keys of this run of a bucket.
        run: Option<u32>,
        /// Whether to do it, and not only say how many changes are not written back.
        is_certain: bool,
        /// How long to wait for what comes of it.
        wait: Duration,
    },
    /// That a cell checks whether all can be read that lies below its memory.
    TierCheck {
        /// How long to wait for what comes of it.
        wait: Duration,
    },
    /// What answers promise; and first, that it is changed.
    TierPolicy {
        /// `LEVEL`, and `PREFIX=LEVEL`s; nothing changes where there are none.
        rules: Vec<String>,
    },
    /// How the map has changed.
    Log {
        /// The latest changes, at most this number; 0 is no limit.
        limit: usize,
    },
}

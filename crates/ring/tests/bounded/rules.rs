//! What a model may be made of: its bounds, and the rules that it keeps.

/// A rule that keeps data. A model may leave one out, and must then be found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A primary serves reads only under a lease of every copy.
    ServesUnderALease,
    /// The lease is compared with a clock that is read after the read, not with that of the batch.
    ReadsTheClockLast,
    /// A lease ends before the silence is long enough, whatever the clocks do within their bound.
    LeaseIsShorter,
    /// A lease counts from the sending of the heartbeat that was echoed, not from the arrival.
    CountsFromSending,
    /// Only a heartbeat that counts against silence is echoed.
    EchoesWhatCounts,
    /// Who proposes to replace a primary grants it no lease.
    PrimaryStopsFirst,
    /// A proposal of unknown outcome stays open until a settlement of one's own is decided.
    UnknownStaysOpen,
    /// A proposal that was refused because the range has changed stays open until the own map shows
    /// that change.
    ChangedStaysOpen,
    /// A read of the map settles nothing.
    ReadSettlesNothing,
    /// A copy counts until the map has dropped it.
    DropNeedsCommit,
    /// Only a copy in sync is promoted.
    OnlyInSyncIsPromoted,
    /// A copy begins empty.
    BeginsEmpty,
    /// A new primary acknowledges and shows nothing of its own before the old leases have ended.
    Holds,
    /// A cell that has just started holds back as if its life before had granted a lease last.
    HoldsForItsLifeBefore,
    /// A primary that begins with nothing shows not even that before the old leases have ended.
    EmptyWaits,
    /// The acknowledgements of a learner count before it joins.
    CountsBeforeJoining,
    /// A primary that has proposed to admit a learner needs its lease too.
    LeaseOfWhoIsAdmitted,
    /// A copy applies only what its primary sends in the epoch of the map.
    EntriesOfTheEpoch,
    /// A change is acknowledged, and shown, only when all copies have it.
    AllCopiesHaveIt,
    /// A range begins again empty only if the last life that had it is proven to have ended.
    LossIsProven,
    /// Of three, the survivors exchange tails before the new primary shows or stamps anything.
    ExchangesTails,
}

/// How far a model goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Copies at the beginning, the primary included.
    pub present: u8,
    /// Copies that there should be.
    pub copies: u8,
    /// Survivors of a promotion stay in sync, and exchange tails; else the list is cleared.
    pub tails: bool,
    /// Ticks of a clock.
    pub ticks: u8,
    /// How often one clock ticks and the others do not.
    pub deviations: u8,
    /// Changes of the map.
    pub changes: u8,
    /// Changes of the key, that one included with which all begins.
    pub writes: u8,
    /// Ends of processes.
    pub crashes: u8,
    /// Proposals whose outcome stays unknown.
    pub unknowns: u8,
    /// Proposals to replace a primary that was heard.
    pub suspicions: u8,
    /// Proposals to drop a copy.
    pub drops: u8,
    /// Cells that are asked to learn.
    pub learns: u8,
    /// Heartbeats.
    pub beats: u8,
    /// Heartbeats of a cell that does not hear the receiver.
    pub deaf_beats: u8,
}

impl Bounds {
    /// Nothing but time, heartbeats and promotion.
    pub const LEAST: Self = Self {
        present: 2,
        copies: 2,
        tails: false,
        ticks: 5,
        deviations: 0,
        changes: 1,
        writes: 2,
        crashes: 0,
        unknowns: 0,
        suspicions: 0,
        drops: 0,
        learns: 0,
        beats: u8::MAX,
        deaf_beats: 0,
    };
}

/// Ticks for which a lease lasts.
pub const LEASE: u8 = 2;
/// By how many ticks two clocks differ at most.
pub const SKEW: u8 = 1;
/// Ticks of silence after which a primary is replaced. Two clocks that differ by [`SKEW`] differ by
/// twice that in what they count of one time.
pub const SILENCE: u8 = LEASE + 2 * SKEW;

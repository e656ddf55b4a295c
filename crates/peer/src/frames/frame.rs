//! What each kind of frame says.
//!
//! ```text
//! 0       4      5
//! length  kind   fields   body
//! ```
//!
//! Fields are written in the order of the declaration. A body, where there is one, is the rest of
//! the frame. There is one form of each frame: encoded again it is the same bytes. What a body says
//! is not looked at.
//!
//! Positions are those of a log of effects, from 1. Versions of the map rise.

use super::error::FrameError;
use super::kind::{FrameKind, Verdict};
use super::limits::{FRAME_BYTES_MAX, LANES_MAX};
use crate::wire::{Fields, LENGTH_BYTES, Message, Short, set_length};

/// One message between two cells, after their handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A request of a client, for the cell that owns its key.
    Request {
        /// Chosen by the sender, less than `u64::MAX`; the reply has the same.
        id: u64,
        /// How long the sender waits for the reply, from now.
        deadline_ms: u16,
        /// How many cells have forwarded it, this one included.
        hops: u8,
        /// The worker that sends it. Its ids are numbers of this worker, in this incarnation of
        /// its cell.
        worker: u16,
        /// For a change that may be asked again with this id: the first of such ids that is not
        /// finished. No earlier one is asked again. 0 for what is asked once, or only reads.
        first: u64,
        /// How often it was sent before with this id. What was sent earlier and comes later is not
        /// executed.
        again: u16,
        /// The map that the sender has used.
        map_version: u64,
        /// One memcached request: a plain one as its client has written it, any other in
        /// canonical form.
        text: &'a [u8],
    },
    /// A request that only reads, and that a copy in sync may answer. Only where both have the
    /// feature [`crate::COPIES_READ`].
    Read {
        /// As that of a request.
        id: u64,
        /// How long the sender waits for the reply, from now.
        deadline_ms: u16,
        /// How old the answer of a copy may be. 0: only the primary may answer.
        age_ms: u16,
        /// No cell with an earlier map may answer.
        map_version: u64,
        /// As that of a request.
        text: &'a [u8],
    },
    /// A copy has answered a read of this key: its primary counts a use of the item, and sends
    /// nothing back. Only where both have the feature [`crate::COPIES_READ`].
    Used {
        /// The key.
        key: &'a [u8],
    },
    /// What follows was sent after the sender had this number of replies by which a request is to
    /// be asked again: [`Verdict::NotOwner`], [`Verdict::TooManyHops`], [`Verdict::Forgotten`].
    /// Only where both have the feature [`crate::KEEPS_ORDER`].
    Refusals {
        /// Of all that have come on this connection.
        count: u64,
    },
    /// The reply to a request or a read.
    Reply {
        /// Of the request.
        id: u64,
        /// How often that was sent before, as it said.
        again: u16,
        /// What has happened to it.
        verdict: Verdict,
        /// The map of the sender when the reply may leave, or a later one.
        map_version: u64,
        /// The reply to the client, or an error line.
        text: &'a [u8],
    },
    /// A primary offers the log of one lane to a copy.
    StreamOpen {
        /// The lane.
        lane: u8,
        /// How many lanes the primary has.
        lanes: u8,
        /// Which log it is. Positions of different logs say nothing of each other.
        log_incarnation: u64,
        /// The end of the log, less than `u64::MAX`.
        end: u64,
    },
    /// A copy wants entries from this position on.
    StreamFrom {
        /// The lane.
        lane: u8,
        /// The position; 0 if it wants none, and [`Frame::StreamEnd`] follows.
        position: u64,
    },
    /// A copy takes no more of this stream.
    StreamEnd {
        /// The lane.
        lane: u8,
        /// Why: a number of the crate that opens streams.
        reason: u8,
        /// The map that the copy has.
        map_version: u64,
    },
    /// Entries of a log, in the order of their positions, without a gap.
    Entries {
        /// The lane.
        lane: u8,
        /// The map that the primary has.
        map_version: u64,
        /// All other copies of these slices have applied everything up to this position;
        /// `u64::MAX` if there is no other. What comes after it, a copy keeps.
        others_have: u64,
        /// The position of the first entry.
        first: u64,
        /// How many entries follow. 0 says that there are none now.
        count: u32,
        /// Their bytes.
        records: &'a [u8],
    },
    /// What a copy has applied, and how much more it has room for.
    Acked {
        /// The lane.
        lane: u8,
        /// Everything up to this position is applied.
        position: u64,
        /// Bytes that may come after that position, as a log charges them.
        granted: u64,
        /// Bytes of items that the primary should evict, because the copy lacks room.
        wanted: u64,
    },
    /// The sender is alive.
    Heartbeat {
        /// The sender's clock when it was sent.
        sent_ns: u64,
        /// The receiver's `sent_ns` by which the sender grants it a lease; 0 if it grants none.
        echo_ns: u64,
        /// The last `sent_ns` that the sender has received from the receiver; 0 if none.
        heard_ns: u64,
        /// The map that the sender has.
        map_version: u64,
        /// The map for which the sender is ready to learn; 0 for none.
        ready_version: u64,
        /// The sender's expiry clock.
        expiry_s: u32,
        /// The cells that the sender finds broken: the number of each, in four bytes.
        suspects: &'a [u8],
    },
    /// A question about the ring: agreement, proposals, reads of the map.
    Call {
        /// Chosen by the sender; the answer has the same.
        id: u64,
        /// What is asked: a number of the crate that asks.
        kind: u8,
        /// The question.
        body: &'a [u8],
    },
    /// The answer to a call.
    Answer {
        /// Of the call.
        id: u64,
        /// Whether it was carried out. If not, the body says why.
        ok: bool,
        /// The answer.
        body: &'a [u8],
    },
    /// What the sender holds, for the heartbeats after it. Only where both have the feature
    /// [`crate::SAYS_MEMORY`].
    Memory {
        /// Bytes that items and copies may still take.
        free: u64,
    },
    /// What requests were shown at the sender, for the heartbeat after it. Only where both have the
    /// feature [`crate::SAYS_SHOWN`].
    Shown {
        /// The latest second of the expiry clock.
        second: u32,
    },
    /// The sender may answer, in the moment of the heartbeat after it, for all that it leads and
    /// the receiver copies. Only where both have the feature [`crate::SAYS_SERVES`].
    Serves,
}

impl<'a> Frame<'a> {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> FrameKind {
        match self {
            Self::Request { .. } => FrameKind::Request,
            Self::Read { .. } => FrameKind::Read,
            Self::Reply { .. } => FrameKind::Reply,
            Self::StreamOpen { .. } => FrameKind::StreamOpen,
            Self::StreamFrom { .. } => FrameKind::StreamFrom,
            Self::StreamEnd { .. } => FrameKind::StreamEnd,
            Self::Entries { .. } => FrameKind::Entries,
            Self::Acked { .. } => FrameKind::Acked,
            Self::Heartbeat { .. } => FrameKind::Heartbeat,
            Self::Call { .. } => FrameKind::Call,
            Self::Answer { .. } => FrameKind::Answer,
            Self::Memory { .. } => FrameKind::Memory,
            Self::Shown { .. } => FrameKind::Shown,
            Self::Serves => FrameKind::Serves,
            Self::Used { .. } => FrameKind::Used,
            Self::Refusals { .. } => FrameKind::Refusals,
        }
    }

    /// Appends the frame. Its fields must be such that a decoder takes them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_before(0, out);
    }

    /// Appends a frame whose body is `rest_bytes` longer, and the caller sends these bytes after
    /// it. So a long value or the second part of a batch is not copied into `out`. Only a frame
    /// that has a body can be longer.
    pub fn encode_before(&self, rest_bytes: usize, out: &mut Vec<u8>) {
        let mut to = Message::begin(self.kind() as u8, out);
        match *self {
            Self::Request { id, deadline_ms, hops, worker, first, again, map_version, text } => {
                let to = to.u64(id).u16(deadline_ms).u8(hops).u16(worker);
                to.u64(first).u16(again).u64(map_version).bytes(text)
            }
            Self::Read { id, deadline_ms, age_ms, map_version, text } => {
                to.u64(id).u16(deadline_ms).u16(age_ms).u64(map_version).bytes(text)
            }
            Self::Reply { id, again, verdict, map_version, text } => {
                to.u64(id).u16(again).u8(verdict as u8).u64(map_version).bytes(text)
            }
            Self::StreamOpen { lane, lanes, log_incarnation, end } => {
                to.u8(lane).u8(lanes).u64(log_incarnation).u64(end)
            }
            Self::StreamFrom { lane, position } => to.u8(lane).u64(position),
            Self::StreamEnd { lane, reason, map_version } => {
                to.u8(lane).u8(reason).u64(map_version)
            }
            Self::Entries { lane, map_version, others_have, first, count, records } => {
                let to = to.u8(lane).u64(map_version).u64(others_have);
                to.u64(first).u32(count).bytes(records)
            }
            Self::Acked { lane, position, granted, wanted } => {
                to.u8(lane).u64(position).u64(granted).u64(wanted)
            }
            Self::Heartbeat {
                sent_ns,
                echo_ns,
                heard_ns,
                map_version,
                ready_version,
                expiry_s,
                suspects,
            } => {
                let times = to.u64(sent_ns).u64(echo_ns).u64(heard_ns);
                times.u64(map_version).u64(ready_version).u32(expiry_s).bytes(suspects)
            }
            Self::Call { id, kind, body } => to.u64(id).u8(kind).bytes(body),
            Self::Answer { id, ok, body } => to.u64(id).u8(u8::from(ok)).bytes(body),
            Self::Memory { free } => to.u64(free),
            Self::Shown { second } => to.u32(second),
            Self::Serves => &mut to,
            Self::Used { key } => to.bytes(key),
            Self::Refusals { count } => to.u64(count),
        };
        let bytes = to.end(rest_bytes);
        debug_assert!(bytes <= FRAME_BYTES_MAX, "a frame of {bytes} bytes");
    }

    /// The frame of these bytes, which are one frame without its length.
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let (number, rest) = bytes.split_first().ok_or(FrameError::Empty)?;
        let kind = FrameKind::of(*number).ok_or(FrameError::UnknownKind(*number))?;
        let mut fields = Fields::new(rest);
        let frame = Self::take(kind, &mut fields).map_err(|fault| match fault {
            Fault::Short => FrameError::Short(kind),
            Fault::Field(field, value, allowed) => {
                FrameError::Field { kind, field, value, allowed }
            }
        })?;
        match fields.left() {
            0 => Ok(frame),
            bytes => Err(FrameError::Trailing { kind, bytes }),
        }
    }

    /// The frame of this kind with the fields that `from` begins with.
    fn take(kind: FrameKind, from: &mut Fields<'a>) -> Result<Self, Fault> {
        Ok(match kind {
            FrameKind::Request => Self::Request {
                id: with_next("id", from.u64()?)?,
                deadline_ms: from.u16()?,
                hops: from.u8()?,
                worker: from.u16()?,
                first: from.u64()?,
                again: from.u16()?,
                map_version: from.u64()?,
                text: from.rest(),
            },
            FrameKind::Read => Self::Read {
                id: with_next("id", from.u64()?)?,
                deadline_ms: from.u16()?,
                age_ms: from.u16()?,
                map_version: from.u64()?,
                text: from.rest(),
            },
            FrameKind::Reply => Self::Reply {
                id: from.u64()?,
                again: from.u16()?,
                verdict: verdict(from.u8()?)?,
                map_version: from.u64()?,
                text: from.rest(),
            },
            FrameKind::StreamOpen => {
                let (lane, lanes) = (from.u8()?, from.u8()?);
                if !(1..=LANES_MAX).contains(&lanes) {
                    return Err(Fault::Field("lanes", lanes.into(), "1 to 64"));
                }
                if lane >= lanes {
                    return Err(Fault::Field("lane", lane.into(), "less than its lanes"));
                }
                let (log_incarnation, end) = (from.u64()?, with_next("end", from.u64()?)?);
                Self::StreamOpen { lane, lanes, log_incarnation, end }
            }
            FrameKind::StreamFrom => {
                Self::StreamFrom { lane: lane(from.u8()?)?, position: from.u64()? }
            }
            FrameKind::StreamEnd => Self::StreamEnd {
                lane: lane(from.u8()?)?,
                reason: from.u8()?,
                map_version: from.u64()?,
            },
            FrameKind::Entries => Self::entries(from)?,
            FrameKind::Acked => {
                let (lane, position) = (lane(from.u8()?)?, from.u64()?);
                Self::Acked { lane, position, granted: from.u64()?, wanted: from.u64()? }
            }
            FrameKind::Heartbeat => Self::Heartbeat {
                sent_ns: from.u64()?,
                echo_ns: from.u64()?,
                heard_ns: from.u64()?,
                map_version: from.u64()?,
                ready_version: from.u64()?,
                expiry_s: from.u32()?,
                suspects: from.rest(),
            },
            FrameKind::Call => Self::Call { id: from.u64()?, kind: from.u8()?, body: from.rest() },
            FrameKind::Answer => {
                Self::Answer { id: from.u64()?, ok: flag("ok", from.u8()?)?, body: from.rest() }
            }
            FrameKind::Memory => Self::Memory { free: from.u64()? },
            FrameKind::Shown => Self::Shown { second: from.u32()? },
            FrameKind::Serves => Self::Serves,
            FrameKind::Used => Self::Used { key: from.rest() },
            FrameKind::Refusals => Self::Refusals { count: from.u64()? },
        })
    }

    fn entries(from: &mut Fields<'a>) -> Result<Self, Fault> {
        let lane = lane(from.u8()?)?;
        let (map_version, others_have) = (from.u64()?, from.u64()?);
        let (first, count) = (from.u64()?, from.u32()?);
        let records = from.rest();
        if first == 0 || first.checked_add(count.into()).is_none() {
            return Err(Fault::Field("first", first, "1 and more, and its entries below 2^64"));
        }
        // Every entry has bytes.
        if count as usize > records.len() || (count == 0 && !records.is_empty()) {
            return Err(Fault::Field("count", count.into(), "as many as there are records"));
        }
        Ok(Self::Entries { lane, map_version, others_have, first, count, records })
    }
}

/// Gives a frame, which is `frame` as a whole, its length: its body was appended to it after it was
/// encoded with none.
pub fn end_frame(frame: &mut [u8]) {
    debug_assert!(frame.len() <= FRAME_BYTES_MAX, "a frame of {} bytes", frame.len());
    set_length(frame);
}

/// Bytes of a reply before the version of its map: its length, its kind, and what comes between.
const BEFORE_VERSION: usize = LENGTH_BYTES + 1 + 8 + 2 + 1;

/// Has `frame`, which is a [`Frame::Reply`] as a whole, or its beginning, say this version.
pub fn set_reply_version(frame: &mut [u8], map_version: u64) {
    if let Some(version) = frame.get_mut(BEFORE_VERSION..BEFORE_VERSION + 8) {
        version.copy_from_slice(&map_version.to_le_bytes());
    }
}

/// What is wrong with the fields of a frame.
enum Fault {
    /// The bytes end before the fields do.
    Short,
    /// The field with this name has this value; what is allowed.
    Field(&'static str, u64, &'static str),
}

impl From<Short> for Fault {
    fn from(_: Short) -> Self {
        Self::Short
    }
}

fn lane(number: u8) -> Result<u8, Fault> {
    if number < LANES_MAX {
        Ok(number)
    } else {
        Err(Fault::Field("lane", number.into(), "0 to 63"))
    }
}

/// A number that another one follows.
fn with_next(field: &'static str, number: u64) -> Result<u64, Fault> {
    match number {
        u64::MAX => Err(Fault::Field(field, number, "less than 2^64 - 1")),
        _ => Ok(number),
    }
}

fn flag(field: &'static str, number: u8) -> Result<bool, Fault> {
    match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Fault::Field(field, number.into(), "0 and 1")),
    }
}

fn verdict(number: u8) -> Result<Verdict, Fault> {
    let known = Verdict::ALL.get(usize::from(number)).copied();
    known.ok_or(Fault::Field("verdict", number.into(), "0 to 5"))
}

//! Which journal the backend belongs to, and what it keeps of the versions that its journals have
//! given out.
//!
//! ```text
//! note journal   names the journal                before anything else is written
//! note slices    names the journal, and has of    before that journal gives out a version, and
//!                each slice a ceiling, a barrier  before any version above a ceiling
//! ```
//!
//! A journal that has nothing may adopt what another one has written below. It begins at the
//! ceilings, so it repeats no version; what a barrier has ended there stays so. The other journal
//! is refused from then on.

use crate::backend::{Backend, BackendError, Failure};
use crate::error::TierError;
use crate::journal::{
    Found, Journal, JournalId, RecoverError, SliceState, decode_slices, encode_slice,
};
use base::{SLICES, SliceId};

/// The note that names the journal.
const OWNER: &str = "journal";

/// The note of what was given out.
const GIVEN: &str = "slices";

/// Bytes of that note before its slices: the name of the journal, and a CRC of all others.
const HEAD_BYTES: usize = 20;

/// What lies below belongs to this journal.
pub(crate) struct Claimed {
    /// By slice, what is kept there; empty where no version was given out.
    pub(crate) given: Vec<SliceState>,
    /// Whether the journal has begun with what another one has written there.
    pub(crate) is_adopted: bool,
}

/// Makes what lies below that of the journal that was `found`, or finds that it is. `adopts`: also
/// where it is that of another one, if the journal has nothing.
pub(crate) fn claim(
    backend: &dyn Backend,
    found: &mut Found,
    (salvages, adopts): (bool, bool),
) -> Result<Claimed, TierError> {
    let owner = backend.note(OWNER)?;
    let is_own = owner.as_deref() == Some(&found.journal[..]);
    let is_empty = found.start == 1;
    let name = || backend.name().to_owned();
    let is_other = || Err(TierError::OtherJournal { backend: name(), may_adopt: is_empty });
    if owner.is_none() && !is_empty {
        if !salvages {
            return Err(TierError::OtherDatabase { backend: name() });
        }
        found.lost.push("all that was written back: the database is new".to_owned());
    }
    if owner.is_some() && !is_own && !(is_empty && adopts) {
        return is_other();
    }
    backend.begin()?;
    // Another cell may have begun there since.
    if backend.note(OWNER)? != owner {
        return is_other();
    }
    let given = read(backend)?;
    if given.is_none() && !is_own && owner.is_some() {
        return Err(TierError::NothingGiven { backend: name() });
    }
    if !is_own {
        backend.set_note(OWNER, &found.journal)?;
    }
    let Some((by, given)) = given else {
        return Ok(Claimed { given: Vec::new(), is_adopted: false });
    };
    let is_adopted = !found.is_begun && by != found.journal;
    if is_adopted {
        found.begin_empty(&given);
    } else if !found.is_begun {
        let what = "the journal was written, and none of its segments is there".to_owned();
        match salvages {
            true => found.lost.push(what),
            false => return Err(RecoverError::Corrupt(what).into()),
        }
    }
    Ok(Claimed { given, is_adopted })
}

/// Keeps below what a journal may give out and what barriers have ended, if that has changed.
pub(crate) fn keep_given(journal: &Journal, backend: &dyn Backend) -> Result<(), BackendError> {
    let Some(states) = journal.states().take_unkept() else { return Ok(()) };
    let kept = backend.set_note(GIVEN, &encode(journal.name(), &states));
    journal.states().set_kept(&states, kept.is_ok());
    kept
}

fn encode(journal: JournalId, states: &[SliceState]) -> Vec<u8> {
    let mut note = [&journal[..], &[0; 4]].concat();
    for (slice, state) in SliceId::all().zip(states) {
        encode_slice(slice, state, &mut note);
    }
    let crc = crc_of(&journal, &note[HEAD_BYTES..]);
    note[16..HEAD_BYTES].copy_from_slice(&crc);
    note
}

fn crc_of(journal: &[u8], slices: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(journal);
    hasher.update(slices);
    hasher.finalize().to_le_bytes()
}

fn decode(note: &[u8]) -> Option<(JournalId, Vec<SliceState>)> {
    let (head, slices) = note.split_first_chunk::<HEAD_BYTES>()?;
    let (journal, crc) = head.split_at(16);
    if crc_of(journal, slices) != crc {
        return None;
    }
    let states: Vec<_> = decode_slices(slices)?.into_iter().map(|(_, state)| state).collect();
    (states.len() == SLICES).then_some((journal.try_into().ok()?, states))
}

fn read(backend: &dyn Backend) -> Result<Option<(JournalId, Vec<SliceState>)>, BackendError> {
    let Some(note) = backend.note(GIVEN)? else { return Ok(None) };
    let wrong = || {
        let what = format!("{}: its note {GIVEN} is not what was written", backend.name());
        BackendError { failure: Failure::Corrupt, what }
    };
    decode(&note).map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Version;

    #[test]
    fn what_was_given_is_read_as_it_was_written_and_not_where_a_byte_differs() {
        let state = |slice: u64| SliceState {
            last: Version::from_raw(slice),
            ceiling: Version::from_raw(slice << 20),
            barrier: Version::from_raw(slice / 2),
            due_s: slice as u32,
            flushed: 0,
        };
        let states: Vec<_> = (0..SLICES as u64).map(state).collect();
        let note = encode([3; 16], &states);
        assert_eq!(decode(&note), Some(([3; 16], states)));
        for at in (0..note.len()).step_by(997).chain(0..HEAD_BYTES) {
            let mut other = note.clone();
            other[at] ^= 1;
            assert_eq!(decode(&other), None, "byte {at}");
        }
        assert_eq!(decode(&note[..note.len() - 1]), None);
        assert_eq!(decode(&[]), None);
    }
}

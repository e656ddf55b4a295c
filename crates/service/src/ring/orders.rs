//! What an operator wants, in the words of `stats ring`:
//!
//! ```text
//! forgive RANGE EPOCH CONFIG                  move RANGE EPOCH CONFIG CELL [FROM]
//! divide RANGE EPOCH CONFIG SLICE CELL        recover VERSION
//! leave CELL START drained|absorbed [forced]  stay CELL START
//! remove CELL START
//! restart START                               of the cell that is asked
//! ```
//!
//! `OK` means that it is proposed, or looked into: it is refused later where the member knows
//! better.

use super::cell::{Finding, RingCell};
use memcache::{Refusal, Words, reply};
use ring::{CellId, Command, Division, Incarnation, Leaving, Order, RangeId, Stamp};

/// Passes on what these words say, if they are such. Returns whether they are.
pub(super) fn give(ring: &RingCell, mut words: Words<'_>, out: &mut Vec<u8>) -> bool {
    let finding = match words.next() {
        Some(b"forgive") => forgive(&mut words),
        Some(b"move") => moves(&mut words),
        Some(b"divide") => divide(&mut words),
        Some(b"leave") => leave(&mut words),
        Some(b"stay") => stay(&mut words),
        Some(b"remove") => remove(&mut words),
        Some(b"restart") => restart(ring, &mut words),
        Some(b"recover") => recover(&mut words),
        _ => return false,
    };
    match finding.filter(|_| words.next().is_none()) {
        Some(finding) => pass_on(ring, finding, out),
        None => out.extend_from_slice(Refusal::BadFormat.line()),
    }
    true
}

fn forgive(words: &mut Words<'_>) -> Option<Finding> {
    Some(Finding::Ordered(Order::Forgive { at: stamp(words)? }))
}

fn moves(words: &mut Words<'_>) -> Option<Finding> {
    let (at, cell) = (stamp(words)?, cell(words)?);
    let from = words.next().map(number).map(|number| number.and_then(to_cell));
    let from = from.map_or(Some(None), |from| from.map(Some))?;
    Some(Finding::Ordered(Order::Move { at, cell, from }))
}

fn divide(words: &mut Words<'_>) -> Option<Finding> {
    let at = stamp(words)?;
    let slice = u16::try_from(number(words.next()?)?).ok()?;
    let into = Division { slice, cell: cell(words)? };
    Some(Finding::Ordered(Order::Divide { at, into }))
}

fn leave(words: &mut Words<'_>) -> Option<Finding> {
    let (cell, life) = (cell(words)?, Incarnation(number(words.next()?)?));
    let is_absorbed = match words.next()? {
        b"drained" => false,
        b"absorbed" => true,
        _ => return None,
    };
    let is_forced = match words.next() {
        None => false,
        Some(b"forced") => true,
        Some(_) => return None,
    };
    let how = Leaving { is_absorbed, is_forced };
    Some(Finding::Wants(Command::Leave { cell, life, how }))
}

fn stay(words: &mut Words<'_>) -> Option<Finding> {
    let (cell, life) = (cell(words)?, Incarnation(number(words.next()?)?));
    Some(Finding::Wants(Command::Stay { cell, life }))
}

fn remove(words: &mut Words<'_>) -> Option<Finding> {
    let (cell, life) = (cell(words)?, Incarnation(number(words.next()?)?));
    Some(Finding::Wants(Command::Remove { cell, life }))
}

fn restart(ring: &RingCell, words: &mut Words<'_>) -> Option<Finding> {
    let life = Incarnation(number(words.next()?)?);
    Some(Finding::Restarts { cell: ring.identity.cell, life })
}

fn recover(words: &mut Words<'_>) -> Option<Finding> {
    Some(Finding::Recovers { version: number(words.next()?)? })
}

/// A range as an operator has seen it: its id, its epoch, its configuration.
fn stamp(words: &mut Words<'_>) -> Option<Stamp> {
    let mut next = || number(words.next()?);
    let (range, epoch, config) = (next()?, next()?, next()?);
    let (range, epoch) = (u32::try_from(range).ok()?, u32::try_from(epoch).ok()?);
    Some(Stamp { range: RangeId(range), epoch, config })
}

fn cell(words: &mut Words<'_>) -> Option<CellId> {
    to_cell(number(words.next()?)?)
}

fn to_cell(number: u64) -> Option<CellId> {
    u32::try_from(number).ok().map(CellId)
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn pass_on(ring: &RingCell, finding: Finding, out: &mut Vec<u8>) {
    let map = ring.map();
    let (stands, what) = match &finding {
        Finding::Ordered(order) => {
            let at = order.at();
            (map.range(at.range).is_some_and(|range| range.stamp() == at), "range")
        }
        Finding::Wants(
            Command::Leave { cell, life, .. }
            | Command::Stay { cell, life }
            | Command::Remove { cell, life },
        )
        | Finding::Restarts { cell, life } => {
            let known = map.cells.get(cell).map(|cell| cell.started.incarnation);
            (known == Some(*life), "cell")
        }
        Finding::Recovers { version } => (map.version == *version, "map"),
        _ => (true, "ring"),
    };
    let options = ring.cell.options();
    if matches!(finding, Finding::Restarts { .. }) && !options.allow_shutdown {
        out.extend_from_slice(reply::SHUTDOWN_DISABLED);
    } else if !options.allow_flush {
        out.extend_from_slice(reply::FLUSH_DISABLED);
    } else if !stands {
        let line = format!("CLIENT_ERROR the {what} has changed; look again\r\n");
        out.extend_from_slice(line.as_bytes());
    } else if let Finding::Wants(Command::Remove { cell, .. }) = finding
        && let Some(why) = why_it_stays(ring, cell)
    {
        let line = format!("CLIENT_ERROR cell {cell} is not removed: {why}\r\n");
        out.extend_from_slice(line.as_bytes());
    } else {
        ring.find(finding);
        out.extend_from_slice(reply::OK);
    }
}

/// Why the ring is not to forget `cell`, besides what the map itself refuses: it may run.
fn why_it_stays(ring: &RingCell, cell: CellId) -> Option<&'static str> {
    let past = ring.history.past();
    let Some(outlook) = &past.outlook else { return Some("it is not known whether it runs") };
    match outlook {
        _ if outlook.heard.contains(&cell) => Some("it runs"),
        _ if outlook.voters.contains(&cell) => Some("it votes"),
        _ => None,
    }
}

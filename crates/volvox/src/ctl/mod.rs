//! `volvox ctl`: questions to a ring that runs, asked as a client of its cells.
//!
//! ```text
//! wanted --> survey: `stats ring` of every cell that the newest map names (client, map)
//!               |
//!               +--> ring      what there is, what is wrong, what the end of a cell would cost
//!               +--> ops       what is under way
//!               +--> who_has   which cells hold a key
//!               +--> keys      every key once
//!               +--> log       what has changed, and why
//!               +--> stop      a cell ends, if the others can do without it
//!               +--> moving    a cell leads a range, and no client notices
//!               +--> dividing  a range becomes two, and a spare leads one of them (weights)
//!               +--> balancing  cells lead as much as others (dividing, moving, weights)
//!               +--> leaving   other cells take all that a cell has
//!               +--> removing  the ring forgets a cell that has ended
//!               +--> restarting  one cell after the other is emptied and begins again
//!               +--> forgive   a range that is lost begins again empty
//!               +--> recover   a cell goes on as the only voter
//!
//! wanted --> tier              `stats tier` of one cell, and the request to write back
//! ```
//!
//! Only `move`, `divide`, `balance`, `drain`, `absorb`, `remove`, `restart`, `stop`, `forgive`,
//! `recover`, `tier flush`, `tier retry`, `tier discard` and `tier policy` change anything. Each
//! answer is a table or JSON.
//! A cell that does not answer within the time-out is part of the answer, with the reason.

mod balancing;
mod check;
mod client;
mod discard;
mod dividing;
mod forgive;
mod hint;
mod interrupt;
mod keys;
mod leaving;
mod log;
mod loss;
mod map;
mod moving;
mod ops;
mod picture;
mod progress;
mod recover;
mod removing;
mod report;
mod restarting;
mod ring;
mod stop;
mod style;
mod survey;
mod table;
mod tier;
mod time;
mod wanted;
mod watched;
mod weights;
mod who_has;

use std::error::Error;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::time::Duration;

use style::Style;
use survey::Survey;

pub use wanted::{
    Balance, By, DEFAULT_SERVER, Division, Leave, Movement, Question, Restart, Wanted,
};

/// Answers a question.
///
/// # Errors
/// That no cell answers, or none that is in a ring.
pub fn ctl(wanted: &Wanted) -> Result<u8, Box<dyn Error>> {
    let is_default = wanted.servers == [DEFAULT_SERVER];
    hint::set(if is_default { &[] } else { &wanted.servers });
    let stdout = io::stdout().lock();
    let style = Style::of(stdout.is_terminal(), |name| std::env::var(name).ok());
    let mut out = BufWriter::new(stdout);
    let answered = answer(wanted, style, &mut out);
    match answered.and_then(|code| Ok(out.flush().map(|()| code)?)) {
        // Nobody reads any more, as after `head`: that is no failure.
        Err(error) if is_broken_pipe(error.as_ref()) => Ok(0),
        other => other,
    }
}

/// Writes the answer to `out` as to a file; for a command that asks among other things.
///
/// # Errors
/// As of [`ctl`].
#[cfg(feature = "lab")]
pub fn answer_plainly(wanted: &Wanted, out: &mut dyn Write) -> Result<u8, Box<dyn Error>> {
    answer(wanted, Style::default(), out)
}

fn answer(wanted: &Wanted, style: Style, out: &mut dyn Write) -> Result<u8, Box<dyn Error>> {
    let take = || Survey::take(&wanted.servers, wanted.timeout);
    match &wanted.question {
        Question::Ring { every: None } => ring::print(&take()?, wanted.json, style, out)?,
        Question::Ring { every: Some(every) } => {
            let clears = style.clears && !wanted.json;
            watch(*every, clears, out, |out| Ok(ring::print(&take()?, wanted.json, style, out)?))?;
        }
        Question::RingAtRest { wait } => {
            let (survey, is_at_rest) = ring::await_rest(take, *wait)?;
            ring::print(&survey, wanted.json, style, out)?;
            return Ok(u8::from(!is_at_rest));
        }
        Question::WhoHas { keys, are_hex } => {
            return who_has::print(&take()?, (keys, *are_hex), wanted, style, out);
        }
        Question::Keys { prefix, limit } => {
            return keys::print(&take()?, (prefix, *limit), wanted, out);
        }
        Question::Stop { cell, is_certain } => {
            return stop::stop(&take()?, (*cell, *is_certain), wanted, out);
        }
        Question::Remove { cell, wait } => {
            return removing::remove(&take()?, (*cell, *wait), wanted, out);
        }
        Question::Move(movement) => {
            return moving::move_range(&take()?, movement, wanted, out);
        }
        Question::Divide(division) => {
            return dividing::divide(&take()?, division, wanted, out);
        }
        Question::Balance(balance) => {
            return balancing::balance(&take()?, balance, wanted, out);
        }
        Question::Operations => ops::print(&take()?, wanted.json, out)?,
        Question::Restart(restart) => return restarting::restart(restart, wanted, out),
        Question::Leave(leave) => return leaving::leave(&take()?, leave, wanted, out),
        Question::Forgive { range, is_certain } => {
            return forgive::forgive(&take()?, (*range, *is_certain), wanted, out);
        }
        Question::Recover { cell, is_certain } => {
            return recover::recover(&take()?, (*cell, *is_certain), wanted, out);
        }
        Question::Tier { every: None } => tier::status(wanted, style, out)?,
        Question::Tier { every: Some(every) } => {
            let clears = style.clears && !wanted.json;
            watch(*every, clears, out, |out| tier::status(wanted, style, out))?;
        }
        Question::TierFlush { wait } => return tier::flush(wanted, *wait, out),
        Question::TierRetry { wait } => return tier::retry(wanted, *wait, out),
        Question::TierDiscard { keys, prefix, run, is_certain, wait } => {
            let which = discard::which(keys, prefix.as_deref(), *run)?;
            return discard::discard(wanted, (&which, *is_certain, *wait), out);
        }
        Question::TierCheck { wait } => return check::check(wanted, *wait, out),
        Question::TierPolicy { rules } => tier::policy(wanted, rules, style, out)?,
        Question::Log { limit } => log::print(&take()?, *limit, wanted, style, out)?,
    }
    Ok(0)
}

/// Answers again and again, until nobody reads any more. What cannot be answered just now is said,
/// and asked again. An answer is asked for before the one before it is cleared.
fn watch(
    every: Duration,
    clears: bool,
    out: &mut dyn Write,
    answer: impl Fn(&mut dyn Write) -> Result<(), Box<dyn Error>>,
) -> io::Result<()> {
    loop {
        let mut text = Vec::new();
        if let Err(error) = answer(&mut text) {
            writeln!(text, "{error}")?;
        }
        if clears {
            out.write_all(style::CLEAR)?;
        }
        out.write_all(&text)?;
        out.flush()?;
        std::thread::sleep(every);
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == ErrorKind::BrokenPipe)
}

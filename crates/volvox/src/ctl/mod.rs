//! `volvox ctl`: questions to a ring that runs, asked as a client of its cells.
//!
//! ```text
//! wanted --> survey: `stats ring` of every cell that the newest map names (client, map)
//!               |
//!               +--> ring      what there is, what is wrong, what the end of a cell would cost
//!               +--> who_has   which cells hold a key
//!               +--> keys      every key once
//!               +--> log       what has changed, and why
//!               +--> stop      a cell ends, if the others can do without it
//!               +--> forgive   a range that is lost begins again empty
//!               +--> recover   a cell goes on as the only voter
//! ```
//!
//! Only `stop`, `forgive` and `recover` change anything. Each answer is a table or JSON. A cell
//! that does not answer within the time-out is part of the answer, with the reason.

mod client;
mod forgive;
mod keys;
mod log;
mod loss;
mod map;
mod picture;
mod recover;
mod report;
mod ring;
mod stop;
mod style;
mod survey;
mod table;
mod time;
mod wanted;
mod who_has;

use std::error::Error;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};

use style::Style;
use survey::Survey;

pub use wanted::{Question, Wanted};

/// Answers a question.
///
/// # Errors
/// That no cell answers, or none that is in a ring.
pub fn ctl(wanted: &Wanted) -> Result<u8, Box<dyn Error>> {
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

fn answer(wanted: &Wanted, style: Style, out: &mut dyn Write) -> Result<u8, Box<dyn Error>> {
    let take = || Survey::take(&wanted.servers, wanted.timeout);
    match &wanted.question {
        Question::Ring { every: None } => ring::print(&take()?, wanted.json, style, out)?,
        Question::Ring { every: Some(every) } => loop {
            let survey = take();
            if style.clears && !wanted.json {
                out.write_all(style::CLEAR)?;
            }
            match survey {
                Ok(survey) => ring::print(&survey, wanted.json, style, out)?,
                Err(error) => writeln!(out, "{error}")?,
            }
            out.flush()?;
            std::thread::sleep(*every);
        },
        Question::WhoHas { keys } => return who_has::print(&take()?, keys, wanted, style, out),
        Question::Keys { prefix, limit } => {
            return keys::print(&take()?, (prefix, *limit), wanted, out);
        }
        Question::Stop { cell, is_certain } => {
            return stop::stop(&take()?, (*cell, *is_certain), wanted, out);
        }
        Question::Forgive { range, is_certain } => {
            return forgive::forgive(&take()?, (*range, *is_certain), wanted, out);
        }
        Question::Recover { cell, is_certain } => {
            return recover::recover(&take()?, (*cell, *is_certain), wanted, out);
        }
        Question::Log { limit } => log::print(&take()?, *limit, wanted, style, out)?,
    }
    Ok(0)
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == ErrorKind::BrokenPipe)
}

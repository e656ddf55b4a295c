//! The words of a command line become flags, by the rules of GNU `getopt_long`.
//!
//! Short flags can be joined (`-vvv`, `-m64`). A long one can be shortened as long as it is
//! unambiguous, and takes `=value`. `--` ends the flags. A word that belongs to no flag is refused;
//! memcached ignores such words, also misspelt ones.

use super::draft::{Draft, Start};
use super::flags::FLAGS;
use super::row::{Action, Flag};

/// What a command line requests.
#[derive(Debug)]
pub enum Command {
    /// Print the help text.
    Help,
    /// Print the licence.
    License,
    /// Print the version.
    Version,
    /// Start serving.
    Start(Start),
}

/// Parses the words after the program's name.
///
/// # Errors
/// The first word that cannot be understood or served, with the reason.
pub fn parse(words: &[String]) -> Result<Command, String> {
    let mut draft = Draft::default();
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let command = if word == "--" {
            match words.next() {
                None => break,
                Some(extra) => return Err(stray(extra)),
            }
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            one(&mut draft, long_flag(name)?, value, &mut words)?
        } else if let Some(cluster) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            cluster_of(&mut draft, cluster, &mut words)?
        } else {
            return Err(stray(word));
        };
        if let Some(command) = command {
            return Ok(command);
        }
    }
    draft.finish().map(Command::Start)
}

fn stray(word: &str) -> String {
    format!("{word}: this word belongs to no flag; flags begin with - (see -h)")
}

/// The short flags in one word; the first that takes a value takes the rest of it.
fn cluster_of<'a>(
    draft: &mut Draft,
    cluster: &'a str,
    words: &mut impl Iterator<Item = &'a str>,
) -> Result<Option<Command>, String> {
    for (place, short) in cluster.char_indices() {
        let flag = FLAGS
            .iter()
            .find(|flag| flag.short == Some(short))
            .ok_or_else(|| format!("-{short}: unknown flag; see -h"))?;
        let rest = &cluster[place + short.len_utf8()..];
        let takes_rest = flag.argument.name().is_some();
        let value = Some(rest).filter(|rest| takes_rest && !rest.is_empty());
        let command = one(draft, flag, value, words)?;
        if command.is_some() || takes_rest {
            return Ok(command);
        }
    }
    Ok(None)
}

fn long_flag(name: &str) -> Result<&'static Flag, String> {
    // memcached documents one long flag with an underscore and accepts it with a dash.
    let spelling = |flag: &Flag| flag.name.replace('_', "-");
    let wanted = name.replace('_', "-");
    if let Some(flag) = FLAGS.iter().find(|flag| !wanted.is_empty() && spelling(flag) == wanted) {
        return Ok(flag);
    }
    let fits = |flag: &&Flag| !wanted.is_empty() && spelling(flag).starts_with(&wanted);
    let candidates: Vec<_> = FLAGS.iter().filter(fits).collect();
    match candidates.as_slice() {
        [flag] => Ok(flag),
        [] => {
            let nearest = Flag::nearest(FLAGS, name);
            Err(format!("--{name}: unknown flag; did you mean --{nearest}?"))
        }
        several => {
            let names: Vec<_> = several.iter().map(|flag| format!("--{}", flag.name)).collect();
            Err(format!("--{name}: could be {}; write it out", names.join(" or ")))
        }
    }
}

/// Carries out one flag, taking its value from `words` if it has none yet.
fn one<'a>(
    draft: &mut Draft,
    flag: &'static Flag,
    value: Option<&'a str>,
    words: &mut impl Iterator<Item = &'a str>,
) -> Result<Option<Command>, String> {
    match flag.action {
        Action::Help => return Ok(Some(Command::Help)),
        Action::License => return Ok(Some(Command::License)),
        Action::Version => return Ok(Some(Command::Version)),
        _ => {}
    }
    let spelling = flag.spelling();
    let value = match (flag.argument.name(), value) {
        (None, _) => "",
        (Some(_), Some(value)) => value.trim_start(),
        (Some(name), None) => {
            words.next().ok_or_else(|| format!("{spelling}: needs a value, <{name}>"))?.trim_start()
        }
    };
    let separator = if value.is_empty() { "" } else { " " };
    draft
        .carry_out(flag, value)
        .map_err(|reason| format!("{spelling}{separator}{value}: {reason}"))?;
    Ok(None)
}

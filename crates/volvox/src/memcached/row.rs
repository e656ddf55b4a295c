//! The shape of a row in the tables of flags and sub-options.

use super::draft::Draft;

/// What happens when a flag is met.
pub enum Act {
    /// Sets one of our settings to a fixed word.
    Put(&'static str, &'static str),
    /// Sets one of our settings to the flag's value.
    Take(&'static str),
    /// Anything richer; an error reads on after the flag and its value.
    Run(fn(&mut Draft, &str) -> Result<(), String>),
    /// As `Run`, and whether the part was asked for that has no counterpart here, for the reason
    /// given.
    RunPart(fn(&mut Draft, &str) -> Result<bool, String>, &'static str),
    /// Has nothing to act on here, for the reason given; logged at start.
    Note(&'static str, Stat),
    /// Cannot be served, for the reason given.
    Refuse(&'static str),
    /// Prints the help text and ends.
    Help,
    /// Prints the licence and ends.
    License,
    /// Prints the version and ends.
    Version,
}

/// What `stats settings` reports because of a flag that is only noted.
pub enum Stat {
    /// Nothing.
    None,
    /// The flag's number, times a factor, under this name.
    Given(&'static str, u64),
    /// The flag's value as it was written, under this name.
    AsWritten(&'static str),
    /// These values.
    Fixed(&'static [(&'static str, &'static str)]),
}

/// What stands after a flag.
pub enum Argument {
    /// Nothing; a value after a sub-option is ignored, as memcached does.
    Nothing,
    /// Some text, described by this word.
    Text(&'static str),
    /// A whole number in this range.
    Number(i64, i64),
    /// A decimal number above the first and at most the second.
    Decimal(f64, f64),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number in this range, or nothing.
    Optional(i64, i64),
}

impl Argument {
    /// The word that stands for it in the help text, if one must follow.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            Self::Nothing | Self::Optional(..) => None,
            Self::Text(name) => Some(name),
            Self::Number(..) => Some("num"),
            Self::Decimal(..) => Some("ratio"),
            Self::Word(_) => Some("name"),
        }
    }

    /// Whether `value` may stand there; an error reads on after the flag and the value.
    pub(super) fn check(&self, value: &str) -> Result<(), String> {
        let number = |min: i64, max: i64| match value.parse::<i64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(()),
            Ok(_) => Err(format!("out of range; choose a number from {min} to {max}")),
            Err(_) => Err(format!("expected a whole number from {min} to {max}")),
        };
        match *self {
            Self::Nothing | Self::Text(_) => Ok(()),
            Self::Optional(..) if value.is_empty() => Ok(()),
            Self::Number(min, max) | Self::Optional(min, max) => number(min, max),
            Self::Decimal(above, max) => match value.parse::<f64>() {
                Ok(number) if number > above && number <= max => Ok(()),
                _ => Err(format!("expected a number above {above} and at most {max}")),
            },
            Self::Word(words) if words.contains(&value) => Ok(()),
            Self::Word(words) => Err(format!("expected one of {}", words.join(", "))),
        }
    }
}

/// A flag.
pub struct Flag {
    /// After one dash.
    pub short: char,
    /// After two dashes.
    pub long: &'static str,
    /// What follows.
    pub argument: Argument,
    /// What it is for.
    pub about: &'static str,
    /// What it does here.
    pub act: Act,
}

/// A sub-option of `-o`.
pub struct Suboption {
    /// Its name.
    pub name: &'static str,
    /// What follows after `=`.
    pub argument: Argument,
    /// What it is for.
    pub about: &'static str,
    /// What it does here.
    pub act: Act,
}

/// How a flag is treated, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Does what it does in memcached.
    Honoured,
    /// Does part of it; a note says what is missing.
    InPart,
    /// Accepted; a note says why it changes nothing.
    Noted,
    /// An error says why.
    Refused,
}

impl Act {
    /// How the flag is treated.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::RunPart(..) => Verdict::InPart,
            Self::Note(..) => Verdict::Noted,
            Self::Refuse(_) => Verdict::Refused,
            _ => Verdict::Honoured,
        }
    }

    /// Why it is not honoured, or not altogether.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::RunPart(_, reason) | Self::Note(reason, _) | Self::Refuse(reason) => Some(reason),
            _ => None,
        }
    }
}

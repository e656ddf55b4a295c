//! A row of the two tables of flags: what the flag is called, what follows it, what it does here.
//!
//! Rows are data. [`super::draft`] is the only file that acts on them; the help text and the page
//! of flags print them. A reason follows the flag
//! and a colon.

/// What happens when a flag is met.
pub enum Action {
    /// Sets one of our settings to a fixed word.
    Set(&'static str, &'static str),
    /// Sets one of our settings to the flag's value.
    Pass(&'static str),
    /// Needs code of its own.
    Run(Special),
    /// As `Run`; a line in the log gives the reason if the flag requests the part that does not
    /// exist here.
    RunPart(Special, &'static str),
    /// Changes nothing, for the reason given; a line in the log repeats it.
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

/// The flags that need code of their own, because they depend on others or set several things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// `-p`
    Port,
    /// `-U`
    UdpPort,
    /// `-s`
    UnixSocket,
    /// `-l`
    Listen,
    /// `-v`
    Verbose,
    /// `-L`
    LargePages,
    /// `-B`
    Protocol,
    /// `-Y`
    AuthFile,
    /// `-o`
    Extended,
    /// `-o no_modern`
    NoModern,
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

/// What follows a flag.
pub enum Argument {
    /// Nothing; a value after an option of `-o` is ignored, as memcached does.
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
    /// Its placeholder in the help text, if an argument must follow.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            Self::Nothing | Self::Optional(..) => None,
            Self::Text(name) => Some(name),
            Self::Number(..) => Some("num"),
            Self::Decimal(..) => Some("ratio"),
            Self::Word(_) => Some("name"),
        }
    }

    /// Checks that `value` may follow; an error follows the flag and the value.
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

/// A flag, or an option of `-o`.
pub struct Flag {
    /// After one dash; an option of `-o` has none.
    pub short: Option<char>,
    /// After two dashes, or after `-o`; empty if there is only the short form.
    pub name: &'static str,
    /// What follows.
    pub argument: Argument,
    /// What it is for.
    pub about: &'static str,
    /// What it does here.
    pub action: Action,
}

impl Flag {
    /// How messages call it: `-m`, or `-o idle_timeout`.
    pub(super) fn spelling(&self) -> String {
        self.short.map_or_else(|| format!("-o {}", self.name), |short| format!("-{short}"))
    }

    /// The flag of `table` whose name is most like `name`.
    pub(super) fn nearest(table: &'static [Self], name: &str) -> &'static str {
        let likeness = |flag: &&Self| strsim::normalized_damerau_levenshtein(name, flag.name);
        let nearest = table.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        nearest.expect("invariant: the table has rows").name
    }
}

/// How a flag is treated, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    /// Does what it does in memcached.
    Honoured,
    /// Does part of it; a line in the log says what is missing.
    InPart,
    /// Accepted; a line in the log says why it changes nothing.
    Noted,
    /// An error says why.
    Refused,
}

impl Action {
    /// How the flag is treated.
    #[must_use]
    pub fn support(&self) -> Support {
        match self {
            Self::RunPart(..) => Support::InPart,
            Self::Note(..) => Support::Noted,
            Self::Refuse(_) => Support::Refused,
            _ => Support::Honoured,
        }
    }

    /// Why it is not honoured, or only in part.
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::RunPart(_, reason) | Self::Note(reason, _) | Self::Refuse(reason) => Some(reason),
            _ => None,
        }
    }
}

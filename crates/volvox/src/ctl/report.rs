//! Reports of statistics, read by name.

use std::fmt;
use std::str::FromStr;

/// A line that this program cannot read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// The name.
    pub(super) name: String,
    /// The value. Empty if the line is missing.
    pub(super) value: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = (&self.name, &self.value);
        let what = if value.is_empty() { "is missing" } else { "cannot be read" };
        write!(f, "STAT {name} {value}: it {what}; use the volvox that the cells run")
    }
}

impl std::error::Error for Unreadable {}

/// The value of a line, as a number or the like.
pub(super) fn parse<T: FromStr>(name: &str, value: &str) -> Result<T, Unreadable> {
    let unreadable = || Unreadable { name: name.to_owned(), value: value.to_owned() };
    value.parse().map_err(|_| unreadable())
}

/// A list with commas; `none` is an empty one.
pub(super) fn parse_list(name: &str, value: &str) -> Result<Vec<u32>, Unreadable> {
    if value == "none" {
        return Ok(Vec::new());
    }
    value.split(',').map(|word| parse(name, word)).collect()
}

/// The value of the line `name` in `report`.
pub(super) fn find<T: FromStr>(report: &[(String, String)], name: &str) -> Result<T, Unreadable> {
    let found = report.iter().find(|(it, _)| it == name);
    parse(name, found.map_or("", |(_, value)| value))
}

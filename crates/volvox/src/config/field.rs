//! How one field is read from a written value and shown again.
//!
//! Values arrive in two shapes: typed, from TOML, or as a bare word, from the environment or the
//! command line. A field accepts what needs no guess: `workers = "4"` in TOML is refused,
//! `VOLVOX_SERVER_WORKERS=4` is accepted. [`Field::read`] accepts what [`Field::show`] gives. A
//! value that is refused leaves the field as it was.

use std::fmt::{Display, Formatter};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::units::{parse_size, show_size};

/// A value as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// From the environment or a flag; the field decides its type.
    Word(String),
    /// A TOML string.
    Text(String),
    /// A TOML integer.
    Number(i64),
    /// A TOML boolean.
    Switch(bool),
    /// A TOML array of strings.
    List(Vec<String>),
    /// TOML that no setting takes: a float, a date, a table.
    Other(String),
}

impl Display for Value {
    /// As it would stand in a TOML file.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(text) | Self::Text(text) => write_quoted(f, text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Switch(on) => write!(f, "{on}"),
            Self::Other(text) => f.write_str(text),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    write_quoted(f, item)?;
                }
                f.write_str("]")
            }
        }
    }
}

fn write_quoted(f: &mut Formatter<'_>, text: &str) -> std::fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            c if c.is_control() => write!(f, "\\u{:04X}", u32::from(c))?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// No number.
    None,
    /// Things.
    Count,
    /// Seconds.
    Seconds,
    /// Bytes, with an optional suffix.
    Bytes,
    /// A size whose bare number counts MiB, as memcached's `-m`.
    Mebibytes,
    /// Permission bits, in octal.
    Octal,
}

/// Unit and range of a field.
#[derive(Clone, Debug)]
pub struct Rule {
    /// What its number counts.
    pub unit: Unit,
    /// The values it may take, in that unit (sizes: in bytes).
    pub range: RangeInclusive<u64>,
}

/// Why a value was refused. The text follows the value: limit, then remedy.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal(pub String);

impl Refusal {
    fn expected(what: &str) -> Self {
        Self(format!("expected {what}"))
    }
}

/// A field of the settings.
pub trait Field {
    /// Takes `value`, or stays as it was.
    ///
    /// # Errors
    /// The limit that `value` breaks, and the remedy.
    fn read(&mut self, value: &Value, rule: &Rule) -> Result<(), Refusal>;

    /// The value as a TOML file would hold it.
    fn show(&self, rule: &Rule) -> Value;

    /// The words that it takes, if they are a few.
    fn words(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

impl Field for bool {
    fn read(&mut self, value: &Value, _: &Rule) -> Result<(), Refusal> {
        *self = match value {
            Value::Switch(on) => *on,
            Value::Word(word) => match word.as_str() {
                "true" | "yes" | "on" | "1" => true,
                "false" | "no" | "off" | "0" => false,
                _ => return Err(Refusal::expected("true or false")),
            },
            _ => return Err(Refusal::expected("true or false, without quotes")),
        };
        Ok(())
    }

    fn show(&self, _: &Rule) -> Value {
        Value::Switch(*self)
    }
}

macro_rules! number_fields {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn read(&mut self, value: &Value, rule: &Rule) -> Result<(), Refusal> {
                *self = Self::try_from(read_number(value, rule)?)
                    .expect("invariant: the range of a key fits its field's type");
                Ok(())
            }

            fn show(&self, rule: &Rule) -> Value {
                show_number(*self as u64, rule.unit)
            }
        }
    )*};
}
number_fields!(u32, u64, usize);

fn read_number(value: &Value, rule: &Rule) -> Result<u64, Refusal> {
    let written = match value {
        Value::Number(number) if rule.unit == Unit::Octal => Some(number.to_string()),
        Value::Number(number) => {
            let scale = if rule.unit == Unit::Mebibytes { 1 << 20 } else { 1 };
            let number = u64::try_from(*number).ok().and_then(|n| n.checked_mul(scale));
            return in_range(number.ok_or_else(|| out_of_range(rule))?, rule);
        }
        Value::Word(text) => Some(text.trim().to_owned()),
        Value::Text(text) if !matches!(rule.unit, Unit::Count | Unit::Seconds) => {
            Some(text.trim().to_owned())
        }
        _ => None,
    };
    let number = written.and_then(|text| match rule.unit {
        Unit::Bytes => parse_size(&text, 1),
        Unit::Mebibytes => parse_size(&text, 1 << 20),
        Unit::Octal => u64::from_str_radix(&text, 8).ok(),
        Unit::None | Unit::Count | Unit::Seconds => text.parse().ok(),
    });
    let wrong = || Refusal(format!("expected {}; {}", written_as(rule.unit), choose(rule)));
    in_range(number.ok_or_else(wrong)?, rule)
}

fn written_as(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "a size such as 512k, \"1MiB\" or bytes",
        Unit::Mebibytes => "a size such as \"64MiB\", \"2G\", or a whole number of MiB",
        Unit::Octal => "octal permission bits in quotes, such as \"700\"",
        Unit::Seconds => "a whole number of seconds",
        Unit::None | Unit::Count => "a whole number",
    }
}

fn in_range(number: u64, rule: &Rule) -> Result<u64, Refusal> {
    if rule.range.contains(&number) { Ok(number) } else { Err(out_of_range(rule)) }
}

fn out_of_range(rule: &Rule) -> Refusal {
    Refusal(format!("out of range; {}", choose(rule)))
}

/// The remedy for a number that was refused.
fn choose(rule: &Rule) -> String {
    let shown = |number: u64| match rule.unit {
        Unit::Bytes | Unit::Mebibytes => show_size(number),
        Unit::Octal => format!("{number:o}"),
        Unit::None | Unit::Count | Unit::Seconds => number.to_string(),
    };
    let (min, max) = (shown(*rule.range.start()), shown(*rule.range.end()));
    format!("choose a value from {min} to {max}")
}

fn show_number(number: u64, unit: Unit) -> Value {
    match unit {
        Unit::Bytes | Unit::Mebibytes => Value::Text(show_size(number)),
        Unit::Octal => Value::Text(format!("{number:o}")),
        Unit::None | Unit::Count | Unit::Seconds => {
            Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
        }
    }
}

/// The text of a string in either shape.
fn text(value: &Value) -> Result<&str, Refusal> {
    match value {
        Value::Word(text) | Value::Text(text) => Ok(text),
        _ => Err(Refusal::expected("a string in quotes")),
    }
}

impl Field for Option<String> {
    fn read(&mut self, value: &Value, _: &Rule) -> Result<(), Refusal> {
        *self = Some(text(value)?).filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(())
    }

    fn show(&self, _: &Rule) -> Value {
        Value::Text(self.clone().unwrap_or_default())
    }
}

impl Field for Option<PathBuf> {
    fn read(&mut self, value: &Value, _: &Rule) -> Result<(), Refusal> {
        *self = Some(text(value)?).filter(|text| !text.is_empty()).map(PathBuf::from);
        Ok(())
    }

    fn show(&self, _: &Rule) -> Value {
        Value::Text(self.as_ref().map(|path| path.display().to_string()).unwrap_or_default())
    }
}

/// What stands in a list. It is shown as it is read.
pub trait Listed: Display + Sized {
    /// A list, as TOML has it.
    const EXAMPLE: &'static str;

    /// Reads one item.
    ///
    /// # Errors
    /// What is wrong with `item` and how it should look.
    fn parse(item: &str) -> Result<Self, String>;
}

impl<I: Listed> Field for Vec<I> {
    fn read(&mut self, value: &Value, _: &Rule) -> Result<(), Refusal> {
        let items: Vec<&str> = match value {
            Value::List(items) => items.iter().map(String::as_str).collect(),
            Value::Word(word) => word.split(',').map(str::trim).filter(|w| !w.is_empty()).collect(),
            _ => return Err(Refusal::expected(&format!("a list such as {}", I::EXAMPLE))),
        };
        let parse = |item: &str| I::parse(item).map_err(Refusal);
        *self = items.into_iter().map(parse).collect::<Result<_, _>>()?;
        Ok(())
    }

    fn show(&self, _: &Rule) -> Value {
        Value::List(self.iter().map(I::to_string).collect())
    }
}

/// A field that is one word out of a few.
pub trait Choice: Copy + PartialEq + 'static {
    /// The words and what they mean.
    const NAMES: &'static [(&'static str, Self)];

    /// The word for it.
    fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, choice)| *choice == self);
        named.expect("invariant: every choice has a name").0
    }
}

impl<C: Choice> Field for C {
    fn read(&mut self, value: &Value, _: &Rule) -> Result<(), Refusal> {
        let named = text(value).ok().and_then(|t| C::NAMES.iter().find(|(name, _)| *name == t));
        let Some((_, choice)) = named else {
            return Err(Refusal::expected(&format!("one of {}", self.words().join(", "))));
        };
        *self = *choice;
        Ok(())
    }

    fn show(&self, _: &Rule) -> Value {
        Value::Text(self.name().to_owned())
    }

    fn words(&self) -> Vec<&'static str> {
        C::NAMES.iter().map(|(name, _)| *name).collect()
    }
}

//! Values from the command line: one long flag per setting, made from the table.
//!
//! A value is kept as a word and checked with all others in [`super::load`], so that messages are
//! the same for flags, variables and files. A flag for a list can be repeated.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};

use super::error::Origin;
use super::field::{Unit, Value};
use super::keys::{KEYS, Key};
use super::layers::Assignment;
use super::settings::Settings;

/// The settings given as flags.
#[derive(Clone, Debug, Default)]
pub struct SettingFlags {
    /// In the order of the table.
    pub assignments: Vec<Assignment>,
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = KEYS.iter().enumerate().filter_map(|(index, key)| {
            let words: Vec<&String> = matches.get_many(key.flag)?.collect();
            let word = words.into_iter().map(String::as_str).collect::<Vec<_>>().join(",");
            let origin = Origin::Flag(format!("--{}", key.flag));
            Some(Assignment { key: index, value: Value::Word(word), origin })
        });
        Ok(Self { assignments: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        KEYS.iter().fold(command, |command, key| command.arg(flag(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Any text: [`super::load`] says what is wrong with it. Completions offer the words.
#[derive(Clone)]
struct OneOf(Vec<&'static str>);

impl TypedValueParser for OneOf {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}

fn parser(words: Vec<&'static str>) -> ValueParser {
    if words.is_empty() { StringValueParser::new().into() } else { OneOf(words).into() }
}

fn flag(key: &'static Key) -> Arg {
    let settings = Settings::default();
    let field = (key.get)(&settings);
    let default = field.show(&key.rule);
    let arg = Arg::new(key.flag)
        .long(key.flag)
        .help(format!("{} [default: {default}]", key.about))
        .help_heading(heading(key.section))
        .value_parser(parser(field.words()))
        .hide_possible_values(true);
    match default {
        Value::Switch(_) => arg
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true"),
        Value::List(_) => arg.value_name("LIST").action(ArgAction::Append),
        _ => {
            let hint = if is_path(key) { ValueHint::AnyPath } else { ValueHint::Unknown };
            arg.value_name(value_name(key)).value_hint(hint)
        }
    }
}

fn is_path(key: &Key) -> bool {
    let ends = ["file", "socket", "directory"].into_iter().any(|end| key.name.ends_with(end));
    key.rule.unit == Unit::None && ends
}

fn value_name(key: &Key) -> &'static str {
    match key.rule.unit {
        Unit::Count => "N",
        Unit::Seconds => "SECONDS",
        Unit::Bytes | Unit::Mebibytes => "SIZE",
        Unit::Octal => "MODE",
        Unit::None if is_path(key) => "PATH",
        Unit::None => "VALUE",
    }
}

fn heading(section: &str) -> &'static str {
    match section {
        "server" => "Server",
        "memory" => "Memory",
        "protocol" => "Protocol",
        "process" => "Process",
        "ring" => "Ring",
        "tier" => "Tier",
        "log" => "Log",
        other => unreachable!("section {other} has no heading"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    fn settings(words: &[&str]) -> Result<Settings, String> {
        let command = SettingFlags::augment_args(Command::new("t").no_binary_name(true));
        let matches = command.try_get_matches_from(words).map_err(|e| e.to_string())?;
        let flags = SettingFlags::from_arg_matches(&matches).map_err(|e| e.to_string())?;
        load(&flags.assignments)
            .map(|loaded| loaded.settings)
            .map_err(|errors| errors[0].to_string())
    }

    #[test]
    fn flags_are_read() {
        let words = [
            "--listen",
            "*:1",
            "--listen=[::1]:2",
            "--memory-limit",
            "1G",
            "--evict=false",
            "--daemon",
            "--workers=7",
            "--log-level",
            "debug",
        ];
        let settings = settings(&words).expect("well formed");
        assert_eq!(settings.server.listen.len(), 2);
        assert_eq!(settings.memory.limit, 1 << 30);
        assert!(!settings.memory.evict && settings.process.daemon);
        assert_eq!(settings.server.workers, 7);
    }

    #[test]
    fn bad_flags_are_refused_by_name() {
        let error = settings(&["--workers", "x"]).expect_err("no number");
        assert_eq!(
            error,
            "flag --workers: server.workers = \"x\": expected a whole number; \
             choose a value from 0 to 1024"
        );
        assert!(settings(&["--worker", "1"]).expect_err("unknown").contains("--workers"));
    }
}

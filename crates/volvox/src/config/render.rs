//! Settings printed: the commented default file, and what is in force with its origins.
//!
//! What is printed as TOML can be read again and gives the same settings.

use std::fmt::Write;

use super::error::Origin;
use super::field::{Unit, Value};
use super::keys::{KEYS, Key};
use super::layers::Loaded;
use super::settings::Settings;
use super::units::show_size;

/// Width that comments are wrapped to.
const COMMENT_WIDTH: usize = 96;

const HEADER: &str = "\
# Settings of a Volvox cell: every key, at its default. Remove what you do not change.
# Precedence, rising: this file, the environment, flags. Check a file: volvox config check FILE.
# See what is in force and where each value came from: volvox config show.
";

/// A complete, commented TOML file with every setting at its default.
#[must_use]
pub fn default_toml() -> String {
    let settings = Settings::default();
    let mut out = HEADER.to_owned();
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            section = key.section;
            put(&mut out, format_args!("\n[{section}]\n"));
        }
        let origin = format!("Environment {}, flag --{}.", key.variable(), key.flag);
        for text in [key.about, &unit_and_range(key), &origin] {
            comment(&mut out, text);
        }
        let value = (key.get)(&settings).show(&key.rule);
        put(&mut out, format_args!("{} = {value}\n\n", key.name));
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// The settings in force as TOML, the origin of each beside it.
#[must_use]
pub fn show_text(loaded: &Loaded) -> String {
    let mut out = String::new();
    let mut section = "";
    for (key, origin) in KEYS.iter().zip(&loaded.origins) {
        if key.section != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            section = key.section;
            put(&mut out, format_args!("{gap}[{section}]\n"));
        }
        let value = (key.get)(&loaded.settings).show(&key.rule);
        let line = format!("{} = {value}", key.name);
        put(&mut out, format_args!("{line:<48} # {origin}\n"));
    }
    out
}

/// The settings in force as JSON: `{"section.key": {"value": .., "origin": ".."}}`.
#[must_use]
pub fn show_json(loaded: &Loaded) -> String {
    let entry = |(key, origin): (&Key, &Origin)| {
        let value = json((key.get)(&loaded.settings).show(&key.rule));
        let about = serde_json::json!({ "value": value, "origin": origin.to_string() });
        (key.path(), about)
    };
    let entries: serde_json::Map<_, _> = KEYS.iter().zip(&loaded.origins).map(entry).collect();
    format!("{:#}\n", serde_json::Value::Object(entries))
}

fn json(value: Value) -> serde_json::Value {
    match value {
        Value::Word(text) | Value::Text(text) | Value::Other(text) => text.into(),
        Value::Number(number) => number.into(),
        Value::Switch(on) => on.into(),
        Value::List(items) => items.into(),
    }
}

/// The unit of a number and the range it may take; empty for what is no number.
fn unit_and_range(key: &Key) -> String {
    let (min, max) = (*key.rule.range.start(), *key.rule.range.end());
    match key.rule.unit {
        Unit::None => String::new(),
        Unit::Count => format!("A number from {min} to {max}."),
        Unit::Seconds => format!("Seconds, from {min} to {max}."),
        Unit::Octal => format!("Octal, from {min:o} to {max:o}."),
        Unit::Bytes => {
            format!("A size from {} to {}; a bare number is bytes.", show_size(min), show_size(max))
        }
        Unit::Mebibytes => {
            format!("A size from {} to {}; a bare number is MiB.", show_size(min), show_size(max))
        }
    }
}

/// Appends `text` as comment lines, wrapped between words.
fn comment(out: &mut String, text: &str) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > COMMENT_WIDTH {
            put(out, format_args!("#{line}\n"));
            line.clear();
        }
        line.push(' ');
        line.push_str(word);
    }
    if !line.is_empty() {
        put(out, format_args!("#{line}\n"));
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("invariant: writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{file, load};

    #[test]
    fn the_default_file_is_the_default() {
        let assignments = file::parse(Path::new("d"), &default_toml()).expect("TOML");
        assert_eq!(assignments.len(), KEYS.len());
        assert_eq!(load(&assignments).expect("in range").settings, Settings::default());
    }

    #[test]
    fn what_is_shown_loads_again() {
        let text = "[server]\nworkers = 3\n[log]\nfile = \"a \\\"b\\\"\\\\\"\n";
        let loaded = load(&file::parse(Path::new("f"), text).expect("TOML")).expect("in range");
        let shown = show_text(&loaded);
        assert!(shown.lines().any(|l| l.starts_with("workers = 3") && l.ends_with("# f:2")));
        let again = load(&file::parse(Path::new("g"), &shown).expect("TOML")).expect("in range");
        assert_eq!(again.settings, loaded.settings);
        let json: serde_json::Value = serde_json::from_str(&show_json(&loaded)).expect("JSON");
        assert_eq!(json["server.workers"]["value"], 3);
        assert_eq!(json["server.workers"]["origin"], "f:2");
        assert_eq!(json["memory.limit"]["value"], "64MiB");
    }
}

//! Values from a TOML file: sections of keys, and no deeper nesting.
//!
//! A file is a list of assignments, each with its line; whether a value is in range is not checked
//! here. A file with an unknown key gives no assignment at all, and every such key is reported.

use std::fs;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Origin};
use super::field::Value;
use super::keys::{KEYS, key_index, nearest_key};
use super::layers::Assignment;

/// Bytes of the largest file that is read. Settings take a few kilobytes; a wrong path may name a
/// file of any size.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads and parses the file at `path`.
///
/// # Errors
/// That it cannot be read, or everything that [`parse`] finds.
pub fn read(path: &Path) -> Result<Vec<Assignment>, Vec<ConfigError>> {
    let unreadable = |source| vec![ConfigError::Unreadable { path: path.to_owned(), source }];
    let bytes = fs::metadata(path).map_err(unreadable)?.len();
    if bytes > FILE_BYTES_MAX {
        let message = format!("{bytes} bytes; a file of settings has at most {FILE_BYTES_MAX}");
        return Err(unreadable(std::io::Error::other(message)));
    }
    parse(path, &fs::read_to_string(path).map_err(unreadable)?)
}

/// Parses `text`, the content of the file at `path`.
///
/// # Errors
/// The line that is not TOML, or every key that no setting has.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Assignment>, Vec<ConfigError>> {
    let at = |offset: usize| {
        let line = 1 + text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count();
        Origin::File { path: path.to_owned(), line }
    };
    let table = DeTable::parse(text).map_err(|error| {
        let origin = at(error.span().map_or(0, |span| span.start.min(text.len())));
        vec![ConfigError::Syntax { origin, message: error.message().to_owned() }]
    })?;
    let mut assignments = Vec::new();
    let mut errors = Vec::new();
    for (path, offset, value) in entries(table.get_ref()) {
        match key_index(&path) {
            Some(key) => assignments.push(Assignment { key, value, origin: at(offset) }),
            None => errors.push(unknown(at(offset), path)),
        }
    }
    // A TOML table is unordered once parsed; messages follow the file.
    assignments.sort_by_key(|assignment| assignment.key);
    errors.sort_by_key(|error| match error {
        ConfigError::UnknownKey { origin: Origin::File { line, .. }, .. } => *line,
        _ => 0,
    });
    if errors.is_empty() { Ok(assignments) } else { Err(errors) }
}

/// Every `section.key` with the place of its name and its value. A key outside sections, and an
/// unknown section without keys, appear under their own name.
fn entries(table: &DeTable<'_>) -> Vec<(String, usize, Value)> {
    let mut entries = Vec::new();
    for (section, content) in table {
        let place = section.span().start;
        match content.get_ref() {
            DeValue::Table(keys) if !keys.is_empty() => {
                entries.extend(keys.iter().map(|(name, value)| {
                    let path = format!("{}.{}", section.get_ref(), name.get_ref());
                    (path, name.span().start, typed(value))
                }))
            }
            DeValue::Table(_) if is_section(section.get_ref()) => {}
            _ => entries.push((section.get_ref().to_string(), place, typed(content))),
        }
    }
    entries
}

fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| key.section == name)
}

fn unknown(origin: Origin, key: String) -> ConfigError {
    let nearest = nearest_key(&key).path();
    ConfigError::UnknownKey { origin, key, nearest }
}

fn typed(value: &Spanned<DeValue<'_>>) -> Value {
    match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(on) => Value::Switch(*on),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::Other(number.as_str().to_owned()), Value::Number),
        DeValue::Array(items) => {
            let strings = items.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
            strings.collect::<Option<_>>().map_or(Value::Other("[...]".to_owned()), Value::List)
        }
        DeValue::Float(number) => Value::Other(number.as_str().to_owned()),
        DeValue::Datetime(date) => Value::Other(date.to_string()),
        DeValue::Table(_) => Value::Other("a section".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    fn first_error(text: &str) -> String {
        let errors = match parse(Path::new("v.toml"), text) {
            Err(errors) => errors,
            Ok(assignments) => load(&assignments).expect_err(text),
        };
        errors[0].to_string()
    }

    #[test]
    fn values_of_every_shape() {
        let text = "[server]\nlisten = [\"*:1\", '[::1]:2']\nworkers = 3\nmaxconns_fast = false\n\
                    unix_mode = \"770\"\n[memory]\nlimit = 100\nitem_bytes_max = \"2m\"\n\n[log]\n";
        let assignments = parse(Path::new("v.toml"), text).expect("well formed");
        let loaded = load(&assignments).expect("in range");
        let server = &loaded.settings.server;
        assert_eq!(
            server.listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["*:1", "[::1]:2"]
        );
        assert_eq!((server.workers, server.maxconns_fast, server.unix_mode), (3, false, 0o770));
        assert_eq!(loaded.settings.memory.limit, 100 << 20);
        assert_eq!(loaded.settings.memory.item_bytes_max, 2 << 20);
        assert_eq!(loaded.origin("memory.limit").to_string(), "v.toml:7");
    }

    #[test]
    fn errors_name_line_key_and_remedy() {
        let cases = [
            (
                "[server]\n\nworker = 1",
                "v.toml:3: unknown setting server.worker; did you mean \
                server.workers?",
            ),
            ("workers = 1", "v.toml:1: unknown setting workers; did you mean server.workers?"),
            (
                "[serverr]\nworkers = 1",
                "v.toml:2: unknown setting serverr.workers; did you mean \
                server.workers?",
            ),
            ("[nonsense]", "v.toml:1: unknown setting nonsense; did you mean "),
            (
                "[server]\nworkers = \"4\"",
                "v.toml:2: server.workers = \"4\": expected a whole \
                number",
            ),
            ("[server]\nworkers = 1.5", "v.toml:2: server.workers = 1.5: expected a whole number"),
            ("[server]\nworkers = -1", "v.toml:2: server.workers = -1: out of range; choose"),
            ("[server]\nmaxconns_fast = \"no\"", "expected true or false, without quotes"),
            ("[server]\nlisten = \"a:1\"", "expected a list such as"),
            ("[server]\nlisten = [1]", "server.listen = [...]: expected a list"),
            ("[memory]\nlimit = 99999999999999999", "out of range; choose a value from 1MiB"),
            ("[server\n", "v.toml:1: not TOML: "),
            ("[log]\nlevel = info", "v.toml:2: not TOML: "),
        ];
        for (text, message) in cases {
            let error = first_error(text);
            assert!(error.contains(message), "{text}\n{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let errors = read(Path::new("no/such.toml")).expect_err("missing");
        let message = errors[0].to_string();
        assert!(message.starts_with("no/such.toml: "), "{message}");
        assert!(message.contains("volvox config default"), "{message}");
    }
}

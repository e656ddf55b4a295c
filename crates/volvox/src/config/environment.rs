//! Values from the environment: `VOLVOX_SECTION_KEY=value`.
//!
//! A misspelt variable is an error, as a misspelt key is. Kubernetes gives every container
//! variables named after the services of its namespace. For a service called `volvox` these begin
//! like ours, so names of that shape are ignored. This module reads no environment itself: it is
//! given the variables.

use super::error::{ConfigError, Origin};
use super::field::Value;
use super::keys::{KEYS, Key, nearest_key};
use super::layers::Assignment;

/// What every variable of ours begins with.
pub const PREFIX: &str = "VOLVOX_";

/// The variable that names a file of settings, as `--config` does.
pub const CONFIG_FILE: &str = "VOLVOX_CONFIG";

/// The variable that a cell sets for the process it starts in the background; no setting.
pub const DAEMON_STAGE: &str = "VOLVOX_DAEMON_STAGE";

/// The assignments among `variables`.
///
/// # Errors
/// Every variable that begins like ours and belongs to no setting.
pub fn parse(
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<Assignment>, Vec<ConfigError>> {
    let mut assignments = Vec::new();
    let mut errors = Vec::new();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        if let Some(key) = KEYS.iter().position(|key| key.variable() == name) {
            let origin = Origin::Environment(name);
            assignments.push(Assignment { key, value: Value::Word(value), origin });
        } else if name != CONFIG_FILE && name != DAEMON_STAGE && !is_service(rest) {
            let nearest = nearest_variable(rest);
            let origin = Origin::Environment(name.clone());
            errors.push(ConfigError::UnknownKey { origin, key: name, nearest });
        }
    }
    if errors.is_empty() { Ok(assignments) } else { Err(errors) }
}

/// The name of a service's variable: `..SERVICE_HOST`, `..SERVICE_PORT..`, `..PORT`, `..PORT_..`.
fn is_service(rest: &str) -> bool {
    rest.ends_with("SERVICE_HOST") || rest.split('_').any(|part| part == "PORT")
}

fn nearest_variable(rest: &str) -> String {
    let lower = rest.to_ascii_lowercase();
    let path = match lower.split_once('_') {
        Some((section, name)) => format!("{section}.{name}"),
        None => lower,
    };
    Key::variable(nearest_key(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_one(name: &str) -> Result<Vec<Assignment>, Vec<ConfigError>> {
        parse([(name.to_owned(), "1".to_owned())])
    }

    #[test]
    fn every_setting_has_a_variable() {
        for key in KEYS {
            assert_eq!(parse_one(&key.variable()).expect("known").len(), 1);
            assert!(!is_service(&key.variable()), "{}", key.variable());
        }
    }

    #[test]
    fn others_are_ignored() {
        for name in [
            "PATH",
            "MEMCACHED_PORT_FILENAME",
            CONFIG_FILE,
            DAEMON_STAGE,
            "VOLVOX_SERVICE_HOST",
            "VOLVOX_SERVICE_PORT",
            "VOLVOX_PORT_11211_TCP_ADDR",
            "VOLVOX_SERVER_PORT",
        ] {
            assert!(parse_one(name).expect(name).is_empty());
        }
    }

    #[test]
    fn misspelt_variables_are_refused() {
        let errors = parse_one("VOLVOX_SERVER_WORKER").expect_err("misspelt");
        assert_eq!(
            errors[0].to_string(),
            "environment VOLVOX_SERVER_WORKER: unknown setting VOLVOX_SERVER_WORKER; did you mean \
             VOLVOX_SERVER_WORKERS?"
        );
    }
}

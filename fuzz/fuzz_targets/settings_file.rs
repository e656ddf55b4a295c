//! Any text as a file of settings: it is refused with a reason, or its settings can be shown, and
//! the same assignments give the same settings again.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use volvox::config::{file, load, show_json, show_text};

fuzz_target!(|text: &str| {
    let path = Path::new("volvox.toml");
    let assignments = match file::parse(path, text) {
        Ok(assignments) => assignments,
        Err(errors) => return say(&errors),
    };
    match load(&assignments) {
        Err(errors) => say(&errors),
        Ok(loaded) => {
            let again = load(&assignments).expect("the same assignments");
            assert_eq!(show_text(&again), show_text(&loaded));
            assert!(show_json(&loaded).starts_with('{'));
        }
    }
});

/// There is at least one error, and each has a text.
fn say(errors: &[impl std::fmt::Display]) {
    assert!(!errors.is_empty());
    assert!(errors.iter().all(|error| error.to_string().len() > 10));
}

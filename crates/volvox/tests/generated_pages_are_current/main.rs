//! The files of the repository that are written from the program's tables hold what those tables
//! say now. With `BLESS=1` in the environment each test writes its file instead.

mod flags_page;
mod settings_page;

use std::fs;
use std::path::Path;

/// Fails unless the file at `path`, from the root of the repository, holds exactly `expected`.
fn is_current(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(path.parent().expect("invariant: a file has a folder"))
            .and_then(|()| fs::write(&path, expected))
            .expect("the repository is writable");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is out of date; run: BLESS=1 cargo test -p volvox --test generated_pages_are_current",
        path.display()
    );
}

#[test]
fn the_default_file() {
    is_current("config/volvox.toml", &volvox::config::default_toml());
}

#[test]
fn the_page_of_settings() {
    is_current("docs/settings.md", &settings_page::settings_page());
}

#[test]
fn the_page_of_flags() {
    is_current("docs/memcached-flags.md", &flags_page::flags_page());
}

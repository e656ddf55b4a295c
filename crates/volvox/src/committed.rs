//! Files of the repository that are written by the program: a test holds each to what the program
//! would write now. With `BLESS=1` in the environment the test writes the file instead.

use std::fs;
use std::path::Path;

/// Fails unless the file at `path`, from the root of the repository, holds exactly `expected`.
pub fn same(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(path.parent().expect("invariant: a file has a folder"))
            .and_then(|()| fs::write(&path, expected))
            .expect("the repository is writable");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{} is out of date; run: BLESS=1 cargo test -p volvox committed",
        path.display()
    );
}

//! One Rust file as the rules see it: its lines, its code without comments and literals, and
//! which of its lines are tests.
//!
//! A file is all test when it stands in a `tests` or `benches` folder, below `fuzz`, or is called
//! `*_test.rs`. Otherwise the items under `#[cfg(test)]` are its tests; the rest is production.

use std::ops::Range;

use super::lexer::blank;

/// A Rust file.
pub struct Source {
    /// Its path, relative to the root.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Its text with comments and literals blanked out, line for line.
    pub code: String,
    /// Line numbers, from 0, that only tests see; ordered and apart.
    tests: Vec<Range<usize>>,
}

impl Source {
    /// Reads a text.
    pub fn new(path: &str, text: &str) -> Self {
        let code = blank(text);
        let lines = text.lines().count();
        let whole = std::iter::once(0..lines);
        let tests = if is_test_path(path) { whole.collect() } else { test_items(&code) };
        Self { path: path.to_owned(), text: text.to_owned(), code, tests }
    }

    /// Whether a line, from 0, is seen by tests only.
    pub fn in_test(&self, line: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&line))
    }

    /// Whether the whole file is a test.
    pub fn is_test(&self) -> bool {
        is_test_path(&self.path)
    }

    /// How many lines are not tests.
    pub fn production_lines(&self) -> usize {
        (0..self.text.lines().count()).filter(|line| !self.in_test(*line)).count()
    }

    /// The crate the file belongs to, by its folder.
    pub fn package(&self) -> &str {
        let below = ["crates/", "lab/"].iter().find_map(|folder| self.path.strip_prefix(folder));
        let path = below.unwrap_or(&self.path);
        path.split('/').next().unwrap_or(path)
    }
}

fn is_test_path(path: &str) -> bool {
    let mut folders = path.split('/');
    let name = folders.next_back().unwrap_or(path);
    name.ends_with("_test.rs")
        || folders.any(|folder| matches!(folder, "tests" | "benches" | "fuzz" | "examples"))
}

/// The lines of the items that stand under `#[cfg(test)]`.
fn test_items(code: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for attribute in ["#[cfg(test)]", "#[cfg(all(test"] {
        for (at, _) in code.match_indices(attribute) {
            let start = line_of(code, at);
            let end = line_of(code, item_end(code, at)) + 1;
            ranges.push(start..end);
        }
    }
    ranges.sort_by_key(|range| range.start);
    ranges
}

/// The byte after which the item that begins with the attribute at `at` ends.
fn item_end(code: &str, at: usize) -> usize {
    let mut depth = 0_usize;
    let mut parens = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => parens += 1,
            b')' | b']' => parens = parens.saturating_sub(1),
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return offset;
                }
            }
            b';' if depth == 0 && parens == 0 => return offset,
            _ => {}
        }
    }
    code.len()
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn production_is_what_is_left_without_the_tests() {
        let body = "fn a() {}\n";
        let cases = [
            ("src/a.rs", body.to_owned(), 1),
            ("src/a.rs", format!("{body}#[cfg(test)]\nmod tests {{\n  fn b() {{ }}\n}}\n"), 1),
            ("src/a.rs", format!("{body}#[cfg(test)]\nmod a_test;\n{body}"), 2),
            ("src/a.rs", format!("#[cfg(test)]\n#[path = \"x\"]\nmod t {{\n}}\n{body}"), 1),
            ("src/a.rs", format!("{body}#[cfg(test)]\nconst A: [u8; 2] = [1, 2];\n"), 1),
            ("src/a.rs", format!("{body}// #[cfg(test)]\n{body}"), 3),
            ("src/a_test.rs", body.to_owned(), 0),
            ("crates/a/tests/b.rs", body.to_owned(), 0),
            ("crates/a/tests_of.rs", body.to_owned(), 1),
        ];
        for (path, text, expected) in cases {
            assert_eq!(Source::new(path, &text).production_lines(), expected, "{path}: {text}");
        }
    }

    #[test]
    fn a_brace_in_a_string_does_not_end_the_tests() {
        let text =
            "#[cfg(test)]\nmod tests {\n  const S: &str = \"}\";\n  fn b() {}\n}\nfn c() {}\n";
        assert_eq!(Source::new("a.rs", text).production_lines(), 1);
    }

    #[test]
    fn a_file_belongs_to_the_crate_of_its_folder() {
        assert_eq!(Source::new("crates/base/src/a.rs", "").package(), "base");
        assert_eq!(Source::new("xtask/src/a.rs", "").package(), "xtask");
    }
}

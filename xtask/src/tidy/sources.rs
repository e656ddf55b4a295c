//! The rules about one source file: size, width, characters, imports, names, docs, `unsafe`.
//!
//! Length of functions, undocumented items and `unwrap` are clippy's and rustc's to judge.

use super::{Finding, Rule, lexer::has_word, source::Source};

/// Production lines above which a file is worth watching.
const SIZE_WARN: usize = 400;
/// Production lines a file may not exceed.
const SIZE_MAX: usize = 600;
/// Characters a line may hold.
const WIDTH_MAX: usize = 100;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 4] = ["utils", "util", "helpers", "misc"];
/// Where `unsafe` may stand.
const UNSAFE_ALLOWED: [&str; 3] =
    ["crates/engine/src/raw", "crates/drivers/src/signal", "crates/drivers/src/uring"];
const FORBID_UNSAFE: &str = "#![forbid(unsafe_code)]";

/// What is not as the house wants it in one file.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(size(source));
    findings.extend(opening(source));
    findings.extend(name(source));
    for (at, line) in source.text.lines().enumerate() {
        findings.extend(width(source, at, line));
        findings.extend(ascii(source, at, line));
    }
    for (at, line) in source.code.lines().enumerate() {
        findings.extend(unsafe_code(source, at, line));
    }
    findings.extend(globs(source));
    findings
}

/// Crates without any place for `unsafe` say so in their root.
pub fn forbids_unsafe(sources: &[Source]) -> Vec<Finding> {
    let root = |source: &&Source| {
        source.path.ends_with("src/lib.rs") || source.path.ends_with("src/main.rs")
    };
    let excused = |source: &Source| {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let inside = |place: &&str| place.starts_with(folder);
        let used = |other: &Source| other.path.starts_with(folder) && allowed(&other.path);
        UNSAFE_ALLOWED.iter().any(inside) && sources.iter().any(used)
    };
    sources
        .iter()
        .filter(root)
        .filter(|source| !source.is_test() && !source.text.contains(FORBID_UNSAFE))
        .filter(|source| !excused(source))
        .map(|source| {
            let message = format!("the root of a crate says {FORBID_UNSAFE}");
            Finding::file(Rule::Unsafe, &source.path, message)
        })
        .collect()
}

fn size(source: &Source) -> Option<Finding> {
    let lines = source.production_lines();
    if lines <= SIZE_WARN {
        return None;
    }
    let warning = lines <= SIZE_MAX;
    let message = format!(
        "{lines} production lines; watch from {SIZE_WARN}, at most {SIZE_MAX}: split it by what \
         it knows"
    );
    let finding = Finding::file(Rule::Size, &source.path, message);
    Some(Finding { warning, measured: Some(lines), ..finding })
}

fn opening(source: &Source) -> Option<Finding> {
    let opens = source.text.trim_start().starts_with("//!");
    let message = "open the file with //! lines: what it is, what it never does, its invariants";
    (!opens && !source.is_test()).then(|| Finding::file(Rule::Docs, &source.path, message))
}

fn name(source: &Source) -> Option<Finding> {
    let part = source.path.split('/').find(|part| {
        let stem = part.strip_suffix(".rs").unwrap_or(part);
        EMPTY_NAMES.contains(&stem)
    })?;
    let message = format!("{part} says nothing: name it after what it holds");
    Some(Finding::file(Rule::Name, &source.path, message))
}

fn width(source: &Source, at: usize, line: &str) -> Option<Finding> {
    let characters = line.chars().count();
    let message = format!("{characters} characters, at most {WIDTH_MAX}: break the line");
    (characters > WIDTH_MAX).then(|| Finding::line(Rule::Width, &source.path, at + 1, message))
}

fn ascii(source: &Source, at: usize, line: &str) -> Option<Finding> {
    let other = line.chars().find(|character| !character.is_ascii())?;
    let escape = other.escape_unicode();
    let message = format!("{escape} is not ASCII: write it as an escape or in words");
    Some(Finding::line(Rule::Ascii, &source.path, at + 1, message))
}

fn unsafe_code(source: &Source, at: usize, line: &str) -> Option<Finding> {
    if !has_word(line, "unsafe") || allowed(&source.path) {
        return None;
    }
    let message = format!("unsafe stands only in {}", UNSAFE_ALLOWED.join(", "));
    Some(Finding::line(Rule::Unsafe, &source.path, at + 1, message))
}

fn allowed(path: &str) -> bool {
    let inside =
        |place: &&str| path.strip_prefix(*place).is_some_and(|rest| rest.starts_with(['/', '.']));
    UNSAFE_ALLOWED.iter().any(inside)
}

/// Glob imports of production code, each statement at its first line.
fn globs(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut import: Option<(usize, String)> = None;
    for (at, line) in source.code.lines().enumerate() {
        if source.in_test(at) {
            continue;
        }
        let (start, mut statement) = match import.take() {
            Some(open) => open,
            None if begins_import(line) => (at, String::new()),
            None => continue,
        };
        statement.push_str(line.trim());
        if !statement.contains(';') {
            import = Some((start, statement));
        } else if statement.contains("::*") || statement.contains("{*") {
            let message = "a glob import hides where names come from: list them";
            findings.push(Finding::line(Rule::Glob, &source.path, start + 1, message));
        }
    }
    findings
}

fn begins_import(line: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let rest = rest.trim_start();
        match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((_, rest)) => rest.trim_start(),
            None => rest,
        }
    });
    line.starts_with("use ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<Rule> {
        check(&Source::new(path, text)).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn each_rule_sees_its_fault_and_nothing_else() {
        let wide = format!("//! a\n// {}\n", "x".repeat(98));
        let cases: [(&str, &str, &[Rule]); 14] = [
            ("crates/a/src/b.rs", "//! a\nfn b() {}\n", &[]),
            ("crates/a/src/b.rs", "fn b() {}\n", &[Rule::Docs]),
            ("crates/a/src/utils.rs", "//! a\n", &[Rule::Name]),
            ("crates/a/src/utils/b.rs", "//! a\n", &[Rule::Name]),
            ("crates/a/src/b.rs", &wide, &[Rule::Width]),
            ("crates/a/src/b.rs", "//! \u{2192}\n", &[Rule::Ascii]),
            ("crates/a/src/b.rs", "//! a\nuse x::*;\n", &[Rule::Glob]),
            ("crates/a/src/b.rs", "//! a\npub(crate) use x::{\n  a,\n  y::*,\n};\n", &[Rule::Glob]),
            ("crates/a/src/b.rs", "//! a\nuse x::y;\nlet a = b * c;\n", &[]),
            ("crates/a/src/b.rs", "//! a\n#[cfg(test)]\nmod t {\n  use super::*;\n}\n", &[]),
            ("crates/a/src/b.rs", "//! a\nunsafe { b() }\n", &[Rule::Unsafe]),
            ("crates/a/src/b.rs", "//! a\n#![forbid(unsafe_code)]\n// unsafe\n", &[]),
            ("crates/engine/src/raw/map.rs", "//! a\nunsafe { b() }\n", &[]),
            ("crates/engine/src/rawer.rs", "//! a\nunsafe { b() }\n", &[Rule::Unsafe]),
        ];
        for (path, text, expected) in cases {
            assert_eq!(rules(path, text), expected, "{path}: {text}");
        }
    }

    #[test]
    fn sizes_warn_then_fail() {
        for (lines, expected) in [(400, None), (401, Some(true)), (601, Some(false))] {
            let text = format!("//! a\n{}", "fn a() {}\n".repeat(lines - 1));
            let finding = size(&Source::new("a.rs", &text));
            assert_eq!(finding.map(|finding| finding.warning), expected, "{lines}");
        }
    }

    #[test]
    fn only_crates_with_a_place_for_unsafe_may_omit_the_ban() {
        let source = |path: &str, text: &str| Source::new(path, text);
        let cases = [
            (vec![source("crates/a/src/lib.rs", "//! a\n")], 1),
            (vec![source("crates/a/src/lib.rs", "//! a\n#![forbid(unsafe_code)]\n")], 0),
            (vec![source("crates/engine/src/lib.rs", "//! a\n")], 1),
            (
                vec![
                    source("crates/engine/src/lib.rs", "//! a\n"),
                    source("crates/engine/src/raw/mod.rs", "//! a\n"),
                ],
                0,
            ),
        ];
        for (sources, expected) in cases {
            assert_eq!(forbids_unsafe(&sources).len(), expected, "{}", sources[0].path);
        }
    }
}

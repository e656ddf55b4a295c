//! The rules about one source file: size, width, characters, imports, name, opening.
//!
//! Length of functions, undocumented items, `unwrap` and `unsafe` are clippy's and rustc's to
//! judge.

use super::{
    finding::{Finding, Rule},
    source::Source,
};

/// Lines of production code above which a file is worth watching.
const SIZE_WARN: usize = 400;
/// Lines of production code that a file may not exceed.
const SIZE_MAX: usize = 600;
/// Characters a line may hold; rustfmt does not break comments and strings.
const WIDTH_MAX: usize = 100;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 4] = ["utils", "util", "helpers", "misc"];

/// What is not in order in one file.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::from_iter(size(source));
    let mut find = |rule, line, message| {
        findings.push(Finding::new(rule, &source.path, line, message));
    };
    if !source.is_test() && !source.text.trim_start().starts_with("//!") {
        let parts = "what it is, what it never does, its invariants";
        find(Rule::Docs, 0, format!("open the file with //! lines: {parts}"));
    }
    let stems = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    for stem in stems.filter(|stem| EMPTY_NAMES.contains(stem)) {
        find(Rule::Name, 0, format!("{stem} says nothing: name it after what it holds"));
    }
    for (at, line) in source.text.lines().enumerate() {
        let characters = line.chars().count();
        // A row of a table cannot be broken.
        if characters > WIDTH_MAX && !line.starts_with("//! |") {
            let message = format!("{characters} characters, at most {WIDTH_MAX}: break the line");
            find(Rule::Width, at + 1, message);
        }
        if let Some(other) = line.chars().find(|character| !character.is_ascii()) {
            let escape = other.escape_unicode();
            let message = format!("{escape} is not ASCII: write it as an escape or in words");
            find(Rule::Ascii, at + 1, message);
        }
    }
    let imports = source.modules.iter().flat_map(|module| &module.imports);
    for import in imports.filter(|import| import.name == "*") {
        let message = "a glob import hides where names come from: list them";
        find(Rule::Glob, import.line, message.to_owned());
    }
    findings
}

fn size(source: &Source) -> Option<Finding> {
    let lines = source.production_lines();
    let message = format!(
        "{lines} lines of production code; watch from {SIZE_WARN}, at most {SIZE_MAX}: split it \
         by what it knows"
    );
    let finding = Finding::new(Rule::Size, &source.path, 0, message);
    (lines > SIZE_WARN).then_some(Finding { warning: lines <= SIZE_MAX, ..finding })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<Rule> {
        check(&Source::new(path, text).unwrap()).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn each_rule_sees_its_fault_and_nothing_else() {
        let wide = format!("//! a\n// {}\n", "x".repeat(98));
        let cases: [(&str, &str, &[Rule]); 10] = [
            ("crates/a/src/b.rs", "//! a\nfn b() {}\n", &[]),
            ("crates/a/src/b.rs", "fn b() {}\n", &[Rule::Docs]),
            ("crates/a/src/utils.rs", "//! a\n", &[Rule::Name]),
            ("crates/a/src/utils/b.rs", "//! a\n", &[Rule::Name]),
            ("crates/a/src/b.rs", &wide, &[Rule::Width]),
            ("crates/a/src/b.rs", "//! \u{2192}\n", &[Rule::Ascii]),
            ("crates/a/src/b.rs", "//! a\nuse x::*;\n", &[Rule::Glob]),
            ("crates/a/src/b.rs", "//! a\npub(crate) use x::{\n  a,\n  y::*,\n};\n", &[Rule::Glob]),
            ("crates/a/src/b.rs", "//! a\nuse x::y;\nfn a() { b * c; }\n", &[]),
            ("crates/a/src/b.rs", "//! a\n#[cfg(test)]\nmod t {\n  use super::*;\n}\n", &[]),
        ];
        for (path, text, expected) in cases {
            assert_eq!(rules(path, text), expected, "{path}: {text}");
        }
    }

    #[test]
    fn sizes_warn_then_fail() {
        for (lines, expected) in
            [(400, None), (401, Some(true)), (600, Some(true)), (601, Some(false))]
        {
            let text = format!("//! a\n\n// b\n{}", "fn a() {}\n".repeat(lines));
            let finding = size(&Source::new("a.rs", &text).unwrap());
            assert_eq!(finding.map(|finding| finding.warning), expected, "{lines}");
        }
    }
}

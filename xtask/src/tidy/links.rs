//! What the documents point at exists.
//!
//! Three forms are checked in every Markdown file, outside fenced blocks:
//!
//! - `[text](target)` and `[text](target#part)`, outside backquotes: the file exists, and has the
//!   heading or, when it is a source, an item of that name. Other sites are not visited;
//! - a path in backquotes that begins with one of `ROOT_FOLDERS` and ends with one of
//!   `PATH_ENDINGS`: `crates/base/src/slice.rs`, or with an item `crates/base/src/slice.rs#of`. In
//!   a row of a table, the first plain name in backquotes after a source must be an item of that
//!   file: a function, a type, a constant, a module, in tests too;
//! - a name in backquotes whose first word is a crate of ours: `engine::Pool`. Its last word must
//!   occur in the code of that crate. The words between are not followed.
//!
//! No other text is checked: a bare name in backquotes may be anything.

use std::collections::BTreeMap;

use super::{
    arrows::Crate,
    finding::{Finding, Rule},
    source::Source,
};

/// Endings by which a text in backquotes is known to be a path.
const PATH_ENDINGS: [&str; 6] = [".rs", ".md", ".toml", ".sh", ".yml", ".py"];
/// Folders of the root that a path in backquotes may begin with.
const ROOT_FOLDERS: [&str; 8] =
    ["crates/", "lab/", "docs/", "xtask/", "tests/", "config/", "fuzz/", ".ci/"];

/// The world the documents speak of.
struct World<'a> {
    texts: &'a BTreeMap<String, String>,
    sources: &'a [Source],
    crates: &'a [Crate],
    exists: &'a dyn Fn(&str) -> bool,
}

/// Every pointer of every document that leads nowhere.
pub fn check(
    texts: &BTreeMap<String, String>,
    sources: &[Source],
    crates: &[Crate],
    exists: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let world = World { texts, sources, crates, exists };
    let documents = texts.iter().filter(|(path, _)| path.ends_with(".md"));
    documents.flat_map(|(path, text)| world.document(path, text)).collect()
}

impl World<'_> {
    fn document(&self, path: &str, text: &str) -> Vec<Finding> {
        let mut fenced = false;
        let shown = text.lines().enumerate().filter(|(_, line)| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fence && !fenced
        });
        let findings = shown.flat_map(|(at, line)| {
            let wrong = self.line(path, line).into_iter();
            wrong.map(move |what| Finding::new(Rule::Link, path, at + 1, what))
        });
        findings.collect()
    }

    fn line(&self, document: &str, line: &str) -> Vec<String> {
        let links = markdown_links(line).into_iter().filter_map(|to| self.link(document, to).err());
        let mut wrong: Vec<String> = links.collect();
        let quoted: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        wrong.extend(quoted.iter().filter_map(|text| self.quoted(text).err()));
        if line.trim_start().starts_with('|') {
            wrong.extend(self.step(&quoted).err());
        }
        wrong
    }

    /// The target of a link, relative to the document's folder.
    fn link(&self, document: &str, target: &str) -> Result<(), String> {
        if target.contains("://") || target.starts_with("mailto:") {
            return Ok(());
        }
        let (file, part) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { document.to_owned() } else { resolve(document, file) };
        self.path(&path, part)
    }

    fn path(&self, path: &str, part: &str) -> Result<(), String> {
        exists((self.exists)(path), || format!("{path} does not exist: mend the link"))?;
        let has = match self.texts.get(path) {
            _ if part.is_empty() => true,
            Some(text) if path.ends_with(".md") => has_heading(text, part),
            _ => self.source(path).is_some_and(|source| source.items.contains(part)),
        };
        exists(has, || format!("{path} has no {part}: mend the link"))
    }

    /// A text in backquotes: a path of ours, a name of ours, or none of our business.
    fn quoted(&self, text: &str) -> Result<(), String> {
        let (file, part) = text.split_once('#').unwrap_or((text, ""));
        let plain = !file.contains([' ', '*', '<', '{', '$']);
        let ours = ROOT_FOLDERS.iter().any(|folder| file.starts_with(folder));
        if plain && ours && PATH_ENDINGS.iter().any(|ending| file.ends_with(ending)) {
            return self.path(file, part);
        }
        match text.split_once("::") {
            Some((first, rest)) if self.crates.iter().any(|have| have.name == first) => {
                self.name(first, rest)
            }
            _ => Ok(()),
        }
    }

    fn name(&self, package: &str, rest: &str) -> Result<(), String> {
        let path = rest.split(['(', '<', ' ', '!']).next().unwrap_or(rest);
        let Some(name) = path.rsplit("::").next().filter(|name| is_name(name)) else {
            return Ok(());
        };
        let mut sources = self.sources.iter().filter(|source| source.package() == package);
        exists(sources.any(|source| source.names.contains(name)), || {
            format!("{package} has no {name}: mend the name `{package}::{rest}`")
        })
    }

    /// A row that walks through the code: a file, then the function it names.
    fn step(&self, quoted: &[&str]) -> Result<(), String> {
        let is_source = |text: &&&str| text.ends_with(".rs") && text.contains('/');
        let Some(file) = quoted.iter().find(is_source) else { return Ok(()) };
        let after = quoted.iter().skip_while(|text| *text != file).skip(1);
        let Some(function) = after.copied().find(|text| is_name(text)) else { return Ok(()) };
        let source = self.source(file).ok_or_else(|| format!("{file} is no source of ours"))?;
        exists(source.items.contains(function), || {
            format!("{file} has no {function}: mend the step")
        })
    }

    fn source(&self, path: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.path == path)
    }
}

fn exists(does: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    does.then_some(()).ok_or_else(message)
}

/// The targets of the links of a line, code spans apart.
fn markdown_links(line: &str) -> Vec<&str> {
    let outside = line.split('`').step_by(2);
    outside
        .flat_map(|text| text.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split(' ').next().unwrap_or(target))
        .collect()
}

/// A path relative to the folder of a document, as seen from the root.
fn resolve(document: &str, target: &str) -> String {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn has_heading(text: &str, slug: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| line.trim_start_matches('#').trim()).any(|heading| slug_of(heading) == slug)
}

/// The anchor that a heading gets.
fn slug_of(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::arrows::Metadata;

    const CODE: &str = "//! A\npub fn of() {}\npub struct SliceId;\n";

    fn wrong(line: &str) -> usize {
        let texts: BTreeMap<String, String> = [
            ("docs/a.md".to_owned(), line.to_owned()),
            ("docs/b.md".to_owned(), "# The way of a GET\n".to_owned()),
        ]
        .into();
        let sources = [Source::new("crates/base/src/slice.rs", CODE).unwrap()];
        let text = r#"{"packages": [{"name": "base", "dependencies": []}]}"#;
        let crates = serde_json::from_str::<Metadata>(text).unwrap().packages;
        let exists = |path: &str| {
            ["docs/a.md", "docs/b.md", "README.md", "crates/base/src/slice.rs"].contains(&path)
        };
        check(&texts, &sources, &crates, &exists).len()
    }

    #[test]
    fn pointers_that_lead_somewhere_pass_and_others_do_not() {
        let cases = [
            ("[a](b.md)", 0),
            ("[a](../README.md) and [b](./b.md#the-way-of-a-get)", 0),
            ("[a](https://example.org/x.md)", 0),
            ("[a](c.md)", 1),
            ("[a](b.md#nowhere)", 1),
            ("[a](../crates/base/src/slice.rs#of)", 0),
            ("[a](../crates/base/src/slice.rs#gone)", 1),
            ("`crates/base/src/slice.rs`", 0),
            ("`crates/base/src/slice.rs#SliceId`", 0),
            ("`crates/base/src/slice.rs#Gone`", 1),
            ("`crates/base/src/gone.rs`", 1),
            ("`crates/*/src/lib.rs`", 0),
            ("`base::SliceId` and `base::slice::of(key)`", 0),
            ("`base::Gone` but `std::Gone`", 1),
            ("| 1 | `crates/base/src/slice.rs` | `of` |", 0),
            ("| 1 | `crates/base/src/slice.rs` | `gone` |", 1),
            ("```\n[a](c.md)\n```", 0),
            ("`[a](c.md)`", 0),
        ];
        for (line, expected) in cases {
            assert_eq!(wrong(line), expected, "{line}");
        }
    }
}

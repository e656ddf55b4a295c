//! The arrows between crates: what `cargo metadata` shows against what the architecture page
//! allows.
//!
//! The page is the one source: a table whose first column is headed `crate`. Arrows that only
//! tests need are free: they ship nothing. Arrows to libraries have no direction to go wrong, but
//! each library has a row with its reason.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{
    finding::{Finding, Rule},
    table,
};

/// Crates that return events and counts and leave logging and configuration to the rim.
const SILENT: [&str; 6] = ["base", "memcache", "engine", "effects", "peer", "session"];
/// What a silent crate may not use.
#[rustfmt::skip]
const LOUD: [&str; 9] =
    ["tracing", "tracing-subscriber", "log", "env_logger", "slog",
     "metrics", "prometheus", "config", "clap"];

/// What cargo knows of the workspace.
#[derive(Deserialize)]
pub struct Metadata {
    /// Its crates.
    pub packages: Vec<Crate>,
}

/// A crate of the workspace.
#[derive(Deserialize)]
pub struct Crate {
    /// Its name.
    pub name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` when only tests use it.
    kind: Option<String>,
}

impl Crate {
    /// The crates that it uses, or those that only its tests use.
    fn uses(&self, tests: bool) -> impl Iterator<Item = &str> {
        let of_kind = move |one: &&Dependency| (one.kind.as_deref() == Some("dev")) == tests;
        self.dependencies.iter().filter(of_kind).map(|one| one.name.as_str())
    }
}

/// Compares the arrows that exist with those that the table of `page` allows.
pub fn check(crates: &[Crate], page: &str, text: &str) -> Vec<Finding> {
    let ours = |name: &&str| crates.iter().any(|have| have.name == **name);
    let uses = crates.iter().map(|have| {
        let used = have.uses(false).filter(ours);
        let used = used.map(|name| (name.to_owned(), (page.to_owned(), 0)));
        (have.name.clone(), used.collect())
    });
    let mut wrong = table::compare(Rule::Arrows, page, text, "crate", &uses.collect());
    for have in crates.iter().filter(|have| SILENT.contains(&have.name.as_str())) {
        let loud = have.uses(false).filter(|used| LOUD.contains(used));
        let message = |used| format!("{} uses {used}: return events and counts instead", have.name);
        wrong.extend(loud.map(|used| Finding::new(Rule::Arrows, page, 0, message(used))));
    }
    wrong
}

/// Compares the libraries used with those the page gives a reason for.
pub fn libraries(crates: &[Crate], page: &str, text: &str) -> Vec<Finding> {
    let rows = text.lines().filter_map(|line| line.trim().strip_prefix('|'));
    let cells = rows.filter_map(|row| row.split('|').next());
    let named: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let ours = |name: &str| crates.iter().any(|have| have.name == name);
    let used = |tests: bool| -> BTreeSet<&str> {
        crates.iter().flat_map(|have| have.uses(tests)).filter(|name| !ours(name)).collect()
    };
    let (shipped, tested) = (used(false), used(true));
    let unnamed = shipped.difference(&named).map(|name| format!("{name} is used: say why"));
    let known = |name: &&&str| !shipped.contains(**name) && !tested.contains(**name);
    let unused = named.iter().filter(known).map(|name| format!("{name} is not used: remove it"));
    unnamed.chain(unused).map(|what| Finding::new(Rule::Arrows, page, 0, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n## Crates\n\nText.\n\n| crate | may use | what |\n|---|---|---|\n\
                        | `base` | nothing | x |\n| `engine` | `base` | y |\n| `volvox` | * | z |\n\
                        \n## Next\n\n| `no` | `base` |\n";

    fn have(name: &str, uses: &[&str], tests: &[&str]) -> Crate {
        let dependency = |kind: Option<&'static str>| {
            move |name: &&str| Dependency {
                name: (*name).to_owned(),
                kind: kind.map(str::to_owned),
            }
        };
        let uses = uses.iter().map(dependency(None));
        let dependencies = uses.chain(tests.iter().map(dependency(Some("dev")))).collect();
        Crate { name: name.to_owned(), dependencies }
    }

    fn messages(crates: &[Crate]) -> Vec<String> {
        check(crates, "A.md", PAGE).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn allowed_arrows_pass_and_crates_of_others_are_free() {
        let crates = [
            have("base", &["crc32fast"], &[]),
            have("engine", &["base", "rapidhash"], &[]),
            have("volvox", &["base", "engine", "tracing"], &[]),
        ];
        assert_eq!(messages(&crates), Vec::<String>::new());
    }

    #[test]
    fn every_other_arrow_is_found() {
        let fine = || [have("engine", &["base"], &[]), have("volvox", &[], &[])];
        let cases = [
            (have("base", &["engine"], &[]), "base uses engine, but may use only []"),
            (have("base", &["tracing"], &[]), "base uses tracing"),
            (have("stray", &[], &[]), "stray has no row"),
        ];
        for (wrong, expected) in cases {
            let mut crates = vec![wrong];
            crates.extend(fine());
            if crates[0].name != "base" {
                crates.push(have("base", &[], &[]));
            }
            let messages = messages(&crates);
            assert_eq!(messages.len(), 1, "{messages:?}");
            assert!(messages[0].contains(expected), "{messages:?}");
        }
    }

    #[test]
    fn a_row_without_a_crate_is_found() {
        let messages = messages(&[have("base", &[], &[]), have("volvox", &[], &[])]);
        assert!(messages[0].contains("engine does not exist: remove"), "{messages:?}");
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let text = r#"{"packages": [{"name": "base", "dependencies": [
            {"name": "engine", "kind": "dev"}, {"name": "crc32fast", "kind": null}]},
            {"name": "engine", "dependencies": [{"name": "base", "kind": "build"}]},
            {"name": "volvox", "dependencies": []}]}"#;
        let read: Metadata = serde_json::from_str(text).unwrap();
        assert_eq!(messages(&read.packages), Vec::<String>::new());
    }

    #[test]
    fn libraries_and_reasons_match() {
        let base = have("base", &["crc32fast"], &["proptest"]);
        let crates = [base, have("engine", &["base", "rapidhash"], &[])];
        let page = "| `crc32fast`, `gone` | `base` | fast |\n| `proptest` | tests | cases |\n";
        let messages: Vec<String> =
            libraries(&crates, "B.md", page).into_iter().map(|finding| finding.message).collect();
        assert_eq!(messages, ["rapidhash is used: say why", "gone is not used: remove it"]);
    }
}

//! The arrows between crates: what `cargo metadata` shows against what the architecture page
//! allows.
//!
//! The page is the one source: under the heading `## Crates` stands a table whose first column
//! names a crate and whose second names those it may use (`*` for all, `nothing` for none). Arrows
//! that only tests need are free: they ship nothing. A crate without a row, and a row without a
//! crate, are findings, so the page cannot grow stale.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Finding, HOUSE, LIBRARIES, Rule};

/// The heading of the table of crates.
const HEADING: &str = "## Crates";
/// Crates that return events and counts and leave logging and configuration to the rim.
const SILENT: [&str; 4] = ["base", "memcache", "engine", "session"];
/// What a silent crate may not use.
const LOUD: [&str; 9] = [
    "tracing",
    "tracing-subscriber",
    "log",
    "env_logger",
    "slog",
    "metrics",
    "prometheus",
    "config",
    "clap",
];

/// A crate of the workspace and what it uses, tests apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Names of the crates it uses, ours and others'.
    pub uses: Vec<String>,
    /// Names of the crates that only its tests use.
    pub tests: Vec<String>,
}

/// Reads the crates out of what cargo knows.
pub fn crates(metadata: &Value) -> Result<Vec<Crate>> {
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let mut crates = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package has no name")?.to_owned();
        let named = |tests: bool| -> Vec<String> {
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            let wanted = dependencies.filter(|one| (one["kind"].as_str() == Some("dev")) == tests);
            wanted.filter_map(|one| one["name"].as_str()).map(str::to_owned).collect()
        };
        let (uses, tests) = (named(false), named(true));
        crates.push(Crate { name, uses, tests });
    }
    Ok(crates)
}

/// Compares the arrows drawn with the arrows allowed.
pub fn check(crates: &[Crate], house: &str) -> Vec<Finding> {
    let allowed = table(house);
    let ours = |name: &String| crates.iter().any(|have| have.name == *name);
    let mut findings = Vec::new();
    let mut find = |message| findings.push(Finding::file(Rule::Arrows, HOUSE, message));
    for have in crates {
        let Some(may) = allowed.get(&have.name) else {
            find(format!("crate {} has no row under {HEADING}: add it", have.name));
            continue;
        };
        for used in have.uses.iter().filter(|used| ours(used)) {
            if !may.iter().any(|name| name == "*" || name == used) {
                find(format!(
                    "{} uses {used}, but may use only [{}]: turn the arrow round or move the code",
                    have.name,
                    may.join(", ")
                ));
            }
        }
        for used in have.uses.iter().filter(|used| LOUD.contains(&used.as_str())) {
            if SILENT.contains(&have.name.as_str()) {
                find(format!("{} uses {used}: return events and counts instead", have.name));
            }
        }
    }
    for name in allowed.keys().filter(|name| !ours(name)) {
        find(format!("{HEADING} names {name}, which is no crate here: remove the row"));
    }
    findings
}

/// Compares the libraries used with those the page gives a reason for.
pub fn libraries(crates: &[Crate], page: &str) -> Vec<Finding> {
    let rows = page.lines().filter_map(|line| line.trim().strip_prefix('|'));
    let cells = rows.filter_map(|row| row.split('|').next());
    let named: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let ours = |name: &str| crates.iter().any(|have| have.name == name);
    let used = |tests: bool| -> BTreeSet<&str> {
        let lists = crates.iter().map(|have| if tests { &have.tests } else { &have.uses });
        lists.flatten().map(String::as_str).filter(|name| !ours(name)).collect()
    };
    let (shipped, tested) = (used(false), used(true));
    let unnamed = shipped.difference(&named).map(|name| format!("{name} is used: say why"));
    let known = |name: &&&str| !shipped.contains(**name) && !tested.contains(**name);
    let unused = named.iter().filter(known).map(|name| format!("{name} is not used: remove it"));
    unnamed.chain(unused).map(|what| Finding::file(Rule::Arrows, LIBRARIES, what)).collect()
}

/// Reads the table of crates; names stand in backquotes or bare.
fn table(house: &str) -> BTreeMap<String, Vec<String>> {
    let section = house.lines().skip_while(|line| line.trim_end() != HEADING).skip(1);
    let section = section.take_while(|line| !line.starts_with("## "));
    let rows = section.filter_map(|line| line.trim().strip_prefix('|'));
    let mut allowed = BTreeMap::new();
    for row in rows.skip(2) {
        let mut cells = row.split('|').map(str::trim);
        let (Some(name), Some(uses)) = (cells.next(), cells.next()) else { continue };
        let bare = |text: &str| text.trim().trim_matches('`').to_owned();
        let uses = uses.split(',').map(bare).filter(|name| !name.is_empty() && name != "nothing");
        allowed.insert(bare(name), uses.collect());
    }
    allowed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PAGE: &str = "# A\n\n## Crates\n\nText.\n\n| crate | may use | what |\n|---|---|---|\n\
                        | `base` | nothing | x |\n| `engine` | `base` | y |\n| `volvox` | * | z |\n\
                        \n## Next\n\n| `no` | `base` |\n";

    fn have(name: &str, uses: &[&str]) -> Crate {
        let uses = uses.iter().map(|used| (*used).to_owned()).collect();
        Crate { name: name.to_owned(), uses, tests: Vec::new() }
    }

    fn messages(crates: &[Crate]) -> Vec<String> {
        check(crates, PAGE).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn allowed_arrows_pass_and_crates_of_others_are_free() {
        let crates = [
            have("base", &["crc32fast"]),
            have("engine", &["base", "rapidhash"]),
            have("volvox", &["base", "engine", "tracing"]),
        ];
        assert_eq!(messages(&crates), Vec::<String>::new());
    }

    #[test]
    fn every_other_arrow_is_found() {
        let fine = || [have("engine", &[]), have("volvox", &[])];
        let cases = [
            (have("base", &["engine"]), "base uses engine"),
            (have("base", &["tracing"]), "base uses tracing"),
            (have("stray", &[]), "crate stray has no row"),
        ];
        for (wrong, expected) in cases {
            let mut crates = vec![wrong];
            crates.extend(fine());
            if crates[0].name != "base" {
                crates.push(have("base", &[]));
            }
            let messages = messages(&crates);
            assert_eq!(messages.len(), 1, "{messages:?}");
            assert!(messages[0].contains(expected), "{messages:?}");
        }
    }

    #[test]
    fn a_row_without_a_crate_is_found() {
        let messages = messages(&[have("base", &[]), have("volvox", &[])]);
        assert!(messages[0].contains("names engine"), "{messages:?}");
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let metadata = json!({"packages": [{"name": "base", "dependencies": [
            {"name": "engine", "kind": "dev"}, {"name": "crc32fast", "kind": null}]}]});
        let tests = vec!["engine".to_owned()];
        let expected = Crate { tests, ..have("base", &["crc32fast"]) };
        assert_eq!(crates(&metadata).unwrap(), [expected]);
    }

    #[test]
    fn libraries_and_reasons_match() {
        let base = Crate { tests: vec!["proptest".to_owned()], ..have("base", &["crc32fast"]) };
        let crates = [base, have("engine", &["base", "rapidhash"])];
        let page = "| `crc32fast`, `gone` | `base` | fast |\n| `proptest` | tests | cases |\n";
        let messages: Vec<String> =
            libraries(&crates, page).into_iter().map(|finding| finding.message).collect();
        assert_eq!(messages, ["rapidhash is used: say why", "gone is not used: remove it"]);
    }
}

//! The README's tables of promises, made of the kept results.
//!
//! A row is a promise in a user's words: its bars, what was measured, the claims. Neighbouring
//! claims with the same words are one row. A claim that missed its bar says so and links to the
//! decision that explains it. Only what stands between the two marks of a subject is written; a
//! test fails when it is not what the kept results make.

use std::fs;

use anyhow::{Context, Result};

use super::kept::Kept;
use crate::claim::{Claim, Verdict};
use measure::{repo::Repo, screen::Table};

const README: &str = "README.md";

/// Writes the table of a subject.
pub fn write(repo: &Repo, subject: &str, claims: &[Claim], kept: &Kept) -> Result<()> {
    let path = repo.path(README);
    let text = fs::read_to_string(&path).context("read README.md")?;
    fs::write(&path, with_table(&text, subject, claims, kept)?).context("write README.md")
}

/// The README with the table of a subject between its marks.
pub fn with_table(readme: &str, subject: &str, claims: &[Claim], kept: &Kept) -> Result<String> {
    let begin = format!("<!-- promises of {subject}: cargo xtask prove {subject} --readme -->\n");
    let end = format!("<!-- end of the promises of {subject} -->\n");
    let parts = readme.split_once(&begin).zip(readme.split_once(&end));
    let ((before, _), (_, after)) =
        parts.with_context(|| format!("{README} has no marks {begin}{end}"))?;
    Ok(format!("{before}{begin}{}{end}{after}", table(claims, kept).markdown()))
}

fn table(claims: &[Claim], kept: &Kept) -> Table {
    let mut table = Table::new(&["promise", "bar", "measured", "claims"]);
    for row in claims.chunk_by(|one, next| one.promise == next.promise) {
        if row[0].promise.is_empty() {
            continue;
        }
        let bars = row.iter().map(|claim| claim.bar.to_owned());
        let measured = row.iter().map(|claim| measured(claim, kept));
        let ids = row.iter().map(|claim| format!("`{}`", claim.id));
        let ids = ids.collect::<Vec<_>>().join(", ");
        table.row(vec![
            row[0].promise.into(),
            each(bars).into(),
            each(measured).into(),
            ids.into(),
        ]);
    }
    table
}

fn measured(claim: &Claim, kept: &Kept) -> String {
    match kept.measured(claim.id) {
        Some(measured) if measured.verdict == Verdict::Pass => measured.text.clone(),
        Some(measured) if measured.verdict == Verdict::Fail => {
            let why = format!(" ([why](docs/decisions/{}))", claim.decision);
            let why = if claim.decision.is_empty() { "" } else { &why };
            format!("**{}, missed**{why}", measured.text)
        }
        _ => "not measured".to_owned(),
    }
}

/// All of the texts, or the one that all are.
fn each(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = texts.collect();
    texts.dedup();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Measured;

    const fn claim(id: &'static str, bar: &'static str, promise: &'static str) -> Claim {
        Claim::new(id, "").bar(bar).promised(promise).by(|_| Ok(Measured::not("")))
    }

    #[test]
    fn claims_of_one_promise_are_a_row_and_a_miss_links_to_its_reason() {
        let claims = [
            claim("a.1", ">= 2", "fast"),
            claim("a.2", ">= 3", "fast").explained("0001.md"),
            claim("b", "none", ""),
            claim("c", "all", "safe"),
        ];
        let kept = Kept::of([
            ("a.1", Measured::new("2.5", 2.5, true)),
            ("a.2", Measured::new("2.9", 2.9, false)),
            ("b", Measured::new("1", 1.0, true)),
        ]);
        let marks = |table: &str| {
            format!(
                "x\n<!-- promises of path: cargo xtask prove path --readme -->\n{table}\
                 <!-- end of the promises of path -->\ny\n"
            )
        };
        let expected = marks(
            "| promise | bar | measured | claims |\n| --- | --- | --- | --- |\n\
             | fast | >= 2; >= 3 | 2.5; **2.9, missed** ([why](docs/decisions/0001.md)) | `a.1`, \
             `a.2` |\n\
             | safe | all | not measured | `c` |\n",
        );
        assert_eq!(with_table(&marks("old\n"), "path", &claims, &kept).unwrap(), expected);
        assert!(with_table("no marks", "path", &claims, &kept).is_err());
    }
}

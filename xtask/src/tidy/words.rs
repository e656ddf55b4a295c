//! Words that have a plainer replacement.
//!
//! Sources and pages are read as a row of words: case, marks and line ends do not count, so a
//! phrase is found in a wrapped comment, in a string and in a name like `is_told`. A word that
//! begins with a capital is the name of a type and is found only in this form. `words.txt` lists
//! only words without a plain use; a word that is dialect here and plain there is for a reader to
//! judge.

use super::finding::{Finding, Rule};

/// Kept reports and history, which are not rewritten, and this file, which spells the words.
#[rustfmt::skip]
const FREE: [&str; 4] =
    ["docs/proof/", "docs/lab/", "CHANGELOG.md", "xtask/src/tidy/words.rs"];

/// What is refused, and what stands for it, one a line.
const WORDS: &str = include_str!("words.txt");

/// Every refused word of a text.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    if FREE.iter().any(|free| path.starts_with(free)) {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    let words: Vec<(&str, usize)> =
        lines.flat_map(|(at, line)| words(line).map(move |word| (word, at + 1))).collect();
    let refused = WORDS.lines().filter_map(|line| line.split_once(": "));
    let refused: Vec<(&str, Vec<&str>, &str)> =
        refused.map(|(phrase, instead)| (phrase, self::words(phrase).collect(), instead)).collect();
    let mut findings = Vec::new();
    for (at, (_, line)) in words.iter().enumerate() {
        let begins = |phrase: &[&str]| {
            let here = words[at..].iter().zip(phrase);
            here.filter(|((word, _), wanted)| same(word, wanted)).count() == phrase.len()
        };
        for (phrase, _, instead) in refused.iter().filter(|(_, words, _)| begins(words)) {
            let message = format!("\"{phrase}\" has a plainer word: {instead}");
            findings.push(Finding::new(Rule::Words, path, *line, message));
        }
    }
    findings
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty())
}

fn same(word: &str, wanted: &str) -> bool {
    let name = wanted.starts_with(|c: char| c.is_ascii_uppercase());
    word == wanted || (!name && word.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_words_are_found_in_every_form() {
        let cases: [(&str, &[usize]); 12] = [
            ("a segment is told\nof it", &[1]),
            ("/// waits for so\n/// many replies", &[1]),
            ("let is_told = 1; // Told", &[1, 1]),
            ("format!(\"{x} whoever {y}\")", &[1]),
            ("it is nobody's", &[1]),
            ("struct Door { bell: Bell }", &[1, 1, 1]),
            ("a front door, a wild card", &[]),
            ("Doorway, retold, background", &[]),
            ("the ground\n\nGround { .. }", &[1, 3]),
            ("so much, many so", &[]),
            ("where most of\nall free space is", &[1]),
            ("plain words", &[]),
        ];
        for (text, expected) in cases {
            let lines: Vec<usize> = check("a.rs", text).iter().map(|found| found.line).collect();
            assert_eq!(lines, expected, "{text}");
        }
        assert!(check("docs/proof/path.md", "told").is_empty(), "kept reports stay as they are");
        let message = &check("a.md", "told")[0].message;
        assert_eq!(message, "\"told\" has a plainer word: emitted, notified, given, distinguished");
    }
}

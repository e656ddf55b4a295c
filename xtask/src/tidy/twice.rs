//! Lines of code that occur in two places.
//!
//! A run is six consecutive lines. White space is folded. Blank lines, comments, imports, lines
//! of marks alone and the signatures that a trait dictates do not count: a file is not free in
//! them. Production and tests are compared alike; a run is reported once, at its second place.

use std::collections::HashMap;

use super::{
    finding::{Finding, Rule},
    source::Source,
};

/// How many lines make a run.
const RUN: usize = 6;

/// Every run of lines that occurred before.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let files: Vec<Vec<(usize, String)>> = sources.iter().map(lines).collect();
    let texts: Vec<Vec<&str>> =
        files.iter().map(|file| file.iter().map(|(_, text)| text.as_str()).collect()).collect();
    let mut first: HashMap<&[&str], (usize, usize)> = HashMap::new();
    let mut findings = Vec::new();
    for (file, text) in texts.iter().enumerate() {
        // Where the first place of the run that goes on would continue.
        let mut next = None;
        for (at, run) in text.windows(RUN).enumerate() {
            let (there, begin) = *first.entry(run).or_insert((file, at));
            if (there, begin) == (file, at) || (there == file && begin + RUN > at) {
                next = None;
                continue;
            }
            if next.replace((there, begin + 1)) != Some((there, begin)) {
                let (line, before) = (files[file][at].0, files[there][begin].0);
                let message = format!(
                    "{RUN} lines or more are those of {}:{before}: make the two one",
                    sources[there].path
                );
                findings.push(Finding::new(Rule::Twice, &sources[file].path, line, message));
            }
        }
    }
    findings
}

fn lines(source: &Source) -> Vec<(usize, String)> {
    let fold = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let counted = source.own_lines().filter(|(_, line)| line.contains(char::is_alphanumeric));
    counted.map(|(at, line)| (at, fold(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(texts: &[&str]) -> Vec<String> {
        let source = |(at, text): (usize, &&str)| Source::new(&format!("{at}.rs"), text).unwrap();
        let sources: Vec<Source> = texts.iter().enumerate().map(source).collect();
        let place =
            |finding: Finding| format!("{}:{} {}", finding.path, finding.line, finding.message);
        check(&sources).into_iter().map(place).collect()
    }

    #[test]
    fn six_lines_in_two_places_are_found_once() {
        let body = "a();\nb();\nc();\nd();\ne();\nf();\n";
        let function = |body: &str| format!("fn x() {{\n{body}}}\n");
        let other = |body: &str| format!("fn y() {{\n{body}}}\n");
        let spaced = body.replace('\n', "\n\n    // why\n  ");
        let message = "6 lines or more are those of 0.rs:2: make the two one";
        let cases = [
            (vec![function(body), other(body)], vec![format!("1.rs:2 {message}")]),
            (vec![function(body), other(&spaced)], vec![format!("1.rs:2 {message}")]),
            (
                vec![function(&format!("{body}g();\n")), other(&format!("{body}g();\n"))],
                vec![format!("1.rs:2 {message}")],
            ),
            (vec![function(body), other(&body.replace("c", "cc"))], vec![]),
            (
                vec![format!("{}{}", function(body), other(body))],
                vec![format!("0.rs:10 {message}")],
            ),
            (vec![function(&"a();\n".repeat(11))], vec![]),
            (
                vec![function(body), format!("#[cfg(test)]\nmod t {{\n{}}}\n", other(body))],
                vec![format!("1.rs:4 {message}")],
            ),
        ];
        for (texts, expected) in cases {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            assert_eq!(found(&texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn what_a_file_is_not_free_in_does_not_count() {
        let uses = "use a::{\n    b,\n    c,\n    d,\n    e,\n    f,\n    g,\n};\n";
        let methods = |body: &str| {
            let names = ["a", "b", "c", "d", "e", "f"];
            names.map(|name| format!("fn {name}(\n&self,\n) -> u32 {{\n{body}\n}}\n")).concat()
        };
        let first = format!("{uses}impl A for B {{\n{}}}\n", methods("1"));
        let second = format!("{uses}impl A for C {{\n{}}}\n", methods("2"));
        assert_eq!(found(&[&first, &second]), Vec::<String>::new());
        let again = format!("impl D {{\n{}}}\n", methods("1"));
        assert_eq!(found(&[&again, &again.replace('D', "E")]).len(), 1, "own methods count");
    }
}

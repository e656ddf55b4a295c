//! What a rule reports: the rule, the place, what is wrong and the remedy.
//!
//! A finding names the limit and the remedy in its message, so that nobody has to look a rule up.

/// The rules, by the names that the report prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A crate uses a crate or a library that the pages do not list.
    Arrows,
    /// A room uses a room that the table of its crate does not list.
    Rooms,
    /// Files use each other in a cycle.
    Cycle,
    /// An `impl` block stands in another file than its type.
    Impl,
    /// A file is too long.
    Size,
    /// A group of crates has more lines than its ceiling.
    Lines,
    /// A line is too wide.
    Width,
    /// A source has a character outside ASCII.
    Ascii,
    /// An import outside tests has a `*`.
    Glob,
    /// A file has a name that says nothing.
    Name,
    /// A file does not open with its documentation.
    Docs,
    /// A document points at something that does not exist.
    Link,
    /// A word has a plainer replacement.
    Words,
    /// The same lines of code occur in two places.
    Twice,
}

/// One thing to mend.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that was broken.
    pub rule: Rule,
    /// The file, relative to the root.
    pub path: String,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
    /// A warning does not fail the check.
    pub warning: bool,
}

impl Finding {
    /// A finding about one line, counted from 1, or about the whole file, line 0.
    pub fn new(rule: Rule, path: &str, line: usize, message: impl Into<String>) -> Self {
        let (path, message) = (path.to_owned(), message.into());
        Self { rule, path, line, message, warning: false }
    }
}

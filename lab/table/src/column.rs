//! The columns of the table of latencies: one list for the CSV and for what people read.

use report::figure::short;

use crate::table::Cell;

/// What stands in a column.
pub(crate) enum Entry {
    /// A word.
    Word(String),
    /// A figure, where there is one.
    Figure(Option<f64>),
    /// A number of things, where they were counted.
    Count(Option<u64>),
}

impl Entry {
    /// In full, and empty where nothing was measured.
    pub fn exact(self) -> String {
        match self {
            Self::Word(word) => word,
            Self::Figure(value) => value.map_or(String::new(), |value| value.to_string()),
            Self::Count(count) => count.map_or(String::new(), |count| count.to_string()),
        }
    }

    /// In a few digits, and a dash where nothing was measured.
    pub fn short(self) -> String {
        match self {
            Self::Word(word) => word,
            Self::Figure(value) => value.map_or("-".to_string(), short),
            Self::Count(count) => count.map_or("-".to_string(), |count| count.to_string()),
        }
    }
}

/// A column: its name in the CSV, its title on a page, and what stands in it.
pub(crate) type Column = (&'static str, &'static str, fn(&Cell) -> Entry);

/// All of them, in order.
pub(crate) const COLUMNS: [Column; 12] = [
    ("contestant", "server", |cell| Entry::Word(cell.contestant.to_string())),
    ("size_bytes", "size", |cell| Entry::Word(cell.size.to_string())),
    ("mix", "mix", |cell| Entry::Word(cell.mix.to_string())),
    ("rate", "rate", |cell| Entry::Word(cell.rate.clone())),
    ("offered_per_s", "offered/s", |cell| Entry::Figure(cell.offered_per_s)),
    ("achieved_per_s", "achieved/s", |cell| Entry::Figure(cell.achieved_per_s)),
    ("op", "op", |cell| Entry::Word(cell.op.to_string())),
    ("p50_us", "p50 us", |cell| Entry::Figure(cell.p50_us)),
    ("p95_us", "p95 us", |cell| Entry::Figure(cell.p95_us)),
    ("p99_us", "p99 us", |cell| Entry::Figure(cell.p99_us)),
    ("wrong", "wrong", |cell| Entry::Count(cell.wrong)),
    ("server_cpu_us_per_request", "CPU us", |cell| Entry::Figure(cell.cpu_us_per_request)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_empty_for_tools_and_a_dash_for_people() {
        assert_eq!(
            (Entry::Figure(None).exact().as_str(), Entry::Count(None).short()),
            ("", "-".into())
        );
        let value = || Entry::Figure(Some(12_345.678));
        assert_eq!((value().exact(), value().short()), ("12345.678".into(), "12.3k".into()));
    }
}

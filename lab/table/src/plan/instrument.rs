//! What a request costs in counts: system calls by strace, user instructions by callgrind. Which
//! words start a server under them, and what their files say; `count` runs them.
//!
//! A server runs twice under an instrument with the same start and different numbers of requests;
//! what the longer run has more, divided by the requests it has more, is free of starting and
//! filling.

use std::collections::BTreeMap;
use std::path::Path;

/// Descriptors under valgrind, which keeps twelve and lets nobody set another limit than what is
/// left: memcached sets 1,024, and gives up where it cannot.
const DESCRIPTORS: &str = "--nofile=1036:1036";
/// The name under which [`Instrument::Callgrind`] counts.
pub(crate) const INSTRUCTIONS: &str = "instructions";

/// A program that runs a server and counts what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instrument {
    /// System calls, by name.
    Strace,
    /// User instructions, as [`INSTRUCTIONS`].
    Callgrind,
}

/// All of them, in the order of the plan.
pub(crate) const INSTRUMENTS: [Instrument; 2] = [Instrument::Strace, Instrument::Callgrind];

impl Instrument {
    /// The program that must be installed.
    pub fn program(self) -> &'static str {
        match self {
            Self::Strace => "strace",
            Self::Callgrind => "valgrind",
        }
    }

    /// What it counts, as files name it.
    pub fn slug(self) -> &'static str {
        match self {
            Self::Strace => "calls",
            Self::Callgrind => "instructions",
        }
    }

    /// What it counts, as people name it.
    pub fn counts(self) -> &'static str {
        match self {
            Self::Strace => "system calls",
            Self::Callgrind => "instructions",
        }
    }

    /// The words before a server's own that count into `file`.
    pub fn words(self, program: &Path, file: &Path) -> Vec<String> {
        let (program, file) = (program.display().to_string(), file.display().to_string());
        match self {
            Self::Strace => [&program, "-D", "-f", "-c", "-o", &file].map(str::to_string).into(),
            Self::Callgrind => {
                let out = format!("--callgrind-out-file={file}");
                let own = [&program, "--vgdb=no", "--tool=callgrind", &out];
                ["prlimit", DESCRIPTORS].into_iter().chain(own).map(str::to_string).collect()
            }
        }
    }

    /// The counts in a whole text; none while it is not.
    pub fn parse(self, text: &str) -> Option<BTreeMap<String, u64>> {
        match self {
            Self::Strace => parse_strace(text),
            Self::Callgrind => parse_callgrind(text),
        }
    }
}

/// Rows of share, seconds, microseconds a call, calls, perhaps errors, name; then a row of sums.
fn parse_strace(text: &str) -> Option<BTreeMap<String, u64>> {
    const LAST_WORD: &str = "total";
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let calls = cells.get(3)?.parse().ok()?;
        let name = cells.last().filter(|name| cells.len() >= 5 && **name != LAST_WORD)?;
        Some(((*name).to_string(), calls))
    };
    text.trim_end().ends_with(LAST_WORD).then(|| text.lines().filter_map(row).collect())
}

/// The line of the sum, which stands at the end.
fn parse_callgrind(text: &str) -> Option<BTreeMap<String, u64>> {
    let whole_lines = text.strip_suffix('\n')?;
    let sum = whole_lines.lines().next_back()?.strip_prefix("totals:")?;
    Some(BTreeMap::from([(INSTRUCTIONS.to_string(), sum.trim().parse().ok()?)]))
}

/// Counts per request: the difference of two runs by that of their requests.
pub(crate) fn per_request(
    few: &BTreeMap<String, u64>,
    many: &BTreeMap<String, u64>,
    requests: (u64, u64),
) -> BTreeMap<String, f64> {
    /// What is rarer than one in a thousand requests belongs to no request.
    const RARE: f64 = 0.001;
    let more = requests.1.saturating_sub(requests.0).max(1) as f64;
    let slope = |(name, count): (&String, &u64)| {
        let before = few.get(name).copied().unwrap_or(0) as f64;
        (name.clone(), (*count as f64 - before) / more)
    };
    many.iter().map(slope).filter(|(_, count)| *count >= RARE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000600           6       100           sendto
 40.00    0.000400           2       200       100 recvfrom
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000           3       300       100 total
";

    #[test]
    fn the_table_of_strace_is_read_with_and_without_errors_once_it_is_whole() {
        let expected = [("recvfrom".to_string(), 200), ("sendto".to_string(), 100)];
        assert_eq!(Instrument::Strace.parse(TABLE), Some(BTreeMap::from(expected)));
        let cut = &TABLE[..TABLE.len() - 8];
        assert_eq!(Instrument::Strace.parse(cut), None);
    }

    #[test]
    fn the_sum_of_callgrind_is_read_once_it_is_there() {
        let text = "events: Ir\n\nfn=(0)\n0 17\n\nsummary: 123456\n\n\ntotals: 123456\n";
        let expected = BTreeMap::from([(INSTRUCTIONS.to_string(), 123_456)]);
        assert_eq!(Instrument::Callgrind.parse(text), Some(expected));
        for cut in ["events: Ir\n\nfn=(0)\n0 17\n", "summary: 123456\n\n\ntotals: 12"] {
            assert_eq!(Instrument::Callgrind.parse(cut), None, "{cut}");
        }
    }

    #[test]
    fn starting_costs_cancel() {
        let few = BTreeMap::from([("mmap".to_string(), 50), ("sendto".to_string(), 100)]);
        let many = BTreeMap::from([("mmap".to_string(), 50), ("sendto".to_string(), 600)]);
        let each = per_request(&few, &many, (200, 1_200));
        assert_eq!(each, BTreeMap::from([("sendto".to_string(), 0.5)]));
    }
}

//! What a request costs in counts: system calls by strace, user instructions by callgrind.
//!
//! An instrument runs a server and writes its counts to a file when the server has ended. Starting
//! and filling cost counts too. So a server runs twice with the same start and different numbers of
//! requests, and [`per_request`] divides the difference of the counts by that of the requests.
//!
//! A file is read only when it is whole: an instrument may still be writing after the server has
//! ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use std::{fs, path::Path, thread};

use anyhow::{Result, bail};

use super::tools::{self, Tool};

/// Descriptors of a server under an instrument. Valgrind keeps twelve and forbids any other limit
/// than what is left; memcached sets 1,024 and ends where it cannot.
const DESCRIPTORS: &str = "--nofile=1036:1036";
/// Longest an instrument may take to write its counts after the server has ended.
const WRITTEN_MAX: Duration = Duration::from_secs(30);
/// How often the file is read until it is whole.
const POLL: Duration = Duration::from_millis(10);
/// The name under which [`Instrument::Callgrind`] counts instructions.
pub const INSTRUCTIONS: &str = "instructions";
/// The name under which it counts calls that allocate memory.
pub const ALLOCATIONS: &str = "allocations";
/// The functions of the C library that allocate memory.
const ALLOCATE: [&str; 6] =
    ["malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "memalign"];

/// A program that runs a server and counts what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instrument {
    /// System calls, by name.
    Strace,
    /// User instructions, as [`INSTRUCTIONS`], and [`ALLOCATIONS`].
    Callgrind,
}

/// Counts by name.
pub type Counts = BTreeMap<String, u64>;

impl Instrument {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Strace, Self::Callgrind];

    /// The program that must be installed.
    pub fn tool(self) -> &'static Tool {
        match self {
            Self::Strace => &tools::STRACE,
            Self::Callgrind => &tools::VALGRIND,
        }
    }

    /// What it counts, in words.
    pub fn counts(self) -> &'static str {
        match self {
            Self::Strace => "system calls",
            Self::Callgrind => INSTRUCTIONS,
        }
    }

    /// The words before a server's own that make it count into `file`.
    pub fn words(self, file: &Path) -> Vec<String> {
        let program = self.tool().program;
        let file = file.display().to_string();
        match self {
            Self::Strace => [program, "-D", "-f", "-c", "-o", &file].map(str::to_owned).into(),
            Self::Callgrind => {
                let out = format!("--callgrind-out-file={file}");
                let own = [program, "--vgdb=no", "--tool=callgrind", &out];
                ["prlimit", DESCRIPTORS].into_iter().chain(own).map(str::to_owned).collect()
            }
        }
    }

    /// The counts of a whole text; none of a text that is not whole.
    fn parse(self, text: &str) -> Option<Counts> {
        match self {
            Self::Strace => parse_strace(text),
            Self::Callgrind => parse_callgrind(text),
        }
    }

    /// Waits until `file` is whole and reads its counts.
    pub fn read(self, file: &Path) -> Result<Counts> {
        let until = Instant::now() + WRITTEN_MAX;
        loop {
            let text = fs::read_to_string(file).unwrap_or_default();
            if let Some(counts) = self.parse(&text) {
                return Ok(counts);
            }
            if Instant::now() >= until {
                let (program, limit_s) = (self.tool().program, WRITTEN_MAX.as_secs());
                bail!("{} is not whole after {limit_s} s: see what {program} said", file.display());
            }
            thread::sleep(POLL);
        }
    }
}

/// Rows of share, seconds, microseconds a call, calls, perhaps errors, name; then a row of sums.
fn parse_strace(text: &str) -> Option<Counts> {
    const LAST_WORD: &str = "total";
    let row = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let calls = cells.get(3)?.parse().ok()?;
        let name = cells.last().filter(|name| cells.len() >= 5 && **name != LAST_WORD)?;
        Some(((*name).to_owned(), calls))
    };
    text.trim_end().ends_with(LAST_WORD).then(|| text.lines().filter_map(row).collect())
}

/// The sum is in the last line, which ends the file.
fn parse_callgrind(text: &str) -> Option<Counts> {
    let whole_lines = text.strip_suffix('\n')?;
    let sum = whole_lines.lines().next_back()?.strip_prefix("totals:")?;
    let instructions = sum.trim().parse().ok()?;
    let counts = [(INSTRUCTIONS, instructions), (ALLOCATIONS, allocations(whole_lines))];
    Some(counts.map(|(name, count)| (name.to_owned(), count)).into())
}

/// How often functions that allocate were called.
///
/// `cfn=(7) malloc` names what is called, or `cfn=(7)` where the number was given a name before;
/// the next line is `calls=COUNT TARGET`.
fn allocations(text: &str) -> u64 {
    let (mut allocating, mut called, mut count) = (BTreeSet::new(), "", 0);
    for line in text.lines() {
        let named = ["cfn=", "fn="].iter().find_map(|start| line.strip_prefix(start));
        if let Some((number, name)) = named.and_then(|named| named.split_once(' '))
            && ALLOCATE.contains(&name)
        {
            allocating.insert(number);
        }
        if let Some(named) = line.strip_prefix("cfn=") {
            called = named.split(' ').next().unwrap_or(named);
        }
        let calls = line.strip_prefix("calls=").and_then(|rest| rest.split(' ').next());
        if let Some(calls) = calls.filter(|_| allocating.contains(called)) {
            count += calls.parse().unwrap_or(0);
        }
    }
    count
}

/// Counts per request: the difference of two runs by that of their requests.
pub fn per_request(few: &Counts, many: &Counts, requests: (u64, u64)) -> BTreeMap<String, f64> {
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
        let expected = [("recvfrom".to_owned(), 200), ("sendto".to_owned(), 100)];
        assert_eq!(Instrument::Strace.parse(TABLE), Some(BTreeMap::from(expected)));
        let cut = &TABLE[..TABLE.len() - 8];
        assert_eq!(Instrument::Strace.parse(cut), None);
    }

    #[test]
    fn the_sum_of_callgrind_is_read_once_it_is_there() {
        let text = "events: Ir\n\nfn=(0)\n0 17\n\nsummary: 123456\n\n\ntotals: 123456\n";
        let counts = [(ALLOCATIONS, 0), (INSTRUCTIONS, 123_456)];
        let expected = counts.map(|(name, count)| (name.to_owned(), count)).into();
        assert_eq!(Instrument::Callgrind.parse(text), Some(expected));
        for cut in ["events: Ir\n\nfn=(0)\n0 17\n", "summary: 123456\n\n\ntotals: 12"] {
            assert_eq!(Instrument::Callgrind.parse(cut), None, "{cut}");
        }
    }

    #[test]
    fn calls_that_allocate_are_counted_by_name_and_by_number() {
        let text = "fn=(1) main\n3 5\ncfn=(2) malloc\ncalls=4 0\n3 90\n\
                    cfn=(3) free\ncalls=9 0\n3 1\n\nfn=(4) work\n8 5\ncfn=(2)\ncalls=6 0\n\
                    8 70\n\nfn=(5) realloc\n1 1\n\nfn=(1)\ncfn=(5)\ncalls=1 0\n1 1\n\ntotals: 9\n";
        assert_eq!(Instrument::Callgrind.parse(text).unwrap()[ALLOCATIONS], 11);
    }

    #[test]
    fn starting_costs_cancel() {
        let few = BTreeMap::from([("mmap".to_owned(), 50), ("sendto".to_owned(), 100)]);
        let many = BTreeMap::from([("mmap".to_owned(), 50), ("sendto".to_owned(), 600)]);
        let each = per_request(&few, &many, (200, 1_200));
        assert_eq!(each, BTreeMap::from([("sendto".to_owned(), 0.5)]));
    }
}

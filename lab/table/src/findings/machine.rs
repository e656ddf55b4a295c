//! What the figures were measured on.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A machine, as far as figures depend on it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Its processor.
    pub processor: String,
    /// Cores that the lab may use.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Its kernel.
    pub kernel: String,
}

impl Machine {
    /// This one.
    pub fn here(cores: usize) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kib = memory.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown".into()),
            cores,
            memory_mib: kib / 1024,
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        }
    }

    /// In a line.
    pub fn line(&self) -> String {
        let Self { processor, cores, memory_mib, kernel } = self;
        format!("{cores} cores of {processor}, {memory_mib} MiB, {kernel}")
    }
}

/// The value behind `name` and a colon.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// Today, as year, month and day in UTC.
pub(crate) fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The day so many days after 1970-01-01.
fn date(days: u64) -> String {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut rest) = (1970, days);
    while rest >= 365 + u64::from(is_leap(year)) {
        rest -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", rest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (days, text) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (11_016, "2000-02-29"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(date(days), text);
        }
    }

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::here(2);
        assert!(machine.memory_mib > 0 && machine.kernel.starts_with("Linux "));
        assert_eq!(field("a : b\nmodel name\t: X Y\n", "model name").as_deref(), Some("X Y"));
    }
}

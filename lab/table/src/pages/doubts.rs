//! Reasons not to rely on the figures, as sentences with a count; those of the machine come first.

use measure::process::instrument::Instrument;

use super::rows::{Cell, Peak};
use crate::findings::SATURATED;

/// A condition of a lambda-max, and what follows if it holds.
type Reason = (fn(&Peak) -> bool, &'static str);

/// All reasons that apply.
pub(super) fn doubts(peaks: &[Peak], cells: &[Cell]) -> Vec<String> {
    let mut doubts = Vec::new();
    let about_peaks: [Reason; 3] = [
        (
            |peak| peak.crowded,
            "the generator or the server waited for a core more than 5 % of the time, or a \
             hypervisor took as much: others used this machine, and the figures are too low",
        ),
        (
            |peak| peak.counters.is_some_and(|of| of.busy_cores < SATURATED),
            "the server's core was less than 95 % busy: something else was the bottleneck",
        ),
        (
            |peak| peak.lambda_max.is_some_and(|lambda| !lambda.flat),
            "throughput had not flattened: the figure is a lower bound",
        ),
    ];
    for (applies, what) in about_peaks {
        let count = peaks.iter().filter(|peak| applies(peak)).count();
        if count > 0 {
            doubts.push(format!("{count} of {} lambda-max: {what}", peaks.len()));
        }
    }
    let short = cells.iter().filter(|cell| cell.falls_short()).count();
    if short > 0 {
        doubts.push(format!(
            "{short} of {} cells: less than 98 % of the offered rate was achieved, so a queue grew \
             and latencies depend on the length of the run",
            cells.len()
        ));
    }
    let calls = peaks.iter().all(|peak| peak.system_calls_per_request.is_none());
    let instructions = peaks.iter().all(|peak| peak.instructions_per_request.is_none());
    for (by, absent) in [(Instrument::Strace, calls), (Instrument::Callgrind, instructions)] {
        if absent {
            doubts.push(format!("{} were not counted: install {}", by.counts(), by.tool().package));
        }
    }
    let wrong: u64 = cells.iter().filter_map(|cell| cell.wrong).max().unwrap_or(0);
    if wrong > 0 {
        doubts.push(format!("requests went wrong, {wrong} in the worst cell"));
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::super::winners::tests::peaks;
    use super::*;
    use crate::plan::Contestant;

    #[test]
    fn doubts_are_counted() {
        let mut peaks = peaks(&[(Contestant::Epoll, 200.0, 4.0)]);
        assert_eq!(doubts(&peaks, &[]).len(), 2, "neither instrument counted");
        peaks[0].system_calls_per_request = Some(0.5);
        peaks[0].instructions_per_request = Some(900.0);
        assert!(doubts(&peaks, &[]).is_empty());
        let counters = peaks[0].counters.as_mut().unwrap();
        counters.busy_cores = 0.5;
        peaks[0].crowded = true;
        let doubts = doubts(&peaks, &[]);
        assert_eq!(doubts.len(), 2, "{doubts:?}");
        assert!(doubts[0].starts_with("1 of 4 lambda-max: the generator or the server waited"));
    }
}

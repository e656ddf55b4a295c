//! What a server did while it was measured: processor time, switches, calls, by its requests.
//!
//! Two samples of the kernel's and the server's own accounts; the difference, divided by the
//! requests between them, is the cost of one. Pure: the rim takes the samples.

use serde::{Deserialize, Serialize};

/// The accounts at one moment; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// Nanoseconds since the lab began.
    pub at_ns: u64,
    /// Processor time of all threads.
    pub cpu_ns: u64,
    /// Time in which a thread was ready and had no core.
    pub waited_ns: u64,
    /// Time that a hypervisor took from all cores of this machine.
    pub stolen_ns: u64,
    /// Times that a thread went to sleep.
    pub slept: u64,
    /// Times that a thread lost its core to another.
    pub preempted: u64,
    /// Keys asked for and values stored, as the server counts them.
    pub requests: u64,
    /// Calls that received and calls that sent, where the server counts them.
    pub calls: Option<(u64, u64)>,
    /// Readable events, where the server counts them.
    pub events: Option<u64>,
}

/// What one request cost, and how busy the server was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Length of the stretch that was counted.
    pub window_s: f64,
    /// Requests in it.
    pub requests: u64,
    /// Processor time, in cores: 1 is one core all the time.
    pub busy_cores: f64,
    /// Time waited for a core while another program had it, in cores.
    pub waiting_cores: f64,
    /// What a hypervisor took from this machine, in cores: no program here could have had it.
    pub stolen_cores: f64,
    /// Processor time of a request.
    pub cpu_us_per_request: f64,
    /// Times a thread of the server went to sleep, per request.
    pub sleeps_per_request: f64,
    /// Times a thread lost its core, per request.
    pub preemptions_per_request: f64,
    /// Calls that received, per request.
    pub receives_per_request: Option<f64>,
    /// Calls that sent, per request.
    pub sends_per_request: Option<f64>,
    /// Requests per readable event.
    pub requests_per_event: Option<f64>,
}

impl Counters {
    /// What lies between two samples; none when no request does.
    pub fn between(first: &Sample, last: &Sample) -> Option<Self> {
        let window_ns = last.at_ns.checked_sub(first.at_ns).filter(|window_ns| *window_ns > 0)?;
        let requests = last.requests.checked_sub(first.requests).filter(|count| *count > 0)?;
        let grown = |last: u64, first: u64| last.saturating_sub(first) as f64;
        let each = |last: u64, first: u64| grown(last, first) / requests as f64;
        let calls = last.calls.zip(first.calls);
        let cpu_ns = grown(last.cpu_ns, first.cpu_ns);
        Some(Self {
            window_s: window_ns as f64 / 1e9,
            requests,
            busy_cores: cpu_ns / window_ns as f64,
            waiting_cores: grown(last.waited_ns, first.waited_ns) / window_ns as f64,
            stolen_cores: grown(last.stolen_ns, first.stolen_ns) / window_ns as f64,
            cpu_us_per_request: cpu_ns / 1e3 / requests as f64,
            sleeps_per_request: each(last.slept, first.slept),
            preemptions_per_request: each(last.preempted, first.preempted),
            receives_per_request: calls.map(|(last, first)| each(last.0, first.0)),
            sends_per_request: calls.map(|(last, first)| each(last.1, first.1)),
            requests_per_event: last.events.zip(first.events).and_then(|(last, first)| {
                let events = grown(last, first);
                (events > 0.0).then(|| requests as f64 / events)
            }),
        })
    }
}

/// Adds a thread's `status` file: its switches.
pub(crate) fn add_status(sample: &mut Sample, text: &str) {
    let number = |name: &str| -> u64 {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    sample.slept += number("voluntary_ctxt_switches:");
    sample.preempted += number("nonvoluntary_ctxt_switches:");
}

/// Adds a thread's `schedstat` file: time on a core, and time waited for one.
pub(crate) fn add_schedstat(sample: &mut Sample, text: &str) {
    let mut numbers = text.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
    sample.cpu_ns += numbers.next().unwrap_or(0);
    sample.waited_ns += numbers.next().unwrap_or(0);
}

/// Takes over the machine's `stat` file, whose times are ticks of which there are `ticks_per_s`:
/// what was stolen is the eighth of them.
pub(crate) fn add_machine(sample: &mut Sample, text: &str, ticks_per_s: u64) {
    let all_cores = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let stolen = all_cores.and_then(|times| times.split_whitespace().nth(7));
    let ticks = stolen.and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
    sample.stolen_ns = ticks * (1_000_000_000 / ticks_per_s.max(1));
}

/// Takes over what a server says of itself, as names and values.
pub(crate) fn add_stats(sample: &mut Sample, stats: &[(String, String)]) {
    let number = |name: &str| -> Option<u64> {
        stats.iter().find(|stat| stat.0 == name).and_then(|stat| stat.1.parse().ok())
    };
    sample.requests = number("cmd_get").unwrap_or(0) + number("cmd_set").unwrap_or(0);
    sample.calls = number("read_calls").zip(number("write_calls"));
    sample.events = number("readable_events");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_and_stats_make_a_sample() {
        let mut sample = Sample::default();
        for _ in 0..2 {
            add_status(
                &mut sample,
                "Name:\tx\nvoluntary_ctxt_switches:\t10\nnonvoluntary_ctxt_switches:\t3\n",
            );
            add_schedstat(&mut sample, "1000 200 7\n");
        }
        add_machine(&mut sample, "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n", 100);
        assert_eq!(sample.stolen_ns, 800_000_000);
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        add_stats(&mut sample, &[pair("cmd_get", "5"), pair("cmd_set", "2")]);
        assert_eq!((sample.slept, sample.preempted), (20, 6));
        assert_eq!((sample.cpu_ns, sample.waited_ns, sample.requests), (2000, 400, 7));
        assert_eq!((sample.calls, sample.events), (None, None));
        add_stats(&mut sample, &[pair("read_calls", "4"), pair("write_calls", "3")]);
        assert_eq!(sample.calls, Some((4, 3)));
    }

    #[test]
    fn the_difference_is_divided_by_the_requests() {
        let first = Sample { calls: Some((100, 100)), events: Some(50), ..Sample::default() };
        let last = Sample {
            at_ns: 2_000_000_000,
            cpu_ns: 1_000_000_000,
            waited_ns: 500_000_000,
            stolen_ns: 1_500_000_000,
            slept: 500,
            preempted: 100,
            requests: 1_000,
            calls: Some((350, 600)),
            events: Some(300),
        };
        let counters = Counters::between(&first, &last).unwrap();
        assert_eq!((counters.busy_cores, counters.waiting_cores), (0.5, 0.25));
        assert_eq!(counters.stolen_cores, 0.75);
        assert_eq!(counters.cpu_us_per_request, 1_000.0);
        assert_eq!((counters.sleeps_per_request, counters.preemptions_per_request), (0.5, 0.1));
        assert_eq!(counters.receives_per_request, Some(0.25));
        assert_eq!(counters.sends_per_request, Some(0.5));
        assert_eq!(counters.requests_per_event, Some(4.0));
        assert!(Counters::between(&last, &last).is_none());
        let idle = Sample { requests: 0, ..last };
        assert!(Counters::between(&first, &idle).is_none());
    }
}

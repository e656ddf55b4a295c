//! Samples of a running server: the kernel's account of it, and its own `stats`.
//!
//! A sample only grows; the difference of two, divided by the requests between them, is the cost of
//! a request. Times are in nanoseconds.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Result;
use measure::Target;
use measure::account::machine::stolen_ns;
use measure::account::process::Account;

use crate::findings::Counters;

/// A server that is sampled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
}

/// The accounts at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Since the measurement began.
    at_ns: u64,
    account: Account,
    stolen_ns: u64,
    /// Keys requested and values stored, as the server counts them.
    requests: u64,
    /// Calls that received and calls that sent, if the server counts them.
    calls: Option<(u64, u64)>,
    /// Readable events, if the server counts them.
    events: Option<u64>,
}

impl Sample {
    /// Adds what the server's `stats` say.
    fn add_stats(&mut self, stats: &[(String, String)]) {
        let number = |name: &str| -> Option<u64> {
            stats.iter().find(|stat| stat.0 == name).and_then(|stat| stat.1.parse().ok())
        };
        self.requests = number("cmd_get").unwrap_or(0) + number("cmd_set").unwrap_or(0);
        self.calls = number("read_calls").zip(number("write_calls"));
        self.events = number("readable_events");
    }

    /// The costs since an earlier sample; none without a request between them.
    fn since(&self, first: &Self) -> Option<Counters> {
        let window_ns = self.at_ns.checked_sub(first.at_ns).filter(|window| *window > 0)? as f64;
        let requests = self.requests.checked_sub(first.requests).filter(|count| *count > 0)?;
        let spent = self.account - first.account;
        let each = |count: u64| count as f64 / requests as f64;
        let grown = |last: u64, first: u64| last.saturating_sub(first);
        let calls = self.calls.zip(first.calls);
        let events = self.events.zip(first.events).map(|(last, first)| grown(last, first));
        Some(Counters {
            window_s: window_ns / 1e9,
            requests,
            busy_cores: spent.cpu_ns as f64 / window_ns,
            waiting_cores: spent.waited_ns as f64 / window_ns,
            stolen_cores: grown(self.stolen_ns, first.stolen_ns) as f64 / window_ns,
            cpu_us_per_request: each(spent.cpu_ns) / 1e3,
            sleeps_per_request: each(spent.slept),
            preemptions_per_request: each(spent.preempted),
            receives_per_request: calls.map(|(last, first)| each(grown(last.0, first.0))),
            sends_per_request: calls.map(|(last, first)| each(grown(last.1, first.1))),
            requests_per_event: events
                .filter(|events| *events > 0)
                .map(|events| requests as f64 / events as f64),
        })
    }
}

impl Probe {
    fn sample(&self, began: Instant) -> Result<Sample> {
        let (account, stolen_ns) = (Account::of(self.pid)?, stolen_ns());
        let at_ns = began.elapsed().as_nanos() as u64;
        let mut sample = Sample { at_ns, account, stolen_ns, ..Sample::default() };
        let target = Target::Tcp(self.address);
        sample.add_stats(
            &[load::ask(&target, "stats")?, load::ask(&target, "stats volvox")?].concat(),
        );
        Ok(sample)
    }

    /// Counts over the middle eight tenths of a measurement of `measured` that begins after
    /// `before`; none if it is `over` sooner.
    pub fn watch(
        &self,
        before: Duration,
        measured: Duration,
        over: &Receiver<()>,
    ) -> Option<Counters> {
        let began = Instant::now();
        let sample_at = |moment: Duration| {
            let wait = moment.saturating_sub(began.elapsed());
            let continues = matches!(over.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
            continues.then(|| self.sample(began))?.ok()
        };
        let first = sample_at(before + measured / 10)?;
        sample_at(before + measured * 9 / 10)?.since(&first)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_measurement_that_ends_early_is_not_counted() {
        let (sender, over) = mpsc::channel::<()>();
        drop(sender);
        let probe = Probe { address: "127.0.0.1:1".parse().unwrap(), pid: std::process::id() };
        assert!(probe.watch(Duration::from_secs(60), Duration::from_secs(60), &over).is_none());
    }

    #[test]
    fn stats_are_read_if_the_server_has_them() {
        let mut sample = Sample::default();
        let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
        sample.add_stats(&[pair("cmd_get", "5"), pair("cmd_set", "2")]);
        assert_eq!((sample.requests, sample.calls, sample.events), (7, None, None));
        sample.add_stats(&[pair("read_calls", "4"), pair("write_calls", "3")]);
        assert_eq!(sample.calls, Some((4, 3)));
    }

    #[test]
    fn the_difference_is_divided_by_the_requests() {
        let first = Sample { calls: Some((100, 100)), events: Some(50), ..Sample::default() };
        let last = Sample {
            at_ns: 2_000_000_000,
            account: Account {
                cpu_ns: 1_000_000_000,
                waited_ns: 500_000_000,
                slept: 500,
                preempted: 100,
            },
            stolen_ns: 1_500_000_000,
            requests: 1_000,
            calls: Some((350, 600)),
            events: Some(300),
        };
        let counters = last.since(&first).unwrap();
        assert_eq!((counters.busy_cores, counters.waiting_cores), (0.5, 0.25));
        assert_eq!(counters.stolen_cores, 0.75);
        assert_eq!(counters.cpu_us_per_request, 1_000.0);
        assert_eq!((counters.sleeps_per_request, counters.preemptions_per_request), (0.5, 0.1));
        assert_eq!(counters.receives_per_request, Some(0.25));
        assert_eq!(counters.sends_per_request, Some(0.5));
        assert_eq!(counters.requests_per_event, Some(4.0));
        assert!(last.since(&last).is_none());
        let idle = Sample { requests: 0, ..last };
        assert!(idle.since(&first).is_none());
    }
}

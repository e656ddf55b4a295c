//! Doubts that the figures themselves give rise to, spoken so that nobody has to guess.

use super::Report;
use crate::drive::{Limit, Observed, Plan};

/// Share of a core from which on a generator thread is suspected to hold the run back.
const BUSY_SHARE: f64 = 0.85;

/// Share of the window without a core from which on the latencies are doubted.
const STARVED_SHARE: f64 = 0.05;

/// Share of the offered rate below which the achieved one is called short.
const ACHIEVED_SHARE: f64 = 0.98;

/// Delay of due requests by the generator itself, at p99, from which on the latencies are doubted.
const OWN_DELAY_NS: u64 = 1_000_000;

/// What is said of a generator that is the bottleneck.
pub(crate) const BOTTLENECK: &str = "the generator may be the bottleneck";

/// What is said of a generator that sends late.
pub(crate) const DELAYED: &str = "the generator delayed due requests";

/// What is said of a generator that others keep from running.
pub(crate) const STARVED: &str = "a thread of the generator waited for a core";

/// What the reader must know before believing the figures.
pub(super) fn warnings(plan: &Plan, observed: &Observed, report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if observed.stopped {
        warnings.push("stopped before its end".to_string());
    }
    if observed.gave_up {
        let patience_s = plan.patience.as_secs_f64();
        warnings.push(format!("given up: no reply for {patience_s} s (see --patience)"));
    }
    if observed.busiest >= BUSY_SHARE {
        warnings.push(format!(
            "{BOTTLENECK}: its busiest thread used {:.0} % of a core; give it more --threads on \
             cores of their own",
            observed.busiest * 100.0
        ));
    }
    let own_p99_ns = observed.tally.own_delay_ns.value_at_quantile(0.99);
    let late = own_p99_ns >= OWN_DELAY_NS;
    let own_p99_ms = own_p99_ns as f64 / 1e6;
    if observed.starved >= STARVED_SHARE {
        // Who has no core sends late: one doubt, by its cause.
        let and_late = if late {
            format!(" and due requests left {own_p99_ms:.1} ms late at p99")
        } else {
            String::new()
        };
        warnings.push(format!(
            "{STARVED} {:.0} % of the time{and_late}; latencies hold that wait, so give it a core \
             that nothing else uses",
            observed.starved * 100.0
        ));
    } else if late {
        warnings.push(format!("{DELAYED} by {own_p99_ms:.1} ms at p99; that is in the latencies"));
    }
    if let Some(offered) = report.rate.offered_per_s {
        let achieved = report.rate.achieved_per_s;
        if !observed.stopped && achieved < offered * ACHIEVED_SHARE {
            warnings.push(format!(
                "{achieved:.0} requests/s achieved of {offered:.0} offered: a queue has grown, and \
                 latencies depend on the length of the run"
            ));
        }
    }
    let unsent = report.requests.unsent;
    if unsent > 0 && !plan.drop_overdue && !observed.stopped {
        warnings.push(format!(
            "{unsent} requests were due and never sent, for they found no connection with room \
             until {} s after the end; lower --rate, or raise --connections or --pipeline",
            plan.patience.as_secs_f64()
        ));
    }
    if report.hits == 0 && report.misses > 0 {
        warnings.push("no key was found: this measures misses; see --populate".to_string());
    }
    if matches!(plan.limit, Limit::Time(_)) && plan.warmup.is_zero() {
        warnings.push("no warm-up: the first requests are in the figures".to_string());
    }
    warnings
}

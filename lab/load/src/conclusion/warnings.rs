//! Warnings: why the figures of a run may not mean what they seem to.
//!
//! Each doubt is stated once, by its cause. Own delay has two causes: the generator's own work, or
//! a thread that did not run because another program or the hypervisor had its core. The part that
//! the thread's CPU time explains is the generator's fault; the rest is the machine's.

use crate::drive::{Limit, Observed, Plan};

/// The share of a core from which on a generator thread may hold the run back.
const BUSY_SHARE: f64 = 0.85;

/// The share of the window without a core from which on the latencies are doubted.
const STARVED_SHARE: f64 = 0.05;

/// The share of the offered rate below which the achieved one is too low.
const ACHIEVED_SHARE: f64 = 0.98;

/// The delay of due requests by the generator, at p99, from which on the latencies are doubted.
const OWN_DELAY_NS: u64 = 1_000_000;

/// The warning of a generator that is the bottleneck.
pub(crate) const BOTTLENECK: &str = "the generator may be the bottleneck";

/// The warning of a generator whose work delays requests.
pub(crate) const DELAYED: &str = "the generator delayed due requests";

/// The warning of a generator that had no core.
const STARVED: &str = "a thread of the generator waited for a core";

/// The warning of a generator that had no core for short times, or that the hypervisor stopped.
const PAUSED: &str = "the machine kept the generator from running";

/// The warnings of a run; `rates` are those offered and achieved per second.
pub(super) fn warnings(plan: &Plan, observed: &Observed, rates: Option<(f64, f64)>) -> Vec<String> {
    let mut warnings = Vec::new();
    let tally = &observed.tally;
    let patience_s = plan.patience.as_secs_f64();
    if observed.stopped {
        warnings.push("stopped before its end".to_string());
    }
    if observed.gave_up {
        warnings.push(format!("given up: no reply for {patience_s} s (see --patience)"));
    }
    if observed.busiest >= BUSY_SHARE {
        warnings.push(format!(
            "{BOTTLENECK}: its busiest thread used {:.0} % of a core; give it more --threads on \
             cores of their own",
            observed.busiest * 100.0
        ));
    }
    warnings.extend(late(observed));
    if let Some((offered, achieved)) = rates
        && !observed.stopped
        && achieved < offered * ACHIEVED_SHARE
    {
        warnings.push(format!(
            "{achieved:.0} requests/s achieved of {offered:.0} offered: a queue has grown, and \
             latencies depend on the length of the run"
        ));
    }
    let unsent = tally.requests.unsent;
    if unsent > 0 && !plan.drop_overdue && !observed.stopped {
        warnings.push(format!(
            "{unsent} requests were due and never sent, because no connection had room until \
             {patience_s} s after the end; lower --rate, or raise --connections or --pipeline"
        ));
    }
    if tally.totals.hits == 0 && tally.totals.misses > 0 {
        warnings.push("no key was found: this measures misses; see --populate".to_string());
    }
    if matches!(plan.limit, Limit::Time(_)) && plan.warmup.is_zero() {
        warnings.push("no warm-up: the first requests are in the figures".to_string());
    }
    warnings
}

/// Why due requests were sent late, and the cause of a generator that had no core.
fn late(observed: &Observed) -> Option<String> {
    let Observed { tally, starved, stolen, .. } = observed;
    let own_p99_ns = tally.own_delay_ns.value_at_quantile(0.99);
    let is_late = own_p99_ns >= OWN_DELAY_NS;
    let own_p99_ms = own_p99_ns as f64 / 1e6;
    if *starved >= STARVED_SHARE {
        let and_late = if is_late {
            format!(" and due requests left {own_p99_ms:.1} ms late at p99")
        } else {
            String::new()
        };
        return Some(format!(
            "{STARVED} {:.0} % of the time{and_late}; latencies contain that wait: give it a core \
             that nothing else uses",
            starved * 100.0
        ));
    }
    if is_late && tally.work_delay_ns.value_at_quantile(0.99) < OWN_DELAY_NS {
        return Some(format!(
            "{PAUSED}, and due requests left {own_p99_ms:.1} ms late at p99: it waited for a core \
             {:.1} % of the time, and the hypervisor took {:.1} % of a core; latencies contain \
             that: give it a core that nothing else uses",
            starved * 100.0,
            stolen * 100.0
        ));
    }
    is_late.then(|| {
        format!("{DELAYED} by {own_p99_ms:.1} ms at p99; latencies contain that: lower --rate")
    })
}

//! Who wins where, and why: sentences made of the rows, by rules that a reader can check.
//!
//! ```text
//! who    by lambda-max; within each other's intervals nobody wins
//! why    the costs of a request that part winner and loser by more than a tenth, dearest first
//! ```

use report::figure::short;

use crate::contestant::Contestant;
use crate::finding::SATURATED;
use crate::instrument::{INSTRUMENTS, Instrument};
use crate::table::{Cell, Peak};

/// What this table is a table of, and of what not.
pub(crate) const MEMORY_ALONE: &str = "This is memory alone: no request waits for a database. \
    Where one stands below, a blocked thread and a loop that goes on are different things, and \
    that is where these styles part; the table is measured again when a tier stands.";

/// Counters that differ by less than this factor explain nothing.
const TELLING: f64 = 1.1;

/// A cost of a request: its name, and how it is read.
type Cost = (&'static str, fn(&Peak) -> Option<f64>);

const COSTS: [Cost; 7] = [
    ("CPU us", |peak| peak.counters.map(|of| of.cpu_us_per_request)),
    ("sleeps", |peak| peak.counters.map(|of| of.sleeps_per_request)),
    ("receives", |peak| peak.counters.and_then(|of| of.receives_per_request)),
    ("sends", |peak| peak.counters.and_then(|of| of.sends_per_request)),
    ("system calls", |peak| peak.system_calls_per_request),
    ("preemptions", |peak| peak.counters.map(|of| of.preemptions_per_request)),
    ("instructions", |peak| peak.instructions_per_request),
];

/// A sentence for every size and mix, then one about latencies.
pub(crate) fn sentences(peaks: &[Peak], cells: &[Cell]) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut at = 0;
    while at < peaks.len() {
        let here = |peak: &&Peak| (peak.size, peak.mix) == (peaks[at].size, peaks[at].mix);
        let group: Vec<&Peak> = peaks[at..].iter().take_while(here).collect();
        at += group.len();
        sentences.push(peak_sentence(&group));
    }
    sentences.extend(latency_sentence(cells));
    sentences
}

/// Who answers most at one size and mix.
fn peak_sentence(group: &[&Peak]) -> String {
    let place = format!("{} B, {}", group[0].size, group[0].mix);
    let mut ranked: Vec<(&Peak, f64)> =
        group.iter().filter_map(|peak| Some((*peak, peak.lambda_max?.per_s))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let [(best, best_per_s), rest @ ..] = &ranked[..] else {
        return format!("{place}: not measured.");
    };
    let bounds = |peak: &Peak| {
        let lambda = peak.lambda_max.expect("invariant: the ranked have a lambda-max");
        (lambda.low_per_s, lambda.high_per_s)
    };
    let is_equal = |peak: &Peak| bounds(peak).1 >= bounds(best).0;
    let (equal, losers): (Vec<_>, Vec<_>) = rest.iter().partition(|(peak, _)| is_equal(peak));
    let equal: Vec<&str> = equal.iter().map(|(peak, _)| peak.contestant).collect();
    let mut text = if equal.is_empty() {
        format!("{place}: {} answers most, {} a second", best.contestant, short(*best_per_s))
    } else {
        let others = equal.join(", ");
        format!(
            "{place}: {} leads with {} a second, within the intervals of {others}: nobody wins",
            best.contestant,
            short(*best_per_s)
        )
    };
    for (peak, per_s) in losers {
        let why = why(best, peak);
        let by = best_per_s / per_s;
        text.push_str(&format!("; {:.2} x {}{why}", by, peak.contestant));
    }
    text.push('.');
    if group.iter().any(|peak| peak.crowded) {
        text.push_str(" Others used the machine meanwhile, so this is no verdict.");
    }
    text
}

/// What the loser pays more for, in brackets.
fn why(best: &Peak, loser: &Peak) -> String {
    let mut costs: Vec<(&str, f64, f64)> = COSTS
        .iter()
        .filter_map(|(name, of)| Some((*name, of(loser)?, of(best)?)))
        .filter(|(_, loser, best)| *loser > best * TELLING && *loser >= 0.01)
        .collect();
    costs.sort_by(|a, b| (b.1 / b.2.max(1e-3)).total_cmp(&(a.1 / a.2.max(1e-3))));
    if costs.is_empty() {
        return " (no cost that was counted differs by more than a tenth)".to_string();
    }
    let cost = |(name, loser, best): &(&str, f64, f64)| {
        format!("{name} {} against {}", short(*loser), short(*best))
    };
    format!(" (a request costs it {})", costs.iter().map(cost).collect::<Vec<_>>().join(", "))
}

/// Whose gets wait least at the highest rate that is common to all, over all sizes and mixes.
fn latency_sentence(cells: &[Cell]) -> Option<String> {
    let common = |cell: &&Cell| cell.rate.ends_with("common") && cell.op == "GET";
    let highest = cells.iter().find(common)?.rate.clone();
    let mut sums: Vec<(&str, f64, usize)> = Vec::new();
    // Only who was measured everywhere has a mean that compares.
    let mut places: Vec<(u32, &str)> = Vec::new();
    for cell in cells.iter().filter(common).filter(|cell| cell.rate == highest) {
        let place = (cell.size, cell.mix);
        if !places.contains(&place) {
            places.push(place);
        }
        let Some(p99_us) = cell.p99_us.filter(|us| *us > 0.0) else { continue };
        match sums.iter_mut().find(|sum| sum.0 == cell.contestant) {
            Some(sum) => (sum.1, sum.2) = (sum.1 + p99_us.ln(), sum.2 + 1),
            None => sums.push((cell.contestant, p99_us.ln(), 1)),
        }
    }
    let mut means: Vec<(&str, f64)> = sums
        .into_iter()
        .filter(|(_, _, count)| *count == places.len())
        .map(|(name, sum, count)| (name, (sum / count as f64).exp()))
        .collect();
    means.sort_by(|a, b| a.1.total_cmp(&b.1));
    let listed: Vec<String> =
        means.iter().map(|(name, us)| format!("{name} {} us", short(*us))).collect();
    (!listed.is_empty()).then(|| {
        format!(
            "At the highest common rate ({highest}: the same for all), the p99 of gets is, least \
             first and as geometric mean over sizes and mixes: {}.",
            listed.join(", ")
        )
    })
}

/// Reasons to doubt the figures, those of the machine first.
pub(crate) fn doubts(peaks: &[Peak], cells: &[Cell]) -> Vec<String> {
    let mut doubts = Vec::new();
    let mut say = |count: usize, what: &str| {
        if count > 0 {
            doubts.push(format!("{count} of {} lambda-max: {what}", peaks.len()));
        }
    };
    let counted = |of: fn(&Peak) -> bool| peaks.iter().filter(|peak| of(peak)).count();
    say(
        counted(|peak| peak.crowded),
        "generator or server waited for a core more than 5 % of the time, or a hypervisor took \
         as much: others used this machine, and the figures are too low",
    );
    say(
        counted(|peak| peak.counters.is_some_and(|of| of.busy_cores < SATURATED)),
        "the server's core was below 95 % busy: something else was the bottleneck",
    );
    say(
        counted(|peak| peak.lambda_max.is_some_and(|lambda| !lambda.flat)),
        "throughput had not flattened: a lower bound",
    );
    let short = cells.iter().filter(|cell| cell.falls_short()).count();
    if short > 0 {
        doubts.push(format!(
            "{short} of {} cells: less than 98 % of the offered rate was achieved, so a queue grew \
             and latencies tell of the length of the run",
            cells.len()
        ));
    }
    let counted = |of: fn(&Peak) -> Option<f64>| peaks.iter().any(|peak| of(peak).is_some());
    for instrument in INSTRUMENTS {
        let of: fn(&Peak) -> Option<f64> = match instrument {
            Instrument::Strace => |peak| peak.system_calls_per_request,
            Instrument::Callgrind => |peak| peak.instructions_per_request,
        };
        if !counted(of) {
            let (program, counts) = (instrument.program(), instrument.counts());
            doubts.push(format!("{counts} were not counted: {program} is needed for that"));
        }
    }
    let wrong: u64 = cells.iter().filter_map(|cell| cell.wrong).max().unwrap_or(0);
    if wrong > 0 {
        doubts.push(format!("requests went wrong, {wrong} in the worst cell"));
    }
    doubts
}

/// The order in which contestants are shown, by name.
pub(crate) fn names(who: &[Contestant]) -> Vec<&'static str> {
    who.iter().map(|contestant| contestant.name()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::DRIVERS;
    use crate::finding::Findings;
    use crate::finding::tests::lambda;
    use crate::form::Form;
    use crate::table;

    fn peaks(of: &[(Contestant, f64, f64)]) -> Vec<Peak> {
        let form = Form { mixes: vec!["9:1"], ..Form::quick(2) };
        let place = table::places(&form)[0];
        let mut found = Findings::default();
        of.iter().for_each(|(who, per_s, cpu)| found.put(lambda(*who, place, *per_s, *cpu)));
        table::peaks(&form, &DRIVERS, &found)
    }

    #[test]
    fn the_winner_is_named_with_what_the_others_pay() {
        let peaks = peaks(&[(Contestant::Epoll, 200.0, 4.0), (Contestant::Threads, 100.0, 9.0)]);
        let said = sentences(&peaks, &[]);
        assert_eq!(
            said,
            ["1000 B, 9:1: epoll answers most, 200 a second; 2.00 x threads (a request costs it \
              CPU us 9 against 4, sleeps 0.9 against 0.4)."]
        );
    }

    #[test]
    fn within_the_intervals_nobody_wins() {
        let peaks = peaks(&[(Contestant::Epoll, 200.0, 4.0), (Contestant::Uring, 199.0, 4.0)]);
        let said = sentences(&peaks, &[]);
        assert!(said[0].contains("within the intervals of uring: nobody wins"), "{said:?}");
        let nothing = sentences(&super::tests::peaks(&[]), &[]);
        assert_eq!(nothing, ["1000 B, 9:1: not measured."]);
    }

    #[test]
    fn latencies_are_compared_at_the_same_rate_only() {
        let cell = |contestant, rate: &str, p99_us| Cell {
            contestant,
            size: 100,
            mix: "9:1",
            rate: rate.to_string(),
            offered_per_s: Some(1.0),
            achieved_per_s: Some(1.0),
            op: "GET",
            p50_us: Some(1.0),
            p95_us: Some(1.0),
            p99_us: Some(p99_us),
            wrong: Some(0),
            cpu_us_per_request: None,
        };
        let cells = [
            cell("epoll", "90 % own", 1.0),
            cell("epoll", "90 % common", 50.0),
            cell("threads", "90 % common", 40.0),
        ];
        let text = latency_sentence(&cells).unwrap();
        assert!(text.ends_with("threads 40 us, epoll 50 us."), "{text}");
        assert!(latency_sentence(&cells[..1]).is_none());
        let elsewhere = Cell { size: 10_000, ..cell("threads", "90 % common", 900.0) };
        let text = latency_sentence(&[cells[1].clone(), cells[2].clone(), elsewhere]).unwrap();
        assert!(text.ends_with(": threads 190 us."), "epoll has no figure of the other: {text}");
    }

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
        let said = doubts(&peaks, &[]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("1 of 4 lambda-max: generator or server waited"));
    }
}

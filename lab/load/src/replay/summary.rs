//! What a replay found, as text, JSON, CSV and a page.

use serde_json::json;

use super::Outcome;
use super::client::Client;
use super::feed::Feed;
use super::file::ReplayArgs;
use crate::report::Study;
use report::figure::{Axis, Figure, Plot, Scale, Series, short};

/// What `args` found, and why it ended `early` if it did.
pub(super) fn study(
    args: &ReplayArgs,
    client: &Client,
    seen: &Feed<'_>,
    early: Option<String>,
) -> Study {
    let outcome = &client.outcome;
    let points = client.history.percent();
    let hit_percent = outcome.hit_ratio() * 100.0;
    let rate = seen.requests as f64 / outcome.elapsed_s.max(1e-9);
    let mut csv = "gets,hit_percent\n".to_string();
    for (gets, percent) in &points {
        csv.push_str(&format!("{gets},{percent}\n"));
    }
    let clean = outcome.is_clean() && early.is_none();
    let mut warnings = Vec::from_iter(early);
    warnings.extend(doubts(args, outcome, seen));
    let plot = Figure::Plot(Plot {
        title: "Hit ratio over the trace".to_string(),
        note: "Each point is the share of hits among the gets around it.".to_string(),
        x: Axis::new("gets", Scale::Linear),
        y: Axis::new("hits, percent", Scale::Linear),
        series: vec![Series::new("hits", points)],
    });
    let text = format!(
        "{}: hit ratio {hit_percent:.2} % of {} gets; {} requests in {:.1} s ({rate:.0}/s); \
         {} items in {} bytes held",
        args.name(),
        outcome.gets,
        seen.requests,
        outcome.elapsed_s,
        outcome.held_items,
        outcome.held_bytes
    );
    Study {
        command: "replay",
        title: format!("Replay of {}", args.name()),
        conclusion: json!({
            "hit_ratio": outcome.hit_ratio(),
            "requests": seen.requests,
            "requested_bytes": seen.bytes,
            "too_large": seen.too_large,
            "outcome": outcome,
        }),
        text,
        facts: vec![
            ("hit ratio".to_string(), format!("{hit_percent:.2} %")),
            ("gets counted".to_string(), outcome.gets.to_string()),
            ("requests per second".to_string(), short(rate)),
            ("items held".to_string(), outcome.held_items.to_string()),
        ],
        warnings,
        runs: Vec::new(),
        varied: &[],
        sections: vec![("Hits".to_string(), vec![plot])],
        csv: Some(csv),
        clean,
    }
}

/// Why the figures may not mean what they seem to.
fn doubts(args: &ReplayArgs, outcome: &Outcome, seen: &Feed<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if outcome.gets + outcome.failed_gets == 0 {
        warnings.push("no get was counted; lower --skip".to_string());
    }
    if seen.too_large > 0 {
        let limit = args.value_bytes_max;
        warnings.push(format!(
            "{} requests for objects above {limit} bytes are misses; see --value-bytes-max",
            seen.too_large
        ));
    }
    if outcome.other_lengths > 0 && !args.verify {
        warnings.push(format!(
            "{} hits had another length than their record: the trace changes lengths, or the \
             server does, which --verify tells apart",
            outcome.other_lengths
        ));
    }
    warnings.extend(outcome.faults());
    warnings
}

//! The study of a replay: its answer as text, JSON, CSV and a page.

use serde_json::json;

use super::client::Client;
use super::feed::Feed;
use super::outcome::Outcome;
use crate::conclusion::Study;
use report::figure::{Axis, Figure, Scale, Series, Table, short};
use report::table::csv;

/// The study of the trace `name` that `client` replayed from `feed`; `early` states why it ended
/// before the trace did.
pub(super) fn study<S>(
    name: &str,
    feed: &Feed<S>,
    client: &Client,
    verify: bool,
    early: Option<&String>,
) -> Study {
    let (outcome, requests) = (&client.outcome, feed.requests);
    let points = client.history.percent();
    let hit_percent = outcome.hit_ratio() * 100.0;
    let elapsed_s = outcome.elapsed_s;
    let rate = requests as f64 / elapsed_s.max(1e-9);
    let row = |(gets, percent): &(f64, f64)| vec![gets.to_string(), percent.to_string()];
    let rows = points.iter().map(row).collect();
    let csv = csv(&Table { rows, ..Table::new("", &["gets", "hit_percent"]) });
    let plot = Figure::plot(
        "Hit ratio over the trace",
        "Each point is the share of hits among the gets around it.",
        Axis::new("gets", Scale::Linear),
        Axis::new("hits, percent", Scale::Linear),
        vec![Series::new("hits", points)],
    );
    let text = format!(
        "{name}: hit ratio {hit_percent:.2} % of {} gets; {requests} requests in {elapsed_s:.1} s \
         ({rate:.0}/s); {} items in {} bytes held",
        outcome.gets, outcome.held_items, outcome.held_bytes
    );
    let conclusion = json!({
        "hit_ratio": outcome.hit_ratio(),
        "requests": requests,
        "requested_bytes": feed.bytes,
        "too_large": feed.too_large,
        "outcome": outcome,
    });
    Study {
        command: "replay",
        title: format!("Replay of {name}"),
        conclusion,
        text,
        warnings: early.into_iter().cloned().chain(doubts(feed, outcome, verify)).collect(),
        sections: vec![("Hits".to_string(), vec![plot])],
        csv: Some(csv),
        clean: outcome.is_clean() && early.is_none(),
        ..Study::default()
    }
    .fact("hit ratio", format!("{hit_percent:.2} %"))
    .fact("gets counted", outcome.gets.to_string())
    .fact("requests per second", short(rate))
    .fact("items held", outcome.held_items.to_string())
}

/// Why the figures may not mean what they seem to.
fn doubts<S>(feed: &Feed<S>, outcome: &Outcome, verify: bool) -> Vec<String> {
    let (too_large, value_bytes_max) = (feed.too_large, feed.extent.value_bytes_max);
    let mut warnings = Vec::new();
    if outcome.gets + outcome.failed_gets == 0 {
        warnings.push("no get was counted; lower --skip".to_string());
    }
    if too_large > 0 {
        warnings.push(format!(
            "{too_large} requests for objects above {value_bytes_max} bytes are misses; see \
             --value-bytes-max"
        ));
    }
    if outcome.other_lengths > 0 && !verify {
        warnings.push(format!(
            "{} hits had another length than their record: the trace changes lengths, or the \
             server does; --verify shows which",
            outcome.other_lengths
        ));
    }
    warnings.extend(outcome.faults());
    warnings
}

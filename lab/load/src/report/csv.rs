//! Runs as CSV: one line each, labels first, then the same columns for every command.
//!
//! A field that was not measured is empty. Columns may be added at the end; none changes its name
//! or unit.

use super::{Labelled, Latency, Report};

/// The lines of `runs`, with a line of names above them.
#[must_use]
pub fn csv(runs: &[Labelled]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let labels = first.labels.iter().map(|(name, _)| (*name).to_string());
    let names = columns(&first.report).into_iter().map(|(name, _)| name);
    let mut text = line(labels.chain(names));
    for run in runs {
        let labels = run.labels.iter().map(|(_, value)| value.clone());
        text.push_str(&line(
            labels.chain(columns(&run.report).into_iter().map(|(_, field)| field)),
        ));
    }
    text
}

fn line(fields: impl Iterator<Item = String>) -> String {
    let fields: Vec<String> = fields.map(|field| quoted(&field)).collect();
    fields.join(",") + "\n"
}

/// A field that holds a comma, a quote or a line end stands in quotes.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_string()
    }
}

fn number(value: Option<f64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Names and fields of one run.
fn columns(report: &Report) -> Vec<(String, String)> {
    let (setup, requests) = (&report.setup, &report.requests);
    let mut columns: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, field: String| columns.push((name.to_string(), field));
    put("target", setup.target.clone());
    put("protocol", setup.protocol.clone());
    put("mode", setup.mode.clone());
    put("connections", setup.connections.to_string());
    put("threads", setup.threads.to_string());
    put("pipeline", setup.pipeline.to_string());
    put("keys", setup.keys.to_string());
    put("popularity", setup.workload.popularity.clone());
    put("ratio", setup.workload.ratio.clone());
    put("multiget", setup.workload.multiget.clone());
    put("key_bytes", setup.workload.key_lengths.clone());
    put("value_bytes", setup.workload.value_bytes.clone());
    put("ttl_s", setup.workload.ttl_s.clone());
    put("seed", setup.workload.seed.to_string());
    put("window_s", report.window_s.to_string());
    put("clean", report.is_clean().to_string());
    put("offered_per_s", number(report.rate.offered_per_s));
    put("achieved_per_s", report.rate.achieved_per_s.to_string());
    put("keys_per_s", report.rate.keys_per_s.to_string());
    for (name, count) in [
        ("gets", requests.gets),
        ("sets", requests.sets),
        ("refills", requests.refills),
        ("deletes", requests.deletes),
        ("modifies", requests.modifies),
        ("hits", report.hits),
        ("misses", report.misses),
        ("errors", requests.errors),
        ("wrong_values", report.wrong_values),
        ("lost", requests.lost),
        ("unsent", requests.unsent),
    ] {
        put(name, count.to_string());
    }
    put("server_cpu_us_per_request", number(report.server.as_ref().map(|s| s.cpu_us_per_request)));
    put("server_cores", number(report.server.as_ref().map(|server| server.cores)));
    put("own_cpu_us_per_request", report.generator.cpu_us_per_request.to_string());
    put("own_busiest_thread", report.generator.busiest_thread.to_string());
    for (op, latency) in report.latencies() {
        columns.extend(latency_columns(op, latency));
    }
    let unanswered = requests.unanswered.to_string();
    columns.push(("unanswered".to_string(), unanswered));
    columns
}

/// Takes one figure out of a distribution.
type Percentile = fn(&Latency) -> f64;

fn latency_columns(op: &str, latency: Option<&Latency>) -> Vec<(String, String)> {
    let percentiles: [(&str, Percentile); 8] = [
        ("mean", |latency| latency.mean_us),
        ("p50", |latency| latency.p50_us),
        ("p90", |latency| latency.p90_us),
        ("p95", |latency| latency.p95_us),
        ("p99", |latency| latency.p99_us),
        ("p999", |latency| latency.p999_us),
        ("p9999", |latency| latency.p9999_us),
        ("max", |latency| latency.max_us),
    ];
    let column =
        |(name, of): (&str, Percentile)| (format!("{op}_{name}_us"), number(latency.map(of)));
    percentiles.into_iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_need_it_are_quoted() {
        for (field, text) in
            [("a", "a"), ("100:9,1000:1", "\"100:9,1000:1\""), ("a\"b", "\"a\"\"b\"")]
        {
            assert_eq!(quoted(field), text);
        }
        assert_eq!(csv(&[]), "");
    }
}

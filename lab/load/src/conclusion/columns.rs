//! Runs as CSV: one line each, labels first, then the same columns for every command.
//!
//! The columns are fields of the JSON report, by their place in it. A field that was not measured
//! is empty. Columns may be added at the end; none changes its name or unit.

use serde_json::Value;

use super::labelled::Labelled;
use super::report::Report;
use report::figure::Table;
use report::table;

/// Names of columns, and the place of their field in the report. `clean` is no field: see
/// [`Report::is_clean`].
const COLUMNS: [(&str, &str); 34] = [
    ("target", "/setup/target"),
    ("protocol", "/setup/protocol"),
    ("mode", "/setup/mode"),
    ("connections", "/setup/connections"),
    ("threads", "/setup/threads"),
    ("pipeline", "/setup/pipeline"),
    ("keys", "/setup/keys"),
    ("popularity", "/setup/workload/popularity"),
    ("ratio", "/setup/workload/ratio"),
    ("multiget", "/setup/workload/multiget"),
    ("key_bytes", "/setup/workload/key_lengths"),
    ("value_bytes", "/setup/workload/value_bytes"),
    ("ttl_s", "/setup/workload/ttl_s"),
    ("seed", "/setup/workload/seed"),
    ("window_s", "/window_s"),
    ("clean", ""),
    ("offered_per_s", "/rate/offered_per_s"),
    ("achieved_per_s", "/rate/achieved_per_s"),
    ("keys_per_s", "/rate/keys_per_s"),
    ("gets", "/requests/gets"),
    ("sets", "/requests/sets"),
    ("refills", "/requests/refills"),
    ("deletes", "/requests/deletes"),
    ("modifies", "/requests/modifies"),
    ("hits", "/hits"),
    ("misses", "/misses"),
    ("errors", "/requests/errors"),
    ("wrong_values", "/wrong_values"),
    ("lost", "/requests/lost"),
    ("unsent", "/requests/unsent"),
    ("server_cpu_us_per_request", "/server/cpu_us_per_request"),
    ("server_cores", "/server/cores"),
    ("own_cpu_us_per_request", "/generator/cpu_us_per_request"),
    ("own_busiest_thread", "/generator/busiest_thread"),
];

/// The figures of a latency, without their unit.
const FIGURES: [&str; 8] = ["mean", "p50", "p90", "p95", "p99", "p999", "p9999", "max"];

/// The lines of `runs`, with a line of names above them; nothing without a run.
#[must_use]
pub fn csv(runs: &[Labelled]) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let mut head: Vec<&str> = first.labels.iter().map(|(name, _)| *name).collect();
    let columns = columns(&first.report);
    head.extend(columns.iter().map(|(name, _)| name.as_str()));
    let row = |run: &Labelled| {
        let labels = run.labels.iter().map(|(_, value)| value.clone());
        labels.chain(self::columns(&run.report).into_iter().map(|(_, cell)| cell)).collect()
    };
    let rows = runs.iter().map(row).collect();
    table::csv(&Table { rows, ..Table::new("", &head) })
}

/// Names and cells of one run.
fn columns(report: &Report) -> Vec<(String, String)> {
    let fields = serde_json::to_value(report).expect("invariant: a report is JSON");
    let cell = |place: &str| match fields.pointer(place) {
        _ if place.is_empty() => report.is_clean().to_string(),
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        // A whole number is written without a point.
        Some(Value::Number(number)) if number.is_f64() => {
            number.as_f64().unwrap_or_default().to_string()
        }
        Some(other) => other.to_string(),
    };
    let mut columns: Vec<(String, String)> =
        COLUMNS.iter().map(|(name, place)| ((*name).to_string(), cell(place))).collect();
    for (op, _) in report.latencies() {
        for figure in FIGURES {
            let name = format!("{op}_{figure}_us");
            columns.push((name, cell(&format!("/{op}_latency/{figure}_us"))));
        }
    }
    columns.push(("unanswered".to_string(), cell("/requests/unanswered")));
    columns
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{observed, report};
    use super::*;

    #[test]
    fn cells_are_those_of_the_report() {
        let report = report(&["--workload", "ycsb-a"], &observed());
        let run = Labelled { labels: vec![("size", "100:9,1000:1".into())], report };
        let text = csv(&[run]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("size,target,protocol,mode,connections,threads"), "{text}");
        assert!(lines[0].ends_with(",modify_max_us,unanswered"), "{text}");
        assert!(lines[1].starts_with("\"100:9,1000:1\",127.0.0.1:11211,text,closed,50,1,1,"));
        // The rate is a whole number, and nothing was offered.
        assert!(lines[1].contains(",2,true,,500,1000,1000,0,"), "{text}");
        assert!(lines[1].ends_with(",0") && csv(&[]).is_empty());
    }
}

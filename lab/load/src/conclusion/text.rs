//! The report for people: one screen, the headline first.

use std::fmt;

use super::pictures::latency_table;
use super::report::Report;
use report::table::aligned;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setup = &self.setup;
        let (target, protocol, mode) = (&setup.target, &setup.protocol, &setup.mode);
        let (threads, keys, window_s) = (setup.threads, setup.keys, self.window_s);
        writeln!(
            f,
            "{target} {protocol}, {mode} loop, {} connections x {} deep, {threads} threads, \
             {keys} keys, {window_s:.1} s measured\n",
            setup.connections, setup.pipeline
        )?;
        writeln!(f, "rate         {}", rate(self))?;
        writeln!(f, "server CPU   {}", server_cpu(self))?;
        let generator = &self.generator;
        let (cpu_us, busy) = (generator.cpu_us_per_request, generator.busiest_thread * 100.0);
        writeln!(f, "own CPU      {cpu_us:.3} us/request, busiest thread {busy:.0} % of a core\n")?;
        let own = generator.own_delay.as_ref().map(|delay| ("own delay".to_string(), delay));
        let latencies = self.latencies().into_iter();
        let latencies = latencies.filter_map(|(op, latency)| Some((op.to_string(), latency?)));
        writeln!(f, "{}", aligned(&latency_table(&latencies.chain(own).collect::<Vec<_>>())))?;
        if let Some(by_time) = &self.by_time {
            writeln!(f, "{}", aligned(&by_time.table()))?;
        }
        writeln!(f, "requests     {}", requests(self))?;
        if let Some(hit_ratio) = self.hit_ratio {
            let (hits, misses, percent) = (self.hits, self.misses, hit_ratio * 100.0);
            writeln!(f, "keys         {hits} hits, {misses} misses ({percent:.2} %)")?;
        }
        writeln!(f, "trouble      {}", trouble(self))?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))?;
        self.complaints.iter().try_for_each(|complaint| writeln!(f, "seen: {complaint}"))
    }
}

fn rate(report: &Report) -> String {
    let rate = &report.rate;
    let mut text = format!("{:.0} requests/s", rate.achieved_per_s);
    if let Some(offered) = rate.offered_per_s {
        text.push_str(&format!(" of {offered:.0} offered"));
    }
    if report.setup.multiget > 1 {
        text.push_str(&format!(", {:.0} keys/s", rate.keys_per_s));
    }
    let mib_per_s = |bytes: u64| bytes as f64 / report.window_s.max(1e-9) / f64::from(1 << 20);
    let (sent, received) = (mib_per_s(report.sent_bytes), mib_per_s(report.received_bytes));
    format!("{text}, {sent:.1} MiB/s out, {received:.1} MiB/s in")
}

fn server_cpu(report: &Report) -> String {
    let Some(server) = &report.server else {
        return "unknown: the server does not state it; see --server-pid".to_string();
    };
    let mut text = format!("{:.3} us/request", server.cpu_us_per_request);
    if let (Some(user_s), Some(system_s)) = (server.user_s, server.system_s) {
        text.push_str(&format!(" (user {user_s:.2} s, system {system_s:.2} s)"));
    }
    if report.setup.multiget > 1 {
        text.push_str(&format!(", {:.3} us/key", server.cpu_us_per_key));
    }
    format!("{text}, from {}", server.source)
}

fn requests(report: &Report) -> String {
    let requests = &report.requests;
    let (gets, sets, refills) = (requests.gets, requests.sets, requests.refills);
    let mut text = format!("{gets} gets, {sets} sets, {refills} refills");
    if requests.deletes > 0 {
        text.push_str(&format!(
            ", {} deletes ({} not found)",
            requests.deletes, requests.not_found
        ));
    }
    if requests.modifies > 0 {
        text.push_str(&format!(", {} read-modify-writes", requests.modifies));
    }
    text
}

fn trouble(report: &Report) -> String {
    let requests = &report.requests;
    let verified = if report.setup.verify { "" } else { " (not verified)" };
    let (errors, wrong) = (requests.errors, report.wrong_values);
    let mut text = format!("{errors} errors, {wrong} wrong values{verified}");
    for (count, name) in [
        (requests.not_stored, "not stored"),
        (requests.lost, "lost"),
        (requests.unanswered, "unanswered"),
        (requests.unsent, "unsent"),
        (requests.connections_lost, "connections lost"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {name}"));
        }
    }
    text
}

//! The report for people: one screen, the headline first.

use std::fmt;

use super::{Latency, Report};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setup = &self.setup;
        writeln!(
            f,
            "{} {}, {} loop, {} connections x {} deep, {} threads, {} keys, {:.1} s measured",
            setup.target,
            setup.protocol,
            setup.mode,
            setup.connections,
            setup.pipeline,
            setup.threads,
            setup.keys,
            self.window_s
        )?;
        self.write_rates(f)?;
        self.write_latencies(f)?;
        self.write_counts(f)?;
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        for complaint in &self.complaints {
            writeln!(f, "seen: {complaint}")?;
        }
        Ok(())
    }
}

impl Report {
    fn write_rates(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = &self.rate;
        write!(f, "\nrate        {:>12.0} requests/s", rate.achieved_per_s)?;
        if let Some(offered) = rate.offered_per_s {
            write!(f, " of {offered:.0} offered")?;
        }
        if self.setup.multiget > 1 {
            write!(f, ", {:.0} keys/s", rate.keys_per_s)?;
        }
        let mib_per_s = |bytes: u64| bytes as f64 / self.window_s.max(1e-9) / f64::from(1 << 20);
        writeln!(
            f,
            ", {:.1} MiB/s out, {:.1} MiB/s in",
            mib_per_s(self.sent_bytes),
            mib_per_s(self.received_bytes)
        )?;
        match &self.server {
            Some(server) => {
                write!(f, "server CPU  {:>12.3} us/request", server.cpu_us_per_request)?;
                if let (Some(user_s), Some(system_s)) = (server.user_s, server.system_s) {
                    write!(f, " (user {user_s:.2} s, system {system_s:.2} s)")?;
                }
                if self.setup.multiget > 1 {
                    write!(f, ", {:.3} us/key", server.cpu_us_per_key)?;
                }
                writeln!(f, ", from {}", server.source)?;
            }
            None => writeln!(f, "server CPU       unknown: it gives no rusage; see --server-pid")?,
        }
        let generator = &self.generator;
        writeln!(
            f,
            "own CPU     {:>12.3} us/request, busiest thread {:.0} % of a core",
            generator.cpu_us_per_request,
            generator.busiest_thread * 100.0
        )
    }

    fn write_latencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nlatency us  {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>12}",
            "p50", "p90", "p99", "p99.9", "p99.99", "max", "count"
        )?;
        for (name, latency) in [
            ("get", &self.get_latency),
            ("set", &self.set_latency),
            ("delete", &self.delete_latency),
            ("rmw", &self.modify_latency),
            ("own delay", &self.generator.own_delay),
        ] {
            if let Some(latency) = latency {
                write_latency(f, name, latency)?;
            }
        }
        Ok(())
    }

    fn write_counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = &self.requests;
        write!(
            f,
            "\nrequests    {} gets, {} sets, {} refills",
            requests.gets, requests.sets, requests.refills
        )?;
        if requests.deletes > 0 {
            write!(f, ", {} deletes ({} not found)", requests.deletes, requests.not_found)?;
        }
        if requests.modifies > 0 {
            write!(f, ", {} read-modify-writes", requests.modifies)?;
        }
        writeln!(f)?;
        if let Some(hit_ratio) = self.hit_ratio {
            let percent = hit_ratio * 100.0;
            writeln!(f, "keys        {} hits, {} misses ({percent:.2} %)", self.hits, self.misses)?;
        }
        write!(f, "trouble     {} errors, {} wrong values", requests.errors, self.wrong_values)?;
        if !self.setup.verify {
            write!(f, " (not verified)")?;
        }
        for (count, name) in [
            (requests.not_stored, "not stored"),
            (requests.lost, "lost"),
            (requests.unanswered, "unanswered"),
            (requests.unsent, "unsent"),
            (requests.connections_lost, "connections lost"),
        ] {
            if count > 0 {
                write!(f, ", {count} {name}")?;
            }
        }
        writeln!(f)
    }
}

fn write_latency(f: &mut fmt::Formatter<'_>, name: &str, latency: &Latency) -> fmt::Result {
    writeln!(
        f,
        "{name:<11} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>12}",
        latency.p50_us,
        latency.p90_us,
        latency.p99_us,
        latency.p999_us,
        latency.p9999_us,
        latency.max_us,
        latency.count
    )
}

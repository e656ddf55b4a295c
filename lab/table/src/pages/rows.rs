//! The rows of the report: every cell of the form, measured or empty.
//!
//! Rows are made from the form, not from the findings, so that a gap is a row without figures. The
//! names of the fields are those of the JSON; units are in the names; an absent figure was not
//! measured. Order of the cells and of lambda-max: size, mix, (rate,) contestant.

use std::collections::BTreeMap;

use load::report::{Latency, Report};
use measure::process::instrument::{INSTRUCTIONS, Instrument};
use serde::Serialize;

use crate::findings::{Counters, Findings, LambdaMax, wrong};
use crate::plan::{Contestant, Form, Job, Task, Workload};

/// One row of the table of latencies: one kind of request at one rate.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cell {
    /// The server.
    pub contestant: &'static str,
    /// Bytes of a value.
    pub size: u32,
    /// Gets to sets.
    pub mix: &'static str,
    /// The rate, as a share.
    pub rate: String,
    /// The rate in requests per second.
    pub offered_per_s: Option<f64>,
    /// Replies per second.
    pub achieved_per_s: Option<f64>,
    /// `GET` or `PUT`.
    pub op: &'static str,
    /// Half of the requests were answered within this time.
    pub p50_us: Option<f64>,
    /// 95 of 100 were.
    pub p95_us: Option<f64>,
    /// 99 of 100 were.
    pub p99_us: Option<f64>,
    /// Requests of the run without the right answer. A miss is one: every key is held.
    pub wrong: Option<u64>,
    /// The server's processor time per request.
    pub cpu_us_per_request: Option<f64>,
}

impl Cell {
    /// Whether a figure is missing.
    pub fn is_empty(&self) -> bool {
        [self.p50_us, self.p95_us, self.p99_us, self.achieved_per_s].contains(&None)
    }

    /// Whether the server did not reach the offered rate.
    pub fn falls_short(&self) -> bool {
        /// The least share of the offered rate.
        const KEPT_MIN: f64 = 0.98;
        let rates = self.achieved_per_s.zip(self.offered_per_s);
        rates.is_some_and(|(achieved, offered)| achieved < offered * KEPT_MIN)
    }

    /// Its place in the table.
    pub fn name(&self) -> String {
        let Self { contestant, size, mix, rate, op, .. } = self;
        format!("{contestant}, {size} B, {mix}, {rate}, {op}")
    }
}

/// Lambda-max of a contestant at one size and mix, and the cost of a request above it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Peak {
    /// The server.
    pub contestant: &'static str,
    /// Bytes of a value.
    pub size: u32,
    /// Gets to sets.
    pub mix: &'static str,
    /// The most requests per second.
    #[serde(rename = "rate")]
    pub lambda_max: Option<LambdaMax>,
    /// Costs to the server above lambda-max.
    pub counters: Option<Counters>,
    /// Whether others used the machine at the same time: then the figures are too low.
    pub crowded: bool,
    /// The share of the time in which the generator's busiest thread ran.
    pub generator_busy: Option<f64>,
    /// The share of the time in which a thread of it was ready and had no core.
    pub generator_starved: Option<f64>,
    /// User instructions, if they were counted.
    pub instructions_per_request: Option<f64>,
    /// System calls of all names, if they were counted.
    pub system_calls_per_request: Option<f64>,
    /// System calls per request by name.
    pub system_calls: BTreeMap<String, f64>,
}

impl Peak {
    /// Whether both are of one size and mix.
    pub fn same_workload(&self, other: &Self) -> bool {
        (self.size, self.mix) == (other.size, other.mix)
    }

    /// Its size and mix, for people.
    pub fn workload(&self) -> String {
        format!("{} B {}", self.size, self.mix)
    }
}

/// One point of a sweep.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    /// The server.
    pub contestant: &'static str,
    /// Clients, workers or entries.
    pub value: u64,
    /// Requests per second.
    pub per_s: Option<f64>,
    /// Half of the gets were answered within this time.
    pub get_p50_us: Option<f64>,
    /// 99 of 100 gets were.
    pub get_p99_us: Option<f64>,
    /// 99 of 100 sets were.
    pub put_p99_us: Option<f64>,
    /// The server's processor time per request.
    pub cpu_us_per_request: Option<f64>,
}

fn cpu(report: &Report) -> Option<f64> {
    report.server.as_ref().map(|server| server.cpu_us_per_request)
}

/// Every row of the table of latencies.
pub(super) fn cells(form: &Form, who: &[Contestant], found: &Findings) -> Vec<Cell> {
    let mut cells = Vec::new();
    for workload in Workload::all(form) {
        for level in &form.levels {
            for contestant in who {
                let report = found.report(*contestant, Task::Cell(workload, *level));
                let latencies: [(&str, Option<&Latency>); 2] = [
                    ("GET", report.and_then(|report| report.get_latency.as_ref())),
                    ("PUT", report.and_then(|report| report.set_latency.as_ref())),
                ];
                cells.extend(latencies.map(|(op, latency)| Cell {
                    contestant: contestant.name(),
                    size: workload.size,
                    mix: workload.mix,
                    rate: level.to_string(),
                    offered_per_s: report.and_then(|report| report.rate.offered_per_s),
                    achieved_per_s: report.map(|report| report.rate.achieved_per_s),
                    op,
                    p50_us: latency.map(|latency| latency.p50_us),
                    p95_us: latency.map(|latency| latency.p95_us),
                    p99_us: latency.map(|latency| latency.p99_us),
                    wrong: report.map(|of| wrong(of) + of.requests.unsent + of.misses),
                    cpu_us_per_request: report.and_then(cpu),
                }));
            }
        }
    }
    cells
}

/// Every lambda-max.
pub(super) fn peaks(form: &Form, who: &[Contestant], found: &Findings) -> Vec<Peak> {
    let peak = |workload: Workload, contestant: Contestant| {
        let finding = found.of(contestant, Task::LambdaMax(workload));
        let report = finding.and_then(|finding| finding.report.as_ref());
        let counted = |by| found.of(contestant, Task::Counts(workload, by))?.counts.as_ref();
        let calls = counted(Instrument::Strace);
        let instructions = counted(Instrument::Callgrind);
        Peak {
            contestant: contestant.name(),
            size: workload.size,
            mix: workload.mix,
            lambda_max: finding.and_then(|finding| finding.lambda_max),
            counters: finding.and_then(|finding| finding.counters),
            crowded: finding.is_some_and(|finding| finding.is_crowded(contestant)),
            generator_busy: report.map(|report| report.generator.busiest_thread),
            generator_starved: report.map(|report| report.generator.starved_thread),
            instructions_per_request: instructions.and_then(|by| by.get(INSTRUCTIONS).copied()),
            system_calls_per_request: calls.map(|calls| calls.values().sum()),
            system_calls: calls.cloned().unwrap_or_default(),
        }
    };
    let workloads = Workload::all(form).into_iter();
    workloads.flat_map(|workload| who.iter().map(move |one| peak(workload, *one))).collect()
}

/// Every point of a sweep over `values`; none of a task that a contestant cannot do.
pub(super) fn points(
    who: &[Contestant],
    found: &Findings,
    values: &[u64],
    task: fn(u64) -> Task,
) -> Vec<Point> {
    let point = |value: u64, job: Job| {
        let report = found.report(job.contestant, job.task);
        let get = report.and_then(|report| report.get_latency.as_ref());
        let put = report.and_then(|report| report.set_latency.as_ref());
        Point {
            contestant: job.contestant.name(),
            value,
            per_s: report.map(|report| report.rate.achieved_per_s),
            get_p50_us: get.map(|get| get.p50_us),
            get_p99_us: get.map(|get| get.p99_us),
            put_p99_us: put.map(|put| put.p99_us),
            cpu_us_per_request: report.and_then(cpu),
        }
    };
    let mut points = Vec::new();
    for value in values {
        let jobs = who.iter().map(|contestant| Job { contestant: *contestant, task: task(*value) });
        points.extend(jobs.filter(Job::is_possible).map(|job| point(*value, job)));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Finding, lambda};
    use crate::plan::DRIVERS;

    #[test]
    fn the_full_table_has_every_cell_and_says_which_are_empty() {
        let form = Form::full(2);
        let cells = cells(&form, &DRIVERS, &Findings::default());
        // 4 drivers x 3 sizes x 3 mixes x (3 own rates + 3 common ones) x GET and PUT.
        assert_eq!(cells.len(), 4 * 3 * 3 * 6 * 2);
        assert!(cells.iter().all(Cell::is_empty));
        assert_eq!(cells[1].name(), "epoll, 100 B, 9:1, 90 % own, PUT");
    }

    #[test]
    fn peaks_carry_lambda_max_and_its_cost() {
        let form = Form::quick(2);
        let workload = Workload::all(&form)[0];
        let mut found = Findings::default();
        found.put(lambda(Contestant::Uring, workload, 1_000.0, 4.0));
        let peaks = peaks(&form, &DRIVERS, &found);
        assert_eq!(peaks.len(), 4 * form.mixes.len());
        let uring = peaks.iter().find(|peak| peak.contestant == "uring").unwrap();
        assert_eq!(uring.lambda_max.unwrap().per_s, 1_000.0);
        assert!(peaks.iter().filter(|peak| peak.lambda_max.is_some()).count() == 1);
    }

    #[test]
    fn counts_come_from_their_instruments() {
        let form = Form::quick(2);
        let workload = Workload::all(&form)[0];
        let mut found = Findings::default();
        for (instrument, name, count) in
            [(Instrument::Strace, "recvfrom", 0.25), (Instrument::Callgrind, INSTRUCTIONS, 900.0)]
        {
            let job =
                Job { contestant: Contestant::Epoll, task: Task::Counts(workload, instrument) };
            let counts = Some(BTreeMap::from([(name.to_string(), count)]));
            found.put(Finding { counts, ..Finding::of(&job, String::new()) });
        }
        let peaks = peaks(&form, &DRIVERS, &found);
        assert_eq!(peaks[0].instructions_per_request, Some(900.0));
        assert_eq!(peaks[0].system_calls_per_request, Some(0.25));
        assert_eq!(peaks[1].instructions_per_request, None);
    }

    #[test]
    fn sweeps_have_a_point_for_every_contestant() {
        let form = Form::full(4);
        let found = Findings::default();
        let count = |values, task| points(&DRIVERS, &found, values, task).len();
        assert_eq!(count(&form.clients, Task::Clients), 40);
        assert_eq!(count(&form.workers, Task::Workers), 3 * 4 + 1);
        assert_eq!(count(&form.entries, Task::IndexWarm), 16);
    }
}

//! The rows of the report: every cell that the form asks for, measured or empty.
//!
//! Rows are made from the plan, not from what was found, so that a gap is a row that says so.

use std::collections::BTreeMap;

use load::conclusion::{Latency, Report};
use serde::Serialize;

use crate::contestant::Contestant;
use crate::counters::Counters;
use crate::finding::{Findings, LambdaMax};
use crate::form::Form;
use crate::instrument::{INSTRUCTIONS, Instrument};
use crate::plan::{Place, Task};

/// One line of the table of latencies: a kind of request at one rate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    /// Whose.
    pub contestant: &'static str,
    /// Bytes of a value.
    pub size: u32,
    /// Gets to sets.
    pub mix: &'static str,
    /// The rate, as a share.
    pub rate: String,
    /// The same, requests per second.
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
    /// Requests that were not answered as they should be, misses among them: every key is held.
    pub wrong: Option<u64>,
    /// Processor time of the server for a request.
    pub cpu_us_per_request: Option<f64>,
}

impl Cell {
    /// Whether something is missing in it.
    pub fn is_empty(&self) -> bool {
        [self.p50_us, self.p95_us, self.p99_us, self.achieved_per_s].contains(&None)
    }

    /// Whether a part of what was due was not answered in time.
    pub fn falls_short(&self) -> bool {
        /// The least share of the offered rate.
        const KEPT_MIN: f64 = 0.98;
        let rates = self.achieved_per_s.zip(self.offered_per_s);
        rates.is_some_and(|(achieved, offered)| achieved < offered * KEPT_MIN)
    }

    /// Which it is.
    pub fn name(&self) -> String {
        let Self { contestant, size, mix, rate, op, .. } = self;
        format!("{contestant}, {size} B, {mix}, {rate}, {op}")
    }
}

/// Lambda-max of a contestant at one size and mix, and what a request cost beyond it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Peak {
    /// Whose.
    pub contestant: &'static str,
    /// Bytes of a value.
    pub size: u32,
    /// Gets to sets.
    pub mix: &'static str,
    /// The most requests per second.
    #[serde(rename = "rate")]
    pub lambda_max: Option<LambdaMax>,
    /// What the server did in overload.
    pub counters: Option<Counters>,
    /// Whether others used the machine meanwhile, so that the figures are too low.
    pub crowded: bool,
    /// How busy the generator's thread was.
    pub generator_busy: Option<f64>,
    /// How long it was ready and had no core.
    pub generator_starved: Option<f64>,
    /// User instructions, where they were counted.
    pub instructions_per_request: Option<f64>,
    /// System calls of all names, where they were counted.
    pub system_calls_per_request: Option<f64>,
    /// System calls per request by name.
    pub system_calls: BTreeMap<String, f64>,
}

/// One point of a sweep.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Point {
    /// Whose.
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
    /// Processor time of the server for a request.
    pub cpu_us_per_request: Option<f64>,
}

/// All sizes and mixes of a form.
pub(crate) fn places(form: &Form) -> Vec<Place> {
    let at = |size: &u32| {
        let size = *size;
        form.mixes.iter().map(move |mix| Place { size, mix })
    };
    form.sizes.iter().flat_map(at).collect()
}

/// Requests with an error, refused, without an answer, or with a wrong value.
pub(crate) fn wrong(report: &Report) -> u64 {
    let requests = &report.requests;
    let unanswered = requests.lost + requests.unanswered;
    requests.errors + requests.not_stored + unanswered + report.wrong_values
}

fn cpu(report: &Report) -> Option<f64> {
    report.server.as_ref().map(|server| server.cpu_us_per_request)
}

/// Every line of the table, whoever was measured.
pub(crate) fn cells(form: &Form, who: &[Contestant], found: &Findings) -> Vec<Cell> {
    let mut cells = Vec::new();
    for place in places(form) {
        for level in &form.levels {
            for contestant in who {
                let report = found.report(*contestant, Task::Cell(place, *level));
                let latencies: [(&str, Option<&Latency>); 2] = [
                    ("GET", report.and_then(|report| report.get_latency.as_ref())),
                    ("PUT", report.and_then(|report| report.set_latency.as_ref())),
                ];
                cells.extend(latencies.map(|(op, latency)| Cell {
                    contestant: contestant.name(),
                    size: place.size,
                    mix: place.mix,
                    rate: level.to_string(),
                    offered_per_s: report.and_then(|report| report.rate.offered_per_s),
                    achieved_per_s: report.map(|report| report.rate.achieved_per_s),
                    op,
                    p50_us: latency.map(|latency| latency.p50_us),
                    p95_us: latency.map(|latency| latency.p95_us),
                    p99_us: latency.map(|latency| latency.p99_us),
                    wrong:
                        report.map(|report| wrong(report) + report.requests.unsent + report.misses),
                    cpu_us_per_request: report.and_then(cpu),
                }));
            }
        }
    }
    cells
}

/// Every lambda-max.
pub(crate) fn peaks(form: &Form, who: &[Contestant], found: &Findings) -> Vec<Peak> {
    let peak = |place: Place, contestant: &Contestant| {
        let finding = found.of(*contestant, Task::LambdaMax(place));
        let report = finding.and_then(|finding| finding.report.as_ref());
        let counted = |by| found.of(*contestant, Task::Counts(place, by))?.counts.as_ref();
        let calls = counted(Instrument::Strace);
        let instructions = counted(Instrument::Callgrind);
        Peak {
            contestant: contestant.name(),
            size: place.size,
            mix: place.mix,
            lambda_max: finding.and_then(|finding| finding.lambda_max),
            counters: finding.and_then(|finding| finding.counters),
            crowded: finding.is_some_and(|finding| finding.is_crowded(*contestant)),
            generator_busy: report.map(|report| report.generator.busiest_thread),
            generator_starved: report.map(|report| report.generator.starved_thread),
            instructions_per_request: instructions.and_then(|by| by.get(INSTRUCTIONS).copied()),
            system_calls_per_request: calls.map(|calls| calls.values().sum()),
            system_calls: calls.cloned().unwrap_or_default(),
        }
    };
    let places = places(form);
    places.iter().flat_map(|place| who.iter().map(move |one| peak(*place, one))).collect()
}

fn sweep(
    who: &[Contestant],
    found: &Findings,
    values: &[u64],
    task: impl Fn(u64) -> Task,
) -> Vec<Point> {
    let point = |value: u64, contestant: Contestant| {
        let report = found.report(contestant, task(value));
        let get = report.and_then(|report| report.get_latency.as_ref());
        let put = report.and_then(|report| report.set_latency.as_ref());
        Point {
            contestant: contestant.name(),
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
        points.extend(who.iter().map(|contestant| point(*value, *contestant)));
    }
    points
}

/// The clients sweep.
pub(crate) fn clients(form: &Form, who: &[Contestant], found: &Findings) -> Vec<Point> {
    let values: Vec<u64> = form.clients.iter().map(|clients| *clients as u64).collect();
    sweep(who, found, &values, |value| Task::Clients(value as usize))
}

/// The workers sweep; a driver without workers has its one line.
pub(crate) fn workers(form: &Form, who: &[Contestant], found: &Findings) -> Vec<Point> {
    let values: Vec<u64> = form.workers.iter().map(|workers| *workers as u64).collect();
    let mut points = sweep(who, found, &values, |value| Task::Workers(value as usize));
    let alone: Vec<&str> = who.iter().filter(|one| !one.has_workers()).map(|o| o.name()).collect();
    points.retain(|point| point.value == 1 || !alone.contains(&point.contestant));
    points
}

/// The index sweep, of [`Task::IndexCold`] or [`Task::IndexWarm`].
pub(crate) fn index(
    form: &Form,
    who: &[Contestant],
    found: &Findings,
    task: fn(u64) -> Task,
) -> Vec<Point> {
    sweep(who, found, &form.entries, task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::DRIVERS;
    use crate::finding::Finding;
    use crate::finding::tests::lambda;
    use crate::plan::Job;

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
        let place = places(&form)[0];
        let mut found = Findings::default();
        found.put(lambda(Contestant::Uring, place, 1_000.0, 4.0));
        let peaks = peaks(&form, &DRIVERS, &found);
        assert_eq!(peaks.len(), 4 * form.mixes.len());
        let uring = peaks.iter().find(|peak| peak.contestant == "uring").unwrap();
        assert_eq!(uring.lambda_max.unwrap().per_s, 1_000.0);
        assert!(peaks.iter().filter(|peak| peak.lambda_max.is_some()).count() == 1);
    }

    #[test]
    fn counts_come_from_their_instruments() {
        let form = Form::quick(2);
        let place = places(&form)[0];
        let mut found = Findings::default();
        for (instrument, name, count) in
            [(Instrument::Strace, "recvfrom", 0.25), (Instrument::Callgrind, INSTRUCTIONS, 900.0)]
        {
            let job = Job { contestant: Contestant::Epoll, task: Task::Counts(place, instrument) };
            let counts = Some(BTreeMap::from([(name.to_string(), count)]));
            found.put(Finding { counts, ..Finding::of(&job, String::new()) });
        }
        let peaks = peaks(&form, &DRIVERS, &found);
        assert_eq!(peaks[0].instructions_per_request, Some(900.0));
        assert_eq!(peaks[0].system_calls_per_request, Some(0.25));
        assert_eq!(peaks[1].instructions_per_request, None);
    }

    #[test]
    fn sweeps_have_a_point_for_everybody() {
        let form = Form::full(4);
        let found = Findings::default();
        assert_eq!(clients(&form, &DRIVERS, &found).len(), 40);
        assert_eq!(workers(&form, &DRIVERS, &found).len(), 3 * 4 + 1);
        assert_eq!(index(&form, &DRIVERS, &found, Task::IndexWarm).len(), 16);
    }
}

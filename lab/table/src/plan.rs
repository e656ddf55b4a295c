//! The measurements in their order, and the settings of the generator for each.
//!
//! ```text
//! per size     lambda-max of every contestant and mix, then every cell: contestants take turns;
//!              what a request costs by the instruments there are
//! sweeps       clients, workers, index cold and warm
//! ```
//!
//! Settings are words of `volvox load run`, so that a reader can repeat any measurement by hand.

use std::time::Duration;

use crate::contestant::Contestant;
use crate::form::{Form, Level};
use crate::instrument::Instrument;

/// Keys of the table: all values of the largest size fit with room.
pub(crate) const KEYS: u64 = 20_000;
/// Memory of every server, in MiB.
pub(crate) const MEMORY_MIB: u64 = 768;
/// Connections of everything but the clients sweep.
pub(crate) const CONNECTIONS: usize = 50;
/// Unanswered requests per connection: enough that the server is busy before the generator is.
pub(crate) const PIPELINE: usize = 4;
/// Size and mix of the sweeps.
pub(crate) const SWEEP: Place = Place { size: 1_000, mix: "9:1" };
/// Bytes of a value of the index sweep: many entries, little memory.
const INDEX_VALUE_BYTES: u32 = 100;
/// Keys under an instrument, where storing takes longest and caches do not count.
const COUNTED_KEYS: u64 = 2_000;
/// Requests of the shorter and the longer run under an instrument.
pub(crate) const COUNTED_REQUESTS: (u64, u64) = (4_000, 24_000);

/// A size and a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Bytes of a value.
    pub size: u32,
    /// Gets to sets.
    pub mix: &'static str,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// The most requests per second that are answered.
    LambdaMax(Place),
    /// Latencies at one rate.
    Cell(Place, Level),
    /// A closed loop over so many connections.
    Clients(usize),
    /// A closed loop against so many workers, nobody pinned.
    Workers(usize),
    /// Every key asked for once of an empty server, and stored when it is missed.
    IndexCold(u64),
    /// As many requests once all are held, with the mix of the sweeps.
    IndexWarm(u64),
    /// What a request costs by an instrument.
    Counts(Place, Instrument),
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Whose.
    pub contestant: Contestant,
    /// What.
    pub task: Task,
}

/// All measurements of the form, in order.
pub(crate) fn jobs(
    form: &Form,
    contestants: &[Contestant],
    instruments: &[Instrument],
) -> Vec<Job> {
    let mut tasks = Vec::new();
    for size in &form.sizes {
        let places: Vec<Place> = form.mixes.iter().map(|mix| Place { size: *size, mix }).collect();
        tasks.extend(places.iter().map(|place| Task::LambdaMax(*place)));
        for place in &places {
            tasks.extend(form.levels.iter().map(|level| Task::Cell(*place, *level)));
        }
        for place in places {
            tasks.extend(instruments.iter().map(|one| Task::Counts(place, *one)));
        }
    }
    tasks.extend(form.clients.iter().map(|clients| Task::Clients(*clients)));
    tasks.extend(form.workers.iter().map(|workers| Task::Workers(*workers)));
    for entries in &form.entries {
        tasks.extend([Task::IndexCold(*entries), Task::IndexWarm(*entries)]);
    }
    let job =
        |task| contestants.iter().map(move |contestant| Job { contestant: *contestant, task });
    tasks.into_iter().flat_map(job).filter(|job| job.makes_sense()).collect()
}

/// How long one server may live: measurements that share it are next to each other in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stand {
    /// Which server.
    pub contestant: Contestant,
    /// Its workers.
    pub workers: usize,
    /// Whether it has a core of its own, and the generator another.
    pub pinned: bool,
    /// Keys it holds.
    pub keys: u64,
    /// Bytes of their values.
    pub value_bytes: u32,
}

impl Job {
    fn makes_sense(&self) -> bool {
        match self.task {
            Task::Workers(workers) => workers == 1 || self.contestant.has_workers(),
            _ => true,
        }
    }

    /// Names it in files: one name for one job.
    pub fn slug(&self) -> String {
        let who = self.contestant.name();
        let place = |place: Place| format!("{}-{}", place.size, place.mix.replace(':', "to"));
        match self.task {
            Task::LambdaMax(at) => format!("lambda-{}-{who}", place(at)),
            Task::Cell(at, level) => format!("cell-{}-{}-{who}", place(at), level.slug()),
            Task::Clients(clients) => format!("clients-{clients}-{who}"),
            Task::Workers(workers) => format!("workers-{workers}-{who}"),
            Task::IndexCold(entries) => format!("index-{entries}-cold-{who}"),
            Task::IndexWarm(entries) => format!("index-{entries}-warm-{who}"),
            Task::Counts(at, by) => format!("{}-{}-{who}", by.slug(), place(at)),
        }
    }

    /// Names it for people.
    pub fn title(&self) -> String {
        let who = self.contestant.name();
        match self.task {
            Task::LambdaMax(at) => format!("{who}: lambda-max, {} B, {}", at.size, at.mix),
            Task::Cell(at, level) => format!("{who}: {} B, {}, {level}", at.size, at.mix),
            Task::Clients(clients) => format!("{who}: {clients} clients"),
            Task::Workers(workers) => format!("{who}: {workers} workers"),
            Task::IndexCold(entries) => format!("{who}: {entries} entries, cold"),
            Task::IndexWarm(entries) => format!("{who}: {entries} entries, warm"),
            Task::Counts(at, by) => format!("{who}: {}, {} B, {}", by.counts(), at.size, at.mix),
        }
    }

    /// The server it is measured on.
    pub fn stand(&self) -> Stand {
        let (workers, pinned, keys, value_bytes) = match self.task {
            Task::LambdaMax(at) | Task::Cell(at, _) => (1, true, KEYS, at.size),
            Task::Counts(at, _) => (1, true, COUNTED_KEYS, at.size),
            Task::Clients(_) => (1, true, KEYS, SWEEP.size),
            Task::Workers(workers) => (workers, false, KEYS, SWEEP.size),
            Task::IndexCold(entries) | Task::IndexWarm(entries) => {
                (1, true, entries, INDEX_VALUE_BYTES)
            }
        };
        Stand { contestant: self.contestant, workers, pinned, keys, value_bytes }
    }

    /// Settings of the generator; `rate_per_s` for the jobs that have one.
    pub fn words(&self, form: &Form, rate_per_s: Option<f64>) -> Vec<String> {
        let stand = self.stand();
        let (connections, pipeline) = match self.task {
            Task::Clients(clients) => (clients, 1),
            _ => (CONNECTIONS, PIPELINE),
        };
        let mix = match self.task {
            Task::LambdaMax(at) | Task::Cell(at, _) | Task::Counts(at, _) => at.mix,
            Task::IndexCold(_) => "1:0",
            _ => SWEEP.mix,
        };
        let popularity = match self.task {
            Task::IndexCold(_) => "sequential",
            Task::IndexWarm(_) => "uniform",
            _ => "hotset:10%:90%",
        };
        let mut words = vec!["--verify".to_string()];
        let mut put = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        put("keys", stand.keys.to_string());
        put("value-bytes", stand.value_bytes.to_string());
        put("ratio", mix.to_string());
        put("popularity", popularity.to_string());
        put("connections", connections.to_string());
        put("pipeline", pipeline.to_string());
        if let Some(rate_per_s) = rate_per_s {
            put("rate", format!("{rate_per_s:.0}"));
        }
        match self.task {
            Task::IndexCold(entries) => {
                put("warmup", "0s".to_string());
                put("requests", entries.to_string());
                words.push("--refill".to_string());
            }
            Task::IndexWarm(entries) => {
                put("warmup", millis(form.warmup));
                put("requests", entries.to_string());
            }
            Task::Counts(..) => put("warmup", "0s".to_string()),
            _ => {
                put("warmup", millis(form.warmup));
                put("duration", millis(self.measured(form)));
            }
        }
        words
    }

    /// Time of one run.
    pub fn measured(&self, form: &Form) -> Duration {
        match self.task {
            Task::Cell(..) => form.cell,
            Task::LambdaMax(_) => form.step,
            _ => form.point,
        }
    }

    /// About how long it takes in all, on two idle cores.
    pub fn expected(&self, form: &Form) -> Duration {
        /// Starting a server and storing its keys, shared among its measurements.
        const PREPARING: Duration = Duration::from_millis(150);
        /// Rates until throughput is flat, with the closed loop before.
        const STEPS: u32 = 10;
        /// Requests per second while an index is filled or read.
        const INDEX_PER_S: u64 = 80_000;
        let run = self.measured(form) + form.warmup;
        PREPARING
            + match self.task {
                Task::LambdaMax(_) => run * (STEPS + form.rounds as u32) + form.plateau,
                Task::IndexCold(entries) | Task::IndexWarm(entries) => {
                    Duration::from_millis(entries * 1_000 / INDEX_PER_S)
                }
                Task::Counts(_, Instrument::Strace) => Duration::from_millis(1_200),
                Task::Counts(_, Instrument::Callgrind) => Duration::from_secs(3),
                _ => run,
            }
    }
}

fn millis(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::contestant::contestants;
    use crate::instrument::INSTRUMENTS;

    const HOURS_3: Duration = Duration::from_secs(3 * 3600);

    #[test]
    fn every_job_has_a_name_of_its_own_and_settings_that_are_accepted() {
        for form in [Form::quick(2), Form::full(4)] {
            let jobs = jobs(&form, &contestants(true), &INSTRUMENTS);
            let slugs: BTreeSet<String> = jobs.iter().map(Job::slug).collect();
            assert_eq!(slugs.len(), jobs.len());
            for job in &jobs {
                let words = job.words(&form, Some(1_000.0));
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let run = load::cli::RunArgs::parse_words(&words).unwrap();
                assert!(run.plan().is_ok(), "{}", job.title());
            }
        }
    }

    #[test]
    fn lambda_max_comes_before_the_cells_that_need_it() {
        let form = Form::full(2);
        let jobs = jobs(&form, &contestants(false), &INSTRUMENTS);
        for (nth, job) in jobs.iter().enumerate() {
            let Task::Cell(place, _) = job.task else { continue };
            let measured = |before: &&Job| before.task == Task::LambdaMax(place);
            assert_eq!(jobs[..nth].iter().filter(measured).count(), 4, "{}", job.title());
        }
    }

    #[test]
    fn the_full_form_keeps_to_three_hours_and_the_quick_one_to_minutes() {
        let total = |form: &Form, memcached: bool| -> Duration {
            let jobs = jobs(form, &contestants(memcached), &INSTRUMENTS);
            jobs.iter().map(|job| job.expected(form)).sum()
        };
        assert!(total(&Form::full(2), true) < HOURS_3);
        assert!(total(&Form::full(2), false) > HOURS_3 / 3);
        assert!(total(&Form::quick(2), true) < Duration::from_secs(6 * 60));
    }

    #[test]
    fn threads_have_no_number_of_workers() {
        let form = Form::full(4);
        let swept = |contestant: Contestant| {
            let own = |job: &&Job| job.contestant == contestant;
            let sweep = |job: &&Job| matches!(job.task, Task::Workers(_));
            jobs(&form, &contestants(true), &INSTRUMENTS).iter().filter(own).filter(sweep).count()
        };
        assert_eq!((swept(Contestant::Threads), swept(Contestant::Epoll)), (1, 4));
    }
}

//! The measurements in their order, and the generator's arguments for each.
//!
//! ```text
//! per size     lambda-max of every contestant and mix; then every cell, the contestants in turn;
//!              then the cost of a request by each instrument that is installed
//! sweeps       clients, workers, index cold and warm
//! ```
//!
//! The arguments are those of `volvox load run`, so that a reader can repeat a measurement by hand.
//! Invariants: no two jobs have the same [`Job::slug`]; a lambda-max comes before the cells whose
//! rates depend on it.

use std::time::Duration;

use measure::process::instrument::Instrument;

use super::contestant::Contestant;
use super::form::{Form, Level};

/// Keys of the table. All values of the largest size fit into the memory of a server.
pub(crate) const KEYS: u64 = 20_000;
/// Memory of every server, in MiB.
const MEMORY_MIB: u64 = 768;
/// Memory of a server above a tier, in MiB: the keys of the table have four times as much, and the
/// tenth of them that is hot fits.
pub(crate) const TIERED_MIB: u64 = 32;
const TIERED_BYTES: u64 = 4 * (TIERED_MIB << 20);
/// What an item takes beside its value, about.
const BESIDE_BYTES: u64 = 60;
/// Connections, except in the sweep of clients.
pub(crate) const CONNECTIONS: u64 = 50;
/// Unanswered requests per connection: enough that the server is busy before the generator is.
pub(crate) const PIPELINE: u64 = 4;
/// Size and mix of the sweeps.
pub(crate) const SWEEP: Workload = Workload { size: 1_000, mix: "9:1" };
/// A tenth of the keys has 90 % of the requests.
const HOT_TENTH: &str = "hotset:10%:90%";
/// Bytes of a value in the sweep of the index: many entries, little memory.
const INDEX_VALUE_BYTES: u32 = 100;
/// Keys under an instrument, where storing is slow and caches do not count.
const COUNTED_KEYS: u64 = 2_000;
/// Requests of the shorter and the longer run under an instrument.
pub(crate) const COUNTED_REQUESTS: (u64, u64) = (4_000, 24_000);

/// The size of the values and the mix of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Workload {
    /// Bytes of a value.
    pub size: u32,
    /// Gets to sets.
    pub mix: &'static str,
}

impl Workload {
    /// All sizes and mixes of a form.
    pub fn all(form: &Form) -> Vec<Self> {
        let of_size = |size: &u32| {
            let size = *size;
            form.mixes.iter().map(move |mix| Self { size, mix })
        };
        form.sizes.iter().flat_map(of_size).collect()
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// The most requests per second that are answered.
    LambdaMax(Workload),
    /// Latencies at one rate.
    Cell(Workload, Level),
    /// A closed loop over this number of connections.
    Clients(u64),
    /// A closed loop to a server with this number of workers; no process is pinned.
    Workers(u64),
    /// Every key of this number is requested once from an empty server; a miss is stored.
    IndexCold(u64),
    /// As many requests when all keys are held, with the mix of the sweeps.
    IndexWarm(u64),
    /// The cost of a request by an instrument.
    Counts(Workload, Instrument),
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// The server that is measured.
    pub contestant: Contestant,
    /// What is measured.
    pub task: Task,
}

/// All measurements of the form, in order.
pub(crate) fn jobs(
    form: &Form,
    contestants: &[Contestant],
    instruments: &[Instrument],
) -> Vec<Job> {
    let mut tasks = Vec::new();
    for workloads in Workload::all(form).chunk_by(|one, next| one.size == next.size) {
        tasks.extend(workloads.iter().map(|workload| Task::LambdaMax(*workload)));
        for workload in workloads {
            tasks.extend(form.levels.iter().map(|level| Task::Cell(*workload, *level)));
        }
        for workload in workloads {
            tasks.extend(instruments.iter().map(|one| Task::Counts(*workload, *one)));
        }
    }
    tasks.extend(form.clients.iter().map(|clients| Task::Clients(*clients)));
    tasks.extend(form.workers.iter().map(|workers| Task::Workers(*workers)));
    for entries in &form.entries {
        tasks.extend([Task::IndexCold(*entries), Task::IndexWarm(*entries)]);
    }
    let job =
        |task| contestants.iter().map(move |contestant| Job { contestant: *contestant, task });
    tasks.into_iter().flat_map(job).filter(|job| job.is_possible()).collect()
}

/// How a server is started and filled. Jobs with the same settings share one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerSettings {
    /// Which server.
    pub contestant: Contestant,
    /// Its workers.
    pub workers: u64,
    /// Whether the server and the generator each have a core of their own.
    pub pinned: bool,
    /// Keys it holds.
    pub keys: u64,
    /// Bytes of their values.
    pub value_bytes: u32,
    /// Its memory, in MiB.
    pub memory_mib: u64,
}

impl Job {
    /// Whether the contestant can do it: a server without workers has no number of them.
    pub fn is_possible(&self) -> bool {
        match self.task {
            Task::Workers(workers) => workers == 1 || self.contestant.has_workers(),
            _ => true,
        }
    }

    /// Its name in files; no two jobs have the same.
    pub fn slug(&self) -> String {
        let who = self.contestant.name();
        let at = |of: Workload| format!("{}-{}", of.size, of.mix.replace(':', "to"));
        match self.task {
            Task::LambdaMax(of) => format!("lambda-{}-{who}", at(of)),
            Task::Cell(of, level) => format!("cell-{}-{level}-{who}", at(of)).replace(" % ", "-"),
            Task::Clients(clients) => format!("clients-{clients}-{who}"),
            Task::Workers(workers) => format!("workers-{workers}-{who}"),
            Task::IndexCold(entries) => format!("index-{entries}-cold-{who}"),
            Task::IndexWarm(entries) => format!("index-{entries}-warm-{who}"),
            Task::Counts(of, by) => format!("{}-{}-{who}", by.counts().replace(' ', "-"), at(of)),
        }
    }

    /// Its name on the screen.
    pub fn title(&self) -> String {
        let who = self.contestant.name();
        match self.task {
            Task::LambdaMax(of) => format!("{who}: lambda-max, {} B, {}", of.size, of.mix),
            Task::Cell(of, level) => format!("{who}: {} B, {}, {level}", of.size, of.mix),
            Task::Clients(clients) => format!("{who}: {clients} clients"),
            Task::Workers(workers) => format!("{who}: {workers} workers"),
            Task::IndexCold(entries) => format!("{who}: {entries} entries, cold"),
            Task::IndexWarm(entries) => format!("{who}: {entries} entries, warm"),
            Task::Counts(of, by) => format!("{who}: {}, {} B, {}", by.counts(), of.size, of.mix),
        }
    }

    /// The server it is measured on.
    pub fn server(&self, form: &Form) -> ServerSettings {
        let (workers, pinned, keys, value_bytes) = match self.task {
            Task::LambdaMax(of) | Task::Cell(of, _) => (1, true, KEYS, of.size),
            Task::Counts(of, _) => (1, true, COUNTED_KEYS, of.size),
            Task::Clients(_) => (1, true, KEYS, SWEEP.size),
            Task::Workers(workers) => (workers, false, KEYS, SWEEP.size),
            Task::IndexCold(entries) | Task::IndexWarm(entries) => {
                (1, true, entries, INDEX_VALUE_BYTES)
            }
        };
        let (keys, memory_mib) = match form.is_tiered {
            true => (TIERED_BYTES / (u64::from(value_bytes) + BESIDE_BYTES), TIERED_MIB),
            false => (keys, MEMORY_MIB),
        };
        let contestant = self.contestant;
        ServerSettings { contestant, workers, pinned, keys, value_bytes, memory_mib }
    }

    /// The arguments of the generator; with a rate for the jobs that have one.
    pub fn arguments(&self, form: &Form, rate_per_s: Option<f64>) -> Vec<String> {
        let server = self.server(form);
        let (connections, pipeline) = match self.task {
            Task::Clients(clients) => (clients, 1),
            _ => (CONNECTIONS, PIPELINE),
        };
        let (mix, popularity) = match self.task {
            Task::LambdaMax(of) | Task::Cell(of, _) | Task::Counts(of, _) => (of.mix, HOT_TENTH),
            Task::Clients(_) | Task::Workers(_) => (SWEEP.mix, HOT_TENTH),
            Task::IndexCold(_) => ("1:0", "sequential"),
            Task::IndexWarm(_) => (SWEEP.mix, "uniform"),
        };
        let mut arguments = vec!["--verify".to_string()];
        let mut put = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        put("keys", server.keys.to_string());
        put("value-bytes", server.value_bytes.to_string());
        put("ratio", mix.to_string());
        put("popularity", popularity.to_string());
        put("connections", connections.to_string());
        put("pipeline", pipeline.to_string());
        if let Some(rate_per_s) = rate_per_s {
            put("rate", format!("{rate_per_s:.0}"));
        }
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        let no_warmup = matches!(self.task, Task::IndexCold(_) | Task::Counts(..));
        put("warmup", millis(if no_warmup { Duration::ZERO } else { form.warmup }));
        match self.task {
            Task::IndexCold(entries) | Task::IndexWarm(entries) => {
                put("requests", entries.to_string());
            }
            Task::Counts(..) => {}
            _ => put("duration", millis(self.measured(form))),
        }
        if matches!(self.task, Task::IndexCold(_)) {
            arguments.push("--refill".to_string());
        }
        arguments
    }

    /// Time of one run.
    fn measured(&self, form: &Form) -> Duration {
        match self.task {
            Task::Cell(..) => form.cell,
            Task::LambdaMax(_) => form.step,
            _ => form.point,
        }
    }

    /// About how long all of it takes on two idle cores.
    pub fn expected(&self, form: &Form) -> Duration {
        /// Starting a server and storing its keys, divided among its measurements.
        const PREPARING: Duration = Duration::from_millis(150);
        /// Rates until throughput is flat, with the closed loop before them.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::contestant::contestants;
    use super::*;

    const HOURS_3: Duration = Duration::from_secs(3 * 3600);

    #[test]
    fn every_job_has_a_name_of_its_own_and_settings_that_are_accepted() {
        for form in [Form::quick(2), Form::full(4)] {
            let jobs = jobs(&form, &contestants(true), &Instrument::ALL);
            let slugs: BTreeSet<String> = jobs.iter().map(Job::slug).collect();
            assert_eq!(slugs.len(), jobs.len());
            for job in &jobs {
                let arguments = job.arguments(&form, Some(1_000.0));
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                let run = load::cli::RunArgs::parse_words(&arguments).unwrap();
                assert!(run.plan().is_ok(), "{}", job.title());
            }
        }
    }

    #[test]
    fn lambda_max_comes_before_the_cells_that_need_it() {
        let form = Form::full(2);
        let jobs = jobs(&form, &contestants(false), &Instrument::ALL);
        for (nth, job) in jobs.iter().enumerate() {
            let Task::Cell(workload, _) = job.task else { continue };
            let measured = |before: &&Job| before.task == Task::LambdaMax(workload);
            assert_eq!(jobs[..nth].iter().filter(measured).count(), 4, "{}", job.title());
        }
    }

    #[test]
    fn the_full_form_keeps_to_three_hours_and_the_quick_one_to_minutes() {
        let total = |form: &Form, memcached: bool| -> Duration {
            let jobs = jobs(form, &contestants(memcached), &Instrument::ALL);
            jobs.iter().map(|job| job.expected(form)).sum()
        };
        assert!(total(&Form::full(2), true) < HOURS_3);
        assert!(total(&Form::full(2), false) > HOURS_3 / 3);
        assert!(total(&Form::quick(2), true) < Duration::from_secs(6 * 60));
    }

    #[test]
    fn above_a_tier_no_memory_holds_all_keys_and_each_holds_the_hot_ones() {
        let form = Form::full(2).above_a_tier();
        let jobs = jobs(&form, &contestants(false), &[]);
        assert!(jobs.iter().all(|job| matches!(job.task, Task::Cell(..) | Task::LambdaMax(_))));
        assert_eq!(jobs.len(), 4 * 9 * (1 + form.levels.len()));
        for job in jobs {
            let of = job.server(&form);
            let (all, memory) = (of.keys * u64::from(of.value_bytes + 20), of.memory_mib << 20);
            assert!(all > 2 * memory && all / 10 < memory / 2, "{}: {all} B", job.title());
            assert!(job.arguments(&form, None).contains(&of.keys.to_string()));
        }
    }

    #[test]
    fn threads_have_no_number_of_workers() {
        let form = Form::full(4);
        let swept = |contestant: Contestant| {
            let own = |job: &&Job| job.contestant == contestant;
            let sweep = |job: &&Job| matches!(job.task, Task::Workers(_));
            jobs(&form, &contestants(true), &Instrument::ALL)
                .iter()
                .filter(own)
                .filter(sweep)
                .count()
        };
        assert_eq!((swept(Contestant::Threads), swept(Contestant::Epoll)), (1, 4));
    }
}

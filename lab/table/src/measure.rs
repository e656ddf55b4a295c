//! One measurement: its server, its runs, its counters.
//!
//! Servers live as long as the plan needs them: all contestants of one cell run side by side on
//! the servers' core and take turns, an idle one costs nothing. Another size, number of workers or
//! index ends them and starts others.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;

use load::cli::{LambdaMaxArgs, PopulateArgs, RunArgs};
use load::conclusion::Report;
use load::drive::{self, Limit, Plan, Watch};
use serde_json::Value;

use crate::Error;
use crate::contestant::CONTESTANTS_MAX;
use crate::count;
use crate::counters::Counters;
use crate::finding::{Finding, LambdaMax};
use crate::form::Form;
use crate::host::{Programs, Server};
use crate::instrument::{self, Instrument};
use crate::pin::Cores;
use crate::plan::{COUNTED_REQUESTS, Job, Stand, Task};
use crate::probe::Probe;
use crate::store::Store;
use crate::table::wrong;

/// The plateau is looked at from beyond: so many times lambda-max.
const BEYOND: f64 = 1.25;

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    /// What it can answer.
    Kept,
    /// More than that: what is due at the end and was not sent is forgotten.
    Beyond,
}

/// Everything a measurement needs.
pub(crate) struct Bench<'a> {
    /// How thorough.
    pub form: &'a Form,
    /// Where the programs are.
    pub programs: &'a Programs,
    /// Which cores they run on.
    pub cores: &'a Cores,
    /// Where servers leave what they say.
    pub store: &'a Store,
    /// How it is stopped.
    pub watch: &'a Watch,
    servers: Vec<(Stand, Server)>,
}

impl<'a> Bench<'a> {
    /// A bench without servers.
    pub fn new(
        form: &'a Form,
        programs: &'a Programs,
        cores: &'a Cores,
        store: &'a Store,
        watch: &'a Watch,
    ) -> Self {
        Self { form, programs, cores, store, watch, servers: Vec::new() }
    }

    /// Carries a job out; a cell of the table at its rate.
    pub fn measure(&mut self, job: &Job, rate_per_s: Option<f64>) -> Result<Finding, Error> {
        let pinned = job.stand().pinned;
        let moved = self.cores.move_generator(pinned);
        moved.map_err(|error| Error::Setting(format!("cannot change cores: {error}")))?;
        if matches!(job.task, Task::Cell(..)) && rate_per_s.is_none() {
            return Err(Error::Server("its lambda-max is not known, so no rate is".to_string()));
        }
        let words = job.words(self.form, rate_per_s);
        let mut finding = Finding { rate_per_s, ..Finding::of(job, command(job, &words)) };
        match job.task {
            Task::Counts(_, instrument) => {
                finding.counts = Some(self.counts(job, &words, instrument)?);
            }
            Task::LambdaMax(_) => self.lambda_max(job, &words, &mut finding)?,
            _ => {
                let probe = self.stand(job)?;
                let (report, counters) = self.run(probe, &words, Demand::Kept)?;
                let cold = matches!(job.task, Task::IndexCold(_));
                if !cold && report.misses > 0 {
                    let misses = report.misses;
                    finding.missing = Some(format!("{misses} gets missed, though all is held"));
                }
                (finding.report, finding.counters) = (Some(report), counters);
            }
        }
        Ok(finding)
    }

    /// The server of a job, with its keys; started where there is none.
    fn stand(&mut self, job: &Job) -> Result<Probe, Error> {
        let stand = job.stand();
        let cold = matches!(job.task, Task::IndexCold(_));
        let alike = |held: &Stand| Stand { contestant: stand.contestant, ..*held } == stand;
        // Servers of another group are done with; a cold index needs a server that knows nothing.
        let kept = |held: &Stand| alike(held) && !(cold && held.contestant == stand.contestant);
        let mut at = 0;
        while at < self.servers.len() {
            if kept(&self.servers[at].0) {
                at += 1;
            } else {
                self.servers.swap_remove(at).1.stop()?;
            }
        }
        if let Some(at) = self.servers.iter().position(|held| held.0 == stand) {
            let server = &mut self.servers[at].1;
            if server.is_alive() {
                return Ok(Probe { address: server.address(), pid: server.pid() });
            }
            // One that ended of itself is a finding; the next measurement gets another.
            self.servers.swap_remove(at).1.stop()?;
        }
        let server = self.programs.start(&stand, self.cores, &self.store.logs(), &[])?;
        let probe = Probe { address: server.address(), pid: server.pid() };
        self.servers.push((stand, server));
        debug_assert!(self.servers.len() <= CONTESTANTS_MAX);
        if !cold {
            self.fill(probe, &stand)?;
        }
        Ok(probe)
    }

    fn fill(&self, probe: Probe, stand: &Stand) -> Result<(), Error> {
        let mut words = vec!["--target".to_string(), probe.address.to_string()];
        let mut put = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        put("keys", stand.keys.to_string());
        put("value-bytes", stand.value_bytes.to_string());
        let filled = parse::<PopulateArgs>(&words)?.carry_out(self.watch)?;
        if filled.clean || self.stopped() {
            return Ok(());
        }
        Err(Error::Server(format!("its keys could not be stored: {}", filled.warnings.join("; "))))
    }

    fn lambda_max(&mut self, job: &Job, words: &[String], to: &mut Finding) -> Result<(), Error> {
        let probe = self.stand(job)?;
        let mut climb = vec!["--target".to_string(), probe.address.to_string()];
        climb.extend(["--server-pid".to_string(), probe.pid.to_string()]);
        climb.extend(["--rounds".to_string(), self.form.rounds.to_string()]);
        climb.extend_from_slice(words);
        let study = parse::<LambdaMaxArgs>(&climb)?.carry_out(self.watch)?;
        let lambda = lambda_of(&study.conclusion);
        to.lambda_max = lambda;
        if let Some(lambda) = lambda {
            let mut beyond = words.to_vec();
            beyond.extend(["--rate".to_string(), format!("{:.0}", lambda.per_s * BEYOND)]);
            let (report, counters) = self.run(probe, &beyond, Demand::Beyond)?;
            (to.report, to.counters) = (Some(report), counters);
        }
        let wrong: u64 = study.runs.iter().map(|run| wrong(&run.report)).sum();
        if wrong > 0 {
            to.missing = Some(format!("{wrong} requests went wrong on the way to lambda-max"));
        } else if !study.clean && !self.stopped() {
            let seen = study.warnings.into_iter().next();
            let seen = seen.unwrap_or_else(|| "lambda-max was not reached".to_string());
            return Err(Error::Disturbed(seen));
        }
        Ok(())
    }

    /// One run with its counters.
    fn run(
        &self,
        probe: Probe,
        words: &[String],
        demand: Demand,
    ) -> Result<(Report, Option<Counters>), Error> {
        let (address, pid) = (probe.address.to_string(), probe.pid.to_string());
        let mut all = vec!["--target", &address];
        all.extend(words.iter().map(String::as_str));
        // The kernel forgets threads that end, and those of a client end with a run that ends by
        // itself; then the server is asked, which remembers them.
        if !words.iter().any(|word| word == "--requests") {
            all.extend(["--server-pid", &pid]);
        }
        let args = RunArgs::parse_words(&all).map_err(Error::Setting)?;
        let mut plan = args.plan()?;
        if let (Demand::Beyond, Limit::Time(time)) = (demand, plan.limit) {
            plan.drop_overdue = true;
            plan.limit = Limit::Time(time.max(self.form.plateau));
        }
        let (observed, counters) = self.watched(probe, &plan)?;
        let report = Report::new(&plan, args.workload_text(), &observed);
        if report.requests.completed == 0 && wrong(&report) == 0 && !self.stopped() {
            let seen = "a run passed without one reply, though no connection was lost";
            return Err(Error::Disturbed(seen.to_string()));
        }
        Ok((report, counters))
    }

    fn watched(
        &self,
        probe: Probe,
        plan: &Plan,
    ) -> Result<(drive::Observed, Option<Counters>), Error> {
        let Limit::Time(measured) = plan.limit else {
            return Ok((drive::run(plan, self.watch, &mut |_| {})?, None));
        };
        thread::scope(|scope| {
            let (running, over) = mpsc::channel();
            let warmup = plan.warmup;
            let sampler = scope.spawn(move || probe.watch(warmup, measured, &over));
            let observed = drive::run(plan, self.watch, &mut |_| {});
            drop(running);
            let counters = sampler.join().expect("invariant: the sampler does not panic");
            Ok((observed?, counters))
        })
    }

    /// What a request costs by an instrument, by name.
    fn counts(
        &mut self,
        job: &Job,
        words: &[String],
        instrument: Instrument,
    ) -> Result<BTreeMap<String, f64>, Error> {
        self.end()?;
        let program = count::find(instrument)
            .ok_or_else(|| Error::Server(format!("{} is not installed", instrument.program())))?;
        let file = self.store.path(&format!("{}.out", instrument.slug()));
        let counted = |requests: u64| {
            // Counts of an earlier run must not be taken for this one's.
            let _ = std::fs::remove_file(&file);
            let tracer = instrument.words(&program, &file);
            let stand = job.stand();
            let server = self.programs.start(&stand, self.cores, &self.store.logs(), &tracer)?;
            let probe = Probe { address: server.address(), pid: server.pid() };
            self.fill(probe, &stand)?;
            let mut words = words.to_vec();
            words.extend(["--requests".to_string(), requests.to_string()]);
            self.run(probe, &words, Demand::Kept)?;
            server.stop()?;
            count::read(instrument, &file)
        };
        let (few, many) = (counted(COUNTED_REQUESTS.0)?, counted(COUNTED_REQUESTS.1)?);
        // Without counts left behind, nobody takes them for a part of the report.
        let _ = std::fs::remove_file(&file);
        Ok(instrument::per_request(&few, &many, COUNTED_REQUESTS))
    }

    /// Ends all servers.
    pub fn end(&mut self) -> Result<(), Error> {
        self.servers.drain(..).try_for_each(|(_, server)| server.stop())
    }

    fn stopped(&self) -> bool {
        self.watch.is_stopped()
    }
}

/// The command line that repeats a job against a server that holds the keys.
fn command(job: &Job, words: &[String]) -> String {
    let tool = if matches!(job.task, Task::LambdaMax(_)) { "lambda-max" } else { "run" };
    format!("volvox load {tool} {}", words.join(" "))
}

/// The arguments of a tool of the generator.
fn parse<A: clap::Args>(words: &[String]) -> Result<A, Error> {
    #[derive(clap::Parser)]
    struct Line<A: clap::Args> {
        #[command(flatten)]
        args: A,
    }
    let words = std::iter::once("load").chain(words.iter().map(String::as_str));
    let line = <Line<A> as clap::Parser>::try_parse_from(words);
    line.map(|line| line.args).map_err(|error| Error::Setting(error.to_string()))
}

/// Lambda-max as the generator concluded it.
fn lambda_of(conclusion: &Value) -> Option<LambdaMax> {
    let lambda = &conclusion["lambda_max_per_s"];
    Some(LambdaMax {
        per_s: lambda["value"].as_f64()?,
        // A few rounds far apart have an interval that reaches below nothing.
        low_per_s: lambda["low"].as_f64()?.max(0.0),
        high_per_s: lambda["high"].as_f64()?,
        kept_per_s: conclusion["kept_per_s"].as_f64(),
        flat: conclusion["flat"].as_bool()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::contestants;
    use crate::instrument::INSTRUMENTS;
    use crate::plan::jobs;

    #[test]
    fn the_generator_takes_the_words_of_lambda_max() {
        let form = Form::quick(2);
        for job in jobs(&form, &contestants(false), &INSTRUMENTS) {
            if matches!(job.task, Task::LambdaMax(_)) {
                let words = job.words(&form, None);
                assert!(parse::<LambdaMaxArgs>(&words).is_ok(), "{words:?}");
                assert!(command(&job, &words).starts_with("volvox load lambda-max --verify"));
            }
        }
        assert!(parse::<LambdaMaxArgs>(&["--nonsense".to_string()]).is_err());
    }

    #[test]
    fn a_conclusion_without_a_plateau_is_none() {
        let whole = serde_json::json!({
            "lambda_max_per_s": { "value": 10.0, "low": 9.0, "high": 11.0 },
            "kept_per_s": 9.5, "flat": true,
        });
        let lambda = lambda_of(&whole).unwrap();
        assert_eq!((lambda.per_s, lambda.low_per_s, lambda.flat), (10.0, 9.0, true));
        assert!(
            lambda_of(&serde_json::json!({ "lambda_max_per_s": null, "flat": true })).is_none()
        );
    }
}

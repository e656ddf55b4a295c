//! One measurement: its server, its runs, its counters.
//!
//! All contestants of one cell run at the same time on the servers' core and are measured in turns;
//! an idle server costs nothing. A job with another size, number of workers or index ends them and
//! starts others. Invariants: the servers that run all have the same settings except for the
//! contestant, so there are at most [`CONTESTANTS_MAX`]; under an instrument there is only one.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use load::cli::{LambdaMaxArgs, PopulateArgs, RunArgs};
use load::conclusion::Report;
use load::drive::{self, Limit, Observed, Plan, Watch};
use measure::process::instrument::{Instrument, per_request};
use measure::process::{launch::Launch, server::Server};
use serde_json::Value;

use super::disturbed::Disturbed;
use super::probe::Probe;
use super::programs::Programs;
use crate::findings::{Counters, Finding, Folder, LambdaMax, wrong};
use crate::plan::{CONTESTANTS_MAX, COUNTED_REQUESTS, Form, Job, ServerSettings, Task};

/// The plateau is measured above lambda-max, by this factor.
const BEYOND: f64 = 1.25;

/// Carries out the jobs, with all that they need.
pub(crate) struct Runner<'a> {
    pub(super) form: &'a Form,
    pub(super) programs: &'a Programs,
    pub(super) folder: &'a Folder,
    watch: &'a Watch,
    servers: Vec<(ServerSettings, Server)>,
}

impl<'a> Runner<'a> {
    /// A runner without servers. Their logs go to `folder`; `watch` stops it.
    pub fn new(
        form: &'a Form,
        programs: &'a Programs,
        folder: &'a Folder,
        watch: &'a Watch,
    ) -> Self {
        Self { form, programs, folder, watch, servers: Vec::new() }
    }

    /// Carries out a job; a cell of the table at its rate.
    pub(super) fn measure(&mut self, job: &Job, rate_per_s: Option<f64>) -> Result<Finding> {
        let pinned = job.server(self.form).pinned;
        let cores = self.programs.cores();
        let own = if pinned { cores.generator() } else { cores.all() };
        own.move_here().context("move the generator to its cores")?;
        if matches!(job.task, Task::Cell(..)) && rate_per_s.is_none() {
            bail!("its lambda-max is not known, so it has no rate");
        }
        let arguments = job.arguments(self.form, rate_per_s);
        let command = command(job, &arguments);
        let mut finding = Finding { rate_per_s, ..Finding::of(job, command) };
        match job.task {
            Task::Counts(_, instrument) => {
                finding.counts = Some(self.counts(job, &arguments, instrument)?);
            }
            Task::LambdaMax(_) => self.lambda_max(job, &arguments, &mut finding)?,
            _ => {
                let probe = self.server(job)?;
                let (report, counters) = self.run(probe, &arguments, None)?;
                let cold = matches!(job.task, Task::IndexCold(_));
                if !cold && report.misses > 0 {
                    let misses = report.misses;
                    finding.missing = Some(format!("{misses} gets missed, but every key is held"));
                }
                (finding.report, finding.counters) = (Some(report), counters);
            }
        }
        Ok(finding)
    }

    /// The server of a job, filled with its keys; it is started if it does not run.
    fn server(&mut self, job: &Job) -> Result<Probe> {
        let settings = job.server(self.form);
        let cold = matches!(job.task, Task::IndexCold(_));
        let alike = |held: &ServerSettings| {
            ServerSettings { contestant: settings.contestant, ..*held } == settings
        };
        // A cold index needs an empty server.
        let kept = |held: &ServerSettings| {
            alike(held) && !(cold && held.contestant == settings.contestant)
        };
        let ended: Vec<_> = self.servers.extract_if(.., |(held, _)| !kept(held)).collect();
        ended.into_iter().try_for_each(|(_, server)| server.stop())?;
        if let Some(at) = self.servers.iter().position(|held| held.0 == settings) {
            let server = &mut self.servers[at].1;
            if server.is_alive() {
                return Ok(Probe { address: server.address(), pid: server.pid() });
            }
            // A server that ended by itself is a finding; the next measurement starts another.
            self.servers.swap_remove(at).1.stop()?;
        }
        let server = self.start(&settings, Launch::new())?;
        let probe = Probe { address: server.address(), pid: server.pid() };
        self.servers.push((settings, server));
        debug_assert!(self.servers.len() <= CONTESTANTS_MAX);
        if !cold {
            self.fill(probe, &settings)?;
        }
        Ok(probe)
    }

    fn fill(&self, probe: Probe, settings: &ServerSettings) -> Result<()> {
        let keys = format!("--keys={}", settings.keys);
        let arguments =
            [target(probe), vec![keys, format!("--value-bytes={}", settings.value_bytes)]];
        let filled = parse::<PopulateArgs>(&arguments.concat())?.carry_out(self.watch)?;
        if filled.clean && self.form.is_tiered {
            return self.programs.drain(probe.address);
        }
        if filled.clean || self.is_stopped() {
            return Ok(());
        }
        bail!("its keys could not be stored: {}", filled.warnings.join("; "))
    }

    fn lambda_max(&mut self, job: &Job, arguments: &[String], to: &mut Finding) -> Result<()> {
        let probe = self.server(job)?;
        let mut search = target(probe);
        search.push(format!("--server-pid={}", probe.pid));
        search.push(format!("--rounds={}", self.form.rounds));
        search.extend_from_slice(arguments);
        let study = parse::<LambdaMaxArgs>(&search)?.carry_out(self.watch)?;
        to.lambda_max = lambda_of(&study.conclusion);
        if let Some(lambda) = to.lambda_max {
            let mut above = arguments.to_vec();
            above.push(format!("--rate={:.0}", lambda.per_s * BEYOND));
            let (report, counters) = self.run(probe, &above, Some(self.form.plateau))?;
            (to.report, to.counters) = (Some(report), counters);
        }
        let wrong: u64 = study.runs.iter().map(|run| wrong(&run.report)).sum();
        if wrong > 0 {
            to.missing = Some(format!("{wrong} requests went wrong in the search for lambda-max"));
        } else if !study.clean && !self.is_stopped() {
            let seen = study.warnings.into_iter().next();
            let seen = seen.unwrap_or_else(|| "lambda-max was not reached".to_string());
            return Err(Disturbed(seen).into());
        }
        Ok(())
    }

    /// One run with its counters. At a rate `above` lambda-max it takes at least that time, and
    /// requests that are due at its end and were not sent are dropped.
    fn run(
        &self,
        probe: Probe,
        arguments: &[String],
        above: Option<Duration>,
    ) -> Result<(Report, Option<Counters>)> {
        let mut all = [target(probe), arguments.to_vec()].concat();
        // The kernel forgets threads that have ended. A run that ends by a number of requests ends
        // the threads of its clients too: then the server is asked, which still counts them.
        if !arguments.iter().any(|argument| argument.starts_with("--requests")) {
            all.push(format!("--server-pid={}", probe.pid));
        }
        let args = parse::<RunArgs>(&all)?;
        let mut plan = args.plan()?;
        if let (Some(least), Limit::Time(time)) = (above, plan.limit) {
            plan.drop_overdue = true;
            plan.limit = Limit::Time(time.max(least));
        }
        let (observed, counters) = self.watched(probe, &plan)?;
        let report = Report::new(&plan, args.workload_text(), &observed);
        if report.requests.completed == 0 && wrong(&report) == 0 && !self.is_stopped() {
            let reason = "a run had no reply, though no connection was lost";
            return Err(Disturbed(reason.to_owned()).into());
        }
        Ok((report, counters))
    }

    fn watched(&self, probe: Probe, plan: &Plan) -> Result<(Observed, Option<Counters>)> {
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

    /// The cost of a request by an instrument, by name.
    fn counts(
        &mut self,
        job: &Job,
        arguments: &[String],
        instrument: Instrument,
    ) -> Result<BTreeMap<String, f64>> {
        self.end()?;
        let file = self.folder.path(&format!("{}.out", instrument.tool().program));
        let settings = job.server(self.form);
        let counted = |requests: u64| -> Result<_> {
            let server = self.start(&settings, Launch::new().under(instrument, &file))?;
            let probe = Probe { address: server.address(), pid: server.pid() };
            self.fill(probe, &settings)?;
            let mut arguments = arguments.to_vec();
            arguments.push(format!("--requests={requests}"));
            self.run(probe, &arguments, None)?;
            server.stop()?;
            instrument.read(&file)
        };
        let (few, many) = (counted(COUNTED_REQUESTS.0)?, counted(COUNTED_REQUESTS.1)?);
        // The file is no part of the report.
        let _ = std::fs::remove_file(&file);
        Ok(per_request(&few, &many, COUNTED_REQUESTS))
    }

    fn start(&self, settings: &ServerSettings, launch: Launch) -> Result<Server> {
        self.programs.start(settings, &self.folder.logs(), launch)
    }

    /// Ends all servers.
    pub(super) fn end(&mut self) -> Result<()> {
        self.servers.drain(..).try_for_each(|(_, server)| server.stop())
    }

    /// Whether the user has stopped the lab.
    pub(super) fn is_stopped(&self) -> bool {
        self.watch.is_stopped()
    }
}

fn target(probe: Probe) -> Vec<String> {
    vec![format!("--target={}", probe.address)]
}

/// The command that repeats a job with a server that holds the keys.
fn command(job: &Job, arguments: &[String]) -> String {
    let tool = if matches!(job.task, Task::LambdaMax(_)) { "lambda-max" } else { "run" };
    format!("volvox load {tool} {}", arguments.join(" "))
}

/// The arguments of a tool of the generator.
fn parse<A: clap::Args>(arguments: &[String]) -> Result<A> {
    #[derive(clap::Parser)]
    struct Line<A: clap::Args> {
        #[command(flatten)]
        args: A,
    }
    let words = std::iter::once("load").chain(arguments.iter().map(String::as_str));
    let line = <Line<A> as clap::Parser>::try_parse_from(words);
    line.map(|line| line.args).map_err(|error| anyhow!("{error}"))
}

/// Lambda-max as the generator concluded it.
fn lambda_of(conclusion: &Value) -> Option<LambdaMax> {
    let lambda = &conclusion["lambda_max_per_s"];
    Some(LambdaMax {
        per_s: lambda["value"].as_f64()?,
        // The interval of a few scattered rounds may reach below zero.
        low_per_s: lambda["low"].as_f64()?.max(0.0),
        high_per_s: lambda["high"].as_f64()?,
        kept_per_s: conclusion["kept_per_s"].as_f64(),
        flat: conclusion["flat"].as_bool()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{contestants, jobs};

    #[test]
    fn the_generator_takes_the_words_of_lambda_max() {
        let form = Form::quick(2);
        for job in jobs(&form, &contestants(false), &Instrument::ALL) {
            if matches!(job.task, Task::LambdaMax(_)) {
                let arguments = job.arguments(&form, None);
                assert!(parse::<LambdaMaxArgs>(&arguments).is_ok(), "{arguments:?}");
                assert!(command(&job, &arguments).starts_with("volvox load lambda-max --verify"));
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

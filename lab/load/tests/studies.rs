//! The commands of several runs, against a server whose every vice is known.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod double;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser as _;
use double::Vice;
use load::cli::{Args, Command};
use load::conclusion::Study;
use load::drive::Watch;
use serde_json::Value;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn parsed(line: &str) -> Command {
    let words = std::iter::once("load").chain(line.split_whitespace());
    Line::try_parse_from(words).unwrap().args.command
}

fn carried_out(line: &str, stop: bool) -> Result<Study, measure::Error> {
    let watch = Watch::new(Arc::new(AtomicBool::new(stop)), false);
    match parsed(line) {
        Command::Populate(args) => args.carry_out(&watch),
        Command::Clients(args) => args.carry_out(&watch),
        Command::LambdaMax(args) => args.carry_out(&watch),
        Command::Compare(args) => args.carry_out(&watch),
        Command::Matrix(args) => args.carry_out(&watch),
        Command::Replay(args) => args.carry_out(&watch),
        Command::Honesty(args) => args.carry_out(&watch),
        other => panic!("{other:?} makes no study"),
    }
}

/// A study of a server without vices, its JSON read back.
fn studied(command: &str, settings: &str) -> (Study, Value) {
    let address = double::start(Vice::default());
    let line = format!("{command} --target {address} --keys 200 --warmup 10ms {settings}");
    let study = carried_out(&line, false).unwrap();
    let json: Value = serde_json::from_str(&study.to_json()).unwrap();
    assert_eq!(json["schema"], "volvox-load-study/1");
    assert_eq!(json["command"], command);
    assert!(study.clean, "{:?}", study.warnings);
    let html = study.page().to_html();
    assert!(html.contains("</html>") && !html.contains("NaN"), "{command}");
    (study, json)
}

#[test]
fn populating_stores_every_key() {
    for settings in ["--connections 4", "--connections 4 --rate 20k --workload etc"] {
        let (study, json) = studied("populate", settings);
        assert_eq!((&json["conclusion"]["stored"], study.runs.len()), (&200.into(), 1));
    }
    let vice = Vice { refuse_every: Some(7), ..Vice::default() };
    let line = format!("populate --target {} --keys 200", double::start(vice));
    assert!(!carried_out(&line, false).unwrap().clean);
}

#[test]
fn clients_are_swept() {
    let (study, json) =
        studied("clients", "--clients 1,3,8 --threads 2 --duration 40ms --populate");
    let swept: Vec<usize> = study.runs.iter().map(|run| run.report.setup.connections).collect();
    assert_eq!(swept, [1, 3, 8]);
    assert_eq!(json["runs"][1]["labels"]["clients"], "3");
    assert!(json["conclusion"]["best_per_s"].as_f64().unwrap() > 0.0);
    let time_s = json["conclusion"]["s_per_100k_requests"].as_array().unwrap();
    let rate = json["runs"][2]["report"]["rate"]["achieved_per_s"].as_f64().unwrap();
    assert_eq!(time_s.len(), 3);
    assert!((time_s[2][1].as_f64().unwrap() * rate / 1e5 - 1.0).abs() < 1e-9, "{time_s:?}");
    let html = study.page().to_html();
    assert!(html.contains("Latency of sets") && html.contains("Time for 100,000 requests"));
    // More threads than connections are too many, but only for the runs with fewer connections.
    studied("clients", "--clients 2,70 --threads 60 --duration 20ms");
}

#[test]
fn the_rate_is_raised_until_throughput_flattens() {
    // Every request takes a millisecond, one after another: a thousand a second, no more.
    let vice = Vice { pace: Some(std::time::Duration::from_millis(1)), ..Vice::default() };
    let line = format!(
        "lambda-max --target {} --keys 50 --connections 4 --warmup 50ms --duration 200ms \
         --rounds 3 --growth 1.6 --from 200 --ratio 0:1",
        double::start(vice)
    );
    let study = carried_out(&line, false).unwrap();
    let lambda = study.conclusion["lambda_max_per_s"]["value"].as_f64().unwrap();
    assert!(lambda > 100.0 && lambda < 1_050.0, "{}", study.text);
    assert_eq!(study.conclusion["flat"], true, "{}", study.text);
    assert!(study.conclusion["plateau_per_s"].as_array().unwrap().len() == 3);
}

#[test]
fn servers_are_compared_round_by_round() {
    let other = double::start(Vice::default());
    let settings = format!(
        "--target {other} --name one --name two --rounds 3 --duration 40ms --connections 2 \
         --populate"
    );
    let (study, json) = studied("compare", &settings);
    let order: Vec<String> = study.runs.iter().map(load::conclusion::Labelled::name).collect();
    assert_eq!(order, ["one 1", "two 1", "two 2", "one 2", "one 3", "two 3"]);
    let second = &json["conclusion"]["servers"][1];
    assert_eq!(second["target"], "two");
    assert!(second["rate_per_s"]["ratio_to_first"]["value"].as_f64().unwrap() > 0.0);
    assert!(json["conclusion"]["servers"][0]["rate_per_s"]["ratio_to_first"].is_null());
}

#[test]
fn every_cell_of_a_matrix_is_filled() {
    let (study, json) = studied(
        "matrix",
        "--sizes 10;uniform:5-50 --mixes 1:1;1:0:1 --rates 500,50% --duration 40ms \
         --connections 2",
    );
    // A run for the capacity and two cells, in each of four places.
    assert_eq!((study.runs.len(), &json["conclusion"]["cells"]), (12, &8.into()));
    let labels = &json["runs"][4]["labels"];
    assert_eq!(labels["size"], "10");
    assert_eq!(labels["mix"], "1:0:1");
    assert_eq!(json["runs"][4]["report"]["rate"]["offered_per_s"], 500.0);
    let html = study.page().to_html();
    assert!(html.contains("delete p99, us") && html.contains("get p50, us"));
}

#[test]
fn a_stop_still_gives_what_was_measured() {
    let address = double::start(Vice::default());
    for command in ["clients --clients 1,2", "lambda-max", "compare --target 127.0.0.1:1", "matrix"]
    {
        let line = format!("{command} --target {address} --duration 10s");
        let study = carried_out(&line, true).unwrap();
        assert!(study.runs.is_empty() && !study.clean, "{command}");
        assert!(study.warnings[0].contains("stopped"), "{command}: {:?}", study.warnings);
        assert!(study.page().to_html().contains("</html>"));
    }
}

#[test]
fn a_late_error_leaves_what_was_measured() {
    let address = double::start(Vice::default());
    let line = format!("--target {address} --target 127.0.0.1:1 --keys 50 --warmup 0");
    let study = carried_out(&format!("compare {line} --duration 20ms"), false).unwrap();
    assert_eq!((study.runs.len(), study.clean), (1, false));
    let said = &study.warnings[0];
    assert!(said.contains("after 1 runs: cannot connect to 127.0.0.1:1"), "{said}");
    // Where nothing was measured, the error is all there is to say.
    for command in ["clients", "lambda-max", "matrix"] {
        let error = carried_out(&format!("{command} --target 127.0.0.1:1"), false).unwrap_err();
        assert!(error.to_string().contains("cannot connect"), "{command}: {error}");
    }
}

#[test]
fn no_figure_rests_on_a_run_that_was_cut_short() {
    for (command, figure) in [
        ("lambda-max --rounds 2 --from 5k", "lambda_max_per_s"),
        ("lambda-max --rounds 2", "lambda_max_per_s"),
        ("matrix --sizes 10 --mixes 1:0 --rates 50%", "cells"),
    ] {
        // The keys of a matrix are stored, then the server falls silent.
        let vice = Vice { mute_from: Some(500), ..Vice::default() };
        let line = format!(
            "{command} --target {} --keys 50 --warmup 0 --duration 1s --patience 100ms",
            double::start(vice)
        );
        let study = carried_out(&line, false).unwrap();
        assert!(!study.clean && study.runs.len() == 1, "{}", study.text);
        let figure = &study.conclusion[figure];
        assert!(figure.is_null() || *figure == 0, "{command}: {figure}");
    }
}

#[test]
fn impossible_studies_are_named() {
    for (line, word) in [
        ("lambda-max --growth 1", "--growth"),
        ("lambda-max --rounds 1", "--rounds"),
        ("lambda-max --from slow", "--from"),
        ("compare --target 127.0.0.1:1", "--target"),
        ("compare --target 127.0.0.1:1 --target 127.0.0.1:2 --name a", "--name"),
        ("compare --target 127.0.0.1:1 --target 127.0.0.1:1", "--name"),
        ("compare --target 127.0.0.1:1 --target 127.0.0.1:2 --rounds 1", "--rounds"),
        ("matrix --rates fast", "--rates"),
        ("matrix --sizes ;", "cells"),
        ("matrix --sizes 10;many", "--value-bytes"),
        ("populate --rate 0", "--rate"),
        ("replay --trace x.csv --speed 0", "--speed"),
        ("replay --trace x.csv --ttl 2592001", "--ttl 2592001: above 2592000 s"),
        ("honesty --freeze 6s", "--freeze"),
        ("honesty --part frozen --freeze 100ms", "2 %"),
        ("honesty --part frozen --freeze 0", "--freeze"),
        ("clients --clients 10,0", "--clients 0"),
        ("clients --clients 10,60000", "--clients 60000"),
        ("clients --clients 10,20 --patience 0s", "--patience 0"),
        ("matrix --rates 10%,2000M", "--rates"),
        ("replay --trace x.csv --id-col 0", "--id-col"),
        ("replay --trace /nowhere/at/all", "cannot read"),
    ] {
        let error = carried_out(line, false).unwrap_err().to_string();
        assert!(error.contains(word), "{line}: {error}");
    }
}

#[test]
fn a_server_that_stands_still_is_shown_as_it_is() {
    // A freeze that is long against any hiccup of the machine.
    let line = "honesty --part frozen --freeze 500ms --period 1s --duration 2s";
    let study = carried_out(line, false).unwrap();
    let claims = study.conclusion["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 2, "{}", study.text);
    assert_eq!(claims[0]["holds"], true, "{}", study.text);
    let p99_us = |nth: usize| study.runs[nth].report.get_latency.as_ref().unwrap().p99_us;
    assert!(p99_us(0) > p99_us(1), "{}", study.text);
    // The difference is explained, and both loops are drawn, wherever the study is shown.
    let explanation = study.conclusion["explanation"].as_str().unwrap();
    let html = study.page().to_html();
    assert!(study.text.contains(explanation) && html.contains(explanation));
    for loops in ["open", "closed"] {
        assert!(html.contains(&format!("Replies over time: frozen, {loops} loop")), "{loops}");
    }
}

#[test]
fn every_stated_delay_is_reported() {
    let study = carried_out("honesty --part delays --duration 1s", false);
    let study = study.unwrap();
    // Whether the machine is quiet enough for the verdict is not for a unit test to say; that no
    // reply came earlier than stated is.
    let report = &study.runs[0].report;
    let latency = report.get_latency.as_ref().unwrap();
    assert_eq!((latency.count, report.requests.errors), (1_000, 0));
    assert!(latency.min_us >= 5_000.0 && latency.p50_us >= 25_000.0, "{latency:?}");
    let claims = study.conclusion["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 4);
    let stated = claims[0]["expected"].as_str().unwrap().split(' ').next().unwrap();
    assert!((24.0..31.0).contains(&stated.parse::<f64>().unwrap()), "{}", study.text);
}

#[test]
fn the_generator_is_driven_to_its_own_limit() {
    let line = "honesty --part bottleneck --duration 400ms";
    let study = carried_out(line, false).unwrap();
    // Whether it has the core that the verdicts need is not for a unit test to say; that the null
    // server's replies are right, byte for byte, is.
    assert_eq!(study.conclusion["claims"].as_array().unwrap().len(), 6, "{}", study.text);
    // A run that other programs disturbed is repeated under its label.
    let labels: std::collections::BTreeSet<&str> =
        study.runs.iter().map(|run| run.label(0)).collect();
    assert_eq!(labels.len(), 7);
    for run in &study.runs {
        let (report, requests) = (&run.report, &run.report.requests);
        // Where other programs have its core, requests may stay unsent: in the overload even all
        // that were due in the window, as those of the warm-up come first.
        let wrong = requests.errors + requests.lost + report.wrong_values + report.misses;
        let is_overload = report.setup.drop_overdue;
        assert!(wrong == 0 && (report.hits > 0 || is_overload), "{report:?}");
    }
}

#[test]
fn files_hold_what_was_measured() {
    let address = double::start(Vice::default());
    let file =
        |form: &str| std::env::temp_dir().join(format!("load-files-{}.{form}", std::process::id()));
    let (csv, html) = (file("csv"), file("html"));
    let common = "--keys 100 --warmup 0 --connections 2";
    for (line, rows) in [
        ("run --populate --requests 500 --ratio 1:1:1 --value-bytes 10:1,20:1", 1),
        ("clients --clients 1,2,3 --duration 30ms", 3),
    ] {
        let line = format!(
            "{line} {common} --target {address} --csv {} --html {}",
            csv.display(),
            html.display()
        );
        let words = std::iter::once("load").chain(line.split_whitespace());
        let args = Line::try_parse_from(words).unwrap().args;
        load::cli::run(&args).unwrap();
        let text = std::fs::read_to_string(&csv).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), rows + 1, "{text}");
        // A field in quotes holds the commas of a list.
        let fields = |line: &str| {
            let parts = line.split('"').enumerate();
            let commas = parts.filter(|(nth, _)| nth % 2 == 0);
            commas.map(|(_, part)| part.matches(',').count()).sum::<usize>()
        };
        for row in &lines {
            assert_eq!(fields(row), fields(lines[0]), "{row}");
        }
        let page = std::fs::read_to_string(&html).unwrap();
        assert!(page.contains("<svg") && page.contains("</html>") && !page.contains("NaN"));
    }
    for path in [csv, html] {
        std::fs::remove_file(path).unwrap();
    }
}

use super::*;
use crate::cli::RunArgs;
use crate::conclusion::{Labelled, Study, csv};
use crate::drive::ServerCpu;
use crate::tally::{Kind, Tally};

fn plan(words: &[&str]) -> Plan {
    RunArgs::parse_words(words).unwrap().plan().unwrap()
}

/// A run of a thousand gets, carried to its end.
pub(crate) fn observed() -> Observed {
    let mut tally = Tally::default();
    for us in 1..=1_000 {
        tally.complete(Kind::Get, us * 1_000);
    }
    (tally.totals.hits, tally.totals.misses) = (900, 100);
    (tally.totals.answered, tally.totals.keys_answered) = (1_000, 2_000);
    Observed {
        tally,
        began_mono_ns: 0,
        window_ns: 2_000_000_000,
        own_cpu_ns: 4_000_000,
        busiest: 0.5,
        starved: 0.0,
        stolen: 0.0,
        server: Some(ServerCpu {
            cpu_s: 0.006,
            parts_s: Some((0.002, 0.004)),
            version: Some("1.6.45".into()),
            source: "stats",
        }),
        stopped: false,
        gave_up: false,
    }
}

/// What is reported of `observed` when `words` were the settings.
pub(crate) fn report(words: &[&str], observed: &Observed) -> Report {
    Report::new(&plan(words), WorkloadText::default(), observed)
}

#[test]
fn figures_follow_from_counts() {
    let report = report(&["--multiget", "2"], &observed());
    assert!(report.is_clean() && report.warnings.is_empty(), "{report:?}");
    assert_eq!((report.rate.achieved_per_s, report.rate.keys_per_s), (500.0, 1_000.0));
    let server = report.server.clone().unwrap();
    assert_eq!((server.cpu_us_per_request, server.cpu_us_per_key), (6.0, 3.0));
    assert_eq!(report.generator.cpu_us_per_request, 4.0);
    assert_eq!(report.hit_ratio, Some(0.9));
    let latency = report.get_latency.clone().unwrap();
    for (seen, expected) in [
        (latency.p50_us, 500.0),
        (latency.p90_us, 900.0),
        (latency.p99_us, 990.0),
        (latency.max_us, 1_000.0),
    ] {
        assert!((seen - expected).abs() <= expected / 1_000.0, "{seen} is not {expected}");
    }
    assert!(report.set_latency.is_none());
    let text = report.to_string();
    for part in ["500 requests/s", "1000 keys/s", "6.000 us/request", "(90.00 %)"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn doubts_are_spoken() {
    let base = observed();
    let mut delayed = base.clone();
    delayed.tally.own_delay_ns.record_n(2_000_000, 100).unwrap();
    let mut worked = delayed.clone();
    worked.tally.work_delay_ns.record_n(2_000_000, 100).unwrap();
    let mut empty = base.clone();
    (empty.tally.totals.hits, empty.tally.totals.misses) = (0, 1_000);
    for (words, observed, warning) in [
        (&[][..], Observed { stopped: true, ..base.clone() }, "stopped"),
        (&[], Observed { gave_up: true, ..base.clone() }, "given up"),
        (&[], Observed { busiest: 0.95, ..base.clone() }, "bottleneck"),
        (&[], Observed { starved: 0.2, ..base.clone() }, "waited for a core 20 %"),
        (&["--rate", "600"], base.clone(), "500 requests/s achieved of 600 offered"),
        (&["--rate", "500"], worked, "the generator delayed due requests by 2.0 ms"),
        // A delay that the thread's own work does not explain is the machine's.
        (
            &["--rate", "500"],
            Observed { starved: 0.004, stolen: 0.006, ..delayed.clone() },
            "the machine kept the generator from running, and due requests left 2.0 ms late at \
             p99: it waited for a core 0.4 % of the time, and the hypervisor took 0.6 %",
        ),
        // Sending late because there was no core is one doubt, not two.
        (&["--rate", "500"], Observed { starved: 0.2, ..delayed }, "20 % of the time and due"),
        (&[], empty, "no key was found"),
        (&["--warmup", "0"], base.clone(), "no warm-up"),
    ] {
        let report = report(words, &observed);
        assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
        assert!(report.warnings[0].contains(warning), "{:?}", report.warnings);
        assert!(report.to_string().contains("warning: "));
    }
}

#[test]
fn trouble_makes_a_run_unclean() {
    let spoil: [fn(&mut Observed); 9] = [
        |observed| observed.tally.requests.not_stored = 1,
        |observed| observed.tally.requests.unsent = 1,
        |observed| observed.tally.requests.errors = 1,
        |observed| observed.tally.requests.lost = 1,
        |observed| observed.tally.requests.unanswered = 1,
        |observed| observed.tally.totals.wrong_values = 1,
        |observed| observed.tally.requests.connections_lost = 1,
        |observed| observed.gave_up = true,
        |observed| observed.tally.requests.gets = 0,
    ];
    for spoil in spoil {
        let mut observed = observed();
        spoil(&mut observed);
        assert!(!report(&[], &observed).is_clean());
    }
}

#[test]
fn what_an_overload_leaves_unsent_is_no_trouble() {
    let mut observed = observed();
    observed.tally.requests.unsent = 1_000;
    for (drop_overdue, warned) in [(false, 1), (true, 0)] {
        let plan = Plan { drop_overdue, ..plan(&["--rate", "500"]) };
        let report = Report::new(&plan, WorkloadText::default(), &observed);
        assert_eq!((report.is_clean(), report.warnings.len()), (drop_overdue, warned));
        // Tools that keep reports read back what they have written.
        let again: Report = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(again.is_clean(), drop_overdue);
    }
}

/// Tools read these names: a change here is a new schema.
#[test]
fn the_names_in_the_json_are_stable() {
    let json: serde_json::Value =
        serde_json::from_str(&report(&["--rate", "500"], &observed()).to_json()).unwrap();
    let names = |value: &serde_json::Value| {
        let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(json["schema"], "volvox-load/1");
    for (part, expected) in [
        (
            &json,
            "by_time complaints delete_latency generator get_latency hit_ratio hits misses \
             modify_latency rate received_bytes requests schema sent_bytes server set_latency \
             setup timeline warnings whole window_s wrong_values",
        ),
        (
            &json["setup"],
            "connections drop_overdue keys mode multiget multiset pipeline protocol refill target \
             threads verify warmup_s workload",
        ),
        (
            &json["setup"]["workload"],
            "consecutive key_bytes key_lengths multiget popularity ratio seed ttl_s value_bytes",
        ),
        (
            &json["requests"],
            "completed connections_lost deletes errors gets lost modifies not_found not_stored \
             refills sets unanswered unsent",
        ),
        (&json["rate"], "achieved_per_s keys_per_s offered offered_per_s"),
        (&json["timeline"], "replies_per_s stretch_s"),
        (
            &json["get_latency"],
            "count curve max_us mean_us min_us p50_us p9999_us p999_us p99_us p95_us p90_us",
        ),
        (
            &json["generator"],
            "busiest_thread cpu_s cpu_us_per_request own_delay starved_thread \
         stolen work_delay",
        ),
        (
            &json["server"],
            "cores cpu_s cpu_us_per_key cpu_us_per_request source system_s user_s version",
        ),
    ] {
        let mut expected: Vec<&str> = expected.split_whitespace().collect();
        expected.sort_unstable();
        assert_eq!(names(part), expected.join(" "));
    }
}

/// So do spreadsheets.
#[test]
fn the_columns_of_the_csv_are_stable() {
    let run = |labels: &[(&'static str, String)]| Labelled {
        labels: labels.to_vec(),
        report: report(&["--rate", "500", "--value-bytes", "1:1,2:1"], &observed()),
    };
    let text = csv(&[run(&[("round", "1".into())]), run(&[("round", "2".into())])]);
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    let begin = "round,target,protocol,mode,connections,threads,pipeline,keys,popularity,ratio,\
                 multiget,key_bytes,value_bytes,ttl_s,seed,window_s,clean,offered_per_s,\
                 achieved_per_s,keys_per_s,gets,sets,refills,deletes,modifies,hits,misses,errors,\
                 wrong_values,lost,unsent,server_cpu_us_per_request,server_cores,\
                 own_cpu_us_per_request,own_busiest_thread,get_mean_us,get_p50_us,get_p90_us,";
    assert!(head.starts_with(begin), "{head}");
    assert!(head.ends_with("modify_p9999_us,modify_max_us,unanswered"), "{head}");
    assert_eq!(lines.count(), 2);
}

#[test]
fn doubts_of_many_runs_are_said_once() {
    let mut busy = observed();
    let labelled = |name: &str, observed: &Observed| Labelled {
        labels: vec![("name", name.to_string())],
        report: report(&["--rate", "600"], observed),
    };
    busy.busiest = 0.9;
    let first = labelled("a", &busy);
    busy.busiest = 0.99;
    let study = Study {
        command: "test",
        title: String::new(),
        conclusion: serde_json::Value::Null,
        text: String::new(),
        facts: Vec::new(),
        warnings: vec!["own".to_string()],
        runs: vec![first, labelled("b", &busy), labelled("c", &observed())],
        varied: &["seed"],
        sections: Vec::new(),
        csv: None,
        clean: true,
    };
    let mut study = study.gather(Some("a queue has grown"));
    assert_eq!(study.warnings.len(), 2, "{:?}", study.warnings);
    let said = &study.warnings[1];
    assert!(said.starts_with("a: ") && said.contains("90 %"), "{said}");
    assert!(said.ends_with("(and another run likewise)"), "{said}");
    assert!(study.clean && !study.page().setup.contains("seed"));
    study.runs[2].report.wrong_values = 1;
    assert!(!study.gather(None).clean);
}

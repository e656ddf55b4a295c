//! The original's measurement of its store, M3: 10, 20 to 100 clients at once, the time that all
//! take together, and what one SET costs; above files, a database, and buckets of emulators.
//!
//! Each client stores some values, one after the other, and each answer waits until the database
//! has the value. One line more shows the same where answers wait for the journal alone. The page
//! of plots is `target/prove/tier-clients.html`.

use std::fs;

use anyhow::{Context, Result};
use measure::process::Server;
use measure::process::emulators::{BUCKET, Emulator};
use report::figure::{Axis, Figure, Scale, Series, Table};
use report::html::Page;

use super::emptied;
use crate::claim::{Claim, Measured};
use crate::instruments::{Contestant, GET, Limit, Load};
use crate::lab::Lab;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "clients.stored",
    "10 to 100 clients store above files, redb, S3, GCS: total time, what one SET costs",
)
.bar("every point, none refused")
.by(stored)];

/// What lies below, its name, and how long an answer waits.
const BELOW: [(&str, &str, &str, Option<Emulator>); 5] = [
    ("files", "files", "backend", None),
    ("redb", "redb", "backend", None),
    ("S3", "s3://", "backend", Some(Emulator::S3)),
    ("GCS", "gs://", "backend", Some(Emulator::Gcs)),
    ("redb, journal alone", "redb", "os", None),
];
/// Numbers of clients.
const CLIENTS: [&[usize]; 2] = [&[10, 40, 70, 100], &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100]];
/// What each of them stores.
const EACH: [u64; 2] = [10, 50];
const MEMORY_MIB: u64 = 256;
/// The page of plots.
const PAGE: &str = "tier-clients.html";

/// One number of clients above one database.
#[derive(Clone, Debug)]
struct Point {
    clients: usize,
    total_s: f64,
    set_p50_us: f64,
    set_p95_us: f64,
    cpu_us: f64,
    wrong: Vec<String>,
}

/// A database, and its points.
type Line = (&'static str, Vec<Point>);

fn stored(lab: &Lab) -> Result<Measured> {
    let lines = BELOW.iter().map(|(name, database, ack, emulator)| {
        let points = above(lab, name, database, ack, *emulator);
        Ok((*name, points.with_context(|| format!("above {name}"))?))
    });
    let lines = lines.collect::<Result<Vec<Line>>>()?;
    let path = lab.folder().join(PAGE);
    fs::write(&path, page(&lines, lab.form(EACH)).to_html())
        .with_context(|| format!("write {}", path.display()))?;
    Ok(judge(&lines, lab.form(CLIENTS)))
}

fn above(
    lab: &Lab,
    name: &str,
    database: &str,
    ack: &str,
    emulator: Option<Emulator>,
) -> Result<Vec<Point>> {
    let folder = lab.folder().join("emulators");
    let service = emulator.map(|emulator| emulator.start_beside(&folder)).transpose()?;
    let cell = Contestant::volvox(lab)?.memory_mib(MEMORY_MIB);
    let mut cell = emptied(lab, cell, ack)?;
    let mut database = database.to_owned();
    if let Some((emulator, service)) = emulator.zip(service.as_ref()) {
        database.push_str(&format!("{BUCKET}/clients"));
        for (name, value) in emulator.environment(service.address()) {
            cell = cell.env(name, &value);
        }
    }
    let server = cell.env("VOLVOX_TIER_DATABASE", &database).start(lab)?;
    let points = lab.form(CLIENTS).iter().map(|clients| {
        lab.detail(&format!("{name}, {clients} clients"));
        point(lab, &server, *clients)
    });
    let points = points.collect::<Result<Vec<_>>>()?;
    server.stop()?;
    service.map_or(Ok(()), Server::stop)?;
    Ok(points)
}

fn point(lab: &Lab, server: &Server, clients: usize) -> Result<Point> {
    let limit = Limit::Requests(clients as u64 * lab.form(EACH));
    let load = Load { ratio: "0:1", connections: clients, warm_up: "0s", limit, ..GET };
    let outcome = load.try_drive(lab, server)?;
    Ok(Point {
        clients,
        total_s: outcome.number("/window_s")?,
        set_p50_us: outcome.number("/set_latency/p50_us")?,
        set_p95_us: outcome.number("/set_latency/p95_us")?,
        cpu_us: outcome.number("/server/cpu_us_per_request")?,
        wrong: outcome.wrong()?,
    })
}

fn page(lines: &[Line], each: u64) -> Page {
    let plot = |title: &str, unit: &str, scale, of: fn(&Point) -> f64| {
        let series = lines.iter().map(|(name, points)| {
            let points = points.iter().map(|point| (point.clients as f64, of(point))).collect();
            if *name == BELOW[BELOW.len() - 1].0 {
                return Series::reference(*name, points);
            }
            Series::new(*name, points)
        });
        let x = Axis::new("clients", Scale::Linear);
        Figure::plot(title, "", x, Axis::new(unit, scale), series.collect())
    };
    let head = ["below", "clients", "total s", "SET p50 ms", "p95 ms", "server CPU us"];
    let mut table = Table::new("Every point", &head);
    for (name, points) in lines {
        table.rows.extend(points.iter().map(|point| {
            let Point { clients, total_s, set_p50_us, set_p95_us, cpu_us, .. } = point;
            let [p50_ms, p95_ms] = [set_p50_us, set_p95_us].map(|us| format!("{:.2}", us / 1e3));
            let (total, cpu) = (format!("{total_s:.3}"), format!("{cpu_us:.0}"));
            vec![(*name).to_owned(), clients.to_string(), total, p50_ms, p95_ms, cpu]
        }));
    }
    let figures = vec![
        plot("Total time", "seconds", Scale::Log, |point| point.total_s),
        plot("One SET", "ms, p50", Scale::Log, |point| point.set_p50_us / 1e3),
        plot("Server CPU of one SET", "us", Scale::Log, |point| point.cpu_us),
        Figure::Table(table),
    ];
    Page {
        title: "Clients that store at once, by what lies below".to_owned(),
        setup: format!("each client stores {each} values of 300 bytes, one after the other"),
        facts: Vec::new(),
        warnings: Vec::new(),
        sections: vec![("By number of clients".to_owned(), figures)],
    }
}

fn judge(lines: &[Line], wanted: &[usize]) -> Measured {
    let is_whole = |(_, points): &Line| {
        let clients: Vec<_> = points.iter().map(|point| point.clients).collect();
        clients == wanted && points.iter().all(|it| it.total_s > 0.0 && it.wrong.is_empty())
    };
    let whole = lines.iter().filter(|line| is_whole(line)).count();
    let mut details = Vec::new();
    for (name, points) in lines {
        let text = points.iter().map(|point| {
            let Point { clients, total_s, set_p50_us, wrong, .. } = point;
            let wrong: String = wrong.iter().map(|what| format!(" ({what})")).collect();
            format!("{clients}: {total_s:.3} s, SET {:.2} ms{wrong}", set_p50_us / 1e3)
        });
        details.push(format!("{name}: {}", text.collect::<Vec<_>>().join("; ")));
    }
    details.push(format!("plots: target/prove/{PAGE}"));
    let text = format!("{whole} of {} lines whole, {} points each", BELOW.len(), wanted.len());
    Measured::new(text, whole as f64, whole == BELOW.len()).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    fn lines() -> Vec<Line> {
        let point = |clients: &usize| Point {
            clients: *clients,
            total_s: 0.5,
            set_p50_us: 1_500.0,
            set_p95_us: 2_000.0,
            cpu_us: 12.0,
            wrong: Vec::new(),
        };
        BELOW.map(|(name, ..)| (name, [10, 20].iter().map(point).collect())).into()
    }

    #[test]
    fn a_point_that_is_missing_or_refused_fails() {
        let verdict = |change: fn(&mut Vec<Line>)| {
            let mut lines = lines();
            change(&mut lines);
            judge(&lines, &[10, 20]).verdict
        };
        assert_eq!(verdict(|_| ()), Verdict::Pass);
        assert_eq!(verdict(|lines| drop(lines.pop())), Verdict::Fail);
        assert_eq!(verdict(|lines| drop(lines[2].1.pop())), Verdict::Fail);
        assert_eq!(verdict(|lines| lines[1].1[0].wrong.push("1 errors".into())), Verdict::Fail);
    }

    #[test]
    fn the_page_has_each_line_and_each_point() {
        let html = page(&lines(), 10).to_html();
        for (name, ..) in BELOW {
            assert!(html.contains(name), "{name}");
        }
        for title in ["Total time", "One SET", "Server CPU of one SET"] {
            assert!(html.contains(title), "{title}");
        }
        assert!(html.contains("1.50") && html.contains("10 values of 300 bytes"));
    }
}

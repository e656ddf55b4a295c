//! `ctl tier`: what the tier of one cell says of itself, and the request to write it back.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::client::{Client, NoAnswer};
use super::style::{Style, Tone};
use super::table::{Table, bytes};
use super::wanted::Wanted;

/// How often it is looked how much is dirty.
pub(super) const LOOK: Duration = Duration::from_millis(200);

/// The same for levels that were asked for.
pub(super) const LOOK_SOON: Duration = Duration::from_millis(2);

/// What the names of the levels of prefixes begin with in that report.
const ACK: &str = "ack:";

/// The report `stats tier` of a cell.
pub(super) struct Report(Vec<(String, String)>);

impl Report {
    /// Asks a cell that has a tier.
    fn take(client: &mut Client) -> Result<Self, Box<dyn Error>> {
        Self::of(client, "tier")
    }

    /// Another report of such a cell.
    pub(super) fn of(client: &mut Client, name: &str) -> Result<Self, Box<dyn Error>> {
        let report = Self(client.stats(name)?);
        match report.text("tier") {
            "off" => Err("this cell has no tier; it has one with volvox serve --tier-dir".into()),
            _ => Ok(report),
        }
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(is, _)| is == name).map_or("", |(_, value)| value)
    }

    pub(super) fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// The prefixes that have a level of their own.
    fn prefixes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named(ACK)
    }

    /// The lines whose names begin with `begin`, without that.
    pub(super) fn named(&self, begin: &str) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(begin)?, &**value)))
    }

    /// Whether these levels hold: that of all keys, and those of prefixes.
    fn has(&self, rules: &[String]) -> bool {
        let [base, prefixes @ ..] = rules else { return true };
        let is: BTreeSet<_> =
            self.prefixes().map(|(prefix, level)| format!("{prefix}={level}")).collect();
        self.text("ack") == base && is == prefixes.iter().cloned().collect()
    }

    /// All lines, numbers as numbers.
    pub(super) fn json(&self) -> Value {
        let value = |text: &str| text.parse::<u64>().map_or_else(|_| json!(text), |it| json!(it));
        let all = self.0.iter().map(|(name, text)| (name.clone(), value(text)));
        Value::Object(all.collect::<Map<_, _>>())
    }
}

/// Prints what the tier of the cell says of itself.
pub(super) fn status(
    wanted: &Wanted,
    style: Style,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let report = Report::take(&mut connect(wanted)?)?;
    match wanted.json {
        true => writeln!(out, "{}", report.json())?,
        false => out.write_all(picture(&report).render(style).as_bytes())?,
    }
    Ok(())
}

fn picture(report: &Report) -> Table {
    let mut table = Table::new(&["what", ">is", ">of", "note"]);
    let mut row = |what: &str, is: String, of: String, note: (String, Tone)| {
        let plain = |text: String| (text, Tone::Plain);
        table.row(vec![plain(what.to_owned()), plain(is), plain(of), note]);
    };
    let number = |name: &str| report.number(name);
    let share = |part: u64, whole: u64| {
        let percent = part as f64 * 100.0 / whole.max(1) as f64;
        (format!("{percent:.1} %"), if percent < 40.0 { Tone::Dim } else { Tone::Warn })
    };
    let dim = |text: &str| (text.to_owned(), Tone::Dim);
    let state = match report.text("state") {
        "ok" => ("ok".to_owned(), Tone::Good),
        wrong => (wrong.to_owned(), Tone::Bad),
    };
    let (dirty, keys) = (number("dirty_keys"), number("dirty_keys_max"));
    let (journal, most) = (number("journal_bytes"), number("journal_bytes_max"));
    row("state", String::new(), String::new(), state);
    row("database", String::new(), String::new(), dim(report.text("backend")));
    row("dirty keys", dirty.to_string(), keys.to_string(), share(dirty, keys));
    row("journal", bytes(journal), bytes(most), share(journal, most));
    let through = number("through").to_string();
    row("changes that wait", through, String::new(), dim("until the database has them"));
    let flushed = number("flushed_keys").to_string();
    row("written back", flushed, String::new(), dim(&bytes(number("flushed_bytes"))));
    let notes = [
        ("loads_journal", "found in the journal"),
        ("loads_below", "found in the database"),
        ("loads_missing", "found nowhere"),
        ("loads_failed", "failed"),
    ];
    for (name, note) in notes {
        row("lookups", number(name).to_string(), String::new(), dim(note));
    }
    if !report.text("bucket_writes").is_empty() {
        let size = |name| dim(&bytes(number(name)));
        let mut requests = |what: &str, name: &str, note| {
            row(what, number(name).to_string(), String::new(), note);
        };
        requests("objects written", "bucket_writes", size("bucket_written_bytes"));
        requests("objects read", "bucket_reads", size("bucket_read_bytes"));
        requests("objects deleted", "bucket_deletes", dim(""));
        requests("lists of names", "bucket_lists", dim(""));
    }
    let repairs = (number("repairs"), "times that the disk has refused the journal");
    row("repairs", repairs.0.to_string(), String::new(), dim(repairs.1));
    table
}

/// Has everything written back. Waits until nothing is dirty, if it is to `wait`; the code is 1 if
/// something still is then.
pub(super) fn flush(
    wanted: &Wanted,
    wait: Option<Duration>,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let (start, mut client) = (Instant::now(), connect(wanted)?);
    let mut report = Report::take(&mut client)?;
    let (first, written) = (report.number("dirty_keys"), report.number("flushed_keys"));
    let mut progress = Progress { first, start, is_shown: std::io::stderr().is_terminal() };
    loop {
        ask(&mut client, "stats tier flush")?;
        let is_over = wait.is_none_or(|wait| start.elapsed() >= wait);
        if is_over || report.number("dirty_keys") == 0 {
            break;
        }
        progress.show(&report);
        sleep(LOOK);
        report = Report::take(&mut client)?;
    }
    progress.end();
    let (dirty, state) = (report.number("dirty_keys"), report.text("state"));
    let flushed = report.number("flushed_keys").saturating_sub(written);
    let seconds = start.elapsed().as_secs_f64();
    let text = match (wanted.json, wait) {
        (true, _) => json!({
            "dirty_keys": dirty,
            "flushed_keys": flushed,
            "seconds": seconds,
            "state": state,
        })
        .to_string(),
        (false, None) => format!("{dirty} keys are being written back; see ctl tier status"),
        (false, Some(_)) if dirty == 0 => {
            format!("nothing is dirty: {flushed} keys were written back in {seconds:.1} s")
        }
        (false, Some(_)) => {
            format!("{dirty} keys are dirty still after {seconds:.1} s, state: {state}")
        }
    };
    writeln!(out, "{text}")?;
    Ok(u8::from(wait.is_some() && dirty > 0))
}

/// Has the cell try at once to write back, and says what came of it. The code is 1 if that failed.
pub(super) fn retry(
    wanted: &Wanted,
    wait: Duration,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let (start, mut client) = (Instant::now(), connect(wanted)?);
    let before = Report::take(&mut client)?;
    ask(&mut client, "stats tier retry")?;
    let report = loop {
        let report = Report::take(&mut client)?;
        if report.number("full_rounds") > before.number("full_rounds") {
            break report;
        }
        if start.elapsed() >= wait {
            let (seconds, state) = (wait.as_secs_f64(), report.text("state"));
            return Err(format!(
                "nothing came of it in {seconds} s, state: {state}; the journal must be synced \
                 first, and the database may be slow: wait longer with --wait"
            )
            .into());
        }
        sleep(LOOK_SOON);
    };
    let flushed = report.number("flushed_keys").saturating_sub(before.number("flushed_keys"));
    let (dirty, state) = (report.number("dirty_keys"), report.text("state"));
    let text = match wanted.json {
        true => json!({ "dirty_keys": dirty, "flushed_keys": flushed, "state": state }).to_string(),
        false => format!("{flushed} keys were written back, {dirty} are dirty, state: {state}"),
    };
    writeln!(out, "{text}")?;
    Ok(u8::from(state != "ok"))
}

/// Has answers promise what `rules` say, if there are any, and prints what they promise then.
pub(super) fn policy(
    wanted: &Wanted,
    rules: &[String],
    style: Style,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let mut client = connect(wanted)?;
    if let Some(word) = rules.iter().find(|word| word.contains(char::is_whitespace)) {
        return Err(format!("\"{word}\" has a space; no key has one, so no prefix does").into());
    }
    let mut report = Report::take(&mut client)?;
    if !rules.is_empty() {
        ask(&mut client, &format!("stats tier policy {}", rules.join(" ")))?;
        let asked = Instant::now();
        report = Report::take(&mut client)?;
        while !report.has(rules) {
            if asked.elapsed() >= wanted.timeout {
                let seconds = wanted.timeout.as_secs_f64();
                let why = "the disk may be slow, or others have changed them";
                return Err(format!("the levels are not those after {seconds} s: {why}").into());
            }
            sleep(LOOK_SOON);
            report = Report::take(&mut client)?;
        }
    }
    let prefixes = report.prefixes();
    if wanted.json {
        let prefixes: Map<_, _> =
            prefixes.map(|(it, level)| (it.to_owned(), json!(level))).collect();
        writeln!(out, "{}", json!({ "ack": report.text("ack"), "prefixes": prefixes }))?;
        return Ok(());
    }
    let mut table = Table::new(&["prefix", "level"]);
    let plain = |text: &str| (text.to_owned(), Tone::Plain);
    prefixes.for_each(|(prefix, level)| table.row(vec![plain(prefix), plain(level)]));
    table.row(vec![("all others".to_owned(), Tone::Dim), plain(report.text("ack"))]);
    out.write_all(table.render(style).as_bytes())?;
    Ok(())
}

pub(super) fn ask(client: &mut Client, request: &str) -> Result<(), NoAnswer> {
    client.send(request)?;
    match client.next_line()? {
        line if line == "OK" => Ok(()),
        line => Err(NoAnswer::Line(line)),
    }
}

/// The first cell that answers.
pub(super) fn connect(wanted: &Wanted) -> Result<Client, Box<dyn Error>> {
    let mut refused = Vec::new();
    for server in &wanted.servers {
        match Client::connect(server, wanted.timeout) {
            Ok(client) => return Ok(client),
            Err(error) => refused.push(format!("{server}: {error}")),
        }
    }
    Err(format!("no cell answers ({})", refused.join("; ")).into())
}

/// How far it is, on a terminal.
struct Progress {
    first: u64,
    start: Instant,
    is_shown: bool,
}

impl Progress {
    fn show(&mut self, report: &Report) {
        if !self.is_shown {
            return;
        }
        let dirty = report.number("dirty_keys");
        self.first = self.first.max(dirty);
        let (done, seconds) = (self.first - dirty, self.start.elapsed().as_secs_f64());
        let left = match done {
            0 => String::new(),
            done => format!(", about {:.0} s left", dirty as f64 * seconds / done as f64),
        };
        eprint!("\r\x1b[K{done} of {} keys written back{left}", self.first);
    }

    fn end(&self) {
        if self.is_shown {
            eprint!("\r\x1b[K");
        }
    }
}

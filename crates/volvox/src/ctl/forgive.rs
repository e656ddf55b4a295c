//! `ctl forgive RANGE`: a range whose copies are all lost begins again empty; above a tier, with
//! what was written back.
//!
//! It asks for a loss of data, so each step may refuse it: `ctl` if a cell that has the range
//! answers, the cell that is to lead it if one was heard within five seconds, and the agreement if
//! the range has changed since `ctl` saw it.

use std::error::Error;
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::{Client, NoAnswer};
use super::map::{Map, Range};
use super::survey::Survey;
use super::table::plural;
use super::wanted::Wanted;

/// How long the agreement may take, once the cells that had the range count as lost.
const AGREEING: Duration = Duration::from_secs(5);
/// How often it is looked whether the range has changed, and asked again.
const LOOK: Duration = Duration::from_millis(100);

/// Forgives `range`, if `is_certain`. Otherwise says what would be lost; the code is 1 then.
pub(super) fn forgive(
    survey: &Survey,
    (range, is_certain): (u32, bool),
    wanted: &Wanted,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let found = survey.map.ranges.iter().find(|it| it.id == range);
    let range = found.ok_or_else(|| format!("range {range}: the ring has none; see ctl ring"))?;
    let mut absent = Vec::new();
    let holders = range.in_sync().chain(range.journals.iter().copied());
    // A cell that has lost its journal has nothing of it.
    for cell in holders.filter(|_| !range.waits_for_operator) {
        match survey.cells.get(&cell).map(|asked| &asked.answer) {
            Some(Err(reason)) => absent.push((cell, reason.as_str())),
            _ => {
                let id = range.id;
                let what = "it is not lost, and is not forgiven";
                return Err(format!("range {id}: cell {cell} has it and answers: {what}").into());
            }
        }
    }
    let parts = |cell: u32| {
        let ranges = survey.map.ranges.iter();
        ranges.filter(|range| range.in_sync().any(|it| it == cell)).count()
    };
    let leads = survey.answers().min_by_key(|(id, ..)| (parts(*id), *id));
    let (cell, asked, _) = leads.expect("invariant: the first cell that was asked answers");
    if !is_certain {
        writeln!(out, "{}", warning(range, cell, &absent, wanted.json))?;
        return Ok(1);
    }
    let now = ask(&asked.at, range, wanted)?;
    let text = match wanted.json {
        true => json!({ "range": now.id, "cell": now.primary, "epoch": now.epoch }).to_string(),
        false => {
            let Range { id, primary, epoch, .. } = now;
            format!("range {id} begins again at cell {primary} (epoch {epoch})")
        }
    };
    writeln!(out, "{text}")?;
    Ok(0)
}

/// What would be lost, and that `cell` would lead `range` then. The cells `absent` have it.
fn warning(range: &Range, cell: u32, absent: &[(u32, &str)], as_json: bool) -> String {
    let Range { id, first, last, primary, .. } = range;
    if as_json {
        let absent = absent.iter().map(|(cell, reason)| json!({ "cell": cell, "reason": reason }));
        let loses = if range.waits_for_operator { "what was not written back" } else { "all" };
        let absent: Vec<_> = absent.collect();
        return json!({
            "range": id, "forgiven": false, "slices": [first, last], "primary": primary,
            "loses": loses, "would_lead": cell, "no_answer": absent,
        })
        .to_string();
    }
    let slices = plural(range.slices(), "slice");
    if range.waits_for_operator {
        return format!(
            "range {id}, {slices} from {first} to {last}: cell {primary} had it last, and has lost \
             its journal.\n\
             If it is forgiven, what was changed and not written back is lost: older values, and \
             keys that were deleted,\nmay be back. Cell {cell} leads it then. Add --yes."
        );
    }
    let absent = absent.iter().map(|(cell, reason)| format!("cell {cell}: {reason}"));
    let absent = absent.collect::<Vec<_>>().join("; ");
    format!(
        "range {id}, {slices} from {first} to {last}: no cell that has it answers ({absent}).\n\
         If it is forgiven, every item of it is lost, cell {cell} leads it, and it begins empty. A \
         cell that has it and only\ncannot be reached would still answer its own clients from it: \
         end its process first. Then add --yes."
    )
}

/// Asks the cell `at` to lead `range`, until the map shows that the range has begun again.
fn ask(at: &str, range: &Range, wanted: &Wanted) -> Result<Range, Box<dyn Error>> {
    let (id, epoch, config) = (range.id, range.epoch, range.config);
    let start = Instant::now();
    let mut client = Client::connect(at, wanted.timeout)?;
    let mut longest = AGREEING;
    while start.elapsed() < longest {
        let map = Map::parse(&client.stats("ring")?)?;
        longest = AGREEING + map.lost_after();
        let now = map.ranges.into_iter().find(|it| it.id == id).unwrap_or_default();
        if now.losses > range.losses {
            return Ok(now);
        }
        if (now.epoch, now.config) != (epoch, config) {
            return Err(format!("range {id} has changed meanwhile: look at it again").into());
        }
        client.send(&format!("stats ring forgive {id} {epoch} {config}"))?;
        let line = client.next_line()?;
        if line != "OK" {
            return Err(NoAnswer::Line(line).into());
        }
        sleep(LOOK);
    }
    let seconds = start.elapsed().as_secs();
    let what = "more than half of the voters must run, and no cell that has it";
    Err(format!("range {id} has not changed within {seconds} s: {what}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_lost_is_one_object_of_json() {
        let mut range = Range { id: 3, first: 8, last: 9, primary: 2, ..Range::default() };
        let text = warning(&range, 1, &[(2, "closed"), (4, "late")], true);
        let mut expected = json!({
            "range": 3, "forgiven": false, "slices": [8, 9], "primary": 2, "loses": "all",
            "would_lead": 1,
            "no_answer": [{ "cell": 2, "reason": "closed" }, { "cell": 4, "reason": "late" }],
        });
        assert_eq!(text, expected.to_string());
        range.waits_for_operator = true;
        (expected["loses"], expected["no_answer"]) =
            (json!("what was not written back"), json!([]));
        assert_eq!(warning(&range, 1, &[], true), expected.to_string());
        let text = warning(&range, 1, &[], false);
        assert!(text.starts_with("range 3, 2 slices from 8 to 9: cell 2 had it last"), "{text}");
    }
}

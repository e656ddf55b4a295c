//! How the keys of all runs that are led here are shown: each page is read from the bucket once.

use crate::leading::Leading;
use crate::led::Led;
use crate::name;
use crate::page::{self, Content, Row, Spot};
use crate::rewrite::gone;
use crate::runs::RUNS;
use tier::{BackendError, Failure, See};

/// Times that a page is looked for while it is replaced.
const TRIES_MAX: usize = 16;

/// A page of which all rows are to be shown from a spot on.
struct Part {
    /// The name of its object.
    name: String,
    /// Its rows, or why they cannot be read.
    rows: Result<Vec<Row>, BackendError>,
    /// Where the next page begins, if there is one.
    next: Option<Spot>,
}

/// Shows each key of the runs that are led here, run by run and page by page, until `see` returns
/// false. A page that is lost or corrupt is shown by its name.
pub(crate) fn show(leading: &Leading, see: &mut See<'_>) -> Result<(), BackendError> {
    for number in 0..RUNS {
        let Some(led) = leading.led_if_any(number)? else { continue };
        let mut from = Spot::default();
        while let Some(Part { name, rows, next }) = part(&led, &from)? {
            let goes_on = match rows {
                Ok(rows) => show_rows(leading, &rows, &from, see)?,
                Err(error) => see(name.as_bytes(), Err(error)),
            };
            if !goes_on {
                return Ok(());
            }
            let Some(next) = next else { break };
            from = next;
        }
    }
    Ok(())
}

/// The page that has what comes next from a spot on; `None` where a run has no page.
fn part(led: &Led, from: &Spot) -> Result<Option<Part>, BackendError> {
    for _ in 0..TRIES_MAX {
        let run = led.run();
        let Some(at) = run.map.find(from) else { return Ok(None) };
        let id = run.map.entries[at].page;
        let next = run.map.entries.get(at + 1).map(|entry| entry.first.clone());
        let name = name::page(led.store.run, id);
        let wrong = |what: &str| led.store.error(Failure::Corrupt, &format!("{name} {what}"));
        let rows = match led.store.objects.get(&name)? {
            Some(object) => page::decode((led.store.run, id), &object)
                .ok_or_else(|| wrong("is not what was written")),
            // It was replaced and deleted meanwhile.
            None if led.run().id != run.id => continue,
            None => Err(gone(&led.store, &name)),
        };
        return Ok(Some(Part { name, rows, next }));
    }
    let what = "pages were replaced again and again while they were to be shown";
    Err(led.store.error(Failure::Transient, what))
}

/// Shows rows from a spot on. Returns whether to go on.
fn show_rows(
    leading: &Leading,
    rows: &[Row],
    from: &Spot,
    see: &mut See<'_>,
) -> Result<bool, BackendError> {
    for row in rows.iter().filter(|row| row.spot >= *from) {
        let goes_on = match &row.content {
            Content::Here(record) => see(row.key(), Ok(record)),
            Content::Apart(_) => {
                let mut record = Vec::new();
                match leading.get(row.key(), &mut record) {
                    Ok(true) => see(row.key(), Ok(&record)),
                    // It was deleted meanwhile.
                    Ok(false) => true,
                    Err(error) if error.failure == Failure::Corrupt => see(row.key(), Err(error)),
                    Err(error) => return Err(error),
                }
            }
        };
        if !goes_on {
            return Ok(false);
        }
    }
    Ok(true)
}

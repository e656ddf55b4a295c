//! Why a request was not executed in time.

use super::executor::Executor;
use crate::ring::job::Job;
use crate::ring::not_now::NotNow;
use crate::ring::routes::Target;

/// Why `job` was not executed in time, as its client is to read it.
pub(super) fn why_unserved(executor: &Executor, job: &Job) -> String {
    let (target, range) = executor.route(job.slice);
    let map = executor.ring.map();
    let known = range.and_then(|id| map.range(id));
    let waiting = known.filter(|it| it.waits_for_operator);
    let moves_to = known.and_then(ring::Range::hands_over_to);
    let reason = match target {
        _ if let Some(range) = waiting => format!(
            "its last copy has lost its journal; an operator is to forgive it, \
             by volvox ctl forgive {}",
            range.id
        ),
        Target::Here(..) => executor.describe(job.not_now.unwrap_or(NotNow::Unknown), None),
        Target::Cell(cell) => job.not_now.map_or_else(
            || format!("cell {cell} leads it and cannot be reached"),
            |why| why.describe(Some(cell)),
        ),
        Target::Nowhere if let Some(cell) = moves_to => format!(
            "it is handed over to cell {cell}, and the cells have not agreed on that in time"
        ),
        Target::Nowhere if known.is_some_and(|it| it.divides.is_some()) => {
            "it is being divided, and the cells have not agreed on that in time".to_owned()
        }
        Target::Nowhere if let Some(other) = known.and_then(|it| it.unites_with) => format!(
            "it becomes one with range {other}, and the cells have not agreed on that in time"
        ),
        Target::Nowhere if range.is_some() => NotNow::NotLed.describe(None),
        Target::Nowhere if map.version == 0 => "this cell has no map yet".to_owned(),
        Target::Nowhere => "no cell leads it".to_owned(),
    };
    let range = range.map_or_else(|| "the ring".to_owned(), |range| format!("range {range}"));
    format!("{range} cannot be served: {reason}")
}

//! Which cell a fault hits next: by a plan of how many cells of each role are to be hit.

use std::time::Duration;

use anyhow::Result;

use crate::instruments::Ring;
use measure::rng::Rng;

/// Which faults, and how many.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// SIGKILL of a cell that leads ranges, and not the agreement.
    pub primaries: usize,
    /// SIGKILL of a cell that leads ranges and the agreement.
    pub leaders: usize,
    /// SIGKILL of a cell that copies ranges, and leads nothing.
    pub copies: usize,
    /// SIGSTOP of cells of the first two kinds, of each, for times between the shortest and the
    /// longest.
    pub pauses: usize,
    /// The shortest and the longest pause, in seconds.
    pub paused_s: [f64; 2],
    /// The most faults, whatever they were.
    pub faults_max: usize,
    /// When no other fault is begun.
    pub time_max: Duration,
}

/// The next fault.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// The place of the cell.
    pub victim: usize,
    /// For how long it is stopped; nothing for a kill.
    pub pause: Option<Duration>,
    /// Whether it leads the agreement, where that is known.
    pub leads_agreement: Option<bool>,
}

/// What is left of the plan: a victim that is wanted. Where there is none, another kill of a cell
/// that leads ranges moves them.
///
/// `done` counts the faults of a role until now: kills, or pauses.
pub fn next(
    ring: &Ring,
    done: impl Fn(Role, bool) -> usize,
    plan: Plan,
    rng: &mut Rng,
) -> Result<Option<Next>> {
    let (maps, leader) = (ring.whole()?, ring.leader());
    let left = |role: Role, is_pause: bool| {
        let wanted = match role {
            Role::Leader if leader.is_none() => 0,
            Role::Primary | Role::Leader if is_pause => plan.pauses,
            Role::Primary => plan.primaries,
            Role::Leader => plan.leaders,
            Role::Copy if !is_pause => plan.copies,
            Role::Copy | Role::Other => 0,
        };
        wanted.saturating_sub(done(role, is_pause))
    };
    let roles = [Role::Primary, Role::Leader, Role::Copy];
    let Some(is_pause) = [false, true]
        .into_iter()
        .find(|is_pause| roles.into_iter().any(|role| left(role, *is_pause) > 0))
    else {
        return Ok(None);
    };
    let is_leading = |cell: usize| leader == Some(maps[cell].cell);
    let role = |cell: usize| {
        let (number, ranges) = (maps[cell].cell, &maps[0].ranges);
        let leads = ranges.iter().any(|range| range.primary == Some(number));
        let copies = ranges.iter().any(|range| range.copies.contains(&number));
        Role::new(leads, copies, is_leading(cell))
    };
    let pick = |fits: &dyn Fn(Role) -> bool| -> Vec<usize> {
        (0..maps.len()).filter(|cell| fits(role(*cell))).collect()
    };
    let wanted = pick(&|role| left(role, is_pause) > 0);
    let moving = pick(&|role| matches!(role, Role::Primary | Role::Leader));
    let cells = if wanted.is_empty() { &moving } else { &wanted };
    let victim = cells[rng.below(cells.len() as u64) as usize];
    let is_wanted = is_pause && !wanted.is_empty();
    let pause = is_wanted.then(|| paused_s(plan, done(role(victim), true)));
    let pause = pause.map(Duration::from_secs_f64);
    let leads_agreement = leader.is_some().then(|| is_leading(victim));
    Ok(Some(Next { victim, pause, leads_agreement }))
}

/// What a cell is to the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads ranges, and not the agreement as far as is known.
    Primary,
    /// It leads ranges and the agreement.
    Leader,
    /// It copies ranges, and leads nothing.
    Copy,
    /// It has no part, or leads the agreement alone.
    Other,
}

impl Role {
    /// Of a cell that leads ranges, copies ranges, leads the agreement.
    pub fn new(leads: bool, copies: bool, leads_agreement: bool) -> Self {
        match (leads, copies, leads_agreement) {
            (true, _, false) => Self::Primary,
            (true, _, true) => Self::Leader,
            (false, true, false) => Self::Copy,
            _ => Self::Other,
        }
    }
}

/// Pauses rise by one factor from the shortest to the longest.
fn paused_s(plan: Plan, nth: usize) -> f64 {
    let [shortest, longest] = plan.paused_s;
    let steps = plan.pauses.saturating_sub(1).max(1) as f64;
    shortest * (longest / shortest).powf(nth as f64 / steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_rise_from_the_shortest_to_the_longest() {
        let plan = Plan {
            primaries: 0,
            leaders: 0,
            copies: 0,
            pauses: 3,
            paused_s: [0.4, 10.0],
            faults_max: 9,
            time_max: Duration::ZERO,
        };
        let paused = [0, 1, 2].map(|nth| (paused_s(plan, nth) * 10.0).round());
        assert_eq!(paused, [4.0, 20.0, 100.0]);
    }
}

//! The control plane of a cell that runs.

use crate::config::{Plane, Seen};
use crate::hub::Hub;
use crate::member_loop::propose;
use crate::threads::Threads;
use quorum::{Coordinator, Quorum};
use ring::{CellId, Command, Event, Map};
use std::sync::Arc;
use tokio::sync::mpsc;

/// The control plane of a cell that runs. Dropping it ends it.
pub struct Control {
    pub(crate) events: mpsc::Sender<Event>,
    /// Versions of maps from which an operator wants this cell to go on alone.
    pub(crate) recovers: mpsc::Sender<u64>,
    pub(crate) quorum: Arc<Quorum<Hub>>,
    pub(crate) me: CellId,
    pub(crate) plane: Arc<dyn Plane>,
    pub(crate) threads: Threads,
}

impl Control {
    /// Takes what the plane has found.
    pub fn finder(&self) -> impl Fn(Seen) + Send + Sync + 'static {
        let (events, maps, me) = (self.events.clone(), self.quorum.watch(), self.me);
        let recovers = self.recovers.clone();
        let (quorum, plane) = (self.quorum.clone(), self.plane.clone());
        let runtime = self.threads.quorum.handle.clone();
        move |seen| match seen {
            Seen::CaughtUp { at, cell } => {
                let _ = events.try_send(Event::CaughtUp { at, cell });
            }
            Seen::Flushes { due_s, at_s, .. } => {
                let (quorum, plane) = (quorum.clone(), plane.clone());
                runtime.spawn(async move {
                    let outcome = propose(&quorum, Command::Flush { due_s, at_s }).await;
                    plane.flushed(seen, outcome);
                });
            }
            Seen::Ordered(order) => {
                let _ = events.try_send(Event::Ordered(order));
            }
            Seen::Wants(command) => {
                let quorum = quorum.clone();
                runtime.spawn(async move { propose(&quorum, command).await });
            }
            Seen::Sealed { at } => {
                let _ = events.try_send(Event::Sealed { at });
            }
            // Any event has the plane know until when it may answer.
            Seen::Begins => {
                let _ = events.try_send(Event::Tick);
            }
            Seen::Recovers { version } => {
                // One that is under way is enough.
                let _ = recovers.try_send(version);
            }
            Seen::Refuses { cell, range } => {
                let map = maps.borrow().clone();
                let is_meant = |of: &&ring::Range| range.is_none_or(|range| range == of.id);
                let led = map.ranges.iter().filter(|range| range.primary == me && range.has(cell));
                for range in led.filter(is_meant) {
                    let _ = events.try_send(Event::Refuses { at: range.stamp(), cell });
                }
            }
        }
    }

    /// The newest map.
    #[must_use]
    pub fn map(&self) -> Arc<Map> {
        self.quorum.watch().borrow().clone()
    }
}

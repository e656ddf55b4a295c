//! The open loop of one thread: requests go out when they are due.
//!
//! ```text
//! schedule --- due? ---> first connection with room ---> request, counted from its due time
//!                        none: the schedule stands still and is overdue
//! ```
//!
//! Connections with room wait in a queue, first come, first served. The due times of requests
//! that find none are not stored, because the schedule is simply not advanced: a backlog of any
//! length costs no memory and forgets nothing.

use std::collections::VecDeque;

use super::connection::Connection;
use super::worker::Worker;
use crate::schedule::Schedule;

pub(super) struct OpenLoop {
    pub schedule: Schedule,
    /// Connections with room, each at most once.
    ready: VecDeque<u32>,
    /// Since when there has been room without a break.
    room_since_ns: u64,
    /// Connections that got a request in this dispatch.
    touched: Vec<u32>,
}

impl OpenLoop {
    pub fn new(schedule: Schedule) -> Self {
        Self { schedule, ready: VecDeque::new(), room_since_ns: 0, touched: Vec::new() }
    }

    /// Queues a connection that has room.
    #[inline]
    pub fn offer(&mut self, index: usize, connection: &mut Connection, now_ns: u64) {
        if !connection.queued {
            connection.queued = true;
            if self.ready.is_empty() {
                self.room_since_ns = now_ns;
            }
            self.ready.push_back(index as u32);
        }
    }

    /// Whether a due request would find a connection.
    pub fn has_room(&self) -> bool {
        !self.ready.is_empty()
    }
}

impl Worker<'_> {
    /// Whether something was due when bytes came last, and would find a connection: no look at
    /// the clock, for this is asked within a turn.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let due = |open_loop: &OpenLoop| {
            open_loop.has_room() && open_loop.schedule.due_ns() <= self.received_ns
        };
        self.open_loop.as_ref().is_some_and(due)
    }

    /// Sends every request that is due while there is a connection for it.
    pub(super) fn dispatch(&mut self) {
        let Some(mut open_loop) = self.open_loop.take() else { return };
        if !self.closed {
            let now_ns = self.now_ns();
            self.ask_due(&mut open_loop, now_ns);
            // Flushed last, so that requests due together share a send.
            while let Some(index) = open_loop.touched.pop() {
                self.flush(index as usize, now_ns);
            }
        }
        self.open_loop = Some(open_loop);
    }

    /// Gives due requests to connections with room, in the order in which they got it.
    fn ask_due(&mut self, open_loop: &mut OpenLoop, now_ns: u64) {
        let plan = self.plan;
        while let Some(index) = open_loop.ready.front().copied() {
            let Some(due_ns) = self.due_by(&open_loop.schedule, now_ns) else { return };
            open_loop.ready.pop_front();
            let Some(connection) = self.connections[index as usize].as_mut() else { continue };
            connection.queued = false;
            // A refill may have taken the room since it was offered.
            if connection.exchange.pending() >= plan.pipeline {
                continue;
            }
            if due_ns >= self.rules.measure_from_ns {
                self.quota -= 1;
                let could_ns = due_ns.max(open_loop.room_since_ns);
                self.tally.own_delay_ns.saturating_record(now_ns.saturating_sub(could_ns));
            }
            if connection.out.is_empty() {
                open_loop.touched.push(index);
            }
            let Connection { exchange, out, .. } = connection;
            exchange.ask(&self.rules, &plan.workload, &mut self.stream, due_ns, out);
            self.outstanding += 1;
            open_loop.schedule.advance();
            if connection.exchange.pending() < plan.pipeline {
                connection.queued = true;
                open_loop.ready.push_back(index);
            }
        }
    }

    /// The due time of the next request if it has come and the run still wants it.
    fn due_by(&self, schedule: &Schedule, now_ns: u64) -> Option<u64> {
        let due_ns = schedule.due_ns();
        (due_ns <= now_ns && due_ns < self.end_ns && self.quota > 0).then_some(due_ns)
    }

    /// Whether a request was due before the end, is not sent, and still may be.
    pub(super) fn overdue(&self) -> bool {
        let due = |open_loop: &OpenLoop| self.due_by(&open_loop.schedule, self.end_ns).is_some();
        !self.closed && self.open_loop.as_ref().is_some_and(due)
    }

    /// Counts what was due before `last_due_ns`, was wanted, and was never sent.
    pub(super) fn count_unsent(&mut self, last_due_ns: u64) {
        let Some(open_loop) = &self.open_loop else { return };
        let due = open_loop.schedule.due_between(self.rules.measure_from_ns, last_due_ns);
        self.tally.unsent += due.min(self.quota);
    }
}

//! The open loop of one thread: requests are sent when they are due.
//!
//! ```text
//! schedule --- due? ---> first connection with room ---> request, counted from its due time
//!                        none: the schedule stands still and is overdue
//! ```
//!
//! Connections with room wait in a queue, first come, first served. Due times that find no
//! connection are not stored: the schedule is not advanced. So a backlog of any length costs no
//! memory, and no due time is lost.
//!
//! **Own delay** is the time that a due request waited for the generator while a connection was
//! free. Two things cause it: the thread's own work, and a thread that did not run because another
//! program or the hypervisor had its core. The clock alone cannot distinguish them, the kernel's
//! account of the thread's CPU time can. The thread reads it when it is on time, at most once in
//! [`ACCOUNT_NS`], and again when a request is late. It is on time when every due request is sent,
//! and when no connection was free until now: no own delay began earlier. Since then it has worked
//! for the difference, at most; so the smaller of delay and difference bounds the part that its own
//! work explains. Times are nanoseconds since the start of the run.

use std::collections::VecDeque;

use super::connection::Connection;
use super::issue::Issue;
use super::usage;
use crate::schedule::Schedule;

/// Time between two looks at the thread's CPU time while it is on time, and the delay from which on
/// it looks again.
const ACCOUNT_NS: u64 = 250_000;

pub(super) struct OpenLoop {
    schedule: Schedule,
    /// Connections with room, each at most once.
    ready: VecDeque<u32>,
    /// Since when there has been room without a break.
    room_since_ns: u64,
    /// When the thread was on time, and its CPU time then.
    on_time_ns: u64,
    on_time_cpu_ns: u64,
    /// Connections that got a request in this dispatch.
    touched: Vec<u32>,
}

impl OpenLoop {
    pub fn new(schedule: Schedule) -> Self {
        let (ready, touched) = (VecDeque::new(), Vec::new());
        let (room_since_ns, on_time_ns, on_time_cpu_ns) = (0, 0, 0);
        Self { schedule, ready, room_since_ns, on_time_ns, on_time_cpu_ns, touched }
    }

    /// Queues a connection that has room.
    #[inline]
    pub fn offer(&mut self, index: usize, connection: &mut Connection, now_ns: u64) {
        if !connection.queued {
            connection.queued = true;
            if self.ready.is_empty() {
                self.room_since_ns = now_ns;
                self.note_on_time(now_ns);
            }
            self.ready.push_back(index as u32);
        }
    }

    /// When the next request is due, if a connection is free for it.
    #[inline]
    pub fn due_ns(&self) -> Option<u64> {
        (!self.ready.is_empty()).then(|| self.schedule.due_ns())
    }

    /// The next connection that got a request since the last flush.
    pub fn touched(&mut self) -> Option<usize> {
        self.touched.pop().map(|index| index as usize)
    }

    /// Gives due requests to connections with room, in the order in which they got it.
    pub fn dispatch(
        &mut self,
        issue: &mut Issue,
        connections: &mut [Option<Connection>],
        now_ns: u64,
    ) {
        let mut worked_ns = None;
        while let Some(index) = self.ready.front().copied() {
            let Some(due_ns) = self.due_by(issue, now_ns) else {
                self.note_on_time(now_ns);
                return;
            };
            self.ready.pop_front();
            let Some(connection) = connections[index as usize].as_mut() else { continue };
            connection.queued = false;
            // A refill may have taken the room since it was offered.
            if !issue.has_room(connection) {
                continue;
            }
            if due_ns >= issue.rules.measure_from_ns {
                let delay_ns = now_ns.saturating_sub(due_ns.max(self.room_since_ns));
                let mut work_ns = delay_ns;
                if delay_ns > ACCOUNT_NS {
                    let worked_ns = worked_ns
                        .get_or_insert_with(|| usage::cpu_ns().saturating_sub(self.on_time_cpu_ns));
                    work_ns = work_ns.min(*worked_ns);
                }
                issue.tally.own_delay_ns.saturating_record(delay_ns);
                issue.tally.work_delay_ns.saturating_record(work_ns);
                if let Some(by_time) = &mut issue.tally.by_time {
                    by_time.sent(now_ns - issue.rules.measure_from_ns, delay_ns);
                }
            }
            if connection.out.is_empty() {
                self.touched.push(index);
            }
            issue.ask(connection, due_ns);
            self.schedule.advance();
            if issue.has_room(connection) {
                connection.queued = true;
                self.ready.push_back(index);
            }
        }
    }

    /// Notes the thread's CPU time at a moment from which own delay counts again.
    #[inline]
    fn note_on_time(&mut self, now_ns: u64) {
        if now_ns >= self.on_time_ns + ACCOUNT_NS {
            (self.on_time_ns, self.on_time_cpu_ns) = (now_ns, usage::cpu_ns());
        }
    }

    /// The due time of the next request if it has come and the run still wants it.
    fn due_by(&self, issue: &Issue, now_ns: u64) -> Option<u64> {
        let due_ns = self.schedule.due_ns();
        (due_ns <= now_ns && issue.is_open(due_ns)).then_some(due_ns)
    }

    /// Whether a request was due before the end, is not sent, and still may be.
    pub fn is_overdue(&self, issue: &Issue) -> bool {
        !issue.closed && self.due_by(issue, issue.end_ns).is_some()
    }

    /// The number of requests that were due before `last_due_ns`, were wanted, and never sent.
    pub fn unsent(&self, issue: &Issue, last_due_ns: u64) -> u64 {
        let due = self.schedule.due_between(issue.rules.measure_from_ns, last_due_ns);
        due.min(issue.quota)
    }
}

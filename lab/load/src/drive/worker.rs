//! One thread of the generator: an epoll loop over its connections.
//!
//! Closed loop: a connection with room is filled at once, here. Open loop: it waits in the queue of
//! `open_loop` for the next request that becomes due. Overdue requests are still sent at the end,
//! unless the run is stopped. Invariant: one `recv` and one `send` per readable event, and one look
//! at the clock between them. Bounds: a wait is at most a tick; a connection holds at most its
//! pipeline of requests. Times are nanoseconds since the start of the run.

use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::connection::{Connection, Flow};
use super::issue::Issue;
use super::open_loop::OpenLoop;
use super::plan::{Mode, Plan};
use super::usage::Usage;
use super::watch::Watch;
use crate::schedule::Schedule;
use crate::tally::Tally;
use measure::Error;
use measure::poll::{Events, Poll};

/// Bytes of one `recv`: several batches of replies, and small enough for the second-level cache.
const RECV_BYTES: usize = 128 << 10;

/// Connections that are received from before due requests are sent. Several calls of one kind after
/// each other are cheaper than alternating ones; with a larger number the server would wait.
const RECEIVES_MAX: usize = 8;

/// The longest wait, after which the thread looks whether it is to stop.
const TICK_NS: u64 = 50_000_000;

/// Time between snapshots for a watcher.
const SNAPSHOT_NS: u64 = 1_000_000_000;

/// The complaint of a connection that the server ended.
const CLOSED: &str = "the server closed a connection";

/// What a thread returns.
pub(super) struct Lane {
    pub tally: Tally,
    /// What this thread took and lacked inside the measured window.
    pub usage: Usage,
    /// The end of the measured window as this thread saw it.
    pub window_end_ns: u64,
    /// Whether the run ended because no reply came.
    pub gave_up: bool,
    /// Whether it was stopped.
    pub stopped: bool,
    /// Its connections, open until the server's last sample is taken.
    pub connections: Vec<Option<Connection>>,
}

/// A thread's connections and what it still has to do on them.
pub(super) struct Worker<'a> {
    plan: &'a Plan,
    lane: usize,
    poll: Poll,
    /// A connection that was lost leaves its place empty.
    connections: Vec<Option<Connection>>,
    open: usize,
    issue: Issue,
    open_loop: Option<OpenLoop>,
    /// Replies of any kind, warm-up included; they show that the server is alive.
    replies: u64,
    /// When bytes came last.
    received_ns: u64,
    buffer: Vec<u8>,
    start: Instant,
}

impl<'a> Worker<'a> {
    /// Opens the connections of `lane`.
    pub fn connect(plan: &'a Plan, lane: usize) -> Result<Self, Error> {
        let poll = Poll::new()?;
        let mut connections = Vec::new();
        for index in 0..plan.share(lane, plan.connections as u64) {
            let fd = plan.target.connect()?;
            poll.watch(&fd, index, false)?;
            connections.push(Some(Connection::new(fd, plan.protocol)));
        }
        let issue = Issue::new(plan, lane);
        let open_loop = match &plan.mode {
            Mode::Closed => None,
            Mode::Open { arrival, rate } => {
                let (place, from_ns) =
                    ((lane as u64, plan.threads as u64), issue.rules.measure_from_ns);
                Some(OpenLoop::new(Schedule::new(*arrival, rate, from_ns, plan.seed, place)))
            }
        };
        Ok(Self {
            plan,
            lane,
            poll,
            open: connections.len(),
            connections,
            issue,
            open_loop,
            replies: 0,
            received_ns: 0,
            buffer: vec![0; RECV_BYTES],
            start: Instant::now(),
        })
    }

    /// Carries the lane's part of the run to its end.
    pub fn run(mut self, start: Instant, watch: &Watch) -> Result<Lane, Error> {
        self.start = start;
        let patience_ns = self.plan.patience.as_nanos() as u64;
        let grace_ns = if self.plan.drop_overdue { 0 } else { patience_ns };
        let (mut usage_before, mut usage) = (None, None);
        let (mut last_reply_ns, mut snapshot_ns) = (0, SNAPSHOT_NS);
        let (mut stopped, mut replies_before) = (false, 0);
        let mut events = Events::new();
        self.begin();
        loop {
            let now_ns = self.now_ns();
            if usage_before.is_none() && now_ns >= self.issue.rules.measure_from_ns {
                usage_before = Some(Usage::now());
            }
            if watch.is_stopped() && !stopped {
                stopped = true;
                self.issue.end_ns = self.issue.end_ns.min(now_ns);
                self.issue.rules.measure_until_ns = self.issue.end_ns;
                self.issue.closed = true;
            }
            let issuing = self.issue.is_open(now_ns);
            if !issuing && usage.is_none() {
                usage = Some(Usage::now().since(usage_before.unwrap_or_else(Usage::now)));
            }
            if self.replies != replies_before || self.issue.outstanding == 0 {
                (replies_before, last_reply_ns) = (self.replies, now_ns);
            }
            let gave_up = now_ns - last_reply_ns > patience_ns;
            self.issue.closed |= now_ns > self.issue.end_ns.saturating_add(grace_ns);
            let done = !issuing && self.issue.outstanding == 0 && !self.is_overdue();
            if gave_up || done || self.open == 0 {
                let usage = usage.or_else(|| Some(Usage::now().since(usage_before?)));
                return Ok(self.finish(usage.unwrap_or_default(), last_reply_ns, gave_up, stopped));
            }
            if watch.is_live() && now_ns >= snapshot_ns {
                watch.publish(self.lane, self.replies, &self.issue.tally);
                snapshot_ns = now_ns + SNAPSHOT_NS;
            }
            self.turn(now_ns, &mut events)?;
        }
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Fills every connection, or queues it.
    fn begin(&mut self) {
        // The default slack would delay due requests by up to 50 us, charged to the server.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        for index in 0..self.connections.len() {
            self.offer(index, self.now_ns());
        }
    }

    /// Waits for events or the next due time, and serves them.
    fn turn(&mut self, now_ns: u64, events: &mut Events) -> Result<(), Error> {
        self.poll.wait(events, self.wait(now_ns))?;
        for (nth, (name, flags)) in events.iter().enumerate() {
            self.serve(name as usize, flags);
            // A turn may be long. A request that becomes due in it does not wait for its end:
            // requests sent in bursts are answered in bursts, which make the next turn as long.
            if (nth + 1).is_multiple_of(RECEIVES_MAX) && self.is_due() {
                self.dispatch();
            }
        }
        self.dispatch();
        Ok(())
    }

    /// The time in which nothing can become due, at most a tick.
    fn wait(&self, now_ns: u64) -> Duration {
        let mut wake_ns = now_ns + TICK_NS;
        if now_ns < self.issue.end_ns {
            wake_ns = wake_ns.min(self.issue.end_ns);
        }
        if let Some(due_ns) = self.open_loop.as_ref().and_then(OpenLoop::due_ns)
            && !self.issue.closed
            && self.issue.is_open(due_ns)
        {
            wake_ns = wake_ns.min(due_ns.max(now_ns));
        }
        Duration::from_nanos(wake_ns - now_ns)
    }

    /// Whether a request was due when bytes came last, and a connection is free for it. It does not
    /// read the clock, because it is called within a turn.
    #[inline]
    fn is_due(&self) -> bool {
        let due_ns = self.open_loop.as_ref().and_then(OpenLoop::due_ns);
        due_ns.is_some_and(|due_ns| due_ns <= self.received_ns)
    }

    fn is_overdue(&self) -> bool {
        self.open_loop.as_ref().is_some_and(|open_loop| open_loop.is_overdue(&self.issue))
    }

    /// Sends every request that is due while a connection is free for it.
    fn dispatch(&mut self) {
        if self.open_loop.is_none() || self.issue.closed {
            return;
        }
        let now_ns = self.now_ns();
        if let Some(open_loop) = &mut self.open_loop {
            open_loop.dispatch(&mut self.issue, &mut self.connections, now_ns);
        }
        // Flushed last, so that requests that are due together share a send.
        while let Some(index) = self.open_loop.as_mut().and_then(OpenLoop::touched) {
            self.flush(index, now_ns);
        }
    }

    /// Serves one event of connection `index`.
    #[inline]
    fn serve(&mut self, index: usize, flags: EventFlags) {
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
            && let Err(complaint) = self.receive(index)
        {
            self.lose(index, complaint);
            return;
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(index, self.now_ns());
        }
    }

    /// Takes all replies that are there, then sends what follows from them.
    #[inline]
    fn receive(&mut self, index: usize) -> Result<(), String> {
        let mut received_ns = None;
        loop {
            let Some(connection) = self.connections[index].as_mut() else { return Ok(()) };
            let kept = connection.tail.len();
            self.buffer[..kept].copy_from_slice(&connection.tail);
            let bytes = match connection.fill(&mut self.buffer[kept..]) {
                Flow::Bytes(bytes) => bytes,
                // The recv before took exactly what was there.
                Flow::Blocked => break,
                Flow::Ended => return Err(CLOSED.to_string()),
            };
            let now_ns = self.start.elapsed().as_nanos() as u64;
            (received_ns, self.received_ns) = (Some(now_ns), now_ns);
            let input = &self.buffer[..kept + bytes];
            let exchange = &mut connection.exchange;
            let before = exchange.pending();
            let Issue { rules, tally, outstanding, .. } = &mut self.issue;
            let used = exchange.receive(rules, now_ns, input, tally);
            // Counted even if the last reply was wrong: those before it were right.
            let replies = before - exchange.pending();
            *outstanding -= replies;
            self.replies += replies as u64;
            let used = used.map_err(|breach| breach.0)?;
            connection.tail.clear();
            connection.tail.extend_from_slice(&input[used..]);
            if rules.in_window(now_ns) {
                tally.totals.received_bytes += bytes as u64;
                tally.timeline.add(now_ns - rules.measure_from_ns, replies as u64);
            }
            // A short read has emptied the socket; later bytes raise a new event.
            if kept + bytes < self.buffer.len() {
                break;
            }
        }
        self.offer(index, received_ns.unwrap_or_else(|| self.now_ns()));
        Ok(())
    }

    /// Uses the room of a connection: follow-ups first, then the stream (closed loop) or the queue
    /// (open loop).
    #[inline]
    fn offer(&mut self, index: usize, now_ns: u64) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        let issue = &mut self.issue;
        issue.follow_up(connection, now_ns);
        if let Some(open_loop) = &mut self.open_loop {
            if issue.has_room(connection) {
                open_loop.offer(index, connection, now_ns);
            }
        } else {
            while issue.has_room(connection) && issue.is_open(now_ns) {
                issue.ask(connection, now_ns);
            }
        }
        if !connection.out.is_empty() {
            self.flush(index, now_ns);
        }
    }

    /// Sends what is composed; a rest is sent when the kernel has space again.
    #[inline]
    fn flush(&mut self, index: usize, now_ns: u64) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        let (bytes, flow) = connection.flush();
        if self.issue.rules.in_window(now_ns) {
            self.issue.tally.totals.sent_bytes += bytes as u64;
        }
        let blocked = flow == Flow::Blocked;
        if flow == Flow::Ended {
            self.lose(index, CLOSED.to_string());
        } else if blocked != connection.watches_write {
            connection.watches_write = blocked;
            if let Err(error) = self.poll.watch_write(&connection.fd, index as u64, blocked) {
                self.lose(index, error.to_string());
            }
        }
    }

    /// Closes a connection; its unanswered requests are lost.
    fn lose(&mut self, index: usize, complaint: String) {
        // To drop the socket takes it out of epoll.
        let Some(connection) = self.connections[index].take() else { return };
        let Issue { rules, tally, outstanding, .. } = &mut self.issue;
        *outstanding -= connection.exchange.pending();
        self.open -= 1;
        tally.requests.lost += connection.exchange.pending_measured(rules);
        tally.requests.connections_lost += 1;
        tally.sample(complaint);
    }

    fn finish(mut self, usage: Usage, last_reply_ns: u64, gave_up: bool, stopped: bool) -> Lane {
        let last_due_ns = self.issue.end_ns.min(self.now_ns());
        // Without a fixed end the window closes with the last reply.
        let window_end_ns = if self.issue.end_ns == u64::MAX { last_reply_ns } else { last_due_ns };
        let unsent = self.open_loop.as_ref().map_or(0, |it| it.unsent(&self.issue, last_due_ns));
        let Issue { rules, mut tally, .. } = self.issue;
        tally.requests.unsent += unsent;
        let connections = std::mem::take(&mut self.connections);
        let unanswered = connections.iter().flatten();
        tally.requests.unanswered +=
            unanswered.map(|each| each.exchange.pending_measured(&rules)).sum::<u64>();
        Lane { tally, usage, window_end_ns, gave_up, stopped, connections }
    }
}

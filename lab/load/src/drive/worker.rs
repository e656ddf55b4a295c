//! One thread of the generator: an epoll loop over its connections.
//!
//! ```text
//! Issuing --- time or quota up, or stopped ---> Draining --- all answered, or no patience ---> end
//! ```
//!
//! Closed loop: a connection with room is filled at once, here. Open loop: it waits for the next
//! request to become due (`open_loop`); what is overdue at the end is still sent, unless the run
//! was stopped. Times are nanoseconds since the start of the run.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::connection::{Connection, Flow};
use super::open_loop::OpenLoop;
use super::plan::{Limit, Mode, Plan};
use super::run::Watch;
use super::usage::Usage;
use crate::exchange::Rules;
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::workload::Stream;
use measure::Error;
use measure::poll::{Events, Poll};

/// Bytes of one `recv`: several batches of replies, and still at home in the second-level cache.
const RECV_BYTES: usize = 128 << 10;

/// Connections received from before requests that have become due leave: one kind of call after
/// another is cheaper than turn and turn about, and more of them would make the server wait.
const RECEIVES_MAX: usize = 8;

/// Longest sleep, so that a stop is noticed.
const TICK_NS: u64 = 50_000_000;

/// Time between snapshots for a watcher.
const SNAPSHOT_NS: u64 = 1_000_000_000;

/// What a thread brings back.
pub(super) struct Lane {
    pub tally: Tally,
    /// What this thread took and lacked inside the measured window.
    pub usage: Usage,
    /// The end of the measured window as this thread saw it.
    pub window_end_ns: u64,
    /// Whether the run ended for want of any reply.
    pub gave_up: bool,
    /// Whether it was told to stop.
    pub stopped: bool,
    /// What it asked over, open until the server's last sample is taken.
    pub connections: Vec<Option<Connection>>,
}

pub(super) struct Worker<'a> {
    pub(super) plan: &'a Plan,
    pub(super) rules: Rules,
    poll: Poll,
    /// A connection that was lost leaves its place empty.
    pub(super) connections: Vec<Option<Connection>>,
    open: usize,
    pub(super) stream: Stream,
    pub(super) open_loop: Option<OpenLoop>,
    /// Requests that may still be asked after the warm-up.
    pub(super) quota: u64,
    pub(super) end_ns: u64,
    /// Whether requests that are overdue are not sent any more.
    pub(super) closed: bool,
    pub(super) outstanding: usize,
    /// Replies of any kind, warm-up included: the sign of a server that lives.
    replies: u64,
    /// When bytes came last.
    pub(super) received_ns: u64,
    pub(super) tally: Tally,
    buffer: Vec<u8>,
    lane: usize,
    start: Instant,
}

impl<'a> Worker<'a> {
    /// Opens the connections of `lane`.
    pub fn connect(plan: &'a Plan, lane: usize) -> Result<Self, Error> {
        let poll = Poll::new()?;
        let share = plan.share(lane, plan.connections as u64);
        let mut connections = Vec::new();
        for index in 0..share {
            let fd = plan.target.connect()?;
            poll.watch(&fd, index, false)?;
            connections.push(Some(Connection::new(fd, plan.protocol)));
        }
        let warmup_ns = plan.warmup.as_nanos() as u64;
        let (quota, end_ns) = match plan.limit {
            Limit::Time(time) => (u64::MAX, warmup_ns + time.as_nanos() as u64),
            Limit::Requests(total) => (plan.share(lane, total), u64::MAX),
        };
        let (lanes, lane_number) = (plan.threads as u64, lane as u64);
        let open_loop = match &plan.mode {
            Mode::Closed => None,
            Mode::Open { arrival, rate } => {
                let place = (lane_number, lanes);
                let schedule = Schedule::new(*arrival, rate, warmup_ns, plan.seed, place);
                Some(OpenLoop::new(schedule))
            }
        };
        Ok(Self {
            plan,
            rules: Rules {
                protocol: plan.protocol,
                verify: plan.verify,
                refill: plan.refill,
                multiget: plan.multiget.clone(),
                multiset: plan.multiset,
                measure_from_ns: warmup_ns,
                measure_until_ns: end_ns,
            },
            poll,
            open: connections.len(),
            connections,
            stream: Stream::new(&plan.workload, lane_number, lanes),
            open_loop,
            quota,
            closed: false,
            end_ns,
            outstanding: 0,
            replies: 0,
            received_ns: 0,
            tally: Tally::default(),
            buffer: vec![0; RECV_BYTES],
            lane,
            start: Instant::now(),
        })
    }

    /// Carries the lane's part of the run to its end.
    pub fn run(mut self, start: Instant, watch: &Watch) -> Result<Lane, Error> {
        self.start = start;
        let (mut usage_before, mut usage) = (None, None);
        let (mut last_reply_ns, mut snapshot_ns) = (0, SNAPSHOT_NS);
        let mut stopped = false;
        let mut replies_before = 0;
        let mut events = Events::new();
        self.begin();
        loop {
            let now_ns = self.now_ns();
            if usage_before.is_none() && now_ns >= self.rules.measure_from_ns {
                usage_before = Some(Usage::now());
            }
            if watch.stop.load(Ordering::Relaxed) && !stopped {
                stopped = true;
                self.end_ns = self.end_ns.min(now_ns);
                self.rules.measure_until_ns = self.end_ns;
                self.closed = true;
            }
            let issuing = now_ns < self.end_ns && self.quota > 0;
            if !issuing && usage.is_none() {
                usage = Some(Usage::now() - usage_before.unwrap_or_else(Usage::now));
            }
            if self.replies != replies_before || self.outstanding == 0 {
                (replies_before, last_reply_ns) = (self.replies, now_ns);
            }
            let patience_ns = self.plan.patience.as_nanos() as u64;
            let gave_up = now_ns - last_reply_ns > patience_ns;
            let grace_ns = if self.plan.drop_overdue { 0 } else { patience_ns };
            self.closed |= now_ns > self.end_ns.saturating_add(grace_ns);
            let done = !issuing && self.outstanding == 0 && !self.overdue();
            if gave_up || done || self.open == 0 {
                let usage = usage.or_else(|| Some(Usage::now() - usage_before?));
                return Ok(self.finish(usage.unwrap_or_default(), last_reply_ns, gave_up, stopped));
            }
            if watch.live && now_ns >= snapshot_ns {
                watch.publish(self.lane, self.replies, &self.tally);
                snapshot_ns = now_ns + SNAPSHOT_NS;
            }
            self.turn(now_ns, &mut events)?;
        }
    }

    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Puts every connection to work, or in the queue for it.
    fn begin(&mut self) {
        // Sleeping through a due time by the default slack of 50 us would be charged to the server.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        for index in 0..self.connections.len() {
            self.offer(index, self.now_ns());
        }
    }

    /// Waits for events or the next due time, and serves them.
    fn turn(&mut self, now_ns: u64, events: &mut Events) -> Result<(), Error> {
        self.poll.wait(events, self.sleep(now_ns))?;
        for (nth, (name, flags)) in events.iter().enumerate() {
            self.serve(name as usize, flags);
            // A turn may take long; what becomes due in it does not wait for its end, or requests
            // would leave in bursts, be answered in bursts, and make the next turn as long.
            if (nth + 1).is_multiple_of(RECEIVES_MAX) && self.is_due() {
                self.dispatch();
            }
        }
        self.dispatch();
        Ok(())
    }

    /// How long nothing can be due: never more than a tick.
    fn sleep(&self, now_ns: u64) -> Duration {
        let mut wake_ns = now_ns + TICK_NS;
        if now_ns < self.end_ns {
            wake_ns = wake_ns.min(self.end_ns);
        }
        if let Some(open_loop) = &self.open_loop
            && open_loop.has_room()
            && self.quota > 0
            && !self.closed
        {
            let due_ns = open_loop.schedule.due_ns();
            if due_ns < self.end_ns {
                wake_ns = wake_ns.min(due_ns.max(now_ns));
            }
        }
        Duration::from_nanos(wake_ns - now_ns)
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
                Flow::Ended => return Err("the server closed a connection".to_string()),
            };
            let now_ns = self.start.elapsed().as_nanos() as u64;
            (received_ns, self.received_ns) = (Some(now_ns), now_ns);
            let input = &self.buffer[..kept + bytes];
            let before = connection.exchange.pending();
            let workload = &self.plan.workload;
            let used =
                connection.exchange.receive(&self.rules, workload, now_ns, input, &mut self.tally);
            // Counted even if the last reply was none: those before it were.
            let replies = before - connection.exchange.pending();
            self.outstanding -= replies;
            self.replies += replies as u64;
            let used = used.map_err(|breach| breach.0)?;
            connection.tail.clear();
            connection.tail.extend_from_slice(&input[used..]);
            if self.rules.in_window(now_ns) {
                self.tally.received_bytes += bytes as u64;
                let at_ns = now_ns - self.rules.measure_from_ns;
                self.tally.timeline.add(at_ns, replies as u64);
            }
            // A short read has emptied the socket; what comes later raises a new event.
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
        let plan = self.plan;
        let Some(connection) = self.connections[index].as_mut() else { return };
        let before = connection.exchange.pending();
        let out = &mut connection.out;
        while connection.exchange.wants_follow_up() && connection.exchange.pending() < plan.pipeline
        {
            connection.exchange.follow_up(&self.rules, &plan.workload, now_ns, out);
        }
        if let Some(open_loop) = &mut self.open_loop {
            if connection.exchange.pending() < plan.pipeline {
                open_loop.offer(index, connection, now_ns);
            }
        } else {
            while self.quota > 0
                && now_ns < self.end_ns
                && connection.exchange.pending() < plan.pipeline
            {
                self.quota -= u64::from(now_ns >= self.rules.measure_from_ns);
                let out = &mut connection.out;
                connection.exchange.ask(&self.rules, &plan.workload, &mut self.stream, now_ns, out);
            }
        }
        self.outstanding += connection.exchange.pending() - before;
        if !connection.out.is_empty() {
            self.flush(index, now_ns);
        }
    }

    /// Sends what is composed; a rest is sent when the kernel has room again.
    #[inline]
    pub(super) fn flush(&mut self, index: usize, now_ns: u64) {
        let Some(connection) = self.connections[index].as_mut() else { return };
        let (bytes, flow) = connection.flush();
        if self.rules.in_window(now_ns) {
            self.tally.sent_bytes += bytes as u64;
        }
        let blocked = flow == Flow::Blocked;
        if flow == Flow::Ended {
            self.lose(index, "the server closed a connection".to_string());
        } else if blocked != connection.watches_write {
            connection.watches_write = blocked;
            if let Err(error) = self.poll.watch_write(&connection.fd, index as u64, blocked) {
                self.lose(index, error.to_string());
            }
        }
    }

    /// Gives up a connection and everything it is owed.
    fn lose(&mut self, index: usize, complaint: String) {
        // Dropping the socket takes it out of epoll.
        let Some(connection) = self.connections[index].take() else { return };
        self.outstanding -= connection.exchange.pending();
        self.open -= 1;
        self.tally.lost += connection.exchange.pending_measured(&self.rules);
        self.tally.connections_lost += 1;
        self.tally.sample(complaint);
    }

    fn finish(mut self, usage: Usage, last_reply_ns: u64, gave_up: bool, stopped: bool) -> Lane {
        let now_ns = self.now_ns();
        for connection in self.connections.iter().flatten() {
            self.tally.unanswered += connection.exchange.pending_measured(&self.rules);
        }
        let last_due_ns = self.end_ns.min(now_ns);
        self.count_unsent(last_due_ns);
        // Without a fixed end the window closes with the last reply.
        let window_end_ns = if self.end_ns == u64::MAX { last_reply_ns } else { last_due_ns };
        let (tally, connections) = (self.tally, self.connections);
        Lane { tally, usage, window_end_ns, gave_up, stopped, connections }
    }
}

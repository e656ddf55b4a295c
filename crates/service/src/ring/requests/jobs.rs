//! The jobs of one worker: what it carries out for clients, here or at another cell.
//!
//! ```text
//! job -> this cell leads its slice, with a lease -> executed here; the reply may wait for a log
//!     -> another cell leads it                   -> asked on a link; the reply comes by its number
//!     -> neither                                 -> again a little later, until its deadline
//!     -> its key is not in memory                -> again when a lookup below has ended
//! ```
//!
//! Invariants: each job ends once: by a reply or an error, at its deadline at the latest. Where it
//! is not known whether a change was executed, it is asked again with the id that it had; what has
//! no id, or comes to no end in time, is answered with that doubt. A worker without links lends
//! each job to the one that has them, and gets the reply back.

use super::as_copy;
use super::asked::{AskedJobs, Refusal, Refused};
use super::buffers::Buffers;
use super::executor::{Asked, Executed, Executor, Leads, OVERTAKEN};
use super::finishing::Finishing;
use super::from_copies::{Among, FromCopies};
use super::later::Later;
use super::lent::{self, LentJobs};
use super::parked::LOOK_AGAIN_NS;
use super::target::{Subject, subject};
use super::unserved::why_unserved;
use crate::ring::cell::RingCell;
use crate::ring::job::{GatedReply, Job, Origin, Repeat, Rest, error, in_doubt};
use crate::ring::links::{Needs, Peers, Role, Was};
use crate::ring::not_now::NotNow;
use crate::ring::retries::{Asker, RequestTag};
use crate::ring::routes::Target;
use base::SliceId;
use memcache::{KeyScratch, reply};
use peer::{Frame, Verdict};
use ring::CellId;
use session::{ConnId, Order, Passed, Reply, WAIT_NS_MAX, WorkerId};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How long a copy has to answer a read before the primary is asked. It is looked at each 200 ms.
const COPY_ANSWERS_NS: u64 = 200_000_000;
/// Requests that a worker has at other cells, or that wait to be sent.
pub(crate) const JOBS_MAX: usize = 16 << 10;
/// Bytes of the requests that a worker has at other cells, or that wait to be sent: this part of
/// the limit on memory, and at least [`BYTES_MIN`].
const BYTES_PART: u64 = 128;
const BYTES_MIN: u64 = 4 << 20;
/// A request that is not longer counts as short.
const SHORT_BYTES: usize = 512;
/// Bytes of one request in several parts that are composed here at once.
const COMPOSED_BYTES_MAX: u64 = 256 << 10;
/// An error of this cell comes so much before the general one of the session.
const EARLIER_NS: u64 = 50_000_000;

/// The reply to what is no request.
const MALFORMED: &[u8] = b"SERVER_ERROR a cell sent a malformed request\r\n";

/// Why a change that was asked again is not executed.
const FORGOTTEN: &str = "it was asked before, and too long ago to be known";

/// Why a change that may have been made is not asked again.
const LOST: &str = "its range was lost since it was asked, or began again with its journal";

/// The jobs of one worker.
pub(crate) struct Jobs {
    pub(crate) executor: Executor,
    pub(crate) orders: VecDeque<Order>,
    pub(crate) peers: Peers,
    pub(crate) buffers: Buffers,
    /// Those that are at other cells.
    pub(crate) asked: AskedJobs,
    pub(super) from_copies: FromCopies,
    /// Those that could not be sent or executed.
    again: Later,
    /// What other cells have refused, with all that was sent after it, which is not taken back
    /// yet.
    refused: Refused,
    /// The version of the map by which `asked` was sent.
    sent_by: u64,
    /// When those of them are begun again that wait for what lies below, unless a lookup ends
    /// before.
    below_at_ns: u64,
    /// Those that another worker has, because this one has no links.
    lent: LentJobs,
    /// The replies to those that are executed.
    pub(crate) finishing: Finishing,
    /// Bytes of requests that may wait.
    pub(crate) bytes_max: usize,
    /// Replies that go back to other workers when the batch ends: worker, number, reply.
    returning: Vec<(WorkerId, u64, Vec<u8>)>,
}

impl Jobs {
    pub(crate) fn new(ring: Arc<RingCell>, worker: WorkerId) -> Self {
        let bytes_max = (ring.cell.budget().total() / BYTES_PART).max(BYTES_MIN) as usize;
        let finishing = Finishing::new(ring.cell.budget().clone());
        Self {
            bytes_max,
            executor: Executor::new(ring, worker),
            orders: VecDeque::new(),
            peers: Peers::default(),
            buffers: Buffers::default(),
            asked: AskedJobs::new(),
            from_copies: FromCopies::default(),
            again: Later::default(),
            refused: Refused::new(),
            sent_by: 0,
            below_at_ns: u64::MAX,
            lent: LentJobs::default(),
            finishing,
            returning: Vec::new(),
        }
    }

    fn now_ns(&self) -> u64 {
        self.executor.now.mono_ns
    }

    /// What the driver is to do next, besides turns of streams.
    #[inline]
    pub(crate) fn take_order(&mut self) -> Option<Order> {
        self.orders.pop_front().or_else(|| self.finishing.take_completions())
    }

    /// Whether what is executed now for `slice` comes after all that was asked for it before.
    #[inline]
    pub(crate) fn leads_next(&mut self, slice: SliceId, changes: bool) -> bool {
        !self.is_kept(slice) && self.executor.leads(slice, changes)
    }

    /// Whether a request of `bytes` bytes may wait, too. Short ones are bounded by their number,
    /// and of those that are longer than the bound, one may wait at a time.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        let (waiting, most) = (self.waiting_bytes(), self.bytes_max);
        let is_longest = bytes > most && waiting <= most;
        bytes <= SHORT_BYTES || waiting + bytes <= most || is_longest
    }

    /// Bytes of the requests that wait for something.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.asked.bytes() + self.again.bytes()
    }

    /// How many jobs wait for something.
    pub(crate) fn waiting(&self) -> usize {
        let begun =
            self.asked.len() + self.again.len() + self.finishing.gated.len() + self.lent.len();
        begun + self.finishing.waiting()
    }

    /// Takes a job of a worker without links.
    pub(crate) fn take_lent(&mut self, job: Job) {
        if self.waiting() < JOBS_MAX && self.takes(job.text.len()) {
            return self.dispatch(job);
        }
        self.finish(job.origin, &error("too many requests wait for other cells"));
    }

    /// A job is back that was lent.
    pub(crate) fn returned(&mut self, number: u64, reply: Vec<u8>) {
        if let Some(origin) = self.lent.take(number) {
            self.finish(origin, &reply);
        }
    }

    /// When a job that comes now must end.
    pub(crate) fn due_ns(&self) -> u64 {
        self.now_ns() + WAIT_NS_MAX - EARLIER_NS
    }

    /// What came of the delayed flush `id`.
    pub(crate) fn flushed(&mut self, id: u64, outcome: ring::Outcome) {
        let Some(Some(ticket)) = self.finishing.flushes.remove(&id) else { return };
        let line = match outcome {
            ring::Outcome::Decided(ring::Verdict::Applied { .. }) => reply::OK.to_vec(),
            ring::Outcome::Decided(ring::Verdict::Refused(why)) => error(&why.to_string()),
            ring::Outcome::Unknown => in_doubt("the agreement has not confirmed it in time"),
            ring::Outcome::Unavailable => error("the cells cannot agree on a flush_all now"),
        };
        self.finish(Origin::Client(ticket), &line);
    }

    /// Begins `job`, unless one about the same slice is kept for later: requests of one client keep
    /// their order.
    pub(crate) fn dispatch(&mut self, job: Job) {
        if !self.has_links() {
            let worker = self.executor.worker;
            self.lent.forget_late(self.now_ns());
            let (origin, kept) = lent::kept(&job);
            let number = self.executor.ring.lend(job, worker);
            return self.lent.add(number, origin, kept);
        }
        if self.is_kept(job.slice) {
            return self.again.push(job);
        }
        self.begin_job(job);
    }

    /// Begins more parts of the request in several parts that has this number, unless much of it
    /// was composed already: then a little later. What is composed must leave meanwhile.
    pub(crate) fn begin_parts(&mut self, number: u64) {
        self.executor.begin(self.executor.now);
        self.begun();
        let composed_max = self.finishing.composed + COMPOSED_BYTES_MAX;
        while self.finishing.composed < composed_max {
            let Some((origin, what, part)) = self.finishing.begin_part(number) else { return };
            let copy_reads = &self.executor.ring.host.copy_reads;
            let key = memcache::second_word(&what.0).filter(|_| part.conn.is_some());
            let age_ms = key.map_or(0, |key| copy_reads.age_of(key));
            let job = Job::new(origin, what, part.repeat, self.due_ns());
            self.dispatch(job.for_copies(age_ms, part.conn));
        }
        self.finishing.is_ready(number);
    }

    /// Whether this worker has links.
    pub(crate) fn has_links(&self) -> bool {
        self.executor.ring.has_links(self.executor.worker)
    }

    /// Whether a job about `slice` is kept for later, or lent, or is to be taken back.
    #[inline]
    pub(crate) fn is_kept(&self, slice: SliceId) -> bool {
        self.lent.has(slice)
            || self.again.has(slice)
            || self.refused.contains_key(&slice)
            || self.asked.has_staying(slice, self.now_ns())
    }

    /// Begins `job`, of whose slice none is kept, at a worker with links.
    #[inline]
    pub(crate) fn begin(&mut self, job: Job) {
        self.begin_job(job);
    }

    /// Executes `job`, sends it to its owner, or keeps it for a little later.
    fn begin_job(&mut self, mut job: Job) {
        if job.due_ns <= self.now_ns() {
            return self.gives_up(job);
        }
        job.not_now = None;
        if job.is_in_doubt && job.losses != self.executor.losses(job.slice) {
            return self.finish(job.origin, &in_doubt(LOST));
        }
        match self.executor.route(job.slice).0 {
            Target::Here(..) => self.run(job),
            Target::Cell(cell) if job.age_ms > 0 => self.read(cell, job),
            Target::Cell(cell) => self.ask(cell, job),
            Target::Nowhere => self.again.push(job),
        }
    }

    fn run(&mut self, mut job: Job) {
        let mut reply = Reply::new();
        let tag = (job.id > 0).then(|| self.tag(&mut job));
        let Some((asked, slice)) = self.executor.read(&job.text) else {
            return self.finish(job.origin, MALFORMED);
        };
        let executed = match (self.executor.leads_asked(slice, &asked), tag) {
            (Leads::Yes, Some(tag)) => {
                self.executor.execute_once((&asked, slice), (&tag, true), &mut reply)
            }
            (Leads::Yes, None) => self.executor.execute(&asked, &mut reply),
            (Leads::No(why), _) => Executed::NotNow(why),
            (Leads::Refused(line), _) => {
                let line = format!("{line}\r\n").into_bytes();
                return self.refuses(job, line);
            }
        };
        match executed {
            Executed::NotNow(why) => self.keep(job.refused(why)),
            Executed::Forgotten => self.forgotten(job, Later::push),
            Executed::Overtaken => self.refuses(job, OVERTAKEN.into()),
            Executed::Done => self.finish(job.origin, reply.bytes_mut()),
            Executed::Gate(log, seq) => {
                let bytes = std::mem::take(reply.bytes_mut());
                let Job { origin, due_ns, .. } = job;
                self.finishing.gate(GatedReply { origin, log, seq, due_ns, bytes });
            }
        }
    }

    /// The tag of `job`, which has an id and is asked now.
    fn tag(&mut self, job: &mut Job) -> RequestTag {
        let identity = self.executor.ring.identity;
        let (cell, life, worker) = (identity.cell, identity.incarnation, self.executor.worker.0);
        let first = self.asked.first_with(job.id, self.again.has_ids());
        let asker = Asker { cell, life, worker };
        let losses = self.executor.losses(job.slice);
        RequestTag { asker, id: job.id, first, again: job.asks(losses) }
    }

    /// Has a copy answer `job`, or `primary`, which leads its slice.
    fn read(&mut self, primary: CellId, job: Job) {
        let (me, now_ns) = (self.executor.ring.identity.cell, self.now_ns());
        let copy = self.copy_for(primary, (job.conn, job.slice));
        self.opens_copies(&job);
        match copy {
            None => self.ask(primary, job.for_primary()),
            Some(copy) if copy == me => self.read_here(primary, job),
            Some(copy) => self.ask(copy, job.at_copy(now_ns + COPY_ANSWERS_NS)),
        }
    }

    /// Answers `job` as a copy of what `primary` leads, or has that answer it.
    fn read_here(&mut self, primary: CellId, job: Job) {
        let mut reply = Reply::new();
        match self.has_newest_map()
            && as_copy::answer(&mut self.executor, &job.text, job.age_ms, &mut reply)
        {
            true => self.finish_by_copy(job, reply.bytes_mut()),
            false => self.ask(primary, job.for_primary()),
        }
    }

    /// Whether this cell goes by the newest map that it knows of: another cell may have named one
    /// that it has not.
    pub(super) fn has_newest_map(&self) -> bool {
        let newest = self.from_copies.version(self.executor.ring.newest_version());
        self.executor.version() >= newest
    }

    /// The copy that is to answer a read of `slice` on this connection, which `primary` leads;
    /// `None`: that is.
    pub(super) fn copy_for(
        &mut self,
        primary: CellId,
        (conn, slice): (Option<ConnId>, SliceId),
    ) -> Option<CellId> {
        let among = Among {
            me: self.executor.ring.identity.cell,
            routes: self.executor.routes.as_ref()?,
            asked: &self.asked,
            peers: &self.peers,
            flushes: self.again.has_flush(),
        };
        self.from_copies.choose(primary, (conn, slice), &among)
    }

    /// The next request to the primary of `slice` says that a copy has answered a read of `key`.
    pub(super) fn notes_use(&mut self, key: &[u8], slice: SliceId) {
        if let (Target::Cell(primary), _) = self.executor.route(slice) {
            self.peers.used(primary, key);
        }
    }

    /// A copy has answered `job` by the map of `version`, or has refused.
    fn copy_answered(&mut self, job: Job, version: u64, text: Option<&[u8]>) {
        match text.filter(|_| version <= self.executor.version()) {
            Some(text) => self.finish_by_copy(job, text),
            None => self.ask_primary(vec![job]),
        }
    }

    /// Ends `job`, which a copy has answered.
    fn finish_by_copy(&mut self, job: Job, text: &[u8]) {
        let mut scratch: KeyScratch = [0; _];
        if self.from_copies.is_to_be_known()
            && let Some((Asked::Request(request), slice)) = self.executor.read(&job.text)
            && let Subject::Key(key) = subject(&request, &mut scratch)
        {
            self.notes_use(key.as_bytes(), slice);
        }
        self.finish(job.origin, text);
        self.buffers.give(job.text);
    }

    /// Opens links to the copies that may answer `job`, where there is none.
    fn opens_copies(&mut self, job: &Job) {
        let Some(routes) = &self.executor.routes else { return };
        for copy in routes.copies(job.slice) {
            let is_asked = *copy != self.executor.ring.identity.cell;
            if is_asked
                && !self.peers.knows_reads(*copy)
                && let Some((to, _)) = routes.cells.get(copy)
                && self.peers.opens(*copy, self.executor.now.mono_ns)
            {
                let purpose = Role::Asks(*copy).number();
                self.orders.push_back(Order::Connect { to: *to, purpose });
            }
        }
    }

    /// Has the primary answer these, which copies have not answered, and then the reads of the same
    /// connections that follow them.
    fn ask_primary(&mut self, mut jobs: Vec<Job>) {
        for at in 0..jobs.len() {
            let following = self.asked.take_reads(jobs[at].conn, jobs[at].slice);
            jobs.extend(following);
        }
        jobs.into_iter().for_each(|job| self.dispatch(job.for_primary()));
    }

    /// Where copies answer reads, one that the primary is asked for comes after the earlier ones of
    /// its connection.
    fn keeps_order(&mut self, job: &mut Job) {
        let only_reads = job.is_read || job.repeat == Repeat::Always;
        if job.is_at_copy || !self.from_copies.is_used() || !only_reads {
            return;
        }
        if let Origin::Client(ticket) = job.origin {
            job.conn = Some(ticket.conn);
        }
        let earlier = self.asked.take_reads(job.conn, job.slice);
        earlier.into_iter().for_each(|job| self.begin_job(job.for_primary()));
    }

    /// Sends `job` to `cell`.
    pub(crate) fn ask(&mut self, cell: CellId, mut job: Job) {
        let map_version = self.executor.version();
        let now_ns = self.now_ns();
        let Some(to) = self.executor.address(cell) else { return self.again.push(job) };
        self.keeps_order(&mut job);
        let is_read = self.from_copies.is_sent_as_read(&job, self.peers.knows_reads(cell));
        let Some((out, needs)) = self.peers.ask(cell, now_ns) else {
            return self.again.push(job);
        };
        let id = if job.id > 0 { job.id } else { self.asked.next_id() };
        job.since = if job.since > 0 { job.since } else { id };
        let (mut first, mut again) = (0, 0);
        if job.repeat == Repeat::ById {
            (job.id, again) = (id, job.asks(self.executor.losses(job.slice)));
            first = self.asked.first_with(id, self.again.has_ids());
        }
        let (worker, text) = (self.executor.worker.0, &job.text[..]);
        let deadline_ms = (job.due_ns.saturating_sub(now_ns) / 1_000_000) as u16;
        let request = match is_read {
            true => {
                let own = self.executor.ring.newest_version();
                let map_version = self.from_copies.version(own);
                Frame::Read { id, deadline_ms, age_ms: job.age_ms, map_version, text }
            }
            false => {
                Frame::Request { id, deadline_ms, hops: 1, worker, first, again, map_version, text }
            }
        };
        request.encode(out);
        self.asked.add(id, (cell, job), now_ns);
        match needs {
            Needs::Nothing => {}
            Needs::Connection => {
                let purpose = Role::Asks(cell).number();
                self.orders.push_back(Order::Connect { to, purpose });
            }
            Needs::Turn(conn) => self.orders.push_back(Order::Turn(conn)),
        }
    }

    /// Keeps `job`, which was not executed, for later.
    fn keep(&mut self, job: Job) {
        if job.not_now == Some(NotNow::Below) {
            let at_ns = (self.now_ns() + LOOK_AGAIN_NS).min(job.due_ns);
            self.below_at_ns = self.below_at_ns.min(at_ns);
        }
        self.again.push(job);
    }

    /// Begins again what could not be done before, and ends what must end now.
    pub(crate) fn tend(&mut self) {
        self.take_back();
        if self.again.begins(self.executor.version(), self.now_ns()) {
            self.begin_again();
        }
        self.end_overdue();
        self.finish_gated();
    }

    /// Takes back what was sent after what other cells have refused: they refuse it, too. Should
    /// one of them have executed it even so, its id says that.
    fn take_back(&mut self) {
        if self.refused.is_empty() {
            return;
        }
        let refused = std::mem::take(&mut self.refused);
        let later = self.asked.take_later(&refused).into_iter().map(|job| {
            let renews = refused.get(&job.slice).is_some_and(|first| first.renews);
            match job.repeat {
                Repeat::Never => job,
                _ if renews && !job.is_in_doubt => job.without_id(),
                _ => job.doubted(),
            }
        });
        self.again.insert_all(later.collect());
    }

    fn begin_again(&mut self) {
        let (now_ns, map_version) = (self.now_ns(), self.executor.version());
        // By slice, why the first of its jobs is not executed, and how long it rests: those after
        // it wait for that.
        let mut kept: HashMap<SliceId, (Option<NotNow>, Rest)> = HashMap::new();
        self.below_at_ns = u64::MAX;
        for _ in 0..self.again.len() {
            let Some(mut job) = self.again.pop() else { break };
            let (slice, count) = (job.slice, self.again.len());
            match kept.get(&slice) {
                Some(first) if job.due_ns > now_ns => {
                    (job.not_now, job.rest) = *first;
                    self.keep(job);
                }
                None if job.due_ns > now_ns
                    && (self.asked.has_staying(slice, now_ns)
                        || !job.rest.is_over(map_version, now_ns)) =>
                {
                    self.keep(job);
                }
                _ => self.begin_job(job),
            }
            if self.again.len() > count {
                let first = self.again.last().map(|job| (job.not_now, job.rest));
                kept.insert(slice, first.unwrap_or_default());
            }
        }
    }

    /// Whether some wait for time to pass.
    pub(crate) fn has_to_tend(&self) -> bool {
        !self.again.waits_below() || self.finishing.has_gated() || !self.refused.is_empty()
    }

    /// When those are begun again that wait for what lies below, if no lookup ends before.
    pub(crate) fn below_at_ns(&self) -> u64 {
        self.below_at_ns
    }

    /// Ends the requests that other cells have not answered in time, and the links that are of no
    /// use. Requests of clients have a deadline of their own.
    fn end_overdue(&mut self) {
        let now_ns = self.now_ns();
        if now_ns < self.asked.overdue_at_ns() {
            return;
        }
        let from_copies = self.asked.take_from_copies(now_ns);
        let (copies, jobs): (Vec<_>, Vec<_>) = from_copies.into_iter().unzip();
        self.ask_primary(jobs);
        let overdue = self.asked.take_overdue(now_ns);
        let cells = overdue.iter().map(|(cell, _)| *cell).chain(copies).collect::<Vec<_>>();
        for (cell, job) in overdue {
            let why = format!("cell {cell} has not answered in time");
            let only_reads = job.repeat == Repeat::Always || job.is_at_copy;
            self.finish(job.origin, &if only_reads { error(&why) } else { in_doubt(&why) });
        }
        self.end_useless_links(&cells);
        self.asked.looks_again(self.peers.is_opening(), now_ns);
    }

    /// Ends the links that are of no use any more. The cells with an `overdue` request are named.
    pub(crate) fn end_useless_links(&mut self, overdue: &[CellId]) {
        let routes = self.executor.routes.clone();
        let is_over = |cell, life| routes.as_ref().is_some_and(|it| it.is_over(cell, life));
        for (cell, conn) in self.peers.useless(overdue, is_over, self.now_ns()) {
            self.orders.push_back(Order::Close(conn));
            self.lost(cell, Some(conn));
        }
    }

    /// The batch has begun. Where it goes by another map than the one before, what was asked for
    /// comes first.
    #[inline]
    pub(crate) fn begun(&mut self) {
        if self.sent_by != self.executor.version() {
            self.ask_others();
        }
    }

    /// Begins again what other cells lead than those that have it. What must not be executed twice
    /// stays there until it is answered, and what follows it waits.
    pub(crate) fn ask_others(&mut self) {
        self.sent_by = self.executor.version();
        let executor = &self.executor;
        let has_moved = |cell, job: &Job| {
            if job.is_at_copy {
                return !executor.copies(job.slice, cell);
            }
            job.repeat != Repeat::Never && executor.route(job.slice).0 != Target::Cell(cell)
        };
        let moved = self.asked.take_if(has_moved).into_iter();
        let moved = moved.map(|job| if job.is_at_copy { job } else { job.doubted() });
        self.again.insert_all(moved.collect());
        let is_left =
            |cell, job: &Job| !job.is_at_copy && executor.route(job.slice).0 != Target::Cell(cell);
        self.asked.stay_if(self.executor.now.mono_ns, is_left);
    }

    /// `job` was not executed in time.
    fn gives_up(&mut self, job: Job) {
        let why = why_unserved(&self.executor, &job);
        self.finish(job.origin, &if job.is_in_doubt { in_doubt(&why) } else { error(&why) });
    }

    #[inline]
    pub(crate) fn finish(&mut self, origin: Origin, bytes: &[u8]) {
        if let Origin::Worker { worker, number } = origin {
            return self.returning.push((worker, number, bytes.to_vec()));
        }
        if let Origin::Part { gather, index } = origin
            && let Err(refused) = self.finishing.reserve((gather, index), bytes.len())
        {
            // Where there is no room even so, an error takes its place.
            let _ = self.executor.make_room(refused);
        }
        self.finishing.finish(origin, bytes);
    }

    /// The batch has ended. `may_answer`: what was composed in it may leave.
    #[inline]
    pub(crate) fn end_batch(&mut self, may_answer: bool) {
        if !may_answer {
            self.drop_replies();
        }
        for (worker, number, reply) in self.returning.drain(..) {
            self.executor.ring.give_back(worker, number, reply);
        }
    }

    #[cold]
    fn drop_replies(&mut self) {
        let doubt = || in_doubt("this cell has lost the right to answer");
        for (_, _, reply) in &mut self.returning {
            *reply = doubt();
        }
        for origin in self.finishing.drop_all(&mut self.orders) {
            self.finish(origin, &doubt());
        }
    }

    /// Finishes the replies of this worker whose logs have passed.
    pub(crate) fn finish_gated(&mut self) {
        for _ in 0..self.finishing.gated.len() {
            let Some(reply) = self.finishing.gated.pop_front() else { break };
            match self.executor.passed(reply.log, reply.seq) {
                Passed::Yes => self.finish(reply.origin, &reply.bytes),
                Passed::No if reply.due_ns > self.now_ns() => {
                    self.finishing.gated.push_back(reply);
                }
                _ => self.finish(reply.origin, &in_doubt("a copy has not confirmed it in time")),
            }
        }
    }

    /// The link to `cell` is gone, or could not be opened.
    pub(crate) fn lost(&mut self, cell: CellId, conn: Option<ConnId>) {
        let Some(was) = self.peers.closed(cell, conn, self.now_ns()) else { return };
        let mut back = Vec::new();
        for job in self.asked.take_if(|of, _| of == cell) {
            match job.repeat {
                _ if was == Was::Opening || job.is_at_copy => back.push(job),
                Repeat::Always | Repeat::ById => back.push(job.doubted()),
                Repeat::Never => {
                    let why = format!("the link to cell {cell} has broken");
                    self.finish(job.origin, &in_doubt(&why));
                }
            }
        }
        self.again.insert_all(back);
    }

    /// `job` is refused with this error line. It may have been executed before.
    fn refuses(&mut self, job: Job, line: Vec<u8>) {
        let line = match job.is_in_doubt {
            true => {
                let line = String::from_utf8_lossy(&line);
                in_doubt(line.trim_end().trim_start_matches("SERVER_ERROR "))
            }
            false => line,
        };
        self.finish(job.origin, &line);
    }

    /// The id of `job` is not known any more. If nothing of it can have been executed, it is asked
    /// with another one, and so are those that follow it: their ids are later then. `keep` puts it
    /// where it belongs among those that are begun again.
    fn forgotten(&mut self, job: Job, keep: impl FnOnce(&mut Later, Job)) {
        match job.is_in_doubt {
            true => self.finish(job.origin, &in_doubt(FORGOTTEN)),
            false => {
                self.again.renew_after(job.slice, job.since);
                keep(&mut self.again, job.without_id());
            }
        }
    }

    /// `cell` has answered request `id`, which was sent so often before with that id, by the map
    /// of `version`.
    pub(crate) fn answered(
        &mut self,
        cell: CellId,
        (id, again): (u64, u16),
        (verdict, version): (Verdict, u64),
        text: &[u8],
    ) {
        let asks_again =
            matches!(verdict, Verdict::NotOwner | Verdict::TooManyHops | Verdict::Forgotten);
        let refuses_later = asks_again && self.peers.refuses(cell);
        let Some(job) = self.asked.take((id, again), cell) else { return };
        if job.is_at_copy {
            let text = (verdict == Verdict::Done).then_some(text);
            return self.copy_answered(job, version, text);
        }
        self.from_copies.sees(version);
        let (slice, sent) = (job.slice, job.sent);
        let first = self.refused.get(&slice).filter(|first| first.cell == cell).copied();
        match verdict {
            Verdict::Done => {
                self.finish(job.origin, text);
                self.buffers.give(job.text);
            }
            Verdict::Refused => self.refuses(job, text.to_vec()),
            Verdict::NotOwner | Verdict::TooManyHops => {
                let mut job = job.refused(NotNow::of(text));
                if first.is_some_and(|first| first.renews) && !job.is_in_doubt {
                    job = job.without_id();
                }
                // What frees room is no new map, and does not take as long.
                if matches!(job.not_now, Some(NotNow::NotLed | NotNow::NoLease | NotNow::Unknown)) {
                    job.rest = job.rest.next(self.executor.version(), self.now_ns());
                }
                self.again.insert(job);
            }
            // What waits for its copies until the deadline comes back when that is over.
            Verdict::InDoubt if job.repeat == Repeat::ById && job.due_ns > self.now_ns() => {
                self.again.insert(job.doubted());
            }
            Verdict::Forgotten => self.forgotten(job, Later::insert),
            Verdict::InDoubt => {
                let why = format!("the copies of cell {cell} have not confirmed it");
                self.finish(job.origin, &in_doubt(&why));
            }
        }
        if refuses_later {
            if first.is_none() && self.refused.contains_key(&slice) {
                self.take_back();
            }
            let renews = verdict == Verdict::Forgotten;
            self.refused.entry(slice).or_insert(Refusal { cell, sent, renews });
        }
    }
}

#[cfg(test)]
#[path = "copies_asked_test.rs"]
mod copies_asked_test;
#[cfg(test)]
#[path = "jobs_test.rs"]
mod tests;

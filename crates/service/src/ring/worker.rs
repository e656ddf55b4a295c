//! One worker of a ring's cell: its jobs, its streams, and the links on which frames come and go.
//!
//! Invariant: each request that another cell sends is answered once, if its link lasts.

use super::cell::{Finding, RingCell};
use super::links::{Kind, Link, Role, Streams, Waiting};
use super::not_now::NotNow;
use super::requests::{Executed, Jobs, Leads, OVERTAKEN, Parked, Question, as_copy};
use super::retries::{Asker, RequestTag};
use crate::service::Service;
use base::{Now, SliceId};
use memcache::{plain_get, plain_store};
use peer::{Frame, Verdict, end_frame, set_reply_version};
use ring::CellId;
use session::{Answer, ConnId, Order, Reply, WorkerId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// How long what cannot be done now rests.
const AGAIN_NS: u64 = 2_000_000;

/// Cells that may have forwarded a request.
const HOPS_MAX: u8 = 2;

/// Bytes of memory that are kept to compose replies in.
const COMPOSED_KEEP_BYTES: usize = 64 << 10;

/// One worker of a ring's cell.
pub(crate) struct RingWorker {
    pub(super) jobs: Jobs,
    pub(super) streams: Streams,
    /// Requests of other cells that wait for what lies below.
    pub(super) parked: Parked,
    /// What each link is for.
    pub(super) roles: HashMap<ConnId, Role>,
    /// Where a reply to another cell is composed; empty in between.
    composed: Reply,
    /// By lane, up to where others know of what was appended.
    known: Vec<u64>,
    pub(super) again_at_ns: u64,
    /// Links whose replies wait for several logs: their drivers look at one.
    split: Vec<ConnId>,
}

impl RingWorker {
    pub(crate) fn new(ring: Arc<RingCell>, worker: WorkerId) -> Self {
        let known = ring.log.lanes.logs().map(|_| 0).collect();
        Self {
            streams: Streams::new(ring.clone(), worker),
            jobs: Jobs::new(ring, worker),
            parked: Parked::default(),
            roles: HashMap::new(),
            composed: Reply::new(),
            known,
            again_at_ns: 0,
            split: Vec::new(),
        }
    }

    pub(super) fn ring(&self) -> &Arc<RingCell> {
        &self.jobs.executor.ring
    }

    #[inline(always)]
    pub(super) fn service(&self) -> &Service {
        &self.jobs.executor.inner
    }

    #[inline(always)]
    pub(super) fn service_mut(&mut self) -> &mut Service {
        &mut self.jobs.executor.inner
    }

    /// Begins a batch at `now`, unless one has begun. Returns the moment of what is executed next.
    #[inline]
    pub(super) fn begin(&mut self, now: Now) -> Now {
        let now = self.jobs.executor.begin(now);
        self.jobs.begun();
        now
    }

    fn now_ns(&self) -> u64 {
        self.jobs.executor.now.mono_ns
    }

    /// What is done every few milliseconds, as long as there is something.
    pub(super) fn tend(&mut self, now: Now) {
        self.begin(now);
        self.again_at_ns = now.mono_ns + AGAIN_NS;
        self.jobs.orders.extend(self.split.drain(..).map(Order::Turn));
        self.jobs.tend();
        if now.mono_ns >= self.parked.again_at_ns() {
            self.wake_parked();
        }
        self.streams.tend(now.mono_ns, &mut self.jobs.orders);
        if self.ring().lacks_space() {
            self.service_mut().tends_now(now);
        }
    }

    pub(super) fn has_to_tend(&self) -> bool {
        let has_to_tend = self.jobs.has_to_tend() || self.streams.has_to_tend();
        has_to_tend || !self.split.is_empty() || self.now_ns() >= self.deadline_ns()
    }

    /// When a request or a link may be overdue.
    fn deadline_ns(&self) -> u64 {
        let links_ns = self.jobs.asked.overdue_at_ns().min(self.streams.silent_at_ns());
        links_ns.min(self.jobs.below_at_ns()).min(self.parked.again_at_ns())
    }

    /// A lookup has ended: what waits for one is tried again.
    pub(super) fn looked_up(&mut self) {
        self.jobs.tend();
        self.wake_parked();
    }

    fn wake_parked(&mut self) {
        self.parked.wake(&mut self.jobs.orders);
    }

    /// When there may be something to tend.
    pub(super) fn wakes_at_ns(&self) -> u64 {
        if self.has_to_tend() { self.again_at_ns } else { self.deadline_ns() }
    }

    /// Lets the workers of other lanes know that something was appended.
    pub(super) fn mail(&mut self) {
        let (ring, worker) = (&self.jobs.executor.ring, self.jobs.executor.worker);
        for ((lane, log), known) in ring.log.lanes.logs().zip(&mut self.known) {
            let end = log.end();
            if end > *known {
                *known = end;
                if ring.worker_of(lane.index()) != worker {
                    ring.mail_appended(lane.index());
                }
            }
        }
    }

    /// A link is gone, or could not be opened.
    pub(super) fn lost(&mut self, role: Role, conn: Option<ConnId>) {
        match role {
            Role::Asks(cell) => self.jobs.lost(cell, conn),
            Role::Streams(cell, lane) => self.streams.closed((cell, lane), conn, self.now_ns()),
            Role::Called => {}
        }
    }

    /// A link has a connection; its handshake begins. False if it is not wanted.
    pub(super) fn connected(&mut self, role: Role, conn: ConnId) -> bool {
        match role {
            Role::Asks(cell) => self.jobs.peers.connected(cell, conn),
            Role::Streams(cell, lane) => self.streams.connected((cell, lane), conn),
            Role::Called => false,
        }
    }

    /// The handshake of `link` is over. False if it is not wanted.
    pub(super) fn opened(&mut self, link: &Link, out: &mut Vec<u8>) -> bool {
        let (now_ns, peers) = (self.now_ns(), &mut self.jobs.peers);
        match link.kind {
            Kind::Asking => {
                let to = (link.cell, link.incarnation);
                let is_wanted = peers.opened(to, (link.id(), link.features), now_ns);
                if is_wanted {
                    peers.send(link.cell, out);
                }
                is_wanted
            }
            Kind::StreamOut => self.streams.opened(link, now_ns, out),
            _ => true,
        }
    }

    /// Appends what is to be sent on `link`. False if the link is of no use any more.
    pub(super) fn sends(&mut self, link: &mut Link, out: &mut Vec<u8>) -> bool {
        match link.kind {
            Kind::Asking => {
                self.jobs.peers.send(link.cell, out);
                true
            }
            Kind::StreamOut => self.streams.sends(link, self.now_ns(), out),
            Kind::StreamIn(_) => self.streams.promises(link, self.now_ns(), out),
            Kind::Answering => {
                self.try_parked(link, out);
                self.looks_again(link);
                true
            }
            _ => true,
        }
    }

    /// Takes a frame from `link`. False if it is to be given again later.
    pub(super) fn take_frame(
        &mut self,
        link: &mut Link,
        frame: &Frame<'_>,
        now: Now,
        out: &mut Reply,
    ) -> bool {
        self.begin(now);
        match (&mut link.kind, *frame) {
            (
                Kind::Answering,
                Frame::Request { id, deadline_ms, hops, worker, first, again, map_version, text },
            ) => {
                let due_ns = now.mono_ns + u64::from(deadline_ms) * 1_000_000;
                let asker = Asker { cell: link.cell, life: link.incarnation, worker };
                let tag = RequestTag { asker, id, first, again };
                let question = Question { tag, hops, map_version, due_ns };
                if !self.answer_plain(link, &question, text, out) {
                    self.answer(link, (&question, 0), Cow::Borrowed(text), out.bytes_mut());
                }
                self.looks_again(link);
            }
            (Kind::Answering, Frame::Read { id, deadline_ms, age_ms, map_version, text }) => {
                let due_ns = now.mono_ns + u64::from(deadline_ms) * 1_000_000;
                let asker = Asker { cell: link.cell, life: link.incarnation, worker: 0 };
                let tag = RequestTag { asker, id, first: 0, again: 0 };
                let question = Question { tag, hops: 1, map_version, due_ns };
                self.answer_read(link, (&question, age_ms), text, out);
                self.looks_again(link);
            }
            (Kind::Answering, Frame::Used { key }) => self.jobs.executor.count_use(key),
            (Kind::Answering, Frame::Refusals { count }) => link.refusals.are_known(count),
            (Kind::Asking, Frame::Reply { id, again, verdict, map_version, text }) => {
                if self.jobs.peers.hears(link.cell, link.id(), now.mono_ns) {
                    self.jobs.answered(link.cell, (id, again), (verdict, map_version), text);
                }
            }
            (Kind::StreamOut, _) => self.streams.take_answer(link, frame, now.mono_ns),
            (Kind::StreamIn(_), _) => {
                let worker = &mut self.jobs.executor.inner.worker;
                worker.begin(now);
                return self.streams.take_entries(link, frame, worker, now, out.bytes_mut());
            }
            _ => link.end(),
        }
        true
    }

    /// Looks at the replies of `link` again a little later, if they wait for several logs.
    fn looks_again(&mut self, link: &Link) {
        if link.waits_in_several() && !self.split.contains(&link.id()) {
            self.split.push(link.id());
        }
    }

    /// Answers a plain `get`, `set` or `add` of another cell, which is executed straight into the
    /// frame of its reply. False, and nothing has happened, if it takes the general way.
    fn answer_plain(
        &mut self,
        link: &mut Link,
        &Question { ref tag, hops, map_version: asked_by_map, due_ns }: &Question,
        text: &[u8],
        out: &mut Reply,
    ) -> bool {
        let (id, executor) = ((tag.id, tag.again), &mut self.jobs.executor);
        let (map_version, mark) = (executor.version(), out.mark());
        let slice = || memcache::second_word(text).map(SliceId::of);
        let is_next = !self.parked.has(link.id(), slice) && !link.refusals.precede(0, slice);
        if hops > HOPS_MAX || !is_next {
            return false;
        }
        // Its text follows.
        write_reply(id, map_version, &[], out.bytes_mut());
        let value_bytes_max = executor.cell().options().limits.value_bytes_max;
        let answer = if tag.first == 0 {
            plain_get(text).and_then(|(key, _)| executor.get_plain(key, out))
        } else {
            // A change without a reply waits for copies, too: a read that follows it may go there.
            let plain = plain_store(text, value_bytes_max).filter(|(store, _)| !store.noreply);
            plain.and_then(|(store, _)| executor.store_plain(&store, (tag, asked_by_map), out))
        };
        let newest = executor.ring.newest_version();
        match answer {
            Some(Answer::Gate { log, seq }) => {
                end_frame(out.since_mut(mark));
                link.wait(Waiting { log, seq, due_ns, id }, out.since_mut(mark));
                out.rewind(mark);
            }
            Some(_) => {
                end_frame(out.since_mut(mark));
                set_reply_version(out.since_mut(mark), newest);
            }
            None => out.rewind(mark),
        }
        answer.is_some()
    }

    /// Answers a read of another cell: as a copy, where its answer may be `age_ms` old, or else as
    /// the primary.
    fn answer_read(
        &mut self,
        link: &mut Link,
        (question, age_ms): (&Question, u16),
        text: &[u8],
        out: &mut Reply,
    ) {
        let (id, executor) = ((question.tag.id, 0), &mut self.jobs.executor);
        let map_version = executor.version();
        let is_new = map_version >= question.map_version;
        if is_new && age_ms == 0 {
            as_copy::await_changes(executor, text);
            if !self.answer_plain(link, question, text, out) {
                self.answer(link, (question, 0), Cow::Borrowed(text), out.bytes_mut());
            }
            return;
        }
        let slice = executor.read(text).map(|(_, slice)| slice);
        let mut reply = std::mem::take(&mut self.composed);
        match is_new && as_copy::answer(executor, text, age_ms, &mut reply) {
            true => write_reply(id, map_version, reply.bytes_mut(), out.bytes_mut()),
            false => {
                let (verdict, text) = (Verdict::NotOwner, &NotNow::NotLed.text()[..]);
                let (id, again) = id;
                // What follows a read that only the primary may answer waits for it.
                link.refuses(slice.filter(|_| age_ms == 0));
                Frame::Reply { id, again, verdict, map_version, text }.encode(out.bytes_mut());
            }
        }
        reply.clear(COMPOSED_KEEP_BYTES);
        self.composed = reply;
    }

    /// Answers a request of another cell. The first `ignored` refusals on its link are of requests
    /// that have come after it.
    fn answer(
        &mut self,
        link: &mut Link,
        (question, ignored): (&Question, u64),
        text: Cow<'_, [u8]>,
        out: &mut Vec<u8>,
    ) {
        let &Question { tag, hops, map_version: asked_by_map, due_ns } = question;
        let (id, again, executor) = (tag.id, tag.again, &mut self.jobs.executor);
        let map_version = executor.version();
        let mut refuse = |link: &mut Link, slice, verdict, why: NotNow| {
            link.refuses(slice);
            let text = &why.text();
            Frame::Reply { id, again, verdict, map_version, text }.encode(out);
        };
        let Some((asked, slice)) = executor.read(&text) else {
            return refuse(link, None, Verdict::NotOwner, NotNow::Unknown);
        };
        if hops > HOPS_MAX {
            return refuse(link, Some(slice), Verdict::TooManyHops, NotNow::Unknown);
        }
        if link.refusals.precede(ignored, || Some(slice)) {
            return refuse(link, None, Verdict::NotOwner, NotNow::Unknown);
        }
        if self.parked.has(link.id(), || Some(slice)) {
            return self.park(link, (question, slice), text, out);
        }
        match executor.leads_asked(slice, &asked) {
            Leads::Yes => {}
            Leads::No(why) => return refuse(link, Some(slice), Verdict::NotOwner, why),
            Leads::Refused(line) => {
                let (verdict, text) = (Verdict::Refused, format!("{line}\r\n"));
                let text = text.as_bytes();
                return Frame::Reply { id, again, verdict, map_version, text }.encode(out);
            }
        }
        let mut reply = std::mem::take(&mut self.composed);
        let executed = match tag.first {
            0 => executor.execute(&asked, &mut reply),
            // Another life of that cell may have asked, and nobody knows any more what.
            _ if executor.is_over(&tag.asker) => Executed::NotNow(NotNow::Unknown),
            // What came of it, if it was asked again since and executed, is lost with the range.
            _ if executor.is_lost_since(slice, asked_by_map) => Executed::Forgotten,
            _ => {
                let in_order = link.features & peer::KEEPS_ORDER != 0;
                executor.execute_once((&asked, slice), (&tag, in_order), &mut reply)
            }
        };
        match executed {
            Executed::Done => {
                let newest = executor.ring.newest_version();
                write_reply((id, again), newest, reply.bytes_mut(), out);
            }
            Executed::Gate(log, seq) => {
                let (id, start) = ((id, again), out.len());
                write_reply(id, map_version, reply.bytes_mut(), out);
                link.wait(Waiting { log, seq, due_ns, id }, &out[start..]);
                out.truncate(start);
            }
            Executed::NotNow(NotNow::Below) => self.park(link, (question, slice), text, out),
            Executed::NotNow(why) => refuse(link, Some(slice), Verdict::NotOwner, why),
            Executed::Overtaken => {
                let (verdict, text) = (Verdict::Refused, OVERTAKEN.as_bytes());
                Frame::Reply { id, again, verdict, map_version, text }.encode(out);
            }
            Executed::Forgotten => {
                refuse(link, Some(slice), Verdict::Forgotten, NotNow::Unknown);
            }
        }
        reply.clear(COMPOSED_KEEP_BYTES);
        self.composed = reply;
    }

    /// Parks a request of another cell, or refuses it where too many are.
    fn park(
        &mut self,
        link: &mut Link,
        (question, slice): (&Question, SliceId),
        text: Cow<'_, [u8]>,
        out: &mut Vec<u8>,
    ) {
        if self.parked.takes(text.len(), self.jobs.bytes_max) {
            let request = (*question, slice, text.into_owned());
            return self.parked.push(link.id(), request, self.now_ns());
        }
        let RequestTag { id, again, .. } = question.tag;
        let (verdict, map_version) = (Verdict::NotOwner, self.jobs.executor.version());
        let text = &NotNow::Crowded.text();
        link.refuses(Some(slice));
        Frame::Reply { id, again, verdict, map_version, text }.encode(out);
    }

    /// Tries the requests of `link` again that wait for what lies below. One that is overdue is
    /// answered with the reason.
    fn try_parked(&mut self, link: &mut Link, out: &mut Vec<u8>) {
        // Until now only requests were refused that have come after them.
        let ignored = link.refusals.count();
        for (question, text) in self.parked.take(link.id()) {
            if !question.is_overdue(self.now_ns()) {
                self.answer(link, (&question, ignored), Cow::Owned(text), out);
                continue;
            }
            let RequestTag { id, again, .. } = question.tag;
            let (verdict, executor) = (Verdict::Refused, &self.jobs.executor);
            let map_version = executor.version();
            let why = executor.describe(NotNow::Below, Some(executor.ring.identity.cell));
            let text = format!("SERVER_ERROR {why}\r\n");
            let text = text.as_bytes();
            Frame::Reply { id, again, verdict, map_version, text }.encode(out);
        }
    }

    /// Appends the reply to request `id` of another cell, which was sent so often before: it is in
    /// doubt.
    pub(super) fn reply_in_doubt(&self, (id, again): (u64, u16), out: &mut Vec<u8>) {
        let (verdict, map_version, text) = (Verdict::InDoubt, self.ring().version(), &[][..]);
        Frame::Reply { id, again, verdict, map_version, text }.encode(out);
    }

    /// Something is wrong with the link to `cell`.
    pub(super) fn notes(&self, cell: CellId, what: &dyn std::fmt::Display) {
        self.ring().find(Finding::Broken { cell, what: what.to_string() });
    }
}

/// Appends the reply `text` to request `id` of another cell, which was sent so often before.
fn write_reply((id, again): (u64, u16), map_version: u64, text: &[u8], out: &mut Vec<u8>) {
    let verdict = Verdict::Done;
    Frame::Reply { id, again, verdict, map_version, text }.encode(out);
}

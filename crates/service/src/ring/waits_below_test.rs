//! Requests of other cells whose keys are not in memory: each waits here for one lookup below.

use super::RingService;
use super::cell::{Mail, Reach, RingCell};
use super::job::{Job, Origin, Repeat};
use super::links::{Kind, Link, LinkHandler};
use super::testing::{first_cell_of, leads_all};
use crate::loader::Loader;
use crate::testing::{NOW, VALUE_BYTES_MAX, cell_with_log};
use backend::{Directory, Fault, MemoryBackend};
use base::{Now, SliceId, Version};
use peer::{Frame, Verdict};
use session::{Handler, Order, Reply, WorkerId};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tier::{Ack, Failure, Recovered, Rules, TierConfig};

/// A worker that is not the first one: the one that wants a key is woken.
const WORKER: WorkerId = WorkerId(1);
const DEADLINE_MS: u16 = 1_950;

/// A worker of the only cell of a ring above a backend, and a link of another cell to it.
struct Rig {
    ring: Arc<RingCell>,
    backend: Arc<MemoryBackend>,
    loader: Loader,
    handler: RingService,
    link: Link,
    mail: Arc<Mutex<Vec<(WorkerId, Mail)>>>,
    directory: PathBuf,
}

impl Rig {
    fn new(test: &str) -> Self {
        let name = format!("volvox-{test}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        let disk: Arc<dyn tier::Disk> =
            Arc::new(Directory::open(&directory, "the tier").expect("a directory"));
        let config = TierConfig {
            rules: Arc::new(Rules::new(Ack::Memory, Vec::new()).expect("no prefix")),
            salvages: false,
            adopts: false,
            in_ring: true,
            journal_bytes: 40 << 20,
            index_bytes: 1 << 20,
            value_bytes_max: VALUE_BYTES_MAX,
            age_ns: 1,
            lookups_max: 4,
            missing_max: 100,
        };
        let backend = Arc::new(MemoryBackend::new());
        let first = |_: SliceId| Version::from_raw(1000);
        let names = ([7; 16], [9; 16]);
        let recovered = Recovered::find(&disk, backend.clone(), config, names, first);
        let cell = cell_with_log(64 << 20, true);
        cell.put_above(recovered.expect("a new journal"), NOW).expect("it begins");
        let loader = Loader::new(cell.clone()).expect("it has a tier");
        let ring = first_cell_of(cell, |_| ());
        let mail = Arc::new(Mutex::new(Vec::new()));
        let to = mail.clone();
        ring.set_reach(Reach {
            workers: 2,
            post: Box::new(move |worker, mail| {
                to.lock().expect("nobody panics").push((worker, mail));
            }),
            release: Box::new(|_| ()),
        });
        leads_all(&ring);
        mail.lock().expect("nobody panics").clear();
        let handler = RingService::new(ring.clone(), WORKER, 1);
        let conn = session::ConnId { worker: WORKER, index: 3, generation: 0 };
        let mut link = Link::accepting(conn, ring.acceptor(), ring.decoder());
        link.kind = Kind::Answering;
        Self { ring, backend, loader, handler, link, mail, directory }
    }

    /// The other cell asks. Returns what it reads at once: verdicts and texts.
    fn asks(&mut self, id: u64, text: &str, now: Now) -> Vec<(Verdict, String)> {
        self.asks_from((id, 1), text, now)
    }

    /// The same, where no request before the `first` is asked again.
    fn asks_from(
        &mut self,
        (id, first): (u64, u64),
        text: &str,
        now: Now,
    ) -> Vec<(Verdict, String)> {
        let is_read = text.starts_with("get ");
        let text = text.as_bytes();
        let frame = Frame::Request {
            id,
            deadline_ms: DEADLINE_MS,
            hops: 1,
            worker: 0,
            first: if is_read { 0 } else { first },
            again: 0,
            map_version: 1,
            text,
        };
        let mut out = Reply::new();
        assert!(self.handler.take_frame(&mut self.link, &frame, now, &mut out));
        self.ends_batch(now);
        self.replies(out.bytes_mut())
    }

    fn ends_batch(&mut self, now: Now) {
        self.handler.end_batch(now, || now);
    }

    fn replies(&self, bytes: &[u8]) -> Vec<(Verdict, String)> {
        let (decoder, mut used, mut found) = (self.ring.decoder(), 0, Vec::new());
        while let Some((frame, length)) = decoder.decode(&bytes[used..]).expect("frames") {
            let Frame::Reply { verdict, text, .. } = frame else { panic!("{frame:?}") };
            found.push((verdict, String::from_utf8(text.to_vec()).expect("a line")));
            used += length;
        }
        found
    }

    /// A lookup is carried out, and those who wait for it are woken.
    fn looks_up(&mut self, now: Now) {
        self.loader.run(|| now);
        for (worker, mail) in self.takes_mail().into_iter().filter(|(_, mail)| *mail == Mail::Woken)
        {
            assert_eq!(worker, WORKER, "it wants nothing");
            self.handler.deliver(now, mail);
        }
    }

    /// What was sent to workers since the last time.
    fn takes_mail(&self) -> Vec<(WorkerId, Mail)> {
        std::mem::take(&mut *self.mail.lock().expect("nobody panics"))
    }

    /// The link gets the turns that are ordered. Returns what the other cell reads.
    fn turns(&mut self, now: Now) -> Vec<(Verdict, String)> {
        let mut out = Vec::new();
        while let Some(order) = self.handler.take_order() {
            if matches!(order, Order::Turn(of) if of == self.link.id()) {
                assert!(self.handler.sends(&mut self.link, now, &mut out));
            }
        }
        self.ends_batch(now);
        self.replies(&out)
    }

    fn loads(&self) -> u64 {
        self.ring.cell.tiered().expect("a tier").tier().report().loads_missing
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn after(ms: u64) -> Now {
    Now { mono_ns: NOW.mono_ns + ms * 1_000_000, ..NOW }
}

fn done(text: &str) -> (Verdict, String) {
    (Verdict::Done, text.to_owned())
}

#[test]
fn a_thousand_requests_for_one_cold_key_wait_for_one_lookup() {
    let mut rig = Rig::new("one-lookup");
    for id in 1..=1000 {
        assert_eq!(rig.asks(id, "get cold\r\n", NOW), [], "nothing is known yet");
    }
    assert_eq!(rig.turns(after(3)), [], "nothing is tried again before");
    rig.looks_up(after(4));
    let replies = rig.turns(after(4));
    assert_eq!(replies.len(), 1000);
    assert!(replies.iter().all(|it| *it == done("END\r\n")), "{replies:?}");
    assert_eq!(rig.loads(), 1);
}

#[test]
fn what_follows_on_the_same_link_about_the_same_key_waits_too() {
    let mut rig = Rig::new("in-order");
    assert_eq!(rig.asks(1, "get cold\r\n", NOW), []);
    assert_eq!(rig.asks(2, "set cold 0 0 1\r\nv\r\n", NOW), [], "the one before comes first");
    assert_eq!(rig.asks(3, "set warm 0 0 1\r\nv\r\n", NOW), [done("STORED\r\n")]);
    rig.looks_up(NOW);
    assert_eq!(rig.turns(NOW), [done("END\r\n"), done("STORED\r\n")]);
}

#[test]
fn what_waits_after_one_that_is_refused_is_refused_too() {
    let mut rig = Rig::new("refused");
    rig.link.features = peer::KEEPS_ORDER;
    assert_eq!(rig.asks(1, "incr cold 1\r\n", NOW), []);
    assert_eq!(rig.asks_from((2, 2), "set warm 0 0 1\r\nv\r\n", NOW), [done("STORED\r\n")]);
    assert_eq!(rig.asks_from((3, 2), "set cold 0 0 1\r\nv\r\n", NOW), []);
    rig.looks_up(NOW);
    let verdicts = |replies: Vec<(Verdict, _)>| replies.into_iter().map(|it| it.0);
    assert!(verdicts(rig.turns(NOW)).eq([Verdict::Forgotten, Verdict::NotOwner]));
    let replies = rig.asks(4, "get cold\r\n", NOW);
    assert!(verdicts(replies).eq([Verdict::NotOwner]), "it has come after them");
    let (mut out, frame) = (Reply::new(), Frame::Refusals { count: 3 });
    assert!(rig.handler.take_frame(&mut rig.link, &frame, NOW, &mut out));
    assert_eq!(rig.asks(5, "get cold\r\n", NOW), [done("END\r\n")], "it was not stored");
}

#[test]
fn a_request_is_answered_before_the_other_cell_gives_up_and_says_what_it_waits_for() {
    let mut rig = Rig::new("overdue");
    assert_eq!(rig.asks(1, "incr cold 1\r\n", NOW), []);
    for ms in (0..1_900).step_by(100) {
        rig.ends_batch(after(ms));
        assert_eq!(rig.turns(after(ms)), [], "after {ms} ms");
    }
    let late = after(u64::from(DEADLINE_MS) - 20);
    assert!(rig.handler.wake_at_ns() < late.mono_ns, "the worker looks in time");
    rig.ends_batch(late);
    let why = "SERVER_ERROR cell 1 leads it, but has not read the key below in time: tier busy: \
               the database has not answered yet\r\n";
    assert_eq!(rig.turns(late), [(Verdict::Refused, why.to_owned())]);
}

#[test]
fn what_was_wanted_while_no_lookup_begins_is_tried_again_without_being_woken() {
    let mut rig = Rig::new("paused");
    rig.backend.fail_gets(1, Fault::Refused(Failure::Transient));
    assert_eq!(rig.asks(1, "get cold\r\n", NOW), []);
    rig.looks_up(NOW);
    assert_eq!(rig.turns(NOW), [], "the lookup has failed, and none begins for a while");
    rig.ends_batch(after(60));
    assert_eq!(rig.turns(after(60)), [], "it is looked up now");
    rig.looks_up(after(61));
    assert_eq!(rig.turns(after(61)), [done("END\r\n")]);
}

#[test]
fn nothing_is_kept_for_a_link_that_is_closed() {
    let mut rig = Rig::new("closed");
    assert_eq!(rig.asks(1, "get cold\r\n", NOW), []);
    rig.handler.closed(rig.link.id());
    rig.looks_up(NOW);
    assert!(rig.handler.take_order().is_none());
}

/// A request of another worker of this cell, which has no links.
fn lent(number: u64, due_ns: u64) -> Mail {
    let origin = Origin::Worker { worker: WorkerId(5), number };
    let what = (b"get cold\r\n".to_vec(), SliceId::of(b"cold"));
    Mail::Lent(Box::new(Job::new(origin, what, Repeat::Always, due_ns)))
}

#[test]
fn a_request_of_this_cell_waits_for_the_lookup_and_is_not_tried_all_the_time() {
    let mut rig = Rig::new("lent");
    let due_ns = after(u64::from(DEADLINE_MS)).mono_ns;
    for number in [8, 9] {
        rig.handler.deliver(NOW, lent(number, due_ns));
    }
    for ms in [0, 3, 6] {
        rig.ends_batch(after(ms));
    }
    assert!(rig.handler.wake_at_ns() > after(40).mono_ns, "nothing is to be done before");
    rig.looks_up(after(7));
    rig.ends_batch(after(7));
    let end = b"END\r\n".to_vec();
    let back = [8, 9].map(|number| Mail::Returned { number, reply: end.clone() });
    assert_eq!(rig.takes_mail(), back.map(|mail| (WorkerId(5), mail)));
}

#[test]
fn a_request_of_this_cell_that_is_overdue_gets_the_reason() {
    let mut rig = Rig::new("lent-overdue");
    let due = after(u64::from(DEADLINE_MS));
    rig.handler.deliver(NOW, lent(8, due.mono_ns));
    rig.ends_batch(NOW);
    while rig.handler.wake_at_ns() < due.mono_ns {
        let wake_ns = rig.handler.wake_at_ns();
        rig.ends_batch(Now { mono_ns: wake_ns, ..NOW });
    }
    assert_eq!(rig.takes_mail(), []);
    assert_eq!(rig.handler.wake_at_ns(), due.mono_ns);
    rig.ends_batch(due);
    let reply = b"SERVER_ERROR range 1 cannot be served: this cell leads it, but has not read the \
                  key below in time: tier busy: the database has not answered yet\r\n";
    let back = Mail::Returned { number: 8, reply: reply.to_vec() };
    assert_eq!(rig.takes_mail(), [(WorkerId(5), back)]);
}

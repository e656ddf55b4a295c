//! At which moment requests are executed.

use super::handler::RingService;
use super::testing::only_cell;
use crate::testing::NOW;
use crate::worker::Worker;
use base::Now;
use engine::{Put, WriteStatus};
use memcache::Key;
use session::{Answer, Conn, ConnId, Handler, Reply, Ticket, WorkerId};

#[test]
fn what_has_expired_for_one_worker_has_expired_for_one_whose_batch_began_before() {
    let ring = only_cell();
    let mut worker = Worker::new(ring.cell.clone());
    worker.begin(NOW);
    let put = Put { value: b"v", client_flags: 0, expiry_s: NOW.expiry_s + 1 };
    let wrote = worker.set(&ring.cell.engine().key(b"key"), put, NOW);
    assert_eq!(wrote, WriteStatus::Done);
    worker.end();
    let mut workers = [0, 1].map(|id| RingService::new(ring.clone(), WorkerId(id), 1));
    let mut finds = |worker: usize, after_s: u32| {
        let now = Now { expiry_s: NOW.expiry_s + after_s, ..NOW };
        let conn = Conn::new(ConnId { worker: WorkerId(0), index: 0, generation: 0 });
        let (key, mut reply) = (Key::new(b"key").expect("short"), Reply::new());
        let answer = workers[worker].get_now::<false>(now, &conn, key, &mut reply);
        assert!(!matches!(answer, Answer::Declined), "it leads the key");
        reply.bytes_mut().starts_with(b"VALUE")
    };
    assert!(finds(0, 0));
    assert!(!finds(1, 1));
    assert!(!finds(0, 0), "another worker has answered that it has expired");
}

#[test]
fn the_rest_of_a_reply_has_a_deadline_after_its_client_has_taken_the_first_parts() {
    let ring = only_cell();
    let mut service = RingService::new(ring, WorkerId(0), 1);
    let conn = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
    let taken = Now { mono_ns: NOW.mono_ns + 3_000_000_000, ..NOW };
    service.parts_sent(taken, Ticket { conn, request: 1 });
    assert!(service.worker.jobs.due_ns() > taken.mono_ns);
}

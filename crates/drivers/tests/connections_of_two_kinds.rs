//! A worker serves connections of several kinds: those of one listener speak memcached's protocol,
//! those of the other get every byte back.

mod support;

use base::Now;
use drivers::{Address, Config, Listen, Server};
use memcache::{Key, Limits, Refusal, Request, Store};
use session::{
    Answer, BatchEnd, Bounds, Cause, Conn, ConnId, Connection, Context, Flow, Handler, LogId,
    Outcome, Passed, Prompt, Reply, Resources, Serve, Session, Span, Ticket, Waited,
};

use support::client::Client;
use support::fake::{Delays, Fake, Items};
use support::{drivers, eventually};

/// A handler of sessions that answers at once, and of echoes.
struct Both(Fake<AtOnce>);

struct AtOnce;

impl Delays for AtOnce {
    fn outcome(&mut self, _: &[u8], _: Ticket, _: &mut Reply, _: session::Mark) -> Outcome {
        Outcome::Done
    }

    fn gate(&self, _: LogId, _: u64) -> Passed {
        Passed::Yes
    }
}

impl Handler for Both {
    type Mail = u64;

    fn limits(&self, conn: &Conn) -> &Limits {
        self.0.limits(conn)
    }

    fn call(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        self.0.call(now, conn, request, ticket, reply)
    }

    fn prompt(&self, conn: &Conn) -> Prompt {
        self.0.prompt(conn)
    }

    fn get_now<const GATED: bool>(&mut self, now: Now, key: Key<'_>, reply: &mut Reply) -> Answer {
        self.0.get_now::<GATED>(now, key, reply)
    }

    fn confirm(&self) -> bool {
        self.0.confirm()
    }

    fn executes_again(&mut self, gets: u32) {
        self.0.executes_again(gets);
    }

    fn store_now<const GATED: bool>(
        &mut self,
        now: Now,
        store: &Store<'_>,
        reply: &mut Reply,
    ) -> Answer {
        self.0.store_now::<GATED>(now, store, reply)
    }

    fn refused(
        &mut self,
        now: Now,
        conn: &mut Conn,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        reply: &mut Reply,
    ) {
        self.0.refused(now, conn, refusal, cause, reply);
    }

    fn overdue(&mut self, now: Now, waited: &Waited, reply: &mut Reply) {
        self.0.overdue(now, waited, reply);
    }

    fn gate(&self, log: LogId, seq: u64) -> Passed {
        self.0.gate(log, seq)
    }

    fn deliver(&mut self, now: Now, mail: u64) {
        self.0.deliver(now, mail);
    }

    fn closed(&mut self, conn: ConnId) {
        self.0.closed(conn);
    }

    fn end_batch(&mut self, now: Now, fresh: impl Fn() -> Now) -> BatchEnd {
        self.0.end_batch(now, fresh)
    }
}

/// A connection of either kind.
enum Kind {
    Session(Session),
    Echo(ConnId),
}

impl Serve for Both {
    type Connection = Kind;

    fn accept(&mut self, id: ConnId, listener: usize) -> Kind {
        if listener == 0 { Kind::Session(Session::new(id)) } else { Kind::Echo(id) }
    }
}

/// What an echo answers: what it has received, and nothing waits.
impl Connection<Both> for Kind {
    fn id(&self) -> ConnId {
        match self {
            Self::Session(session) => session.id(),
            Self::Echo(id) => *id,
        }
    }

    fn flow(&self) -> Flow {
        match self {
            Self::Session(session) => session.flow(),
            Self::Echo(_) => Flow::Idle,
        }
    }

    fn is_pending(&self) -> bool {
        matches!(self, Self::Session(session) if session.is_pending())
    }

    fn waits_for(&self) -> Option<Waited> {
        match self {
            Self::Session(session) => session.waits_for(),
            Self::Echo(_) => None,
        }
    }

    fn due_ns(&self) -> Option<u64> {
        match self {
            Self::Session(session) => session.due_ns(),
            Self::Echo(_) => None,
        }
    }

    fn has_ticket(&self) -> bool {
        matches!(self, Self::Session(session) if session.has_ticket())
    }

    fn awaits_rest(&self) -> bool {
        matches!(self, Self::Session(session) if session.awaits_rest())
    }

    fn is_at_rest(&self) -> bool {
        match self {
            Self::Session(session) => session.is_at_rest(),
            Self::Echo(_) => true,
        }
    }

    fn can_parse_in_place(&self) -> bool {
        match self {
            Self::Session(session) => session.can_parse_in_place(),
            Self::Echo(_) => true,
        }
    }

    fn receive_in_place(&mut self, input: &[u8], context: &mut Context<Both>) {
        match self {
            Self::Session(session) => session.receive_in_place(input, context),
            Self::Echo(_) => context.out.bytes_mut().extend_from_slice(input),
        }
    }

    fn receive(&mut self, input: &[u8], context: &mut Context<Both>) -> Flow {
        match self {
            Self::Session(session) => session.receive(input, context),
            Self::Echo(_) => {
                self.receive_in_place(input, context);
                Flow::Idle
            }
        }
    }

    fn resume(&mut self, context: &mut Context<Both>) -> Flow {
        match self {
            Self::Session(session) => session.resume(context),
            Self::Echo(_) => Flow::Idle,
        }
    }

    fn value_buffer(&mut self, resources: &Resources) -> Option<&mut Vec<u8>> {
        match self {
            Self::Session(session) => session.value_buffer(resources),
            Self::Echo(_) => None,
        }
    }

    fn complete(&mut self, ticket: Ticket, bytes: &[u8], last: bool) -> bool {
        match self {
            Self::Session(session) => session.complete(ticket, bytes, last),
            Self::Echo(_) => false,
        }
    }

    fn withhold(&mut self, span: Span, context: &mut Context<Both>) -> Span {
        match self {
            Self::Session(session) => session.withhold(span, context),
            Self::Echo(_) => span,
        }
    }

    fn release(&mut self, context: &mut Context<Both>) -> Flow {
        match self {
            Self::Session(session) => session.release(context),
            Self::Echo(_) => Flow::Idle,
        }
    }
}

#[test]
fn each_listener_has_its_kind_at_the_same_workers() {
    for driver in drivers() {
        let budget = base::MemoryBudget::new(64 << 20);
        let mut config = Config::new(Resources { bounds: Bounds::default(), budget });
        config.driver = driver;
        config.workers = 2;
        let port = Listen::Tcp("127.0.0.1:0".parse().expect("an address"));
        config.listen = vec![port.clone(), port];
        let factory = |_| Both(Fake::new(AtOnce, Items::default(), 1 << 20, 16 << 10));
        let server = Server::start(config, factory).expect("the loopback has free ports");
        let connect = |listener: usize| match &server.addresses()[listener] {
            Address::Tcp(address) => Client::tcp(*address),
            Address::Unix(_) => panic!("both are ports"),
        };
        let mut sessions: Vec<_> = (0..4).map(|_| connect(0)).collect();
        let mut echoes: Vec<_> = (0..4).map(|_| connect(1)).collect();
        for _ in 0..50 {
            for (session, echo) in sessions.iter_mut().zip(&mut echoes) {
                session.send(b"version\r\n");
                echo.ask(b"version\r\n", b"version\r\n");
                session.expect(b"VERSION 1\r\n");
            }
        }
        drop((sessions, echoes));
        eventually("all are closed", || server.remote().open() == 0);
    }
}

//! A worker serves connections of several kinds: those of one listener speak memcached's protocol,
//! those of the other get every byte back.

use drivers::{Address, Config, Listen, Server};
use session::{Bounds, ConnId, LogId, Mark, Outcome, Passed, Reply, Resources, Ticket};

use crate::support::client::Client;
use crate::support::fake::{Delays, Items};
use crate::support::kinds::{Kinds, Mixed, Other};
use crate::support::{drivers, eventually};

/// Sessions answer at once.
struct Echoes;

impl Delays for Echoes {
    fn outcome(&mut self, _: &[u8], _: Ticket, _: &mut Reply, _: Mark) -> Outcome {
        Outcome::Done
    }

    fn gate(&self, _: LogId, _: u64) -> Passed {
        Passed::Yes
    }
}

impl Kinds for Echoes {
    type Other = Echo;
    type Mail = u64;

    fn accept(&mut self, id: ConnId, listener: usize) -> Option<Echo> {
        (listener == 1).then_some(Echo(id))
    }
}

/// A client that gets every byte back.
struct Echo(ConnId);

impl Other<Echoes> for Echo {
    fn id(&self) -> ConnId {
        self.0
    }

    fn is_client(&self) -> bool {
        true
    }

    fn receive(&mut self, _: &mut Echoes, input: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(input);
    }

    fn awaits_rest(&self) -> bool {
        false
    }

    fn resume(&mut self, _: &mut Echoes, _: &mut Vec<u8>) {}
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
        let factory = |_| Mixed::new(Echoes, Items::default());
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

//! Both sides of a handshake.

use peer::{Acceptor, Connector, HandshakeError, Identity, Local, Purpose, Secret, Step, Target};

/// A cell of ring 7.
pub fn cell(cell: u32) -> Local {
    Local::new(Identity { ring: 7, cell, incarnation: 100 + u64::from(cell) })
}

/// What both know, if nothing else is said.
pub fn secret() -> Secret {
    Secret::new(b"the secret of the cluster").expect("long enough")
}

/// How one side has ended, or how far it is.
pub type End = Result<Step, HandshakeError>;

/// Both sides, and what was sent and not yet received.
pub struct Pair {
    /// The side that connects.
    pub connector: Connector,
    /// The side that accepts.
    pub acceptor: Acceptor,
    /// Bytes for the acceptor.
    pub to_acceptor: Vec<u8>,
    /// Bytes for the connector.
    pub to_connector: Vec<u8>,
}

impl Pair {
    /// Cell 1 connects to cell 2 for requests.
    pub fn new() -> Self {
        Self::of((&secret(), cell(1)), (&secret(), cell(2)), (2, Purpose::Requests))
    }

    /// The first connects to the second, and wants the cell with this number for this purpose.
    pub fn of(from: (&Secret, Local), to: (&Secret, Local), target: (u32, Purpose)) -> Self {
        let mut to_acceptor = Vec::new();
        let target = Target { cell: target.0, purpose: target.1 };
        let connector = Connector::new(from.0, from.1, target, [0xc0; 32], &mut to_acceptor);
        let acceptor = Acceptor::new(to.0, to.1, [0xac; 32]);
        Self { connector, acceptor, to_acceptor, to_connector: Vec::new() }
    }

    /// The acceptor receives all that was sent to it.
    pub fn accept(&mut self) -> End {
        let step = self.acceptor.receive(&self.to_acceptor, &mut self.to_connector);
        self.to_acceptor.drain(..step.as_ref().map_or(0, Step::consumed));
        step
    }

    /// The connector receives all that was sent to it.
    pub fn connect(&mut self) -> End {
        let step = self.connector.receive(&self.to_connector, &mut self.to_acceptor);
        self.to_connector.drain(..step.as_ref().map_or(0, Step::consumed));
        step
    }

    /// Both receive in turns, as far as they get. How the connector and the acceptor end.
    pub fn run(&mut self) -> (End, End) {
        let waits = |end: &End| matches!(end, Ok(Step::NeedMore { .. }));
        let (mut accepted, mut connected) = (self.accept(), self.connect());
        if waits(&accepted) {
            accepted = self.accept();
        }
        if waits(&connected) {
            connected = self.connect();
        }
        (connected, accepted)
    }
}

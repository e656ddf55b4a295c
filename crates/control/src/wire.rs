//! Frames over a socket: the handshake, then messages.

use peer::{
    Acceptor, Connector, Decoder, Frame, Identity, Local, Nonce, Secret, Session, Step, Target,
};
use ring::{CellId, Heartbeat};
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_user_timeout};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

/// How long a connection and its handshake may take.
pub(crate) const OPENING: Duration = Duration::from_millis(500);
/// How long the other side may take to receive what is sent.
const SENDING: Duration = Duration::from_secs(2);
/// How long sent bytes may stay unconfirmed by the system of the other end. After a cut, another
/// connection is there sooner than the system sends on the old one again.
const UNCONFIRMED: Duration = Duration::from_secs(1);
/// After so long without anything, the system asks whether the other end is there.
const IDLE: Duration = Duration::from_secs(10);
/// The longest frame.
const FRAME_BYTES_MAX: usize = 64 << 20;
/// Bytes that are received at once.
const READ_BYTES: usize = 64 << 10;

/// What arrives.
#[derive(Debug)]
pub(crate) enum Message {
    Heartbeat(Heartbeat),
    Call { id: u64, kind: u8, body: Vec<u8> },
    Answer { id: u64, ok: bool, body: Vec<u8> },
}

/// The receiving side of a connection.
pub(crate) struct Reader {
    socket: OwnedReadHalf,
    input: Vec<u8>,
    decoder: Decoder,
    said: Said,
}

/// What frames before a heartbeat have said last.
#[derive(Clone, Copy, Default)]
struct Said {
    /// Memory that is free at the sender.
    free_bytes: u64,
    /// The latest second that requests were shown there.
    shown_s: u32,
    /// Whether it may answer for what this cell copies, by the frame before the heartbeat.
    serves: bool,
}

/// The sending side.
pub(crate) struct Writer {
    socket: OwnedWriteHalf,
    /// The features of both cells.
    features: u64,
}

/// A connection after its handshake.
pub(crate) struct Wire {
    pub(crate) session: Session,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
}

/// A connection on its way to another thread.
pub(crate) struct Detached {
    session: Session,
    socket: std::net::TcpStream,
    input: Vec<u8>,
    decoder: Decoder,
    said: Said,
    features: u64,
}

/// Who this cell is in handshakes.
#[derive(Clone)]
pub(crate) struct Who {
    pub(crate) secret: Secret,
    pub(crate) local: Local,
}

impl Who {
    /// A cell that knows `secret`, and says how much memory it has free and which second it shows.
    pub(crate) fn new(secret: &Secret, identity: Identity) -> Self {
        let features = peer::SAYS_MEMORY | peer::SAYS_SHOWN | peer::SAYS_SERVES;
        let local = Local { features, ..Local::new(identity) };
        Self { secret: secret.clone(), local }
    }
}

impl Wire {
    /// Connects to `address`, where `target` is expected.
    pub(crate) async fn connect(
        address: SocketAddr,
        who: &Who,
        target: Target,
        nonce: Nonce,
    ) -> io::Result<Self> {
        let opening = async {
            let mut socket = TcpStream::connect(address).await?;
            prepare(&socket)?;
            let mut out = Vec::new();
            let mut connector = Connector::new(&who.secret, who.local, target, nonce, &mut out);
            socket.write_all(&out).await?;
            shake(socket, |input, out| connector.receive(input, out)).await
        };
        timeout(OPENING, opening).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Takes a connection that another cell has opened.
    pub(crate) async fn accept(socket: TcpStream, who: &Who, nonce: Nonce) -> io::Result<Self> {
        prepare(&socket)?;
        let mut acceptor = Acceptor::new(&who.secret, who.local, nonce);
        let opening = shake(socket, |input, out| acceptor.receive(input, out));
        timeout(OPENING, opening).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// It sends without delay, and breaks where the other end is gone without a word.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    set_socket_keepalive(socket, true)?;
    set_tcp_keepidle(socket, IDLE)?;
    Ok(set_tcp_user_timeout(socket, UNCONFIRMED.as_millis() as u32)?)
}

impl Wire {
    /// Takes it out of the runtime of this thread.
    pub(crate) fn detach(self) -> io::Result<Detached> {
        let Self { session, reader, writer } = self;
        let Reader { socket, input, decoder, said } = reader;
        let Writer { socket: write, features } = writer;
        let socket = socket.reunite(write).map_err(io::Error::other)?.into_std()?;
        Ok(Detached { session, socket, input, decoder, said, features })
    }
}

impl Detached {
    /// Goes on in the runtime of the calling task.
    pub(crate) fn attach(self) -> io::Result<Wire> {
        let Self { session, socket, input, decoder, said, features } = self;
        let (read, write) = TcpStream::from_std(socket)?.into_split();
        let reader = Reader { socket: read, input, decoder, said };
        Ok(Wire { session, reader, writer: Writer { socket: write, features } })
    }
}

async fn shake(
    mut socket: TcpStream,
    mut receive: impl FnMut(&[u8], &mut Vec<u8>) -> Result<Step, peer::HandshakeError>,
) -> io::Result<Wire> {
    let (mut input, mut out) = (Vec::new(), Vec::new());
    loop {
        if socket.read_buf(&mut input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        loop {
            out.clear();
            let step = receive(&input, &mut out);
            socket.write_all(&out).await?;
            let step = step.map_err(|error| io::Error::other(error.to_string()))?;
            input.drain(..step.consumed());
            match step {
                Step::Done { session, .. } => {
                    let (read, write) = socket.into_split();
                    let decoder = Decoder::new(FRAME_BYTES_MAX);
                    let reader = Reader { socket: read, input, decoder, said: Said::default() };
                    let writer = Writer { socket: write, features: session.features };
                    return Ok(Wire { session, reader, writer });
                }
                Step::NeedMore { consumed: 0 } => break,
                Step::NeedMore { .. } => {}
            }
        }
    }
}

impl Reader {
    /// The next message. Frames that are of no use here are an error.
    pub(crate) async fn next(&mut self) -> io::Result<Message> {
        loop {
            let decoded = self.decoder.decode(&self.input);
            if let Some((frame, bytes)) = decoded.map_err(io::Error::other)? {
                let said = match frame {
                    Frame::Memory { free } => Some(Said { free_bytes: free, ..self.said }),
                    Frame::Shown { second } => Some(Said { shown_s: second, ..self.said }),
                    Frame::Serves => Some(Said { serves: true, ..self.said }),
                    _ => None,
                };
                let message = Message::of(&frame, self.said);
                self.input.drain(..bytes);
                if let Some(said) = said {
                    self.said = said;
                    continue;
                }
                self.said.serves = false;
                return message.ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
            self.input.reserve(READ_BYTES);
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Writer {
    /// Sends a frame.
    pub(crate) async fn send(&mut self, frame: &Frame<'_>) -> io::Result<()> {
        let mut out = Vec::new();
        frame.encode(&mut out);
        self.send_bytes(&out).await
    }

    async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sending = self.socket.write_all(bytes);
        timeout(SENDING, sending).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Sends a heartbeat.
    pub(crate) async fn beat(&mut self, beat: &Heartbeat) -> io::Result<()> {
        let suspects: Vec<u8> =
            beat.suspects.iter().flat_map(|cell| cell.0.to_le_bytes()).collect();
        let frame = Frame::Heartbeat {
            sent_ns: beat.sent_ns,
            echo_ns: beat.echo_ns,
            heard_ns: beat.heard_ns,
            map_version: beat.map_version,
            ready_version: beat.ready_version,
            expiry_s: beat.expiry_s,
            suspects: &suspects,
        };
        let mut out = Vec::new();
        if self.features & peer::SAYS_MEMORY != 0 {
            Frame::Memory { free: beat.free_bytes }.encode(&mut out);
        }
        if self.features & peer::SAYS_SHOWN != 0 {
            Frame::Shown { second: beat.shown_s }.encode(&mut out);
        }
        if beat.serves && self.features & peer::SAYS_SERVES != 0 {
            Frame::Serves.encode(&mut out);
        }
        frame.encode(&mut out);
        self.send_bytes(&out).await
    }
}

impl Message {
    /// The message of `frame`, before which its sender has `said` this.
    fn of(frame: &Frame<'_>, Said { free_bytes, shown_s, serves }: Said) -> Option<Self> {
        Some(match *frame {
            Frame::Heartbeat {
                suspects,
                map_version,
                ready_version,
                sent_ns,
                echo_ns,
                heard_ns,
                expiry_s,
            } => {
                let (cells, _) = suspects.as_chunks();
                let suspects = cells.iter().map(|cell| CellId(u32::from_le_bytes(*cell)));
                let suspects = suspects.collect();
                let versions = Heartbeat { map_version, ready_version, ..Heartbeat::default() };
                let times = Heartbeat { sent_ns, echo_ns, heard_ns, expiry_s, ..versions };
                Self::Heartbeat(Heartbeat { suspects, free_bytes, shown_s, serves, ..times })
            }
            Frame::Call { id, kind, body } => Self::Call { id, kind, body: body.to_vec() },
            Frame::Answer { id, ok, body } => Self::Answer { id, ok, body: body.to_vec() },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::{socket_keepalive, tcp_user_timeout};
    use tokio::net::TcpListener;

    const FREE_BYTES: u64 = 5 << 30;

    fn who(cell: u32, features: u64) -> Who {
        let secret = Secret::new(&[9; 32]).expect("long enough");
        let who = Who::new(&secret, Identity { ring: 7, cell, incarnation: 1 });
        Who { local: Local { features, ..who.local }, ..who }
    }

    /// Both ends of a connection, by their features.
    async fn wires(features: [u64; 2]) -> (Wire, Wire) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let target = Target { cell: 2, purpose: peer::Purpose::Control };
        let (from, to) = (who(1, features[0]), who(2, features[1]));
        let accepting = async {
            let (socket, _) = listener.accept().await.expect("it connects");
            Wire::accept(socket, &to, [2; _]).await
        };
        let (from, to) = tokio::join!(Wire::connect(address, &from, target, [1; _]), accepting);
        (from.expect("it opens"), to.expect("it opens"))
    }

    /// What one cell hears of another.
    async fn heard(features: [u64; 2]) -> Heartbeat {
        let (mut from, mut to) = wires(features).await;
        let said = Heartbeat { free_bytes: FREE_BYTES, shown_s: 7, ..Heartbeat::default() };
        let heartbeat = Heartbeat { sent_ns: 3, serves: true, ..said };
        from.writer.beat(&heartbeat).await.expect("it is sent");
        let first = next(&mut to).await;
        from.writer.beat(&Heartbeat { serves: false, ..heartbeat }).await.expect("it is sent");
        assert!(!next(&mut to).await.serves, "it says so each time");
        first
    }

    async fn next(wire: &mut Wire) -> Heartbeat {
        match wire.reader.next().await.expect("it arrives") {
            Message::Heartbeat(heartbeat) => heartbeat,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_connection_breaks_where_nothing_is_confirmed_for_a_second() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let (from, to) = wires([0, 0]).await;
            for wire in [&from, &to] {
                let socket: &TcpStream = wire.writer.socket.as_ref();
                assert_eq!(tcp_user_timeout(socket), Ok(1_000));
                assert_eq!(socket_keepalive(socket), Ok(true));
            }
        });
    }

    #[test]
    fn free_memory_and_seconds_are_said_to_cells_that_understand_them() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let all = peer::SAYS_MEMORY | peer::SAYS_SHOWN | peer::SAYS_SERVES;
            let cases = [
                ([all, all], (3, FREE_BYTES, 7, true)),
                ([0, all], (3, 0, 0, false)),
                ([all, 0], (3, 0, 0, false)),
                ([all, peer::SAYS_MEMORY], (3, FREE_BYTES, 0, false)),
                ([peer::SAYS_SHOWN, all], (3, 0, 7, false)),
                ([all, peer::SAYS_SERVES], (3, 0, 0, true)),
            ];
            for (features, said) in cases {
                let it = heard(features).await;
                let heard = (it.sent_ns, it.free_bytes, it.shown_s, it.serves);
                assert_eq!(heard, said, "{features:?}");
            }
        });
    }
}

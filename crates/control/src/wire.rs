//! Frames over a socket: the handshake, then messages.

use peer::{Acceptor, Connector, Decoder, Frame, Local, Nonce, Secret, Session, Step, Target};
use ring::{CellId, Heartbeat};
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
}

/// The sending side.
pub(crate) struct Writer {
    socket: OwnedWriteHalf,
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
}

/// Who this cell is in handshakes.
#[derive(Clone)]
pub(crate) struct Who {
    pub(crate) secret: Secret,
    pub(crate) local: Local,
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
            socket.set_nodelay(true)?;
            let mut out = Vec::new();
            let mut connector = Connector::new(&who.secret, who.local, target, nonce, &mut out);
            socket.write_all(&out).await?;
            shake(socket, |input, out| connector.receive(input, out)).await
        };
        timeout(OPENING, opening).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Takes a connection that another cell has opened.
    pub(crate) async fn accept(socket: TcpStream, who: &Who, nonce: Nonce) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let mut acceptor = Acceptor::new(&who.secret, who.local, nonce);
        let opening = shake(socket, |input, out| acceptor.receive(input, out));
        timeout(OPENING, opening).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Wire {
    /// Takes it out of the runtime of this thread.
    pub(crate) fn detach(self) -> io::Result<Detached> {
        let Self { session, reader, writer } = self;
        let Reader { socket, input, decoder } = reader;
        let socket = socket.reunite(writer.socket).map_err(io::Error::other)?.into_std()?;
        Ok(Detached { session, socket, input, decoder })
    }
}

impl Detached {
    /// Goes on in the runtime of the calling task.
    pub(crate) fn attach(self) -> io::Result<Wire> {
        let Self { session, socket, input, decoder } = self;
        let (read, write) = TcpStream::from_std(socket)?.into_split();
        let reader = Reader { socket: read, input, decoder };
        Ok(Wire { session, reader, writer: Writer { socket: write } })
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
                    let reader = Reader { socket: read, input, decoder };
                    return Ok(Wire { session, reader, writer: Writer { socket: write } });
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
                let message = Message::of(&frame);
                self.input.drain(..bytes);
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
        let sending = self.socket.write_all(&out);
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
        self.send(&frame).await
    }
}

impl Message {
    fn of(frame: &Frame<'_>) -> Option<Self> {
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
                Self::Heartbeat(Heartbeat { suspects, ..times })
            }
            Frame::Call { id, kind, body } => Self::Call { id, kind, body: body.to_vec() },
            Frame::Answer { id, ok, body } => Self::Answer { id, ok, body: body.to_vec() },
            _ => return None,
        })
    }
}

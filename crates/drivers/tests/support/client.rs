//! A client that sends bytes and expects bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::PATIENCE;

/// One connection to the server under test.
pub struct Client(TcpStream);

impl Client {
    pub fn tcp(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("a fresh socket");
        Self::with_patience(stream)
    }

    /// Over a socket file; the calls on the descriptor are the same.
    pub fn unix(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("the server listens");
        Self::with_patience(TcpStream::from(OwnedFd::from(stream)))
    }

    fn with_patience(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a fresh socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a fresh socket");
        Self(stream)
    }

    /// The same connection, for another thread.
    pub fn twin(&self) -> Self {
        Self(self.0.try_clone().expect("descriptors are left"))
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the server reads");
    }

    /// Sends `bytes` and resets the connection, as the system does for a process that is killed
    /// with input unread.
    pub fn die_after(mut self, bytes: &[u8]) {
        self.send(bytes);
        let at_once = Some(std::time::Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&self.0, at_once).expect("an open socket");
    }

    /// Sends as much as the server takes while this client reads nothing.
    pub fn send_until_refused(&mut self, bytes: &[u8], total_max: usize) -> usize {
        self.0.set_nonblocking(true).expect("an open socket");
        let mut total = 0;
        let mut refusals = 0;
        while total < total_max && refusals < 1000 {
            match self.0.write(bytes) {
                Ok(count) => (total, refusals) = (total + count, 0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    refusals += 1;
                    std::thread::yield_now();
                }
                Err(_) => break,
            }
        }
        self.0.set_nonblocking(false).expect("an open socket");
        total
    }

    /// Receives exactly as much as `expected` and compares.
    pub fn expect(&mut self, expected: &[u8]) {
        let mut received = vec![0; expected.len()];
        self.0.read_exact(&mut received).expect("the server answers in time");
        if received != expected {
            let at = received.iter().zip(expected).take_while(|(a, b)| a == b).count();
            let around = |bytes: &[u8]| {
                let range = at.saturating_sub(20)..(at + 40).min(bytes.len());
                String::from_utf8_lossy(&bytes[range]).into_owned()
            };
            panic!("differs at {at}: {:?}, not {:?}", around(&received), around(expected));
        }
    }

    pub fn ask(&mut self, request: &[u8], reply: &[u8]) {
        self.send(request);
        self.expect(reply);
    }

    /// The server has closed the connection, or closes it in time.
    pub fn expect_end(&mut self) {
        let mut byte = [0];
        match self.0.read(&mut byte) {
            Ok(0) => {}
            // A read with a time-out is not begun again after a signal to its process.
            Err(error) if error.kind() == ErrorKind::Interrupted => self.expect_end(),
            Ok(_) => panic!("{:?} instead of an end", byte[0] as char),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error} instead of an end"),
        }
    }

    /// Receives everything until the server closes.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).expect("the server closes in time");
        bytes
    }

    pub fn finish_sending(&mut self) {
        self.0.shutdown(Shutdown::Write).expect("an open socket");
    }
}

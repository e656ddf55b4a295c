//! The address of a server, and how a connection to it is opened.
//!
//! An address is resolved once, when it is parsed. A name with several addresses is tried in order,
//! and the first that answers is used. Opening a connection and each wait of a conversation have a
//! deadline; errors name the address.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::{fmt, os::fd::OwnedFd, os::unix::net::UnixStream, str::FromStr, time::Duration};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::Error;

/// How long one connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;

/// A server's address, resolved once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `HOST:PORT`.
    Tcp(SocketAddr),
    /// `HOST:PORT` where the name has several addresses; the first one that answers is taken.
    Named(String, Vec<SocketAddr>),
    /// `unix:PATH`.
    Unix(PathBuf),
}

/// A connection for a conversation in turns.
pub trait Talk: Read + Write {
    /// Gives up each wait after `time`.
    fn limit(&self, time: Duration) -> io::Result<()>;
}

impl Talk for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

impl Talk for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

/// The first connection that opens, of all the addresses of a name; else what the last one said.
fn connect_any(addresses: &[SocketAddr], timeout: Duration) -> io::Result<TcpStream> {
    let mut outcome = Err(io::ErrorKind::AddrNotAvailable.into());
    for address in addresses {
        outcome = TcpStream::connect_timeout(address, timeout);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// A connection to a Unix socket. The kernel waits for room in a full backlog only as long as the
/// socket may take to send.
fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?).map_err(|errno| match errno {
        Errno::AGAIN => io::Error::new(io::ErrorKind::TimedOut, "its backlog stays full"),
        errno => errno.into(),
    })?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

impl Target {
    /// The same server by one address: of a name that has several, the first that answers.
    pub fn reached(&self) -> Result<Self, Error> {
        match self {
            Self::Named(_, addresses) => {
                let stream = connect_any(addresses, CONNECT_TIMEOUT);
                let address = stream.and_then(|stream| stream.peer_addr());
                let failed = |error| Error::io(format!("cannot connect to {self}"), error);
                Ok(Self::Tcp(address.map_err(failed)?))
            }
            one => Ok(one.clone()),
        }
    }

    /// All addresses of a host; none of a Unix socket.
    fn addresses(&self) -> &[SocketAddr] {
        match self {
            Self::Tcp(address) => std::slice::from_ref(address),
            Self::Named(_, addresses) => addresses,
            Self::Unix(_) => &[],
        }
    }

    /// A non-blocking connection.
    pub fn connect(&self) -> Result<OwnedFd, Error> {
        let open = || -> io::Result<OwnedFd> {
            if let Self::Unix(path) = self {
                let stream = connect_unix(path, CONNECT_TIMEOUT)?;
                stream.set_nonblocking(true)?;
                return Ok(stream.into());
            }
            let stream = connect_any(self.addresses(), CONNECT_TIMEOUT)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream.into())
        };
        open().map_err(|source| match source.kind() {
            io::ErrorKind::AddrNotAvailable => Error::Setting(format!(
                "cannot connect to {self}: no free port on this machine; connections of earlier \
                 runs hold theirs for a minute, so wait, lower --connections or use unix:PATH"
            )),
            _ => Error::io(format!("cannot connect to {self}"), source),
        })
    }

    /// A blocking connection that gives up on a silent server after `timeout`.
    pub fn talk(&self, timeout: Duration) -> io::Result<Box<dyn Talk>> {
        let talk: Box<dyn Talk> = match self {
            Self::Unix(path) => Box::new(connect_unix(path, timeout)?),
            host => Box::new(connect_any(host.addresses(), timeout)?),
        };
        talk.limit(timeout)?;
        Ok(talk)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Named(name, _) => f.write_str(name),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("unix: names no socket; write unix:PATH".to_string());
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let addresses = text
            .to_socket_addrs()
            .map_err(|error| format!("{text:?} is neither HOST:PORT nor unix:PATH: {error}"))?;
        let addresses: Vec<SocketAddr> = addresses.take(ADDRESSES_MAX).collect();
        match addresses[..] {
            [] => Err(format!("{text:?} has no address")),
            [address] => Ok(Self::Tcp(address)),
            _ => Ok(Self::Named(text.to_string(), addresses)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_and_print() {
        for text in ["127.0.0.1:11211", "[::1]:11211", "unix:/run/volvox.sock"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        let named = Target::Named("here:1".to_string(), Vec::new());
        assert_eq!(named.to_string(), "here:1");
        for text in ["", "unix:", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_address_of_a_name_is_tried() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        // No server listens at the first address, as at ::1 on many machines.
        let shut: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let named = Target::Named("both".to_string(), vec![shut, open]);
        assert_eq!(named.reached().unwrap(), Target::Tcp(open));
        assert!(named.connect().is_ok() && named.talk(CONNECT_TIMEOUT).is_ok());
        let error = Target::Named("none".to_string(), vec![shut, shut]).reached().unwrap_err();
        assert!(error.to_string().starts_with("cannot connect to none: "), "{error}");
    }

    #[test]
    fn a_full_backlog_ends_the_wait() {
        let path = std::env::temp_dir().join(format!("load-backlog-{}.sock", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let short = Duration::from_millis(30);
        let _first = connect_unix(&path, short).unwrap();
        let error = connect_unix(&path, short).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        std::fs::remove_file(&path).unwrap();
    }
}

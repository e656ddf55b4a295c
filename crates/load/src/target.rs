//! Where the server is, and how a connection to it is opened.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::Error;

/// How long one connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server's address, resolved once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `HOST:PORT`.
    Tcp(SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}

/// A connection for a conversation in turns.
pub(crate) trait Talk: Read + Write {}
impl Talk for TcpStream {}
impl Talk for UnixStream {}

impl Target {
    /// A non-blocking connection.
    pub(crate) fn connect(&self) -> Result<OwnedFd, Error> {
        let open = || -> io::Result<OwnedFd> {
            match self {
                Self::Tcp(address) => {
                    let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    Ok(stream.into())
                }
                Self::Unix(path) => {
                    let stream = UnixStream::connect(path)?;
                    stream.set_nonblocking(true)?;
                    Ok(stream.into())
                }
            }
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
    pub(crate) fn talk(&self, timeout: Duration) -> io::Result<Box<dyn Talk>> {
        Ok(match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, timeout)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Box::new(stream)
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Box::new(stream)
            }
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
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
        let mut addresses = text
            .to_socket_addrs()
            .map_err(|error| format!("{text:?} is neither HOST:PORT nor unix:PATH: {error}"))?;
        addresses.next().map(Self::Tcp).ok_or_else(|| format!("{text:?} has no address"))
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
        for text in ["", "unix:", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}

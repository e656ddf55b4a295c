//! An address to listen on, before any name is resolved.
//!
//! The text keeps its meaning when it is shown and parsed again. Only [`Listen::resolve`] uses the
//! network, and nothing here opens a socket.

use std::fmt::{Display, Formatter};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use super::field::Listed;

/// `host:port`, where the host is a name, an IPv4 address, an IPv6 address in brackets, or `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Name or address; `None` stands for every interface, IPv4 and IPv6.
    pub host: Option<String>,
    /// TCP port; 0 lets the system choose.
    pub port: u16,
}

impl Listen {
    /// memcached's port.
    pub const PORT_DEFAULT: u16 = 11211;

    /// `port` on `host`, or on every interface.
    #[must_use]
    pub fn new(host: Option<&str>, port: u16) -> Self {
        Self { host: host.map(str::to_owned), port }
    }

    /// Reads `host`, `host:port`, `[v6]`, `[v6]:port`, a bare IPv6 address, `*` or `*:port`.
    ///
    /// # Errors
    /// What is wrong with `text` and how it should look.
    pub fn parse(text: &str, port_default: u16) -> Result<Self, String> {
        let text = text.trim();
        let (host, port) = split(text)?;
        let port = match port {
            None => port_default,
            Some(digits) => digits
                .parse()
                .map_err(|_| format!("has port \"{digits}\"; a port is a number up to 65535"))?,
        };
        match host {
            "" => Err("names no host; write host:port, or *:port for every interface".to_owned()),
            "*" => Ok(Self::new(None, port)),
            host => Ok(Self::new(Some(host), port)),
        }
    }

    /// The socket addresses that it means. May block, because the resolver may use the network.
    ///
    /// # Errors
    /// The resolver's, when the host is a name that it does not know.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.host {
            None => Ok(vec![
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, self.port)),
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, self.port)),
            ]),
            Some(host) => {
                let mut addresses: Vec<_> = (host.as_str(), self.port).to_socket_addrs()?.collect();
                addresses.sort_unstable();
                addresses.dedup();
                Ok(addresses)
            }
        }
    }
}

impl Listed for Listen {
    const EXAMPLE: &'static str = "[\"127.0.0.1:11211\"]";

    fn parse(item: &str) -> Result<Self, String> {
        Self::parse(item, Self::PORT_DEFAULT).map_err(|why| format!("address \"{item}\" {why}"))
    }
}

/// Host and port of `text`; colons inside brackets, or more than one outside, belong to the host.
fn split(text: &str) -> Result<(&str, Option<&str>), String> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest
            .split_once(']')
            .ok_or("opens a bracket that is not closed; write [v6]:port".to_owned())?;
        return match after.strip_prefix(':') {
            None if after.is_empty() => Ok((host, None)),
            Some(port) => Ok((host, Some(port))),
            None => Err(format!("has \"{after}\" after the bracket; write [v6]:port")),
        };
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => Ok((text, None)),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

impl Display for Listen {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.host {
            None => write!(f, "*:{}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let cases = [
            ("127.0.0.1:11222", Some("127.0.0.1:11222")),
            ("127.0.0.1", Some("127.0.0.1:11211")),
            (" *:7 ", Some("*:7")),
            ("*", Some("*:11211")),
            ("[::1]:5", Some("[::1]:5")),
            ("[::1]", Some("[::1]:11211")),
            ("::1", Some("[::1]:11211")),
            ("cache.example:0", Some("cache.example:0")),
            ("", None),
            (":11211", None),
            ("a:65536", None),
            ("a:-1", None),
            ("[::1", None),
            ("[::1]5", None),
        ];
        for (text, shown) in cases {
            let parsed = Listen::parse(text, Listen::PORT_DEFAULT);
            assert_eq!(parsed.ok().map(|l| l.to_string()).as_deref(), shown, "{text}");
        }
    }

    #[test]
    fn every_interface_is_both_families() {
        let addresses = Listen::new(None, 5).resolve().expect("no resolver involved");
        assert!(addresses.iter().any(SocketAddr::is_ipv4));
        assert!(addresses.iter().any(SocketAddr::is_ipv6));
    }
}

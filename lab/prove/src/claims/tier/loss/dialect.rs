//! A connection that stores, removes and reads one key at a time, in the protocol of its server.

use std::io;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail};

use crate::instruments::Client;

/// Most bytes of one message of PostgreSQL.
const MESSAGE_MAX: usize = 1 << 20;

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// memcached's text.
    Memcached,
    /// Redis, by commands that are written in line.
    Redis,
    /// PostgreSQL, by simple queries of the table `kv`.
    Postgres,
}

/// A connection.
pub struct Speaker {
    dialect: Dialect,
    client: Client,
}

impl Speaker {
    /// Connects, and makes the table where there are tables.
    pub fn connect(dialect: Dialect, address: SocketAddr) -> Result<Self> {
        let mut speaker = Self { dialect, client: Client::connect(address)? };
        if dialect == Dialect::Postgres {
            let words = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
            let bytes = u32::try_from(4 + words.len())?.to_be_bytes();
            speaker.client.send(&[&bytes, &words[..]].concat())?;
            speaker.rows()?;
            speaker.query("CREATE TABLE IF NOT EXISTS kv (k text PRIMARY KEY, v text)")?;
        }
        Ok(speaker)
    }

    /// What a server that may not be ready yet answers for a key, on a connection of its own.
    pub fn answers(
        dialect: Dialect,
        address: SocketAddr,
        key: &str,
    ) -> io::Result<Option<Vec<u8>>> {
        let answer = Self::connect(dialect, address).and_then(|mut speaker| speaker.get(key));
        answer.map_err(io::Error::other)
    }

    /// Stores a value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match self.dialect {
            Dialect::Memcached => {
                let bytes = value.len();
                self.line(&format!("set {key} 0 0 {bytes}\r\n{value}"), &["STORED"])
            }
            Dialect::Redis => self.line(&format!("SET {key} {value}"), &["+OK"]),
            Dialect::Postgres => {
                let insert = format!("INSERT INTO kv VALUES ('{key}', '{value}')");
                self.query(&format!("{insert} ON CONFLICT (k) DO UPDATE SET v = excluded.v"))
                    .map(drop)
            }
        }
    }

    /// Removes a key, whether it is there or not.
    pub fn remove(&mut self, key: &str) -> Result<()> {
        match self.dialect {
            Dialect::Memcached => self.line(&format!("delete {key}"), &["DELETED", "NOT_FOUND"]),
            Dialect::Redis => self.line(&format!("DEL {key}"), &[":1", ":0"]),
            Dialect::Postgres => self.query(&format!("DELETE FROM kv WHERE k = '{key}'")).map(drop),
        }
    }

    /// Reads a key.
    pub fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        match self.dialect {
            Dialect::Memcached => {
                self.client.send(format!("get {key}\r\n").as_bytes())?;
                self.client.got()?.map_err(anyhow::Error::msg)
            }
            Dialect::Redis => {
                self.client.send(format!("GET {key}\r\n").as_bytes())?;
                let head = self.client.line()?;
                if head == "$-1" {
                    return Ok(None);
                }
                let bytes = head.strip_prefix('$').with_context(|| format!("answered {head:?}"))?;
                self.client.block(bytes.parse()?).map(Some)
            }
            Dialect::Postgres => self.query(&format!("SELECT v FROM kv WHERE k = '{key}'")),
        }
    }

    /// Sends a request that is answered by one of these lines.
    fn line(&mut self, request: &str, answers: &[&str]) -> Result<()> {
        self.client.send(format!("{request}\r\n").as_bytes())?;
        let answer = self.client.line()?;
        if !answers.contains(&answer.as_str()) {
            bail!("answered {answer:?}");
        }
        Ok(())
    }

    /// Has PostgreSQL carry out a statement; the first column of its last row.
    fn query(&mut self, statement: &str) -> Result<Option<Vec<u8>>> {
        let bytes = u32::try_from(4 + statement.len() + 1)?.to_be_bytes();
        self.client.send(&[&b"Q"[..], &bytes, statement.as_bytes(), b"\0"].concat())?;
        self.rows()
    }

    /// Reads messages until PostgreSQL is ready; the first column of the last row.
    fn rows(&mut self) -> Result<Option<Vec<u8>>> {
        let (mut row, mut failed) = (None, None);
        loop {
            let head = self.client.exactly(5)?;
            let bytes = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if !(4..=MESSAGE_MAX).contains(&bytes) {
                bail!("a message of PostgreSQL has {bytes} bytes");
            }
            let body = self.client.exactly(bytes - 4)?;
            match head[0] {
                // Two bytes count columns, four the bytes of the first.
                b'D' => row = Some(body.get(6..).unwrap_or_default().to_vec()),
                // An error before it is ready ends the connection.
                b'E' => failed = Some(String::from_utf8_lossy(&body).replace('\0', " ")),
                b'Z' => break,
                _ => {}
            }
            if let Some(failed) = failed.take_if(|failed| failed.contains("FATAL")) {
                bail!("PostgreSQL: {failed}");
            }
        }
        failed.map_or(Ok(row), |failed| bail!("PostgreSQL: {failed}"))
    }
}

//! Reads through a cell that was stopped: none may show what was replaced meanwhile.

use std::net::SocketAddr;

use anyhow::Result;

use crate::instruments::{Client, Ended, RingMap};

/// Keys that are looked at.
const STALE_KEYS: usize = 32;

/// What the cell that was stopped has answered.
#[derive(Default)]
pub struct StaleReads {
    /// How each read ended that was answered.
    pub ended: Vec<Ended>,
    /// The first error.
    pub error: Option<String>,
}

/// Reads through a cell that was stopped, of what was changed meanwhile through another one.
pub struct Stale {
    through: Client,
    other: Client,
    keys: Vec<String>,
}

impl Stale {
    /// Through the cell that will be stopped, of keys that it leads.
    pub fn prepare(
        victim: SocketAddr,
        other: SocketAddr,
        map: &RingMap,
        nth: usize,
    ) -> Result<Self> {
        let own = Client::connect(victim)?;
        let number = RingMap::read(&Client::connect(victim)?.stats_of("stats ring")?)?.cell;
        let names = (0..).map(|key| format!("stale-{nth}-{key}"));
        let keys = names.filter(|key| map.leads(number, key)).take(STALE_KEYS).collect();
        let mut stale = Self { through: own, other: Client::connect(other)?, keys };
        stale.set("old")?;
        Ok(stale)
    }

    /// Sets the keys through the other cell, up to the first that is not acknowledged: what is not
    /// known to be changed says nothing.
    fn set(&mut self, value: &str) -> Result<()> {
        for nth in 0..self.keys.len() {
            let key = &self.keys[nth];
            self.other.send(format!("set {key} 0 0 3\r\n{value}\r\n").as_bytes())?;
            if self.other.line()? != "STORED" {
                self.keys.truncate(nth);
                break;
            }
        }
        Ok(())
    }

    /// Changes the keys, then sends the reads.
    pub fn send(&mut self) -> Result<()> {
        self.set("new")?;
        let requests: String = self.keys.iter().map(|key| format!("get {key}\r\n")).collect();
        self.through.send(requests.as_bytes())
    }

    /// What was answered. A closed connection is no stale answer.
    pub fn read(mut self) -> StaleReads {
        let mut found = StaleReads::default();
        for _ in 0..self.keys.len() {
            found.ended.push(match self.through.got() {
                Ok(Ok(Some(value))) if value == b"new" => Ended::Well,
                Ok(Ok(_)) => Ended::Lost,
                Ok(Err(line)) => {
                    let ended = Ended::of_error(&line);
                    found.error.get_or_insert(line);
                    ended
                }
                Err(_) => return found,
            });
        }
        found
    }
}

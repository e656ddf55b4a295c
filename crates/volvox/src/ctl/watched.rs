//! The map of a ring, asked for again and again: of one cell, and of another one where that does
//! not answer any more. Orders are given to the same one.

use std::error::Error;
use std::time::Duration;

use super::client::{Client, NoAnswer};
use super::map::Map;
use super::survey::Survey;
use super::wanted::Wanted;

/// The cells that may be asked, and the one that is.
pub(super) struct Watched {
    addresses: Vec<String>,
    timeout: Duration,
    client: Option<Client>,
}

impl Watched {
    /// Of the cells that answer, `last` comes last: it may end.
    pub(super) fn new(survey: &Survey, last: Option<u32>, wanted: &Wanted) -> Self {
        let mut cells: Vec<_> = survey.answers().map(|(id, asked, _)| (id, &asked.at)).collect();
        cells.sort_by_key(|(id, _)| Some(*id) == last);
        let addresses = cells.into_iter().map(|(_, at)| at.clone()).collect();
        Self { addresses, timeout: wanted.timeout, client: None }
    }

    /// How long an answer may take.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The map.
    ///
    /// # Errors
    /// Why the last cell that was asked does not answer, where none does.
    pub(super) fn map(&mut self) -> Result<Map, Box<dyn Error>> {
        Ok(Map::parse(&self.ask(|client| client.stats("ring"))?)?)
    }

    /// Gives an order in the words of `stats ring`. What has changed since, or was not answered, is
    /// looked at again.
    ///
    /// # Errors
    /// The line that refuses it.
    pub(super) fn order(&mut self, words: &str) -> Result<(), Box<dyn Error>> {
        let line = self.ask(|client| {
            client.send(&format!("stats ring {words}"))?;
            client.next_line()
        })?;
        let has_changed = ["range", "cell"]
            .iter()
            .any(|what| line.starts_with(&format!("CLIENT_ERROR the {what} has changed")));
        match line == "OK" || has_changed {
            true => Ok(()),
            false => Err(NoAnswer::Line(line).into()),
        }
    }

    /// Asks a cell, and each other one in its turn where that does not answer.
    fn ask<T>(
        &mut self,
        request: impl Fn(&mut Client) -> Result<T, NoAnswer>,
    ) -> Result<T, NoAnswer> {
        let mut failed = NoAnswer::Closed;
        for _ in 0..=self.addresses.len() {
            let known = self.client.take().map(Ok);
            let Some(address) = self.addresses.first() else { break };
            let client = known.unwrap_or_else(|| Client::connect(address, self.timeout));
            match client.and_then(|mut client| Ok((request(&mut client)?, client))) {
                Ok((answer, client)) => {
                    self.client = Some(client);
                    return Ok(answer);
                }
                Err(error @ NoAnswer::Line(_)) => return Err(error),
                Err(error) => failed = error,
            }
            self.addresses.rotate_left(1);
        }
        Err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn another_cell_is_asked_where_one_closes_the_connection() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let at = |listener: &TcpListener| listener.local_addr().expect("an address").to_string();
        let addresses = listeners.iter().map(at).collect();
        let timeout = Duration::from_secs(10);
        let mut watched = Watched { addresses, timeout, client: None };
        let [first, second] = listeners;
        let cells = thread::spawn(move || {
            drop(first.accept().expect("it is asked first"));
            let (mut stream, _) = second.accept().expect("then this one");
            let mut request = [0; 64];
            let read = stream.read(&mut request).expect("a request");
            assert_eq!(&request[..read], b"stats ring stay 2 7\r\n");
            stream.write_all(b"OK\r\n").expect("it waits");
        });
        watched.order("stay 2 7").expect("the second one takes it");
        cells.join().expect("no thread has failed");
        assert!(watched.order("stay 2 7").is_err(), "nobody is left");
    }
}

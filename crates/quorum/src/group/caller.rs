//! Asks other cells: encodes, sends, waits no longer than it may, decodes.
//!
//! Every body carries the agreement of its sender. Between two of different agreements nothing is
//! done, and both get to know the later one.

use super::body::{Answer, Request, decode, encode};
use crate::transport::{Transport, Unreachable};
use ring::{Agreement, CellId};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// The way from one cell to all others.
pub struct Caller<T> {
    transport: Arc<T>,
    ring: u64,
    agreement: Agreement,
    /// The latest agreement that this cell has heard of.
    latest: watch::Sender<Agreement>,
}

impl<T> Clone for Caller<T> {
    fn clone(&self) -> Self {
        Self {
            transport: self.transport.clone(),
            ring: self.ring,
            agreement: self.agreement,
            latest: self.latest.clone(),
        }
    }
}

impl<T: Transport> Caller<T> {
    pub fn new(transport: T, ring: u64, agreement: Agreement) -> Self {
        let latest = watch::Sender::new(agreement);
        Self { transport: Arc::new(transport), ring, agreement, latest }
    }

    /// The same way for the cell in another agreement.
    pub fn of(&self, agreement: Agreement) -> Self {
        Self { agreement, ..self.clone() }
    }

    /// The ring that all bodies are about.
    pub fn ring(&self) -> u64 {
        self.ring
    }

    /// The request that another cell sent. `Err`: what it is to be answered.
    pub fn take(&self, body: &[u8]) -> Result<Request, Vec<u8>> {
        let (agreement, request) = decode(self.ring, body).ok_or_else(Vec::new)?;
        if agreement == self.agreement {
            return Ok(request);
        }
        self.hear(agreement);
        Err(self.answer(Answer::NotLeader(None)))
    }

    /// The bytes of an answer. None if they would be too many.
    pub fn answer(&self, answer: Answer) -> Vec<u8> {
        encode(self.ring, self.agreement, answer).unwrap_or_default()
    }

    /// The latest agreement of which this cell hears.
    pub fn latest(&self) -> watch::Receiver<Agreement> {
        self.latest.subscribe()
    }

    /// Whether a later agreement is known.
    pub fn is_superseded(&self) -> bool {
        *self.latest.borrow() > self.agreement
    }

    fn hear(&self, agreement: Agreement) {
        self.latest.send_if_modified(|latest| {
            let is_later = agreement > *latest;
            *latest = agreement.max(*latest);
            is_later
        });
    }

    /// Asks `to`, and waits at most `limit`.
    pub async fn ask(
        &self,
        to: CellId,
        request: Request,
        limit: Duration,
    ) -> Result<Answer, Unreachable> {
        let body = encode(self.ring, self.agreement, request).ok_or(Unreachable::NotSent)?;
        let answer = timeout(limit, self.transport.call(to, body)).await;
        let answer = answer.unwrap_or(Err(Unreachable::NoAnswer))?;
        let (agreement, answer) = decode(self.ring, &answer).ok_or(Unreachable::NoAnswer)?;
        if agreement == self.agreement {
            return Ok(answer);
        }
        // It did nothing for a cell of another agreement.
        self.hear(agreement);
        Err(Unreachable::NotSent)
    }
}

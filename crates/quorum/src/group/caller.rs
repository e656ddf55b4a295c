//! Asks other cells: encodes, sends, waits no longer than it may, decodes.

use super::body::{Answer, Request, decode, encode};
use crate::transport::{Transport, Unreachable};
use ring::CellId;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The way from one cell to all others.
pub struct Caller<T> {
    transport: Arc<T>,
    ring: u64,
}

impl<T> Clone for Caller<T> {
    fn clone(&self) -> Self {
        Self { transport: self.transport.clone(), ring: self.ring }
    }
}

impl<T: Transport> Caller<T> {
    pub fn new(transport: T, ring: u64) -> Self {
        Self { transport: Arc::new(transport), ring }
    }

    /// The ring that all bodies are about.
    pub fn ring(&self) -> u64 {
        self.ring
    }

    /// Asks `to`, and waits at most `limit`.
    pub async fn ask(
        &self,
        to: CellId,
        request: Request,
        limit: Duration,
    ) -> Result<Answer, Unreachable> {
        let body = encode(self.ring, request).ok_or(Unreachable::NotSent)?;
        let answer = timeout(limit, self.transport.call(to, body)).await;
        let answer = answer.unwrap_or(Err(Unreachable::NoAnswer))?;
        decode(self.ring, &answer).ok_or(Unreachable::NoAnswer)
    }
}

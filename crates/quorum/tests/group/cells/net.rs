//! The transport: a call is a call of the other cell, if the links between them are whole.

use super::Member;
use quorum::{Transport, Unreachable};
use ring::CellId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};

/// All cells and links.
#[derive(Clone, Default)]
pub struct Net(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    cells: BTreeMap<CellId, Weak<Member>>,
    /// Nothing passes from the first to the second.
    cut: BTreeSet<(CellId, CellId)>,
    /// By cell, how many calls and answers it has sent.
    sent: BTreeMap<CellId, u64>,
}

/// What one cell has of the net.
pub struct Wire {
    net: Net,
    from: CellId,
}

/// The cells of a test have no higher number.
const CELLS_MAX: u32 = 100;

impl Net {
    pub fn wire(&self, from: CellId) -> Wire {
        Wire { net: self.clone(), from }
    }

    pub fn plug(&self, id: CellId, member: &Arc<Member>) {
        self.0.lock().unwrap().cells.insert(id, Arc::downgrade(member));
    }

    pub fn unplug(&self, id: CellId) {
        self.0.lock().unwrap().cells.remove(&id);
    }

    /// Requests and answers from `from` to `to` are lost.
    pub fn cut(&self, from: CellId, to: CellId) {
        self.0.lock().unwrap().cut.insert((from, to));
    }

    /// Nothing passes between `cell` and any other.
    pub fn isolate(&self, cell: CellId) {
        for other in (1..=CELLS_MAX).map(CellId) {
            self.cut(cell, other);
            self.cut(other, cell);
        }
    }

    /// All links are whole.
    pub fn heal(&self) {
        self.0.lock().unwrap().cut.clear();
    }

    /// By cell, how many calls and answers it has sent.
    pub fn sent(&self) -> BTreeMap<CellId, u64> {
        self.0.lock().unwrap().sent.clone()
    }

    fn sends(&self, from: CellId) {
        *self.0.lock().unwrap().sent.entry(from).or_default() += 1;
    }

    fn is_cut(&self, from: CellId, to: CellId) -> bool {
        self.0.lock().unwrap().cut.contains(&(from, to))
    }
}

impl Transport for Wire {
    async fn call(&self, to: CellId, body: Vec<u8>) -> Result<Vec<u8>, Unreachable> {
        let from = self.from;
        self.net.sends(from);
        if self.net.is_cut(from, to) {
            return std::future::pending().await;
        }
        let member = self.net.0.lock().unwrap().cells.get(&to).and_then(Weak::upgrade);
        let member = member.ok_or(Unreachable::NotSent)?;
        // What has arrived goes on, whether the caller still waits or not.
        let answer = tokio::spawn(async move { member.handle(from, &body).await });
        let answer = answer.await.map_err(|_| Unreachable::NoAnswer)?;
        self.net.sends(to);
        if self.net.is_cut(to, from) {
            return std::future::pending().await;
        }
        Ok(answer)
    }
}

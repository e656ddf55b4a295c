//! The network: connections, and which cells cannot reach which.
//!
//! Each direction of a connection is a queue of chunks, which arrive in their order, each after a
//! random delay. A chunk that cannot pass is tried again a little later, as TCP does. The two
//! directions of a link are blocked apart.

use crate::scene::{Event, Life, PipeId, Scene};
use std::collections::{BTreeMap, VecDeque};

/// Between two attempts to send what cannot pass.
const RETRY_NS: u64 = 8_000_000;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    Cell(Life),
    Client(usize),
}

/// What arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    Data(Vec<u8>),
    /// The other side sends no more.
    End,
    /// The connection is broken.
    Reset,
}

/// A connection. Side 0 has opened it.
pub(crate) struct Pipe {
    pub(crate) parties: [Party; 2],
    /// What each side has sent, and has not arrived.
    chunks: [VecDeque<Chunk>; 2],
    /// When the latest of them arrives.
    last_ns: [u64; 2],
    /// Whether that side has closed.
    is_closed: [bool; 2],
}

/// All connections.
pub(crate) struct Net {
    pub(crate) pipes: BTreeMap<PipeId, Pipe>,
    next: PipeId,
    cells: usize,
    /// By cell and cell, how many faults block what one sends to the other.
    blocks: Vec<u32>,
    /// The same for the control plane alone.
    control_blocks: Vec<u32>,
    /// By cell and cell, what a chunk takes at least.
    latency_ns: Vec<u64>,
    /// By cell, what is added to each delay.
    pub(crate) slow_ns: Vec<u64>,
}

impl Net {
    /// The network of this number of cells.
    pub(crate) fn new(cells: usize, scene: &mut Scene) -> Self {
        let latency = (0..cells * cells).map(|_| scene.dice.duration(20_000, 1_000_000));
        Self {
            pipes: BTreeMap::new(),
            next: 1,
            cells,
            blocks: vec![0; cells * cells],
            control_blocks: vec![0; cells * cells],
            latency_ns: latency.collect(),
            slow_ns: vec![0; cells],
        }
    }

    /// Blocks what `from` sends to `to`, or takes one such block away.
    pub(crate) fn block(&mut self, from: usize, to: usize, is_blocked: bool) {
        count(&mut self.blocks[from * self.cells + to], is_blocked);
    }

    /// The same for what the control planes of two cells send each other.
    pub(crate) fn block_control(&mut self, between: [usize; 2], is_blocked: bool) {
        for [from, to] in [between, [between[1], between[0]]] {
            count(&mut self.control_blocks[from * self.cells + to], is_blocked);
        }
    }

    /// Whether nothing that `from` sends comes to `to`.
    pub(crate) fn is_blocked(&self, from: usize, to: usize) -> bool {
        self.blocks[from * self.cells + to] > 0
    }

    /// Whether nothing that the control plane of `from` sends comes to that of `to`.
    pub(crate) fn is_control_blocked(&self, from: usize, to: usize) -> bool {
        self.is_blocked(from, to) || self.control_blocks[from * self.cells + to] > 0
    }

    /// What a message of `from` to `to` takes.
    pub(crate) fn delay_ns(&self, from: usize, to: usize, scene: &mut Scene) -> u64 {
        let least = self.latency_ns[from * self.cells + to];
        let most = if scene.dice.per_mille(20) { 20 } else { 2 };
        let slow = self.slow_ns[from] + self.slow_ns[to];
        scene.dice.between(least, least * most) + scene.dice.below(slow + 1)
    }

    fn delay_between(&self, pipe: &Pipe, side: usize, scene: &mut Scene) -> u64 {
        match (pipe.parties[side], pipe.parties[1 - side]) {
            (Party::Cell(from), Party::Cell(to)) => self.delay_ns(from.cell, to.cell, scene),
            _ => scene.dice.duration(10_000, 400_000),
        }
    }

    /// A new connection.
    pub(crate) fn open(&mut self, parties: [Party; 2]) -> PipeId {
        let id = self.next;
        self.next += 1;
        let pipe =
            Pipe { parties, chunks: Default::default(), last_ns: [0; 2], is_closed: [false; 2] };
        self.pipes.insert(id, pipe);
        id
    }

    /// Which side of `pipe` the party is.
    pub(crate) fn side(&self, pipe: PipeId, party: Party) -> Option<usize> {
        self.pipes.get(&pipe)?.parties.iter().position(|it| *it == party)
    }

    /// Sends `chunk` from `side` of a connection.
    pub(crate) fn send(&mut self, id: PipeId, side: usize, chunk: Chunk, scene: &mut Scene) {
        if self.pipes.get(&id).is_some_and(|pipe| !pipe.is_closed[side]) {
            self.put(id, side, chunk, scene);
        }
    }

    /// The machine of `side` knows nothing of the connection: the other side finds a reset.
    pub(crate) fn reset(&mut self, id: PipeId, side: usize, scene: &mut Scene) {
        self.put(id, side, Chunk::Reset, scene);
    }

    fn put(&mut self, id: PipeId, side: usize, chunk: Chunk, scene: &mut Scene) {
        let mut chunks = Vec::new();
        match chunk {
            Chunk::Data(bytes) if bytes.len() > 1 && scene.dice.per_mille(250) => {
                let at = scene.dice.between(1, bytes.len() as u64 - 1) as usize;
                chunks.push(Chunk::Data(bytes[..at].to_vec()));
                chunks.push(Chunk::Data(bytes[at..].to_vec()));
            }
            other => chunks.push(other),
        }
        for chunk in chunks {
            let Some(pipe) = self.pipes.get(&id) else { return };
            let delay_ns = self.delay_between(pipe, side, scene);
            let Some(pipe) = self.pipes.get_mut(&id) else { return };
            let at_ns = (scene.now_ns + delay_ns).max(pipe.last_ns[side]);
            pipe.last_ns[side] = at_ns;
            pipe.chunks[side].push_back(chunk);
            scene.at(at_ns, Event::Deliver(id, side));
        }
    }

    /// One side closes: the other finds the end after what was sent, or a reset in its place.
    pub(crate) fn close(&mut self, id: PipeId, side: usize, resets: bool, scene: &mut Scene) {
        self.send(id, side, if resets { Chunk::Reset } else { Chunk::End }, scene);
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.is_closed[side] = true;
        }
    }

    /// One side is gone without a word: what it has sent and has not arrived is lost.
    pub(crate) fn vanish(&mut self, id: PipeId, side: usize) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.is_closed[side] = true;
            pipe.chunks[side].clear();
        }
    }

    /// Takes the chunk that arrives, and who gets it. `can_pass`: whether it can.
    pub(crate) fn arrive(
        &mut self,
        id: PipeId,
        side: usize,
        can_pass: bool,
        scene: &mut Scene,
    ) -> Option<(Chunk, Party)> {
        let pipe = self.pipes.get_mut(&id)?;
        if !can_pass && !pipe.chunks[side].is_empty() {
            let retry_ns = RETRY_NS / 2 + scene.dice.below(RETRY_NS);
            scene.after(retry_ns, Event::Deliver(id, side));
            return None;
        }
        let chunk = pipe.chunks[side].pop_front()?;
        let to = pipe.parties[1 - side];
        if pipe.is_closed == [true; 2] && pipe.chunks.iter().all(VecDeque::is_empty) {
            self.pipes.remove(&id);
        }
        Some((chunk, to))
    }
}

/// One more block, or one less.
fn count(blocks: &mut u32, is_blocked: bool) {
    *blocks = if is_blocked { *blocks + 1 } else { blocks.saturating_sub(1) };
}

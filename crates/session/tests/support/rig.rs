//! A session with everything around it that a driver would hold.

use std::io::IoSlice;

use base::{MemoryBudget, Now};
use session::{Bounds, ConnId, Context, Flow, Resources, Session, WorkerId};

use super::fake::{Delays, Fake};

/// The connection of every session under test.
pub const ID: ConnId = ConnId { worker: WorkerId(3), index: 5, generation: 7 };

/// One session, and what it has sent.
pub struct Rig<D> {
    pub session: Session,
    pub context: Context<Fake<D>>,
    pub sent: Vec<u8>,
}

impl<D: Delays> Rig<D> {
    pub fn new(handler: Fake<D>, bounds: Bounds, budget_bytes: u64) -> Self {
        let resources = Resources { bounds, budget: MemoryBudget::new(budget_bytes) };
        let context = Context::new(handler, Now { mono_ns: 1, expiry_s: 1 }, resources);
        Self { session: Session::new(ID), context, sent: Vec::new() }
    }

    pub fn receive(&mut self, input: &[u8]) -> Flow {
        self.session.receive(input, &mut self.context)
    }

    pub fn resume(&mut self) -> Flow {
        self.session.resume(&mut self.context)
    }

    pub fn release(&mut self) -> Flow {
        self.session.release(&mut self.context)
    }

    /// Ends the batch: what may not leave of the output is queued.
    pub fn end_batch(&mut self) {
        if self.context.has_held() && !self.context.held_may_leave() {
            let leaving = self.session.withhold(self.context.out.whole(), &mut self.context);
            self.context.out.cut_after(leaving);
            self.context.forget_held();
        }
    }

    /// Sends what stands in the output.
    pub fn send(&mut self) {
        self.end_batch();
        let mut slices = [IoSlice::new(&[]); 4096];
        let out = &mut self.context.out;
        let count = out.slices(out.whole(), &mut slices);
        self.sent.extend(slices[..count].iter().flat_map(|slice| slice.iter()));
        out.clear(0);
    }

    /// Everything sent since the last call.
    pub fn taken(&mut self) -> String {
        self.send();
        String::from_utf8(std::mem::take(&mut self.sent)).expect("the tests write text")
    }
}

//! Queues of connections that wait no longer: a connection that begins to wait takes one.
//!
//! So a worker whose connections wait again and again allocates nothing for it.

use super::queue::Pending;

/// Memory that the spare queues of a worker hold at most.
const SPARES_BYTES_MAX: usize = 1 << 20;

/// Queues without entries.
#[derive(Default)]
pub(crate) struct Spares {
    #[expect(clippy::vec_box, reason = "a queue moves between here and its connection by its box")]
    queues: Vec<Box<Pending>>,
    /// What they hold together.
    bytes: usize,
}

impl Spares {
    /// A queue for a connection that begins to wait.
    pub(crate) fn take(&mut self) -> Box<Pending> {
        match self.queues.pop() {
            Some(queue) => {
                self.bytes -= queue.heap_bytes();
                queue
            }
            None => Box::default(),
        }
    }

    /// The same, where the longest reply of late had that many bytes.
    pub(crate) fn take_for(&mut self, longest: usize) -> Box<Pending> {
        let mut queue = self.take();
        queue.expect(longest);
        queue
    }

    /// Takes the queue of a connection that waits no longer.
    pub(crate) fn give(&mut self, mut queue: Box<Pending>) {
        queue.reset();
        let bytes = queue.heap_bytes();
        if self.bytes + bytes <= SPARES_BYTES_MAX {
            self.bytes += bytes;
            self.queues.push(queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_queues_are_used_again_and_bounded() {
        let mut spares = Spares::default();
        let queues: Vec<_> = (0..100_000).map(|_| spares.take()).collect();
        let first: *const Pending = &*queues[0];
        for queue in queues {
            spares.give(queue);
        }
        assert!(spares.bytes <= SPARES_BYTES_MAX && spares.queues.len() > 100);
        while spares.queues.len() > 1 {
            drop(spares.take());
        }
        assert!(std::ptr::eq(first, &*spares.take()));
        assert_eq!(spares.bytes, 0);
    }
}

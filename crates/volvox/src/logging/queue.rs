//! A thread that writes lines for those that must not wait for an output.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait for an output at most; what comes beyond them is lost.
const LINES_MAX: usize = 8192;
/// How long the end of the process waits for an output.
const END_MAX: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    /// All before it is written: this sender is dropped.
    Written {
        _when: SyncSender<()>,
    },
}

/// The lines for one output; clones are for the same one.
#[derive(Clone)]
pub(super) struct Queue(SyncSender<Message>);

impl Queue {
    /// Starts a thread that writes to `output`.
    ///
    /// # Errors
    /// That the system refuses one.
    pub(super) fn start(output: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, messages) = sync_channel(LINES_MAX);
        let write_all = move || write(&messages, output);
        thread::Builder::new().name("log".to_owned()).spawn(write_all)?;
        Ok(Self(sender))
    }

    /// Waits until all lines before are written, a second at most. In a full queue, of an output
    /// that takes nothing, they are lost.
    pub(super) fn finish(&self) {
        let (when, written) = sync_channel(0);
        if self.0.try_send(Message::Written { _when: when }).is_ok() {
            // An error means that it was dropped, or that the time is over.
            let _ = written.recv_timeout(END_MAX);
        }
    }
}

fn write(messages: &Receiver<Message>, mut output: impl Write) {
    while let Ok(message) = messages.recv() {
        if let Message::Line(line) = message {
            // What cannot be written is lost.
            let _ = output.write_all(&line);
        }
    }
}

/// Each event is written by one call.
impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.0.try_send(Message::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Queue {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Sender;

    /// Takes a line when the test lets it.
    struct Slow(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(line.to_vec()).map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_thread_that_logs_does_not_wait_for_an_output_and_lines_have_a_bound() {
        let (lets, let_on) = std::sync::mpsc::channel();
        let (writes, written) = std::sync::mpsc::channel();
        let mut queue = Queue::start(Slow(let_on, writes)).expect("a thread");
        for line in 0..2 * LINES_MAX {
            queue.write_all(line.to_string().as_bytes()).expect("it is queued or lost");
        }
        for _ in 0..2 * LINES_MAX {
            lets.send(()).expect("it waits");
        }
        // The thread writes what waits, and ends.
        drop(queue);
        let lines: Vec<_> = written.iter().collect();
        // One may be under way besides those that wait.
        assert!(lines.len() == LINES_MAX || lines.len() == LINES_MAX + 1, "{}", lines.len());
        assert_eq!(lines.first().map(Vec::as_slice), Some(b"0".as_slice()));
    }
}

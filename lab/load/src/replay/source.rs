//! Where a trace comes from: a file, a pipe, or standard input.
//!
//! A read waits for whoever writes the pipe, but never past a stop: from then on the trace is at
//! its end. The first bytes tell whether it is compressed: Zstandard is unpacked, others are
//! refused. Bound: the buffers of one read, and what unpacking needs.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Stdin};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::unpack::Unpack;
use measure::Error;

/// The name of standard input.
pub(super) const STDIN: &str = "-";

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// The longest wait between two looks at the stop.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// First bytes of what must be unpacked by others, and who does.
const PACKED: [(&[u8], &str); 2] =
    [(&[0x1f, 0x8b, 0x08], "gunzip -c"), (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz -dc")];

/// Bytes that tell a compression.
const HEAD_BYTES: usize = 6;

/// The bytes of a trace, one after another.
pub(super) enum Source {
    /// As they stand there.
    Plain(BufReader<Input>),
    /// Unpacked.
    Packed(Box<BufReader<Unpack<BufReader<Input>>>>),
}

impl Source {
    /// Opens the trace at `path`, or standard input; it is at its end when `stop` is set.
    ///
    /// # Errors
    /// When it cannot be read, or is compressed by something else than Zstandard.
    pub fn open(path: &Path, stop: &Arc<AtomicBool>) -> Result<Self, Error> {
        let failed = |error| Error::io(format!("cannot read {}", path.display()), error);
        let file = if path.as_os_str() == STDIN {
            let stdin: Stdin = io::stdin();
            File::from(stdin.as_fd().try_clone_to_owned().map_err(failed)?)
        } else {
            File::open(path).map_err(failed)?
        };
        let input = Input::new(file, stop).map_err(failed)?;
        if let Some((_, how)) = PACKED.iter().find(|(magic, _)| input.head.starts_with(magic)) {
            let name = path.display();
            return Err(Error::Setting(format!(
                "{name} is compressed; unpack it on the way: \
                 {how} {name} | volvox load replay --trace -"
            )));
        }
        let packed = Unpack::<&[u8]>::knows(&input.head);
        let plain = BufReader::with_capacity(READ_BYTES, input);
        if !packed {
            return Ok(Self::Plain(plain));
        }
        Ok(Self::Packed(Box::new(BufReader::with_capacity(READ_BYTES, Unpack::new(plain)))))
    }

    fn reader(&mut self) -> &mut dyn BufRead {
        match self {
            Self::Plain(plain) => plain,
            Self::Packed(unpacked) => unpacked,
        }
    }

    /// The share that was read so far; none where nobody knows how much there is.
    pub fn share(&self) -> Option<f64> {
        let Input { taken, length, .. } = match self {
            Self::Plain(plain) => plain.get_ref(),
            Self::Packed(unpacked) => unpacked.get_ref().packed().get_ref(),
        };
        length.map(|length| *taken as f64 / length as f64)
    }
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.reader().read(out)
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::Plain(plain) => plain.fill_buf(),
            Self::Packed(unpacked) => unpacked.fill_buf(),
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.reader().consume(bytes);
    }
}

/// An open file that a stop ends.
pub(super) struct Input {
    file: File,
    stop: Arc<AtomicBool>,
    /// The first bytes, as long as they have not been asked for.
    head: Vec<u8>,
    /// Bytes read from the file.
    taken: u64,
    /// How many there are, where it is an ordinary file.
    length: Option<u64>,
}

impl Input {
    fn new(file: File, stop: &Arc<AtomicBool>) -> io::Result<Self> {
        let kind = file.metadata()?;
        let length = Some(kind.len()).filter(|length| kind.is_file() && *length > 0);
        let mut input = Self { file, stop: Arc::clone(stop), head: Vec::new(), taken: 0, length };
        // A pipe may bring less than was asked for.
        let mut head = [0; HEAD_BYTES];
        let mut have = 0;
        while have < HEAD_BYTES {
            match input.read(&mut head[have..]) {
                Ok(0) => break,
                Ok(bytes) => have += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        input.head = head[..have].to_vec();
        Ok(input)
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.head.is_empty() {
            let bytes = out.len().min(self.head.len());
            out[..bytes].copy_from_slice(&self.head[..bytes]);
            self.head.drain(..bytes);
            return Ok(bytes);
        }
        while !self.stop.load(Ordering::Relaxed) {
            let mut wanted = [PollFd::new(&self.file, PollFlags::IN)];
            if poll(&mut wanted, Some(&TICK))? > 0 {
                let bytes = self.file.read(out)?;
                self.taken += bytes as u64;
                return Ok(bytes);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::OwnedFd;

    /// The end that reads a new pipe, and the one that writes it.
    fn pipe(stop: bool) -> (File, io::PipeWriter, Arc<AtomicBool>) {
        let (reader, writer) = io::pipe().unwrap();
        (File::from(OwnedFd::from(reader)), writer, Arc::new(AtomicBool::new(stop)))
    }

    #[test]
    fn a_pipe_is_read_to_its_end_in_pieces() {
        let (file, mut writer, stop) = pipe(false);
        let writing = std::thread::spawn(move || {
            for piece in ["a", "bc", "defg", "hij"] {
                writer.write_all(piece.as_bytes()).unwrap();
            }
        });
        let mut input = Input::new(file, &stop).unwrap();
        assert_eq!((&input.head[..], input.length), (&b"abcdef"[..], None));
        let mut read = String::new();
        input.read_to_string(&mut read).unwrap();
        assert_eq!((read.as_str(), input.taken), ("abcdefghij", 10));
        writing.join().unwrap();
    }

    #[test]
    fn a_stop_ends_a_pipe_that_nobody_writes() {
        let (file, writer, stop) = pipe(true);
        let mut input = Input::new(file, &stop).unwrap();
        assert_eq!(input.read(&mut [0; 8]).unwrap(), 0);
        drop(writer);
    }
}

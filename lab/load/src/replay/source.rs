//! Where a trace comes from: a file, a pipe, or standard input.
//!
//! A read waits for the writer of a pipe, but never past a stop: from then on the trace is at its
//! end. The first bytes show whether it is compressed: Zstandard is unpacked, other forms are
//! refused. Bounds: the buffers of one read, and what unpacking needs.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::rc::Rc;
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

/// First bytes of compressed forms that are refused, and the program that unpacks each.
const PACKED: [(&[u8], &str); 2] =
    [(&[0x1f, 0x8b, 0x08], "gunzip -c"), (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz -dc")];

/// Bytes that identify a compressed form.
const HEAD_BYTES: u64 = 6;

/// Opens the trace at `path`, or standard input; it is at its end when `stop` is set.
///
/// # Errors
/// When it cannot be read, or is compressed in a form other than Zstandard.
pub(super) fn open(
    path: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<(Box<dyn BufRead>, Meter), Error> {
    let failed = |error| Error::io(format!("cannot read {}", path.display()), error);
    let file = if path.as_os_str() == STDIN {
        File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?)
    } else {
        File::open(path).map_err(failed)?
    };
    let mut input = Input::new(file, stop).map_err(failed)?;
    let head = input.head().map_err(failed)?;
    if let Some((_, how)) = PACKED.iter().find(|(magic, _)| head.starts_with(magic)) {
        let name = path.display();
        return Err(Error::Setting(format!(
            "{name} is compressed; unpack it on the way: \
             {how} {name} | volvox load replay --trace -"
        )));
    }
    let (packed, meter) = (Unpack::<&[u8]>::knows(&head), input.meter.clone());
    let plain = BufReader::with_capacity(READ_BYTES, Cursor::new(head).chain(input));
    if !packed {
        return Ok((Box::new(plain), meter));
    }
    Ok((Box::new(BufReader::with_capacity(READ_BYTES, Unpack::new(plain))), meter))
}

/// How far a file is read.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    /// Bytes read from the file.
    taken: Rc<Cell<u64>>,
    /// Its length, if it is an ordinary file.
    length: Option<u64>,
}

impl Meter {
    /// The share that was read so far; none where the length is unknown.
    pub fn share(&self) -> Option<f64> {
        self.length.map(|length| self.taken.get() as f64 / length as f64)
    }
}

/// An open file; a stop is its end.
struct Input {
    file: File,
    stop: Arc<AtomicBool>,
    meter: Meter,
}

impl Input {
    fn new(file: File, stop: &Arc<AtomicBool>) -> io::Result<Self> {
        let kind = file.metadata()?;
        let length = Some(kind.len()).filter(|length| kind.is_file() && *length > 0);
        let meter = Meter { taken: Rc::default(), length };
        Ok(Self { file, stop: Arc::clone(stop), meter })
    }

    /// The first bytes, fewer only of a shorter trace: one read of a pipe may bring less.
    fn head(&mut self) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        self.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok(head)
    }
}

impl Read for Input {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.stop.load(Ordering::Relaxed) {
            let mut wanted = [PollFd::new(&self.file, PollFlags::IN)];
            if poll(&mut wanted, Some(&TICK))? > 0 {
                let bytes = self.file.read(out)?;
                self.meter.taken.update(|taken| taken + bytes as u64);
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
        assert_eq!((&input.head().unwrap()[..], input.meter.length), (&b"abcdef"[..], None));
        let mut read = String::new();
        input.read_to_string(&mut read).unwrap();
        assert_eq!((read.as_str(), input.meter.taken.get()), ("ghij", 10));
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

//! The record of a disk, and the disk as a power cut may have left it.
//!
//! ```text
//! write write FLUSH write write write | cut
//! kept  kept        any part of these
//! ```
//!
//! What came before the last flush is there; of what came after it, any blocks are. The form of a
//! record is that of `tests/power_cut/recorder.py`.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use measure::rng::Rng;

/// Bytes of the head of an entry.
const HEAD_BYTES: u64 = 32;
/// A disk writes as much of it at once, or nothing.
const BLOCK_BYTES: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Write,
    Zeroes,
    Flush,
}

/// One thing that was done to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    ns: u64,
    offset: u64,
    bytes: u64,
    kind: Kind,
    /// Where in the record its bytes are.
    at: u64,
}

/// What was done to a disk.
pub struct Record {
    file: File,
    entries: Vec<Entry>,
}

impl Record {
    /// Reads which entries there are.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        let mut reader = BufReader::new(&file);
        let (mut entries, mut at) = (Vec::new(), 0);
        let mut head = [0; HEAD_BYTES as usize];
        loop {
            match reader.read_exact(&mut head) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                other => other.context("read the record")?,
            }
            let word = |at: usize| {
                let bytes = head[8 * at..8 * at + 8].try_into().expect("invariant: eight bytes");
                u64::from_le_bytes(bytes)
            };
            at += HEAD_BYTES;
            let kind = match word(3) {
                0 => Kind::Write,
                1 => Kind::Zeroes,
                2 => Kind::Flush,
                other => bail!("the record has an entry of kind {other}"),
            };
            let (ns, offset, bytes) = (word(0), word(1), word(2));
            entries.push(Entry { ns, offset, bytes, kind, at });
            if kind == Kind::Write {
                reader.seek_relative(i64::try_from(bytes)?).context("read the record")?;
                at += bytes;
            }
        }
        Ok(Self { file, entries })
    }

    /// When something was done to the disk, within a time.
    pub fn times(&self, from_ns: u64, to_ns: u64) -> Vec<u64> {
        let times = self.entries.iter().map(|entry| entry.ns);
        times.filter(|ns| (from_ns..to_ns).contains(ns)).collect()
    }

    /// The longest time from the first write after a flush to the next flush: what a sync takes.
    pub fn sync_max_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let (mut first, mut longest) = (None, 0);
        for entry in self.entries.iter().filter(|it| (from_ns..to_ns).contains(&it.ns)) {
            if entry.kind == Kind::Flush {
                longest = longest.max(first.take().map_or(0, |first| entry.ns - first));
            } else {
                first.get_or_insert(entry.ns);
            }
        }
        longest
    }

    /// How many entries a power cut at a time leaves for certain, and how many there are by then.
    fn cut(&self, cut_ns: u64) -> [usize; 2] {
        let end = self.entries.partition_point(|entry| entry.ns <= cut_ns);
        let flush = self.entries[..end].iter().rposition(|entry| entry.kind == Kind::Flush);
        [flush.map_or(0, |at| at + 1), end]
    }

    /// Writes a part of an entry to an image.
    fn apply(&self, entry: &Entry, skip: u64, bytes: u64, image: &File) -> Result<()> {
        let mut data = vec![0; usize::try_from(bytes)?];
        match entry.kind {
            Kind::Flush => return Ok(()),
            Kind::Zeroes => {}
            Kind::Write => {
                self.file.read_exact_at(&mut data, entry.at + skip).context("read the record")?;
            }
        }
        image.write_all_at(&data, entry.offset + skip).context("write an image")
    }
}

/// An image that follows a record, cut by cut.
pub struct Follower<'a> {
    record: &'a Record,
    image: File,
    /// Entries that it has.
    done: usize,
}

impl<'a> Follower<'a> {
    /// An image that is as the disk was when the record began.
    pub fn new(record: &'a Record, image: &Path) -> Result<Self> {
        let image = File::options().write(true).open(image).context("open the image")?;
        Ok(Self { record, image, done: 0 })
    }

    /// Brings the image to what is certain at a cut, no earlier than the last.
    pub fn advance(&mut self, cut_ns: u64) -> Result<()> {
        let [certain, _] = self.record.cut(cut_ns);
        while self.done < certain {
            let entry = &self.record.entries[self.done];
            self.record.apply(entry, 0, entry.bytes, &self.image)?;
            self.done += 1;
        }
        Ok(())
    }

    /// Adds to a copy of it any part of what was not flushed; how many blocks are there and not.
    pub fn tear(&self, copy: &Path, cut_ns: u64, rng: &mut Rng) -> Result<[u64; 2]> {
        let copy = File::options().write(true).open(copy).context("open the copy")?;
        let [certain, end] = self.record.cut(cut_ns);
        // All, none, and each part between are as likely.
        let kept_of = 1024;
        let kept_below = rng.below(kept_of + 1);
        let mut blocks = [0; 2];
        for entry in &self.record.entries[certain..end] {
            for [skip, bytes] in pieces(entry.offset, entry.bytes) {
                let is_kept = rng.below(kept_of) < kept_below;
                blocks[usize::from(!is_kept)] += 1;
                if is_kept {
                    self.record.apply(entry, skip, bytes, &copy)?;
                }
            }
        }
        Ok(blocks)
    }
}

/// The parts of a range that lie in different blocks: where each begins in it, and its bytes.
fn pieces(offset: u64, bytes: u64) -> impl Iterator<Item = [u64; 2]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece = (BLOCK_BYTES - (offset + at) % BLOCK_BYTES).min(bytes - at);
        at += piece;
        (piece > 0).then_some([at - piece, piece])
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// A record of this: two blocks of `a`, a flush, `b` in the first block, `c` in the second.
    fn record(name: &str) -> (Record, [PathBuf; 2]) {
        let folder = std::env::temp_dir().join(format!("record-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let paths = ["record", "image"].map(|name| folder.join(name));
        let mut bytes = Vec::new();
        let mut put = |ns: u64, offset: u64, kind: u64, data: &[u8]| {
            for word in [ns, offset, data.len() as u64, kind] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend(data);
        };
        put(10, 0, 0, &[b'a'; 8192]);
        put(20, 0, 2, b"");
        put(30, 4090, 0, b"bbbbbbcc");
        fs::write(&paths[0], bytes).unwrap();
        fs::write(&paths[1], [b'.'; 8192]).unwrap();
        (Record::open(&paths[0]).unwrap(), paths)
    }

    #[test]
    fn what_was_flushed_is_there_and_of_the_rest_any_blocks() {
        let (record, [_, image]) = record("cut");
        assert_eq!([15, 25, 30].map(|ns| record.cut(ns)), [[0, 1], [2, 2], [2, 3]]);
        let mut follower = Follower::new(&record, &image).unwrap();
        follower.advance(15).unwrap();
        assert_eq!(fs::read(&image).unwrap()[0], b'.', "not flushed");
        follower.advance(40).unwrap();
        assert_eq!(fs::read(&image).unwrap(), [b'a'; 8192]);
        let copy = image.with_extension("copy");
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            fs::copy(&image, &copy).unwrap();
            let blocks = follower.tear(&copy, 40, &mut Rng::new(seed, 0)).unwrap();
            assert_eq!(blocks[0] + blocks[1], 2);
            seen.insert(fs::read(&copy).unwrap()[4090..4098].to_vec());
        }
        let all = ["aaaaaaaa", "aaaaaacc", "bbbbbbaa", "bbbbbbcc"];
        assert!(seen.iter().map(Vec::as_slice).eq(all.map(str::as_bytes)), "{seen:?}");
        fs::remove_dir_all(image.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_sync_is_from_its_first_write_to_its_flush() {
        let (record, [path, _]) = record("sync");
        assert_eq!(record.sync_max_ns(0, 99), 10);
        assert_eq!(record.times(15, 30), [20]);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn pieces_end_where_blocks_do() {
        let all = |offset, bytes| pieces(offset, bytes).collect::<Vec<_>>();
        assert_eq!(all(4090, 8), [[0, 6], [6, 2]]);
        assert_eq!(all(0, 8192), [[0, 4096], [4096, 4096]]);
        assert!(all(5, 0).is_empty());
    }
}

//! A file of frames, written one after the other: each is on disk before the next is written.
//!
//! ```text
//! length u32 | crc32 u32 | number u64 | payload          little endian; the crc is of number and
//!                                                        payload; the first frame has number 0
//! ```
//!
//! So only the last frame can be torn by a crash. A broken frame is taken for torn, and cut off, if
//! no whole frame of a higher number begins anywhere after it; otherwise the file is broken, and
//! nothing of it is used. A last frame that was acknowledged and is damaged later looks like a torn
//! one.

use super::error::DiskError;
use super::whole::sync_parent;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Most bytes of a payload.
pub const FRAME_MAX: usize = 8 << 20;
/// Most bytes of a file.
const FILE_MAX: u64 = 64 << 20;
/// Bytes before the payload.
const HEAD: usize = 16;

/// Where a frame begins, and its payload.
type Frame = (u64, Vec<u8>);

/// The file, open for appending.
#[derive(Debug)]
pub struct Frames {
    path: PathBuf,
    file: File,
    bytes: u64,
    next: u64,
}

impl Frames {
    /// Replaces the file by one with a single frame. After a crash it is the old file or the new.
    pub fn create(path: &Path, first: &[u8]) -> Result<Self, DiskError> {
        let new = path.with_extension("new");
        let file = File::create(&new).map_err(DiskError::io("create", &new))?;
        let mut frames = Self { path: path.to_owned(), file, bytes: 0, next: 0 };
        frames.append(first)?;
        fs::rename(&new, path).map_err(DiskError::io("rename to", path))?;
        sync_parent(path)?;
        Ok(frames)
    }

    /// Opens the file and returns its payloads, each with the offset of its frame. Cuts off a torn
    /// frame at its end.
    pub fn open(path: &Path) -> Result<(Self, Vec<Frame>), DiskError> {
        let file = File::options().read(true).write(true).open(path);
        let mut file = file.map_err(|error| match error.kind() {
            ErrorKind::NotFound => DiskError::broken(path, 0, "it is absent"),
            _ => DiskError::io("open", path)(error),
        })?;
        let mut bytes = Vec::new();
        let read = (&mut file).take(FILE_MAX + 1).read_to_end(&mut bytes);
        read.map_err(DiskError::io("read", path))?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(DiskError::broken(path, FILE_MAX, "it is longer than 64 MiB"));
        }
        let mut payloads = Vec::new();
        let mut at = 0;
        while let Some((number, payload)) = frame_at(&bytes, at) {
            if number != payloads.len() as u64 {
                let what = format!("frame {number} follows frame {}", payloads.len());
                return Err(DiskError::broken(path, at as u64, what));
            }
            payloads.push((at as u64, payload.to_vec()));
            at += HEAD + payload.len();
        }
        let next = payloads.len() as u64;
        let later = |at: &usize| frame_at(&bytes, *at).is_some_and(|(number, _)| number > next);
        if let Some(later) = (at + 1..bytes.len()).find(later) {
            let what = format!("no frame begins there, but one does at byte {later}");
            return Err(DiskError::broken(path, at as u64, what));
        }
        if at < bytes.len() {
            file.set_len(at as u64).map_err(DiskError::io("cut", path))?;
            file.sync_all().map_err(DiskError::io("sync", path))?;
        }
        file.seek(SeekFrom::Start(at as u64)).map_err(DiskError::io("seek in", path))?;
        Ok((Self { path: path.to_owned(), file, bytes: at as u64, next }, payloads))
    }

    /// Appends a frame. When it returns, the frame is on disk. After an error nothing more may be
    /// appended: nobody knows what is on disk.
    pub fn append(&mut self, payload: &[u8]) -> Result<(), DiskError> {
        if payload.len() > FRAME_MAX {
            let error = ErrorKind::FileTooLarge.into();
            return Err(DiskError::io("write a frame above 8 MiB to", &self.path)(error));
        }
        let number = self.next.to_le_bytes();
        let mut frame = Vec::with_capacity(HEAD + payload.len());
        frame.extend((payload.len() as u32).to_le_bytes());
        frame.extend(checksum(&number, payload).to_le_bytes());
        frame.extend(number);
        frame.extend(payload);
        self.file.write_all(&frame).map_err(DiskError::io("write", &self.path))?;
        self.file.sync_data().map_err(DiskError::io("sync", &self.path))?;
        self.next += 1;
        self.bytes += frame.len() as u64;
        Ok(())
    }

    /// How long the file is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Number and payload of the frame that begins at `at`, if one does.
fn frame_at(bytes: &[u8], at: usize) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.get(at..)?.split_at_checked(HEAD)?;
    let length = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    if length > FRAME_MAX {
        return None;
    }
    let payload = rest.get(..length)?;
    let crc = u32::from_le_bytes(head[4..8].try_into().ok()?);
    let number: [u8; 8] = head[8..].try_into().ok()?;
    (checksum(&number, payload) == crc).then_some((u64::from_le_bytes(number), payload))
}

fn checksum(number: &[u8; 8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(number);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::scratch::Scratch;

    fn written(scratch: &Scratch) -> (PathBuf, Vec<Vec<u8>>) {
        let path = scratch.path().join("log");
        let payloads: Vec<Vec<u8>> = (0..4_u8).map(|at| vec![b'a' + at; 20]).collect();
        let mut frames = Frames::create(&path, &payloads[0]).unwrap();
        payloads[1..].iter().for_each(|payload| frames.append(payload).unwrap());
        assert_eq!(frames.bytes(), 4 * 36);
        (path, payloads)
    }

    fn read(path: &Path) -> (Frames, Vec<Vec<u8>>) {
        let (frames, payloads) = Frames::open(path).unwrap();
        assert!(payloads.iter().zip(0..3).all(|((offset, _), at)| *offset == at * 36));
        (frames, payloads.into_iter().map(|(_, payload)| payload).collect())
    }

    #[test]
    fn every_torn_tail_is_cut_off_and_the_rest_stays() {
        let scratch = Scratch::new();
        let (path, payloads) = written(&scratch);
        let whole = fs::read(&path).unwrap();
        for length in 0..=whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let (mut frames, kept) = read(&path);
            assert_eq!(kept, payloads[..length / 36], "{length} bytes");
            frames.append(b"more").unwrap();
            assert_eq!(read(&path).1.last().unwrap(), b"more", "{length} bytes");
        }
    }

    #[test]
    fn a_tail_of_zeros_or_of_garbage_is_torn() {
        let scratch = Scratch::new();
        let (path, payloads) = written(&scratch);
        let whole = fs::read(&path).unwrap();
        for tail in [vec![0; 5], vec![0; 5000], vec![0xA7; 300]] {
            fs::write(&path, [&*whole, &tail].concat()).unwrap();
            assert_eq!(read(&path).1, payloads);
        }
    }

    #[test]
    fn each_broken_byte_before_the_last_frame_is_an_error_that_names_its_frame() {
        let scratch = Scratch::new();
        let (path, _) = written(&scratch);
        let whole = fs::read(&path).unwrap();
        for at in 0..3 * 36 {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, &bytes).unwrap();
            let error = Frames::open(&path).map(drop).unwrap_err();
            let DiskError::Broken { path: named, offset, .. } = &error else { panic!("{error}") };
            assert_eq!((named, *offset), (&path, (at / 36 * 36) as u64), "byte {at}");
            assert!(error.to_string().contains("joins as a new one"), "{error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_that_names_it() {
        let scratch = Scratch::new();
        let (path, _) = written(&scratch);
        let file = File::open(&path).unwrap();
        let mut frames = Frames { path: path.clone(), file, bytes: 0, next: 4 };
        let error = frames.append(b"x").unwrap_err().to_string();
        assert!(
            error.contains("cannot write") && error.contains(path.to_str().unwrap()),
            "{error}"
        );
    }
}

//! The bytes of a file in pages. Copies share the pages that neither has changed, and a page
//! remembers its digest: so a test keeps a disk from before each call, and compares disks.

use measure::rng::mix;
use std::sync::{Arc, LazyLock, OnceLock};

/// Bytes of a page.
const PAGE: usize = 16 << 10;

#[derive(Clone)]
struct Page {
    bytes: [u8; PAGE],
    digest: OnceLock<u64>,
}

impl Page {
    fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| digest_of(&self.bytes))
    }
}

/// The page that has nothing but zeros.
static ZEROS: LazyLock<Arc<Page>> =
    LazyLock::new(|| Arc::new(Page { bytes: [0; PAGE], digest: OnceLock::new() }));

/// A number that stands for bytes.
pub fn digest_of(bytes: &[u8]) -> u64 {
    // Four sums side by side: each step of one waits for the step before it.
    let mut sums = [1, 2, 3, 4].map(|lane| mix(bytes.len() as u64 + lane));
    for part in bytes.chunks(32) {
        let mut words = [0; 32];
        words[..part.len()].copy_from_slice(part);
        for (sum, word) in sums.iter_mut().zip(words.as_chunks::<8>().0) {
            let mixed = sum.rotate_left(5) ^ u64::from_le_bytes(*word);
            *sum = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }
    sums.into_iter().fold(0, |all, sum| mix(mix(all) ^ sum))
}

/// The bytes of a file.
#[derive(Clone, Default)]
pub(crate) struct Bytes {
    pages: Vec<Arc<Page>>,
    len: usize,
}

impl Bytes {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Cuts them, or adds zeros.
    pub(crate) fn resize(&mut self, len: usize) {
        if len < self.len {
            // What is added later begins with zeros.
            let end = (len.div_ceil(PAGE) * PAGE).min(self.len);
            self.put(len, &vec![0; end - len]);
        }
        self.pages.resize_with(len.div_ceil(PAGE), || ZEROS.clone());
        self.len = len;
    }

    /// Writes at an offset. They become more if they must.
    pub(crate) fn put(&mut self, mut at: usize, mut bytes: &[u8]) {
        if self.len < at + bytes.len() {
            self.resize(at + bytes.len());
        }
        while !bytes.is_empty() {
            let from = at % PAGE;
            let (now, later) = bytes.split_at(bytes.len().min(PAGE - from));
            let page = &mut self.pages[at / PAGE];
            if page.bytes[from..from + now.len()] != *now {
                let page = Arc::make_mut(page);
                page.bytes[from..from + now.len()].copy_from_slice(now);
                page.digest.take();
            }
            (at, bytes) = (at + now.len(), later);
        }
    }

    /// Fills `into` with what lies at an offset. Returns false where they end before.
    pub(crate) fn read(&self, mut at: usize, mut into: &mut [u8]) -> bool {
        if self.len < at + into.len() {
            return false;
        }
        while !into.is_empty() {
            let from = at % PAGE;
            let bytes = into.len().min(PAGE - from);
            let (now, later) = into.split_at_mut(bytes);
            now.copy_from_slice(&self.pages[at / PAGE].bytes[from..from + bytes]);
            (at, into) = (at + bytes, later);
        }
        true
    }

    /// All of them.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut all = vec![0; self.len];
        self.read(0, &mut all);
        all
    }

    /// A number that stands for them.
    pub(crate) fn digest(&self) -> u64 {
        let pages = self.pages.iter().map(|page| page.digest());
        pages.fold(mix(self.len as u64), |sum, page| mix(sum.rotate_left(1) ^ page))
    }
}

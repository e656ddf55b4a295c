//! Reading numbers and parts of an object, each of which may be missing, and its checksum.

/// What is left to read.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next two bytes, little-endian.
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight.
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Begins an object with these letters; [`close`] ends it.
pub(crate) fn begin(magic: &[u8; 8], capacity: usize) -> Vec<u8> {
    let mut object = Vec::with_capacity(capacity + magic.len() + 4);
    object.extend_from_slice(magic);
    object
}

/// Ends an object with its checksum.
pub(crate) fn close(mut object: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&object);
    object.extend_from_slice(&crc.to_le_bytes());
    object
}

/// What stands between these letters and the checksum; `None` if it is not what was written.
pub(crate) fn open<'a>(magic: &[u8; 8], object: &'a [u8]) -> Option<Reader<'a>> {
    let (body, crc) = object.split_last_chunk::<4>()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return None;
    }
    body.strip_prefix(magic).map(Reader)
}

//! Fields as bytes: numbers in little-endian order, and what follows them.

/// The bytes end before the fields do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short;

/// Bytes of the length that every message begins with.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Takes fields off the front of bytes.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Short)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Short> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Short> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Fields that are appended together: more than any message has before its body.
const TOGETHER_BYTES: usize = 64;

/// Appends one message: its length, its kind and its fields. Fields are collected, and appended
/// together: most messages are short, and are appended as one or two pieces.
pub(crate) struct Message<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    /// Fields that are not appended yet.
    fields: [u8; TOGETHER_BYTES],
    filled: usize,
}

impl<'o> Message<'o> {
    /// Begins a message of this kind.
    #[inline(always)]
    pub(crate) fn begin(kind: u8, out: &'o mut Vec<u8>) -> Self {
        let mut fields = [0; TOGETHER_BYTES];
        fields[LENGTH_BYTES] = kind;
        Self { start: out.len(), out, fields, filled: LENGTH_BYTES + 1 }
    }

    #[inline(always)]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.append();
        self.out.extend_from_slice(bytes);
        self
    }

    #[inline(always)]
    pub(crate) fn u8(&mut self, number: u8) -> &mut Self {
        self.field([number])
    }

    #[inline(always)]
    pub(crate) fn u16(&mut self, number: u16) -> &mut Self {
        self.field(number.to_le_bytes())
    }

    #[inline(always)]
    pub(crate) fn u32(&mut self, number: u32) -> &mut Self {
        self.field(number.to_le_bytes())
    }

    #[inline(always)]
    pub(crate) fn u64(&mut self, number: u64) -> &mut Self {
        self.field(number.to_le_bytes())
    }

    /// Writes the length, which counts `rest_bytes` more than there are yet. Returns the whole
    /// length of the message.
    #[inline(always)]
    pub(crate) fn end(mut self, rest_bytes: usize) -> usize {
        self.append();
        let bytes = self.out.len() - self.start + rest_bytes;
        let length = ((bytes - LENGTH_BYTES) as u32).to_le_bytes();
        self.out[self.start..self.start + LENGTH_BYTES].copy_from_slice(&length);
        bytes
    }

    #[inline(always)]
    fn field<const N: usize>(&mut self, bytes: [u8; N]) -> &mut Self {
        if self.filled + N > TOGETHER_BYTES {
            self.append();
        }
        self.fields[self.filled..self.filled + N].copy_from_slice(&bytes);
        self.filled += N;
        self
    }

    /// Appends the fields that are collected.
    #[inline(always)]
    fn append(&mut self) {
        self.out.extend_from_slice(&self.fields[..self.filled]);
        self.filled = 0;
    }
}

/// Writes the length of `message`, which is one as a whole.
pub(crate) fn set_length(message: &mut [u8]) {
    let length = ((message.len() - LENGTH_BYTES) as u32).to_le_bytes();
    message[..LENGTH_BYTES].copy_from_slice(&length);
}

/// The length of the message that `input` begins with, its length included. `None` until the
/// length has arrived.
pub(crate) fn message_bytes(input: &[u8]) -> Option<usize> {
    let length = input.first_chunk().map(|length| u32::from_le_bytes(*length))?;
    Some((length as usize).saturating_add(LENGTH_BYTES))
}

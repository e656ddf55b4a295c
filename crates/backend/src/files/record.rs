//! The bytes of the file of a key or note.
//!
//! ```text
//! bytes of the key u8 | bytes of the record u64 | key | record          little endian
//! ```
//!
//! The key shows whose file it is. The lengths show a file that was cut or extended. There is no
//! checksum: a byte that changed inside a record is not noticed here.

/// Bytes before the key.
const HEAD: usize = 9;

/// The file of `record`, of a key or the name of a note. `None` if that has more than 255 bytes.
pub fn compose(key: &[u8], record: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(HEAD + key.len() + record.len());
    bytes.push(u8::try_from(key.len()).ok()?);
    bytes.extend((record.len() as u64).to_le_bytes());
    bytes.extend(key);
    bytes.extend(record);
    Some(bytes)
}

/// The key and the record of a file. `None` if it is none.
pub fn parse(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&key_bytes, rest) = bytes.split_first()?;
    let (record_bytes, rest) = rest.split_first_chunk()?;
    let (key, record) = rest.split_at_checked(usize::from(key_bytes))?;
    (u64::from_le_bytes(*record_bytes) == record.len() as u64).then_some((key, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written_and_no_other_length_is_read() {
        for (key, record) in [(&b"k"[..], &b""[..]), (b"", b"r"), (&[9; 255], &[7; 1000])] {
            let mut bytes = compose(key, record).unwrap();
            assert_eq!(parse(&bytes), Some((key, record)));
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), None, "cut at {cut}");
            }
            bytes.push(0);
            assert_eq!(parse(&bytes), None);
        }
        assert_eq!(compose(&[9; 256], b""), None);
    }
}

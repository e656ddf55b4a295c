//! Keys in base64 (RFC 4648, with padding), which the meta flag `b` announces.
//!
//! memcached skips characters outside the alphabet. Here they are an error, because a reply returns
//! the token as the client sent it. Bits that are left over before the padding are ignored, as in
//! memcached.
//!
//! Nothing here allocates, except what the caller's buffer needs to grow. Lengths are bytes.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The mark of a character outside the alphabet.
const OUTSIDE: u8 = 0xff;

/// The six bits of each character of the alphabet.
const SEXTETS: [u8; 256] = {
    let mut table = [OUTSIDE; 256];
    let mut bits = 0;
    while bits < ALPHABET.len() {
        table[ALPHABET[bits] as usize] = bits as u8;
        bits += 1;
    }
    table
};

/// The number of bytes that `token` decodes to. `None` if it is not base64 or decodes to nothing.
pub(crate) fn decoded_len(token: &[u8]) -> Option<usize> {
    if token.is_empty() || !token.len().is_multiple_of(4) {
        return None;
    }
    let characters = without_padding(token);
    let padding = token.len() - characters.len();
    let known = characters.iter().all(|byte| SEXTETS[usize::from(*byte)] != OUTSIDE);
    (known && padding <= 2).then(|| token.len() / 4 * 3 - padding)
}

/// Decodes `token`, which [`decoded_len`] has accepted, and returns the part of `out` that it
/// fills.
pub(crate) fn decode<'o>(token: &[u8], out: &'o mut [u8]) -> &'o [u8] {
    let mut len = 0;
    for quad in without_padding(token).chunks(4) {
        let mut bits = 0_u32;
        for (place, byte) in quad.iter().enumerate() {
            bits |= u32::from(SEXTETS[usize::from(*byte)] & 0x3f) << (26 - 6 * place);
        }
        let bytes = bits.to_be_bytes();
        let count = quad.len() - 1;
        out[len..len + count].copy_from_slice(&bytes[..count]);
        len += count;
    }
    &out[..len]
}

/// Appends `bytes` in base64.
pub fn encode(out: &mut Vec<u8>, bytes: &[u8]) {
    for triple in bytes.chunks(3) {
        let mut word = [0; 4];
        word[..triple.len()].copy_from_slice(triple);
        let bits = u32::from_be_bytes(word);
        let mut quad = [b'='; 4];
        for (place, slot) in quad.iter_mut().enumerate().take(triple.len() + 1) {
            *slot = ALPHABET[(bits >> (26 - 6 * place) & 0x3f) as usize];
        }
        out.extend_from_slice(&quad);
    }
}

fn without_padding(token: &[u8]) -> &[u8] {
    let end = token.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    &token[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors_go_both_ways() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"f", b"Zg=="),
            (b"fo", b"Zm8="),
            (b"foo", b"Zm9v"),
            (b"foob", b"Zm9vYg=="),
            (b"fooba", b"Zm9vYmE="),
            (b"foobar", b"Zm9vYmFy"),
        ];
        for (bytes, token) in cases {
            let mut out = Vec::new();
            encode(&mut out, bytes);
            assert_eq!(out, token);
            assert_eq!(decoded_len(token), Some(bytes.len()));
            assert_eq!(decode(token, &mut [0; 16]), bytes);
        }
    }

    #[test]
    fn tokens_that_are_not_base64_are_refused() {
        for token in [
            &b""[..],
            b"Zg",
            b"Zg=",
            b"Z===",
            b"====",
            b"Zm9v\x00Zg=",
            b"Zg==Zm9v",
            b"=g==",
            b"Zm-v",
        ] {
            assert_eq!(decoded_len(token), None, "{}", String::from_utf8_lossy(token));
        }
    }

    #[test]
    fn every_byte_decodes_to_itself() {
        let bytes: Vec<u8> = (0..=186).map(|byte: u8| byte.wrapping_mul(37)).collect();
        let mut token = Vec::new();
        encode(&mut token, &bytes);
        assert_eq!(decode(&token, &mut [0; 250]), bytes);
    }
}

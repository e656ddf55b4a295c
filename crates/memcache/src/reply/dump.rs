//! The lines of the dumps of `lru_crawler`, one for each item.
//!
//! After the last line the caller appends the end of the dump: `END` for `metadump`, `EN` for
//! `mgdump`. Every key fits on its line, whatever its bytes: it is encoded if it must be.

use crate::base64;
use crate::key::Key;
use crate::reply::meta::ItemDebug;
use std::io::Write;

/// The line of one item in `metadump`: the key in URI encoding, times in seconds since 1970.
///
/// `item` has times relative to `now_s`, which is in seconds since 1970. Unlike all other lines,
/// this one ends with a space and a lone `\n`, as in memcached.
pub fn metadump(out: &mut Vec<u8>, key: Key<'_>, item: &ItemDebug, now_s: u32) {
    out.extend_from_slice(b"key=");
    push_uri(out, key.as_bytes());
    let ItemDebug { facts, class, item_bytes } = item;
    let now_s = i64::from(now_s);
    let expires_s = facts.ttl_s.map_or(-1, |ttl_s| now_s + i64::from(ttl_s));
    let read_s = now_s - i64::from(facts.idle_s);
    let fetched = if facts.fetched { "yes" } else { "no" };
    let (cas, flags) = (facts.cas, facts.client_flags);
    writeln!(
        out,
        " exp={expires_s} la={read_s} cas={cas} fetch={fetched} cls={class} size={item_bytes} \
         flags={flags} "
    )
    .expect("writing to memory does not fail");
}

/// The line of one key in `mgdump`: a request that reads it. A key that cannot be written as it is
/// is written in base64.
pub fn mgdump(out: &mut Vec<u8>, key: Key<'_>) {
    let bytes = key.as_bytes();
    out.extend_from_slice(b"mg ");
    if bytes.iter().any(|byte| matches!(byte, b' ' | b'\r' | b'\n')) {
        base64::encode(out, bytes);
        out.extend_from_slice(b" b\r\n");
    } else {
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends `bytes` in URI encoding.
fn push_uri(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            out.push(*byte);
        } else {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 0xf));
            out.extend_from_slice(&[b'%', HEX[high], HEX[low]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::meta::ItemFacts;

    #[test]
    fn dumps_name_every_key_unmistakably() {
        let facts = ItemFacts { cas: 5, client_flags: 7, idle_s: 3, ..ItemFacts::default() };
        let item = ItemDebug { facts, class: 1, item_bytes: 63 };
        let mortal =
            ItemDebug { facts: ItemFacts { ttl_s: Some(9), fetched: true, ..facts }, ..item };
        let key = |bytes| Key::new(bytes).expect("short");
        let mut out = Vec::new();
        metadump(&mut out, key(b"a b~\xff"), &item, 100);
        metadump(&mut out, key(b"k"), &mortal, 100);
        mgdump(&mut out, key(b"plain\t"));
        mgdump(&mut out, key(b"f o"));
        let want = "key=a%20b~%FF exp=-1 la=97 cas=5 fetch=no cls=1 size=63 flags=7 \n\
                    key=k exp=109 la=97 cas=5 fetch=yes cls=1 size=63 flags=7 \n\
                    mg plain\t\r\nmg ZiBv b\r\n";
        assert_eq!(String::from_utf8(out).expect("ASCII"), want);
    }
}

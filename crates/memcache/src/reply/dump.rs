//! Lines of the dumps of `lru_crawler`, one for each item. `metadump` ends with [`super::END`],
//! `mgdump` with [`super::META_END`].

use crate::base64;
use crate::key::Key;
use crate::reply::meta::ItemDebug;
use std::io::Write;

/// One item of `metadump`: the key in URI encoding, times in seconds since 1970.
///
/// `now_s` turns the relative times of `item` into points in time. Unlike everywhere else, the
/// line ends with a space and `\n` alone.
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

/// One key of `mgdump`, as a request that reads it. A key that cannot stand in a line goes in
/// base64.
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

//! The name of the file of a key or note.
//!
//! ```text
//! k-<key>    bytes other than A-Z a-z 0-9 _ - . are written as % and two digits: k-a%2Fb is "a/b"
//! h-<hash>   a key whose name would be longer than 255 bytes: its FNV-1a hash, 32 digits
//! n-<name>   a note, written as a key
//! t-<index>  a record that has no name yet
//! ```
//!
//! Two keys never have one name that begins with `k`. Two with one hash are not found by chance. A
//! client that looks for them can find them, so who reads or writes such a file compares its key.
//!
//! A name begins with a letter, so none is hidden, and none is `.` or `..`.

use std::fmt::Write;

/// Most bytes of a name, as the file systems of Linux have it.
pub const NAME_BYTES_MAX: usize = 255;

/// How the names of records that have no name yet begin.
pub const TEMPORARY: &str = "t-";

/// The name of the file of a key.
pub fn of_key(key: &[u8]) -> String {
    let name = escaped("k-", key);
    if name.len() <= NAME_BYTES_MAX { name } else { format!("h-{:032x}", hash(key)) }
}

/// Whether two keys may have this name.
pub fn is_shared(name: &str) -> bool {
    name.starts_with("h-")
}

/// Whether this is the name of the file of a key.
pub fn is_of_key(name: &str) -> bool {
    name.starts_with("k-") || is_shared(name)
}

/// The name of the file of a note. `None` if it is too long.
pub fn of_note(note: &str) -> Option<String> {
    Some(escaped("n-", note.as_bytes())).filter(|name| name.len() <= NAME_BYTES_MAX)
}

/// The name of the record of change `index` while it is written.
pub fn of_temporary(index: usize) -> String {
    format!("{TEMPORARY}{index}")
}

fn escaped(prefix: &str, bytes: &[u8]) -> String {
    let mut name = prefix.to_owned();
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"_-.".contains(&byte) {
            name.push(char::from(byte));
        } else {
            write!(name, "%{byte:02X}").expect("a string takes all that is written");
        }
    }
    name
}

/// FNV-1a of 128 bits: the same in every release, which the hashes of the standard library are not.
fn hash(bytes: &[u8]) -> u128 {
    let start = 0x6C62_272E_07BB_0142_62B8_2175_6295_C58D_u128;
    let prime = 0x0000_0000_0100_0000_0000_0000_0000_013B_u128;
    bytes.iter().fold(start, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(prime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_keys() {
        let cases: [(&[u8], &str); 8] = [
            (b"a", "k-a"),
            (b"Az09_-.", "k-Az09_-."),
            (b"a/b", "k-a%2Fb"),
            (b"..", "k-.."),
            (b"a%2Fb", "k-a%252Fb"),
            (b"\0 \xFF\n", "k-%00%20%FF%0A"),
            (b"lock", "k-lock"),
            (&[0xFF; 85], "h-7e0ff98cfa7030721d713297ed220462"),
        ];
        for (key, name) in cases {
            assert_eq!(of_key(key), name);
        }
    }

    #[test]
    fn a_name_never_exceeds_its_limit_and_is_readable_up_to_it() {
        let cases = [(84, 0xFF, 254, false), (85, 0xFF, 34, true), (250, 0xFF, 34, true)];
        let plain = [(250, b'a', 252, false), (1, b'/', 5, false)];
        for (bytes, byte, length, shared) in cases.into_iter().chain(plain) {
            let name = of_key(&vec![byte; bytes]);
            assert_eq!((name.len(), is_shared(&name)), (length, shared), "{bytes} of {byte}");
        }
        assert_eq!(of_note(&"a".repeat(253)).map(|name| name.len()), Some(255));
        assert_eq!(of_note(&"a".repeat(254)), None);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        // The vectors of the authors, for the empty string, "a" and "foobar".
        let cases: [(&[u8], u128); 3] = [
            (b"", 0x6C62_272E_07BB_0142_62B8_2175_6295_C58D),
            (b"a", 0xD228_CB69_6F1A_8CAF_7891_2B70_4E4A_8964),
            (b"foobar", 0x343E_1662_793C_64BF_6F0D_3597_BA44_6F18),
        ];
        for (bytes, published) in cases {
            assert_eq!(hash(bytes), published);
        }
    }
}

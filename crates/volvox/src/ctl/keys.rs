//! `ctl keys`: every key once, from `lru_crawler metadump` of the cells.
//!
//! A cell lists its copies too. So of each range one cell is asked, its primary, and lines of keys
//! of other ranges are skipped. If the primary does not answer, a copy is asked instead.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;

use base::SliceId;
use serde_json::json;

use super::client::{Client, NoAnswer};
use super::report::Unreadable;
use super::survey::Survey;
use super::table::bytes;
use super::time::date;
use super::wanted::Wanted;

/// A key and the facts about its item.
#[derive(Debug, PartialEq, Eq)]
struct Listed {
    key: Vec<u8>,
    size_bytes: u64,
    /// The second at which it expires; absent if it never does.
    expiry_s: Option<u64>,
}

/// Prints the keys that begin with `prefix`, at most `limit` if that is not zero. The code is 1 if
/// some could not be listed.
pub(super) fn print(
    survey: &Survey,
    (prefix, limit): (&str, u64),
    wanted: &Wanted,
    out: &mut dyn Write,
) -> Result<u8, Box<dyn Error>> {
    let answers: BTreeSet<_> = survey.answers().map(|(id, ..)| id).collect();
    let lister = |cell: &u32| answers.contains(cell);
    let mut code = 0;
    for range in survey.map.ranges.iter().filter(|range| range.in_sync().all(|it| !lister(&it))) {
        eprintln!("volvox: range {} is not listed: no cell that has it answers", range.id);
        code = 1;
    }
    if !wanted.json {
        writeln!(out, "{:>7}  {:<19}  {:<4}  key", "bytes", "expires (UTC)", "cell")?;
    }
    let mut left = if limit == 0 { u64::MAX } else { limit };
    for (cell, asked, _) in survey.answers() {
        let is_its = |slice: usize| {
            let range = survey.map.range_of(slice);
            range.and_then(|range| range.in_sync().find(lister)) == Some(cell)
        };
        let listed = list(&asked.at, wanted, |listed| {
            let slice = SliceId::of(&listed.key).index();
            if !listed.key.starts_with(prefix.as_bytes()) || !is_its(slice) {
                return Ok(true);
            }
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            show(&listed, (cell, slice), wanted.json, out)?;
            Ok(true)
        });
        match listed {
            Ok(true) => {}
            Ok(false) => {
                out.flush()?;
                eprintln!("volvox: there are more than {limit} keys; --limit 0 lists all");
                return Ok(code);
            }
            Err(error) if error.is::<NoAnswer>() => {
                out.flush()?;
                eprintln!("volvox: the list of cell {cell} is not whole: {error}");
                code = 1;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(code)
}

/// Passes each key of a cell to `take`, until that returns `false`. Whether it never did.
fn list(
    at: &str,
    wanted: &Wanted,
    mut take: impl FnMut(Listed) -> Result<bool, Box<dyn Error>>,
) -> Result<bool, Box<dyn Error>> {
    let mut client = Client::connect(at, wanted.timeout)?;
    client.send("lru_crawler metadump all")?;
    loop {
        let line = client.next_line()?;
        match line.as_str() {
            "OK" => {}
            "END" => return Ok(true),
            line if !line.starts_with("key=") => {
                return Err(NoAnswer::Line(line.to_owned()).into());
            }
            line => {
                let unreadable = || Unreadable { name: "metadump".into(), value: line.into() };
                if !take(parse(line).ok_or_else(unreadable)?)? {
                    return Ok(false);
                }
            }
        }
    }
}

/// `key=a%20b exp=-1 la=97 cas=5 fetch=no cls=1 size=63 flags=7`.
fn parse(line: &str) -> Option<Listed> {
    let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
    let expiry_s: i64 = field("exp=")?.parse().ok()?;
    Some(Listed {
        key: decode(field("key=")?)?,
        size_bytes: field("size=")?.parse().ok()?,
        expiry_s: u64::try_from(expiry_s).ok(),
    })
}

/// The bytes of a text in URI encoding.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}

fn show(
    listed: &Listed,
    (cell, slice): (u32, usize),
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let Listed { key, size_bytes, expiry_s } = listed;
    if as_json {
        // Bytes that are no text are replaced, and the key is repeated in hexadecimal digits.
        let (text, hex) = (String::from_utf8_lossy(key), in_hex(key));
        let line = json!({
            "key": text,
            "key_hex": hex,
            "slice": slice,
            "cell": cell,
            "bytes": size_bytes,
            "expiry_s": expiry_s,
        });
        return Ok(writeln!(out, "{line}")?);
    }
    let (size, expires) = (bytes(*size_bytes), expiry_s.map_or_else(|| "never".to_owned(), date));
    Ok(writeln!(out, "{size:>7}  {expires:<19}  {cell:<4}  {}", key.escape_ascii())?)
}

/// A key in hexadecimal digits, if it is no text.
pub(super) fn in_hex(key: &[u8]) -> Option<String> {
    let is_text = std::str::from_utf8(key).is_ok();
    (!is_text).then(|| key.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_dump_are_read() {
        let line = "key=a%20b~%FF exp=109 la=97 cas=5 fetch=no cls=1 size=63 flags=7";
        let listed = parse(line).expect("it is one");
        assert_eq!(
            listed,
            Listed { key: b"a b~\xff".to_vec(), size_bytes: 63, expiry_s: Some(109) }
        );
        assert_eq!(parse("key=k exp=-1 size=24").expect("one").expiry_s, None);
        for bad in ["key=k exp=-1", "key=%4 exp=1 size=2", "key=%zz exp=1 size=2", ""] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

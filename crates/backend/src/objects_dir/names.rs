//! The path of the file of an object.
//!
//! ```text
//! a             a                   the last part of a name is a file
//! a/b           a+/b                every other part is a directory, with a plus sign
//! <300 bytes>   <250 bytes>=/<50>   a part that is too long for a file is cut
//! ```
//!
//! No name has a plus or an equals sign, so no file is in the place of a directory: `a` and `a/b`
//! are two objects, as in a bucket.

/// Most bytes of a piece of a name. The file systems of Linux take 255.
const PIECE_BYTES_MAX: usize = 250;

/// Ends a directory whose part of the name is complete.
const COMPLETE: char = '+';
/// Ends a directory whose part of the name goes on below it.
const CUT: char = '=';

/// The path of the file of the object `name`, below the directory of all.
pub fn path_of(name: &str) -> String {
    let mut path = String::with_capacity(name.len() * 2);
    let mut rest = name;
    loop {
        let part_bytes = rest.find('/').unwrap_or(rest.len());
        if part_bytes > PIECE_BYTES_MAX {
            let (piece, after) = rest.split_at(PIECE_BYTES_MAX);
            path.extend([piece, "=/"]);
            rest = after;
        } else if let Some((part, after)) = rest.split_once('/') {
            path.extend([part, "+/"]);
            rest = after;
        } else {
            path.push_str(rest);
            return path;
        }
    }
}

/// What the names of the objects below a directory begin with. `above` is that of the directory
/// which it is in. `None` if it is no directory of this file.
pub fn below(above: &str, directory: &str) -> Option<String> {
    let complete = directory.strip_suffix(COMPLETE).map(|part| format!("{above}{part}/"));
    complete.or_else(|| directory.strip_suffix(CUT).map(|piece| format!("{above}{piece}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_a_path_of_its_own_that_leads_back() {
        let long = "p".repeat(900);
        let edge = format!("{}/{}", "p".repeat(250), "q".repeat(251));
        let names =
            ["a", "a/b", "a/b/c", "a%2Fb", ".a/..b", "objects/new", &long, &edge, &long[..250]];
        let mut paths = Vec::new();
        for name in names {
            let path = path_of(name);
            assert!(path.split('/').all(|piece| piece.len() <= 255), "{path}");
            let (mut found, mut pieces) = (String::new(), path.split('/').peekable());
            while let Some(piece) = pieces.next() {
                found = match pieces.peek() {
                    Some(_) => below(&found, piece).unwrap(),
                    None => found + piece,
                };
            }
            assert_eq!(found, name);
            paths.push(path);
        }
        assert_eq!(paths[..5], ["a", "a+/b", "a+/b+/c", "a%2Fb", ".a+/..b"]);
        assert_eq!(paths[6].len(), 900 + 3 * 2);
        assert_eq!(below("", "a"), None);
    }
}

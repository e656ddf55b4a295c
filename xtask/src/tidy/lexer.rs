//! The words of a Rust source without its comments and literals.
//!
//! `blank` replaces every comment, string and character literal by spaces, keeping lines and
//! columns, so that simple searches over the rest never trip over a brace in a string or a word
//! in a comment. It is not a parser: it knows just enough of the grammar for that.

/// The source with comments and literals blanked out; as many bytes and lines as before.
pub fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match token_end(bytes, at) {
            Token::Code(end) => end,
            Token::Blank(end) => {
                out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|b| *b = b' ');
                end
            }
        };
        at = end.max(at + 1);
    }
    String::from_utf8(out).expect("invariant: whole characters were replaced by spaces")
}

enum Token {
    Code(usize),
    Blank(usize),
}

fn token_end(bytes: &[u8], at: usize) -> Token {
    let rest = &bytes[at..];
    match rest[0] {
        b'/' if rest.starts_with(b"//") => Token::Blank(find(bytes, at, b"\n")),
        b'/' if rest.starts_with(b"/*") => Token::Blank(block_comment_end(bytes, at)),
        b'"' => Token::Blank(string_end(bytes, at + 1)),
        b'\'' => quote_end(bytes, at),
        first if is_word(first) => word_end(bytes, at),
        _ => Token::Code(at + 1),
    }
}

/// A word, or the literal that a prefix like `b`, `r`, `br#` or `c` begins.
fn word_end(bytes: &[u8], at: usize) -> Token {
    let end = at + bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
    let prefix = &bytes[at..end];
    if matches!(prefix, b"r" | b"br" | b"cr") {
        let hashes = bytes[end..].iter().take_while(|byte| **byte == b'#').count();
        if bytes.get(end + hashes) == Some(&b'"') {
            let close: Vec<u8> = [b"\"".to_vec(), vec![b'#'; hashes]].concat();
            let close_at = find(bytes, end + hashes + 1, &close);
            return Token::Blank((close_at + close.len()).min(bytes.len()));
        }
    }
    match (prefix, bytes.get(end)) {
        (b"b" | b"c", Some(b'"')) => Token::Blank(string_end(bytes, end + 1)),
        (b"b", Some(b'\'')) => quote_end(bytes, end),
        _ => Token::Code(end),
    }
}

/// A character literal, or a lifetime, which is code.
fn quote_end(bytes: &[u8], quote: usize) -> Token {
    let escaped = bytes.get(quote + 1) == Some(&b'\\');
    // The longest character takes four bytes; a lifetime has no closing quote that near.
    let from = quote + if escaped { 3 } else { 2 };
    let until = if escaped { from + 10 } else { quote + 6 };
    let window = bytes.get(from..until.min(bytes.len())).unwrap_or(&[]);
    match window.iter().position(|byte| *byte == b'\'') {
        Some(offset) if escaped || one_character(&bytes[quote + 1..from + offset]) => {
            Token::Blank(from + offset + 1)
        }
        _ => Token::Code(quote + 1),
    }
}

fn one_character(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().count() == 1)
}

fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn block_comment_end(bytes: &[u8], from: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = from;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Where a pattern next begins, or the end of the text.
fn find(bytes: &[u8], from: usize, pattern: &[u8]) -> usize {
    let rest = bytes.get(from..).unwrap_or(&[]);
    let found = rest.windows(pattern.len()).position(|window| window == pattern);
    found.map_or(bytes.len(), |offset| from + offset)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// Whether a blanked text has the word, whole.
pub fn has_word(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        let before = at == 0 || !is_word(bytes[at - 1]);
        let after = bytes.get(at + word.len()).is_none_or(|byte| !is_word(*byte));
        before && after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_spaces() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("f(\"}\\\"{\") {", "f(      ) {"),
            ("r#\"a\"}\"# x", "         x"),
            ("b\"{\" y", "     y"),
            ("'{' z", "    z"),
            ("b'\\'' {", "      {"),
            ("'\\u{7d}' {", "         {"),
            ("fn f<'a>(x: &'a str) -> &'a str {", "fn f<'a>(x: &'a str) -> &'a str {"),
            ("r#type = 1", "r#type = 1"),
            ("unterminated \"abc", "unterminated     "),
        ];
        for (text, expected) in cases {
            assert_eq!(blank(text), expected, "{text}");
        }
    }

    #[test]
    fn characters_outside_ascii_keep_the_columns_of_the_rest() {
        let text = "\"\u{e9}\" '\u{e9}' {";
        assert_eq!(blank(text).len(), text.len());
        assert!(blank(text).ends_with('{'));
        assert_eq!(blank(text).trim(), "{");
    }

    #[test]
    fn words_are_whole() {
        let cases = [
            ("unsafe {", true),
            ("forbid(unsafe_code)", false),
            ("(unsafe)", true),
            ("not_unsafe", false),
        ];
        for (text, expected) in cases {
            assert_eq!(has_word(text, "unsafe"), expected, "{text}");
        }
    }
}

use super::*;

fn tokens(pieces: &[&[u8]]) -> Vec<String> {
    tokens_of(Parser::default(), pieces)
}

/// Every token that `parser` finds in `pieces`, with the pieces of a value joined.
pub(in crate::protocol) fn tokens_of(mut parser: Parser, pieces: &[&[u8]]) -> Vec<String> {
    let (mut kept, mut seen, mut value) = (Vec::new(), Vec::new(), Vec::new());
    for piece in pieces {
        kept.extend_from_slice(piece);
        let mut input = &kept[..];
        loop {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match parser.next(&mut input) {
                Token::Incomplete => break,
                Token::Value { key, value_bytes } => {
                    seen.push(format!("value {} {value_bytes}", text(key)));
                }
                Token::Data { bytes, last } => {
                    value.extend_from_slice(bytes);
                    if last {
                        seen.push(format!("data {}", text(&std::mem::take(&mut value))));
                    }
                }
                Token::Failed(line) => seen.push(format!("failed {}", text(line))),
                Token::Malformed(line) => {
                    seen.push(format!("malformed {}", text(line)));
                    return seen;
                }
                other => seen.push(format!("{other:?}").to_lowercase()),
            }
        }
        let rest = input.len();
        kept.drain(..kept.len() - rest);
    }
    if !kept.is_empty() {
        seen.push(format!("kept {}", kept.len()));
    }
    seen
}

#[test]
fn replies_become_tokens_wherever_they_are_cut() {
    let cases: &[(&[u8], &[&str])] = &[
        (b"END\r\n", &["end"]),
        (b"STORED\r\nHD\r\nEN\r\nMN\r\n", &["stored", "done", "end", "batchend"]),
        (b"DELETED\r\nNOT_FOUND\r\nNF\r\n", &["deleted", "notfound", "notfound"]),
        (b"NOT_STORED\r\nNS\r\n", &["notstored", "notstored"]),
        (b"VALUE k1 0 5\r\nab\r\nc\r\nEND\r\n", &["value k1 5", "data ab\r\nc", "end"]),
        (b"VALUE k1 0 0\r\n\r\nEND\r\n", &["value k1 0", "data ", "end"]),
        (
            b"VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\ny\r\nEND\r\n",
            &["value a 1", "data x", "value b 1", "data y", "end"],
        ),
        (
            b"VA 3\r\nabc\r\nVA 1 kkey\r\nz\r\nMN\r\n",
            &["value  3", "data abc", "value key 1", "data z", "batchend"],
        ),
        (b"ERROR\r\n", &["failed ERROR"]),
        (b"SERVER_ERROR out of memory\r\nEND\r\n", &["failed SERVER_ERROR out of memory", "end"]),
        (b"CLIENT_ERROR bad\r\n", &["failed CLIENT_ERROR bad"]),
    ];
    for (input, expected) in cases {
        assert_eq!(tokens(&[input]), *expected);
        for cut in 0..=input.len() {
            assert_eq!(tokens(&[&input[..cut], &input[cut..]]), *expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(tokens(&bytes), *expected, "byte by byte");
    }
}

#[test]
fn what_the_protocol_does_not_know_is_malformed() {
    for input in [
        &b"HELLO\r\n"[..],
        b"END\n",
        b"VALUE k1 1 5\r\n",
        b"VALUE k1 0 05\r\n",
        b"VALUE k1 0 5 \r\n",
        b"VALUE k1 0\r\n",
        b"VALUE k1 0 4294967296\r\n",
        b"VA x\r\n",
        b"VA 5 fkey\r\n",
        b"VA 2\r\nabcd",
        b"end\r\n",
        b"\r\n",
    ] {
        let seen = tokens(&[input]);
        let last = seen.last().unwrap();
        assert!(last.starts_with("malformed"), "{input:?}: {last}");
    }
    let endless = vec![b'x'; LINE_BYTES_MAX];
    assert!(tokens(&[&endless]).last().unwrap().starts_with("malformed"));
}

#[test]
fn any_bytes_are_survived() {
    let mut rng = measure::rng::Rng::new(1, 1);
    let alphabet = b"VALUE END STORED HD 0123\r\n\r\n\xff\0k";
    for _ in 0..20_000 {
        let length = rng.below(60) as usize;
        let noise: Vec<u8> =
            (0..length).map(|_| alphabet[rng.below(alphabet.len() as u64) as usize]).collect();
        tokens(&[&noise]);
    }
}

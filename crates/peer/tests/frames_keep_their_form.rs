//! The bytes of each frame, written out; what is refused, and in which words.

use peer::{Decoder, FRAME_BYTES_MAX, Frame, FrameError, FrameKind, LANES_MAX, Verdict};

const BYTES_MAX: usize = 100;

fn decode(input: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    Decoder::new(BYTES_MAX).decode(input)
}

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode(&mut out);
    out
}

const ENTRIES: Frame<'static> =
    Frame::Entries { lane: 2, map_version: 3, others_have: 9, first: 4, count: 2, records: b"abc" };

/// One of each kind, and its bytes in hexadecimal: length, kind, fields, body.
fn examples() -> [(Frame<'static>, &'static str); 16] {
    [
        (
            Frame::Request {
                id: 0x0102_0304_0506_0708,
                deadline_ms: 2000,
                hops: 1,
                worker: 3,
                first: 5,
                again: 6,
                map_version: 9,
                text: b"mn\r\n",
            },
            "24000000 01 0807060504030201 d007 01 0300 0500000000000000 0600 0900000000000000 \
             6d6e0d0a",
        ),
        (
            Frame::Reply {
                id: 1,
                again: 3,
                verdict: Verdict::InDoubt,
                map_version: 2,
                text: b"E\r\n",
            },
            "17000000 02 0100000000000000 0300 04 0200000000000000 450d0a",
        ),
        (
            Frame::StreamOpen { lane: 3, lanes: 4, log_incarnation: 5, end: 6 },
            "13000000 03 03 04 0500000000000000 0600000000000000",
        ),
        (Frame::StreamFrom { lane: 63, position: 0 }, "0a000000 04 3f 0000000000000000"),
        (
            Frame::StreamEnd { lane: 1, reason: 255, map_version: 258 },
            "0b000000 05 01 ff 0201000000000000",
        ),
        (
            ENTRIES,
            "21000000 06 02 0300000000000000 0900000000000000 0400000000000000 02000000 616263",
        ),
        (
            Frame::Acked { lane: 0, position: 7, granted: 1 << 40, wanted: 3 },
            "1a000000 07 00 0700000000000000 0000000000010000 0300000000000000",
        ),
        (
            Frame::Heartbeat {
                sent_ns: 1,
                echo_ns: 2,
                heard_ns: 3,
                map_version: 4,
                ready_version: 5,
                expiry_s: 6,
                suspects: &[7, 0, 0, 0],
            },
            "31000000 09 0100000000000000 0200000000000000 0300000000000000 0400000000000000 \
             0500000000000000 06000000 07000000",
        ),
        (Frame::Call { id: 1, kind: 2, body: b"" }, "0a000000 0a 0100000000000000 02"),
        (
            Frame::Answer { id: 1, ok: true, body: b"\xff\0" },
            "0c000000 0b 0100000000000000 01 ff00",
        ),
        (Frame::Memory { free: 1 << 32 }, "09000000 0d 0000000001000000"),
        (Frame::Shown { second: 0x0102_0304 }, "05000000 0e 04030201"),
        (
            Frame::Read { id: 1, deadline_ms: 2, age_ms: 250, map_version: 3, text: b"x" },
            "16000000 0f 0100000000000000 0200 fa00 0300000000000000 78",
        ),
        (Frame::Serves, "01000000 10"),
        (Frame::Used { key: b"k" }, "02000000 11 6b"),
        (Frame::Refusals { count: 3 }, "09000000 12 0300000000000000"),
    ]
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[test]
fn each_kind_has_these_bytes() {
    let mut kinds = Vec::new();
    for (frame, hex) in examples() {
        let bytes = bytes_of(hex);
        assert_eq!(encoded(&frame), bytes, "{frame:?}");
        assert_eq!(decode(&bytes), Ok(Some((frame, bytes.len()))));
        kinds.push(frame.kind());
    }
    assert_eq!(kinds, FrameKind::ALL);
    let numbers = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 14, 15, 16, 17, 18];
    assert_eq!(FrameKind::ALL.map(|kind| kind as u8), numbers);
    assert!((0..=5).eq(Verdict::ALL.map(|verdict| verdict as u8)));
    assert_eq!(usize::from(LANES_MAX), effects::LANES_MAX);
}

#[test]
fn a_frame_that_ends_too_early_or_too_late_is_refused() {
    for (frame, _) in examples() {
        let (kind, bytes) = (frame.kind(), encoded(&frame));
        let has_body = decode(&resized(&bytes, bytes.len() + 1)).is_ok();
        let with_body = [
            FrameKind::Request,
            FrameKind::Reply,
            FrameKind::Entries,
            FrameKind::Heartbeat,
            FrameKind::Call,
            FrameKind::Answer,
            FrameKind::Read,
            FrameKind::Used,
        ];
        assert_eq!(has_body, with_body.contains(&kind), "{kind:?}");
        if !has_body {
            let (longer, trailing) = (resized(&bytes, bytes.len() + 2), 2);
            assert_eq!(decode(&longer), Err(FrameError::Trailing { kind, bytes: trailing }));
        }
        // What is left if the frame is cut as far as it can be.
        let fixed = (5..=bytes.len()).find(|len| decode(&resized(&bytes, *len)).is_ok());
        let fixed = fixed.expect("the frame itself is whole");
        for len in 5..fixed {
            let error = decode(&resized(&bytes, len)).expect_err("shorter than its fields");
            // Entries without records, but with a count, are not short.
            let is_count = matches!(error, FrameError::Field { field: "count", .. });
            assert!(error == FrameError::Short(kind) || is_count, "{kind:?} {error}");
        }
    }
}

/// The frame with this length, cut or filled with zeroes.
fn resized(frame: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    bytes.resize(len, 0);
    bytes[..4].copy_from_slice(&(len as u32 - 4).to_le_bytes());
    bytes
}

#[test]
fn fields_out_of_their_range_are_refused() {
    let refused = |frame: Frame<'_>| match decode(&encoded(&frame)) {
        Err(FrameError::Field { kind, field, value, .. }) if kind == frame.kind() => (field, value),
        other => panic!("{frame:?} is {other:?}"),
    };
    let open = |lane, lanes| Frame::StreamOpen { lane, lanes, log_incarnation: 1, end: 1 };
    let entries = |lane, first, count, records: &'static [u8]| Frame::Entries {
        lane,
        map_version: 0,
        others_have: 0,
        first,
        count,
        records,
    };
    let request = |id| Frame::Request {
        id,
        deadline_ms: 1,
        hops: 1,
        worker: 0,
        first: 1,
        again: 0,
        map_version: 1,
        text: b"",
    };
    let cases = [
        (open(0, 0), ("lanes", 0)),
        (open(0, 65), ("lanes", 65)),
        (open(4, 4), ("lane", 4)),
        (
            Frame::StreamOpen { lane: 0, lanes: 1, log_incarnation: 1, end: u64::MAX },
            ("end", u64::MAX),
        ),
        (request(u64::MAX), ("id", u64::MAX)),
        (Frame::StreamFrom { lane: 64, position: 1 }, ("lane", 64)),
        (Frame::StreamEnd { lane: 255, reason: 0, map_version: 0 }, ("lane", 255)),
        (Frame::Acked { lane: 64, position: 1, granted: 0, wanted: 0 }, ("lane", 64)),
        (entries(64, 1, 1, b"x"), ("lane", 64)),
        (entries(0, 0, 1, b"x"), ("first", 0)),
        (entries(0, u64::MAX, 1, b"x"), ("first", u64::MAX)),
        (entries(0, 1, 2, b"x"), ("count", 2)),
        (entries(0, 1, 0, b"x"), ("count", 0)),
    ];
    for (frame, fault) in cases {
        assert_eq!(refused(frame), fault, "{frame:?}");
    }
    assert!(decode(&encoded(&entries(0, 1, 0, b""))).is_ok(), "no entries now");
    assert!(decode(&encoded(&open(63, 64))).is_ok());
    assert!(decode(&encoded(&request(u64::MAX - 1))).is_ok());
    let mut reply = encoded(&Frame::Answer { id: 1, ok: false, body: b"" });
    reply[13] = 2;
    let error = decode(&reply).expect_err("no boolean");
    assert_eq!(error.to_string(), "a frame Answer whose ok is 2, allowed is 0 and 1");
    let (verdict, text) = (Verdict::Done, &b""[..]);
    let mut reply = encoded(&Frame::Reply { id: 1, again: 0, verdict, map_version: 2, text });
    reply[15] = 6;
    let error = decode(&reply).expect_err("no verdict");
    assert_eq!(error.to_string(), "a frame Reply whose verdict is 6, allowed is 0 to 5");
}

/// What is known to be wrong is refused before the rest has arrived.
#[test]
fn lengths_and_kinds_are_refused_at_once() {
    let cases: [(&[u8], &str); 5] = [
        (
            b"\x61\0\0\0",
            "a frame of 101 bytes, at most 100 are taken: give all cells the same \
                         longest value",
        ),
        (
            b"GET ",
            "a frame of 542393675 bytes, at most 100 are taken: give all cells the same \
                   longest value",
        ),
        (b"\0\0\0\0", "a frame of 0 bytes, at least 1 is needed: its kind"),
        (
            b"\x60\0\0\0\x13",
            "a frame of kind 19, known are 1 to 18: run the same release on all \
                             cells",
        ),
        (
            b"\x60\0\0\0\0",
            "a frame of kind 0, known are 1 to 18: run the same release on all \
                           cells",
        ),
    ];
    for (input, words) in cases {
        let error = decode(input).expect_err(words);
        assert_eq!(error.to_string(), words);
    }
    let decoder = Decoder::new(BYTES_MAX);
    assert_eq!(decoder.frame_bytes(b"\x60\0\0"), Ok(None));
    assert_eq!(decoder.frame_bytes(b"\x60\0\0\0"), Ok(Some(BYTES_MAX)));
    assert_eq!(decoder.decode(b"\x60\0\0\0\x01"), Ok(None));
    assert_eq!(Decoder::new(usize::MAX).bytes_max(), FRAME_BYTES_MAX);
    let error = Decoder::new(usize::MAX).decode(&[0xff; 4]).expect_err("too long for any");
    assert!(matches!(error, FrameError::TooLong { bytes_max: FRAME_BYTES_MAX, .. }));
}

/// A reply says the version that was set last, and else what it has said.
#[test]
fn a_reply_that_has_waited_says_a_later_map() {
    let reply = |map_version| {
        let verdict = Verdict::NotOwner;
        encoded(&Frame::Reply { id: 7, again: 1, verdict, map_version, text: b"abc" })
    };
    let mut frame = reply(2);
    peer::set_reply_version(&mut frame, 1 << 40);
    assert_eq!(frame, reply(1 << 40));
    peer::set_reply_version(&mut [], 3);
}

/// A body may be sent from where it lies.
#[test]
fn a_frame_is_the_same_if_its_body_follows_it() {
    let (first, second) = (b"first ".as_slice(), b"second".as_slice());
    let whole = [first, second].concat();
    let entries = |records| Frame::Entries {
        lane: 1,
        map_version: 1,
        others_have: u64::MAX,
        first: 1,
        count: 2,
        records,
    };
    let mut out = b"before".to_vec();
    entries(first).encode_before(second.len(), &mut out);
    out.extend_from_slice(second);
    assert_eq!(out[6..], encoded(&entries(&whole)));
}

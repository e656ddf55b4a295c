//! Random frames: what is decoded is what was encoded, however the bytes arrive, and any bytes are
//! frames, an error, or not enough.

use peer::{Decoder, Frame, FrameError, LANES_MAX, Verdict};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

const BYTES_MAX: usize = 300;

/// A frame that owns its body.
#[derive(Clone, Debug)]
struct Owned {
    frame: Frame<'static>,
    body: Vec<u8>,
}

impl Owned {
    fn frame(&self) -> Frame<'_> {
        let bytes = &self.body[..];
        match self.frame {
            request @ Frame::Request { .. } => with_text(request, bytes),
            Frame::Read { id, deadline_ms, age_ms, map_version, .. } => {
                Frame::Read { id, deadline_ms, age_ms, map_version, text: bytes }
            }
            Frame::Reply { id, again, verdict, map_version, .. } => {
                Frame::Reply { id, again, verdict, map_version, text: bytes }
            }
            Frame::Entries { lane, map_version, others_have, first, count, .. } => {
                let count = count.min(bytes.len() as u32).max(u32::from(!bytes.is_empty()));
                Frame::Entries { lane, map_version, others_have, first, count, records: bytes }
            }
            Frame::Used { .. } => Frame::Used { key: bytes },
            Frame::Call { id, kind, .. } => Frame::Call { id, kind, body: bytes },
            Frame::Answer { id, ok, .. } => Frame::Answer { id, ok, body: bytes },
            other => other,
        }
    }
}

fn with_text<'a>(mut request: Frame<'a>, bytes: &'a [u8]) -> Frame<'a> {
    if let Frame::Request { text, .. } = &mut request {
        *text = bytes;
    }
    request
}

fn frame() -> impl Strategy<Value = Owned> {
    let lane = 0..LANES_MAX;
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    let small = (any::<u32>(), any::<u16>(), any::<u8>(), any::<bool>());
    let verdict = proptest::sample::select(&Verdict::ALL[..]);
    let body = proptest::collection::vec(any::<u8>(), 0..200);
    let kind = 0..16_u8;
    let all = (kind, lane, numbers, small, verdict, body);
    all.prop_map(|(kind, lane, (a, b, c, d), (count, deadline_ms, byte, ok), verdict, body)| {
        let nothing = &[][..];
        let frame = match kind {
            0 => Frame::Request {
                id: a.min(u64::MAX - 1),
                deadline_ms,
                hops: byte,
                worker: count as u16,
                first: c,
                again: deadline_ms,
                map_version: b,
                text: nothing,
            },
            1 => Frame::Reply { id: a, again: b as u16, verdict, map_version: b, text: nothing },
            2 => Frame::StreamOpen { lane, lanes: lane + 1, log_incarnation: a, end: b >> 1 },
            3 => Frame::StreamFrom { lane, position: a },
            4 => Frame::StreamEnd { lane, reason: byte, map_version: a },
            5 => {
                let first = a % (u64::MAX - u64::from(u32::MAX)) + 1;
                let (map_version, others_have) = (b, a);
                Frame::Entries { lane, map_version, others_have, first, count, records: nothing }
            }
            6 => Frame::Acked { lane, position: a, granted: b, wanted: a },
            7 => Frame::Heartbeat {
                sent_ns: a,
                echo_ns: b,
                heard_ns: c,
                map_version: d,
                ready_version: a ^ b,
                expiry_s: count,
                suspects: nothing,
            },
            8 => Frame::Call { id: a, kind: byte, body: nothing },
            9 => Frame::Answer { id: a, ok, body: nothing },
            10 => Frame::Memory { free: a },
            11 => Frame::Shown { second: count },
            12 => Frame::Serves,
            13 => Frame::Used { key: nothing },
            14 => Frame::Refusals { count: a },
            _ => Frame::Read {
                id: a >> 1,
                deadline_ms: b as u16,
                age_ms: a as u16,
                map_version: b,
                text: nothing,
            },
        };
        Owned { frame, body }
    })
}

/// The frames that `input` begins with, and what is left.
fn frames(mut input: &[u8]) -> Result<(Vec<Frame<'_>>, &[u8]), FrameError> {
    let mut frames = Vec::new();
    while let Some((frame, bytes)) = Decoder::new(BYTES_MAX).decode(input)? {
        frames.push(frame);
        input = &input[bytes..];
    }
    Ok((frames, input))
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(1024))]

    #[test]
    fn every_prefix_of_a_stream_is_whole_frames_and_a_beginning(
        sent in proptest::collection::vec(frame(), 1..5),
    ) {
        let (mut stream, mut ends) = (Vec::new(), Vec::new());
        for one in &sent {
            one.frame().encode(&mut stream);
            ends.push(stream.len());
        }
        for len in 0..=stream.len() {
            let (received, left) = frames(&stream[..len]).expect("a valid stream");
            let whole = ends.iter().filter(|end| **end <= len).count();
            let last = whole.checked_sub(1).map_or(0, |at| ends[at]);
            prop_assert_eq!(left.len(), len - last);
            let sent: Vec<_> = sent[..whole].iter().map(Owned::frame).collect();
            prop_assert_eq!(received, sent);
        }
    }

    #[test]
    fn any_bytes_are_frames_or_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        length in prop_oneof![Just(None), (0_u32..100).prop_map(Some)],
        kind in prop_oneof![1_u8..14, any::<u8>()],
    ) {
        let mut input = bytes;
        if let Some(length) = length {
            input.splice(..0, [&length.to_le_bytes()[..], &[kind]].concat());
        }
        let decoder = Decoder::new(BYTES_MAX);
        let mut rest = &input[..];
        while let Ok(Some((frame, bytes))) = decoder.decode(rest) {
            let mut again = Vec::new();
            frame.encode(&mut again);
            prop_assert_eq!(&again[..], &rest[..bytes]);
            prop_assert_eq!(decoder.frame_bytes(rest), Ok(Some(bytes)));
            rest = &rest[bytes..];
        }
        if let Err(error) = decoder.decode(rest) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}

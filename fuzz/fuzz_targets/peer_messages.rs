//! Any bytes as what another cell sends: frames are the same when they are encoded again, and no
//! handshake ends well without the secret, however its bytes arrive.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peer::{
    Acceptor, Connector, Decoder, HANDSHAKE_BYTES_MAX, Identity, Local, Purpose, Secret, Step,
    Target,
};

/// A small bound, so that short inputs can exceed it.
const BYTES_MAX: usize = 1000;

fuzz_target!(|input: &[u8]| {
    let Some((which, rest)) = input.split_first() else { return };
    match which % 3 {
        0 => frames(rest),
        1 => {
            let mut acceptor = Acceptor::new(&secret(), cell(2), [2; 32]);
            handshake(rest, |input, out| acceptor.receive(input, out));
        }
        _ => {
            let target = Target { cell: 0, purpose: Purpose::Control };
            let mut sent = Vec::new();
            let mut connector = Connector::new(&secret(), cell(1), target, [1; 32], &mut sent);
            handshake(rest, |input, out| connector.receive(input, out));
        }
    }
});

fn frames(mut rest: &[u8]) {
    let decoder = Decoder::new(BYTES_MAX);
    loop {
        match decoder.decode(rest) {
            Ok(Some((frame, bytes))) => {
                let mut again = Vec::new();
                frame.encode(&mut again);
                assert_eq!(again, rest[..bytes]);
                for len in 0..bytes {
                    assert_eq!(decoder.decode(&rest[..len]), Ok(None));
                }
                rest = &rest[bytes..];
            }
            Ok(None) => return,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
}

fn secret() -> Secret {
    Secret::new(b"a secret that no input holds").expect("long enough")
}

fn cell(cell: u32) -> Local {
    Local::new(Identity { ring: 7, cell, incarnation: 9 })
}

/// Gives `input` to one side, some bytes more each time.
fn handshake<E: std::error::Error>(
    input: &[u8],
    mut receive: impl FnMut(&[u8], &mut Vec<u8>) -> Result<Step, E>,
) {
    let (mut start, mut out) = (0, Vec::new());
    for end in (0..=input.len()).step_by(7).chain([input.len()]) {
        match receive(&input[start..end], &mut out) {
            Ok(Step::NeedMore { consumed }) => start += consumed,
            Ok(Step::Done { .. }) => panic!("a proof without the secret"),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                break;
            }
        }
    }
    // The own part of the handshake, and a refusal.
    assert!(out.len() <= 2 * HANDSHAKE_BYTES_MAX);
}

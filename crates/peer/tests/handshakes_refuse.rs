//! What is not a cell of the same ring with the same secret, in this very handshake, is refused by
//! both sides, and each says why.

mod common;

use common::{End, Pair, cell, secret};
use hmac::{Hmac, KeyInit, Mac};
use peer::{
    Acceptor, HANDSHAKE_BYTES_MAX, HandshakeError, Identity, Local, Purpose, Refusal, Secret, Step,
    TEXT_BYTES_MAX, Versions,
};
use sha2::Sha256;

fn is_done(end: &End) -> bool {
    matches!(end, Ok(Step::Done { .. }))
}

/// The reason that the other side gave.
fn reason(end: &End) -> Option<Refusal> {
    match end {
        Err(HandshakeError::Refused { reason, .. }) => Some(*reason),
        _ => None,
    }
}

/// A proof that is made without the secret.
const FORGED: &[u8] = b"\x21\0\0\0\xf2--------------------------------";

#[test]
fn different_secrets_end_on_both_sides() {
    let other = Secret::new(b"another secret of a cluster").expect("long enough");
    let mut pair = Pair::of((&secret(), cell(1)), (&other, cell(2)), (2, Purpose::Requests));
    let (connected, accepted) = pair.run();
    assert_eq!(connected, Err(HandshakeError::WrongSecret { peer: cell(2).identity }));
    assert_eq!(reason(&accepted), Some(Refusal::WrongSecret));
    let words = "the proof of cell 2 of ring 0000000000000007 in incarnation 102 is wrong: give \
                 all cells of the cluster the same secret";
    assert_eq!(connected.expect_err("refused").to_string(), words);
    let words = format!("the other cell refuses (WrongSecret): {words}");
    assert_eq!(accepted.expect_err("refused").to_string(), words);

    // The connector sends a proof all the same.
    let mut pair = Pair::new();
    pair.accept().expect("a Hello");
    pair.to_connector.clear();
    pair.to_acceptor.extend_from_slice(FORGED);
    assert_eq!(pair.accept(), Err(HandshakeError::WrongSecret { peer: cell(1).identity }));
    assert_eq!(reason(&pair.connect()), Some(Refusal::WrongSecret));
}

#[test]
fn messages_of_another_handshake_prove_nothing() {
    // All that both sides sent once.
    let mut old = Pair::new();
    let hello = old.to_acceptor.clone();
    old.accept().expect("a Hello");
    let welcome = old.to_connector.clone();
    old.connect().expect("a Welcome");
    let proof = old.to_acceptor.clone();

    let mut acceptor = Acceptor::new(&secret(), cell(2), [0xad; 32]);
    let replayed = acceptor.receive(&[hello, proof].concat(), &mut Vec::new());
    assert_eq!(replayed, Err(HandshakeError::WrongSecret { peer: cell(1).identity }));

    let target = peer::Target { cell: 2, purpose: Purpose::Requests };
    let mut out = Vec::new();
    let mut connector = peer::Connector::new(&secret(), cell(1), target, [0xc1; 32], &mut out);
    let replayed = connector.receive(&welcome, &mut out);
    assert_eq!(replayed, Err(HandshakeError::WrongSecret { peer: cell(2).identity }));
}

#[test]
fn what_a_cell_sent_itself_proves_nothing() {
    // Its own message.
    let mut pair = Pair::new();
    pair.to_connector = pair.to_acceptor.clone();
    assert_eq!(pair.connect(), Err(HandshakeError::Unexpected { kind: 0xf0, due: "Welcome" }));

    // Its connector is led to its own acceptor. It uses a new nonce, or the same.
    for nonce in [0xac, 0xc0] {
        let mut pair = Pair::of((&secret(), cell(1)), (&secret(), cell(1)), (0, Purpose::Control));
        pair.acceptor = Acceptor::new(&secret(), cell(1), [nonce; 32]);
        let (connected, accepted) = pair.run();
        let same_nonce = accepted == Err(HandshakeError::SameNonce);
        assert!(same_nonce || accepted == Err(HandshakeError::SameCell(cell(1).identity)));
        assert_eq!((same_nonce, reason(&connected)), (nonce == 0xc0, Some(Refusal::Replayed)));
    }
    let joiner = Local::new(Identity { ring: 0, cell: 0, incarnation: 5 });
    let mut pair = Pair::of((&secret(), joiner), (&secret(), joiner), (0, Purpose::Control));
    assert_eq!(pair.run().1, Err(HandshakeError::SameCell(joiner.identity)));

    // The proof of the acceptor, sent back as that of the connector.
    let mut pair = Pair::new();
    pair.accept().expect("a Hello");
    let proof = pair.to_connector[pair.to_connector.len() - 32..].to_vec();
    pair.to_acceptor = [&FORGED[..5], &proof].concat();
    assert_eq!(pair.accept(), Err(HandshakeError::WrongSecret { peer: cell(1).identity }));
}

/// Each byte of each message is changed: no side that has received it is done.
#[test]
fn nothing_can_be_changed_on_the_way() {
    for message in 0..4 {
        for at in 0..HANDSHAKE_BYTES_MAX {
            for bit in [1, 0x80] {
                let mut pair = Pair::new();
                let change = |bytes: &mut Vec<u8>, now: usize| {
                    if let Some(byte) = bytes.get_mut(at).filter(|_| now == message) {
                        *byte ^= bit;
                        return true;
                    }
                    false
                };
                let mut changed = change(&mut pair.to_acceptor, 0);
                let mut accepted = pair.accept();
                changed |= change(&mut pair.to_connector, 1);
                let mut connected = pair.connect();
                changed |= change(&mut pair.to_acceptor, 2);
                if accepted.is_ok() {
                    accepted = pair.accept();
                }
                changed |= change(&mut pair.to_connector, 3);
                if connected.is_ok() {
                    connected = pair.connect();
                }
                assert_eq!(is_done(&connected), !changed, "{message} {at}");
                assert_eq!(is_done(&accepted), !changed || message == 3, "{message} {at}");
            }
        }
    }
}

#[test]
fn cells_that_do_not_belong_together_say_so() {
    let in_ring = |ring, cell| Local::new(Identity { ring, cell, incarnation: 9 });
    let speaks = |min, max| Local { versions: Versions { min, max }, ..cell(1) };
    let cases = [
        (
            (in_ring(8, 1), cell(2), 2, Purpose::Stream),
            HandshakeError::WrongRing { own: 7, peer: 8 },
            "the other cell is in ring 0000000000000008, this one in ring 0000000000000007: \
             connect only cells of one ring",
        ),
        (
            (speaks(5, 6), cell(2), 2, Purpose::Stream),
            HandshakeError::UnknownVersion {
                own: Versions { min: 4, max: 4 },
                peer: Versions { min: 5, max: 6 },
            },
            "the other cell speaks versions 5 to 6, this one version 4: run releases that share a \
             version",
        ),
        (
            (cell(1), cell(2), 3, Purpose::Stream),
            HandshakeError::WrongCell { wanted: 3, reached: 2 },
            "cell 3 is wanted, this address is that of cell 2: read the map again",
        ),
        (
            (in_ring(0, 0), cell(2), 0, Purpose::Requests),
            HandshakeError::NotMember(Purpose::Requests),
            "a cell that is not in the ring yet wants requests, allowed is control: join first",
        ),
        (
            (in_ring(0, 0), cell(2), 0, Purpose::Stream),
            HandshakeError::NotMember(Purpose::Stream),
            "a cell that is not in the ring yet wants a stream, allowed is control: join first",
        ),
        (
            (in_ring(7, 0), cell(2), 0, Purpose::Control),
            HandshakeError::Field {
                message: "Hello",
                field: "cell",
                value: 0,
                allowed: "1 and more in a ring",
            },
            "a Hello whose cell is 0, allowed is 1 and more in a ring",
        ),
    ];
    for ((from, to, wanted, purpose), error, words) in cases {
        let mut pair = Pair::of((&secret(), from), (&secret(), to), (wanted, purpose));
        let (connected, accepted) = pair.run();
        assert_eq!(error.to_string(), words);
        assert_eq!(accepted, Err(error));
        match connected {
            Err(HandshakeError::Refused { text, .. }) => assert_eq!(text, words),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_member_does_not_connect_to_a_cell_that_is_none() {
    let in_ring = |ring, cell| Local::new(Identity { ring, cell, incarnation: 9 });
    let joiner = in_ring(0, 0);
    // Any cell of any ring is right for a cell that wants to join.
    let mut pair = Pair::of((&secret(), joiner), (&secret(), in_ring(8, 5)), (0, Purpose::Control));
    assert!(is_done(&pair.run().0));
    let mut pair = Pair::of((&secret(), cell(1)), (&secret(), joiner), (0, Purpose::Control));
    let (connected, accepted) = pair.run();
    assert_eq!(accepted, Err(HandshakeError::WrongRing { own: 0, peer: 7 }));
    assert_eq!(reason(&connected), Some(Refusal::WrongRing));
}

/// Where the fields of a `Welcome` stand.
const RING_AT: usize = 25;
const CELL_AT: usize = 33;
const NONCE_AT: usize = 45;
const VERSION_AT: usize = 77;
const PROOF_AT: usize = 79;

/// A `Welcome` with a right proof, of a cell that is not the one that was wanted and does not say
/// so.
#[test]
fn the_connector_checks_who_answers() {
    let wrong_version = HandshakeError::Field {
        message: "Welcome",
        field: "version",
        value: 5,
        allowed: "the highest that both sides speak",
    };
    let cases: [(usize, &[u8], HandshakeError); 6] = [
        (RING_AT, &[8], HandshakeError::WrongRing { own: 7, peer: 8 }),
        (CELL_AT, &[3], HandshakeError::WrongCell { wanted: 2, reached: 3 }),
        (CELL_AT, &[1], HandshakeError::SameCell(cell(1).identity)),
        (NONCE_AT, &[0xc0; 32], HandshakeError::SameNonce),
        (VERSION_AT, &[5], wrong_version),
        (PROOF_AT, &[], HandshakeError::Ended),
    ];
    for (at, bytes, error) in cases {
        let mut pair = Pair::new();
        let hello = pair.to_acceptor.clone();
        pair.accept().expect("a Hello");
        let welcome = &mut pair.to_connector;
        welcome[at..at + bytes.len()].copy_from_slice(bytes);
        let key = b"the secret of the cluster";
        let mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
        let mac = mac.chain_update(b"accept\0").chain_update(hello);
        let mac = mac.chain_update(&welcome[..PROOF_AT]);
        welcome.splice(PROOF_AT.., mac.finalize().into_bytes());
        pair.to_acceptor.clear();
        let connected = pair.connect();
        if at == PROOF_AT {
            assert!(connected.is_ok(), "nothing was changed");
        } else {
            assert_eq!(connected, Err(error));
            assert!(reason(&pair.accept()).is_some(), "it says why");
        }
    }
}

#[test]
fn what_is_no_handshake_is_refused() {
    let message = |kind: u8, fields: &[u8]| {
        [&(fields.len() as u32 + 1).to_le_bytes()[..], &[kind], fields].concat()
    };
    let hello = Pair::new().to_acceptor;
    let cases = [
        (
            b"GET / HTTP/1.1\r\n".to_vec(),
            "a message of 542393675 bytes, at most 256 are taken: this port is for cells only",
        ),
        (
            vec![0xfd, 0, 0, 0],
            "a message of 257 bytes, at most 256 are taken: this port is for cells only",
        ),
        (vec![0; 4], "a Hello of 4 bytes does not hold its fields and nothing else"),
        (message(9, b""), "a message of kind 9, due is Hello: connect again"),
        (message(0xf2, b""), "a message of kind 242, due is Hello: connect again"),
        (
            message(0xf0, b"otherwise"),
            "the first bytes are not those of a cell: this port is for cells only",
        ),
        (
            message(0xf0, &hello[5..hello.len() - 1]),
            "a Hello of 81 bytes does not hold its fields and nothing else",
        ),
        (
            message(0xf0, &[&hello[5..], &[0]].concat()),
            "a Hello of 83 bytes does not hold its fields and nothing else",
        ),
        (
            message(0xf0, &[&hello[5..hello.len() - 1], &[4]].concat()),
            "a Hello whose purpose is 4, allowed is 1 to 3",
        ),
    ];
    for (input, words) in cases {
        let mut pair = Pair::new();
        pair.to_acceptor = input;
        assert_eq!(pair.accept().expect_err(words).to_string(), words);
        assert_eq!(reason(&pair.connect()), Some(Refusal::Malformed), "{words}");
        assert_eq!(pair.accept(), Err(HandshakeError::Ended));
    }
}

/// A refusal is not proven to come from a cell: its text is bounded, and breaks no line of a log.
#[test]
fn the_text_of_a_refusal_is_bounded_and_plain() {
    let refusal = |fields: &[u8]| {
        let mut pair = Pair::new();
        let length = (fields.len() as u32 + 1).to_le_bytes();
        pair.to_connector = [&length[..], &[0xf4], fields].concat();
        let HandshakeError::Refused { reason, text } = pair.connect().expect_err("refused") else {
            panic!("a refusal is received as one");
        };
        assert_eq!(pair.to_acceptor.len(), Pair::new().to_acceptor.len(), "nothing is answered");
        (reason, text)
    };
    assert_eq!(refusal(b"\x05plain"), (Refusal::WrongCell, "plain".to_owned()));
    assert_eq!(refusal(b"\x63"), (Refusal::Other(99), String::new()));
    assert_eq!(refusal(b"").0, Refusal::Other(0));
    assert_eq!(refusal(b"\x01a\r\n\x1b[2Jb\xff").1, "a???[2Jb\u{fffd}");
    let long = refusal(&[1; HANDSHAKE_BYTES_MAX - 5]).1;
    assert_eq!(long, "?".repeat(TEXT_BYTES_MAX));
}

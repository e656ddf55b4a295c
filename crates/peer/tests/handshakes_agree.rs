//! Two cells with the same secret agree, however their bytes arrive. The bytes of each message are
//! written out.

mod common;

use common::{Pair, cell, secret};
use peer::{
    Acceptor, Connector, Frame, HANDSHAKE_BYTES_MAX, HandshakeError, Identity, Local, Purpose,
    Session, Step, Target, Versions,
};

fn done(step: &Result<Step, HandshakeError>) -> Session {
    match step {
        Ok(Step::Done { session, .. }) => *session,
        other => panic!("not done: {other:?}"),
    }
}

#[test]
fn both_sides_agree_on_everything() {
    for purpose in Purpose::ALL {
        let from = Local { features: 0b0111, ..cell(1) };
        let to = Local { features: 0b1101, ..cell(2) };
        for wanted in [0, 2] {
            let mut pair = Pair::of((&secret(), from), (&secret(), to), (wanted, purpose));
            let (connected, accepted) = pair.run();
            let of = |peer| Session { peer, purpose, version: 4, features: 0b0101 };
            assert_eq!(done(&connected), of(to.identity));
            assert_eq!(done(&accepted), of(from.identity));
            assert!(pair.to_acceptor.is_empty() && pair.to_connector.is_empty());
            assert_eq!(pair.connect(), Err(HandshakeError::Ended));
            assert_eq!(pair.accept(), Err(HandshakeError::Ended));
            assert!(pair.to_acceptor.is_empty() && pair.to_connector.is_empty());
        }
    }
}

#[test]
fn the_highest_common_version_is_chosen() {
    let cases =
        [((1, 1), (1, 1), 1), ((1, 3), (2, 9), 3), ((4, 9), (1, 4), 4), ((2, 5), (2, 5), 5)];
    for (from, to, version) in cases {
        let versions = |(min, max)| Versions { min, max };
        let from = Local { versions: versions(from), ..cell(1) };
        let to = Local { versions: versions(to), ..cell(2) };
        let mut pair = Pair::of((&secret(), from), (&secret(), to), (2, Purpose::Stream));
        let (connected, accepted) = pair.run();
        assert_eq!((done(&connected).version, done(&accepted).version), (version, version));
    }
}

#[test]
fn a_cell_that_is_no_member_may_join_for_control_only() {
    let joiner = Local::new(Identity { ring: 0, cell: 0, incarnation: 5 });
    let mut pair = Pair::of((&secret(), joiner), (&secret(), cell(2)), (0, Purpose::Control));
    let (connected, accepted) = pair.run();
    assert_eq!((done(&connected).peer, done(&accepted).peer), (cell(2).identity, joiner.identity));
}

/// Bytes that come one by one, and frames that come at once after the handshake.
#[test]
fn bytes_may_arrive_in_any_pieces() {
    let mut pair = Pair::new();
    let (mut connected, mut accepted) = (None, None);
    let (mut at_acceptor, mut at_connector) = (Vec::new(), Vec::new());
    for _ in 0..4 * HANDSHAKE_BYTES_MAX {
        if !pair.to_acceptor.is_empty() && accepted.is_none() {
            at_acceptor.push(pair.to_acceptor.remove(0));
            let step = pair.acceptor.receive(&at_acceptor, &mut pair.to_connector);
            let step = step.expect("a valid handshake");
            at_acceptor.drain(..step.consumed());
            accepted = matches!(step, Step::Done { .. }).then_some(step);
        }
        if !pair.to_connector.is_empty() && connected.is_none() {
            at_connector.push(pair.to_connector.remove(0));
            let step = pair.connector.receive(&at_connector, &mut pair.to_acceptor);
            let step = step.expect("a valid handshake");
            at_connector.drain(..step.consumed());
            connected = matches!(step, Step::Done { .. }).then_some(step);
        }
    }
    assert!(connected.is_some() && accepted.is_some());

    let mut pair = Pair::new();
    pair.accept().expect("a Hello");
    pair.connect().expect("a Welcome");
    let proof_bytes = pair.to_acceptor.len();
    Frame::Memory { free: 1 }.encode(&mut pair.to_acceptor);
    let step = pair.accept().expect("a Proof");
    assert_eq!((step.consumed(), pair.to_acceptor.len()), (proof_bytes, 13));
    assert!(matches!(step, Step::Done { .. }));
}

/// The bytes that were sent, in hexadecimal: cell 1 of ring 7 to cell 2, with nonces of 0xc0 and
/// 0xac. The proofs are those of another implementation of HMAC-SHA-256.
#[test]
fn each_message_has_these_bytes() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut pair = Pair::new();
    let hello = [
        "4e000000",
        "f0",
        "766f6c766f780d0a",
        "0400",
        "0400",
        "0000000000000000",
        "0700000000000000",
        "01000000",
        "6500000000000000",
        &"c0".repeat(32),
        "02000000",
        "01",
    ];
    assert_eq!(hex(&pair.to_acceptor), hello.concat());
    pair.accept().expect("a Hello");
    let welcome = [
        "6b000000",
        "f1",
        "766f6c766f780d0a",
        "0400",
        "0400",
        "0000000000000000",
        "0700000000000000",
        "02000000",
        "6600000000000000",
        &"ac".repeat(32),
        "0400",
        "83e8f247dd4307361278fe84568af94b627f4b6ad05e725208df2c04af81131f",
    ];
    assert_eq!(hex(&pair.to_connector), welcome.concat());
    pair.connect().expect("a Welcome");
    let proof =
        ["21000000", "f2", "071017fcc4f021d0a995adecab11c435fc193f2517073d3681a7cf8255e713c3"];
    assert_eq!(hex(&pair.to_acceptor), proof.concat());
    pair.accept().expect("a Proof");
    assert_eq!(hex(&pair.to_connector), "01000000f3");
}

/// No message of a handshake is longer than the bound.
#[test]
fn messages_are_short() {
    let mut pair = Pair::new();
    let mut longest = pair.to_acceptor.len();
    pair.accept().expect("a Hello");
    longest = longest.max(pair.to_connector.len());
    let mut out = Vec::new();
    let target = Target { cell: 0, purpose: Purpose::Stream };
    let _ = Connector::new(&secret(), cell(1), target, [1; 32], &mut out);
    let far = Local { versions: Versions { min: 60_000, max: 65_535 }, ..cell(u32::MAX) };
    let mut refusal = Vec::new();
    let refused = Acceptor::new(&secret(), far, [2; 32]).receive(&out, &mut refusal);
    assert!(matches!(refused, Err(HandshakeError::UnknownVersion { .. })));
    longest = longest.max(refusal.len());
    assert!(longest <= HANDSHAKE_BYTES_MAX, "{longest}");
}

use super::*;
use crate::workload::{Multiget, Popularity, Ratio, Spread, Stream, Workload, WorkloadSpec};

/// Keys k0 to k9 asked for in order, with values of 12 bytes.
struct Bench {
    rules: Rules,
    stream: Stream,
    exchange: Exchange,
    tally: Tally,
    sent: Vec<u8>,
}

impl Bench {
    fn new(protocol: Protocol, multiget: u32, ratio: Ratio) -> Self {
        let workload = Workload::new(&WorkloadSpec {
            keys: 10,
            key_bytes: Spread::Fixed(2),
            key_prefix: "k".into(),
            popularity: Popularity::Sequential,
            ratio,
            value_bytes: Spread::Fixed(12),
            ttl_s: Spread::Fixed(0),
            seed: 1,
        })
        .unwrap();
        let rules = Rules {
            refill: true,
            multiget: Multiget { keys: Spread::Fixed(multiget), consecutive: false },
            measure_from_ns: 100,
            measure_until_ns: 1_000,
            ..Rules::plain(protocol, &workload, true)
        };
        let stream = Stream::new(&workload, 0, 1);
        let (exchange, tally) = (Exchange::new(protocol), Tally::default());
        Self { rules, stream, exchange, tally, sent: Vec::new() }
    }

    fn ask(&mut self, from_ns: u64) {
        let Self { rules, stream, exchange, sent, .. } = self;
        exchange.outstanding().ask(rules, stream, from_ns, sent);
    }

    /// Presents `reply` at time 500.
    fn receive(&mut self, reply: &[u8]) -> Result<usize, Breach> {
        let Self { rules, exchange, tally, .. } = self;
        exchange.receive(rules, 500, reply, tally)
    }

    fn reply(&self, head: &str, key: u64) -> Vec<u8> {
        let mut reply = head.as_bytes().to_vec();
        self.rules.workload.values.write(key, 12, &mut reply);
        reply.extend_from_slice(b"\r\n");
        reply
    }
}

const GETS: Ratio = Ratio::of(1, 0);
const SETS: Ratio = Ratio::of(0, 1);
const DELETES: Ratio = Ratio { deletes: 1, ..Ratio::of(0, 0) };
const MODIFIES: Ratio = Ratio { modifies: 1, ..Ratio::of(0, 0) };

#[test]
fn a_hit_a_miss_and_its_refill() {
    let mut bench = Bench::new(Protocol::Text, 1, GETS);
    bench.ask(200);
    bench.ask(300);
    assert_eq!(bench.sent, b"get k0\r\nget k1\r\n");
    let mut reply = bench.reply("VALUE k0 0 12\r\n", 0);
    reply.extend_from_slice(b"END\r\nEND\r\n");
    assert_eq!(bench.receive(&reply), Ok(reply.len()));
    let tally = &bench.tally;
    assert_eq!(
        (tally.requests.gets, tally.totals.hits, tally.totals.misses, tally.totals.wrong_values),
        (2, 1, 1, 0)
    );
    assert_eq!((tally.totals.answered, tally.get_ns.max()), (2, 300));
    assert!(bench.exchange.outstanding().wants_follow_up());
    bench.sent.clear();
    bench.exchange.outstanding().follow_up(&bench.rules, 500, &mut bench.sent);
    assert!(bench.sent.starts_with(b"set k1 0 0 12\r\n"));
    assert_eq!(bench.receive(b"STORED\r\n"), Ok(8));
    assert_eq!((bench.tally.requests.refills, bench.exchange.pending()), (1, 0));
}

#[test]
fn one_wrong_byte_is_seen_wherever_the_reply_is_cut() {
    let whole = {
        let bench = Bench::new(Protocol::Text, 1, GETS);
        let mut reply = bench.reply("VALUE k0 0 12\r\n", 0);
        reply.extend_from_slice(b"END\r\n");
        reply
    };
    for flip in [None, Some(15), Some(22), Some(23), Some(26)] {
        let mut reply = whole.clone();
        if let Some(at) = flip {
            reply[at] ^= 0x20;
        }
        for cut in 0..reply.len() {
            let mut bench = Bench::new(Protocol::Text, 1, GETS);
            bench.ask(200);
            let used = bench.receive(&reply[..cut]).unwrap();
            bench.receive(&reply[used..]).unwrap();
            assert_eq!(
                bench.tally.totals.wrong_values,
                u64::from(flip.is_some()),
                "{flip:?} cut {cut}"
            );
            assert_eq!((bench.tally.requests.gets, bench.tally.totals.hits), (1, 1));
        }
    }
}

#[test]
fn a_wrong_length_and_a_swapped_value_are_wrong() {
    for reply in [
        &b"VALUE k0 0 3\r\nabc\r\nEND\r\n"[..],
        &[&Bench::new(Protocol::Text, 1, GETS).reply("VALUE k0 0 12\r\n", 1)[..], b"END\r\n"]
            .concat(),
    ] {
        let mut bench = Bench::new(Protocol::Text, 1, GETS);
        bench.ask(200);
        bench.receive(reply).unwrap();
        assert_eq!(bench.tally.totals.wrong_values, 1);
        assert!(bench.tally.samples[0].contains("wrong value for key k0"));
    }
}

#[test]
fn many_keys_at_once_in_both_dialects() {
    for (protocol, heads, end) in [
        (Protocol::Text, ["VALUE k1 0 12\r\n", "VALUE k3 0 12\r\n"], &b"END\r\n"[..]),
        (Protocol::Meta, ["VA 12 kk1\r\n", "VA 12 kk3\r\n"], b"MN\r\n"),
    ] {
        let mut bench = Bench::new(protocol, 4, GETS);
        bench.ask(200);
        let reply = [&bench.reply(heads[0], 1)[..], &bench.reply(heads[1], 3), end].concat();
        assert_eq!(bench.receive(&reply), Ok(reply.len()));
        let tally = &bench.tally;
        assert_eq!(
            (tally.requests.gets, tally.totals.hits, tally.totals.misses),
            (1, 2, 2),
            "{protocol:?}"
        );
        assert_eq!(
            (tally.totals.answered, tally.totals.keys_answered, tally.totals.wrong_values),
            (1, 4, 0)
        );
        let refills: Vec<u64> =
            bench.exchange.outstanding.follow_ups.iter().map(|next| next.key).collect();
        assert_eq!(refills, [0, 2]);
    }
}

#[test]
fn meta_gets_of_one_key_end_with_their_value() {
    let mut bench = Bench::new(Protocol::Meta, 1, GETS);
    bench.ask(200);
    bench.ask(200);
    let reply = [&bench.reply("VA 12\r\n", 0)[..], b"EN\r\n"].concat();
    assert_eq!(bench.receive(&reply), Ok(reply.len()));
    assert_eq!(
        (bench.tally.totals.hits, bench.tally.totals.misses, bench.exchange.pending()),
        (1, 1, 0)
    );
}

#[test]
fn the_warm_up_is_not_measured_but_its_late_replies_are_answers() {
    let mut bench = Bench::new(Protocol::Text, 1, SETS);
    bench.ask(50);
    bench.ask(150);
    bench.receive(b"STORED\r\nSTORED\r\n").unwrap();
    assert_eq!((bench.tally.requests.sets, bench.tally.totals.answered), (1, 2));
}

#[test]
fn errors_are_counted_and_kept() {
    let mut bench = Bench::new(Protocol::Text, 1, SETS);
    bench.ask(200);
    bench.ask(200);
    bench.receive(b"SERVER_ERROR out of memory storing object\r\nNOT_STORED\r\n").unwrap();
    let tally = &bench.tally;
    assert_eq!((tally.requests.errors, tally.requests.not_stored, tally.requests.sets), (1, 1, 1));
    assert_eq!(tally.samples, ["SERVER_ERROR out of memory storing object"]);
    let mut batch = Bench::new(Protocol::Meta, 2, GETS);
    batch.ask(200);
    batch.receive(b"SERVER_ERROR out of memory\r\nMN\r\n").unwrap();
    assert_eq!(
        (batch.tally.requests.errors, batch.tally.totals.misses, batch.exchange.pending()),
        (1, 0, 0)
    );
}

#[test]
fn replies_to_something_else_end_the_conversation() {
    for (ratio, reply, word) in [
        (GETS, &b"STORED\r\n"[..], "no reply to a Get"),
        (SETS, b"END\r\n", "no reply to a Set"),
        (SETS, b"DELETED\r\n", "no reply to a Set"),
        (DELETES, b"STORED\r\n", "no reply to a Delete"),
        (GETS, b"VALUE k9 0 1\r\nx\r\nEND\r\n", "did not request"),
        (GETS, b"VALUE k00 0 1\r\nx\r\nEND\r\n", "did not request"),
        (GETS, b"VALUE  0 1\r\nx\r\nEND\r\n", "did not request"),
        (GETS, b"END\r\nEND\r\n", "a reply to no request"),
        (GETS, b"WHAT\r\n", "WHAT"),
        (GETS, b"VALUE k0 0 1\r\nxyz", "no reply"),
    ] {
        let mut bench = Bench::new(Protocol::Text, 1, ratio);
        bench.ask(200);
        let Breach(text) = bench.receive(reply).unwrap_err();
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn deletes_are_answered_whether_or_not_the_key_was_there() {
    for (protocol, sent, reply) in [
        (Protocol::Text, "delete k0\r\ndelete k1\r\n", &b"DELETED\r\nNOT_FOUND\r\n"[..]),
        (Protocol::Meta, "md k0\r\nmd k1\r\n", b"HD\r\nNF\r\n"),
    ] {
        let mut bench = Bench::new(protocol, 1, DELETES);
        bench.ask(200);
        bench.ask(200);
        assert_eq!(bench.sent, sent.as_bytes());
        assert_eq!(bench.receive(reply), Ok(reply.len()));
        let tally = &bench.tally;
        assert_eq!(
            (tally.requests.deletes, tally.requests.not_found, tally.delete_ns.len()),
            (2, 1, 2)
        );
        assert_eq!((tally.totals.misses, tally.completed()), (0, 2));
    }
}

#[test]
fn a_read_modify_write_stores_what_it_read_or_missed() {
    for hit in [true, false] {
        let mut bench = Bench::new(Protocol::Text, 1, MODIFIES);
        bench.ask(200);
        let mut reply = if hit { bench.reply("VALUE k0 0 12\r\n", 0) } else { Vec::new() };
        reply.extend_from_slice(b"END\r\n");
        bench.receive(&reply).unwrap();
        assert_eq!((bench.tally.requests.gets, bench.tally.totals.hits), (1, u64::from(hit)));
        bench.sent.clear();
        let Bench { rules, exchange, sent, .. } = &mut bench;
        exchange.outstanding().follow_up(rules, 450, sent);
        assert!(
            sent.starts_with(b"set k0 0 0 12\r\n") && !exchange.outstanding().wants_follow_up()
        );
        bench.receive(b"STORED\r\n").unwrap();
        let tally = &bench.tally;
        // From the read's beginning at 200 to the write's end at 500.
        assert_eq!(
            (tally.requests.modifies, tally.modify_ns.max(), tally.set_ns.len()),
            (1, 300, 0)
        );
    }
    let mut refused = Bench::new(Protocol::Text, 1, MODIFIES);
    refused.ask(200);
    refused.receive(b"SERVER_ERROR busy\r\n").unwrap();
    assert!(
        !refused.exchange.outstanding().wants_follow_up() && refused.tally.requests.errors == 1
    );
}

#[test]
fn quiet_writes_are_answered_by_the_end_of_their_batch() {
    let mut sets = Bench::new(Protocol::Meta, 1, SETS);
    sets.rules.multiset = 3;
    sets.ask(200);
    let text = String::from_utf8_lossy(&sets.sent).into_owned();
    assert_eq!((text.matches(" q\r\n").count(), text.ends_with("mn\r\n")), (3, true), "{text}");
    assert_eq!(sets.receive(b"NS\r\nMN\r\n"), Ok(8));
    let tally = &sets.tally;
    assert_eq!(
        (tally.requests.sets, tally.requests.not_stored, tally.totals.keys_answered),
        (1, 1, 3)
    );

    let mut deletes = Bench::new(Protocol::Meta, 1, DELETES);
    deletes.rules.multiset = 2;
    deletes.ask(200);
    deletes.receive(b"SERVER_ERROR busy\r\nMN\r\n").unwrap();
    assert_eq!((deletes.tally.requests.errors, deletes.exchange.pending()), (1, 0));
    for reply in [&b"HD\r\n"[..], b"EN\r\n"] {
        deletes.ask(200);
        assert!(deletes.receive(reply).is_err(), "{reply:?} says what quiet commands do not");
        deletes = Bench::new(Protocol::Meta, 1, DELETES);
        deletes.rules.multiset = 2;
    }
}

#[test]
fn the_end_of_a_batch_is_no_answer_to_a_single_get() {
    for (protocol, reply) in
        [(Protocol::Meta, &b"MN\r\n"[..]), (Protocol::Text, b"MN\r\n"), (Protocol::Text, b"HD\r\n")]
    {
        let mut bench = Bench::new(protocol, 1, GETS);
        bench.ask(200);
        assert!(bench.receive(reply).is_err(), "{protocol:?}");
    }
}

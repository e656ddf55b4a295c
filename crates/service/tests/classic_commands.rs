//! The classic commands, as memcached answers them: request bytes against reply bytes.

mod support;

use session::Flow;
use support::{Rig, START_S};

#[test]
fn values_are_stored_on_their_conditions() {
    Rig::new().converse(&[
        ("get a|", "END|"),
        ("set a 5 0 3|one|", "STORED|"),
        ("get a|", "VALUE a 5 3|one|END|"),
        ("add a 0 0 3|two|", "NOT_STORED|"),
        ("add b 0 0 3|two|", "STORED|"),
        ("replace c 0 0 1|x|", "NOT_STORED|"),
        ("replace b 9 0 5|three|", "STORED|"),
        ("get b a|", "VALUE b 9 5|three|VALUE a 5 3|one|END|"),
        ("append b 1 0 2|!!|", "STORED|"),
        ("prepend b 1 0 2|??|", "STORED|"),
        ("get b|", "VALUE b 9 9|??three!!|END|"),
        ("append c 0 0 1|x|", "NOT_STORED|"),
        ("prepend c 0 0 1|x|", "NOT_STORED|"),
        ("set a 0 0 0||", "STORED|"),
        ("get a|", "VALUE a 0 0||END|"),
        ("delete a|", "DELETED|"),
        ("delete a|", "NOT_FOUND|"),
        ("delete b 0|", "DELETED|"),
        ("set any 0 0 8|\0\t \r\n\x7f#!|", "STORED|"),
        ("get any|", "VALUE any 0 8|\0\t \r\n\x7f#!|END|"),
    ]);
}

#[test]
fn a_cas_fails_after_another_change() {
    Rig::new().converse(&[
        ("cas a 0 0 1 1|x|", "NOT_FOUND|"),
        ("set a 0 0 1|x|", "STORED|"),
        ("gets a|", "VALUE a 0 1 1|x|END|"),
        ("cas a 0 0 1 1|y|", "STORED|"),
        ("cas a 0 0 1 1|z|", "EXISTS|"),
        ("gets a a|", "VALUE a 0 1 2|y|VALUE a 0 1 2|y|END|"),
        ("append a 0 0 1|!|", "STORED|"),
        ("cas a 0 0 1 2|z|", "EXISTS|"),
        ("cas a 0 0 1 3|z|", "STORED|"),
        ("delete a|", "DELETED|"),
        ("cas a 0 0 1 4|z|", "NOT_FOUND|"),
    ]);
}

#[test]
fn numbers_wrap_upwards_and_stop_at_zero() {
    let not_number = "CLIENT_ERROR cannot increment or decrement non-numeric value|";
    Rig::new().converse(&[
        ("incr n 1|", "NOT_FOUND|"),
        ("decr n 1|", "NOT_FOUND|"),
        ("set n 7 0 2|99|", "STORED|"),
        ("incr n 1|", "100|"),
        ("decr n 1|", "99|"),
        ("get n|", "VALUE n 7 3|99 |END|"),
        ("decr n 1000|", "0|"),
        ("set n 0 0 20|18446744073709551615|", "STORED|"),
        ("incr n 2|", "1|"),
        ("incr n 18446744073709551616|", "CLIENT_ERROR invalid numeric delta argument|"),
        ("incr n -1|", "CLIENT_ERROR invalid numeric delta argument|"),
        ("set t 0 0 3|abc|", "STORED|"),
        ("incr t 1|", not_number),
        ("decr t 1|", not_number),
    ]);
}

#[test]
fn items_expire_on_their_second() {
    let mut rig = Rig::new();
    let at = START_S + 20;
    rig.converse(&[
        ("set rel 0 10 1|r|", "STORED|"),
        (&format!("set abs 0 {at} 1|a|"), "STORED|"),
        ("set past 0 -1 1|p|", "STORED|"),
        ("set ever 0 0 1|e|", "STORED|"),
        ("get rel abs past ever|", "VALUE rel 0 1|r|VALUE abs 0 1|a|VALUE ever 0 1|e|END|"),
        ("touch past 5|", "NOT_FOUND|"),
        ("touch ever 15|", "TOUCHED|"),
    ]);
    rig.wait_s(9);
    rig.converse(&[("get rel|", "VALUE rel 0 1|r|END|")]);
    rig.wait_s(1);
    rig.converse(&[
        ("get rel|", "END|"),
        ("add rel 0 0 1|n|", "STORED|"),
        ("gat 100 abs none|", "VALUE abs 0 1|a|END|"),
        ("gats 0 abs|", "VALUE abs 0 1 1|a|END|"),
    ]);
    rig.wait_s(15);
    rig.converse(&[("get rel abs ever|", "VALUE rel 0 1|n|VALUE abs 0 1|a|END|")]);
    rig.converse(&[("gat -1 abs|", "VALUE abs 0 1|a|END|"), ("get abs|", "END|")]);
}

#[test]
fn noreply_silences_successes_and_errors() {
    Rig::new().converse(&[
        ("set a 0 0 1 noreply|1|", ""),
        ("add a 0 0 1 noreply|2|", ""),
        ("replace a 0 0 1 noreply|3|", ""),
        ("append a 0 0 1 noreply|4|", ""),
        ("prepend a 0 0 1 noreply|5|", ""),
        ("cas a 0 0 1 99 noreply|6|", ""),
        ("incr a 1 noreply|", ""),
        ("decr a 2 noreply|", ""),
        ("incr none 1 noreply|", ""),
        ("get a|", "VALUE a 0 3|533|END|"),
        ("touch a 0 noreply|", ""),
        ("delete a noreply|", ""),
        ("delete a noreply|", ""),
        ("verbosity 1 noreply|", ""),
        ("flush_all noreply|", ""),
        ("flush_all 10 noreply|", ""),
        ("incr a b noreply|", ""),
        ("mn|", "MN|"),
    ]);
}

#[test]
fn errors_say_what_memcached_says() {
    let long = "k".repeat(251);
    let long_key = format!("get {long}|");
    let long_set = format!("set {long} 0 0 2|hi|");
    let huge = format!("set a 0 0 1001|{}|", "v".repeat(1001));
    let grown = format!("append a 0 0 600|{}|", "v".repeat(600));
    let format_error = "CLIENT_ERROR bad command line format|";
    let too_large = "SERVER_ERROR object too large for cache|";
    Rig::new().converse(&[
        ("nonsense|", "ERROR|"),
        ("get|", format_error),
        ("set a 0 0|", format_error),
        (&long_key, format_error),
        (&long_set, format_error),
        ("set a x 0 1|v|", format_error),
        ("set a 0 x 1|v|", format_error),
        ("touch a x|", "CLIENT_ERROR invalid exptime argument|"),
        ("set a 0 0 -1|", format_error),
        ("set a 0 0 1|long|", "CLIENT_ERROR bad data chunk|CLIENT_ERROR bad command line format|"),
        ("mn|", "MN|"),
        ("set a 0 0 1|v|", "STORED|"),
        (&huge, too_large),
        ("get a|", "END|"),
        ("set a 0 0 1|v|", "STORED|"),
        (&huge.replace("set", "append"), too_large),
        (&format!("ms a 1001 MA|{}|", "v".repeat(1001)), too_large),
        ("get a|", "VALUE a 0 1|v|END|"),
        ("set a 0 0 600|", ""),
        (&format!("{}|", "v".repeat(600)), "STORED|"),
        (&grown, "NOT_STORED|"),
        ("version|", "VERSION 1.6.45|"),
    ]);
}

#[test]
fn without_memory_the_old_value_stays_except_after_a_set() {
    let mut rig = Rig::without_eviction();
    let value = "v".repeat(900);
    rig.converse(&[("set kept 0 0 1|x|set lost 0 0 1|x|", "STORED|STORED|")]);
    let no_room = "SERVER_ERROR out of memory storing object\r\n";
    let refused = (0..20_000)
        .filter(|number| rig.send(format!("set {number} 0 0 900\r\n{value}\r\n")) == no_room)
        .take(100);
    assert_eq!(refused.count(), 100, "memory is full");
    let token = rig.send("gets kept\r\n");
    let token = token.lines().next().and_then(|line| line.rsplit(' ').next()).expect("a token");
    rig.converse(&[
        (
            &format!("cas kept 0 0 900 {token}|{value}|"),
            "SERVER_ERROR out of memory storing object|",
        ),
        (&format!("append kept 0 0 900|{value}|"), "SERVER_ERROR out of memory storing object|"),
        (&format!("ms kept 900 MA|{value}|"), "SERVER_ERROR out of memory storing object|"),
        (&format!("ms kept 900 MP|{value}|"), "SERVER_ERROR out of memory storing object|"),
        ("get kept|", "VALUE kept 0 1|x|END|"),
        (&format!("set lost 0 0 900|{value}|"), "SERVER_ERROR out of memory storing object|"),
        ("get lost|", "END|"),
    ]);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut rig = Rig::new();
    let mut request = String::new();
    let mut want = String::new();
    for number in 0..3000 {
        request += &format!("set k{number} 0 0 1\r\nx\r\nget k{number}\r\nincr none 1\r\nmn\r\n");
        want += &format!("STORED\r\nVALUE k{number} 0 1\r\nx\r\nEND\r\nNOT_FOUND\r\nMN\r\n");
    }
    assert_eq!(rig.send(&request), want);
    let got: String = request.as_bytes().chunks(7).map(|part| rig.send(part)).collect();
    assert_eq!(got, want, "the same in pieces of seven bytes");
}

#[test]
fn a_multiget_takes_thousands_of_keys_or_none() {
    let mut rig = Rig::new();
    let value = "v".repeat(900);
    let (mut request, mut want) = (String::from("get"), String::new());
    for number in 0..3000 {
        if number % 3 == 0 {
            rig.send(format!("set key-{number} 0 0 900 noreply\r\n{value}\r\n"));
            want += &format!("VALUE key-{number} 0 900\r\n{value}\r\n");
        }
        request += &format!(" key-{number}");
    }
    let (whole, want) = (format!("{request}\r\n"), format!("{want}END\r\n"));
    assert_eq!(rig.send(&whole), want);
    let spoiled = format!("{request} {} key-0\r\nmn\r\n", "k".repeat(251));
    assert_eq!(rig.send(&spoiled), "CLIENT_ERROR bad command line format\r\nMN\r\n");
    for verb in ["get", "gets", "gat 0", "gats 0"] {
        for before in [1, 16, 40] {
            let line =
                format!("{verb}{} {} key-0\r\nmn\r\n", " key-0".repeat(before), "k".repeat(251));
            assert_eq!(rig.send(line), "CLIENT_ERROR bad command line format\r\nMN\r\n", "{verb}");
        }
    }
}

/// Sixteen keys are looked up together, but each value counts.
#[test]
fn a_part_of_a_multiget_is_a_value_longer_than_it_should_be_at_most() {
    const PART_BYTES: usize = 256 << 10;
    for verb in ["get", "gets", "gat 0"] {
        let mut rig = Rig::new();
        rig.send(format!("set key 0 0 1000\r\n{}\r\n", "v".repeat(1000)));
        let got = rig.send(format!("{verb}{}\r\n", " key".repeat(600)));
        assert_eq!(got.matches("VALUE key 0 1000").count(), 600);
        let longest = PART_BYTES..PART_BYTES + 1100;
        assert!(longest.contains(&rig.longest_turn), "{verb}: {} bytes", rig.longest_turn);
    }
}

#[test]
fn a_connection_ends_when_it_must() {
    let endless = "x".repeat(3000);
    for (request, want) in [
        (&b"set a 0 0 1\r\nx\r\nquit\r\nget a\r\n"[..], "STORED\r\n"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", ""),
        (endless.as_bytes(), ""),
    ] {
        let mut rig = Rig::new();
        assert_eq!(rig.send(request), want);
        assert_eq!(rig.flow, Flow::Close, "after {want}");
    }
    let mut rig = Rig::new();
    let mut version = [0; 24];
    version[..2].copy_from_slice(b"\x80\x0b");
    let answer = rig.send(version);
    assert!(answer.ends_with("the binary protocol is not spoken here"), "{answer:?}");
    assert_eq!(rig.flow, Flow::Close);
}

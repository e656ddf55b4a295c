//! Requests as bytes, appended to the buffer of one connection.
//!
//! Pure: keys and values are written straight into the buffer, from their numbers. Nothing is
//! checked here: plans refuse what a dialect cannot say.

use super::binary;
use super::dialect::Protocol;
use crate::workload::{Request, Workload};

/// Whether a command is always answered, or is one of a batch of quiet commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It is always answered.
    Alone,
    /// Part of a batch that [`compose_end`] closes; not in the text dialect.
    Quiet,
}

/// Appends what closes a batch of quiet commands.
#[inline]
pub fn compose_end(protocol: Protocol, out: &mut Vec<u8>) {
    match protocol {
        Protocol::Text => debug_assert!(false, "invariant: plans refuse quiet text"),
        Protocol::Meta => out.extend_from_slice(b"mn\r\n"),
        Protocol::Binary => binary::compose_end(out),
    }
}

/// Appends one get of `keys`; its reply ends with a line of its own unless it is a meta get of a
/// single key.
#[inline]
pub fn compose_get(
    protocol: Protocol,
    workload: &Workload,
    keys: impl ExactSizeIterator<Item = u64>,
    out: &mut Vec<u8>,
) {
    let single = keys.len() == 1;
    match protocol {
        Protocol::Text => {
            out.extend_from_slice(b"get");
            for key in keys {
                out.push(b' ');
                workload.keys.write(key, out);
            }
            out.extend_from_slice(b"\r\n");
        }
        Protocol::Meta => {
            for key in keys {
                out.extend_from_slice(b"mg ");
                workload.keys.write(key, out);
                out.extend_from_slice(if single { b" v\r\n" } else { b" k v q\r\n" });
            }
            if !single {
                compose_end(protocol, out);
            }
        }
        Protocol::Binary => {
            for key in keys {
                binary::compose_get(workload, key, !single, out);
            }
            if !single {
                compose_end(protocol, out);
            }
        }
    }
}

/// Appends one set: header and value.
#[inline]
pub fn compose_set(
    protocol: Protocol,
    workload: &Workload,
    set: Request,
    manner: Manner,
    out: &mut Vec<u8>,
) {
    match protocol {
        Protocol::Text => {
            out.extend_from_slice(b"set ");
            workload.keys.write(set.key, out);
            out.extend_from_slice(b" 0 ");
            write_number(set.ttl_s, out);
            out.push(b' ');
            write_number(set.value_bytes, out);
        }
        Protocol::Meta => {
            out.extend_from_slice(b"ms ");
            workload.keys.write(set.key, out);
            out.push(b' ');
            write_number(set.value_bytes, out);
            if set.ttl_s != 0 {
                out.extend_from_slice(b" T");
                write_number(set.ttl_s, out);
            }
            if manner == Manner::Quiet {
                out.extend_from_slice(b" q");
            }
        }
        Protocol::Binary => {
            binary::compose_set(workload, set, manner == Manner::Quiet, out);
            return;
        }
    }
    out.extend_from_slice(b"\r\n");
    workload.values.write(set.key, set.value_bytes, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends one delete.
#[inline]
pub fn compose_delete(
    protocol: Protocol,
    workload: &Workload,
    key: u64,
    manner: Manner,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(match protocol {
        Protocol::Text => b"delete ",
        Protocol::Meta => b"md ",
        Protocol::Binary => {
            binary::compose_delete(workload, key, manner == Manner::Quiet, out);
            return;
        }
    });
    workload.keys.write(key, out);
    out.extend_from_slice(if manner == Manner::Quiet { b" q\r\n" } else { b"\r\n" });
}

/// Appends `number` in decimal.
#[inline]
fn write_number(mut number: u32, out: &mut Vec<u8>) {
    // Ten digits hold every 32-bit number.
    let mut digits = [0; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Op, Popularity, Ratio, Spread, WorkloadSpec};

    #[test]
    fn requests_read_as_the_protocol_says() {
        let workload = Workload::new(&WorkloadSpec {
            keys: 100,
            key_bytes: Spread::Fixed(4),
            key_prefix: "k".into(),
            popularity: Popularity::Uniform,
            ratio: Ratio::of(1, 1),
            value_bytes: Spread::Fixed(3),
            ttl_s: Spread::Fixed(0),
            seed: 1,
        })
        .unwrap();
        let mut value = Vec::new();
        workload.values.write(7, 3, &mut value);
        let get = |protocol, keys: &[u64]| {
            let mut out = Vec::new();
            compose_get(protocol, &workload, keys.iter().copied(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(get(Protocol::Text, &[7]), "get k007\r\n");
        assert_eq!(get(Protocol::Text, &[7, 42]), "get k007 k042\r\n");
        assert_eq!(get(Protocol::Meta, &[7]), "mg k007 v\r\n");
        assert_eq!(get(Protocol::Meta, &[7, 42]), "mg k007 k v q\r\nmg k042 k v q\r\nmn\r\n");
        for (protocol, manner, line) in [
            (Protocol::Text, Manner::Alone, "delete k007\r\n"),
            (Protocol::Meta, Manner::Alone, "md k007\r\n"),
            (Protocol::Meta, Manner::Quiet, "md k007 q\r\n"),
        ] {
            let mut out = Vec::new();
            compose_delete(protocol, &workload, 7, manner, &mut out);
            assert_eq!(out, line.as_bytes());
        }
        use Manner::{Alone, Quiet};
        for (protocol, manner, ttl_s, head) in [
            (Protocol::Text, Alone, 0, "set k007 0 0 3\r\n"),
            (Protocol::Text, Alone, 4_294_967_295, "set k007 0 4294967295 3\r\n"),
            (Protocol::Meta, Alone, 0, "ms k007 3\r\n"),
            (Protocol::Meta, Alone, 60, "ms k007 3 T60\r\n"),
            (Protocol::Meta, Quiet, 60, "ms k007 3 T60 q\r\n"),
        ] {
            let mut out = Vec::new();
            let set = Request { op: Op::Set, key: 7, value_bytes: 3, ttl_s };
            compose_set(protocol, &workload, set, manner, &mut out);
            let expected = [head.as_bytes(), &value, b"\r\n"].concat();
            assert_eq!(out, expected);
        }
        let set = Request { op: Op::Set, key: 7, value_bytes: 3, ttl_s: 60 };
        for (manner, opcode) in [(Alone, 0x01), (Quiet, 0x11)] {
            let mut out = Vec::new();
            compose_set(Protocol::Binary, &workload, set, manner, &mut out);
            let head = [0x80, opcode, 0, 4, 8, 0, 0, 0, 0, 0, 0, 15];
            let expected = [&head[..], &[0; 16], &[0, 0, 0, 60], b"k007", &value].concat();
            assert_eq!(out, expected);
        }
        let gets = get_bytes(&workload, &[7, 42]);
        assert_eq!(gets.len(), 2 * 28 + 24);
        assert_eq!((gets[1], gets[29], gets[57]), (0x0d, 0x0d, 0x0a));
        assert_eq!(get_bytes(&workload, &[7])[..4], [0x80, 0, 0, 4]);
    }

    fn get_bytes(workload: &Workload, keys: &[u64]) -> Vec<u8> {
        let mut out = Vec::new();
        compose_get(Protocol::Binary, workload, keys.iter().copied(), &mut out);
        out
    }
}

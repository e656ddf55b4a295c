//! Any bytes as a trace, plain or compressed: records and at most one error, nothing after the
//! error, and the same result however the bytes are read.
#![no_main]

use std::io::{BufRead, BufReader, Read};

use libfuzzer_sys::fuzz_target;
use load::fuzzing::Unpack;
use load::replay::{Columns, Form, Record, Records};

/// The most bytes that are unpacked: a few compressed bytes may stand for gigabytes.
const UNPACKED_BYTES_MAX: u64 = 1 << 20;

/// The first bytes of a Zstandard frame.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fuzz_target!(|input: &[u8]| {
    let Some(([which, settings, step], trace)) = input.split_first_chunk() else {
        return;
    };
    let step = usize::from(*step).max(1);
    let columns = Columns {
        time: usize::from(settings % 4),
        id: usize::from(settings / 4 % 4) + 1,
        size: usize::from(settings / 16 % 4),
        delimiter: b',',
        header: settings & 0x80 != 0,
    };
    match which % 3 {
        0 => {
            let (records, well) = read(trace, Form::OracleGeneral, step);
            assert_eq!((records.len(), well), (trace.len() / 24, trace.len() % 24 == 0));
        }
        1 => {
            let (records, _) = read(trace, Form::Csv(columns), step);
            assert!(records.len() <= trace.split(|byte| *byte == b'\n').count());
        }
        _ => {
            let packed = [&MAGIC[..], trace].concat();
            let limited = |packed| Unpack::new(packed).take(UNPACKED_BYTES_MAX);
            let whole = BufReader::new(limited(&packed[..]));
            let (records, _) = all(Records::new("trace", whole, Form::OracleGeneral));
            assert!(records.len() as u64 <= UNPACKED_BYTES_MAX / 24);
        }
    }
});

/// The records of `trace`. They must be the same when it is read in pieces of `step` bytes.
fn read(trace: &[u8], form: Form, step: usize) -> (Vec<Record>, bool) {
    let whole = all(Records::new("trace", trace, form));
    let pieces = BufReader::with_capacity(step, trace);
    assert_eq!(whole, all(Records::new("trace", pieces, form)));
    whole
}

/// All records before the end or an error, and whether there was no error.
fn all<R: BufRead>(mut records: Records<R>) -> (Vec<Record>, bool) {
    let mut good = Vec::new();
    while let Some(record) = records.next() {
        match record {
            Ok(record) => good.push(record),
            Err(error) => {
                assert!(error.to_string().len() > 10 && records.next().is_none());
                return (good, false);
            }
        }
    }
    (good, true)
}

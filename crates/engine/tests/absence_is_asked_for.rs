//! A key without an item in memory may have one below it. What decides by the absence of an item
//! asks the sink first. Where that does not say that there is none, nothing is decided and nothing
//! has changed; where it does, or has nothing to say, the result is what it is without a tier.
#![cfg(not(any(loom, shuttle)))]

mod below;

use base::{EffectSink, MemoryBudget, NoSink, Now, Removal};
use below::{Below, Event, Held, held};
use engine::{
    Action, Engine, EngineConfig, FetchOptions, Found, Mode, Obstacle, Op, Pin, Put, Read,
    ValueSink, WriteResult, WriteStatus,
};

const LIMIT_BYTES: u64 = 1 << 20;
const KEY: &[u8] = b"key";
/// Second in which an item is stored that expires in the next one.
const BEFORE: Now = Now { mono_ns: 0, expiry_s: 999 };
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
/// Lengths of values: over the old one, in one piece of its own, and in chunks.
const LENGTHS: [usize; 3] = [3, 8_300, 60_000];

/// What memory knows of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Present,
    Missing,
    Expired,
    Flushed,
}

const STATES: [State; 4] = [State::Present, State::Missing, State::Expired, State::Flushed];

/// An engine in which the key is in a state, and the token that its item has or had.
fn cell(state: State) -> (Engine, Pin, u64) {
    let config = EngineConfig { locals: 1, ..EngineConfig::new(LIMIT_BYTES) };
    let (engine, mut locals) =
        Engine::new(config, MemoryBudget::new(LIMIT_BYTES)).expect("enough memory");
    let mut pin = locals.remove(0).pin();
    let key = engine.key(KEY);
    let mut token = 0;
    if state != State::Missing {
        let expiry_s = if state == State::Expired { NOW.expiry_s } else { 0 };
        let put = Put { value: b"12", client_flags: 5, expiry_s };
        assert_eq!(engine.set(&mut pin, &key, put, BEFORE, &mut NoSink), WriteStatus::Done);
        token = engine.peek(&pin, &key, BEFORE).expect("it was stored").cas;
    }
    if state == State::Flushed {
        engine.flush();
    }
    (engine, pin, token)
}

/// What is left of an engine.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    held: Vec<Held>,
    items: u64,
    item_words: u64,
}

fn left(engine: &Engine, pin: &mut Pin) -> Left {
    let counters = engine.counters();
    let (items, item_words) = (counters.items, counters.item_words);
    Left { held: held(engine, pin, NOW), items, item_words }
}

const EMPTY: Left = Left { held: Vec::new(), items: 0, item_words: 0 };

/// Runs `request` on a key in each state, with each answer, and compares. `asks`: it decides by
/// the absence of an item. `later`: its result where it must not.
fn check<T: PartialEq + std::fmt::Debug>(
    what: &str,
    asks: bool,
    later: &T,
    request: impl Fn(&Engine, &mut Pin, u64, &mut Below) -> T,
    plain: impl Fn(&Engine, &mut Pin, u64) -> T,
) {
    for state in STATES {
        let what = format!("{what}, {state:?}");
        let dead = match state {
            State::Expired | State::Flushed => {
                vec![Event::Removed(KEY.to_vec(), Removal::Expired)]
            }
            _ => Vec::new(),
        };
        let asked = asks && state != State::Present;
        let run = |absent| {
            let (engine, mut pin, token) = cell(state);
            let mut sink = Below::new(absent);
            let result = request(&engine, &mut pin, token, &mut sink);
            (result, sink.events, left(&engine, &mut pin))
        };
        let (result, mut events, held) = run(true);
        let others = events.split_off(dead.len().min(events.len()));
        assert_eq!(events, dead, "{what}: what is dead is removed first");
        let first = others.first() == Some(&Event::Asked(KEY.to_vec()));
        let times = others.iter().filter(|event| matches!(event, Event::Asked(_))).count();
        assert_eq!((first, times), (asked, usize::from(asked)), "{what}: {others:?}");
        // Without a sink a removal draws no number, and a touch none either.
        if dead.is_empty() && !others.iter().any(|event| matches!(event, Event::Touched(_))) {
            let (engine, mut pin, token) = cell(state);
            assert_eq!(result, plain(&engine, &mut pin, token), "{what}: as without a tier");
            assert_eq!(held, left(&engine, &mut pin), "{what}: as without a tier");
        }
        let (refused, events, kept) = run(false);
        if asked {
            assert_eq!(refused, *later, "{what}");
            assert_eq!(events, [dead, vec![Event::Asked(KEY.to_vec())]].concat(), "{what}");
            assert_eq!(kept, EMPTY, "{what}: nothing has changed");
        } else {
            assert_eq!((refused, kept), (result, held), "{what}: nobody was asked");
        }
    }
}

fn check_write(what: &str, asks: bool, op: impl Fn(&Engine, u64) -> Op<'static>) {
    fn write<S: EffectSink>(
        op: Op<'_>,
        engine: &Engine,
        pin: &mut Pin,
        sink: &mut S,
    ) -> WriteResult {
        engine.write(pin, &Op { report: true, ..op }, NOW, sink)
    }
    let status = WriteStatus::Later(Obstacle::Elsewhere);
    check(
        what,
        asks,
        &WriteResult { status, found: None, number: 0 },
        |engine, pin, token, sink| write(op(engine, token), engine, pin, sink),
        |engine, pin, token| write(op(engine, token), engine, pin, &mut NoSink),
    );
}

fn value(bytes: usize) -> &'static [u8] {
    static VALUE: [u8; LENGTHS[2]] = [b'7'; LENGTHS[2]];
    &VALUE[..bytes]
}

#[test]
fn by_every_way_to_store() {
    let modes = [
        Mode::Set,
        Mode::Add,
        Mode::Replace,
        Mode::Append { vivify: false },
        Mode::Append { vivify: true },
        Mode::Prepend { vivify: false },
        Mode::Prepend { vivify: true },
    ];
    for (mode, bytes) in modes.iter().flat_map(|mode| LENGTHS.map(|bytes| (*mode, bytes))) {
        let store = Action::Store { mode, value: value(bytes), client_flags: 1, expiry_s: 9_000 };
        let what = format!("{mode:?} of {bytes} bytes");
        check_write(&what, mode != Mode::Set, |engine, _| Op::new(engine.key(KEY), store));
        for (wrong, older_as_stale) in [(0, false), (1, false), (1, true)] {
            let what = format!("{what}, compared with a token of {wrong} less: {older_as_stale}");
            check_write(&what, true, |engine, token| {
                let compare = Some(token.wrapping_sub(wrong));
                Op { compare, older_as_stale, ..Op::new(engine.key(KEY), store) }
            });
        }
        let what = format!("{what}, with a token");
        check_write(&what, mode != Mode::Set, |engine, _| Op {
            cas: Some(77),
            ..Op::new(engine.key(KEY), store)
        });
    }
}

#[test]
fn by_every_other_change() {
    for initial in [None, Some((40, 0))] {
        for down in [false, true] {
            let count = Action::Count { delta: 2, down, initial, expiry_s: None };
            check_write(&format!("{count:?}"), true, |engine, _| Op::new(engine.key(KEY), count));
        }
    }
    for action in [
        Action::Touch { expiry_s: 9_000 },
        Action::Touch { expiry_s: 0 },
        Action::Delete,
        Action::Invalidate { expiry_s: None },
        Action::Invalidate { expiry_s: Some(9_000) },
        Action::Clear { client_flags: 1, expiry_s: None, stale: false },
        Action::Clear { client_flags: 1, expiry_s: Some(9_000), stale: true },
    ] {
        check_write(&format!("{action:?}"), true, |engine, _| Op::new(engine.key(KEY), action));
        check_write(&format!("{action:?} compared"), true, |engine, token| Op {
            compare: Some(token),
            ..Op::new(engine.key(KEY), action)
        });
    }
}

/// The short way of most sets.
#[test]
fn but_not_by_a_plain_set() {
    fn set<S: EffectSink>(engine: &Engine, pin: &mut Pin, sink: &mut S) -> WriteStatus {
        let put = Put { value: b"new", client_flags: 0, expiry_s: 0 };
        engine.set(pin, &engine.key(KEY), put, NOW, sink)
    }
    let later = &WriteStatus::Later(Obstacle::Elsewhere);
    let by_sink = |engine: &Engine, pin: &mut Pin, _, sink: &mut Below| set(engine, pin, sink);
    check("set", false, later, by_sink, |engine, pin, _| set(engine, pin, &mut NoSink));
}

#[test]
fn by_every_read_that_changes() {
    fn fetch<S: EffectSink>(
        options: &FetchOptions,
        engine: &Engine,
        pin: &mut Pin,
        sink: &mut S,
    ) -> (Read, Vec<u8>, Option<Found>) {
        let mut out = ValueSink::default();
        let read = engine.fetch(pin, &engine.key(KEY), options, NOW, sink, &mut out);
        (read, out.bytes, (read == Read::Hit).then_some(out.found))
    }
    let none = FetchOptions::default();
    for options in [
        none,
        FetchOptions { touch: Some(9_000), ..none },
        FetchOptions { vivify: Some(0), ..none },
        FetchOptions { vivify: Some(9_000), vivify_cas: Some(8), ..none },
        FetchOptions { vivify: Some(0), touch: Some(9_000), ..none },
        FetchOptions { recache_before_s: Some(9_000), ..none },
        FetchOptions { quiet: true, leaves_token: true, ..none },
    ] {
        check(
            &format!("{options:?}"),
            true,
            &(Read::Later(Obstacle::Elsewhere), Vec::new(), None),
            |engine, pin, _, sink| fetch(&options, engine, pin, sink),
            |engine, pin, _| fetch(&options, engine, pin, &mut NoSink),
        );
    }
}

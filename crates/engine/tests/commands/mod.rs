//! Every command that changes or reads an item, drawn at random, for the tests that compare an
//! engine with something simpler.
#![allow(dead_code)]

use base::{EffectSink, Now, Version};
use engine::{
    Action, Engine, FetchOptions, Found, ItemView, Mode, Op, Pin, Put, Read, ReadSink, WriteResult,
    WriteStatus,
};
use measure::rng::Rng;
use std::fmt;

/// A command with all that it carries.
#[derive(Clone)]
pub struct Command {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub what: What,
    pub compare: Option<u64>,
    pub older_as_stale: bool,
    pub cas: Option<u64>,
    pub report: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    Get,
    Fetch(FetchOptions),
    /// The short way of a set.
    Set(u32, u32),
    Store(Mode, u32, u32),
    Count {
        delta: u64,
        down: bool,
        initial: Option<(u64, u32)>,
        expiry_s: Option<u32>,
    },
    Touch(u32),
    Delete,
    Invalidate(Option<u32>),
    Clear {
        client_flags: u32,
        expiry_s: Option<u32>,
        stale: bool,
    },
}

/// What a read found: the item with its version, and its value.
#[derive(Clone, Default)]
pub struct Seen {
    pub found: Found,
    pub version: Version,
    pub value: Vec<u8>,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:?}, {:?}", shown(&self.value), self.version, self.found)
    }
}

impl ReadSink for Seen {
    fn open(&mut self, view: &ItemView<'_>) -> Option<&mut Vec<u8>> {
        (self.found, self.version) = (view.found(), view.version());
        self.value.clear();
        Some(&mut self.value)
    }

    fn rewind(&mut self) {
        *self = Self::default();
    }
}

/// How a command ended.
#[derive(Clone, Debug)]
pub enum Answer {
    Read(Read, Seen),
    Wrote(WriteResult),
}

impl Answer {
    /// Whether nothing could be done now.
    pub fn is_later(&self) -> bool {
        match self {
            Self::Read(read, _) => matches!(read, Read::Later(_)),
            Self::Wrote(wrote) => matches!(wrote.status, WriteStatus::Later(_)),
        }
    }

    /// Whether there was no space.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::Read(read, _) => matches!(read, Read::NoSpace),
            Self::Wrote(wrote) => wrote.status == WriteStatus::NoSpace,
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, what, compare, older_as_stale, cas, report } = self;
        let (key, value) = (key.escape_ascii(), shown(value));
        write!(f, "{what:?} of {key} with {value}, compare {compare:?} ({older_as_stale}), ")?;
        write!(f, "cas {cas:?}, report {report}")
    }
}

/// A value for messages: the first of its bytes.
pub fn shown(value: &[u8]) -> String {
    let first = &value[..value.len().min(8)];
    format!("{} bytes, '{}'", value.len(), first.escape_ascii())
}

impl Command {
    /// `what` on `key`, without a value and without conditions.
    pub fn new(key: Vec<u8>, what: What) -> Self {
        let (value, older_as_stale, report) = (Vec::new(), false, false);
        Self { key, value, what, compare: None, older_as_stale, cas: None, report }
    }

    pub fn run<S: EffectSink>(
        &self,
        engine: &Engine,
        pin: &mut Pin,
        now: Now,
        sink: &mut S,
    ) -> Answer {
        let key = engine.key(&self.key);
        let mut seen = Seen::default();
        let action = match self.what {
            What::Get => return Answer::Read(engine.get(pin, &key, now, &mut seen), seen),
            What::Fetch(options) => {
                let read = engine.fetch(pin, &key, &options, now, sink, &mut seen);
                return Answer::Read(read, seen);
            }
            What::Set(client_flags, expiry_s) => {
                let put = Put { value: &self.value, client_flags, expiry_s };
                let status = engine.set(pin, &key, put, now, sink);
                return Answer::Wrote(WriteResult { status, found: None, number: 0 });
            }
            What::Store(mode, client_flags, expiry_s) => {
                Action::Store { mode, value: &self.value, client_flags, expiry_s }
            }
            What::Count { delta, down, initial, expiry_s } => {
                Action::Count { delta, down, initial, expiry_s }
            }
            What::Touch(expiry_s) => Action::Touch { expiry_s },
            What::Delete => Action::Delete,
            What::Invalidate(expiry_s) => Action::Invalidate { expiry_s },
            What::Clear { client_flags, expiry_s, stale } => {
                Action::Clear { client_flags, expiry_s, stale }
            }
        };
        let Self { compare, older_as_stale, cas, report, .. } = *self;
        let op = Op { compare, older_as_stale, cas, report, ..Op::new(key, action) };
        Answer::Wrote(engine.write(pin, &op, now, sink))
    }
}

/// What commands are drawn with.
pub struct Draw<'d> {
    pub dice: &'d mut Rng,
    pub now: Now,
    /// The longest value.
    pub value_bytes_max: u64,
    /// The token that the item is thought to have.
    pub token: Option<u64>,
}

impl Draw<'_> {
    fn one_in(&mut self, sides: u64) -> bool {
        self.dice.below(sides) == 0
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.dice.below(10) {
            0 => self.dice.below(self.value_bytes_max),
            1 => 0,
            2 => return self.dice.below(2_000).to_string().into_bytes(),
            _ => self.dice.below(400.min(self.value_bytes_max)),
        };
        let salt = self.dice.below(256) as u8;
        (0..len).map(|at| (at as u8).wrapping_mul(31) ^ salt).collect()
    }

    fn expiry_s(&mut self) -> u32 {
        match self.dice.below(20) {
            0 => self.now.expiry_s,
            1..6 => self.now.expiry_s + 1 + self.dice.below(2_000) as u32,
            6..10 => self.now.expiry_s + 1 + self.dice.below(9) as u32,
            _ => 0,
        }
    }

    fn perhaps_expiry_s(&mut self) -> Option<u32> {
        (self.one_in(2)).then(|| self.expiry_s())
    }

    fn mode(&mut self) -> Mode {
        match self.dice.below(8) {
            0 => Mode::Add,
            1 => Mode::Replace,
            2 => Mode::Append { vivify: false },
            3 => Mode::Prepend { vivify: true },
            4 => Mode::Append { vivify: true },
            5 => Mode::Prepend { vivify: false },
            _ => Mode::Set,
        }
    }

    fn fetch(&mut self) -> FetchOptions {
        FetchOptions {
            touch: self.perhaps_expiry_s(),
            vivify: self.one_in(3).then(|| self.expiry_s()),
            vivify_cas: self.one_in(3).then(|| self.dice.below(1_000)),
            recache_before_s: self
                .one_in(3)
                .then(|| self.now.expiry_s + self.dice.below(20) as u32),
            quiet: self.one_in(2),
            leaves_token: self.one_in(3),
        }
    }

    fn what(&mut self) -> What {
        let client_flags = self.dice.below(3) as u32;
        match self.dice.below(100) {
            0..25 => What::Get,
            25..45 => What::Set(client_flags, self.expiry_s()),
            45..65 => What::Store(self.mode(), client_flags, self.expiry_s()),
            65..73 => What::Count {
                delta: self.dice.below(1_000),
                down: self.one_in(2),
                initial: self.one_in(2).then(|| (7, self.expiry_s())),
                expiry_s: self.one_in(3).then(|| self.expiry_s()),
            },
            73..79 => What::Touch(self.expiry_s()),
            79..86 => What::Delete,
            86..89 => What::Invalidate(self.perhaps_expiry_s()),
            89..92 => What::Clear {
                client_flags,
                expiry_s: self.perhaps_expiry_s(),
                stale: self.one_in(2),
            },
            _ => What::Fetch(self.fetch()),
        }
    }

    /// A command on `key`.
    pub fn command(&mut self, key: Vec<u8>) -> Command {
        let what = self.what();
        let mut command = Command::new(key, what);
        if let What::Set(..) | What::Store(..) = what {
            command.value = self.value();
        }
        if let What::Get | What::Fetch(_) | What::Set(..) = what {
            return command;
        }
        command.report = self.one_in(2);
        command.cas = self.one_in(6).then(|| self.dice.below(1 << 20));
        command.older_as_stale = self.one_in(2);
        if self.one_in(3) {
            let token = self.token.unwrap_or(77);
            command.compare = Some(match self.dice.below(6) {
                0 => token.saturating_sub(1 + self.dice.below(3)),
                1 => token + 1 + self.dice.below(3),
                _ => token,
            });
        }
        command
    }
}

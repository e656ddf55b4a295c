//! A fill of a key beside changes of it. The sink of the changes notes each of them; a fill is
//! admitted only where none was noted. So it comes before all of them, or not at all.
//!
//! The same runs on plain threads, and under shuttle and loom.

use base::{Effect, EffectSink, Facts, KeyId, Now, Refused, SliceId, Space, Version};
use engine::{
    Action, Engine, Filled, Loaded, Local, Mode, Obstacle, Op, Read, ValueSink, WriteStatus,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
const KEY: &[u8] = b"key";
const NEW: &[u8] = b"new";
/// Times that a change is tried again which has to wait for the batch of the fill.
const TRIES_MAX: usize = 1_000;

/// Notes that the key was changed. It is written and read under the lock of the bucket.
#[derive(Clone, Default)]
pub struct Watch(Arc<AtomicBool>);

impl Watch {
    fn is_unchanged(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

impl EffectSink for Watch {
    const ON: bool = true;

    fn reserve(&mut self, _: SliceId, _: Space<'_>) -> Result<(), Refused> {
        Ok(())
    }

    fn commit(
        &mut self,
        _: KeyId,
        effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        let version = stamp()?;
        if effect.key == KEY {
            self.0.store(true, Ordering::Relaxed);
        }
        Ok(version)
    }
}

/// What happens beside a fill.
#[derive(Clone, Copy, Debug)]
pub enum Changes {
    Set,
    SetAndDelete,
    AddAndDelete,
}

pub const CHANGES: [Changes; 3] = [Changes::Set, Changes::SetAndDelete, Changes::AddAndDelete];

impl Changes {
    /// Makes the changes.
    pub fn make(self, engine: &Engine, local: &mut Local, watch: &Watch) {
        let mode = if matches!(self, Self::AddAndDelete) { Mode::Add } else { Mode::Set };
        let store = Action::Store { mode, value: NEW, client_flags: 0, expiry_s: 0 };
        let mut write = |action| {
            let op = Op::new(engine.key(KEY), action);
            let mut try_once =
                || local.batch(|pin| engine.write(pin, &op, NOW, &mut watch.clone())).status;
            let is_made = |status: &WriteStatus| *status != WriteStatus::Later(Obstacle::Memory);
            (0..TRIES_MAX).map(|_| try_once()).find(is_made).expect("the fill ends")
        };
        let stored = write(store);
        // The fill may have come first.
        assert!(matches!(stored, WriteStatus::Done | WriteStatus::NotStored), "{stored:?}");
        if !matches!(self, Self::Set) {
            assert_eq!(write(Action::Delete), WriteStatus::Done);
        }
    }

    /// Checks that the last of the changes is what is left.
    pub fn check(self, engine: &Engine, local: &mut Local) {
        let mut out = ValueSink::default();
        let read = local.batch(|pin| engine.get(pin, &engine.key(KEY), NOW, &mut out));
        match self {
            Self::Set => assert_eq!((read, &out.bytes[..]), (Read::Hit, NEW)),
            _ => assert_eq!(read, Read::Miss, "{self:?}: {}", out.bytes.escape_ascii()),
        }
    }
}

/// Installs `value`, unless a change was noted.
pub fn fill(engine: &Engine, local: &mut Local, watch: &Watch, value: &[u8]) {
    let (key, facts, version) = (engine.key(KEY), Facts::default(), Version::from_raw(1));
    let loaded = Loaded { key, value: [value, &[]], facts, version };
    let filled = local
        .batch(|pin| engine.fill(pin, &loaded, NOW, &mut watch.clone(), || watch.is_unchanged()));
    // The batch of the other thread may hold memory that it needs.
    let later = Filled::Later(Obstacle::Memory);
    assert!([Filled::Done, Filled::Stale, Filled::Refused, later].contains(&filled), "{filled:?}");
}

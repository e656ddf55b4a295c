//! Sinks of the model test: they learn of what others remove, and refuse effects on request.

use base::{Change, Effect, EffectSink, KeyId, NoSink, Refused, Removal, SliceId, Space, Version};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A removal that no command asked for.
#[derive(Clone, Debug)]
pub struct Gone {
    pub key: Vec<u8>,
    pub version: Version,
    pub removal: Removal,
}

/// What all sinks have learnt, by the thread that owns the key.
pub struct Events {
    gone: Vec<Mutex<Vec<Gone>>>,
    pub evicted: AtomicU64,
    pub expired: AtomicU64,
}

impl Events {
    pub fn new(threads: usize) -> Arc<Self> {
        let gone = (0..threads).map(|_| Mutex::default()).collect();
        Arc::new(Self { gone, evicted: AtomicU64::new(0), expired: AtomicU64::new(0) })
    }

    /// What is gone of the keys of one thread, since this was last called.
    pub fn take(&self, owner: usize) -> Vec<Gone> {
        std::mem::take(&mut self.gone[owner].lock().expect("no thread has panicked"))
    }
}

/// The name of a key, which begins with its owner.
pub fn name(owner: usize, number: u64) -> Vec<u8> {
    format!("{owner}-{number}").into_bytes()
}

fn owner(key: &[u8]) -> usize {
    usize::from(key[0] - b'0')
}

/// Where a sink refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Reserve,
    Commit,
}

/// A sink as the model test uses it.
pub trait Spy: EffectSink {
    /// A command on `key` begins. Everything is refused until the next, if `refuse` says so; but
    /// [`Refused::Flushed`] once.
    fn begin(&mut self, key: &[u8], refuse: Option<(At, Refused)>);

    /// The version of the last change that the command made.
    fn own(&self) -> Option<Version>;

    /// Whether it has refused anything.
    fn has_refused(&self) -> bool;

    /// A batch ends.
    fn end_batch(&mut self);
}

impl Spy for NoSink {
    fn begin(&mut self, _: &[u8], _: Option<(At, Refused)>) {}

    fn own(&self) -> Option<Version> {
        None
    }

    fn has_refused(&self) -> bool {
        false
    }

    fn end_batch(&mut self) {}
}

/// A sink that takes everything, or a log.
pub trait Inner: EffectSink {
    fn end_batch(&mut self);
}

/// Takes everything.
pub struct Stamps;

impl EffectSink for Stamps {
    const ON: bool = true;

    fn reserve(&mut self, _: SliceId, _: Space<'_>) -> Result<(), Refused> {
        Ok(())
    }

    fn commit(
        &mut self,
        _: KeyId,
        _: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        stamp()
    }
}

impl Inner for Stamps {
    fn end_batch(&mut self) {}
}

impl Inner for effects::WorkerSink {
    fn end_batch(&mut self) {
        Self::end_batch(self);
    }
}

/// Passes effects on, and learns from them.
pub struct Witness<S> {
    inner: S,
    events: Arc<Events>,
    key: Vec<u8>,
    own: Option<Version>,
    refuse: Option<(At, Refused)>,
    has_refused: bool,
    last: HashMap<SliceId, Version>,
}

impl<S: Inner> Witness<S> {
    pub fn new(inner: S, events: Arc<Events>) -> Self {
        let (key, last) = (Vec::new(), HashMap::new());
        Self { inner, events, key, own: None, refuse: None, has_refused: false, last }
    }

    fn refuses(&mut self, at: At) -> Result<(), Refused> {
        let Some((_, why)) = self.refuse.filter(|(place, _)| *place == at) else { return Ok(()) };
        if why == Refused::Flushed {
            self.refuse = None;
        }
        self.has_refused = true;
        Err(why)
    }
}

impl<S: Inner> EffectSink for Witness<S> {
    const ON: bool = true;

    fn reserve(&mut self, slice: SliceId, space: Space<'_>) -> Result<(), Refused> {
        self.refuses(At::Reserve)?;
        self.inner.reserve(slice, space)
    }

    fn commit(
        &mut self,
        key: KeyId,
        effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        self.refuses(At::Commit)?;
        let version = self.inner.commit(key, effect, stamp)?;
        let last = self.last.entry(key.slice).or_default();
        assert!(version > *last, "versions of a slice rise");
        *last = version;
        match effect.change {
            Change::Remove(removal @ (Removal::Evicted | Removal::Expired)) => {
                let count = match removal {
                    Removal::Evicted => &self.events.evicted,
                    _ => &self.events.expired,
                };
                count.fetch_add(1, Ordering::Relaxed);
                let gone = Gone { key: effect.key.to_vec(), version, removal };
                let owner = &self.events.gone[owner(effect.key)];
                owner.lock().expect("no thread has panicked").push(gone);
            }
            _ => {
                assert_eq!(effect.key, self.key, "only the key of the command is changed");
                self.own = Some(version);
            }
        }
        Ok(version)
    }
}

impl<S: Inner> Spy for Witness<S> {
    fn begin(&mut self, key: &[u8], refuse: Option<(At, Refused)>) {
        self.key.clear();
        self.key.extend_from_slice(key);
        (self.own, self.refuse, self.has_refused) = (None, refuse, false);
    }

    fn own(&self) -> Option<Version> {
        self.own
    }

    fn has_refused(&self) -> bool {
        self.has_refused
    }

    fn end_batch(&mut self) {
        self.inner.end_batch();
    }
}

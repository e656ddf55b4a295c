//! One key under change, and everything that takes part in it.

use crate::effect::{Change, EffectSink, Gone};
use crate::engine::{Current, Engine};
use crate::index::Chain;
use crate::key::Key;
use crate::local::Local;
use base::{Now, Version};

/// Ground is short: so many segments must be freed before the write can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeedSpace {
    pub(crate) segments: usize,
}

impl NeedSpace {
    pub(crate) const ONE: Self = Self { segments: 1 };
}

/// Who changes what, when, and who is told. Its methods are spread over the files that know how:
/// `store` decides, `place` and `large` write, `get` touches.
pub(crate) struct Writer<'w, 'e, S> {
    pub(crate) engine: &'e Engine,
    pub(crate) local: &'w mut Local,
    pub(crate) key: &'w Key<'w>,
    pub(crate) now: Now,
    pub(crate) sink: &'w mut S,
}

impl<'e, S: EffectSink> Writer<'_, 'e, S> {
    /// Locks the chain of the key.
    pub(crate) fn lock(&self) -> Result<Chain<'e>, NeedSpace> {
        self.engine.index.lock(&self.engine.epochs, self.key.id).ok_or(NeedSpace::ONE)
    }

    /// The item of the key if it is alive; a dead one is removed on the way.
    pub(crate) fn find_alive(&mut self, chain: &mut Chain<'_>) -> Option<Current<'e>> {
        let current = self.engine.find(chain, self.key)?;
        if self.engine.alive(current.item, current.head, self.key.id.slice, self.now) {
            return Some(current);
        }
        self.remove(chain, &current, Gone::Expired);
        None
    }

    /// Takes the item out of the index, and its ground is dead.
    pub(crate) fn remove(&mut self, chain: &mut Chain<'_>, current: &Current<'_>, gone: Gone) {
        self.engine.remove(self.local, chain, self.key, current, gone, self.sink);
    }

    /// Gives a change its version, and tells the sink if it listens.
    pub(crate) fn tell(&mut self, change: Change<'_>) -> Version {
        self.engine.tell(self.key, change, self.sink)
    }
}

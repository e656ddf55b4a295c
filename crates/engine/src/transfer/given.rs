//! The sink of changes that have their version already: those of another engine, and what is
//! loaded from below the memory.

use base::{Effect, EffectSink, KeyId, Refused, SliceId, Space, Version};

/// Gives a change the `version` that it has, if `admit` admits it. Nothing can fail between that
/// and the change.
pub(super) struct Given<A> {
    pub(super) version: Version,
    pub(super) admit: A,
}

impl<A: FnMut() -> bool> EffectSink for Given<A> {
    const ON: bool = false;

    fn reserve(&mut self, _: SliceId, _: Space<'_>) -> Result<(), Refused> {
        Ok(())
    }

    fn commit(
        &mut self,
        _: KeyId,
        _: &Effect<'_>,
        _: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        if (self.admit)() { Ok(self.version) } else { Err(Refused::Sealed) }
    }
}

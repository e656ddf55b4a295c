//! `lru_crawler metadump` and `mgdump`: every key, slice by slice, sent as it is made.

use crate::meta::debug;
use crate::worker::Service;
use base::{KeyId, Now, SliceId, Version};
use engine::{Cursor, Effect, EffectSink, More};
use memcache::{Key, reply};
use session::{Conn, Outcome, Reply};

/// Bytes of reply after which a dump is sent as far as it has come.
const PART_BYTES_MAX: usize = 128 << 10;

/// Items told between two looks at the end of a slice.
const ITEMS_PER_STEP: u32 = 256;

/// Collects the keys of a slice.
#[derive(Default)]
struct Names(Vec<Vec<u8>>);

impl EffectSink for Names {
    const ON: bool = true;

    fn commit(&mut self, _key: KeyId, effect: &Effect<'_>) -> Version {
        self.0.push(effect.key.to_vec());
        effect.version
    }
}

impl Service {
    pub(crate) fn metadump(
        &mut self,
        now: Now,
        conn: &mut Conn,
        classes: &[u8],
        reply: &mut Reply,
    ) -> Outcome {
        let allowed = self.cell.options.allow_dump;
        let refusal = if allowed { check(classes) } else { Some(reply::METADUMP_DISABLED) };
        if let Some(line) = refusal {
            reply.bytes_mut().extend_from_slice(line);
            return Outcome::Done;
        }
        self.dump(now, conn, reply, reply::END, |service, key, out| {
            let (engine, local) = service.engine();
            if let Some(found) = engine.peek(local, &engine.key(key.as_bytes()), now) {
                reply::metadump(out, key, &debug(&found, now), now.expiry_s);
            }
        })
    }

    pub(crate) fn mgdump(
        &mut self,
        now: Now,
        conn: &mut Conn,
        classes: &[u8],
        reply: &mut Reply,
    ) -> Outcome {
        let allowed = self.cell.options.allow_dump;
        let refusal = if allowed { check(classes) } else { Some(reply::MGDUMP_DISABLED) };
        if let Some(line) = refusal {
            reply.bytes_mut().extend_from_slice(line);
            return Outcome::Done;
        }
        self.dump(now, conn, reply, reply::META_END, |_, key, out| reply::mgdump(out, key))
    }

    /// Goes on from slice `conn.progress` until a part is full or all slices are told.
    fn dump(
        &mut self,
        now: Now,
        conn: &mut Conn,
        reply: &mut Reply,
        end: &[u8],
        mut tell: impl FnMut(&mut Self, Key<'_>, &mut Vec<u8>),
    ) -> Outcome {
        let start = reply.mark();
        while let Some(slice) = SliceId::new(conn.progress as usize) {
            for name in self.names(now, slice) {
                let key = Key::new(&name).expect("the engine holds keys of legal length");
                tell(self, key, reply.bytes_mut());
            }
            conn.progress += 1;
            if reply.len_since(start) >= PART_BYTES_MAX {
                return Outcome::More;
            }
        }
        reply.bytes_mut().extend_from_slice(end);
        Outcome::Done
    }

    fn names(&mut self, now: Now, slice: SliceId) -> Vec<Vec<u8>> {
        let (engine, local) = self.engine();
        let mut names = Names::default();
        let mut at = Cursor::default();
        while engine.scan(local, slice, &mut at, ITEMS_PER_STEP, now, &mut names) == More::Yes {}
        names.0
    }
}

/// What is wrong with the classes asked for, if anything: `all`, `hash`, or numbers.
fn check(classes: &[u8]) -> Option<&'static [u8]> {
    let number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let known =
        classes == b"all" || classes == b"hash" || classes.split(|byte| *byte == b',').all(number);
    (!known).then_some(reply::BAD_CLASS)
}

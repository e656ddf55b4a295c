//! How an engine is built, and the sizes that follow from it.
//!
//! ```text
//! segment = largest power of two <= limit/512, within 16 KiB ..= 2 MiB
//! groups  = largest power of two <= limit/64 KiB, within 1 ..= 16,384 (one per slice)
//! ```
//!
//! Everything here is fixed for the life of an engine. Only the limit changes, and the budget
//! holds that. Sizes are in bytes, or in words of eight bytes, as their names say.

use crate::item::{CLASSES, HEADER_BYTES, INLINE_VALUE_BYTES_MAX};
use crate::keys::KEY_BYTES_MAX;
use crate::sync::MODEL;
use base::{SLICE_BITS, SLICES};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const SEGMENTS_AIM: u64 = 512;
const SEGMENT_BYTES_MIN: u64 = if MODEL { 256 } else { 16 * KIB };
const SEGMENT_BYTES_MAX: u64 = 2 * MIB;

/// Memory served by one group of buckets when there are fewer groups than slices.
const GROUP_BYTES: u64 = 64 * KIB;

/// With fewer segments than this for each arena, items of all lifetimes share segments.
const SEGMENTS_FOR_CLASSES: u64 = 128;

/// A value up to this part of the limit, and of this many bytes, is received and sent as a whole.
const WHOLE_PART: u64 = 16;
const WHOLE_BYTES_MAX: u64 = MIB;

/// Segments that an engine works with at least: for both pools, for moves, and some to walk.
pub(crate) const SEGMENTS_MIN: u64 = 12;

/// Segments that each further arena needs: open in both pools, for moves, and one to walk.
pub(crate) const SEGMENTS_PER_ARENA_MIN: u64 = 4;

/// Segments for which there is one arena, at least: each has some that are partly filled.
const SEGMENTS_PER_ARENA: u64 = if MODEL { 8 } else { 256 };

/// The most arenas.
const ARENAS_MAX: usize = 64;

/// The smallest memory limit: a few segments, and the index of what fits.
pub const LIMIT_BYTES_MIN: u64 = SEGMENTS_MIN * SEGMENT_BYTES_MIN;

/// The most address space that an engine reserves, and so the highest limit.
pub const RESERVE_BYTES_MAX: u64 = 4 << 40;

/// How an engine is built.
///
/// ```
/// let config = engine::EngineConfig { evict: false, ..engine::EngineConfig::new(64 << 20) };
/// assert_eq!(config.value_bytes_max, 1 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Bytes to plan for: the sizes of segments and index follow. The budget enforces the limit.
    pub limit_bytes: u64,
    /// Bytes of address space to reserve: the highest value that the limit can be raised to. No
    /// more than [`RESERVE_BYTES_MAX`].
    pub reserve_bytes: u64,
    /// Whether to evict when full; otherwise storing fails with [`crate::WriteStatus::NoSpace`].
    pub evict: bool,
    /// Threads that work at the same time: the number of [`crate::Local`]s.
    pub locals: usize,
    /// Whether to ask the kernel for huge pages.
    pub huge_pages: bool,
    /// Whether to touch three quarters of the memory now rather than as it is used.
    pub prefault: bool,
    /// Key of the hash. A server draws it at random; tests fix it.
    pub hash_seed: u64,
    /// Epoch of the versions that are given: higher than any that the same data had before.
    pub epoch: u32,
    /// Decides where the version counter of each slice starts, below 2^30. A server without storage
    /// draws it at random, so that a token which a client kept over a restart does not match by
    /// chance. Tokens are small because some clients read only 32 bits of them.
    pub version_seed: Option<u64>,
    /// The longest value in bytes.
    pub value_bytes_max: usize,
    /// Whether a long value may be stored piece by piece, and read in parts by those who can.
    pub in_parts: bool,
}

impl EngineConfig {
    /// The defaults for a limit of `limit_bytes`, with eight locals.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            reserve_bytes: limit_bytes,
            evict: true,
            locals: 8,
            huge_pages: false,
            prefault: false,
            hash_seed: 0x9E37_79B9_7F4A_7C15,
            epoch: 0,
            version_seed: None,
            value_bytes_max: 1 << 20,
            in_parts: true,
        }
    }
}

/// Segments that one step of the rotating scan looks at, for one mostly dead or expired.
pub(crate) const SCAN_SEGMENTS_MAX: usize = 64;

/// Sizes derived from the configuration, fixed for the life of the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Words of one segment; a power of two.
    pub(crate) segment_words: usize,
    /// Its logarithm.
    pub(crate) segment_shift: u32,
    /// Segments that the reserved address space holds.
    pub(crate) segments_max: usize,
    /// Groups of buckets; a power of two, at most one per slice.
    pub(crate) groups: usize,
    /// Classes of lifetime that get segments of their own.
    pub(crate) classes: usize,
    /// Parts that threads are divided among, each with its own open segments and its own walk: a
    /// power of two, no more than there are locals.
    pub(crate) arenas: usize,
    /// The largest value kept in one piece, in bytes.
    pub(crate) inline_value_bytes_max: usize,
    /// The largest value, in bytes, that is always received and sent as a whole.
    pub(crate) whole_value_bytes_max: usize,
}

impl Geometry {
    pub(crate) fn of(config: &EngineConfig) -> Self {
        let limit = config.limit_bytes.max(LIMIT_BYTES_MIN);
        let aim = (limit / SEGMENTS_AIM).max(1);
        let segment_bytes = (1 << aim.ilog2()).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX) as usize;
        let groups = 1_usize << (limit / GROUP_BYTES).max(1).ilog2().min(SLICE_BITS);
        let reserve_bytes = config.reserve_bytes.max(limit).min(RESERVE_BYTES_MAX);
        let segments = limit / segment_bytes as u64;
        let few = segments < SEGMENTS_FOR_CLASSES;
        let arenas = config.locals.min((segments / SEGMENTS_PER_ARENA) as usize).max(1);
        let inline_value_bytes_max =
            (segment_bytes / 2 - HEADER_BYTES - KEY_BYTES_MAX - 16).min(INLINE_VALUE_BYTES_MAX);
        let whole = (limit / WHOLE_PART).min(WHOLE_BYTES_MAX) as usize;
        Self {
            segment_words: segment_bytes / 8,
            segment_shift: (segment_bytes / 8).trailing_zeros(),
            segments_max: (reserve_bytes / segment_bytes as u64) as usize,
            groups,
            classes: if few { 1 } else { CLASSES },
            arenas: (1 << arenas.ilog2()).min(ARENAS_MAX),
            inline_value_bytes_max,
            whole_value_bytes_max: match config.in_parts {
                true => whole.max(inline_value_bytes_max),
                false => usize::MAX,
            },
        }
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_words as u64 * 8
    }

    /// The limit from which on items of different lifetimes have segments of their own.
    #[inline]
    pub(crate) fn bytes_for_classes(&self) -> u64 {
        SEGMENTS_FOR_CLASSES * self.arenas as u64 * self.segment_bytes()
    }

    /// The least segments that an engine works with.
    pub(crate) fn segments_min(&self) -> u64 {
        SEGMENTS_MIN + (self.arenas as u64 - 1) * SEGMENTS_PER_ARENA_MIN
    }

    pub(crate) fn slices_per_group(&self) -> usize {
        SLICES / self.groups
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_limit() {
        for (limit, segment, groups, arenas) in [
            (LIMIT_BYTES_MIN, 16 * KIB, 2, 1),
            (4 * MIB, 16 * KIB, 64, 1),
            (8 * MIB, 16 * KIB, 128, 2),
            (64 * MIB, 128 * KIB, 1024, 2),
            (1024 * MIB, 2 * MIB, 16_384, 2),
            (4096 * MIB, 2 * MIB, 16_384, 8),
            (1 << 40, 2 * MIB, 16_384, 8),
        ] {
            let geometry = Geometry::of(&EngineConfig::new(limit));
            assert_eq!(geometry.segment_bytes(), segment, "{limit}");
            assert_eq!(geometry.groups, groups, "{limit}");
            assert_eq!(geometry.arenas, arenas, "{limit}");
            assert!(geometry.inline_value_bytes_max as u64 <= segment / 2);
        }
    }

    #[test]
    fn there_are_no_more_arenas_than_locals() {
        for (locals, arenas) in [(1, 1), (2, 2), (3, 2), (5, 4), (64, 64), (200, 64)] {
            let config = EngineConfig { locals, ..EngineConfig::new(64 << 30) };
            assert_eq!(Geometry::of(&config).arenas, arenas, "{locals}");
        }
    }
}

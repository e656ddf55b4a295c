//! What the processor has beyond what every x86-64 has.
//!
//! It is asked once, when an engine is made: a copy is so short that asking would be a part of it.
//! Until then, and on a processor that lacks them, nobody uses these instructions.

use std::arch::is_x86_feature_detected;
use std::sync::atomic::{AtomicBool, Ordering};

static WIDE: AtomicBool = AtomicBool::new(false);

/// Looks what there is.
pub(crate) fn look() {
    let wide = is_x86_feature_detected!("avx") && is_x86_feature_detected!("pclmulqdq");
    WIDE.store(wide, Ordering::Relaxed);
}

/// Whether there are AVX and PCLMULQDQ.
#[inline(always)]
pub(super) fn is_wide() -> bool {
    WIDE.load(Ordering::Relaxed)
}

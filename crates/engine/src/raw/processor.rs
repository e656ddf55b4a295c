//! What the processor has beyond what every x86-64 has.
//!
//! The processor is asked once, when an engine is made: a copy is so short that asking each time
//! would cost a part of it. Before that, and on a processor without them, these instructions are
//! not used. The answer never changes.

use std::arch::is_x86_feature_detected;
use std::sync::atomic::{AtomicBool, Ordering};

static WIDE: AtomicBool = AtomicBool::new(false);

/// Asks the processor.
pub(crate) fn look() {
    let wide = is_x86_feature_detected!("avx") && is_x86_feature_detected!("pclmulqdq");
    WIDE.store(wide, Ordering::Relaxed);
}

/// Whether the processor has AVX and PCLMULQDQ.
#[inline(always)]
pub(super) fn is_wide() -> bool {
    WIDE.load(Ordering::Relaxed)
}

//! Hit ratio, cache-aside, over the committed streams, against the newest memcached and against
//! item-level S3-FIFO.

use super::claim::{Claim, Measure, Peer};

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "hit.memcached",
        claim: "hit ratio over the committed streams, at equal -m and equal RSS",
        bar: "geometric mean above memcached's, none more than 1 point below",
        peer: Peer::NewestMemcached,
        measure: Measure::NotYet("the streams are not committed"),
    },
    Claim {
        id: "hit.s3fifo",
        claim: "hit ratio against item-level S3-FIFO at equal bytes",
        bar: "within 1 point",
        peer: Peer::Nobody,
        measure: Measure::NotYet("the streams are not committed"),
    },
];

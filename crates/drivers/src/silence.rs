//! How long a client may be silent, by what the server waits for: functions of the settings.
//!
//! Where two limits hold, the lower one counts. Limits are in seconds.

use crate::config::Config;
use crate::counters::{Counter, Counters};

/// What a client is expected to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// To send a request, or to go on with a short one.
    Request,
    /// To send the rest of a long request, which takes memory meanwhile.
    Rest,
    /// To take its replies.
    Taking,
}

/// Why a connection is closed whose client was silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kick {
    /// It sent nothing.
    Idle,
    /// It sent nothing of the rest of its request.
    Upload,
    /// It took nothing of its replies.
    Stall,
}

/// How long a client may be silent, and why it is closed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    /// More than 0.
    pub(crate) seconds: u32,
    pub(crate) kick: Kick,
}

impl Expected {
    /// How long a client may be silent of which this is expected; `None` if for ever.
    pub(crate) fn limit(self, config: &Config) -> Option<Limit> {
        let limit = |seconds, kick| (seconds > 0).then_some(Limit { seconds, kick });
        let idle = limit(config.idle_timeout_s, Kick::Idle);
        match self {
            Self::Request => idle,
            Self::Rest => {
                let rest = limit(config.stall_timeout_s, Kick::Upload);
                rest.into_iter().chain(idle).min_by_key(|limit| limit.seconds)
            }
            Self::Taking => limit(config.stall_timeout_s, Kick::Stall),
        }
    }
}

impl Kick {
    /// What counts it.
    pub(crate) fn counter(self, counters: &Counters) -> &Counter {
        match self {
            Self::Idle => &counters.idle_kicks,
            Self::Upload => &counters.upload_kicks,
            Self::Stall => &counters.stall_kicks,
        }
    }
}

#[cfg(test)]
mod tests {
    use base::MemoryBudget;
    use session::{Bounds, Resources};

    use super::*;

    #[test]
    fn the_lower_limit_counts() {
        let resources = Resources { bounds: Bounds::default(), budget: MemoryBudget::new(0) };
        let mut config = Config::new(resources);
        let idle = |seconds| Some(Limit { seconds, kick: Kick::Idle });
        let upload = |seconds| Some(Limit { seconds, kick: Kick::Upload });
        let stall = |seconds| Some(Limit { seconds, kick: Kick::Stall });
        let cases = [
            ((0, 0), [None, None, None]),
            ((0, 120), [None, upload(120), stall(120)]),
            ((60, 0), [idle(60), idle(60), None]),
            ((60, 120), [idle(60), idle(60), stall(120)]),
            ((300, 120), [idle(300), upload(120), stall(120)]),
            ((120, 120), [idle(120), upload(120), stall(120)]),
        ];
        for ((idle_s, stall_s), limits) in cases {
            (config.idle_timeout_s, config.stall_timeout_s) = (idle_s, stall_s);
            let all = [Expected::Request, Expected::Rest, Expected::Taking];
            assert_eq!(all.map(|expected| expected.limit(&config)), limits, "{idle_s}, {stall_s}");
        }
    }
}

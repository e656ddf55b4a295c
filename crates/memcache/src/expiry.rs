//! What an expiry time sent by a client means.
//!
//! ```text
//! exptime   < 0            already expired
//!           = 0            never expires
//!           1..=30 days    seconds from now
//!           > 30 days      seconds since 1970
//! ```
//!
//! The same number therefore means two things on the two sides of thirty days. Units: seconds.

/// The last number of seconds that counts from now: thirty days.
pub const RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;

/// When an item dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Not by time.
    Never,
    /// At this second since 1970, which lies ahead.
    At(u32),
    /// Before it can be read: the time given lies in the past.
    Expired,
}

/// The meaning of `exptime` at the second `now_s` since 1970.
///
/// Times past the year 2106 end there, in the last second that 32 bits can name.
#[inline]
#[must_use]
pub fn expiry(exptime: i64, now_s: u32) -> Expiry {
    if exptime == 0 {
        return Expiry::Never;
    }
    if exptime < 0 {
        return Expiry::Expired;
    }
    let at_s = if exptime <= RELATIVE_MAX_S { exptime + i64::from(now_s) } else { exptime };
    if at_s <= i64::from(now_s) {
        return Expiry::Expired;
    }
    Expiry::At(u32::try_from(at_s).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_days_part_relative_from_absolute() {
        const NOW_S: u32 = 1_800_000_000;
        let cases = [
            (0, Expiry::Never),
            (-1, Expiry::Expired),
            (i64::MIN, Expiry::Expired),
            (1, Expiry::At(NOW_S + 1)),
            (RELATIVE_MAX_S, Expiry::At(NOW_S + 2_592_000)),
            (RELATIVE_MAX_S + 1, Expiry::Expired),
            (i64::from(NOW_S), Expiry::Expired),
            (i64::from(NOW_S) + 1, Expiry::At(NOW_S + 1)),
            (i64::from(u32::MAX), Expiry::At(u32::MAX)),
            (i64::MAX, Expiry::At(u32::MAX)),
        ];
        for (exptime, want) in cases {
            assert_eq!(expiry(exptime, NOW_S), want, "exptime {exptime}");
        }
        assert_eq!(expiry(10, u32::MAX), Expiry::At(u32::MAX));
    }
}

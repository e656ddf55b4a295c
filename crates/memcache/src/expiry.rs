//! What the expiry time in a request means.
//!
//! ```text
//! exptime   < 0            already expired
//!           = 0            never expires
//!           1..=30 days    seconds from now
//!           > 30 days      seconds since 1970
//! ```
//!
//! So the limit of thirty days decides whether a number is a duration or a date. All numbers are
//! seconds. Nothing here reads a clock: the caller gives the time.

/// The largest expiry time that counts from now: thirty days.
pub const RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;

/// When an item expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    Never,
    /// At this second since 1970, which is in the future.
    At(u32),
    /// At once: the time in the request is in the past.
    Expired,
}

/// What `exptime` means at the second `now_s` since 1970.
///
/// A time after the year 2106 becomes the last second that 32 bits can hold.
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

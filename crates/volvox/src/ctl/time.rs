//! Seconds since 1970 as people read them, in UTC.

/// Seconds of a day.
const DAY_S: u64 = 86_400;

/// `2026-11-25 09:05:22`.
pub(super) fn date(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / DAY_S);
    let s = seconds % DAY_S;
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

/// How long ago it is: `12 s`, `3 min`, `5 h`, `2 days`.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / DAY_S),
    }
}

/// Year, month and day of a day since 1970, in the Gregorian calendar. Years begin in March here,
/// so that the day that leap years add is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let in_next = u64::from(month >= 10);
    (era * 400 + year + in_next, if month < 10 { month + 3 } else { month - 9 }, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_077_926_400, "2004-02-28 00:00:00"),
            (1_800_000_000, "2027-01-15 08:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(date(seconds), text);
        }
        let spans = [119, 120, 7199, 7200, 172_800].map(span);
        assert_eq!(spans, ["119 s", "2 min", "119 min", "2 h", "2 days"]);
    }
}

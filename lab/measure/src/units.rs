//! Quantities as people write them: times with units, counts with thousands.
//!
//! What is written without a unit is in seconds. A quantity outside its bounds is an error that
//! names what was written and what to write.

use std::time::Duration;

/// The longest time accepted, in seconds.
const DAY_S: f64 = 86_400.0;

/// A time such as `10s`, `500ms`, `2m`; a plain number is seconds.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(measure::units::duration("500ms"), Ok(Duration::from_millis(500)));
/// assert!(measure::units::duration("10 days").is_err());
/// ```
///
/// # Errors
/// When it is no time from 0 to a day.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit_s = match unit {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(format!("{text:?} ends with no unit of ms, s, m, h")),
    };
    match number.parse::<f64>() {
        Ok(number) if (0.0..=DAY_S).contains(&(number * unit_s)) => {
            Ok(Duration::from_secs_f64(number * unit_s))
        }
        _ => Err(format!("{text:?} is no time from 0 to 24h; write 10s, 500ms or 2m")),
    }
}

/// A number above 0 such as `250`, `10k` or `1.5M`.
///
/// # Errors
/// When it is none.
pub fn count(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number * factor),
        _ => Err(format!("{text:?} is no number above 0; write 250, 10k or 1.5M")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_parse() {
        for (text, ms) in [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("1.5", 1_500)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1s", "10d", "25h", "NaN", "infs"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_parse() {
        for (text, value) in [("250", 250.0), ("10k", 1e4), ("1.5M", 1.5e6), ("2m", 2e6)] {
            assert_eq!(count(text), Ok(value), "{text}");
        }
        for text in ["", "k", "0", "-1", "NaN", "inf", "1g"] {
            assert!(count(text).is_err(), "{text}");
        }
    }
}

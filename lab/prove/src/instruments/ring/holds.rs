//! What a key may hold, and what a reply about it means.
//!
//! A key has one request at a time, so every reply has one right answer. A change in doubt may be
//! made at any later time: then reads may show the value before or after, and the key is changed no
//! more.
//!
//! ```text
//! value = KEY:VERSION: and dots up to its length
//! ```

use super::answered::Ended;

/// Bytes of a value.
pub const VALUE_BYTES: usize = 300;

/// What a key may hold: a version, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// By what was acknowledged.
    pub sure: Option<u64>,
    /// Instead, if a change in doubt was made.
    pub doubt: Option<Option<u64>>,
}

impl Holds {
    /// What a version that was read, or none, means.
    pub fn judge(self, seen: Option<u64>) -> Ended {
        if seen == self.sure || self.doubt == Some(seen) {
            return Ended::Well;
        }
        match (self.sure, seen) {
            (None, _) => Ended::Resurrected,
            (Some(sure), Some(seen)) if seen > sure => Ended::Wrong,
            // Nothing, or an earlier version.
            (Some(_), _) => Ended::Lost,
        }
    }

    /// The same for the bytes of a value, compared to the last one.
    pub fn judge_value(self, key: &str, value: Option<&[u8]>) -> Ended {
        let Some(bytes) = value else { return self.judge(None) };
        let version = std::str::from_utf8(bytes).ok().and_then(|text| text.split(':').nth(1));
        match version.and_then(|version| version.parse().ok()) {
            Some(version) if bytes == value_of(key, version).as_bytes() => {
                self.judge(Some(version))
            }
            _ => Ended::Wrong,
        }
    }

    /// What the line means that a change was answered, which sets a version or deletes; nothing
    /// where the connection was closed.
    pub fn judge_change(self, to: Option<u64>, line: Option<&str>) -> Ended {
        match line {
            Some("STORED") if to.is_some() => Ended::Well,
            Some("DELETED") if to.is_none() => match self.sure {
                Some(_) => Ended::Well,
                None => Ended::Resurrected,
            },
            Some("NOT_FOUND") if to.is_none() => self.judge(None),
            Some(line) => Ended::of_error(line),
            None => Ended::Closed,
        }
    }
}

/// The request that sets a key to a version, or deletes it.
pub fn change(key: &str, to: Option<u64>) -> String {
    let Some(version) = to else { return format!("delete {key}\r\n") };
    format!("set {key} 0 0 {VALUE_BYTES}\r\n{}\r\n", value_of(key, version))
}

/// The value of a key.
fn value_of(key: &str, version: u64) -> String {
    format!("{:.<VALUE_BYTES$}", format!("{key}:{version}:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_has_one_right_answer() {
        let holds = Holds { sure: Some(5), doubt: None };
        let cases = [
            (Some(5), Ended::Well),
            (Some(4), Ended::Lost),
            (None, Ended::Lost),
            (Some(6), Ended::Wrong),
        ];
        for (seen, expected) in cases {
            assert_eq!(holds.judge(seen), expected, "{seen:?}");
        }
        assert_eq!(Holds::default().judge(Some(1)), Ended::Resurrected);
        let doubt = Holds { sure: Some(5), doubt: Some(None) };
        assert_eq!([None, Some(5)].map(|seen| doubt.judge(seen)), [Ended::Well; 2]);
        assert_eq!(doubt.judge(Some(4)), Ended::Lost);
    }

    #[test]
    fn values_are_compared_to_the_last_byte() {
        let holds = Holds { sure: Some(7), doubt: None };
        let judge = |value: &str| holds.judge_value("k", Some(value.as_bytes()));
        let value = value_of("k", 7);
        assert_eq!((value.len(), judge(&value)), (VALUE_BYTES, Ended::Well));
        assert_eq!(judge(&value.replacen("..", ".!", 1)), Ended::Wrong);
        assert_eq!(judge(&value_of("j", 7)), Ended::Wrong);
        assert_eq!(judge(&value_of("k", 6)), Ended::Lost);
        assert_eq!(change("k", None), "delete k\r\n");
        assert!(change("k", Some(7)).starts_with("set k 0 0 300\r\nk:7:.."));
    }
}

//! Why a request is not carried out, in the exact words of memcached.
//!
//! A refusal says nothing about how much input it used up: that stands beside it in
//! [`crate::Parsed::Refused`].

use crate::key::KeyToken;

/// A request that is answered with an error line, or with none before the connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// No such command, or an administrative one with the wrong words.
    UnknownCommand,
    /// Too few words, a key too long, a number that is none.
    BadFormat,
    /// An expiry time that is not a 32-bit number.
    BadExptime,
    /// The amount of `incr` or `decr` is not a 64-bit number.
    BadDelta,
    /// A value is not followed by `\r\n`.
    BadDataChunk,
    /// A value is longer than the operator allows.
    TooLarge {
        /// The key whose old value must go, so that no stale one is read: for `set` and `ms`.
        unlink: Option<KeyToken<'a>>,
    },
    /// A line goes on and on. The connection closes without a word.
    LineTooLong,
    /// A request of the binary protocol. The connection closes.
    Binary,
    /// A browser at the wrong door. The connection closes without a word.
    Http,
    /// A meta flag that does not exist.
    InvalidFlag,
    /// A meta flag given twice.
    DuplicateFlag,
    /// `ma` with any flag wrong: it does not say which.
    InvalidOrDuplicateFlag,
    /// A meta flag with a number that is none, or missing.
    BadToken,
    /// The meta flag `D` with a number that is none, anywhere but in `ma`.
    BadDeltaToken,
    /// The meta flag `J` with a number that is none, anywhere but in `ma`.
    BadInitialToken,
    /// More meta flags than memcached reads.
    TooManyFlags,
    /// A key that is not base64, though the flag `b` says so.
    BadKeyEncoding,
    /// An opaque of more than 31 bytes.
    OpaqueTooLong,
    /// The mode of `ms` is not one of `E A P R S`.
    BadSetMode,
    /// The mode of `ma` is not one of `I + D -`.
    BadArithMode,
    /// `cache_memlimit` below 8 MiB.
    MemlimitTooSmall,
    /// `cache_memlimit` with a number of bytes, most likely.
    MemlimitTooLarge,
    /// `shutdown` with a word other than `graceful`.
    BadShutdownMode,
    /// `lru_crawler sleep` of more than a second.
    SleepTooLong,
    /// `slabs automove window` outside 3 to 1800.
    BadWindow,
    /// `lru tune` gives away more than 80 percent.
    LruSharesTooLarge,
    /// `lru tune` with an age factor that is not above zero.
    BadLruFactor,
}

impl Refusal<'_> {
    /// The line to send, with its end; nothing where memcached closes without a word.
    #[must_use]
    pub fn line(&self) -> &'static [u8] {
        match self {
            Self::UnknownCommand => b"ERROR\r\n",
            Self::BadFormat => b"CLIENT_ERROR bad command line format\r\n",
            Self::BadExptime => b"CLIENT_ERROR invalid exptime argument\r\n",
            Self::BadDelta => b"CLIENT_ERROR invalid numeric delta argument\r\n",
            Self::BadDataChunk => b"CLIENT_ERROR bad data chunk\r\n",
            Self::TooLarge { .. } => b"SERVER_ERROR object too large for cache\r\n",
            Self::LineTooLong | Self::Http => b"",
            Self::Binary => b"CLIENT_ERROR the binary protocol is not spoken here\r\n",
            Self::InvalidFlag => b"CLIENT_ERROR invalid flag\r\n",
            Self::DuplicateFlag => b"CLIENT_ERROR duplicate flag\r\n",
            Self::InvalidOrDuplicateFlag => b"CLIENT_ERROR invalid or duplicate flag\r\n",
            Self::BadToken => b"CLIENT_ERROR bad token in command line format\r\n",
            Self::BadDeltaToken => b"CLIENT_ERROR invalid numeric delta value\r\n",
            Self::BadInitialToken => b"CLIENT_ERROR invalid numeric initial value\r\n",
            Self::TooManyFlags => b"CLIENT_ERROR options flags are too long\r\n",
            Self::BadKeyEncoding => b"CLIENT_ERROR error decoding key\r\n",
            Self::OpaqueTooLong => b"CLIENT_ERROR opaque token too long\r\n",
            Self::BadSetMode => b"CLIENT_ERROR invalid mode for ms M token\r\n",
            Self::BadArithMode => b"CLIENT_ERROR invalid mode for ma M token\r\n",
            Self::MemlimitTooSmall => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
            Self::MemlimitTooLarge => {
                b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n"
            }
            Self::BadShutdownMode => b"CLIENT_ERROR invalid shutdown mode\r\n",
            Self::SleepTooLong => b"CLIENT_ERROR sleep must be one second or less\r\n",
            Self::BadWindow => b"CLIENT_ERROR automove window too low or too high\r\n",
            Self::LruSharesTooLarge => b"ERROR hot and warm pcts must not exceed 80\r\n",
            Self::BadLruFactor => b"ERROR hot/warm age factors must be greater than 0\r\n",
        }
    }
}

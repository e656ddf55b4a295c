//! Why a request is not executed, and the error line for it, in memcached's exact words.
//!
//! A refusal does not say how much input belongs to it: [`crate::Parsed::Refused`] says that.

use crate::key::KeyToken;

/// Why a request is not executed. The connection sends the error line; where there is none, it
/// closes without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// There is no such command, or no such sub-command of an operator's command.
    UnknownCommand,
    /// Too few words, a key that is too long, or a word that should be a number.
    BadFormat,
    /// An expiry time that is not a 32-bit number.
    BadExptime,
    /// The amount of `incr` or `decr` is not a 64-bit number.
    BadDelta,
    /// A value is not followed by `\r\n`.
    BadDataChunk,
    /// A value is longer than the operator allows.
    TooLarge {
        /// For `set`, and `ms` that joins nothing: the key whose item must be deleted, so that no
        /// stale value is read.
        unlink: Option<KeyToken<'a>>,
    },
    /// A line is longer than its command allows. The connection closes without a reply.
    LineTooLong,
    /// A request of the binary protocol. The connection closes after an error in that protocol.
    Binary(BinaryRequest),
    /// An HTTP request. The connection closes without a reply.
    Http,
    /// A meta flag that does not exist.
    InvalidFlag,
    /// A meta flag that is given twice.
    DuplicateFlag,
    /// `ma` with any error in its flags, which all have this one line.
    InvalidOrDuplicateFlag,
    /// A meta flag whose number is missing or invalid.
    BadToken,
    /// The meta flag `D` whose number is missing or invalid, except in `ma`.
    BadDeltaToken,
    /// The meta flag `J` whose number is missing or invalid, except in `ma`.
    BadInitialToken,
    /// More meta flags than memcached accepts.
    TooManyFlags,
    /// A key with the flag `b` that is not base64.
    BadKeyEncoding,
    /// An opaque of more than 31 bytes.
    OpaqueTooLong,
    /// The mode of `ms` is not one of `E A P R S`.
    BadSetMode,
    /// The mode of `ma` is not one of `I + D -`.
    BadArithMode,
    /// `cache_memlimit` below 8 MiB.
    MemlimitTooSmall,
    /// `cache_memlimit` with a number so large that it must be bytes.
    MemlimitTooLarge,
    /// `shutdown` with a word other than `graceful`.
    BadShutdownMode,
    /// `lru_crawler sleep` of more than a second.
    SleepTooLong,
    /// `slabs automove window` outside 3 to 1800.
    BadWindow,
    /// `lru tune` with more than 80 percent for two queues.
    LruSharesTooLarge,
    /// `lru tune` with an age factor that is not above zero.
    BadLruFactor,
}

/// What an answer in the binary protocol repeats of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinaryRequest {
    /// What is asked for.
    pub opcode: u8,
    /// What the client calls the request.
    pub opaque: [u8; 4],
}

impl BinaryRequest {
    /// Bytes of the header of a request, and of an answer.
    pub(crate) const HEADER_BYTES: usize = 24;
    /// The first byte of an answer.
    const ANSWERS: u8 = 0x81;
    /// The status: not supported.
    const NOT_SUPPORTED: [u8; 2] = [0, 0x83];

    /// The request whose header `input` begins with. `None` if it is not there as a whole.
    pub(crate) fn first(input: &[u8]) -> Option<Self> {
        let header = input.first_chunk::<{ Self::HEADER_BYTES }>()?;
        let opaque = [header[12], header[13], header[14], header[15]];
        Some(Self { opcode: header[1], opaque })
    }

    /// Appends an answer that says `why` it is not executed.
    fn refuse(self, why: &[u8], out: &mut Vec<u8>) {
        let [high, low] = Self::NOT_SUPPORTED;
        out.extend_from_slice(&[Self::ANSWERS, self.opcode, 0, 0, 0, 0, high, low]);
        out.extend_from_slice(&(why.len() as u32).to_be_bytes());
        out.extend_from_slice(&self.opaque);
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(why);
    }
}

impl Refusal<'_> {
    /// Appends what is sent: its line, or an error of the binary protocol.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Binary(request) => request.refuse(self.line(), out),
            refusal => out.extend_from_slice(refusal.line()),
        }
    }

    /// The line to send, with its end. Empty where the connection closes without a reply.
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
            Self::Binary(_) => b"the binary protocol is not spoken here",
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

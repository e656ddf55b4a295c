//! Why bytes are no frame.

use super::kind::FrameKind;
use std::fmt;

/// Why bytes are no frame. The connection that they came on closes: what follows them cannot be
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// It is longer than the receiver takes.
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest.
        bytes_max: usize,
    },
    /// It has no kind.
    Empty,
    /// There is no kind with this number.
    UnknownKind(u8),
    /// It ends before its fields do.
    Short(FrameKind),
    /// Bytes follow its last field.
    Trailing {
        /// Its kind.
        kind: FrameKind,
        /// How many.
        bytes: usize,
    },
    /// A field has a value that it may not have.
    Field {
        /// Its kind.
        kind: FrameKind,
        /// The name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, bytes_max } => write!(
                f,
                "a frame of {bytes} bytes, at most {bytes_max} are taken: give all cells the same \
                 longest value"
            ),
            Self::Empty => write!(f, "a frame of 0 bytes, at least 1 is needed: its kind"),
            Self::UnknownKind(number) => write!(
                f,
                "a frame of kind {number}, known are 1 to {}: run the same release on all cells",
                FrameKind::LAST
            ),
            Self::Short(kind) => write!(f, "a frame {kind:?} that ends within its fields"),
            Self::Trailing { kind, bytes } => {
                write!(f, "a frame {kind:?} with {bytes} bytes after its last field, 0 are allowed")
            }
            Self::Field { kind, field, value, allowed } => {
                write!(f, "a frame {kind:?} whose {field} is {value}, allowed is {allowed}")
            }
        }
    }
}

impl std::error::Error for FrameError {}

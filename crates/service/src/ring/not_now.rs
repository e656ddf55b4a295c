//! Why a cell does not execute a request that another cell asks it for, or that it leads itself.

use ring::CellId;

/// Why a cell does not execute a request now. A cell that asks gets the number, as the text of a
/// reply with [`peer::Verdict::NotOwner`]; what it does not know counts as [`NotNow::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum NotNow {
    /// It does not say why.
    Unknown = 0,
    /// It has not begun to lead the range, or leads it no more.
    NotLed = 1,
    /// Its lease has ended.
    NoLease = 2,
    /// A delayed `flush_all` is to be carried out first.
    FlushDue = 3,
    /// Its log, its memory, or a journal, has no room.
    NoRoom = 4,
    /// The key is not in memory, and was not looked up below yet.
    Below = 5,
    /// As many requests of other cells as may wait at it for what lies below.
    Crowded = 6,
}

impl NotNow {
    const ALL: [Self; 7] = [
        Self::Unknown,
        Self::NotLed,
        Self::NoLease,
        Self::FlushDue,
        Self::NoRoom,
        Self::Below,
        Self::Crowded,
    ];

    /// As the text of a reply.
    pub(crate) fn text(self) -> [u8; 1] {
        [self as u8]
    }

    /// The reason in the text of a reply.
    pub(crate) fn of(text: &[u8]) -> Self {
        let number = text.first().copied().unwrap_or(0);
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Unknown)
    }

    /// What people read of `cell`, or of this cell if it is `None`.
    pub(crate) fn describe(self, cell: Option<CellId>) -> String {
        let who = cell.map_or_else(|| "this cell".to_owned(), |cell| format!("cell {cell}"));
        match self {
            Self::Unknown => format!("{who} leads it, but does not execute requests"),
            Self::NotLed => format!("{who} has not begun to lead it"),
            Self::NoLease => format!("{who} leads it, but its copies are silent"),
            Self::FlushDue => format!("{who} leads it, but has to carry out a flush_all first"),
            Self::NoRoom => format!("{who} leads it, but its log, its memory or a journal is full"),
            Self::Below => format!("{who} leads it, but has not read the key below in time"),
            Self::Crowded => {
                format!("{who} leads it, but too many requests wait for what is below")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_comes_back_and_what_is_not_known_is_unknown() {
        for why in NotNow::ALL {
            assert_eq!(NotNow::of(&why.text()), why);
        }
        assert_eq!(NotNow::of(b""), NotNow::Unknown, "an earlier release says nothing");
        assert_eq!(NotNow::of(&[9, 9]), NotNow::Unknown);
    }

    #[test]
    fn people_read_which_cell_it_is() {
        let (here, there) = (None, Some(CellId(3)));
        assert_eq!(NotNow::NotLed.describe(there), "cell 3 has not begun to lead it");
        let silent = "this cell leads it, but its copies are silent";
        assert_eq!(NotNow::NoLease.describe(here), silent);
    }
}

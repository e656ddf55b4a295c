//! How much a reply promises, by the prefix of its key: the longest that fits decides.

use effects::{Level, Mark};
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// Most prefixes: each request compares its key with all of them.
pub const PREFIXES_MAX: usize = 64;

/// Bytes of the longest prefix: a key is no longer.
const PREFIX_BYTES_MAX: usize = 250;

/// How much a reply promises. Each level promises what those before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ack {
    /// The log has it, in memory.
    Memory,
    /// The journal has given it to the system: it survives the end of the process.
    Os,
    /// It is on the disk: it survives a power cut.
    Disk,
    /// It is below the journal too: it survives the loss of the journal.
    Backend,
}

/// The levels by their names.
pub const ACK_NAMES: &[(&str, Ack)] =
    &[("memory", Ack::Memory), ("os", Ack::Os), ("disk", Ack::Disk), ("backend", Ack::Backend)];

/// The name of the level of keys that the tier does not keep.
const NONE: &str = "none";

/// The name of the level of keys that are written around memory.
const AROUND: &str = "around";

/// What holds for the keys with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The tier keeps them, and a reply promises this.
    Kept(Ack),
    /// The same at [`Ack::Backend`], and memory does not keep what was stored: once it lies below,
    /// only a read brings it back into memory.
    Around,
    /// The tier does not keep them: they are in memory alone.
    Unkept,
}

impl Policy {
    /// What a reply promises; `None`: the tier does not keep such keys.
    #[must_use]
    pub fn ack(self) -> Option<Ack> {
        match self {
            Self::Kept(ack) => Some(ack),
            Self::Around => Some(Ack::Backend),
            Self::Unkept => None,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept(ack) => ack.fmt(f),
            Self::Around => f.write_str(AROUND),
            Self::Unkept => f.write_str(NONE),
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            NONE => Ok(Self::Unkept),
            AROUND => Ok(Self::Around),
            word => word.parse().map(Self::Kept).map_err(|why| format!("{why}, {AROUND}, {NONE}")),
        }
    }
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = ACK_NAMES.iter().find(|(_, ack)| ack == self);
        f.write_str(named.map_or(NONE, |(name, _)| name))
    }
}

impl FromStr for Ack {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let named = ACK_NAMES.iter().find(|(name, _)| *name == word).map(|(_, ack)| *ack);
        named.ok_or_else(|| {
            let names: Vec<_> = ACK_NAMES.iter().map(|(name, _)| *name).collect();
            format!("there is no level \"{word}\"; choose one of {}", names.join(", "))
        })
    }
}

/// A prefix of keys, and what holds for such keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRule {
    /// What the keys begin with.
    pub prefix: String,
    /// What holds for them.
    pub policy: Policy,
}

impl fmt::Display for PrefixRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.prefix, self.policy)
    }
}

impl FromStr for PrefixRule {
    type Err = String;

    /// `PREFIX=LEVEL`. The level stands after the last `=`: a prefix may contain that character.
    fn from_str(item: &str) -> Result<Self, String> {
        let Some((prefix, word)) = item.rsplit_once('=') else {
            return Err(format!("\"{item}\" has no level; write PREFIX=LEVEL"));
        };
        let policy = word.parse().map_err(|why| format!("\"{item}\": {why}"))?;
        Ok(Self { prefix: prefix.to_owned(), policy })
    }
}

impl Ack {
    /// All of them, the one that promises least first.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Os, Self::Disk, Self::Backend];

    /// The level of the logs that stands for it.
    #[inline]
    #[must_use]
    pub const fn level(self) -> Level {
        Level::new(self as u8).expect("there are four levels at least")
    }

    /// Up to where the journal must have come with what a reply shows.
    pub(crate) fn mark(self) -> Option<Mark> {
        match self {
            Self::Memory => None,
            Self::Os => Some(Mark::Written),
            Self::Disk | Self::Backend => Some(Mark::Durable),
        }
    }
}

/// Why there are no such rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulesError {
    /// A prefix is named twice.
    Twice(String),
    /// A prefix is empty, or longer than a key.
    Length(usize),
    /// There are too many prefixes.
    TooMany(usize),
    /// Keys that are not kept are named, before or after a change.
    Kept,
    /// The cell is in a ring.
    InRing,
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice(prefix) => write!(f, "prefix \"{prefix}\" is named twice; leave one out"),
            Self::Length(bytes) => write!(
                f,
                "a prefix has {bytes} bytes; give it 1 to {PREFIX_BYTES_MAX}, the longest key"
            ),
            Self::TooMany(count) => {
                write!(f, "there are {count} prefixes; name {PREFIXES_MAX} at most")
            }
            Self::InRing => f.write_str(
                "the levels of a ring change when its cells start: start them one after the other \
                 with the new ones and tier.change_levels",
            ),
            Self::Kept => f.write_str(
                "which keys are kept (the level none) is chosen when the cell starts: change \
                 tier.prefixes, and start it again",
            ),
        }
    }
}

impl std::error::Error for RulesError {}

/// What the replies about each key promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Of keys with no prefix that is named.
    base: Ack,
    /// The most of any.
    most: Ack,
    /// The longest first.
    prefixes: Box<[PrefixRule]>,
    /// Whether keys with one of them are not kept, and whether any are written around memory.
    has_unkept: bool,
    has_around: bool,
}

impl Rules {
    /// The same for all keys.
    #[must_use]
    pub fn all(base: Ack) -> Self {
        Self { base, most: base, prefixes: Box::default(), has_unkept: false, has_around: false }
    }

    /// `base` for all keys but those with one of `prefixes`.
    ///
    /// # Errors
    /// When a prefix is named twice, or too short or long, or there are too many.
    pub fn new(base: Ack, mut prefixes: Vec<PrefixRule>) -> Result<Self, RulesError> {
        if prefixes.len() > PREFIXES_MAX {
            return Err(RulesError::TooMany(prefixes.len()));
        }
        let is_wrong = |bytes: &usize| !(1..=PREFIX_BYTES_MAX).contains(bytes);
        if let Some(bytes) = prefixes.iter().map(|it| it.prefix.len()).find(is_wrong) {
            return Err(RulesError::Length(bytes));
        }
        let order = |it: &PrefixRule| (it.prefix.len(), it.prefix.clone());
        prefixes.sort_by_cached_key(|it| Reverse(order(it)));
        if let Some(twice) = prefixes.windows(2).find(|two| two[0].prefix == two[1].prefix) {
            return Err(RulesError::Twice(twice[0].prefix.clone()));
        }
        let most = prefixes.iter().filter_map(|it| it.policy.ack()).fold(base, Ack::max);
        let has = |policy| prefixes.iter().any(|it| it.policy == policy);
        let (has_unkept, has_around) = (has(Policy::Unkept), has(Policy::Around));
        Ok(Self { base, most, prefixes: prefixes.into(), has_unkept, has_around })
    }

    /// What replies about `key` promise.
    #[inline]
    #[must_use]
    pub fn ack(&self, key: &[u8]) -> Ack {
        self.find(key).map_or(self.base, |it| it.policy.ack().unwrap_or(Ack::Memory))
    }

    /// Whether the tier keeps `key`. What it does not keep is in memory alone.
    #[inline]
    #[must_use]
    pub fn keeps(&self, key: &[u8]) -> bool {
        !self.has_unkept || self.find(key).is_none_or(|it| it.policy != Policy::Unkept)
    }

    /// Whether `key` is written around memory: its item leaves it once it lies below.
    #[must_use]
    pub fn goes_around(&self, key: &[u8]) -> bool {
        self.has_around && self.find(key).is_some_and(|it| it.policy == Policy::Around)
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Option<&PrefixRule> {
        self.prefixes.iter().find(|it| key.starts_with(it.prefix.as_bytes()))
    }

    /// What replies promise about keys with no prefix that is named.
    #[must_use]
    pub fn base(&self) -> Ack {
        self.base
    }

    /// Whether replies about any key promise `ack`.
    #[must_use]
    pub fn have(&self, ack: Ack) -> bool {
        self.base == ack || self.prefixes.iter().any(|it| it.policy.ack() == Some(ack))
    }

    /// The prefixes, the longest first.
    pub fn prefixes(&self) -> impl Iterator<Item = &PrefixRule> {
        self.prefixes.iter()
    }

    /// A checksum of the levels by prefix, the same in all cells that have the same; 0: there are
    /// none.
    #[must_use]
    pub fn checksum_of_prefixes(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        self.prefixes.iter().for_each(|it| hasher.update(format!("{it}\n").as_bytes()));
        hasher.finalize()
    }

    /// Whether any key is not kept.
    pub(crate) fn has_unkept(&self) -> bool {
        self.has_unkept
    }

    /// The most that replies about any key promise.
    #[inline]
    #[must_use]
    pub fn most(&self) -> Ack {
        self.most
    }
}

impl fmt::Display for Rules {
    /// As they are written: `os order:=disk`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.fmt(f)?;
        self.prefixes.iter().try_for_each(|it| write!(f, " {it}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(prefix: &str, policy: Policy) -> PrefixRule {
        PrefixRule { prefix: prefix.to_owned(), policy }
    }

    fn rules(prefixes: &[(&str, Ack)]) -> Result<Rules, RulesError> {
        let of = |(prefix, ack): &(&str, Ack)| rule(prefix, Policy::Kept(*ack));
        Rules::new(Ack::Os, prefixes.iter().map(of).collect())
    }

    #[test]
    fn what_is_not_kept_is_so_up_to_a_longer_prefix_that_is() {
        let (disk, os) = (Policy::Kept(Ack::Disk), Policy::Kept(Ack::Os));
        let prefixes = [("a", disk), ("a:", Policy::Unkept), ("a:b", os)];
        let prefixes = prefixes.map(|(prefix, policy)| rule(prefix, policy));
        let rules = Rules::new(Ack::Os, prefixes.to_vec()).expect("three prefixes");
        let of = |key: &str| (rules.keeps(key.as_bytes()), rules.ack(key.as_bytes()));
        assert_eq!([of("b"), of("a")], [(true, Ack::Os), (true, Ack::Disk)]);
        assert_eq!([of("a:c"), of("a:bc")], [(false, Ack::Memory), (true, Ack::Os)]);
    }

    #[test]
    fn what_is_written_around_memory_promises_what_lies_below() {
        let os = Policy::Kept(Ack::Os);
        let prefixes = vec![rule("log:", Policy::Around), rule("log:hot:", os)];
        let rules = Rules::new(Ack::Os, prefixes).expect("two prefixes");
        let of = |key: &str| (rules.goes_around(key.as_bytes()), rules.ack(key.as_bytes()));
        assert_eq!([of("a"), of("log:hot:a")], [(false, Ack::Os); 2]);
        assert_eq!(of("log:a"), (true, Ack::Backend));
        assert_eq!((rules.most(), rules.have(Ack::Backend)), (Ack::Backend, true));
    }

    #[test]
    fn a_prefix_is_shown_as_it_is_read() {
        for text in
            ["session:=memory", "a=b=disk", "x=os", "user/=backend", "page:=none", "log:=around"]
        {
            assert_eq!(text.parse::<PrefixRule>().map(|it| it.to_string()), Ok(text.to_owned()));
        }
        let wrong =
            |text: &str, what| text.parse::<PrefixRule>().is_err_and(|why| why.contains(what));
        assert!(wrong("session:", "PREFIX=LEVEL") && wrong("a=fast", "\"fast\""));
    }

    #[test]
    fn the_longest_prefix_decides() {
        let named = [("a", Ack::Memory), ("a:b:", Ack::Backend), ("a:", Ack::Disk)];
        let rules = rules(&named).expect("three prefixes");
        let of = |key: &str| rules.ack(key.as_bytes());
        assert_eq!([of("b"), of("a"), of("ab")], [Ack::Os, Ack::Memory, Ack::Memory]);
        assert_eq!([of("a:"), of("a:b"), of("a:b:c")], [Ack::Disk, Ack::Disk, Ack::Backend]);
        assert_eq!(rules.most(), Ack::Backend);
        assert!(rules.have(Ack::Os) && rules.have(Ack::Disk));
        assert_eq!(Rules::all(Ack::Disk).most(), Ack::Disk);
    }

    #[test]
    fn the_checksum_of_prefixes_is_that_of_what_they_say_in_any_order() {
        let of = |named: &[(&str, Ack)]| rules(named).expect("a few").checksum_of_prefixes();
        let (a, b) = (("a", Ack::Memory), ("b", Ack::Disk));
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[a, b]), of(&[b, a]));
        let others = [of(&[a]), of(&[b]), of(&[a, b]), of(&[("a", Ack::Disk), b]), 0];
        let different: std::collections::HashSet<_> = others.into_iter().collect();
        assert_eq!(different.len(), others.len());
    }

    #[test]
    fn rules_that_say_nothing_clear_are_refused() {
        let twice = [("a", Ack::Memory), ("b", Ack::Os), ("a", Ack::Memory)];
        assert_eq!(rules(&twice), Err(RulesError::Twice("a".to_owned())));
        assert_eq!(rules(&[("", Ack::Os)]), Err(RulesError::Length(0)));
        let long = "x".repeat(PREFIX_BYTES_MAX + 1);
        assert_eq!(rules(&[(&long, Ack::Os)]), Err(RulesError::Length(PREFIX_BYTES_MAX + 1)));
        let names: Vec<_> = (0..=PREFIXES_MAX).map(|number| number.to_string()).collect();
        let many: Vec<_> = names.iter().map(|name| (&name[..], Ack::Os)).collect();
        assert_eq!(rules(&many), Err(RulesError::TooMany(PREFIXES_MAX + 1)));
    }

    #[test]
    fn each_level_promises_more_than_the_one_before_it() {
        assert!(Ack::ALL.is_sorted());
        let levels = Ack::ALL.map(|ack| ack.level().index());
        assert_eq!(levels, [0, 1, 2, 3]);
    }
}

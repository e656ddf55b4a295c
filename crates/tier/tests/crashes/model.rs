//! What each key may have: all states that it had, with the place of each in its log.
//!
//! ```text
//! history   earlier lives        | this life, by rising position
//!           any of these, at 0   | state, state, state
//!                                         ^ what survives for certain: a crash leaves this one, or
//!                                           one that came later
//! ```
//!
//! What is read is the only state that counts from then on, until the key is changed.

use base::{Now, SliceId};
use std::fmt;
use tier::Stored;

/// An item, as clients see it.
#[derive(Clone, PartialEq, Eq)]
pub struct Item {
    pub value: Vec<u8>,
    pub flags: u32,
    pub expiry_s: u32,
    pub token: u64,
    pub version: u64,
    pub is_stale: bool,
}

impl Item {
    /// The item of a record.
    pub fn of(stored: &Stored) -> Self {
        let Stored { value, facts, version } = stored;
        Self {
            value: value.clone(),
            flags: facts.client_flags,
            expiry_s: facts.expiry_s,
            token: facts.token.unwrap_or(version.counter()),
            version: version.raw(),
            is_stale: facts.stale,
        }
    }

    /// Whether it has not expired.
    pub fn is_alive(&self, now: Now) -> bool {
        self.expiry_s == 0 || self.expiry_s > now.expiry_s
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, flags, expiry_s, token, version, .. } = self;
        let (bytes, crc) = (value.len(), crc32fast::hash(value));
        write!(
            f,
            "v{version} {bytes} bytes {crc:08x} flags {flags} expiry {expiry_s} token {token}"
        )
    }
}

/// A state of a key: no item, or one.
pub type KeyState = Option<Item>;

/// What one key may have.
#[derive(Clone, Debug)]
pub struct KeyModel {
    pub key: Vec<u8>,
    pub slice: SliceId,
    /// The states, with their positions; 0 for those of earlier lives.
    history: Vec<(u64, KeyState)>,
    /// The same, if the power is cut before a cell has begun again.
    unsynced: Option<Vec<(u64, KeyState)>>,
    /// All states that it has ever had.
    ever: Vec<KeyState>,
    /// Whether a value may have been lost whose touch was not.
    is_salvaged: bool,
}

/// Cuts a history at what survives for certain.
fn cut(history: &[(u64, KeyState)], floor: u64) -> Vec<(u64, KeyState)> {
    let certain = history.iter().rposition(|(at, _)| *at > 0 && *at <= floor);
    history[certain.unwrap_or(0)..].iter().map(|(_, state)| (0, state.clone())).collect()
}

/// What is there of a state.
fn shown(state: &KeyState, now: Now) -> Option<&Item> {
    state.as_ref().filter(|item| item.is_alive(now))
}

impl KeyModel {
    /// A key that was never there.
    pub fn new(key: Vec<u8>) -> Self {
        let (history, ever) = (vec![(0, None)], vec![None]);
        let (unsynced, is_salvaged) = (None, false);
        Self { slice: SliceId::of(&key), key, history, unsynced, ever, is_salvaged }
    }

    /// The key is changed.
    pub fn push(&mut self, position: u64, state: KeyState) {
        self.ever.push(state.clone());
        self.history.push((position, state));
    }

    /// All items may have ended while no cell ran, or have, if that is `certain`.
    pub fn end(&mut self, certain: bool) {
        if certain {
            self.history.clear();
        }
        self.history.push((0, None));
    }

    /// A part of what was durable has changed: it has what it had at any time.
    pub fn harm(&mut self) {
        self.history = self.ever.iter().map(|state| (0, state.clone())).collect();
        self.unsynced = None;
    }

    /// The process ends. Everything up to `written` is there, and everything up to `durable` if the
    /// power is cut before a cell has begun again.
    pub fn kill(&mut self, written: u64, durable: u64) {
        self.unsynced = Some(cut(&self.history, durable));
        self.history = cut(&self.history, written);
    }

    /// It has this now, and nothing that came before counts any more.
    pub fn settle(&mut self, state: KeyState) {
        self.history = vec![(0, state)];
    }

    /// The power is cut while no cell runs.
    pub fn cut_power(&mut self) {
        if let Some(unsynced) = self.unsynced.take() {
            self.history = unsynced;
        }
    }

    /// A cell has begun: what it found is durable.
    pub fn begin(&mut self) {
        self.unsynced = None;
    }

    /// The journal was salvaged: a touch may have survived whose value did not.
    pub fn salvaged(&mut self) {
        self.is_salvaged = true;
    }

    /// What it may have now, and if the power is cut before a cell has begun again.
    pub fn allowed(&self) -> String {
        format!("{:?} {:?}", self.history, self.unsynced)
    }

    /// What was read must be what the key has now. Where that was not certain, it is now.
    pub fn check(&mut self, found: &KeyState, now: Now) -> Result<(), String> {
        if found.as_ref().is_some_and(|item| !item.is_alive(now)) {
            return Err(format!("{found:?} has expired"));
        }
        let is_so = |state: &KeyState| shown(state, now) == found.as_ref();
        let (at, last) = self.last();
        let wrong = match *at {
            0 => {
                let is_touched = |state: &KeyState| match (state, found) {
                    (Some(state), Some(found)) if self.is_salvaged => {
                        let Item { expiry_s, version, .. } = *found;
                        Item { expiry_s, version, ..state.clone() } == *found
                    }
                    _ => false,
                };
                let fits = |state: &KeyState| is_so(state) || is_touched(state);
                match self.history.iter().rfind(|(_, state)| fits(state)) {
                    Some((_, state)) => {
                        let kept = if is_so(state) { state } else { found };
                        self.history = vec![(0, kept.clone())];
                        return Ok(());
                    }
                    None => format!("any of {:?}", self.history),
                }
            }
            _ if is_so(last) => return Ok(()),
            _ => format!("{last:?}"),
        };
        let key = String::from_utf8_lossy(&self.key);
        Err(format!("{key} shows {found:?}, and not {wrong}"))
    }

    /// The last change: its position, and the state since.
    pub fn last(&self) -> &(u64, KeyState) {
        self.history.last().expect("there is always one")
    }

    /// What it has, if that is certain.
    pub fn known(&self) -> Option<&KeyState> {
        let (at, state) = self.last();
        (*at > 0 || self.history.len() == 1).then_some(state)
    }
}

/// In which second all items end; 0: in none. With the positions of each lane at which that was
/// said: none for what an earlier life has left.
#[derive(Clone, Debug)]
pub struct DueModel {
    history: Vec<(Vec<u64>, u32)>,
    unsynced: Option<Vec<(Vec<u64>, u32)>>,
}

impl DueModel {
    /// Nothing is to end.
    pub fn new() -> Self {
        Self { history: vec![(Vec::new(), 0)], unsynced: None }
    }

    /// It is said again, and stands in each lane up to these positions.
    pub fn push(&mut self, positions: Vec<u64>, due_s: u32) {
        self.history.push((positions, due_s));
    }

    /// The second of now.
    pub fn now(&self) -> u32 {
        self.history.last().expect("there is always one").1
    }

    /// As [`KeyModel::kill`].
    pub fn kill(&mut self, written: &[u64], durable: &[u64]) {
        let cut = |floors: &[u64]| {
            let is_certain = |(at, _): &(Vec<u64>, u32)| {
                at.iter().zip(floors).all(|(position, floor)| position <= floor)
            };
            let certain = self.history.iter().rposition(is_certain).unwrap_or(0);
            self.history[certain..].iter().map(|(_, due_s)| (Vec::new(), *due_s)).collect()
        };
        (self.unsynced, self.history) = (Some(cut(durable)), cut(written));
    }

    /// As [`KeyModel::cut_power`].
    pub fn cut_power(&mut self) {
        if let Some(unsynced) = self.unsynced.take() {
            self.history = unsynced;
        }
    }

    /// A cell has begun in this second, and says that all items end in second `due_s`. Returns
    /// whether items may have ended meanwhile, and whether they must have.
    pub fn begin(&mut self, due_s: u32, now_s: u32) -> Result<(bool, bool), String> {
        let is_past = |(_, due_s): &(Vec<u64>, u32)| (1..=now_s).contains(due_s);
        let (may, must) = (self.history.iter().any(is_past), self.history.iter().all(is_past));
        let is_known = self.history.iter().any(|(_, known)| *known == due_s);
        let is_right = match due_s {
            0 => is_known || may,
            _ => is_known && due_s > now_s,
        };
        if !is_right {
            return Err(format!("all ends in {due_s}, and not in any of {:?}", self.history));
        }
        (self.history, self.unsynced) = (vec![(Vec::new(), due_s)], None);
        Ok((may, must))
    }
}

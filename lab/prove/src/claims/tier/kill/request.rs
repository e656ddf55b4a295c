//! The requests of a writer, and the answer that each must get.
//!
//! A key has one writer, and a connection carries its requests out in their order. So what a
//! request finds is known when it is drawn, and its answer with it. Of a key that is not known, as
//! after a kill, nothing is drawn but `set` and `delete`: they make it known.

use measure::rng::Rng;

use super::known::Known;
use super::state::{Content, Item, Key, Part};

/// The most parts of a value: then it is stored as one again.
const PARTS_MAX: usize = 4;
/// Stamps of a part, at most: values are 3 KB on the average.
const TIMES_MAX: u64 = 300;
/// Each eighth key holds a number.
const NUMBER_EVERY: usize = 8;
/// Numbers begin here, so that adding does not make them longer.
const NUMBER_MIN: u64 = 1_000_000_000_000;
/// Times to live that there are, for ever among them.
const TTLS: u64 = 4;

/// A request, drawn.
pub struct Request {
    /// Its bytes.
    pub text: String,
    /// The key's number.
    pub number: usize,
    /// What must be answered.
    pub expects: Expects,
    /// Whether it changes the key.
    pub is_change: bool,
}

/// What must be answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Expects {
    /// One of these lines.
    Lines(Vec<String>),
    /// This value, and its token where it was requested.
    Value(Item),
    /// That there is no value.
    Miss,
}

/// Draws the requests of one key.
pub struct Draw<'a> {
    /// Which key.
    pub key: Key,
    /// How the server knows it.
    pub name: &'a str,
    /// What is known of it; what is drawn counts as sent.
    pub known: &'a mut Known,
    /// Where chance comes from.
    pub rng: &'a mut Rng,
    /// The number of this change, used once.
    pub change: u64,
}

impl Draw<'_> {
    /// Any request.
    pub fn any(self) -> Request {
        let chance = self.rng.below(100);
        let Some(latest) = self.known.latest().cloned() else {
            return if chance < 75 { self.set() } else { self.delete(&["DELETED", "NOT_FOUND"]) };
        };
        let token = self.known.token();
        match (latest, token, chance) {
            (Some(_), Some(token), 0..50) => self.cas(token),
            (Some(_), _, 0..35) | (None, _, 0..80) => self.set(),
            (Some(_), _, 35..43) => self.delete(&["DELETED"]),
            (None, _, 80..90) => self.delete(&["NOT_FOUND"]),
            (Some(item), _, 43..68) => self.grow(item),
            (Some(item), _, 68..82) => self.touch(item),
            (latest, ..) => self.read(latest),
        }
    }

    /// A value that is new in all.
    pub fn set(mut self) -> Request {
        let item = self.fresh();
        let text = self.store("set", &item, "");
        self.change_to(Some(item), text, &["STORED"])
    }

    fn delete(self, answers: &[&str]) -> Request {
        let text = format!("delete {}\r\n", self.name);
        self.change_to(None, text, answers)
    }

    /// The same by the token that was read, which is still that of the key.
    fn cas(mut self, token: u64) -> Request {
        let item = self.fresh();
        let text = self.store("cas", &item, &format!(" {token}"));
        self.change_to(Some(item), text, &["STORED"])
    }

    /// Makes the value longer, or the number greater.
    fn grow(self, item: Item) -> Request {
        let (key, name) = (self.key, self.name);
        match item.content {
            Content::Number(number) => {
                let more = 1 + self.rng.below(1_000);
                let text = format!("incr {name} {more}\r\n");
                let content = Content::Number(number + more);
                let answer = (number + more).to_string();
                self.change_to(Some(Item { content, ..item }), text, &[&answer])
            }
            Content::Parts(ref parts) if parts.len() == PARTS_MAX => self.set(),
            Content::Parts(mut parts) => {
                let part = Part { change: self.change, times: 1 + self.rng.below(20) as usize };
                let value = part.text(key);
                let text = format!("append {name} 0 0 {}\r\n{value}\r\n", value.len());
                parts.push(part);
                let content = Content::Parts(parts);
                self.change_to(Some(Item { content, ..item }), text, &["STORED"])
            }
        }
    }

    /// Gives it another time to live, and reads it.
    fn touch(self, item: Item) -> Request {
        let item = Item { ttl_steps: self.rng.below(TTLS), ..item };
        let text = format!("gat {} {}\r\n", item.ttl_s(), self.name);
        let request = self.change_to(Some(item.clone()), text, &[]);
        Request { expects: Expects::Value(item), ..request }
    }

    fn read(self, latest: Option<Item>) -> Request {
        let text = format!("gets {}\r\n", self.name);
        let expects = latest.map_or(Expects::Miss, Expects::Value);
        Request { text, number: self.key.number, expects, is_change: false }
    }

    fn fresh(&mut self) -> Item {
        let content = match self.key.number % NUMBER_EVERY {
            0 => Content::Number(NUMBER_MIN + self.rng.below(1 << 30)),
            _ => {
                let times = 1 + self.rng.below(TIMES_MAX) as usize;
                Content::Parts(vec![Part { change: self.change, times }])
            }
        };
        let ttl_steps = self.rng.below(2 * TTLS).saturating_sub(TTLS);
        Item { content, flags: self.rng.below(1 << 16) as u32, ttl_steps }
    }

    fn store(&self, verb: &str, item: &Item, more: &str) -> String {
        let value = item.bytes(self.key);
        let (name, flags, ttl_s, bytes) = (self.name, item.flags, item.ttl_s(), value.len());
        let value = String::from_utf8_lossy(&value);
        format!("{verb} {name} {flags} {ttl_s} {bytes}{more}\r\n{value}\r\n")
    }

    fn change_to(self, state: Option<Item>, text: String, answers: &[&str]) -> Request {
        self.known.sent(state);
        let expects = Expects::Lines(answers.iter().map(|it| (*it).to_owned()).collect());
        Request { text, number: self.key.number, expects, is_change: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws `count` requests of one key, each answered before the next is drawn.
    fn drawn(number: usize, count: u64) -> (Vec<Request>, Known) {
        let (mut known, mut rng) = (Known::default(), Rng::new(1, 0));
        let key = Key { writer: 0, number };
        let mut requests = Vec::new();
        for change in 0..count {
            let (known, rng) = (&mut known, &mut rng);
            let request = Draw { key, name: "it", known, rng, change }.any();
            if request.is_change {
                known.answered();
            } else {
                known.read(change);
            }
            requests.push(request);
        }
        (requests, known)
    }

    #[test]
    fn all_verbs_are_drawn_and_sizes_are_true() {
        for (number, grows) in [(1, "append"), (8, "incr")] {
            let (requests, known) = drawn(number, 2_000);
            for verb in ["set", "cas", "delete", "gat", "gets", grows] {
                let is_it = |it: &&Request| it.text.split(' ').next() == Some(verb);
                assert!(requests.iter().filter(is_it).count() > 50, "{verb} of {number}");
            }
            assert!(known.latest().is_some(), "each answer makes it known");
            for request in requests.iter().filter(|it| it.text.starts_with("set ")) {
                let (head, rest) = request.text.split_once("\r\n").unwrap();
                let bytes: usize = head.split(' ').nth(4).unwrap().parse().unwrap();
                assert_eq!(rest.len(), bytes + 2);
            }
        }
    }

    #[test]
    fn of_a_key_that_is_not_known_only_what_makes_it_known_is_drawn() {
        let (mut known, mut rng) = (Known::default(), Rng::new(2, 0));
        for change in 0..100 {
            let key = Key { writer: 0, number: 1 };
            known.in_doubt();
            if known.latest().is_some() {
                known.sent(None);
                known.cut();
            }
            let (known, rng) = (&mut known, &mut rng);
            let request = Draw { key, name: "it", known, rng, change }.any();
            let verb = request.text.split(' ').next().unwrap_or_default();
            assert!(matches!(verb, "set" | "delete"), "{verb}");
        }
    }
}

//! A plain map that answers as memcached does: what a cell should have answered.

use std::collections::HashMap;

/// Second at which a test begins.
pub const START_S: u32 = 1_800_000_000;

/// The longest value.
pub const VALUE_BYTES_MAX: usize = 16_000;

/// What a reply is.
pub enum Reply {
    Right,
    /// What it should have been.
    Wrong(String),
}

#[derive(Clone)]
struct Item {
    value: String,
    flags: u64,
    /// The second in which it is gone; 0: never.
    expiry_s: u32,
    /// The token, once a reply has shown it.
    token: Option<u64>,
    stored_s: u32,
}

/// Items by their keys.
pub struct Map {
    items: HashMap<String, Item>,
    /// All items from before this second are gone then; 0: none.
    due_s: u32,
}

impl Map {
    pub fn new() -> Self {
        Self { items: HashMap::new(), due_s: 0 }
    }

    /// The token of a key, where one was shown.
    pub fn token(&self, key: &str) -> Option<u64> {
        self.items.get(key).and_then(|item| item.token)
    }

    /// Ends all items, after `delay` seconds.
    pub fn flush(&mut self, now_s: u32, delay: u32) {
        self.expire(now_s);
        match delay {
            0 => {
                self.items.clear();
                self.due_s = 0;
            }
            _ => self.due_s = now_s + delay,
        }
    }

    fn expire(&mut self, now_s: u32) {
        if self.due_s != 0 && self.due_s <= now_s {
            let due_s = std::mem::take(&mut self.due_s);
            self.items.retain(|_, item| item.stored_s >= due_s);
        }
        self.items.retain(|_, item| item.expiry_s == 0 || item.expiry_s > now_s);
    }

    /// Carries a request out, and compares its reply.
    pub fn take(&mut self, request: &str, reply: &str, now_s: u32) -> Reply {
        self.expire(now_s);
        let (line, rest) = request.split_once("\r\n").expect("a line");
        let words: Vec<&str> = line.split(' ').collect();
        let value = rest.strip_suffix("\r\n").unwrap_or("");
        let wanted = match words[0] {
            "get" | "gets" => self.get(&words[1..], words[0] == "gets", reply),
            "gat" | "gats" => {
                let expiry_s = expiry(words[1], now_s);
                let wanted = self.get(&words[2..], words[0] == "gats", reply);
                if let Some(item) = self.items.get_mut(words[2]) {
                    item.expiry_s = expiry_s;
                }
                wanted
            }
            "mg" => self.meta_get(words[1], reply, now_s),
            "ms" => {
                let (flags, exptime) = (&words[3][1..], &words[4][1..]);
                self.store(words[1], (flags, exptime, value), now_s);
                let token = reply.trim_end().rsplit_once(" c").and_then(|it| it.1.parse().ok());
                if let Some(item) = self.items.get_mut(words[1]) {
                    item.token = token;
                }
                token.map_or("HD c...".to_owned(), |token: u64| format!("HD c{token}\r\n"))
            }
            "md" => match self.items.remove(words[1]) {
                Some(_) => "HD\r\n".to_owned(),
                None => "NF\r\n".to_owned(),
            },
            "ma" => {
                let delta = words[2][1..].parse().expect("a number");
                match self.count(words[1], delta, true) {
                    Ok(Some(number)) => format!("VA {}\r\n{number}\r\n", number.len()),
                    Ok(None) => "NF\r\n".to_owned(),
                    Err(error) => error,
                }
            }
            _ => self.classic(&words, value, now_s),
        };
        let is_quiet = words.last() == Some(&"noreply");
        // An error is said in spite of it.
        let is_error = wanted.starts_with("CLIENT_ERROR") && reply == wanted;
        let wanted = if is_quiet && !is_error { String::new() } else { wanted };
        if wanted == reply { Reply::Right } else { Reply::Wrong(wanted) }
    }

    fn classic(&mut self, words: &[&str], value: &str, now_s: u32) -> String {
        let key = words[1];
        let is_there = self.items.contains_key(key);
        let facts = || (words[2], words[3], value);
        let stored = |is_stored: bool| {
            if is_stored { "STORED\r\n".to_owned() } else { "NOT_STORED\r\n".to_owned() }
        };
        match words[0] {
            "set" => {
                self.store(key, facts(), now_s);
                stored(true)
            }
            "add" | "replace" => {
                let stores = is_there == (words[0] == "replace");
                if stores {
                    self.store(key, facts(), now_s);
                }
                stored(stores)
            }
            "append" | "prepend" => {
                let fits = |item: &&mut Item| item.value.len() + value.len() <= VALUE_BYTES_MAX;
                let item = self.items.get_mut(key).filter(fits);
                let is_stored = item.is_some();
                if let Some(item) = item {
                    item.value = match words[0] {
                        "append" => format!("{}{value}", item.value),
                        _ => format!("{value}{}", item.value),
                    };
                    (item.token, item.stored_s) = (None, now_s);
                }
                stored(is_stored)
            }
            "cas" => {
                let token: u64 = words[5].parse().expect("a token");
                match self.items.get(key) {
                    None => "NOT_FOUND\r\n".to_owned(),
                    // One that was not shown is above those that tests invent.
                    Some(item) if item.token != Some(token) => "EXISTS\r\n".to_owned(),
                    Some(_) => {
                        self.store(key, facts(), now_s);
                        stored(true)
                    }
                }
            }
            "incr" | "decr" => {
                let delta = words[2].parse().expect("a number");
                match self.count(key, delta, words[0] == "incr") {
                    Ok(Some(number)) => format!("{number}\r\n"),
                    Ok(None) => "NOT_FOUND\r\n".to_owned(),
                    Err(error) => error,
                }
            }
            "delete" => match self.items.remove(key) {
                Some(_) => "DELETED\r\n".to_owned(),
                None => "NOT_FOUND\r\n".to_owned(),
            },
            "touch" => match self.items.get_mut(key) {
                Some(item) => {
                    item.expiry_s = expiry(words[2], now_s);
                    "TOUCHED\r\n".to_owned()
                }
                None => "NOT_FOUND\r\n".to_owned(),
            },
            verb => panic!("the map knows no {verb}"),
        }
    }

    fn store(&mut self, key: &str, (flags, exptime, value): (&str, &str, &str), now_s: u32) {
        let item = Item {
            value: value.to_owned(),
            flags: flags.parse().expect("flags"),
            expiry_s: expiry(exptime, now_s),
            token: None,
            stored_s: now_s,
        };
        self.items.insert(key.to_owned(), item);
    }

    /// Counts up or down. An error where the value is no number.
    fn count(&mut self, key: &str, delta: u64, up: bool) -> Result<Option<String>, String> {
        let Some(item) = self.items.get_mut(key) else { return Ok(None) };
        let is_number = !item.value.is_empty() && item.value.bytes().all(|it| it.is_ascii_digit());
        let error = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
        let number = item.value.trim_end().parse::<u64>().ok().filter(|_| is_number);
        let Some(number) = number else { return Err(error.to_owned()) };
        let number = if up { number.wrapping_add(delta) } else { number.saturating_sub(delta) };
        let shown = number.to_string();
        item.value = shown.clone();
        item.token = None;
        Ok(Some(shown))
    }

    /// The reply to a read. A token that was shown before must be the same, also after a reload.
    fn get(&mut self, keys: &[&str], with_token: bool, reply: &str) -> String {
        let mut wanted = String::new();
        for key in keys {
            let Some(item) = self.items.get_mut(*key) else { continue };
            let Item { value, flags, token, .. } = item;
            let head = format!("VALUE {key} {flags} {}", value.len());
            if with_token {
                let shown = reply.strip_prefix(head.as_str()).and_then(|rest| {
                    rest.trim_start().split("\r\n").next().and_then(|it| it.parse().ok())
                });
                let known = *token.get_or_insert(shown.unwrap_or(0));
                wanted += &format!("{head} {known}\r\n{value}\r\n");
            } else {
                wanted += &format!("{head}\r\n{value}\r\n");
            }
        }
        wanted + "END\r\n"
    }

    fn meta_get(&mut self, key: &str, reply: &str, now_s: u32) -> String {
        let Some(item) = self.items.get_mut(key) else { return "EN\r\n".to_owned() };
        let shown = reply.split("\r\n").next().and_then(|line| line.rsplit_once(" c"));
        let shown = shown.and_then(|it| it.1.parse().ok());
        let token = *item.token.get_or_insert(shown.unwrap_or(0));
        let left = match item.expiry_s {
            0 => "-1".to_owned(),
            expiry_s => (expiry_s - now_s).to_string(),
        };
        let Item { value, flags, .. } = item;
        format!("VA {} f{flags} t{left} c{token}\r\n{value}\r\n", value.len())
    }
}

/// The second in which an item is gone that is stored with `exptime` now; one that has passed
/// where it is negative.
fn expiry(exptime: &str, now_s: u32) -> u32 {
    match exptime.parse::<i64>().expect("a number") {
        0 => 0,
        seconds if seconds < 0 => 1,
        seconds => now_s + seconds as u32,
    }
}

//! A small memcached of threads, which misbehaves on request.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

/// How the double departs from a good server; requests are numbered from 1 over all connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vice {
    /// Flips a bit in the value of every get of this multiple.
    pub lie_every: Option<u64>,
    /// Stands still for so long at this request, with everyone who asks meanwhile.
    pub freeze: Option<(u64, Duration)>,
    /// Takes so long over every request, one after another.
    pub pace: Option<Duration>,
    /// Answers sets of this multiple with an error line.
    pub refuse_every: Option<u64>,
    /// Answers nothing from this request on.
    pub mute_from: Option<u64>,
    /// Closes the connection of this request and all later ones.
    pub close_from: Option<u64>,
    /// Answers this request with a line that no memcached sends.
    pub babble_at: Option<u64>,
}

struct Double {
    vice: Vice,
    requests: AtomicU64,
    items: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    /// Held for writing by a freeze.
    frozen: RwLock<()>,
    /// Held by the request that takes its time.
    paced: Mutex<()>,
}

/// Starts a double; its threads end with the test process. Returns its address.
pub fn start(vice: Vice) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let double = Arc::new(Double {
        vice,
        requests: AtomicU64::new(0),
        items: Mutex::default(),
        frozen: RwLock::default(),
        paced: Mutex::default(),
    });
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (double, stream) = (Arc::clone(&double), stream.unwrap());
            // A client that leaves ends its thread by an error.
            std::thread::spawn(move || double.serve(stream).ok());
        }
    });
    address
}

impl Double {
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut out = stream.try_clone()?;
        let mut input = BufReader::new(stream);
        let mut line = String::new();
        let mut reply = Vec::new();
        loop {
            line.clear();
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let length = match words[0] {
                "set" => words[4].parse().ok(),
                "ms" => words[2].parse::<usize>().ok(),
                _ => None,
            };
            let mut value = vec![0; length.map_or(0, |bytes| bytes + 2)];
            input.read_exact(&mut value)?;
            value.truncate(length.unwrap_or(0));
            if words[0] == "stats" {
                out.write_all(b"STAT version double\r\nSTAT rusage_user 1\r\n")?;
                out.write_all(b"STAT rusage_system 2\r\nEND\r\n")?;
                continue;
            }
            if !self.answer(&words, value, &mut reply) {
                return Ok(());
            }
            // One send for all that was pipelined.
            if input.buffer().is_empty() {
                out.write_all(&reply)?;
                reply.clear();
            }
        }
    }

    /// Appends the reply; `false` closes the connection.
    fn answer(&self, words: &[&str], value: Vec<u8>, reply: &mut Vec<u8>) -> bool {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let vice = &self.vice;
        let due = |every: Option<u64>| every.is_some_and(|every| number.is_multiple_of(every));
        match vice.freeze {
            Some((at, time)) if at == number => {
                let _all = self.frozen.write().unwrap();
                std::thread::sleep(time);
            }
            _ => drop(self.frozen.read().unwrap()),
        }
        if let Some(pace) = vice.pace {
            let _alone = self.paced.lock().unwrap();
            std::thread::sleep(pace);
        }
        if vice.mute_from.is_some_and(|from| number >= from) {
            return true;
        }
        if vice.close_from.is_some_and(|from| number >= from) {
            return false;
        }
        if vice.babble_at == Some(number) {
            reply.extend_from_slice(b"HELLO\r\n");
            return true;
        }
        let mut items = self.items.lock().unwrap();
        match words[0] {
            "set" | "ms" if due(vice.refuse_every) => {
                reply.extend_from_slice(b"SERVER_ERROR out of memory storing object\r\n");
            }
            "set" | "ms" => {
                items.insert(words[1].as_bytes().to_vec(), value);
                let stored = if words[0] == "set" { "STORED\r\n" } else { "HD\r\n" };
                reply.extend_from_slice(stored.as_bytes());
            }
            "get" => {
                for key in &words[1..] {
                    let Some(value) = items.get(key.as_bytes()) else { continue };
                    let head = format!("VALUE {key} 0 {}\r\n", value.len());
                    put(reply, &head, value, due(vice.lie_every));
                }
                reply.extend_from_slice(b"END\r\n");
            }
            "mg" => match items.get(words[1].as_bytes()) {
                None if words.contains(&"q") => {}
                None => reply.extend_from_slice(b"EN\r\n"),
                Some(value) => {
                    let key =
                        if words.contains(&"k") { format!(" k{}", words[1]) } else { "".into() };
                    let head = format!("VA {}{key}\r\n", value.len());
                    put(reply, &head, value, due(vice.lie_every));
                }
            },
            "delete" | "md" => {
                let names = if words[0] == "md" { ["HD", "NF"] } else { ["DELETED", "NOT_FOUND"] };
                let gone = items.remove(words[1].as_bytes()).is_none();
                reply.extend_from_slice(names[usize::from(gone)].as_bytes());
                reply.extend_from_slice(b"\r\n");
            }
            "mn" => reply.extend_from_slice(b"MN\r\n"),
            _ => reply.extend_from_slice(b"ERROR\r\n"),
        }
        true
    }
}

fn put(reply: &mut Vec<u8>, head: &str, value: &[u8], lie: bool) {
    reply.extend_from_slice(head.as_bytes());
    reply.extend_from_slice(value);
    if lie && !value.is_empty() {
        *reply.last_mut().unwrap() ^= 1;
    }
    reply.extend_from_slice(b"\r\n");
}

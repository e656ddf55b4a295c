//! A proxy before a service of HTTP that makes it faulty, in one exact way at a time.
//!
//! ```text
//! client --- request ---> proxy --- request ---> service
//!        <-- answer -----       <-- answer -----
//!                 what the fault says happens here
//! ```
//!
//! A thread for each connection reads one request, carries out what [`Fault`] says at that moment,
//! and closes: the next request has another connection. Bodies have a `Content-Length`. Bounds:
//! `CONNECTIONS_MAX`, `HEAD_BYTES_MAX`, `MESSAGE_BYTES_MAX`, and `SERVICE_MAX` for an answer of the
//! service.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The most open connections; one more is closed at once.
const CONNECTIONS_MAX: usize = 256;
/// The longest head of a message.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// The longest message.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;
/// Longest the service may be silent.
const SERVICE_MAX: Duration = Duration::from_secs(60);

/// What happens to requests from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// They pass, and their answers too.
    None,
    /// Connections are closed, those that are open too. The service sees no request.
    Gone,
    /// They are answered with this status. The service sees none.
    Status(u16),
    /// The same for each request whose number is a multiple of the second; the others pass.
    Sometimes(u16, u64),
    /// They are passed on after this time.
    Slow(Duration),
    /// The service carries them out at once, and their answers are passed on after this time.
    AnsweredLate(Duration),
}

/// What a proxy has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests, or connections where the service is gone, that met a fault.
    pub faulty: u64,
    /// Requests that the service has answered.
    pub answered: u64,
    /// Bytes of the bodies of these.
    pub body_bytes: u64,
}

/// A proxy that runs until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    service: SocketAddr,
    state: Mutex<State>,
    /// Notified when the fault or a count changes.
    changed: Condvar,
}

struct State {
    fault: Fault,
    counts: Counts,
    requests: u64,
    /// Bytes of bodies a second, and when the next body may pass.
    bytes_per_s: Option<u64>,
    free_at: Instant,
    open: BTreeMap<u64, TcpStream>,
    connections: u64,
    is_over: bool,
}

impl Proxy {
    /// A proxy on a free port of the loopback, without a fault.
    ///
    /// # Errors
    /// When the system gives no socket.
    pub fn start(service: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = State {
            fault: Fault::None,
            counts: Counts::default(),
            requests: 0,
            bytes_per_s: None,
            free_at: Instant::now(),
            open: BTreeMap::new(),
            connections: 0,
            is_over: false,
        };
        let shared =
            Arc::new(Shared { service, state: Mutex::new(state), changed: Condvar::new() });
        let acceptor = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.accept(&listener)
        });
        Ok(Self { address, shared, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on requests meet this fault. What waits for an earlier one waits on.
    pub fn set(&self, fault: Fault) {
        let mut state = self.shared.state();
        state.fault = fault;
        if fault == Fault::Gone {
            state.close_all();
        }
        self.shared.changed.notify_all();
    }

    /// From now on this number of bytes of bodies passes a second; all where there is none.
    pub fn throttle(&self, bytes_per_s: Option<u64>) {
        self.shared.state().bytes_per_s = bytes_per_s.map(|bytes| bytes.max(1));
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.state().counts
    }

    /// Waits until `is_so` of what it has done; false if it is not after `time`.
    #[must_use]
    pub fn wait(&self, time: Duration, is_so: impl Fn(Counts) -> bool) -> bool {
        let state = self.shared.state();
        let waited =
            self.shared.changed.wait_timeout_while(state, time, |state| !is_so(state.counts));
        !waited.expect("invariant: no holder of this lock panics").1.timed_out()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.is_over = true;
            state.close_all();
        }
        self.shared.changed.notify_all();
        // A connection wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl State {
    fn close_all(&mut self) {
        for connection in self.open.values() {
            // One that has failed is closed already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// How long a body waits until it may pass.
    fn wait_for(&mut self, bytes: usize, now: Instant) -> Duration {
        let Some(bytes_per_s) = self.bytes_per_s else { return Duration::ZERO };
        let from = self.free_at.max(now);
        self.free_at = from + Duration::from_secs_f64(bytes as f64 / bytes_per_s as f64);
        self.free_at - now
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("invariant: no holder of this lock panics")
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((client, _)) = listener.accept() {
            let mut state = self.state();
            if state.is_over {
                return;
            }
            if state.fault == Fault::Gone {
                state.counts.faulty += 1;
                self.changed.notify_all();
                continue;
            }
            let Ok(copy) = client.try_clone() else { continue };
            if state.open.len() == CONNECTIONS_MAX {
                continue;
            }
            let name = state.connections;
            state.connections += 1;
            state.open.insert(name, copy);
            let shared = Arc::clone(self);
            // It ends with its connection, or when the proxy is dropped.
            thread::spawn(move || {
                // A client that went away is no failure of the proxy.
                let _ = shared.serve(&client);
                shared.state().open.remove(&name);
            });
        }
    }

    /// Serves one request.
    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(client);
        let head = read_head(&mut reader)?;
        if head.is_empty() {
            return Ok(());
        }
        let body = read_body(&mut reader, &head)?;
        let fault = self.met();
        match fault {
            Fault::Gone => return Ok(()),
            Fault::Status(status) | Fault::Sometimes(status, _) => {
                let head = format!("HTTP/1.1 {status} Fault\r\nContent-Length: 0");
                return write!(&mut &*client, "{head}\r\nConnection: close\r\n\r\n");
            }
            Fault::Slow(time) => self.pause(time),
            Fault::None | Fault::AnsweredLate(_) => {}
        }
        let wait = self.state().wait_for(body.len(), Instant::now());
        self.pause(wait);
        let answer = self.ask(&head, &body)?;
        {
            let mut state = self.state();
            state.counts.answered += 1;
            state.counts.body_bytes += body.len() as u64;
            self.changed.notify_all();
        }
        if let Fault::AnsweredLate(time) = fault {
            self.pause(time);
        }
        (&mut &*client).write_all(&answer)
    }

    /// The fault that the next request meets; it is counted.
    fn met(&self) -> Fault {
        let mut state = self.state();
        state.requests += 1;
        let is_met = match state.fault {
            Fault::None => false,
            Fault::Sometimes(_, each) => state.requests.is_multiple_of(each.max(1)),
            _ => true,
        };
        if !is_met {
            return Fault::None;
        }
        state.counts.faulty += 1;
        self.changed.notify_all();
        state.fault
    }

    /// Waits for this time, or until the proxy is dropped.
    fn pause(&self, time: Duration) {
        let state = self.state();
        let waited = self.changed.wait_timeout_while(state, time, |state| !state.is_over);
        drop(waited.expect("invariant: no holder of this lock panics"));
    }

    /// What the service answers.
    fn ask(&self, head: &[String], body: &[u8]) -> io::Result<Vec<u8>> {
        let mut service = TcpStream::connect_timeout(&self.service, SERVICE_MAX)?;
        service.set_read_timeout(Some(SERVICE_MAX))?;
        service.set_write_timeout(Some(SERVICE_MAX))?;
        service.write_all(&closing(head))?;
        service.write_all(body)?;
        let mut reader = BufReader::new(service.take(MESSAGE_BYTES_MAX));
        let mut answer = closing(&read_head(&mut reader)?);
        reader.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

/// The lines of a head, without their ends; none where there is no message.
fn read_head(reader: &mut impl BufRead) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut head = reader.take(HEAD_BYTES_MAX);
    loop {
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            let is_none = lines.is_empty();
            return if is_none { Ok(lines) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        match line.trim_end() {
            "" => return Ok(lines),
            line => lines.push(line.to_owned()),
        }
    }
}

fn read_body(reader: &mut impl Read, head: &[String]) -> io::Result<Vec<u8>> {
    let length = head.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<u64>())
    });
    match length {
        None => Ok(Vec::new()),
        Some(Ok(length)) if length <= MESSAGE_BYTES_MAX => {
            let mut body = vec![0; length as usize];
            reader.read_exact(&mut body).map(|()| body)
        }
        Some(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A head after whose message the connection is closed.
fn closing(head: &[String]) -> Vec<u8> {
    let is_kept = |line: &&String| !line.to_ascii_lowercase().starts_with("connection:");
    let lines: String = head.iter().filter(is_kept).map(|line| format!("{line}\r\n")).collect();
    format!("{lines}Connection: close\r\n\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A service that answers each request with its body, and how many it has seen.
    struct Echo {
        address: SocketAddr,
        seen: Arc<Mutex<Vec<String>>>,
    }

    fn echo() -> Echo {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, seen) =
            (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let echo = Echo { address, seen: Arc::clone(&seen) };
        // It ends with the test.
        thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let mut reader = BufReader::new(client.try_clone().unwrap());
                let head = read_head(&mut reader).unwrap();
                let body = read_body(&mut reader, &head).unwrap();
                assert!(head.contains(&"Connection: close".to_owned()), "{head:?}");
                seen.lock().unwrap().push(head[0].clone());
                let length = body.len();
                write!(client, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").unwrap();
                client.write_all(&body).unwrap();
            }
        });
        echo
    }

    /// What a request is answered; empty where the connection is closed without an answer.
    fn ask(proxy: &Proxy, body: &str) -> String {
        let mut client = TcpStream::connect(proxy.address()).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        let head =
            format!("PUT /o HTTP/1.1\r\nConnection: keep-alive\r\nContent-Length: {}", body.len());
        let mut answer = String::new();
        let _ = write!(client, "{head}\r\n\r\n{body}");
        let _ = client.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn each_fault_is_what_it_says_and_ends_when_it_is_taken_away() {
        let echo = echo();
        let proxy = Proxy::start(echo.address).unwrap();
        let short = Duration::from_millis(1);
        for (fault, answer, is_seen, is_faulty) in [
            (Fault::None, "200 OK", true, false),
            (Fault::Status(429), "429 Fault", false, true),
            (Fault::Gone, "", false, true),
            (Fault::Slow(short), "200 OK", true, true),
            (Fault::AnsweredLate(short), "200 OK", true, true),
            (Fault::Sometimes(503, 1), "503 Fault", false, true),
            (Fault::None, "200 OK", true, false),
        ] {
            proxy.set(fault);
            let (before, seen) = (proxy.counts(), echo.seen.lock().unwrap().len());
            let said = ask(&proxy, "hello");
            let expected = if answer.is_empty() { said.is_empty() } else { said.contains(answer) };
            assert!(expected, "{fault:?}: {said}");
            assert_eq!(said.ends_with("hello"), is_seen, "{fault:?}: {said}");
            assert_eq!(echo.seen.lock().unwrap().len() - seen, usize::from(is_seen), "{fault:?}");
            let faulty = proxy.counts().faulty - before.faulty;
            assert_eq!(faulty, u64::from(is_faulty), "{fault:?}");
        }
        proxy.set(Fault::Sometimes(503, 3));
        let answers: Vec<bool> = (0..6).map(|_| ask(&proxy, "x").contains("503")).collect();
        assert_eq!(answers.iter().filter(|is| **is).count(), 2, "{answers:?}");
    }

    #[test]
    fn an_answer_that_is_held_back_comes_after_the_service_has_carried_it_out() {
        let echo = echo();
        let proxy = Proxy::start(echo.address).unwrap();
        proxy.set(Fault::AnsweredLate(LONG));
        thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&proxy, "late"));
            assert!(proxy.wait(LONG, |counts| counts.answered == 1));
            assert!(!asked.is_finished(), "it is held back");
            proxy.set(Fault::Gone);
            assert_eq!(asked.join().unwrap(), "", "it was open, and is closed");
        });
        assert_eq!(echo.seen.lock().unwrap().len(), 1);
        assert!(!proxy.wait(Duration::ZERO, |counts| counts.answered == 2));
    }

    #[test]
    fn bodies_wait_for_those_before_them() {
        let now = Instant::now();
        let proxy = Proxy::start(([127, 0, 0, 1], 9).into()).unwrap();
        let mut state = proxy.shared.state();
        assert_eq!(state.wait_for(100, now), Duration::ZERO);
        (state.bytes_per_s, state.free_at) = (Some(1_000), now);
        let waits = [500, 0, 1_500].map(|bytes| state.wait_for(bytes, now).as_millis());
        assert_eq!(waits, [500, 500, 2_000]);
        let later = now + Duration::from_secs(60);
        assert_eq!(state.wait_for(10, later).as_millis(), 10, "what was not used is not saved");
    }
}

//! One io_uring with its pool of buffers: the only place that gives the kernel pointers.
//!
//! The kernel uses them only while this thread is inside [`Ring::exchange`]: the ring has one
//! issuer, completions are deferred to its calls, and there is no polling thread. So between two
//! exchanges the received bytes belong to this thread. The bytes of a send are borrowed until the
//! exchange that sends them returns.
//!
//! ```text
//! pool  [ entry 0 | entry 1 | ... ] a page that the kernel takes buffers from, our tail in entry 0
//!       [ buffer 0 | buffer 1 | ... ]
//! ```
//!
//! A buffer that holds received bytes belongs to a completion until the next exchange begins.

#![allow(unsafe_code, reason = "the kernel reads and writes memory that it is given by address")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec as RingTimespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::net::SendFlags;

/// Requests that are submitted at once at most; more are submitted in parts.
const REQUESTS_MAX: u32 = 1024;

/// Completions that the ring holds; the kernel keeps further ones until these are taken.
const COMPLETIONS_MAX: u32 = 4096;

/// Buffers that are received into. Those of a worker take 2 MiB.
const BUFFERS: usize = 256;

/// Bytes that one completion brings at most.
const BUFFER_BYTES: usize = 8 << 10;

const PAGE_BYTES: usize = 4096;

const _: () =
    assert!(BUFFERS.is_power_of_two() && BUFFERS * size_of::<BufRingEntry>() == PAGE_BYTES);

/// The number of the pool: a ring has one.
const GROUP: u16 = 0;

/// What a completion says its request is. A caller chooses among those below [`TAG_ACCEPTS`].
pub(super) type Tag = u64;

/// The tag of the first listener; the others follow.
pub(super) const TAG_ACCEPTS: Tag = (u32::MAX as u64) << 32 | 1 << 30;

/// The tag of the first send of an exchange; the others follow by position.
pub(super) const TAG_SENDS: Tag = (u32::MAX as u64) << 32 | 1 << 31;

/// A timeout for exchanges that do not wait, which is also how a ring is emptied.
pub(super) const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Sends in one exchange at most.
pub(super) const SENDS_MAX: usize = REQUESTS_MAX as usize / 2;

/// A completion.
pub(super) struct Done {
    pub(super) tag: Tag,
    /// What the call would have returned.
    pub(super) result: Result<u32, Errno>,
    /// The request continues: further completions with this tag follow.
    pub(super) more: bool,
    /// The socket that a listener has accepted.
    pub(super) accepted: Option<OwnedFd>,
    buffer: Option<u16>,
}

/// Memory that the kernel receives into.
struct Pool {
    memory: NonNull<u8>,
    tail: u16,
}

impl Pool {
    const LAYOUT: Layout =
        match Layout::from_size_align(PAGE_BYTES + BUFFERS * BUFFER_BYTES, PAGE_BYTES) {
            Ok(layout) => layout,
            Err(_) => panic!("a power of two"),
        };

    fn new() -> Self {
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(Self::LAYOUT) };
        let memory = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(Self::LAYOUT));
        let mut this = Self { memory, tail: 0 };
        for buffer in 0..BUFFERS as u16 {
            this.put(buffer);
        }
        this.publish();
        this
    }

    fn buffer(&self, buffer: u16) -> NonNull<u8> {
        let at = usize::from(buffer);
        assert!(at < BUFFERS, "the kernel names buffers that it was given");
        // SAFETY: page and buffers are one allocation, and `at` was just checked.
        unsafe { self.memory.add(PAGE_BYTES + at * BUFFER_BYTES) }
    }

    /// Writes a buffer into the next entry; the kernel sees it when it is published.
    fn put(&mut self, buffer: u16) {
        let address = self.buffer(buffer).as_ptr() as u64;
        let at = usize::from(self.tail) % BUFFERS;
        // SAFETY: the page holds exactly this many entries and began as zeroes, which is a valid
        // entry. The kernel reads no entry at or after the published tail.
        let entry = unsafe { self.memory.cast::<BufRingEntry>().add(at).as_mut() };
        entry.set_addr(address);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Gives the kernel what was put.
    fn publish(&self) {
        // SAFETY: the base of the page is its first entry, in which the kernel keeps the tail; the
        // field is aligned, and after this both sides use it as an atomic.
        unsafe {
            let tail = BufRingEntry::tail(self.memory.cast::<BufRingEntry>().as_ptr());
            AtomicU16::from_ptr(tail.cast_mut()).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout; the ring has given it up before.
        unsafe { dealloc(self.memory.as_ptr(), Self::LAYOUT) };
    }
}

/// An io_uring used by one thread.
pub(super) struct Ring {
    ring: IoUring,
    pool: Pool,
    done: Vec<Done>,
}

impl Ring {
    /// A ring for this thread.
    ///
    /// # Errors
    /// What the system refuses.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS_MAX)
            .build(REQUESTS_MAX)?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let pool = Pool::new();
        let address = pool.memory.as_ptr() as u64;
        // SAFETY: page and buffers live until `drop` has taken them back from the ring.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(address, BUFFERS as u16, GROUP, 0)?;
        }
        Ok(Self { ring, pool, done: Vec::new() })
    }

    /// What the latest exchange has brought.
    pub(super) fn done(&mut self) -> &mut [Done] {
        &mut self.done
    }

    /// The bytes that came with a completion of the latest exchange.
    pub(super) fn bytes(&self, at: usize) -> &[u8] {
        let Done { result: Ok(len), buffer: Some(buffer), .. } = self.done[at] else { return &[] };
        let len = (len as usize).min(BUFFER_BYTES);
        // SAFETY: the kernel has filled `len` bytes of this buffer and does not get it back before
        // the next exchange, which needs `self` alone.
        unsafe { slice::from_raw_parts(self.pool.buffer(buffer).as_ptr(), len) }
    }

    /// Requests to receive from a socket from now on, until an error or its end.
    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>, tag: Tag) -> Result<(), Errno> {
        assert!(tag < TAG_ACCEPTS, "tags from there on are for accepts and sends");
        let request = opcode::RecvMulti::new(Fd(fd.as_raw_fd()), GROUP).build();
        // SAFETY: it points nowhere; the kernel takes buffers from the pool.
        unsafe { self.push(&request.user_data(tag)) }
    }

    /// Requests to accept from listener `index` from now on, until an error.
    pub(super) fn accept(&mut self, fd: BorrowedFd<'_>, index: usize) -> Result<(), Errno> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let request = opcode::AcceptMulti::new(Fd(fd.as_raw_fd())).flags(flags).build();
        // SAFETY: it points nowhere: no address is asked for.
        unsafe { self.push(&request.user_data(TAG_ACCEPTS + index as u64)) }
    }

    /// Requests a completion when `events` of `poll` happen to a descriptor: once, or each time.
    pub(super) fn poll(
        &mut self,
        fd: BorrowedFd<'_>,
        tag: Tag,
        events: u32,
        multi: bool,
    ) -> Result<(), Errno> {
        assert!(tag < TAG_ACCEPTS, "tags from there on are for accepts and sends");
        let request = opcode::PollAdd::new(Fd(fd.as_raw_fd()), events).multi(multi).build();
        // SAFETY: it points nowhere.
        unsafe { self.push(&request.user_data(tag)) }
    }

    /// Cancels the request with the tag `target`, which completes nevertheless.
    pub(super) fn cancel(&mut self, target: Tag, tag: Tag) -> Result<(), Errno> {
        assert!(tag < TAG_ACCEPTS, "tags from there on are for accepts and sends");
        let request = opcode::AsyncCancel2::new(CancelBuilder::user_data(target)).build();
        // SAFETY: it points nowhere.
        unsafe { self.push(&request.user_data(tag)) }
    }

    /// Submits the requests, so that descriptors named in them may be closed.
    pub(super) fn submit(&mut self) -> Result<(), Errno> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        self.ring.submit().map(drop).map_err(errno)
    }

    /// Sends, submits the requests, and waits up to `timeout` for one completion beyond those of
    /// the sends. A send without a completion was not tried. A send never waits: the socket takes
    /// as many bytes as it has space for.
    ///
    /// # Panics
    /// When the ring is broken.
    pub(super) fn exchange<'a>(
        &mut self,
        sends: impl Iterator<Item = (usize, BorrowedFd<'a>, &'a [u8])>,
        timeout: &Timespec,
    ) {
        for buffer in self.done.drain(..).filter_map(|done| done.buffer) {
            self.pool.put(buffer);
        }
        self.pool.publish();
        let mut owed = 0;
        for (position, fd, bytes) in sends {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let request = opcode::Send::new(Fd(fd.as_raw_fd()), bytes.as_ptr(), len)
                .flags(flags.bits() as i32)
                .build()
                .user_data(TAG_SENDS + position as u64);
            // SAFETY: the bytes are borrowed beyond this call, which does not return while a
            // completion is owed. DONTWAIT makes the kernel complete a send while it is submitted.
            if unsafe { self.push(&request) }.is_err() {
                break;
            }
            owed += 1;
        }
        let timeout = RingTimespec::new()
            .sec(timeout.tv_sec.unsigned_abs())
            .nsec(u32::try_from(timeout.tv_nsec).unwrap_or(0));
        let args = SubmitArgs::new().timespec(&timeout);
        loop {
            let waited = self.ring.submitter().submit_with_args(owed + 1, &args);
            for entry in self.ring.completion() {
                let done = Done::from(&entry);
                owed -= usize::from(done.tag >= TAG_SENDS);
                self.done.push(done);
            }
            match waited.map_err(errno) {
                // Time is up, a signal came, or the kernel wants its completions taken first.
                Ok(_) | Err(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => {}
                // It has taken nothing, and what is queued is dropped with the ring.
                Err(error) => panic!("io_uring of a worker is broken: {error}"),
            }
            if owed == 0 {
                return;
            }
        }
    }

    /// Queues a request, submitting those before it when the queue is full.
    ///
    /// # Safety
    /// What the request points to must stay valid until it has completed.
    unsafe fn push(&mut self, request: &squeue::Entry) -> Result<(), Errno> {
        // SAFETY: as this function's own.
        if unsafe { self.ring.submission().push(request) }.is_ok() {
            return Ok(());
        }
        self.ring.submit().map_err(errno)?;
        // SAFETY: as this function's own.
        unsafe { self.ring.submission().push(request) }.map_err(|_| Errno::BUSY)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // Requests under way find no buffers after this, so the kernel does not write to the pool.
        // It fails only for a pool that is not registered.
        let _ = self.ring.submitter().unregister_buf_ring(GROUP);
    }
}

impl From<&cqueue::Entry> for Done {
    fn from(entry: &cqueue::Entry) -> Self {
        let (tag, result) = (entry.user_data(), entry.result());
        let accepts = (TAG_ACCEPTS..TAG_SENDS).contains(&tag) && result >= 0;
        Self {
            tag,
            result: u32::try_from(result).map_err(|_| Errno::from_raw_os_error(-result)),
            more: cqueue::more(entry.flags()),
            // SAFETY: only accepts have these tags, each completion is seen once, and the
            // descriptor in it is new and has no other owner.
            accepted: accepts.then(|| unsafe { OwnedFd::from_raw_fd(result) }),
            buffer: cqueue::buffer_select(entry.flags()),
        }
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    const SOON: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

    /// A ring, unless this system allows none; under CI it must.
    fn ring() -> Option<Ring> {
        let ring = Ring::new();
        let must = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false");
        assert!(ring.is_ok() || !must, "io_uring is not allowed: {:?}", ring.err());
        ring.ok()
    }

    #[test]
    fn what_is_received_is_what_was_sent_however_often_the_pool_wraps() {
        let Some(mut ring) = ring() else { return };
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        ring.receive(theirs.as_fd(), 7).expect("room for a request");
        for round in 0..3 * BUFFERS {
            let sent = round.to_string().repeat(1 + round % 9);
            ours.write_all(sent.as_bytes()).expect("it is read");
            ring.exchange(std::iter::empty(), &SOON);
            assert_eq!(ring.done().len(), 1);
            assert_eq!((ring.done()[0].tag, ring.done()[0].more), (7, true));
            assert_eq!(ring.bytes(0), sent.as_bytes());
        }
        ours.write_all(&[b'x'; 5 * BUFFER_BYTES + 1]).expect("it is read");
        drop(ours);
        let (mut received, mut ended) = (0, false);
        while !ended {
            ring.exchange(std::iter::empty(), &SOON);
            for at in 0..ring.done().len() {
                received += ring.bytes(at).len();
                ended |= ring.done()[at].result == Ok(0);
            }
        }
        assert_eq!(received, 5 * BUFFER_BYTES + 1);
    }

    #[test]
    fn sends_are_over_when_the_exchange_is() {
        let Some(mut ring) = ring() else { return };
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let much = vec![b'x'; 4 << 20];
        let sends = [&b"little"[..], &much, b"nothing more"].into_iter().enumerate();
        ring.exchange(sends.map(|(at, bytes)| (at, ours.as_fd(), bytes)), &AT_ONCE);
        let results: Vec<_> = ring.done().iter().map(|done| (done.tag, done.result)).collect();
        let Ok(part) = results[1].1 else { panic!("{results:?}") };
        assert!(part > 0 && (part as usize) < much.len());
        let tags = [TAG_SENDS, TAG_SENDS + 1, TAG_SENDS + 2];
        assert_eq!(results, [(tags[0], Ok(6)), (tags[1], Ok(part)), (tags[2], Err(Errno::AGAIN))]);
    }

    #[test]
    fn a_listener_hands_over_clients_and_requests_can_be_ended() {
        let Some(mut ring) = ring() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it listens");
        ring.accept(listener.as_fd(), 3).expect("room for a request");
        for _ in 0..3 {
            let _client = TcpStream::connect(address).expect("it listens");
            ring.exchange(std::iter::empty(), &SOON);
            assert_eq!(ring.done()[0].tag, TAG_ACCEPTS + 3);
            assert!(ring.done()[0].accepted.is_some());
        }
        let (_ours, theirs) = UnixStream::pair().expect("a pair");
        ring.receive(theirs.as_fd(), 7).expect("room for a request");
        ring.cancel(7, 8).expect("room for a request");
        let mut seen = Vec::new();
        while seen.len() < 2 {
            ring.exchange(std::iter::empty(), &SOON);
            seen.extend(ring.done().iter().map(|done| (done.tag, done.result, done.more)));
        }
        seen.sort_by_key(|(tag, ..)| *tag);
        assert_eq!(seen, [(7, Err(Errno::CANCELED), false), (8, Ok(0), false)]);
    }
}

//! The lookups below: which keys are being looked up, and which are known to be missing below.
//!
//! ```text
//!           begin                finish(Loaded, Failed), or the ticket is dropped
//! nothing ---------> under way ------------------------------------------------> nothing
//!    ^               |   |    \
//!    |       changed |   |     finish(Missing)
//!    |               v   |       \
//!    |        cancelled  |        +--> missing, for 2 s
//!    |               |   |                |
//!    +--- finish ----+   +- begin: joins  | changed, older than 2 s, dropped for another key
//!    +------------------------------------+
//! ```
//!
//! A lookup that is under way is joined by all requests for the same key: they share one read
//! below. A change of the key cancels it: what it loads is older than the change, so it must not be
//! installed, and that the key is missing must not be remembered. A cancelled lookup is not joined;
//! the next request begins another one, which takes over the waiters.
//!
//! **How a change and a lookup meet.** Each shard counts its lookups and missing keys. A change
//! reads only that count where it is zero:
//!
//! ```text
//! B: a thread that begins                 C: a thread that changes
//! B1 raises the count                     C1 appends the change to the log (and dirty index)
//!    fence(SeqCst)                           fence(SeqCst)
//! B2 looks for the key in log and index   C2 reads the count; not zero: locks, cancels
//! ```
//!
//! All fences have one order. If that of B is the first, C2 reads what B1 wrote, and cancels. If
//! that of C is the first, B2 finds what C1 wrote, and B uses that and nothing from below. The
//! callers keep their part of it: B2 comes after [`Lookups::begin`], and [`Lookups::changed`] after
//! C1. A missing key was a lookup before, and the count is not zero in between.
//!
//! **What is installed.** [`Lookups::changed`] and [`Lookups::admit`] are called under the lock of
//! the key's bucket, the latter right before the item is installed. Either the change came first,
//! then the item is refused; or it comes after that, then it replaces the item.
//!
//! **Bounds.** Lookups: `loading_max`, cancelled ones included, since their reads below are under
//! way. Missing keys: `missing_max`, rounded up, in sets of eight; where a set is full, its oldest
//! key is forgotten. Waiters: one number for each worker. A lookup ends with its [`Ticket`], also
//! when that is dropped: its waiters are then in [`Lookups::take_abandoned`].
//!
//! Nothing here reads a clock, does I/O or calls the engine. No two locks of this room are held
//! together.
//!
//! | file | what it is |
//! |---|---|
//! | `waiters` | numbers of workers |
//! | `loading` | the lookups of one shard |
//! | `missing` | the missing keys of one shard |
//! | `shared` | all shards, their locks and counts |
//! | `ticket` | the right to end a lookup |
//! | `table` | what callers use |

mod loading;
mod missing;
mod shared;
mod table;
mod ticket;
mod waiters;

pub use missing::MISSING_NS;
pub use shared::{Finished, Outcome};
pub use table::{Begun, Lookups};
pub use ticket::Ticket;
pub use waiters::Waiters;

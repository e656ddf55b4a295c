//! A whole ring of cells in one thread of one process, in simulated time, from one seed.
//!
//! The cells are the real ones: `session`, `service`, `engine`, `effects`, `ring` and the frames
//! of `peer`. What is around them is a model: the driver that moves bytes, the network, the
//! clocks, the coordinator, the threads of a cell. A scheduler chooses what happens next, and a
//! seed decides all its choices: the same seed gives the same run, step by step.
//!
//! ```text
//! clients --bytes--> driver --> RingService --> engine, logs       workers, one keeper and one
//!                      ^  links to other cells       |             member for each cell
//!                      +--------- bytes -------------+
//! member --heartbeats--> member      member --commands--> coordinator --maps--> member, keeper
//! ```
//!
//! Cells have one to three workers and lanes, all of which or only the first have links. Runs last
//! for some seconds, or for minutes: then clients ask less often about more keys, so that their
//! histories can be checked.
//!
//! A ring may be above a tier: then each cell has a journal on a simulated disk, and all share a
//! bucket, in which keys lie in pages. What was written to a disk outlives the process, and what
//! was synced the power. Machines stop in the middle of calls, disks are lost, the bucket is away,
//! fails, and is late. No range may be lost then, unless all disks of its copies were: in one run
//! of five any disks are lost, and an operator forgives the ranges that wait. In the end all is
//! written back, and the bucket has what was stored last. Left out are: power cuts at `os`, where a
//! machine that goes off keeps what its disk was given; wrong clocks, since journals keep the time;
//! outages that fill a journal; and what comes between two calls of one step of the flusher.
//!
//! Rings of many cells are simulated too, without faults: what divisions take that come together,
//! and what cells send each other while nothing goes on.
//!
//! Not modelled: what two threads do to each other inside a step; the agreement of the coordinator
//! itself; memory that is short; cells that join. Not checked: what is made again after a
//! loss, see `history`; what keys of forgiven ranges have; the order of answers that wait for no
//! copy; over minutes, when items expire by clocks that jump.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `dice` | nothing | random choices |
//! | `trace` | nothing | what a run has done |
//! | `clock` | nothing | the clock of a cell |
//! | `scene` | `dice`, `trace` | true time, and what happens when |
//! | `history` | nothing | what clients have asked and were answered |
//! | `linear` | `history` | whether one order explains a history |
//! | `net` | `scene` | connections, and what cannot pass |
//! | `socket` | `scene` | one connection of a worker |
//! | `driver` | `scene`, `socket` | the connections and the handler of one worker |
//! | `outside` | nothing | what the threads of a process leave for each other |
//! | `cell` | `dice`, `outside` | a cell of the product, as it is built here |
//! | `below` | `dice` | what lies below a cell: a disk, and the bucket of all |
//! | `threads` | `scene` | the threads of a tier, step by step |
//! | `worker` | `clock`, `dice`, `driver`, `outside`, `scene` | a worker as a thread, step by step |
//! | `process` | `cell`, `clock`, `driver`, `below`, `outside`, `scene`, `threads`, `worker` | the process of a cell |
//! | `coordinator` | `history`, `scene` | the one map, its commands, and who hears of them when |
//! | `client` | `dice`, `history`, `net`, `scene` | what clients do |
//! | `machine` | `below`, `cell`, `clock`, `process`, `threads` | what of a cell outlives its processes |
//! | `cells` | `below`, `cell`, `client`, `clock`, `coordinator`, `driver`, `history`, `machine`, `net`, `process`, `scene`, `threads` | all cells, and what they send each other |
//! | `losing` | `cells`, `machine`, `scene` | what happens to what lies below the cells |
//! | `checks` | `cells`, `scene` | what must be true of all cells |
//! | `faults` | `cells`, `coordinator`, `losing`, `machine`, `scene` | what goes wrong, and when |
//! | `interrupted` | `dice`, `faults`, `scene` | which steps of operations were under way when faults came |
//! | `operator` | `cells`, `coordinator`, `dice`, `scene` | who has ranges handed over, and cells leave |
//! | `ordinary` | `cells`, `client`, `history`, `scene` | what happens in each run in one way |
//! | `many` | `cell`, `cells`, `checks`, `client`, `clock`, `coordinator`, `dice`, `history`, `machine`, `net`, `ordinary`, `scene`, `trace` | rings of many cells without faults |
//! | `world` | `cell`, `cells`, `checks`, `client`, `clock`, `coordinator`, `dice`, `faults`, `below`, `history`, `interrupted`, `linear`, `losing`, `machine`, `net`, `operator`, `ordinary`, `process`, `scene`, `trace` | one run, and what must be true of it |
#![forbid(unsafe_code)]

mod below;
mod cell;
mod cells;
mod checks;
mod client;
mod clock;
mod coordinator;
mod dice;
mod driver;
mod faults;
mod history;
mod interrupted;
mod linear;
mod losing;
mod machine;
mod many;
mod net;
mod operator;
mod ordinary;
mod outside;
mod process;
mod scene;
mod socket;
mod threads;
mod trace;
mod worker;
mod world;

pub use faults::{BELOW, KINDS, Kind};
pub use interrupted::{Interrupted, STEPS, Step};
pub use many::{Divided, Divisions, Many, Steady, divisions, steady};
pub use world::{Report, Wanted, run};

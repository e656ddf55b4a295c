//! The map of a ring of many cells: its bytes as cells send and keep it, and how long it takes to
//! find who leads a slice.
//!
//! `cargo bench -p service --bench map -- CELLS` prints JSON. Each cell leads a range with one
//! copy. Cells have addresses and numbers as long as those of a real ring. The slice of a request
//! is looked up in the routes that a cell makes of the map, by the function that requests use.
//!
//! `apart_ns`: lookups of random slices that do not depend on each other, as those of many requests
//! are. `chained_ns`: each slice depends on the answer before it, so that no two overlap in the
//! processor. Each number is one timed run, in nanoseconds of one lookup. Everything that a lookup
//! touches is in the caches of the processor.

use base::{SLICES, SliceId};
use measure::rng::Rng;
use ring::{Addresses, Below, CellId, Command, Incarnation, Map, Started};
use serde_json::json;
use service::RoutesOfMap;
use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Instant;

/// Cells, if the command does not say.
const CELLS: u32 = 1000;
const RUNS: usize = 15;
/// Lookups of one run.
const LOOKUPS: usize = 1 << 20;
/// Random slices, which a run goes through again and again.
const DRAWN: usize = 1 << 14;
/// The cell that looks up.
const ME: CellId = CellId(1);

fn started(cell: u32) -> Started {
    let [_, high, middle, low] = (cell * 251).to_be_bytes();
    let at = |port: u16| SocketAddr::from(([10, 100 + high, middle, low], port));
    let addresses = Addresses { control: at(11_411), links: at(11_311), clients: at(11_211) };
    Started { below: Some(Below::default()), ..Started::new(Incarnation(12), addresses) }
}

fn map_of(cells: u32, rng: &mut Rng) -> Map {
    let mut map = Map::new(rng.next_u64(), cells, 2);
    for cell in 1..=cells {
        map.apply(&Command::Join { token: rng.next_u64(), started: started(cell) });
    }
    assert_eq!(map.fault(), None);
    let has_one_copy = |range: &ring::Range| range.copies.len() == 1;
    assert!(map.ranges.len() == cells as usize && map.ranges.iter().all(has_one_copy));
    map
}

/// Nanoseconds of one lookup, by run.
fn timed(mut look_up_all: impl FnMut() -> u64) -> Vec<f64> {
    let mut run = || {
        let since = Instant::now();
        black_box(look_up_all());
        since.elapsed().as_nanos() as f64 / LOOKUPS as f64
    };
    // The first one fills the caches.
    run();
    (0..RUNS).map(|_| run()).collect()
}

fn main() {
    let cells = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(CELLS);
    let mut rng = Rng::new(0, 0);
    let map = map_of(cells, &mut rng);
    let bytes = serde_json::to_vec(&map).expect("a map is JSON").len();
    let routes = RoutesOfMap::new(&map, ME);
    let mut draw = || SliceId::new(rng.below(SLICES as u64) as usize).expect("below the end");
    let slices: Vec<SliceId> = (0..DRAWN).map(|_| draw()).collect();
    let leader = |slice: SliceId| u64::from(routes.leader(slice).map_or(0, |cell| cell.0));
    let apart_ns = timed(|| {
        let all = || black_box(&slices).iter().fold(0, |sum, slice| sum ^ leader(*slice));
        (0..LOOKUPS / DRAWN).fold(0, |sum, _| sum ^ all())
    });
    let chained_ns = timed(|| {
        let mut last = 0;
        for at in 0..LOOKUPS {
            // The number of a cell is below 2^20: nothing is added, but the next lookup waits.
            last = leader(slices[at % DRAWN + (last >> 20) as usize]);
        }
        last
    });
    println!("{}", json!({ "bytes": bytes, "apart_ns": apart_ns, "chained_ns": chained_ns }));
}

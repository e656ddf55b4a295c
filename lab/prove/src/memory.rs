//! Items per MB of resident memory at the first eviction, size by size, beside memcached.
//!
//! Unique keys are stored until `stats` shows the first eviction; then the items held are divided
//! by the memory that is resident in all. The whole process counts, not only its pool: memory that
//! is not under `-m` is paid for all the same.

use anyhow::{Context, Result, bail};

use crate::{
    bench::{Lab, SERVER_CORE},
    claim::{Claim, Measured, Peer},
    compare::{Random, geometric_mean},
    memory_bound, procfs,
    server::Launch,
    wire::{Batch, Client},
};

/// Budget of the quick form, in MiB.
const MEMORY_MIB: u64 = 128;
/// Budget of the full form, in MiB.
const MEMORY_MIB_LONG: u64 = 1024;
/// Sets that go out together, at most; also how finely the first eviction is seen.
const BATCH_REQUESTS: usize = 500;
/// Bytes that go out together, at most.
const BATCH_BYTES: usize = 128 << 10;
/// Lifetimes that are drawn from when items expire: none ends while the server fills.
const TTL_S: (u32, u32) = (3600, 86_400);
/// The bar of the geometric mean.
const MEAN_MIN: f64 = 1.2;
/// The bar of every single size.
const SIZE_MIN: f64 = 1.0;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "memory.density",
        claim: "items per MB of RSS at first eviction, all sizes, with and without TTL",
        bar: ">= 1.2x (geometric mean), no size below 1.0x",
        peer: Peer::NewestMemcached,
        measure: density,
    },
    Claim {
        id: "memory.bound",
        claim: "RSS under churn, 4,000 connections and large values",
        bar: "<= -m + 16 MiB",
        peer: Peer::Nobody,
        measure: memory_bound::measure,
    },
];

/// How long the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sizes {
    Fixed(usize),
    Uniform(usize, usize),
}

const SIZES: [Sizes; 9] = [
    Sizes::Fixed(10),
    Sizes::Fixed(50),
    Sizes::Fixed(100),
    Sizes::Fixed(300),
    Sizes::Fixed(900),
    Sizes::Fixed(4096),
    Sizes::Uniform(1, 100),
    Sizes::Uniform(1, 1000),
    Sizes::Uniform(1, 4000),
];

impl Sizes {
    fn draw(self, random: &mut Random) -> usize {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Uniform(low, high) => low + random.below(high - low + 1),
        }
    }

    /// A number of items that a pool of so many bytes cannot hold, whatever the overhead.
    fn too_many(self, pool_bytes: u64) -> u64 {
        let mean = match self {
            Self::Fixed(bytes) => bytes,
            Self::Uniform(low, high) => usize::midpoint(low, high),
        };
        2 * pool_bytes / (mean as u64 + super::wire::KEY_BYTES as u64)
    }

    fn name(self) -> String {
        match self {
            Self::Fixed(bytes) => format!("{bytes} B"),
            Self::Uniform(low, high) => format!("{low} to {high} B"),
        }
    }
}

fn density(lab: &Lab) -> Result<Measured> {
    let memory_mib = if lab.long { MEMORY_MIB_LONG } else { MEMORY_MIB };
    let mut ratios = Vec::new();
    let mut details = Vec::new();
    for sizes in SIZES {
        for ttl in [false, true] {
            let name = format!("{}{}", sizes.name(), if ttl { " with TTL" } else { "" });
            let fill = |launch: Launch| -> Result<f64> {
                let peer = launch.program.name();
                lab.detail(&format!("{name}, {peer}"));
                let launch = launch.memory_mib(memory_mib).core(SERVER_CORE);
                items_per_mb(lab, &launch, sizes, ttl).with_context(|| format!("{name}, {peer}"))
            };
            let (theirs, ours) = (fill(lab.launch_memcached())?, fill(lab.launch_volvox()?)?);
            ratios.push(ours / theirs);
            let ratio = ours / theirs;
            details
                .push(format!("{name}: {ours:.0} against {theirs:.0} items per MB, {ratio:.2}x"));
        }
    }
    let (mean, least) = (geometric_mean(&ratios), ratios.iter().copied().fold(f64::MAX, f64::min));
    let text = format!("{mean:.2}x, least {least:.2}x");
    let holds = mean >= MEAN_MIN && least >= SIZE_MIN;
    Ok(Measured::new(text, mean, holds).with_details(details))
}

/// Fills a fresh server until it evicts; items per MB (a million bytes) of resident memory then.
fn items_per_mb(lab: &Lab, launch: &Launch, sizes: Sizes, ttl: bool) -> Result<f64> {
    let server = launch.start(&lab.folder())?;
    let mut client = Client::connect(server.address())?;
    let mut random = Random(7);
    let mut batch = Batch::default();
    let limit = sizes.too_many(launch.memory_mib << 20);
    let mut stored = 0;
    while client.stat("evictions")? == 0 {
        if stored > limit {
            bail!("{stored} items stored and none evicted: that cannot fit");
        }
        batch.clear();
        while batch.requests < BATCH_REQUESTS && batch.request.len() < BATCH_BYTES {
            let lifetime = TTL_S.0 + random.below((TTL_S.1 - TTL_S.0) as usize) as u32;
            let ttl_s = if ttl { lifetime } else { 0 };
            batch.set(stored, sizes.draw(&mut random), ttl_s);
            stored += 1;
        }
        client.exchange(&batch)?;
    }
    let items = client.stat("curr_items")?;
    let rss_bytes = procfs::rss_bytes(server.pid())?;
    drop(client);
    server.stop()?;
    Ok(items as f64 / (rss_bytes as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_drawn_within_their_bounds() {
        let mut random = Random(1);
        for _ in 0..1000 {
            assert!((1..=100).contains(&Sizes::Uniform(1, 100).draw(&mut random)));
            assert_eq!(Sizes::Fixed(10).draw(&mut random), 10);
        }
    }

    #[test]
    fn the_limit_lies_beyond_what_fits() {
        assert_eq!(Sizes::Fixed(80).too_many(1000), 20);
        assert_eq!(Sizes::Uniform(0, 160).too_many(1000), 20);
    }
}

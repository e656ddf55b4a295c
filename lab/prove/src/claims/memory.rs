//! Items per MB of resident memory at the first eviction, size by size, beside memcached.
//!
//! Unique keys are stored until `stats` shows the first eviction; then the items held are divided
//! by the memory that is resident in all. The whole process counts, not only its pool: memory that
//! is not under `-m` is paid for all the same.

use anyhow::{Context, Result, bail};

use crate::claim::{Claim, Measured};
use crate::instruments::{Batch, Client, Contestant, KEY_BYTES};
use crate::lab::Lab;
use measure::{account::rss_bytes, rng::Rng, stats::geometric_mean};

/// Budget, and that of the full form, in MiB.
pub(super) const MEMORY_MIB: [u64; 2] = [128, 1024];
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
pub const CLAIMS: &[Claim] = &[Claim::new(
    "memory.density",
    "items per MB of RSS at first eviction, all sizes, with and without TTL",
)
.bar(">= 1.2x (geometric mean), no size below 1.0x")
.beside_memcached()
.promised("more items per MB of resident memory than memcached")
.by(density)];

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
    fn draw(self, random: &mut Rng) -> usize {
        match self {
            Self::Fixed(bytes) => bytes,
            Self::Uniform(low, high) => low + random.below((high - low + 1) as u64) as usize,
        }
    }

    /// A number of items that a pool of `pool_bytes` cannot hold, whatever the overhead.
    fn too_many(self, pool_bytes: u64) -> u64 {
        let mean = match self {
            Self::Fixed(bytes) => bytes,
            Self::Uniform(low, high) => usize::midpoint(low, high),
        };
        2 * pool_bytes / (mean as u64 + KEY_BYTES as u64)
    }

    fn name(self) -> String {
        match self {
            Self::Fixed(bytes) => format!("{bytes} B"),
            Self::Uniform(low, high) => format!("{low} to {high} B"),
        }
    }
}

fn density(lab: &Lab) -> Result<Measured> {
    let memory_mib = lab.form(MEMORY_MIB);
    let mut ratios = Vec::new();
    let mut details = Vec::new();
    for sizes in SIZES {
        for ttl in [false, true] {
            let name = format!("{}{}", sizes.name(), if ttl { " with TTL" } else { "" });
            let fill = |contestant: Contestant| -> Result<f64> {
                let what = format!("{name}, {}", contestant.program().name());
                lab.detail(&what);
                let contestant = contestant.memory_mib(memory_mib).pinned(lab);
                items_per_mb(lab, &contestant, sizes, ttl).context(what)
            };
            let theirs = fill(Contestant::memcached(lab)?)?;
            let ours = fill(Contestant::volvox(lab)?)?;
            let ratio = ours / theirs;
            ratios.push(ratio);
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
fn items_per_mb(lab: &Lab, contestant: &Contestant, sizes: Sizes, ttl: bool) -> Result<f64> {
    let server = contestant.start(lab)?;
    let mut client = Client::connect(server.address())?;
    let mut random = Rng::new(7, 0);
    let mut batch = Batch::default();
    let limit = sizes.too_many(contestant.budget_bytes());
    let mut stored = 0;
    while client.stat("evictions")? == 0 {
        if stored > limit {
            bail!("{stored} items stored and none evicted: that cannot fit");
        }
        batch.clear();
        while batch.requests < BATCH_REQUESTS && batch.request.len() < BATCH_BYTES {
            let lifetime = TTL_S.0 + random.below(u64::from(TTL_S.1 - TTL_S.0)) as u32;
            let ttl_s = if ttl { lifetime } else { 0 };
            batch.set(stored, sizes.draw(&mut random), ttl_s);
            stored += 1;
        }
        client.exchange(&batch)?;
    }
    let items = client.stat("curr_items")?;
    let rss_bytes = rss_bytes(server.pid())?;
    drop(client);
    server.stop()?;
    Ok(items as f64 / (rss_bytes as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_drawn_within_their_bounds() {
        let mut random = Rng::new(1, 0);
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

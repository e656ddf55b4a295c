use super::*;

fn histogram(text: &str, keys: u64, draws: u32) -> Vec<u32> {
    let mut sampler = Sampler::new(text.parse().unwrap(), keys);
    let mut rng = Rng::new(11, 0);
    let mut counts = vec![0; keys as usize];
    for _ in 0..draws {
        counts[sampler.draw(&mut rng) as usize] += 1;
    }
    counts
}

#[test]
fn zipf_follows_its_law() {
    for (exponent, keys) in [(0.8, 100u64), (0.99, 1_000), (1.2, 37)] {
        let draws = 400_000;
        let mut counts = histogram(&format!("zipf:{exponent}"), keys, draws);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let total: f64 = (1..=keys).map(|rank| (rank as f64).powf(-exponent)).sum();
        for rank in [1u64, 2, 5, 10, 30] {
            let expected = f64::from(draws) * (rank as f64).powf(-exponent) / total;
            let seen = f64::from(counts[rank as usize - 1]);
            let slack = 6.0 * expected.sqrt() + 1.0;
            assert!((seen - expected).abs() < slack, "{exponent} {rank}: {seen} not {expected}");
        }
    }
}

#[test]
fn the_alias_table_holds_the_law_exactly() {
    let (keys, exponent) = (1_000u64, 1.0);
    let slots = alias_table(Scatter::new(keys), exponent);
    let mut mass = vec![0.0; keys as usize];
    for (key, slot) in slots.iter().enumerate() {
        let own = f64::from(slot.threshold) / f64::from(u32::MAX);
        mass[key] += own;
        mass[slot.other as usize] += 1.0 - own;
    }
    let total: f64 = (1..=keys).map(|rank| (rank as f64).powf(-exponent)).sum();
    let scatter = Scatter::new(keys);
    for rank in 0..keys {
        let expected = keys as f64 / (rank + 1) as f64 / total;
        let seen: f64 = mass[scatter.key(rank) as usize];
        assert!((seen - expected).abs() < 1e-6 * expected.max(1.0), "rank {rank}");
    }
}

#[test]
fn the_hot_set_takes_its_share() {
    assert_eq!("hotset".parse::<Popularity>(), "hotset:10%:90%".parse());
    let mut counts = histogram("hotset:10%:90%", 1_000, 100_000);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let hot: u32 = counts[..100].iter().sum();
    assert!((89_000..91_000).contains(&hot), "{hot}");
    assert!(counts[999] > 0, "the cold keys are asked for too");
}

#[test]
fn scattering_is_a_bijection() {
    for keys in [1, 2, 3, 10, 97, 1_000, 4_096] {
        let scatter = Scatter::new(keys);
        let mut seen: Vec<u64> = (0..keys).map(|rank| scatter.key(rank)).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..keys).collect::<Vec<_>>());
    }
}

#[test]
fn sequential_lanes_share_the_keys_out() {
    let sampler = Sampler::new(Popularity::Sequential, 10);
    let mut rng = Rng::new(0, 0);
    let mut seen = Vec::new();
    for lane in 0..3 {
        let mut sampler = sampler.lane(lane, 3);
        let share = (10 - lane).div_ceil(3);
        seen.extend((0..share).map(|_| sampler.draw(&mut rng)));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
}

#[test]
fn mistakes_are_named() {
    for (text, word) in [
        ("zipf", "zipf:S"),
        ("zipf:0", "above 0"),
        ("zipf:x", "above 0"),
        ("zipf:11", "at most 10"),
        ("hotset:10%", "hotset:K%:R%"),
        ("hotset:0%:90%", "above 0%"),
        ("hotset:10%:100%", "below 100%"),
        ("normal", "uniform"),
    ] {
        let error = text.parse::<Popularity>().unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
    assert_eq!("zipf:0.99".parse(), Ok(Popularity::Zipf(0.99)));
    assert_eq!("hotset:10%:90%".parse(), Ok(Popularity::HotSet { keys: 0.1, requests: 0.9 }));
}

#[test]
fn a_scan_walks_every_key_beside_the_law() {
    let counts = histogram("scan:50%:1.0", 1_000, 20_000);
    // Half of the requests walk ten times over every key; the law alone leaves gaps.
    assert!(counts.iter().all(|count| *count >= 9), "{counts:?}");
    assert!(counts.iter().max().unwrap() > &1_000);
}

#[test]
fn drifting_ranks_pass_to_other_keys_and_lanes_share_the_period() {
    let hottest = |sampler: &mut Sampler| {
        let mut rng = Rng::new(1, 0);
        let mut counts = vec![0; 1_000];
        (0..2_000).for_each(|_| counts[sampler.draw(&mut rng) as usize] += 1);
        (0..1_000).max_by_key(|key| counts[*key as usize]).unwrap()
    };
    for (lanes, requests, moved) in [(1, 3_000, true), (1, 1_000_000, false), (4, 12_000, true)] {
        let mut sampler =
            Sampler::new(Popularity::Drift { requests, exponent: 1.2 }, 1_000).lane(0, lanes);
        let (first, _, later) =
            (hottest(&mut sampler), hottest(&mut sampler), hottest(&mut sampler));
        assert_eq!(first != later, moved, "{lanes} lanes, {requests} requests");
    }
}

#[test]
fn the_latest_keys_are_read_most_and_sets_go_round() {
    let mut sampler = Sampler::new(Popularity::Latest(0.99), 100).lane(1, 2);
    let mut rng = Rng::new(3, 0);
    let stored: Vec<u64> = (0..50).map(|_| sampler.draw_stored(&mut rng)).collect();
    assert_eq!((stored[0], stored[1], stored[48], stored[49]), (3, 5, 99, 1));
    let mut ages = vec![0u32; 100];
    for _ in 0..10_000 {
        let key = sampler.draw(&mut rng);
        ages[((1 + 100 - key) % 100) as usize] += 1;
    }
    assert!(ages[0] > 1_500 && ages[0] > ages[1] && ages[1] > ages[10], "{ages:?}");
}

#[test]
fn mistakes_name_what_is_possible() {
    for (text, word) in [
        ("scan", "none of uniform"),
        ("scan:0%", "no share"),
        ("drift:0", "above 0"),
        ("drift:9:99", "exponent"),
        ("latest:0", "exponent"),
    ] {
        let error = text.parse::<Popularity>().unwrap_err();
        assert!(error.contains(word), "{text}: {error}");
    }
}

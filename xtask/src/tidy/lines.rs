//! Lines of production code, without comments and blank lines, by crate.
//!
//! Two sums have a ceiling: the crates of the product, and everything outside them. Tests and
//! `fuzz` do not count; benches count outside the product. Comments are free.

use std::collections::BTreeMap;

use super::{
    finding::{Finding, Rule},
    source::Source,
};

/// The crates of the product.
const PRODUCT: [&str; 15] = [
    "base", "memcache", "engine", "effects", "tier", "peer", "ring", "quorum", "session",
    "service", "pages", "backend", "control", "drivers", "volvox",
];
/// Most lines of the product. Lower it when lines go; do not raise it for what could be shorter.
/// The tier brought 9,000 of them, a ring above a bucket included, buckets 2,600, and the check of
/// all that lies below 650; what readers and users of the ring and of `volvox ctl` have found,
/// 700; hand-overs, also to who learns first, 500; divisions, unions, cells that are drained,
/// absorbed and restarted, and what operators see of that, 1,900; what readers of all that found,
/// 300; that cells are made even, 200; that ranges above a tier move, and keys there that are
/// touched all the time hold up nothing, 200; what a user of the tier found, 50;
/// the commands of CellCycle, 200; what a reading of moves above a tier found, 100; that requests
/// of one connection keep their order, 200.
const PRODUCT_MAX: usize = 66_200;
/// Most lines of everything else, likewise; 4,300 of them are the simulator of rings, 3,100 the
/// proof of rings of processes, 1,700 that of the tier, 600 that of ranges that move and cells that
/// are killed meanwhile, and 500 that of rings of many cells. It is on its way to 18,100.
const OUTSIDE_MAX: usize = 35_000;

/// The lines of each crate, and of the two groups with their ceilings.
pub struct Lines<'a> {
    crates: BTreeMap<(bool, &'a str), usize>,
}

impl<'a> Lines<'a> {
    /// Counts.
    pub fn of(sources: &'a [Source]) -> Self {
        let mut crates = BTreeMap::new();
        for source in sources {
            let bench = ["/benches/", "/examples/"].iter().any(|part| source.path.contains(part));
            let outside = bench || !PRODUCT.contains(&source.package());
            *crates.entry((outside, source.package())).or_default() += source.production_lines();
        }
        Self { crates }
    }

    /// The table that people read.
    pub fn table(&self) -> String {
        let group = |(name, outside, most): (&str, bool, usize)| {
            let lines = self.group(outside).filter(|(_, lines)| *lines > 0);
            let rows: String = lines.map(|(name, lines)| format!("{lines:>7}  {name}\n")).collect();
            format!("{rows}{:>7}  {name}, at most {most}\n\n", self.sum(outside))
        };
        GROUPS.into_iter().map(group).collect()
    }

    /// The groups above their ceilings.
    pub fn check(&self) -> Vec<Finding> {
        let above = GROUPS.into_iter().filter(|(_, outside, most)| self.sum(*outside) > *most);
        let message = |(name, outside, most)| {
            let lines = self.sum(outside);
            format!("{name}: {lines} lines of production code, at most {most}: remove code")
        };
        above.map(|it| Finding::new(Rule::Lines, "Cargo.toml", 0, message(it))).collect()
    }

    fn group(&self, outside: bool) -> impl Iterator<Item = (&str, usize)> {
        let group = self.crates.iter().filter(move |((is_outside, _), _)| *is_outside == outside);
        group.map(|((_, name), lines)| (*name, *lines))
    }

    fn sum(&self, outside: bool) -> usize {
        self.group(outside).map(|(_, lines)| lines).sum()
    }
}

/// Name, whether it is outside the product, and ceiling.
const GROUPS: [(&str, bool, usize); 2] =
    [("the product", false, PRODUCT_MAX), ("outside the product", true, OUTSIDE_MAX)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_by_group_and_held() {
        let file =
            |path: &str, lines: usize| Source::new(path, &"fn a() {}\n".repeat(lines)).unwrap();
        let cases = [
            (vec![file("crates/engine/src/a.rs", PRODUCT_MAX)], (PRODUCT_MAX, 0), 0),
            (vec![file("crates/engine/src/a.rs", PRODUCT_MAX + 1)], (PRODUCT_MAX + 1, 0), 1),
            (vec![file("crates/engine/benches/a.rs", 2)], (0, 2), 0),
            (
                vec![file("lab/load/src/a.rs", OUTSIDE_MAX), file("xtask/src/b.rs", 1)],
                (0, OUTSIDE_MAX + 1),
                1,
            ),
            (vec![file("fuzz/a.rs", 9), file("crates/base/tests/a.rs", 9)], (0, 0), 0),
        ];
        for (sources, (product, outside), above) in cases {
            let lines = Lines::of(&sources);
            assert_eq!((lines.sum(false), lines.sum(true)), (product, outside));
            assert_eq!(lines.check().len(), above, "{product} {outside}");
        }
    }

    #[test]
    fn the_table_shows_crates_and_sums() {
        let sources =
            [("crates/base/src/a.rs", "fn a() {}\n"), ("lab/load/src/a.rs", "// a\n\nfn a() {}\n")];
        let sources = sources.map(|(path, text)| Source::new(path, text).unwrap());
        let table = format!(
            "      1  base\n      1  the product, at most {PRODUCT_MAX}\n\n      \
             1  load\n      1  outside the product, at most {OUTSIDE_MAX}\n\n"
        );
        assert_eq!(Lines::of(&sources).table(), table);
    }
}

//! Workloads that have names: they replace the defaults of settings that are not written.
//!
//! ```text
//!         gets:sets    keys by        a get requests           values
//! ycsb-a  50:50        zipf:0.99      1 key                    1,000 bytes
//! ycsb-b  95:5         zipf:0.99      1 key                    1,000 bytes
//! ycsb-c  gets         zipf:0.99      1 key                    1,000 bytes
//! ycsb-d  95:5         latest:0.99    1 key                    1,000 bytes
//! ycsb-e  95:5         zipf:0.99      1 to 100 keys in order   1,000 bytes
//! ycsb-f  50:0:0:50    zipf:0.99      1 key                    1,000 bytes
//! etc     30:1         as written     1 key                    etc, keys etc-keys
//! twitter as written   as written     1 key                    twitter, keys of 38 bytes
//! ```
//!
//! YCSB: Cooper, Silberstein, Tam, Ramakrishnan, Sears, "Benchmarking Cloud Serving Systems with
//! YCSB", SoCC 2010, with its ten fields of 100 bytes as one value. A cache has no order of keys,
//! so the short scans of E are multigets of consecutive key numbers, and its inserts are sets of
//! keys by the same law; the inserts of D store the oldest key anew. F modifies half the keys it reads.
//! The sources of `etc` and `twitter` are named at [`Shape`](crate::workload::Shape).

/// A workload by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Preset {
    /// As many updates as reads.
    YcsbA,
    /// Mostly reads.
    YcsbB,
    /// Reads only.
    YcsbC,
    /// Reads of what was stored last.
    YcsbD,
    /// Short scans, as multigets of consecutive keys.
    YcsbE,
    /// Reads and read-modify-writes.
    YcsbF,
    /// Facebook's ETC pool: published sizes and its 30 gets to a set.
    Etc,
    /// Twitter's clusters: published sizes.
    Twitter,
}

/// What a preset sets; `None` leaves a setting at its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Preselected {
    pub ratio: Option<&'static str>,
    pub popularity: Option<&'static str>,
    pub multiget: Option<&'static str>,
    pub consecutive: bool,
    pub value_bytes: Option<&'static str>,
    pub key_bytes: Option<&'static str>,
}

impl Preset {
    pub(super) fn settings(self) -> Preselected {
        let none = Preselected::default();
        let ycsb = |ratio| Preselected {
            ratio: Some(ratio),
            popularity: Some("zipf:0.99"),
            value_bytes: Some("1000"),
            ..none
        };
        match self {
            Self::YcsbA => ycsb("50:50"),
            Self::YcsbB => ycsb("95:5"),
            Self::YcsbC => ycsb("1:0"),
            Self::YcsbD => Preselected { popularity: Some("latest:0.99"), ..ycsb("95:5") },
            Self::YcsbE => {
                Preselected { multiget: Some("uniform:1-100"), consecutive: true, ..ycsb("95:5") }
            }
            Self::YcsbF => ycsb("50:0:0:50"),
            Self::Etc => Preselected {
                ratio: Some("30:1"),
                value_bytes: Some("etc"),
                key_bytes: Some("etc-keys"),
                ..none
            },
            Self::Twitter => {
                Preselected { value_bytes: Some("twitter"), key_bytes: Some("38"), ..none }
            }
        }
    }
}

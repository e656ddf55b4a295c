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
//! keys by the same law; the inserts of D store the oldest key again. F modifies half the keys it
//! reads. The sources of `etc` and `twitter` are named at [`Shape`](crate::workload::Shape).

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

impl Preset {
    /// The settings that replace defaults, as written on the command line.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::YcsbA => "--ratio 50:50 --popularity zipf:0.99 --value-bytes 1000",
            Self::YcsbB => "--ratio 95:5 --popularity zipf:0.99 --value-bytes 1000",
            Self::YcsbC => "--ratio 1:0 --popularity zipf:0.99 --value-bytes 1000",
            Self::YcsbD => "--ratio 95:5 --popularity latest:0.99 --value-bytes 1000",
            Self::YcsbE => {
                "--ratio 95:5 --popularity zipf:0.99 --value-bytes 1000 --multiget uniform:1-100 \
                 --consecutive"
            }
            Self::YcsbF => "--ratio 50:0:0:50 --popularity zipf:0.99 --value-bytes 1000",
            Self::Etc => "--ratio 30:1 --value-bytes etc --key-bytes etc-keys",
            Self::Twitter => "--value-bytes twitter --key-bytes 38",
        }
    }
}

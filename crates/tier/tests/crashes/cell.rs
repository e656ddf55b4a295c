//! A cell whose process ends and begins again, and the keys that it had.

use crate::below::SimBackend;
use crate::life::{Config, Given, Life};
use crate::model::KeyModel;
use faulty::disk::SimDisk;

use base::{Facts, Now, Refused};
use std::sync::Arc;
use tier::TierError;

/// A moment.
pub const NOW: Now = Now { mono_ns: 1_000_000_000, expiry_s: 1_000_000 };

/// A cell that runs, and its keys.
pub struct Cell {
    pub disk: SimDisk,
    pub backend: Arc<SimBackend>,
    pub config: Config,
    pub keys: Vec<KeyModel>,
    pub given: Given,
    pub life: Life,
    sets: u64,
}

impl Cell {
    pub fn new(config: Config, keys: usize) -> Self {
        let disk = SimDisk::new(3);
        let backend = SimBackend::new(disk.clone());
        let keys = (0..keys).map(|key| KeyModel::new(format!("key-{key}").into_bytes())).collect();
        let given = Given::new();
        let life = begin((&disk, &backend), &config, &given).expect("an empty disk");
        Self { disk, backend, config, keys, given, life, sets: 0 }
    }

    pub fn set(&mut self, key: usize, bytes: usize) -> Result<(), Refused> {
        self.sets += 1;
        let mut value = format!("{}:", self.sets).into_bytes();
        value.resize(bytes.max(value.len()), b'v');
        let done = self.life.set(&mut self.given, &mut self.keys[key], (value, Facts::default()));
        self.life.sink.end_batch();
        self.life.tier.write();
        done
    }

    pub fn sync(&self) {
        self.life.tier.sync(NOW);
    }

    /// The process ends, when all is durable, and a new one begins.
    pub fn begin_again(&mut self) {
        self.end();
        self.life = begin((&self.disk, &self.backend), &self.config, &self.given).expect("a kill");
        self.keys.iter_mut().for_each(KeyModel::begin);
    }

    pub fn end(&mut self) {
        let passed = self.life.passed();
        for key in &mut self.keys {
            let at = passed[self.life.lanes.lane_of(key.slice).index()];
            key.kill(at, at);
        }
        self.disk.kill();
    }

    /// Begins after a crash, and finds what it had.
    pub fn begin_whole(&mut self, seed: u64) {
        self.life = begin((&self.disk, &self.backend), &self.config, &self.given)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for key in &mut self.keys {
            let found = self.life.load(key, NOW).expect("nothing fails");
            key.check(&found, NOW).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        }
    }

    #[track_caller]
    pub fn check(&mut self) {
        for key in &mut self.keys {
            let found = self.life.load(key, NOW).expect("nothing fails");
            key.check(&found, NOW).expect("as it was set");
        }
    }
}

/// Begins a life on what the disk and the backend have.
pub fn begin(
    on: (&SimDisk, &Arc<SimBackend>),
    config: &Config,
    given: &Given,
) -> Result<Life, TierError> {
    Life::begin(on, config, given, NOW)
}

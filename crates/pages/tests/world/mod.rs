//! What random lives share: faults, and objects at which something else happens meanwhile.

use measure::rng::Rng;
use pages::{Call, Created, Fault, MemoryObjects, Object, Objects};
use std::sync::{Arc, Mutex};
use tier::{BackendError, Change, Failure};

/// Of a thousand calls from now on, `per_mille` fail.
pub fn fail(objects: &MemoryObjects, rng: &mut Rng, per_mille: u64) {
    let mut rng = Rng::new(rng.next_u64(), 0);
    objects.set_faults(move |call, _| {
        if rng.below(1_000) >= per_mille {
            return None;
        }
        let is_change = matches!(call, Call::Create | Call::Delete);
        Some(match rng.below(3) {
            0 if is_change => Fault::Late,
            1 if is_change => Fault::Unanswered,
            _ => Fault::Refused(Failure::Transient),
        })
    });
}

/// A record that no other change has.
pub fn record(rng: &mut Rng, number: u64) -> Vec<u8> {
    let length = if rng.below(8) == 0 { 200 } else { 8 + rng.below(60) };
    let mut record = number.to_le_bytes().to_vec();
    record.resize(length as usize, b'.');
    record
}

pub fn change<'a>((key, record): (&'a Vec<u8>, &'a Option<Vec<u8>>)) -> Change<'a> {
    match record {
        Some(record) => Change::Put { key, record },
        None => Change::Delete { key },
    }
}

/// Seeds that are run: `PAGES_SEEDS=5000 cargo test -p pages` for more.
pub fn seeds() -> u64 {
    std::env::var("PAGES_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

/// What happens meanwhile.
type Act = Box<dyn FnOnce() + Send>;

/// Objects, at which something else happens before the first of a kind is created.
pub struct Between {
    objects: Arc<MemoryObjects>,
    prefix: &'static str,
    act: Mutex<Option<Act>>,
}

impl Between {
    /// Before an object is created whose name begins with `prefix`, after [`Between::set`].
    pub fn new(objects: &Arc<MemoryObjects>, prefix: &'static str) -> Arc<Self> {
        Arc::new(Self { objects: objects.clone(), prefix, act: Mutex::new(None) })
    }

    pub fn set(&self, act: impl FnOnce() + Send + 'static) {
        *self.act.lock().unwrap() = Some(Box::new(act));
    }
}

impl Objects for Between {
    fn name(&self) -> &str {
        self.objects.name()
    }

    fn create(&self, object: &Object) -> Result<Created, BackendError> {
        let is_of_kind = object.name.starts_with(self.prefix);
        let act = is_of_kind.then(|| self.act.lock().unwrap().take()).flatten();
        if let Some(act) = act {
            act();
        }
        self.objects.create(object)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        self.objects.get(name)
    }

    fn list(&self, prefix: &str, after: &str, max: usize) -> Result<Vec<String>, BackendError> {
        self.objects.list(prefix, after, max)
    }

    fn delete(&self, names: &[String]) -> Result<(), BackendError> {
        self.objects.delete(names)
    }
}

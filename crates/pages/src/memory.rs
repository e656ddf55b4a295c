//! Objects in memory, which fail where a test wants it, and carry out late what has failed.

use crate::objects::{Created, Object, Objects};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tier::{BackendError, Failure};

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails, and is not carried out.
    Refused(Failure),
    /// It fails with [`Failure::Unknown`], and was carried out.
    Unanswered,
    /// It fails with [`Failure::Unknown`], and is carried out by [`MemoryObjects::land`], if it
    /// creates or deletes.
    Late,
}

/// A call, as a fault is chosen for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Creates the object of this name.
    Create,
    /// Reads it.
    Get,
    /// Lists the names that begin so.
    List,
    /// Deletes the object of this name.
    Delete,
}

/// How often each call was carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Objects that were created.
    pub created: u64,
    /// Bytes of those.
    pub created_bytes: u64,
    /// Objects that were read.
    pub read: u64,
    /// Lists.
    pub listed: u64,
    /// Objects that were deleted.
    pub deleted: u64,
}

type Choose = Box<dyn FnMut(Call, &str) -> Option<Fault> + Send>;

/// Objects in memory.
#[derive(Default)]
pub struct MemoryObjects {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    late: Vec<Late>,
    choose: Option<Choose>,
    forgets: bool,
    calls: Calls,
}

enum Late {
    Create(Object),
    Delete(String),
}

impl MemoryObjects {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has a fault chosen for each call from now on.
    pub fn set_faults(&self, choose: impl FnMut(Call, &str) -> Option<Fault> + Send + 'static) {
        self.lock().choose = Some(Box::new(choose));
    }

    /// Creates objects from now on also where there is one.
    pub fn forgets_conditions(&self) {
        self.lock().forgets = true;
    }

    /// Carries out what is late, the first `count` of it. Returns how many objects that has
    /// created, and how many it has deleted.
    pub fn land(&self, count: usize) -> [u64; 2] {
        let state = &mut *self.lock();
        let count = count.min(state.late.len());
        let (mut created, mut deleted) = (0, 0);
        for late in state.late.drain(..count) {
            match late {
                Late::Create(Object { name, bytes }) => {
                    let before = state.objects.len();
                    state.objects.entry(name).or_insert(bytes);
                    created += (state.objects.len() - before) as u64;
                }
                Late::Delete(name) => deleted += u64::from(state.objects.remove(&name).is_some()),
            }
        }
        [created, deleted]
    }

    /// Names that begin with `prefix`.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let state = self.lock();
        state.objects.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    /// Changes the bytes of an object, which nothing else can.
    pub fn corrupt(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        if let Some(bytes) = self.lock().objects.get_mut(name) {
            change(bytes);
        }
    }

    /// Deletes an object that nobody has asked to delete.
    pub fn lose(&self, name: &str) {
        self.lock().objects.remove(name);
    }

    /// What was carried out.
    pub fn calls(&self) -> Calls {
        self.lock().calls
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fault(&mut self, call: Call, name: &str) -> Option<Fault> {
        self.choose.as_mut().and_then(|choose| choose(call, name))
    }

    /// The failure that `fault` is to a call about `name`, if there is one.
    fn check(fault: Option<Fault>, name: &str) -> Result<(), BackendError> {
        let (failure, what) = match fault {
            None => return Ok(()),
            Some(Fault::Refused(failure)) => (failure, "refused"),
            Some(Fault::Unanswered | Fault::Late) => (Failure::Unknown, "not answered"),
        };
        Err(BackendError { failure, what: format!("objects in memory: {name} is {what}") })
    }

    fn create(&mut self, object: &Object) -> Created {
        if self.objects.contains_key(&object.name) && !self.forgets {
            return Created::Before;
        }
        self.calls.created += 1;
        self.calls.created_bytes += object.bytes.len() as u64;
        self.objects.insert(object.name.clone(), object.bytes.clone());
        Created::Now
    }
}

impl Objects for MemoryObjects {
    fn name(&self) -> &str {
        "objects in memory"
    }

    fn create(&self, object: &Object) -> Result<Created, BackendError> {
        let state = &mut *self.lock();
        let fault = state.fault(Call::Create, &object.name);
        match fault {
            Some(Fault::Late) => state.late.push(Late::Create(object.clone())),
            Some(Fault::Unanswered) => _ = state.create(object),
            Some(Fault::Refused(_)) | None => {}
        }
        State::check(fault, &object.name)?;
        Ok(state.create(object))
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let state = &mut *self.lock();
        let fault = state.fault(Call::Get, name);
        State::check(fault, name)?;
        state.calls.read += 1;
        Ok(state.objects.get(name).cloned())
    }

    fn list(&self, prefix: &str, after: &str, max: usize) -> Result<Vec<String>, BackendError> {
        let state = &mut *self.lock();
        let fault = state.fault(Call::List, prefix);
        State::check(fault, prefix)?;
        state.calls.listed += 1;
        let names = state.objects.keys().filter(|name| name.starts_with(prefix));
        Ok(names.filter(|name| name.as_str() > after).take(max).cloned().collect())
    }

    fn delete(&self, names: &[String]) -> Result<(), BackendError> {
        let state = &mut *self.lock();
        for name in names {
            let fault = state.fault(Call::Delete, name);
            match fault {
                Some(Fault::Late) => state.late.push(Late::Delete(name.clone())),
                Some(Fault::Refused(_)) => {}
                Some(Fault::Unanswered) | None => {
                    let is_there = state.objects.remove(name).is_some();
                    state.calls.deleted += u64::from(is_there);
                }
            }
            State::check(fault, name)?;
        }
        Ok(())
    }
}

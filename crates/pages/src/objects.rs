//! What keeps objects under names: a bucket, or something that behaves like one.

use tier::BackendError;

/// Whether an object was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was, and is durable.
    Now,
    /// There was an object of that name already, which is as it was.
    Before,
}

/// A new object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name: 1 to 900 of the bytes `A-Z a-z 0-9 . _ - / %`, which neither begins nor ends with
    /// a slash, and has no two of them in a row, nor a part that is `.` or `..`.
    pub name: String,
    /// Its bytes; at least one.
    pub bytes: Vec<u8>,
}

/// Keeps objects under names. An object is created whole, and never changed.
///
/// A call that returns `Ok` is carried out: what it has created survives a power cut, and every
/// later call sees it, lists too. Any number of calls may be under way. Nothing is tried twice by
/// an implementation: a call that fails with [`tier::Failure::Unknown`] may still be carried out
/// later, and the caller knows what that means.
pub trait Objects: Send + Sync {
    /// What it is and where, for messages.
    fn name(&self) -> &str;

    /// Creates an object, if there is none of its name.
    ///
    /// # Errors
    /// When it was not created, or may have been.
    fn create(&self, object: &Object) -> Result<Created, BackendError>;

    /// Creates several, if there are none of their names; at once where that is faster. Returns
    /// which were created, in the order of `objects`.
    ///
    /// # Errors
    /// When some may not have been created. Others may have been.
    fn create_all(&self, objects: &[Object]) -> Result<Vec<Created>, BackendError> {
        objects.iter().map(|object| self.create(object)).collect()
    }

    /// The bytes of an object; `None` if there is none.
    ///
    /// # Errors
    /// When that cannot be found out.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError>;

    /// The bytes of several, in the order of `names`; at once where that is faster.
    ///
    /// # Errors
    /// As [`Objects::get`].
    fn get_all(&self, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, BackendError> {
        names.iter().map(|name| self.get(name)).collect()
    }

    /// The first names, at most `max` of them, that begin with `prefix` and come after `after`, in
    /// the order of their bytes. `after` may be empty. Fewer than `max` are all there are.
    ///
    /// # Errors
    /// When they cannot be found out.
    fn list(&self, prefix: &str, after: &str, max: usize) -> Result<Vec<String>, BackendError>;

    /// Deletes objects. Not an error where there are none.
    ///
    /// # Errors
    /// When some may not have been deleted.
    fn delete(&self, names: &[String]) -> Result<(), BackendError>;
}

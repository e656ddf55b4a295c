//! The calls, and the one thread that carries out their requests.

use super::config::{BucketConfig, REQUESTS_MAX, Service, Variables};
use super::errors::{Meaning, cause_of, meaning_of};
use super::requests::{PAGE_NAMES_MAX, Requests};
use crate::failure::error;
use crate::object::{check, check_name, is_prefix};
use opendal::raw::Operation;
use opendal::{Error, ErrorKind};
use pages::{Created, Object, Objects};
use std::env;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tier::{BackendError, Failure};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Most threads for what blocks: names of hosts, files with credentials.
const BLOCKING_THREADS_MAX: usize = 4;
/// Longest that a bucket which is dropped waits for them.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

/// Keeps objects in a bucket of S3 or GCS.
///
/// It owns a thread. A call blocks, must not be made by a task of tokio, and takes no longer than
/// the timeout of one request, times the requests that follow each other in it.
#[derive(Debug)]
pub struct Bucket {
    name: String,
    service: Service,
    requests: Requests,
    timeout: Duration,
    /// Whether a request had credentials once.
    was_signed: AtomicBool,
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
}

impl Bucket {
    /// Prepares for the calls. Sends nothing: what is wrong with the bucket is found by a call.
    ///
    /// # Errors
    /// When the configuration can never work.
    pub fn open(config: &BucketConfig) -> Result<Self, BackendError> {
        Self::open_in(config, &|name| env::var(name).ok())
    }

    /// As [`Bucket::open`], with these variables before those of the environment.
    ///
    /// # Errors
    /// As [`Bucket::open`].
    pub fn open_in(config: &BucketConfig, variables: Variables<'_>) -> Result<Self, BackendError> {
        let name = config.name();
        let operator = config.operator(variables).map_err(|cause| {
            error(&name, Failure::Permanent, format!("cannot use it: {}", cause_of(&cause)))
        })?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("bucket")
            .enable_all()
            .build()
            .map_err(|cause| {
                error(&name, Failure::Permanent, format!("cannot start its thread: {cause}"))
            })?;
        Ok(Self {
            name,
            service: config.service,
            requests: Requests::new(operator, config.service),
            timeout: config.timeout,
            was_signed: AtomicBool::new(false),
            runtime: Some(runtime),
        })
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        let runtime = self.runtime.as_ref();
        runtime.expect("invariant: it is there until the bucket is dropped").block_on(work)
    }

    /// What the caller sees of an error, in a call that does `operation` with `object`.
    fn failed(&self, operation: Operation, object: &str, cause: &Error) -> BackendError {
        let meaning = meaning_of(cause);
        let remedy = match (meaning, self.service) {
            (Meaning::NoBucket, _) => "; create the bucket, or correct its name",
            (Meaning::NoRight, _) => {
                "; give these credentials the right to list, read, create and delete objects"
            }
            (Meaning::Elsewhere, _) => "; correct the region or the endpoint",
            (Meaning::NoCredentials, Service::S3) => {
                "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
            }
            (Meaning::NoCredentials, Service::Gcs) => {
                "; set GOOGLE_APPLICATION_CREDENTIALS, or give the machine a service account"
            }
            (Meaning::Refused | Meaning::InDoubt | Meaning::Full | Meaning::Wrong, _) => "",
        };
        let doing = match operation {
            Operation::Write => format!("create {object}"),
            Operation::Delete => format!("delete {object}"),
            Operation::List => format!("list the names that begin with '{object}'"),
            _ => format!("read {object}"),
        };
        let was_signed = self.was_signed.load(Ordering::Relaxed);
        let failure = meaning.failure(operation, was_signed);
        let what = format!("cannot {doing}: {}{remedy}", cause_of(cause));
        error(&self.name, failure, what)
    }

    /// The outcome of one request.
    fn ended<T>(
        &self,
        operation: Operation,
        object: &str,
        outcome: Result<T, Error>,
    ) -> Result<T, BackendError> {
        if outcome.is_ok() {
            self.was_signed.store(true, Ordering::Relaxed);
        }
        outcome.map_err(|cause| self.failed(operation, object, &cause))
    }

    /// Makes one request for each name, several at once. After one has failed no other begins, and
    /// those under way end. Of the errors, one that leaves something in doubt is returned.
    fn each<T, F>(
        &self,
        operation: Operation,
        names: &[&str],
        request: impl Fn(usize) -> F,
    ) -> Result<Vec<Option<T>>, BackendError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let mut ends: Vec<Option<T>> = names.iter().map(|_| None).collect();
        let mut failed: Option<BackendError> = None;
        let mut waiting = 0..names.len();
        self.wait(async {
            let mut under_way = JoinSet::new();
            loop {
                while failed.is_none() && under_way.len() < REQUESTS_MAX {
                    let Some(index) = waiting.next() else { break };
                    let request = request(index);
                    under_way.spawn(async move { (index, request.await) });
                }
                let Some(joined) = under_way.join_next().await else { break };
                // A task is never aborted, so it panicked.
                let (index, outcome) = joined.unwrap_or_else(|panic| {
                    (0, Err(Error::new(ErrorKind::Unexpected, panic.to_string())))
                });
                match self.ended(operation, names[index], outcome) {
                    Ok(end) => ends[index] = Some(end),
                    Err(error) if error.failure == Failure::Unknown => failed = Some(error),
                    Err(error) => failed = failed.take().or(Some(error)),
                }
            }
        });
        failed.map_or(Ok(ends), Err)
    }
}

impl Objects for Bucket {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, object: &Object) -> Result<Created, BackendError> {
        check(&self.name, object)?;
        let created = self.wait(self.requests.create(object));
        self.ended(Operation::Write, &object.name, created)
    }

    fn create_all(&self, objects: &[Object]) -> Result<Vec<Created>, BackendError> {
        objects.iter().try_for_each(|object| check(&self.name, object))?;
        let names: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
        let created =
            self.each(Operation::Write, &names, |index| self.requests.create(&objects[index]))?;
        Ok(created.into_iter().map(|it| it.expect("invariant: none has failed")).collect())
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        check_name(&self.name, name)?;
        let got = self.wait(self.requests.get(name));
        self.ended(Operation::Read, name, got)
    }

    fn get_all(&self, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, BackendError> {
        names.iter().try_for_each(|name| check_name(&self.name, name))?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let got = self.each(Operation::Read, &names, |index| self.requests.get(names[index]))?;
        Ok(got.into_iter().map(Option::flatten).collect())
    }

    fn list(&self, prefix: &str, after: &str, max: usize) -> Result<Vec<String>, BackendError> {
        if max == 0 || !is_prefix(prefix) {
            return Ok(Vec::new());
        }
        // One page more than the names fill, because the last may be empty.
        let pages = u32::try_from(max.div_ceil(PAGE_NAMES_MAX) + 1).unwrap_or(u32::MAX);
        let longest = self.timeout.saturating_mul(pages);
        let late = |_| Err(Error::new(ErrorKind::Unexpected, "timeout reached"));
        let listing = self.requests.list(prefix, after, max);
        let listed = self.wait(async { timeout(longest, listing).await.unwrap_or_else(late) });
        self.ended(Operation::List, prefix, listed)
    }

    fn delete(&self, names: &[String]) -> Result<(), BackendError> {
        names.iter().try_for_each(|name| check_name(&self.name, name))?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.each(Operation::Delete, &names, |index| self.requests.delete(names[index])).map(drop)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(SHUTDOWN_MAX);
        }
    }
}

//! The requests of one object, and those of a list.

use super::config::Service;
use crate::object::is_name;
use futures_core::Stream;
use opendal::options::{ListOptions, WriteOptions};
use opendal::{Error, ErrorKind, Operator, Result};
use pages::{Created, Object};
use std::future::{Future, poll_fn};
use std::pin::Pin;

/// Most names that are asked for in one request: the services return no more.
pub const PAGE_NAMES_MAX: usize = 1000;

/// Makes requests. What it returns for one object borrows nothing: another thread may await it.
#[derive(Debug)]
pub struct Requests {
    operator: Operator,
    service: Service,
}

impl Requests {
    /// Makes them by `operator`.
    pub fn new(operator: Operator, service: Service) -> Self {
        Self { operator, service }
    }

    /// Creates an object by one request.
    pub fn create(&self, object: &Object) -> impl Future<Output = Result<Created>> + 'static {
        let options = WriteOptions {
            // The condition of GCS is added by `wire`.
            if_not_exists: self.service == Service::S3,
            // With a type, a write to GCS has the form that `wire` looks for.
            content_type: Some("application/octet-stream".to_owned()),
            ..WriteOptions::default()
        };
        let operator = self.operator.clone();
        let Object { name, bytes } = object.clone();
        async move {
            match operator.write_options(&name, bytes, options).await {
                Ok(_) => Ok(Created::Now),
                Err(error) if error.kind() == ErrorKind::ConditionNotMatch => Ok(Created::Before),
                Err(error) => Err(error),
            }
        }
    }

    /// Reads an object.
    pub fn get(&self, name: &str) -> impl Future<Output = Result<Option<Vec<u8>>>> + 'static {
        let (operator, name) = (self.operator.clone(), name.to_owned());
        async move {
            match operator.read(&name).await {
                Ok(bytes) => Ok(Some(bytes.to_vec())),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        }
    }

    /// Deletes an object.
    pub fn delete(&self, name: &str) -> impl Future<Output = Result<()>> + 'static {
        let (operator, name) = (self.operator.clone(), name.to_owned());
        async move {
            match operator.delete(&name).await {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                deleted => deleted,
            }
        }
    }

    /// Lists names, by as many requests as they fill.
    pub async fn list(&self, prefix: &str, after: &str, max: usize) -> Result<Vec<String>> {
        let options = ListOptions {
            recursive: true,
            limit: Some(max.min(PAGE_NAMES_MAX)),
            // What is no name is compared below.
            start_after: is_name(after).then(|| after.to_owned()),
            ..ListOptions::default()
        };
        let mut lister = self.operator.lister_options(prefix, options).await?;
        let mut names: Vec<String> = Vec::new();
        while names.len() < max
            && let Some(entry) = poll_fn(|context| Pin::new(&mut lister).poll_next(context)).await
        {
            let name = entry?.path().to_owned();
            if !name.starts_with(prefix) || name.as_str() <= after || !is_name(&name) {
                continue;
            }
            if names.last().is_some_and(|last| *last >= name) {
                let what = format!("the service lists {name} out of order");
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            names.push(name);
        }
        Ok(names)
    }
}

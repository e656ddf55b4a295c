//! A bucket of S3 or GCS, by OpenDAL.
//!
//! ```text
//! caller -> objects -> requests -> OpenDAL -> wire -> the service
//! ```
//!
//! Invariants: an object is created by one request that carries its condition, or not at all:
//! [`wire`] sends no other write. No request is sent twice. Each has a deadline, and at most
//! [`REQUESTS_MAX`] of one call are under way. An answer has at most as many bytes as an object.
//!
//! OpenDAL 0.59 creates an object of GCS by a session of two requests, and some servers forget the
//! condition of a session. So here the objects of GCS are written by one plain request, to which
//! `wire` adds the condition.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `objects` | `config`, `errors`, `requests` | the calls |
//! | `requests` | `config` | the requests of one object, and those of a list |
//! | `config` | `wire` | which bucket it is, and how it is reached |
//! | `errors` | `wire` | which failure an error is, and what a message says of it |
//! | `wire` | nothing | what sends requests, and what it refuses to send |

mod config;
mod errors;
mod objects;
mod requests;
mod wire;

pub use config::{BucketConfig, REQUESTS_MAX, Service};
pub use objects::Bucket;

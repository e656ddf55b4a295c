//! Opens what keeps what a tier writes back.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use backend::{Directory, DirectoryObjects, FilesBackend, RedbBackend};
use pages::{Objects, Pages, PagesConfig};
use tier::Backend;

use crate::config::{Database, TierSettings};

/// The file of redb, and the directory of files, in that of the tier.
const REDB: &str = "keys.redb";
const FILES: &str = "keys";

/// What is on its way below at once, and what lookups hold.
const FLIGHT_BYTES: u64 = 6 << 20;

/// Pages that are read, merged and written at once, and those that lookups read.
const PAGES_IN_FLIGHT: u64 = 36;

/// The longest items that are at once in a request to a bucket, in a change and in lookups.
const ITEMS_IN_FLIGHT: u64 = 11;

/// What is on its way at once, in bytes.
pub(super) fn flight_bytes(settings: &TierSettings, item_bytes_max: u64) -> u64 {
    match settings.database.has_pages() {
        true => {
            let pages = settings.page_bytes * PAGES_IN_FLIGHT;
            FLIGHT_BYTES + pages + item_bytes_max * ITEMS_IN_FLIGHT
        }
        false => FLIGHT_BYTES,
    }
}

/// Opens it, to be written by this process alone.
///
/// # Errors
/// When it cannot be used, or is not built in.
pub(super) fn open(
    settings: &TierSettings,
    (directory, path): (&Directory, &Path),
    cache_bytes: u64,
) -> Result<Arc<dyn Backend>, Box<dyn Error>> {
    let objects: Arc<dyn Objects> = match &settings.database {
        Database::Redb => {
            return Ok(Arc::new(RedbBackend::open(directory, REDB, cache_bytes as usize)?));
        }
        Database::Files => return Ok(Arc::new(FilesBackend::open(&path.join(FILES))?)),
        Database::Directory(path) => Arc::new(DirectoryObjects::open(path)?),
        Database::S3(_) | Database::Gcs(_) => bucket(settings)?,
    };
    let config = PagesConfig {
        page_bytes: settings.page_bytes as usize,
        apart_from: settings.apart_from as usize,
        cache_bytes: cache_bytes as usize,
    };
    Ok(Arc::new(Pages::open(objects, config)?))
}

#[cfg(any(feature = "s3", feature = "gcs"))]
fn bucket(settings: &TierSettings) -> Result<Arc<dyn Objects>, Box<dyn Error>> {
    use backend::{Bucket, BucketConfig, Service};
    use std::time::Duration;

    let (service, place) = match &settings.database {
        Database::S3(place) => (Service::S3, place),
        Database::Gcs(place) => (Service::Gcs, place),
        other => unreachable!("{other} is no bucket"),
    };
    let config = BucketConfig {
        service,
        bucket: place.bucket.clone(),
        root: place.root.clone(),
        endpoint: settings.bucket_endpoint.clone(),
        region: settings.bucket_region.clone(),
        timeout: Duration::from_secs(settings.bucket_timeout_s),
    };
    Ok(Arc::new(Bucket::open(&config)?))
}

#[cfg(not(any(feature = "s3", feature = "gcs")))]
fn bucket(settings: &TierSettings) -> Result<Arc<dyn Objects>, Box<dyn Error>> {
    let database = &settings.database;
    Err(format!(
        "tier.database {database}: this binary has no buckets; build it with --features s3,gcs, or \
         choose redb, files or file:DIRECTORY"
    )
    .into())
}

//! Which bucket it is, and how it is reached.

use super::wire::Wire;
use crate::object::{OBJECT_BYTES_MAX, is_byte_of_name, is_name};
use opendal::layers::TimeoutLayer;
use opendal::{Error, ErrorKind, HttpTransporter, OperationContext, Operator};
use std::time::Duration;

/// Most requests of one call that are under way.
pub const REQUESTS_MAX: usize = 16;
/// Most bytes of the prefix of all names: S3 and GCS have at most 1,024 bytes for both.
const ROOT_BYTES_MAX: usize = 100;
/// Longest a connection without requests is kept. A service closes one that is kept longer, and a
/// request on it at that moment is in doubt.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// Whose bucket it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Amazon S3, or what speaks its protocol and honours `If-None-Match: *` where objects are put.
    S3,
    /// Google Cloud Storage.
    Gcs,
}

/// A bucket, and how it is reached.
///
/// Credentials are looked for in the environment, where the tools of the services look for them.
/// S3: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, then the files of
/// `~/.aws`, a web identity, the container's, the instance's. GCS: the file that
/// `GOOGLE_APPLICATION_CREDENTIALS` names, then that of `gcloud auth application-default login`,
/// the instance's. Where `STORAGE_EMULATOR_HOST` is set, requests to GCS are not signed, as with
/// the libraries of Google. An emulator of S3 is given any key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketConfig {
    /// Whose it is.
    pub service: Service,
    /// Its name.
    pub bucket: String,
    /// What precedes all names in it, without the slash that follows. May be empty.
    pub root: String,
    /// The address of the service, with `http://` or `https://`. If it is `None`: for S3 that in
    /// `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, for GCS that in `STORAGE_EMULATOR_HOST`, else
    /// the service's own.
    pub endpoint: Option<String>,
    /// The region of S3. If it is `None`, that in `AWS_REGION` or `AWS_DEFAULT_REGION`.
    pub region: Option<String>,
    /// Longest that a request may take, credentials included. Half of it for a connection.
    pub timeout: Duration,
}

/// Looks up a variable of the environment.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl BucketConfig {
    /// What it is called in messages.
    pub(super) fn name(&self) -> String {
        let scheme = match self.service {
            Service::S3 => "s3",
            Service::Gcs => "gs",
        };
        let slash = if self.root.is_empty() { "" } else { "/" };
        format!("{scheme}://{}{slash}{}", self.bucket, self.root)
    }

    /// What carries out its calls.
    pub(super) fn operator(&self, variables: Variables<'_>) -> Result<Operator, Error> {
        let endpoint = self.endpoint(variables);
        self.check(endpoint.as_deref())
            .map_err(|what| Error::new(ErrorKind::ConfigInvalid, what))?;
        let timeouts = TimeoutLayer::new().with_timeout(self.timeout).with_io_timeout(self.timeout);
        let wire = Wire::new(self.client(endpoint.as_deref())?, OBJECT_BYTES_MAX);
        let context = OperationContext::new().with_http_transport(HttpTransporter::new(wire));
        let operator = match self.service {
            Service::S3 => self.s3(endpoint.as_deref(), variables)?,
            Service::Gcs => self.gcs(endpoint.as_deref(), variables)?,
        };
        Ok(operator.with_context(context).layer(timeouts))
    }

    /// What is wrong with it, and the remedy.
    fn check(&self, endpoint: Option<&str>) -> Result<(), String> {
        let Self { bucket, root, .. } = self;
        if bucket.is_empty() || bucket.contains('/') || !bucket.bytes().all(is_byte_of_name) {
            return Err(format!("{bucket:?} cannot be the name of a bucket: correct it"));
        }
        if !root.is_empty() && (!is_name(root) || root.len() > ROOT_BYTES_MAX) {
            return Err(format!(
                "its root {root:?} must be the beginning of a name, of at most {ROOT_BYTES_MAX} \
                 bytes, without a slash at its end"
            ));
        }
        let is_address = |it: &str| it.starts_with("http://") || it.starts_with("https://");
        match endpoint.filter(|endpoint| !is_address(endpoint)) {
            Some(wrong) => {
                Err(format!("its endpoint {wrong:?} must begin with http:// or https://"))
            }
            None => Ok(()),
        }
    }

    fn endpoint(&self, variables: Variables<'_>) -> Option<String> {
        let found = self.endpoint.clone().or_else(|| match self.service {
            Service::S3 => {
                variables("AWS_ENDPOINT_URL_S3").or_else(|| variables("AWS_ENDPOINT_URL"))
            }
            Service::Gcs => emulator(variables),
        });
        found.map(|endpoint| endpoint.trim_end_matches('/').to_owned())
    }

    /// What sends requests: by connections of its own, without following an answer elsewhere.
    fn client(&self, endpoint: Option<&str>) -> Result<reqwest::Client, Error> {
        let client = reqwest::Client::builder()
            .timeout(self.timeout)
            .connect_timeout(self.timeout / 2)
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(REQUESTS_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        let client = if endpoint.is_some_and(is_loopback) { client.no_proxy() } else { client };
        client.build().map_err(|error| {
            Error::new(ErrorKind::ConfigInvalid, "no client of HTTP").set_source(error)
        })
    }

    #[cfg(feature = "s3")]
    fn s3(&self, endpoint: Option<&str>, variables: Variables<'_>) -> Result<Operator, Error> {
        let region = self.region.clone().or_else(|| variables("AWS_REGION"));
        let Some(region) = region.or_else(|| variables("AWS_DEFAULT_REGION")) else {
            let what = "it has no region: set tier.bucket_region, or AWS_REGION";
            return Err(Error::new(ErrorKind::ConfigInvalid, what));
        };
        let mut s3 = opendal::services::S3::default().bucket(&self.bucket).root(&self.root);
        s3 = s3.region(&region);
        if let Some(endpoint) = endpoint {
            s3 = s3.endpoint(endpoint);
        }
        let key = (variables("AWS_ACCESS_KEY_ID"), variables("AWS_SECRET_ACCESS_KEY"));
        if let (Some(id), Some(secret)) = key {
            s3 = s3.access_key_id(&id).secret_access_key(&secret);
            if let Some(token) = variables("AWS_SESSION_TOKEN") {
                s3 = s3.session_token(&token);
            }
        }
        Operator::new(s3)
    }

    #[cfg(not(feature = "s3"))]
    fn s3(&self, _: Option<&str>, _: Variables<'_>) -> Result<Operator, Error> {
        Err(Error::new(ErrorKind::Unsupported, "S3 is not built in: build with the feature s3"))
    }

    #[cfg(feature = "gcs")]
    fn gcs(&self, endpoint: Option<&str>, variables: Variables<'_>) -> Result<Operator, Error> {
        let mut gcs = opendal::services::Gcs::default().bucket(&self.bucket).root(&self.root);
        if let Some(endpoint) = endpoint {
            gcs = gcs.endpoint(endpoint);
        }
        if emulator(variables).is_some() {
            gcs = gcs.skip_signature();
        }
        Operator::new(gcs)
    }

    #[cfg(not(feature = "gcs"))]
    fn gcs(&self, _: Option<&str>, _: Variables<'_>) -> Result<Operator, Error> {
        Err(Error::new(ErrorKind::Unsupported, "GCS is not built in: build with the feature gcs"))
    }
}

/// The address of an emulator of GCS; `http://` may be left out.
fn emulator(variables: Variables<'_>) -> Option<String> {
    let host = variables("STORAGE_EMULATOR_HOST").filter(|host| !host.is_empty())?;
    Some(if host.contains("://") { host } else { format!("http://{host}") })
}

/// Whether an address is on this machine: what is there is not reached through a proxy.
fn is_loopback(endpoint: &str) -> bool {
    let host = endpoint.split_once("://").map_or(endpoint, |(_, host)| host);
    ["127.", "localhost", "[::1]"].iter().any(|begin| host.starts_with(begin))
}

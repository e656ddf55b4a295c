//! What sends requests: reqwest, with a guard before it and a limit after it.
//!
//! A write without the condition that no object has its name is not sent. An answer that refuses a
//! request becomes an error with its status, which the errors of OpenDAL do not tell.

use futures_core::Stream;
use http::{HeaderMap, Method, Request, Response, Uri, header};
use opendal::raw::Operation;
use opendal::raw::oio::ReadStream;
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, Result};
use opendal_http_transport_reqwest::ReqwestTransport;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Most bytes of the answer to a refused request that are read: what it says is for a message.
const REFUSAL_BYTES_MAX: usize = 4096;

/// The condition of S3 under which an object is created.
const S3_CREATE_ONLY: &str = "*";
/// That of GCS, and what a plain upload has in its query.
const GCS_CREATE_ONLY: &str = "ifGenerationMatch=0";
const GCS_UPLOAD: &str = "uploadType=multipart";

/// What is said of a request that is no read, list, delete or create.
const NOT_SENT: &str = "the request was not sent, because it could replace an object";

/// Sends requests.
pub struct Wire {
    transport: ReqwestTransport,
    /// Most bytes of an answer.
    bytes_max: usize,
}

/// The service refused a request.
#[derive(Debug)]
pub struct Refused {
    /// What it was to do.
    pub operation: Operation,
    /// The status of HTTP.
    pub status: u16,
    /// The beginning of what the service says.
    pub body: String,
}

impl Wire {
    /// Sends requests by `client`, and reads at most `bytes_max` of an answer.
    pub fn new(client: reqwest::Client, bytes_max: usize) -> Self {
        Self { transport: ReqwestTransport::new(client), bytes_max }
    }
}

impl HttpTransport for Wire {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let Some(operation) = request.extensions().get::<Operation>().copied() else {
            // It is for credentials, and has nothing to do with objects.
            return self.transport.fetch(request).await;
        };
        let request = guarded(operation, request)?;
        let (head, body) = self.transport.fetch(request).await?.into_parts();
        if head.status.is_success() {
            let left = self.bytes_max;
            let body = body.map_inner(|inner| Box::new(Limited { inner, left }));
            return Ok(Response::from_parts(head, body));
        }
        let body = beginning(body).await;
        Err(refusal(Refused { operation, status: head.status.as_u16(), body }))
    }
}

/// The request as it is sent: a write with the condition that there is no object of its name.
fn guarded(operation: Operation, request: Request<Buffer>) -> Result<Request<Buffer>> {
    match operation {
        Operation::Read | Operation::List | Operation::Delete => return Ok(request),
        Operation::Write => {}
        _ => return Err(Error::new(ErrorKind::Unsupported, NOT_SENT)),
    }
    let (mut head, body) = request.into_parts();
    head.uri = conditional(&head.method, head.uri, &head.headers)?;
    Ok(Request::from_parts(head, body))
}

/// The address of a write, with its condition if that does not stand among the headers.
fn conditional(method: &Method, uri: Uri, headers: &HeaderMap) -> Result<Uri> {
    let query = uri.query().unwrap_or_default();
    let has = |pair: &str| query.split('&').any(|found| found == pair);
    let condition = headers.get(header::IF_NONE_MATCH);
    if method == Method::PUT && condition.is_some_and(|found| found == S3_CREATE_ONLY) {
        return Ok(uri);
    }
    if method == Method::POST && has(GCS_UPLOAD) {
        if has(GCS_CREATE_ONLY) {
            return Ok(uri);
        }
        let wrong = |error| Error::new(ErrorKind::Unsupported, "bad address").set_source(error);
        return format!("{uri}&{GCS_CREATE_ONLY}").parse().map_err(wrong);
    }
    Err(Error::new(ErrorKind::Unsupported, NOT_SENT))
}

/// What the service says, as far as a message can have it.
async fn beginning(mut body: HttpBody) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < REFUSAL_BYTES_MAX {
        match body.read().await {
            Ok(more) if !more.is_empty() => bytes.extend(more.to_vec()),
            // The status says enough.
            _ => break,
        }
    }
    bytes.truncate(REFUSAL_BYTES_MAX);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The error of a refusal.
pub fn refusal(refused: Refused) -> Error {
    let kind = match refused.status {
        404 if !refused.is_no_bucket() => ErrorKind::NotFound,
        412 if refused.operation == Operation::Write => ErrorKind::ConditionNotMatch,
        _ => ErrorKind::Unexpected,
    };
    Error::new(kind, "the service refused").set_source(refused)
}

impl Refused {
    /// Whether there is no bucket. Where an object is read or deleted the service must say so.
    pub fn is_no_bucket(&self) -> bool {
        let is_about_object = matches!(self.operation, Operation::Read | Operation::Delete);
        let says_so = ["NoSuchBucket", "bucket does not exist"];
        self.status == 404
            && (!is_about_object || says_so.iter().any(|text| self.body.contains(text)))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {}", self.status)?;
        let between = |from: &str, to: &str| {
            let (_, after) = self.body.split_once(from)?;
            after.split_once(to).map(|(text, _)| text)
        };
        if let Some(code) = between("<Code>", "</Code>") {
            write!(f, " {code}")?;
        }
        let message = between("<Message>", "</Message>")
            .or_else(|| between("\"message\":\"", "\""))
            .or_else(|| between("\"message\": \"", "\""));
        let is_xml = self.body.starts_with('<');
        let message = message.unwrap_or(if is_xml { "" } else { &self.body }).trim();
        if message.is_empty() { Ok(()) } else { write!(f, ": {message}") }
    }
}

impl std::error::Error for Refused {}

type Body = Box<dyn Stream<Item = Result<Buffer>> + Send + Sync + Unpin + 'static>;

/// A body that ends in an error where it is too long.
struct Limited {
    inner: Body,
    left: usize,
}

impl Stream for Limited {
    type Item = Result<Buffer>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = Pin::new(&mut self.inner).poll_next(context);
        let Poll::Ready(Some(Ok(bytes))) = polled else { return polled };
        match self.left.checked_sub(bytes.len()) {
            Some(left) => self.left = left,
            None => {
                let what = "the answer is longer than an object may be";
                return Poll::Ready(Some(Err(Error::new(ErrorKind::Unsupported, what))));
            }
        }
        Poll::Ready(Some(Ok(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_write_is_sent_without_its_condition() {
        let cases = [
            ("PUT", "http://s/b/a", "*", Some("http://s/b/a")),
            ("PUT", "http://s/b/a", "", None),
            ("PUT", "http://s/b/a?partNumber=1&uploadId=x", "", None),
            ("POST", "http://s/b/a?uploads", "*", None),
            ("POST", "http://s/o?uploadType=resumable&name=a&ifGenerationMatch=0", "", None),
            ("POST", "http://s/o?uploadType=media&name=a&ifGenerationMatch=0", "", None),
            (
                "POST",
                "http://s/o?uploadType=multipart&name=a",
                "",
                Some("http://s/o?uploadType=multipart&name=a&ifGenerationMatch=0"),
            ),
            (
                "POST",
                "http://s/o?uploadType=multipart&ifGenerationMatch=0",
                "",
                Some("http://s/o?uploadType=multipart&ifGenerationMatch=0"),
            ),
            ("POST", "http://s/o?name=uploadType=multipart", "", None),
        ];
        for (method, uri, condition, sent) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, condition.parse().unwrap());
            let method = method.parse().unwrap();
            let found = conditional(&method, uri.parse().unwrap(), &headers);
            assert_eq!(found.ok().map(|uri| uri.to_string()).as_deref(), sent, "{method} {uri}");
        }
    }

    #[test]
    fn a_refusal_says_its_status_and_what_the_service_says() {
        let shown = |body: &str| {
            let body = body.to_owned();
            Refused { operation: Operation::Read, status: 403, body }.to_string()
        };
        let xml = "<Error><Code>AccessDenied</Code>\n<Message>No.</Message></Error>";
        assert_eq!(shown(xml), "HTTP 403 AccessDenied: No.");
        assert_eq!(shown(r#"{"error":{"code":403,"message":"No."}}"#), "HTTP 403: No.");
        assert_eq!(shown("no\n"), "HTTP 403: no");
        assert_eq!(shown("<Error><Code>AccessDenied</Code></Error>"), "HTTP 403 AccessDenied");
        assert_eq!(shown(""), "HTTP 403");
    }
}

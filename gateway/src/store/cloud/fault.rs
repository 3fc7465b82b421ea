//! Why a request brought nothing.
//!
//! In: answers of a store that are refusals, and errors of the connection. Out: a [`Fault`] in the store's own
//! words, which tells what to do with it. It knows neither what was asked for nor who reads the words.

use std::error::Error;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use object_store::client::{HttpError, HttpErrorKind, HttpResponseBody};
use tokio::time::timeout;

/// More of a refusal is not read.
const LONGEST_REFUSAL: usize = 16 << 10;
/// Nor is it waited for longer.
const LONGEST_WORDS: Duration = Duration::from_secs(10);

/// What stands in errors of TLS, which have no kind of their own.
const OF_TLS: [&str; 5] = ["certificate", "tls", "corrupt message", "handshake", "alert"];

/// What came instead of an answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Fault {
    #[error("{}", words(*status, code, message))]
    Refused {
        status: StatusCode,
        /// The store's own name for it, where it says one.
        code: String,
        message: String,
        /// Where a bucket lies that was asked for elsewhere.
        region: Option<String>,
        retry_after: Option<Duration>,
    },
    #[error("{reason}")]
    Unreached { how: How, reason: String },
    /// Who gives credentials gave none.
    #[error("{0}")]
    NoCredentials(Box<Fault>),
    /// It came again and again.
    #[error("{fault}")]
    Lasting { fault: Box<Fault>, attempts: u32, after: Duration },
}

/// How a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// No such host.
    Name,
    Tls,
    Refused,
    /// Nothing came for too long.
    Silent,
    /// It broke.
    Cut,
}

impl Fault {
    /// Reads a refusal, its body included.
    pub(super) async fn refused(status: StatusCode, headers: &HeaderMap, body: HttpResponseBody) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = timeout(LONGEST_WORDS, beginning(body)).await.unwrap_or_default();
        let code = element(&body, "Code").or_else(|| text("x-ms-error-code")).unwrap_or_default();
        Self::Refused {
            status,
            code,
            message: element(&body, "Message").map(|text| first_line(&text)).unwrap_or_default(),
            region: text("x-amz-bucket-region").or_else(|| element(&body, "Region")),
            retry_after: text(RETRY_AFTER.as_str()).and_then(|text| retry_after(&text, SystemTime::now())),
        }
    }

    pub(super) fn unreached(error: &HttpError) -> Self {
        let reason = deepest(error);
        let mut all = String::new();
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(error) = cause {
            all += &error.to_string().to_ascii_lowercase();
            cause = error.source();
        }
        let how = match error.kind() {
            _ if all.contains("dns error") => How::Name,
            _ if OF_TLS.iter().any(|word| all.contains(word)) => How::Tls,
            HttpErrorKind::Timeout => How::Silent,
            HttpErrorKind::Connect => How::Refused,
            _ => How::Cut,
        };
        Self::Unreached { how, reason }
    }

    /// The fault in a chain of causes.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(fault) = error.downcast_ref::<Self>() {
                return Some(fault.clone());
            }
            // Of a body that broke off.
            if let Some(error) = error.downcast_ref::<HttpError>()
                && Self::of_source(error).is_none()
            {
                return Some(Self::unreached(error));
            }
            cause = error.source();
        }
        None
    }

    fn of_source(error: &HttpError) -> Option<Self> {
        error.source().and_then(Self::of)
    }

    /// Whether the store says that it is asked too much.
    pub(super) fn is_throttling(&self) -> bool {
        match self {
            Self::Refused { status, code, .. } => {
                matches!(*status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
                    || ["SlowDown", "ServerBusy", "RequestLimitExceeded", "TooManyRequests"]
                        .contains(&code.as_str())
            }
            _ => false,
        }
    }

    /// Whether the same request may succeed later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Refused { status, code, .. } => {
                status.is_server_error() && *status != StatusCode::NOT_IMPLEMENTED
                    || *status == StatusCode::REQUEST_TIMEOUT
                    || code == "RequestTimeout"
                    || self.is_throttling()
            }
            Self::Unreached { how, .. } => *how != How::Tls,
            Self::NoCredentials(fault) => fault.may_pass(),
            Self::Lasting { .. } => false,
        }
    }

    /// How long the store wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Seconds, or a date (RFC 9110, 10.2.3).
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

fn words(status: StatusCode, code: &str, message: &str) -> String {
    let status = status.as_u16();
    match (code, message) {
        ("", _) => format!("status {status}"),
        (code, "") => format!("status {status}, {code}"),
        (code, message) => format!("status {status}, {code}: {}", message.trim_end_matches('.')),
    }
}

/// The innermost cause: those around it say what was done, which is known.
pub(super) fn deepest(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    first_line(&cause.to_string())
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

async fn beginning(body: HttpResponseBody) -> String {
    let mut bytes = Vec::new();
    let mut stream = body.bytes_stream();
    while let Some(Ok(chunk)) = stream.next().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LONGEST_REFUSAL {
            break;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text of an XML element. All that the stores say of a refusal is flat.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, after) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = after.split_once(&format!("</{name}>"))?;
    Some(text.replace("&apos;", "'").replace("&quot;", "\"").replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let now = httpdate::parse_http_date("Mon, 30 Nov 2026 00:00:00 GMT").unwrap();
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(retry_after(text, now), expected.map(Duration::from_secs), "{text}");
        };
        check("7", Some(7));
        check("Mon, 30 Nov 2026 00:00:09 GMT", Some(9));
        check("Sun, 29 Nov 2026 00:00:00 GMT", Some(0));
        check("soon", None);
    }

    #[tokio::test]
    async fn a_refusal_says_what_the_store_says() {
        let body =
            "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>Please reduce.</Message></Error>";
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "3".parse().unwrap());
        let fault = Fault::refused(StatusCode::SERVICE_UNAVAILABLE, &headers, body.to_owned().into()).await;
        assert_eq!(fault.to_string(), "status 503, SlowDown: Please reduce");
        assert_eq!(fault.retry_after(), Some(Duration::from_secs(3)));
        assert!(fault.is_throttling() && fault.may_pass());
        let fault = Fault::refused(StatusCode::FORBIDDEN, &HeaderMap::new(), String::new().into()).await;
        assert_eq!(fault.to_string(), "status 403");
        assert!(!fault.may_pass());
    }
}

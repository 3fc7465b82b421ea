//! The header blocks of an answer: what they mean in HTTP, then in gRPC, then to us.

use http::HeaderMap;
use penstock_proto::waiting::WAITING_HEADER;
use penstock_proto::{Code, Error};
use tonic::Status;

use super::Fault;
use super::fields::Fields;

/// Base64 that nobody here reads; tonic takes it to be well-formed.
const DETAILS: &str = "grpc-status-details-bin";

/// Where in an answer its stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Awaited,
    /// Data may come.
    Begun,
}

/// What a block says.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// That the answer is still to come.
    Nothing,
    /// That data may come; and what it waits for, if that is said.
    Begun(Option<String>),
    /// How the call ended.
    Ended(Result<(), Error>),
}

impl Answer {
    /// Takes in a header block.
    pub(super) fn take(&mut self, fields: Fields, ends: bool) -> Result<Said, Fault> {
        let Fields { status, map } = fields;
        match (*self, status, ends) {
            (Self::Awaited, Some(100..200), false) => Ok(Said::Nothing),
            (Self::Awaited, Some(status), ends) => {
                if let Some(call) = grpc_status(map.clone()) {
                    return Ok(Said::Ended(call.map_or_else(|| Err(unsaid()), completed)));
                }
                if status != 200 || ends {
                    return Ok(Said::Ended(Err(refused(status))));
                }
                is_flight(&map)?;
                *self = Self::Begun;
                let waits_for = map.get(WAITING_HEADER).and_then(|why| why.to_str().ok());
                Ok(Said::Begun(waits_for.map(str::to_owned)))
            }
            (Self::Begun, None, true) => {
                let call = grpc_status(map).flatten();
                Ok(Said::Ended(call.map_or_else(|| Err(unsaid()), completed)))
            }
            _ => Err(Fault::Foreign("header fields where none may be")),
        }
    }
}

/// The end of a stream whose sender did not say how it ended.
pub(super) fn unsaid() -> Error {
    Error::new(Code::BrokenStream, "the stream ended and the gateway did not say how")
}

/// The call's status, if the block has one; inside, whether it can be read.
fn grpc_status(mut map: HeaderMap) -> Option<Option<Status>> {
    map.contains_key("grpc-status").then(|| {
        map.remove(DETAILS);
        Status::from_header_map(&map)
    })
}

fn completed(status: Status) -> Result<(), Error> {
    if status.code() == tonic::Code::Ok { Ok(()) } else { Err(status.into()) }
}

/// An answer that gRPC did not give, by what gRPC takes it for.
fn refused(status: u16) -> Error {
    let message = format!("HTTP status {status} instead of an answer");
    let code = match status {
        401 => tonic::Code::Unauthenticated,
        403 => tonic::Code::PermissionDenied,
        404 => tonic::Code::Unimplemented,
        400 => tonic::Code::Internal,
        429 | 502 | 503 | 504 => tonic::Code::Unavailable,
        _ => tonic::Code::Unknown,
    };
    Status::new(code, message).into()
}

fn is_flight(map: &HeaderMap) -> Result<(), Fault> {
    let text = |name| map.get(name).map(|value: &http::HeaderValue| value.as_bytes());
    if !text("content-type").is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return Err(Fault::Foreign("an answer that is not of gRPC"));
    }
    if text("grpc-encoding").is_some_and(|encoding| encoding != b"identity") {
        return Err(Fault::Foreign("a compressed answer, which was not asked for"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(status: Option<u16>, pairs: &[(&'static str, &str)]) -> Fields {
        let pairs = pairs.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
        });
        Fields { status, map: pairs.collect() }
    }

    /// What is said after an answer has begun.
    fn trailers(pairs: &[(&'static str, &str)]) -> Result<Said, Fault> {
        Answer::Begun.take(fields(None, pairs), true)
    }

    #[test]
    fn an_answer_begins_and_ends_in_order() {
        let mut answer = Answer::Awaited;
        assert_eq!(answer.take(fields(Some(103), &[]), false), Ok(Said::Nothing));
        let head = [("content-type", "application/grpc+proto"), ("grpc-encoding", "identity")];
        assert_eq!(answer.take(fields(Some(200), &head), false), Ok(Said::Begun(None)));
        assert!(answer.take(fields(Some(200), &head), false).is_err());
        assert_eq!(trailers(&[("grpc-status", "0")]), Ok(Said::Ended(Ok(()))));
        assert!(Answer::Begun.take(fields(None, &[]), false).is_err());
    }

    #[test]
    fn what_an_answer_waits_for_is_heard() {
        let head = [("content-type", "application/grpc"), (WAITING_HEADER, "memory: 3 of 4 MiB are held")];
        let said = Answer::Awaited.take(fields(Some(200), &head), false);
        assert_eq!(said, Ok(Said::Begun(Some("memory: 3 of 4 MiB are held".to_owned()))));
    }

    #[test]
    fn an_error_comes_back_as_it_was_sent() {
        let sent = [
            ("grpc-status", "15"),
            ("grpc-message", "file%20%22a%22%0Ais%20short"),
            ("penstock-code", "BadFile"),
            ("grpc-status-details-bin", "no base64!"),
        ];
        let error = Error::new(Code::BadFile, "file \"a\"\nis short");
        assert_eq!(trailers(&sent), Ok(Said::Ended(Err(error.clone()))));
        let at_once = Answer::Awaited.take(fields(Some(200), &sent), true);
        assert_eq!(at_once, Ok(Said::Ended(Err(error))));
    }

    #[test]
    fn an_end_without_a_status_is_none() {
        assert_eq!(trailers(&[]), Ok(Said::Ended(Err(unsaid()))));
        assert!(unsaid().may_retry());
    }

    #[test]
    fn who_is_no_gateway_is_told_apart() {
        let code = |status| match Answer::Awaited.take(fields(Some(status), &[]), false) {
            Ok(Said::Ended(Err(error))) => error.code,
            other => panic!("{other:?}"),
        };
        assert_eq!((code(503), code(404)), (Code::Unreachable, Code::Unsupported));
        let html = fields(Some(200), &[("content-type", "text/html")]);
        assert!(Answer::Awaited.take(html, false).is_err());
        let packed = [("content-type", "application/grpc"), ("grpc-encoding", "gzip")];
        assert!(Answer::Awaited.take(fields(Some(200), &packed), false).is_err());
    }
}

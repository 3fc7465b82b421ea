//! An answer's body: tonic's own, or a stream of ropes.
//!
//! In: what tonic answered. Out: the same, but where it stands for a stream, that stream in its place, so
//! that requests are read and refused by tonic and batches are sent without its copies. The promise: a
//! stream's end is said in trailers as tonic says it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use arrow_flight::FlightData;
use futures::stream::Empty;
use http::HeaderMap;
use http_body::Frame;
use tonic::Status;

use super::queue::{Messages, Queued};
use super::rope::Rope;

/// What hyper sends.
pub(super) enum Body {
    Tonic(tonic::body::Body),
    Stream(Messages),
    /// All is said.
    Ended,
}

/// A stream that rides on tonic's answer, which has no messages itself. Taken once; an answer's extensions
/// must be fit to be cloned.
#[derive(Clone)]
struct Riding(Arc<Mutex<Option<Messages>>>);

/// tonic's stream of an answer whose messages ride beside it.
pub(super) type Beside = Empty<Result<FlightData, Status>>;

/// An answer of those messages, on its way through tonic.
pub(super) fn answer(messages: Messages) -> tonic::Response<Beside> {
    let mut response = tonic::Response::new(futures::stream::empty());
    response.extensions_mut().insert(Riding(Arc::new(Mutex::new(Some(messages)))));
    response
}

impl From<tonic::body::Body> for Body {
    fn from(body: tonic::body::Body) -> Self {
        Self::Tonic(body)
    }
}

impl Body {
    /// tonic's answer with the stream that rides on it for a body.
    pub(super) fn unload(answer: http::Response<tonic::body::Body>) -> http::Response<Self> {
        let (mut parts, body) = answer.into_parts();
        let riding = parts.extensions.remove::<Riding>();
        let messages =
            riding.and_then(|riding| riding.0.lock().unwrap_or_else(PoisonError::into_inner).take());
        http::Response::from_parts(parts, messages.map_or(Self::Tonic(body), Self::Stream))
    }
}

impl http_body::Body for Body {
    type Data = Rope;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Rope>, Status>>> {
        let end = match &mut *self {
            Self::Tonic(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                return Poll::Ready(frame.map(|frame| Ok(frame?.map_data(Rope::from))));
            }
            Self::Stream(messages) => match ready!(messages.poll_next(cx)) {
                Some(Ok(Queued { message, lease })) => match Rope::message(message, lease) {
                    Ok(rope) => return Poll::Ready(Some(Ok(Frame::data(rope)))),
                    Err(error) => Status::from(error),
                },
                Some(Err(error)) => Status::from(error),
                None => Status::new(tonic::Code::Ok, ""),
            },
            Self::Ended => return Poll::Ready(None),
        };
        *self = Self::Ended;
        let mut trailers = HeaderMap::new();
        let said = end.add_header(&mut trailers);
        Poll::Ready(Some(said.map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Tonic(body) => body.is_end_stream(),
            Self::Stream(_) => false,
            Self::Ended => true,
        }
    }
}

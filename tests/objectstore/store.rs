//! A store of our own over a directory, which fails as a test wants.
//!
//! It speaks as much of S3, Google's and Azure's stores as reading takes (listing by pages, HEAD, ranges), so
//! that it is a plain web server, too. Every request is shown to the test, which says what becomes of it.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use futures::{StreamExt as _, stream};

/// The name of its bucket.
pub(crate) const BUCKET: &str = "lake";
/// Keys of one page of a listing, as of S3.
const PAGE: usize = 1000;
const WRITTEN: &str = "Mon, 30 Nov 2026 00:00:00 GMT";

/// A request, as a test sees it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Counts requests of the sort, from 0.
    pub(crate) number: usize,
    pub(crate) sort: Sort,
    /// What was asked of a file.
    pub(crate) range: Range<u64>,
    pub(crate) at: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sort {
    List,
    Head,
    Get,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Right,
    /// A refusal with S3's word for it and a header.
    Refusal(u16, &'static str, Option<(&'static str, &'static str)>),
    /// The connection breaks after so many bytes of the body.
    Cut(usize),
    /// Nothing more comes after so many bytes of the body.
    Silence(usize),
    /// The body comes byte by byte, and never falls silent.
    Trickle,
    /// The range is announced to be another.
    OtherRange,
    /// The range is not looked at.
    Whole,
    /// The file is another than was demanded.
    OtherVersion,
}

/// A running store. Dropping it cuts every connection.
pub(crate) struct Store {
    address: SocketAddr,
    state: Arc<State>,
    task: tokio::task::JoinHandle<()>,
}

struct State {
    directory: PathBuf,
    answer: Box<dyn Fn(&Asked) -> Answer + Send + Sync>,
    seen: Mutex<Vec<Asked>>,
    has_tags: bool,
}

impl Store {
    pub(crate) async fn new(
        directory: &Path,
        answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start(directory, true, Box::new(answer)).await
    }

    /// Without entity tags, as simple web servers are.
    pub(crate) async fn without_tags(directory: &Path) -> Self {
        Self::start(directory, false, Box::new(|_| Answer::Right)).await
    }

    async fn start(
        directory: &Path,
        has_tags: bool,
        answer: Box<dyn Fn(&Asked) -> Answer + Send + Sync>,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = State { directory: directory.to_owned(), answer, seen: Mutex::default(), has_tags };
        let state = Arc::new(state);
        let shared = Arc::clone(&state);
        let router =
            Router::new().fallback(move |request: Request<Body>| async move { shared.serve(&request) });
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, state, task }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests of a sort until now, in the order of coming.
    pub(crate) fn seen(&self, sort: Sort) -> Vec<Asked> {
        self.state.seen.lock().unwrap().iter().filter(|asked| asked.sort == sort).cloned().collect()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn serve(&self, request: &Request<Body>) -> Response<Body> {
        // Google's clients take a name for one part of the path.
        let path = decode(request.uri().path().trim_start_matches('/'));
        let key = path.strip_prefix(BUCKET).map_or(path.as_str(), |key| key.trim_start_matches('/'));
        let sort = match *request.method() {
            Method::HEAD => Sort::Head,
            _ if key.is_empty() => Sort::List,
            _ => Sort::Get,
        };
        let file = self.directory.join(key);
        let content = file.is_file().then(|| std::fs::read(&file).unwrap());
        let size = content.as_ref().map_or(0, Vec::len);
        let range = range(request.headers());
        let wanted = range.clone().unwrap_or(0..size as u64);
        let asked = {
            let mut seen = self.seen.lock().unwrap();
            let number = seen.iter().filter(|before| before.sort == sort).count();
            seen.push(Asked { number, sort, range: wanted.clone(), at: Instant::now() });
            seen.last().unwrap().clone()
        };
        let answer = (self.answer)(&asked);
        if let Answer::Refusal(status, code, header) = answer {
            return refusal(status, code, header, sort);
        }
        if sort == Sort::List {
            let listed = self.list(request.uri().query().unwrap_or_default());
            return Response::new(body(listed.into_bytes(), answer));
        }
        let Some(content) = content else { return refusal(404, "NoSuchKey", None, sort) };
        let tag = match answer {
            Answer::OtherVersion => "\"other\"".to_owned(),
            _ => format!("\"{size}\""),
        };
        let demanded = request.headers().get("if-match").map(|tag| tag.to_str().unwrap());
        if demanded.is_some_and(|demanded| demanded != tag) && !matches!(answer, Answer::OtherVersion) {
            return refusal(412, "PreconditionFailed", None, sort);
        }
        let mut response = Response::builder().header("last-modified", WRITTEN);
        if self.has_tags {
            response = response.header("etag", tag);
        }
        let (start, end) = (wanted.start as usize, size.min(wanted.end as usize));
        let bytes = match (&range, answer) {
            (None, _) | (_, Answer::Whole) => content,
            (Some(_), answer) => {
                let shift = usize::from(matches!(answer, Answer::OtherRange));
                let said = format!("bytes {}-{}/{size}", start + shift, end - 1 + shift);
                response = response.status(StatusCode::PARTIAL_CONTENT).header("content-range", said);
                content[start..end].to_vec()
            }
        };
        let response = response.header("content-length", bytes.len());
        response.body(if sort == Sort::Head { Body::empty() } else { body(bytes, answer) }).unwrap()
    }

    fn list(&self, query: &str) -> String {
        let said = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            decode(value.unwrap_or_default())
        };
        let is_azure = said("comp") == "list";
        let token = said(if is_azure { "marker" } else { "continuation-token" });
        let (prefix, first) = (said("prefix"), token.parse().unwrap_or(0));
        let mut files = Vec::new();
        walk(&self.directory, &self.directory, &mut files);
        files.sort();
        let is_by_level = !said("delimiter").is_empty();
        let mut entries: Vec<String> = files
            .into_iter()
            .filter_map(|(key, size)| {
                let below = key.strip_prefix(&prefix)?;
                let level = below.split_once('/').filter(|_| is_by_level).map(|(level, _)| level);
                Some(match (level, is_azure) {
                    (Some(level), false) => {
                        format!("<CommonPrefixes><Prefix>{prefix}{level}/</Prefix></CommonPrefixes>")
                    }
                    (Some(level), true) => format!("<BlobPrefix><Name>{prefix}{level}/</Name></BlobPrefix>"),
                    (None, false) => format!(
                        "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>\"{size}\"</ETag>\
                         <LastModified>2026-11-30T00:00:00.000Z</LastModified></Contents>"
                    ),
                    (None, true) => format!(
                        "<Blob><Name>{key}</Name><Properties><Last-Modified>{WRITTEN}</Last-Modified>\
                         <Etag>{size}</Etag><Content-Length>{size}</Content-Length>\
                         <Content-Type>x</Content-Type></Properties></Blob>"
                    ),
                })
            })
            .collect();
        entries.dedup();
        let next = first + PAGE;
        let has_more = next < entries.len();
        let page: String = entries.into_iter().skip(first).take(PAGE).collect();
        match (is_azure, has_more) {
            (true, _) => {
                let marker = if has_more { next.to_string() } else { String::new() };
                format!(
                    "<EnumerationResults><Blobs>{page}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
                )
            }
            (false, true) => format!(
                "<ListBucketResult><IsTruncated>true</IsTruncated>\
                 <NextContinuationToken>{next}</NextContinuationToken>{page}</ListBucketResult>"
            ),
            (false, false) => {
                format!("<ListBucketResult><IsTruncated>false</IsTruncated>{page}</ListBucketResult>")
            }
        }
    }
}

fn decode(text: &str) -> String {
    let mut parts = text.split('%');
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| {
        let (digits, rest) = part.split_at(2);
        format!("{text}{}{rest}", char::from(u8::from_str_radix(digits, 16).unwrap()))
    })
}

fn walk(root: &Path, directory: &Path, files: &mut Vec<(String, u64)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(root, &path, files);
        } else {
            let key = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            files.push((key, path.metadata().unwrap().len()));
        }
    }
}

fn range(headers: &HeaderMap) -> Option<Range<u64>> {
    let (start, last) = headers.get("range")?.to_str().unwrap().strip_prefix("bytes=")?.split_once('-')?;
    Some(start.parse().unwrap()..last.parse::<u64>().unwrap() + 1)
}

fn body(bytes: Vec<u8>, answer: Answer) -> Body {
    let beginning = |length: usize| {
        let length = length.min(bytes.len());
        stream::iter([Ok(Bytes::copy_from_slice(&bytes[..length]))])
    };
    match answer {
        Answer::Cut(length) => {
            let broken = stream::iter([Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe))]);
            Body::from_stream(beginning(length).chain(broken))
        }
        Answer::Silence(length) => Body::from_stream(beginning(length).chain(stream::pending())),
        Answer::Trickle => Body::from_stream(stream::unfold(bytes.into_iter(), async |mut bytes| {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from(vec![bytes.next()?])), bytes))
        })),
        _ => bytes.into(),
    }
}

fn refusal(
    status: u16,
    code: &str,
    header: Option<(&'static str, &'static str)>,
    sort: Sort,
) -> Response<Body> {
    let mut response = Response::builder().status(status);
    if let Some((name, value)) = header {
        response = response.header(name, value);
    }
    let words = format!("<Error><Code>{code}</Code><Message>In other words.</Message></Error>");
    response.body(if sort == Sort::Head { Body::empty() } else { words.into() }).unwrap()
}

//! Asks a daemon's admin port for its metrics.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::report::metrics::Metrics;

/// A daemon that takes longer is stuck, or its machine is gone.
const DEADLINE: Duration = Duration::from_secs(3);
/// More text than any daemon of ours has.
const TEXT_BYTES: u64 = 8 << 20;

/// The metrics below `url`, `http://HOST:PORT`; `None` if there is no answer in time.
pub(crate) async fn scrape(url: &str) -> Option<Metrics> {
    let address = url.strip_prefix("http://")?.trim_end_matches('/');
    let text = tokio::time::timeout(DEADLINE, get(address)).await.ok()?.ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let is_ok = head.split_whitespace().nth(1) == Some("200");
    is_ok.then(|| Metrics::parse(body))
}

/// HTTP/1.0, so that the answer is neither chunked nor kept alive.
async fn get(address: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.0\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.take(TEXT_BYTES).read_to_string(&mut text).await?;
    Ok(text)
}

//! The admin port: `/metrics` for Prometheus, `/healthz` for whoever decides to send traffic.

use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;

use crate::{Drain, process};

/// The admin port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the admin port {address}: choose another with --admin, or port 0 for a free one")]
pub struct AdminError {
    address: SocketAddr,
    source: io::Error,
}

/// Opens the admin port and serves it until the drain has begun and all else has ended. Returns the
/// address that was bound, which matters for port 0.
pub async fn serve(address: SocketAddr, drain: &Drain) -> Result<SocketAddr, AdminError> {
    let fail = |source| AdminError { address, source };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let bound = listener.local_addr().map_err(fail)?;
    let metrics = recorder().clone();
    let upkeep = metrics.clone();
    let router = Router::new()
        .route("/metrics", get(move || render(metrics.clone())))
        .route("/healthz", get(health))
        .with_state(drain.clone());
    // Not through the drain: a process that is leaving still tells how it is doing, to the end.
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the admin port stopped");
        }
    });
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            upkeep.run_upkeep();
        }
    });
    Ok(bound)
}

/// The process's one metrics recorder, installed at first use.
fn recorder() -> &'static PrometheusHandle {
    static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("metrics are recorded elsewhere: /metrics stays empty");
        }
        handle
    })
}

async fn render(metrics: PrometheusHandle) -> String {
    process::refresh();
    metrics.render()
}

async fn health(State(drain): State<Drain>) -> (StatusCode, &'static str) {
    if drain.has_begun() { (StatusCode::SERVICE_UNAVAILABLE, "draining\n") } else { (StatusCode::OK, "ok\n") }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn the_port_tells_health_and_metrics() {
        let drain = Drain::new();
        let address = serve("127.0.0.1:0".parse().unwrap(), &drain).await.unwrap();
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        let text = get(address, "/metrics").await;
        assert!(text.contains("process_resident_memory_bytes"), "{text}");
        drain.begin();
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 503"));
    }

    #[tokio::test]
    async fn a_taken_port_is_named() {
        let drain = Drain::new();
        let taken = serve("127.0.0.1:0".parse().unwrap(), &drain).await.unwrap();
        let error = serve(taken, &drain).await.unwrap_err();
        assert!(error.to_string().contains(&taken.to_string()));
    }
}

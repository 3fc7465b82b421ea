//! Connections to the other gateways of a fleet.
//!
//! In: a location, and whom to trust. Out: a Flight client, on a connection of its own. The promise: it is made
//! within a deadline, and one whose other end stops answering breaks within seconds.

use std::path::Path;
use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use penstock_daemon::tls::Dialer;
use penstock_proto::{Code, Error};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

/// For a connection to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// Between pings, and for each to be answered: a process that is stopped holds its sockets open.
const PING: Duration = Duration::from_secs(3);
/// What HTTP/2 begins with; less is not to be had.
const LEAST_WINDOW: u32 = 65_535;
/// A message may be as large as its one row.
const MAX_MESSAGE: usize = i32::MAX as usize;

/// Whom gateways of a fleet are believed to be. Without, those that are reached by TLS are not asked.
#[derive(Clone, Default)]
pub(crate) struct Trust(pub(crate) Option<TlsConnector>);

impl Trust {
    /// Whether a location can be asked from here: a socket of another machine has a path that means nothing.
    pub(super) fn can_reach(&self, location: &str) -> bool {
        match location.split_once("://") {
            Some(("grpc+unix", path)) => Path::new(path).exists(),
            Some(("grpc+tls", _)) => self.0.is_some(),
            Some(("grpc" | "grpc+tcp", _)) => true,
            _ => false,
        }
    }

    /// Connects; `window` are the bytes that may be on their way before somebody takes some.
    pub(super) async fn connect(
        &self,
        location: &str,
        window: u32,
    ) -> Result<FlightServiceClient<Channel>, Error> {
        let (scheme, rest) = location.split_once("://").unwrap_or(("", location));
        let uri = match scheme {
            "grpc+unix" => format!("unix:{rest}"),
            _ => format!("http://{}", rest.trim_end_matches('/')),
        };
        let window = window.max(LEAST_WINDOW);
        let endpoint = Endpoint::from_shared(uri)
            .map_err(|error| Error::chain(Code::Unreachable, &error))?
            .tcp_nodelay(true)
            .initial_stream_window_size(window)
            .initial_connection_window_size(window)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .keep_alive_while_idle(true);
        let connect = async {
            match (&self.0, scheme) {
                (Some(trusted), "grpc+tls") => {
                    let dialer = Dialer { connector: trusted.clone(), host_and_port: rest.to_owned() };
                    endpoint.connect_with_connector(dialer).await
                }
                _ => endpoint.connect().await,
            }
        };
        let connected = timeout(CONNECT, connect).await;
        let connected = connected.map_err(|_| {
            Error::new(Code::Unreachable, format!("no connection within {}s", CONNECT.as_secs()))
        })?;
        let channel = connected.map_err(|error| Error::chain(Code::Unreachable, &error))?;
        Ok(FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE))
    }
}

//! Actions: health, ending streams, longer lives for tickets, and how far a delivery's ranks are.

use std::time::SystemTime;

use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus,
    RenewFlightEndpointRequest,
};
use bytes::Bytes;
use penstock_proto::{Code, Error, Ticket, delivery};
use prost::Message;

use super::{Gateway, Peer};

/// Every action's name and what it does.
const ACTIONS: [(&str, &str); 4] = [
    ("health", "JSON: whether the gateway serves or drains, its datasets, how many streams it serves"),
    ("CancelFlightInfo", "ends the streams of a FlightInfo's tickets that run on this gateway"),
    ("RenewFlightEndpoint", "gives an endpoint a ticket that lives longer"),
    (delivery::ACTION, "JSON: takes how far a rank of a delivery is, tells how far all are"),
];

pub(super) fn types() -> impl Iterator<Item = ActionType> {
    ACTIONS.into_iter().map(|(name, description)| ActionType {
        r#type: name.to_owned(),
        description: description.to_owned(),
    })
}

impl Gateway {
    /// Does it and returns the result's body.
    pub(super) fn act(&self, action: &Action, peer: Peer) -> Result<Bytes, Error> {
        match action.r#type.as_str() {
            "health" => Ok(self.health()),
            "CancelFlightInfo" => self.cancel(&action.body),
            "RenewFlightEndpoint" => self.renew(&action.body, peer),
            delivery::ACTION => self.deliveries.report(&delivery::Report::parse(&action.body)?),
            other => {
                let known: Vec<&str> = ACTIONS.iter().map(|(name, _)| *name).collect();
                let message = format!("there is no action {other:?}: there is {}", known.join(", "));
                Err(Error::new(Code::Unsupported, message))
            }
        }
    }

    fn health(&self) -> Bytes {
        let status = if self.drain.has_begun() { "draining" } else { "serving" };
        let datasets: Vec<&str> = self.catalog.names().collect();
        let health = serde_json::json!({
            "status": status,
            "datasets": datasets,
            "streams": self.running.count(),
        });
        health.to_string().into()
    }

    fn cancel(&self, body: &[u8]) -> Result<Bytes, Error> {
        let request = CancelFlightInfoRequest::decode(body).map_err(|e| unreadable(&e))?;
        let endpoints = request.info.map(|info| info.endpoint).unwrap_or_default();
        let tickets = endpoints.into_iter().filter_map(|endpoint| endpoint.ticket);
        // Whoever holds a ticket may read by it, and so may end what reads by it.
        let ended: usize = tickets.map(|ticket| self.running.cancel(&ticket.ticket)).sum();
        let status = if ended > 0 { CancelStatus::Cancelled } else { CancelStatus::NotCancellable };
        Ok(CancelFlightInfoResult::new(status).encode_to_vec().into())
    }

    fn renew(&self, body: &[u8], peer: Peer) -> Result<Bytes, Error> {
        let request = RenewFlightEndpointRequest::decode(body).map_err(|e| unreadable(&e))?;
        let ticket = request.endpoint.and_then(|endpoint| endpoint.ticket).unwrap_or_default();
        let now = SystemTime::now();
        let opened = self.config.ticket_key.open(&ticket.ticket, now)?;
        let rank = opened.request.rank;
        let rank = rank.ok_or_else(|| Error::new(Code::BadTicket, "the endpoint's ticket names no rank"))?;
        let renewed = Ticket { expires_at: now + self.config.ticket_life, ..opened };
        Ok(self.endpoint_of(&renewed, rank, peer).encode_to_vec().into())
    }
}

fn unreadable(error: &prost::DecodeError) -> Error {
    Error::new(Code::InvalidFeed, format!("the action's body is not readable: {error}"))
}

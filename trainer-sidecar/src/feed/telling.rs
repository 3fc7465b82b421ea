//! What a trainer that waits is told of its gateways.

use std::convert::Infallible;
use std::io;

use penstock_ring::ToTrainer;
use tokio::time::sleep;

use super::House;
use super::connection::Connection;
use crate::subscribe::Notices;

/// Tells the trainer of the feed `name` what is to be told of gateways while it waits, once and then sparsely. Runs until it
/// is dropped.
///
/// # Errors
/// The connection broke.
pub(super) async fn tell(
    connection: &Connection,
    house: &House,
    name: &str,
    notices: &Notices,
    is_awaited: impl Fn() -> bool,
) -> io::Result<Infallible> {
    let mut heard = notices.listen();
    loop {
        if heard.changed().await.is_err() {
            // Nobody is left who could say anything.
            return std::future::pending().await;
        }
        let text = format!("feed '{name}': {}", *heard.borrow_and_update());
        if !is_awaited() {
            continue;
        }
        tracing::warn!(text, "a trainer waits for gateways");
        connection.send(&ToTrainer::Notice { text }, None).await?;
        sleep(house.deadlines.tell_again).await;
        // What was said meanwhile may be over.
        heard.mark_unchanged();
    }
}

//! What a trainer that waits is told of its gateways.

use std::convert::Infallible;
use std::io;

use penstock_ring::ToTrainer;
use tokio::time::sleep;

use super::House;
use super::connection::Connection;
use crate::subscribe::Notices;

/// Tells the trainer of the feed `name` what is to be told of gateways while it waits, once and then sparsely, and at once what
/// they warn of. Runs until it is dropped.
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
    let (mut heard, mut warned) = (notices.listen(), notices.listen_for_warnings());
    loop {
        // `notices` is here: somebody is left who could say something.
        tokio::select! {
            biased;
            Ok(()) = warned.changed() => {
                let text = format!("feed '{name}': {}", *warned.borrow_and_update());
                tracing::warn!(text, "a gateway warns");
                connection.send(&ToTrainer::Notice { text }, None).await?;
                continue;
            }
            Ok(()) = heard.changed() => {}
            else => return std::future::pending().await,
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

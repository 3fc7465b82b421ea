//! Why an answer has begun that has nothing to send yet.
//!
//! In: a sentence. Out: the entry of the answer's headers that carries it. A client that knows no such entry waits as well.

use tonic::metadata::{MetadataMap, MetadataValue};

/// What the entry is called.
pub const WAITING_HEADER: &str = "penstock-waiting";

/// Says in an answer's headers what its stream waits for. What headers cannot carry is left unsaid.
pub fn say_waiting(headers: &mut MetadataMap, why: &str) {
    if let Ok(why) = MetadataValue::try_from(why) {
        headers.insert(WAITING_HEADER, why);
    }
}

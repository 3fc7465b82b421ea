//! Foreign bytes for messages in their envelopes.

use penstock_fuzz::fuzz;
use prost::Message as _;

use super::tests::{data, framed, receive};

#[test]
fn fuzz_envelopes() {
    let messages = [data(30, 10, 300), data(0, 0, 0), data(5, 0, 0), data(0, 0, 200)];
    let seeds: Vec<_> = messages.iter().map(|data| framed(&data.encode_to_vec())).collect();
    let all = seeds.concat();
    fuzz("envelopes", &[seeds, vec![all]].concat(), |bytes| {
        let at_once = receive([bytes], false);
        assert_eq!(at_once, receive(bytes.chunks(5), true), "however it is cut");
        at_once.map_or_else(|fault| fault.to_string(), |messages| "message ".repeat(messages.len().min(8)))
    });
}

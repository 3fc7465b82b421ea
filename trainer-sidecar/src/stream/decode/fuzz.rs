//! Foreign bytes for IPC messages.

use arrow::ipc::CompressionType;
use penstock_fuzz::fuzz;

use super::tests::{aligned, batch, compressed, messages};
use super::*;

/// A header's length, the header, the body: what is changed is any of them.
fn joined(header: &[u8], body: &[u8]) -> Vec<u8> {
    [&(header.len() as u32).to_le_bytes()[..], header, body].concat()
}

#[test]
fn fuzz_ipc_messages() {
    let sent = batch();
    let [schema, data] = messages(&sent);
    let body = aligned(&data);
    let packed = [CompressionType::LZ4_FRAME, CompressionType::ZSTD].map(|codec| compressed(&sent, codec));
    let packed = packed.iter().map(|data| joined(&data.data_header, &data.data_body));
    let seeds = [joined(&schema.data_header, &[]), joined(&data.data_header, &body)];
    let seeds: Vec<_> = seeds.into_iter().chain(packed).collect();
    fuzz("IPC messages", &seeds, |bytes| {
        let Some((length, rest)) = bytes.split_first_chunk() else { return String::new() };
        let length = (u32::from_le_bytes(*length) as usize).min(rest.len());
        let (header, body) = rest.split_at(length);
        match decode(&sent.schema(), header, &Buffer::from_slice_ref(body)) {
            Ok(Some(Decoded { batch, .. })) => {
                // Whoever packs it relies on all of it.
                for column in batch.columns() {
                    column.to_data().validate_full().unwrap();
                }
                format!("{}", batch.num_rows() == sent.num_rows())
            }
            Ok(None) => "no rows".to_owned(),
            Err(error) => error.to_string(),
        }
    });
}

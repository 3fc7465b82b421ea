//! Foreign bytes for what a DataNode says.

use penstock_fuzz::fuzz;
use tokio::io::{empty, join, sink};

use super::tests::{block, content, honest};
use super::*;

#[test]
fn fuzz_datanodes() {
    let data = content(3000);
    let seeds: Vec<_> = [0..3000, 700..900, 1000..2600].iter().map(|range| honest(range, &data)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    fuzz("DataNodes", &seeds, |bytes| {
        let blocks = block(data.len() as u64);
        let (block, range) = blocks.pieces(700..2600).next().unwrap();
        let said = join(tokio::io::AsyncReadExt::chain(bytes, empty()), sink());
        let mut connection = Connection::over(said, Duration::from_secs(60));
        let mut into = BytesMut::with_capacity((range.end - range.start) as usize);
        let room = into.capacity();
        let result = runtime.block_on(async {
            let sums = connection.ask(block, &range).await?;
            connection.receive(sums, range.clone(), &mut into).await
        });
        assert!(into.len() <= room && into.capacity() == room, "it fits in its place");
        match result {
            Ok(()) => assert_eq!(into.len(), room),
            Err(TransferError::Packet(PacketError::Corrupt { .. })) => assert!(into.len() < room),
            Err(_) => {}
        }
        result.map_or_else(|error| error.to_string(), |()| "whole".to_owned())
    });
}

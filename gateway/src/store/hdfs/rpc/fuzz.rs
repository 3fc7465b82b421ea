//! Foreign bytes for what a NameNode says.

use penstock_fuzz::fuzz;

use super::*;
use crate::store::hdfs::blocks::Blocks;

fn located() -> wire::LocatedBlocks {
    let replica = |ip: &str| wire::DataNodeInfo {
        id: wire::DataNodeId { ip: ip.to_owned(), host: "one".to_owned(), port: 9866 },
    };
    let block = |number: u64, length: u64| wire::LocatedBlock {
        id: wire::BlockId { block: number, length: Some(length), ..wire::BlockId::default() },
        offset: (number - 1) * 100,
        replicas: vec![replica("10.0.0.1"), replica("fe80::1")],
        token: wire::Token::default(),
    };
    wire::LocatedBlocks { file_length: 150, blocks: vec![block(1, 100), block(2, 50)], ..Default::default() }
}

#[test]
fn fuzz_namenodes() {
    let header = |status| wire::AnswerHeader { call: 3, status, ..Default::default() };
    let found = wire::BlockLocations { locations: Some(located()) };
    let words = |header: wire::AnswerHeader| wire::AnswerHeader {
        exception: Some("java.io.FileNotFoundException".to_owned()),
        message: Some("File does not exist".to_owned()),
        ..header
    };
    let seeds = [
        framed(&[header(0).encode_length_delimited_to_vec(), found.encode_length_delimited_to_vec()]),
        framed(&[words(header(1)).encode_length_delimited_to_vec()]),
        framed(&[words(header(2)).encode_length_delimited_to_vec()]),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    fuzz("NameNodes", &seeds, |mut bytes| {
        let answer = runtime.block_on(read_framed(&mut bytes)).and_then(|framed| answered(framed, 3));
        let answer = match answer {
            Ok(answer) => answer,
            Err(Native::RPCError(..)) => return "refused".to_owned(),
            Err(Native::FatalRPCError(..)) => return "refused for good".to_owned(),
            Err(error) => return error.to_string(),
        };
        let Ok(found) = wire::BlockLocations::decode_length_delimited(answer) else {
            return "no locations".to_owned();
        };
        let Some(located) = found.locations else { return "no file".to_owned() };
        let length = located.file_length;
        let Some(blocks) = Blocks::of(located, false) else { return "not ours".to_owned() };
        let covered: u64 = blocks.pieces(0..length).map(|(_, piece)| piece.end - piece.start).sum();
        assert_eq!(covered, length, "blocks cover their file");
        "blocks".to_owned()
    });
}

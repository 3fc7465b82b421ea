//! Where the blocks of a file lie.
//!
//! In: what a NameNode says of a file. Out: for a range of the file, the blocks it lies in and the DataNodes
//! that hold each. The promise: the blocks cover the file without a gap; a file that our own reader cannot
//! read is none of its files. It asks nobody.

use std::ops::Range;
use std::sync::Arc;

use super::wire::{self, BlockId, Token};

/// `HOST:PORT` of a DataNode.
pub(super) type Address = Arc<str>;

/// A block, as whoever wants to read it must name it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) id: BlockId,
    pub(super) token: Token,
    /// The bytes of the file that are in it.
    file: Range<u64>,
    /// Who holds it, the nearest first.
    pub(super) replicas: Vec<Address>,
}

/// All blocks of a file, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blocks(Vec<Block>);

impl wire::BaseHeader {
    pub(super) fn of(block: &Block) -> Self {
        Self { block: block.id.clone(), token: Some(block.token.clone()) }
    }
}

impl Blocks {
    /// `None` of a file that is encrypted, erasure-coded or still written. DataNodes are called by their
    /// names if `by_name`, otherwise by their IP addresses.
    pub(super) fn of(located: wire::LocatedBlocks, by_name: bool) -> Option<Self> {
        if located.under_construction || located.encryption.is_some() || located.erasure_coding.is_some() {
            return None;
        }
        let mut end = 0;
        let mut blocks = Vec::with_capacity(located.blocks.len());
        for block in located.blocks {
            let length = block.id.length.unwrap_or(0);
            let file = block.offset..block.offset.checked_add(length)?;
            if file.start != end {
                return None;
            }
            end = file.end;
            let address = |node: wire::DataNodeInfo| {
                let host = if by_name { node.id.host } else { node.id.ip };
                // An IPv6 address has colons of its own.
                let bare = host.contains(':') && !host.starts_with('[');
                let address = if bare {
                    format!("[{host}]:{}", node.id.port)
                } else {
                    format!("{host}:{}", node.id.port)
                };
                Address::from(address)
            };
            let replicas = block.replicas.into_iter().map(address).collect();
            blocks.push(Block { id: block.id, token: block.token, file, replicas });
        }
        (end == located.file_length).then_some(Self(blocks))
    }

    /// The blocks that a range of the file lies in, and which of each one's bytes.
    pub(super) fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = (&Block, Range<u64>)> {
        let first = self.0.partition_point(|block| block.file.end <= range.start);
        let touched = self.0[first..].iter().take_while(move |block| block.file.start < range.end);
        touched.map(move |block| {
            let Range { start, end } = &block.file;
            (block, range.start.max(*start) - start..range.end.min(*end) - start)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(lengths: &[u64]) -> wire::LocatedBlocks {
        let mut located = wire::LocatedBlocks::default();
        for (&length, number) in lengths.iter().zip(1..) {
            let replicas = [("10.0.0.1", "one"), ("fe80::1", "two")].map(|(ip, host)| wire::DataNodeInfo {
                id: wire::DataNodeId { ip: ip.to_owned(), host: host.to_owned(), port: 9866 },
            });
            located.blocks.push(wire::LocatedBlock {
                id: BlockId { block: number, length: Some(length), ..BlockId::default() },
                offset: located.file_length,
                replicas: replicas.to_vec(),
                token: Token::default(),
            });
            located.file_length += length;
        }
        located
    }

    #[test]
    fn a_range_is_found_in_its_blocks() {
        let blocks = Blocks::of(located(&[100, 100, 50]), false).unwrap();
        let pieces =
            |range| blocks.pieces(range).map(|(block, piece)| (block.id.block, piece)).collect::<Vec<_>>();
        assert_eq!(pieces(0..100), [(1, 0..100)]);
        assert_eq!(pieces(99..201), [(1, 99..100), (2, 0..100), (3, 0..1)]);
        assert_eq!(pieces(249..250), [(3, 49..50)]);
        assert_eq!(blocks.0[0].replicas, ["10.0.0.1:9866".into(), "[fe80::1]:9866".into()]);
        let named = Blocks::of(located(&[1]), true).unwrap();
        assert_eq!(named.0[0].replicas, ["one:9866".into(), "two:9866".into()]);
    }

    #[test]
    fn what_is_not_ours_to_read_is_left() {
        let leave = |change: fn(&mut wire::LocatedBlocks)| {
            let mut located = located(&[100, 100]);
            change(&mut located);
            assert_eq!(Blocks::of(located, false), None);
        };
        leave(|file| file.under_construction = true);
        leave(|file| file.encryption = Some(wire::Anything {}));
        leave(|file| file.erasure_coding = Some(wire::Anything {}));
        leave(|file| file.file_length += 1);
        leave(|file| file.blocks[1].offset += 1);
        leave(|file| file.blocks[1].id.length = Some(u64::MAX));
    }
}

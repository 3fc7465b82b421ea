//! The messages that HDFS is spoken to in, as far as we speak it ourselves.
//!
//! In and out: protocol buffers of Hadoop's `ClientNamenodeProtocol.proto`, `hdfs.proto`, `datatransfer.proto`,
//! `RpcHeader.proto` and `IpcConnectionContext.proto`, with the fields that somebody here looks at. What the
//! decoder does not find it leaves empty: whoever takes a message in judges it.

use prost::Message;

/// `ExtendedBlockProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct BlockId {
    #[prost(string, required, tag = "1")]
    pub(super) pool: String,
    #[prost(uint64, required, tag = "2")]
    pub(super) block: u64,
    #[prost(uint64, required, tag = "3")]
    pub(super) generation: u64,
    #[prost(uint64, optional, tag = "4")]
    pub(super) length: Option<u64>,
}

/// `TokenProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Token {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(super) identifier: bytes::Bytes,
    #[prost(bytes = "bytes", required, tag = "2")]
    pub(super) password: bytes::Bytes,
    #[prost(string, required, tag = "3")]
    pub(super) kind: String,
    #[prost(string, required, tag = "4")]
    pub(super) service: String,
}

/// `DatanodeIDProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct DataNodeId {
    #[prost(string, required, tag = "1")]
    pub(super) ip: String,
    #[prost(string, required, tag = "2")]
    pub(super) host: String,
    #[prost(uint32, required, tag = "4")]
    pub(super) port: u32,
}

/// `DatanodeInfoProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct DataNodeInfo {
    #[prost(message, required, tag = "1")]
    pub(super) id: DataNodeId,
}

/// `LocatedBlockProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct LocatedBlock {
    #[prost(message, required, tag = "1")]
    pub(super) id: BlockId,
    #[prost(uint64, required, tag = "2")]
    pub(super) offset: u64,
    #[prost(message, repeated, tag = "3")]
    pub(super) replicas: Vec<DataNodeInfo>,
    #[prost(message, required, tag = "5")]
    pub(super) token: Token,
}

/// A message that is only looked for.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Anything {}

/// `LocatedBlocksProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct LocatedBlocks {
    #[prost(uint64, required, tag = "1")]
    pub(super) file_length: u64,
    #[prost(message, repeated, tag = "2")]
    pub(super) blocks: Vec<LocatedBlock>,
    #[prost(bool, required, tag = "3")]
    pub(super) under_construction: bool,
    #[prost(message, optional, tag = "6")]
    pub(super) encryption: Option<Anything>,
    #[prost(message, optional, tag = "7")]
    pub(super) erasure_coding: Option<Anything>,
}

/// `GetBlockLocationsRequestProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct GetBlockLocations {
    #[prost(string, required, tag = "1")]
    pub(super) path: String,
    #[prost(uint64, required, tag = "2")]
    pub(super) offset: u64,
    #[prost(uint64, required, tag = "3")]
    pub(super) length: u64,
}

/// `GetBlockLocationsResponseProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct BlockLocations {
    #[prost(message, optional, tag = "1")]
    pub(super) locations: Option<LocatedBlocks>,
}

/// `FsServerDefaultsProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Defaults {
    #[prost(bool, optional, tag = "6")]
    pub(super) encrypts_transfer: Option<bool>,
}

/// `GetServerDefaultsResponseProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct ServerDefaults {
    #[prost(message, required, tag = "1")]
    pub(super) defaults: Defaults,
}

/// `RpcRequestHeaderProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct CallHeader {
    #[prost(int32, optional, tag = "1")]
    pub(super) kind: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(super) operation: Option<i32>,
    #[prost(sint32, required, tag = "3")]
    pub(super) call: i32,
    #[prost(bytes = "vec", required, tag = "4")]
    pub(super) client: Vec<u8>,
    #[prost(sint32, optional, tag = "5")]
    pub(super) retries: Option<i32>,
}

/// `RequestHeaderProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct MethodHeader {
    #[prost(string, required, tag = "1")]
    pub(super) method: String,
    #[prost(string, required, tag = "2")]
    pub(super) protocol: String,
    #[prost(uint64, required, tag = "3")]
    pub(super) version: u64,
}

/// `RpcResponseHeaderProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct AnswerHeader {
    #[prost(uint32, required, tag = "1")]
    pub(super) call: u32,
    /// 0 success, 1 an error, 2 one that ends the connection.
    #[prost(int32, required, tag = "2")]
    pub(super) status: i32,
    #[prost(string, optional, tag = "4")]
    pub(super) exception: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub(super) message: Option<String>,
}

/// `UserInformationProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct User {
    #[prost(string, optional, tag = "1")]
    pub(super) effective: Option<String>,
}

/// `IpcConnectionContextProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct ConnectionContext {
    #[prost(message, optional, tag = "2")]
    pub(super) user: Option<User>,
    #[prost(string, optional, tag = "3")]
    pub(super) protocol: Option<String>,
}

/// `BaseHeaderProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct BaseHeader {
    #[prost(message, required, tag = "1")]
    pub(super) block: BlockId,
    #[prost(message, optional, tag = "2")]
    pub(super) token: Option<Token>,
}

/// `OpRequestShortCircuitAccessProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RequestFiles {
    #[prost(message, required, tag = "1")]
    pub(super) header: BaseHeader,
    #[prost(uint32, required, tag = "2")]
    pub(super) newest_layout: u32,
}

/// `ClientOperationHeaderProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct OperationHeader {
    #[prost(message, required, tag = "1")]
    pub(super) base: BaseHeader,
    #[prost(string, required, tag = "2")]
    pub(super) client: String,
}

/// `OpReadBlockProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct ReadBlock {
    #[prost(message, required, tag = "1")]
    pub(super) header: OperationHeader,
    #[prost(uint64, required, tag = "2")]
    pub(super) offset: u64,
    #[prost(uint64, required, tag = "3")]
    pub(super) length: u64,
}

/// `ChecksumProto`
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Checksum {
    #[prost(int32, required, tag = "1")]
    pub(super) kind: i32,
    #[prost(uint32, required, tag = "2")]
    pub(super) chunk_bytes: u32,
}

/// `ReadOpChecksumInfoProto`
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct ChecksumInfo {
    #[prost(message, required, tag = "1")]
    pub(super) checksum: Checksum,
}

/// `BlockOpResponseProto`
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct OperationAnswer {
    /// 0 is success.
    #[prost(int32, required, tag = "1")]
    pub(super) status: i32,
    #[prost(message, optional, tag = "4")]
    pub(super) checksums: Option<ChecksumInfo>,
    #[prost(string, optional, tag = "5")]
    pub(super) message: Option<String>,
    /// Of the files that go along.
    #[prost(uint32, optional, tag = "6")]
    pub(super) layout: Option<u32>,
}

/// `PacketHeaderProto`
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct PacketHeader {
    #[prost(sfixed64, required, tag = "1")]
    pub(super) offset: i64,
    #[prost(sfixed64, required, tag = "2")]
    pub(super) number: i64,
    #[prost(bool, required, tag = "3")]
    pub(super) is_last: bool,
    #[prost(sfixed32, required, tag = "4")]
    pub(super) data_bytes: i32,
}

/// `ClientReadStatusProto`
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct ReadStatus {
    #[prost(int32, required, tag = "1")]
    pub(super) status: i32,
}

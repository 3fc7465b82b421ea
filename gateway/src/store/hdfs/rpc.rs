//! The calls to a NameNode that the crate makes for itself but does not offer: where the blocks of a file lie.
//!
//! In: a path. Out: the blocks and who holds them. The promise: an error is of the same kinds as the crate's,
//! so that whoever asks treats both alike; an answer takes no more memory than has come. It asks one NameNode
//! that believes who asks, keeps no deadline, and tries nothing twice but a connection that was idle.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use hdfs_native::HdfsError as Native;
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::wire;

const PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
/// Magic, version 9, service class 0, no authentication.
const GREETING: &[u8] = b"hrpc\x09\x00\x00";
const PROTOCOL_BUFFER: i32 = 2;
const CONTEXT_CALL: i32 = -3;
/// Hadoop's own limit of an answer.
const MAX_ANSWER_BYTES: usize = 128 << 20;
/// Connections kept; who finds none makes another.
const IDLE: usize = 4;
/// A connection that was idle for longer may lead nowhere.
const KEPT: Duration = Duration::from_secs(10);

pub(super) struct Rpc {
    address: String,
    user: String,
    /// By which a NameNode tells clients apart.
    id: Vec<u8>,
    idle: Mutex<Vec<Connection>>,
    encrypts: OnceCell<bool>,
}

struct Connection {
    stream: TcpStream,
    calls: i32,
    used: Instant,
}

impl Rpc {
    pub(super) fn new(address: String, user: String) -> Self {
        let random = || RandomState::new().build_hasher().finish().to_be_bytes();
        let id = [random(), random()].concat();
        Self { address, user, id, idle: Mutex::default(), encrypts: OnceCell::new() }
    }

    /// Where a file lies; `None` of a cluster whose DataNodes encrypt what they send.
    pub(super) async fn locate(
        &self,
        path: &str,
        length: u64,
    ) -> Result<Option<wire::LocatedBlocks>, Native> {
        let ask = async || {
            let answer: wire::ServerDefaults = self.call("getServerDefaults", &wire::Anything {}).await?;
            Ok::<_, Native>(answer.defaults.encrypts_transfer.unwrap_or(false))
        };
        if *self.encrypts.get_or_try_init(ask).await? {
            return Ok(None);
        }
        let question = wire::GetBlockLocations { path: path.to_owned(), offset: 0, length };
        let answer: wire::BlockLocations = self.call("getBlockLocations", &question).await?;
        answer.locations.map(Some).ok_or_else(|| Native::FileNotFound(path.to_owned()))
    }

    async fn call<A: Message + Default>(&self, method: &str, question: &impl Message) -> Result<A, Native> {
        let kept = || {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|connection| connection.used.elapsed() < KEPT);
            idle.pop()
        };
        let (mut connection, answer) = loop {
            let Some(mut connection) = kept() else {
                let mut connection = self.connect().await?;
                let answer = self.exchange(&mut connection, method, question).await?;
                break (connection, answer);
            };
            match self.exchange(&mut connection, method, question).await {
                Ok(answer) => break (connection, answer),
                // NameNodes close what is idle.
                Err(Native::IOError(_)) => {}
                Err(error) => return Err(error),
            }
        };
        connection.used = Instant::now();
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE {
            idle.push(connection);
        }
        drop(idle);
        A::decode_length_delimited(answer).map_err(|_| not_an_answer())
    }

    async fn connect(&self) -> Result<Connection, Native> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let user = wire::User { effective: Some(self.user.clone()) };
        let context = wire::ConnectionContext { user: Some(user), protocol: Some(PROTOCOL.to_owned()) };
        let header = self.header(CONTEXT_CALL, -1);
        let said =
            framed(&[header.encode_length_delimited_to_vec(), context.encode_length_delimited_to_vec()]);
        stream.write_all(&[GREETING, &said].concat()).await?;
        Ok(Connection { stream, calls: 0, used: Instant::now() })
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        method: &str,
        question: &impl Message,
    ) -> Result<Bytes, Native> {
        let call = connection.calls;
        connection.calls += 1;
        let method =
            wire::MethodHeader { method: method.to_owned(), protocol: PROTOCOL.to_owned(), version: 1 };
        let said = framed(&[
            self.header(call, 0).encode_length_delimited_to_vec(),
            method.encode_length_delimited_to_vec(),
            question.encode_length_delimited_to_vec(),
        ]);
        connection.stream.write_all(&said).await?;
        answered(read_framed(&mut connection.stream).await?, call)
    }

    fn header(&self, call: i32, retries: i32) -> wire::CallHeader {
        wire::CallHeader {
            kind: Some(PROTOCOL_BUFFER),
            operation: Some(0),
            call,
            client: self.id.clone(),
            retries: Some(retries),
        }
    }
}

fn framed(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut framed = vec![0; 4];
    parts.iter().for_each(|part| framed.extend_from_slice(part));
    let length = (framed.len() - 4) as u32;
    framed[..4].copy_from_slice(&length.to_be_bytes());
    framed
}

/// The answer to a call, behind its header.
fn answered(mut framed: Bytes, call: i32) -> Result<Bytes, Native> {
    let header = wire::AnswerHeader::decode_length_delimited(&mut framed).map_err(|_| not_an_answer())?;
    let exception = header.exception.unwrap_or_default();
    let message = header.message.unwrap_or_default();
    match header.status {
        0 if header.call == call.cast_unsigned() => Ok(framed),
        0 => Err(not_an_answer()),
        1 => Err(Native::RPCError(exception, message)),
        _ => Err(Native::FatalRPCError(exception, message)),
    }
}

async fn read_framed(stream: &mut (impl AsyncRead + Unpin)) -> Result<Bytes, Native> {
    let closed = || io::Error::from(io::ErrorKind::ConnectionAborted);
    let length = stream.read_u32().await.map_err(|_| closed())? as usize;
    if length > MAX_ANSWER_BYTES {
        return Err(not_an_answer());
    }
    let mut answer = BytesMut::new();
    while answer.len() < length {
        let missing = length - answer.len();
        if stream.read_buf(&mut (&mut answer).limit(missing)).await? == 0 {
            return Err(closed().into());
        }
    }
    Ok(answer.freeze())
}

fn not_an_answer() -> Native {
    io::Error::new(io::ErrorKind::InvalidData, "it answers what is no answer").into()
}

#[cfg(test)]
mod fuzz;

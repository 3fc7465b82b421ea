//! A gateway's address of another's choice: connections through it are cut at a frame of HTTP/2 that is named.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_tests::trainer::LONG;
use rustix::net::sockopt;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, sink};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What a client says first.
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;

/// Who sends a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Sidecar,
    Gateway,
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    Settings,
    SettingsTaken,
    Headers,
    Data,
    Trailers,
    WindowUpdate,
    Ping,
    Pong,
    GoAway,
    Other,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Closed, as by a process that exits, in the middle of the frame or behind it.
    Closed { is_whole: bool },
    /// Reset, as by a machine that knows nothing of it, in the middle of the frame.
    Reset,
}

/// Where a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The first that is made is 0; any if none is said.
    pub(crate) connection: Option<usize>,
    pub(crate) from: From,
    pub(crate) frame: Frame,
    /// Frames of this kind that pass before.
    pub(crate) after: usize,
    pub(crate) how: How,
}

/// Leads to one gateway. Dropping it closes what goes through it.
pub(crate) struct Cutter {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    gateway: Mutex<Option<String>>,
    /// What is still to be cut, and connections made since that was said.
    plan: Mutex<(Option<Cut>, usize)>,
    is_done: watch::Sender<bool>,
}

impl Cutter {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            gateway: Mutex::default(),
            plan: Mutex::default(),
            is_done: watch::Sender::new(false),
        });
        let of_task = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            // Dropped with this task, and their connections with them.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let number = {
                    let (_, made) = &mut *of_task.plan.lock().unwrap();
                    *made += 1;
                    *made - 1
                };
                connections.spawn(forward(client, number, Arc::clone(&of_task)));
            }
        });
        Self { address, shared, task }
    }

    /// Says which gateway it leads to, by where that is bound.
    pub(crate) fn lead_to(&self, bound: &str) {
        let address = bound.strip_prefix("grpc://").unwrap().to_owned();
        *self.shared.gateway.lock().unwrap() = Some(address);
    }

    /// Cuts once, and counts connections from now on.
    pub(crate) fn arm(&self, cut: Cut) {
        self.shared.is_done.send_replace(false);
        *self.shared.plan.lock().unwrap() = (Some(cut), 0);
    }

    /// Waits until it has cut.
    pub(crate) async fn has_cut(&self) {
        let mut done = self.shared.is_done.subscribe();
        let cut = done.wait_for(|&done| done);
        tokio::time::timeout(LONG, cut).await.expect("the frame comes").unwrap();
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut client: TcpStream, number: usize, shared: Arc<Shared>) {
    let address = shared.gateway.lock().unwrap().clone().unwrap();
    let Ok(mut gateway) = TcpStream::connect(address).await else { return };
    let cut = {
        let (from_client, to_client) = client.split();
        let (from_gateway, to_gateway) = gateway.split();
        let asked = Frames::new(&shared, number, From::Sidecar);
        let answered = Frames::new(&shared, number, From::Gateway);
        tokio::select! {
            cut = pass(from_client, to_gateway, asked) => cut,
            cut = pass(from_gateway, to_client, answered) => cut,
        }
    };
    match cut {
        // One side has closed it.
        None => {}
        Some(How::Reset) => {
            for end in [&client, &gateway] {
                sockopt::set_socket_linger(end, Some(Duration::ZERO)).unwrap();
            }
            drop((client, gateway));
            shared.is_done.send_replace(true);
        }
        Some(How::Closed { .. }) => {
            // One that has left before is closed already.
            let _left = (client.shutdown().await, gateway.shutdown().await);
            shared.is_done.send_replace(true);
            // Whoever closes without having read all resets.
            let (mut asked, mut answered) = (sink(), sink());
            let _rest = tokio::join!(copy(&mut client, &mut asked), copy(&mut gateway, &mut answered));
        }
    }
}

/// Forwards until either side ends, `None`, or the cut comes.
async fn pass(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut frames: Frames<'_>) -> Option<How> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut buffer).await.ok().filter(|&length| length > 0)?;
        let cut = frames.take(&buffer[..length]);
        let length = cut.map_or(length, |(length, _)| length);
        to.write_all(&buffer[..length]).await.ok()?;
        if let Some((_, how)) = cut {
            return Some(how);
        }
    }
}

/// The frames of one direction of a connection.
struct Frames<'a> {
    shared: &'a Shared,
    connection: usize,
    from: From,
    /// Bytes before the next head.
    left: usize,
    head: Vec<u8>,
    /// Bytes before the cut, once it is known.
    cut: Option<(usize, How)>,
}

impl<'a> Frames<'a> {
    fn new(shared: &'a Shared, connection: usize, from: From) -> Self {
        let left = if from == From::Sidecar { PREFACE_BYTES } else { 0 };
        Self { shared, connection, from, left, head: Vec::new(), cut: None }
    }

    /// Looks at what passes; says how much of it may if the cut is in it.
    fn take(&mut self, bytes: &[u8]) -> Option<(usize, How)> {
        let mut at = 0;
        while self.cut.is_none() && at < bytes.len() {
            let skipped = self.left.min(bytes.len() - at);
            self.left -= skipped;
            at += skipped;
            let wanted = (HEAD_BYTES - self.head.len()).min(bytes.len() - at);
            self.head.extend_from_slice(&bytes[at..at + wanted]);
            at += wanted;
            if self.head.len() == HEAD_BYTES {
                let length = u32::from_be_bytes([0, self.head[0], self.head[1], self.head[2]]) as usize;
                let frame = self.frame();
                self.head.clear();
                self.left = length;
                self.cut = self.shared.cuts(self.connection, self.from, frame).map(|how| {
                    let is_whole = how == How::Closed { is_whole: true };
                    (at + if is_whole { length } else { length / 2 }, how)
                });
            }
        }
        match &mut self.cut {
            Some((left, how)) if *left <= bytes.len() => Some((*left, *how)),
            Some((left, _)) => {
                *left -= bytes.len();
                None
            }
            None => None,
        }
    }

    fn frame(&self) -> Frame {
        let (kind, flag) = (self.head[3], self.head[4] & 1 == 1);
        match (kind, flag) {
            (0, _) => Frame::Data,
            (1, true) if self.from == From::Gateway => Frame::Trailers,
            (1, _) => Frame::Headers,
            (4, false) => Frame::Settings,
            (4, true) => Frame::SettingsTaken,
            (6, false) => Frame::Ping,
            (6, true) => Frame::Pong,
            (7, _) => Frame::GoAway,
            (8, _) => Frame::WindowUpdate,
            _ => Frame::Other,
        }
    }
}

impl Shared {
    /// Whether, and how, a frame is cut.
    fn cuts(&self, connection: usize, from: From, frame: Frame) -> Option<How> {
        let (plan, _) = &mut *self.plan.lock().unwrap();
        let cut = plan.as_mut().filter(|cut| (cut.from, cut.frame) == (from, frame))?;
        if cut.connection.is_some_and(|wanted| wanted != connection) {
            return None;
        }
        if cut.after > 0 {
            cut.after -= 1;
            return None;
        }
        plan.take().map(|cut| cut.how)
    }
}

//! Whether the machine of a reader is still there.
//!
//! In: a connection, and for how long its peer may answer nothing. Out: its end. The promise: a machine that is
//! gone is noticed, in the middle of a stream too, where a kernel's own keepalive does not ask; a reader that takes
//! nothing for however long is there as long as its kernel says so.
//!
//! The kernel has a limit of its own for what is not acknowledged, `TCP_USER_TIMEOUT`, but since Linux 5.11 it ends
//! those whose window is shut as well, whatever they answer.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::sockopt::set_socket_linger;
use tokio::net::TcpStream;
use tonic::transport::server::TcpIncoming;

/// So often somebody is asked whether it is there before it counts as gone.
const ASKED: u8 = 3;
/// Keepalive is counted in whole ones.
const SECOND: Duration = Duration::from_secs(1);

/// A connection's other end, watched.
pub(super) struct Presence {
    socket: OwnedFd,
    peer: SocketAddr,
    silence: Duration,
}

/// Has the kernel ask peers that have nothing to say and nothing to hear: half of the silence, then four times.
pub(super) fn keep_alive(incoming: TcpIncoming, silence: Duration) -> TcpIncoming {
    incoming
        .with_keepalive(Some((silence / 2).max(SECOND)))
        .with_keepalive_interval(Some((silence / 8).max(SECOND)))
        .with_keepalive_retries(Some(4))
}

impl Presence {
    pub(super) fn watch(stream: &TcpStream, silence: Duration) -> io::Result<Self> {
        let socket = fcntl_dupfd_cloexec(stream.as_fd(), 0)?;
        Ok(Self { socket, peer: stream.peer_addr()?, silence })
    }

    /// Returns when the machine is gone; what the kernel still holds for it is forgotten when the connection is
    /// closed.
    pub(super) async fn end(self) {
        while !self.is_unheard() {
            tokio::time::sleep(self.silence / 8).await;
        }
        let (peer, seconds) = (self.peer, self.silence.as_secs());
        tracing::info!(%peer, seconds, "a reader's machine answers nothing: its streams are closed");
        let _lingers = set_socket_linger(&self.socket, Some(Duration::ZERO));
    }

    /// Where the kernel does not say, its own limits count.
    fn is_unheard(&self) -> bool {
        kernel::heard(self.socket.as_fd()).is_ok_and(|heard| heard.is_nothing(self.silence))
    }
}

/// What a kernel has heard of another.
#[derive(Debug, Clone, Copy)]
struct Heard {
    /// How often it asked since, by sending again what is not acknowledged, or by asking whether a shut window is
    /// still shut, which it does ever more rarely, down to every two minutes.
    asked: u8,
    last: Duration,
}

impl Heard {
    fn is_nothing(self, silence: Duration) -> bool {
        self.asked >= ASKED && self.last >= silence
    }
}

#[expect(unsafe_code, reason = "no crate at hand asks for TCP_INFO")]
mod kernel {
    use std::io;
    use std::os::fd::{AsRawFd as _, BorrowedFd};
    use std::time::Duration;

    use super::Heard;

    /// How `struct tcp_info` has begun since Linux 2.6.
    #[repr(C)]
    #[derive(Default)]
    struct Info {
        state: u8,
        congestion: u8,
        sent_again: u8,
        probes: u8,
        others: [u8; 4],
        numbers: [u32; 12],
        last_acknowledged_ms: u32,
    }

    pub(super) fn heard(socket: BorrowedFd<'_>) -> io::Result<Heard> {
        let mut info = Info::default();
        let mut bytes = size_of::<Info>() as libc::socklen_t;
        let into = (&raw mut info).cast();
        // SAFETY: `into` points at `bytes` bytes, of which the kernel writes some; any bytes are an `Info`.
        let failed = unsafe {
            libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &raw mut bytes)
        };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        let asked = info.sent_again.max(info.probes);
        Ok(Heard { asked, last: Duration::from_millis(info.last_acknowledged_ms.into()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_seldom_is_not_taken_for_gone() {
        let silence = Duration::from_secs(120);
        let is_gone =
            |asked, seconds| Heard { asked, last: Duration::from_secs(seconds) }.is_nothing(silence);
        assert!(is_gone(9, 120));
        // A packet is sent again three times within seconds.
        assert!(!is_gone(9, 119));
        // Idle, or a shut window that is asked every two minutes, one answer lost.
        assert!(!is_gone(0, 3600) && !is_gone(2, 300));
    }
}

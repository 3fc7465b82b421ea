//! What reaches the socket is the memory of the columns.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::{FixedSizeListArray, Float32Array, LargeStringArray};
use arrow::datatypes::{DataType, Field};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::super::listener::Accepted;
use super::super::prepared::Prepared;
use super::super::server;
use super::*;

/// A socket that notes where in memory everything lay that it took.
struct Noting {
    socket: TcpStream,
    taken: Arc<Mutex<Vec<Range<usize>>>>,
}

impl AsyncRead for Noting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, into)
    }
}

impl AsyncWrite for Noting {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        if let Poll::Ready(Ok(mut count)) = written {
            let mut taken = self.taken.lock().unwrap();
            for slice in slices {
                let (start, length) = (slice.as_ptr() as usize, slice.len().min(count));
                taken.push(start..start + length);
                count -= length;
            }
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_is_given_the_columns_own_memory() {
    const ROWS: usize = 40_000;
    let ids = Int64Array::from_iter_values(0..ROWS as i64);
    let floats = Float32Array::from_iter_values((0..4 * ROWS).map(|i| i as f32));
    let texts = LargeStringArray::from_iter_values((0..ROWS).map(|i| format!("row {i}")));
    let memory = [
        (ids.values().inner().as_ptr() as usize, 8 * ROWS),
        (floats.values().inner().as_ptr() as usize, 16 * ROWS),
        (texts.value_data().as_ptr() as usize, texts.value_data().len()),
        (texts.offsets().inner().inner().as_ptr() as usize, 8 * (ROWS + 1)),
    ];
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let lists = FixedSizeListArray::new(item, 4, Arc::new(floats), None);
    let columns: [(&str, ArrayRef); 3] =
        [("id", Arc::new(ids)), ("list", Arc::new(lists)), ("text", Arc::new(texts))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (taken, drain) = (Arc::new(Mutex::new(Vec::new())), Drain::new());
    let (noted, prepared) = (
        Arc::clone(&taken),
        Prepared { batches: vec![batch.clone()].into(), times: 1, drain: drain.clone() },
    );
    let served = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let accepted = Accepted::plain(Noting { socket, taken: noted }, Default::default());
        server::connection(accepted, prepared, drain, Duration::from_secs(600)).await;
    });
    let mut client = Client::connect(address).await;
    let read = client.read(Ticket::new("anything")).await.unwrap();
    assert_eq!(read[0].1, batch);
    drop(client);
    served.await.unwrap();

    let taken = taken.lock().unwrap();
    for (start, length) in memory {
        let own = start..start + length;
        let sent: usize =
            taken.iter().filter(|taken| own.contains(&taken.start)).map(|taken| taken.len()).sum();
        // h2 copies the first bytes of every frame to its header, and a stock client takes small frames.
        assert!(sent <= length && sent * 100 >= length * 98, "{sent} of {length}");
    }
}

//! As C uses it: over a real socket and shared memory, in one process.

use std::ffi::{CStr, CString};
use std::thread::JoinHandle;

use penstock_ring::{BatchHeader, ColumnSpec, DType, Listener, Ring, ToSidecar, ToTrainer};

use super::*;

fn sidecar(name: &str) -> (CString, tempfile::TempDir, JoinHandle<Vec<ToSidecar>>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    let listener = Listener::bind(&path).unwrap();
    let thread = std::thread::spawn(move || {
        let socket = listener.accept().unwrap();
        let mut heard = vec![socket.recv::<ToSidecar>().unwrap().unwrap().0];
        let ring = Ring::create(2, 4096, r#"{"columns":[]}"#).unwrap();
        socket.send(&ToTrainer::Opened { slots: 2, slot_bytes: 4096 }, Some(ring.fd())).unwrap();
        let mut slot = ring.take().unwrap();
        let columns =
            [ColumnSpec::fixed(DType::Int16, vec![2, 1]), ColumnSpec::text(DType::String, vec![2], 3)];
        let mut writer = slot.writer(BatchHeader { epoch: 1, step: 7, rows: 2 }, &columns).unwrap();
        writer.column(0).copy_from_slice(&[1, 0, 2, 0]);
        writer.offsets(1).copy_from_slice(&[0, 1, 3]);
        writer.column(1).copy_from_slice(b"abc");
        socket.send(&ToTrainer::Batch { slot: slot.hand_out(), epoch: 1, step: 7 }, None).unwrap();
        socket.send(&ToTrainer::End, None).unwrap();
        while let Some((message, _)) = socket.recv::<ToSidecar>().unwrap() {
            if !matches!(message, ToSidecar::Waiting { .. }) {
                heard.push(message);
            }
        }
        heard
    });
    (CString::new(path.to_str().unwrap()).unwrap(), dir, thread)
}

fn error() -> String {
    // SAFETY: the library's own text, copied before the next call.
    unsafe { CStr::from_ptr(penstock_error()) }.to_str().unwrap().to_owned()
}

#[test]
fn a_feed_is_opened_read_and_closed() {
    let (path, _dir, thread) = sidecar("s.sock");
    let request = cr#"{"name":"t","feed":{"rank":0,"world_size":1}}"#;
    let mut handle = 0;
    let mut given = std::ptr::null_mut();
    let mut out = PenstockBatch { batch: std::ptr::null_mut(), epoch: 0, step: 0, rows: 0, columns: 0 };
    let mut column = PenstockColumn {
        dtype: 0,
        ndim: 0,
        dims: [0; MAX_DIMS],
        data: std::ptr::null(),
        bytes: 0,
        offsets: std::ptr::null(),
    };
    // SAFETY: C strings and places of this test throughout.
    unsafe {
        assert_eq!(
            penstock_open(path.as_ptr(), request.as_ptr(), c"g".as_ptr(), 60_000, &raw mut handle),
            0,
            "{}",
            error()
        );
        assert_eq!(penstock_description(handle, &raw mut given), 0);
        assert_eq!(CStr::from_ptr(given), cr#"{"columns":[]}"#);
        penstock_text_free(given);
        assert_eq!(penstock_next(handle, 60_000, &raw mut out), 0, "{}", error());
        assert_eq!((out.epoch, out.step, out.rows, out.columns), (1, 7, 2, 2));
        let (mut slots, mut held) = (0, 0);
        assert_eq!(penstock_slots(handle, &raw mut slots, &raw mut held), 0);
        assert_eq!((slots, held), (2, 1));
        assert_eq!(penstock_column(out.batch, 0, &raw mut column), 0);
        assert_eq!(
            (column.dtype, column.ndim, column.dims[..2].to_vec(), column.bytes),
            (3, 2, vec![2, 1], 4)
        );
        assert!(column.offsets.is_null());
        assert_eq!(penstock_column(out.batch, 1, &raw mut column), 0);
        assert_eq!(std::slice::from_raw_parts(column.offsets, 3), [0, 1, 3]);
        assert_eq!(std::slice::from_raw_parts(column.data, 3), b"abc");
        assert_eq!(penstock_column(out.batch, 2, &raw mut column), Kind::Argument as i32);
        assert_eq!(error(), "the batch has 2 columns, no column 2");
        assert_eq!(penstock_acknowledge(handle, 1, 7), 0);
        assert_eq!(penstock_batch_free(out.batch), 0);
        assert_eq!(penstock_next(handle, 60_000, &raw mut out), Kind::End as i32);
        assert_eq!(penstock_cancel(c"another group".as_ptr()), 0);
        assert_eq!(penstock_next(handle, 60_000, &raw mut out), Kind::End as i32);
        assert_eq!(penstock_close(handle), 0);
        assert_eq!(penstock_next(handle, 60_000, &raw mut out), Kind::Cancelled as i32);
    }
    let heard = thread.join().unwrap();
    assert!(matches!(&heard[0], ToSidecar::Open { request } if request.contains(r#""world_size":1"#)));
    assert!(
        matches!(heard[1..], [ToSidecar::Acknowledge { epoch: 1, step: 7 }, ToSidecar::Release { .. }]),
        "{heard:?}"
    );
}

#[test]
fn mistakes_are_numbers_and_texts() {
    let mut handle = 0;
    // SAFETY: C strings, places of this test, and nulls, which are refused.
    unsafe {
        let open = |socket: &CStr, request: &CStr, handle: *mut u64| {
            penstock_open(socket.as_ptr(), request.as_ptr(), c"".as_ptr(), 1000, handle)
        };
        assert_eq!(open(c"/nonexistent", cr#"{"feed":{}}"#, &raw mut handle), Kind::NoSidecar as i32);
        assert!(error().starts_with("feed 'feed': no sidecar answers at /nonexistent"), "{}", error());
        assert_eq!(open(c"/nonexistent", c"{}", &raw mut handle), Kind::Argument as i32);
        assert_eq!(
            penstock_open(std::ptr::null(), c"".as_ptr(), c"".as_ptr(), 0, &raw mut handle),
            Kind::Argument as i32
        );
        assert_eq!(error(), "a text is null");
        assert_eq!(penstock_next(0, 0, std::ptr::null_mut()), Kind::Argument as i32);
        assert_eq!(penstock_stats(std::ptr::null_mut()), Kind::Argument as i32);
    }
    assert_eq!(penstock_register_ops(), Kind::Argument as i32);
    assert!(error().starts_with("TensorFlow is not loaded"), "{}", error());
}

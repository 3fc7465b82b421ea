//! A sidecar without a dataset: it feeds batches that it makes up, so that the trainer's side can be
//! tried and tested without a gateway.
//!
//! `producer PATH.sock [--steps 20] [--rows 8] [--slots 4] [--pace-ms 0] [--fail-at STEP]
//! [--exit-at STEP]` – every connection gets its own ring and the same batches. Row `r` of step `s`
//! carries the id `s * rows + r` in every column.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "an example speaks and stops"
)]

use std::time::Duration;

use penstock_ring::{
    BatchHeader, ColumnSpec, DType, Listener, Ring, SlotWriter, Socket, ToSidecar, ToTrainer, WriteError,
    seal_text,
};

#[derive(Clone, Debug)]
struct Options {
    steps: u64,
    rows: u64,
    slots: u32,
    pace: Duration,
    fail_at: Option<u64>,
    exit_at: Option<u64>,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: producer PATH.sock [--steps N] [--rows N] [--slots N] …");
    let mut options =
        Options { steps: 20, rows: 8, slots: 4, pace: Duration::ZERO, fail_at: None, exit_at: None };
    while let Some(flag) = arguments.next() {
        let number: u64 = arguments.next().expect("every flag has a number").parse().unwrap();
        match flag.as_str() {
            "--steps" => options.steps = number,
            "--rows" => options.rows = number,
            "--slots" => options.slots = number as u32,
            "--pace-ms" => options.pace = Duration::from_millis(number),
            "--fail-at" => options.fail_at = Some(number),
            "--exit-at" => options.exit_at = Some(number),
            other => panic!("no flag {other}"),
        }
    }
    let listener = Listener::bind(path.as_ref()).unwrap();
    println!("listening on unix:{path}");
    loop {
        let (socket, options) = (listener.accept().unwrap(), options.clone());
        std::thread::spawn(move || {
            if let Err(error) = serve(&socket, &options) {
                eprintln!("a feed ended: {error}");
            }
        });
    }
}

fn serve(socket: &Socket, options: &Options) -> std::io::Result<()> {
    let description = describe(options);
    match socket.recv()? {
        Some((ToSidecar::Describe { .. }, _)) => {
            let memory = seal_text(&description).map_err(std::io::Error::other)?;
            return socket.send(
                &ToTrainer::Described { bytes: description.len() as u64 },
                Some(std::os::fd::AsFd::as_fd(&memory)),
            );
        }
        Some((ToSidecar::Open { .. }, _)) => {}
        _ => return Ok(()),
    }
    let ring = Ring::create(options.slots, 8192 + options.rows * 256, &description)
        .map_err(std::io::Error::other)?;
    socket
        .send(&ToTrainer::Opened { slots: ring.slots(), slot_bytes: ring.slot_bytes() }, Some(ring.fd()))?;
    for step in 0..options.steps {
        if options.exit_at == Some(step) {
            std::process::exit(3);
        }
        if options.fail_at == Some(step) {
            let message = format!(
                "column c_float32 is null at step {step}; declare nulls={{\"c_float32\": 0}} or \"mask\""
            );
            socket.send(&ToTrainer::Failed { code: "InvalidFeed".into(), message }, None)?;
            return Ok(());
        }
        std::thread::sleep(options.pace);
        if !send(socket, &ring, options, step)? {
            return Ok(());
        }
    }
    socket.send(&ToTrainer::End, None)?;
    while socket.recv::<ToSidecar>()?.is_some() {}
    Ok(())
}

/// Sends one step as soon as a slot is free; `false` when the trainer has left.
fn send(socket: &Socket, ring: &Ring, options: &Options, step: u64) -> std::io::Result<bool> {
    let mut slot = loop {
        if let Some(slot) = ring.take() {
            break slot;
        }
        match socket.recv()? {
            Some((ToSidecar::Release { slot }, _)) => ring.release(slot).map_err(std::io::Error::other)?,
            Some(_) => {}
            None => return Ok(false),
        }
    };
    let ids: Vec<u64> = (0..options.rows).map(|row| step * options.rows + row).collect();
    let columns: Vec<ColumnSpec> = DType::ALL.iter().map(|&dtype| column(dtype, &ids)).collect();
    let header = BatchHeader { epoch: 0, step, rows: options.rows };
    let sent = match slot.writer(header, &columns) {
        Ok(mut writer) => {
            fill(&mut writer, &ids);
            let slot = slot.hand_out();
            socket.send(&ToTrainer::Batch { slot, epoch: 0, step }, None)
        }
        Err(WriteError::TooLarge { .. }) => {
            let mut oversize = slot.outgrow(header, &columns).map_err(std::io::Error::other)?;
            fill(&mut oversize.writer().map_err(std::io::Error::other)?, &ids);
            let (slot, memory) = oversize.hand_out();
            socket.send(&ToTrainer::Batch { slot, epoch: 0, step }, Some(std::os::fd::AsFd::as_fd(&memory)))
        }
        Err(error) => return Err(std::io::Error::other(error)),
    };
    sent.map(|()| true)
}

/// Numbers are `[rows]`, but float32 is `[rows, 2, 3]`.
fn shape(dtype: DType) -> &'static [u64] {
    if dtype == DType::Float32 { &[2, 3] } else { &[] }
}

fn column(dtype: DType, ids: &[u64]) -> ColumnSpec {
    let mut dims = vec![ids.len() as u64];
    dims.extend(shape(dtype));
    match dtype {
        DType::String | DType::Bytes => {
            ColumnSpec::text(dtype, dims, ids.iter().map(|&id| text(dtype, id).len() as u64).sum())
        }
        _ => ColumnSpec::fixed(dtype, dims),
    }
}

/// Every third text is long, every fifth is empty.
fn text(dtype: DType, id: u64) -> Vec<u8> {
    let text = if id % 5 == 4 {
        String::new()
    } else {
        format!("row-{id}{}", "-größer".repeat(if id.is_multiple_of(3) { 9 } else { 0 }))
    };
    if dtype == DType::Bytes { [&[0xff, 0], text.as_bytes()].concat() } else { text.into_bytes() }
}

fn fill(writer: &mut SlotWriter<'_>, ids: &[u64]) {
    for (i, &dtype) in DType::ALL.iter().enumerate() {
        if dtype.size().is_none() {
            let texts: Vec<Vec<u8>> = ids.iter().map(|&id| text(dtype, id)).collect();
            let ends = texts.iter().scan(0, |end, text| {
                *end += text.len() as i64;
                Some(*end)
            });
            let offsets: Vec<i64> = std::iter::once(0).chain(ends).collect();
            writer.offsets(i).copy_from_slice(&offsets);
            writer.column(i).copy_from_slice(&texts.concat());
            continue;
        }
        let each: u64 = shape(dtype).iter().product();
        let bytes: Vec<u8> =
            ids.iter().flat_map(|&id| (0..each).flat_map(move |_| number(dtype, id))).collect();
        writer.column(i).copy_from_slice(&bytes);
    }
}

fn number(dtype: DType, id: u64) -> Vec<u8> {
    match dtype {
        DType::Bool => vec![u8::from(id % 2 == 1)],
        // Small whole numbers: half precision has them exactly up to 2048, bfloat16 up to 256.
        DType::Float16 => half(id % 1024).to_vec(),
        DType::BFloat16 => ((id % 128) as f32).to_le_bytes()[2..].to_vec(),
        DType::Float32 => (id as f32).to_le_bytes().to_vec(),
        DType::Float64 => (id as f64).to_le_bytes().to_vec(),
        _ => id.to_le_bytes()[..dtype.size().unwrap() as usize].to_vec(),
    }
}

/// A whole number as IEEE half precision.
fn half(number: u64) -> [u8; 2] {
    if number == 0 {
        return [0, 0];
    }
    let exponent = number.ilog2();
    let mantissa = (number << 10 >> exponent) & 0x3ff;
    ((u64::from(exponent + 15) << 10 | mantissa) as u16).to_le_bytes()
}

fn describe(options: &Options) -> String {
    let column = |dtype: &DType| {
        format!(r#"{{"name":"c_{0}","dtype":"{0}","shape":{1:?}}}"#, dtype.name(), shape(*dtype))
    };
    let columns: Vec<String> = DType::ALL.iter().map(column).collect();
    format!(
        r#"{{"version":1,"columns":[{}],"rows_per_step":{rows},"batch_size":{rows},"world_size":1,"rank":0,"steps_per_epoch":{steps},"epochs":1,"start":{{"epoch":0,"step":0}},"rows":{},"dropped":0,"lanes":1,"snapshot":"made-up","dataset":"made-up","remainder":"drop"}}"#,
        columns.join(","),
        options.rows * options.steps,
        rows = options.rows,
        steps = options.steps,
    )
}

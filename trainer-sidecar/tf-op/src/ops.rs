//! The TensorFlow ops: open a feed, take its next batch, close it; say that a batch is done.
//!
//! Column -1 of a batch is its token, by which it is acknowledged.
//!
//! ```text
//! PenstockOpen(request, socket, group) -> handle: int64
//! PenstockNext(handle: int64; columns, output_types, output_shapes) -> components
//! PenstockClose(handle: int64)
//! PenstockAcknowledge(token: int64)
//! ```
//!
//! *In:* attributes of a graph and a handle. *Out:* registered ops. *Promise:* rank, world and
//! `env:…` sockets are those of the process that runs the kernel; a waiting kernel ends when its feed
//! is closed or its sidecar dies. The kernels are synchronous: the asynchronous ones of TensorFlow's
//! C API call back through a pointer that dangles.
#![expect(unsafe_code, reason = "TensorFlow calls these functions with pointers of its own")]

mod kernel;

use std::ffi::{CStr, c_int};
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use penstock_ring::Access;

use self::kernel::{Construction, Kernel, Run, compute, create, delete};
use crate::api::{self, Api, Object, Status};
use crate::failure::{Failure, Kind};
use crate::registry;
use crate::request::Request;

/// How long a sidecar may take to open a feed: it reads the dataset's footers through its gateway.
const OPEN_DEADLINE: Duration = Duration::from_secs(120);
/// How long to wait at once; then the wait goes on unless every slot is held.
const NEXT_DEADLINE: Duration = Duration::from_secs(600);

struct Open {
    request: String,
    socket: String,
    group: String,
}

struct Next {
    /// `None` is the token.
    columns: Vec<Option<usize>>,
    types: Vec<c_int>,
}

struct Close;

struct Acknowledge;

impl Kernel for Open {
    fn create(construction: &Construction) -> Result<Open, Failure> {
        let text = |name| construction.string(name);
        Ok(Open { request: text(c"request")?, socket: text(c"socket")?, group: text(c"group")? })
    }

    fn compute(&self, run: &mut Run) -> Result<(), Failure> {
        let request = Request::complete(&self.request, &self.socket, |name| std::env::var(name).ok())?;
        let handle = loop {
            // A kernel that finds itself the only owner of a slice of a tensor writes into the slice, for
            // TensorFlow forgets that the memory below it is not its own.
            match registry::open(&request, &self.group, Access::Write, OPEN_DEADLINE) {
                Err(failure) if failure.kind == Kind::Interrupted => {}
                other => break other?,
            }
        };
        run.outputs.scalar(0, handle as i64)
    }
}

impl Kernel for Next {
    fn create(construction: &Construction) -> Result<Next, Failure> {
        let columns = construction.ints(c"columns")?;
        let columns: Vec<_> = columns.into_iter().map(|column| usize::try_from(column).ok()).collect();
        let types = construction.types(c"output_types")?;
        if columns.len() != types.len() {
            let text = format!("{} columns for {} outputs", columns.len(), types.len());
            return Err(Failure::new(Kind::Argument, text));
        }
        Ok(Next { columns, types })
    }

    fn compute(&self, run: &mut Run) -> Result<(), Failure> {
        let feed = registry::get(run.handle()? as u64)?;
        let batch = loop {
            match feed.next(NEXT_DEADLINE) {
                Err(failure) if matches!(failure.kind, Kind::NotYet | Kind::Interrupted) => {}
                other => break Arc::new(other?),
            }
        };
        // A token keeps its slot, so a copy would free nothing.
        let copy = feed.consumer.held() >= feed.consumer.slots() && !self.columns.contains(&None);
        for (i, (column, &want)) in self.columns.iter().zip(&self.types).enumerate() {
            if let Some(column) = *column {
                run.outputs.set(i, &batch, column, want, copy)?;
            } else {
                let words = [run.handle()?, batch.epoch() as i64, batch.step() as i64, feed.rank.into()];
                run.outputs.token(i, words, Arc::clone(&batch), Arc::clone(&feed))?;
            }
        }
        Ok(())
    }
}

impl Kernel for Close {
    fn create(_: &Construction) -> Result<Close, Failure> {
        Ok(Close)
    }

    fn compute(&self, run: &mut Run) -> Result<(), Failure> {
        registry::close(run.handle()? as u64);
        Ok(())
    }
}

impl Kernel for Acknowledge {
    fn create(_: &Construction) -> Result<Acknowledge, Failure> {
        Ok(Acknowledge)
    }

    fn compute(&self, run: &mut Run) -> Result<(), Failure> {
        let [handle, epoch, step, _] = run.words()?;
        registry::get_even_closed(handle as u64)?.acknowledge(epoch as u64, step as u64)
    }
}

/// One op's definition, in TensorFlow's own words.
struct Op {
    name: &'static CStr,
    attrs: &'static [&'static CStr],
    input: Option<&'static CStr>,
    output: Option<&'static CStr>,
    /// Arguments that live in host memory when the op is placed on a GPU: all of them.
    host: &'static [&'static CStr],
    create: api::Create,
    compute: api::Compute,
    delete: api::Delete,
}

const OPS: [Op; 4] = [
    Op {
        name: c"PenstockOpen",
        attrs: &[c"request: string", c"socket: string", c"group: string = ''"],
        input: None,
        output: Some(c"handle: int64"),
        host: &[c"handle"],
        create: create::<Open>,
        compute: compute::<Open>,
        delete: delete::<Open>,
    },
    Op {
        name: c"PenstockNext",
        attrs: &[
            c"columns: list(int) >= 1",
            c"output_types: list(type) >= 1",
            c"output_shapes: list(shape) >= 1",
        ],
        input: Some(c"handle: int64"),
        output: Some(c"components: output_types"),
        host: &[c"handle", c"components"],
        create: create::<Next>,
        compute: compute::<Next>,
        delete: delete::<Next>,
    },
    Op {
        name: c"PenstockClose",
        attrs: &[],
        input: Some(c"handle: int64"),
        output: None,
        host: &[c"handle"],
        create: create::<Close>,
        compute: compute::<Close>,
        delete: delete::<Close>,
    },
    Op {
        name: c"PenstockAcknowledge",
        attrs: &[],
        input: Some(c"token: int64"),
        output: None,
        host: &[c"token"],
        create: create::<Acknowledge>,
        compute: compute::<Acknowledge>,
        delete: delete::<Acknowledge>,
    },
];

/// Registers the ops once, if TensorFlow is in the process.
pub(crate) fn register() -> Result<(), Failure> {
    static DONE: OnceLock<Result<(), Failure>> = OnceLock::new();
    let api = api::find()?;
    DONE.get_or_init(|| OPS.iter().try_for_each(|op| register_one(api, op))).clone()
}

fn register_one(api: &'static Api, op: &Op) -> Result<(), Failure> {
    let status = Status::new(api);
    // SAFETY: a C string, copied; the builder is consumed by `register_op` below.
    let builder = unsafe { (api.new_op)(op.name.as_ptr()) };
    for attr in op.attrs {
        // SAFETY: builder as above, C string copied.
        unsafe { (api.op_attr)(builder, attr.as_ptr()) };
    }
    if let Some(input) = op.input {
        // SAFETY: as above.
        unsafe { (api.op_input)(builder, input.as_ptr()) };
    }
    if let Some(output) = op.output {
        // SAFETY: as above.
        unsafe { (api.op_output)(builder, output.as_ptr()) };
    }
    // A feed has a position: equal calls are not equal.
    // SAFETY: builder as above.
    unsafe { (api.op_stateful)(builder, true) };
    // SAFETY: builder as above; the function lives as long as the library, which is never unloaded.
    unsafe { (api.op_shape)(builder, unknown_shapes) };
    // SAFETY: consumes the builder.
    unsafe { (api.register_op)(builder, status.object()) };
    status.check("register an op")?;
    for device in [c"CPU", c"GPU"] {
        // SAFETY: C strings, copied; functions that live as long as the library.
        let builder =
            unsafe { (api.new_kernel)(op.name.as_ptr(), device.as_ptr(), op.create, op.compute, op.delete) };
        for argument in op.host.iter().filter(|_| device == c"GPU") {
            // SAFETY: builder as above, C string copied.
            unsafe { (api.host_memory)(builder, argument.as_ptr()) };
        }
        // SAFETY: consumes the builder.
        unsafe { (api.register_kernel)(op.name.as_ptr(), builder, status.object()) };
        status.check("register a kernel")?;
    }
    Ok(())
}

/// A shape function of the C API cannot read shapes from attributes; Python sets them.
unsafe extern "C" fn unknown_shapes(context: Object, status: Object) {
    // SAFETY: both are TensorFlow's, alive during the call.
    unsafe { (api::registered().unknown_shape)(context, status) };
}

/// Runs when the library is loaded. Without TensorFlow the C ABI alone is there; Python registers
/// later, and hears the reason when it cannot.
extern "C" fn on_load() {
    let _ = std::panic::catch_unwind(register);
}

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

//! Kernels as a trait: TensorFlow's three callbacks on one side, safe methods on the other.
//!
//! *In:* TensorFlow's calls. *Out:* calls of [`Kernel`]. *Promise:* a failure or a panic becomes the
//! construction's or the run's failure; nothing unwinds into TensorFlow.

use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::api::{self, Api, Object, Status};
use crate::failure::{Failure, Kind};
use crate::tensor::Outputs;

/// One op's behaviour on a device.
pub(super) trait Kernel: Sized + Send + Sync {
    fn create(construction: &Construction) -> Result<Self, Failure>;
    fn compute(&self, run: &mut Run) -> Result<(), Failure>;
}

/// The attributes of the node that a kernel is made for.
pub(super) struct Construction {
    api: &'static Api,
    object: Object,
}

/// One run of a kernel.
pub(super) struct Run {
    pub(super) outputs: Outputs,
}

impl Construction {
    pub(super) fn string(&self, name: &CStr) -> Result<String, Failure> {
        let (_, bytes) = self.size(name)?;
        let mut text = vec![0_u8; bytes];
        let status = Status::new(self.api);
        // SAFETY: the buffer has `bytes` bytes, and no more are written.
        unsafe {
            (self.api.attr_string)(
                self.object,
                name.as_ptr(),
                text.as_mut_ptr().cast(),
                bytes,
                status.object(),
            );
        };
        status.check("read an attribute")?;
        String::from_utf8(text)
            .map_err(|_| Failure::new(Kind::Argument, format!("attribute {name:?} is not UTF-8")))
    }

    pub(super) fn types(&self, name: &CStr) -> Result<Vec<c_int>, Failure> {
        let (length, _) = self.size(name)?;
        let mut types = vec![0; length];
        let status = Status::new(self.api);
        // SAFETY: the buffer has `length` places.
        unsafe {
            (self.api.attr_types)(
                self.object,
                name.as_ptr(),
                types.as_mut_ptr(),
                length as c_int,
                status.object(),
            );
        };
        status.check("read an attribute")?;
        Ok(types)
    }

    pub(super) fn ints(&self, name: &CStr) -> Result<Vec<i64>, Failure> {
        let (length, _) = self.size(name)?;
        let mut ints = vec![0; length];
        let status = Status::new(self.api);
        // SAFETY: the buffer has `length` places.
        unsafe {
            (self.api.attr_ints)(
                self.object,
                name.as_ptr(),
                ints.as_mut_ptr(),
                length as c_int,
                status.object(),
            );
        };
        status.check("read an attribute")?;
        Ok(ints)
    }

    /// Length of a list, and bytes of a text.
    fn size(&self, name: &CStr) -> Result<(usize, usize), Failure> {
        let (mut length, mut bytes) = (0, 0);
        let status = Status::new(self.api);
        // SAFETY: two places to write to, and a C string.
        unsafe {
            (self.api.attr_size)(
                self.object,
                name.as_ptr(),
                &raw mut length,
                &raw mut bytes,
                status.object(),
            );
        }
        status.check("read an attribute")?;
        Ok((length.max(0) as usize, bytes.max(0) as usize))
    }
}

impl Run {
    /// The int64 scalar of input 0.
    pub(super) fn handle(&self) -> Result<i64, Failure> {
        self.words::<1>().map(|[handle]| handle)
    }

    /// The int64 elements of input 0.
    pub(super) fn words<const N: usize>(&self) -> Result<[i64; N], Failure> {
        let Outputs { api, context, status } = &self.outputs;
        let mut tensor: Object = std::ptr::null_mut();
        // SAFETY: context and status are alive during the run; the tensor is ours to delete.
        unsafe { (api.input)(*context, 0, &raw mut tensor, status.object()) };
        status.check("read an input")?;
        // SAFETY: the tensor was just given.
        let bytes = unsafe { (api.tensor_bytes)(tensor) };
        let words = if bytes == size_of::<[i64; N]>() {
            // SAFETY: as above.
            let data = unsafe { (api.tensor_data)(tensor) }.cast::<[i64; N]>();
            // SAFETY: the op's definition says int64, and there are as many as needed.
            Ok(unsafe { data.read_unaligned() })
        } else {
            Err(Failure::new(
                Kind::Argument,
                format!("the input has {bytes} bytes, not {N} numbers of int64"),
            ))
        };
        // SAFETY: given to us above, deleted once.
        unsafe { (api.delete_tensor)(tensor) };
        words
    }
}

pub(super) unsafe extern "C" fn create<K: Kernel>(object: Object) -> Object {
    let api = api::registered();
    match caught(|| K::create(&Construction { api, object })) {
        Ok(kernel) => Box::into_raw(Box::new(kernel)).cast(),
        Err(failure) => {
            let status = Status::new(api);
            status.set(&failure);
            // SAFETY: the construction is alive during the call.
            unsafe { (api.construction_failure)(object, status.object()) };
            std::ptr::null_mut()
        }
    }
}

pub(super) unsafe extern "C" fn compute<K: Kernel>(kernel: Object, context: Object) {
    let api = api::registered();
    let outcome = caught(|| {
        // SAFETY: made by `create`, deleted by `delete` after the last run; runs share it.
        let kernel = unsafe { kernel.cast::<K>().as_ref() };
        let kernel = kernel.ok_or_else(|| Failure::new(Kind::Fault, "the kernel was not made"))?;
        kernel.compute(&mut Run { outputs: Outputs { api, context, status: Status::new(api) } })
    });
    if let Err(failure) = outcome {
        let status = Status::new(api);
        status.set(&failure);
        // SAFETY: the context is alive during the call.
        unsafe { (api.context_failure)(context, status.object()) };
    }
}

pub(super) unsafe extern "C" fn delete<K: Kernel>(kernel: Object) {
    if !kernel.is_null() {
        // SAFETY: made by `create`, and TensorFlow deletes it once, after its last run.
        drop(unsafe { Box::from_raw(kernel.cast::<K>()) });
    }
}

fn caught<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(Failure::new(Kind::Fault, "penstock failed inside; its message is on standard error"))
    })
}

//! A batch's columns as TensorFlow tensors.
//!
//! *In:* a batch and a kernel's context. *Out:* the kernel's outputs. *Promise:* numbers are not copied:
//! the tensor's buffer is the slot, and the slot goes back when the last tensor is gone. The one
//! exception: a batch that takes the ring's last slot is copied and its slot returned at once. Else a
//! pipeline that buffers as many batches as the ring has slots would wait for ever for itself.
//! TensorFlow may write there: it works in place on a slice once that is all that is left of a tensor.
//! Strings are always copied. *Knows nothing* of graphs.
#![expect(unsafe_code, reason = "tensors are made over memory that TensorFlow releases by callback")]

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use penstock_ring::{Batch, ColumnView, DType};

use crate::api::{Api, Object, Status};
use crate::failure::{Failure, Kind};
use crate::registry::{Feed, TOTAL};
use crate::string;

/// `TF_DataType`.
pub(crate) fn tensorflow_type(dtype: DType) -> c_int {
    match dtype {
        DType::Float32 => 1,
        DType::Float64 => 2,
        DType::Int32 => 3,
        DType::UInt8 => 4,
        DType::Int16 => 5,
        DType::Int8 => 6,
        DType::String | DType::Bytes => 7,
        DType::Int64 => 9,
        DType::Bool => 10,
        DType::BFloat16 => 14,
        DType::UInt16 => 17,
        DType::Float16 => 19,
        DType::UInt32 => 22,
        DType::UInt64 => 23,
    }
}

/// The outputs of one kernel run.
pub(crate) struct Outputs {
    pub(crate) api: &'static Api,
    /// The kernel's `TF_OpKernelContext`, valid during the run.
    pub(crate) context: Object,
    pub(crate) status: Status,
}

impl Outputs {
    /// Sets output `i` to column `column` of `batch`, which must be of type `want`.
    pub(crate) fn set(
        &mut self,
        i: usize,
        batch: &Arc<Batch>,
        column: usize,
        want: c_int,
        copy: bool,
    ) -> Result<(), Failure> {
        if column >= batch.columns() {
            let text = format!("the batch has {} columns, the graph wants column {column}", batch.columns());
            return Err(Failure::new(Kind::Damaged, text));
        }
        let view = batch.column(column);
        if tensorflow_type(view.dtype) != want {
            let text =
                format!("column {column} is {}, which is not the graph's type {want}", view.dtype.name());
            return Err(Failure::new(Kind::Damaged, text));
        }
        let dims: Vec<i64> = view.dims.iter().map(|&dim| dim as i64).collect();
        match view.offsets {
            Some(offsets) => self.strings(i, &dims, &view, offsets),
            None if copy || view.data.is_empty() => self.copy(i, want, &dims, &view),
            None => self.share(i, want, &dims, column, batch.clone()),
        }
    }

    /// An int64 scalar.
    pub(crate) fn scalar(&mut self, i: usize, value: i64) -> Result<(), Failure> {
        let memory = self.allocate(i, tensorflow_type(DType::Int64), &[], size_of::<i64>())?;
        memory.copy_from_slice(&value.to_ne_bytes());
        Ok(())
    }

    /// What a batch is acknowledged by: feed, epoch, step and rank, int64. The slot, and the connection that
    /// an acknowledgement goes over, are kept until the last copy of it is gone.
    pub(crate) fn token(
        &mut self,
        i: usize,
        words: [i64; 4],
        batch: Arc<Batch>,
        feed: Arc<Feed>,
    ) -> Result<(), Failure> {
        let dims = [words.len() as i64];
        let token = Box::into_raw(Box::new(Token { words, _batch: batch, _feed: feed }));
        let dtype = tensorflow_type(DType::Int64);
        // SAFETY: the words come first in the token, which lives until `forget` takes it back, and may be
        // written.
        let tensor = unsafe {
            (self.api.new_tensor)(
                dtype,
                dims.as_ptr(),
                1,
                token.cast(),
                size_of_val(&words),
                forget,
                token.cast(),
            )
        };
        if tensor.is_null() {
            return Err(Failure::new(Kind::Fault, format!("TensorFlow made no tensor of output {i}")));
        }
        // SAFETY: context and status are alive during the run; the output takes its own reference.
        unsafe { (self.api.set_output)(self.context, i as c_int, tensor, self.status.object()) };
        // SAFETY: this drops our reference, the only one we have.
        unsafe { (self.api.delete_tensor)(tensor) };
        self.status.check("set an output")
    }

    fn share(
        &mut self,
        i: usize,
        dtype: c_int,
        dims: &[i64],
        column: usize,
        guard: Arc<Batch>,
    ) -> Result<(), Failure> {
        let data: Object = guard.pointer(column).cast();
        let bytes = guard.column(column).data.len();
        let guard = Arc::into_raw(guard).cast_mut().cast();
        let rank = dims.len() as c_int;
        // SAFETY: the column lies in the mapping until `release` drops the guard, and has as many bytes
        // as dims and type say. It may be written: TensorFlow does so by a slice that it holds alone.
        let tensor =
            unsafe { (self.api.new_tensor)(dtype, dims.as_ptr(), rank, data, bytes, release, guard) };
        if tensor.is_null() {
            return Err(Failure::new(Kind::Fault, format!("TensorFlow made no tensor of output {i}")));
        }
        // SAFETY: the tensor was just made.
        let copied = unsafe { (self.api.tensor_data)(tensor) } != data;
        let count = if copied { &TOTAL.copied } else { &TOTAL.shared };
        count.fetch_add(1, Ordering::Relaxed);
        // SAFETY: context and status are alive during the run; the output takes its own reference.
        unsafe { (self.api.set_output)(self.context, i as c_int, tensor, self.status.object()) };
        // SAFETY: this drops our reference, the only one we have.
        unsafe { (self.api.delete_tensor)(tensor) };
        self.status.check("set an output")
    }

    fn copy(&mut self, i: usize, dtype: c_int, dims: &[i64], view: &ColumnView<'_>) -> Result<(), Failure> {
        let memory = self.allocate(i, dtype, dims, view.data.len())?;
        memory.copy_from_slice(view.data);
        if !memory.is_empty() {
            TOTAL.copied.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn strings(
        &mut self,
        i: usize,
        dims: &[i64],
        view: &ColumnView<'_>,
        offsets: &[i64],
    ) -> Result<(), Failure> {
        let bytes = (offsets.len() - 1) * string::SIZE;
        let memory = self.allocate(i, tensorflow_type(DType::String), dims, bytes)?;
        // SAFETY: every bit pattern is a u64.
        let (before, words, _) = unsafe { memory.align_to_mut::<u64>() };
        if !before.is_empty() {
            return Err(Failure::new(Kind::Fault, "TensorFlow's strings are not aligned"));
        }
        for (place, ends) in words.as_chunks_mut::<3>().0.iter_mut().zip(offsets.windows(2)) {
            string::write(place, view.data, ends[0] as usize..ends[1] as usize);
        }
        Ok(())
    }

    /// Memory of TensorFlow's own for output `i`, not shared with anybody yet.
    fn allocate(&mut self, i: usize, dtype: c_int, dims: &[i64], bytes: usize) -> Result<&mut [u8], Failure> {
        let (api, status) = (self.api, self.status.object());
        let rank = dims.len() as c_int;
        // SAFETY: context and status are alive during the run, dims has `rank` numbers.
        let tensor = unsafe {
            (api.allocate_output)(self.context, i as c_int, dtype, dims.as_ptr(), rank, bytes, status)
        };
        self.status.check("allocate an output")?;
        // SAFETY: the tensor was just made.
        let data = unsafe { (api.tensor_data)(tensor) };
        // SAFETY: as above.
        let actual = unsafe { (api.tensor_bytes)(tensor) };
        // SAFETY: drops our reference; the context keeps the output's own until the run ends.
        unsafe { (api.delete_tensor)(tensor) };
        if bytes == 0 {
            return Ok(&mut []);
        }
        if data.is_null() || actual < bytes {
            return Err(Failure::new(Kind::Fault, format!("output {i} has {actual} bytes of {bytes}")));
        }
        // SAFETY: the output's buffer has these bytes, nobody else sees it before the run ends, and the
        // context keeps it alive until then, which is longer than the borrow of `self`.
        Ok(unsafe { std::slice::from_raw_parts_mut(data.cast::<u8>(), bytes) })
    }
}

/// Aligned as TensorFlow wants it, for it copies a buffer that is not, and lets go of it.
#[repr(C, align(128))]
struct Token {
    words: [i64; 4],
    _batch: Arc<Batch>,
    _feed: Arc<Feed>,
}

/// TensorFlow's callback when the last tensor over a token is gone.
unsafe extern "C" fn forget(_data: Object, _bytes: usize, token: Object) {
    // SAFETY: `token` made the pointer by into_raw, and TensorFlow calls back once.
    drop(unsafe { Box::from_raw(token.cast::<Token>()) });
}

/// TensorFlow's callback when the last tensor over a column is gone.
unsafe extern "C" fn release(_data: Object, _bytes: usize, guard: Object) {
    // SAFETY: `share` made the pointer by into_raw, and TensorFlow calls back once.
    drop(unsafe { Arc::from_raw(guard.cast_const().cast::<Batch>()) });
}

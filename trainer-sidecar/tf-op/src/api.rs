//! TensorFlow's C API, found in the running process.
//!
//! *In:* the process. *Out:* a table of functions, or which one is missing. *Promise:* nothing is
//! loaded that was not loaded before; a TensorFlow without one of these functions is refused as a
//! whole, in words.
#![expect(unsafe_code, reason = "symbols found by name get their C type here, and only here")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::failure::{Failure, Kind};

/// An opaque object of TensorFlow's.
pub(crate) type Object = *mut c_void;
pub(crate) type Create = unsafe extern "C" fn(Object) -> Object;
pub(crate) type Compute = unsafe extern "C" fn(Object, Object);
pub(crate) type Delete = unsafe extern "C" fn(Object);
pub(crate) type Deallocate = unsafe extern "C" fn(Object, usize, Object);
pub(crate) type ShapeFunction = unsafe extern "C" fn(Object, Object);

macro_rules! api {
    ($($name:ident: $symbol:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions used, under their own names less the prefix.
        pub(crate) struct Api { $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Api {
            fn find() -> Result<Api, String> {
                let library = loaded()?;
                Ok(Api { $($name: {
                    let symbol = symbol(library, concat!(stringify!($symbol), "\0"))?;
                    // SAFETY: the signature is that of TensorFlow's headers `c_api.h`, `tf_tensor.h`,
                    // `kernels.h`, `ops.h` and `tf_status.h`; they are a stable C interface.
                    unsafe { std::mem::transmute::<Object, unsafe extern "C" fn($($argument),*) $(-> $result)?>(symbol) }
                },)* })
            }
        }
    };
}

api! {
    new_status: TF_NewStatus() -> Object;
    delete_status: TF_DeleteStatus(Object);
    set_status: TF_SetStatus(Object, c_int, *const c_char);
    get_code: TF_GetCode(Object) -> c_int;
    message: TF_Message(Object) -> *const c_char;
    new_op: TF_NewOpDefinitionBuilder(*const c_char) -> Object;
    op_attr: TF_OpDefinitionBuilderAddAttr(Object, *const c_char);
    op_input: TF_OpDefinitionBuilderAddInput(Object, *const c_char);
    op_output: TF_OpDefinitionBuilderAddOutput(Object, *const c_char);
    op_stateful: TF_OpDefinitionBuilderSetIsStateful(Object, bool);
    op_shape: TF_OpDefinitionBuilderSetShapeInferenceFunction(Object, ShapeFunction);
    register_op: TF_RegisterOpDefinition(Object, Object);
    unknown_shape: TF_ShapeInferenceContextSetUnknownShape(Object, Object);
    new_kernel: TF_NewKernelBuilder(*const c_char, *const c_char, Create, Compute, Delete) -> Object;
    host_memory: TF_KernelBuilder_HostMemory(Object, *const c_char);
    register_kernel: TF_RegisterKernelBuilder(*const c_char, Object, Object);
    attr_size: TF_OpKernelConstruction_GetAttrSize(Object, *const c_char, *mut i32, *mut i32, Object);
    attr_string: TF_OpKernelConstruction_GetAttrString(Object, *const c_char, *mut c_char, usize, Object);
    attr_types: TF_OpKernelConstruction_GetAttrTypeList(Object, *const c_char, *mut c_int, c_int, Object);
    attr_ints: TF_OpKernelConstruction_GetAttrInt64List(Object, *const c_char, *mut i64, c_int, Object);
    construction_failure: TF_OpKernelConstruction_Failure(Object, Object);
    context_failure: TF_OpKernelContext_Failure(Object, Object);
    input: TF_GetInput(Object, c_int, *mut Object, Object);
    set_output: TF_SetOutput(Object, c_int, Object, Object);
    allocate_output: TF_AllocateOutput(Object, c_int, c_int, *const i64, c_int, usize, Object) -> Object;
    new_tensor: TF_NewTensor(c_int, *const i64, c_int, Object, usize, Deallocate, Object) -> Object;
    delete_tensor: TF_DeleteTensor(Object);
    tensor_data: TF_TensorData(Object) -> Object;
    tensor_bytes: TF_TensorByteSize(Object) -> usize;
}

static API: OnceLock<Api> = OnceLock::new();

/// The table, once TensorFlow is in the process.
pub(crate) fn find() -> Result<&'static Api, Failure> {
    if let Some(api) = API.get() {
        return Ok(api);
    }
    let found = Api::find().map_err(|missing| Failure::new(Kind::Argument, missing))?;
    Ok(API.get_or_init(|| found))
}

/// The table inside a kernel, which only a registration through the table can have made run.
pub(crate) fn registered() -> &'static Api {
    API.get().expect("kernels are registered through the table")
}

fn loaded() -> Result<Object, String> {
    // TensorFlow's Python package loads it without RTLD_GLOBAL, so it must be asked for by name.
    // SAFETY: a C string, and no library is loaded or unloaded: RTLD_NOLOAD only looks.
    let library =
        unsafe { libc::dlopen(c"libtensorflow_framework.so.2".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return Err("TensorFlow is not loaded in this process: import tensorflow first".into());
    }
    Ok(library)
}

fn symbol(library: Object, name: &str) -> Result<Object, String> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("names end with a zero");
    // SAFETY: the library was found loaded, and TensorFlow is never unloaded.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    if symbol.is_null() {
        return Err(format!(
            "this TensorFlow has no {}; penstock needs 2.15 or newer",
            name.to_string_lossy()
        ));
    }
    Ok(symbol)
}

/// A status object of TensorFlow's, deleted on drop.
pub(crate) struct Status {
    api: &'static Api,
    object: Object,
}

impl Status {
    pub(crate) fn new(api: &'static Api) -> Status {
        // SAFETY: takes nothing.
        Status { api, object: unsafe { (api.new_status)() } }
    }

    /// For functions that report through it.
    pub(crate) fn object(&self) -> Object {
        self.object
    }

    pub(crate) fn set(&self, failure: &Failure) {
        let text: Vec<u8> = failure.message.bytes().filter(|&byte| byte != 0).collect();
        let text = std::ffi::CString::new(text).expect("zeros were taken out");
        // SAFETY: the status is ours and alive, and the text is copied.
        unsafe { (self.api.set_status)(self.object, failure.tensorflow(), text.as_ptr()) };
    }

    /// What the last function reported.
    pub(crate) fn check(&self, what: &str) -> Result<(), Failure> {
        // SAFETY: the status is ours and alive.
        if unsafe { (self.api.get_code)(self.object) } == 0 {
            return Ok(());
        }
        // SAFETY: as above.
        let text = unsafe { (self.api.message)(self.object) };
        // SAFETY: the text ends with a zero and lives as long as the status is not set again.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        Err(Failure::new(Kind::Fault, format!("{what}: {text}")))
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        // SAFETY: made by new_status, deleted once.
        unsafe { (self.api.delete_status)(self.object) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tensorflow_the_reason_is_said() {
        let failure = find().err().unwrap();
        assert_eq!(failure.message, "TensorFlow is not loaded in this process: import tensorflow first");
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Files that take input.

use core::fmt;

use kernel::{
    bindings,
    error::{
        from_result,
        to_result, //
    },
    ffi::{
        c_char,
        c_int,
        c_void, //
    },
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice, //
    },
};

use super::{
    super::context,
    Node,
    Readable,
    PINNING, //
};

/// A file that can be written.
pub(crate) trait Writable: Send + Sync + 'static {
    /// Returns the length of the longest input that the file takes, in bytes.
    fn max_len(&self) -> usize;

    /// Takes the whole input of one `write()`. Process context, may sleep.
    fn write(&self, input: &[u8]) -> Result;

    /// Returns the error for input that is not passed to [`Writable::write`], and logs `why`.
    ///
    /// `input` may be truncated.
    fn refuse(&self, input: &[u8], why: fmt::Arguments<'_>) -> Error;
}

impl<T: Readable + Writable> Node<T> {
    /// The operations of [`Tree::read_write`](super::Tree::read_write).
    pub(super) const READ_WRITE: &'static bindings::file_operations = &bindings::file_operations {
        write: Some(Self::write),
        ..*Self::READ_ONLY
    };
}

impl<T: Writable> Node<T> {
    /// The operations of [`Tree::write_only`](super::Tree::write_only).
    pub(super) const WRITE_ONLY: &'static bindings::file_operations = &bindings::file_operations {
        open: Some(Self::open_write_only),
        read: Some(bindings::seq_read),
        write: Some(Self::write),
        llseek: Some(bindings::seq_lseek),
        release: Some(bindings::single_release),
        ..PINNING
    };

    /// # Safety
    ///
    /// Must be called by debugfs, to open a file whose inode points to a `Node<T>`.
    unsafe extern "C" fn open_write_only(
        inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> c_int {
        from_result(|| {
            // SAFETY: This is the `open` operation, of a file for a `T` by the safety requirement.
            unsafe { Self::of_opened(inode) }?;
            // A `seq_file` without a text handles the file's position as for a readable file.
            //
            // SAFETY: `file` is being opened, and `show_nothing` uses no data.
            to_result(unsafe {
                bindings::single_open(file, Some(Self::show_nothing), core::ptr::null_mut())
            })?;
            Ok(0)
        })
    }

    extern "C" fn show_nothing(_: *mut bindings::seq_file, _: *mut c_void) -> c_int {
        EINVAL.to_errno()
    }

    /// # Safety
    ///
    /// Must be called by debugfs, on an open file whose inode points to a `Node<T>`.
    unsafe extern "C" fn write(
        file: *mut bindings::file,
        buffer: *const c_char,
        count: usize,
        position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: By the safety requirement. The node lives while the file is open.
        let node = unsafe { &*(*(*file).f_inode).i_private.cast::<Self>() };
        // SAFETY: The caller passes a valid position.
        let position = unsafe { *position };
        let buffer = UserPtr::from_ptr(buffer.cast_mut().cast());
        from_result(|| {
            take_input(&node.file, buffer, count, position)?;
            Ok(count as isize)
        })
    }
}

/// Passes the `count` bytes at `buffer` to `file`, unless they are too many or not at offset 0.
fn take_input(
    file: &dyn Writable,
    buffer: UserPtr,
    count: usize,
    position: bindings::loff_t,
) -> Result {
    context::might_sleep();
    let max = file.max_len();
    let len = count.min(max);
    // Short input needs no memory: what is done without any can be asked for without any.
    let (mut short, mut long) = ([0; 64], KVec::new());
    let input = match short.get_mut(..len) {
        Some(input) => input,
        None => {
            long.resize(len, 0, GFP_KERNEL)?;
            &mut long[..]
        }
    };
    UserSlice::new(buffer, len).reader().read_slice(input)?;
    if len != count {
        return Err(file.refuse(input, format_args!("longer than {max} bytes")));
    }
    if position != 0 {
        return Err(file.refuse(
            input,
            format_args!("written at offset {position}, must start at offset 0"),
        ));
    }
    file.write(input)
}

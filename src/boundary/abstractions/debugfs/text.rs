// SPDX-License-Identifier: GPL-2.0

//! Files that can be read as a text.
//!
//! C header: [`include/linux/seq_file.h`](srctree/include/linux/seq_file.h)

use core::{
    fmt,
    marker::PhantomData,
    ptr::NonNull, //
};

use kernel::{
    bindings,
    error::{
        from_result,
        to_result, //
    },
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::atomic::Relaxed, //
};

use super::{
    super::context,
    Node,
    PINNING, //
};

/// A file that can be read.
pub(crate) trait Readable: Send + Sync + 'static {
    /// Estimates the length of the text in bytes. A text that exceeds the estimate has to be
    /// produced again. `last_len` is the length of the last text, or 0.
    fn size_hint(&self, last_len: usize) -> usize;

    /// Writes the text of the file. Process context, may sleep.
    ///
    /// Called again if the text did not fit, and so must not have side effects.
    fn show(&self, out: &mut Text<'_>) -> Result;
}

/// The text of a file that is being read.
///
/// Holds a pointer, not a reference: other tasks may access the lock in the `seq_file` while its
/// text is produced.
///
/// # Invariants
///
/// `seq` points to a `seq_file` that is valid for `'a`. The caller of [`Node::show`] holds its
/// lock.
pub(crate) struct Text<'a> {
    seq: NonNull<bindings::seq_file>,
    _lifetime: PhantomData<&'a bindings::seq_file>,
}

impl Text<'_> {
    /// Appends bytes, which need not be text.
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        // It is no error if the bytes do not fit: `seq_read()` then enlarges its buffer and
        // produces the text again.
        //
        // SAFETY: `seq` is valid by the type's invariant, and `bytes` for its length.
        unsafe {
            bindings::seq_write(
                self.seq.as_ptr(),
                bytes.as_ptr().cast::<c_void>(),
                bytes.len(),
            )
        };
    }

    /// Discards everything that was written.
    pub(crate) fn clear(&mut self) {
        // SAFETY: `seq` is valid and locked by the type's invariant. A file has one record only, so
        // that everything in the buffer was written through `self`.
        unsafe { (*self.seq.as_ptr()).count = 0 };
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.write_bytes(s.as_bytes());
        Ok(())
    }
}

impl<T: Readable> Node<T> {
    /// The operations of [`Tree::read_only`](super::Tree::read_only).
    pub(super) const READ_ONLY: &'static bindings::file_operations = &bindings::file_operations {
        open: Some(Self::open),
        read: Some(bindings::seq_read),
        llseek: Some(bindings::seq_lseek),
        release: Some(bindings::single_release),
        ..PINNING
    };

    /// # Safety
    ///
    /// Must be called by debugfs, to open a file whose inode points to a `Node<T>`.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        from_result(|| {
            // SAFETY: This is the `open` operation, of a file for a `T` by the safety requirement.
            // The node is not used after the file is closed.
            let node = unsafe { Self::of_opened(inode) }?;
            let size = node.file.size_hint(node.last_len.load(Relaxed));
            let private = core::ptr::from_ref(node).cast_mut().cast();
            // SAFETY: `file` is being opened, and `show` expects a pointer to a node.
            to_result(unsafe {
                bindings::single_open_size(file, Some(Self::show), private, size)
            })?;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Must be called by `seq_read()` or `seq_lseek()`, on a file that [`Node::open`] opened.
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
        // SAFETY: `open` put a pointer to the node there. The node lives while the file is open.
        let node = unsafe { &*(*seq).private.cast::<Self>() };
        from_result(|| {
            context::might_sleep();
            // INVARIANT: The caller passes a valid `seq_file`, and holds its lock meanwhile.
            let mut text = Text {
                seq: NonNull::new(seq).ok_or(EINVAL)?,
                _lifetime: PhantomData,
            };
            node.file.show(&mut text)?;
            // SAFETY: The caller passes a valid `seq_file`, and holds its lock meanwhile.
            let (len, size) = unsafe { ((*seq).count, (*seq).size) };
            // A text that did not fit was truncated.
            if len < size {
                node.last_len.store(len, Relaxed);
            }
            Ok(0)
        })
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Files in debugfs that pin the module.
//!
//! Not `kernel::debugfs`: its file operations have no `.owner`, so that a module can be unloaded
//! while one of its files is open, and the later `close()` runs into freed memory.
//!
//! C headers: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h),
//! [`include/linux/seq_file.h`](srctree/include/linux/seq_file.h)

use core::{
    fmt,
    marker::PhantomData,
    ptr::NonNull,
    sync::atomic::{
        AtomicBool,
        AtomicUsize,
        Ordering, //
    },
};

use kernel::{
    bindings,
    error::{
        from_err_ptr,
        from_result, //
    },
    ffi::{
        c_char,
        c_int,
        c_void, //
    },
    prelude::*,
    str::CStr,
    sync::Arc,
    uaccess::{
        UserPtr,
        UserSlice, //
    },
};

use crate::boundary::{
    abstractions::context,
    log, //
};
use crate::engine::format::raw;

mod stream;

pub(crate) use stream::{
    Line,
    Stream, //
};

/// The longest text that may be written to a file, in bytes.
const INPUT_MAX: usize = 256;

/// What stands behind a file. Its text is the name that the kernel log has for it.
pub(crate) trait File: fmt::Display + Send + Sync + 'static {
    /// Guesses the length of the text in bytes; a good guess saves producing it again. `last` is how
    /// long it was the last time, or 0.
    fn size_hint(&self, last: usize) -> usize;

    /// Writes the text of the file. Process context, may sleep.
    ///
    /// Called again when the text did not fit, and so must have no effect of its own.
    fn show(&self, out: &mut Text<'_>) -> Result;

    /// Takes what was written to the file, in one piece. Process context, may sleep.
    fn write(&self, input: &[u8]) -> Result;

    /// For a file that is a stream, returns what of. It has no other text.
    fn stream(&self) -> Option<&dyn Stream> {
        None
    }
}

/// The text of a file that is being read.
///
/// A pointer, as others take the lock that is in a `seq_file` while its text is produced.
///
/// # Invariants
///
/// Points to a `seq_file` that is valid for `'a`, and whose lock is held for us.
pub(crate) struct Text<'a> {
    seq: NonNull<bindings::seq_file>,
    _lifetime: PhantomData<&'a bindings::seq_file>,
}

impl Text<'_> {
    /// Takes back all that was written.
    pub(crate) fn clear(&mut self) {
        // SAFETY: By the type's invariant; and of all files there is one record, so that what is there
        // was written here.
        unsafe { (*self.seq.as_ptr()).count = 0 };
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        // What does not fit is not an error here: `seq_read()` enlarges its buffer, and the text
        // is produced again.
        //
        // SAFETY: By the type's invariant; and the string is as long as it says.
        unsafe { bindings::seq_write(self.seq.as_ptr(), s.as_ptr().cast::<c_void>(), s.len()) };
        Ok(())
    }
}

impl raw::Sink for Text<'_> {
    fn write(&mut self, bytes: &[u8]) {
        // As above, what does not fit is no error.
        //
        // SAFETY: By the type's invariant; and the bytes are as many as the slice says.
        unsafe {
            bindings::seq_write(
                self.seq.as_ptr(),
                bytes.as_ptr().cast::<c_void>(),
                bytes.len(),
            )
        };
    }
}

/// What a file's inode points to.
struct Node<T> {
    file: T,
    published: Arc<AtomicBool>,
    /// How long its text was the last time, or 0.
    last_len: AtomicUsize,
}

impl<T: File> Node<T> {
    /// Makes the text of the file.
    ///
    /// # Safety
    ///
    /// `seq` must point to a valid `seq_file` whose lock is held for us.
    unsafe fn show(&self, seq: *mut bindings::seq_file) -> Result<c_int> {
        context::might_sleep();
        // INVARIANT: By the safety requirement.
        let mut text = Text {
            seq: NonNull::new(seq).ok_or(EINVAL)?,
            _lifetime: PhantomData,
        };
        self.file.show(&mut text)?;
        // SAFETY: By the safety requirement.
        let (len, size) = unsafe { ((*seq).count, (*seq).size) };
        // Not when it did not fit.
        if len < size {
            self.last_len.store(len, Ordering::Relaxed);
        }
        Ok(0)
    }
}

/// Who may do what with a file. All files are root's.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    /// It can be read.
    ReadOnly,
    /// It can be read and written.
    ReadWrite,
    /// It can be written.
    WriteOnly,
}

/// Names a folder of a [`Tree`], as its place among [`Tree::folders`]; none for the tree's own.
#[derive(Clone, Copy)]
pub(crate) struct Folder(Option<usize>);

/// A folder in debugfs with all that is below it.
///
/// Its files cannot be opened before [`Tree::publish`]. An open file holds a reference to the
/// module, which therefore cannot be unloaded. So there is no open file when a tree is dropped,
/// neither in a load that fails after all nor in an unload.
///
/// Dropping it removes the folder, waits for who is just inside one of the files, and then lets go
/// of what stands behind them. It sleeps.
///
/// # Invariants
///
/// `root` is a folder of ours in debugfs, and so are `folders`, below it: they are there as long as it is.
/// The inodes of the files below it point to elements of `nodes`, which stay where they are as long as `root`
/// is there.
pub(crate) struct Tree<T: File> {
    root: NonNull<bindings::dentry>,
    folders: KVec<NonNull<bindings::dentry>>,
    nodes: KVec<KBox<Node<T>>>,
    published: Arc<AtomicBool>,
}

// SAFETY: The functions of debugfs can be called from any thread, and `T` is `Send` and `Sync`.
unsafe impl<T: File> Send for Tree<T> {}

// SAFETY: As above; and nothing can be done with a shared reference but name the root, and publish.
unsafe impl<T: File> Sync for Tree<T> {}

impl<T: File> Tree<T> {
    /// Creates the folder `name`. Sleeps.
    ///
    /// Fails with `EEXIST` when it is already there, with `EPERM` when debugfs is off, and with
    /// `ENOMEM`.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        let published = Arc::new(AtomicBool::new(false), GFP_KERNEL)?;
        // SAFETY: No parent means the root of debugfs.
        let root = unsafe { create_folder(name, core::ptr::null_mut()) }?;
        // INVARIANT: Just created, with nothing in it.
        Ok(Self {
            root,
            folders: KVec::new(),
            nodes: KVec::new(),
            published,
        })
    }

    /// Returns the folder itself.
    pub(crate) fn root(&self) -> Folder {
        Folder(None)
    }

    /// Returns a folder of ours; fails with `EINVAL` where it is of another, larger tree.
    fn dentry(&self, folder: Folder) -> Result<NonNull<bindings::dentry>> {
        match folder.0 {
            None => Ok(self.root),
            Some(place) => self.folders.get(place).copied().ok_or(EINVAL),
        }
    }

    /// Creates a folder. Sleeps; errors as for [`Tree::new`].
    pub(crate) fn folder(&mut self, parent: Folder, name: &CStr) -> Result<Folder> {
        // SAFETY: By the invariant the parent is there as long as we are.
        let folder = unsafe { create_folder(name, self.dentry(parent)?.as_ptr()) }?;
        let place = self.folders.len();
        // INVARIANT: Just created, below `root`. Without memory to note it here it is removed with that.
        self.folders.push(folder, GFP_KERNEL)?;
        Ok(Folder(Some(place)))
    }

    /// Creates a file. Sleeps; errors as for [`Tree::new`].
    pub(crate) fn file(&mut self, parent: Folder, name: &CStr, mode: Mode, file: T) -> Result {
        let parent = self.dentry(parent)?;
        let node = Node {
            file,
            published: self.published.clone(),
            last_len: AtomicUsize::new(0),
        };
        self.nodes.push(KBox::new(node, GFP_KERNEL)?, GFP_KERNEL)?;
        let Some(node) = self.nodes.last() else {
            return Err(ENOMEM);
        };
        let (permissions, operations) = match mode {
            Mode::ReadOnly => (0o400, Self::OPERATIONS_READ_ONLY),
            Mode::ReadWrite => (0o600, Self::OPERATIONS),
            Mode::WriteOnly => (0o200, Self::OPERATIONS),
        };
        // SAFETY: The name is a C string and the parent a folder of ours. The node is a box, so
        // that it stays where it is, and is dropped after the file is gone; the operations are
        // those of a `T`, and static.
        from_err_ptr(unsafe {
            bindings::debugfs_create_file_full(
                name.as_char_ptr(),
                permissions,
                parent.as_ptr(),
                core::ptr::from_ref::<Node<T>>(node).cast_mut().cast(),
                core::ptr::null(),
                match node.file.stream() {
                    None => operations,
                    Some(_) => Self::OPERATIONS_OF_STREAM,
                },
            )
        })?;
        Ok(())
    }

    /// Lets the files be opened. To be called when nothing can fail any more.
    pub(crate) fn publish(&self) {
        self.published.store(true, Ordering::Release);
    }

    const OPERATIONS: &'static bindings::file_operations = &bindings::file_operations {
        // Pins the module while a file is open.
        owner: &raw mut bindings::__this_module,
        open: Some(Self::open),
        read: Some(bindings::seq_read),
        write: Some(Self::write),
        llseek: Some(bindings::seq_lseek),
        release: Some(bindings::single_release),
        ..pin_init::zeroed()
    };

    /// Root can open these for writing all the same; `write()` then fails with `EINVAL`.
    const OPERATIONS_READ_ONLY: &'static bindings::file_operations = &bindings::file_operations {
        write: None,
        ..*Self::OPERATIONS
    };

    /// # Safety
    ///
    /// Must be called by debugfs, to open a file of a tree of `T`.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: debugfs set `i_private` to the node, and lets nobody remove the file meanwhile.
        let private = unsafe { (*inode).i_private };
        context::might_sleep();
        // SAFETY: As above.
        let node = unsafe { &*private.cast::<Node<T>>() };
        if !node.published.load(Ordering::Acquire) {
            return EAGAIN.to_errno();
        }
        let size = node.file.size_hint(node.last_len.load(Ordering::Relaxed));
        // SAFETY: `file` is being opened, and `show` expects a pointer to a node.
        unsafe { bindings::single_open_size(file, Some(Self::show), private, size) }
    }

    /// # Safety
    ///
    /// Must be called by `seq_read()`, on a file that [`Tree::open`] opened.
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
        // SAFETY: `open` put the node there. debugfs lets nobody remove the file meanwhile.
        let node = unsafe { &*(*seq).private.cast::<Node<T>>() };
        // SAFETY: `seq_read()` holds the lock until this returns.
        from_result(|| unsafe { node.show(seq) })
    }

    /// # Safety
    ///
    /// Must be called by debugfs, on a file that [`Tree::open`] opened.
    unsafe extern "C" fn write(
        file: *mut bindings::file,
        buffer: *const c_char,
        count: usize,
        position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: debugfs set `i_private` of the file's inode to the node, and lets nobody remove the
        // file meanwhile.
        let node = unsafe { &*(*(*file).f_inode).i_private.cast::<Node<T>>() };
        // SAFETY: The caller passes a valid position.
        let position = unsafe { *position };
        let buffer = UserPtr::from_ptr(buffer.cast_mut().cast());
        from_result(|| {
            context::might_sleep();
            let mut input = [0; INPUT_MAX];
            let len = count.min(INPUT_MAX);
            let input = input.get_mut(..len).ok_or(EINVAL)?;
            UserSlice::new(buffer, len).reader().read_slice(input)?;
            if len == count && position == 0 {
                node.file.write(input)?;
                return Ok(count as isize);
            }
            let refused =
                |why: fmt::Arguments<'_>| Err(log::refused(&node.file, input.trim_ascii(), why));
            if len != count {
                return refused(format_args!("longer than {INPUT_MAX} bytes"));
            }
            refused(format_args!(
                "written at offset {position}, must start at offset 0"
            ))
        })
    }
}

impl<T: File> Drop for Tree<T> {
    fn drop(&mut self) {
        context::might_sleep();
        // Removes all that is below, too, and waits for who is inside. The nodes go after this.
        //
        // SAFETY: A folder of ours, by the type's invariant.
        unsafe { bindings::debugfs_remove(self.root.as_ptr()) };
    }
}

/// Creates a folder in debugfs.
///
/// # Safety
///
/// `parent` must be null, or a folder in debugfs.
unsafe fn create_folder(
    name: &CStr,
    parent: *mut bindings::dentry,
) -> Result<NonNull<bindings::dentry>> {
    // SAFETY: The name is a C string; and by the safety requirement.
    let folder = from_err_ptr(unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), parent) })?;
    NonNull::new(folder).ok_or(ENOMEM)
}

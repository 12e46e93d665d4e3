// SPDX-License-Identifier: GPL-2.0

//! Files in debugfs that pin the module.
//!
//! A file is a type that implements [`Readable`], [`Writable`] or both, or [`Stream`]. A [`Tree`]
//! holds files of any such types. Each type gets file operations of its own, with only those that
//! it implements.
//!
//! This does not use `kernel::debugfs`: its file operations have no `.owner`, so that a module can
//! be unloaded while one of its files is open. The later `close()` then runs into freed memory.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

use core::ptr::NonNull;

use kernel::{
    error::from_err_ptr,
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    },
};

use super::{
    bindings,
    context, //
};

mod input;
mod stream;
mod text;

pub(crate) use input::Writable;
pub(crate) use stream::{
    Line,
    Stream, //
};
pub(crate) use text::{
    Readable,
    Text, //
};

/// The base of all file operations: an open file pins the module.
const PINNING: bindings::file_operations = bindings::file_operations {
    owner: &raw mut bindings::__this_module,
    ..pin_init::zeroed()
};

/// The data that the inode of a file of type `T` points to.
struct Node<T> {
    file: T,
    published: Arc<Atomic<bool>>,
    /// The length of the text of a [`Readable`] file when it was last shown; 0 if it never was.
    last_len: Atomic<usize>,
}

impl<T> Node<T> {
    /// Returns the node of a file that is being opened. Fails with `EAGAIN` before
    /// [`Tree::publish`].
    ///
    /// # Safety
    ///
    /// Must be called from the `open` operation of a file that [`Tree::file`] created for a `T`,
    /// with the file's inode. The node must not be used after the file is closed.
    unsafe fn of_opened<'a>(inode: *mut bindings::inode) -> Result<&'a Self> {
        context::might_sleep();
        // SAFETY: By the safety requirement `i_private` is the pointer that `Tree::file` passed to
        // debugfs. The node lives until `debugfs_remove()` has returned, which waits for this
        // operation. Once open, the file pins the module, so that the tree is not dropped.
        let node = unsafe { &*(*inode).i_private.cast::<Self>() };
        match node.published.load(Acquire) {
            true => Ok(node),
            false => Err(EAGAIN),
        }
    }
}

/// Identifies a folder of a [`Tree`]: an index into [`Tree::folders`], or `None` for the tree's
/// own.
#[derive(Clone, Copy)]
pub(crate) struct Folder(Option<usize>);

/// A folder in debugfs with everything below it.
///
/// Its files cannot be opened before [`Tree::publish`]. An open file holds a reference to the
/// module, which therefore cannot be unloaded. So no file is open when a tree is dropped, neither
/// after a failed load nor during an unload.
///
/// All files belong to root. Their types may differ: the tree keeps each file in a box whose type
/// is erased, and only the file's operations know the type.
///
/// Dropping the tree removes the folder, waits for operations that are still running, and then
/// drops the files. It sleeps.
///
/// # Invariants
///
/// `root` is a folder of ours in debugfs, and so are `folders`, below it: they exist as long as
/// `root`. The inode of each file below `root` points to the contents of one of the boxes in
/// `nodes`, which are not moved or dropped as long as `root` exists.
pub(crate) struct Tree {
    root: NonNull<bindings::dentry>,
    folders: KVec<NonNull<bindings::dentry>>,
    nodes: KVec<KBox<dyn Send + Sync>>,
    published: Arc<Atomic<bool>>,
}

// SAFETY: The functions of debugfs can be called from any thread, and `nodes` are `Send`.
unsafe impl Send for Tree {}

// SAFETY: A shared reference gives access to `published` only, which is `Sync`.
unsafe impl Sync for Tree {}

impl Tree {
    /// Creates the folder `name`. Sleeps.
    ///
    /// Fails with `EEXIST` if it is already there, with `EPERM` if debugfs is off, and with
    /// `ENOMEM`.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        let published = Arc::new(Atomic::new(false), GFP_KERNEL)?;
        // SAFETY: No parent means the root of debugfs.
        let root = unsafe { create_folder(name, core::ptr::null_mut()) }?;
        // INVARIANT: The folder was just created, with nothing in it.
        Ok(Self {
            root,
            folders: KVec::new(),
            nodes: KVec::new(),
            published,
        })
    }

    pub(crate) fn root(&self) -> Folder {
        Folder(None)
    }

    /// Returns the dentry of `folder`. Fails with `EINVAL` if the folder is of another, larger
    /// tree.
    fn dentry(&self, folder: Folder) -> Result<NonNull<bindings::dentry>> {
        match folder.0 {
            None => Ok(self.root),
            Some(place) => self.folders.get(place).copied().ok_or(EINVAL),
        }
    }

    /// Creates a folder. Sleeps; errors as for [`Tree::new`].
    pub(crate) fn folder(&mut self, parent: Folder, name: &CStr) -> Result<Folder> {
        // SAFETY: By the type's invariant the parent is a folder that exists as long as the tree.
        let folder = unsafe { create_folder(name, self.dentry(parent)?.as_ptr()) }?;
        let place = self.folders.len();
        // INVARIANT: The folder was just created, below `root`. If this fails, dropping the tree
        // removes the folder with `root`.
        self.folders.push(folder, GFP_KERNEL)?;
        Ok(Folder(Some(place)))
    }

    /// Creates a file that can be read. Sleeps; errors as for [`Tree::new`].
    ///
    /// Root can still open it for writing; `write()` then fails with `EINVAL`.
    pub(crate) fn read_only<T: Readable>(
        &mut self,
        parent: Folder,
        name: &CStr,
        file: T,
    ) -> Result {
        // SAFETY: These are operations of a `Node<T>`.
        unsafe { self.file(parent, name, 0o400, Node::<T>::READ_ONLY, file) }
    }

    /// Creates a file that can be read and written. Sleeps; errors as for [`Tree::new`].
    pub(crate) fn read_write<T: Readable + Writable>(
        &mut self,
        parent: Folder,
        name: &CStr,
        file: T,
    ) -> Result {
        // SAFETY: These are operations of a `Node<T>`.
        unsafe { self.file(parent, name, 0o600, Node::<T>::READ_WRITE, file) }
    }

    /// Creates a file that can be written. Sleeps; errors as for [`Tree::new`].
    ///
    /// Root can still open it for reading; `read()` then fails with `EINVAL`.
    pub(crate) fn write_only<T: Writable>(
        &mut self,
        parent: Folder,
        name: &CStr,
        file: T,
    ) -> Result {
        // SAFETY: These are operations of a `Node<T>`.
        unsafe { self.file(parent, name, 0o200, Node::<T>::WRITE_ONLY, file) }
    }

    /// Creates a file whose reads block until there is something new. Sleeps; errors as for
    /// [`Tree::new`].
    pub(crate) fn stream<T: Stream>(&mut self, parent: Folder, name: &CStr, file: T) -> Result {
        // SAFETY: These are operations of a `Node<T>`.
        unsafe { self.file(parent, name, 0o400, Node::<T>::STREAM, file) }
    }

    /// Creates a file with these permissions and operations. Sleeps; errors as for [`Tree::new`],
    /// and `EBUSY` after [`Tree::publish`].
    ///
    /// # Safety
    ///
    /// `operations` must be for files whose inode points to a `Node<T>`.
    unsafe fn file<T: Send + Sync + 'static>(
        &mut self,
        parent: Folder,
        name: &CStr,
        permissions: u16,
        operations: &'static bindings::file_operations,
        file: T,
    ) -> Result {
        // The file is opened at once, which must fail.
        if self.published.load(Acquire) {
            return Err(EBUSY);
        }
        let parent = self.dentry(parent)?;
        let node = KBox::new(
            Node {
                file,
                published: self.published.clone(),
                last_len: Atomic::new(0),
            },
            GFP_KERNEL,
        )?;
        let private = core::ptr::from_ref::<Node<T>>(&node).cast_mut().cast();
        self.nodes.push(node, GFP_KERNEL)?;
        // SAFETY: The name is a C string, and the parent a folder of ours. The node is in a box, so
        // that it does not move, and is dropped after the file is removed. The operations are
        // static, and fit the node by the safety requirement; they refuse to open the file, as it
        // is not published, and do not look at the `struct file`, of which most is missing.
        from_err_ptr(unsafe {
            bindings::schedhist_create_file(
                name.as_char_ptr(),
                permissions,
                parent.as_ptr(),
                private,
                operations,
            )
        })?;
        Ok(())
    }

    /// Allows the files to be opened. To be called once loading the module cannot fail any more.
    pub(crate) fn publish(&self) {
        self.published.store(true, Release);
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        context::might_sleep();
        // Removes everything below `root`, too, and waits for running operations. The fields,
        // `nodes` among them, are dropped after this.
        //
        // SAFETY: `root` is a folder of ours by the type's invariant.
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
    // SAFETY: The name is a C string; the parent is valid by the safety requirement.
    let folder = from_err_ptr(unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), parent) })?;
    NonNull::new(folder).ok_or(ENOMEM)
}

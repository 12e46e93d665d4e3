// SPDX-License-Identifier: GPL-2.0

//! Files whose reader waits until there is something new to show.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{
        Acquire,
        Relaxed, //
    }, //
};

use kernel::{
    error::from_result,
    prelude::*, //
};

use super::{
    bindings,
    c_char,
    c_int,
    c_void,
    File,
    Node,
    Tree, //
};
use crate::boundary::{
    bell::Bell,
    bindings as ours, //
};

/// What the reader of a file waits for: things that are numbered, and come one after the other.
pub(crate) trait News {
    /// Returns the bell that is rung when there is something new.
    fn bell(&self) -> &Bell;

    /// Returns the number of the latest.
    fn latest(&self) -> u64;

    /// Returns the number of the next one after the number `seen`, if there is any.
    fn next_after(&self, seen: u64) -> Option<u64>;
}

/// An open file.
struct Reader<T> {
    /// The node of the file, which is there as long as the file can be open.
    node: *const Node<T>,
    /// Up to which number it has been read.
    seen: AtomicU64,
    /// What the text that is being read is about.
    shown: AtomicU64,
}

impl<T: File> Tree<T> {
    /// The operations of a file with [`File::news`].
    pub(super) const OPERATIONS_OF_NEWS: &'static bindings::file_operations =
        &bindings::file_operations {
            open: Some(Self::open_news),
            read: Some(Self::read_news),
            poll: Some(Self::poll_news),
            release: Some(Self::release_news),
            ..*Self::OPERATIONS
        };

    /// # Safety
    ///
    /// Must be called by debugfs, to open a file of a tree of `T`.
    unsafe extern "C" fn open_news(
        inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> c_int {
        // SAFETY: debugfs set `i_private` to the node, and lets nobody remove the file meanwhile.
        let node = unsafe { (*inode).i_private }.cast::<Node<T>>().cast_const();
        from_result(|| {
            // SAFETY: As above.
            let known = unsafe { &*node };
            if !known.open_for_business.load(Acquire) {
                return Err(EAGAIN);
            }
            let (news, size) = (known.news()?, known.file.size_hint(0));
            let reader = Reader {
                node,
                seen: AtomicU64::new(news.latest()),
                shown: AtomicU64::new(0),
            };
            let reader = KBox::into_raw(KBox::new(reader, GFP_KERNEL)?);
            // SAFETY: `file` is being opened, and `show_news` expects a pointer to a reader.
            let result = unsafe {
                bindings::single_open_size(file, Some(Self::show_news), reader.cast(), size)
            };
            if result != 0 {
                // SAFETY: From `into_raw` above, and nobody else got to know it.
                drop(unsafe { KBox::from_raw(reader) });
                return Ok(result);
            }
            // Who waits in `read()` would hold the lock of the position, on which others who have the
            // same open file would wait, uninterruptibly.
            //
            // SAFETY: Nobody else has the file yet.
            unsafe { ours::schedhist_unlock_position(file) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Must be called by debugfs, to close a file that [`Tree::open_news`] opened.
    unsafe extern "C" fn release_news(
        inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> c_int {
        // SAFETY: By the safety requirement.
        let reader = unsafe { Self::reader_of(file) };
        // SAFETY: As our caller has it.
        let result = unsafe { bindings::single_release(inode, file) };
        // SAFETY: From `into_raw` in `open_news`; nobody has the file any more.
        drop(unsafe { KBox::from_raw(reader) });
        result
    }

    /// # Safety
    ///
    /// `file` must be a file that [`Tree::open_news`] opened.
    unsafe fn reader_of(file: *mut bindings::file) -> *mut Reader<T> {
        // SAFETY: `open_news` put a `seq_file` there, and in that the reader.
        unsafe {
            let seq = (*file).private_data.cast::<bindings::seq_file>();
            (*seq).private.cast()
        }
    }

    /// # Safety
    ///
    /// Must be called by `seq_read()`, on a file that [`Tree::open_news`] opened.
    unsafe extern "C" fn show_news(seq: *mut bindings::seq_file, _: *mut c_void) -> c_int {
        // SAFETY: `open_news` put the reader there, which is there until the file is closed.
        let reader = unsafe { &*(*seq).private.cast::<Reader<T>>() };
        // SAFETY: debugfs lets nobody remove the file meanwhile.
        let node = unsafe { &*reader.node };
        // SAFETY: `seq_read()` holds the lock until this returns.
        from_result(|| unsafe { node.show(seq, reader.shown.load(Relaxed)) })
    }

    /// Waits for something new where a text begins, and then reads it.
    ///
    /// # Safety
    ///
    /// Must be called by debugfs, on a file that [`Tree::open_news`] opened.
    unsafe extern "C" fn read_news(
        file: *mut bindings::file,
        buffer: *mut c_char,
        count: usize,
        position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: The caller passes a valid position.
        if unsafe { *position } != 0 || count == 0 {
            // SAFETY: As our caller has it.
            return unsafe { bindings::seq_read(file, buffer, count, position) };
        }
        // SAFETY: By the safety requirement; it is there until the file is closed.
        let reader = unsafe { &*Self::reader_of(file) };
        // SAFETY: debugfs lets nobody remove the file meanwhile.
        let node = unsafe { &*reader.node };
        // SAFETY: An open file.
        let is_patient = unsafe { (*file).f_flags } & bindings::O_NONBLOCK == 0;
        from_result(|| {
            let news = node.news()?;
            loop {
                let seen = reader.seen.load(Relaxed);
                if is_patient {
                    let is_any = || news.next_after(seen).is_some();
                    news.bell().wait_until(is_any)?;
                }
                let Some(next) = news.next_after(seen) else {
                    if is_patient {
                        continue;
                    }
                    return Err(EAGAIN);
                };
                reader.shown.store(next, Relaxed);
                // SAFETY: As our caller has it.
                let read = unsafe { bindings::seq_read(file, buffer, count, position) };
                if read >= 0 {
                    reader.seen.store(next, Relaxed);
                }
                // Where it was gone before it could be read, the text is empty.
                if read != 0 {
                    return Ok(read);
                }
                // It may be so each time.
                if current!().signal_pending() {
                    return Err(ERESTARTSYS);
                }
            }
        })
    }

    /// # Safety
    ///
    /// Must be called by debugfs, on a file that [`Tree::open_news`] opened.
    unsafe extern "C" fn poll_news(
        file: *mut bindings::file,
        table: *mut bindings::poll_table_struct,
    ) -> bindings::__poll_t {
        // SAFETY: By the safety requirement; it is there until the file is closed.
        let reader = unsafe { &*Self::reader_of(file) };
        // SAFETY: debugfs lets nobody remove the file meanwhile.
        let node = unsafe { &*reader.node };
        let Ok(news) = node.news() else {
            return 0;
        };
        // SAFETY: This is the `poll` operation. An open file pins the module, and so the bell.
        unsafe { news.bell().poll_wait(file, table) };
        match news.next_after(reader.seen.load(Relaxed)) {
            Some(_) => bindings::POLLIN | bindings::POLLRDNORM,
            None => 0,
        }
    }
}

impl<T: File> Node<T> {
    fn news(&self) -> Result<&dyn News> {
        self.file.news().ok_or(EINVAL)
    }
}

// SPDX-License-Identifier: GPL-2.0

//! Files that are streams, like `trace_pipe` in tracefs: a read returns the items that were added
//! since the file was opened, and blocks until there is one.

use core::{
    fmt,
    pin::Pin, //
};

use kernel::{
    bindings,
    error::from_result,
    ffi::{
        c_char,
        c_int, //
    },
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Mutex, //
    },
    uaccess::{
        UserPtr,
        UserSlice,
        UserSliceWriter, //
    },
};

use super::{
    super::{
        context,
        wait::DeferredWaitQueue, //
    },
    Node,
    PINNING, //
};

/// A file that is a stream of numbered items.
pub(crate) trait Stream: Send + Sync + 'static {
    /// Returns the queue on which readers wait. It is woken when an item is added, and when
    /// [`Stream::has_ended`] becomes true.
    fn wait_queue(&self) -> &DeferredWaitQueue;

    /// Returns the number of the latest item; 0 for none.
    fn latest(&self) -> u64;

    /// Returns the number of the item that follows the number `seen`, if there is one.
    fn next_after(&self, seen: u64) -> Option<u64>;

    /// Returns whether no more items can come. [`Stream::next_after`] finds all items once this has
    /// returned true.
    fn has_ended(&self) -> bool;

    /// Returns the maximum length of an item's text, together with the head, in bytes.
    fn longest(&self) -> usize;

    /// Writes the head, which precedes the first text that is read from an open file.
    fn head(&self, out: &mut Line<'_>) -> fmt::Result;

    /// Writes the text of item `number`; nothing if it is no longer kept.
    fn show(&self, number: u64, out: &mut Line<'_>) -> fmt::Result;
}

/// The text of an item that is being written.
pub(crate) struct Line<'a> {
    room: &'a mut [u8],
    len: usize,
}

impl fmt::Write for Line<'_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len.wrapping_add(s.len());
        let room = self.room.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// The part of an item's text that an open file has yet to return.
struct Rest {
    text: KVVec<u8>,
    start: usize,
    end: usize,
    /// Whether the next text is the first, which begins with the head.
    is_first: bool,
}

impl Rest {
    /// Replaces the text by that of item `number`.
    fn fill(&mut self, stream: &impl Stream, number: u64) -> Result {
        let mut line = Line {
            room: &mut self.text,
            len: 0,
        };
        if self.is_first {
            stream.head(&mut line)?;
        }
        let head = line.len;
        stream.show(number, &mut line)?;
        (self.start, self.end) = (0, 0);
        if line.len != head {
            self.end = line.len;
            self.is_first = false;
        }
        Ok(())
    }

    fn get(&self) -> &[u8] {
        self.text.get(self.start..self.end).unwrap_or(&[])
    }
}

/// An open file.
///
/// # Invariants
///
/// `stream` is valid as long as the file is open.
#[pin_data]
struct Reader<T> {
    stream: *const T,
    /// The last item whose text was put into `rest`. Written under the lock of `rest`.
    seen: Atomic<u64>,
    /// Whether `rest` has any text. Written under its lock.
    has_rest: Atomic<bool>,
    #[pin]
    rest: Mutex<Rest>,
}

impl<T: Stream> Reader<T> {
    fn stream(&self) -> &T {
        // SAFETY: Valid by the type's invariant, as the reader is dropped when the file is closed.
        unsafe { &*self.stream }
    }

    /// Returns whether a read would return at once, with data or with an error.
    fn is_ready(&self) -> bool {
        // Load `seen` first: if it already counts the last item, `has_rest` must be as recent.
        let seen = self.seen.load(Acquire);
        self.has_rest.load(Relaxed)
            || self.stream().next_after(seen).is_some()
            || self.stream().has_ended()
    }

    /// Copies the present items to `out`: as many whole texts as fit, or a part of the first.
    /// Returns the number of bytes copied.
    fn copy(&self, out: &mut UserSliceWriter) -> Result<usize> {
        let stream = self.stream();
        let mut rest = self.rest.lock();
        let mut copied: usize = 0;
        // Items that are added from here on are left to the next read, so that this one ends.
        let last = stream.latest();
        while !out.is_empty() {
            if rest.get().is_empty() {
                let next = stream.next_after(self.seen.load(Relaxed));
                let Some(next) = next.filter(|next| *next <= last) else {
                    break;
                };
                match rest.fill(stream, next) {
                    Ok(()) => {}
                    // The next read returns it.
                    Err(_) if copied != 0 => break,
                    Err(error) => return Err(error),
                }
                self.has_rest.store(!rest.get().is_empty(), Relaxed);
                self.seen.store(next, Release);
                continue;
            }
            let text = rest.get();
            let len = text.len().min(out.len());
            if copied != 0 && len < text.len() {
                break;
            }
            match out.write_slice(text.get(..len).unwrap_or(&[])) {
                Ok(()) => {}
                // The read returns the bytes that were copied before.
                Err(_) if copied != 0 => break,
                Err(error) => return Err(error),
            }
            copied = copied.wrapping_add(len);
            rest.start = rest.start.wrapping_add(len);
            self.has_rest.store(!rest.get().is_empty(), Relaxed);
        }
        Ok(copied)
    }
}

impl<T: Stream> Node<T> {
    /// The operations of [`Tree::stream`](super::Tree::stream).
    pub(super) const STREAM: &'static bindings::file_operations = &bindings::file_operations {
        open: Some(Self::open_stream),
        read: Some(Self::read_stream),
        poll: Some(Self::poll_stream),
        release: Some(Self::release_stream),
        ..PINNING
    };

    /// # Safety
    ///
    /// Must be called by debugfs, to open a file whose inode points to a `Node<T>`.
    unsafe extern "C" fn open_stream(
        inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> c_int {
        from_result(|| {
            // SAFETY: This is the `open` operation, of a file for a `T` by the safety requirement.
            // The node is not used after the file is closed.
            let stream = &unsafe { Self::of_opened(inode) }?.file;
            let rest = Rest {
                text: KVVec::from_elem(0, stream.longest(), GFP_KERNEL)?,
                start: 0,
                end: 0,
                is_first: true,
            };
            let reader = KBox::pin_init(
                pin_init!(Reader {
                    seen: Atomic::new(stream.latest()),
                    has_rest: Atomic::new(false),
                    // INVARIANT: Part of the node, which lives as long as the file is open.
                    stream,
                    rest <- new_mutex!(rest, "schedhist::Reader::rest"),
                }),
                GFP_KERNEL,
            )?;
            // SAFETY: The reader is not moved: `release_stream` turns this pointer into a pinned
            // box.
            let reader = KBox::into_raw(unsafe { Pin::into_inner_unchecked(reader) });
            // A file without a position has no position lock. With one, tasks that share the open
            // file would wait for that lock uninterruptibly while another of them sleeps in a read.
            //
            // SAFETY: The file is being opened, so that nothing else uses it yet. `stream_open()`
            // always succeeds.
            unsafe {
                (*file).private_data = reader.cast();
                bindings::stream_open(inode, file);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Must be called by debugfs, to close a file that [`Node::open_stream`] opened.
    unsafe extern "C" fn release_stream(
        _inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> c_int {
        // SAFETY: By the safety requirement the pointer is from `into_raw` in `open_stream`, and
        // nothing uses the file any more. The reader was pinned, and is not moved here.
        drop(unsafe {
            Pin::new_unchecked(KBox::from_raw((*file).private_data.cast::<Reader<T>>()))
        });
        0
    }

    /// Returns the reader of an open file.
    ///
    /// # Safety
    ///
    /// [`Node::open_stream`] must have opened `file`, which must not be closed during `'a`.
    unsafe fn reader_of<'a>(file: *mut bindings::file) -> &'a Reader<T> {
        // SAFETY: `open_stream` put the pointer there. The reader lives until the file is closed.
        unsafe { &*(*file).private_data.cast() }
    }

    /// # Safety
    ///
    /// Must be called by debugfs, on a file that [`Node::open_stream`] opened.
    unsafe extern "C" fn read_stream(
        file: *mut bindings::file,
        buffer: *mut c_char,
        count: usize,
        _position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: `open_stream` opened the file by the safety requirement. The file is not closed
        // before this operation returns.
        let reader = unsafe { Self::reader_of(file) };
        // SAFETY: The file is open by the safety requirement, and so valid.
        let may_block = unsafe { (*file).f_flags } & bindings::O_NONBLOCK == 0;
        let mut out = UserSlice::new(UserPtr::from_ptr(buffer.cast()), count).writer();
        from_result(|| {
            context::might_sleep();
            let stream = reader.stream();
            if count == 0 {
                return Ok(0);
            }
            loop {
                // Checked before the copy, so that the last items are not missed.
                let has_ended = stream.has_ended();
                let copied = reader.copy(&mut out)?;
                if copied != 0 {
                    return Ok(copied as isize);
                }
                if has_ended {
                    // 7.2 has no name for it.
                    return Err(Error::from_errno(-(bindings::ENODATA as c_int)));
                }
                if !may_block {
                    return Err(EAGAIN);
                }
                // The wait may return at once each time, if items are discarded before they are
                // shown.
                if current!().signal_pending() {
                    return Err(ERESTARTSYS);
                }
                stream.wait_queue().wait_until(|| reader.is_ready())?;
            }
        })
    }

    /// # Safety
    ///
    /// Must be called by debugfs, on a file that [`Node::open_stream`] opened.
    unsafe extern "C" fn poll_stream(
        file: *mut bindings::file,
        table: *mut bindings::poll_table_struct,
    ) -> bindings::__poll_t {
        // SAFETY: `open_stream` opened the file by the safety requirement. The file is not closed
        // before this operation returns.
        let reader = unsafe { Self::reader_of(file) };
        // SAFETY: This is the `poll` operation. The open file pins the module, and with it the tree
        // and the wait queue.
        unsafe { reader.stream().wait_queue().poll_wait(file, table) };
        match reader.is_ready() {
            true => bindings::POLLIN | bindings::POLLRDNORM,
            false => 0,
        }
    }
}

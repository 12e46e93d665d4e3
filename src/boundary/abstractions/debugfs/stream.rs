// SPDX-License-Identifier: GPL-2.0

//! Files that are streams, as tracefs has `trace_pipe`: a read blocks until there is something that came
//! after the file was opened, and returns it.

use core::{
    fmt,
    pin::Pin,
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{
            Acquire,
            Relaxed,
            Release, //
        },
    },
};

use kernel::{
    error::from_result,
    new_mutex,
    prelude::*,
    sync::Mutex,
    uaccess::{
        UserPtr,
        UserSlice,
        UserSliceWriter, //
    },
};

use crate::boundary::abstractions::debugfs::{
    bindings,
    c_char,
    c_int, //
    File,
    Node,
    Tree,
};
use crate::boundary::abstractions::{
    context,
    wait::DeferredWaitQueue, //
};

/// What a stream is of: things that are numbered, and come one after the other.
pub(crate) trait Stream: Send + Sync {
    /// Returns the bell that is rung when there is something new, and when [`Stream::has_ended`] changes to
    /// true.
    fn wait_queue(&self) -> &DeferredWaitQueue;

    /// Returns the number of the latest.
    fn latest(&self) -> u64;

    /// Returns the number of the next one after the number `seen`, if there is any.
    fn next_after(&self, seen: u64) -> Option<u64>;

    /// Returns whether nothing can come any more. Whatever came before this returned true is found after
    /// it.
    fn has_ended(&self) -> bool;

    /// Returns how long the text of one of them is at most, with the head before it.
    fn longest(&self) -> usize;

    /// Writes what the first text that is read from an open file begins with.
    fn head(&self, out: &mut Line<'_>) -> fmt::Result;

    /// Writes the text of the one with this number; nothing where it is gone.
    fn show(&self, number: u64, out: &mut Line<'_>) -> fmt::Result;
}

/// The text of what comes next.
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

/// What an open file has left to return: a text of which some may have been read already.
struct Rest {
    text: KVVec<u8>,
    start: usize,
    end: usize,
    /// Whether the head is still to come.
    is_first: bool,
}

impl Rest {
    /// Makes the text of the one with this number.
    fn fill(&mut self, stream: &dyn Stream, number: u64) -> Result {
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
#[pin_data]
struct Reader<T> {
    /// The node of the file, which is there as long as the file can be open.
    node: *const Node<T>,
    /// Up to which number its texts have been made. Written by who holds `rest`.
    seen: AtomicU64,
    /// Whether `rest` has any text. Written by who holds it.
    has_rest: AtomicBool,
    #[pin]
    rest: Mutex<Rest>,
}

impl<T> Reader<T> {
    /// Returns whether a read would not block, whatever comes of it.
    fn is_ready(&self, stream: &dyn Stream) -> bool {
        // First: whoever sees that the last one is taken sees what is left of it, too.
        let seen = self.seen.load(Acquire);
        self.has_rest.load(Relaxed) || stream.next_after(seen).is_some() || stream.has_ended()
    }

    /// Copies what there is by now: as many whole texts as there is room for, or some of the first.
    fn copy(&self, stream: &dyn Stream, out: &mut UserSliceWriter) -> Result<usize> {
        let mut rest = self.rest.lock();
        let mut copied: usize = 0;
        // What comes meanwhile is for the next read, so that this one ends.
        let last = stream.latest();
        while !out.is_empty() {
            if rest.get().is_empty() {
                let next = stream.next_after(self.seen.load(Relaxed));
                let Some(next) = next.filter(|next| *next <= last) else {
                    break;
                };
                rest.fill(stream, next)?;
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
                // What was copied before is not lost.
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

impl<T: File> Tree<T> {
    /// The operations of a file with [`File::stream`].
    pub(super) const OPERATIONS_OF_STREAM: &'static bindings::file_operations =
        &bindings::file_operations {
            owner: Self::OPERATIONS.owner,
            open: Some(Self::open_stream),
            read: Some(Self::read_stream),
            poll: Some(Self::poll_stream),
            release: Some(Self::release_stream),
            ..pin_init::zeroed()
        };

    /// # Safety
    ///
    /// Must be called by debugfs, to open a file of a tree of `T`.
    unsafe extern "C" fn open_stream(
        inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> c_int {
        // SAFETY: debugfs set `i_private` to the node, and lets nobody remove the file meanwhile.
        let node = unsafe { (*inode).i_private }.cast::<Node<T>>().cast_const();
        from_result(|| {
            context::might_sleep();
            // SAFETY: As above.
            let known = unsafe { &*node };
            if !known.published.load(Acquire) {
                return Err(EAGAIN);
            }
            let stream = known.stream()?;
            let rest = Rest {
                text: KVVec::from_elem(0, stream.longest(), GFP_KERNEL)?,
                start: 0,
                end: 0,
                is_first: true,
            };
            let reader = KBox::pin_init(
                pin_init!(Reader {
                    node,
                    seen: AtomicU64::new(stream.latest()),
                    has_rest: AtomicBool::new(false),
                    rest <- new_mutex!(rest, "schedhist::Reader::rest"),
                }),
                GFP_KERNEL,
            )?;
            // SAFETY: It is not moved: the box is made of this pointer again when the file is closed.
            let reader = KBox::into_raw(unsafe { Pin::into_inner_unchecked(reader) });
            // There is no position, and so no lock of it, on which others who have the same open file
            // would wait uninterruptibly for who is asleep in `read()`.
            //
            // SAFETY: The file is being opened, and nobody else has it yet. This always succeeds.
            unsafe {
                (*file).private_data = reader.cast();
                bindings::stream_open(inode, file);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// Must be called by debugfs, to close a file that [`Tree::open_stream`] opened.
    unsafe extern "C" fn release_stream(
        _inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> c_int {
        // SAFETY: By the safety requirement this is from `into_raw` in `open_stream`, and nobody has the
        // file any more. It was pinned, and is not moved when it is dropped.
        drop(unsafe {
            Pin::new_unchecked(KBox::from_raw((*file).private_data.cast::<Reader<T>>()))
        });
        0
    }

    /// # Safety
    ///
    /// `file` must be a file that [`Tree::open_stream`] opened, and that is not closed during `'a`.
    unsafe fn reader_of<'a>(file: *mut bindings::file) -> &'a Reader<T> {
        // SAFETY: `open_stream` put it there, and it is there until the file is closed.
        unsafe { &*(*file).private_data.cast() }
    }

    /// # Safety
    ///
    /// Must be called by debugfs, on a file that [`Tree::open_stream`] opened.
    unsafe extern "C" fn read_stream(
        file: *mut bindings::file,
        buffer: *mut c_char,
        count: usize,
        _position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: By the safety requirement; it is not closed before this returns.
        let reader = unsafe { Self::reader_of(file) };
        // SAFETY: debugfs lets nobody remove the file meanwhile.
        let node = unsafe { &*reader.node };
        // SAFETY: An open file.
        let is_patient = unsafe { (*file).f_flags } & bindings::O_NONBLOCK == 0;
        let mut out = UserSlice::new(UserPtr::from_ptr(buffer.cast()), count).writer();
        from_result(|| {
            context::might_sleep();
            let stream = node.stream()?;
            if count == 0 {
                return Ok(0);
            }
            loop {
                // Before looking: what was reported last is not to be missed.
                let has_ended = stream.has_ended();
                let copied = reader.copy(stream, &mut out)?;
                if copied != 0 {
                    return Ok(copied as isize);
                }
                if has_ended {
                    return Err(ENODATA);
                }
                if !is_patient {
                    return Err(EAGAIN);
                }
                // Each one may be gone before it can be shown.
                if current!().signal_pending() {
                    return Err(ERESTARTSYS);
                }
                stream.wait_queue().wait_until(|| reader.is_ready(stream))?;
            }
        })
    }

    /// # Safety
    ///
    /// Must be called by debugfs, on a file that [`Tree::open_stream`] opened.
    unsafe extern "C" fn poll_stream(
        file: *mut bindings::file,
        table: *mut bindings::poll_table_struct,
    ) -> bindings::__poll_t {
        // SAFETY: By the safety requirement; it is not closed before this returns.
        let reader = unsafe { Self::reader_of(file) };
        // SAFETY: debugfs lets nobody remove the file meanwhile.
        let node = unsafe { &*reader.node };
        let Ok(stream) = node.stream() else {
            return 0;
        };
        // SAFETY: This is the `poll` operation. An open file pins the module, and so the wait_queue.
        unsafe { stream.wait_queue().poll_wait(file, table) };
        match reader.is_ready(stream) {
            true => bindings::POLLIN | bindings::POLLRDNORM,
            false => 0,
        }
    }
}

impl<T: File> Node<T> {
    fn stream(&self) -> Result<&dyn Stream> {
        self.file.stream().ok_or(EINVAL)
    }
}

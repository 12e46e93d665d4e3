// SPDX-License-Identifier: GPL-2.0

//! Who could have woken a task earlier, and what that one was doing.
//!
//! Each CPU keeps its last slices of tasks ([`Ring`]). With each is kept what led to it ([`Link`]):
//! the slice in which the waker woke the task or, if the task had been preempted, its own previous
//! slice. From the slice that ends a long absence, [`walk()`] follows the links back in time, and
//! so splits the absence into hops: what each task in the chain was doing until it woke the one
//! before. [`LastChains`] keeps the result.

pub mod kept;
pub mod link;
pub mod ring;
pub mod walk;

pub use kept::{Chain, LastChains};
pub use link::{Context, Interrupted, Link, SoftirqOf};
pub use ring::{ChainSlice, KeptSlice, Ring, SliceCells, Start, MAX_SLICES, MIN_SLICES};
pub use walk::{walk, End, Hop, Walked, HOPS, STEPS};

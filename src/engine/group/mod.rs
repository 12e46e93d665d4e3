// SPDX-License-Identifier: GPL-2.0

//! Groups: what tasks of the same cgroup, process or name have in common.
//!
//! Each task has a [`task_group::TaskGroup`], which names its group. The group is decided when the
//! task is created, moved or renamed, and is kept in its [`TaskState`], so that a switch only reads
//! it. Each sample of a task is then recorded a second time, in the [`records::GroupRecords`] that
//! its group has on this CPU: see [`observer::Grouped`].
//!
//! A task's group is decided when the task gets the CPU. The wait that ends then and the slice that
//! begins then belong to that group, even if the task gets another one later.
//!
//! [`TaskState`]: crate::engine::switch::task_state::TaskState

pub mod fork_marks;
pub mod hash;
pub mod index;
pub mod late;
pub mod list;
pub mod name;
pub mod names;
pub mod observer;
pub mod placement;
pub mod reading;
pub mod records;
pub mod rule;
pub mod set;
pub mod slices;
pub mod table;
pub mod task_group;
pub mod totals;

pub use fork_marks::ForkMarks;
pub use hash::Secret;
pub use index::{Entry, Index};
pub use late::Late;
pub use list::{Command, Definition, Matcher, Pattern, Subject};
pub use name::TaskName;
pub use names::Names;
pub use observer::{CpuGroups, Grouped, Occupant, MAX_GROUPS};
pub use placement::GroupPlacement;
pub use reading::{GroupReading, Members};
pub use records::{group_scheme, CulpritKind, GroupCounter, GroupMetric, GroupRecords, WaitCells};
pub use rule::{Pids, Rule};
pub use set::GroupSet;
pub use slices::GroupSlices;
pub use table::{GroupTable, Place, PLACES_AT_ONCE};
pub use task_group::{Group, TaskGroup};
pub use totals::GroupTotals;

// SPDX-License-Identifier: GPL-2.0

//! Context switches: the records of each CPU, and the state that is kept for each task.

pub mod cpu;
pub mod in_progress;
pub mod pending;
pub mod sample;
pub mod settings;
pub mod switch_out;
pub mod task_state;
pub mod view;

pub use cpu::{Cpu, CurrentSlice, Header, Occupancy, Requested};
pub use in_progress::{TaskInProgress, Waiters, Waits, LONGEST, WAITS};
pub use pending::Pending;
pub use sample::{Cause, Observer, Sample};
pub use settings::{Dynamic, DynamicResched, Fixed, Settings};
pub use switch_out::PrevState;
pub use task_state::{record_wakeup, AllWakeups, QueuedWakeups, TaskState, Waiting, WakeupFilter};
pub use view::{Switch, Task, Wakeup};

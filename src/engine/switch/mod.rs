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

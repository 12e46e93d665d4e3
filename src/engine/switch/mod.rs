// SPDX-License-Identifier: GPL-2.0

//! A context switch: what a CPU records of it, and what is kept about its tasks until the next one.

pub mod cpu;
pub mod sample;
pub mod settings;
pub mod switch_out;
pub mod task_state;
pub mod view;

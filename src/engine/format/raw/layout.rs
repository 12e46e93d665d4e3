// SPDX-License-Identifier: GPL-2.0

//! The numbers of the layout that `include/uapi/schedhist_raw.h` describes, for both ends: this
//! module writes it, and the command reads it.

// The header documents them.
#![allow(missing_docs)]

use crate::engine::{
    group::{
        CulpritKind,
        GroupCounter,
        GroupMetric, //
    },
    idle::{
        Distance,
        WaitCause,
        WaitPart, //
    },
};

/// The first bytes of a snapshot: `SCHEDHIST_RAW_MAGIC`.
pub const MAGIC: [u8; 8] = *b"SCHDHIST";

/// The version of the layout: `SCHEDHIST_RAW_VERSION`.
pub const VERSION: u32 = 1;

/// The first bytes of the file `slices`: `SCHEDHIST_RAW_SLICES_MAGIC`.
pub const SLICES_MAGIC: [u8; 8] = *b"SCHDSLCS";

/// The version of its layout: `SCHEDHIST_RAW_SLICES_VERSION`.
pub const SLICES_VERSION: u32 = 1;

/// The flag of a snapshot taken while schedhist was enabled: `SCHEDHIST_RAW_ENABLED`.
pub const ENABLED: u32 = 1;

/// A flag of all snapshots, which name the CPUs that are offline: `SCHEDHIST_RAW_TELLS_OFFLINE`.
pub const TELLS_OFFLINE: u32 = 2;

// The sizes of the structures, in bytes, without trailing arrays.
pub const HEADER_LEN: usize = 56;
pub const SLICES_HEADER_LEN: usize = 32;
pub const RECORD_LEN: usize = 8;
pub const NAME_LEN: usize = 48;
pub const CPU_LEN: usize = 16;
pub const HISTOGRAM_LEN: usize = 40;
pub const WORST_LEN: usize = 56;
pub const BUCKETS_LEN: usize = 24;
pub const PAIR_LEN: usize = 12;
pub const GROUPING_LEN: usize = 48;
pub const GROUP_LEN: usize =
    24 + GroupMetric::COUNT * 32 + GroupCounter::COUNT * 8 + CulpritKind::COUNT * 2 * 16;
pub const NEIGHBOUR_LEN: usize = 32;
pub const SLICE_LEN: usize = 40;
pub const TASK_LEN: usize = 64;
pub const WAITING_LEN: usize = 40;
pub const GROUP_IN_PROGRESS_LEN: usize = 32;
pub const GROUPING_MORE_LEN: usize = 40;
pub const OFFLINE_LEN: usize = 16;
/// All but the number of waits.
pub const WAIT_SUMS_LEN: usize = (WaitPart::COUNT + WaitCause::COUNT * 2) * 8;
pub const LONG_WAITS_LEN: usize = 32 + WAIT_SUMS_LEN;
pub const GROUP_LONG_WAITS_LEN: usize = 24 + WAIT_SUMS_LEN;
pub const CHAIN_LEN: usize = 64;
pub const HOP_LEN: usize = 88;
pub const KEPT_SLICE_LEN: usize = 88;
pub const KEPT_CPU_LEN: usize = 24;
pub const GROUP_MIGRATIONS_LEN: usize = 16 + Distance::BETWEEN_CPUS.len() * 8;

/// The flag of a task whose slice or wait does not become a sample: `SCHEDHIST_RAW_UNSEEN`.
pub const UNSEEN: u32 = 1;

/// The types of records: `SCHEDHIST_RAW_*`.
pub mod types {
    pub const END: u32 = 0;
    pub const METRIC: u32 = 1;
    pub const COUNTER: u32 = 2;
    pub const SUM: u32 = 3;
    pub const CPU: u32 = 4;
    pub const HISTOGRAM: u32 = 5;
    pub const WORST: u32 = 6;
    pub const BUCKETS: u32 = 7;
    pub const GROUPING: u32 = 8;
    pub const GROUP: u32 = 9;
    pub const GROUP_BUCKETS: u32 = 10;
    pub const NEIGHBOUR: u32 = 11;
    pub const SLICE: u32 = 12;
    pub const TASK: u32 = 13;
    pub const WAITING: u32 = 14;
    pub const GROUP_SLICES: u32 = 15;
    pub const GROUP_WAITING: u32 = 16;
    pub const GROUP_UNSEEN: u32 = 17;
    pub const GROUPING_MORE: u32 = 18;
    pub const OFFLINE: u32 = 19;
    pub const LONG_WAITS: u32 = 20;
    pub const GROUP_LONG_WAITS: u32 = 21;
    pub const GROUP_MIGRATIONS: u32 = 22;
    pub const CHAIN: u32 = 30;
    pub const HOP: u32 = 31;
    pub const KEPT_SLICE: u32 = 32;
    pub const KEPT_CPU: u32 = 33;
}

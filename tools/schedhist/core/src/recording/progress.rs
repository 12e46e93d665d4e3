// SPDX-License-Identifier: GPL-2.0

//! Encodes what is in progress at a snapshot that is stored as its differences. Readers that do not
//! know it skip it.
//!
//! Numbers are LEB128, as in [`delta`](super::delta); those that may be negative are doubled, and
//! the others of these are odd. The list of CPUs ends with a 0.

use crate::{
    engine::{group::task_group::Group, identity::Identity, switch::cpu::Occupancy},
    raw::{Reader, SliceInProgress, Snapshot, TaskInProgress, Waits},
    varint::{write as number, zigzag},
};

/// Tasks are named from this duration on, in nanoseconds.
const LONG: u64 = 100_000_000;

const UNSEEN: u64 = 1;

fn signed(out: &mut Vec<u8>, value: u64) {
    number(out, u128::from(zigzag(value as i64)));
}

/// Encodes what is in progress at a snapshot; `None` if the module does not tell.
pub fn encode(snapshot: &Snapshot) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut last = 0;
    for (place, cpu) in (1_u128..).zip(&snapshot.cpus) {
        let Some(slice) = &cpu.slice else {
            continue;
        };
        number(&mut out, place - last);
        last = place;
        number(&mut out, slice.occupancy as u128);
        signed(&mut out, slice.now.wrapping_sub(snapshot.time));
        signed(&mut out, slice.now.wrapping_sub(slice.since));
        // 0, by the law of time.
        signed(&mut out, snapshot.unaccounted(cpu)?);
    }
    if out.is_empty() && snapshot.waits.is_empty() && snapshot.tasks.is_empty() {
        return None;
    }
    out.push(0);
    number(&mut out, snapshot.waits.len() as u128);
    for Waits { metric, count, sum } in &snapshot.waits {
        number(&mut out, u128::from(*metric));
        number(&mut out, u128::from(*count));
        number(&mut out, u128::from(*sum));
    }
    for task in snapshot.tasks.iter().filter(|task| task.duration >= LONG) {
        number(&mut out, u128::from(task.metric));
        number(&mut out, u128::from(task.unseen));
        number(&mut out, u128::from(task.cpu));
        signed(&mut out, task.now.wrapping_sub(snapshot.time));
        number(&mut out, u128::from(task.duration));
        number(&mut out, u128::from(task.task.group.number()));
        out.extend(task.task.pid.to_le_bytes());
        out.extend(task.task.prio.to_le_bytes());
        out.extend(task.task.comm);
    }
    Some(out)
}

/// Adds to a snapshot what is in progress. Returns `None` if `data` is not valid.
pub fn decode(snapshot: &mut Snapshot, data: &[u8]) -> Option<()> {
    let mut input = Reader(data);
    let mut place = 0_u64;
    while let Some(step) = input.step()? {
        place = place.checked_add(step)?;
        let index = usize::try_from(place - 1).ok()?;
        let occupancy = match input.leb64()? {
            0 => Occupancy::Idle,
            1 => Occupancy::Task,
            _ => Occupancy::Unseen,
        };
        let now = snapshot.time.wrapping_add(input.signed()?);
        let since = now.wrapping_sub(input.signed()?);
        let off = input.signed()?;
        let slice = SliceInProgress {
            occupancy,
            now,
            since,
            unseen: 0,
        };
        snapshot.cpus.get_mut(index)?.slice = Some(slice);
        let unseen = snapshot.unaccounted(&snapshot.cpus[index])?;
        if let Some(slice) = &mut snapshot.cpus[index].slice {
            slice.unseen = unseen.wrapping_sub(off);
        }
    }
    for _ in 0..input.leb64()? {
        snapshot.waits.push(Waits {
            metric: u32::try_from(input.leb64()?).ok()?,
            count: input.leb64()?,
            sum: input.leb64()?,
        });
    }
    while !input.0.is_empty() {
        let metric = u32::try_from(input.leb64()?).ok()?;
        let unseen = input.leb64()? & UNSEEN != 0;
        let cpu = u32::try_from(input.leb64()?).ok()?;
        let now = snapshot.time.wrapping_add(input.signed()?);
        let duration = input.leb64()?;
        let group = u32::try_from(input.leb64()?).ok().and_then(Group::new)?;
        let task = Identity {
            pid: input.u32()? as i32,
            prio: input.u32()? as i32,
            comm: input.bytes(16)?.try_into().ok()?,
            group,
        };
        snapshot.tasks.push(TaskInProgress {
            metric,
            unseen,
            cpu,
            now,
            duration,
            task,
        });
    }
    Some(())
}

impl Reader<'_> {
    fn signed(&mut self) -> Option<u64> {
        let bits = self.leb64()?;
        Some((bits >> 1) ^ (bits & 1).wrapping_neg())
    }
}

// SPDX-License-Identifier: GPL-2.0

//! The records of groups on a CPU.
//!
//! Each group has its counters on every CPU from the start. Its histograms are allocated when its
//! tasks first run there, by a work queue. Until then, samples count as not in a histogram.

use core::{
    mem::offset_of,
    ptr,
    sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicUsize,
        Ordering::{
            Acquire,
            Relaxed,
            Release, //
        },
    },
};

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

use crate::{
    boundary::abstractions::{
        context::cond_resched,
        is_online,
        new_irq_work,
        zeroed_slice,
        IrqWork,
        Job,
        PerCpu, //
    },
    engine::{
        group::{
            CpuGroups,
            Group,
            GroupMetric,
            GroupPlacement,
            GroupRecords,
            GroupSet,
            Occupant,
            TaskGroup,
            MAX_GROUPS, //
        },
        histogram::Scheme,
        Cell, //
    },
};

/// A group on a CPU.
///
/// A slot of zero bytes is an empty one.
#[repr(C, align(64))]
struct Slot {
    records: GroupRecords,
    buckets: AtomicPtr<Cell>,
    /// Whether these are the group's own: one of the values below.
    state: AtomicU32,
    /// Whether no task gets this group any more. Once the switches that had begun before have ended
    /// and the CPU's task is not in the group, the CPU leaves the slot alone.
    closed: AtomicBool,
}

// SAFETY: A slot consists of integers, a pointer that may be null, and a bool.
unsafe impl Zeroable for Slot {}

// SAFETY: It consists of integers. They are all 0, as in `GroupPlacement::default()`.
unsafe impl Zeroable for GroupPlacement {}

// The counters of a group take half a KiB on a CPU.
const _: () = assert!(size_of::<Slot>() == 512);

// docs/groups.md and docs/deploy.md say so.
const _: () = assert!(size_of::<Slot>() + size_of::<GroupPlacement>() == 688);

/// `buckets` are cells that nobody reads. No histograms were requested.
const UNUSED: u32 = 0;
/// `buckets` are cells that nobody reads. Histograms were requested.
const WANTED: u32 = 1;
/// `buckets` are cells that nobody reads. There was no memory for histograms.
const REFUSED: u32 = 2;
/// `buckets` are those of the group's own histograms.
const OWN: u32 = 3;

/// The records of all groups on a CPU.
///
/// # Invariants
///
/// There is at least one of `slots`, and `current` points to one of them. The `buckets` of each
/// point to as many cells as there are in `unread`: to these, or, once its `state` is [`OWN`], to
/// cells from a `KVBox` that belong to this slot alone. [`GroupMemory::fold`] may move them to
/// another slot; only dropping `self` frees them.
#[repr(C, align(64))]
pub(crate) struct GroupMemory {
    occupant: Occupant,
    current: AtomicPtr<Slot>,
    slots: KVBox<[Slot]>,
    /// As many as there are slots.
    placements: KVBox<[GroupPlacement]>,
    /// The cells of groups without histograms.
    unread: KVBox<[Cell]>,
    /// Whether histograms were requested for one of them since they were last allocated. Beyond the
    /// line of what switches read and write, as other CPUs write it, too.
    has_wanted: AtomicBool,
}

const _: () = assert!(offset_of!(GroupMemory, has_wanted) >= 64);

impl GroupMemory {
    /// Creates memory for `groups` groups on the CPU `number`, with histograms of `scheme`. Sleeps;
    /// fails with `ENOMEM`, and with `EINVAL` without a group or with more than [`MAX_GROUPS`].
    fn new(number: u32, groups: usize, scheme: Scheme) -> Result<KVBox<Self>> {
        if groups > MAX_GROUPS {
            return Err(EINVAL);
        }
        let unread = zeroed_slice::<Cell>(number, GroupMetric::COUNT * scheme.buckets())?;
        let mut slots = zeroed_slice::<Slot>(number, groups)?;
        for slot in slots.iter_mut() {
            *slot.buckets.get_mut() = unread.as_ptr().cast_mut();
        }
        // No task is ever in the last one, that of what is gone.
        if let Some(gone) = slots.last_mut() {
            *gone.closed.get_mut() = true;
        }
        let first = slots.first().ok_or(EINVAL)?;
        // INVARIANT: `current` is the first. All `buckets` are `unread`, and all `UNUSED`.
        let memory = Self {
            occupant: Occupant::default(),
            current: AtomicPtr::new(ptr::from_ref(first).cast_mut()),
            slots,
            placements: zeroed_slice(number, groups)?,
            unread,
            has_wanted: AtomicBool::new(false),
        };
        Ok(KVBox::new(memory, GFP_KERNEL)?)
    }

    /// Forgets which task has the CPU: from here on it is one of the group `occupant`. The CPU is
    /// offline, or no probe is registered.
    pub(crate) fn forget(&self, occupant: TaskGroup) {
        self.occupant.enter(occupant);
        self.enter(Group::OTHER);
    }

    /// Makes `group` the current one, or [`Group::OTHER`] if it has no slot. Returns its slot.
    #[inline(always)]
    fn enter(&self, group: Group) -> &Slot {
        let number = group.number() as usize;
        let number = if number < self.slots.len() { number } else { 0 };
        // SAFETY: The number is below the length, or 0, and there is at least one.
        let slot = unsafe { self.slots.get_unchecked(number) };
        // INVARIANT: This is one of `slots`.
        self.current.store(ptr::from_ref(slot).cast_mut(), Relaxed);
        slot
    }

    #[inline(always)]
    fn current(&self) -> &Slot {
        // SAFETY: By the type's invariant it points to one of `slots`, which stay as long as
        // `self`.
        unsafe { &*self.current.load(Relaxed) }
    }

    #[cold]
    #[inline(never)]
    fn carry(&self, turn: u64) {
        let number = turn.checked_rem(self.slots.len() as u64).unwrap_or(0);
        let slot = self.slots.get(number as usize);
        if let Some(slot) = slot.filter(|slot| !slot.closed.load(Acquire)) {
            slot.records.carry();
        }
    }

    /// Returns what this CPU knows of the task that has it.
    pub(crate) fn occupant(&self) -> &Occupant {
        &self.occupant
    }

    pub(crate) fn records(&self, group: Group) -> Option<&GroupRecords> {
        Some(&self.slots.get(group.number() as usize)?.records)
    }

    pub(crate) fn placement(&self, group: Group) -> Option<&GroupPlacement> {
        self.placements.get(group.number() as usize)
    }

    /// Returns that of the group that has the CPU.
    pub(crate) fn current_placement(&self) -> Option<&GroupPlacement> {
        let group = self.occupant.now().group();
        self.placement(group)
            .or_else(|| self.placement(Group::OTHER))
    }

    /// Returns the cells of the histograms of `group`, if it has any.
    pub(crate) fn buckets(&self, group: Group) -> Option<&[Cell]> {
        let slot = self.slots.get(group.number() as usize)?;
        if slot.state.load(Acquire) != OWN {
            return None;
        }
        Some(self.cells(slot))
    }

    /// Returns the cells of `slot`, which must be one of `slots`.
    fn cells(&self, slot: &Slot) -> &[Cell] {
        let cells = slot.buckets.load(Acquire);
        // SAFETY: By the type's invariant these are as many cells as in `unread`, which stay as
        // long as `self`.
        unsafe { core::slice::from_raw_parts(cells, self.unread.len()) }
    }

    /// Adds what `group`, which is closed, recorded here to `gone`, and forgets it.
    ///
    /// This CPU must leave the slot of `group` alone. Nothing may read these groups, or allocate
    /// their histograms, meanwhile.
    fn fold(&self, group: Group, gone: Group) {
        if let (Some(from), Some(to)) = (self.placement(group), self.placement(gone)) {
            to.absorb(from);
        }
        let (group, gone) = (group.number() as usize, gone.number() as usize);
        let (Some(from), Some(to)) = (self.slots.get(group), self.slots.get(gone)) else {
            return;
        };
        to.records.absorb(&from.records);
        from.records.clear();
        match (from.state.load(Relaxed), to.state.load(Relaxed)) {
            (OWN, OWN) => {
                for (from, to) in self.cells(from).iter().zip(self.cells(to)) {
                    to.add(from.get());
                    from.set(0);
                }
            }
            (OWN, _) => {
                // INVARIANT: `to` gets the cells of `from`, and `from` those that nobody reads.
                to.buckets.store(from.buckets.load(Relaxed), Release);
                to.state.store(OWN, Release);
                from.state.store(UNUSED, Relaxed);
                let unread = self.unread.as_ptr().cast_mut();
                from.buckets.store(unread, Release);
            }
            // The next group of this place may have more luck.
            (REFUSED, _) => from.state.store(UNUSED, Relaxed),
            _ => {}
        }
        from.closed.store(false, Release);
    }

    /// Allocates the histograms that are wanted, as far as `budget` allows.
    fn fill(&self, number: u32, budget: &Budget) {
        // Pairs with the release in `want()`. A request that comes after this queues the work anew.
        if !self.has_wanted.load(Relaxed) || !self.has_wanted.swap(false, Acquire) {
            return;
        }
        for slot in self.slots.iter() {
            if slot.state.load(Relaxed) != WANTED {
                continue;
            }
            let bytes = size_of_val(&*self.unread);
            let cells = match budget.is_left(bytes) {
                true => zeroed_slice::<Cell>(number, self.unread.len()).ok(),
                false => None,
            };
            // Nothing else changes `WANTED`.
            let Some(cells) = cells else {
                slot.state.store(REFUSED, Relaxed);
                continue;
            };
            budget.take(bytes);
            // INVARIANT: The cells are from a `KVBox`, as many as in `unread`.
            slot.buckets
                .store(KVBox::into_raw(cells).cast::<Cell>(), Release);
            slot.state.store(OWN, Release);
        }
    }
}

impl Drop for GroupMemory {
    fn drop(&mut self) {
        for slot in self.slots.iter_mut() {
            if *slot.state.get_mut() == OWN {
                let cells = *slot.buckets.get_mut();
                let cells = ptr::slice_from_raw_parts_mut(cells, self.unread.len());
                // SAFETY: By the type's invariant this is a `KVBox` of so many cells, and `self` is
                // the only reference to it.
                drop(unsafe { KVBox::from_raw(cells) });
            }
        }
    }
}

struct Budget {
    /// The maximum, in bytes.
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    fn is_left(&self, bytes: usize) -> bool {
        self.limit.saturating_sub(self.used.load(Relaxed)) >= bytes
    }

    /// Takes `bytes`, which must be left. The two callers never run at the same time:
    /// first the creator of the budget, then its job, of which only one instance runs.
    fn take(&self, bytes: usize) {
        self.used.store(self.used.load(Relaxed) + bytes, Relaxed);
    }
}

/// Allocates histograms.
#[pin_data]
struct Allocator {
    cpus: Arc<PerCpu<KVBox<GroupMemory>>>,
    budget: Budget,
    /// Held while the cells of groups change.
    #[pin]
    changing: Mutex<()>,
}

impl Job for Allocator {
    fn run(&self) {
        let _changing = self.changing.lock();
        for (number, memory) in self.cpus.numbered() {
            memory.fill(number, &self.budget);
            cond_resched();
        }
    }
}

/// The records of all groups on all possible CPUs.
#[pin_data]
pub(crate) struct GroupMemories {
    #[pin]
    work: IrqWork<Allocator>,
    allocator: Arc<Allocator>,
}

impl GroupMemories {
    /// Creates memory for `groups` groups with histograms of `scheme`, all of which may take up to
    /// `limit` bytes. Sleeps; fails with `ENOMEM` if there is none or the limit is too small, and
    /// with `EINVAL` without a group.
    pub(crate) fn new(groups: usize, scheme: Scheme, limit: usize) -> Result<Arc<Self>> {
        let budget = Budget {
            limit,
            used: AtomicUsize::new(0),
        };
        let unread = GroupMetric::COUNT * scheme.buckets() * size_of::<Cell>();
        let of_group = size_of::<Slot>() + size_of::<GroupPlacement>();
        let bytes = size_of::<GroupMemory>() + groups * of_group + unread;
        let cpus = PerCpu::new(|number| {
            if !budget.is_left(bytes) {
                return Err(ENOMEM);
            }
            budget.take(bytes);
            GroupMemory::new(number, groups, scheme)
        })?;
        let cpus = Arc::new(cpus, GFP_KERNEL)?;
        let allocator = pin_init!(Allocator {
            cpus,
            budget,
            changing <- new_mutex!((), "schedhist::Allocator::changing"),
        });
        let allocator = Arc::pin_init(allocator, GFP_KERNEL)?;
        Arc::pin_init(
            try_pin_init!(Self {
                work <- new_irq_work!(allocator.clone(), c"schedhist::GroupMemories::work"),
                allocator,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the memory by CPU, for the probes.
    pub(crate) fn per_cpu(&self) -> &Arc<PerCpu<KVBox<GroupMemory>>> {
        &self.allocator.cpus
    }

    /// Iterates over the memory of the CPUs, in the order of their numbers.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = (u32, &GroupMemory)> + '_ {
        let cpus = self.allocator.cpus.numbered();
        cpus.map(|(number, memory)| (number, &**memory))
    }

    /// Returns how much memory the records take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.allocator.budget.used.load(Relaxed)
    }

    /// Makes all CPUs leave `group` alone from the next switch on, unless their task is in it.
    pub(crate) fn close(&self, group: Group) {
        for (_, cpu) in self.cpus() {
            if let Some(slot) = cpu.slots.get(group.number() as usize) {
                slot.closed.store(true, Relaxed);
            }
        }
    }

    /// Iterates over the groups of the tasks that have a CPU. Of a CPU that is offline, no switch
    /// is seen any more.
    pub(crate) fn current(&self) -> impl Iterator<Item = Group> + '_ {
        let online = self.cpus().filter(|(number, _)| is_online(*number));
        online.map(|(_, cpu)| cpu.occupant.now().group())
    }

    /// Makes `gone` the neighbour wherever one of `groups` is, and calls `renamed` with that group.
    /// A switch that is in progress may undo it. Sleeps.
    pub(crate) fn rename_neighbours(
        &self,
        groups: &GroupSet<KVVec<u64>>,
        gone: Group,
        mut renamed: impl FnMut(Group),
    ) {
        for (_, cpu) in self.cpus() {
            for slot in cpu.slots.iter() {
                let is_it = |group| groups.contains(group);
                slot.records.rename_neighbours(is_it, gone, &mut renamed);
            }
            // There may be thousands of groups, on as many CPUs.
            cond_resched();
        }
    }

    /// Adds what `group`, which is closed, recorded to `gone`, and forgets it. All CPUs must leave
    /// `group` alone. Nothing may read these groups meanwhile. Sleeps.
    pub(crate) fn fold(&self, group: Group, gone: Group) {
        let _changing = self.allocator.changing.lock();
        for (_, cpu) in self.cpus() {
            cpu.fold(group, gone);
        }
    }

    /// Requests histograms for `slot` of `memory`, that of this CPU, unless they were requested
    /// before.
    #[cold]
    #[inline(never)]
    fn want(&self, memory: &GroupMemory, slot: &Slot) {
        // Only this CPU changes `UNUSED`.
        if slot.state.load(Relaxed) == UNUSED {
            slot.state.store(WANTED, Relaxed);
            // Pairs with the acquire in `fill()`.
            memory.has_wanted.store(true, Release);
            self.work.queue();
        }
    }
}

/// The groups of the CPU on which a switch is in progress.
///
/// # Invariants
///
/// `cells` is the number of cells to which each of the `buckets` of `memory` points. It is kept
/// here so that it is read and checked once for a switch.
#[derive(Clone, Copy)]
pub(crate) struct ThisCpuGroups<'a> {
    memory: &'a GroupMemory,
    /// That of the current group.
    slot: &'a Slot,
    cells: usize,
    memories: &'a Arc<GroupMemories>,
}

impl<'a> ThisCpuGroups<'a> {
    /// Refers to `memory`, which must be that of this CPU in `memories`. Returns `None` if it has
    /// less than `cells` cells for the histograms of a group.
    #[inline(always)]
    pub(crate) fn new(
        memory: &'a GroupMemory,
        memories: &'a Arc<GroupMemories>,
        cells: usize,
    ) -> Option<Self> {
        let len = memory.unread.len();
        if len < cells {
            return None;
        }
        // INVARIANT: All `buckets` point to as many cells as there are in `unread`.
        Some(Self {
            memory,
            slot: memory.current(),
            cells: len,
            memories,
        })
    }
}

impl CpuGroups for ThisCpuGroups<'_> {
    #[inline(always)]
    fn occupant(&self) -> &Occupant {
        &self.memory.occupant
    }

    #[inline(always)]
    fn enter(self, group: Group) -> Self {
        Self {
            slot: self.memory.enter(group),
            ..self
        }
    }

    #[inline(always)]
    fn records(&self) -> &GroupRecords {
        &self.slot.records
    }

    #[inline(always)]
    fn current(&self) -> (&GroupRecords, &[Cell]) {
        let cells = self.slot.buckets.load(Acquire);
        // SAFETY: By the type's invariant there are so many, which stay as long as `memory`.
        let cells = unsafe { core::slice::from_raw_parts(cells, self.cells) };
        (&self.slot.records, cells)
    }

    #[inline(always)]
    fn placement(&self) -> Option<&GroupPlacement> {
        self.memory.current_placement()
    }

    #[inline(always)]
    fn carry(&self, turn: u64) {
        self.memory.carry(turn);
    }

    #[inline(always)]
    fn want_buckets(&self) {
        self.memories.want(self.memory, self.slot);
    }
}

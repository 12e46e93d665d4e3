// SPDX-License-Identifier: GPL-2.0

//! The critical path of a command, of slices that are known.

use schedhist_core::{
    engine::{
        chain::{ChainSlice, Context, Link, Ring, SliceCells, Start},
        format::raw,
        group::Group,
    },
    path::{Occupant, Path, Slices, Times},
    text,
};

use super::sim::{mutate, Bytes, Random};

/// The rings of CPUs, of so many slices each.
struct Machine(Vec<Ring<Vec<SliceCells>>>);

impl Machine {
    fn new(cpus: u32, slices: usize) -> Self {
        let ring = |cpu| Ring::new(cpu, (0..slices).map(|_| SliceCells::default()).collect());
        Self((0..cpus).map(|cpu| ring(cpu).unwrap()).collect())
    }

    /// A task gets a CPU. Returns its slice.
    fn enter(&self, cpu: usize, name: &str, start: Start, times: [u64; 2], link: Link) -> Link {
        let mut comm = [0; 16];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        self.0[cpu].enter(&ChainSlice {
            // Of the same length: the command is 3.
            pid: name.len() as i32,
            comm,
            group: Group::OTHER,
            start,
            since: times[1],
            waiting: times[0],
            link,
        });
        self.0[cpu].now()
    }

    /// Returns the file `slices`.
    fn file(&self) -> Vec<u8> {
        let mut bytes = Bytes(Vec::new());
        raw::kept_slices(&mut bytes, 2, 1);
        for (cpu, ring) in (0..).zip(&self.0) {
            raw::kept_cpu(&mut bytes, cpu, ring.first());
            for kept in ring.kept() {
                raw::kept_slice(&mut bytes, cpu, &kept);
            }
        }
        raw::end(&mut bytes);
        bytes.0
    }
}

fn interrupt(cpu: u32) -> Link {
    Link::new(cpu, 1).within(Context::Interrupt)
}

/// `tool` runs `cmd` at 100, which sleeps from 130 on; a timer wakes it at 200. It runs from 220
/// on, and is preempted at 250 by `hog`, until 300. At 310 it sleeps: `helper`, which it has woken
/// at 305, works for it from 308 to 400, when it wakes it. From 405 on it runs, until it exits at
/// 450.
fn command(machine: &Machine) {
    let none = Link::UNKNOWN;
    let tool = machine.enter(0, "tool", Start::Unknown, [50, 50], none);
    let first = tool.within(Context::Fork);
    machine.enter(1, "cmd", Start::Forked, [100, 110], first);
    machine.0[1].enter_idle(130);
    machine.enter(1, "other2", Start::Woken, [150, 150], none);
    let woken = machine.enter(1, "cmd", Start::Woken, [200, 220], interrupt(0));
    machine.enter(1, "hog99", Start::Woken, [250, 250], interrupt(0));
    let last = machine.enter(1, "cmd", Start::Preempted, [250, 300], woken);
    let helper = machine.enter(0, "helper1", Start::Woken, [305, 308], last);
    machine.0[1].enter_idle(310);
    machine.enter(1, "cmd", Start::Woken, [400, 405], helper);
    machine.0[1].enter_idle(450);
}

#[test]
fn known() {
    let machine = Machine::new(2, 64);
    command(&machine);
    let mut slices = Slices::default();
    assert_eq!(slices.add(&machine.file()), Ok(1.0));
    assert_eq!((slices.add(&machine.file()), slices.missed()), (Ok(0.0), 0));
    let path = Path::of(&slices, 3).unwrap();
    assert_eq!((path.wall, path.unseen, path.wakeups), (350, 0, 2));
    let times = |name: &str| path.tasks[name].clone();
    let cmd = Times {
        ran: 45 + 5 + 30 + 20,
        waited: 5 + 20 + 10,
        preempted: 50,
        blocked: 70,
        ..Times::default()
    };
    assert_eq!(times("cmd"), cmd);
    let helper = Times {
        ran: 92,
        waited: 3,
        ..Times::default()
    };
    assert_eq!(times("helper1"), helper);
    assert_eq!(path.tasks.len(), 2);
    let behind: Vec<_> = path
        .behind
        .iter()
        .filter(|(_, ns)| **ns != 0)
        .map(|(occupant, ns)| (occupant.clone(), *ns))
        .collect();
    let task = |name: &str| Occupant::Task(name.to_owned());
    // `other2` was on the CPU when the timer's interrupt came, and `tool` had the helper's.
    let expected = [
        (task("hog99"), 50),
        (task("other2"), 20),
        (task("tool"), 3),
        (Occupant::Idle, 5),
        // Before the first slice of a CPU.
        (Occupant::Unknown, 10),
    ];
    assert_eq!(behind, expected);
    // The first hop took no time, as that of a blocked task. Before it is `cmd`, preempted by
    // `hog99`, and `cmd` again.
    let text =
        "outlier id 1 metric offcpu cpu 1 duration_ns 190 end_ns 300 missing_ns 0 culprits 0 \
        pid 3 prio 120 comm cmd\n";
    let chain =
        "chain id 1 metric offcpu cpu 1 duration_ns 190 end start blocked_ns 70 missing_ns 0 \
        hops 3\n";
    let hops =
        [("0", "0", "0"), ("0", "50", "0"), ("30", "0", "20")].map(|(ran, preempted, waited)| {
            format!(
                "  hop id 1 via - ran_ns {ran} waited_ns {waited} preempted_ns {preempted} \
             throttled_ns 0 slices 1 cpu 1 group 0 pid 3 comm cmd\n"
            )
        });
    let mut outlier = text::outliers(&format!("{text}{chain}{}", hops.concat())).remove(0);
    slices.explain(&mut outlier, &slices.by_task());
    let behind: Vec<_> = outlier
        .chain
        .unwrap()
        .hops
        .into_iter()
        .map(|hop| hop.behind)
        .collect();
    let wanted = [None, Some((task("hog99"), 50)), Some((task("other2"), 20))];
    assert_eq!(behind, wanted);
    assert!(Path::of(&slices, 4).is_none() && Path::of(&slices, 77).is_none());
}

/// `cmd` sleeps from 110 to 200. An interrupt at 190 wakes a thread that stands for it, which runs
/// since 105 or has last slept from 60 or 150 on. It wakes `cmd`, or `helper1`, which `cmd` has
/// woken at 105, which sleeps from 120 on, and which wakes `cmd`.
#[test]
fn a_thread_for_interrupts() {
    for (slept, helps, cmd, helper, thread) in [
        (60, false, (30, 80), (0, 0), (5, 5)),
        (150, false, (30, 80), (0, 0), (5, 5)),
        (105, false, (30, 0), (0, 0), (90, 0)),
        (60, true, (25, 0), (18, 70), (1, 5)),
        (150, true, (25, 0), (18, 70), (1, 5)),
    ] {
        let machine = Machine::new(2, 16);
        let none = Link::UNKNOWN;
        let times = |time: u64| [time, time];
        machine.enter(1, "irq/9", Start::Unknown, times(50), none);
        machine.0[1].enter_idle(60);
        let fork = none.within(Context::Fork);
        let first = machine.enter(0, "cmd", Start::Forked, times(100), fork);
        machine.0[0].enter_idle(110);
        if helps {
            machine.enter(1, "helper1", Start::Woken, times(105), first);
            machine.0[1].enter_idle(120);
        }
        if slept == 150 {
            machine.enter(1, "irq/9", Start::Woken, times(140), interrupt(1));
            machine.0[1].enter_idle(150);
        }
        let woken = if slept == 105 { [103, 105] } else { [190, 195] };
        let mut waker = machine.enter(1, "irq/9", Start::Woken, woken, interrupt(1));
        if helps {
            waker = machine.enter(1, "helper1", Start::Woken, [196, 197], waker);
        }
        machine.enter(0, "cmd", Start::Woken, times(200), waker);
        machine.0[0].enter_idle(220);
        let mut slices = Slices::default();
        slices.add(&machine.file()).unwrap();
        let path = Path::of(&slices, 3).unwrap();
        let of = |name: &str| path.tasks.get(name).cloned().unwrap_or_default();
        assert_eq!((of("cmd").ran, of("cmd").blocked), cmd);
        assert_eq!((of("helper1").ran, of("helper1").blocked), helper);
        assert_eq!((of("irq/*").ran, of("irq/*").waited), thread);
        let sum: u64 = path.tasks.values().map(Times::sum).sum();
        assert_eq!((sum, path.unseen), (path.wall, 0));
    }
}

/// A task has left its CPU once another one or the idle task has it.
#[test]
fn running() {
    let machine = Machine::new(1, 16);
    let mut slices = Slices::default();
    let mut is_running = |machine: &Machine| {
        slices.add(&machine.file()).unwrap();
        slices.is_running(3)
    };
    assert!(!is_running(&machine));
    machine.enter(0, "cmd", Start::Unknown, [5, 5], Link::UNKNOWN);
    assert!(is_running(&machine));
    machine.0[0].enter_idle(9);
    assert!(!is_running(&machine));
    machine.enter(0, "cmd", Start::Unknown, [10, 10], Link::UNKNOWN);
    machine.enter(0, "tool", Start::Unknown, [12, 12], Link::UNKNOWN);
    assert!(!is_running(&machine));
}

/// Slices that are overwritten before they are read are counted, and the path says where it ends.
#[test]
fn overwritten() {
    let machine = Machine::new(2, 16);
    let mut slices = Slices::default();
    command(&machine);
    slices.add(&machine.file()).unwrap();
    let times = |number: u64| [1000 * number, 1000 * number];
    let mut last = machine.0[1].now();
    for number in 1..=40 {
        last = machine.enter(1, "cmd", Start::Preempted, times(number), last);
    }
    machine.0[1].enter_idle(50_000);
    slices.add(&machine.file()).unwrap();
    assert_eq!(slices.missed(), 40 - 16);
    // Not those of before it was read at all.
    let mut later = Slices::default();
    later.add(&machine.file()).unwrap();
    assert_eq!(later.missed(), 0);
    let path = Path::of(&slices, 3).unwrap();
    let sum: u64 = path.tasks.values().map(Times::sum).sum();
    assert_eq!(sum + path.unseen, path.wall);
    assert_eq!(path.wall, 50_000 - 100);
    assert!(path.unseen > 20_000, "{path:?}");
    assert_eq!(path.tasks["cmd"].unknown, 0);
}

/// A task may have run in slices that were overwritten, rather than have slept all the while; not
/// so if the other CPU keeps its first slice only later.
#[test]
fn lost_slices() {
    for (forgets, lost, blocked, unknown) in
        [(0, 0, 80, 0), (0, 1, 0, 90), (2, 0, 80, 0), (2, 1, 0, 90)]
    {
        let machine = Machine::new(2, 16);
        let mut slices = Slices::default();
        let times = |time: u64| [time, time];
        let none = Link::UNKNOWN;
        match forgets {
            0 => drop(machine.enter(1, "first", Start::Unknown, times(1), none)),
            _ => (0..forgets).for_each(|_| machine.0[1].forget()),
        }
        machine.enter(
            0,
            "cmd",
            Start::Forked,
            times(100),
            none.within(Context::Fork),
        );
        machine.0[0].enter_idle(110);
        slices.add(&machine.file()).unwrap();
        machine.enter(1, "cmd", Start::Woken, times(150), interrupt(1));
        for time in 160..175 + lost {
            machine.enter(1, "other2", Start::Woken, times(time), none);
        }
        machine.enter(0, "cmd", Start::Woken, times(200), interrupt(0));
        machine.0[0].enter_idle(220);
        slices.add(&machine.file()).unwrap();
        assert_eq!(slices.missed(), lost);
        let path = Path::of(&slices, 3).unwrap();
        let cmd = &path.tasks["cmd"];
        assert_eq!(
            (cmd.blocked, cmd.unknown),
            (blocked, unknown),
            "{forgets} {lost}"
        );
    }
}

/// Slices of another count are not those that follow.
#[test]
fn counted_anew() {
    let machine = Machine::new(1, 16);
    machine.enter(0, "cmd", Start::Unknown, [10, 10], Link::UNKNOWN);
    let mut slices = Slices::default();
    let mut file = machine.file();
    assert_eq!(slices.add(&file), Ok(1.0));
    for wrong in [24, 8, 0] {
        file[wrong] ^= 2;
        assert!(slices.add(&file).is_err());
        file[wrong] ^= 2;
    }
    assert_eq!(slices.add(&file), Ok(0.0));
}

/// Whatever is in the file, there is a result, and the law holds.
#[test]
fn damaged() {
    let machine = Machine::new(2, 64);
    command(&machine);
    let file = machine.file();
    let mut random = Random(1);
    for _ in 0..2000 {
        let mut slices = Slices::default();
        if slices.add(&mutate(&mut random, &file)).is_err() {
            continue;
        }
        if let Some(path) = Path::of(&slices, 3) {
            let sum: u64 = path.tasks.values().map(Times::sum).sum();
            assert_eq!(sum + path.unseen, path.wall);
        }
    }
}

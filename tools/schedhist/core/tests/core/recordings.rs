// SPDX-License-Identifier: GPL-2.0

//! Tests of recordings.

use std::ops::Range;

use super::*;

/// Recordings keep what is in progress, and readers that do not know it skip it.
#[test]
fn recordings_of_what_is_in_progress() {
    let (_, snapshots) = long_stays(7);
    let mut file = Vec::new();
    let mut recorder = Recorder::new(&mut file).unwrap();
    let all: Vec<_> = snapshots.iter().map(|bytes| taken(bytes, 1)).collect();
    for (taken, bytes) in all.iter().zip(&snapshots) {
        recorder.snapshot(taken, bytes).unwrap();
    }
    let read = |file: &[u8]| -> Vec<raw::Snapshot> {
        let mut player = Player::new(file).unwrap();
        let items = std::iter::from_fn(|| player.next_item());
        let snapshots = items.filter_map(|item| match item {
            Item::Snapshot(taken) => Some(taken.snapshot),
            _ => None,
        });
        snapshots.collect()
    };
    let found = read(&file);
    assert_eq!(found.len(), 3);
    for (found, taken) in found.iter().zip(&all) {
        let mut wanted = taken.snapshot.clone();
        if wanted.time != all[0].snapshot.time {
            // Only long ones are named.
            wanted.tasks.retain(|task| task.duration >= 100_000_000);
        }
        assert_eq!(found, &wanted);
    }
    // Without its chunks, as an earlier command would have written it.
    let mut old = file[..16].to_vec();
    let others = sim::chunks(&file)
        .into_iter()
        .filter(|(_, kind)| *kind != 8);
    others.for_each(|(chunk, _)| old.extend(&file[chunk]));
    assert!(old.len() < file.len());
    let found = read(&old);
    assert_eq!(found.len(), 3);
    assert_eq!(
        found[1].cpus[0].histograms,
        all[1].snapshot.cpus[0].histograms
    );
    assert!(found[1].cpus[0].slice.is_none() && found[1].tasks.is_empty());
}

/// As many outliers as `outlier_rate` allows, with four culprits each, take less than 10 kB a
/// second.
#[test]
fn outliers_of_a_busy_machine() {
    let mut random = Random(7);
    let mut below = |most: u64| random.next() % most;
    let mut text = String::new();
    for id in 1000..1100 {
        let parts = [(); 4].map(|()| (below(4000), below(50_000_000)));
        let missing = below(10_000);
        let duration = parts.iter().map(|(_, ns)| ns).sum::<u64>() + missing;
        let end = 7_000_000_000_000 + id * 10_000_000 + below(9_000_000);
        let (cpu, pid) = (below(64), below(4000));
        text += &format!(
            "outlier id {id} metric runq_wakeup cause wakeup cpu {cpu} duration_ns {duration} \
             start_ns {} end_ns {end} missing_ns {missing} culprits 4 pid {pid} prio 120 group {} \
             comm worker/{pid}\n",
            end - duration,
            pid % 40
        );
        for (pid, ns) in parts {
            text += &format!(
                "  culprit id {id} ran_ns {ns} slices {} pid {pid} prio 120 group {} \
                 comm worker/{pid}\n",
                1 + ns % 30,
                pid % 40
            );
        }
    }
    let mut recorder = Recorder::append(Vec::new());
    recorder.outliers(&text).unwrap();
    let length = recorder.get_mut().len();
    assert!(
        text.len() > 45_000 && length < 10_000,
        "{}: {length}",
        text.len()
    );
}

#[test]
fn recordings_give_back_what_they_got() {
    let mut machine = Machine::new(4, 5, 9);
    let mut recorder = Recorder::new(Vec::new()).unwrap();
    let mut snapshots = Vec::new();
    recorder.info("kernel 7.3\n").unwrap();
    for i in 0..20 {
        machine.run(i * 7);
        // Long waits are looked at later on, and not at each snapshot there are new ones.
        if i >= 5 {
            let sums = std::array::from_fn(|place| i / 2 * (1_000 + place as u64));
            machine.long_waits = Some((1_000_000, WaitSums(sums)));
        }
        let bytes = machine.raw();
        let taken = taken(&bytes, i);
        assert_eq!(taken.snapshot.long_waits.is_some(), i >= 5);
        recorder.snapshot(&taken, &bytes).unwrap();
        snapshots.push(taken);
    }
    let data = recorder.get_mut().clone();
    let mut player = Player::new(&data[..]).unwrap();
    assert_eq!(
        player.next_item(),
        Some(Item::Info("kernel 7.3\n".to_owned()))
    );
    for taken in &snapshots {
        assert_eq!(player.next_item(), Some(Item::Snapshot(taken.clone())));
    }
    assert_eq!(player.next_item(), None);
    // Cut off anywhere, it gives the snapshots that were complete, and says so.
    let chunks = sim::chunks(&data);
    let ends: Vec<_> = chunks.iter().map(|(chunk, _)| chunk.end).collect();
    for end in (16..data.len()).step_by(37) {
        let (found, lost) = play(&data[..end]);
        let complete = ends.iter().filter(|chunk| **chunk <= end).count();
        let is_there =
            |chunk: &&(Range<usize>, u8)| [2, 3].contains(&chunk.1) && chunk.0.end <= end;
        let there = chunks.iter().filter(is_there);
        assert_eq!(found, snapshots[..there.count()]);
        let rest = end - ends[..complete].last().unwrap_or(&16);
        let cut: Vec<_> = lost.iter().map(|lost| (lost.is_cut, lost.bytes)).collect();
        let wanted = (rest != 0).then_some((true, rest as u64));
        assert_eq!(cut, Vec::from_iter(wanted), "at {end}");
    }
}

/// Returns the snapshots of a recording, and what is lost.
fn play(data: impl Read) -> (Vec<TimedSnapshot>, Vec<Lost>) {
    let (mut found, mut lost) = (Vec::new(), Vec::new());
    let Ok(mut player) = Player::new(data) else {
        return (found, lost);
    };
    while let Some(item) = player.next_item() {
        match item {
            Item::Snapshot(taken) => found.push(taken),
            Item::Lost(one) => lost.push(one),
            _ => {}
        }
    }
    (found, lost)
}

/// A recording that cannot be read to its end says why, without the number of the error.
#[test]
fn unreadable() {
    struct Unreadable;
    impl Read for Unreadable {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(5))
        }
    }
    let (bytes, _) = two(1);
    let mut recorder = Recorder::new(Vec::new()).unwrap();
    recorder.snapshot(&taken(&bytes, 1), &bytes).unwrap();
    let data = recorder.get_mut();
    let (found, lost) = play(data.chain(Unreadable));
    assert_eq!((found, lost.len()), (vec![taken(&bytes, 1)], 1));
    let why = "cannot be read on: Input/output error at byte";
    let wanted = format!("{why} {}: 0 bytes are lost", data.len());
    assert_eq!(lost[0].to_string(), wanted);
}

/// Damages a recording behind its head. Returns the kind of the damage, and the bytes of the good
/// recording that are not as they were.
fn damage(data: &mut Vec<u8>, random: &mut Random) -> (usize, std::ops::Range<usize>) {
    let at = 16 + random.next() as usize % (data.len() - 16);
    let length = (1 << (random.next() % 13)).min(data.len() - at);
    let kind = random.next() as usize % 5;
    let damaged = match kind {
        0 | 1 => {
            data[at] ^= 1 << (random.next() % 8);
            at..at + 1
        }
        2 => {
            data[at..at + length].fill(0);
            at..at + length
        }
        3 => {
            data.drain(at..at + length);
            at..at + length
        }
        _ => {
            data.splice(at..at, (0..length).map(|_| random.next() as u8));
            at..at + 1
        }
    };
    (kind, damaged)
}

/// Damaged anywhere and anyhow, a recording gives nothing wrong, says so, and loses no more than
/// what is between two whole snapshots.
#[test]
fn damage_costs_a_minute() {
    let mut machine = Machine::new(2, 5, 9);
    let mut recorder = Recorder::new(Vec::new()).unwrap();
    let mut snapshots = Vec::new();
    recorder.info("kernel 7.3\n").unwrap();
    for i in 0..40 {
        machine.run(20);
        machine.now = (i + 1) * 5_000_000_000;
        let bytes = machine.raw();
        let taken = taken(&bytes, i);
        recorder.snapshot(&taken, &bytes).unwrap();
        recorder.outliers(&format!("outlier {i}\n")).unwrap();
        snapshots.push(taken);
    }
    let good = recorder.get_mut().clone();
    let chunks = sim::chunks(&good);
    let wholes = chunks.iter().filter(|(_, kind)| *kind == 2).count();
    assert_eq!(wholes, 4, "one in twelve of forty");
    // Where each snapshot begins, and the whole one that it builds on.
    let mut places: Vec<(usize, usize, usize)> = Vec::new();
    for (Range { start, end }, kind) in chunks {
        match kind {
            2 => places.push((start, end, start)),
            3 => places.push((start, end, places.last().unwrap().2)),
            _ => {}
        }
    }
    let mut random = Random(41);
    let mut kinds_of_damage = [0; 5];
    for round in 0..1_500 {
        let mut data = good.clone();
        let (kind, damaged) = damage(&mut data, &mut random);
        let at = damaged.start;
        if data == good {
            continue;
        }
        kinds_of_damage[kind] += 1;
        let (found, lost) = play(&data[..]);
        let is_hit = |begin, end| damaged.start < end && damaged.end > begin;
        let mut wanted = Vec::new();
        let mut is_base = false;
        for ((begin, end, whole), taken) in places.iter().zip(&snapshots) {
            is_base = (is_base || begin == whole) && !is_hit(*begin, *end);
            let is_after = damaged.start < *begin && damaged.start > *whole;
            // A difference behind other damage may be left out, too.
            if is_base && !(is_after && begin != whole) {
                wanted.push(taken.clone());
            }
        }
        assert!(
            found.iter().all(|taken| snapshots.contains(taken)),
            "{round}"
        );
        assert!(
            wanted.iter().all(|taken| found.contains(taken)),
            "{round}: {kind} at {at}"
        );
        // What is taken out as a whole, or at the end, cannot be missed.
        assert!(!lost.is_empty() || kind == 3, "{round}: {kind} at {at}");
        assert!(lost.iter().all(|lost| lost.bytes > 0));
    }
    assert!(kinds_of_damage.iter().all(|number| *number > 100));
    // A byte of the head, but for the version.
    for at in (0..8).chain(9..16) {
        let mut data = good.clone();
        data[at] ^= 4;
        let (found, lost) = play(&data[..]);
        assert_eq!((found.len(), lost.len()), (40, 1), "{at}");
    }
}

/// Recordings of the first version of the command: a single whole snapshot.
#[test]
fn old_recordings() {
    let mut machine = Machine::new(2, 5, 9);
    let mut data = b"SCHDHREC\x01\0\0\0\0\0\0\0".to_vec();
    let mut chunk = |kind, contents: &[u8]| data.extend(sim::chunk(kind, contents));
    chunk(1, b"kernel 7.3\n");
    let mut snapshots: Vec<TimedSnapshot> = Vec::new();
    for i in 0_u64..100 {
        machine.run(20);
        machine.now = (i + 1) * 5_000_000_000;
        let bytes = machine.raw();
        let taken = taken(&bytes, i);
        let mut contents = i.to_le_bytes().to_vec();
        contents.extend(1_000_u64.to_le_bytes());
        match snapshots.last() {
            None => contents.extend(bytes),
            Some(last) => {
                contents.extend(delta::encode(&last.snapshot, &taken.snapshot).unwrap());
            }
        }
        chunk(if i == 0 { 2 } else { 3 }, &contents);
        chunk(5, format!("run {i}\n").as_bytes());
        snapshots.push(taken);
    }
    assert_eq!(play(&data[..]), (snapshots.clone(), Vec::new()));
    // The runs behind damage can be read, the differences cannot.
    let at = sim::chunks(&data)[1 + 2 * 50].0.start;
    data[at + 20] ^= 1;
    let (found, lost) = play(&data[..]);
    assert_eq!(found, snapshots[..50]);
    assert_eq!(
        (lost.len(), lost[0].snapshots, lost[0].is_cut),
        (1, 49, false)
    );
    let mut player = Player::new(&data[..]).unwrap();
    let items = std::iter::from_fn(|| player.next_item());
    let runs = items.filter(|item| matches!(item, Item::Run(_)));
    assert_eq!(runs.count(), 100);
}

/// Times are those of the module's clock, whatever the wall clock does; only if that goes back does
/// the wall clock tell how long it took.
#[test]
fn the_course_of_a_recording() {
    let mut machine = Machine::new(1, 5, 1);
    let mut course = Course::default();
    let mut at = |time: u64, unix_ns: u64| {
        machine.now = time;
        course.place(&taken(&machine.raw(), unix_ns))
    };
    assert_eq!(at(5_000, 1_000_000), 0);
    assert_eq!(at(6_000, 7), 1_000);
    assert_eq!(at(8_000, 9_000_000), 3_000);
    assert_eq!(at(100, 9_000_500), 3_500);
    assert_eq!(at(200, 0), 3_600);
    assert_eq!(at(0, 0), 3_600);
    assert_eq!(at(50, 0), 3_650);
    assert_eq!(course.of(Some(40)), 3_640);
    assert_eq!(course.of(Some(70)), 3_670);
    assert_eq!(course.of(None), 3_650);
    assert_eq!(Course::default().of(Some(9)), 0);
}

#[test]
fn the_time_at_which_groups_began() {
    let mut machine = Machine::new(2, 5, 1);
    machine.run(10);
    let since = |bytes: &[u8]| raw::groups(bytes).map(|groups| groups.and_then(|all| all.since));
    assert_eq!(since(&machine.raw()), Ok(None));
    machine.groups = Some(Groups {
        since: 1 << 40,
        ..Groups::new(GROUPS, GROUP_RUNQ)
    });
    let bytes = machine.raw();
    assert_eq!(since(&bytes), Ok(Some(1 << 40)));
    assert_eq!(
        raw::decode(&bytes).map(|snapshot| snapshot.cpus.len()),
        Ok(2)
    );
    for len in 0..bytes.len() {
        assert!(since(&bytes[..len]).is_err() && raw::decode(&bytes[..len]).is_err());
    }
}

/// Early versions did not deflate outliers.
#[test]
fn outliers_of_recordings() {
    let early = item_of(7, b"outlier");
    assert_eq!(early, Some(Item::Outliers("outlier".to_owned())));
    assert!(matches!(item_of(11, b"outlier"), Some(Item::Lost(_))));
}

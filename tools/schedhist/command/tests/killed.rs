// SPDX-License-Identifier: GPL-2.0

//! `record`, killed at any instant, leaves a file that can be read, and loses at most the last
//! interval.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufReader, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use rustix::io::ioctl_fionread;
use schedhist_core::{
    engine,
    raw::{self, Snapshot},
    recording::file::{Item, Player},
};

mod support;

use support::{sim, Folder};

/// The number of kills.
const KILLS: u64 = 1_000;

/// The snapshots of a recording, and whether it ends with a part of one.
fn snapshots(path: &Path) -> (Vec<Snapshot>, bool) {
    let mut player = Player::new(BufReader::new(File::open(path).unwrap())).unwrap();
    let (mut found, mut is_cut) = (Vec::new(), false);
    while let Some(item) = player.next_item() {
        match item {
            Item::Snapshot(taken) => found.push(taken.snapshot),
            Item::Mark(text) => panic!("a mark: {text}"),
            Item::Lost(lost) => {
                assert!(lost.is_cut, "{lost}");
                is_cut = true;
            }
            Item::Info(_) | Item::Run(_) | Item::Groups(_) | Item::Outliers(_) => {}
        }
    }
    (found, is_cut)
}

/// Whether the child has the FIFO open.
fn reads(child: &Child, fifo: &Path) -> bool {
    let fds = fs::read_dir(format!("/proc/{}/fd", child.id()));
    fds.is_ok_and(|mut fds| {
        fds.any(|fd| fs::read_link(fd.unwrap().path()).is_ok_and(|p| p == fifo))
    })
}

/// Gives the child one snapshot. When the child has opened the FIFO for it, it has done everything
/// with the one before.
fn give(child: &Child, fifo: &Path, bytes: &[u8]) {
    let end = Instant::now() + Duration::from_secs(60);
    let mut file = loop {
        // Fails for as long as nobody reads.
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(fifo);
        if let Ok(file) = file {
            break file;
        }
        assert!(Instant::now() < end, "it asks for no snapshot");
        thread::sleep(Duration::from_micros(200));
    };
    let mut rest = bytes;
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(written) => rest = &rest[written..],
            // The FIFO is full.
            Err(_) => thread::yield_now(),
        }
        assert!(Instant::now() < end, "it does not read");
    }
    // Or the child would read the next snapshot as a part of this one: it has to begin, and to end.
    while ioctl_fionread(&file).unwrap() != 0 {
        assert!(Instant::now() < end, "it does not read");
        thread::yield_now();
    }
    drop(file);
    while reads(child, fifo) {
        assert!(Instant::now() < end, "it does not close the file");
        thread::yield_now();
    }
}

#[test]
fn killed_at_any_instant() {
    let folder = Folder::new("killed");
    let fifo = folder.join("raw");
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();

    let mut machine = sim::Machine::new(2, 5, 3);
    let given: Vec<_> = (0..4)
        .map(|_| {
            machine.run(400);
            machine.raw()
        })
        .collect();
    let wanted = given.iter().map(|bytes| raw::Snapshot {
        offline: None,
        ..raw::decode(bytes).unwrap()
    });
    let wanted: Vec<_> = wanted.collect();
    let mut random = sim::Random(23);
    // How many recordings had all snapshots, lacked the last one, and had one in part.
    let (mut all, mut one_less, mut cut) = (0, 0, 0);
    let mut kill = 0;
    // On a busy host most kills come late, so it takes more of them.
    while kill < KILLS || (all.min(one_less) < 10 && kill < 10 * KILLS) {
        kill += 1;
        let path = folder.join("data");
        let _ = fs::remove_file(&path);
        let mut command = folder.command("--dir . record -I 10 -o data");
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let n = random.next() as usize % (given.len() + 1);
        for bytes in &given[..n] {
            give(&child, &fifo, bytes);
        }
        // Mostly soon: while it writes. It also has to start before it asks for the first snapshot.
        let most = if n == 0 {
            1 << 22
        } else {
            1 << (random.next() % 21)
        };
        let end = Instant::now() + Duration::from_nanos(random.next() % most);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if !path.exists() {
            assert!(n <= 1, "{kill}: there is no file after {n} snapshots");
            continue;
        }
        let (found, is_cut) = snapshots(&path);
        assert!(
            found.len() + 1 >= n && found.len() <= n,
            "{kill}: {} of {n} snapshots",
            found.len()
        );
        assert!(found == wanted[..found.len()], "{kill}: another snapshot");
        if found.len() == n {
            all += 1;
        } else {
            one_less += 1;
        }
        cut += u32::from(is_cut);
    }
    println!("{all} had all snapshots, {one_less} all but the last one, {cut} a part of one");
    // Otherwise the kills come too early or too late.
    assert!(all > 0 && one_less > 0, "{all} and {one_less}");
}

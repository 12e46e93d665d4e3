// SPDX-License-Identifier: GPL-2.0

//! `run` passes signals on to its command, and has the status of the command.

#![allow(missing_docs)]

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use nix::{
    sys::signal::{kill, Signal},
    unistd::Pid,
};
use schedhist_core::engine;

#[path = "../../core/tests/sim/mod.rs"]
mod sim;

/// A folder like that of the module.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("run-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let mut machine = sim::Machine::new(2, 5, 1);
    machine.run(100);
    fs::write(folder.join("raw"), machine.raw()).unwrap();
    folder
}

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedhist"));
    command.args(["run", "--dir", "."]).args(words);
    command.current_dir(folder).stderr(Stdio::piped());
    command
}

/// Returns a command that begins with other dispositions of signals.
fn with_signals(dispositions: &str, command: &Command) -> Command {
    let mut env = Command::new("env");
    env.arg(dispositions)
        .arg(command.get_program())
        .args(command.get_args());
    env.current_dir(command.get_current_dir().unwrap())
        .stderr(Stdio::piped());
    env
}

fn run(folder: &Path, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

#[test]
fn statuses() {
    let folder = folder("statuses");
    for (words, status) in [
        (&["--", "true"][..], 0),
        (&["--", "sh", "-c", "exit 7"], 7),
        (&["--", "sh", "-c", "kill -KILL $$"], 137),
        (&["--timeout", "100", "--", "sleep", "100"], 143),
        (&["--", "/no/such/command"], 127),
        (&["--", "/etc/passwd"], 126),
        // The greatest of all.
        (&["-r", "3", "--", "sh", "-c", "exit 3"], 3),
    ] {
        let output = run(&folder, words);
        assert_eq!(output.status.code(), Some(status), "{words:?}");
    }
    // Standard output is the command's.
    let output = run(&folder, &["--", "echo", "hello"]);
    assert_eq!(output.stdout, b"hello\n");
    fs::remove_dir_all(&folder).unwrap();
}

/// Arguments need not be UTF-8.
#[test]
fn any_bytes() {
    let folder = folder("bytes");
    let mut command = command(&folder, &["--", "printf", "%s"]);
    let output = command.arg(OsStr::from_bytes(b"caf\xe9")).output().unwrap();
    assert_eq!(output.stdout, b"caf\xe9");
    assert!(output.status.success());
    fs::remove_dir_all(&folder).unwrap();
}

/// A parent that ignores SIGCHLD leaves that to its children.
#[test]
fn ignored_children() {
    let folder = folder("children");
    for (words, status) in [
        (&["--", "sh", "-c", "exit 7"][..], 7),
        (&["--", "/no/such/command"], 127),
    ] {
        let mut command = with_signals("--ignore-signal=CHLD", &command(&folder, words));
        assert_eq!(command.output().unwrap().status.code(), Some(status));
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// What `-o` would destroy stays as it is: an older recording if there is no such command, and what
/// is no regular file.
#[test]
fn kept_files() {
    let folder = folder("kept");
    let schedhist = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedhist"));
        command.args(words).current_dir(&folder).output().unwrap()
    };
    let files = || {
        let entries = fs::read_dir(&folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for verb in ["run", "record"] {
        fs::write(folder.join("file"), "an older recording").unwrap();
        fs::create_dir_all(folder.join("folder")).unwrap();
        let _ = std::os::unix::fs::symlink("raw", folder.join("link"));
        let before = files();
        for out in ["file", "folder", "link"] {
            let words = [verb, "--dir", ".", "-o", out, "--", "/no/such/command"];
            assert!(!schedhist(&words).status.success(), "{words:?}");
            assert_eq!(files(), before, "{words:?}");
        }
        assert_eq!(
            fs::read(folder.join("file")).unwrap(),
            b"an older recording"
        );
        assert!(folder.join("link").is_symlink());
        let output = schedhist(&[verb, "--dir", ".", "-o", "file", "--", "true"]);
        assert!(output.status.success(), "{output:?}");
        let mode = fs::metadata(folder.join("file"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            fs::read(folder.join("file.old")).unwrap(),
            b"an older recording"
        );
        for name in ["file", "file.old"] {
            fs::remove_file(folder.join(name)).unwrap();
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// The command begins with no signal blocked: it dies of one, or handles it.
#[test]
fn signals() {
    let folder = folder("signals");
    for (signal, handler, status) in [
        (Signal::SIGTERM, "", 128 + libc::SIGTERM),
        (Signal::SIGHUP, "", 128 + libc::SIGHUP),
        (Signal::SIGTERM, "trap 'exit 5' TERM; ", 5),
        (Signal::SIGINT, "trap 'exit 6' INT; ", 6),
    ] {
        let script = format!("{handler}echo ready; for i in $(seq 300); do sleep 0.1; done");
        let command = command(&folder, &["--", "sh", "-c", &script]);
        // Under nohup, or in the background of a script, some are ignored, and what is started
        // inherits that.
        let mut child = with_signals("--default-signal=TERM,HUP,INT", &command)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{signal}: {said}");
        assert!(said.contains("sh: "), "it does not print what there is");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// A command that ends before it is to be measured: nothing is shown, and its status counts.
#[test]
fn early_end() {
    let folder = folder("early");
    let output = run(&folder, &["-D", "60000", "--", "sh", "-c", "exit 3"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(!text.contains("runq"), "{text}");
    assert!(
        text.contains("ended before it was to be measured"),
        "{text}"
    );
    fs::remove_dir_all(&folder).unwrap();
}

/// The command goes on when the module's files are gone, and its status counts.
#[test]
fn unloaded_meanwhile() {
    let folder = folder("unloaded");
    let script = "rm raw; sleep 1; : > done; exit 7";
    let output = run(&folder, &["-I", "100", "--", "sh", "-c", script]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(folder.join("done").exists(), "{text}");
    fs::remove_dir_all(&folder).unwrap();
}

/// Lines for programs go where nothing else is printed.
#[test]
fn lines_apart() {
    let folder = folder("lines");
    let shell = |script: &str| {
        let script = script.replace("RUN", "\"$0\" run --dir .");
        let script = script.replace("NOISE", "sh -c 'echo noise >&2; echo out'");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_schedhist")]);
        command.current_dir(&folder).output().unwrap()
    };
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
    for (script, file, first) in [
        (
            "RUN -j -o a -- NOISE",
            "a",
            "{\"schema\":\"schedhist.run.v1\"",
        ),
        (
            "RUN -j -o b --append -- NOISE",
            "b",
            "{\"schema\":\"schedhist.run.v1\"",
        ),
        ("RUN -x , -o c --append -- NOISE", "c", "from_ns,"),
        (
            "RUN -j --log-fd 3 -- NOISE 3> d",
            "d",
            "{\"schema\":\"schedhist.run.v1\"",
        ),
        (
            "RUN -j --log-fd 7 --append -- NOISE 7>> e",
            "e",
            "{\"schema\":\"schedhist.run.v1\"",
        ),
        ("RUN --log-fd 3 -- NOISE 3> f", "f", ""),
    ] {
        let mut sizes = Vec::new();
        for _ in 0..2 {
            let output = shell(script);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{script}: {said}");
            assert_eq!(output.stdout, b"out\n");
            assert!(said.contains("noise\n"), "{script}: {said}");
            assert!(!said.contains("whose") && !said.contains("runq"), "{said}");
            let text = read(file);
            let has_figures = text.contains("runq") || text.contains("whose");
            assert!(has_figures && !text.contains("noise"), "{text}");
            assert_eq!(text.matches("from_ns,").count(), usize::from(file == "c"));
            let lines = text.lines();
            let rows = lines.filter(|line| line.starts_with(first)).count();
            assert_ne!(rows, 0, "{script}: {text}");
            sizes.push(text.lines().count() - usize::from(file == "c"));
        }
        let is_kept = sizes[1] == 2 * sizes[0];
        assert_eq!(is_kept, script.contains("append"), "{script}: {sizes:?}");
    }
    // The command does not inherit the descriptor, and what others wrote to it stays.
    let script = "exec 3> g; echo before >&3; RUN --log-fd 3 -- sh -c 'echo x >&3'";
    let output = shell(script);
    assert!(!output.status.success());
    assert!(read("g").starts_with("before\n") && read("g").contains("whose"));
    // An older file stays until the command runs, and a recording anyhow.
    assert_eq!(
        shell("RUN -j -o a -- /no/such/command").status.code(),
        Some(127)
    );
    assert!(read("a").contains("runq"));
    assert!(shell("RUN -o data -- true").status.success());
    for (script, why) in [
        ("RUN -j -o data -- true", "this is a recording"),
        ("RUN -j -o data --append -- true", "this is a recording"),
        ("RUN -j -o a --log-fd 3 -- true 3> d", "another place"),
        ("RUN --log-fd 3 -- true 3< data", "Bad file descriptor"),
        ("RUN --log-fd 777 -- true", "Bad file descriptor"),
        ("RUN --log-fd 0 -- true", "1 or more"),
        ("RUN --append -- true", "required arguments"),
    ] {
        let output = shell(script);
        let said = String::from_utf8_lossy(&output.stderr).replace("\n  ", " ");
        assert_eq!(output.status.code(), Some(2), "{script}: {said}");
        assert!(said.contains(why), "{script}: {said}");
    }
    assert!(fs::read(folder.join("data"))
        .unwrap()
        .starts_with(b"SCHDHREC"));
    fs::remove_dir_all(&folder).unwrap();
}

/// A full disk does not hide how the command ended, and is an error if it ended well.
#[test]
fn full_disk() {
    let folder = folder("full");
    for (words, status) in [
        (&["-j", "-o", "/dev/full", "--", "true"][..], 1),
        (&["-j", "-o", "/dev/full", "--", "sh", "-c", "exit 7"], 7),
    ] {
        let output = run(&folder, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains("No space left"), "{words:?}: {said}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// The words of a command are recorded as they are.
#[test]
fn words_of_the_command() {
    let folder = folder("words");
    let word = "#1 a=b: \"c\" \\x\nscope x";
    let output = run(&folder, &["-o", "data", "--", "true", word]);
    assert!(output.status.success());
    let mut report = Command::new(env!("CARGO_BIN_EXE_schedhist"));
    report.args(["report", "-i", "data"]).current_dir(&folder);
    let output = report.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.starts_with("true #1 a=b: \"c\" \\x\\x0ascope x\n"),
        "{said}"
    );
    assert!(said.contains("note: all figures"), "{said}");
    fs::remove_dir_all(&folder).unwrap();
}

// SPDX-License-Identifier: GPL-2.0

//! `run` passes signals on to its command, and has the status of the command.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    process::{Command, Output, Stdio},
};

use nix::{
    sys::signal::{kill, Signal},
    unistd::Pid,
};
use schedhist_core::engine;

mod support;

use support::{said, sim, Folder};

/// A folder like that of the module.
fn folder(name: &str) -> Folder {
    let folder = Folder::new(&format!("run-{name}"));
    let mut machine = sim::Machine::new(2, 5, 1);
    machine.run(100);
    folder.put("raw", machine.raw());
    folder
}

fn command(folder: &Folder, words: &[&str]) -> Command {
    let mut command = folder.command("run --dir .");
    command.args(words).stderr(Stdio::piped());
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

fn run(folder: &Folder, words: &[&str]) -> Output {
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
}

/// Arguments need not be UTF-8.
#[test]
fn any_bytes() {
    let folder = folder("bytes");
    let mut command = command(&folder, &["--", "printf", "%s"]);
    let output = command.arg(OsStr::from_bytes(b"caf\xe9")).output().unwrap();
    assert_eq!(output.stdout, b"caf\xe9");
    assert!(output.status.success());
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
}

/// What `-o` would destroy stays as it is: an older recording if there is no such command, and what
/// is no regular file.
#[test]
fn kept_files() {
    let folder = folder("kept");
    let files = || {
        let entries = fs::read_dir(&*folder).unwrap();
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
            let words = format!("{verb} --dir . -o {out} -- /no/such/command");
            assert!(!folder.run(&words).status.success(), "{words}");
            assert_eq!(files(), before, "{words}");
        }
        assert_eq!(folder.read("file"), "an older recording");
        assert!(folder.join("link").is_symlink());
        folder.text(&format!("{verb} --dir . -o file -- true"));
        let about = fs::metadata(folder.join("file")).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        assert_eq!(folder.read("file.old"), "an older recording");
        for name in ["file", "file.old"] {
            fs::remove_file(folder.join(name)).unwrap();
        }
    }
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
}

/// A command that ends before it is to be measured: nothing is shown, and its status counts.
#[test]
fn early_end() {
    let folder = folder("early");
    let output = run(&folder, &["-D", "60000", "--", "sh", "-c", "exit 3"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(!text.contains("runq"), "{text}");
    assert!(
        text.contains("ended before it was to be measured"),
        "{text}"
    );
}

/// The command goes on when the module's files are gone, and its status counts.
#[test]
fn unloaded_meanwhile() {
    let folder = folder("unloaded");
    let script = "rm raw; sleep 1; : > done; exit 7";
    let output = run(&folder, &["-I", "100", "--", "sh", "-c", script]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(folder.join("done").exists(), "{text}");
}

/// Lines for programs go where nothing else is printed.
#[test]
fn lines_apart() {
    let folder = folder("lines");
    let shell = |script: &str| {
        let script = script.replace("RUN", "\"$0\" run --dir .");
        let script = script.replace("NOISE", "sh -c 'echo noise >&2; echo out'");
        folder.shell(&script).output().unwrap()
    };
    const JSON: &str = "{\"schema\":\"schedhist.run.v1\"";
    for (script, file, first) in [
        ("RUN -j -o a -- NOISE", "a", JSON),
        ("RUN -j -o b --append -- NOISE", "b", JSON),
        ("RUN -x , -o c --append -- NOISE", "c", "from_ns,"),
        ("RUN -j --log-fd 3 -- NOISE 3> d", "d", JSON),
        ("RUN -j --log-fd 7 --append -- NOISE 7>> e", "e", JSON),
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
            let text = folder.read(file);
            let has_figures = text.contains("runq") || text.contains("whose");
            // The words of the command are in the rows.
            let is_noise = |line: &str| ["noise", "out"].contains(&line);
            assert!(has_figures && !text.lines().any(is_noise), "{text}");
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
    assert!(folder.read("g").starts_with("before\n") && folder.read("g").contains("whose"));
    // What it appends to stays the caller's: its flags do not change.
    let script = "echo before > h; exec 3<> h; RUN --log-fd 3 --append -- true; echo after >&3; \
                  cat /proc/self/fdinfo/3";
    let about = String::from_utf8(shell(script).stdout).unwrap();
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = i32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
    assert_eq!(flags & libc::O_APPEND, 0, "{about}");
    let text = folder.read("h");
    assert!(text.starts_with("before\n") && text.contains("whose") && text.ends_with("\nafter\n"));
    // An older file stays until the command runs, and a recording anyhow.
    let output = shell("RUN -j -o a -- /no/such/command");
    assert_eq!(output.status.code(), Some(127));
    assert!(folder.read("a").contains("runq"));
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
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{script}: {said}");
        assert!(said.contains(why), "{script}: {said}");
    }
    let data = fs::read(folder.join("data")).unwrap();
    assert!(data.starts_with(b"SCHDHREC"));
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
        let said = said(&output);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains("No space left"), "{words:?}: {said}");
    }
}

/// The words of a command are recorded as they are.
#[test]
fn words_of_the_command() {
    let folder = folder("words");
    let word = "#1 a=b: \"c\" \\x\nscope x";
    let output = run(&folder, &["-o", "data", "--", "true", word]);
    assert!(output.status.success());
    let text = folder.text("report -i data");
    let title = "true #1 a=b: \"c\" \\x\\x0ascope x\n";
    assert!(text.starts_with(title), "{text}");
    assert!(text.contains("note: all figures"), "{text}");
}

/// `-p` takes a name, if one process is called so. Whose thread it was cannot be told of one that
/// has ended.
#[test]
fn waits_of_a_process() {
    let folder = folder("name");
    let mut stream = String::new();
    for (id, comm) in [
        (std::process::id(), "here"),
        (4_194_304, "gone"),
        (1, "init"),
    ] {
        stream += &format!(
            "outlier id {id} metric runq_wakeup cause wakeup cpu 1 duration_ns 50000000 start_ns 1 \
             end_ns 99 missing_ns 0 culprits 0 pid {id} prio 120 comm {comm}\n"
        );
    }
    folder.put("outlier_pipe", stream);
    fs::create_dir(folder.join("threshold_ns")).unwrap();
    folder.put("threshold_ns/runq", "1000\n");
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    let output = folder.run(&format!("--dir . runqslower 5ms -p {}", name.trim()));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(text.contains(" here ") && !text.contains("gone"), "{text}");
    assert!(!text.contains("init"), "{text}");
    assert!(said(&output).contains("1 waits of threads"), "{output:?}");
    let output = folder.run("--dir . runqlat -p no-such-name");
    assert!(
        said(&output).contains("no process is called so"),
        "{output:?}"
    );
}

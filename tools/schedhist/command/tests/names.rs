// SPDX-License-Identifier: GPL-2.0

//! Names of tasks and groups may have any bytes. Each text that holds some is taken apart so that
//! they come out as they went in.

use std::collections::BTreeMap;

use schedhist_core::{
    engine::{self, format::Escaped},
    exposition::{
        text::{encode, Dialect},
        Exposition, Family, Kind, Sample, Value,
    },
    raw,
    stacks::StackParser,
    text::OutlierParser,
};
use schedhist_page::flame::{picture, Stacks};

#[path = "../../core/tests/sim/mod.rs"]
mod sim;

use sim::{nasty_name, shown, Groups, Machine, Random};

const ROUNDS: u64 = 400;

/// Bytes between others.
fn cat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// perf pads no name where it prints stacks, and has empty lines between them, so what is blank at
/// the ends of a name is lost.
fn trimmed(name: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let begin = name
        .iter()
        .position(|byte| !is_blank(byte) && *byte != b'\n');
    let end = name.iter().rposition(|byte| !is_blank(byte));
    begin
        .zip(end)
        .map_or(&[], |(begin, end)| &name[begin..=end])
}

/// The columns that perf script prints before the event: with a CPU and a time, with a period, or
/// with both.
#[test]
fn flame_graphs() {
    let mut random = Random(11);
    let frames = "\tffffffff81000001 __schedule+0x10 ([kernel.kallsyms])\n\
                  \tffffffff81000002 do_nanosleep+0x53 ([kernel.kallsyms])\n\n";
    let mut seen = 0;
    for round in 0..ROUNDS {
        let mut text = b"# ========\n# captured on    : today\n# ========\n#\n".to_vec();
        let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
        for number in 1..=6 {
            // The others tell which columns there are.
            let name = match number {
                1 => b"plain".to_vec(),
                _ => nasty_name(&mut random),
            };
            // What begins with an end of line is between two samples, and with a tab, a frame.
            let is_first = |byte| name.first() == Some(byte);
            let is_apart = is_first(&b'\n') || (is_first(&b'\t') && name.contains(&b'\n'));
            if trimmed(&name).is_empty() || is_apart {
                continue;
            }
            let (tid, weight) = (100 + number, 1000 + number);
            let columns = match round % 4 {
                0 => format!(" {tid:>7} {weight:>10} schedhist:offcpu: "),
                1 => format!(" {tid:>7} [001]  12.345678: {weight:>10} schedhist:offcpu: "),
                2 => format!("  {tid}/{tid} [001]  12.345678: schedhist:offcpu: "),
                _ => format!(" {tid} {weight} schedhist:offcpu: "),
            };
            text.extend(cat(&[&name, columns.as_bytes()]));
            if round % 4 == 2 {
                let fields =
                    format!(" pid={tid} prio=120 cpu=1 duration_ns={weight} cause=x group=0");
                text.extend(cat(&[b"comm=", &name, fields.as_bytes()]));
            }
            text.extend(cat(&[b"\n", frames.as_bytes()]));
            *wanted.entry(shown(trimmed(&name))).or_default() += weight;
            seen += 1;
        }
        let stacks = Stacks::parse("x", &text).unwrap();
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        for (stack, weight) in &stacks.weights {
            assert_eq!(stack.len(), 3, "{stack:?}");
            *found.entry(stack[0].name.clone()).or_default() += weight;
        }
        assert_eq!(found, wanted, "{}", String::from_utf8_lossy(&text));
        assert!(!stacks.are_numbers);
        let again = Stacks::parse("x", stacks.folded().as_bytes()).unwrap();
        assert_eq!(again.weights, stacks.weights);
        // Each name has its frames in the picture, and nothing in it is markup.
        let picture = picture(&stacks, Some("<&>"));
        assert_eq!(picture.matches("<g>").count(), 1 + 3 * wanted.len());
        assert_eq!(picture.matches('<').count(), picture.matches('>').count());
        assert!(picture.contains(">&lt;&amp;&gt;</text>"));
        let is_text = |c: char| c == '\n' || !c.is_control();
        assert!(picture.chars().all(is_text));
    }
    assert!(seen > 2 * ROUNDS, "{seen}");
}

/// Folded stacks are those that they were made of.
#[test]
fn folded_stacks() {
    let mut random = Random(12);
    for _ in 0..ROUNDS {
        let name = nasty_name(&mut random);
        let mut line = Vec::new();
        for byte in &name {
            match byte {
                b';' | b'\\' | 0..0x20 | 0x7f => line.extend(format!("\\x{byte:02x}").bytes()),
                byte => line.push(*byte),
            }
        }
        line.extend(b";main;read_[k] 12\n");
        let stacks = Stacks::parse("x", &line).unwrap();
        let folded = stacks.folded();
        assert!(
            !folded.trim_end().chars().any(char::is_control),
            "{folded:?}"
        );
        let again = Stacks::parse("x", folded.as_bytes()).unwrap();
        assert_eq!(again.weights, stacks.weights);
        let (stack, weight) = stacks.weights.first_key_value().unwrap();
        assert_eq!((&stack[0].name, *weight), (&shown(&name), 12));
        assert!(!stack[0].is_kernel && stack[2].is_kernel && stack[2].name == "read");
    }
}

/// The stacks of `watch --stacks`, in an instance of ftrace that has no other events.
#[test]
fn stacks_of_outliers() {
    let mut random = Random(13);
    for _ in 0..ROUNDS {
        let mut text = Vec::new();
        for id in 1..=8 {
            let name = nasty_name(&mut random);
            let pad = vec![b' '; 16 - name.len()];
            let head = format!("-{:<7} [{:03}] d..1.  22.{id:06}: ", 60 + id, id % 3);
            let head = cat(&[&pad, &name, head.as_bytes()]);
            let fields = format!("outlier: id={id} metric=runq_wakeup comm=");
            text.extend(cat(&[
                &head,
                fields.as_bytes(),
                &name,
                b" pid=7 prio=120\n",
            ]));
            let stack = format!("<stack trace>\n => __schedule\n => f{id}\n => g [mod]\n");
            text.extend(cat(&[&head, stack.as_bytes()]));
        }
        let mut parser = StackParser::default();
        parser.feed(&text);
        parser.pause();
        for id in 1..=8 {
            let stack = parser.take(id);
            let wanted = [
                "__schedule".to_owned(),
                format!("f{id}"),
                "g [mod]".to_owned(),
            ];
            let said = String::from_utf8_lossy(&text);
            assert_eq!(stack.as_deref(), Some(&wanted[..]), "{id}: {said}");
        }
    }
}

/// The module's own files escape names, and have them last in a line.
#[test]
fn files_of_the_module() {
    let mut random = Random(14);
    for _ in 0..ROUNDS {
        let name = nasty_name(&mut random);
        let escaped = Escaped(&name).to_string();
        let text = format!(
            "outlier id 4 metric runq_wakeup cause wakeup cpu 2 duration_ns 3 start_ns 1 end_ns 4 \
             missing_ns 1 culprits 1 pid 9 prio 120 group 12 comm {escaped}\n  \
             culprit id 4 ran_ns 2 slices 1 pid 7 prio 120 group 3 comm {escaped}\n"
        );
        let outlier = OutlierParser::default().feed(&text).remove(0);
        assert_eq!((&outlier.comm, outlier.pid), (&escaped, 9));
        let culprit = &outlier.culprits[0];
        assert_eq!(
            (&culprit.comm, culprit.pid, culprit.group),
            (&escaped, 7, 3)
        );
        let text = format!(
            "# schedhist groups version 1\ngroup_by process\nlimit 9\nrefused 0\n\
             group id 1 runq_count 2 name 7:{escaped}\n  \
             neighbour id 1 of 1 ended 3 ended_ns 4 name 7:{escaped}\n"
        );
        let mut machine = Machine::new(1, 5, 1);
        machine.groups = Some(Groups::new(&text, ""));
        let all = raw::groups(&machine.raw()).unwrap().unwrap();
        assert_eq!(*all.groups[0].name, format!("7:{escaped}"));
        assert_eq!(*all.groups[0].neighbours[0].name, format!("7:{escaped}"));
        assert!(all.is_same(&format!("7:{escaped}"), "7:other"));
        assert!(!all.is_same(&format!("7:{escaped}"), &format!("8:{escaped}")));
    }
}

/// Undoes the escapes of a label.
fn unescaped(text: &str) -> String {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            (c, None) => out.push(c),
            (_, Some('n')) => out.push('\n'),
            (_, Some(c)) => out.push(c),
        }
    }
    out
}

/// Returns what stands between quotation marks, of which those with a backslash are no end.
fn in_quotes(text: &str) -> &str {
    let mut is_escaped = false;
    let end = text.find(|c| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    &text[..end.unwrap()]
}

#[test]
fn labels_and_json() {
    let mut random = Random(15);
    for _ in 0..ROUNDS {
        let name = shown(&nasty_name(&mut random));
        let json = serde_json::to_string(&name).unwrap();
        assert!(!json.bytes().any(|byte| byte < b' '), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), name);
        for dialect in [Dialect::OpenMetrics, Dialect::Prometheus] {
            let exposition = Exposition {
                families: vec![Family {
                    name: "x".to_owned(),
                    help: String::new(),
                    unit: "",
                    kind: Kind::Gauge,
                    samples: vec![Sample {
                        labels: vec![("group", name.clone())],
                        value: Value::Number(7),
                    }],
                }],
                created: None,
            };
            let text = encode(&exposition, dialect);
            let line = text
                .split('\n')
                .find(|line| line.starts_with("x{"))
                .unwrap();
            let label = in_quotes(line.strip_prefix("x{group=\"").unwrap());
            assert_eq!(unescaped(label), name);
            assert!(line.ends_with("\"} 7"), "{line}");
        }
    }
}

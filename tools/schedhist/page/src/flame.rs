// SPDX-License-Identifier: GPL-2.0

//! Stacks as a flame graph, in a page or as a picture of its own: folded ones, or the output of
//! `perf script`.

use std::{
    collections::{btree_map::Entry, BTreeMap},
    fmt::Write,
};

use super::{
    chart,
    html::{self, cell, escaped, left, SCROLL},
    percent,
};
use schedhist_core::text::{of_bytes, readable, LONGEST_COMM};

/// The most frames that a graph has: what is narrower than so many others is left out.
const MAX_FRAMES: usize = 1_000;

/// The most levels that a graph has, and that are taken of a stack: those that perf records, and
/// the task.
const DEEPEST: usize = 128;

/// The number of stacks in the table.
const LISTED: usize = 20;

const WIDTH: f64 = 1_200.0;
const ROW: f64 = 17.0;
/// Frames narrower than this are left out.
const MIN_WIDTH: f64 = 0.5;
/// The width of a character of the graph's font.
const CHARACTER: f64 = 6.65;

/// Why there are no stacks.
pub const NEITHER: &str = "it has no stacks: wanted is the output of perf script, or lines of \
    stacks folded as `comm;outermost;...;innermost NANOSECONDS`";

/// A function in a stack, or the task at its outer end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    pub name: String,
    pub is_kernel: bool,
}

/// The words around a graph, in HTML.
pub struct Labels {
    pub title: &'static str,
    pub about: &'static str,
    /// What all stacks are.
    pub all: &'static str,
    /// The head of their column.
    pub head: &'static str,
}

/// Those of stacks of functions.
pub const OF_STACKS: Labels = Labels {
    title: "Flame graph",
    about: "The kernel's frames are the darker ones; callees stand above their callers.",
    all: "stacks",
    head: "<stack, innermost frame first",
};

/// Stacks, outermost frame first, each with its weight.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// The name of the file.
    pub name: String,
    pub weights: BTreeMap<Vec<Frame>, u64>,
    /// Whether some weight is no time: then all are numbers.
    pub are_numbers: bool,
}

impl Stacks {
    /// Parses a file. Names of tasks may have any bytes.
    ///
    /// # Errors
    ///
    /// Fails if there are no stacks in it.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, &'static str> {
        let mut stacks = Self {
            name: name.to_owned(),
            ..Self::default()
        };
        let text = of_bytes(bytes);
        let lines = || text.split('\n').filter(|line| !line.is_empty());
        let is_of_perf = |line: &str| folded(line).is_none() && head(line, false).is_some();
        // Only perf indents lines.
        if lines().any(|line| line.starts_with('\t') || is_of_perf(line)) {
            // As a rule in all lines or in none.
            let [without, with] = [false, true].map(|has_period| {
                lines()
                    .filter(|line| columns(line, has_period, false).is_some())
                    .count()
            });
            for (head, frames) in samples(&text, with >= without) {
                stacks.sample(head, frames);
            }
        } else {
            // Many files have lines that end in a number.
            let are_stacks = lines().all(|line| stacks.take_folded(line).is_some());
            if !are_stacks || !text.contains(';') {
                return Err(NEITHER);
            }
        }
        if stacks.weights.values().all(|weight| *weight == 0) {
            return Err(NEITHER);
        }
        Ok(stacks)
    }

    pub(crate) fn add(&mut self, mut stack: Vec<Frame>, weight: u64) {
        stack.truncate(DEEPEST);
        match self.weights.entry(stack) {
            Entry::Occupied(mut at) => *at.get_mut() = at.get().saturating_add(weight),
            Entry::Vacant(at) => {
                at.insert(weight);
            }
        }
    }

    /// Returns a line for each stack, `comm;outermost;...;innermost WEIGHT`, which
    /// [`Stacks::parse`] reads. Frames of the kernel end in `_[k]`, and `\\xNN` stands for a
    /// character of a name that has a meaning in such a line, or to a terminal.
    pub fn folded(&self) -> String {
        let mut out = String::new();
        for (stack, weight) in &self.weights {
            for (place, frame) in stack.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { ";" });
                for c in frame.name.chars() {
                    let _ = match c.is_control() || matches!(c, ';' | '\\') {
                        true => write!(out, "\\x{:02x}", u32::from(c)),
                        false => out.write_char(c),
                    };
                }
                out.push_str(if frame.is_kernel { "_[k]" } else { "" });
            }
            let _ = writeln!(out, " {weight}");
        }
        out
    }

    /// Takes a folded stack, if this is one.
    fn take_folded(&mut self, line: &str) -> Option<()> {
        let (stack, weight) = folded(line)?;
        let frames = stack.split(';').enumerate().map(|(place, name)| {
            // The first one is a task.
            let kernel = name.strip_suffix("_[k]").filter(|_| place != 0);
            Frame {
                name: readable(&unescaped(kernel.unwrap_or(name))),
                is_kernel: kernel.is_some(),
            }
        });
        self.add(frames.collect(), weight);
        Some(())
    }

    /// Takes a sample; the innermost of the frames is the first one.
    fn sample(&mut self, head: Head, mut frames: Vec<Frame>) {
        if head.is_ours {
            // The scheduler's own frame is the innermost that tells something.
            let schedule = |frame: &Frame| matches!(&*frame.name, "__schedule" | "schedule_tail");
            frames.drain(..frames.iter().position(schedule).unwrap_or(0));
        }
        frames.push(Frame {
            name: head.comm,
            is_kernel: false,
        });
        frames.reverse();
        self.are_numbers |= !head.is_ours;
        self.add(frames, head.weight);
    }

    fn total(&self) -> u64 {
        self.weights
            .values()
            .fold(0, |sum, weight| sum.saturating_add(*weight))
    }

    fn weight(&self, weight: u64) -> String {
        if self.are_numbers {
            weight.to_string()
        } else {
            chart::text(weight)
        }
    }
}

/// Returns the stack and the weight of a line of folded stacks.
fn folded(line: &str) -> Option<(&str, u64)> {
    let (stack, weight) = line.trim_end_matches('\r').rsplit_once(' ')?;
    Some((stack, weight.parse().ok()?))
}

/// Returns text without the escapes `\\xNN` for what has a meaning in folded stacks: see
/// [`Stacks::folded`].
fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\x");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = part
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) => {
                out.push(char::from(byte));
                out.push_str(&part[2..]);
            }
            None => {
                out.push_str("\\x");
                out.push_str(part);
            }
        }
    }
    out
}

/// What precedes the stack of a sample.
struct Head {
    comm: String,
    weight: u64,
    is_ours: bool,
    /// Whether the name of a task in it goes on in the next line.
    is_open: bool,
}

/// Returns the samples that `perf script` has printed, each with its frames, innermost first.
/// `has_period` is whether most have a period before the name of their event.
fn samples(text: &str, has_period: bool) -> Vec<(Head, Vec<Frame>)> {
    let mut samples: Vec<(Head, Vec<Frame>)> = Vec::new();
    // A head so far, of which the name of a task may be in several lines.
    let mut begun: Option<String> = None;
    let mut is_open = false;
    let mut is_header = true;
    let is_begin = |text: &str| {
        let text = text.trim_start_matches(' ');
        !text.is_empty() && !text.starts_with('\t') && text.chars().count() <= LONGEST_COMM
    };
    for line in text.split('\n') {
        let is_indented =
            line.starts_with('\t') || (line.starts_with(' ') && head(line, has_period).is_none());
        if let (true, None, true, Some((_, frames))) =
            (is_open, &begun, is_indented, samples.last_mut())
        {
            if let Some(frame) = frame(line) {
                frames.push(frame);
                continue;
            }
        }
        is_open = false;
        let joined = begun.take().map(|begun| begun + "\n" + line);
        for text in joined.into_iter().chain([line.to_owned()]) {
            match head(&text, has_period) {
                Some(head) if head.is_open => begun = Some(text),
                Some(head) => {
                    samples.push((head, Vec::new()));
                    (is_open, is_header) = (true, false);
                }
                None if is_header && (text.is_empty() || text.starts_with('#')) => {}
                // No more than the begin of a name.
                None if is_begin(&text) => {
                    begun = Some(text);
                }
                None => continue,
            }
            break;
        }
    }
    samples
}

/// Parses the head of a sample, which most likely has a period, or has none. A name that is longer
/// than the kernel's comes last.
fn head(text: &str, has_period: bool) -> Option<Head> {
    let mut ways = [
        (has_period, false),
        (!has_period, false),
        (has_period, true),
        (!has_period, true),
    ]
    .into_iter();
    ways.find_map(|(has, is_longer)| {
        // An exception must be no part of a name.
        columns(text, has, is_longer).filter(|head| has == has_period || head.is_ours)
    })
}

/// Parses `COMM [PID/]TID [CPU] [TIME:] [PERIOD] EVENT: FIELDS`. The name may have anything, such
/// as what looks like the columns after it: it reaches as far as it can. One that is longer than
/// the kernel's ends as soon as it can.
fn columns(text: &str, has_period: bool, is_longer: bool) -> Option<Head> {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_task = |word: &str| match word.split_once('/') {
        Some((process, thread)) => is_number(process) && is_number(thread),
        None => is_number(word.strip_prefix('-').unwrap_or(word)),
    };
    let is_time = |word: &str| {
        let time = word.strip_suffix(':').and_then(|time| time.split_once('.'));
        time.is_some_and(|(whole, rest)| is_number(whole) && is_number(rest))
    };
    let is_cpu = |word: &str| {
        let cpu = word.strip_prefix('[').and_then(|cpu| cpu.strip_suffix(']'));
        cpu.is_some_and(is_number)
    };
    let mut words = Vec::new();
    for word in text.split_ascii_whitespace() {
        // Both are parts of the text.
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        words.push((at, word));
    }
    let mut found = None;
    for (place, (at, word)) in words.iter().enumerate() {
        let event = word.strip_suffix(':');
        let has_letters = |event: &&str| event.bytes().any(|b| b != b'.' && !b.is_ascii_digit());
        let Some(event) = event.filter(has_letters) else {
            continue;
        };
        let mut before = &words[..place];
        // Takes the last of the columns that are left, if it is such a one.
        let mut take = |is: &dyn Fn(&str) -> bool| {
            let (last, rest) = before.split_last().filter(|((_, word), _)| is(word))?;
            before = rest;
            Some(*last)
        };
        let period = if has_period { take(&is_number) } else { None };
        if has_period && period.is_none() {
            continue;
        }
        take(&is_time);
        take(&is_cpu);
        let Some((task, _)) = take(&is_task) else {
            continue;
        };
        let comm = text[..task].trim_matches([' ', '\t']);
        let one = (comm, period, event, &text[at + word.len()..]);
        match comm.chars().count() <= LONGEST_COMM {
            true if !is_longer => found = Some(one),
            false if is_longer && !comm.contains('\n') => drop(found.get_or_insert(one)),
            _ => {}
        }
    }
    let (comm, period, event, fields) = found?;
    // All but the name of the task, between the first of these and the last.
    let name = fields.find("comm=").zip(fields.rfind("pid="));
    let parts = match name.filter(|(begin, end)| begin < end) {
        Some((begin, end)) => [&fields[..begin], &fields[end..]],
        None => [fields, ""],
    };
    let mut words = parts.iter().flat_map(|part| part.split_ascii_whitespace());
    let duration = words.find_map(|word| word.strip_prefix("duration_ns=")?.parse().ok());
    let period = period.and_then(|(_, digits)| digits.parse().ok());
    let is_ours = event.starts_with("schedhist:");
    // Too short for a whole name and the fields after it.
    let is_short = |(_, rest): (&str, &str)| rest.chars().count() <= LONGEST_COMM;
    Some(Head {
        comm: readable(comm),
        weight: duration.or(period).unwrap_or(1),
        is_ours,
        is_open: is_ours && fields.split_once("comm=").is_some_and(is_short),
    })
}

/// Parses `ADDRESS SYMBOL+OFFSET (FILE)`.
fn frame(line: &str) -> Option<Frame> {
    let (address, rest) = line.trim().split_once(' ')?;
    if !address.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    // The file may have parentheses, and the symbol as well.
    let rest = rest.trim();
    let mut depth = 0;
    let begin = rest.ends_with(')').then(|| {
        rest.char_indices().rev().find(|(_, c)| {
            depth += match c {
                ')' => 1,
                '(' => -1,
                _ => 0,
            };
            depth == 0
        })
    });
    let (symbol, file) = match begin.flatten() {
        Some((at, _)) => (&rest[..at], &rest[at + 1..rest.len() - 1]),
        None => (rest, ""),
    };
    let symbol = symbol.trim();
    let offset = symbol.rsplit_once("+0x").filter(|(_, offset)| {
        !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let symbol = offset.map_or(symbol, |(symbol, _)| symbol);
    let is_unknown = matches!(symbol, "" | "[unknown]");
    let short = file.rsplit('/').next().unwrap_or_default();
    let name = match (is_unknown, short) {
        (true, "" | "[unknown]") => "[unknown]".to_owned(),
        (true, file) => readable(&format!("[{}]", file.trim_matches(['[', ']']))),
        (false, _) => readable(symbol),
    };
    let is_kernel =
        file.ends_with(".ko") || (file.starts_with('[') && !matches!(file, "[unknown]" | "[vdso]"));
    Some(Frame { name, is_kernel })
}

/// A frame of the graph, with those that it called.
#[derive(Default)]
struct Node<'a> {
    weight: u64,
    callees: BTreeMap<&'a Frame, Node<'a>>,
}

impl Node<'_> {
    fn weights(&self, all: &mut Vec<u64>) {
        all.push(self.weight);
        for callee in self.callees.values() {
            callee.weights(all);
        }
    }

    fn depth(&self, least: u64) -> usize {
        let callees = self.callees.values().filter(|callee| callee.weight > least);
        1 + callees.map(|callee| callee.depth(least)).max().unwrap_or(0)
    }
}

/// A graph, and what its frames are drawn with.
struct Drawing<'a> {
    out: String,
    stacks: &'a Stacks,
    whole: u64,
    /// Frames of this weight or less are left out.
    least: u64,
    height: f64,
    left_out: bool,
}

impl<'a> Drawing<'a> {
    /// Draws a graph of this number of frames at the most.
    fn new(stacks: &'a Stacks, most: usize) -> Self {
        let mut root = Node::default();
        for (stack, weight) in &stacks.weights {
            root.weight = root.weight.saturating_add(*weight);
            let mut node = &mut root;
            for frame in stack {
                node = node.callees.entry(frame).or_default();
                node.weight = node.weight.saturating_add(*weight);
            }
        }
        let mut weights = Vec::new();
        root.weights(&mut weights);
        weights.sort_unstable_by_key(|weight| std::cmp::Reverse(*weight));
        let narrowest = (stacks.total() as f64 * MIN_WIDTH / WIDTH) as u64;
        let least = weights.get(most).copied().unwrap_or(0).max(narrowest);
        let mut drawing = Self {
            out: String::new(),
            stacks,
            whole: root.weight,
            least,
            height: root.depth(least) as f64 * ROW,
            left_out: false,
        };
        drawing.frame("all", "ft", &root, 0.0, 0);
        drawing
    }

    /// Returns how much the graph shows, in words.
    fn about(&self) -> String {
        let mut about = self.stacks.weight(self.whole) + " in all";
        if !self.stacks.are_numbers {
            about += ": the width of a frame is its time";
        }
        if self.left_out {
            let share = self.share(self.least) * 100.0;
            let _ = write!(about, "; frames of {share:.2} % or less are left out");
        }
        about
    }

    fn share(&self, weight: u64) -> f64 {
        weight as f64 / self.whole.max(1) as f64
    }

    /// Draws a frame, its callees above it.
    fn frame(&mut self, name: &str, class: &str, node: &Node<'_>, x: f64, level: usize) {
        if node.weight <= self.least {
            self.left_out = true;
            return;
        }
        let width = self.share(node.weight) * WIDTH;
        let y = self.height - (level + 1) as f64 * ROW;
        let text = format!(
            "{name}: {}, {:.2} %",
            self.stacks.weight(node.weight),
            self.share(node.weight) * 100.0
        );
        let _ = write!(
            self.out,
            "<g><title>{}</title><rect class=\"{class}\" x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" \
             height=\"{}\"/>",
            escaped(&text),
            ROW - 1.0
        );
        let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
        if room >= 3 {
            let length = name.chars().count();
            let name = if length <= room {
                name.to_owned()
            } else {
                name.chars().take(room - 2).collect::<String>() + ".."
            };
            let _ = write!(
                self.out,
                "<text x=\"{:.2}\" y=\"{}\">{}</text>",
                x + 3.0,
                y + 12.0,
                escaped(&name)
            );
        }
        self.out.push_str("</g>");
        let mut x = x;
        for (frame, callee) in &node.callees {
            let class = match (level, frame.is_kernel) {
                (0, _) => "ft",
                (_, true) => "fk",
                (_, false) => "fu",
            };
            self.frame(&frame.name, class, callee, x, level + 1);
            x += self.share(callee.weight) * WIDTH;
        }
    }
}

/// Writes the graph, and a table of the stacks with the greatest weights.
pub fn write(out: &mut String, stacks: &Stacks, labels: &Labels) {
    let drawing = Drawing::new(stacks, MAX_FRAMES);
    let name = match stacks.name.as_str() {
        "" => String::new(),
        name => escaped(name) + ": ",
    };
    let _ = write!(
        out,
        "<figure>{SCROLL}<svg class=\"flame\" viewBox=\"0 0 {WIDTH} {}\" \
         role=\"img\"><title>{}</title>{}</svg></div><output></output><figcaption>{name}{}. \
         {}</figcaption></figure>",
        drawing.height,
        labels.title,
        drawing.out,
        drawing.about(),
        labels.about,
    );
    table(out, stacks, drawing.whole, labels);
}

/// Returns the graph as a picture (SVG) with a title. A browser shows a frame's time when the
/// pointer is on it.
pub fn picture(stacks: &Stacks, title: Option<&str>) -> String {
    let drawing = Drawing::new(stacks, usize::MAX);
    let title = title.map_or_else(|| drawing.about(), str::to_owned);
    let (height, title) = (drawing.height + 40.0, escaped(&title));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 -36 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\"><style>\
         .ft{{fill:#b9bfc6}}.fu{{fill:#f0c05a}}.fk{{fill:#e8843c}}</style>\
         <path d=\"M0-36h{WIDTH}v{height}H0z\" fill=\"#fbfbf6\"/>\
         <text x=\"{}\" y=\"-14\" text-anchor=\"middle\" font-size=\"15\">{title}</text>{}</svg>\n",
        WIDTH / 2.0,
        drawing.out
    )
}

fn table(out: &mut String, stacks: &Stacks, whole: u64, labels: &Labels) {
    let mut all: Vec<_> = stacks.weights.iter().collect();
    all.sort_by_cached_key(|(_, weight)| std::cmp::Reverse(**weight));
    let shown = all.len().min(LISTED);
    let _ = write!(
        out,
        "<details><summary>{shown} of {} {}, the greatest first</summary>",
        all.len(),
        labels.all
    );
    let weight = if stacks.are_numbers { "number" } else { "time" };
    let heads = format!("{weight}|share|{}", labels.head);
    html::table(out, false, &heads, &mut |out| {
        for &(stack, weight) in all.iter().take(LISTED) {
            let share = percent(*weight, whole);
            out.push_str("<tr>");
            cell(out, stacks.weight(*weight));
            cell(out, format_args!("{share:.1} %"));
            let names = stack.iter().rev().map(|frame| escaped(&frame.name));
            left(out, " stack", &names.collect::<Vec<_>>().join(" &lt; "));
            out.push_str("</tr>");
        }
    });
    out.push_str("</details>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(stacks: &Stacks) -> Vec<String> {
        stacks.folded().lines().map(str::to_owned).collect()
    }

    #[test]
    fn of_perf_script() {
        let text = "# a comment
my nap 12/34 [001] 12.345678: 2000 schedhist:offcpu: 
\tffffffff81000001 perf_trace_run_bpf_submit+0x12 ([kernel.kallsyms])
\tffffffff81000001 __schedule+0x12 ([kernel.kallsyms])
\tffffffff81000002 do_nanosleep+0x1a ([kernel.kallsyms])
\t    7f0000000001 operator new(unsigned long)+0x7 (/usr/lib/libx (deleted))
\t    7f0000000002 [unknown] (/usr/lib/y.so)
\t    7f0000000003 [unknown] ([unknown])
";
        let stacks = Stacks::parse("x", text.as_bytes()).unwrap();
        assert!(!stacks.are_numbers);
        let stack = "[unknown];[y.so];operator new(unsigned long);do_nanosleep_[k];__schedule_[k]";
        assert_eq!(folded(&stacks), [format!("my nap;{stack} 2000")]);
        // Without periods, it is the duration.
        let text = "my nap 12/34 [001] 12.345679: schedhist:offcpu: cpu=1 duration_ns=500 cause=x
\tffffffff81000001 __schedule+0x12 ([kernel.kallsyms])

bare 7 schedhist:offcpu: duration_ns=7
";
        let stacks = Stacks::parse("x", text.as_bytes()).unwrap();
        assert!(!stacks.are_numbers);
        assert_eq!(folded(&stacks), ["bare 7", "my nap;__schedule_[k] 500"]);
        assert_eq!(stacks.total(), 507);
        // Of other events it is their number, or their period.
        let text = "a 1 cycles:u: \n\t 1 f+0x1 (/a)\n\na 1 cycles:u: \n\t 1 f+0x1 (/a)\n";
        let stacks = Stacks::parse("x", text.as_bytes()).unwrap();
        assert!(stacks.are_numbers);
        assert_eq!(folded(&stacks), ["a;f 2"]);
    }

    #[test]
    fn of_folded_lines() {
        let stacks = Stacks::parse("x", b"a b;main;read_[k] 12\n\na b;main 3\nidle 4\n").unwrap();
        assert_eq!(
            folded(&stacks),
            ["a b;main 3", "a b;main;read_[k] 12", "idle 4"]
        );
        let wrong = "|nonsense|a;b x\n|a;b 0\n|{}\n|root 0\nuser 1000\n|a;b 1\nnonsense\n";
        for text in wrong.split('|') {
            assert_eq!(
                Stacks::parse("x", text.as_bytes()).unwrap_err(),
                NEITHER,
                "{text}"
            );
        }
    }

    /// Widths are shares, callees lie within their callers, and the number of frames is bounded.
    #[test]
    fn bounded() {
        let mut text = String::new();
        for i in 0..20_000_u64 {
            let (a, b) = (i % 7, i % 311);
            let _ = writeln!(text, "task;f{a};<g{b}>;h{i} {}", 1 + i % 100 * (i % 13));
        }
        let stacks = Stacks::parse("a&b", text.as_bytes()).unwrap();
        let mut out = String::new();
        write(&mut out, &stacks, &OF_STACKS);
        let frames = out.matches("<g>").count();
        assert!((100..=MAX_FRAMES).contains(&frames), "{frames}");
        assert!(out.len() < 250_000, "{}", out.len());
        assert!(out.contains("a&amp;b: ") && out.contains("or less are left out"));
        assert!(!out.contains("<g1>"));
        let number = |text: &str, name: &str| -> f64 {
            let rest = text.split_once(&format!(" {name}=\"")).unwrap().1;
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let mut callers: Vec<(f64, f64, f64)> = Vec::new();
        for rect in out.split("<rect").skip(1) {
            let (x, y, width) = (number(rect, "x"), number(rect, "y"), number(rect, "width"));
            assert!(width >= MIN_WIDTH - 0.01 && y >= 0.0, "{rect}");
            callers.retain(|(_, below, _)| *below > y);
            if let Some((left, below, room)) = callers.last() {
                assert!((below - y - ROW).abs() < 0.01);
                assert!(
                    x >= left - 0.02 && x + width <= left + room + 0.04,
                    "{rect}"
                );
            }
            callers.push((x, y, width));
        }
        let whole: f64 = out
            .split("class=\"ft\"")
            .skip(1)
            .map(|r| number(r, "width"))
            .sum();
        assert!((whole - 2.0 * WIDTH).abs() < 0.1, "all, and the only task");
    }
}

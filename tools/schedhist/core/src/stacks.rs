// SPDX-License-Identifier: GPL-2.0

//! Parses what ftrace prints of the event `outlier` and the stack that follows it.

use std::collections::{BTreeMap, VecDeque};

use crate::text::{of_bytes, readable, whole_lines};

/// The most stacks that are kept until somebody asks for them.
const KEPT: usize = 256;

/// The most frames of a stack that are kept.
const FRAMES: usize = 128;

/// ftrace pads names of tasks to this width.
const COMM_WIDTH: usize = 16;

/// A stack, innermost frame first.
pub type Stack = Vec<String>;

/// Parses the text of `trace_pipe` as it comes, in pieces of any size. Each CPU has its own
/// sequence of events: a stack belongs to the last outlier of its CPU.
#[derive(Debug, Default)]
pub struct StackParser {
    partial: String,
    /// By CPU, the number of the last outlier, if its stack is still to come.
    waiting: BTreeMap<u32, u64>,
    /// The stack whose frames are being read, and its outlier.
    open: Option<(u64, Stack)>,
    /// The lines since it was opened: their lengths, and whether they are frames.
    lines: Vec<(usize, bool)>,
    done: VecDeque<(u64, Stack)>,
}

/// What a line with an event says.
enum Entry {
    Outlier(u64),
    Stack,
}

impl StackParser {
    /// Takes the next piece of text. Ignores what it cannot parse.
    pub fn feed(&mut self, bytes: &[u8]) {
        let all = std::mem::take(&mut self.partial) + &of_bytes(bytes);
        let (whole, rest) = whole_lines(&all);
        for line in whole.split_terminator('\n') {
            self.line(line);
        }
        rest.clone_into(&mut self.partial);
    }

    /// Says that nothing follows for now, so that the last stack is complete: the kernel writes all
    /// frames at once.
    pub fn pause(&mut self) {
        if self.partial.is_empty() {
            self.close();
        }
    }

    /// Takes the stack of an outlier out, if it is complete.
    pub fn take(&mut self, id: u64) -> Option<Stack> {
        let at = self.done.iter().position(|(found, _)| *found == id)?;
        self.done.remove(at).map(|(_, stack)| stack)
    }

    fn close(&mut self) {
        if let Some(stack) = self.open.take() {
            if self.done.len() == KEPT {
                self.done.pop_front();
            }
            self.done.push_back(stack);
        }
    }

    fn line(&mut self, line: &str) {
        if let Some((width, cpu, entry)) = entry(line) {
            self.take_back(COMM_WIDTH.saturating_sub(width));
            self.close();
            match entry {
                Entry::Outlier(id) => {
                    self.waiting.insert(cpu, id);
                }
                Entry::Stack => {
                    self.open = self.waiting.remove(&cpu).map(|id| (id, Stack::new()));
                    self.lines.clear();
                }
            }
        } else if let Some((_, stack)) = &mut self.open {
            // The kernel writes all frames at once.
            let is_over = self.lines.last().is_some_and(|(_, is_frame)| !is_frame);
            let frame = frame(line).filter(|_| !is_over && stack.len() < FRAMES);
            self.lines.push((line.chars().count(), frame.is_some()));
            stack.extend(frame.map(readable));
            if self.lines.len() > FRAMES + COMM_WIDTH {
                self.close();
            }
        }
    }

    /// Takes lines back that were the begin of a name, of so many bytes, with which the header of
    /// an event begins.
    fn take_back(&mut self, mut bytes: usize) {
        while let (1.., Some((length, is_frame))) = (bytes, self.lines.pop()) {
            if let (true, Some((_, stack))) = (is_frame, &mut self.open) {
                stack.pop();
            }
            bytes = bytes.saturating_sub(length + 1);
        }
    }
}

/// Parses `TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS`; `None` for an event of which nothing is
/// wanted. The name of the task may hold any text of up to 15 bytes, which is too short for what is
/// looked for here. Returns the width of the name, too.
fn entry(line: &str) -> Option<(usize, u32, Entry)> {
    line.match_indices('[').find_map(|(at, _)| {
        let (cpu, rest) = line[at + 1..].split_once("] ")?;
        let cpu = cpu.trim().parse().ok()?;
        let task = line[..at].trim_end();
        let task = task.trim_end_matches(|c: char| c.is_ascii_digit());
        let width = task.strip_suffix('-')?.chars().count();
        let mut words = rest.split_whitespace();
        let (_flags, time) = (words.next()?, words.next()?.strip_suffix(':')?);
        let is_time = time.contains('.') && time.bytes().all(|b| b == b'.' || b.is_ascii_digit());
        if !is_time {
            return None;
        }
        let entry = match (words.next()?, words.next()?) {
            ("outlier:", id) => Entry::Outlier(id.strip_prefix("id=")?.parse().ok()?),
            ("<stack", "trace>") => Entry::Stack,
            _ => return None,
        };
        Some((width, cpu, entry))
    })
}

/// Parses ` => FUNCTION` or ` => FUNCTION [MODULE]`.
fn frame(line: &str) -> Option<&str> {
    let frame = line.strip_prefix(" => ")?;
    match frame.split_once(' ') {
        None => Some(frame),
        Some((_, module)) if module.starts_with('[') && !module.contains(' ') => Some(frame),
        Some(_) => None,
    }
}

/// Returns the frames below the scheduler: where the task left its CPU, or where a new one begins.
/// Above them are the scheduler's, and those of the probe that took the stack.
pub fn below_scheduler(stack: &[String]) -> &[String] {
    let is_scheduler = |frame: &String| frame == "__schedule" || frame == "schedule_tail";
    let first = stack.iter().position(is_scheduler);
    let rest = first.map_or(stack, |at| &stack[at + 1..]);
    // `schedule()` says nothing of who called it.
    match rest {
        [first, rest @ ..] if first == "schedule" && !rest.is_empty() => rest,
        _ => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
     kworker/1:3-60      [001] d..1.    22.625778: outlier: id=2 metric=runq_wakeup comm=x pid=60
 a [0] b: => c-7         [000] d..1.    22.625779: outlier: id=3 metric=runq_wakeup comm=x pid=7
     kworker/1:3-60      [001] d..1.    22.627223: <stack trace>
 => _RNvCs1_9schedhist5probe [schedhist]
 => __schedule
 => schedule
 => worker_thread
CPU:1 [LOST 3 EVENTS]
 a [0] b: => c-7         [000] d..1.    22.627300: <stack trace>
 => schedule_tail
 => ret_from_fork
";

    #[test]
    fn stacks_of_each_cpu() {
        // In pieces of any size.
        for size in [1, 7, 64, 1 << 16] {
            let mut parser = StackParser::default();
            for piece in TEXT.as_bytes().chunks(size) {
                parser.feed(piece);
            }
            assert_eq!(parser.take(3), None, "it may go on");
            parser.pause();
            let stack = parser.take(2).unwrap();
            assert_eq!(stack.len(), 4);
            assert_eq!(below_scheduler(&stack), ["worker_thread"]);
            assert_eq!(below_scheduler(&parser.take(3).unwrap()), ["ret_from_fork"]);
            assert_eq!(parser.take(3), None);
        }
    }

    #[test]
    fn strange_lines() {
        let mut parser = StackParser::default();
        for line in [
            "",
            "[",
            "[]",
            "] [1] ",
            "x-1 [000] d..1. 1.0: <stack trace>",
            " => orphan",
            "x-1 [000] d..1. 1.0: outlier: id=999999999999999999999",
            "x-1 [999999999999] d..1. 1.0: outlier: id=1",
            "x-1 [000] d..1. 1.0: outlier: id=5",
            "x-1 [000] d..1. 1.0: culprit: id=5",
            "x-1 [000] d..1. 1.0: <stack trace>",
            " => f [mod]",
            " => f-12  [000] d..1.",
            " => part_of_a_name",
        ] {
            parser.feed(format!("{line}\n").as_bytes());
        }
        parser.pause();
        assert_eq!(parser.take(5).unwrap(), ["f [mod]"]);
        assert_eq!(parser.take(1), None);
    }

    /// Memory is bounded, whoever does not ask.
    #[test]
    fn no_more_than_kept() {
        let mut parser = StackParser::default();
        for id in 0..1000 {
            parser.feed(format!("x-1 [0] d 1.0: outlier: id={id}\n").as_bytes());
            parser.feed(b"x-1 [0] d 1.0: <stack trace>\n");
            (0..200).for_each(|_| parser.feed(b" => f\n"));
        }
        parser.pause();
        assert_eq!(parser.done.len(), KEPT);
        assert_eq!(parser.take(999).unwrap().len(), FRAMES);
    }
}

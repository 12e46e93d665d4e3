// SPDX-License-Identifier: GPL-2.0

//! Parses what ftrace prints of the event `outlier` and the stack that follows it.

use std::collections::{
    BTreeMap,
    VecDeque, //
};

use crate::text::whole_lines;

/// The most stacks that are kept until somebody asks for them.
const KEPT: usize = 256;

/// The most frames of a stack that are kept.
const FRAMES: usize = 128;

/// A stack, innermost frame first.
pub type Stack = Vec<String>;

/// Parses the text of `trace_pipe` as it comes, in pieces of any size. Each CPU has its own
/// sequence of events: a stack belongs to the last outlier of its CPU.
#[derive(Debug, Default)]
pub struct StackParser {
    /// An incomplete line.
    partial: String,
    /// By CPU, the number of the last outlier, if its stack is still to come.
    waiting: BTreeMap<u32, u64>,
    /// The stack whose frames are being read, and its outlier.
    open: Option<(u64, Stack)>,
    done: VecDeque<(u64, Stack)>,
}

/// What a line with an event says.
enum Entry {
    Outlier(u64),
    Stack,
    Other,
}

impl StackParser {
    /// Takes the next piece of text. Ignores what it cannot parse.
    pub fn feed(&mut self, text: &str) {
        let all = std::mem::take(&mut self.partial) + text;
        let (whole, rest) = whole_lines(&all);
        for line in whole.lines() {
            self.line(line.trim_end());
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
        if let Some((cpu, entry)) = entry(line) {
            self.close();
            match entry {
                Entry::Outlier(id) => {
                    self.waiting.insert(cpu, id);
                }
                Entry::Stack => {
                    self.open = self.waiting.remove(&cpu).map(|id| (id, Stack::new()));
                }
                Entry::Other => {}
            }
        } else if let (Some((_, stack)), Some(frame)) = (&mut self.open, frame(line)) {
            if stack.len() < FRAMES {
                stack.push(frame.to_owned());
            }
        }
    }
}

/// Parses `TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS`. The name of the task may hold any text of up
/// to 15 bytes, which is too short for what is looked for here.
fn entry(line: &str) -> Option<(u32, Entry)> {
    line.match_indices('[').find_map(|(at, _)| {
        let (cpu, rest) = line[at + 1..].split_once("] ")?;
        let cpu = cpu.trim().parse().ok()?;
        let mut words = rest.split_whitespace();
        let (_flags, time) = (words.next()?, words.next()?.strip_suffix(':')?);
        let is_time = time.contains('.') && time.bytes().all(|b| b == b'.' || b.is_ascii_digit());
        if !is_time {
            return None;
        }
        let entry = match (words.next()?, words.next()) {
            ("outlier:", Some(id)) => Entry::Outlier(id.strip_prefix("id=")?.parse().ok()?),
            ("<stack", Some("trace>")) => Entry::Stack,
            _ => Entry::Other,
        };
        Some((cpu, entry))
    })
}

/// Parses ` => FUNCTION` or ` => FUNCTION [MODULE]`.
fn frame(line: &str) -> Option<&str> {
    let frame = line.trim_start().strip_prefix("=> ")?;
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
                parser.feed(std::str::from_utf8(piece).unwrap());
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
            " => f-12  [000] d..1.",
            " => f [mod]",
        ] {
            parser.feed(&format!("{line}\n"));
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
            parser.feed(&format!("x-1 [0] d 1.0: outlier: id={id}\n"));
            parser.feed("x-1 [0] d 1.0: <stack trace>\n");
            (0..200).for_each(|_| parser.feed(" => f\n"));
        }
        parser.pause();
        assert_eq!(parser.done.len(), KEPT);
        assert_eq!(parser.take(999).unwrap().len(), FRAMES);
    }
}

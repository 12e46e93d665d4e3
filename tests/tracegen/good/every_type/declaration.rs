// SPDX-License-Identifier: GPL-2.0

//! Every type of field, classes, as many fields as there can be, and text that is easy to get wrong.

/// A macro with the same name, and a string with an escape: \" neither is the declaration.
macro_rules! trace_events {
    ($($declaration:tt)*) => {
        include!("\"events_generated.rs");
    };
}

/// A character, a lifetime and a comment that could confuse: '"'.
fn confuse<'a>(text: &'a str) -> bool {
    /* " /* ' */
 trace_events! */
    text.starts_with('"') || text.starts_with('\'')
}

trace_events! {
    system sample;

    // Not a doc comment.
    /// A state.
    ///
    /// With more to say about it.
    enum State {
        /// It is idle.
        Idle = 0x0 => "idle",
        /// It runs, and the comment about it is so long that it takes more than one line of C, but
        /// this is fine.
        RunsForALongTime = 1_0 => "runs, 100%",
        /// The largest value.
        Last = 255 => "-"
    }

    /// Only one value.
    enum Single {
        /// The value.
        Value = 7 => "value",
    }

    /// What happens to a task.
    ///
    /// The class says more, in a line that is too long for a comment in C, where it is broken anew:
    ///
    /// - This is
    ///   a list.
    class task {
        /// The task's thread id.
        pid: Pid,
        /// The task's name.
        comm: Comm,
        /// How long it took, which takes long to explain, so that the line ends near its limit.
        took_ns: Ns,
    } => "comm={comm} pid={pid} took_ns={took_ns}";

    /// A task begins.
    event task_begin: task;

    /// As many fields as there can be, one of each type.
    event everything {
        /// Eight bits.
        a: i8,
        /// Sixteen bits.
        b: i16,
        /// Thirty-two bits.
        c: i32,
        /// Sixty-four bits.
        d: i64,
        /// Eight bits.
        e: u8,
        /// Sixteen bits.
        f: u16,
        /// Thirty-two bits.
        g: u32,
        /// Sixty-four bits.
        h: u64,
        /// Yes or no.
        yes: bool,
        /// A CPU.
        cpu: Cpu,
        /// The state before.
        ///
        /// More about it.
        before: State,
        /// The state after.
        after: Single,
    } => "100% {{a}}={a} b={b} c={c} d={d} e={e} f={f} g={g} h={h} yes={yes} cpu={cpu} {before}->{after}";

    /// A task ends.
    ///
    /// And more about that.
    event task_end: task;

    /// An event called like its class.
    event task: task;

    /// One small field.
    event any {
        /// The value.
        value: u8,
    } => "value={value}, again {value}";

    /// Two tasks.
    event two_tasks_with_a_rather_long_name {
        /// The first's name.
        first_comm: Comm,
        /// The second's name.
        second_comm: Comm,
        /// Whether they are on the same CPU.
        same_cpu: bool,
    } => "first_comm={first_comm} ==> second_comm={second_comm} same_cpu={same_cpu}";
}

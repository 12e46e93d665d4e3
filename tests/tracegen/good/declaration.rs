// SPDX-License-Identifier: GPL-2.0

//! Every type of field, a class, weights, and text that is easy to get wrong, of a module that wants
//! to know its listeners.

/// A macro with the same name is not the declaration.
macro_rules! trace_events {
    ($($declaration:tt)*) => {
        include!("generated.rs");
    };
}

named! {
    /// A state.
    #[repr(u8)]
    pub enum State {
        /// It is idle.
        Idle => "idle";
        /// With a help text.
        RunsForALongTime =>
            "runs_for_a_long_time", "It runs.";
    }
}

named! {
    /// No field is of this type.
    pub enum Unused {
        /// The value.
        Value => "value";
    }
}

trace_events! {
    system sample: hooked;

    // Not a doc comment.
    /// What happens to a task.
    ///
    /// The class says more:
    ///
    /// - This is
    ///   a list.
    class task {
        /// The task's thread id.
        pid: Pid,
        /// The task's name.
        comm: Comm,
        /// How long it took,
        /// in two lines.
        took_ns: Ns as weight,
    } => "comm={comm} pid={pid} took_ns={took_ns}";

    /// A field of each other type.
    event everything {
        /// Yes or no.
        yes: bool,
        /// Thirty-two bits.
        a: i32,
        /// Sixty-four bits.
        b: i64,
        /// Thirty-two bits.
        c: u32,
        /// Sixty-four bits.
        d: u64,
        /// A CPU.
        cpu: Cpu,
        /// The state before.
        before: State,
        /// A name.
        name: Comm,
    } => "yes={yes} a={a} b={b} c={c} d={d} "
        "cpu={cpu} {before} ==> {name}";

    /// An event called like its class.
    ///
    /// And more about that.
    event task: task;

    /// A field that is printed twice, a weight, and fields that are no arguments.
    event any {
        /// The value.
        value: State,
        /// How long it took.
        took_ns: Ns as weight,
        /// When it ended.
        end_ns: Ns,
        /// When it began.
        start_ns: Ns = end_ns - took_ns,
        /// Where.
        cpu: Cpu = this,
    } => "value={value}, again {value} {took_ns} {start_ns} {end_ns} {cpu}";
}

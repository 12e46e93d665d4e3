// SPDX-License-Identifier: GPL-2.0

//! The chains of outliers: a bar for each, and a flame graph of all.

use std::fmt::Write;

use schedhist_core::{culprits::pool, text::Outlier, units::shares};

use super::{
    chart::text,
    flame::{self, Frame, Labels, Stacks},
    html::{self, dim, escaped, key, left},
};

/// What the colours of a bar mean.
const KINDS: [(&str, &str); 3] = [
    ("r0", "had a CPU"),
    ("hot", "waited for one"),
    ("g3", "blocked, or not known"),
];

const LABELS: Labels = Labels {
    title: "Flame graph of wakers",
    about:
        "Above each task stand who woke it and, darker, what it did itself until it woke the one \
            below.",
    all: "chains",
    head: "<what was done, by whom, for whom",
};

/// Writes what the bars of [`bar`] mean, and all chains as a flame graph: who do sleeps wait for?
pub fn write(out: &mut String, stacks: &Stacks) {
    if stacks.weights.is_empty() {
        return;
    }
    out.push_str("<p>Who woke whom, and what each did until then:");
    for (class, what) in KINDS {
        out.push(' ');
        key(
            out,
            "",
            format_args!("class=\"{class}\" width=\"1\" height=\"1\""),
        );
        let _ = write!(out, " {what}");
    }
    out.push_str("</p>");
    flame::write(out, stacks, &LABELS);
    dim(
        out,
        "Tasks that differ in a number only are one. A chain ends where a timer or an interrupt woke \
         somebody, or where nothing more is known.",
    );
}

/// Writes the cell of an outlier: what each task did, from left to right as time went by, and back
/// in time who woke whom.
pub fn bar(out: &mut String, outlier: &Outlier) {
    let Some(chain) = &outlier.chain else {
        left(out, "", "");
        return;
    };
    let rest = chain.rest().map(|(what, ns)| (2, what.to_owned(), ns));
    let hops = chain.hops.iter().flat_map(|hop| {
        hop.parts().into_iter().map(|(what, ns)| {
            let title = format!("{} {what}", hop.task());
            (usize::from(what != "ran"), title, ns)
        })
    });
    let parts: Vec<_> = hops.chain(rest).collect();
    let ns: Vec<_> = parts.iter().map(|(.., ns)| *ns).collect();
    let (mut bar, mut x) = (String::new(), 1000);
    for ((kind, title, ns), share) in parts.iter().zip(shares(&ns)) {
        x -= share;
        if share != 0 {
            let (class, title) = (KINDS[*kind].0, escaped(title));
            let _ = write!(
                bar,
                "<rect class=\"{class}\" x=\"{x}\" width=\"{share}\" height=\"100\"><title>{title} \
                 {}</title></rect>",
                text(*ns)
            );
        }
    }
    let hops = chain
        .hops
        .iter()
        .map(|hop| escaped(&hop.task()) + " " + &hop.did(text));
    let rest = chain
        .rest()
        .map(|(what, ns)| format!("{} {what}", text(ns)));
    let words: Vec<_> = hops.chain(rest).collect();
    left(out, " stack", &html::bar(&bar, &words.join(" &lt; ")));
}

/// Returns the chains as stacks: the task of the outlier, who woke it, who woke that one, and so
/// on, and at last what that one did, for so many nanoseconds.
pub fn stacks<'a>(outliers: impl Iterator<Item = &'a Outlier>) -> Stacks {
    let mut stacks = Stacks::default();
    for outlier in outliers {
        let Some(chain) = &outlier.chain else {
            continue;
        };
        let frame = |name: String, is_kernel| Frame { name, is_kernel };
        let mut frames = Vec::new();
        for hop in &chain.hops {
            frames.push(frame(pool(&hop.comm), false));
            for (what, ns) in hop.parts().into_iter().filter(|(_, ns)| *ns != 0) {
                stacks.add([&frames[..], &[frame(what.to_owned(), true)]].concat(), ns);
            }
        }
        for (what, ns) in chain.rest() {
            stacks.add([&frames[..], &[frame(what.to_owned(), true)]].concat(), ns);
        }
    }
    stacks
}

// SPDX-License-Identifier: GPL-2.0

//! A declaration as written: its shape is right, its meaning has not been checked.

use crate::source::Spanned;

/// A name, and where it was written.
pub(crate) type Name = Spanned<String>;

/// The lines of a doc comment; empty if there was none.
pub(crate) type Docs = Vec<String>;

/// All that is in `trace_events! { … }`.
#[derive(Debug)]
pub(crate) struct Declaration {
    /// `system name;`
    pub(crate) system: Name,
    /// The enums, in order.
    pub(crate) enums: Vec<EnumDecl>,
    /// The event classes, in order.
    pub(crate) classes: Vec<ClassDecl>,
    /// The events, in order.
    pub(crate) events: Vec<EventDecl>,
}

/// `enum Name { … }`
#[derive(Debug)]
pub(crate) struct EnumDecl {
    /// What it means.
    pub(crate) docs: Docs,
    /// Its name.
    pub(crate) name: Name,
    /// Its values.
    pub(crate) variants: Vec<VariantDecl>,
}

/// `Name = value => "text",`
#[derive(Debug)]
pub(crate) struct VariantDecl {
    /// What it means.
    pub(crate) docs: Docs,
    /// Its name.
    pub(crate) name: Name,
    /// Its number in a record.
    pub(crate) value: Spanned<u64>,
    /// Its printed form.
    pub(crate) text: Spanned<String>,
}

/// `class name { … } => "…";`
#[derive(Debug)]
pub(crate) struct ClassDecl {
    /// What its events have in common.
    pub(crate) docs: Docs,
    /// Its name.
    pub(crate) name: Name,
    /// What its records hold.
    pub(crate) body: Body,
}

/// `event name { … } => "…";` or `event name: class;`
#[derive(Debug)]
pub(crate) struct EventDecl {
    /// What it means.
    pub(crate) docs: Docs,
    /// Its name.
    pub(crate) name: Name,
    /// What its records hold.
    pub(crate) shape: Shape,
}

/// Where the shape of an event's records comes from.
#[derive(Debug)]
pub(crate) enum Shape {
    /// The event has its own.
    Own(Body),
    /// The event shares that of the named class.
    Class(Name),
}

/// `{ fields } => "printed form"`
#[derive(Debug)]
pub(crate) struct Body {
    /// The fields, in order.
    pub(crate) fields: Vec<FieldDecl>,
    /// The printed form, with `{field}` where a field goes.
    pub(crate) print: Spanned<String>,
}

/// `name: Type,`
#[derive(Debug)]
pub(crate) struct FieldDecl {
    /// What it means.
    pub(crate) docs: Docs,
    /// Its name.
    pub(crate) name: Name,
    /// The name of its type.
    pub(crate) ty: Name,
}

// SPDX-License-Identifier: GPL-2.0

//! Reads declarations, and refuses those with mistakes that no compiler would notice.

use std::rc::Rc;

use crate::lexer::{self, Kind, Token};
use crate::model::{Class, Computed, Docs, Enum, Event, Field, System, Type, Value};

/// The most arguments that a BPF program on a raw tracepoint can get.
const MAX_ARGUMENTS: usize = 12;

/// Names that have another meaning in hist triggers.
const HIST_NAMES: &[&str] = &["hitcount", "stacktrace", "ustacktrace"];

/// Reads the enums in the tables of the macro `named!`.
pub(crate) fn enums(path: &str, source: &str) -> Result<Vec<Rc<Enum>>, String> {
    let calls = lexer::calls(source, "named");
    let tables = calls.iter().map(|tokens| Parser::new(path, tokens).table());
    tables.collect()
}

/// Reads the declaration of a trace system, whose fields may be of the types `enums`.
pub(crate) fn system(path: &str, source: &str, enums: Vec<Rc<Enum>>) -> Result<System, String> {
    match lexer::calls(source, "trace_events").as_slice() {
        [tokens] => Parser::new(path, tokens).system(enums),
        calls => Err(format!(
            "{path}: error: there are {} declarations `trace_events! {{`",
            calls.len()
        )),
    }
}

/// The tokens of a macro call, and the index of the next one.
struct Parser<'a> {
    path: &'a str,
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(path: &'a str, tokens: &'a [Token<'a>]) -> Self {
        Self {
            path,
            tokens,
            at: 0,
        }
    }

    /// Returns an error at the token that was read last.
    fn error<T>(&self, message: impl std::fmt::Display) -> Result<T, String> {
        let last = &self.tokens[..self.at.min(self.tokens.len())];
        let line = last.last().map_or(0, |token| token.line);
        Err(format!("{}:{line}: error: {message}", self.path))
    }

    /// Takes the next token.
    fn token(&mut self) -> Option<&'a Token<'a>> {
        self.at += 1;
        self.tokens.get(self.at - 1)
    }

    /// Takes the next token if its text is `text`.
    fn eat(&mut self, text: &str) -> bool {
        let is_next = self.tokens.get(self.at).is_some_and(|it| it.text == text);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes tokens with these texts.
    fn expect(&mut self, texts: &[&str]) -> Result<(), String> {
        for text in texts {
            if self.token().is_none_or(|token| token.text != *text) {
                return self.error(format_args!("expected `{text}`"));
            }
        }
        Ok(())
    }

    /// Takes a token that is of `kind`.
    fn take(&mut self, kind: Kind) -> Result<&'a str, String> {
        match self.token() {
            Some(token) if token.kind == kind => Ok(token.text),
            _ => self.error(format_args!("expected {kind:?}")),
        }
    }

    /// Takes a doc comment, if there is one.
    fn docs(&mut self) -> Docs {
        let docs = self.tokens[self.at..].iter();
        let docs = docs.map_while(|token| (token.kind == Kind::Doc).then_some(token.text.into()));
        let docs: Docs = docs.collect();
        self.at += docs.len();
        docs
    }

    /// Takes `… enum Name { … } }`.
    fn table(&mut self) -> Result<Rc<Enum>, String> {
        while !self.eat("enum") {
            if self.token().is_none() {
                return self.error("expected `enum`");
            }
        }
        let name = self.take(Kind::Word)?.into();
        let mut values: Vec<Value> = Vec::new();
        self.expect(&["{"])?;
        self.docs();
        while !self.eat("}") {
            let name = self.take(Kind::Word)?.into();
            self.expect(&["=", ">"])?;
            let text = self.take(Kind::Str)?;
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if text.is_empty() || !text.chars().all(is_plain) {
                return self.error(format_args!("\"{text}\" is not a name like_this"));
            }
            if values.iter().any(|value| value.text == text) {
                return self.error(format_args!("two values are called \"{text}\""));
            }
            values.push(Value {
                name,
                text: text.into(),
            });
            if self.eat(",") {
                self.take(Kind::Str)?;
            }
            self.expect(&[";"])?;
            self.docs();
        }
        if values.len() > 256 {
            return self.error("a record has one byte for the value");
        }
        Ok(Rc::new(Enum { name, values }))
    }

    /// Takes a whole declaration.
    fn system(&mut self, mut enums: Vec<Rc<Enum>>) -> Result<System, String> {
        self.expect(&["system"])?;
        let name = self.take(Kind::Word)?.into();
        let is_hooked = self.eat(":");
        if is_hooked {
            self.expect(&["hooked"])?;
        }
        self.expect(&[";"])?;

        let mut classes: Vec<Class> = Vec::new();
        let mut docs = self.docs();
        while !self.eat("}") {
            let is_shared = self.eat("class");
            if !is_shared {
                self.expect(&["event"])?;
            }
            let name: String = self.take(Kind::Word)?.into();
            if docs.is_empty() {
                return self.error(format_args!("`{name}` has no doc comment"));
            }
            let event = Event {
                docs: docs.clone(),
                name: name.clone(),
            };
            if self.eat(":") {
                let of = self.take(Kind::Word)?;
                let mut shared = classes.iter_mut().filter(|class| class.is_shared);
                match shared.find(|class| class.name == of) {
                    Some(class) if !is_shared => class.events.push(event),
                    _ => return self.error(format_args!("`{of}` is not a class")),
                }
            } else {
                let fields = self.fields(&enums)?;
                self.expect(&["=", ">"])?;
                let (format, printed) = self.print(&fields)?;
                classes.push(Class {
                    docs,
                    name,
                    is_shared,
                    fields,
                    format,
                    printed,
                    events: if is_shared { Vec::new() } else { vec![event] },
                });
            }
            self.expect(&[";"])?;
            docs = self.docs();
        }
        let fields = || classes.iter().flat_map(|class| &class.fields);
        enums.retain(|it| fields().any(|field| matches!(&field.ty, Type::Enum(own) if own == it)));
        Ok(System {
            name,
            is_hooked,
            enums,
            classes,
        })
    }

    /// Takes `{ name: Type, … }`. One of the types may be followed by `as weight`, and a type by
    /// `= name - name`, with the names of earlier arguments, or `= this`.
    fn fields(&mut self, enums: &[Rc<Enum>]) -> Result<Vec<Field>, String> {
        let mut fields = Vec::new();
        self.expect(&["{"])?;
        let mut docs = self.docs();
        while !self.eat("}") {
            let name = self.take(Kind::Word)?;
            self.expect(&[":"])?;
            let ty_name = self.take(Kind::Word)?;
            let Some(ty) = Type::new(ty_name, enums) else {
                return self.error(format_args!("unknown type `{ty_name}`"));
            };
            let is_weight = self.eat("as");
            if is_weight {
                self.expect(&["weight"])?;
                if !matches!(&ty, Type::Number(number) if number.c == "u64") {
                    return self.error("a weight is of the type `u64` or `Ns`");
                }
                if fields.iter().any(|field: &Field| field.is_weight) {
                    return self.error("an event has one weight at most");
                }
                if self.eat("=") {
                    return self.error("a weight is an argument");
                }
            }
            let computed = self.computed(ty_name, &fields)?;
            let arguments = fields.iter().filter(|field| field.computed.is_none());
            if computed.is_none() && arguments.count() == MAX_ARGUMENTS {
                return self.error(format_args!(
                    "an event has at most {MAX_ARGUMENTS} arguments"
                ));
            }
            if docs.is_empty() {
                return self.error(format_args!("`{name}` has no doc comment"));
            }
            if name.starts_with("common_") || HIST_NAMES.contains(&name) {
                return self.error(format_args!("tracing has its own meaning for `{name}`"));
            }
            if name.ends_with("_ns") != (ty_name == "Ns") {
                return self.error("names that end in `_ns` and the type `Ns` go together");
            }
            fields.push(Field {
                docs,
                name: name.into(),
                ty,
                is_weight,
                computed,
            });
            self.expect(&[","])?;
            docs = self.docs();
        }
        Ok(fields)
    }

    /// Takes `= name - name` or `= this`, if it comes next, for a field of the type `ty` that
    /// follows `fields`.
    fn computed(&mut self, ty: &str, fields: &[Field]) -> Result<Option<Computed>, String> {
        if !self.eat("=") {
            return Ok(None);
        }
        if self.eat("this") {
            return match ty {
                "Cpu" => Ok(Some(Computed::ThisCpu)),
                _ => self.error("`this` is of the type `Cpu`"),
            };
        }
        let from = self.argument(fields)?;
        self.expect(&["-"])?;
        let less = self.argument(fields)?;
        if !matches!(ty, "u64" | "Ns") {
            return self.error("a difference is of the type `u64` or `Ns`");
        }
        Ok(Some(Computed::Difference(from, less)))
    }

    /// Takes the name of one of the `fields` that are arguments.
    fn argument(&mut self, fields: &[Field]) -> Result<String, String> {
        let name = self.take(Kind::Word)?;
        let mut arguments = fields.iter().filter(|field| field.computed.is_none());
        match arguments.any(|field| field.name == name) {
            true => Ok(name.into()),
            false => self.error(format_args!("no argument `{name}` comes before")),
        }
    }

    /// Takes a text that may be split into several strings, with `{field}` for each field. Returns
    /// the format of `printk()`, and the indices of the fields that are its arguments.
    fn print(&mut self, fields: &[Field]) -> Result<(String, Vec<usize>), String> {
        let mut text = String::from(self.take(Kind::Str)?);
        while self
            .tokens
            .get(self.at)
            .is_some_and(|it| it.kind == Kind::Str)
        {
            text += self.take(Kind::Str)?;
        }
        let is_plain = |c: char| c == ' ' || c.is_ascii_graphic() && !r"\%".contains(c);
        if !text.chars().all(is_plain) {
            return self.error("only ASCII is printed, no backslash and no percent sign");
        }
        let mut pieces = text.split('{');
        let mut format = String::from(pieces.next().unwrap_or(""));
        let mut printed = Vec::new();
        for piece in pieces {
            let (name, literal) = piece.split_once('}').unwrap_or((piece, ""));
            let Some(index) = fields.iter().position(|field| field.name == name) else {
                return self.error(format_args!("there is no field `{name}`"));
            };
            format += match &fields[index].ty {
                Type::Number(number) => number.conversion,
                Type::Comm | Type::Enum(_) => "%s",
            };
            format += literal;
            printed.push(index);
        }
        match (0..fields.len()).find(|index| !printed.contains(index)) {
            Some(index) => self.error(format_args!("`{}` is not printed", fields[index].name)),
            None => Ok((format, printed)),
        }
    }
}
